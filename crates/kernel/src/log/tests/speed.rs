//! How fast commits are written and read: printed, never judged (issue 2, "Figures").
//!
//! `cargo test --profile quick -p atoll-kernel log::tests::speed -- --nocapture`

use std::sync::Arc;
use std::time::Instant;

use super::super::*;
use super::*;
use crate::base::{Cts, HomeId};
use crate::io::{IoChoice, MemoryDisk, RealDisk};

#[test]
fn commits_are_written_and_read() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(IoChoice::Threads));
    let (manifest, marks) = new_database(&disk, 1);
    let options = LogOptions { segment_bytes: 16 << 20, ..LogOptions::default() };
    let mut home = Home::open(&disk, &manifest, 0, options, &marks).unwrap();
    // Tiny in test builds, so that it never rots and never takes long.
    let commits = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let payload = [5; 120];
    let start = Instant::now();
    for cts in 1..=commits {
        home.commit(cts, &[], &payload);
        if cts % 32 == 0 {
            home.turn(cts);
        }
    }
    home.settle();
    let written = start.elapsed();
    let start = Instant::now();
    let examined = examine_all(&disk).unwrap();
    let scanned = start.elapsed();
    let start = Instant::now();
    let mut reader = examined.reader(&disk, HomeId(0)).unwrap();
    let (mut records, mut bytes) = (0, 0);
    while reader.advance().unwrap() {
        records += 1;
        bytes += reader.current().payload.len();
    }
    let read = start.elapsed();
    assert_eq!((records, bytes), (commits, commits as usize * payload.len()));
    assert_eq!(examined.cuts[0].cts, Cts(commits));
    let rate = |time: std::time::Duration| commits as f64 / time.as_secs_f64() / 1e6;
    println!(
        "{commits} commits: written {:.2}, scanned {:.2}, read {:.2} million a second; {:?}",
        rate(written),
        rate(scanned),
        rate(read),
        home.log.counters()
    );
}

#[test]
fn flushes_on_a_real_disk() {
    for choice in [IoChoice::Auto, IoChoice::Threads] {
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path(), choice).unwrap());
        let (manifest, marks) = new_database(&disk, 1);
        let options = LogOptions { segment_bytes: 8 << 20, ..LogOptions::default() };
        let start = Instant::now();
        let mut home = Home::open(&disk, &manifest, 0, options, &marks).unwrap();
        let opened = start.elapsed();
        let flushes = if cfg!(debug_assertions) { 20 } else { 1000 };
        let mut times = Vec::new();
        for cts in 1..=flushes {
            let start = Instant::now();
            home.commit(cts, &[], &[5; 200]);
            home.settle();
            times.push(start.elapsed().as_micros());
        }
        times.sort_unstable();
        let (median, slow) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!(
            "{}: opened in {} ms; a flush takes {median} us, 99 of 100 take {slow} us",
            disk.kind(),
            opened.as_millis()
        );
        assert_eq!(home.log.stable(), Cts(flushes));
    }
}
