//! Images of leaves as of a checkpoint's timestamp S (rules 8.3 and 8.4).
//!
//! Invariants: S is registered as a snapshot, so every version that it sees is still there. A leaf
//! without a twin has nothing above S: whatever changed since S was registered has undo still. So
//! its image is a plain copy, and equals its contents; the image of a leaf with a twin is its copy
//! with every row as S sees it, and does not count as its contents. An index leaf is copied as it
//! is: it has at least the entries of the rows that S sees, and readers check the row. What was read
//! counts when the leaf's version has validated. Nothing is latched, but a shared latch after
//! some attempts.

use crate::base::{Observed, Outcome, PAGE_BYTES, Place, RowId};
use crate::buffer::PageRead;
use crate::latch::PageBytes;
use crate::page::keynode::{self, KeyNode, UpperFence};
use crate::page::overflow::Form;
use crate::page::rowleaf::{LeafMut, RowState, SlotIndex};
use crate::sync::mutant;
use crate::tree::index::IndexTree;
use crate::tree::table::LeafView;
use crate::version::undo::Reader;
use crate::version::{Observe, Presence, RowBuffer, SnapshotView, TableAccess, TransactionStates};

type Page = [u8; PAGE_BYTES];

/// What a checkpoint has of a leaf.
pub(super) enum Leaf {
    /// It lies there already as it is.
    Clean(Place),
    /// The copy is its contents, as they were read.
    Whole(PageRead),
    /// The copy is what S sees, and may be less than its contents, which were read so.
    Older(PageRead),
}

/// Takes the page that was read to lie at this place as it is into the checkpoint, if it may stay there:
/// compaction moves those at a file's end. Asked before what was read has validated. Stops: `Retry`.
pub(super) type Keep<'a> = &'a dyn Fn(Place) -> Outcome<bool>;

impl Leaf {
    /// Only a part of the leaf was copied.
    fn in_part(self) -> Leaf {
        match self {
            Leaf::Whole(read) => Leaf::Older(read),
            other => other,
        }
    }
}

/// Observes nothing: a checkpoint waits for all commits below S.
struct Nobody;

impl Observe for Nobody {
    fn observe(&mut self, _seen: Observed) {}
}

/// Where S sees another version of a row than the page has, or none.
struct Other {
    slot: SlotIndex,
    presence: Presence,
    /// Its first column in the buffer.
    cell: usize,
}

/// Which columns are set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Shrinks,
    Grows,
}

/// Memory that images need, used again for the next.
#[derive(Default)]
pub(super) struct Work {
    rows: RowBuffer,
    others: Vec<Other>,
    columns: Vec<u16>,
}

/// Copies the leaf that covers `row` to `page`, from that row on to below `bound`, if there is one, and as
/// `snapshot` sees it, unless it has just these rows and lies on disk as it is, and `keep` takes it. Answers
/// where the rows end that were copied, if they do. Stops: `Retry`, and `WaitFor` a commit that is being
/// decided.
pub(super) fn table_leaf(
    table: &TableAccess,
    (row, bound): (RowId, Option<RowId>),
    (snapshot, states, keep): (&SnapshotView, &dyn TransactionStates, Keep<'_>),
    page: &mut Page,
    work: &mut Work,
) -> Outcome<(Leaf, Option<RowId>)> {
    let tree = &table.tree;
    let goes_beyond =
        |upper: Option<RowId>| bound.is_some_and(|bound| upper.is_none_or(|upper| upper > bound));
    let ((found, lower, layout), upper) = tree.scan_leaf(row, &mut |leaf: &LeafView<'_>| {
        let lower = leaf.lower_fence();
        let layout = leaf.layout().version();
        let read = PageRead::resume(leaf.frame(), leaf.version());
        if let Some(place) = read.clean_place()
            && lower == row
            && !goes_beyond(leaf.upper_fence())
            && leaf.side().load().is_null()
            && keep(place)?
        {
            read.still_lies_at(place)?;
            return Ok((Leaf::Clean(place), lower, layout));
        }
        leaf.bytes().copy(0, page);
        work.others.clear();
        work.rows.clear();
        if leaf.side().load().is_null() {
            return Ok((Leaf::Whole(read), lower, layout));
        }
        older_rows(table, leaf, (snapshot, states), work)?;
        Ok((Leaf::Older(read), lower, layout))
    })?;
    let layout = tree.layout_for(layout).expect("the leaf was read by it");
    if matches!(found, Leaf::Older(_)) {
        go_back(&mut LeafMut::new(page, layout), work);
    }
    if matches!(found, Leaf::Clean(_)) {
        return Ok((found, upper));
    }
    let begins_before = lower < row && !mutant("checkpoint-leaf-not-trimmed");
    if begins_before {
        LeafMut::new(page, layout).trim(row);
    }
    match bound.filter(|_| goes_beyond(upper)) {
        Some(bound) => {
            LeafMut::new(page, layout).trim_from(bound);
            Ok((found.in_part(), Some(bound)))
        }
        None if begins_before => Ok((found.in_part(), upper)),
        None => Ok((found, upper)),
    }
}

