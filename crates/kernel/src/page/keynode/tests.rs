//! Key nodes against a model, on owned and racy views, and on garbage.
#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use std::collections::BTreeMap;

use super::*;
use crate::base::{HomeId, Pid, TreeId};
use crate::latch::{OwnedPage, RacyPage};

type Page = Box<[u8; PAGE_BYTES]>;

fn seed() -> u64 {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("ATOLL_SEED={seed}");
    seed
}

/// Beyond the rounds of an ordinary test (`cargo xtask fuzz`).
fn fuzz_duration() -> std::time::Duration {
    let seconds = std::env::var("ATOLL_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    std::time::Duration::from_secs(seconds.unwrap_or(0))
}

fn new_page(kind: PageKind, level: u16, lower: &[u8], upper: Option<&[u8]>) -> Page {
    let mut page = Box::new([0xaa_u8; PAGE_BYTES]);
    header::format(&mut page, kind, Pid::new(HomeId(1), 7), TreeId(3));
    format_node(&mut page, level, lower, upper);
    page
}

/// What keys look like: their heads and prefixes are hit in different ways.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Dense,
    Tiny,
    Long,
    Words,
}

fn key(random: &mut fastrand::Rng, shape: Shape) -> Vec<u8> {
    match shape {
        Shape::Dense => {
            let mut key = random.u64(0..3000).to_be_bytes().to_vec();
            key.extend_from_slice(&random.u64(0..3).to_be_bytes());
            key
        }
        Shape::Tiny => {
            let len = random.usize(0..6);
            (0..len).map(|_| *random.choice(&[0, 1, 0xfe, 0xff]).unwrap()).chain([7; 8]).collect()
        }
        Shape::Long => {
            let mut key = vec![b'x'; random.usize(8..ENTRY_BYTES_MAX - 2)];
            key.extend_from_slice(&random.u16(0..9).to_be_bytes());
            key
        }
        Shape::Words => {
            let parts = ["", "warehouse/", "warehouse/district/", "item", "it", "\0", "\0\u{ff}"];
            let mut key = random.choice(parts).unwrap().as_bytes().to_vec();
            let len = random.usize(0..12);
            key.extend((0..len).map(|_| random.u8(0..4)));
            key.extend_from_slice(&[0, 0, 0, 0, 0, 0, 1, random.u8(..)]);
            key
        }
    }
}

struct Model {
    page: Page,
    keys: BTreeMap<Vec<u8>, u64>,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    inner: bool,
}

impl Model {
    fn covers(&self, key: &[u8]) -> bool {
        *key >= *self.lower && self.upper.as_ref().is_none_or(|upper| *key < **upper)
    }

    fn verify(&self) {
        let problems = check(&self.page);
        assert!(problems.is_empty(), "{problems:?}");
        let node = KeyNode::new(OwnedPage(&self.page));
        assert_eq!(node.count(), self.keys.len());
        for (at, (key, value)) in self.keys.iter().enumerate() {
            let mut here = Vec::new();
            node.key(at, &mut here);
            assert_eq!(here, *key);
            if self.inner {
                assert_eq!(OwnedPage(&self.page).u64(node.swip_position(at)), *value);
            } else {
                let row = u64::from_be_bytes(*key.last_chunk().unwrap());
                assert_eq!(node.row(at), RowId(row));
            }
        }
    }

    fn search(&self, key: &[u8]) {
        // SAFETY: the page outlives the view.
        let racy = KeyNode::new(unsafe { RacyPage::new(self.page.as_ptr()) });
        let owned = KeyNode::new(OwnedPage(&self.page));
        for place in [Probe::before(key), Probe::after(key)] {
            assert_eq!(racy.covers(place), owned.covers(place));
            let above_lower = place.is_above(&self.lower)
                || place.edge == Edge::Before && key == self.lower.as_slice();
            let below_upper = self.upper.as_ref().is_none_or(|upper| {
                !(place.is_above(upper) || place.edge == Edge::Before && upper.as_slice() == key)
            });
            assert_eq!(owned.covers(place), above_lower && below_upper, "{place:02x?}");
            if !owned.covers(place) {
                continue;
            }
            let expected = self.keys.keys().filter(|other| place.is_above(other)).count();
            assert_eq!(owned.place(place), expected, "{place:02x?}");
            assert_eq!(racy.place(place), expected, "{place:02x?}");
            if self.inner {
                let at_or_below = |other: &&Vec<u8>| {
                    place.is_above(other) || place.edge == Edge::Before && other.as_slice() == key
                };
                let children = self.keys.keys().filter(at_or_below).count();
                assert_eq!(racy.child_at(place), children - 1);
                assert_eq!(racy.child_before(place), expected.saturating_sub(1));
            }
        }
        if owned.covers(Probe::before(key)) {
            let below = self.keys.keys().filter(|other| other.as_slice() < key).count();
            let expected = if self.keys.contains_key(key) { Ok(below) } else { Err(below) };
            assert_eq!(owned.find(key), expected);
            assert_eq!(racy.find(key), expected);
            let has_key = |other: &[u8]| other.starts_with(key);
            let is_new = !self.keys.keys().any(|other| has_key(other))
                && !self.upper.as_ref().is_some_and(|upper| has_key(upper));
            for at in below.saturating_sub(2)..below + 2 {
                if let Some(there) = self.keys.keys().nth(at) {
                    assert_eq!(racy.begins_with(at, key), there.starts_with(key));
                    let is_next = is_new && at + 1 == below;
                    assert_eq!(
                        owned.goes_behind(at, there, key),
                        is_next,
                        "{there:02x?} {key:02x?}"
                    );
                }
            }
        }
    }

