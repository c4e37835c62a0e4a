//! Recordings of what a program did to a disk, and crash images made from them.
//!
//! Invariants: events are in one global order; a start is recorded before the operation is handed
//! over, an end after it has completed and before anybody hears of it; so a program that was told
//! (and a note of it) comes after what it was told of. Bytes: docs/format/log.md, "Trace".

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Durability;
use super::blocking::error_of;
use super::machine::Seeded;
use super::media::{FileId, Media, Survives, SyncStart, WriteId};
use super::sim::{SimDisk, SimOptions};
use crate::base::{Error, Result};

const MAGIC: &[u8; 8] = b"ATOLLTRC";
const VERSION: u32 = 2;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A file was made.
    Create {
        /// Its number in the recording.
        file: u32,
        /// Its name.
        name: String,
    },
    /// A file was opened that was there before the recording.
    Existing {
        /// Its number in the recording.
        file: u32,
        /// Its name.
        name: String,
        /// Its bytes, all taken as durable.
        bytes: Vec<u8>,
    },
    /// A write began.
    WriteStart {
        /// The operation's number.
        op: u64,
        /// The file.
        file: u32,
        /// Where in it.
        offset: u64,
        /// What its end means.
        durability: Durability,
        /// What.
        bytes: Vec<u8>,
    },
    /// A write or sync ended.
    End {
        /// The operation's number.
        op: u64,
        /// How.
        how: Ended,
    },
    /// A sync of a file began.
    SyncStart {
        /// The operation's number.
        op: u64,
        /// The file.
        file: u32,
    },
    /// A file was made at least so long.
    Allocate {
        /// The file.
        file: u32,
        /// Its length.
        bytes: u64,
    },
    /// A file was made at most so long.
    Truncate {
        /// The file.
        file: u32,
        /// Its length.
        bytes: u64,
    },
    /// A file got another name.
    Rename {
        /// The old one.
        from: String,
        /// The new one.
        to: String,
    },
    /// A file was removed.
    Remove {
        /// Its name.
        name: String,
    },
    /// A folder was made, and those above it.
    CreateFolder {
        /// Its name.
        name: String,
    },
    /// The names in a folder were made durable.
    SyncFolder {
        /// Its name.
        name: String,
    },
    /// What the program says: an acknowledgement, say. Opaque here.
    Note {
        /// What it says.
        bytes: Vec<u8>,
    },
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It succeeded.
    Well,
    /// It failed.
    Failed,
}

/// Where events go.
pub struct Trace {
    sink: Mutex<Sink>,
}

struct Sink {
    out: Out,
    events: u64,
    next_op: u64,
}

enum Out {
    Memory(Vec<u8>),
    File(std::io::BufWriter<std::fs::File>, String),
}

impl Out {
    fn write(&mut self, bytes: &[u8]) {
        match self {
            Out::Memory(memory) => memory.extend_from_slice(bytes),
            Out::File(file, path) => {
                // A recording with a hole would prove nothing.
                file.write_all(bytes).unwrap_or_else(|e| panic!("cannot write {path}: {e}"));
            }
        }
    }
}

impl Trace {
    /// A recording in memory.
    pub fn in_memory() -> Arc<Trace> {
        Trace::new(Out::Memory(Vec::new()))
    }

    /// A recording in a file, outside the recorded directory.
    pub fn to_file(path: &Path) -> Result<Arc<Trace>> {
        let name = path.to_string_lossy().into_owned();
        let file = std::fs::File::create(path)
            .map_err(|e| error_of("make", &name, e.raw_os_error().unwrap_or(0)))?;
        Ok(Trace::new(Out::File(std::io::BufWriter::with_capacity(1 << 20, file), name)))
    }

