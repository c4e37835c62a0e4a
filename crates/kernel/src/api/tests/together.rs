//! Rows that are changed by one call: as if one by one, or, after an error, not at all.

use super::*;

const ID: ColumnId = ColumnId(0);
const COUNT: ColumnId = ColumnId(1);
const NOTE: ColumnId = ColumnId(2);

/// A table (id, count, note) with a primary key, and rows 0 to 19; answers these, too.
fn make_counters(database: &Database) -> (Oid, Vec<RowId>) {
    let made = transact(database, Isolation::ReadCommitted, |statement| {
        let table = statement.create_table(NewTable {
            namespace: PUBLIC_NAMESPACE,
            name: "counters".to_owned(),
            columns: vec![int8("id"), int8("count"), ColumnDef::plain("note", ColumnType::Bytes)],
            options: Vec::new(),
        })?;
        let column =
            IndexColumn { column: ID, direction: Direction::Ascending, nulls: Nulls::Last };
        let (name, columns) = ("counters_pkey".to_owned(), vec![column]);
        statement.create_index(NewIndex { table, name, columns, kind: IndexKind::Primary })?;
        statement.lock_table(table, TableLockMode::RowExclusive)?;
        let entry = statement.table(table)?;
        let rows: Result<Vec<RowId>> = (0..20)
            .map(|id| statement.insert(&entry, &[Some(&bytes(id)), None, Some(b"new")]))
            .collect();
        Ok((table, rows?))
    });
    made.expect("an empty database has room for a table")
}

/// Ids, counts and notes.
fn counters(database: &Database, table: Oid) -> Vec<(i64, Option<i64>, Vec<u8>)> {
    let rows = transact(database, Isolation::RepeatableRead, |statement| {
        statement.lock_table(table, TableLockMode::AccessShare)?;
        let table = statement.table(table)?;
        let mut cursor = statement.scan(&table, &[ID, COUNT, NOTE]);
        let (mut row, mut rows) = (RowBuffer::new(), Vec::new());
        while cursor.next(statement, &mut row)?.is_some() {
            let count = row.column(1).map(|_| number(&row, 1));
            rows.push((number(&row, 0), count, row.column(2).unwrap_or_default().to_vec()));
        }
        Ok(rows)
    });
    rows.expect("a scan finds no obstacle")
}

fn set_counts(
    statement: &mut Statement<'_>,
    table: Oid,
    rows: &[RowId],
    count: i64,
) -> Result<(usize, WriteOutcome)> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    let count = bytes(count);
    let values = vec![Some(&count[..]); rows.len()];
    statement.update_rows(&table, &[COUNT], (rows, RowValues::new(&values, rows.len())))
}

#[test]
fn columns_in_place_and_others_are_changed_and_logged() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(1)).unwrap();
    let (table, rows) = make_counters(&database);
    let done = transact(&database, Isolation::RepeatableRead, |statement| {
        let first = set_counts(statement, table, &rows, 7)?;
        // A command changes a row once.
        Ok((first, set_counts(statement, table, &rows[3..], 8)?))
    });
    assert_eq!(done.unwrap(), ((20, WriteOutcome::Done), (0, WriteOutcome::DoneByThisCommand)));
    let done = transact(&database, Isolation::RepeatableRead, |statement| {
        statement.lock_table(table, TableLockMode::RowExclusive)?;
        let table = statement.table(table)?;
        let count = bytes(9);
        let values = [Some(&b"a longer note"[..]), None, Some(b""), Some(&count)];
        let rows = [rows[4], rows[2]];
        statement.update_rows(&table, &[NOTE, COUNT], (&rows, RowValues::new(&values, 2)))
    });
    assert_eq!(done.unwrap(), (2, WriteOutcome::Done));
    let expected: Vec<_> = (0..20)
        .map(|id| match id {
            2 => (id, Some(9), b"".to_vec()),
            4 => (id, None, b"a longer note".to_vec()),
            _ => (id, Some(7), b"new".to_vec()),
        })
        .collect();
    assert_eq!(counters(&database, table), expected);
    database.close().unwrap();
    drop(database);
    let database = Database::open(directory.path(), options(1)).expect("the log is whole");
    assert_eq!(counters(&database, table), expected);
    check(&database);
}

#[test]
fn after_an_error_none_is_changed() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let (table, rows) = make_counters(&database);
    let before = counters(&database, table);
    let failed = transact(&database, Isolation::RepeatableRead, |statement| {
        statement.lock_table(table, TableLockMode::RowExclusive)?;
        let table = statement.table(table)?;
        let ids = [100, 101, 5, 102].map(bytes);
        let values = ids.each_ref().map(|id| Some(&id[..]));
        let what = (&rows[..4], RowValues::new(&values, 4));
        let failed = statement.update_rows(&table, &[ID], what);
        // The transaction goes on, and commits.
        Ok(matches!(failed, Err(Error::UniqueViolation { .. })))
    });
    assert!(failed.unwrap());
    assert_eq!(counters(&database, table), before);
    check(&database);
}

#[test]
fn a_row_that_others_changed_is_told_and_those_behind_it_go_on() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let (table, rows) = make_counters(&database);
    let ran = database.run(Target::Any, |context| {
        let mut session = Session::new(context.instance());
        let mut transaction =
            session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
        let mut statement = transaction.statement(&mut session, context)?;
        statement.lock_table(table, TableLockMode::RowExclusive)?;
        let mut other = Session::new(context.instance());
        let mut others = other.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
        let mut theirs = others.statement(&mut other, context)?;
        set_counts(&mut theirs, table, &rows[5..6], 1)?;
        drop(theirs);
        others.commit(&mut other, context)?;
        assert_eq!(set_counts(&mut statement, table, &rows, 2)?, (5, WriteOutcome::Changed));
        assert_eq!(set_counts(&mut statement, table, &rows[6..], 2)?, (14, WriteOutcome::Done));
        drop(statement);
        transaction.commit(&mut session, context)?;
        session.settle(context)
    });
    ran.unwrap().unwrap();
    let counts: Vec<_> = counters(&database, table).iter().map(|it| it.1).collect();
    let expected: Vec<_> = (0..20).map(|id| Some(if id == 5 { 1 } else { 2 })).collect();
    assert_eq!(counts, expected);
}
