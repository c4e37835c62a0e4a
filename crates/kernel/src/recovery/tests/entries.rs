//! What several workers note of one index, and make together, against a model.

use fastrand::Rng;

use super::kept::{Entries, entries};
use super::{seeded, workers};
use crate::base::{HomeId, PAGE_BYTES, RowId, TreeId};
use crate::buffer::BufferPool;
use crate::recovery::entries::{Becomes, Noted, Notes, make_all};
use crate::tree::index::IndexTree;

const INDEXES: usize = 3;

/// A worker notes changes of entries of its rows: of each index some, or none.
fn note<'d>(
    rng: &mut Rng,
    (worker, workers): (u64, u64),
    trees: &'d [IndexTree],
    models: &mut [Entries],
) -> Vec<Noted<'d>> {
    // Few bytes: much is made before the end of the pass, by who has noted it.
    let mut notes = Notes::new(*rng.choice(&[900, 1 << 20]).expect("not empty"));
    for (tree, model) in trees.iter().zip(models) {
        let mut noted = notes.take(tree);
        for _ in 0..*rng.choice(&[0, 5, 3000]).expect("not empty") {
            let row = rng.u64(..200) * workers + worker;
            // Short ones, and some that are alike for longer than a head; none begins with another.
            let number = rng.u8(..);
            let mut key = vec![number / 100; if number.is_multiple_of(3) { 20 } else { 1 }];
            key.extend([number, 0]);
            let becomes = *rng.choice(&[Becomes::Present, Becomes::Absent]).expect("not empty");
            match becomes {
                Becomes::Present => model.insert((key.clone(), row)),
                Becomes::Absent => model.remove(&(key.clone(), row)),
            };
            notes.add(noted.push(&key, RowId(row), becomes));
            if notes.are_many() {
                notes.put(noted);
                notes.make().expect("room");
                noted = notes.take(tree);
            }
        }
        notes.put(noted);
    }
    notes.settled().collect()
}

#[test]
fn what_workers_note_of_an_index_is_made_whoever_makes_it() {
    let mut rng = seeded("entries");
    let pool = BufferPool::new(2, 3000 * (PAGE_BYTES + 64)).unwrap();
    for count in [1, 2, 7] {
        let made = |at| IndexTree::create(pool.clone(), HomeId(0), TreeId(9 + at as u32));
        let trees: Vec<IndexTree> = (0..INDEXES).map(|at| made(at).unwrap()).collect();
        let mut models = vec![Entries::new(); INDEXES];
        for pass in 0..20 {
            let mut noted = Vec::new();
            for worker in 0..count {
                noted.extend(note(&mut rng, (worker, count), &trees, &mut models));
            }
            make_all(noted, workers(count as usize)).unwrap();
            for (tree, model) in trees.iter().zip(&models) {
                let found = entries(tree);
                assert!(found == *model, "{count} workers, pass {pass}, tree {}", tree.tree());
            }
        }
        trees.iter().for_each(|tree| tree.free().unwrap());
    }
}
