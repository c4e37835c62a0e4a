//! Index leaves that answer for their rows (rule 5.7): what an exact leaf says is what every
//! snapshot finds by the rows, whatever happens to them.

use super::*;
use crate::tree::index::{IndexBatch, Keys, LeafStamp};

type Entries = Vec<(Vec<u8>, RowId)>;

/// Goes through an index as a scan that wants its columns alone, on behalf of `instance` if there is one.
fn scan(world: &World, index: usize, instance: Option<usize>) -> (Vec<Entries>, usize) {
    let (mut exact, mut others) = (Vec::new(), 0);
    for batch in world.leaves(index) {
        if batch.is_exact() {
            exact
                .push((0..batch.len()).map(|at| (batch.key(at).to_vec(), batch.row(at))).collect());
        } else {
            others += 1;
            if let Some(number) = instance {
                want_exact(world, (number, index), &batch);
            }
        }
    }
    (exact, others)
}

/// The leaves of an index with the bit: their entries; and how many have it not.
fn exact_leaves(world: &World, index: usize) -> (Vec<Entries>, usize) {
    scan(world, index, None)
}

/// Asks an instance for the leaf of these entries, by as many rows as it takes.
pub(super) fn want_exact(world: &World, (instance, index): (usize, usize), entries: &IndexBatch) {
    let place = (&*world.table, &world.table.indexes[index]);
    let leaf = entries.stamp().expect("a leaf was read");
    world.instances[instance].want_exact(place, &leaf, 1 << 20);
}

/// Every entry of an exact leaf leads every one of the transactions to a row that it sees; an entry
/// of a keyed one never to a row that it sees with another key.
fn check(world: &World, open: &mut [Txn]) -> usize {
    let mut checked = 0;
    for index in 0..2 {
        let (leaves, _) = exact_leaves(world, index);
        for (key, row) in leaves.iter().flatten() {
            for txn in &mut *open {
                let (mut out, mut check) = (RowBuffer::new(), KeyCheck::new());
                let place = (&world.table.indexes[index], &key[..], Keyed::No);
                let seen = txn
                    .reader(world)
                    .read_by_key(&world.table, place, *row, &ALL, (&mut out, &mut check))
                    .expect("nobody is deciding");
                let snapshot = txn.snapshot;
                assert_eq!(seen, Presence::Present, "{row} of index {index} by {snapshot:?}");
                checked += 1;
            }
        }
        for (key, row, keyed) in world.entries_of(index, &[]) {
            for txn in open.iter_mut().filter(|_| keyed == Keyed::Yes) {
                let mut reads = [Keyed::No, Keyed::Yes].map(|keyed| {
                    let (mut out, mut check) = (RowBuffer::new(), KeyCheck::new());
                    let place = (&world.table.indexes[index], &key[..], keyed);
                    let buffers = (&mut out, &mut check);
                    txn.reader(world).read_by_key(&world.table, place, row, &ALL, buffers).ok()
                });
                reads.sort_by_key(|read| *read == Some(Presence::Present));
                assert_eq!(reads[0], reads[1], "{row} of index {index}: another key");
            }
        }
    }
    checked
}

fn row(random: &mut fastrand::Rng) -> Row {
    // Few entries a leaf of the second index.
    let text = vec![random.u8(b'a'..=b'z'); random.usize(200..400)];
    Row::new(random.i32(0..100_000), random.i32(0..30), &text, 1)
}

fn change(world: &World, txn: &mut Txn, rows: &mut Vec<RowId>, random: &mut fastrand::Rng) {
    let mark = txn.mark();
    let some = (!rows.is_empty()).then(|| rows[random.usize(..rows.len())]);
    let new = row(random);
    let done = match (random.u8(..4), some) {
        (0, Some(at)) => txn.delete(world, at).map(|_| ()),
        (1, Some(at)) => txn.set_balance(world, at, 7).map(|_| ()),
        (2, Some(at)) => {
            let changes = [(GROUP, new.bytes()[1].clone()), (TEXT, new.bytes()[2].clone())];
            txn.try_update(world, at, &changes, &mut Progress::default()).map(|_| ())
        }
        _ => txn.try_insert(world, &new, &mut Progress::default()).map(|at| rows.push(at)),
    };
    if done.is_err() || random.u8(..6) == 0 {
        txn.changes.roll_back(mark, world);
    }
}

