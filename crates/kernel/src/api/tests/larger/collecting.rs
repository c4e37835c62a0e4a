//! Collection of rows whose leaves, and those of their entries, have left memory: others run while they are read, several
//! collectors may be at it, the database may close meanwhile, and damaged pages are in nobody's way.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::super::checkpoints::make_checkpoint;
use super::super::*;
use super::nodes::{balances, by_hand, change, fill, make_named, small};
use crate::base::{HomeId, PAGE_BYTES, TreeId};
use crate::buffer::PoolTraffic;
use crate::io::{Direct, Disk, OpenHow, SimDisk, SimOptions};
use crate::latch::OwnedPage;
use crate::page::{PageKind, header};
use crate::store::file_name;

const ROWS: i64 = 3000;

/// Takes nine of ten rows out while an older snapshot needs them, in an order in which their pages come and go.
/// `before_end` runs before that snapshot ends.
fn delete_cold(context: &Context, table: Oid, before_end: impl FnOnce()) -> Result<()> {
    let mut session = Session::new(context.instance());
    let mut old = session.begin(context, Isolation::RepeatableRead, Access::ReadOnly)?;
    drop(old.statement(&mut session, context)?);
    let mut other = Session::new(context.instance());
    let mut ids: Vec<i64> = (0..ROWS).filter(|id| id % 10 != 0).collect();
    fastrand::Rng::with_seed(3).shuffle(&mut ids);
    for some in ids.chunks(100) {
        let mut transaction = other.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
        let mut it = transaction.statement(&mut other, context)?;
        some.iter().try_for_each(|id| change(&mut it, table, *id, None))?;
        drop(it);
        transaction.commit(&mut other, context)?;
    }
    other.settle(context)?;
    before_end();
    old.rollback(&mut session, context);
    Ok(())
}

fn left() -> BTreeMap<i64, i64> {
    (0..ROWS).step_by(10).map(|id| (id, 0)).collect()
}

fn on_first<T: Send>(database: &Database, work: impl FnOnce(&Context) -> T + Send) -> T {
    database.run(Target::Instance(InstanceId(0)), work).expect("nothing panics")
}

fn filled(database: &Database) -> Oid {
    let table = make_named(database);
    fill(database, table, 0, ROWS);
    table
}

fn traffic(database: &Database) -> PoolTraffic {
    database.metrics().expect("it runs").traffic
}

#[test]
fn a_collection_blocks_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { checkpoint_interval_ms: 50, ..by_hand() };
    let database = Database::open(directory.path(), options).unwrap();
    let table = filled(&database);
    let before = traffic(&database);
    on_first(&database, |context| delete_cold(context, table, || ())).unwrap();
    collect(&database);
    assert_eq!(uncollected(&database), 0);
    let (after, metrics) = (traffic(&database), database.metrics().unwrap());
    assert!(metrics.transactions[0].collect_loads > 1000, "{metrics:?}");
    assert_eq!(after.blocking - before.blocking, 0, "{after:?} after {before:?}");
    assert_eq!(balances(&database, table), left());
    check(&database);
    assert!(metrics.unread.is_empty(), "{metrics:?}");
    database.close().unwrap();
    drop(database);
    let found = Database::inspect(directory.path(), small(1), &mut |_| ()).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
}

/// Whoever calls without loading what is needed comes to the end all the same.
#[test]
fn who_cannot_wait_collects_with_the_thread_blocked() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), by_hand()).unwrap();
    let table = filled(&database);
    let before = traffic(&database);
    let calls = on_first(&database, |context| {
        delete_cold(context, table, || ())?;
        let txn = &context.instance().state().inner.txn;
        // Nobody else runs meanwhile. What a commit waits for may be there a moment later.
        let until = Instant::now() + Duration::from_secs(60);
        let mut calls = 0;
        while txn.environment().versions.finished() > 0 {
            assert!(Instant::now() < until, "it does not end");
            txn.poll();
            txn.collect()?;
            calls += 1;
        }
        Ok::<u64, Error>(calls)
    });
    assert!(calls.unwrap() > 1000);
    assert!(traffic(&database).blocking - before.blocking > 1000);
    assert_eq!(balances(&database, table), left());
    check(&database);
    database.close().unwrap();
}

