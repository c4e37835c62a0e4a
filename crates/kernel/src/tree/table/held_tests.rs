//! Leaves that recovery holds, against a model: what they take is right, and what they do not take is
//! made right afterwards, also when a part of it was made before.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::base::{Error, HomeId, Outcome, PAGE_BYTES, RowId, Stop, TreeId};
use crate::buffer::BufferPool;
use crate::latch::held_latches;
use crate::page::rowleaf::Took;
use crate::page::{ColumnType, Layout};

type Row = Vec<Option<Vec<u8>>>;
type Rows = BTreeMap<u64, Row>;

const COLUMNS: usize = 4;

fn shell<T>(mut operation: impl FnMut() -> Outcome<T>) -> T {
    loop {
        match operation() {
            Ok(done) => return done,
            Err(Stop::Retry) => assert_eq!(held_latches(), 0, "nothing is held at a stop"),
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

fn layout(version: u16, columns: usize) -> Layout {
    let all = [ColumnType::Int8, ColumnType::Bytes, ColumnType::Int2, ColumnType::Bytes];
    Layout::new(version, all[..columns].to_vec()).expect("a few columns")
}

fn value(rng: &mut fastrand::Rng, column: usize, long: usize) -> Option<Vec<u8>> {
    let len = match column {
        0 => 8,
        2 => 2,
        _ => rng.usize(0..=long),
    };
    (rng.u8(..) > 30).then(|| (0..len).map(|_| rng.u8(..)).collect())
}

/// A change of a row.
enum Step {
    Insert(Row),
    Set(Vec<(u16, Option<Vec<u8>>)>),
    Remove,
}

fn step(rng: &mut fastrand::Rng, is_there: bool, columns: usize, long: usize) -> Step {
    match rng.u8(0..10) {
        0..2 if is_there => Step::Remove,
        2..8 if is_there => {
            let changed = (0..columns).filter(|_| rng.bool()).collect::<Vec<_>>();
            let set = |column| (column as u16, value(rng, column, long));
            Step::Set(changed.into_iter().map(set).collect())
        }
        // Of an older layout, perhaps; and a row that is there is replaced.
        _ => {
            let columns = rng.usize(1..=columns);
            Step::Insert((0..columns).map(|column| value(rng, column, long)).collect())
        }
    }
}

fn borrowed(value: &Option<Vec<u8>>) -> Option<&[u8]> {
    value.as_deref()
}

/// Makes the step in the leaf that is held, or by itself; answers whether the leaf took it.
fn make(
    tree: &TableTree,
    (cursor, held): (&mut RestoreCursor, &mut Option<HeldLeaf<'_>>),
    row: RowId,
    step: &Step,
) -> Took {
    let took = held.as_mut().map_or(Took::No, |leaf| match step {
        Step::Insert(values) => leaf.row(row, &mut values.iter().map(borrowed).collect()),
        Step::Set(changes) => {
            leaf.columns(row, changes.iter().map(|(column, value)| (*column, borrowed(value))))
        }
        Step::Remove => leaf.remove(row),
    });
    if took == Took::Yes {
        return took;
    }
    *held = None;
    match step {
        Step::Insert(values) => {
            let values: Vec<Restored<'_>> =
                values.iter().map(|value| borrowed(value).into()).collect();
            shell(|| tree.restore(cursor, row, &values, &mut Unwatched));
        }
        Step::Set(changes) => {
            let changes: Vec<(usize, Restored<'_>)> = changes
                .iter()
                .map(|(column, value)| (usize::from(*column), borrowed(value).into()))
                .collect();
            assert!(shell(|| tree.restore_columns(cursor, row, &changes, &mut Unwatched)));
        }
        Step::Remove => assert!(shell(|| tree.remove(cursor, row, &mut Unwatched))),
    }
    took
}

fn note(model: &mut Rows, row: RowId, step: Step) {
    match step {
        Step::Insert(mut values) => {
            values.resize(COLUMNS, None);
            model.insert(row.0, values);
        }
        Step::Set(changes) => {
            let values = model.get_mut(&row.0).expect("it is there");
            changes.into_iter().for_each(|(at, value)| values[usize::from(at)] = value);
        }
        Step::Remove => drop(model.remove(&row.0)),
    }
}

fn all(tree: &TableTree) -> Rows {
    let (mut all, mut from) = (Rows::new(), Some(RowId(0)));
    while let Some(row) = from {
        let (rows, next) = shell(|| {
            tree.scan_leaf(row, &mut |leaf: &LeafView<'_>| {
                let slots = (0..leaf.count()).map(|slot| SlotIndex(slot as u16));
                let row = |slot| (0..COLUMNS).map(|column| leaf.column(slot, column)).collect();
                Ok(slots.map(|slot| (leaf.row_id(slot).0, row(slot))).collect::<Vec<_>>())
            })
        });
        all.extend(rows);
        from = next;
    }
    all
}

#[test]
fn changes_in_order_of_rows_agree_with_a_model() -> Result<(), Error> {
    let given = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("held leaves: ATOLL_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for long in [8, 120, 2500] {
        let pool = BufferPool::new(2, 4000 * (PAGE_BYTES + 64))?;
        let sides = Arc::new(NoSideTables);
        let tree = TableTree::create(&pool, HomeId(0), TreeId(9), layout(0, 3), sides)?;
        let (mut model, mut taken, mut made) = (Rows::new(), 0, 0);
        for round in 0..40 {
            if round == 25 {
                tree.add_layout(layout(1, COLUMNS))?;
            }
            let columns = if round < 25 { 3 } else { COLUMNS };
            let mut cursor = RestoreCursor::new(HomeId(1));
            let mut held: Option<HeldLeaf<'_>> = None;
            // Rows ascend, but for a few that come out of their turn.
            let mut row = rng.u64(0..3) << 20;
            for _ in 0..300 {
                row = if rng.u8(..) == 0 { rng.u64(0..3000) } else { row + rng.u64(0..4) };
                let id = RowId(row);
                let step = step(&mut rng, model.contains_key(&row), columns, long);
                if held.as_ref().is_none_or(|leaf| !leaf.covers(id)) {
                    drop(held.take());
                    held = shell(|| tree.hold(&mut cursor, id));
                }
                made += 1;
                taken += usize::from(make(&tree, (&mut cursor, &mut held), id, &step) == Took::Yes);
                note(&mut model, id, step);
            }
            drop(held);
            assert_eq!(held_latches(), 0);
        }
        assert_eq!(shell(|| tree.check()), Vec::<String>::new());
        assert!(all(&tree) == model, "seed {seed}");
        assert!(taken * 2 > made && taken < made, "{taken} of {made} taken");
        tree.free_pages()?;
        assert_eq!(pool.stats().used, 0);
    }
    Ok(())
}
