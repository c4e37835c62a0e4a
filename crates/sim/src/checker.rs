//! Judges a history: are reads consistent with their snapshots, and is what a crash left exactly
//! the work of whole transactions, with everything that was acknowledged?
//!
//! Invariants: the checker shares no code with the kernel but the timestamp type; it is the
//! specification in the plainest words (a map of keys to versions).

use std::collections::{BTreeMap, BTreeSet};

use atoll_kernel::base::Cts;

use crate::history::{End, History, Read, Row, Transaction, TransactionId, Write};

/// What is wrong, as one line.
pub type Complaint = String;

struct Version<'a> {
    cts: Option<Cts>,
    step: u64,
    writer: TransactionId,
    row: Option<&'a Row>,
}

/// The versions of every key by transactions that are, or may be, committed, in order.
struct Versions<'a> {
    base: &'a BTreeMap<i64, Row>,
    of: BTreeMap<i64, Vec<Version<'a>>>,
    writers: BTreeSet<TransactionId>,
}

/// What a snapshot has for a key: the row, and who wrote (or deleted) it since the start.
struct AtSnapshot<'a> {
    row: Option<&'a Row>,
    writer: Option<TransactionId>,
}

impl<'a> Versions<'a> {
    fn of(history: &'a History) -> Versions<'a> {
        let mut of: BTreeMap<i64, Vec<Version<'a>>> = BTreeMap::new();
        let mut writers = BTreeSet::new();
        for (id, transaction) in &history.transactions {
            let cts = match transaction.end {
                End::Committed(cts) | End::Acknowledged(cts) => cts,
                End::Asked => None,
                End::Open | End::RolledBack => continue,
            };
            writers.insert(*id);
            for write in transaction.kept() {
                let version =
                    Version { cts, step: write.step, writer: *id, row: write.row.as_ref() };
                of.entry(write.key).or_default().push(version);
            }
        }
        for versions in of.values_mut() {
            versions.sort_by_key(|version| version.step);
        }
        Versions { base: &history.base, of, writers }
    }

    /// What `snapshot` has for `key`; none if a transaction whose timestamp the client never
    /// learnt wrote the key, so that both answers are right.
    fn at(&self, key: i64, snapshot: Cts) -> Option<AtSnapshot<'a>> {
        let mut found = AtSnapshot { row: self.base.get(&key), writer: None };
        for version in self.of.get(&key).into_iter().flatten() {
            match version.cts {
                None => return None,
                Some(cts) if cts < snapshot => {
                    found = AtSnapshot { row: version.row, writer: Some(version.writer) };
                }
                Some(_) => {}
            }
        }
        Some(found)
    }
}

/// Checks that every change was made to the newest version there was: nobody's update was lost,
/// and nobody changed what was not committed.
pub fn check_changes(history: &History) -> Result<(), Complaint> {
    enum Weight {
        Certain,
        Unknown,
        Void,
    }
    let mut of: BTreeMap<i64, Vec<(&Write, TransactionId, Weight)>> = BTreeMap::new();
    for (id, transaction) in &history.transactions {
        for write in &transaction.writes {
            let weight = match transaction.end {
                End::Committed(_) | End::Acknowledged(_) => Weight::Certain,
                End::Asked => Weight::Unknown,
                End::Open | End::RolledBack => Weight::Void,
            };
            of.entry(write.key).or_default().push((write, *id, weight));
        }
    }
    for (key, mut writes) in of {
        writes.sort_by_key(|(write, ..)| write.step);
        let mut newest = vec![history.base.get(&key)];
        // What the transaction that is changing the key has made of it, change by change.
        let mut changing: Vec<(&Write, TransactionId, Weight)> = Vec::new();
        for (write, id, weight) in writes {
            let replaced = write.replaced.as_ref();
            // What was undone by now never was.
            changing.retain(|(it, ..)| it.undone.is_none_or(|undone| undone.step > write.step));
            if changing.last().is_some_and(|(_, writer, _)| *writer != id)
                && let Some((last, _, weight)) = changing.drain(..).next_back()
            {
                match weight {
                    Weight::Certain => newest = vec![last.row.as_ref()],
                    Weight::Unknown => newest.push(last.row.as_ref()),
                    Weight::Void => {}
                }
            }
            let own = changing.last().map(|(last, ..)| vec![last.row.as_ref()]);
            let expected = own.unwrap_or_else(|| newest.clone());
            if !expected.contains(&replaced) {
                return Err(format!(
                    "transaction {} changed key {key} when it was {replaced:?}; the newest \
                     version was one of {expected:?}",
                    id.0
                ));
            }
            changing.push((write, id, weight));
        }
    }
    Ok(())
}

