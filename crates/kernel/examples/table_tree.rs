//! Prints what a table tree costs per operation, in one thread: appends, point reads, updates in
//! place, scans. Run with `cargo run --profile quick -p atoll-kernel --example table_tree [rows]`.
//! Figures only; nothing is asserted about time.

use std::sync::Arc;
use std::time::Instant;

use atoll_kernel::base::{HomeId, RowId, TreeId};
use atoll_kernel::buffer::BufferPool;
use atoll_kernel::page::{ColumnType, Layout};
use atoll_kernel::tree::table::{
    AppendCursor, NoSideTables, RestoreCursor, Restored, SlotIndex, TableTree, Unwatched,
};

/// Nanoseconds that this thread has run (other processes may share the machine), if Linux says so.
fn processor_ns() -> Option<u64> {
    std::thread::yield_now();
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn timed(what: &str, count: u64, body: impl FnOnce() -> u64) {
    let (start, ran) = (Instant::now(), processor_ns());
    let check = body();
    let ran = processor_ns().zip(ran).map_or(0, |(after, before)| after - before);
    let wall = start.elapsed().as_nanos() as f64 / count as f64;
    let ns = ran as f64 / count as f64;
    println!("{what:<44} {ns:>7.1} ns of processor, {wall:>7.1} ns passed  ({check})");
}

fn append(tree: &TableTree, rows: u64, what: &str) {
    let filler = [b' '; 84];
    let mut cursor = AppendCursor::new(HomeId(0));
    timed(what, rows, || {
        let mut last = 0;
        for n in 0..rows {
            let number = (n as u32).to_le_bytes();
            let columns: [Option<&[u8]>; 4] =
                [Some(&number), Some(&number), Some(&number), Some(&filler)];
            let (row, mut leaf) = tree.append(&mut cursor, filler.len()).expect("room");
            leaf.insert(row, &columns);
            last = row.0;
        }
        last
    });
}

fn main() {
    let rows: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2_000_000);
    let bytes = rows as usize * 140 + (64 << 20);
    let pool = BufferPool::new(1, bytes).expect("memory for the pool");
    let columns = vec![ColumnType::Int4, ColumnType::Int4, ColumnType::Int4, ColumnType::Bytes];
    let layout = Layout::new(0, columns).expect("a small layout");
    let tree = TableTree::create(&pool, HomeId(0), TreeId(1), layout, Arc::new(NoSideTables))
        .expect("room for a tree");
    append(&tree, rows, "append of 96 bytes, memory never touched before");
    let mark = rows;
    let point = |ids: &mut dyn FnMut() -> u64, count: u64| {
        let (mut sum, mut out) = (0, Vec::with_capacity(64));
        for _ in 0..count {
            let row = RowId(ids());
            tree.read(row, &mut |leaf| {
                out.clear();
                if let Some(slot) = leaf.find(row) {
                    leaf.append_column(slot, 0, &mut out);
                    leaf.append_column(slot, 2, &mut out);
                }
                Ok(())
            })
            .expect("nobody writes");
            sum += out.len() as u64;
        }
        sum
    };
    let mut rng = fastrand::Rng::with_seed(1);
    timed("point read of 2 columns, random", 2_000_000, || {
        point(&mut || rng.u64(1..=mark), 2_000_000)
    });
    let warm = mark.min(20_000);
    timed("point read of 2 columns, random, in cache", 2_000_000, || {
        point(&mut || rng.u64(1..=warm), 2_000_000)
    });
    timed("update of 1 fixed column, random, in cache", 2_000_000, || {
        let mut sum = 0;
        for n in 0..2_000_000_u32 {
            let row = RowId(rng.u64(1..=warm));
            let mut leaf = tree.write(row).expect("nobody else writes");
            if let Some(slot) = leaf.find(row) {
                leaf.set_column(slot, 2, Some(&n.to_le_bytes()));
                sum += 1;
            }
        }
        sum
    });
    timed("scan of 2 columns", rows, || {
        let (mut sum, mut from, mut out) = (0, Some(RowId(0)), Vec::with_capacity(4096));
        while let Some(row) = from {
            let ((), next) = tree
                .scan_leaf(row, &mut |leaf| {
                    out.clear();
                    for slot in 0..leaf.count() {
                        leaf.append_column(SlotIndex(slot as u16), 0, &mut out);
                        leaf.append_column(SlotIndex(slot as u16), 2, &mut out);
                    }
                    Ok(())
                })
                .expect("nobody writes");
            sum += out.len() as u64;
            from = next;
        }
        sum
    });
    println!("{} leaves, {} frames used", tree.leaves(), pool.stats().used);
    tree.free_pages().expect("nobody uses it");

    let another = |id| {
        let layout = tree.layout().clone();
        TableTree::create(&pool, HomeId(0), TreeId(id), layout, Arc::new(NoSideTables))
            .expect("room for a tree")
    };
    let second = another(2);
    append(&second, rows, "append of 96 bytes");
    second.free_pages().expect("nobody uses it");
    let tree = another(3);
    let filler = [b' '; 84];
    let mut cursor = RestoreCursor::new(HomeId(0));
    timed("restore, ascending", rows, || {
        for n in 1..=rows {
            let number = (n as u32).to_le_bytes();
            let columns = [&number[..], &number, &number, &filler].map(Restored::Inline);
            tree.restore(&mut cursor, RowId(n), &columns, &mut Unwatched).expect("room");
        }
        tree.leaves()
    });
}
