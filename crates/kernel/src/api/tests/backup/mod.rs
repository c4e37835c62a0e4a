//! Backups of a running database, archived logs, and what is restored from both.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

mod damage;
mod histories;
mod history;
mod kept;
mod verified;

use std::time::Duration;

use super::checkpoints::make_checkpoint;
use super::*;
use crate::io::{Direct, Disk, IoBuffer, IoChoice, OpenHow, RealDisk};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use history::{
    History, archived, archiving, backup, copy_directory, failure, is_there, keeping, micros,
    replace_directory, rows_in, small, while_changed, without,
};

#[test]
fn a_backup_while_two_threads_transact_is_a_consistent_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&folder.path().join("data"), small(2)).unwrap();
    let table = make_accounts(&database);
    let fill = |from: i64, to: i64| {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..to).try_for_each(|id| insert(statement, table, id, 0).map(drop))
        })
        .unwrap();
    };
    // So many pages that copying takes a while.
    (0..40).for_each(|n| fill(-40_000 + n * 1000, -39_000 + n * 1000));
    let done = [AtomicU64::new(0), AtomicU64::new(0)];
    let stop = AtomicBool::new(false);
    let (mut checked, mut moved) = (0, 0);
    std::thread::scope(|scope| {
        for home in 0..2_usize {
            let (database, done, stop) = (&database, &done, &stop);
            scope.spawn(move || {
                // Row n of each thread says how many rows it knew of the other's.
                while !stop.load(Ordering::SeqCst) {
                    let other = done[1 - home].load(Ordering::SeqCst);
                    let next = done[home].load(Ordering::SeqCst);
                    let id = (home as i64 + 1) * 1_000_000 + next as i64;
                    transact(database, Isolation::ReadCommitted, |statement| {
                        insert(statement, table, id, other as i64)?;
                        add(statement, table, -40_000 + (next % 100) as i64, 1)?;
                        add(statement, table, -1 - (next % 100) as i64, -1)
                    })
                    .unwrap_or_else(|error| panic!("{error}"));
                    done[home].store(next + 1, Ordering::SeqCst);
                }
            });
        }
        for round in 0..3 {
            let known = || done.each_ref().map(|done| done.load(Ordering::SeqCst) as usize);
            let before = known();
            let target = folder.path().join(format!("backup{round}"));
            let report = backup(&database, &target).unwrap();
            let after = known();
            assert!(report.pages > 40 && report.log_bytes > 0, "{report:?}");
            moved += after[0] - before[0];
            let rows = rows_in(&target, table);
            assert_eq!(rows.iter().filter(|(id, _)| *id < 0).map(|row| row.1).sum::<i64>(), 0);
            let of = |home: i64| rows.iter().filter(move |row| row.0 / 1_000_000 == home);
            let counts = [of(1).count(), of(2).count()];
            for home in 0..2_usize {
                let count = counts[home];
                assert!((before[home]..=after[home] + 1).contains(&count), "{before:?} {count}");
                for (at, (id, other)) in of(home as i64 + 1).enumerate() {
                    assert_eq!(*id % 1_000_000, at as i64, "no gaps");
                    assert!(*other as usize <= counts[1 - home], "what it knew of is there");
                    checked += 1;
                }
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(checked > 10 && moved > 0, "transactions went on meanwhile: {checked}, {moved}");
    database.close().unwrap();
}

#[test]
fn what_is_in_the_way_of_a_backup_is_named_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&folder.path().join("data"), small(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |statement| {
        (0..5000).try_for_each(|id| insert(statement, table, id, 7).map(drop))
    })
    .unwrap();
    // Not empty.
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("mine"), "x").unwrap();
    assert!(matches!(backup(&database, &taken), Err(Error::NotEmpty { .. })));
    assert!(taken.join("mine").is_file());
    // Cancelled: at the beginning, and when something was copied.
    let target = folder.path().join("backup");
    let path = &target;
    let cancelled = database.run(Target::Any, move |context| {
        let session = Session::new(context.instance());
        let interrupt = session.interrupt().clone();
        session.backup(context, path, &mut |copied, _| {
            if copied > 0 {
                interrupt.interrupt(Reason::Cancel);
            }
            Ok(())
        })
    });
    // It may have been done already; then it is a whole one.
    match cancelled.unwrap() {
        Err(error) => {
            assert_eq!(error, Error::Cancelled);
            assert!(!is_there(&target));
        }
        Ok(_) => assert_eq!(rows_in(&target, table).len(), 5000),
    }
    let cancelled = database.run(Target::Any, |context| {
        let session = Session::new(context.instance());
        session.interrupt().interrupt(Reason::Cancel);
        session.backup(context, &folder.path().join("other"), &mut |_, _| Ok(()))
    });
    assert_eq!(cancelled.unwrap().unwrap_err(), Error::Cancelled);
    assert!(!folder.path().join("other/MANIFEST.1").exists());
    // In memory.
    let memory = Database::open_in_memory(small(1)).unwrap();
    assert!(matches!(backup(&memory, &target), Err(Error::Unusable { .. })));
    memory.close().unwrap();
    database.close().unwrap();
}

#[test]
fn a_damaged_page_is_named_by_the_backup() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&folder.path().join("data"), small(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |statement| {
        (0..5000).try_for_each(|id| insert(statement, table, id, 7).map(drop))
    })
    .unwrap();
    backup(&database, &folder.path().join("good")).unwrap();
    let pages = folder.path().join("data/pages");
    let disk = RealDisk::open(&pages, IoChoice::Threads).unwrap();
    let file = disk.open("0000.pages", OpenHow::Existing, Direct::Yes).unwrap();
    let mut page = IoBuffer::zeroed(crate::base::PAGE_BYTES);
    let size = page.len() as u64;
    let held = (1..file.len().unwrap() / size).rfind(|at| {
        file.read_at(at * size, &mut page).unwrap();
        page.iter().any(|byte| *byte != 0)
    });
    let mut bytes = vec![0; page.len()];
    let mut found = 0;
    // All pages: the checkpoint has most of them.
    for at in 1..=held.unwrap() {
        file.read_at(at * size, &mut page).unwrap();
        page[100] ^= 4;
        file.write_at(at * size, &page).unwrap();
        bytes.copy_from_slice(&page);
        found += 1;
    }
    assert!(found > 3);
    let damaged = folder.path().join("damaged");
    let told = backup(&database, &damaged).unwrap_err().to_string();
    assert!(told.contains("\"pages/0000.pages\", page "), "{told}");
    assert!(!is_there(&damaged));
    database.close().unwrap();
}

