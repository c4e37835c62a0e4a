//! Page files that have become too long shrink, while nothing is lost: not what tables have now, not
//! what a pinned checkpoint had.

use super::checkpoints::make_checkpoint;
use super::*;
use crate::base::{HomeId, PAGE_BYTES};

/// Eight rows a page.
const PAD: usize = 1900;

fn make_padded(database: &Database, name: &str) -> Oid {
    let made = transact(database, Isolation::ReadCommitted, |statement| {
        let table = statement.create_table(NewTable {
            namespace: PUBLIC_NAMESPACE,
            name: name.to_owned(),
            columns: vec![int8("id"), int8("balance"), ColumnDef::plain("pad", ColumnType::Bytes)],
            options: Vec::new(),
        })?;
        let column = IndexColumn {
            column: ColumnId(0),
            direction: Direction::Ascending,
            nulls: Nulls::Last,
        };
        let (name, columns) = (format!("{name}_pkey"), vec![column]);
        statement.create_index(NewIndex { table, name, columns, kind: IndexKind::Primary })?;
        Ok(table)
    });
    made.expect("an empty database has room for a table")
}

fn pad(id: i64) -> Vec<u8> {
    (0..PAD).map(|at| (id as usize + at) as u8).collect()
}

fn fill(database: &Database, table: Oid, from: i64, to: i64) {
    transact(database, Isolation::ReadCommitted, |statement| {
        statement.lock_table(table, TableLockMode::RowExclusive)?;
        let table = statement.table(table)?;
        (from..to).try_for_each(|id| {
            let row = [bytes(id), bytes(id)];
            statement.insert(&table, &[Some(&row[0]), Some(&row[1]), Some(&pad(id))]).map(drop)
        })
    })
    .expect("there is room");
}

/// All rows of the table, each as it was filled, and found by its key.
fn read(statement: &mut Statement<'_>, table: Oid) -> Result<Vec<i64>> {
    statement.lock_table(table, TableLockMode::AccessShare)?;
    let entry = statement.table(table)?;
    let mut cursor = statement.scan(&entry, &[ColumnId(0), ColumnId(2)]);
    let (mut row, mut rows) = (RowBuffer::new(), Vec::new());
    while cursor.next(statement, &mut row)?.is_some() {
        let id = number(&row, 0);
        assert_eq!(row.column(1), Some(pad(id).as_slice()), "row {id}");
        rows.push(id);
    }
    rows.sort_unstable();
    for id in rows.iter().step_by(97) {
        assert_eq!(find(statement, table, *id)?.map(|found| found.1), Some(*id));
    }
    Ok(rows)
}

fn rows(database: &Database, table: Oid) -> Vec<i64> {
    transact(database, Isolation::ReadCommitted, |statement| read(statement, table))
        .expect("a scan finds no obstacle")
}

fn rows_of_pin(database: &Database, pin: &PinnedCheckpoint, table: Oid) -> Vec<i64> {
    let pin = pin.clone();
    let read = database.run(Target::Any, move |context| {
        let mut session = Session::new(context.instance());
        let (isolation, access) = (Isolation::ReadCommitted, Access::ReadOnly);
        let mut transaction = session.begin(context, isolation, access)?;
        transaction.read_checkpoint(pin.clone(), context)?;
        let mut statement = transaction.statement(&mut session, context)?;
        let found = read(&mut statement, table);
        drop(statement);
        transaction.commit(&mut session, context)?;
        session.settle(context)?;
        found
    });
    read.expect("the database runs").expect("what is pinned is there")
}

/// Two tables whose pages alternate in one file, the first with a fourth of the rows of the second.
fn alternating(database: &Database, rounds: i64) -> (Oid, Oid) {
    let (keep, bulk) = (make_padded(database, "keep"), make_padded(database, "bulk"));
    for round in 0..rounds {
        fill(database, keep, round * 40, (round + 1) * 40);
        fill(database, bulk, round * 160, (round + 1) * 160);
        if round % 20 == 19 {
            make_checkpoint(database);
        }
    }
    make_checkpoint(database);
    (keep, bulk)
}

fn space(database: &Database) -> SpaceStats {
    database.space().expect("it is on disk")
}

fn file_pages(directory: &Path) -> u64 {
    let file = directory.join("pages/0000.pages");
    std::fs::metadata(file).expect("it is there").len() / PAGE_BYTES as u64
}

