//! Commits over several homes with random dependencies on a disk that crashes anywhere, several
//! lives long: what was reported stable is there, nothing is there without what it depends on,
//! and what is there is exactly what was written.

use std::sync::Arc;

use super::super::manifest::Manifest;
use super::super::*;
use super::*;
use crate::base::{HomeId, Observed};
use crate::io::trace::{Event, Replayer};
use crate::io::{RecordingDisk, SimDisk, SimOptions, Trace};

const TINY: LogOptions = LogOptions {
    segment_bytes: 64 << 10,
    buffer_bytes: 16 << 10,
    flushes_max: 2,
    retention: Retention::Keep,
};

/// What a home was told to write, in order.
#[derive(Default, Clone)]
struct Written {
    commits: Vec<Commit>,
    /// The largest cts that was reported stable.
    stable: u64,
}

#[derive(Clone, PartialEq, Debug)]
struct Commit {
    cts: u64,
    observed: Vec<Observed>,
    payload: Vec<u8>,
}

/// How often rare things happened, over all lives.
#[derive(Default, Debug)]
struct Seen {
    cut: u64,
    lost: u64,
    stable: u64,
    crashed_in_recovery: u64,
    segments: u64,
}

struct World {
    random: fastrand::Rng,
    disk: SimDisk,
    model: Vec<Written>,
    clock: u64,
    seen: Seen,
    about: String,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let homes = random.usize(1..=4);
        let mut options = SimOptions::seeded(random.u64(..));
        options.complete_one_in = random.u64(1..5);
        World {
            disk: SimDisk::new(options),
            model: vec![Written::default(); homes],
            clock: 0,
            seen: Seen::default(),
            about: format!("ATOLL_SEED={seed}"),
            random,
        }
    }

    fn homes(&self) -> u16 {
        self.model.len() as u16
    }

    fn as_disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.disk.clone())
    }

    /// One life: commits, turns, and the machine dies somewhere.
    fn live(&mut self, manifest: &Manifest, marks: &Arc<StableMarks>) {
        if self.random.bool() {
            self.disk.crash_after(self.random.u64(1..1500));
        }
        let disk = self.as_disk();
        let open = |home| Home::open(&disk, manifest, home, TINY, marks);
        let Ok(mut homes) = (0..self.homes()).map(open).collect::<Result<Vec<_>>>() else {
            return;
        };
        for step in 0..self.random.u64(1..400) {
            let home = self.random.usize(..homes.len());
            match self.random.u8(..10) {
                0..=5 => self.commit(home, &homes[home]),
                6 => homes[home].ring.wait(None),
                _ => {
                    let poll = homes[home].turn(step);
                    // Off machines tell nobody anything.
                    if !self.disk.is_off() {
                        self.model[home].stable = poll.stable.0;
                    }
                }
            }
        }
        self.seen.segments += homes.iter().map(|h| h.log.counters().segments).sum::<u64>();
    }

    fn commit(&mut self, home: usize, on: &Home) {
        let size = if self.random.u8(..8) == 0 { 3000 } else { 300 };
        let payload: Vec<u8> = (0..self.random.usize(..size)).map(|_| self.random.u8(..)).collect();
        let Ok(room) = on.log.reserve(payload.len()) else { return };
        let mut observed = Vec::new();
        for (other, written) in self.model.iter().enumerate().filter(|(other, _)| *other != home) {
            let recent = written.commits.len().saturating_sub(6);
            if self.random.u8(..3) == 0
                && let Some(commit) = self.random.choice(&written.commits[recent..])
            {
                observed.push(Observed { home: HomeId(other as u16), cts: Cts(commit.cts) });
            }
        }
        self.clock += self.random.u64(1..5);
        let cts = self.clock;
        on.log.commit(room, Cts(cts), &observed, &[], &payload);
        self.model[home].commits.push(Commit { cts, observed, payload });
    }

    /// Reads everything and compares it with what was written.
    fn check(&mut self, examined: &Examined) {
        let disk = self.as_disk();
        let kept: Vec<_> = (0..self.homes()).map(|home| read_all(&disk, examined, home)).collect();
        let last = |home: usize| kept[home].last().map_or(0, |(cts, _)| *cts);
        for (home, written) in self.model.iter().enumerate() {
            let about = format!("{}, home {home}", self.about);
            let expected = written.commits.iter().map(|c| (c.cts, c.payload.clone()));
            let expected: Vec<_> = expected.take(kept[home].len()).collect();
            assert!(kept[home] == expected, "{about}: a prefix of what was written, unchanged");
            let stable = written.stable;
            let reached = last(home);
            assert!(reached >= stable, "{about}: stable up to {stable}, there up to {reached}");
            for commit in written.commits.iter().take_while(|c| c.cts <= last(home)) {
                for on in &commit.observed {
                    let there = last(usize::from(on.home.0));
                    assert!(there >= on.cts.0, "{about}: {commit:?} without what it observed");
                }
            }
        }
        for (written, kept) in self.model.iter_mut().zip(&kept) {
            self.seen.lost += (written.commits.len() - kept.len()) as u64;
            self.seen.stable += written.stable;
            written.commits.truncate(kept.len());
        }
        self.seen.cut += examined.commits_cut;
        assert!(examined.cts_max.0 <= self.clock, "{}", self.about);
        self.clock = self.clock.max(examined.cts_max.0);
    }

    /// Recovers, dying on the way now and then.
    fn recover(&mut self) -> (Manifest, Arc<StableMarks>) {
        loop {
            let fate = self.random.u64(..);
            let killed = self.random.u8(..3) == 0 && !self.disk.is_off();
            self.disk = if killed { self.disk.kill(fate) } else { self.disk.crash(fate) };
            let disk = self.as_disk();
            let examined = match Manifest::read(disk.as_ref()).unwrap() {
                Some(manifest) => examine(&disk, manifest),
                None => return new_database(&disk, self.homes()),
            };
            let examined = examined.unwrap_or_else(|e| panic!("{}: {e}", self.about));
            self.check(&examined);
            if self.random.u8(..3) == 0 {
                self.disk.crash_after(self.random.u64(1..20));
            }
            match examined.begin(&disk, self.homes(), 0, Leftovers::All) {
                Ok(done) if !self.disk.is_off() => {
                    // What a recovery that has ended has kept is kept for ever.
                    for (written, cut) in self.model.iter_mut().zip(&examined.cuts) {
                        written.stable = cut.cts.0;
                    }
                    return done;
                }
                _ => self.seen.crashed_in_recovery += 1,
            }
        }
    }
}

