//! One simulation: lives of one database after another, each ended by a crash, each judged.
//!
//! Invariants: the seed decides everything; the same setting gives the same [`Outcome`], digest
//! included. A simulation ends at the first complaint.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use atoll_kernel::api::{Database, Error, Options};
use atoll_kernel::base::{Cts, PAGE_BYTES};
use atoll_kernel::io::{Fault, FaultOn, Seeded, SimDisk, SimOptions, SimTime};
use atoll_kernel::runtime::Processor;

use crate::as_of::{self, Known};
use crate::checker::{Complaint, Recovered, check_changes, check_reads, check_recovery};
use crate::clients::{Clients, checkpoints, client};
use crate::counters::Counters;
use crate::cut;
use crate::damage::damage_a_log;
use crate::history::{Digest, Row, TransactionId};
use crate::life::{Life, options};
use crate::tables::{self, Contents, GROUPS, MAIN_KEYS, Names};

/// What to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Decides everything.
    pub seed: u64,
    /// Steps of instances, over all lives.
    pub steps: u64,
    /// Instances at most; each life has 1 to so many.
    pub instances_max: u16,
    /// Crashes at most; every life after them ends in peace.
    pub crashes_max: u64,
}

/// Undo is given to transactions by so many bytes.
const UNDO_UNIT: u64 = 16 << 10;
/// So many of those are little for one instance.
const UNDO_LITTLE: u64 = 4;

impl Default for Setting {
    fn default() -> Setting {
        Setting { seed: 1, steps: 60_000, instances_max: 4, crashes_max: u64::MAX }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was met.
    pub counters: Counters,
    /// Tells this run from any other.
    pub digest: Digest,
    /// What is wrong, if anything.
    pub complaint: Option<Complaint>,
}

/// Runs a simulation.
pub fn simulate(setting: &Setting) -> Outcome {
    let mut run = Run::new(setting);
    let complaint = run.lives().err();
    Outcome { counters: run.counters, digest: run.digest, complaint }
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The machine loses power at an operation of the disk.
    PowerCut,
    /// The process is killed between two steps; the operating system keeps what was written.
    Kill,
    /// A write or sync of a log fails.
    Failure,
    /// Clients end, everything is told, then the power goes.
    Quiet,
}

/// S of the newest checkpoint, and what it holds if that was read.
type Newest = Option<(Cts, Option<Contents>)>;

struct Run {
    setting: Setting,
    random: Seeded,
    disk: SimDisk,
    time: SimTime,
    counters: Counters,
    digest: Digest,
    steps_left: u64,
    crashes: u64,
    /// The next transaction's name.
    next: u64,
    /// What the database must hold, once its tables have been made.
    rows: Option<BTreeMap<i64, Row>>,
    /// The transactions in its journal then.
    journal: BTreeSet<TransactionId>,
    /// What the newest checkpoint held when it was last looked at.
    image: Newest,
    /// Values of sequences that must not come again.
    used: BTreeSet<(usize, i64)>,
    /// Clients whose work the next recovery will be judged by.
    pending: Option<Rc<Clients>>,
    instances: u16,
    /// The process was killed; the machine went on.
    killed: bool,
}

impl Run {
    fn new(setting: &Setting) -> Run {
        let mut random = Seeded::new(setting.seed);
        let disk = SimDisk::new(SimOptions {
            complete_one_in: 1 + random.below(20),
            ..SimOptions::seeded(random.next_u64())
        });
        Run {
            setting: *setting,
            random,
            disk,
            time: SimTime::new(1_000_000),
            counters: Counters::default(),
            digest: Digest::default(),
            steps_left: setting.steps,
            crashes: 0,
            next: if setting.seed.is_multiple_of(2) { 1 } else { tables::WITHOUT_LONGS },
            rows: None,
            journal: BTreeSet::new(),
            image: None,
            used: BTreeSet::new(),
            pending: None,
            instances: 0,
            killed: false,
        }
    }

