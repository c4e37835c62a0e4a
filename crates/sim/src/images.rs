//! Power loss: a real database is recorded under load, and what a power cut at any point of the
//! recording would have left is recovered and judged.
//!
//! A transaction moves money between two rows of `main`, leaves 1 to 4 rows in `marks`, each with
//! the transaction whose row it overwrote, and one row in `journal`. Its client notes in the
//! recording that it was told of the commit, or that it rolled back.
//!
//! Invariants: the recorded database runs on real threads and a real disk; judging takes nothing
//! from it but the recording. An image holds what was durable, and of the rest what its seed left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_kernel::api::{
    Access, Context, Database, Error, InstanceId, Instances, Isolation, KeyBytes, Options, Parker,
    Result, RowBuffer, Session, Statement, TableLockMode, Target, WriteOutcome,
};
use atoll_kernel::io::trace::{Event, Replayer};
use atoll_kernel::io::{Disk, IoChoice, RealDisk, RecordingDisk, Seeded, SimTime, Trace};

use crate::checker::Complaint;
use crate::history::{Row, TransactionId};
use crate::life::{Life, options};
use crate::tables::{self, ALL, BALANCE, Grouped, PAD, WRITER, bytes, row_of};

/// Rows of `main`.
const ACCOUNTS: i64 = 60;
/// What each begins with.
const BALANCE_FIRST: i64 = 1000;
/// Clients of each instance.
const CLIENTS: u64 = 6;

/// What to record and how often to crash it.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Crash images to make.
    pub images: u64,
    /// How long the load runs.
    pub time: Duration,
    /// Instances of the recorded database.
    pub instances: u16,
    /// Decides the clients' choices, the points and what survives there.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Images in which all was well.
    pub passed: u64,
    /// Others.
    pub failed: u64,
    /// Events in the recording.
    pub events: u64,
    /// Commits that clients were told of, over the whole recording.
    pub acknowledged: u64,
    /// Acknowledgements looked for and found, summed over all images.
    pub verified: u64,
    /// Images in which the cut left durable commits out.
    pub shortened: u64,
}

/// What a client says in the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Note {
    /// The tables are there.
    Ready,
    /// This transaction is committed and will never be lost.
    Acknowledged(u64),
    /// This one was rolled back.
    RolledBack(u64),
}

impl Note {
    fn write(self, trace: &Trace) {
        let (tag, id) = match self {
            Note::Ready => (1, 0),
            Note::Acknowledged(id) => (2, id),
            Note::RolledBack(id) => (3, id),
        };
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&u64::to_le_bytes(id));
        trace.note(&bytes);
    }

    fn read(bytes: &[u8]) -> Option<Note> {
        let (tag, id) = bytes.split_first()?;
        let id = u64::from_le_bytes(id.try_into().ok()?);
        match tag {
            1 => Some(Note::Ready),
            2 => Some(Note::Acknowledged(id)),
            3 => Some(Note::RolledBack(id)),
            _ => None,
        }
    }
}

/// Records, then judges images on all cores; `say` gets lines for people.
pub fn run(
    setting: &Setting,
    directory: &Path,
    say: &(dyn Fn(&str) + Sync),
) -> std::result::Result<Summary, Complaint> {
    let trace = Trace::in_memory();
    record(setting, directory, &trace).map_err(|error| format!("recording failed: {error}"))?;
    let events = Trace::parse(&trace.bytes()).map_err(|error| format!("{error}"))?;
    let notes: Vec<(usize, Note)> = events
        .iter()
        .enumerate()
        .filter_map(|(at, event)| match event {
            Event::Note { bytes } => Some((at, Note::read(bytes)?)),
            _ => None,
        })
        .collect();
    let told = |(_, note): &&(usize, Note)| matches!(note, Note::Acknowledged(_));
    let acknowledged = notes.iter().filter(told).count() as u64;
    say(&format!("recorded {} events, {acknowledged} acknowledged commits", events.len()));
    let mut summary = judge_all(setting, &events, &notes, say);
    summary.events = events.len() as u64;
    summary.acknowledged = acknowledged;
    Ok(summary)
}