#[test]
fn what_was_stable_survives_any_crash_and_nothing_without_its_dependencies() {
    let seed = seed();
    let mut seen = Seen::default();
    for round in 0..120 {
        let mut world = World::new(seed.wrapping_add(round));
        for _ in 0..world.random.u8(2..6) {
            let (manifest, marks) = world.recover();
            world.live(&manifest, &marks);
        }
        world.recover();
        seen.cut += world.seen.cut;
        seen.lost += world.seen.lost;
        seen.stable += world.seen.stable;
        seen.crashed_in_recovery += world.seen.crashed_in_recovery;
        seen.segments += world.seen.segments;
    }
    println!("{seen:?}");
    assert!(seen.cut > 0, "no cut shortened a log: {seen:?}");
    assert!(seen.lost > 0 && seen.stable > 0 && seen.crashed_in_recovery > 0, "{seen:?}");
    assert!(seen.segments > 1000, "{seen:?}");
}

/// Writes random commits to two homes on a recorded disk, noting every stable mark.
fn record(seed: u64) -> Vec<Event> {
    let mut random = fastrand::Rng::with_seed(seed);
    let trace = Trace::in_memory();
    let inner = Arc::new(SimDisk::new(SimOptions::seeded(seed)));
    let disk: Arc<dyn Disk> = Arc::new(RecordingDisk::new(inner, trace.clone()));
    let (manifest, marks) = new_database(&disk, 2);
    let mut homes: Vec<Home> =
        (0..2).map(|home| Home::open(&disk, &manifest, home, TINY, &marks).unwrap()).collect();
    let mut told = [0; 2];
    for cts in 1..600u64 {
        let home = random.usize(..2);
        let other = &homes[1 - home].log;
        let observed = Observed { home: HomeId(1 - home as u16), cts: other.last_cts() };
        let observed = if cts % 3 == 0 { vec![observed] } else { vec![] };
        homes[home].commit(cts, &observed, &vec![cts as u8; random.usize(..900)]);
        for (number, home) in homes.iter_mut().enumerate().filter(|_| cts % 5 == 0) {
            let stable = home.turn(cts).stable.0;
            if stable > told[number] {
                told[number] = stable;
                trace.note(&[&[number as u8], &stable.to_le_bytes()[..]].concat());
            }
        }
    }
    assert!(told[0] > 300 && told[1] > 300, "{told:?}");
    Trace::parse(&trace.bytes()).unwrap()
}

