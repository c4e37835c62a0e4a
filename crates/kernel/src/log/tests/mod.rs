//! The log as a whole: written, crashed, scanned, cut, read again.

mod basics;
mod crash;
mod faults;
mod fuzz;
mod gather;
mod speed;

use std::sync::Arc;
use std::time::Duration;

use super::manifest::Manifest;
use super::*;
use crate::base::{Cts, HomeId, Observed, Result, Stop, WaitFor};
use crate::io::{Completion, Disk, Ring};

/// Small segments, so that a test uses many.
pub const SMALL: LogOptions = LogOptions {
    segment_bytes: 128 << 10,
    buffer_bytes: 16 << 10,
    flushes_max: 2,
    retention: Retention::Keep,
};

/// One home's log with its ring.
pub struct Home {
    pub log: LogWriter,
    pub ring: Box<dyn Ring>,
    pub failed: Option<crate::base::Error>,
    completions: Vec<Completion>,
}

impl Home {
    pub fn open(
        disk: &Arc<dyn Disk>,
        manifest: &Manifest,
        home: u16,
        options: LogOptions,
        marks: &Arc<StableMarks>,
    ) -> Result<Home> {
        let log = LogWriter::open(disk.clone(), manifest, HomeId(home), options, marks.clone())?;
        Ok(Home { log, ring: disk.ring()?, failed: None, completions: Vec::new() })
    }

    /// One turn: completions, then a poll.
    pub fn turn(&mut self, now_ns: u64) -> LogPoll {
        self.ring.reap(&mut self.completions);
        for completion in self.completions.drain(..) {
            assert!(self.log.owns(completion.token));
            if let Err(error) = self.log.completed(completion) {
                self.failed = Some(error);
            }
        }
        self.log.poll(self.ring.as_ref(), Load { now_ns, ..Load::IDLE })
    }

    /// Turns until all is durable.
    pub fn settle(&mut self) {
        for now in 0..100_000 {
            if self.turn(now).unflushed == Unflushed::Nothing {
                return;
            }
            self.ring.wait(Some(Duration::from_millis(20)));
        }
        panic!("the log never became durable");
    }

    /// Commits, taking turns while there is no room.
    pub fn commit(&mut self, cts: u64, dependencies: &[Observed], payload: &[u8]) {
        loop {
            match self.log.reserve(payload.len()) {
                Ok(room) => {
                    self.log.commit(room, Cts(cts), dependencies, &[], payload);
                    return;
                }
                Err(Stop::WaitFor(WaitFor::LogRoom)) => {
                    self.turn(0);
                    self.ring.wait(Some(Duration::from_millis(20)));
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

pub fn new_database(disk: &Arc<dyn Disk>, homes: u16) -> (Manifest, Arc<StableMarks>) {
    create(disk, homes, 16384, 0, 1).unwrap()
}

pub fn examine_all(disk: &Arc<dyn Disk>) -> Result<Examined> {
    let manifest = Manifest::read(disk.as_ref())?.expect("there is a manifest");
    examine(disk, manifest)
}

/// Every commit within the cut of `home`: cts and payload.
pub fn read_all(disk: &Arc<dyn Disk>, examined: &Examined, home: u16) -> Vec<(u64, Vec<u8>)> {
    let mut reader = examined.reader(disk, HomeId(home)).unwrap();
    let mut all = Vec::new();
    while reader.advance().unwrap() {
        let mut payload = Vec::new();
        reader.payload(&mut payload).unwrap();
        all.push((reader.current().cts.0, payload));
    }
    all
}

/// The seed of a random test, printed.
pub fn seed() -> u64 {
    let given = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("ATOLL_SEED={seed}");
    seed
}