// ── Recording ──────────────────────────────────────────────────────────────────────────────────

fn record(setting: &Setting, directory: &Path, trace: &Arc<Trace>) -> Result<()> {
    let real = Arc::new(RealDisk::open(directory, IoChoice::Auto)?);
    let disk: Arc<dyn Disk> = Arc::new(RecordingDisk::new(real, trace.clone()));
    let options = Options {
        instances: Instances::Count(setting.instances),
        buffer_pool_bytes: 64 << 20,
        undo_bytes: 32 << 20,
        log_segment_bytes: 1 << 20,
        log_buffer_bytes: 64 << 10,
        deadlock_timeout_ms: 5,
        ..Options::default()
    };
    let database = Database::open_on(disk, options, &mut |_| ())?;
    database.run(Target::Any, make_tables)??;
    Note::Ready.write(trace);
    let until = Instant::now() + setting.time;
    let mut seeds = Seeded::new(setting.seed);
    let clients: Vec<(u64, InstanceId, u64)> = (0..CLIENTS * u64::from(setting.instances))
        .map(|number| {
            let instance = InstanceId((number % u64::from(setting.instances)) as u16);
            (number + 1, instance, seeds.next_u64())
        })
        .collect();
    let ended: Vec<Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .map(|(number, instance, seed)| {
                let database = &database;
                scope.spawn(move || {
                    database.run(Target::Instance(*instance), |context| {
                        client(context, trace, (*number, *seed), until)
                    })?
                })
            })
            .collect();
        let panicked = || Err(Error::Internal { detail: "a client panicked".to_owned() });
        threads.into_iter().map(|it| it.join().unwrap_or_else(|_| panicked())).collect()
    });
    ended.into_iter().collect::<Result<()>>()?;
    database.close()
}

fn make_tables(context: &Context) -> Result<()> {
    let mut session = Session::new(context.instance());
    let mut transaction = session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
    let mut statement = transaction.statement(&mut session, context)?;
    for name in ["main", "journal", "marks"] {
        tables::make(&mut statement, name, Grouped::No)?;
    }
    let main = tables::table(&mut statement, "main", TableLockMode::RowExclusive)?;
    let main = main.ok_or(Error::CatalogChanged)?;
    let row = Row { balance: BALANCE_FIRST, group: 0, writer: TransactionId(0) };
    (0..ACCOUNTS).try_for_each(|key| tables::insert(&mut statement, &main, key, &row))?;
    drop(statement);
    transaction.commit(&mut session, context)?;
    session.settle(context)
}

/// Transactions until the time is up; every one is noted when its client is told.
fn client(
    context: &Context,
    trace: &Trace,
    (number, seed): (u64, u64),
    until: Instant,
) -> Result<()> {
    let mut random = Seeded::new(seed);
    let mut session = Session::new(context.instance());
    let mut id = number * 1_000_000;
    while Instant::now() < until {
        id += 1;
        let isolation =
            if random.one_in(2) { Isolation::ReadCommitted } else { Isolation::RepeatableRead };
        let mut transaction = session.begin(context, isolation, Access::ReadWrite)?;
        let mut statement = transaction.statement(&mut session, context)?;
        let worked = work(&mut statement, &mut random, TransactionId(id));
        drop(statement);
        match worked {
            Ok(()) if !random.one_in(10) => {
                transaction.commit(&mut session, context)?;
                session.settle(context)?;
                Note::Acknowledged(id).write(trace);
            }
            Ok(()) | Err(Error::SerializationFailure { .. } | Error::Deadlock { .. }) => {
                transaction.rollback(&mut session);
                session.settle(context)?;
                Note::RolledBack(id).write(trace);
            }
            Err(error) => return Err(error),
        }
        // So that a recording of some seconds can be recovered a thousand times in a minute.
        context.park(Some(context.now_ns() + 1_000_000 + random.below(10_000_000)));
    }
    Ok(())
}

