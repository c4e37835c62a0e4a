//! Checkpoints through the front door: what is in them, what is written, and what a restart reads.

use super::*;
use crate::sync::{AtomicBool, Ordering};

pub(super) fn make_checkpoint(database: &Database) -> CheckpointReport {
    let made = database.run(Target::Any, Database::checkpoint);
    made.expect("the database runs").expect("nothing is in the way").expect("it is on disk")
}

fn segments(directory: &Path) -> usize {
    let list = |path: &Path| std::fs::read_dir(path).expect("a folder");
    let homes = list(&directory.join("log"));
    homes.map(|home| list(&home.expect("an entry").path()).count()).sum()
}

/// What a checker finds in the closed database.
fn assert_sound(directory: &Path) -> Findings {
    let findings = Database::inspect(directory, options(1), &mut |_| ());
    let findings = findings.expect("it is readable");
    assert_eq!(findings.problems, Vec::<String>::new());
    findings
}

#[test]
fn a_restart_reads_the_checkpoint_and_the_log_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open(directory.path(), options(2)).unwrap();
    let database = open();
    let table = make_accounts(&database);
    let in_one = |from: i64, to: i64| {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..to).try_for_each(|id| insert(statement, table, id, id % 7).map(drop))
        })
        .unwrap();
    };
    in_one(0, 5000);
    let first = make_checkpoint(&database);
    assert_eq!((first.number, first.trees), (1, 4));
    in_one(5000, 5100);
    let change = |id| {
        transact(&database, Isolation::ReadCommitted, |statement| {
            add(statement, table, id, 1000)?;
            remove(statement, table, id + 1)
        })
        .unwrap();
    };
    (0..50).map(|n| n * 90).for_each(change);
    let before = all(&database, table);
    database.close().unwrap();
    drop(database);
    assert_eq!(assert_sound(directory.path()).rows as usize, before.len());
    let database = open();
    let recovered = database.recovery();
    assert_eq!(recovered.commits, 51, "{recovered:?}");
    assert!(recovered.pages >= 4, "{recovered:?}");
    assert_eq!(all(&database, table), before);
    let balance = transact(&database, Isolation::ReadCommitted, |it| find(it, table, 90)).unwrap();
    assert_eq!(balance.map(|found| found.1), Some(90 % 7 + 1000));
    // Once more, from what was recovered.
    let second = make_checkpoint(&database);
    assert_eq!(second.number, 2);
    database.close().unwrap();
    drop(database);
    let database = open();
    assert_eq!(database.recovery().commits, 0);
    assert_eq!(all(&database, table), before);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 9999, 1)).unwrap();
    database.close().unwrap();
    drop(database);
    assert_sound(directory.path());
}

#[test]
fn only_what_has_changed_is_written_again_and_logs_stay_short() {
    let directory = tempfile::tempdir().unwrap();
    let small =
        || Options { log_segment_bytes: 256 << 10, log_buffer_bytes: 64 << 10, ..options(1) };
    let database = Database::open(directory.path(), small()).unwrap();
    let table = make_accounts(&database);
    let rows = 20_000;
    for from in (0..rows).step_by(1000) {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..from + 1000).try_for_each(|id| insert(statement, table, id, 0).map(drop))
        })
        .unwrap();
    }
    let whole = make_checkpoint(&database);
    let settled = make_checkpoint(&database);
    assert!(settled.pages <= whole.pages);
    // Twins of the last inserts may have been there still; they go.
    let mut again = make_checkpoint(&database);
    for _ in 0..100 {
        if again.pages <= 6 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        again = make_checkpoint(&database);
    }
    assert!(again.pages <= 6, "{again:?} after {whole:?}");
    let mut most = 0;
    for round in 0..60 {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (0..500).try_for_each(|n| add(statement, table, (round * 500 + n) % rows, 1))
        })
        .unwrap();
        make_checkpoint(&database);
        most = most.max(segments(directory.path()));
    }
    assert!(most <= 5, "{most} segments");
    let stats = database.metrics().unwrap().store.expect("it is on disk");
    assert!(stats.used < 3 * whole.pages, "{stats:?}, {whole:?}");
    let before = all(&database, table);
    database.close().unwrap();
    drop(database);
    assert_sound(directory.path());
    let database = Database::open(directory.path(), small()).unwrap();
    assert_eq!(all(&database, table), before);
    database.close().unwrap();
}