/// Makes checkpoints until the file is at most twice as long as what is in it; what each may move
/// is bounded.
fn until_short(database: &Database, extent: u64) -> SpaceStats {
    for _ in 0..200 {
        let before = space(database);
        let report = make_checkpoint(database);
        assert!(report.moved <= (before.live() / 8).max(extent), "{report:?}, {before:?}");
        let after = space(database);
        if after.pages <= 2 * after.live() {
            return after;
        }
        // What was dropped or deleted goes when nobody can see it any more.
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{:?}", space(database));
}

/// Files that grow and shrink by so many pages, and a pool that most leaves do not fit.
fn in_extents(pages: u64) -> Options {
    Options {
        buffer_pool_bytes: 8 << 20,
        page_extent_bytes: pages * PAGE_BYTES as u64,
        ..options(1)
    }
}

fn assert_sound(directory: &Path, options: Options) {
    let findings = Database::inspect(directory, options, &mut |_| ());
    assert_eq!(findings.expect("it is readable").problems, Vec::<String>::new());
}

#[test]
fn a_file_shrinks_when_most_of_it_is_dropped() {
    const ROUNDS: i64 = 400;
    let directory = tempfile::tempdir().unwrap();
    // Most leaves are not in memory.
    let small = || Options { buffer_pool_bytes: 8 << 20, ..options(1) };
    let database = Database::open(directory.path(), small()).unwrap();
    let (keep, bulk) = alternating(&database, ROUNDS);
    let full = space(&database);
    assert!(full.live() > 10_000, "{full:?}");
    transact(&database, Isolation::ReadCommitted, |it| it.drop_table(bulk)).unwrap();
    let short = until_short(&database, 256);
    assert!(short.pages < full.pages / 2, "{short:?} after {full:?}");
    assert_eq!(file_pages(directory.path()), short.pages);
    let counters = database.checkpoint_counters().unwrap();
    assert!(counters.moved > 500 && counters.returned >= full.pages - short.pages, "{counters:?}");
    let kept: Vec<i64> = (0..ROUNDS * 40).collect();
    assert_eq!(rows(&database, keep), kept);
    // It stays so, and more is not moved for ever.
    assert!((0..20).any(|_| make_checkpoint(&database).moved == 0));
    assert_eq!(make_checkpoint(&database).moved, 0);
    check(&database);
    database.close().unwrap();
    drop(database);
    assert_sound(directory.path(), small());
    let database = Database::open(directory.path(), small()).unwrap();
    assert_eq!(rows(&database, keep), kept);
    // And grows again.
    let again = make_padded(&database, "again");
    (0..100).for_each(|round| fill(&database, again, round * 100, (round + 1) * 100));
    make_checkpoint(&database);
    assert_eq!(rows(&database, again).len(), 10_000);
    database.close().unwrap();
    drop(database);
    assert_sound(directory.path(), small());
}

#[test]
fn a_pinned_checkpoint_keeps_what_it_has() {
    const ROUNDS: i64 = 60;
    const EXTENT: u64 = 16;
    let directory = tempfile::tempdir().unwrap();
    let small = || in_extents(EXTENT);
    let database = Database::open(directory.path(), small()).unwrap();
    let (keep, bulk) = alternating(&database, ROUNDS);
    let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
    let full = space(&database);
    // Most rows go, from pages everywhere.
    for from in (0..ROUNDS * 160).step_by(480) {
        transact(&database, Isolation::ReadCommitted, |statement| {
            statement.lock_table(bulk, TableLockMode::RowExclusive)?;
            (from..from + 480).filter(|id| id % 40 != 7).try_for_each(|id| {
                let (row, _) = find(statement, bulk, id)?.expect("it is there");
                let table = statement.table(bulk)?;
                statement.delete(&table, row).map(drop)
            })
        })
        .unwrap();
        make_checkpoint(&database);
    }
    for _ in 0..10 {
        make_checkpoint(&database);
    }
    let (all_kept, all_bulk): (Vec<_>, Vec<_>) =
        ((0..ROUNDS * 40).collect(), (0..ROUNDS * 160).collect());
    let left: Vec<i64> = (0..ROUNDS * 160).filter(|id| id % 40 == 7).collect();
    let held = space(&database);
    assert!(held.pages + EXTENT >= full.pages && held.pinned > 100, "{held:?} after {full:?}");
    assert_eq!(rows_of_pin(&database, &pin, keep), all_kept);
    assert_eq!(rows_of_pin(&database, &pin, bulk), all_bulk);
    assert_eq!(rows(&database, bulk), left);
    drop(pin);
    let short = until_short(&database, EXTENT);
    assert!(short.pages < full.pages * 3 / 4, "{short:?} after {full:?}");
    // Pinned while pages move and the file shrinks.
    let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
    transact(&database, Isolation::ReadCommitted, |it| it.drop_table(bulk)).unwrap();
    for _ in 0..10 {
        make_checkpoint(&database);
    }
    assert_eq!(rows_of_pin(&database, &pin, keep), all_kept);
    assert_eq!(rows_of_pin(&database, &pin, bulk), left);
    drop(pin);
    until_short(&database, EXTENT);
    assert_eq!(rows(&database, keep), all_kept);
    database.close().unwrap();
    drop(database);
    assert_sound(directory.path(), small());
}

#[test]
fn inner_nodes_leave_the_end_of_a_file_though_no_leaf_does() {
    const EXTENT: u64 = 16;
    const HOME: HomeId = HomeId(0);
    let directory = tempfile::tempdir().unwrap();
    let small = || in_extents(EXTENT);
    let database = Database::open(directory.path(), small()).unwrap();
    let table = make_padded(&database, "t");
    fill(&database, table, 0, 400);
    make_checkpoint(&database);
    // The leaf that changes goes where there is room, when it is evicted; its tree's inner nodes, when
    // they are written, find room at the end only.
    fill(&database, table, 400, 401);
    let shared =
        transact(&database, Isolation::ReadCommitted, |it| Ok(it.core.shared.clone())).unwrap();
    (1..shared.pool.frames()).rev().for_each(|count| drop(shared.pool.reserve(HOME, count)));
    let store = shared.checkpoints.as_ref().unwrap().store();
    let taken: Vec<_> = (0..600).map(|_| store.take(HOME, 1).unwrap()).collect();
    make_checkpoint(&database);
    taken.into_iter().for_each(|run| store.written(run));
    drop(shared);
    let long = space(&database);
    assert!(long.pages > 600, "{long:?}");
    until_short(&database, EXTENT);
    assert_eq!(rows(&database, table).len(), 401);
    database.close().unwrap();
    drop(database);
    assert_sound(directory.path(), small());
}
