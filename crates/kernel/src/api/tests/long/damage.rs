//! Pages of long values that are damaged where no row needs them: nobody is kept from starting or from making a backup, and
//! everybody is told. Pages that rows need are named.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use std::collections::BTreeMap;

use super::super::checkpoints::make_checkpoint;
use super::starts::{
    PAGES, by_hand, find_on_disk, flip_page_of, insert_all, open, open_told, part, texts,
};
use super::*;
use crate::base::PAGE_BYTES;
use crate::io::{SimDisk, SimOptions};

fn backup(database: &Database) -> Result<()> {
    let folder = tempfile::tempdir().expect("there is room");
    let made = database.backup(&folder.path().join("backup"), &mut |_, _| Ok(()));
    made.map(drop)
}

/// Deletes a row without looking at its texts.
fn delete_unseen(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<()> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    let key = KeyBytes::encode(&table.indexes[0], &[Some(&id.to_le_bytes())]);
    let (index, mut row) = (&table.indexes[0], RowBuffer::new());
    let found = statement.index_point(&table, index, &key, &[ColumnId(0)], &mut row)?;
    assert_eq!(statement.delete(&table, found.expect("the row is there"))?, WriteOutcome::Done);
    Ok(())
}

/// A checkpoint has long values that the log behind it deletes, replaces and drops with their table; a page of each is
/// damaged. A start does without them, and tells.
#[test]
fn what_the_log_takes_out_need_not_be_readable() {
    const ROWS: i64 = 6;
    for drops in [false, true] {
        let disk = SimDisk::new(SimOptions::seeded(13));
        let (database, _) = open(&disk);
        let table = make_table(&database);
        insert_all(&database, table, 0..ROWS);
        make_checkpoint(&database);
        let mut model: BTreeMap<i64, Texts> = (0..ROWS).map(|id| (id, texts(id))).collect();
        if drops {
            transact(&database, |it| it.truncate(&[table])).unwrap();
            model.clear();
        } else {
            transact(&database, |it| delete(it, table, 1)).unwrap();
            model.remove(&1);
            let change = [(3, texts(100)[3].clone())];
            transact(&database, |it| update(it, table, 2, &change)).unwrap();
            model.insert(2, texts(100));
        }
        let disk = disk.kill(5);
        drop(database);
        // Of one value the first page, of the other one in the middle.
        flip_page_of(&disk, &part(&texts(1), 0));
        flip_page_of(&disk, &part(&texts(2), 1));
        for _ in 0..2 {
            let (database, _, unread) = open_told(&disk);
            assert_eq!(unread.len(), 2, "{unread:?}");
            assert!(all(&database, table) == model);
            database.close().unwrap();
        }
        let (database, _, _) = open_told(&disk);
        backup(&database).expect("what is damaged is in no checkpoint any more");
        make_checkpoint(&database);
        insert_all(&database, table, 200..210);
        model.extend((200..210).map(|id| (id, texts(id))));
        database.close().unwrap();
        drop(database);
        let (database, _, unread) = open_told(&disk);
        // Those behind the damaged pages; each value has one page more than `PAGES`.
        let left = format!("{} more than can be found", PAGES + PAGES - 1);
        assert!(unread.len() == 1 && unread[0].contains(&left), "{unread:?}");
        assert!(all(&database, table) == model);
        assert_eq!(database.check().unwrap().problems, Vec::<String>::new());
        database.close().unwrap();
    }
}

/// The same while it runs: collection meets a damaged page of a value that was deleted.
#[test]
fn a_damaged_page_that_is_freed_is_told_of_and_keeps_no_backup_from_being_made() {
    let disk = SimDisk::new(SimOptions::seeded(14));
    let (database, _) = open(&disk);
    let table = make_table(&database);
    insert_all(&database, table, 0..3);
    make_checkpoint(&database);
    database.close().unwrap();
    drop(database);
    let (database, _) = open(&disk);
    let events = database.checkpoint_events().unwrap();
    flip_page_of(&disk, &part(&texts(1), 0));
    transact(&database, |it| delete_unseen(it, table, 1)).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while database.metrics().unwrap().unread.is_empty() {
        assert!(Instant::now() < until, "nobody was told");
        std::thread::sleep(Duration::from_millis(2));
    }
    let unread = database.metrics().unwrap().unread;
    assert_eq!(unread.count(), 1);
    assert!(unread.lines("it")[0].contains(".pages"), "{unread:?}");
    backup(&database).expect("the damaged page is free");
    database.close().unwrap();
    drop(database);
    let told = events.into_iter().filter_map(|event| match event {
        CheckpointEvent::Unread { count, why } => Some((count, why.contains(".pages"))),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(1, true)]);
}

