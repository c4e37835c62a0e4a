//! Operations done at once by the calling thread, and what error numbers become.
//!
//! Invariants: a write is whole or an error; an interrupted call goes on where it was.
//! Used by the thread pool, and by every ring for files that have no descriptor (in memory).

use super::{Completion, Durability, File, IoBuffer, Op, Returned, Token};
use crate::base::{Error, Result};

/// The kernel's error for an operating system error number (rule 7.8: a full disk is told apart).
pub(crate) fn error_of(what: &str, path: &str, errno: i32) -> Error {
    match errno {
        libc::ENOSPC | libc::EDQUOT => Error::DiskFull { path: path.to_owned() },
        libc::ENOENT => Error::NotFound { what: path.to_owned() },
        libc::EEXIST => Error::AlreadyExists { name: path.to_owned() },
        _ => Error::Io { what: format!("{what} \"{path}\""), errno },
    }
}

/// The error number that stands for a kernel error in a completion.
pub(crate) fn errno_of(error: &Error) -> i32 {
    match error {
        Error::DiskFull { .. } => libc::ENOSPC,
        Error::Io { errno, .. } if *errno != 0 => *errno,
        _ => libc::EIO,
    }
}

/// Whether an operation is one on a file (else on a socket, or a cancel).
pub(crate) fn file_of(op: &Op) -> Option<&dyn File> {
    match op {
        Op::Write { file, .. } | Op::Read { file, .. } | Op::Sync { file } => Some(file.as_ref()),
        Op::Accept { .. } | Op::Recv { .. } | Op::Send { .. } | Op::Cancel { .. } => None,
    }
}

/// Does an operation on a file and waits for its end. Panics on socket operations.
pub(crate) fn run(op: Op, token: Token) -> Completion {
    match op {
        Op::Write { file, offset, buffer, durability } => {
            let done = file.write_at(offset, &buffer).and_then(|()| match durability {
                Durability::Durable => file.sync(),
                Durability::Volatile => Ok(()),
            });
            let bytes = buffer.len();
            completion(token, done.map(|()| bytes), Returned::Io(buffer))
        }
        Op::Read { file, offset, mut buffer } => {
            let done = read(file.as_ref(), offset, &mut buffer);
            completion(token, done, Returned::Io(buffer))
        }
        Op::Sync { file } => completion(token, file.sync().map(|()| 0), Returned::Nothing),
        Op::Accept { .. } | Op::Recv { .. } | Op::Send { .. } | Op::Cancel { .. } => {
            panic!("a socket operation reached the file path")
        }
    }
}

fn read(file: &dyn File, offset: u64, buffer: &mut IoBuffer) -> Result<usize> {
    file.read_at(offset, buffer)
}

fn completion(token: Token, done: Result<usize>, buffer: Returned) -> Completion {
    let result = match done {
        Ok(bytes) => Ok(u32::try_from(bytes).expect("an operation moves less than 4 GiB")),
        Err(error) => Err(errno_of(&error)),
    };
    Completion { token, result, buffer }
}
