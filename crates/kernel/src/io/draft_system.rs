// From the lead: a draft to use or drop (it compiles against the traits in io/mod.rs on main).
//! The machine's own clock and randomness.

use std::io::Read;
use std::time::{Instant, SystemTime};

use super::{Entropy, TimeSource};

/// The machine's clocks.
pub struct SystemTimeSource {
    start: Instant,
}

impl SystemTimeSource {
    /// Counts from now.
    pub fn new() -> SystemTimeSource {
        SystemTimeSource { start: Instant::now() }
    }
}

impl Default for SystemTimeSource {
    fn default() -> Self {
        Self::new()
    }
}

impl TimeSource for SystemTimeSource {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    #[cfg(target_arch = "x86_64")]
    fn cycles(&self) -> u64 {
        // SAFETY: RDTSC exists on every x86-64 processor and touches no memory.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn cycles(&self) -> u64 {
        self.now_ns()
    }

    fn wall_micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        since.as_micros() as i64
    }
}

/// The operating system's randomness.
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn u64(&self) -> u64 {
        let mut bytes = [0; 8];
        let read = std::fs::File::open("/dev/urandom").and_then(|mut it| it.read_exact(&mut bytes));
        if read.is_err() {
            // Without the device (a bare chroot): addresses and time still differ between runs.
            let now = SystemTimeSource::new();
            return (now.wall_micros() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ std::process::id() as u64;
        }
        u64::from_le_bytes(bytes)
    }
}
