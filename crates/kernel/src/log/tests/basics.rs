//! One log on disks that do not crash.

use std::sync::Arc;
use std::time::Duration;

use super::super::files::SegmentFiles;
use super::super::manifest::Manifest;
use super::super::segment::name;
use super::super::*;
use super::*;
use crate::base::{Cts, Error, InstanceId, SlotId, Stop, Xid};
use crate::io::{IoChoice, MemoryDisk, RealDisk, SimDisk, SimOptions};

fn disks() -> Vec<(tempfile::TempDir, Arc<dyn Disk>)> {
    let make = |which: u8| {
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = match which {
            0 => Arc::new(RealDisk::open(folder.path(), IoChoice::Auto).unwrap()),
            1 => Arc::new(RealDisk::open(folder.path(), IoChoice::Threads).unwrap()),
            _ => Arc::new(MemoryDisk::new(IoChoice::Auto)),
        };
        (folder, disk)
    };
    (0..3).map(make).collect()
}

fn payload(cts: u64) -> Vec<u8> {
    (0..cts % 1500).map(|i| (i * 7 + cts) as u8).collect()
}

#[test]
fn what_is_committed_is_read_again_over_segments_and_incarnations() {
    for (_folder, disk) in disks() {
        let (mut manifest, mut marks) = new_database(&disk, 1);
        let mut cts = 0;
        for incarnation in 1..=3 {
            let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
            for n in 0..500 {
                cts += 1;
                home.commit(cts, &[], &payload(cts));
                if n % 50 == 0 {
                    home.settle();
                }
            }
            home.settle();
            assert_eq!(home.log.stable(), Cts(cts));
            assert_eq!(marks.get(HomeId(0)), Cts(cts));
            let counters = home.log.counters();
            assert_eq!(counters.commits, 500);
            assert!(counters.segments > 1, "{counters:?}");
            assert!(counters.flushes < 400, "commits share flushes: {counters:?}");
            assert!(counters.bytes_padded > counters.bytes_payload);
            drop(home);
            let examined = examine_all(&disk).unwrap();
            assert_eq!(examined.cts_max, Cts(cts));
            let all = read_all(&disk, &examined, 0);
            let expected: Vec<_> = (1..=cts).map(|cts| (cts, payload(cts))).collect();
            assert!(all == expected, "{} records of {cts}", all.len());
            (manifest, marks) = examined.begin(&disk, 1, 99, Leftovers::All).unwrap();
            assert_eq!(manifest.current().number, incarnation + 1);
            assert_eq!(marks.get(HomeId(0)), Cts(cts));
        }
        // Starting and stopping without a commit leaves nothing behind.
        for _ in 0..3 {
            drop(Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap());
            let examined = examine_all(&disk).unwrap();
            (manifest, marks) = examined.begin(&disk, 2, 99, Leftovers::All).unwrap();
            assert_eq!(manifest.incarnations.len(), 4, "three with commits and the running one");
        }
        let examined = examine_all(&disk).unwrap();
        assert_eq!(read_all(&disk, &examined, 0).len(), 1500);
        assert!(read_all(&disk, &examined, 1).is_empty(), "a home that was added later");
    }
}

#[test]
fn chunks_are_taken_in_the_named_ranges() {
    let (_folder, disk) = disks().remove(0);
    let (manifest, marks) = new_database(&disk, 1);
    let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
    let xid = Xid::new(InstanceId(0), SlotId(3), 9);
    let mut parts = Vec::new();
    let mut expected = Vec::new();
    for n in 0..60u8 {
        let bytes = vec![n; 5000];
        let room = loop {
            match home.log.reserve(bytes.len()) {
                Ok(room) => break room,
                Err(_) => home.settle(),
            }
        };
        let chunk = home.log.chunk(room, xid, &bytes);
        // The savepoint's rollback discards the middle of each, and all of some.
        if n % 7 != 0 {
            parts.extend([chunk.part(0, 10), chunk.part(4990, 5000)]);
            expected.extend([n; 20]);
        }
    }
    home.commit(5, &[], b"between");
    home.settle();
    let room = home.log.reserve(3 + parts.len() * ChunkRef::ENCODED_BYTES).unwrap();
    home.log.commit(room, Cts(6), &[], &parts, b"end");
    expected.extend(b"end");
    home.settle();
    assert_eq!(home.log.counters().chunks, 60);
    assert!(home.log.counters().segments > 1, "chunks of an earlier segment");
    let examined = examine_all(&disk).unwrap();
    let all = read_all(&disk, &examined, 0);
    assert_eq!(all, [(5, b"between".to_vec()), (6, expected)]);
}

