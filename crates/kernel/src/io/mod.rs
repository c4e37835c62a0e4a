//! Files, rings, clock and randomness as traits: the only way from Atoll to the machine.
//!
//! Invariants: a buffer and its file belong to an operation until its completion (rule 2.7);
//! "durable" means that the bytes survive a power cut; a failed write or sync is told, never
//! retried as if nothing had happened (rule 7.8). Every form behaves the same; the same tests run
//! over all of them.

mod accepted;
mod blocking;
mod event;
mod machine;
mod media;
mod memory;
mod real;
mod recorder;
mod sim;
mod sparse;
mod threads;
pub mod trace;
mod uring;

pub use accepted::accepted;
pub use machine::{RealEntropy, RealTime, Seeded, SimEntropy, SimTime};
pub use memory::MemoryDisk;
pub use real::{LOCK_NAME, RealDisk, look_for};
pub use recorder::RecordingDisk;
pub use sim::{Fault, FaultOn, SimDisk, SimOptions};
pub use trace::{Trace, replay_prefix};

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Result;
use crate::sync::ledger;

/// An open file; clones share it.
pub type FileRef = Arc<dyn File>;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenHow {
    /// Make it; it must not exist.
    CreateNew,
    /// Make it if it is not there.
    CreateOrOpen,
    /// It must exist.
    Existing,
}

/// Whether a file goes around the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// Yes, where the file system can: offsets, lengths and addresses are multiples of 4096.
    Yes,
    /// No.
    No,
}

/// What a write's completion means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The bytes survive a power cut.
    Durable,
    /// They may be lost, torn or reordered until a sync of the file completes.
    Volatile,
}

/// One directory and what is in it. Paths are relative names with `/`.
pub trait Disk: Send + Sync {
    /// Opens a file.
    fn open(&self, name: &str, how: OpenHow, direct: Direct) -> Result<FileRef>;
    /// Gives a file another name, replacing what has it; durable after `sync_dir`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a file; durable after `sync_dir`.
    fn remove(&self, name: &str) -> Result<()>;
    /// The names in a folder, sorted; empty if there is none.
    fn list(&self, folder: &str) -> Result<Vec<String>>;
    /// Makes a folder and those above it.
    fn create_dir(&self, name: &str) -> Result<()>;
    /// Makes creations, renames and removals in a folder durable.
    fn sync_dir(&self, name: &str) -> Result<()>;
    /// Whether there is a file or folder of that name.
    fn exists(&self, name: &str) -> Result<bool>;
    /// Takes the directory for this process; the error names the holder and how to reach it.
    fn lock(&self, note: &str) -> Result<DirLock>;
    /// A ring for the calling thread.
    fn ring(&self) -> Result<Box<dyn Ring>>;
    /// The form's name, for people.
    fn kind(&self) -> &'static str;
}

/// Holds a directory for this process until dropped.
pub struct DirLock {
    _held: Box<dyn Send + Sync>,
}

impl DirLock {
    /// A lock that lasts as long as `held`.
    pub fn new(held: Box<dyn Send + Sync>) -> DirLock {
        DirLock { _held: held }
    }
}

