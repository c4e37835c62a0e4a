//! Pages of long values that are damaged where no row needs them: nobody is kept from starting or from making a backup, and
//! everybody is told. Pages that rows need are named.

use std::collections::BTreeMap;

use super::super::checkpoints::make_checkpoint;
use super::starts::{PAGES, find_on_disk, flip_page_of, insert_all, open, open_told, part, texts};
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
