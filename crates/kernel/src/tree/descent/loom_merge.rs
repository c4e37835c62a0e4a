//! Loom models of merges, over the code that runs (run with `--cfg loom`, filter `loom_merge`).
//!
//! A tree of two leaves and a root; one thread merges the leaves, while another descends to a key of
//! the leaf that goes, scans by fences, or adds a key (three threads at a time spin so much that loom
//! does not come to an end; they meet in `tree::index`'s stress tests). What a reader is sure of: the keys that
//! nobody takes away are found, each once and in order, and a key that was added stays. Pages'
//! bytes are no atomics here, so the models are about every order of the latches' steps; orders of
//! loads and stores within a latch are `loom_latch`'s. Mutant caught here:
//! `merge-parent-as-it-was`.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::base::{PAGE_BYTES, Pid};
use crate::page::keynode::UpperFence;
use crate::tree::loom_threads::{model, with_stack};

const HOME: HomeId = HomeId(0);
/// Keys that are there from the beginning; the last two are in the right leaf.
const KEYS: [u8; 4] = [b'b', b'd', b'p', b't'];
const SEPARATOR: &[u8] = b"m";
/// The writer's key: it belongs into the right leaf, or where that went.
const ADDED: u8 = b'q';

/// An entry of a leaf: a key and a row id.
fn entry(letter: u8) -> [u8; 9] {
    let mut entry = [0; 9];
    entry[0] = letter;
    entry
}

struct AtSeparator;

impl SplitLeaf for AtSeparator {
    fn plan(&mut self, _: &PageWrite, separator: &mut Vec<u8>) -> SplitPlan {
        separator.extend_from_slice(SEPARATOR);
        SplitPlan::Split
    }

    fn split(&mut self, left: &mut PageWrite, right: &mut PageWrite, separator: &[u8]) {
        let at = KeyNode::new(left.owned()).place(Probe::before(separator));
        keynode::split(left.bytes_mut(), right.bytes_mut(), keynode::SplitPoint(at), separator);
    }
}

fn insert(trunk: &Trunk, letter: u8) {
    let key = entry(letter);
    loop {
        let mut leaf = match trunk.write_leaf(Probe::before(&key)) {
            Ok(leaf) => leaf,
            Err(Stop::Retry) => {
                thread::yield_now();
                continue;
            }
            Err(stop) => panic!("a writer stopped: {stop:?}"),
        };
        let node = KeyNode::new(leaf.owned());
        assert_ne!(leaf.pid(), Pid(0), "a writer holds a page that was freed");
        assert!(
            node.covers(Probe::before(&key)),
            "a writer holds a leaf that does not cover its key"
        );
        let at = node.find(&key).expect_err("the key is new");
        keynode::insert(leaf.bytes_mut(), at, &key, 0).expect("the leaf has room");
        return;
    }
}

/// A root with two leaves.
fn tree() -> Arc<Trunk> {
    let pool = BufferPool::new(1, 5 * PAGE_BYTES).expect("memory");
    let trunk = Trunk::create(pool, HOME, TreeId(4), PageKind::IndexLeaf, &mut |leaf| {
        keynode::format_node(leaf.bytes_mut(), 0, &[], None);
    });
    let trunk = trunk.expect("the pool has room");
    KEYS.iter().for_each(|letter| insert(&trunk, *letter));
    trunk.split_leaf(HOME, Probe::before(SEPARATOR), &mut AtSeparator).expect("there is room");
    Arc::new(trunk)
}

fn merge(trunk: &Trunk) -> Merged {
    loop {
        match trunk.merge_leaf(Probe::before(&entry(KEYS[0])), &mut MergeKeys) {
            Ok(merged) => return merged,
            Err(Stop::Retry) => thread::yield_now(),
            Err(stop) => panic!("a merge stopped: {stop:?}"),
        }
    }
}

fn read<R>(trunk: &Trunk, place: Probe<'_>, read: impl Fn(&PageRead) -> R) -> R {
    loop {
        match trunk.read_leaf(place, Side::At, |leaf| Ok(read(leaf))) {
            Ok(found) => return found,
            Err(Stop::Retry) => thread::yield_now(),
            Err(stop) => panic!("a reader stopped: {stop:?}"),
        }
    }
}

/// A key of the leaf that goes is always found.
fn look_up(trunk: &Trunk) {
    let key = entry(KEYS[2]);
    let found =
        read(trunk, Probe::before(&key), |leaf| KeyNode::new(leaf.racy()).find(&key).is_ok());
    assert!(found, "a key was not found while its leaf was merged");
}

/// The letters from left to right, leaf by leaf.
fn scan(trunk: &Trunk) -> Vec<u8> {
    let (mut letters, mut from) = (Vec::new(), Vec::new());
    loop {
        let place = Probe::before(&from);
        let (mut keys, upper) = read(trunk, place, |leaf| {
            let node = KeyNode::new(leaf.racy());
            let (mut keys, mut key, mut upper) = (Vec::new(), Vec::new(), Vec::new());
            for at in node.place(place)..node.count() {
                key.clear();
                node.key(at, &mut key);
                keys.extend(key.first());
            }
            let has_upper = node.upper(&mut upper) == UpperFence::Some;
            (keys, has_upper.then_some(upper))
        });
        letters.append(&mut keys);
        match upper {
            Some(upper) => from = upper,
            None => return letters,
        }
    }
}

fn check_scan(letters: &[u8]) {
    assert!(letters.is_sorted_by(|a, b| a < b), "{letters:?}");
    let old: Vec<u8> = letters.iter().copied().filter(|letter| *letter != ADDED).collect();
    assert_eq!(old, KEYS);
}

/// After all: the tree is sound, has these keys, and no page too many.
fn check_end(trunk: &Trunk, expected: &[u8], merged: Merged) {
    assert_eq!(scan(trunk), expected);
    let problems = trunk.check(&mut |leaf, lower, upper, problems| {
        problems.extend(keynode::check(leaf));
        problems.extend(fence_problems(leaf, lower, upper));
    });
    assert_eq!(problems.expect("nobody is in the way"), Vec::<String>::new());
    let pages = if merged == Merged::Yes { 2 } else { 3 };
    assert_eq!(trunk.pool().stats().used, pages);
}

fn spawn<R: Send + 'static>(trunk: &Arc<Trunk>, work: fn(&Trunk) -> R) -> thread::JoinHandle<R> {
    let trunk = trunk.clone();
    with_stack(move || work(&trunk))
}

#[test]
fn loom_merge_and_a_reader() {
    model(3, || {
        let trunk = tree();
        let reader = spawn(&trunk, look_up);
        let merged = merge(&trunk);
        reader.join().unwrap();
        check_end(&trunk, &KEYS, merged);
    });
}

#[test]
fn loom_merge_and_a_scan() {
    model(3, || {
        let trunk = tree();
        let scanner = spawn(&trunk, scan);
        let merged = merge(&trunk);
        check_scan(&scanner.join().unwrap());
        check_end(&trunk, &KEYS, merged);
    });
}

#[test]
fn loom_merge_and_a_writer() {
    model(3, || {
        let trunk = tree();
        let writer = spawn(&trunk, |trunk| insert(trunk, ADDED));
        let merged = merge(&trunk);
        writer.join().unwrap();
        check_end(&trunk, b"bdpqt", merged);
    });
}
