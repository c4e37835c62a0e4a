//! What the check finds in indexes that are not as their tables are, and what it lets pass.

use super::checkpoints::make_checkpoint;
use super::*;
use crate::base::HomeId;
use crate::buffer::until_done;
use crate::tree::descent::Onward;
use crate::tree::index::{Exact, Judged, Keep, Keys, Near, Removed};
use crate::tree::table::{AppendCursor, RowState, SlotIndex};

/// So few that they have one leaf of each index, whatever a page's size.
const ROWS: i64 = 60;

/// Accounts with balances 0 to 6, and their rows; nothing is left to be collected.
fn filled(database: &Database, count: i64) -> (Oid, Vec<RowId>) {
    let table = make_accounts(database);
    let rows = transact(database, Isolation::ReadCommitted, |it| {
        (0..count).map(|id| insert(it, table, id, id % 7)).collect::<Result<Vec<RowId>>>()
    });
    collect(database);
    check(database);
    (table, rows.expect("nothing is in the way"))
}

fn entry_of(database: &Database, table: Oid) -> Arc<TableEntry> {
    database.catalog().table_by_oid(table).expect("it was made").clone()
}

fn key(index: &IndexEntry, value: i64) -> Vec<u8> {
    KeyBytes::encode(index, &[Some(&bytes(value))]).bytes().to_vec()
}

fn take_out(index: &IndexEntry, value: i64, row: RowId) {
    let (tree, key) = (&index.tree, key(index, value));
    let removed = until_done(tree.pool(), || tree.remove(&key, row, &mut || Ok(Keep::No)));
    assert_eq!(removed, Ok(Removed::Yes));
}

fn put_in(index: &IndexEntry, value: i64, row: RowId, keys: Keys) {
    let (tree, key) = (&index.tree, key(index, value));
    until_done(tree.pool(), || tree.insert(Near::Nowhere, (&key, row), keys)).expect("room");
}

/// Has the only leaf say that all its entries have rows.
fn mark_exact(index: &IndexEntry) {
    let tree = &index.tree;
    let swept = until_done(tree.pool(), || tree.sweep_exact(&[], &mut |_, _| Ok(Judged::Exact)));
    let swept = swept.expect("nothing is in the way");
    assert!(swept.exact == Exact::Yes && swept.next.is_none());
}

fn problems(database: &Database) -> Vec<String> {
    let findings = database.check().expect("the check comes to its end");
    assert!(findings.unchecked.is_empty() && findings.more_problems == 0, "{findings:?}");
    findings.problems
}

#[test]
fn rows_without_an_entry_are_named() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let (table, rows) = filled(&database, ROWS);
    let entry = entry_of(&database, table);
    let mut expected = Vec::new();
    for (at, name, id, value) in [
        (0, "accounts_pkey", 17, 17),
        (0, "accounts_pkey", 42, 42),
        (1, "accounts_by_balance", 9, 2),
    ] {
        take_out(&entry.indexes[at], value, rows[id]);
        expected.push(format!("index \"{name}\" of \"accounts\": row {} has no entry", rows[id]));
    }
    assert_eq!(problems(&database), expected);
}

#[test]
fn entries_that_mislead_are_named_and_old_ones_may_be_there() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let (table, rows) = filled(&database, ROWS);
    let entry = entry_of(&database, table);
    let (unique, other) = (&entry.indexes[0], &entry.indexes[1]);
    // As an update leaves it that nobody has collected; and as an insertion that came to nothing does.
    put_in(other, 99, rows[5], Keys::Several);
    put_in(other, 98, RowId(1 << 40), Keys::Several);
    check(&database);
    mark_exact(unique);
    check(&database);
    // The leaf goes on saying that no row has another key than its entry.
    put_in(unique, 1000, rows[5], Keys::One);
    put_in(unique, 1001, RowId(1 << 40), Keys::One);
    let found = problems(&database);
    assert_eq!(found.len(), 2, "{found:?}");
    for (line, row, what) in [
        (&found[0], rows[5], "leads to a row with another key"),
        (&found[1], RowId(1 << 40), "leads to a row that never was"),
    ] {
        let begins = line.starts_with("index \"accounts_pkey\" of \"accounts\": the entry [");
        assert!(begins && line.contains(&format!("of row {row} {what}")), "{line}");
    }
}