/// A page that a row needs is blank: the backup names it.
#[test]
fn a_backup_has_no_blank_page_of_a_long_value() {
    let disk = SimDisk::new(SimOptions::seeded(15));
    let (database, _) = open(&disk);
    let table = make_table(&database);
    insert_all(&database, table, 0..3);
    make_checkpoint(&database);
    backup(&database).expect("nothing is wrong");
    let (name, _, at) = find_on_disk(&disk, &part(&texts(1), 1));
    let page = at / PAGE_BYTES;
    disk.damage(&name, (page * PAGE_BYTES) as u64, &[0; PAGE_BYTES]).unwrap();
    let made = backup(&database);
    let Err(Error::Corrupt { detail, .. }) = &made else { panic!("{made:?}") };
    assert!(detail.contains(&name) && detail.contains(&format!("page {page}")), "{detail}");
    database.close().unwrap();
}

/// A text that no byte of is zero: its key is as long.
fn noise(random: &mut fastrand::Rng, len: usize) -> Option<Vec<u8>> {
    Some((0..len).map(|_| random.u8(1..)).collect())
}

/// Rows whose first text, a key, is a long value.
fn insert_long_keys(
    database: &Database,
    table: Oid,
    ids: std::ops::Range<i64>,
) -> BTreeMap<i64, Texts> {
    let mut rows = BTreeMap::new();
    for id in ids {
        let mut random = fastrand::Rng::with_seed(1000 + id as u64);
        let mut texts: Texts = vec![None; TEXTS];
        (1..5).for_each(|at| texts[at] = noise(&mut random, 1930));
        transact(database, |it| insert(it, table, id, &texts)).unwrap();
        // Now it does not fit the row.
        texts[0] = noise(&mut random, 1900);
        let change = [(0, texts[0].clone())];
        transact(database, |it| update(it, table, id, &change)).unwrap();
        rows.insert(id, texts);
    }
    let longs = database.check().unwrap().overflow_pages;
    assert!(longs >= rows.len() as u64, "the keys are long values");
    rows
}

/// Ids of the rows that the index has under a first text.
fn ids_of(database: &Database, table: Oid, text: &Option<Vec<u8>>) -> Vec<i64> {
    ids_by(database, table, 1, text)
}

/// The same by the index at `at`.
fn ids_by(database: &Database, table: Oid, at: usize, text: &Option<Vec<u8>>) -> Vec<i64> {
    let found = transact(database, |it| {
        it.lock_table(table, TableLockMode::AccessShare)?;
        let table = it.table(table)?;
        let index = table.indexes[at].clone();
        let range = KeyRange::prefix(KeyBytes::encode(&index, &[text.as_deref()]));
        let direction = ScanDirection::Forward;
        let mut cursor = it.index_scan(&table, &index, range, direction, &[ColumnId(0)]);
        let (mut row, mut found) = (RowBuffer::new(), Vec::new());
        while cursor.next(it, &mut row)?.is_some() {
            let id = row.column(0).unwrap().try_into().unwrap();
            found.push(i64::from_le_bytes(id));
        }
        Ok(found)
    });
    found.unwrap()
}

/// A row with a damaged long value in a key was deleted, another got a new key: collection leaves their entries and goes on.
/// It stood still for ever, and all undo behind it stayed.
#[test]
fn collection_goes_on_behind_a_damaged_key() {
    let disk = SimDisk::new(SimOptions::seeded(16));
    let few = Options { buffer_pool_bytes: 8 << 20, instances: Instances::Count(1), ..by_hand() };
    let database = Database::open_on(Arc::new(disk.clone()), few, &mut |_| ()).unwrap();
    let table = make_table(&database);
    let mut model = insert_long_keys(&database, table, 0..6);
    make_checkpoint(&database);
    let key = |id: i64| model[&id][0].clone();
    let (deleted, changed) = (key(1), key(2));
    let held = database.run(Target::Any, |context| {
        let mut session = Session::new(context.instance());
        let isolation = Isolation::RepeatableRead;
        let mut old = session.begin(context, isolation, Access::ReadOnly).unwrap();
        drop(old.statement(&mut session, context).unwrap());
        let mut other = Session::new(context.instance());
        let mut commit = |work: &dyn Fn(&mut Statement<'_>)| {
            let access = Access::ReadWrite;
            let mut it = other.begin(context, Isolation::ReadCommitted, access).unwrap();
            work(&mut it.statement(&mut other, context).unwrap());
            it.commit(&mut other, context).unwrap();
        };
        commit(&|it| delete(it, table, 1).unwrap());
        commit(&|it| update(it, table, 2, &[(0, Some(b"new".to_vec()))]).unwrap());
        // What was read leaves memory.
        for id in 100..130 {
            let mut texts = texts(id);
            texts[3] = Some(texts[3].as_ref().unwrap().repeat(10));
            commit(&|it| assert!(insert(it, table, id, &texts).is_ok()));
            commit(&|it| delete(it, table, id).unwrap());
        }
        for key in [&deleted, &changed] {
            flip_page_of(&disk, &key.as_ref().unwrap()[700..800]);
        }
        old.rollback(&mut session, context);
    });
    held.unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while database.metrics().unwrap().undo_bytes[0] > 0 {
        assert!(Instant::now() < until, "undo stays: {:?}", database.metrics().unwrap().unread);
        std::thread::sleep(Duration::from_millis(5));
    }
    let unread = database.metrics().unwrap().unread;
    assert!(unread.count() >= 2, "{unread:?}");
    assert_eq!(database.check().unwrap().problems, Vec::<String>::new());
    // Entries that are left lead nowhere, and are in nobody's way.
    let texts_of = |id: i64| model[&id].clone();
    let (again, other) = (texts_of(1), texts_of(3));
    assert_eq!(ids_of(&database, table, &again[0]), []);
    assert_eq!(ids_of(&database, table, &texts_of(2)[0]), []);
    assert_eq!(ids_of(&database, table, &other[0]), [3]);
    transact(&database, |it| insert(it, table, 1, &again)).unwrap();
    assert_eq!(ids_of(&database, table, &again[0]), [1]);
    model.get_mut(&2).unwrap()[0] = Some(b"new".to_vec());
    assert!(all(&database, table) == model);
    database.close().unwrap();
}

