//! Replay of histories that are made up: logs, and what they should come to.
#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

mod entries;
mod kept;
mod world;

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Cts, HomeId, PAGE_BYTES, Stop, WaitFor};
use crate::io::{Disk, IoChoice, MemoryDisk};
use crate::log::manifest::Manifest;
use crate::log::{self, Load, LogOptions, LogReader, LogWriter, Unflushed};
use crate::recovery::Workers;

/// Logs of a history.
const HOMES: u16 = 2;

/// So many threads while pages are read, and half as many else.
fn workers(reading: usize) -> Workers {
    Workers { computing: reading.div_ceil(2), reading }
}

/// One commit of a history.
struct Commit {
    home: u16,
    cts: u64,
    payload: Vec<u8>,
}

/// The seed of a random test, printed.
fn seeded(name: &str) -> fastrand::Rng {
    let given = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("{name}: ATOLL_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Writes the commits into logs, and opens those.
fn logs_of(commits: &[Commit]) -> Vec<LogReader> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(IoChoice::Threads));
    let (manifest, marks) = log::create(&disk, HOMES, PAGE_BYTES as u32, 0, 1).unwrap();
    // A record has half a buffer at most, and some commits here are large.
    let options =
        LogOptions { segment_bytes: 16 << 20, buffer_bytes: 4 << 20, ..LogOptions::default() };
    for home in 0..HOMES {
        let log =
            LogWriter::open(disk.clone(), &manifest, HomeId(home), options, marks.clone()).unwrap();
        let (ring, mut completions) = (disk.ring().unwrap(), Vec::new());
        let mut turn = || {
            ring.reap(&mut completions);
            for completion in completions.drain(..) {
                log.completed(completion).unwrap();
            }
            let poll = log.poll(ring.as_ref(), Load::IDLE);
            if poll.unflushed != Unflushed::Nothing {
                ring.wait(Some(Duration::from_millis(20)));
            }
            poll.unflushed
        };
        for commit in commits.iter().filter(|commit| commit.home == home) {
            let room = loop {
                match log.reserve(commit.payload.len()) {
                    Ok(room) => break room,
                    Err(Stop::WaitFor(WaitFor::LogRoom)) => drop(turn()),
                    Err(other) => panic!("{other:?}"),
                }
            };
            log.commit(room, Cts(commit.cts), &[], &[], &commit.payload);
        }
        while turn() != Unflushed::Nothing {}
    }
    let manifest = Manifest::read(disk.as_ref()).unwrap().expect("it was just made");
    let examined = log::examine(&disk, manifest).unwrap();
    (0..HOMES).map(|home| examined.reader(&disk, HomeId(home)).unwrap()).collect()
}
