//! Indexes built by one thread and by several, from the same rows.
#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use std::ops::Bound;

use super::*;
use crate::base::{PAGE_BYTES, Stop};
use crate::page::{ColumnType, Layout};
use crate::tree::index::{IndexBatch, ScanDirection};
use crate::tree::table::{AppendCursor, NoSideTables};

const HOME: HomeId = HomeId(0);
/// Bytes that make leaves of two rows, so that few rows have many leaves.
const HEAP: usize = 6_000;

/// A table with more than one inner node above its leaves, and its rows; keys in no order, every fifth
/// is null.
fn table(pool: &Arc<BufferPool>, count: u32) -> (TableTree, Vec<RowId>) {
    let layout = Layout::new(0, vec![ColumnType::Int4, ColumnType::Bytes]).unwrap();
    let tree = TableTree::create(pool, HOME, TreeId(9), layout, Arc::new(NoSideTables)).unwrap();
    let (mut cursor, mut rows) = (AppendCursor::new(HOME), Vec::new());
    for row in 0..count {
        let key = row.wrapping_mul(2_654_435_761).to_le_bytes();
        let (id, mut leaf) = loop {
            match tree.append(&mut cursor, HEAP) {
                Ok(appended) => break appended,
                Err(stop) => assert!(matches!(stop, Stop::Retry), "{stop:?}"),
            }
        };
        leaf.insert(id, &[(row % 5 != 0).then_some(&key), Some(&[7; HEAP])]);
        rows.push(id);
    }
    (tree, rows)
}

fn entries(index: &IndexTree) -> Vec<(Vec<u8>, RowId)> {
    let (mut batch, mut out) = (IndexBatch::with_limit(usize::MAX), Vec::new());
    let mut from = Bound::Unbounded;
    loop {
        let low = from.as_ref().map(Vec::as_slice);
        let next = index.scan(low, Bound::Unbounded, ScanDirection::Forward, &mut batch).unwrap();
        out.extend((0..batch.len()).map(|at| (batch.key(at).to_vec(), batch.row(at))));
        let Some(next) = next else { return out };
        from = Bound::Included(next.key);
    }
}

#[test]
fn several_threads_build_what_one_builds() {
    let pool = BufferPool::new(1, 3_000 * (PAGE_BYTES + 64)).unwrap();
    let (table, _) = table(&pool, 4_000);
    let parts = Mutex::new(Some(RowId(0)));
    let mut taken = 0;
    while take_part(&table, &parts).unwrap().is_some() {
        taken += 1;
    }
    assert!(taken >= 2, "there is more than one part: {taken}");
    let plan = |columns, tree, unique| IndexPlan {
        table: &table,
        columns,
        parts: &const { [KeyPart::ascending(ColumnType::Int4)] },
        unique,
        tree: TreeId(tree),
        home: HOME,
        exact: Exact::No,
    };
    let one = build_index(&pool, &plan(&[0], 20, Unique::Yes), &mut || Ok(())).unwrap();
    let expected = entries(&one);
    assert_eq!(expected.len(), 4_000);
    for threads in 1..4 {
        let index = build_index_by(&pool, &plan(&[0], 21, Unique::Yes), threads).unwrap();
        assert_eq!(entries(&index), expected, "{threads} threads");
        index.free().unwrap();
    }
}

#[test]
fn a_key_that_two_threads_read_is_no_less_twice() {
    let pool = BufferPool::new(1, 3_000 * (PAGE_BYTES + 64)).unwrap();
    let (table, rows) = table(&pool, 4_000);
    for row in [rows[1], rows[3_998]] {
        let mut leaf = table.write(row).unwrap();
        let slot = leaf.find(row).unwrap();
        leaf.set_column(slot, 0, Some(&77_i32.to_le_bytes()));
    }
    let plan = |unique| IndexPlan {
        table: &table,
        columns: &[0],
        parts: &const { [KeyPart::ascending(ColumnType::Int4)] },
        unique,
        tree: TreeId(20),
        home: HOME,
        exact: Exact::No,
    };
    let used = pool.stats().used;
    let built = build_index_by(&pool, &plan(Unique::Yes), 2);
    assert!(matches!(built, Err(Error::UniqueViolation { index: TreeId(20) })));
    assert_eq!(pool.stats().used, used, "no page is kept");
    assert_eq!(entries(&build_index_by(&pool, &plan(Unique::No), 2).unwrap()).len(), 4_000);
}
