//! The descriptor that an Accept's completion brings, as something that closes itself, and who is at its other end.

use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::Completion;

/// The connection that an `Op::Accept` has taken, or the error number. The completion of an
/// Accept is consumed once, so nobody else owns the descriptor.
pub fn accepted(completion: Completion) -> Result<OwnedFd, i32> {
    // SAFETY: the ring answers an Accept with a new descriptor that it does not keep.
    completion.result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The process that has connected to a unix socket, by its number; none of other sockets, and of a process that this one's
/// namespace does not know.
pub fn peer_process(socket: impl AsFd) -> Option<NonZeroU32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (fd, peer_at) = (socket.as_fd().as_raw_fd(), (&raw mut peer).cast());
    // SAFETY: the system writes at most `length` bytes to `peer`, which is plain numbers.
    let answer = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, peer_at, &raw mut length)
    };
    if answer == 0 { NonZeroU32::new(u32::try_from(peer.pid).ok()?) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_unix_sockets_peer_is_a_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer_process(&one).map(NonZeroU32::get), Some(std::process::id()));
    }

    #[test]
    fn another_sockets_peer_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(peer_process(&stream), None);
    }
}