    fn split(&mut self, incoming: &[u8], random: &mut fastrand::Rng) {
        let mut separator = Vec::new();
        let Some(at) = choose_split(&self.page, incoming, &mut separator) else {
            assert!(self.keys.len() < 2);
            return;
        };
        assert!(separator.len() <= ENTRY_BYTES_MAX && self.covers(&separator));
        assert!(*separator > *self.lower, "both halves have a range");
        let kind = if self.inner { PageKind::Inner } else { PageKind::IndexLeaf };
        let mut right = Box::new([0x55_u8; PAGE_BYTES]);
        header::format(&mut right, kind, Pid::new(HomeId(1), 8), TreeId(3));
        split(&mut self.page, &mut right, at, &separator);
        let right_keys = self.keys.split_off(&separator);
        assert_eq!(self.keys.len(), at.0);
        let right = Model {
            page: right,
            keys: right_keys,
            lower: separator.clone(),
            upper: self.upper.replace(separator),
            inner: self.inner,
        };
        self.verify();
        right.verify();
        if random.bool() {
            *self = right;
        }
    }
}

impl Model {
    /// A copy that is cut to the keys between two, or from one on to the end, has just these.
    fn trim(&self, random: &mut fastrand::Rng, shape: Shape) {
        let mut ends = [key(random, shape), key(random, shape)];
        ends.sort();
        let [lower, upper] = ends;
        if self.inner || lower == upper || !self.covers(&lower) || !self.covers(&upper) {
            return;
        }
        let is_bounded = random.bool();
        let upper = if is_bounded { Some(upper) } else { self.upper.clone() };
        let mut page = self.page.clone();
        trim(&mut page, &lower, upper.as_deref());
        let keys = self.keys.range(lower.clone()..).map(|(key, value)| (key.clone(), *value));
        let keys = keys.filter(|(key, _)| upper.as_ref().is_none_or(|upper| key < upper));
        Model { page, keys: keys.collect(), lower, upper, inner: false }.verify();
    }
}

fn run(random: &mut fastrand::Rng, shape: Shape, inner: bool, steps: usize) {
    let (mut a, mut b) = (key(random, shape), key(random, shape));
    if a > b {
        std::mem::swap(&mut a, &mut b);
    }
    let (lower, upper) = match random.u8(0..4) {
        0 => (Vec::new(), None),
        1 => (a, None),
        2 => (Vec::new(), Some(b)),
        _ if a < b => (a, Some(b)),
        _ => (Vec::new(), None),
    };
    let kind = if inner { PageKind::Inner } else { PageKind::IndexLeaf };
    let page = new_page(kind, inner as u16, &lower, upper.as_deref());
    let mut model = Model { page, keys: BTreeMap::new(), lower, upper, inner };
    if inner {
        let lower = model.lower.clone();
        insert(&mut model.page, 0, &lower, 17).unwrap();
        model.keys.insert(lower, 17);
    }
    for step in 0..steps {
        let key = key(random, shape);
        model.search(&key);
        if !model.covers(&key) {
            continue;
        }
        let found = KeyNode::new(OwnedPage(&model.page)).find(&key);
        match found {
            Ok(at) if random.u8(0..3) > 0 && !(inner && at == 0) => {
                remove(&mut model.page, at);
                model.keys.remove(&key);
            }
            Ok(_) => {}
            Err(at) => {
                let value = random.u64(..);
                if insert(&mut model.page, at, &key, value).is_ok() {
                    model.keys.insert(key, value);
                } else {
                    assert!(model.keys.len() >= 4, "room for four of the longest");
                    model.split(&key, random);
                }
            }
        }
        if step % 16 == 0 {
            model.verify();
            model.trim(random, shape);
        }
    }
    model.verify();
}