#[test]
fn transactions_go_on_while_checkpoints_are_made() {
    const ACCOUNTS: i64 = 300;
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(2)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |statement| {
        (0..ACCOUNTS).try_for_each(|id| insert(statement, table, id, 1000).map(drop))
    })
    .unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..3_i64 {
            let (database, ends) = (&database, &ends);
            scope.spawn(move || {
                let mut next = seed + 1;
                while !ends.load(Ordering::Relaxed) {
                    next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
                    let (from, to) = ((next >> 33) % ACCOUNTS, (next >> 40) % ACCOUNTS);
                    let (from, to) = (from.abs(), to.abs());
                    if from == to {
                        continue;
                    }
                    let moved = transact(database, Isolation::ReadCommitted, |statement| {
                        add(statement, table, from.min(to), -1)?;
                        add(statement, table, from.max(to), 1)
                    });
                    moved.unwrap();
                }
            });
        }
        for number in 1..=40 {
            assert_eq!(make_checkpoint(&database).number, number);
        }
        ends.store(true, Ordering::Relaxed);
    });
    let before = all(&database, table);
    assert_eq!(before.iter().map(|row| row.1).sum::<i64>(), 1000 * ACCOUNTS);
    database.close().unwrap();
    drop(database);
    assert_sound(directory.path());
    let database = Database::open(directory.path(), options(1)).unwrap();
    assert_eq!(all(&database, table), before);
    database.close().unwrap();
}

#[test]
fn definitions_before_and_after_a_checkpoint_are_recovered() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open(directory.path(), options(1)).unwrap();
    let database = open();
    let gone = make_accounts(&database);
    make_checkpoint(&database);
    transact(&database, Isolation::ReadCommitted, |it| it.drop_table(gone)).unwrap();
    let kept = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, kept, 1, 5)).unwrap();
    make_checkpoint(&database);
    transact(&database, Isolation::ReadCommitted, |it| it.truncate(&[kept])).unwrap();
    transact(&database, Isolation::ReadCommitted, |it| insert(it, kept, 2, 6)).unwrap();
    let tree = database.catalog().table_by_oid(kept).unwrap().def.tree;
    database.close().unwrap();
    drop(database);
    assert_sound(directory.path());
    let database = open();
    assert_eq!(all(&database, kept), [(2, 6)]);
    // Numbers are never used again, whatever the checkpoint has forgotten.
    make_checkpoint(&database);
    transact(&database, Isolation::ReadCommitted, |it| it.drop_table(kept)).unwrap();
    make_checkpoint(&database);
    database.close().unwrap();
    drop(database);
    let database = open();
    let new = make_accounts(&database);
    assert!(new > kept && database.catalog().table_by_oid(new).unwrap().def.tree > tree);
    database.close().unwrap();
}

#[test]
fn a_database_in_memory_has_none() {
    let database = Database::open_in_memory(options(1)).unwrap();
    assert_eq!(database.run(Target::Any, Database::checkpoint).unwrap(), Ok(None));
}

#[test]
fn who_is_interrupted_waits_no_more_and_what_nobody_wants_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { checkpoint_interval_ms: 0, checkpoint_wal_bytes: 0, ..options(1) };
    let database = Database::open(folder.path(), options).unwrap();
    let published = database.run(Target::Any, |context| {
        let mut session = Session::new(context.instance());
        session.interrupt().interrupt(Reason::Cancel);
        assert_eq!(session.checkpoint(context), Err(Error::Cancelled));
        session.interrupt().clear();
        session.deadline_ns = Some(context.now_ns());
        assert_eq!(session.checkpoint(context), Err(Error::Cancelled));
        session.deadline_ns = None;
        let report = session.checkpoint(context).unwrap().unwrap();
        assert_eq!((report.number, report.cause), (1, CheckpointCause::Request));
        let status = CheckpointWatch::new(context.instance()).status().unwrap();
        assert!(!status.is_running && status.space.used > 0 && status.space.pages > 0);
        assert_eq!(status.counters.last, Some(report));
        (status.counters.published, status.counters.abandoned, status.counters.newest)
    });
    assert_eq!(published.unwrap(), (1, 0, 1));
    database.close().unwrap();
}

#[test]
fn who_asks_together_shares_a_checkpoint_that_began_later() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { checkpoint_interval_ms: 0, checkpoint_wal_bytes: 0, ..options(2) };
    let database = Database::open(folder.path(), options).unwrap();
    let events = database.checkpoint_events().unwrap();
    let table = make_accounts(&database);
    std::thread::scope(|scope| {
        for client in 0..16 {
            let database = &database;
            scope.spawn(move || {
                transact(database, Isolation::ReadCommitted, |it| insert(it, table, client, 1))
                    .unwrap();
                let made = database.run(Target::Any, |context| {
                    Session::new(context.instance()).checkpoint(context).unwrap().unwrap()
                });
                assert!(made.unwrap().number >= 1);
            });
        }
    });
    let counters = database.metrics().unwrap().checkpoints.unwrap();
    assert!((1..=16).contains(&counters.published), "{counters:?}");
    assert_eq!((counters.by_interval, counters.by_log, counters.abandoned), (0, 0, 0));
    database.close().unwrap();
    drop(database);
    let told: Vec<_> = events.into_iter().collect();
    assert_eq!(told.len() as u64, counters.published);
    assert_eq!(told.last(), counters.last.map(CheckpointEvent::Published).as_ref());
    // Everything that was committed before somebody's call is in the newest one.
    let database = Database::open(folder.path(), self::options(1)).unwrap();
    assert_eq!(database.recovery().commits, 0);
    assert!(database.recovery().pages > 0);
    database.close().unwrap();
}