#[test]
fn an_exact_leaf_with_the_entry_of_a_row_that_is_gone_is_named() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let (table, rows) = filled(&database, ROWS);
    let entry = entry_of(&database, table);
    mark_exact(&entry.indexes[0]);
    let tree = &entry.access.tree;
    {
        let mut leaf = until_done(tree.pool(), || tree.write(rows[9])).unwrap();
        let slot = leaf.find(rows[9]).unwrap();
        leaf.set_state(slot, RowState::Deleted);
    }
    let found = problems(&database);
    // The other index may be exact by now, too.
    let what = format!("of row {} leads to no row that has it", rows[9]);
    assert!(found.iter().all(|line| line.contains(&what)), "{found:?}");
    assert!(found.iter().any(|line| line.contains("\"accounts_pkey\"")), "{found:?}");
}

#[test]
fn two_rows_with_a_key_of_a_unique_index_are_named() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let (table, rows) = filled(&database, ROWS);
    let entry = entry_of(&database, table);
    let tree = &entry.access.tree;
    let mut cursor = AppendCursor::new(HomeId(0));
    let twin = {
        let (row, mut leaf) = until_done(tree.pool(), || tree.append(&mut cursor, 0)).unwrap();
        leaf.insert(row, &[Some(&bytes(7)), Some(&bytes(3))]);
        row
    };
    put_in(&entry.indexes[0], 7, twin, Keys::One);
    put_in(&entry.indexes[1], 3, twin, Keys::One);
    let found = problems(&database);
    let what = format!("rows {} and {twin} have the same key", rows[7]);
    let begins = format!("index \"accounts_pkey\" of \"accounts\": {what}");
    assert!(found.len() == 1 && found[0].starts_with(&begins), "{found:?}");
}

#[test]
fn what_is_wrong_with_an_index_is_found_offline() {
    let directory = tempfile::tempdir().unwrap();
    let missing = {
        let database = Database::open(directory.path(), options(1)).unwrap();
        let (table, rows) = filled(&database, ROWS);
        take_out(&entry_of(&database, table).indexes[0], 3, rows[3]);
        make_checkpoint(&database);
        transact(&database, Isolation::ReadCommitted, |it| add(it, table, 20, 1)).unwrap();
        database.close().unwrap();
        rows[3]
    };
    let findings = Database::inspect(directory.path(), options(1), &mut |_| ()).unwrap();
    let expected = format!("index \"accounts_pkey\" of \"accounts\": row {missing} has no entry");
    assert_eq!(findings.problems, [expected]);
    assert_eq!((findings.rows, findings.unchecked), (ROWS as u64, Vec::new()));
}

#[test]
fn a_walk_that_pauses_behind_each_leaf_meets_each_once() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let (table, rows) = filled(&database, 5000);
    let entry = entry_of(&database, table);
    let (tree, index) = (&entry.access.tree, &entry.indexes[0].tree);
    let mut found = Vec::new();
    let mut from = Some(RowId(0));
    while let Some(start) = from {
        let part = tree.check_from(start, &mut |leaf, _| {
            found.extend((0..leaf.count()).map(|slot| leaf.row_id(SlotIndex(slot as u16))));
            Onward::Pause
        });
        let part = part.unwrap();
        assert_eq!((part.leaves, part.passed_over, part.problems), (1, 0, Vec::new()));
        from = part.next;
    }
    assert_eq!(found, rows);
    let (mut entries, mut parts) = (Vec::new(), 0);
    let mut from: Option<Vec<u8>> = Some(Vec::new());
    while let Some(start) = from {
        let part = index.check_from(&start, &mut |node, _| {
            entries.extend((0..node.count()).map(|at| node.row(at)));
            Onward::Pause
        });
        let part = part.unwrap();
        assert_eq!((part.passed_over, part.problems), (0, Vec::new()));
        (from, parts) = (part.next, parts + 1);
    }
    assert!(parts > 2 && entries == rows, "{parts} leaves, {} entries", entries.len());
}
