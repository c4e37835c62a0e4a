//! Judges what a checkpoint holds: exactly the transactions with timestamps below S, each whole.
//!
//! Invariants: as `checker`: shares no code with the kernel, and knows it in the plainest words. Which
//! transactions a checkpoint has is told by its journal, and what its rows must be follows.

use std::collections::{BTreeMap, BTreeSet};

use atoll_kernel::base::Cts;

use crate::checker::Complaint;
use crate::history::{End, History, Row, TransactionId};
use crate::tables::Contents;

/// What is known of the time in which a checkpoint was made.
pub struct Known<'a> {
    /// What happened.
    pub history: &'a History,
    /// The journal at its start.
    pub journal: &'a BTreeSet<TransactionId>,
    /// After a crash: the journal that was found.
    pub survivors: Option<&'a BTreeSet<TransactionId>>,
}

/// Checks a checkpoint as of `s` that was made in the time that is known.
pub fn check((s, contents): (Cts, &Contents), known: &Known<'_>) -> Result<(), Complaint> {
    let wrong = |what: String| Err(format!("the checkpoint as of {s} {what}"));
    if let Some(problem) = contents.problems.first() {
        return wrong(format!("has a problem: {problem}"));
    }
    let journal = &contents.journal;
    let of_now = |id: &&TransactionId| known.history.transactions.contains_key(id);
    if let Some(id) = known.journal.difference(journal).next() {
        return wrong(format!("lacks transaction {} of an earlier life", id.0));
    }
    if let Some(id) = journal.difference(known.journal).find(|id| !of_now(id)) {
        return wrong(format!("has transaction {}, which nobody knows", id.0));
    }
    for (id, transaction) in &known.history.transactions {
        let has = journal.contains(id);
        let wrote = transaction.kept().next().is_some();
        let survived = known.survivors.is_none_or(|survivors| survivors.contains(id));
        let must_have = match transaction.end {
            End::Committed(Some(cts)) | End::Acknowledged(Some(cts)) => {
                wrote && cts < s && survived
            }
            // Its client never heard which, or it is told of those that have ended only.
            End::Asked if survived => has,
            _ => false,
        };
        if has != must_have {
            let end = transaction.end;
            return wrong(format!("has transaction {} or not: {has}, which is {end:?}", id.0));
        }
    }
    let expected = rows(known.history, journal);
    let found = &contents.rows;
    let differs = expected.keys().chain(found.keys()).find(|it| expected.get(it) != found.get(it));
    match differs {
        None => Ok(()),
        Some(key) => {
            let (found, expected) = (found.get(key), expected.get(key));
            wrong(format!("has key {key} as {found:?}, not {expected:?}"))
        }
    }
}

/// The rows that these transactions leave.
fn rows(history: &History, journal: &BTreeSet<TransactionId>) -> BTreeMap<i64, Row> {
    let mut rows = history.base.clone();
    let has = |id: &TransactionId| journal.contains(id);
    let all = history.transactions.iter().filter(|(id, _)| has(id));
    let mut writes: Vec<_> = all.flat_map(|(_, transaction)| transaction.kept()).collect();
    writes.sort_by_key(|write| write.step);
    for write in writes {
        match &write.row {
            Some(row) => drop(rows.insert(write.key, row.clone())),
            None => drop(rows.remove(&write.key)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(balance: i64, writer: u64) -> Row {
        Row { balance, group: 0, writer: TransactionId(writer) }
    }

    /// Key 1 is written by transactions 1 (at 100), 2 (at 200), and 3, which was asked for.
    fn history() -> History {
        let mut history = History::starting_with(BTreeMap::from([(1, row(0, 0))]));
        for (id, end) in [
            (1, End::Acknowledged(Some(Cts(100)))),
            (2, End::Committed(Some(Cts(200)))),
            (3, End::Asked),
            (4, End::RolledBack),
        ] {
            let before = row(id as i64 - 1, id - 1);
            let name = TransactionId(id);
            history.begin(name);
            history.wrote(name, 1, Some(before), Some(row(id as i64, id)));
            history.of(name).end = end;
        }
        history
    }

    #[test]
    fn it_has_all_below_s_and_nothing_else() {
        let (history, journal) = (history(), BTreeSet::from([TransactionId(0)]));
        let judge = |s: u64, ids: &[u64], found: u64, survivors: Option<&[u64]>| {
            let set = |ids: &[u64]| ids.iter().map(|id| TransactionId(*id)).collect();
            let contents = Contents {
                rows: BTreeMap::from([(1, row(found as i64, found))]),
                journal: set(ids),
                problems: Vec::new(),
            };
            let survivors: Option<BTreeSet<TransactionId>> = survivors.map(set);
            let survivors = survivors.as_ref();
            let known = Known { history: &history, journal: &journal, survivors };
            check((Cts(s), &contents), &known)
        };
        assert_eq!(judge(100, &[0], 0, None), Ok(()));
        assert_eq!(judge(101, &[0, 1], 1, None), Ok(()));
        assert_eq!(judge(201, &[0, 1, 2], 2, None), Ok(()));
        assert_eq!(judge(300, &[0, 1, 2, 3], 3, None), Ok(()));
        assert_eq!(judge(201, &[0, 1, 2], 2, Some(&[0, 1, 2])), Ok(()));
        assert!(judge(200, &[0, 1, 2], 2, None).is_err(), "S is not below itself");
        assert!(judge(201, &[0, 1], 1, None).is_err(), "one is missing");
        assert!(judge(101, &[0, 1], 0, None).is_err(), "by half");
        assert!(judge(101, &[1], 1, None).is_err(), "earlier lives count");
        assert!(judge(300, &[0, 1, 2, 4], 4, None).is_err(), "it was rolled back");
        assert!(judge(101, &[0, 1, 9], 1, None).is_err(), "nobody knows it");
        assert!(judge(300, &[0, 1, 2, 3], 3, Some(&[0, 1, 2])).is_err(), "it did not survive");
    }
}