/// Checks every read of every transaction, and that versions of a key have growing timestamps.
pub fn check_reads(history: &History) -> Result<usize, Complaint> {
    let versions = Versions::of(history);
    for (key, versions) in &versions.of {
        let known: Vec<Cts> = versions.iter().filter_map(|version| version.cts).collect();
        let distinct: BTreeSet<(u64, TransactionId)> =
            versions.iter().filter_map(|version| Some((version.cts?.0, version.writer))).collect();
        if known.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(format!(
                "key {key}: timestamps do not follow the order of writes: {distinct:?}"
            ));
        }
    }
    let mut checked = 0;
    for (id, transaction) in &history.transactions {
        for at in 0..transaction.reads.len() {
            check_read(&versions, *id, transaction, at)?;
            checked += 1;
        }
    }
    Ok(checked)
}

fn check_read(
    versions: &Versions<'_>,
    id: TransactionId,
    transaction: &Transaction,
    at: usize,
) -> Result<(), Complaint> {
    let read = &transaction.reads[at];
    let mut own: BTreeMap<i64, Option<&Row>> = BTreeMap::new();
    for write in transaction.own_at(at) {
        own.insert(write.key, write.row.as_ref());
    }
    let mut keys: BTreeSet<i64> = versions.base.keys().copied().collect();
    keys.extend(versions.of.keys());
    keys.extend(own.keys());
    keys.extend(read.found.keys());
    for key in keys.into_iter().filter(|key| read.keys.contains(key)) {
        let snapshot = versions.at(key, read.snapshot);
        let visible = snapshot.as_ref().and_then(|at| at.row);
        let expected = match (own.get(&key), &snapshot) {
            (Some(row), _) => *row,
            (None, Some(at)) => at.row,
            (None, None) => continue,
        };
        let fits = |row: Option<&'_ Row>| {
            let row = row.filter(|row| read.group.is_none_or(|group| row.group == group));
            row == read.found.get(&key)
        };
        // Its own new row stands beside the one that its snapshot still has.
        let first = transaction.own_at(at).find(|write| write.key == key);
        let doubled = first.is_some_and(|write| write.replaced.is_none());
        if doubled && (fits(visible) || snapshot.is_none()) {
            continue;
        }
        let found = read.found.get(&key);
        if !fits(expected) {
            let own: Vec<&Write> = transaction.writes.iter().filter(|it| it.key == key).collect();
            return Err(format!(
                "transaction {} read key {key} at snapshot {} (group {:?}): found {found:?}, \
                 expected {expected:?}; it had made {} of its changes, {own:?}; its snapshot has \
                 {visible:?}",
                id.0, read.snapshot, read.group, read.own_writes
            ));
        }
    }
    Ok(())
}

/// What a recovery left, and what it must be.
pub struct Recovered<'a> {
    /// All rows by key.
    pub rows: &'a BTreeMap<i64, Row>,
    /// The transactions whose journal row is there.
    pub survivors: &'a BTreeSet<TransactionId>,
}