#[test]
fn a_database_is_restored_to_any_time_across_checkpoints_and_restarts() {
    let mut history = History::new();
    let database = history.open();
    history.go_on(&database, 20);
    let before = history.moments[0].0;
    std::thread::sleep(Duration::from_millis(2));
    backup(&database, &history.path("backup")).unwrap();
    let first = history.moments.len();
    for round in 0..3 {
        for _ in 0..4 {
            history.go_on(&database, 15);
        }
        make_checkpoint(&database);
        let segments = archived(&database).segments;
        assert!(segments > round, "{segments}");
    }
    history.go_on(&database, 10);
    database.close().unwrap();
    drop(database);
    // Twice: an incarnation that archives nothing of its own but what was left, and one that does.
    let database = history.open();
    history.go_on(&database, 5);
    database.close().unwrap();
    drop(database);
    let database = history.open();
    for _ in 0..3 {
        history.go_on(&database, 15);
        make_checkpoint(&database);
    }
    let status = archived(&database);
    assert_eq!(status.failure, None);
    // What was archived is used again, and what earlier incarnations left is gone.
    let left = std::fs::read_dir(history.path("data/log/0000")).unwrap().count();
    assert!(left <= 8, "{left} segments");
    database.close().unwrap();
    drop(database);

    let last = history.moments.len() - 1;
    for at in first..=last {
        let (wall, rows) = &history.moments[at];
        let name = format!("at{at}");
        let restored = history.restore(&name, Until::Micros(*wall)).unwrap();
        assert_eq!(restored.wall_micros, *wall);
        let found = rows_in(&history.path(&name), history.table);
        assert!(found == *rows, "moment {at} of {last}: {} {}", found.len(), rows.len());
        // By the number of its last commit the same, and one before that not.
        let cts = Cts(restored.below.0 - 1);
        if at % 4 == 0 {
            let name = format!("cts{at}");
            history.restore(&name, Until::Cts(cts)).unwrap();
            assert!(rows_in(&history.path(&name), history.table) == *rows);
            let name = format!("less{at}");
            history.restore(&name, Until::Cts(Cts(cts.0 - 1))).unwrap();
            assert!(rows_in(&history.path(&name), history.table) != *rows);
        }
    }
    history.restore("end", Until::End).unwrap();
    assert!(rows_in(&history.path("end"), history.table) == history.moments[last].1);
    // Before the backup, and after everything.
    let told = history.restore("no", Until::Micros(before)).unwrap_err().to_string();
    assert!(told.contains("cannot go back before"), "{told}");
    let told = history.restore("no", Until::Micros(micros())).unwrap_err().to_string();
    assert!(told.contains("complete up to"), "{told}");
    let told = history.restore("no", Until::Cts(Cts(1))).unwrap_err().to_string();
    assert!(told.contains("cannot go back before cts"), "{told}");
    assert!(!is_there(&history.path("no")));
    let again = history.restore("end", Until::End);
    assert!(matches!(again, Err(Error::NotEmpty { .. })), "{again:?}");
}

