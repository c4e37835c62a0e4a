//! The page files on a simulated disk: what is given back, what a crash leaves.

use std::sync::Arc;

use super::*;
use crate::io::{Fault, FaultOn, SimDisk, SimOptions};

const EXTENT: u64 = 8;
const HOME: HomeId = HomeId(0);

fn place(number: u64) -> Place {
    Place::new(HOME, number)
}

fn open(disk: &SimDisk) -> Arc<PageStore> {
    PageStore::new(Arc::new(disk.clone()), 7, 1, EXTENT)
}

/// A store of 64 extents, all current and in the published checkpoint, of which but the first place
/// is replaced then.
fn emptied(disk: &SimDisk) -> Arc<PageStore> {
    let store = open(disk);
    store.begin(Term(1));
    let mut taken = 0;
    while taken < 64 * EXTENT {
        let run = store.take(HOME, EXTENT).expect("there is room");
        for at in 0..run.count {
            store.adopt(run.first.after(at));
            store.hold(run.first.after(at), Term(1));
        }
        store.written(run);
        taken += run.count;
    }
    store.files().iter().for_each(|file| file.sync().expect("it is synced"));
    store.publish(Term(1));
    let stats = store.stats();
    assert_eq!((stats.live(), stats.held), (64 * EXTENT, 64 * EXTENT));
    assert_eq!(store.stats().pages, 64 * EXTENT + 1);
    (2..=64 * EXTENT).for_each(|number| store.replaced(place(number)));
    store
}

fn shrink(store: &PageStore) -> u64 {
    let mut pages = 0;
    while let given @ 1.. = store.shrink(HOME).expect("nothing fails") {
        assert!(given <= CUT_EXTENTS * EXTENT);
        pages += given;
    }
    pages
}

#[test]
fn what_a_published_checkpoint_has_is_not_cut_off() {
    let disk = SimDisk::new(SimOptions::seeded(1));
    let store = emptied(&disk);
    assert_eq!(shrink(&store), 0, "the published checkpoint has it all");
    store.begin(Term(2));
    assert_eq!(shrink(&store), 0, "while another is made, too");
    store.hold(place(1), Term(2));
    store.publish(Term(2));
    assert_eq!(shrink(&store), 0, "the file was well filled when it was begun");
    store.begin(Term(3));
    assert_eq!(shrink(&store), 62 * EXTENT);
    let file = store.file(HOME).unwrap();
    assert_eq!(file.len().unwrap(), (2 * EXTENT + 1) * PAGE_BYTES as u64);
    assert_eq!(store.stats().pages, 2 * EXTENT + 1);
    // What is left is given out, from below on, then the file grows.
    let mut next = 2;
    while next < 3 * EXTENT + 1 {
        let run = store.take(HOME, 99).unwrap();
        assert_eq!(run.first, place(next));
        next += run.count;
    }
    assert_eq!((next, store.stats().pages), (3 * EXTENT + 1, 3 * EXTENT + 1));
}

#[test]
fn a_file_system_that_refuses_is_asked_again() {
    let disk = SimDisk::new(SimOptions::seeded(2));
    let store = emptied(&disk);
    for term in [Term(2), Term(3)] {
        store.begin(term);
        store.publish(term);
    }
    let (on, errno) = (FaultOn::Truncate, libc::EIO);
    disk.inject(Fault { on, name_contains: "pages", after: 1, times: 1, errno });
    assert_eq!(store.shrink(HOME), Ok(CUT_EXTENTS * EXTENT));
    assert!(matches!(store.shrink(HOME), Err(Error::Io { .. })));
    assert_eq!(store.stats().pages, 48 * EXTENT + 1);
    assert_eq!(shrink(&store), 46 * EXTENT);
}

#[test]
fn a_file_is_as_long_as_a_crash_leaves_it() {
    let disk = SimDisk::new(SimOptions::seeded(3));
    let store = emptied(&disk);
    for term in [Term(2), Term(3)] {
        store.begin(term);
        store.hold(place(1), term);
        store.publish(term);
    }
    shrink(&store);
    let (mut shortest, mut longest) = (u64::MAX, 0);
    for seed in 0..50 {
        let store = open(&disk.crash(seed));
        store.found(place(1), Found::Current);
        store.file(HOME).unwrap();
        let pages = store.stats().pages;
        (shortest, longest) = (pages.min(shortest), pages.max(longest));
        // All but what the checkpoint has is free.
        let mut free = 0;
        while store.stats().pages == pages {
            free += store.take(HOME, 1).unwrap().count;
        }
        assert_eq!(free - 1, pages - 2, "of {pages}");
    }
    assert_eq!((shortest, longest), (2 * EXTENT + 1, 64 * EXTENT + 1));
}

/// A place that is given out before all that the checkpoint has are known may be one of those.
#[test]
fn no_place_is_given_out_while_places_are_being_found() {
    let disk = SimDisk::new(SimOptions::seeded(9));
    let store = emptied(&disk);
    store.begin(Term(2));
    store.publish(Term(2));
    let found: Result<()> = store.find(|| {
        assert!(store.take_free(HOME).is_none() && store.retake(place(1)).is_none());
        assert!(store.take(HOME, 1).is_err() && store.take_own(HOME).is_err());
        Ok(())
    });
    assert_eq!(found, Ok(()));
    store.written(store.take_free(HOME).expect("most places are free"));
    let failed = store.find(|| Err::<(), _>(Error::Cancelled));
    assert_eq!(failed, Err(Error::Cancelled));
    assert!(store.take_free(HOME).is_none(), "they are not known");
}