#[test]
fn crash_images_of_a_recording_hold_everything_noted_before() {
    let seed = seed();
    let events = record(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut replayer = Replayer::new();
    let mut told = [0u64; 2];
    let mut images = 0;
    for (upto, event) in events.iter().enumerate() {
        if let Event::Note { bytes } = event {
            told[usize::from(bytes[0])] = u64::from_le_bytes(bytes[1..].try_into().unwrap());
        }
        if random.u8(..4) != 0 {
            continue;
        }
        replayer.advance(&events, upto + 1);
        let disk: Arc<dyn Disk> = Arc::new(replayer.image(random.u64(..)));
        let Some(manifest) = Manifest::read(disk.as_ref()).unwrap() else {
            assert_eq!(told, [0; 2]);
            continue;
        };
        let examined = examine(&disk, manifest).unwrap();
        for (home, &told) in told.iter().enumerate() {
            let there = examined.cuts[home].cts.0;
            assert!(there >= told, "seed {seed}, event {upto}: {told} was told, {there} is there");
        }
        images += 1;
    }
    assert!(images > 50, "{images} images of {} events", events.len());
}

/// Rule 7.2: no block that holds bytes of a completed flush is written again.
#[test]
fn no_block_with_a_durable_record_is_written_again() {
    let events = record(7);
    let mut paths = std::collections::HashMap::new();
    let mut flying = std::collections::HashMap::new();
    let mut written = std::collections::HashSet::new();
    let mut flushes = 0;
    for event in &events {
        match event {
            Event::Create { file, name } => {
                paths.insert(*file, name.clone());
            }
            Event::WriteStart { op, file, offset, bytes, durability } => {
                let is_flush =
                    paths[file].ends_with(".seg") && *durability == crate::io::Durability::Durable;
                if !is_flush {
                    continue;
                }
                flushes += 1;
                assert_eq!((offset % 4096, bytes.len() % 4096), (0, 0), "whole blocks");
                let first = offset / 4096;
                let blocks: Vec<_> =
                    (first..first + bytes.len() as u64 / 4096).map(|b| (*file, b)).collect();
                let again = blocks.iter().find(|block| written.contains(*block));
                assert_eq!(again, None, "of {}", paths[file]);
                flying.insert(*op, blocks);
            }
            Event::End { op, .. } => written.extend(flying.remove(op).into_iter().flatten()),
            _ => {}
        }
    }
    assert!(flushes > 20, "{flushes}");
}

/// Two flushes in flight, the first lost, the second kept: also when a segment ends between them.
#[test]
fn a_lost_flush_ends_the_log_wherever_the_next_one_is() {
    let mut ends = std::collections::HashSet::new();
    for settled in 1..24u64 {
        let sim = SimDisk::new(SimOptions::seeded(settled));
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (manifest, marks) = new_database(&disk, 1);
        let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
        for cts in 1..=settled {
            home.commit(cts, &[], &[cts as u8; 7000]);
            home.settle();
        }
        // Time for the next segment to become ready.
        for now in 0..40 {
            home.turn(now);
        }
        for flush in 0..2 {
            for n in 1..3 {
                let cts = settled + flush * 2 + n;
                let room = home.log.reserve(7000).unwrap();
                home.log.commit(room, Cts(cts), &[], &[], &[cts as u8; 7000]);
            }
            home.log.poll(home.ring.as_ref(), Load::IDLE);
        }
        // Either, both or none of the two ends now; what is stable then must survive.
        let stable = home.turn(0).stable.0;
        for seed in 0..24 {
            let disk: Arc<dyn Disk> = Arc::new(sim.crash(seed));
            let examined = examine_all(&disk).unwrap();
            let read = read_all(&disk, &examined, 0);
            let last = read.len() as u64;
            assert!((stable..=settled + 4).contains(&last), "{last} of {settled}, {stable} stable");
            let whole = read
                .iter()
                .zip(1..)
                .all(|((cts, payload), n)| *cts == n && payload.iter().all(|&b| b == n as u8));
            assert!(whole, "a prefix, after {settled} settled, seed {seed}");
            ends.insert(last - settled);
        }
    }
    assert_eq!(ends.len(), 5, "every end is met: {ends:?}");
}
