//! Processors: which ones this process may use, binding a thread to one (rule 2.1), and whether they are short: how
//! long a thread lately stood in the system's queue for one.
//!
//! Invariants: nothing here fails. Without the right to bind, threads simply stay unbound. A look at the queue
//! ([`Pressure`]) is one thread's own, by its own account (`/proc/thread-self/schedstat`); where the system keeps none, there
//! is enough. It only guides: nothing is right or wrong by it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// How often it is looked.
const LOOK_NS: u64 = 10_000_000;
/// Processors are short for a thread that stood in the queue for one part in so many of the time.
const SHORT_PART: u64 = 8;

/// The processors that the calling thread may run on; empty if the system does not say.
pub(super) fn allowed_processors() -> Vec<usize> {
    // SAFETY: the set is plain data, written by the call for the calling thread.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
    }
}

/// Whether the calling thread is now bound to `processor`.
pub(super) fn bind_to(processor: usize) -> bool {
    // SAFETY: the set is plain data, read by the call for the calling thread.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// The NUMA node on which the calling thread runs now; none if the machine has only one, or does not say.
pub fn numa_node() -> Option<usize> {
    let online = std::fs::read_to_string("/sys/devices/system/node/online").ok()?;
    if online.trim() == "0" {
        return None;
    }
    let (mut node, nothing) = (0_u32, std::ptr::null_mut::<libc::c_void>());
    // SAFETY: the call writes that number.
    let failed = unsafe { libc::syscall(libc::SYS_getcpu, nothing, &raw mut node, nothing) != 0 };
    (!failed).then_some(node as usize)
}

/// The calling thread stands back from now on where others of the process want the processor: it has a tenth of what one of
/// them has, and does not keep one waiting that wakes. Niceness 10.
pub fn stand_back() {
    // SAFETY: the call changes the calling thread's niceness (Linux: 0 is that thread) and nothing else; a refusal costs only speed.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
}

/// What there is of processors for an instance's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Processor {
    /// It has one when it can run.
    Enough,
    /// Others want it, too: what costs processor time costs everybody.
    Short,
}

/// One thread's look at its account.
pub(super) struct Pressure {
    account: Option<File>,
    looked_ns: u64,
    waited_ns: u64,
    found: Processor,
}

impl Pressure {
    /// The calling thread's, which `processor` is believed of until the first look.
    pub fn of_this_thread(processor: Processor) -> Pressure {
        let account = File::open("/proc/thread-self/schedstat").ok();
        Pressure { account, looked_ns: 0, waited_ns: 0, found: processor }
    }

    /// What holds at `now_ns`, by the last look.
    pub fn look(&mut self, now_ns: u64) -> Processor {
        let since = now_ns.saturating_sub(self.looked_ns);
        if since < LOOK_NS {
            return self.found;
        }
        let mut text = [0; 96];
        let read = self.account.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let Some(waited_ns) = read.and_then(|bytes| waited_ns(&text[..bytes])) else {
            self.account = None;
            return self.found;
        };
        let waited = waited_ns.saturating_sub(self.waited_ns);
        if self.looked_ns != 0 {
            self.found = judge(waited, since);
        }
        (self.looked_ns, self.waited_ns) = (now_ns, waited_ns);
        self.found
    }
}

fn judge(waited_ns: u64, of_ns: u64) -> Processor {
    if waited_ns >= of_ns / SHORT_PART { Processor::Short } else { Processor::Enough }
}

/// The second of the account's numbers: nanoseconds in the queue.
fn waited_ns(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_binds_to_each_allowed_processor() {
        for processor in allowed_processors() {
            let bound = std::thread::spawn(move || bind_to(processor).then(allowed_processors));
            let bound = bound.join().unwrap();
            assert!(bound.is_none_or(|bound| bound == [processor]));
        }
    }

    #[test]
    fn the_account_is_read() {
        assert_eq!(waited_ns(b"410337 526865 28312\n"), Some(526_865));
        assert_eq!(waited_ns(b"410337\n"), None);
        assert_eq!(waited_ns(b"0 many 0"), None);
        assert_eq!(judge(1_249_999, LOOK_NS), Processor::Enough);
        assert_eq!(judge(1_250_000, LOOK_NS), Processor::Short);
    }

    #[test]
    fn who_looks_too_early_hears_what_was_found_last() {
        let mut pressure = Pressure::of_this_thread(Processor::Short);
        assert_eq!(pressure.look(1), Processor::Short);
        // A test's thread has not stood in a queue for an hour, whatever else runs.
        assert_eq!(pressure.look(LOOK_NS), Processor::Short, "it has nothing to compare with");
        let hours = 100 * 3_600_000_000_000;
        let found = pressure.look(hours);
        assert_eq!(
            found,
            if pressure.account.is_some() { Processor::Enough } else { Processor::Short }
        );
        pressure.found = Processor::Short;
        assert_eq!(pressure.look(hours + LOOK_NS - 1), Processor::Short);
    }
}
