//! An eventfd: how one thread ends another's wait.
//!
//! Invariants: a wake before the wait is not lost; the descriptor lives as long as any holder.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::Wake;
use super::blocking::error_of;
use crate::base::Result;

/// The eventfd of one ring; the ring drains it, any thread writes it.
pub(super) struct Event {
    fd: OwnedFd,
}

impl Event {
    pub(super) fn new() -> Result<Event> {
        // SAFETY: no pointers; the result is checked.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            return Err(error_of("make", "eventfd", errno));
        }
        // SAFETY: a descriptor that eventfd(2) returned is ours.
        Ok(Event { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Takes all wakes so far.
    pub(super) fn drain(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes. Failing means that there was no wake: nothing to do.
        let _ = unsafe { libc::read(self.raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl Wake for Event {
    fn wake(&self) {
        let one = 1u64;
        // SAFETY: eight readable bytes. Failing (EAGAIN) means that the count is at its maximum:
        // the wake is there already.
        let _ = unsafe { libc::write(self.raw_fd(), (&raw const one).cast(), 8) };
    }
}