#[test]
fn nodes_agree_with_a_model() {
    let mut random = fastrand::Rng::with_seed(seed());
    for round in 0..24 {
        for shape in [Shape::Dense, Shape::Tiny, Shape::Long, Shape::Words] {
            let steps = if matches!(shape, Shape::Dense) { 2500 } else { 400 };
            run(&mut random, shape, round % 2 == 0, steps);
        }
    }
}

#[test]
fn fuzz_key_node_pages() {
    let mut random = fastrand::Rng::with_seed(seed());
    let mut page = new_page(PageKind::IndexLeaf, 0, b"", None);
    let end = std::time::Instant::now() + fuzz_duration();
    for round in 0.. {
        if round >= 3000 && std::time::Instant::now() >= end {
            break;
        }
        random.fill(&mut page[AT_LEVEL..AT_SLOTS + 256]);
        if round % 2 == 0 {
            random.fill(&mut page[..]);
        }
        // SAFETY: the page outlives the view.
        let node = KeyNode::new(unsafe { RacyPage::new(page.as_ptr()) });
        let key = key(&mut random, Shape::Words);
        for place in [Probe::before(&key), Probe::after(&key), Probe::MIN, Probe::MAX] {
            let slot = node.place(place);
            assert!(slot <= node.count() && node.child_at(place) <= node.count());
            node.covers(place);
            node.begins_with(slot, &key);
            node.row(slot);
            node.swip_position(slot);
            let mut out = Vec::new();
            node.key(slot, &mut out);
            node.lower(&mut out);
            node.upper(&mut out);
            assert!(out.len() <= 4 * PAGE_BYTES);
        }
        // The check never panics and sees most of it.
        check(&page);
    }
}

#[test]
fn the_check_sees_damage() {
    let mut page = new_page(PageKind::IndexLeaf, 0, b"aaaa", Some(b"aazz"));
    for n in 0..100_u64 {
        let mut key = b"aam".to_vec();
        key.extend_from_slice(&n.to_be_bytes());
        let at = KeyNode::new(OwnedPage(&page)).find(&key).unwrap_err();
        insert(&mut page, at, &key, 0).unwrap();
    }
    assert_eq!(check(&page), Vec::<String>::new());
    let damage = [
        (AT_COUNT, 1),
        (AT_HEAP, 4),
        (AT_DEAD, 1),
        (AT_PREFIX, 1),
        (AT_LOWER + 2, 1),
        (AT_UPPER + 2, 2),
        (AT_LEVEL, 1),
        (AT_HINTS + 8, 1),
        (AT_SLOTS, 1),
        (AT_SLOTS + 4, 1),
        (AT_SLOTS + 14, 1),
        (header::AT_KIND, 2),
    ];
    for (at, flip) in damage {
        page[at] ^= flip;
        assert_ne!(check(&page), Vec::<String>::new(), "byte {at}");
        page[at] ^= flip;
    }
}

#[test]
fn ascending_insertions_leave_full_nodes_behind() {
    let mut page = new_page(PageKind::IndexLeaf, 0, b"", None);
    let mut n = 0_u64;
    loop {
        let mut key = n.to_be_bytes().to_vec();
        key.extend_from_slice(&n.to_be_bytes());
        let at = KeyNode::new(OwnedPage(&page)).find(&key).unwrap_err();
        if insert(&mut page, at, &key, 0).is_err() {
            let mut separator = Vec::new();
            let point = choose_split(&page, &key, &mut separator).unwrap();
            assert_eq!(point.0, n as usize);
            assert!(separator.len() <= 8 && *separator <= *key);
            break;
        }
        n += 1;
    }
    assert!(n > 600, "{n} entries of 16 bytes");
}

