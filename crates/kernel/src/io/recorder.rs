//! A disk that writes down everything done to another disk (issue 2, "Power loss").
//!
//! Invariants: behaves as the disk it wraps; the order of events is as `trace` demands. Socket
//! operations pass through unrecorded. Files that were there before are recorded whole when they
//! are first opened: recover a copy if they are large.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::trace::{Ended, Event, Trace};
use super::{
    Completion, DirLock, Direct, Disk, Durability, File, FileRef, Op, OpenHow, Ring, Token, Wake,
};
use crate::base::Result;

/// Wraps a disk and records what is done to it.
pub struct RecordingDisk {
    inner: Arc<dyn Disk>,
    trace: Arc<Trace>,
    names: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    files: BTreeMap<String, u32>,
    last: u32,
}

impl RecordingDisk {
    /// Records what is done to `inner` from now on.
    pub fn new(inner: Arc<dyn Disk>, trace: Arc<Trace>) -> RecordingDisk {
        RecordingDisk { inner, trace, names: Mutex::default() }
    }

    /// The recording, for notes.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn how_ended<T>(result: &Result<T>) -> Ended {
    if result.is_ok() { Ended::Well } else { Ended::Failed }
}

impl Disk for RecordingDisk {
    fn open(&self, name: &str, how: OpenHow, direct: Direct) -> Result<FileRef> {
        // Held over the opening, so that two openers agree on who made the file.
        let mut names = self.names();
        let existed = self.inner.exists(name)?;
        let inner = self.inner.open(name, how, direct)?;
        let known = names.files.get(name).copied();
        let id = known.unwrap_or(names.last + 1);
        if known.is_none() {
            names.last = id;
            names.files.insert(name.to_owned(), id);
            let name = name.to_owned();
            if existed {
                let mut bytes = vec![0; usize::try_from(inner.len()?).unwrap_or(0)];
                let n = inner.read_at(0, &mut bytes)?;
                bytes.truncate(n);
                self.trace.record(&Event::Existing { file: id, name, bytes });
            } else {
                self.trace.record(&Event::Create { file: id, name });
            }
        }
        Ok(Arc::new(RecordingFile { inner, id, trace: self.trace.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut names = self.names();
        self.inner.rename(from, to)?;
        if let Some(id) = names.files.remove(from) {
            names.files.insert(to.to_owned(), id);
        }
        self.trace.record(&Event::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut names = self.names();
        self.inner.remove(name)?;
        names.files.remove(name);
        self.trace.record(&Event::Remove { name: name.to_owned() });
        Ok(())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list(folder)
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        self.inner.create_dir(name)?;
        self.trace.record(&Event::CreateFolder { name: name.to_owned() });
        Ok(())
    }

    fn sync_dir(&self, name: &str) -> Result<()> {
        // Changes that others make meanwhile come after it.
        let _names = self.names();
        self.inner.sync_dir(name)?;
        self.trace.record(&Event::SyncFolder { name: name.to_owned() });
        Ok(())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn lock(&self, note: &str) -> Result<DirLock> {
        self.inner.lock(note)
    }

    fn ring(&self) -> Result<Box<dyn Ring>> {
        Ok(Box::new(RecordingRing {
            inner: self.inner.ring()?,
            trace: self.trace.clone(),
            flying: RefCell::default(),
            last: Cell::new(0),
        }))
    }

    fn kind(&self) -> &'static str {
        "recording"
    }
}

/// A file whose blocking operations are recorded.
struct RecordingFile {
    inner: FileRef,
    id: u32,
    trace: Arc<Trace>,
}

impl File for RecordingFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> Result<()> {
        let op = self.trace.next_op();
        let (durability, bytes) = (Durability::Volatile, from.to_vec());
        self.trace.record(&Event::WriteStart { op, file: self.id, offset, durability, bytes });
        let done = self.inner.write_at(offset, from);
        self.trace.record(&Event::End { op, how: how_ended(&done) });
        done
    }

    fn sync(&self) -> Result<()> {
        let op = self.trace.next_op();
        self.trace.record(&Event::SyncStart { op, file: self.id });
        let done = self.inner.sync();
        self.trace.record(&Event::End { op, how: how_ended(&done) });
        done
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.inner.allocate(bytes)?;
        self.trace.record(&Event::Allocate { file: self.id, bytes });
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.inner.truncate(bytes)?;
        self.trace.record(&Event::Truncate { file: self.id, bytes });
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn raw_fd(&self) -> Option<RawFd> {
        self.inner.raw_fd()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// A ring whose file operations are recorded.
struct RecordingRing {
    inner: Box<dyn Ring>,
    trace: Arc<Trace>,
    /// By the inner ring's token: the caller's token, and the operation's number if recorded.
    flying: RefCell<HashMap<u64, (Token, Option<u64>)>>,
    last: Cell<u64>,
}

/// The wrapped file and its number.
fn unwrap(file: &FileRef) -> (FileRef, u32) {
    let file: &RecordingFile =
        file.as_any().downcast_ref().expect("a recording ring is given its own disk's files");
    (file.inner.clone(), file.id)
}

impl RecordingRing {
    /// Records the start of an operation; returns it for the inner ring, and its number.
    fn start(&self, op: Op) -> (Op, Option<u64>) {
        match op {
            Op::Write { file, offset, buffer, durability } => {
                let (inner, file) = unwrap(&file);
                let op = self.trace.next_op();
                let bytes = buffer.to_vec();
                self.trace.record(&Event::WriteStart { op, file, offset, durability, bytes });
                (Op::Write { file: inner, offset, buffer, durability }, Some(op))
            }
            Op::Sync { file } => {
                let (inner, file) = unwrap(&file);
                let op = self.trace.next_op();
                self.trace.record(&Event::SyncStart { op, file });
                (Op::Sync { file: inner }, Some(op))
            }
            Op::Read { file, offset, buffer } => {
                (Op::Read { file: unwrap(&file).0, offset, buffer }, None)
            }
            other => (other, None),
        }
    }
}

impl Ring for RecordingRing {
    fn submit(&self, op: Op, token: Token) {
        if let Op::Cancel { token } = op {
            let flying = self.flying.borrow();
            for (&inner, _) in flying.iter().filter(|(_, (outer, _))| *outer == token) {
                self.inner.submit(Op::Cancel { token: Token(inner) }, Token(0));
            }
            return;
        }
        let (op, number) = self.start(op);
        self.last.set(self.last.get() + 1);
        self.flying.borrow_mut().insert(self.last.get(), (token, number));
        self.inner.submit(op, Token(self.last.get()));
    }

    fn reap(&self, out: &mut Vec<Completion>) {
        let before = out.len();
        self.inner.reap(out);
        let mut flying = self.flying.borrow_mut();
        for completion in &mut out[before..] {
            let (token, number) =
                flying.remove(&completion.token.0).expect("a completion of what was submitted");
            completion.token = token;
            if let Some(op) = number {
                let how = if completion.result.is_ok() { Ended::Well } else { Ended::Failed };
                self.trace.record(&Event::End { op, how });
            }
        }
    }

    fn wait(&self, timeout: Option<Duration>) {
        self.inner.wait(timeout);
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.inner.waker()
    }
}