#[test]
fn room_and_size_have_limits() {
    let (_folder, disk) = disks().remove(2);
    let (manifest, marks) = new_database(&disk, 1);
    let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
    let most = home.log.payload_max();
    assert!(most > SMALL.buffer_bytes / 3);
    let refused = home.log.reserve(most + 1);
    assert!(matches!(refused, Err(Stop::Error(Error::TooLarge { .. }))), "{refused:?}");
    let first = home.log.reserve(most).unwrap();
    let waits = home.log.reserve(most);
    assert!(matches!(waits, Err(Stop::WaitFor(WaitFor::LogRoom))), "{waits:?}");
    home.log.release(first);
    assert!(home.turn(0).room, "who waited hears of it");
    let room = home.log.reserve(most).unwrap();
    home.log.commit(room, Cts(1), &[], &[], &vec![1; most]);
    home.settle();
    assert_eq!(home.log.stable(), Cts(1));
}

#[test]
fn a_memory_log_uses_its_segments_again() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(IoChoice::Threads));
    let (manifest, marks) = new_database(&disk, 1);
    let options = LogOptions { retention: Retention::Recycle, ..SMALL };
    let mut home = Home::open(&disk, &manifest, 0, options, &marks).unwrap();
    for cts in 1..3000 {
        home.commit(cts, &[], &[7; 1000]);
        home.turn(cts);
    }
    home.settle();
    assert!(home.log.counters().segments > 20);
    let files = disk.list("log/0000").unwrap();
    assert!(files.len() <= 4, "{files:?}");
}

/// What checkpoints will do (rule 8.7): move the beginning, use old segments again.
#[test]
fn a_log_begins_where_the_manifest_says_and_stale_bytes_are_not_read() {
    let sim = SimDisk::new(SimOptions::seeded(5));
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (mut manifest, marks) = new_database(&disk, 1);
    let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
    let mut cts = 0;
    let mut write = |home: &mut Home, commits: u64| {
        for _ in 0..commits {
            cts += 1;
            home.commit(cts, &[], &[cts as u8; 3000]);
            home.turn(cts);
        }
        home.settle();
        cts
    };
    write(&mut home, 200);
    let files = SegmentFiles::open(disk.as_ref(), &manifest, HomeId(0));
    let chain = files.unwrap().of(1, crate::base::LogPosition(0));
    assert!(chain.len() > 4);
    let begin = chain[3].header.start;
    manifest.incarnations[0].logs[0].start = begin;
    manifest.number += 1;
    manifest.swap(disk.as_ref()).unwrap();
    home.log.recycle_below(begin);
    let last = write(&mut home, 120);
    let names = disk.list("log/0000").unwrap();
    assert!(!names.contains(&"000000000002.seg".to_owned()), "used again: {names:?}");

    let disk: Arc<dyn Disk> = Arc::new(sim.crash(9));
    let examined = examine_all(&disk).unwrap();
    let read = read_all(&disk, &examined, 0);
    let (first, end) = (read[0].0, read[read.len() - 1].0);
    assert!(first > 1 && end == last, "{first} to {end} of {last}");
    let whole = read
        .iter()
        .zip(first..)
        .all(|((cts, payload), n)| *cts == n && payload.iter().all(|&byte| byte == n as u8));
    assert!(whole, "every commit from {first} on");
}

/// The last segment in use, with one made ready behind it that no flush has reached.
#[test]
fn a_segment_that_is_missing_before_one_that_is_only_ready_is_missed() {
    let sim = SimDisk::new(SimOptions::seeded(6));
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (manifest, marks) = new_database(&disk, 1);
    let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
    let mut cts = 0;
    // Until a fourth segment is ready, and the third being written to.
    let made = loop {
        cts += 1;
        home.commit(cts, &[], &[7; 500]);
        home.turn(cts);
        home.settle();
        let files = SegmentFiles::open(disk.as_ref(), &manifest, HomeId(0)).unwrap();
        let Some(ready) = files.whole.get(3) else { continue };
        assert!(home.log.end() <= ready.header.start, "it should have been seen before");
        break files.whole.iter().map(|it| name(HomeId(0), it.header.number)).collect::<Vec<_>>();
    };
    // Made durable, too.
    for _ in 0..100 {
        home.turn(cts);
        home.ring.wait(Some(Duration::ZERO));
    }
    for (at, name) in made.iter().enumerate() {
        let disk: Arc<dyn Disk> = Arc::new(sim.crash(9));
        disk.remove(name).unwrap();
        match examine_all(&disk) {
            Err(Error::Corrupt { detail, .. }) => {
                assert!(at + 1 < made.len() && detail.contains("missing"), "{name}: {detail}");
            }
            Err(other) => panic!("{name}: {other:?}"),
            Ok(_) => assert_eq!(at + 1, made.len(), "{name}"),
        }
    }
}

#[test]
fn a_database_is_made_in_an_empty_directory_only() {
    let (_folder, disk) = disks().remove(0);
    new_database(&disk, 2);
    let again = create(&disk, 2, 16384, 0, 2);
    assert!(matches!(again, Err(Error::Unusable { .. })));
    let manifest = Manifest::read(disk.as_ref()).unwrap().unwrap();
    assert_eq!((manifest.number, manifest.homes, manifest.page_bytes), (1, 2, 16384));
}