/// Checks what a crash left: whole transactions only, everything acknowledged, closed under
/// "read or overwrote the work of".
pub fn check_recovery(history: &History, after: &Recovered<'_>) -> Result<(), Complaint> {
    let writes_of = |it: &Transaction| it.kept().next().is_some();
    let versions = Versions::of(history);
    for (id, transaction) in &history.transactions {
        let survived = after.survivors.contains(id);
        match transaction.end {
            End::Acknowledged(_) if writes_of(transaction) && !survived => {
                return Err(format!("acknowledged transaction {} is lost", id.0));
            }
            End::RolledBack | End::Open if survived => {
                return Err(format!("transaction {} was never committed and is there", id.0));
            }
            _ => {}
        }
        let counts = survived || matches!(transaction.end, End::Acknowledged(_));
        let reads = if counts { transaction.reads.len() } else { transaction.told };
        check_closed(&versions, after, *id, &transaction.reads[..reads])?;
        let lost = transaction.seen.iter().find(|writer| {
            history.transactions.contains_key(writer) && !after.survivors.contains(writer)
        });
        if let (true, Some(writer)) = (counts, lost) {
            return Err(format!(
                "transaction {} counts, but {} whose row it locked or replaced is lost",
                id.0, writer.0
            ));
        }
    }
    let mut expected = history.base.clone();
    for key in written_keys(history) {
        let newest = history
            .transactions
            .iter()
            .filter(|(id, _)| after.survivors.contains(id))
            .flat_map(|(_, transaction)| transaction.kept())
            .filter(|write| write.key == key)
            .max_by_key(|write| write.step);
        match newest.map(|write| write.row.clone()) {
            Some(Some(row)) => drop(expected.insert(key, row)),
            Some(None) => drop(expected.remove(&key)),
            None => {}
        }
    }
    if expected != *after.rows {
        let differs = expected
            .keys()
            .chain(after.rows.keys())
            .find(|key| expected.get(key) != after.rows.get(key));
        let key = differs.copied().unwrap_or_default();
        return Err(format!(
            "after recovery key {key} is {:?}, expected {:?}",
            after.rows.get(&key),
            expected.get(&key)
        ));
    }
    Ok(())
}

/// Everything that these reads of a transaction met must have survived: rows found, and for reads
/// by key also what made rows absent.
fn check_closed(
    versions: &Versions<'_>,
    after: &Recovered<'_>,
    id: TransactionId,
    reads: &[Read],
) -> Result<(), Complaint> {
    for read in reads {
        let mut met: BTreeSet<TransactionId> = read.found.values().map(|row| row.writer).collect();
        met.retain(|writer| versions.writers.contains(writer));
        if read.group.is_none() {
            let absent = versions.of.range(read.keys.clone()).map(|(key, _)| *key);
            let absent = absent.filter(|key| !read.found.contains_key(key));
            met.extend(absent.filter_map(|key| versions.at(key, read.snapshot)?.writer));
        }
        met.remove(&id);
        if let Some(writer) = met.iter().find(|writer| !after.survivors.contains(writer)) {
            return Err(format!(
                "transaction {} counts, but {} is lost, and it had read its work at snapshot {}",
                id.0, writer.0, read.snapshot
            ));
        }
    }
    Ok(())
}

