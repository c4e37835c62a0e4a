//! The simulated disk: crashes between any two operations, loses, reorders and tears what is not
//! durable, fails on demand, and completes operations in an order that its seed decides.
//!
//! Invariants: the same seed and the same calls give the same behaviour, byte for byte; reads
//! draw no randomness, so that scanning threads do not disturb it. What survives is decided by
//! `media` alone. For tests and the simulator; no sockets, and nothing ever sleeps.

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::blocking::{errno_of, error_of};
use super::machine::Seeded;
use super::media::{FileId, Media, Survives, SyncStart, WriteId};
use super::memory::lock_once;
use super::{
    Completion, DirLock, Direct, Disk, Durability, File, FileRef, IO_ALIGN, Op, OpenHow, Returned,
    Ring, Token, Wake,
};
use crate::base::{Error, Result};
use crate::sync::point;

/// How a simulated disk behaves.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// A reap completes each operation in flight once in so many times.
    pub complete_one_in: u64,
    /// Room on the disk; `None`: no end.
    pub bytes_max: Option<u64>,
}

impl SimOptions {
    /// A disk without an end.
    pub fn seeded(seed: u64) -> SimOptions {
        SimOptions { seed, complete_one_in: 2, bytes_max: None }
    }
}

/// What kind of operation a fault meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOn {
    /// Writes, of either durability.
    Write,
    /// Syncs of files.
    Sync,
    /// Reads.
    Read,
    /// Creating and allocating.
    Grow,
    /// Making shorter.
    Truncate,
}

/// An error that the disk will answer with.
#[derive(Clone, Debug)]
pub struct Fault {
    /// To which operations.
    pub on: FaultOn,
    /// On files whose name contains this.
    pub name_contains: &'static str,
    /// How many such operations still succeed.
    pub after: u64,
    /// How many fail then.
    pub times: u64,
    /// With which error number.
    pub errno: i32,
}

/// A simulated disk; clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    shared: Arc<Mutex<State>>,
    locked: Arc<Mutex<Option<String>>>,
}

struct State {
    media: Media,
    options: SimOptions,
    faults: Vec<Fault>,
    /// Starts and ends of operations so far: the moments at which it can crash.
    moments: u64,
    crash_at: Option<u64>,
    power: Power,
    rings: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    Off,
}

fn off() -> Error {
    Error::Io { what: "the simulated machine is off".to_owned(), errno: libc::EIO }
}

impl State {
    /// A moment at which the machine may crash; an error if it has.
    fn moment(&mut self) -> Result<()> {
        if self.power == Power::On {
            self.moments += 1;
            if self.crash_at.is_some_and(|at| self.moments >= at) {
                self.power = Power::Off;
            }
        }
        if self.power == Power::On { Ok(()) } else { Err(off()) }
    }

    fn fault(&mut self, on: FaultOn, name: &str) -> Result<()> {
        for fault in &mut self.faults {
            if fault.on != on || !name.contains(fault.name_contains) || fault.times == 0 {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            fault.times -= 1;
            return Err(error_of("simulated fault on", name, fault.errno));
        }
        Ok(())
    }

    /// Refuses to let a file reach `end` if the disk has no room.
    fn room(&self, file: FileId, name: &str, end: u64) -> Result<()> {
        let growth = end.saturating_sub(self.media.len(file));
        let full = |max| growth > 0 && self.media.used() + growth > max;
        if self.options.bytes_max.is_some_and(full) {
            return Err(error_of("grow", name, libc::ENOSPC));
        }
        Ok(())
    }

    fn start_write(&mut self, file: &SimFile, offset: u64, bytes: &[u8]) -> Result<WriteId> {
        self.room(file.id, &file.name, offset + bytes.len() as u64)?;
        Ok(self.media.write_start(file.id, offset, bytes))
    }

    fn end_write(
        &mut self,
        file: &SimFile,
        id: WriteId,
        end: u64,
        survives: Survives,
    ) -> Result<()> {
        if let Err(error) = self.fault(FaultOn::Write, &file.name) {
            self.media.write_failed(id);
            return Err(error);
        }
        self.media.write_end(id, end, survives);
        Ok(())
    }
}

impl SimDisk {
    /// An empty disk.
    pub fn new(options: SimOptions) -> SimDisk {
        SimDisk::with_media(Media::default(), options)
    }