/// Notes every row of which S does not see the page's version.
fn older_rows(
    table: &TableAccess,
    leaf: &LeafView<'_>,
    (snapshot, states): (&SnapshotView, &dyn TransactionStates),
    work: &mut Work,
) -> Outcome<()> {
    let count = leaf.layout().columns().len();
    if work.columns.len() != count {
        work.columns = (0..count as u16).collect();
    }
    for slot in (0..leaf.count()).map(|slot| SlotIndex(slot as u16)) {
        let row = table.row_at(leaf, leaf.row_id(slot), slot);
        if row.is_settled() {
            continue;
        }
        let cell = work.rows.len();
        let mut reader = Reader { snapshot, states, observed: &mut Nobody };
        let presence = row.visible(&mut reader, &work.columns, &mut work.rows)?;
        work.others.push(Other { slot, presence, cell });
    }
    Ok(())
}

/// Makes the copy what S sees.
fn go_back(leaf: &mut LeafMut<'_>, work: &Work) {
    // No undo, so nothing to reserve for going back further.
    leaf.reserve(-(leaf.view().reserved() as isize));
    let gone = |other: &&Other| other.presence == Presence::Absent;
    for other in work.others.iter().rev().filter(gone) {
        leaf.remove(other.slot);
    }
    // What S sees fits, for its room was reserved, but a row's column that grew since may have the
    // room of another that shrank: it is given back first.
    for pass in [Pass::Shrinks, Pass::Grows] {
        let mut removed = 0;
        for other in &work.others {
            match other.presence {
                Presence::Absent => removed += 1,
                _ if mutant("checkpoint-image-as-it-is") => {}
                _ => set_row(leaf, SlotIndex(other.slot.0 - removed), (work, other.cell), pass),
            }
        }
    }
}

/// Sets the columns of a row that take less room than before, or as much, or those that take more.
fn set_row(leaf: &mut LeafMut<'_>, slot: SlotIndex, (work, cell): (&Work, usize), pass: Pass) {
    leaf.set_state(slot, RowState::Live);
    for column in 0..work.columns.len() {
        let value = work.rows.column(cell + column);
        let before = leaf.view().column_bytes(slot, column).unwrap_or(0);
        let grows = value.map_or(0, <[u8]>::len) > before;
        if grows != (pass == Pass::Grows) {
            continue;
        }
        leaf.set_column(slot, column, value);
        if work.rows.form(cell + column) == Form::Long {
            leaf.set_long(slot, column);
        }
    }
}

/// As [`table_leaf`], of the index leaf that covers `key`, from there on to below `bound`, if there is one. Puts
/// into `upper` where the keys end that were copied, if they do.
pub(super) fn index_leaf(
    tree: &IndexTree,
    ((key, bound), keep): ((&[u8], Option<&[u8]>), Keep<'_>),
    page: &mut Page,
    upper: &mut Vec<u8>,
) -> Outcome<(Leaf, UpperFence)> {
    let mut lower = Vec::new();
    let goes_beyond = |fence: UpperFence, upper: &[u8]| {
        bound.is_some_and(|bound| fence == UpperFence::None || upper > bound)
            && !mutant("checkpoint-piece-not-cut")
    };
    let (found, mut fence) = tree.copy_leaf(key, |read| {
        lower.clear();
        upper.clear();
        let node = KeyNode::new(read.racy());
        node.lower(&mut lower);
        let fence = node.upper(upper);
        if let Some(place) = read.clean_place()
            && lower == key
            && !goes_beyond(fence, upper)
            && keep(place)?
        {
            read.still_lies_at(place)?;
            return Ok((Leaf::Clean(place), fence));
        }
        read.racy().copy(0, page);
        Ok((Leaf::Whole(*read), fence))
    })?;
    let begins_before = lower.as_slice() < key;
    if let Some(bound) = bound.filter(|_| goes_beyond(fence, upper)) {
        upper.clear();
        upper.extend_from_slice(bound);
        fence = UpperFence::Some;
    } else if !begins_before {
        return Ok((found, fence));
    }
    keynode::trim(page, key, (fence == UpperFence::Some).then_some(upper.as_slice()));
    Ok((found.in_part(), fence))
}