#[test]
fn exact_leaves_answer_for_their_rows() {
    let first = seed(5);
    let (mut checked, mut not_ready) = (0, 0);
    for seed in first..first + 4 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::new(2);
        let mut rows = Vec::new();
        let mut loader = world.rc();
        for _ in 0..600 {
            let mark = loader.mark();
            match loader.try_insert(&world, &row(&mut random), &mut Progress::default()) {
                Ok(at) => rows.push(at),
                Err(_) => drop(loader.changes.roll_back(mark, &world)),
            }
        }
        world.commit(loader);
        let mut open: Vec<Txn> = Vec::new();
        for step in 0..1200 {
            if open.len() < 5 && random.u8(..6) == 0 {
                let all = [Isolation::ReadCommitted, Isolation::RepeatableRead];
                open.push(world.begin(random.usize(..2), all[random.usize(..2)]));
            }
            if !open.is_empty() {
                let at = random.usize(..open.len());
                match random.u8(..10) {
                    0..3 => change(&world, &mut open[at], &mut rows, &mut random),
                    3..5 => open[at].next_command(&world),
                    5 => drop(world.commit(open.swap_remove(at))),
                    6 => world.abort(open.swap_remove(at)),
                    _ => {}
                }
            }
            let oldest = open.iter().map(|txn| txn.snapshot.timestamp).min();
            let limit =
                CollectLimit { horizon: oldest.unwrap_or(Cts(world.clock)), stable: Cts::MAX };
            let number = random.usize(..2);
            let instance = &world.instances[number];
            if step % 8 == 0 {
                scan(&world, random.usize(..2), Some(number));
            }
            instance.collect(limit, &world, random.usize(1..20));
            not_ready += instance.sweep_indexes(&world, random.usize(1..2000)).not_ready;
            if step % 4 == 0 {
                checked += check(&world, &mut open);
            }
        }
        for txn in open {
            world.commit(txn);
        }
        world.collect(Cts(world.clock + 1));
        for index in 0..2 {
            scan(&world, index, Some(index));
            let instance = &world.instances[index];
            instance.hurry_sweep();
            assert!(!instance.sweep_indexes(&world, usize::MAX).more);
            assert_eq!(instance.unswept_ranges(), 0, "seed {seed}: every leaf is ready");
            assert_eq!(exact_leaves(&world, index).1, 0, "seed {seed}: index {index}");
        }
        world.assert_clean(&format!("seed {seed}"));
    }
    assert!(checked > 100_000 && not_ready > 1000, "{checked} {not_ready}");
}

#[test]
fn a_leaf_becomes_exact_when_the_last_undo_is_gone() {
    let mut world = World::new(2);
    let mut old = world.rr();
    let mut writer = world.begin(1, Isolation::ReadCommitted);
    let kept = writer.insert(&world, &Row::new(1, 1, b"a", 1));
    let instance = Rc::clone(&world.instances[1]);
    let exact = |world: &World| {
        scan(world, 0, Some(1));
        instance.hurry_sweep();
        instance.sweep_indexes(world, usize::MAX);
        exact_leaves(world, 0).1 == 0
    };
    assert!(!exact(&world), "in flight");
    world.commit(writer);
    world.collect(old.snapshot.timestamp);
    assert!(!exact(&world), "an older snapshot does not see the row");
    assert_eq!(old.read(&world, kept), None);
    world.commit(old);
    world.collect(Cts(world.clock));
    assert!(exact(&world) && instance.unswept_ranges() == 0);

    let mut changer = world.begin(1, Isolation::ReadCommitted);
    changer.set_balance(&world, kept, 2).expect("free");
    assert_eq!(exact_leaves(&world, 0).1, 0, "no key has changed");
    changer.next_command(&world);
    assert_eq!(changer.delete(&world, kept).expect("own"), WriteOutcome::Done);
    assert!(!exact(&world), "its delete cleared the bit, and is not decided");
    world.abort(changer);
    assert!(exact(&world), "as it was before");
}

