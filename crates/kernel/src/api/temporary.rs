//! Temporary files: where a statement puts what exceeds its memory.
//!
//! Invariants: a file belongs to one task's statement (or portal) and is removed when it is
//! dropped; what a crash leaves behind is removed at the next start, before the first answer.
//! Nothing in it is durable or checked: nobody reads it after this process. Reading and writing
//! wait for the device through the task's ring, with no latch held. Bytes are written one after the
//! other, and read at any place written.

use std::sync::Arc;

use super::core::{Context, Shared};
use crate::base::{Error, Result};
use crate::io::{Direct, Disk, Durability, FileRef, IoBuffer, Op, OpenHow, Returned};

/// The folder of temporary files.
pub(super) const FOLDER: &str = "temp";

/// A temporary file.
pub struct TempFile {
    file: FileRef,
    name: String,
    shared: Arc<Shared>,
    bytes: u64,
}

impl TempFile {
    /// A new, empty one.
    pub fn create(context: &Context) -> Result<TempFile> {
        let instance = context.instance();
        let core = &instance.state().inner;
        let number = core.temporary.get();
        core.temporary.set(number + 1);
        let shared = core.shared.clone();
        if number == 0 {
            shared.disk.create_dir(FOLDER)?;
        }
        let name = format!("{FOLDER}/{}-{number}", instance.id().0);
        let file = shared.disk.open(&name, OpenHow::CreateNew, Direct::No)?;
        Ok(TempFile { file, name, shared, bytes: 0 })
    }

    /// Bytes written.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Appends the buffer and gives it back. `DiskFull`, `Io`.
    pub fn append(&mut self, context: &Context, buffer: IoBuffer) -> Result<IoBuffer> {
        let (offset, bytes) = (self.bytes, buffer.len() as u64);
        let durability = Durability::Volatile;
        let done = context.io(Op::Write { file: self.file.clone(), offset, buffer, durability });
        match (done.result, done.buffer) {
            (Ok(_), Returned::Io(buffer)) => {
                self.bytes += bytes;
                Ok(buffer)
            }
            (Err(errno), _) => Err(self.failed("write", errno)),
            (Ok(_), _) => Err(Error::Internal { detail: "a write kept its buffer".to_owned() }),
        }
    }

    /// Fills the buffer from `offset` on; its length becomes what there was.
    pub fn read(&self, context: &Context, offset: u64, buffer: IoBuffer) -> Result<IoBuffer> {
        let done = context.io(Op::Read { file: self.file.clone(), offset, buffer });
        match (done.result, done.buffer) {
            (Ok(bytes), Returned::Io(mut buffer)) => {
                buffer.set_len(bytes as usize);
                Ok(buffer)
            }
            (Err(errno), _) => Err(self.failed("read", errno)),
            (Ok(_), _) => Err(Error::Internal { detail: "a read kept its buffer".to_owned() }),
        }
    }

    fn failed(&self, what: &str, errno: i32) -> Error {
        match errno {
            libc::ENOSPC | libc::EDQUOT => Error::DiskFull { path: self.name.clone() },
            errno => Error::Io { what: format!("could not {what} \"{}\"", self.name), errno },
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // What cannot be removed now is removed at the next start.
        let _ = self.shared.disk.remove(&self.name);
    }
}

/// Removes what an earlier process left behind.
pub(super) fn remove_old(disk: &dyn Disk) -> Result<()> {
    for name in disk.list(FOLDER)? {
        disk.remove(&format!("{FOLDER}/{name}"))?;
    }
    Ok(())
}