    fn lives(&mut self) -> Result<(), Complaint> {
        loop {
            let last = self.steps_left == 0;
            let mut life = self.start()?;
            let lived = self.live(&mut life).and_then(|lived| {
                if self.killed || self.disk.is_off() {
                    life.crashed();
                }
                life.finish_turns()?;
                self.look_back()?;
                Ok(lived)
            });
            self.digest.word(life.digest.0);
            life.count(&mut self.counters);
            match lived {
                Ok(lived) => {
                    life.end();
                    if last && lived == Lived::Judged {
                        return Ok(());
                    }
                }
                Err(complaint) => {
                    life.abandon();
                    return Err(complaint);
                }
            }
            self.crash();
        }
    }

    /// Whether the seed may crash it now.
    fn may_crash(&self) -> bool {
        self.crashes < self.setting.crashes_max
    }

    /// Goes on with the disk that the next life finds.
    fn crash(&mut self) {
        self.disk.heal();
        self.disk.set_bytes_max(None);
        self.crashes += 1;
        self.counters.add("crash behind a cut", u64::from(self.disk.has_cuts()));
        if std::mem::take(&mut self.killed) {
            return;
        }
        self.disk = self.disk.crash(self.random.next_u64());
    }

    /// Opens the database, crashing on the way as often as the seed likes.
    fn start(&mut self) -> Result<Life, Complaint> {
        let instances = 1 + self.random.below(u64::from(self.setting.instances_max)) as u16;
        if self.instances != 0 && self.instances != instances {
            self.counters.add("instances changed", 1);
        }
        self.instances = instances;
        let mut again = 0;
        loop {
            let expected = cut::expected(&self.disk)
                .map_err(|error| format!("the logs cannot be read: {error:?}"))?;
            if self.random.one_in(4)
                && let Some(what) = damage_a_log(&self.disk, &mut self.random)?
            {
                self.counters.add(what, 1);
            }
            if self.may_crash() && self.random.one_in(3) {
                self.disk.crash_after(1 + self.random.below(80));
            }
            let seed = self.random.next_u64();
            let options = self.options(instances, expected.as_ref().map_or(0, |it| it.homes()));
            match Life::open(&self.disk, &self.time, options, seed) {
                Ok(life) => {
                    if let Some(expected) = expected.filter(|_| !self.disk.is_off()) {
                        cut::check(&self.disk, &expected)?;
                    }
                    let report = life.database.recovery();
                    self.counters.add("log shortened by the cut", report.commits_cut.min(1));
                    self.counters.add("commits replayed", report.commits);
                    self.counters.add("recovered from a checkpoint", report.pages.min(1));
                    self.digest.word(report.commits);
                    return Ok(life);
                }
                Err(_) if self.disk.is_off() => {
                    self.counters.add("crash during recovery", 1);
                    self.counters.add("crash during the recovery of a recovery", again);
                    again = 1;
                    self.crash();
                }
                Err(Error::OutOfMemory { .. }) => {
                    self.counters.add("too little memory to start", 1);
                    self.disk = self.disk.crash(self.random.next_u64());
                }
                Err(error) => return Err(format!("it does not open: {error:?}")),
            }
        }
    }

    /// What the seed likes, for a database that has so many homes already.
    fn options(&mut self, instances: u16, homes: u64) -> Options {
        let mut options = options(instances);
        if self.random.one_in(2) {
            // Leaves come and go.
            let kib = (homes.max(u64::from(instances)) * (288 + self.random.below(300))).max(1000);
            options.buffer_pool_bytes = kib << 10;
        }
        if self.random.one_in(3) {
            options.checkpoint_interval_ms = 1 + self.random.below(10);
        }
        if self.random.one_in(3) {
            options.checkpoint_wal_bytes = 4096 << self.random.below(6);
        }
        if self.random.one_in(2) {
            // Flushes wait for open transactions.
            options.runtime.processor = Processor::Short;
        }
        // Indexes are copied when they are due, or at once, as small ones are.
        options.checkpoint_at_once_bytes = u64::from(self.random.one_in(3)) << 30;
        if self.random.one_in(2) {
            // A few pages, so that files that have become too long are met.
            options.page_extent_bytes = (PAGE_BYTES as u64) << self.random.below(4);
        }
        if self.random.one_in(4) {
            // Undo for a few transactions: the limit is met, and snapshots are ended for it.
            let each = (UNDO_LITTLE + self.random.below(UNDO_LITTLE)) * UNDO_UNIT;
            options.undo_bytes = each * u64::from(instances);
        }
        options
    }