/// A file, with blocking operations for start-up, manifests and recovery.
pub trait File: Send + Sync {
    /// Reads up to `into.len()` bytes at `offset`; fewer only at the end.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize>;
    /// Writes all of `from` at `offset`.
    fn write_at(&self, offset: u64, from: &[u8]) -> Result<()>;
    /// Makes all completed writes durable.
    fn sync(&self) -> Result<()>;
    /// Reserves room up to `bytes`; `DiskFull` if there is none.
    fn allocate(&self, bytes: u64) -> Result<()>;
    /// Makes it at most `bytes` long, in whole sectors (512 bytes); what lay behind is gone. Durable
    /// with the next sync: a crash before that leaves either length.
    fn truncate(&self, bytes: u64) -> Result<()>;
    /// The length in bytes.
    fn len(&self) -> Result<u64>;
    /// Whether it has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// The descriptor, where there is one.
    fn raw_fd(&self) -> Option<RawFd>;
    /// The form's own view of the file, for its ring.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Names an operation: who gets its completion (high 16 bits, 0 is the kernel) and its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// Asynchronous operations of one thread.
pub trait Ring {
    /// Queues an operation. Never blocks and never fails: failures arrive as completions.
    fn submit(&self, op: Op, token: Token);
    /// Hands queued operations over and collects completions; does not wait.
    fn reap(&self, out: &mut Vec<Completion>);
    /// Hands queued operations over and waits for a completion, a wake or the timeout.
    fn wait(&self, timeout: Option<Duration>);
    /// Ends `wait` from any thread.
    fn waker(&self) -> Arc<dyn Wake>;
}

/// Does an operation on a file, blocking. Panics on socket operations.
pub fn run_blocking(op: Op) -> Completion {
    blocking::run(op, Token(0))
}

/// Ends a ring's wait.
pub trait Wake: Send + Sync {
    /// Ends the present wait, or the next one.
    fn wake(&self);
}

/// An asynchronous operation. It owns its buffer and file until its completion.
pub enum Op {
    /// Writes the whole buffer.
    Write {
        /// The file.
        file: FileRef,
        /// Where in it.
        offset: u64,
        /// What.
        buffer: IoBuffer,
        /// What the completion means.
        durability: Durability,
    },
    /// Fills the buffer, or less at the file's end.
    Read {
        /// The file.
        file: FileRef,
        /// Where in it.
        offset: u64,
        /// Into what.
        buffer: IoBuffer,
    },
    /// Makes all completed writes of the file durable.
    Sync {
        /// The file.
        file: FileRef,
    },
    /// Takes one connection from a listening socket; the result is its descriptor.
    Accept {
        /// The listening socket.
        listener: RawFd,
    },
    /// Receives up to the buffer's length; 0 bytes mean that the peer has closed.
    Recv {
        /// The socket.
        socket: RawFd,
        /// Into what; all of its length may be filled.
        buffer: Vec<u8>,
    },
    /// Sends from `from` to the buffer's end; may send less.
    Send {
        /// The socket.
        socket: RawFd,
        /// What.
        buffer: Vec<u8>,
        /// Where in the buffer to begin.
        from: usize,
    },
    /// Ends the socket operation with this token early; it completes with ECANCELED or as it
    /// would have. The cancel itself has no completion.
    Cancel {
        /// The operation's token.
        token: Token,
    },
}

/// Counts what an operation asks of the operating system; a ring of a real disk calls it.
#[cfg_attr(feature = "ledger", track_caller)]
fn enter_in_ledger(op: &Op) {
    match op {
        Op::Write { buffer, durability, .. } => {
            ledger::add(ledger::What::Write, buffer.len() as u64);
            if *durability == Durability::Durable {
                ledger::add(ledger::What::Sync, 0);
            }
        }
        Op::Sync { .. } => ledger::add(ledger::What::Sync, 0),
        _ => {}
    }
}

/// An operation's end.
pub struct Completion {
    /// The operation's token.
    pub token: Token,
    /// Bytes moved or a descriptor, or an error number.
    pub result: std::result::Result<u32, i32>,
    /// The operation's buffer, given back.
    pub buffer: Returned,
}

/// The buffer of an operation that has ended.
pub enum Returned {
    /// It had none.
    Nothing,
    /// A file's.
    Io(IoBuffer),
    /// A socket's.
    Bytes(Vec<u8>),
}

/// Memory for direct I/O: address and capacity are multiples of 4096.
pub struct IoBuffer {
    memory: *mut u8,
    len: usize,
    capacity: usize,
}

// SAFETY: the memory is owned and has no thread affinity.
unsafe impl Send for IoBuffer {}
// SAFETY: a shared reference gives out shared slices only.
unsafe impl Sync for IoBuffer {}

/// The alignment of direct I/O, and the log's block size.
pub const IO_ALIGN: usize = 4096;

impl IoBuffer {
    /// Zeroed memory of `bytes`, rounded up to whole blocks.
    pub fn zeroed(bytes: usize) -> IoBuffer {
        let capacity = bytes.max(1).next_multiple_of(IO_ALIGN);
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not 0.
        let memory = unsafe { std::alloc::alloc_zeroed(layout) };
        if memory.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        IoBuffer { memory, len: bytes, capacity }
    }

    fn layout(capacity: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(capacity, IO_ALIGN)
            .expect("a capacity in memory is no larger than isize::MAX")
    }

    /// The address of the first byte, for the operating system.
    pub fn as_ptr(&self) -> *const u8 {
        self.memory
    }

    /// The address of the first byte, for the operating system.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory
    }

    /// Makes the buffer `bytes` long, within its capacity.
    pub fn set_len(&mut self, bytes: usize) {
        assert!(bytes <= self.capacity, "an I/O buffer does not grow");
        self.len = bytes;
    }

    /// Bytes it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl std::ops::Deref for IoBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len <= capacity` bytes at `memory` are owned and initialized (zeroed).
        unsafe { std::slice::from_raw_parts(self.memory, self.len) }
    }
}

impl std::ops::DerefMut for IoBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.len) }
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout, freed once.
        unsafe { std::alloc::dealloc(self.memory, Self::layout(self.capacity)) };
    }
}

impl std::fmt::Debug for IoBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoBuffer({} of {} bytes)", self.len, self.capacity)
    }
}

/// Time, from the machine or from the simulator.
pub trait TimeSource: Send + Sync {
    /// Nanoseconds of a monotonic clock.
    fn now_ns(&self) -> u64;
    /// Raw clock cycles, without fences; `runtime::clock` adds them (rule 3.2).
    fn cycles(&self) -> u64;
    /// Cycles in a microsecond, where that need not be measured.
    fn cycles_per_us(&self) -> Option<u64> {
        None
    }
    /// Microseconds since 1970, UTC.
    fn wall_micros(&self) -> i64;
}

/// Randomness, from the machine or from the simulator's seed.
pub trait Entropy: Send + Sync {
    /// Sixty-four random bits.
    fn u64(&self) -> u64;
}

/// Which form of asynchronous I/O a real directory (or a server's sockets) uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// io_uring where the operating system allows it, else threads.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// A pool of threads with `pread` and `pwrite`, and `epoll` for sockets.
    Threads,
}

#[cfg(test)]
mod tests;
