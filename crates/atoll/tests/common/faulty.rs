//! A real directory that fills up or breaks when the test says so.
//!
//! Full means that no file grows and none is made larger; what was allocated before can be
//! written, as on a real disk. It may be full for page files or manifests alone, and it may find out
//! only when pages are written, as file systems do that promise nothing. Broken means that the log's asynchronous writes, or its syncs,
//! fail with EIO from now on.

use atoll_kernel::sync::{AtomicU32, Ordering};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use atoll_kernel::base::{Error, Result};
use atoll_kernel::io::{
    Completion, DirLock, Direct, Disk, File, FileRef, Op, OpenHow, Returned, Ring, Token, Wake,
};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

fn is_page_file(name: &str) -> bool {
    name.starts_with("pages/")
}

/// What is wrong with the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    Nothing,
    Full,
    WritesFail,
    /// No page file grows.
    PagesFull,
    /// Page files grow, but there is no room when they are written.
    PageWritesFull,
    /// No manifest can be written.
    ManifestFull,
}

/// The switch, shared by the disk and its files and rings.
#[derive(Clone)]
pub struct Switch(Arc<AtomicU32>);

impl Switch {
    pub fn set(&self, fault: Fault) {
        self.0.store(fault as u32, Ordering::SeqCst);
    }

    fn is(&self, fault: Fault) -> bool {
        self.0.load(Ordering::SeqCst) == fault as u32
    }
}

/// A disk with a switch.
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    switch: Switch,
}

impl FaultyDisk {
    /// Wraps a disk; nothing is wrong with it yet.
    pub fn new(inner: Arc<dyn Disk>) -> (Arc<FaultyDisk>, Switch) {
        let switch = Switch(Arc::new(AtomicU32::new(Fault::Nothing as u32)));
        (Arc::new(FaultyDisk { inner, switch: switch.clone() }), switch)
    }
}

impl Disk for FaultyDisk {
    fn open(&self, name: &str, how: OpenHow, direct: Direct) -> Result<FileRef> {
        let inner = self.inner.open(name, how, direct)?;
        let (name, switch) = (name.to_owned(), self.switch.clone());
        Ok(Arc::new(FaultyFile { inner, name, switch }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list(folder)
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        self.inner.create_dir(name)
    }

    fn sync_dir(&self, name: &str) -> Result<()> {
        self.inner.sync_dir(name)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn lock(&self, note: &str) -> Result<DirLock> {
        self.inner.lock(note)
    }

    fn ring(&self) -> Result<Box<dyn Ring>> {
        let (inner, switch) = (self.inner.ring()?, self.switch.clone());
        Ok(Box::new(FaultyRing { inner, switch, failed: RefCell::default() }))
    }

    fn kind(&self) -> &'static str {
        "faulty"
    }
}

struct FaultyFile {
    inner: FileRef,
    name: String,
    switch: Switch,
}

impl FaultyFile {
    fn full(&self, bytes: u64) -> Result<()> {
        let is_full = self.switch.is(Fault::Full)
            || self.switch.is(Fault::PagesFull) && is_page_file(&self.name)
            || self.switch.is(Fault::ManifestFull) && self.name.starts_with("MANIFEST");
        if is_full && bytes > self.inner.len()? {
            return Err(Error::DiskFull { path: self.name.clone() });
        }
        Ok(())
    }
}

impl File for FaultyFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> Result<()> {
        self.full(offset + from.len() as u64)?;
        self.inner.write_at(offset, from)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.full(bytes)?;
        self.inner.allocate(bytes)
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.inner.truncate(bytes)
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn raw_fd(&self) -> Option<i32> {
        self.inner.raw_fd()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

struct FaultyRing {
    inner: Box<dyn Ring>,
    switch: Switch,
    failed: RefCell<Vec<Completion>>,
}

fn faulty(file: &FileRef) -> &FaultyFile {
    file.as_any().downcast_ref().expect("a file of this disk")
}

fn inner(file: &FileRef) -> FileRef {
    faulty(file).inner.clone()
}

impl Ring for FaultyRing {
    fn submit(&self, op: Op, token: Token) {
        let breaks = self.switch.is(Fault::WritesFail);
        let op = match op {
            Op::Write { buffer, .. } if breaks => {
                let buffer = Returned::Io(buffer);
                self.failed.borrow_mut().push(Completion { token, result: Err(EIO), buffer });
                return;
            }
            Op::Write { file, buffer, .. }
                if self.switch.is(Fault::PageWritesFull) && is_page_file(&faulty(&file).name) =>
            {
                let buffer = Returned::Io(buffer);
                self.failed.borrow_mut().push(Completion { token, result: Err(ENOSPC), buffer });
                return;
            }
            Op::Write { file, offset, buffer, durability } => {
                Op::Write { file: inner(&file), offset, buffer, durability }
            }
            Op::Read { file, offset, buffer } => Op::Read { file: inner(&file), offset, buffer },
            Op::Sync { file } => Op::Sync { file: inner(&file) },
            other => other,
        };
        self.inner.submit(op, token);
    }

    fn reap(&self, out: &mut Vec<Completion>) {
        out.append(&mut self.failed.borrow_mut());
        self.inner.reap(out);
    }

    fn wait(&self, timeout: Option<Duration>) {
        let waits = self.failed.borrow().is_empty();
        self.inner.wait(if waits { timeout } else { Some(Duration::ZERO) });
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.inner.waker()
    }
}
