//! The descriptor that an Accept's completion brings, as something that closes itself.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::Completion;

/// The connection that an `Op::Accept` has taken, or the error number. The completion of an
/// Accept is consumed once, so nobody else owns the descriptor.
pub fn accepted(completion: Completion) -> Result<OwnedFd, i32> {
    // SAFETY: the ring answers an Accept with a new descriptor that it does not keep.
    completion.result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
