//! Processors: which ones this process may use, and binding a thread to one (rule 2.1).
//!
//! Invariants: nothing here fails; without the right to bind, threads simply stay unbound.

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

#[cfg(test)]
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
}