fn written_keys(history: &History) -> BTreeSet<i64> {
    let writes = history.transactions.values().flat_map(|transaction| &transaction.writes);
    writes.map(|write| write.key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(balance: i64, writer: u64) -> Row {
        Row { balance, group: 0, writer: TransactionId(writer) }
    }

    fn history() -> History {
        let mut history =
            History::starting_with(BTreeMap::from([(1, row(10, 0)), (2, row(20, 0))]));
        let id = TransactionId(1);
        history.begin(id);
        history.wrote(id, 1, Some(row(10, 0)), Some(row(5, 1)));
        history.wrote(id, 2, Some(row(20, 0)), None);
        history.of(id).end = End::Acknowledged(Some(Cts(100)));
        history
    }

    fn read(snapshot: u64, found: &[(i64, Row)]) -> Read {
        Read {
            own_writes: 0,
            snapshot: Cts(snapshot),
            keys: 0..=9,
            group: None,
            found: found.iter().cloned().collect(),
        }
    }

    fn with_read(read: Read) -> History {
        let mut history = history();
        history.begin(TransactionId(2));
        history.of(TransactionId(2)).reads.push(read);
        history
    }

    #[test]
    fn a_snapshot_sees_commits_strictly_below_it() {
        let before = [(1, row(10, 0)), (2, row(20, 0))];
        let after = [(1, row(5, 1))];
        assert!(check_reads(&with_read(read(100, &before))).is_ok());
        assert!(check_reads(&with_read(read(101, &after))).is_ok());
        assert!(check_reads(&with_read(read(101, &before))).is_err());
        assert!(check_reads(&with_read(read(100, &after))).is_err());
        let half = [(1, row(5, 1)), (2, row(20, 0))];
        assert!(check_reads(&with_read(read(101, &half))).is_err());
    }

    #[test]
    fn a_recovery_may_lose_nothing_acknowledged_and_nothing_by_half() {
        let history = history();
        let survivors = BTreeSet::from([TransactionId(1)]);
        let judge = |rows: &[(i64, Row)], survivors: &BTreeSet<TransactionId>| {
            let rows = rows.iter().cloned().collect();
            check_recovery(&history, &Recovered { rows: &rows, survivors })
        };
        assert!(judge(&[(1, row(5, 1))], &survivors).is_ok());
        assert!(judge(&[(1, row(5, 1)), (2, row(20, 0))], &survivors).is_err(), "half");
        assert!(judge(&[(1, row(10, 0)), (2, row(20, 0))], &BTreeSet::new()).is_err(), "lost");
    }

    #[test]
    fn a_rolled_back_transaction_may_not_be_there() {
        let mut history = history();
        history.of(TransactionId(1)).end = End::RolledBack;
        let rows = BTreeMap::from([(1, row(5, 1))]);
        let survivors = BTreeSet::from([TransactionId(1)]);
        assert!(
            check_recovery(&history, &Recovered { rows: &rows, survivors: &survivors }).is_err()
        );
    }

    #[test]
    fn an_update_of_an_old_version_is_a_lost_update() {
        let mut history = history();
        assert_eq!(check_changes(&history), Ok(()));
        let id = TransactionId(2);
        history.begin(id);
        history.wrote(id, 1, Some(row(10, 0)), Some(row(11, 2)));
        assert!(check_changes(&history).is_err());
    }

    #[test]
    fn what_was_undone_is_seen_by_nobody_later() {
        let mut history = history();
        let id = TransactionId(2);
        history.begin(id);
        history.wrote(id, 1, Some(row(5, 1)), Some(row(6, 2)));
        let own = |history: &mut History, found: i64, writer: u64| {
            let read = Read { own_writes: 1, ..read(101, &[(1, row(found, writer))]) };
            history.of(id).reads.push(read);
        };
        own(&mut history, 6, 2);
        history.undo(id, 0);
        own(&mut history, 5, 1);
        history.wrote(id, 1, Some(row(5, 1)), Some(row(7, 2)));
        history.of(id).end = End::Acknowledged(Some(Cts(200)));
        assert_eq!(check_changes(&history), Ok(()));
        assert_eq!(check_reads(&history), Ok(2));
        let survivors = BTreeSet::from([TransactionId(1), id]);
        let judge = |found: i64| {
            let rows = BTreeMap::from([(1, row(found, 2))]);
            check_recovery(&history, &Recovered { rows: &rows, survivors: &survivors })
        };
        assert_eq!(judge(7), Ok(()));
        assert!(judge(6).is_err());
        own(&mut history, 6, 2);
        assert!(check_reads(&history).is_err());
    }

    #[test]
    fn what_was_told_must_survive() {
        let mut history = history();
        history.of(TransactionId(1)).end = End::Committed(Some(Cts(100)));
        let id = TransactionId(2);
        history.begin(id);
        history.read(id, read(101, &[(1, row(5, 1))]));
        let base = history.base.clone();
        let lost = |history: &History| {
            check_recovery(history, &Recovered { rows: &base, survivors: &BTreeSet::new() })
        };
        assert_eq!(lost(&history), Ok(()));
        history.tell(id);
        assert!(lost(&history).is_err());
    }
}