/// A full node has no room for the fence that a split gives it: the first version then split in the
/// middle, always, and left half of each page empty.
#[test]
fn ascending_keys_of_a_group_among_others_leave_full_nodes_behind() {
    for lines in [1_u32, 3, 10] {
        let entry = |group: u32, order: u32, line: u32| {
            let parts = [1, group, order, line, 0, order * lines + line];
            parts.map(u32::to_be_bytes).concat()
        };
        let mut pages = vec![new_page(PageKind::IndexLeaf, 0, b"", None)];
        let mut add = |key: &[u8]| {
            for _ in 0..3 {
                let mut nodes = pages.iter().map(|page| KeyNode::new(OwnedPage(page)));
                let at = nodes.position(|node| node.covers(Probe::before(key))).unwrap();
                let slot = KeyNode::new(OwnedPage(&pages[at])).find(key).unwrap_err();
                if insert(&mut pages[at], slot, key, 0).is_ok() {
                    return pages.len();
                }
                let mut separator = Vec::new();
                let point = choose_split(&pages[at], key, &mut separator).unwrap();
                let mut right = new_page(PageKind::IndexLeaf, 0, b"", None);
                split(&mut pages[at], &mut right, point, &separator);
                assert_eq!(check(&pages[at]), Vec::<String>::new());
                assert_eq!(check(&right), Vec::<String>::new());
                pages.insert(at + 1, right);
            }
            panic!("no room after two splits");
        };
        for order in 0..300 {
            add(&entry(1, order, 0));
            add(&entry(3, order, 0));
        }
        let before = add(&entry(2, 0, 0));
        let count = 20_000;
        let after = (1..=count).map(|n| add(&entry(2, 1 + n / lines, n % lines))).last().unwrap();
        // Slot and rest take 8 and up to 17 bytes.
        let full = count as usize * 25 / SPACE_BYTES;
        assert!(after - before <= full + full / 10 + 2, "{lines}: {before} to {after} pages");
    }
}

#[test]
fn a_queue_leaves_full_nodes_behind() {
    let mut page = new_page(PageKind::IndexLeaf, 0, b"", None);
    let (mut first, mut last) = (0_u64, 0_u64);
    loop {
        let key = last.to_be_bytes();
        let at = KeyNode::new(OwnedPage(&page)).count();
        if insert(&mut page, at, &key, 0).is_err() {
            break;
        }
        last += 1;
        if last.is_multiple_of(10) {
            remove(&mut page, 0);
            first += 1;
        }
    }
    let mut separator = Vec::new();
    let point = choose_split(&page, &last.to_be_bytes(), &mut separator).unwrap();
    assert!(point.0 as u64 > (last - first) * 9 / 10, "{point:?} of {}", last - first);
}

#[test]
fn removal_and_insertion_win_dead_bytes_back() {
    let mut page = new_page(PageKind::IndexLeaf, 0, b"", None);
    let entry = |n: u64| [&[b'k'; 500][..], &n.to_be_bytes()].concat();
    let mut n = 0;
    while insert(&mut page, n as usize, &entry(n), 0).is_ok() {
        n += 1;
    }
    let before = room(&page);
    for _ in 0..500 {
        remove(&mut page, 0);
        assert_eq!(room(&page), before + 508 + SLOT_BYTES);
        let at = KeyNode::new(OwnedPage(&page)).count();
        insert(&mut page, at, &entry(n), 0).unwrap();
        n += 1;
    }
    assert_eq!(check(&page), Vec::<String>::new());
    assert_eq!(room(&page), before);
}

/// The first version put the separator behind an ascending run without asking whether the left
/// node, full as it was, had room for it as its new upper fence.
#[test]
fn a_full_node_of_long_ascending_keys_splits_though_its_fence_needs_room() {
    for tail in 0..4 {
        let mut page = new_page(PageKind::IndexLeaf, 0, b"", None);
        let entry = |n: u64| [&n.to_be_bytes()[..], &[b'k'; 1000], &n.to_be_bytes()].concat();
        for n in 0..tail {
            insert(&mut page, n, &entry(1000 + n as u64), 0).unwrap();
        }
        for n in 0.. {
            let mut key = entry(n);
            if n > 9 {
                key.truncate(1008);
                key.splice(7..8, [9]);
                key.extend_from_slice(&[(n - 9) as u8; 8]);
            }
            let Err(at) = KeyNode::new(OwnedPage(&page)).find(&key) else { panic!("ascending") };
            if insert(&mut page, at, &key, 0).is_ok() {
                continue;
            }
            let mut separator = Vec::new();
            let point = choose_split(&page, &key, &mut separator).unwrap();
            let mut right = new_page(PageKind::IndexLeaf, 0, b"", None);
            split(&mut page, &mut right, point, &separator);
            assert_eq!(check(&page), Vec::<String>::new());
            assert_eq!(check(&right), Vec::<String>::new());
            break;
        }
    }
}