#[test]
fn what_is_missing_or_damaged_is_named() {
    let mut history = History::new();
    history.life(|history, database| {
        history.go_on(database, 5);
        backup(database, &history.path("backup")).unwrap();
        // How fast logs grow depends on which instances the transactions ran on.
        while history.moments.len() < 4 || history.archived_files(".seg").len() <= 4 {
            history.archive_more(database);
            assert!(history.moments.len() < 100, "logs are not archived");
        }
    });
    let segments = history.archived_files(".seg");
    // Each segment that only the archive has.
    let mut gaps = 0;
    for segment in &segments {
        without(segment, || {
            if history.restore("some", Until::End).is_err() {
                history.is_refused("is damaged or missing from position");
                gaps += 1;
            } else {
                std::fs::remove_dir_all(history.path("some")).unwrap();
            }
        });
    }
    assert!(gaps >= 2, "{gaps} of {}", segments.len());
    // A flipped bit in every file of the archive, one after the other, changes nothing silently.
    let mut found = 0;
    for file in &history.archived_files("") {
        let change = |bytes: &mut [u8]| {
            let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 2;
            bytes[middle] ^= 8;
        };
        while_changed(file, change, || match history.restore("bit", Until::End) {
            Err(Error::Corrupt { .. }) => found += 1,
            Err(other) => panic!("{other}"),
            // What the backup has, too, or nothing needs.
            Ok(_) => assert!(history.has_rows("bit", history.last()), "{file:?}"),
        });
    }
    assert!(found >= 3, "{found}");
}

#[test]
fn a_damaged_backup_is_named() {
    let mut history = History::new();
    history.life(|history, database| {
        history.go_on(database, 5);
        backup(database, &history.path("backup")).unwrap();
        archived(database);
    });
    let change = |bytes: &mut [u8]| {
        let at = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[at] ^= 1;
    };
    let page = history.path("backup/pages/0000.pages");
    while_changed(&page, change, || history.is_refused("\"pages/0000.pages\", page "));
    let backup = history.path("backup");
    without(&backup.join("BACKUP"), || history.is_refused("no file \"BACKUP\""));
    without(&backup.join("MANIFEST.1"), || history.is_refused("manifest"));
    // A backup that was started is a database, and no backup any more.
    Database::open(&backup, small(2)).unwrap().close().unwrap();
    history.is_refused("was started as a database");
}

/// Places where nothing is are holes of the files, so that a file was restored without what it had lost.
#[test]
fn pages_that_a_backup_has_lost_are_missed() {
    let mut history = History::new();
    history.life(|history, database| {
        history.go_on(database, 40);
        backup(database, &history.path("backup")).unwrap();
        archived(database);
    });
    history.restore_all();
    let mut judged = 0;
    for home in ["0000", "0001"] {
        let pages = history.path("backup/pages").join(format!("{home}.pages"));
        let good = std::fs::read(&pages).unwrap();
        // Which instance has written which page depends on which was there first.
        if good.len() < 3 * crate::base::PAGE_BYTES {
            continue;
        }
        judged += 1;
        without(&pages, || history.is_refused("a page file is missing, or was made shorter"));
        std::fs::write(&pages, &good[..good.len() - crate::base::PAGE_BYTES]).unwrap();
        history.is_refused("a page file is missing, or was made shorter");
        std::fs::write(&pages, good).unwrap();
    }
    assert!(judged > 0);
}

#[test]
fn an_archive_that_cannot_be_written_holds_nothing_up() {
    let mut history = History::new();
    std::fs::write(history.path("archive"), "no directory").unwrap();
    let database = history.open();
    for _ in 0..4 {
        history.go_on(&database, 60);
        make_checkpoint(&database);
    }
    let told = loop {
        let status = database.run(Target::Any, |context| {
            CheckpointWatch::new(context.instance()).status().and_then(|it| it.archive)
        });
        let status = status.unwrap().unwrap();
        assert_eq!((status.segments, status.checkpoint), (0, 0));
        match status.failure {
            Some(told) => break told,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(told.contains("archive"), "{told}");
    backup(&database, &history.path("backup")).unwrap();
    history.go_on(&database, 60);
    make_checkpoint(&database);
    // Nothing was lost meanwhile: with room it is all archived.
    std::fs::remove_file(history.path("archive")).unwrap();
    assert!(archived(&database).segments >= 3);
    history.restore_all();
    database.close().unwrap();
    drop(database);
    // Other copies of the same database keep out of it: a backup that was started, and one of the
    // directory, which comes second.
    copy_directory(&history.path("data"), &history.path("copy"));
    let database = history.open();
    history.go_on(&database, 1);
    make_checkpoint(&database);
    archived(&database);
    let told = history.other_fails("backup");
    assert!(told.contains("is a backup that was started as it is"), "{told}");
    let told = history.other_fails("copy");
    assert!(told.contains("another copy of this database"), "{told}");
    database.close().unwrap();
}