/// Where a new manifest is written stands a folder: no checkpoint can be published.
struct Obstacle(std::path::PathBuf);

impl Obstacle {
    fn in_the_way(directory: &Path) -> Obstacle {
        let place = directory.join("MANIFEST.tmp");
        std::fs::create_dir(&place).expect("the database's directory takes it");
        Obstacle(place)
    }

    fn remove(self) {
        std::fs::remove_dir(self.0).expect("it is empty");
    }
}

/// What comes next, within a time in which much more would come.
fn next(events: &mpsc::Receiver<CheckpointEvent>) -> CheckpointEvent {
    events.recv_timeout(std::time::Duration::from_secs(30)).expect("an attempt is made")
}

fn published(events: &mpsc::Receiver<CheckpointEvent>) -> CheckpointReport {
    match next(events) {
        CheckpointEvent::Published(report) => report,
        other => panic!("{other:?}"),
    }
}

fn insert_one(database: &Database, table: Oid, id: i64) {
    let made = transact(database, Isolation::ReadCommitted, |it| insert(it, table, id, 1));
    made.expect("nothing is in the way");
}

#[test]
fn one_is_made_when_it_is_due_though_nobody_does_anything() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { checkpoint_interval_ms: 500, checkpoint_wal_bytes: 0, ..options(2) };
    let database = Database::open(folder.path(), options).unwrap();
    let events = database.checkpoint_events().unwrap();
    let table = make_accounts(&database);
    for id in 0..2 {
        insert_one(&database, table, id);
        let report = published(&events);
        assert_eq!(report.cause, CheckpointCause::Interval);
    }
    database.close().unwrap();
    drop(database);
    let again = Database::open(folder.path(), self::options(1)).unwrap();
    assert_eq!(again.recovery().commits, 0);
    again.close().unwrap();
}

#[test]
fn one_that_came_to_nothing_is_made_again_though_nothing_is_logged_any_more() {
    let causes = [(200, 0, CheckpointCause::Interval), (0, 1000, CheckpointCause::Log)];
    for (checkpoint_interval_ms, checkpoint_wal_bytes, cause) in causes {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { checkpoint_interval_ms, checkpoint_wal_bytes, ..options(2) };
        let database = Database::open(folder.path(), options).unwrap();
        let obstacle = Obstacle::in_the_way(folder.path());
        let events = database.checkpoint_events().unwrap();
        let table = make_accounts(&database);
        (0..100).for_each(|id| insert_one(&database, table, id));
        for _ in 0..2 {
            assert!(matches!(next(&events), CheckpointEvent::Abandoned(_)));
        }
        obstacle.remove();
        // One may have begun, and failed, before that.
        let report = match next(&events) {
            CheckpointEvent::Published(report) => report,
            _ => published(&events),
        };
        assert_eq!(report.cause, cause);
        // With nothing new there is no other.
        let more = events.recv_timeout(std::time::Duration::from_millis(500));
        assert!(!matches!(more, Ok(CheckpointEvent::Abandoned(_))), "{more:?}");
        database.close().unwrap();
        drop(database);
        let again = Database::open(folder.path(), self::options(1)).unwrap();
        assert_eq!(again.recovery().commits, 0);
        assert_eq!(all(&again, table).len(), 100);
        again.close().unwrap();
    }
}

#[test]
fn after_one_that_came_to_nothing_logs_that_grow_bring_about_others_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        Options { checkpoint_interval_ms: 3_600_000, checkpoint_wal_bytes: 100_000, ..options(1) };
    let database = Database::open(folder.path(), options).unwrap();
    let obstacle = Obstacle::in_the_way(folder.path());
    let events = database.checkpoint_events().unwrap();
    let table = make_accounts(&database);
    database.run(Target::Any, Database::checkpoint).unwrap().expect_err("it is in the way");
    assert!(matches!(next(&events), CheckpointEvent::Abandoned(_)));
    obstacle.remove();
    let mut id = 0;
    for made in 0..3 {
        let report = loop {
            insert_one(&database, table, id);
            id += 1;
            match events.try_recv() {
                Ok(CheckpointEvent::Published(report)) => break report,
                Ok(other) => panic!("{other:?}"),
                Err(_) => assert!(id < 100_000, "the log has grown enough"),
            }
        };
        // The first makes up for the one that came to nothing.
        assert!(made == 0 || report.cause == CheckpointCause::Log, "{report:?}");
    }
    database.close().unwrap();
}
