//! Disks that are full or broken, and bytes that are not what was written (rules 7.8, 7.9, 9.7).

use std::sync::Arc;

use super::super::*;
use super::*;
use crate::base::{Cts, Error, HomeId, Observed, Stop, WaitFor};
use crate::io::{Fault, FaultOn, SimDisk, SimOptions};

fn sim(seed: u64) -> (SimDisk, Arc<dyn Disk>) {
    let disk = SimDisk::new(SimOptions::seeded(seed));
    (disk.clone(), Arc::new(disk))
}

#[test]
fn a_full_disk_fails_reservations_and_works_again_when_space_returns() {
    let (sim, disk) = sim(1);
    let (manifest, marks) = new_database(&disk, 1);
    let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
    sim.set_bytes_max(Some(sim.bytes_used() + 1000));
    let (mut cts, mut now, mut full) = (0, 0, 0);
    while full < 20 {
        now += 1_000_000;
        home.turn(now);
        home.ring.wait(None);
        match home.log.reserve(1000) {
            Ok(room) => {
                cts += 1;
                home.log.commit(room, Cts(cts), &[], &[], &[1; 1000]);
            }
            Err(Stop::WaitFor(WaitFor::LogRoom)) => {}
            Err(Stop::Error(Error::DiskFull { path })) => {
                assert!(path.contains("log/0000/"), "{path}");
                assert!(matches!(home.log.health(), LogHealth::DiskFull { .. }));
                full += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    // Everything that was committed becomes stable all the same.
    home.settle();
    assert_eq!(home.log.stable(), Cts(cts));
    assert!(cts > 20, "most of the first segment was used: {cts}");
    let files = disk.list("log/0000").unwrap();
    assert_eq!(files.len(), 1, "no half-made segment holds space: {files:?}");
    sim.set_bytes_max(None);
    for _ in 0..300 {
        now += 10_000_000;
        home.turn(now);
        home.ring.wait(None);
    }
    assert_eq!(home.log.health(), LogHealth::Good);
    for _ in 0..200 {
        cts += 1;
        home.commit(cts, &[], &[2; 1000]);
    }
    home.settle();
    assert_eq!(home.log.stable(), Cts(cts));
    let all = read_all(&disk, &examine_all(&disk).unwrap(), 0);
    assert_eq!(all.len() as u64, cts);
}

#[test]
fn a_failed_write_poisons_the_log_for_good() {
    for errno in [libc::EIO, libc::ENOSPC] {
        let (sim, disk) = sim(2);
        let (manifest, marks) = new_database(&disk, 1);
        let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
        home.commit(1, &[], b"safe");
        home.settle();
        sim.inject(Fault { on: FaultOn::Write, name_contains: ".seg", after: 0, times: 1, errno });
        home.commit(2, &[], b"lost");
        for now in 0..50 {
            home.turn(now);
        }
        assert!(matches!(home.failed, Some(Error::Io { errno: e, .. }) if e == errno));
        assert!(matches!(home.log.health(), LogHealth::Poisoned { .. }));
        let refused = home.log.reserve(10);
        assert!(matches!(refused, Err(Stop::Error(Error::Io { .. }))), "{refused:?}");
        assert_eq!(home.log.stable(), Cts(1), "nothing after the failure is ever stable");
        assert_eq!(marks.get(HomeId(0)), Cts(1));
    }
}

#[test]
fn a_failed_sync_of_a_new_segment_poisons_the_log() {
    let (sim, disk) = sim(3);
    let (manifest, marks) = new_database(&disk, 1);
    let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
    let errno = libc::EIO;
    sim.inject(Fault { on: FaultOn::Sync, name_contains: ".seg", after: 0, times: 1, errno });
    for cts in 1..200 {
        let Ok(room) = home.log.reserve(1000) else { break };
        home.log.commit(room, Cts(cts), &[], &[], &[1; 1000]);
        for now in 0..20 {
            home.turn(now);
        }
    }
    assert!(matches!(home.log.health(), LogHealth::Poisoned { errno: libc::EIO, .. }));
}

/// Two homes with some dependent commits, all stable; returns the disk.
fn two_logs() -> (SimDisk, Arc<dyn Disk>) {
    two_logs_then(|_| ())
}

/// The same, and both logs came to an orderly end.
fn two_logs_concluded() -> (SimDisk, Arc<dyn Disk>) {
    two_logs_then(|homes| {
        for home in homes {
            let flushes = home.log.counters().flushes;
            while matches!(home.log.conclude(), Unflushed::Some) {
                home.settle();
            }
            assert_eq!(home.log.counters().flushes, flushes + 1);
        }
    })
}

fn two_logs_then(end: impl FnOnce(&mut [Home])) -> (SimDisk, Arc<dyn Disk>) {
    let (sim, disk) = sim(4);
    let (manifest, marks) = new_database(&disk, 2);
    let mut homes: Vec<Home> =
        (0..2).map(|home| Home::open(&disk, &manifest, home, SMALL, &marks).unwrap()).collect();
    for cts in 1..=40u64 {
        let (home, other) = ((cts % 2) as usize, (cts % 2) as u16 ^ 1);
        let observed =
            [Observed { home: HomeId(other), cts: homes[usize::from(other)].log.last_cts() }];
        homes[home].commit(cts, &observed, &[cts as u8; 700]);
        homes[0].settle();
        homes[1].settle();
    }
    end(&mut homes);
    (sim, disk)
}

/// Where the record of a commit with this payload byte begins in a file.
fn find_record(disk: &Arc<dyn Disk>, name: &str, byte: u8) -> u64 {
    use crate::io::{Direct, OpenHow};
    let file = disk.open(name, OpenHow::Existing, Direct::No).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes.windows(700).position(|window| window.iter().all(|&b| b == byte)).unwrap() as u64
}

const SEGMENT: [&str; 2] = ["log/0000/000000000001.seg", "log/0001/000000000001.seg"];

#[test]
fn damage_is_told_from_a_torn_tail() {
    // In the middle: later flushes of the same log say how far it was durable.
    let (sim, disk) = two_logs();
    let at = find_record(&disk, SEGMENT[0], 20);
    sim.damage(SEGMENT[0], at, &[0xff]).unwrap();
    let Err(Error::Corrupt { detail, .. }) = examine_all(&disk) else { panic!("taken") };
    assert!(detail.contains(SEGMENT[0]) && detail.contains("byte"), "{detail}");

    // At the very end: only the other log knows.
    let (sim, disk) = two_logs();
    let at = find_record(&disk, SEGMENT[1], 39);
    sim.damage(SEGMENT[1], at, &[0xff]).unwrap();
    let Err(Error::Corrupt { detail, .. }) = examine_all(&disk) else { panic!("taken") };
    assert!(detail.contains(SEGMENT[1]) && detail.contains("home 0"), "{detail}");

    // The last flush of all: nobody can tell it from one that was torn.
    let (sim, disk) = two_logs();
    let at = find_record(&disk, SEGMENT[0], 40);
    sim.damage(SEGMENT[0], at, &[0xff]).unwrap();
    let examined = examine_all(&disk).unwrap();
    assert_eq!(examined.cuts[0].cts, Cts(38));
    assert_eq!(examined.cuts[1].cts, Cts(39));

    // ... unless the log was concluded: then a flush without records says so.
    let (sim, disk) = two_logs_concluded();
    let at = find_record(&disk, SEGMENT[0], 40);
    let examined = examine_all(&disk).unwrap();
    assert_eq!([examined.cuts[0].cts, examined.cuts[1].cts], [Cts(40), Cts(39)]);
    sim.damage(SEGMENT[0], at, &[0xff]).unwrap();
    let Err(Error::Corrupt { detail, .. }) = examine_all(&disk) else { panic!("taken") };
    assert!(detail.contains(SEGMENT[0]) && detail.contains("byte"), "{detail}");

    // The header of a segment in use.
    let (sim, disk) = two_logs();
    sim.damage(SEGMENT[0], 30, &[0xff]).unwrap();
    assert!(matches!(examine_all(&disk), Err(Error::Corrupt { .. })));
}

#[test]
fn damage_within_a_cut_of_an_earlier_life_is_found_when_it_is_read() {
    let (sim, disk) = two_logs();
    let examined = examine_all(&disk).unwrap();
    examined.begin(&disk, 2, 0, Leftovers::All).unwrap();
    let at = find_record(&disk, SEGMENT[0], 20);
    sim.damage(SEGMENT[0], at, &[0xff]).unwrap();
    let examined = examine_all(&disk).unwrap();
    let mut reader = examined.reader(&disk, HomeId(0)).unwrap();
    let failed = loop {
        match reader.advance() {
            Ok(true) => {}
            other => break other,
        }
    };
    let Err(Error::Corrupt { detail, .. }) = failed else { panic!("{failed:?}") };
    assert!(detail.contains(SEGMENT[0]), "{detail}");
}

#[test]
fn a_manifest_older_than_the_logs_is_refused() {
    let (sim, disk) = two_logs();
    let (manifest, marks) = examine_all(&disk).unwrap().begin(&disk, 2, 0, Leftovers::All).unwrap();
    let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
    home.commit(100, &[], b"in the second life");
    home.settle();
    sim.damage("MANIFEST.2", 20, &[0xff]).unwrap();
    let Err(Error::Corrupt { detail, .. }) = examine_all(&disk) else { panic!("taken") };
    assert!(detail.contains("incarnation 2") && detail.contains("log/0000/"), "{detail}");
}

#[test]
fn records_beyond_a_cut_are_never_read_again() {
    let (sim, disk) = two_logs();
    // The end of log 0 is lost, so what depends on it in log 1 is cut off, though it is valid.
    let (manifest, marks) = examine_all(&disk).unwrap().begin(&disk, 2, 0, Leftovers::All).unwrap();
    let mut homes: Vec<Home> =
        (0..2).map(|home| Home::open(&disk, &manifest, home, SMALL, &marks).unwrap()).collect();
    homes[0].commit(101, &[], b"flushed by nobody");
    homes[1].commit(102, &[Observed { home: HomeId(0), cts: Cts(101) }], b"depends on it");
    homes[1].settle();
    assert_eq!(homes[1].log.stable(), Cts(39), "durable, and not stable");
    drop(homes);
    drop(sim);
    for _ in 0..3 {
        let examined = examine_all(&disk).unwrap();
        let ends: Vec<u64> = examined.cuts.iter().map(|cut| cut.cts.0).collect();
        assert_eq!(ends, [40, 39]);
        assert_eq!(read_all(&disk, &examined, 1).len(), 20);
        assert_eq!(examined.commits_cut, u64::from(examined.manifest.number == 2));
        examined.begin(&disk, 2, 0, Leftovers::All).unwrap();
    }
}

#[test]
fn a_segment_of_another_database_is_refused() {
    let (_, disk) = two_logs();
    let (other_sim, other) = sim(9);
    create(&other, 2, 16384, 0, 77).unwrap();
    other.create_dir("log/0000").unwrap();
    let theirs =
        disk.open(SEGMENT[0], crate::io::OpenHow::Existing, crate::io::Direct::No).unwrap();
    let mut bytes = vec![0; theirs.len().unwrap() as usize];
    theirs.read_at(0, &mut bytes).unwrap();
    let ours =
        other.open(SEGMENT[0], crate::io::OpenHow::CreateNew, crate::io::Direct::No).unwrap();
    ours.write_at(0, &bytes).unwrap();
    let Err(Error::Unusable { detail }) = examine_all(&other) else { panic!("taken") };
    assert!(detail.contains(SEGMENT[0]), "{detail}");
    drop(other_sim);
}
