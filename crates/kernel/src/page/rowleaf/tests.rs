//! Row leaves against a model: random edits of one page, every reservation honoured.
#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use std::collections::BTreeMap;

use super::*;
use crate::base::{HomeId, Pid, TreeId};
use crate::latch::{OwnedPage, RacyPage};
use crate::page::header::{self, PageKind};
use crate::page::layout::ColumnType;

type Row = Vec<Option<Vec<u8>>>;
type Page = Box<[u8; PAGE_BYTES]>;

/// Prints the seed; `ATOLL_SEED` replays one.
pub(crate) fn seeded(name: &str) -> fastrand::Rng {
    let given = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("{name}: ATOLL_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

fn mixed() -> Layout {
    use ColumnType::*;
    let columns = vec![Int8, Bytes, Int4, Bool, Ordered { trailer: 2 }, Int2, Float8, Bytes];
    Layout::new(0, columns).unwrap()
}

fn empty(layout: &Layout, lower: u64, upper: Option<u64>) -> Page {
    let mut page = Box::new([0; PAGE_BYTES]);
    header::format(&mut page, PageKind::TableLeaf, Pid::new(HomeId(0), 1), TreeId(1));
    format(&mut page, layout, RowId(lower), upper.map(RowId));
    page
}

fn random_value(rng: &mut fastrand::Rng, column: ColumnType, long: usize) -> Option<Vec<u8>> {
    if rng.u8(..) < 40 {
        return None;
    }
    let len = column.fixed_bytes().unwrap_or_else(|| rng.usize(0..=long));
    Some((0..len).map(|_| rng.u8(..)).collect())
}

fn random_row(rng: &mut fastrand::Rng, layout: &Layout, long: usize) -> Row {
    layout.columns().iter().map(|column| random_value(rng, *column, long)).collect()
}

fn borrowed(row: &Row) -> Vec<Option<&[u8]>> {
    row.iter().map(Option::as_deref).collect()
}

#[derive(Clone)]
struct ModelRow {
    values: Row,
    deleted: bool,
    reserved: usize,
    /// Before-images, newest last, as undo would hold them.
    undo: Vec<(usize, Option<Vec<u8>>)>,
}

fn compare<B: PageBytes>(leaf: &Leaf<'_, B>, model: &BTreeMap<u64, ModelRow>) {
    assert_eq!(leaf.count(), model.len());
    for (slot, (id, row)) in model.iter().enumerate() {
        let slot = SlotIndex(slot as u16);
        assert_eq!(leaf.row_id(slot), RowId(*id));
        assert_eq!(leaf.find(RowId(*id)), Some(slot));
        assert_eq!(leaf.state(slot) == RowState::Deleted, row.deleted);
        for (i, value) in row.values.iter().enumerate() {
            assert_eq!(&leaf.column(slot, i), value, "row {id}, column {i}");
            assert_eq!(leaf.column_bytes(slot, i), value.as_ref().map(Vec::len));
        }
    }
    assert_eq!(leaf.reserved(), model.values().map(|row| row.reserved).sum::<usize>());
}

fn whole(page: &Page, layout: &Layout, model: &BTreeMap<u64, ModelRow>) {
    assert_eq!(check(page, layout), Vec::<String>::new());
    compare(&Leaf::new(OwnedPage(page), layout), model);
    // SAFETY: `page` outlives the view.
    compare(&Leaf::new(unsafe { RacyPage::new(page.as_ptr()) }, layout), model);
}

/// Sets a column as `version` does: reservation follows the heap bytes freed.
fn set(leaf: &mut LeafMut<'_>, id: u64, row: &mut ModelRow, column: usize, value: Option<Vec<u8>>) {
    let slot = leaf.view().find(RowId(id)).unwrap();
    let freed = leaf.set_column(slot, column, value.as_deref());
    let reserved = row.reserved.saturating_add_signed(freed);
    leaf.reserve(reserved as isize - row.reserved as isize);
    row.reserved = reserved;
    row.values[column] = value;
}

/// A new row at the end or in the middle, if there is room.
fn insert(
    rng: &mut fastrand::Rng,
    leaf: &mut LeafMut<'_>,
    layout: &Layout,
    model: &mut BTreeMap<u64, ModelRow>,
    next: &mut u64,
    long: usize,
) {
    let id = if rng.bool() { *next } else { rng.u64(1..=*next) };
    let values = random_row(rng, layout, long);
    let heap = checked_heap_bytes(layout, &borrowed(&values)).unwrap();
    if !model.contains_key(&id) && leaf.view().covers(RowId(id)) && leaf.view().fits_row(heap) {
        leaf.insert(RowId(id), &borrowed(&values));
        *next = (*next).max(id) + rng.u64(1..3);
        model.insert(id, ModelRow { values, deleted: false, reserved: 0, undo: vec![] });
    }
}

fn step(
    rng: &mut fastrand::Rng,
    page: &mut Page,
    layout: &Layout,
    model: &mut BTreeMap<u64, ModelRow>,
    next: &mut u64,
    long: usize,
) {
    let mut leaf = LeafMut::new(page, layout);
    let some = |rng: &mut fastrand::Rng, model: &BTreeMap<u64, ModelRow>| {
        model.keys().copied().nth(rng.usize(0..model.len().max(1)))
    };
    match rng.u8(0..100) {
        0..35 => {
            insert(rng, &mut leaf, layout, model, next, long);
        }
        35..65 => {
            let Some(id) = some(rng, model) else { return };
            let row = model.get_mut(&id).unwrap();
            let column = rng.usize(0..layout.columns().len());
            let value = random_value(rng, layout.columns()[column], long);
            let variable = layout.columns()[column].fixed_bytes().is_none();
            let len =
                |v: &Option<Vec<u8>>| if variable { v.as_ref().map_or(0, Vec::len) } else { 0 };
            let growth = len(&value).saturating_sub(len(&row.values[column]));
            if growth.saturating_sub(row.reserved) <= leaf.view().free_bytes() {
                row.undo.push((column, row.values[column].clone()));
                set(&mut leaf, id, row, column, value);
            }
        }
        65..75 => {
            // Rollback of the row's changes: must always fit.
            let Some(id) = some(rng, model) else { return };
            let row = model.get_mut(&id).unwrap();
            while let Some((column, value)) = row.undo.pop() {
                set(&mut leaf, id, row, column, value);
            }
        }
        75..85 => {
            // Garbage collection: the undo is gone, so is what was reserved.
            let Some(id) = some(rng, model) else { return };
            let row = model.get_mut(&id).unwrap();
            leaf.reserve(-(row.reserved as isize));
            (row.reserved, row.undo) = (0, vec![]);
        }
        85..93 => {
            let Some(id) = some(rng, model) else { return };
            let slot = leaf.view().find(RowId(id)).unwrap();
            let row = model.get_mut(&id).unwrap();
            row.deleted = !row.deleted;
            leaf.set_state(slot, if row.deleted { RowState::Deleted } else { RowState::Live });
        }
        _ => {
            let Some(id) = some(rng, model) else { return };
            let slot = leaf.view().find(RowId(id)).unwrap();
            leaf.reserve(-(model[&id].reserved as isize));
            leaf.remove(slot);
            model.remove(&id);
        }
    }
}

#[test]
fn random_edits_agree_with_a_model_and_rollbacks_always_fit() {
    let mut rng = seeded("row leaf edits");
    let layout = mixed();
    for long in [3, 40, 900] {
        let mut page = empty(&layout, 1, None);
        let (mut model, mut next) = (BTreeMap::new(), 1);
        for turn in 0..3000 {
            step(&mut rng, &mut page, &layout, &mut model, &mut next, long);
            if turn % 16 == 0 {
                whole(&page, &layout, &model);
            }
        }
        whole(&page, &layout, &model);
    }
}

#[test]
fn splits_move_the_upper_rows_and_nothing_else() {
    let mut rng = seeded("row leaf splits");
    let layout = mixed();
    for _ in 0..200 {
        let long = rng.choice([3, 40, 900]).unwrap();
        let mut left = empty(&layout, 1, Some(1 << 40));
        let (mut model, mut next) = (BTreeMap::new(), 1);
        for _ in 0..rng.usize(0..300) {
            step(&mut rng, &mut left, &layout, &mut model, &mut next, long);
        }
        let reserved = Leaf::new(OwnedPage(&left), &layout).reserved();
        LeafMut::new(&mut left, &layout).reserve(-(reserved as isize));
        model.values_mut().for_each(|row| (row.reserved, row.undo) = (0, vec![]));
        let mut right = Box::new([0; PAGE_BYTES]);
        header::format(&mut right, PageKind::TableLeaf, Pid::new(HomeId(0), 2), TreeId(1));
        let first = rng.usize(0..=model.len());
        let separator = model.keys().copied().nth(first).unwrap_or(next).max(2);
        split(&mut left, &mut right, &layout, SlotIndex(first as u16), RowId(separator));
        let mut upper = model.split_off(&separator);
        if first == 0 && model.len() == 1 {
            // Row 1 cannot be a separator: it stays left in the model, not in the page.
            continue;
        }
        whole(&left, &layout, &model);
        whole(&right, &layout, &upper);
        let (l, r) = (Leaf::new(OwnedPage(&left), &layout), Leaf::new(OwnedPage(&right), &layout));
        assert_eq!((l.lower_fence(), l.upper_fence()), (RowId(1), Some(RowId(separator))));
        assert_eq!((r.lower_fence(), r.upper_fence()), (RowId(separator), Some(RowId(1 << 40))));
        for _ in 0..50 {
            step(&mut rng, &mut right, &layout, &mut upper, &mut next, long);
        }
        whole(&right, &layout, &upper);
    }
}

#[test]
fn a_leaf_fills_to_the_brim_with_rows_of_one_size() {
    let layout = Layout::new(0, vec![ColumnType::Int8, ColumnType::Bytes]).unwrap();
    for len in [0, 1, 10, 100, 3000] {
        let mut page = empty(&layout, 1, None);
        let value = vec![7; len];
        let mut rows = 0;
        while Leaf::new(OwnedPage(&page), &layout).fits_row(len) {
            rows += 1;
            let columns: [Option<&[u8]>; 2] = [Some(&[1; 8]), Some(&value)];
            LeafMut::new(&mut page, &layout).insert(RowId(rows), &columns);
        }
        assert_eq!(check(&page, &layout), Vec::<String>::new());
        let left = USABLE_BYTES - fixed_bytes(&layout, rows as usize) - rows as usize * len;
        assert!(left < fixed_bytes(&layout, 1) + len, "{rows} rows of {len}: {left} bytes left");
    }
}

#[test]
fn rows_are_found_whatever_ids_are_missing() {
    let mut rng = seeded("row leaf lower bound");
    let layout = Layout::new(0, vec![ColumnType::Int8]).unwrap();
    let column: [Option<&[u8]>; 1] = [Some(&[1; 8])];
    // Hardly any, half, most, and all but a few ids of a wide range.
    for gap_max in [0, 1, 4, 1 << 40] {
        let mut page = empty(&layout, 1, None);
        let (mut ids, mut next) = (Vec::new(), 1);
        for _ in 0..200 {
            next += if rng.u8(..) < 128 { rng.u64(0..=gap_max) } else { 0 };
            LeafMut::new(&mut page, &layout).insert(RowId(next), &column);
            ids.push(next);
            next += 1;
        }
        let leaf = Leaf::new(OwnedPage(&page), &layout);
        let near = ids.iter().flat_map(|id| [id - 1, *id, id + 1]);
        for id in near.chain((0..500).map(|_| rng.u64(0..=next))).chain([u64::MAX]) {
            let bound = ids.partition_point(|it| *it < id);
            assert_eq!(leaf.lower_bound(RowId(id)).index(), bound, "{id} of {ids:?}");
            assert_eq!(leaf.find(RowId(id)).is_some(), ids.contains(&id));
        }
    }
}

#[test]
fn a_newer_layout_adds_nulls() {
    let mut rng = seeded("row leaf relayout");
    let old = mixed();
    let mut columns = old.columns().to_vec();
    // More bytes of bits, too.
    columns.extend([ColumnType::Bytes, ColumnType::Int4].repeat(4));
    let new = Layout::new(1, columns).unwrap();
    let mut page = empty(&old, 1, None);
    let (mut model, mut next) = (BTreeMap::new(), 1);
    for _ in 0..100 {
        step(&mut rng, &mut page, &old, &mut model, &mut next, 20);
    }
    assert!(relayout(&mut page, &old, &new));
    model.values_mut().for_each(|row: &mut ModelRow| row.values.extend(vec![None; 8]));
    whole(&page, &new, &model);
}

#[test]
fn fuzz_table_leaf_pages() {
    let mut rng = seeded("row leaf garbage");
    let layout = mixed();
    let (mut model, mut next) = (BTreeMap::new(), 1);
    let mut good = empty(&layout, 1, None);
    for _ in 0..300 {
        step(&mut rng, &mut good, &layout, &mut model, &mut next, 20);
    }
    let (mut found, mut rounds) = (0, 0);
    let seconds = std::env::var("ATOLL_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds.unwrap_or(0));
    while rounds < 500 || std::time::Instant::now() < end {
        rounds += 1;
        let mut page = good.clone();
        for _ in 0..rng.usize(1..20) {
            let at = if rng.bool() { rng.usize(32..64) } else { rng.usize(32..PAGE_BYTES) };
            page[at] = rng.u8(..);
        }
        found += usize::from(!check(&page, &layout).is_empty());
        let leaf = Leaf::new(OwnedPage(&page), &layout);
        for _ in 0..20 {
            let slot = SlotIndex(rng.u16(..));
            let _ = (leaf.find(RowId(rng.u64(0..next))), leaf.state(slot), leaf.row_id(slot));
            let _ = leaf.column(slot, rng.usize(0..10));
        }
    }
    assert!(found > rounds / 2, "most damage of headers is seen: {found} of {rounds}");
}

#[test]
fn rows_that_are_too_large_are_refused() {
    let layout = Layout::new(0, vec![ColumnType::Bytes]).unwrap();
    let value = vec![0; ROW_BYTES_MAX - 3];
    assert!(matches!(
        checked_heap_bytes(&layout, &[Some(&value)]),
        Err(Error::TooLarge { what: "row", bytes, .. }) if bytes == ROW_BYTES_MAX + 1
    ));
    assert_eq!(checked_heap_bytes(&layout, &[Some(&value[1..])]), Ok(ROW_BYTES_MAX - 4));
    assert!(Layout::new(0, vec![ColumnType::Int8; 1001]).is_err());
}