    /// One life from its opening to its end.
    fn live(&mut self, life: &mut Life) -> Result<Lived, Complaint> {
        let prepared = life.run(&self.disk, 100_000, Database::prepare)?;
        if self.answer(life, prepared, "preparing")?.is_none() {
            return Ok(Lived::Barely);
        }
        let contents = life.run(&self.disk, 100_000, tables::read_all)?;
        let Some(contents) = self.answer(life, contents, "reading")? else {
            return Ok(Lived::Barely);
        };
        let image = life.run(&self.disk, 100_000, tables::read_newest)?;
        let Some(image) = self.answer(life, image, "reading the newest checkpoint")? else {
            return Ok(Lived::Barely);
        };
        life.finish_turns()?;
        self.judge_image(image, &contents)?;
        self.judge(&life.database, &contents)?;
        self.journal = contents.journal;
        if contents.rows.is_empty() && self.rows.is_none() {
            let made = first_rows();
            let names = if self.setting.seed & 2 == 0 { Names::Long } else { Names::None };
            let made = life.run(&self.disk, 200_000, move |c| tables::make_all(c, &made, names))?;
            if self.answer(life, made, "making tables")?.is_none() {
                return Ok(Lived::Judged);
            }
            self.rows = Some(first_rows());
        } else {
            self.rows = Some(contents.rows);
        }
        if self.steps_left > 0 && !self.disk.is_off() {
            let base = self.rows.clone().unwrap_or_default();
            let clients =
                Rc::new(Clients::new(base, self.used.clone(), self.next, self.disk.clone()));
            self.pending = Some(clients.clone());
            self.load(life, &clients)?;
        }
        Ok(Lived::Judged)
    }

    /// What a task answered; none if the machine went off meanwhile.
    fn answer<T>(
        &self,
        life: &Life,
        answer: Option<Result<T, Error>>,
        what: &str,
    ) -> Result<Option<T>, Complaint> {
        match answer {
            Some(Ok(value)) => Ok(Some(value)),
            _ if self.disk.is_off() => Ok(None),
            // Its pool is as small as can be: the next life's may be larger.
            Some(Err(Error::OutOfMemory { .. })) => Ok(None),
            Some(Err(error)) => Err(format!("{what} failed: {error:?}")),
            None => {
                let why = life.database.failure().unwrap_or_default();
                Err(format!("{what} does not come to an end {why}"))
            }
        }
    }

    /// Judges what the newest checkpoint holds after a recovery.
    fn judge_image(&mut self, image: Newest, found: &Contents) -> Result<(), Complaint> {
        let Some((timestamp, contents)) = image else {
            return match &self.image {
                None => Ok(()),
                Some((timestamp, _)) => Err(format!("the checkpoint as of {timestamp} is gone")),
            };
        };
        let Some(contents) = contents else {
            // Too little memory. If it is known what it holds, that is remembered.
            let known = self.image.take().filter(|known| known.0 == timestamp);
            self.image = Some(known.unwrap_or((timestamp, None)));
            return Ok(());
        };
        match (&self.image, &self.pending) {
            (Some((known, before)), _) if *known == timestamp => {
                if before.as_ref().is_some_and(|before| *before != contents) {
                    return Err(format!("a checkpoint was {before:?} and is {contents:?}"));
                }
                self.counters.add("checkpoint of an earlier life read again", 1);
            }
            (_, Some(clients)) => {
                let history = &clients.history.borrow();
                let survivors = Some(&found.journal);
                let known = Known { history, journal: &self.journal, survivors };
                let judged = as_of::check((timestamp, &contents), &known);
                judged.map_err(|what| format!("after recovery {what}"))?;
                self.counters.add("newest checkpoint judged after a crash", 1);
            }
            // Nobody has done anything.
            (_, None) if contents != *found => {
                return Err(format!("a checkpoint is {contents:?}, the database {found:?}"));
            }
            (_, None) => {}
        }
        self.image = Some((timestamp, Some(contents)));
        Ok(())
    }