fn work(statement: &mut Statement<'_>, random: &mut Seeded, id: TransactionId) -> Result<()> {
    let amount = random.below(50) as i64;
    let from = random.below(ACCOUNTS as u64) as i64;
    let to = (from + 1 + random.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
    let mut overwritten = TransactionId(0);
    for (key, amount) in [(from, -amount), (to, amount)] {
        overwritten = pay(statement, key, amount, id)?;
    }
    let marks = tables::table(statement, "marks", TableLockMode::RowExclusive)?;
    let marks = marks.ok_or(Error::CatalogChanged)?;
    for number in 0..mark_count(id) {
        let row = Row { balance: overwritten.0 as i64, group: number, writer: id };
        tables::insert(statement, &marks, id.0 as i64 * 8 + number, &row)?;
    }
    let journal = tables::table(statement, "journal", TableLockMode::RowExclusive)?;
    let journal = journal.ok_or(Error::CatalogChanged)?;
    let row = Row { balance: 0, group: 0, writer: id };
    tables::insert(statement, &journal, id.0 as i64, &row)
}

/// How many rows a transaction leaves in `marks`.
fn mark_count(id: TransactionId) -> i64 {
    1 + (id.0 % 4) as i64
}

/// Adds to an account; answers whose version it replaced.
fn pay(
    statement: &mut Statement<'_>,
    key: i64,
    amount: i64,
    id: TransactionId,
) -> Result<TransactionId> {
    let main = tables::table(statement, "main", TableLockMode::RowExclusive)?;
    let main = main.ok_or(Error::CatalogChanged)?;
    let index = tables::index(&main, "_pkey").ok_or(Error::CatalogChanged)?;
    let mut buffer = RowBuffer::new();
    let encoded = KeyBytes::encode(index, &[Some(&bytes(key))]);
    let missing = || Error::Internal { detail: format!("account {key} is not there") };
    let at = statement.index_point(&main, index, &encoded, &ALL, &mut buffer)?;
    let at = at.ok_or_else(missing)?;
    loop {
        let (_, row) = row_of(&buffer);
        let (balance, writer) = (bytes(row.balance + amount), bytes(id.0 as i64));
        let new = Row { balance: row.balance + amount, writer: id, ..row };
        let pad = tables::pad(&new);
        let changes = [
            (BALANCE, Some(balance.as_slice())),
            (WRITER, Some(writer.as_slice())),
            (PAD, Some(pad.as_slice())),
        ];
        match statement.update(&main, at, &changes)? {
            WriteOutcome::Done => return Ok(row.writer),
            WriteOutcome::Changed => {
                statement.get_newest(&main, at, &ALL, &mut buffer)?;
            }
            WriteOutcome::Gone | WriteOutcome::DoneByThisCommand => return Err(missing()),
        }
    }
}

// ── Judging ────────────────────────────────────────────────────────────────────────────────────

fn judge_all(
    setting: &Setting,
    events: &[Event],
    notes: &[(usize, Note)],
    say: &(dyn Fn(&str) + Sync),
) -> Summary {
    let points = points(setting, events.len());
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = points.len().div_ceil(workers).max(1);
    let parts: Vec<Summary> = std::thread::scope(|scope| {
        let threads: Vec<_> = points
            .chunks(share)
            .map(|points| scope.spawn(move || judge_some(points, events, notes, say)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Summary { failed: 1, ..Summary::default() }))
            .collect()
    });
    parts.into_iter().fold(Summary::default(), |sum, part| Summary {
        passed: sum.passed + part.passed,
        failed: sum.failed + part.failed,
        verified: sum.verified + part.verified,
        shortened: sum.shortened + part.shortened,
        ..sum
    })
}

/// Where to crash, ascending, and the seed of what survives there.
fn points(setting: &Setting, events: usize) -> Vec<(usize, u64)> {
    let mut random = Seeded::new(setting.seed ^ 0x5eed);
    let mut points: Vec<(usize, u64)> = (0..setting.images)
        .map(|_| (1 + random.below(events.max(1) as u64) as usize, random.next_u64()))
        .collect();
    points.sort_unstable();
    points
}

fn judge_some(
    points: &[(usize, u64)],
    events: &[Event],
    notes: &[(usize, Note)],
    say: &(dyn Fn(&str) + Sync),
) -> Summary {
    let mut summary = Summary::default();
    let mut replayer = Replayer::new();
    for (done, (point, seed)) in points.iter().enumerate() {
        replayer.advance(events, *point);
        let told = &notes[..notes.partition_point(|(at, _)| at < point)];
        match judge(&replayer, *seed, told) {
            Ok((verified, shortened)) => {
                summary.passed += 1;
                summary.verified += verified;
                summary.shortened += u64::from(shortened);
            }
            Err(complaint) => {
                summary.failed += 1;
                say(&format!("image after {point} events, seed {seed}: {complaint}"));
            }
        }
        if (done + 1) % 100 == 0 {
            say(&format!("{} of {} images on one core", done + 1, points.len()));
        }
    }
    summary
}

/// Recovers one image; answers how many acknowledgements were found kept, and whether the cut
/// left anything out.
fn judge(
    replayer: &Replayer,
    seed: u64,
    told: &[(usize, Note)],
) -> std::result::Result<(u64, bool), Complaint> {
    let disk = replayer.image(seed);
    let options = Options { buffer_pool_bytes: 64 << 20, ..options(1 + (seed % 3) as u16) };
    let mut life = Life::open(&disk, &SimTime::new(1_000_000), options, seed)
        .map_err(|error| format!("it does not open: {error:?}"))?;
    let shortened = life.database.recovery().commits_cut > 0;
    let judged = judge_life(&mut life, &disk, told);
    match life.finish_turns() {
        Ok(()) => life.end(),
        Err(_) => life.abandon(),
    }
    judged.map(|verified| (verified, shortened))
}

fn judge_life(
    life: &mut Life,
    disk: &atoll_kernel::io::SimDisk,
    told: &[(usize, Note)],
) -> std::result::Result<u64, Complaint> {
    let stuck = || "reading does not come to an end".to_owned();
    let tables = life.run(disk, 1_000_000, read_tables)?.ok_or_else(stuck)?;
    let tables = tables.map_err(|error| format!("reading fails: {error:?}"))?;
    life.finish_turns()?;
    let findings = life.database.check().map_err(|error| format!("the check fails: {error:?}"))?;
    if let Some(problem) = findings.problems.first() {
        return Err(format!("the check finds: {problem}"));
    }
    let ready = told.iter().any(|(_, note)| *note == Note::Ready);
    match tables {
        None if ready => Err("the tables are lost".to_owned()),
        None => Ok(0),
        Some(tables) => judge_rows(&tables, told),
    }
}

struct Tables {
    main: BTreeMap<i64, Row>,
    journal: BTreeMap<i64, Row>,
    marks: BTreeMap<i64, Row>,
}

/// Reads the three tables in one snapshot. None if they are not there.
fn read_tables(context: &Context) -> Result<Option<Tables>> {
    let mut session = Session::new(context.instance());
    let mut transaction = session.begin(context, Isolation::RepeatableRead, Access::ReadOnly)?;
    let mut statement = transaction.statement(&mut session, context)?;
    let mut all = Vec::new();
    for name in ["main", "journal", "marks"] {
        let found = tables::table(&mut statement, name, TableLockMode::AccessShare)?;
        let Some(found) = found else { return Ok(None) };
        let (mut buffer, mut rows) = (RowBuffer::new(), BTreeMap::new());
        let mut cursor = statement.scan(&found, &ALL);
        while cursor.next(&mut statement, &mut buffer)?.is_some() {
            let (key, row) = row_of(&buffer);
            rows.insert(key, row);
        }
        all.push(rows);
    }
    let [main, journal, marks] =
        <[BTreeMap<i64, Row>; 3]>::try_from(all).expect("three tables were read");
    Ok(Some(Tables { main, journal, marks }))
}

fn judge_rows(tables: &Tables, told: &[(usize, Note)]) -> std::result::Result<u64, Complaint> {
    let sum: i64 = tables.main.values().map(|row| row.balance).sum();
    if sum != ACCOUNTS * BALANCE_FIRST {
        return Err(format!("the balances sum up to {sum}: half a transfer"));
    }
    let mut verified = 0;
    for (_, note) in told {
        match note {
            Note::Acknowledged(id) if !tables.journal.contains_key(&(*id as i64)) => {
                return Err(format!("acknowledged transaction {id} is lost"));
            }
            Note::Acknowledged(_) => verified += 1,
            Note::RolledBack(id) if tables.journal.contains_key(&(*id as i64)) => {
                return Err(format!("transaction {id} was rolled back and is there"));
            }
            Note::RolledBack(_) | Note::Ready => {}
        }
    }
    let mut expected = BTreeSet::new();
    for id in tables.journal.keys() {
        expected.extend((0..mark_count(TransactionId(*id as u64))).map(|number| id * 8 + number));
    }
    if !tables.marks.keys().eq(expected.iter()) {
        let found: BTreeSet<i64> = tables.marks.keys().copied().collect();
        let odd = expected.symmetric_difference(&found).next().copied().unwrap_or_default();
        return Err(format!("transaction {} is there by half", odd / 8));
    }
    let writers = tables.main.values().map(|row| row.writer.0 as i64);
    let overwritten = tables.marks.values().map(|row| row.balance);
    let is_lost = |id: &i64| *id != 0 && !tables.journal.contains_key(id);
    match writers.chain(overwritten).find(is_lost) {
        Some(id) => Err(format!("transaction {id} is lost, but what it wrote was built upon")),
        None => Ok(verified),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_a_short_recording_recover() {
        let directory = tempfile::tempdir().expect("a place for a database");
        let setting =
            Setting { images: 12, time: Duration::from_millis(300), instances: 2, seed: 1 };
        let summary = run(&setting, directory.path(), &|_| ()).expect("it can be recorded");
        assert_eq!((summary.passed, summary.failed), (12, 0));
        assert!(summary.acknowledged > 0 && summary.verified > 0, "{summary:?}");
    }

    #[test]
    fn what_is_missing_is_noticed() {
        let id = TransactionId(1_000_001);
        let key = id.0 as i64;
        let row = |balance, writer| Row { balance, group: 0, writer: TransactionId(writer) };
        let whole = || Tables {
            main: (0..ACCOUNTS).map(|key| (key, row(BALANCE_FIRST, 0))).collect(),
            journal: BTreeMap::from([(key, row(0, id.0))]),
            marks: (0..mark_count(id)).map(|at| (key * 8 + at, row(0, id.0))).collect(),
        };
        let told = [(0, Note::Ready), (1, Note::Acknowledged(id.0))];
        assert_eq!(judge_rows(&whole(), &told), Ok(1));
        let mut half = whole();
        half.marks.pop_last();
        assert!(judge_rows(&half, &told).is_err());
        let mut lost = whole();
        (lost.journal, lost.marks) = (BTreeMap::new(), BTreeMap::new());
        assert!(judge_rows(&lost, &told).is_err());
        let mut built_upon = whole();
        built_upon.main.insert(0, row(BALANCE_FIRST, 7));
        assert!(judge_rows(&built_upon, &told).is_err());
        assert!(judge_rows(&whole(), &[(0, Note::RolledBack(id.0))]).is_err());
    }
}