    fn new(mut out: Out) -> Arc<Trace> {
        out.write(MAGIC);
        out.write(&VERSION.to_le_bytes());
        Arc::new(Trace { sink: Mutex::new(Sink { out, events: 0, next_op: 0 }) })
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub fn record(&self, event: &Event) {
        let mut body = Vec::new();
        event.encode(&mut body);
        let sum = crc32c::crc32c(&body).to_le_bytes();
        let length = u32::try_from(body.len()).expect("an event is smaller than 4 GiB");
        let mut sink = self.sink();
        sink.out.write(&length.to_le_bytes());
        sink.out.write(&body);
        sink.out.write(&sum);
        sink.events += 1;
    }

    /// Adds what the program says: before it tells anybody, or as the one who was told.
    pub fn note(&self, bytes: &[u8]) {
        self.record(&Event::Note { bytes: bytes.to_vec() });
    }

    /// A number for an operation.
    pub fn next_op(&self) -> u64 {
        let mut sink = self.sink();
        sink.next_op += 1;
        sink.next_op
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.sink().events
    }

    /// The bytes of a recording in memory; writes out one in a file and returns nothing.
    pub fn bytes(&self) -> Vec<u8> {
        match &mut self.sink().out {
            Out::Memory(memory) => memory.clone(),
            Out::File(file, path) => {
                file.flush().unwrap_or_else(|e| panic!("cannot write {path}: {e}"));
                Vec::new()
            }
        }
    }

    /// Reads a recording. A torn last event (the recorded process was killed) ends it.
    pub fn parse(bytes: &[u8]) -> Result<Vec<Event>> {
        let damaged = |what: String| Error::Corrupt { page: None, detail: what };
        let mut input = Input { bytes };
        if input.take(8) != Some(MAGIC) {
            return Err(damaged("not a recording".to_owned()));
        }
        match input.u32() {
            Some(VERSION) => {}
            other => return Err(damaged(format!("a recording of version {other:?}"))),
        }
        let mut events = Vec::new();
        while let Some(length) = input.u32() {
            let (Some(body), Some(sum)) = (input.take(length as usize), input.u32()) else { break };
            if crc32c::crc32c(body) != sum {
                return Err(damaged(format!("event {} has a wrong checksum", events.len())));
            }
            let event = Event::decode(&mut Input { bytes: body });
            events.push(event.ok_or_else(|| damaged(format!("event {} is odd", events.len())))?);
        }
        Ok(events)
    }
}

impl Event {
    fn encode(&self, out: &mut Vec<u8>) {
        let text = |out: &mut Vec<u8>, text: &str| blob(out, text.as_bytes());
        match self {
            Event::Create { file, name } => {
                out.push(1);
                out.extend_from_slice(&file.to_le_bytes());
                text(out, name);
            }
            Event::Existing { file, name, bytes } => {
                out.push(2);
                out.extend_from_slice(&file.to_le_bytes());
                text(out, name);
                blob(out, bytes);
            }
            Event::WriteStart { op, file, offset, durability, bytes } => {
                out.push(3);
                out.extend_from_slice(&op.to_le_bytes());
                out.extend_from_slice(&file.to_le_bytes());
                out.extend_from_slice(&offset.to_le_bytes());
                out.push(u8::from(*durability == Durability::Durable));
                blob(out, bytes);
            }
            Event::End { op, how } => {
                out.push(4);
                out.extend_from_slice(&op.to_le_bytes());
                out.push(u8::from(*how == Ended::Well));
            }
            Event::SyncStart { op, file } => {
                out.push(5);
                out.extend_from_slice(&op.to_le_bytes());
                out.extend_from_slice(&file.to_le_bytes());
            }
            Event::Allocate { file, bytes } => {
                out.push(6);
                out.extend_from_slice(&file.to_le_bytes());
                out.extend_from_slice(&bytes.to_le_bytes());
            }
            Event::Rename { from, to } => {
                out.push(7);
                text(out, from);
                text(out, to);
            }
            Event::Remove { name } => {
                out.push(8);
                text(out, name);
            }
            Event::CreateFolder { name } => {
                out.push(9);
                text(out, name);
            }
            Event::SyncFolder { name } => {
                out.push(10);
                text(out, name);
            }
            Event::Note { bytes } => {
                out.push(11);
                blob(out, bytes);
            }
            Event::Truncate { file, bytes } => {
                out.push(12);
                out.extend_from_slice(&file.to_le_bytes());
                out.extend_from_slice(&bytes.to_le_bytes());
            }
        }
    }

