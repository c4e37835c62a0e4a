//! Deleted rows that only a checkpoint needed go before it ends, table by table (rule 8.3).
//!
//! A checkpoint's S holds undo back until the last leaf of the last tree is copied. What of that
//! costs others most are deleted rows: who takes the first row of a queue meets all that were
//! deleted since. But once the leaves of a table and of all its indexes are copied, nobody reads
//! them as of S again: the checkpoint has *passed* the table, and its deleted rows go.
//!
//! Invariants:
//! - A row goes ahead of its time only if its delete is stable and below the horizon as it would be
//!   without the checkpoint, which has passed its table. So no snapshot is left that sees the row.
//! - Undo is reclaimed in its order as ever, only deletes are visited ahead of it. They are visited
//!   again then, if any other record of their transaction is, and find nothing to do. Key changes
//!   wait: what they leave behind is judged by how far undo has been passed, which is in its order.
//! - A page that is not in memory is asked for, as collection does (`collect`); what was done up to there is remembered, and
//!   whoever goes on may find another checkpoint, or none: then it is from the beginning, or not at all.
//! - Tables with long values are left alone: a change of another column's key has the row's reference in
//!   its record, and reads the value when it is visited, which is after the delete that frees it here.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::super::access::Tables;
use super::super::record::Kind;
use super::{CollectLimit, InstanceVersions, Visits};
use crate::base::{Cts, NeededPage, Stop, TreeId};
use crate::sync::mutant;

/// What the checkpoint that is being made lets go of already.
#[derive(Clone, Debug)]
pub struct Passed {
    /// What could be collected if it held nothing back.
    pub limit: CollectLimit,
    /// Its S: tells it from others.
    pub checkpoint: Cts,
    /// The tables that it has passed; they become more.
    pub tables: Arc<FxHashSet<TreeId>>,
}

/// How far an instance has looked through its ended transactions for the sake of one checkpoint
/// and so many passed tables.
#[derive(Clone, Copy, Default)]
pub(super) struct Ahead {
    checkpoint: Cts,
    tables: usize,
    /// The next one's number in the order in which they ended.
    transaction: u64,
    /// Its next record; 0: its newest.
    record: u64,
    /// Those of its records that are left to be visited when their turn comes.
    left: usize,
}

impl Ahead {
    /// From where to go on: from the beginning when tables were passed since.
    fn of(self, passed: &Passed, oldest: u64) -> Ahead {
        let (checkpoint, tables) = (passed.checkpoint, passed.tables.len());
        if (self.checkpoint, self.tables) == (checkpoint, tables) && self.transaction >= oldest {
            return self;
        }
        Ahead { checkpoint, tables, transaction: oldest, record: 0, left: 0 }
    }

    fn next_transaction(self) -> Ahead {
        Ahead { transaction: self.transaction + 1, record: 0, left: 0, ..self }
    }
}

/// What [`InstanceVersions::reap`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Deletes that were visited.
    pub rows: usize,
    /// Whether the quota ended it: call again soon.
    pub more: bool,
    /// A page without which it does not go on.
    pub needs: Option<NeededPage>,
}

/// How far one transaction's records were gone through.
enum Gone {
    /// To the end.
    Through,
    /// The quota or a busy latch ended it.
    Partly,
}

impl InstanceVersions {
    /// Takes out deleted rows that only a checkpoint holds back which has passed their tables; looks
    /// at about `records_max` records. For who has just collected what may be collected anyway.
    /// Takes leaf latches one at a time; blocks the thread only as [`InstanceVersions::collect`].
    pub fn reap(&self, passed: &Passed, tables: &dyn Tables, records_max: usize) -> Reaped {
        let mut done = Reaped::default();
        let mut ahead = self.ahead.get().of(passed, self.collected());
        let mut left = records_max;
        while let Some((cts, visits)) = self.ended(ahead.transaction)
            && passed.limit.has_passed(cts)
        {
            done.more = left == 0;
            if done.more {
                break;
            }
            left -= 1;
            if visits == Visits::Some
                && let Gone::Partly =
                    self.reap_transaction(&mut ahead, (passed, tables), &mut left, &mut done)
            {
                done.more = left == 0 || done.needs.is_some();
                break;
            }
            ahead = ahead.next_transaction();
        }
        self.ahead.set(ahead);
        done
    }

    fn reap_transaction(
        &self,
        ahead: &mut Ahead,
        (passed, tables): (&Passed, &dyn Tables),
        left: &mut usize,
        done: &mut Reaped,
    ) -> Gone {
        let Some((arena, newest)) = self.records_of(ahead.transaction) else {
            return Gone::Through;
        };
        let mut next = if ahead.record == 0 { newest } else { ahead.record };
        let mut scratch = self.scratch.take();
        let gone = loop {
            if next == 0 {
                if ahead.left == 0 {
                    self.needs_no_visits(ahead.transaction);
                }
                break Gone::Through;
            }
            if *left == 0 {
                break Gone::Partly;
            }
            *left -= 1;
            let record = arena.read(next, &mut scratch.image);
            if record.kind == Kind::Delete
                && (passed.tables.contains(&record.tree) || mutant("checkpoint-passes-too-early"))
                && let Some(table) = tables.table(record.tree)
                && !table.tree.pool().has_longs(record.tree)
            {
                let visited = self.visit_loading(&table, arena.at(next), &record, &mut scratch);
                self.note_alone_in_indexes(&table);
                if let Err(stop) = visited {
                    if let Stop::NeedPage(page) = stop {
                        done.needs = Some(page);
                    }
                    break Gone::Partly;
                }
                done.rows += 1;
            } else {
                ahead.left += usize::from(record.needs_visit());
            }
            next = record.previous;
        };
        ahead.record = next;
        self.scratch.replace(scratch);
        gone
    }
}