/// Asks for the leaves of all indexes, and waits until they are exact as far as they can be.
fn collect(database: &Database, table: Oid) {
    let scan = |statement: &mut Statement<'_>| {
        for (at, index) in statement.table(table)?.indexes.iter().enumerate() {
            rows_by_index(statement, table, at, index.def.columns[0].column)?;
        }
        Ok(())
    };
    transact(database, scan).unwrap();
    let collected = database
        .run(Target::Any, |context| Session::new(context.instance()).collect(context).map(drop));
    collected.unwrap().unwrap();
}

/// The log behind a checkpoint deletes rows with damaged long values in a key, and gives another such row a new key. The
/// start needs none of these values, and leaves of their entries that are exact stay so rightly.
#[test]
fn a_start_goes_on_behind_damaged_keys_that_the_log_takes_out() {
    let disk = SimDisk::new(SimOptions::seeded(17));
    let (database, _) = open(&disk);
    let table = make_table(&database);
    let mut model = insert_long_keys(&database, table, 0..24);
    collect(&database, table);
    make_checkpoint(&database);
    let deleted = [1, 6, 7, 8, 9, 10, 11, 12];
    for id in deleted {
        transact(&database, |it| delete(it, table, id)).unwrap();
    }
    transact(&database, |it| update(it, table, 2, &[(0, Some(b"new".to_vec()))])).unwrap();
    let disk = disk.kill(8);
    drop(database);
    let taken_out: Vec<i64> = deleted.into_iter().chain([2]).collect();
    for id in &taken_out {
        flip_page_of(&disk, &model[id][0].as_ref().unwrap()[700..800]);
    }
    let (database, _, unread) = open_told(&disk);
    assert!(unread.len() >= taken_out.len(), "{unread:?}");
    for id in &taken_out {
        assert_eq!(ids_of(&database, table, &model[id][0]), []);
    }
    assert_eq!(ids_of(&database, table, &Some(b"new".to_vec())), [2]);
    model.retain(|id, _| !deleted.contains(id));
    model.get_mut(&2).unwrap()[0] = Some(b"new".to_vec());
    assert!(all(&database, table) == model);
    assert_eq!(database.check().unwrap().problems, Vec::<String>::new());
    database.close().unwrap();
}

/// The same where the row keeps the damaged value, and its key in another index changes.
#[test]
fn a_start_goes_on_beside_a_damaged_key_that_a_row_keeps() {
    let disk = SimDisk::new(SimOptions::seeded(19));
    let (database, _) = open(&disk);
    let table = make_table(&database);
    let model = insert_long_keys(&database, table, 0..6);
    transact(&database, |it| make_index(it, table, "by_twelfth", 12, IndexKind::Plain)).unwrap();
    make_checkpoint(&database);
    transact(&database, |it| update(it, table, 3, &[(11, Some(b"other".to_vec()))])).unwrap();
    let disk = disk.kill(9);
    drop(database);
    flip_page_of(&disk, &model[&3][0].as_ref().unwrap()[700..800]);
    let (database, _, unread) = open_told(&disk);
    assert!(!unread.is_empty());
    assert_eq!(ids_by(&database, table, 2, &Some(b"other".to_vec())), [3]);
    assert_eq!(ids_of(&database, table, &model[&4][0]), [4]);
    // Who needs it is told.
    let problems = database.check().unwrap().problems;
    assert!(problems.iter().any(|it| it.contains("column 1: ")), "{problems:?}");
    database.close().unwrap();
}
