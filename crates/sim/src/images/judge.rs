//! Is everything that clients were told in a crash image that was recovered?
//!
//! Invariants: knows of the recorded server only what its clients noted. Everything is judged as a
//! whole: of a client, exactly the acknowledged transactions are there, all of each, in their
//! order; besides them at most the one that it had asked for, all of it or nothing. An image is
//! read in one snapshot, through the kernel's front door.

use std::collections::{BTreeMap, BTreeSet};

use atoll_kernel::api::{
    Access, ColumnId, Context, Isolation, Result, RowBuffer, Session, TableLockMode,
};
use atoll_kernel::io::SimDisk;

use super::load::{
    ACCOUNTS, BALANCE_FIRST, client_of, client_of_key, mark_count, note_of, pad_of, text_of,
};
use super::note::{Change, Journal, Note};
use crate::checker::Complaint;
use crate::history::TransactionId;
use crate::life::Life;
use crate::tables;

/// What the notes up to some point promise.
#[derive(Default)]
pub struct Promises {
    ready: bool,
    seen: BTreeSet<TransactionId>,
    clients: BTreeMap<u64, Ledger>,
}

/// One client's account of its transactions.
#[derive(Default)]
struct Ledger {
    acknowledged: u64,
    /// Its acknowledged blocks.
    journal: BTreeSet<TransactionId>,
    /// Its rows of `own` after the last acknowledged transaction, with their writers.
    rows: BTreeMap<i64, TransactionId>,
    /// What it has asked for without an answer.
    open: Option<Asked>,
}

struct Asked {
    id: TransactionId,
    journal: Journal,
    changes: Vec<Change>,
}

impl Asked {
    fn apply(&self, rows: &mut BTreeMap<i64, TransactionId>) {
        for change in &self.changes {
            change.old.map(|key| rows.remove(&key));
            rows.extend(change.new.map(|key| (key, self.id)));
        }
    }
}

impl Promises {
    /// Takes the next note in.
    pub fn hear(&mut self, note: &Note) {
        match note {
            Note::Ready => self.ready = true,
            Note::Traffic(_) => {}
            Note::Seen(id) => {
                self.seen.insert(*id);
            }
            Note::Asked { id, journal, changes } => {
                let asked = Asked { id: *id, journal: *journal, changes: changes.clone() };
                self.clients.entry(client_of(*id)).or_default().open = Some(asked);
            }
            Note::Acknowledged(id) => {
                let ledger = self.clients.entry(client_of(*id)).or_default();
                let asked = ledger.open.take().expect("a client asks before it is answered");
                assert_eq!(asked.id, *id, "a client has one transaction at a time");
                ledger.acknowledged += 1;
                asked.apply(&mut ledger.rows);
                if asked.journal == Journal::Kept {
                    ledger.journal.insert(*id);
                }
            }
        }
    }

    fn acknowledged(&self) -> u64 {
        self.clients.values().map(|ledger| ledger.acknowledged).sum()
    }
}

/// What the four tables hold.
#[derive(Clone, Default)]
pub struct Contents {
    /// Balance and writer.
    main: BTreeMap<i64, (i64, TransactionId)>,
    /// Blocks, with their clients.
    journal: BTreeMap<TransactionId, u64>,
    /// Writer, and whose row it overwrote.
    marks: BTreeMap<i64, (TransactionId, TransactionId)>,
    /// Writers of clients' rows.
    own: BTreeMap<i64, TransactionId>,
    /// What is wrong with a row in itself.
    damaged: Option<Complaint>,
}

/// Judges a recovered database; answers how many acknowledgements were found kept.
pub fn judge(
    life: &mut Life,
    disk: &SimDisk,
    promises: &Promises,
) -> std::result::Result<u64, Complaint> {
    let stuck = || "reading does not come to an end".to_owned();
    let found = life.run(disk, 1_000_000, read)?.ok_or_else(stuck)?;
    let found = found.map_err(|error| format!("reading fails: {error:?}"))?;
    life.finish_turns()?;
    let findings = life.database.check().map_err(|error| format!("the check fails: {error:?}"))?;
    if let Some(problem) = findings.problems.first() {
        return Err(format!("the check finds: {problem}"));
    }
    match found {
        Found::Nothing if promises.ready => Err("the tables are lost".to_owned()),
        Found::Nothing => Ok(0),
        Found::Some(name) => Err(format!("{name} is there, another table is not")),
        Found::All(contents) => judge_contents(&contents, promises),
    }
}