#[test]
fn several_collectors_go_on_with_each_others_work() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), small(2)).unwrap();
    let table = filled(&database);
    on_first(&database, |context| delete_cold(context, table, || ())).unwrap();
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| collect(&database))));
    });
    assert_eq!(uncollected(&database), 0);
    assert_eq!(balances(&database, table), left());
    check(&database);
    database.close().unwrap();
}

#[test]
fn a_database_closes_while_a_collection_waits() {
    for pause_ms in [0, 1, 3, 10, 30] {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path(), small(1)).unwrap();
        let table = filled(&database);
        on_first(&database, |context| delete_cold(context, table, || ())).unwrap();
        std::thread::sleep(Duration::from_millis(pause_ms));
        let closing = Instant::now();
        database.close().unwrap();
        assert!(closing.elapsed() < Duration::from_secs(5), "{:?}", closing.elapsed());
        drop(database);
        let database = Database::open(directory.path(), small(1)).unwrap();
        assert_eq!(balances(&database, table), left());
        collect(&database);
        check(&database);
        database.close().unwrap();
    }
}

/// Damages the pages of a tree that lie on disk.
fn damage_all(disk: &SimDisk, kind: PageKind, tree: TreeId) {
    let name = file_name(HomeId(0));
    let file = disk.open(&name, OpenHow::Existing, Direct::No).expect("it is there");
    let mut bytes = vec![0; file.len().expect("it can be asked") as usize];
    file.read_at(0, &mut bytes).expect("it is read");
    for (number, page) in bytes.as_chunks::<PAGE_BYTES>().0.iter().enumerate() {
        let view = OwnedPage(page);
        if header::kind(view) == Some(kind) && header::tree(view) == tree {
            let at = PAGE_BYTES / 2;
            let offset = (number * PAGE_BYTES + at) as u64;
            disk.damage(&name, offset, &[page[at] ^ 1]).expect("it is written");
        }
    }
}

/// The leaves of a table, or of one of its indexes, are damaged when deleted rows are to go: all undo stood still for ever behind
/// the first.
#[test]
fn collection_goes_on_behind_damaged_leaves() {
    for kind in [PageKind::TableLeaf, PageKind::IndexLeaf] {
        let disk = SimDisk::new(SimOptions::seeded(21));
        let open = || Database::open_on(Arc::new(disk.clone()), by_hand(), &mut |_| ()).unwrap();
        let database = open();
        let table = filled(&database);
        make_checkpoint(&database);
        let tree = transact(&database, Isolation::ReadCommitted, |it| {
            let table = it.table(table)?;
            Ok(match kind {
                PageKind::TableLeaf => table.access.id(),
                _ => table.access.indexes[1].tree.tree(),
            })
        });
        let damage = || damage_all(&disk, kind, tree.clone().expect("the table is there"));
        on_first(&database, |context| delete_cold(context, table, damage)).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while uncollected(&database) > 0 {
            let metrics = database.metrics().unwrap();
            assert!(Instant::now() < until, "undo stays: {metrics:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let unread = database.metrics().unwrap().unread;
        assert!(unread.count() > 100, "{kind:?}: {unread:?}");
        assert!(unread.lines("it")[0].contains(".pages"), "{unread:?}");
        if kind == PageKind::IndexLeaf {
            // The rows are all gone, though their entries are not.
            let found = transact(&database, Isolation::ReadCommitted, |it| {
                it.lock_table(table, TableLockMode::AccessShare)?;
                let table = it.table(table)?;
                let mut cursor = it.scan(&table, &[ColumnId(0)]);
                let (mut row, mut found) = (RowBuffer::new(), 0);
                while cursor.next(it, &mut row)?.is_some() {
                    assert_eq!(number(&row, 0) % 10, 0);
                    found += 1;
                }
                Ok(found)
            });
            assert_eq!(found, Ok(ROWS / 10));
        }
        database.close().unwrap();
    }
}