/// Sweeps until nothing is left, as time passes; how many leaves became exact, or were.
fn sweep_all(world: &World, instance: usize) -> usize {
    let mut exact = 0;
    for _ in 0..1000 {
        if world.instances[instance].unswept_ranges() == 0 {
            return exact;
        }
        exact += world.instances[instance].sweep_indexes(world, 500).exact;
    }
    panic!("a range is swept for ever");
}

#[test]
fn what_no_scan_asks_for_is_not_swept() {
    let mut world = World::new(2);
    let mut writer = world.rc();
    for number in 0..4000 {
        writer.insert(&world, &Row::new(number, number % 30, &[b't'; 300], 1));
    }
    world.commit(writer);
    world.collect(Cts(world.clock));
    let (_, inexact) = exact_leaves(&world, 0);
    assert!(inexact > 3, "{inexact} leaves");
    assert_eq!((sweep_all(&world, 0), exact_leaves(&world, 0).1), (0, inexact), "nobody has asked");

    // A look at a row or two does not pay for a sweep of a leaf; many do.
    let mut batch = IndexBatch::with_limit(2);
    let all = (Bound::Unbounded, Bound::Unbounded);
    let path = (&*world.table, &world.table.indexes[0]);
    let mut looks = 0;
    while world.instances[0].unswept_ranges() == 0 {
        path.1.tree.scan(all.0, all.1, ScanDirection::Forward, &mut batch).expect("nobody writes");
        world.instances[0].want_exact(path, &batch.stamp().expect("the first"), batch.len());
        looks += 1;
    }
    assert!((20..200).contains(&looks), "{looks} looks");
    assert_eq!((sweep_all(&world, 0), exact_leaves(&world, 0).1), (1, inexact - 1), "that leaf");

    // Each instance sweeps what its scans have asked for, and a scan is one range.
    let (others, _) = scan(&world, 0, Some(1));
    assert_eq!((others.len(), world.instances[1].unswept_ranges()), (1, 1));
    assert_eq!(sweep_all(&world, 0), 0);
    assert_eq!((sweep_all(&world, 1), exact_leaves(&world, 0).1), (inexact - 1, 0));
}

/// As a crash leaves them that comes while a checkpoint is made (`collect/postponed.rs`).
#[test]
fn what_nothing_needs_goes_when_a_sweep_meets_it() {
    let mut world = World::new(1);
    let mut writer = world.rc();
    for number in 0..2000 {
        writer.insert(&world, &Row::new(number, number % 30, b"t", 1));
    }
    world.commit(writer);
    world.collect(Cts(world.clock));
    scan(&world, 0, Some(0));
    sweep_all(&world, 0);
    assert_eq!(exact_leaves(&world, 0).1, 0);
    let entries = world.entries_of(0, &[]);
    let tree = &world.table.indexes[0].tree;
    let leave = |key: &[u8], row, keys| {
        tree.insert(Near::Nowhere, (key, row), keys).expect("room");
    };
    // Of rows that are gone, two in one leaf, and of one with another key.
    leave(&entries[5].0, RowId(1 << 40), Keys::One);
    leave(&entries[6].0, RowId(1 << 41), Keys::One);
    leave(&entries[1900].0, entries[7].1, Keys::Several);
    assert_eq!(exact_leaves(&world, 0).1, 2);
    scan(&world, 0, Some(0));
    let instance = Rc::clone(&world.instances[0]);
    assert_eq!(instance.sweep_indexes(&world, usize::MAX).not_ready, 2);
    assert_eq!(instance.postponed_entries(), 3);
    // Nothing else goes with them: what is noted and needed stays.
    instance.postponed().note_left_over(
        &world.table,
        &world.table.indexes[0],
        (&entries[900].0, entries[900].1),
    );
    world.collect(Cts(world.clock));
    assert_eq!(instance.postponed_entries(), 0);
    sweep_all(&world, 0);
    assert_eq!(exact_leaves(&world, 0).1, 0);
    let left: Vec<_> = world.entries_of(0, &[]).into_iter().map(|it| (it.0, it.1)).collect();
    let expected: Vec<_> = entries.into_iter().map(|it| (it.0, it.1)).collect();
    assert!(left == expected, "{} of {} entries", left.len(), expected.len());
    world.assert_clean("in the end");
}