enum Found {
    Nothing,
    /// A table is there, another is not.
    Some(&'static str),
    All(Contents),
}

fn read(context: &Context) -> Result<Found> {
    let mut contents = Contents::default();
    let mut there = Vec::new();
    let mut session = Session::new(context.instance());
    let mut transaction = session.begin(context, Isolation::RepeatableRead, Access::ReadOnly)?;
    let mut statement = transaction.statement(&mut session, context)?;
    for (name, columns) in [("main", 4), ("journal", 3), ("marks", 3), ("own", 4)] {
        let found = tables::table(&mut statement, name, TableLockMode::AccessShare)?;
        let Some(found) = found else { continue };
        there.push(name);
        let columns: Vec<ColumnId> = (0..columns).map(ColumnId).collect();
        let mut row = RowBuffer::new();
        let mut cursor = statement.scan(&found, &columns);
        while cursor.next(&mut statement, &mut row)?.is_some() {
            contents.take_in(name, &row);
        }
    }
    Ok(match there.as_slice() {
        [] => Found::Nothing,
        [_, _, _, _] => Found::All(contents),
        [name, ..] => Found::Some(name),
    })
}

impl Contents {
    fn take_in(&mut self, name: &str, row: &RowBuffer) {
        let key = tables::number(row, 0);
        let number = |column| tables::number(row, column);
        let id = |column| TransactionId(number(column).cast_unsigned());
        let mut text = None;
        let twice = match name {
            "main" => {
                text = Some((3, pad_of(key, id(2))));
                self.main.insert(key, (number(1), id(2))).is_some()
            }
            "journal" => {
                let (id, client) = (TransactionId(key.cast_unsigned()), number(1).cast_unsigned());
                text = Some((2, note_of(id)));
                self.journal.insert(id, client).is_some()
            }
            "marks" => self.marks.insert(key, (id(1), id(2))).is_some(),
            _ => {
                if number(1).cast_unsigned() != client_of_key(key) {
                    self.damaged = Some(format!("row {key} has another client's number"));
                }
                text = Some((3, text_of(key, id(2))));
                self.own.insert(key, id(2)).is_some()
            }
        };
        if twice {
            self.damaged = Some(format!("two rows of {name} have key {key}"));
        }
        if text.is_some_and(|(column, text)| row.column(column) != Some(text.as_bytes())) {
            self.damaged = Some(format!("row {key} of {name} is there by half"));
        }
    }
}

fn judge_contents(contents: &Contents, promises: &Promises) -> std::result::Result<u64, Complaint> {
    if let Some(complaint) = &contents.damaged {
        return Err(complaint.clone());
    }
    let sum: i64 = contents.main.values().map(|(balance, _)| balance).sum();
    if sum != ACCOUNTS * BALANCE_FIRST {
        return Err(format!("the balances sum up to {sum}: half a transfer"));
    }
    let mut journals: BTreeMap<u64, BTreeSet<TransactionId>> = BTreeMap::new();
    for (id, client) in &contents.journal {
        if client_of(*id) != *client {
            return Err(format!("transaction {} has another client's number", id.0));
        }
        journals.entry(*client).or_default().insert(*id);
    }
    let mut owns: BTreeMap<u64, BTreeMap<i64, TransactionId>> = BTreeMap::new();
    for (key, writer) in &contents.own {
        owns.entry(client_of_key(*key)).or_default().insert(*key, *writer);
    }
    let none = Ledger::default();
    let clients: BTreeSet<u64> =
        promises.clients.keys().chain(journals.keys()).chain(owns.keys()).copied().collect();
    for client in clients {
        let ledger = promises.clients.get(&client).unwrap_or(&none);
        let journal = journals.remove(&client).unwrap_or_default();
        let rows = owns.remove(&client).unwrap_or_default();
        judge_client(ledger, &journal, &rows).map_err(|it| format!("client {client}: {it}"))?;
    }
    judge_shared(contents, promises)?;
    Ok(promises.acknowledged())
}

/// Exactly what was acknowledged, and perhaps what was asked for, whole.
fn judge_client(
    ledger: &Ledger,
    journal: &BTreeSet<TransactionId>,
    rows: &BTreeMap<i64, TransactionId>,
) -> std::result::Result<(), Complaint> {
    if let Some(lost) = ledger.journal.difference(journal).next() {
        return Err(format!("acknowledged transaction {} is lost", lost.0));
    }
    let kept = ledger.open.as_ref().filter(|asked| asked.journal == Journal::Kept);
    let mut more = journal.difference(&ledger.journal);
    if let Some(odd) = more.find(|id| kept.is_none_or(|asked| asked.id != **id)) {
        return Err(format!("transaction {} is there and was never asked for", odd.0));
    }
    let mut after = ledger.rows.clone();
    if let Some(asked) = &ledger.open {
        asked.apply(&mut after);
    }
    let right = match (&ledger.open, kept) {
        (_, Some(asked)) if journal.contains(&asked.id) => *rows == after,
        (_, Some(_)) | (None, None) => *rows == ledger.rows,
        // It left nothing but its rows: they tell whether it is there.
        (Some(_), None) => *rows == ledger.rows || *rows == after,
    };
    if right {
        return Ok(());
    }
    let odd = |key: &&i64| rows.get(key) != ledger.rows.get(key) && rows.get(key) != after.get(key);
    let key = ledger.rows.keys().chain(rows.keys()).find(odd);
    Err(match key {
        Some(key) => {
            let writer = |rows: &BTreeMap<i64, TransactionId>| rows.get(key).map(|id| id.0);
            let (told, found) = (writer(&ledger.rows), writer(rows));
            format!("row {key} should be of transaction {told:?} and is of {found:?}")
        }
        None => "the transaction that it asked for is there by half".to_owned(),
    })
}

/// What clients share: marks belong to blocks that are there, and nothing rests on a lost one.
fn judge_shared(contents: &Contents, promises: &Promises) -> std::result::Result<(), Complaint> {
    let mut expected = BTreeMap::new();
    for id in contents.journal.keys() {
        let first = id.0.cast_signed() * 8;
        expected.extend((0..mark_count(*id)).map(|at| (first + at, *id)));
    }
    let marks = contents.marks.iter().map(|(key, (writer, _))| (key, writer));
    if !marks.eq(expected.iter()) {
        let found: BTreeSet<i64> = contents.marks.keys().copied().collect();
        let expected = expected.into_keys().collect();
        let odd = found.symmetric_difference(&expected).next().copied().unwrap_or_default();
        return Err(format!("transaction {} is there by half", odd / 8));
    }
    let is_lost = |id: &TransactionId| id.0 != 0 && !contents.journal.contains_key(id);
    if let Some(id) = promises.seen.iter().find(|id| is_lost(id)) {
        return Err(format!("transaction {} is lost, but a client has read its row", id.0));
    }
    let writers = contents.main.values().map(|(_, writer)| *writer);
    let overwritten = contents.marks.values().map(|(_, over)| *over);
    match writers.chain(overwritten).find(is_lost) {
        Some(id) => Err(format!("transaction {} is lost, but what it wrote was built upon", id.0)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: TransactionId = TransactionId(1_000_001);
    const ALONE: TransactionId = TransactionId(1_000_002);

    fn inserts(keys: &[i64]) -> Vec<Change> {
        keys.iter().map(|key| Change { old: None, new: Some(*key) }).collect()
    }

    /// A block with one row that is acknowledged, and two rows and a key change asked for.
    fn told() -> Promises {
        let changes = [inserts(&[1002, 1003]), vec![Change { old: Some(1001), new: Some(1004) }]];
        let mut promises = Promises::default();
        for note in [
            Note::Ready,
            Note::Asked { id: BLOCK, journal: Journal::Kept, changes: inserts(&[1001]) },
            Note::Acknowledged(BLOCK),
            Note::Asked { id: ALONE, journal: Journal::None, changes: changes.concat() },
        ] {
            promises.hear(&note);
        }
        promises
    }

    fn whole() -> Contents {
        let first = BLOCK.0 as i64 * 8;
        let nobody = TransactionId(0);
        Contents {
            main: (0..ACCOUNTS).map(|key| (key, (BALANCE_FIRST, nobody))).collect(),
            journal: BTreeMap::from([(BLOCK, 1)]),
            marks: (0..mark_count(BLOCK)).map(|at| (first + at, (BLOCK, nobody))).collect(),
            own: BTreeMap::from([(1001, BLOCK)]),
            damaged: None,
        }
    }

    fn refused<T>(spoil: impl FnOnce(&mut Contents) -> T) -> String {
        let mut contents = whole();
        spoil(&mut contents);
        judge_contents(&contents, &told()).expect_err("something is missing")
    }

    #[test]
    fn what_was_asked_for_is_there_whole_or_not_at_all() {
        assert_eq!(judge_contents(&whole(), &told()), Ok(1));
        let mut after = whole();
        after.own = BTreeMap::from([(1002, ALONE), (1003, ALONE), (1004, ALONE)]);
        assert_eq!(judge_contents(&after, &told()), Ok(1));
        after.own.remove(&1003);
        assert!(judge_contents(&after, &told()).is_err());
        let mut promises = told();
        promises.hear(&Note::Acknowledged(ALONE));
        assert!(judge_contents(&whole(), &promises).is_err());
    }

    #[test]
    fn what_is_missing_or_too_much_is_noticed() {
        let nobody = TransactionId(0);
        assert!(refused(|it| it.marks.pop_last()).contains("by half"));
        assert!(refused(|it| it.journal.clear()).contains("is lost"));
        assert!(refused(|it| it.own.clear()).contains("by half"));
        assert!(refused(|it| it.own.insert(1001, nobody)).contains("row 1001"));
        assert!(refused(|it| it.own.insert(9001, ALONE)).contains("client 9"));
        let never = TransactionId(1_000_003);
        assert!(refused(|it| it.journal.insert(never, 1)).contains("never asked for"));
        let lost = TransactionId(2_000_007);
        let built_upon = refused(|it| it.main.insert(0, (BALANCE_FIRST, lost)));
        assert!(built_upon.contains("built upon"));
        assert!(refused(|it| it.main.insert(0, (999, nobody))).contains("sum"));
        let mut promises = told();
        promises.hear(&Note::Seen(lost));
        let read = judge_contents(&whole(), &promises).expect_err("a promise to a reader");
        assert!(read.contains("read its row"));
    }
}