    /// Judges what a recovery left.
    fn judge(&mut self, database: &Database, contents: &Contents) -> Result<(), Complaint> {
        if let Some(problem) = contents.problems.first() {
            return Err(format!("after recovery: {problem}"));
        }
        let findings = database.check().map_err(|error| format!("the check fails: {error:?}"))?;
        if let Some(problem) = findings.problems.first() {
            return Err(format!("the check finds: {problem}"));
        }
        self.counters.add("rows checked", findings.rows);
        if let Some(clients) = self.pending.take() {
            let recovered = Recovered { rows: &contents.rows, survivors: &contents.journal };
            check_recovery(&clients.history.borrow(), &recovered)?;
            self.used.extend(clients.history.borrow().used(&contents.journal));
            self.counters.add("recovery judged", 1);
            return Ok(());
        }
        let first = first_rows();
        let expected = self.rows.as_ref().unwrap_or(&first);
        let may_be_empty = self.rows.is_none() && contents.rows.is_empty();
        if contents.rows != *expected && !may_be_empty {
            return Err(format!("rows changed by themselves: {:?}, {expected:?}", contents.rows));
        }
        Ok(())
    }

    /// Clients at work, until the life's end.
    fn load(&mut self, life: &mut Life, clients: &Rc<Clients>) -> Result<(), Complaint> {
        for instance in 0..life.instances() {
            for _ in 0..1 + self.random.below(4) {
                let (shared, seed) = (clients.clone(), self.random.next_u64());
                clients.running.set(clients.running.get() + 1);
                life.spawn(instance, Box::new(move |context| client(context, &shared, seed)));
            }
        }
        if self.random.one_in(2) {
            // Sometimes two of them, on one instance or two: one waits for the other.
            for _ in 0..1 + self.random.below(2) {
                let at = self.random.below(life.instances() as u64) as usize;
                let (shared, seed) = (clients.clone(), self.random.next_u64());
                clients.running.set(clients.running.get() + 1);
                life.spawn(at, Box::new(move |context| checkpoints(context, &shared, seed)));
            }
        }
        life.interleave();
        let steps = (1000 + self.random.below(15_000)).min(self.steps_left);
        let ending = self.ending();
        let full = self.random.one_in(4).then(|| self.random.below(steps));
        for step in 0..steps {
            if full == Some(step) {
                let room = self.random.below(600 << 10);
                self.disk.set_bytes_max(Some(self.disk.bytes_used() + room));
            }
            if full.is_some_and(|full| full + 3000 == step) {
                self.disk.set_bytes_max(None);
            }
            life.step()?;
            self.steps_left -= 1;
            if let Some(complaint) = clients.complaints.borrow().first() {
                return Err(complaint.clone());
            }
            if self.disk.is_off() || life.database.failure().is_some() {
                break;
            }
        }
        self.close(life, clients, ending)
    }

    /// How this life is to end.
    fn ending(&mut self) -> Ending {
        if !self.may_crash() {
            return Ending::Quiet;
        }
        match self.random.below(10) {
            0 => Ending::Quiet,
            1..3 => Ending::Kill,
            3 => self.failure(FaultOn::Write),
            4 => self.failure(FaultOn::Sync),
            _ => {
                self.disk.crash_after(1 + self.random.below(800));
                Ending::PowerCut
            }
        }
    }

    fn failure(&mut self, on: FaultOn) -> Ending {
        let (after, times) = (self.random.below(100), 1 + self.random.below(3));
        let name_contains = if self.random.one_in(3) { "pages" } else { "log" };
        self.disk.inject(Fault { on, name_contains, after, times, errno: EIO });
        Ending::Failure
    }