    fn decode(input: &mut Input<'_>) -> Option<Event> {
        Some(match input.u8()? {
            1 => Event::Create { file: input.u32()?, name: input.text()? },
            2 => Event::Existing { file: input.u32()?, name: input.text()?, bytes: input.blob()? },
            3 => Event::WriteStart {
                op: input.u64()?,
                file: input.u32()?,
                offset: input.u64()?,
                durability: match input.u8()? {
                    0 => Durability::Volatile,
                    _ => Durability::Durable,
                },
                bytes: input.blob()?,
            },
            4 => Event::End {
                op: input.u64()?,
                how: if input.u8()? == 1 { Ended::Well } else { Ended::Failed },
            },
            5 => Event::SyncStart { op: input.u64()?, file: input.u32()? },
            6 => Event::Allocate { file: input.u32()?, bytes: input.u64()? },
            7 => Event::Rename { from: input.text()?, to: input.text()? },
            8 => Event::Remove { name: input.text()? },
            9 => Event::CreateFolder { name: input.text()? },
            10 => Event::SyncFolder { name: input.text()? },
            11 => Event::Note { bytes: input.blob()? },
            12 => Event::Truncate { file: input.u32()?, bytes: input.u64()? },
            _ => return None,
        })
    }
}

/// A length, whether the bytes are all zero, and the bytes if they are not.
fn blob(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("an event is smaller than 4 GiB");
    out.extend_from_slice(&length.to_le_bytes());
    let zero = bytes.iter().all(|&b| b == 0);
    out.push(u8::from(zero));
    if !zero {
        out.extend_from_slice(bytes);
    }
}

struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(n)?;
        self.bytes = rest;
        Some(taken)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }
    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from(self.u32()?) | u64::from(self.u32()?) << 32)
    }
    fn blob(&mut self) -> Option<Vec<u8>> {
        let length = self.u32()? as usize;
        if self.u8()? == 1 { Some(vec![0; length]) } else { self.take(length).map(<[u8]>::to_vec) }
    }
    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.blob()?).ok()
    }
}

/// Plays a recording up to any point and makes crash images there.
#[derive(Default)]
pub struct Replayer {
    media: Media,
    files: BTreeMap<u32, FileId>,
    flying: BTreeMap<u64, FlyingOp>,
    played: usize,
}

enum FlyingOp {
    Write(WriteId, u64, Survives),
    Sync(SyncStart),
}

impl Replayer {
    /// At the start of a recording.
    pub fn new() -> Replayer {
        Replayer::default()
    }

    /// Plays `events` up to the `upto`-th; never back.
    pub fn advance(&mut self, events: &[Event], upto: usize) {
        while self.played < upto.min(events.len()) {
            self.play(&events[self.played]);
            self.played += 1;
        }
    }

    /// What the machine finds if it lost power here: all that was durable, the rest by seed.
    pub fn image(&self, seed: u64) -> SimDisk {
        let media = self.media.crash(&mut Seeded::new(seed));
        SimDisk::with_media(media, SimOptions::seeded(seed))
    }

    fn file(&self, file: u32) -> FileId {
        *self.files.get(&file).expect("a recording names files that it has made")
    }

    fn play(&mut self, event: &Event) {
        match event {
            Event::Create { file, name } => {
                let id = self.media.create(name);
                self.files.insert(*file, id);
            }
            Event::Existing { file, name, bytes } => {
                let id = self.media.plant(name, bytes.clone());
                self.files.insert(*file, id);
            }
            Event::WriteStart { op, file, offset, durability, bytes } => {
                let id = self.media.write_start(self.file(*file), *offset, bytes);
                let survives = match durability {
                    Durability::Durable => Survives::Always,
                    Durability::Volatile => Survives::WhenSynced,
                };
                let end = offset + bytes.len() as u64;
                self.flying.insert(*op, FlyingOp::Write(id, end, survives));
            }
            Event::SyncStart { op, file } => {
                let sync = self.media.sync_start(self.file(*file));
                self.flying.insert(*op, FlyingOp::Sync(sync));
            }
            Event::End { op, how } => match (self.flying.remove(op), how) {
                (Some(FlyingOp::Write(id, end, survives)), Ended::Well) => {
                    self.media.write_end(id, end, survives);
                }
                (Some(FlyingOp::Write(id, ..)), Ended::Failed) => self.media.write_failed(id),
                (Some(FlyingOp::Sync(sync)), Ended::Well) => self.media.sync_end(sync),
                (Some(FlyingOp::Sync(_)) | None, _) => {}
            },
            Event::Allocate { file, bytes } => self.media.allocate(self.file(*file), *bytes),
            Event::Truncate { file, bytes } => self.media.truncate(self.file(*file), *bytes),
            Event::Rename { from, to } => {
                self.media.rename(from, to);
            }
            Event::Remove { name } => {
                self.media.remove(name);
            }
            Event::CreateFolder { name } => self.media.create_folder(name),
            Event::SyncFolder { name } => self.media.sync_folder(name),
            Event::Note { .. } => {}
        }
    }
}

/// The disk after a crash when `n` events of the recording had happened.
pub fn replay_prefix(events: &[Event], n: usize, seed: u64) -> SimDisk {
    let mut replayer = Replayer::new();
    replayer.advance(events, n);
    replayer.image(seed)
}
