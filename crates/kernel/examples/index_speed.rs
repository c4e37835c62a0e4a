//! Speed of index trees: `cargo run --profile quick --example index_speed [entries]`.
//!
//! Prints nanoseconds of processor time per operation on one thread: bulk load, warm point
//! look-ups at random, scans, insertions. Figures are in tree/README.md.

use std::hint::black_box;
use std::ops::Bound;
use std::time::Instant;

use atoll_kernel::base::{HomeId, RowId, TreeId};
use atoll_kernel::buffer::BufferPool;
use atoll_kernel::tree::index::{
    Exact, IndexBatch, IndexTree, Judgement, Keys, Near, ScanDirection,
};

/// Nanoseconds that this thread has been on a processor; wall time where Linux does not say.
fn cpu_ns(began: Instant) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let on_cpu = text.and_then(|text| text.split(' ').next().and_then(|n| n.parse().ok()));
    on_cpu.unwrap_or_else(|| began.elapsed().as_nanos() as u64)
}

fn timed<R>(what: &str, count: u64, body: impl FnOnce() -> R) -> R {
    let began = Instant::now();
    let before = cpu_ns(began);
    let result = body();
    let nanos = (cpu_ns(began) - before) as f64 / count as f64;
    println!("{what:<44} {nanos:>8.1} ns each  {:>8.2} million/s", 1e3 / nanos);
    result
}

/// A multiplicative generator: cheap, and the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((u128::from(self.0 >> 11) * u128::from(bound)) >> 53) as u64
    }
}

fn main() {
    let entries: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10_000_000);
    let pool = BufferPool::new(1, entries as usize * 70 + (64 << 20)).expect("memory for the pool");
    let home = HomeId(0);
    let sorted = (0..entries).map(|n| (n.to_be_bytes(), RowId(n)));
    let tree = timed("bulk load, 8-byte keys", entries, || {
        IndexTree::bulk_load(pool.clone(), home, TreeId(1), Exact::No, sorted)
            .expect("the pool is large")
    });
    let mut random = Random(7);
    let mut rows = Vec::with_capacity(4);
    for round in 0..3 {
        timed(&format!("point look-up at random, round {round}"), 3_000_000, || {
            for _ in 0..3_000_000 {
                rows.clear();
                let key = random.below(entries).to_be_bytes();
                tree.point(Near::Nowhere, &key, &mut rows).expect("nobody writes");
                assert_eq!(rows.len(), 1);
            }
        });
    }
    timed("point look-up, 10 thousand hot keys", 3_000_000, || {
        for _ in 0..3_000_000 {
            rows.clear();
            let key = random.below(10_000).to_be_bytes();
            tree.point(Near::Nowhere, &key, &mut rows).expect("nobody writes");
        }
    });
    let mut batch = IndexBatch::new();
    timed("scan of all, per entry", entries, || {
        let mut from = Vec::new();
        loop {
            let low = Bound::Included(from.as_slice());
            let next = tree.scan(low, Bound::Unbounded, ScanDirection::Forward, &mut batch);
            black_box(batch.len());
            match next.expect("nobody writes") {
                Some(next) => from = next.key,
                None => break,
            }
        }
    });
    let inserted = (entries / 10).max(1);
    let grown = IndexTree::create(pool.clone(), home, TreeId(2)).expect("the pool is large");
    timed("insertion, ascending", inserted, || {
        for n in 0..inserted {
            grown
                .insert(Near::Nowhere, (&n.to_be_bytes(), RowId(n)), Keys::One)
                .expect("the pool is large");
        }
    });
    let random_tree = IndexTree::create(pool.clone(), home, TreeId(3)).expect("the pool is large");
    timed("unique insertion at random", inserted, || {
        for n in 0..inserted {
            let key = random.below(u64::MAX).to_be_bytes();
            let mut judge = |_| Ok(Judgement::Free);
            random_tree
                .insert_unique(Near::Nowhere, (&key, RowId(n)), Keys::One, &mut judge)
                .expect("the pool is large");
        }
    });
    println!("{} frames in use", pool.stats().used);
}