    fn close(
        &mut self,
        life: &mut Life,
        clients: &Rc<Clients>,
        ending: Ending,
    ) -> Result<(), Complaint> {
        if life.database.failure().is_some() && !self.disk.is_off() {
            self.counters.add("disk failed", 1);
            return Ok(());
        }
        self.disk.set_bytes_max(None);
        match ending {
            _ if self.disk.is_off() => self.counters.add("power cut", 1),
            Ending::PowerCut => self.counters.add("power cut", 1),
            Ending::Kill => {
                self.counters.add("process killed", 1);
                self.killed = true;
                self.disk = self.disk.kill(self.random.next_u64());
            }
            Ending::Quiet | Ending::Failure => {
                self.disk.heal();
                self.counters.add("peace", 1);
                life.calm();
                clients.stop.set(true);
                for _ in 0..400_000 {
                    if clients.running.get() == 0 {
                        return Ok(());
                    }
                    life.step()?;
                    // A power cut that was to come during recovery, which was over sooner.
                    if self.disk.is_off() {
                        self.counters.add("power cut", 1);
                        return Ok(());
                    }
                    // An operation that had failed before the disk healed was heard of only now.
                    if life.database.failure().is_some() {
                        self.counters.add("disk failed", 1);
                        return Ok(());
                    }
                }
                let waits = life.database.describe_waits().join("; ");
                let open = clients.history.borrow().unfinished().join("; ");
                let running = clients.running.get();
                return Err(format!("{running} clients wait for ever: {waits}; {open}"));
            }
        }
        Ok(())
    }

    /// What clients saw, against the model.
    fn look_back(&mut self) -> Result<(), Complaint> {
        let Some(clients) = &self.pending else { return Ok(()) };
        if let Some(complaint) = clients.complaints.borrow().first() {
            return Err(complaint.clone());
        }
        // Names go on from the last that was given; clients begin some while turns are finished.
        self.next = clients.next.get();
        let history = clients.history.borrow();
        self.digest.word(history.digest().0);
        // Taken, because a life that ended before it was judged is looked back at again.
        self.counters.merge(&clients.counters.take());
        for (timestamp, contents) in &*clients.images.borrow() {
            let known = Known { history: &history, journal: &self.journal, survivors: None };
            as_of::check((*timestamp, contents), &known)?;
            self.counters.add("checkpoint judged as a whole", 1);
        }
        self.counters.add("reads checked", check_reads(&history)? as u64);
        check_changes(&history)
    }
}

/// How far a life came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lived {
    /// It ended before what it found was judged.
    Barely,
    /// What it found was judged, and perhaps more was done.
    Judged,
}

/// The first rows of `main`.
fn first_rows() -> BTreeMap<i64, Row> {
    let row = |key| Row { balance: 1000, group: key % GROUPS, writer: TransactionId(0) };
    (0..MAIN_KEYS / 2).map(|key| (key * 2, row(key))).collect()
}

/// The error number of a failed operation.
const EIO: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_exactly() {
        let setting = Setting { seed: 3, steps: 8_000, ..Setting::default() };
        let (first, second) = (simulate(&setting), simulate(&setting));
        assert_eq!(first.complaint, None);
        assert_eq!(first, second);
        let other = simulate(&Setting { seed: 4, ..setting });
        assert_eq!(other.complaint, None);
        assert_ne!(first.digest, other.digest);
        assert!(first.counters.get("recovery judged") > 0, "{:?}", first.counters);
    }

    #[test]
    fn a_database_that_never_crashes_ends_in_peace() {
        let setting = Setting { seed: 5, steps: 4_000, instances_max: 2, crashes_max: 0 };
        let outcome = simulate(&setting);
        assert_eq!(outcome.complaint, None);
        assert!(outcome.counters.get("peace") > 0, "{:?}", outcome.counters);
        assert_eq!(outcome.counters.get("power cut"), 0);
        assert_eq!(outcome.counters.get("process killed"), 0);
    }
}
