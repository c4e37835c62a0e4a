//! Clock and randomness: the machine's, and a simulator's.
//!
//! Invariants: `now_ns` never goes back; a simulated clock moves only when it is told to, or by
//! one cycle when it is read, so that the same seed sees the same time.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Entropy, TimeSource};
use crate::sync::{AtomicU64, Ordering};

/// The machine's clocks.
pub struct RealTime {
    start: Instant,
}

impl Default for RealTime {
    fn default() -> RealTime {
        RealTime { start: Instant::now() }
    }
}

impl TimeSource for RealTime {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[cfg(target_arch = "x86_64")]
    fn cycles(&self) -> u64 {
        // SAFETY: every x86-64 processor has RDTSC, and user code may read it.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn cycles(&self) -> u64 {
        self.now_ns()
    }

    fn wall_micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
}

/// A clock that moves when the simulator says so; clones share it.
#[derive(Clone)]
pub struct SimTime {
    /// Nanoseconds and cycles in one. Written and read by whoever runs in the simulator.
    now: Arc<AtomicU64>,
}

impl SimTime {
    /// A clock that stands at `start_ns`.
    pub fn new(start_ns: u64) -> SimTime {
        SimTime { now: Arc::new(AtomicU64::new(start_ns)) }
    }

    /// Lets time pass.
    pub fn advance(&self, ns: u64) {
        // Relaxed: one word, no other memory depends on it.
        self.now.fetch_add(ns, Ordering::Relaxed);
    }
}

impl TimeSource for SimTime {
    fn now_ns(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn cycles(&self) -> u64 {
        self.now.fetch_add(1, Ordering::Relaxed)
    }

    fn cycles_per_us(&self) -> Option<u64> {
        Some(1000)
    }

    fn wall_micros(&self) -> i64 {
        // 2026-01-01, so that simulated dates look like dates.
        const START: i64 = 1_767_225_600_000_000;
        START + i64::try_from(self.now_ns() / 1000).unwrap_or(i64::MAX - START)
    }
}

/// The machine's randomness.
#[derive(Default)]
pub struct RealEntropy;

impl Entropy for RealEntropy {
    fn u64(&self) -> u64 {
        let mut word = 0u64;
        // SAFETY: eight writable bytes.
        let got = unsafe { libc::getrandom((&raw mut word).cast(), 8, 0) };
        assert!(got == 8, "the operating system gives eight random bytes");
        word
    }
}

/// A stream of numbers that a seed decides (SplitMix64).
#[derive(Clone, Debug)]
pub struct Seeded {
    state: u64,
}

impl Seeded {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Seeded {
        Seeded { state: seed }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        self.next_u64() % bound
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Randomness that a seed decides, for the simulator; its readers share one stream.
pub struct SimEntropy {
    state: AtomicU64,
}

impl SimEntropy {
    /// The stream of this seed.
    pub fn new(seed: u64) -> SimEntropy {
        SimEntropy { state: AtomicU64::new(seed) }
    }
}

impl Entropy for SimEntropy {
    fn u64(&self) -> u64 {
        let state = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        Seeded::new(state).next_u64()
    }
}