#[test]
fn a_range_that_is_never_ready_is_forgotten_and_asked_for_again() {
    let mut world = World::new(1);
    let mut old = world.rr();
    let mut writer = world.rc();
    writer.insert(&world, &Row::new(1, 1, b"a", 1));
    world.commit(writer);
    world.collect(old.snapshot.timestamp);
    scan(&world, 0, Some(0));
    assert_eq!(
        (sweep_all(&world, 0), exact_leaves(&world, 0).1),
        (0, 1),
        "who began before sees no row"
    );
    old.next_command(&world);
    world.commit(old);
    world.collect(Cts(world.clock));
    assert_eq!((sweep_all(&world, 0), exact_leaves(&world, 0).1), (0, 1), "forgotten");
    scan(&world, 0, Some(0));
    assert_eq!((sweep_all(&world, 0), exact_leaves(&world, 0).1), (1, 0));
}

#[test]
fn sweeps_that_spare_nobody_anything_become_rarer() {
    let mut world = World::new(1);
    let fill = |world: &mut World, round: i32| {
        let mut writer = world.rc();
        for number in 0..10_000 {
            writer.insert(world, &Row::new(10_000 * round + number, 1, b"t", 1));
        }
        world.commit(writer);
        world.collect(Cts(world.clock));
    };
    // How many scans that look at the first 16 rows of a leaf it takes until one is noted.
    let looks = |world: &World| {
        let path = (&*world.table, &world.table.indexes[0]);
        let batches = world.leaves(0);
        let leaf = batches[0].stamp().expect("a leaf");
        let looks = (1..).find(|_| {
            world.instances[0].want_exact(path, &leaf, 16);
            world.instances[0].unswept_ranges() > 0
        });
        looks.expect("sooner or later")
    };
    for doublings in 0..5 {
        fill(&mut world, doublings);
        assert_eq!(looks(&world), 8 << doublings, "nobody was spared anything");
        // The whole index then, and all of it becomes exact.
        scan(&world, 0, Some(0));
        assert!(sweep_all(&world, 0) > 3);
    }
    world.instances[0].spared(&world.table.indexes[0], 10_000);
    assert_eq!(looks(&world), 8, "it was worth it");
}

#[test]
fn scans_beside_each_other_have_a_range_each_and_the_list_is_bounded() {
    let mut world = World::new(1);
    let mut writer = world.rc();
    for number in 0..8000 {
        writer.insert(&world, &Row::new(number, 1, b"t", 1));
    }
    world.commit(writer);
    world.collect(Cts(world.clock));
    let path = (&*world.table, &world.table.indexes[0]);
    let instance = &world.instances[0];
    let batches = world.leaves(0);
    let leaves = batches.len();
    assert!(leaves > 8, "{leaves} leaves");
    let want = |at: usize| {
        instance.want_exact(path, &batches[at].stamp().expect("a leaf"), batches[at].len());
    };
    // One forwards from the beginning, one backwards from the end; they meet.
    for at in 0..leaves / 2 {
        want(at);
        want(leaves - 1 - at);
    }
    assert_eq!(instance.unswept_ranges(), 2);
    assert!(sweep_all(&world, 0) >= leaves / 2 * 2);
    assert_eq!(exact_leaves(&world, 0).1, leaves % 2);
    // No two of them are neighbours; who is noted first is forgotten first.
    let stamp = batches[0].stamp().expect("a leaf");
    for number in 0..2000_u32 {
        let (lower, upper) = ((2 * number).to_be_bytes(), (2 * number + 1).to_be_bytes());
        let leaf = LeafStamp { lower: &lower, upper: Some(&upper), ..stamp };
        instance.want_exact(path, &leaf, 1000);
        assert_eq!(instance.unswept_ranges(), 512.min(number as usize + 1));
    }
}
