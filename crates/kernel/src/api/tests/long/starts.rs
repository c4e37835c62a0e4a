//! Starts beside long values: what rows refer to is counted and not read, and what nobody refers to is found.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::checkpoints::make_checkpoint;
use super::*;
use crate::base::{HomeId, PAGE_BYTES};
use crate::io::{Direct, Disk, OpenHow, SimDisk, SimOptions};
use crate::page::{PageKind, header};
use crate::store::file_name;

/// Pages that a text fills, with a little left for one more: nothing of it can be compressed.
pub(super) const PAGES: u64 = 3;

pub(super) fn texts(id: i64) -> Texts {
    let mut random = fastrand::Rng::with_seed(id as u64);
    let mut texts: Texts = vec![None; TEXTS];
    texts[3] = Some((0..PAGES * 16_384).map(|_| random.u8(..)).collect());
    texts
}

pub(super) fn by_hand() -> Options {
    Options { checkpoint_interval_ms: 0, checkpoint_wal_bytes: 0, ..options() }
}

/// Opens it; answers how many pages were read of its checkpoint, too, and what was told of others that could not be read.
pub(super) fn open_told(disk: &SimDisk) -> (Database, u64, Vec<String>) {
    let (mut pages, mut unread) = (0, Vec::new());
    let database = Database::open_on(Arc::new(disk.clone()), by_hand(), &mut |line| {
        if line.contains("damaged") {
            unread.push(line.to_owned());
        }
        let loaded = line.strip_prefix("loaded checkpoint ");
        if let Some((_, rest)) = loaded.and_then(|rest| rest.split_once(": ")) {
            pages = rest.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        }
    });
    let database = database.expect("it opens");
    assert_eq!(database.metrics().expect("it runs").unread.count(), unread.len() as u64);
    (database, pages, unread)
}

pub(super) fn open(disk: &SimDisk) -> (Database, u64) {
    let (database, pages, unread) = open_told(disk);
    assert_eq!(unread, Vec::<String>::new());
    (database, pages)
}

/// Where these bytes of a long value lie in page files: the file's name, its bytes and the place among them.
pub(super) fn find_on_disk(disk: &SimDisk, wanted: &[u8]) -> (String, Vec<u8>, usize) {
    for home in 0..2 {
        let name = file_name(HomeId(home));
        let file = disk.open(&name, OpenHow::Existing, Direct::No).expect("it is there");
        let mut bytes = vec![0; file.len().expect("it can be asked") as usize];
        file.read_at(0, &mut bytes).expect("it is read");
        let is_long = |at: usize| {
            bytes[at / PAGE_BYTES * PAGE_BYTES + header::AT_KIND] == PageKind::Overflow as u8
        };
        let mut windows = bytes.windows(wanted.len()).enumerate();
        let found = windows.find(|(at, window)| *window == wanted && is_long(*at));
        if let Some(at) = found.map(|(at, _)| at) {
            return (name, bytes, at);
        }
    }
    panic!("it does not lie on disk");
}

/// Changes a bit in the page that has these bytes.
pub(super) fn flip_page_of(disk: &SimDisk, wanted: &[u8]) {
    let (name, bytes, at) = find_on_disk(disk, wanted);
    disk.damage(&name, at as u64, &[bytes[at] ^ 1]).expect("it is written");
}

/// A part of a row's text, in its page `page`.
pub(super) fn part(texts: &Texts, page: usize) -> Vec<u8> {
    texts[3].as_ref().expect("it has a text")[page * 16_000 + 1000..][..100].to_vec()
}

pub(super) fn insert_all(database: &Database, table: Oid, ids: std::ops::Range<i64>) {
    for id in ids {
        let done = transact(database, |it| insert(it, table, id, &texts(id)).map(drop));
        done.expect("there is room");
    }
}

#[test]
fn a_start_reads_no_long_value() {
    let disk = SimDisk::new(SimOptions::seeded(11));
    let (database, _) = open(&disk);
    let table = make_table(&database);
    insert_all(&database, table, 0..5);
    make_checkpoint(&database);
    database.close().unwrap();
    drop(database);
    let (database, pages_of_few) = open(&disk);
    insert_all(&database, table, 5..40);
    make_checkpoint(&database);
    database.close().unwrap();
    drop(database);
    let (database, pages) = open(&disk);
    assert!(pages > 0 && pages < pages_of_few + PAGES, "{pages} pages, {pages_of_few} of few rows");
    assert!(all(&database, table) == (0..40).map(|id| (id, texts(id))).collect());
    assert!(check(&database) >= 40 * PAGES);
    database.close().unwrap();
}

/// A checkpoint has long values of a transaction that S does not see. The starts after it find their pages, which stay
/// as they are while a start may be followed by another from the same checkpoint; the next one gives them back.
#[test]
fn values_that_a_checkpoint_need_not_have_are_found_and_given_back() {
    const KEPT: i64 = 4;
    const LOST: i64 = 12;
    let disk = SimDisk::new(SimOptions::seeded(12));
    let (database, _) = open(&disk);
    let table = make_table(&database);
    insert_all(&database, table, 0..KEPT);
    let lost = std::sync::Mutex::new(None);
    let done = transact(&database, |it| {
        (KEPT..KEPT + LOST).try_for_each(|id| insert(it, table, id, &texts(id)).map(drop))?;
        Database::checkpoint(it.context())?;
        *lost.lock().unwrap() = Some(disk.kill(3));
        Err::<(), _>(Error::Cancelled)
    });
    assert_eq!(done, Err(Error::Cancelled));
    drop(database);
    let disk = lost.into_inner().unwrap().expect("it was killed");
    let mut model: BTreeMap<i64, Texts> = (0..KEPT).map(|id| (id, texts(id))).collect();
    for round in 0..3 {
        // No checkpoint is made when it closes.
        let (database, pages) = open(&disk);
        assert!(pages >= LOST as u64 * PAGES, "{pages} pages are read");
        assert!(all(&database, table) == model);
        // What is written now lies elsewhere.
        let id = 1000 + round;
        insert_all(&database, table, id..id + 1);
        model.insert(id, texts(id));
        database.close().unwrap();
    }
    // One page of theirs goes bad, the first of its value: that keeps nobody from starting. Its place is given back as those
    // of the others are; which are behind it is not known.
    flip_page_of(&disk, &part(&texts(KEPT + 1), 0));
    for _ in 0..2 {
        let (database, _, unread) = open_told(&disk);
        assert_eq!(unread.len(), 2, "{unread:?}");
        assert!(unread[1].contains(&format!("{PAGES} more than can be found")), "{unread:?}");
        assert!(all(&database, table) == model);
        database.close().unwrap();
    }
    let (database, _, _) = open_told(&disk);
    // Nothing of it keeps a backup from being made, which begins with a checkpoint.
    let folder = tempfile::tempdir().unwrap();
    database.backup(&folder.path().join("backup"), &mut |_, _| Ok(())).expect("it is readable");
    make_checkpoint(&database);
    database.close().unwrap();
    drop(database);
    let (database, pages, unread) = open_told(&disk);
    assert_eq!(unread.len(), 1, "{unread:?}");
    assert!(unread[0].contains("more than can be found"), "{unread:?}");
    assert!(pages < LOST as u64 * PAGES, "{pages} pages are read");
    assert!(all(&database, table) == model);
    database.close().unwrap();
}
