//! Building an index whole, from the rows of its table: for CREATE INDEX and for recovery.
//!
//! Recovery gives it threads: each reads parts of the table, the leaves below one inner node each, and
//! sorts what it has read; one merges.
//!
//! Invariants: the caller keeps others from changing the table (an ACCESS EXCLUSIVE lock, or
//! recovery), so that every row in place that is not deleted is the newest version and counts; rows
//! are read leaf by leaf through the tree's own optimistic reads. Holds no latch between leaves.

mod keys;
mod merge;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use keys::{Differing, Run};

use crate::base::{Error, HomeId, Outcome, Result, RowId, TreeId};
use crate::buffer::{BufferPool, until_done};
use crate::page::rowleaf::{RowState, SlotIndex};
use crate::sync::in_parallel;
use crate::tree::index::{Exact, IndexBuilder, IndexTree};
use crate::tree::key::{KeyPart, encode_key};
use crate::tree::table::{LeafView, TableTree};
use crate::version::{Unique, append_key_column};

/// What index to build.
pub struct IndexPlan<'a> {
    /// The table's rows.
    pub table: &'a TableTree,
    /// Its key columns, as positions in the table.
    pub columns: &'a [u16],
    /// How they are encoded.
    pub parts: &'a [KeyPart],
    /// Whether two rows may have the same key.
    pub unique: Unique,
    /// The new tree's number.
    pub tree: TreeId,
    /// Whose pages it gets.
    pub home: HomeId,
    /// Whether no row of the table has undo, so that the index answers for its rows (rule 5.7).
    pub exact: Exact,
}

/// Builds the index. Errors: `UniqueViolation` with the index's tree, `OutOfMemory` (no page is
/// kept), `KeyTooLong`. `breathe` is called between leaves; it may wait or fail.
pub fn build_index(
    pool: &Arc<BufferPool>,
    plan: &IndexPlan<'_>,
    breathe: &mut dyn FnMut() -> Result<()>,
) -> Result<IndexTree> {
    let mut run = Run::default();
    let all = Part { from: RowId(0), to: None };
    collect(plan, all, &mut run, breathe)?;
    run.sort(&run.differing());
    load(pool, plan, &[run])
}

/// As [`build_index`], by so many threads at once, which are blocked while they load pages.
pub fn build_index_by(
    pool: &Arc<BufferPool>,
    plan: &IndexPlan<'_>,
    threads: usize,
) -> Result<IndexTree> {
    let parts = Mutex::new(Some(RowId(0)));
    let mut runs = in_parallel((0..threads).map(|_| {
        || {
            let mut run = Run::default();
            while let Some(part) = take_part(plan.table, &parts)? {
                collect(plan, part, &mut run, &mut || Ok(()))?;
            }
            let differing = run.differing();
            Ok((run, differing))
        }
    }))?;
    let no_keys = Differing::default();
    let differing = runs.iter().fold(no_keys, |all, (_, differing)| all.and(differing));
    let differing = &differing;
    in_parallel(runs.iter_mut().map(|(run, _)| {
        move || {
            run.sort(differing);
            Ok(())
        }
    }))?;
    let runs: Vec<Run> = runs.into_iter().map(|(run, _)| run).collect();
    load(pool, plan, &runs)
}

/// The index of sorted runs.
fn load(pool: &Arc<BufferPool>, plan: &IndexPlan<'_>, runs: &[Run]) -> Result<IndexTree> {
    let mut builder = IndexBuilder::new(pool.clone(), plan.home, plan.tree, plan.exact);
    let mut last: Option<&[u8]> = None;
    for entry in merge::merged(runs) {
        if plan.unique == Unique::Yes && !entry.has_null && last == Some(entry.key) {
            return Err(Error::UniqueViolation { index: plan.tree });
        }
        builder.push(entry.key, entry.row)?;
        last = Some(entry.key);
    }
    builder.finish()
}

/// Rows of a table, by their numbers: all from the one up to the other, or to the end.
#[derive(Clone, Copy)]
struct Part {
    from: RowId,
    to: Option<RowId>,
}

/// Takes the next part that nobody has taken; `from` says where it begins.
fn take_part(table: &TableTree, from: &Mutex<Option<RowId>>) -> Result<Option<Part>> {
    let mut next = from.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(from) = *next else { return Ok(None) };
    let to = until_done(table.pool(), || table.part_end(from))?;
    *next = to;
    Ok(Some(Part { from, to }))
}

fn collect(
    plan: &IndexPlan<'_>,
    part: Part,
    run: &mut Run,
    breathe: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut from = Some(part.from);
    while let Some(start) = from.filter(|from| part.to.is_none_or(|to| *from < to)) {
        let before = run.mark();
        // Others run between two leaves, not while one is read.
        let ((), next) = until_done(plan.table.pool(), || {
            plan.table.scan_leaf(start, &mut |leaf: &LeafView<'_>| {
                run.go_back(before);
                leaf_keys(plan, leaf, start, run)
            })
        })?;
        from = next;
        breathe()?;
    }
    Ok(())
}

fn leaf_keys(
    plan: &IndexPlan<'_>,
    leaf: &LeafView<'_>,
    start: RowId,
    run: &mut Run,
) -> Outcome<()> {
    let (mut values, mut ends) = (Vec::new(), Vec::new());
    for at in leaf.lower_bound(start).index()..leaf.count() {
        let slot = SlotIndex(at as u16);
        if leaf.state(slot) == RowState::Deleted {
            continue;
        }
        values.clear();
        ends.clear();
        for column in plan.columns {
            let begin = values.len();
            let column = usize::from(*column);
            let value = append_key_column(plan.table, leaf, slot, column, &mut values)?;
            ends.push(value.map(|()| begin..values.len()));
        }
        let parts: Vec<Option<&[u8]>> =
            ends.iter().map(|place| place.clone().map(|place| &values[place])).collect();
        let has_null = parts.iter().any(Option::is_none);
        run.push(leaf.row_id(slot), has_null, |out| encode_key(plan.parts, &parts, out));
    }
    Ok(())
}