    pub(super) fn with_media(media: Media, options: SimOptions) -> SimDisk {
        let state = State {
            media,
            options,
            faults: Vec::new(),
            moments: 0,
            crash_at: None,
            power: Power::On,
            rings: 0,
        };
        SimDisk { shared: Arc::new(Mutex::new(state)), locked: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Turns the machine off, now, and returns the disk that it finds when it is turned on again:
    /// what is durable, and of the rest what the seed leaves.
    pub fn crash(&self, seed: u64) -> SimDisk {
        let mut state = self.state();
        state.power = Power::Off;
        let media = state.media.crash(&mut Seeded::new(seed));
        SimDisk::with_media(media, SimOptions { seed, ..state.options })
    }

    /// Ends the program, now, and not the machine (SIGKILL): the disk that the next one finds has
    /// all that was written, durable or not, and of the writes in flight some.
    pub fn kill(&self, seed: u64) -> SimDisk {
        let mut state = self.state();
        state.power = Power::Off;
        let seen = state.media.as_seen();
        let mut media = std::mem::replace(&mut state.media, seen);
        media.kill(&mut Seeded::new(seed));
        SimDisk::with_media(media, SimOptions { seed, ..state.options })
    }

    /// Turns the machine off at the `moments`-th start or end of an operation from now on.
    /// Everything fails afterwards, and nothing changes the disk.
    pub fn crash_after(&self, moments: u64) {
        let mut state = self.state();
        state.crash_at = Some(state.moments + moments.max(1));
    }

    /// Whether the machine is off.
    pub fn is_off(&self) -> bool {
        self.state().power == Power::Off
    }

    /// Whether a file was made shorter and a crash may undo that.
    pub fn has_cuts(&self) -> bool {
        self.state().media.has_cuts()
    }

    /// Starts and ends of operations so far.
    pub fn moments(&self) -> u64 {
        self.state().moments
    }

    /// Adds an error to come.
    pub fn inject(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Takes all errors to come back.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Changes the room on the disk.
    pub fn set_bytes_max(&self, bytes_max: Option<u64>) {
        self.state().options.bytes_max = bytes_max;
    }

    /// Bytes of all files.
    pub fn bytes_used(&self) -> u64 {
        self.state().media.used()
    }

    /// Changes bytes of a file behind everybody's back: bit rot, for tests of damage.
    pub fn damage(&self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.state();
        let file = state.media.find(name).ok_or(Error::NotFound { what: name.to_owned() })?;
        let id = state.media.write_start(file, offset, bytes);
        state.media.write_end(id, offset + bytes.len() as u64, Survives::Always);
        Ok(())
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str, how: OpenHow, _direct: Direct) -> Result<FileRef> {
        let mut state = self.state();
        state.moment()?;
        let id = match (state.media.find(name), how) {
            (Some(_), OpenHow::CreateNew) => return Err(error_of("make", name, libc::EEXIST)),
            (Some(id), _) => id,
            (None, OpenHow::Existing) => return Err(error_of("open", name, libc::ENOENT)),
            (None, _) => {
                state.fault(FaultOn::Grow, name)?;
                state.media.create(name)
            }
        };
        let shared = self.shared.clone();
        Ok(Arc::new(SimFile { shared, id, name: name.to_owned() }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.state();
        state.moment()?;
        let done = state.media.rename(from, to);
        if done { Ok(()) } else { Err(error_of("rename", from, libc::ENOENT)) }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.state();
        state.moment()?;
        let done = state.media.remove(name);
        if done { Ok(()) } else { Err(error_of("remove", name, libc::ENOENT)) }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self.state().media.list(folder))
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        let mut state = self.state();
        state.moment()?;
        state.media.create_folder(name);
        Ok(())
    }

    fn sync_dir(&self, name: &str) -> Result<()> {
        let mut state = self.state();
        state.moment()?;
        state.media.sync_folder(name);
        Ok(())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.state().media.exists(name))
    }

    fn lock(&self, note: &str) -> Result<DirLock> {
        lock_once(&self.locked, note)
    }

    fn ring(&self) -> Result<Box<dyn Ring>> {
        let mut state = self.state();
        state.rings += 1;
        // Each ring has its own stream, so that one does not depend on how busy another is.
        let seed = state.options.seed ^ state.rings.wrapping_mul(0xa076_1d64_78bd_642f);
        let one_in = state.options.complete_one_in.max(1);
        Ok(Box::new(SimRing {
            shared: self.shared.clone(),
            random: RefCell::new(Seeded::new(seed)),
            complete_one_in: one_in,
            flying: RefCell::default(),
            waited: Cell::new(Waited::No),
        }))
    }

    fn kind(&self) -> &'static str {
        "simulated"
    }
}

/// One open simulated file.
struct SimFile {
    shared: Arc<Mutex<State>>,
    id: FileId,
    name: String,
}

impl SimFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let mut state = self.state();
        // A rollback that needs a page cannot fail; what it does on a machine that is off is nothing.
        if state.power == Power::Off && !self.name.starts_with("pages/") {
            return Err(off());
        }
        state.fault(FaultOn::Read, &self.name)?;
        Ok(state.media.read(self.id, offset, into))
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> Result<()> {
        let mut state = self.state();
        state.moment()?;
        let id = state.start_write(self, offset, from)?;
        state.moment()?;
        state.end_write(self, id, offset + from.len() as u64, Survives::WhenSynced)
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.state();
        state.moment()?;
        let sync = state.media.sync_start(self.id);
        state.moment()?;
        state.fault(FaultOn::Sync, &self.name)?;
        state.media.sync_end(sync);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        let mut state = self.state();
        state.moment()?;
        state.fault(FaultOn::Grow, &self.name)?;
        state.room(self.id, &self.name, bytes)?;
        state.media.allocate(self.id, bytes);
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        let mut state = self.state();
        state.moment()?;
        state.fault(FaultOn::Truncate, &self.name)?;
        state.media.truncate(self.id, bytes);
        state.moment()
    }

    fn len(&self) -> Result<u64> {
        Ok(self.state().media.len(self.id))
    }

    fn raw_fd(&self) -> Option<RawFd> {
        None
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// A ring of the simulated disk.
struct SimRing {
    shared: Arc<Mutex<State>>,
    random: RefCell<Seeded>,
    complete_one_in: u64,
    flying: RefCell<Vec<Flying>>,
    waited: Cell<Waited>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// The caller has nothing else to do: the next reap completes something.
    Yes,
    No,
}

struct Flying {
    op: Op,
    token: Token,
    started: Started,
}

enum Started {
    Write(WriteId),
    Sync(SyncStart),
    Read,
    Failed(i32),
}

fn sim_file(file: &FileRef) -> &SimFile {
    file.as_any().downcast_ref().expect("a simulated ring is given simulated files")
}

impl Ring for SimRing {
    fn submit(&self, op: Op, token: Token) {
        let mut state = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if state.moment().is_err() {
            // The machine is off: nobody will hear of it.
            return;
        }
        let started = match &op {
            Op::Write { file, offset, buffer, durability } => {
                let durable = *durability == Durability::Durable;
                assert!(
                    !durable
                        || (offset % 512 == 0
                            && buffer.len() % 512 == 0
                            && (buffer.as_ptr() as usize).is_multiple_of(IO_ALIGN)),
                    "durable writes are aligned"
                );
                match state.start_write(sim_file(file), *offset, buffer) {
                    Ok(id) => Started::Write(id),
                    Err(error) => Started::Failed(errno_of(&error)),
                }
            }
            Op::Sync { file } => Started::Sync(state.media.sync_start(sim_file(file).id)),
            Op::Read { .. } => Started::Read,
            Op::Accept { .. } | Op::Recv { .. } | Op::Send { .. } => {
                Started::Failed(libc::EOPNOTSUPP)
            }
            Op::Cancel { .. } => return,
        };
        drop(state);
        self.flying.borrow_mut().push(Flying { op, token, started });
    }

    fn reap(&self, out: &mut Vec<Completion>) {
        let mut flying = self.flying.borrow_mut();
        let mut random = self.random.borrow_mut();
        let waited = self.waited.replace(Waited::No);
        let due: Vec<bool> = flying.iter().map(|_| random.one_in(self.complete_one_in)).collect();
        let mut ending = Vec::new();
        let mut staying = Vec::new();
        for (op, due) in flying.drain(..).zip(due) {
            if due { ending.push(op) } else { staying.push(op) }
        }
        if ending.is_empty() && !staying.is_empty() && waited == Waited::Yes {
            let lucky = random.below(staying.len() as u64) as usize;
            ending.push(staying.remove(lucky));
        }
        *flying = staying;
        while !ending.is_empty() {
            let next = random.below(ending.len() as u64) as usize;
            if let Some(completion) = self.finish(ending.remove(next)) {
                out.push(completion);
            }
        }
    }

    fn wait(&self, _timeout: Option<Duration>) {
        self.waited.set(Waited::Yes);
        // The simulator may leave the instance asleep here for as long as it likes.
        point("asleep");
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(NoWake)
    }
}

impl SimRing {
    /// Ends an operation; `None` once the machine is off.
    fn finish(&self, flying: Flying) -> Option<Completion> {
        let mut state = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        state.moment().ok()?;
        let Flying { op, token, started } = flying;
        let mut moved = 0;
        let (done, buffer) = match (op, started) {
            (Op::Write { file, offset, buffer, durability }, Started::Write(id)) => {
                let survives = match durability {
                    Durability::Durable => Survives::Always,
                    Durability::Volatile => Survives::WhenSynced,
                };
                moved = buffer.len();
                let end = offset + buffer.len() as u64;
                let done = state.end_write(sim_file(&file), id, end, survives);
                (done.map_err(|e| errno_of(&e)), Returned::Io(buffer))
            }
            (Op::Sync { file }, Started::Sync(sync)) => {
                let done = state.fault(FaultOn::Sync, &sim_file(&file).name);
                if done.is_ok() {
                    state.media.sync_end(sync);
                }
                (done.map_err(|e| errno_of(&e)), Returned::Nothing)
            }
            (Op::Read { file, offset, mut buffer }, _) => {
                let file = sim_file(&file);
                let done = state.fault(FaultOn::Read, &file.name);
                moved = state.media.read(file.id, offset, &mut buffer);
                (done.map_err(|e| errno_of(&e)), Returned::Io(buffer))
            }
            (Op::Write { buffer, .. }, Started::Failed(errno)) => {
                (Err(errno), Returned::Io(buffer))
            }
            (Op::Recv { buffer, .. } | Op::Send { buffer, .. }, Started::Failed(errno)) => {
                (Err(errno), Returned::Bytes(buffer))
            }
            (_, Started::Failed(errno)) => (Err(errno), Returned::Nothing),
            _ => panic!("an operation was started as another"),
        };
        let moved = u32::try_from(moved).expect("an operation moves less than 4 GiB");
        Some(Completion { token, result: done.map(|()| moved), buffer })
    }
}

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}
