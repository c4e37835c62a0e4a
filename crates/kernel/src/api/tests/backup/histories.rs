//! Archives that are away for a while, and copies of a database that went different ways. Each test
//! is of a hole that a review found: segments were lost, or two histories mixed.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::history::{archives, archives_after};
use super::*;
use crate::backup::{Archive, Point, Watch};

#[test]
fn lives_that_never_reached_the_archive_are_archived_by_a_later_one() {
    let mut history = History::archived_once();
    let archive = history.path("archive");
    without(&archive, || {
        std::fs::write(&archive, "no directory").unwrap();
        history.go_on_unarchived();
        history.go_on_unarchived();
        std::fs::remove_file(&archive).unwrap();
    });
    history.go_on_archiving();
    history.verify();
}

/// As an offline backup is: its checkpoint had everything, so the next manifest named it no more.
#[test]
fn a_life_that_left_nothing_but_a_checkpoint_is_no_gap() {
    let mut history = History::archived_once();
    for name in ["second", "third"] {
        history.life_with(keeping(), |history, database| {
            backup(database, &history.path(name)).unwrap();
        });
    }
    history.go_on_archiving();
    history.verify();
    for name in ["second", "third"] {
        let (archive, target) = (history.path("archive"), history.path(&format!("of {name}")));
        Database::restore(&history.path(name), Some(&archive), &target, Until::End).unwrap();
        let rows = rows_in(&target, history.table);
        assert!(rows == *history.last());
    }
}

/// How an incarnation began is written before its manifest: a start that ended between the two, behind a
/// life that a checkpoint had all of, left a gap.
#[test]
fn a_start_that_ends_beside_its_manifest_is_no_gap() {
    for obstacle in ["0000000003.begun.tmp", "MANIFEST.tmp"] {
        let mut history = History::archived_once();
        history.life_with(keeping(), |_, database| {
            make_checkpoint(database);
        });
        let obstacle = history.path("data").join(obstacle);
        std::fs::create_dir_all(obstacle.join("in the way")).unwrap();
        let started = Database::open(&history.path("data"), archiving(&history.path("archive")));
        let told = started.err().expect("something is in its way").to_string();
        assert!(told.contains(obstacle.file_name().unwrap().to_str().unwrap()), "{told}");
        std::fs::remove_dir_all(&obstacle).unwrap();
        history.go_on_archiving();
        history.verify();
    }
}

#[test]
fn an_archive_is_made_only_where_none_can_have_been() {
    let mut history = History::new();
    let deep = history.path("mount").join("archive");
    let database = Database::open(&history.path("data"), archiving(&deep)).unwrap();
    history.table = make_accounts(&database);
    let told = failure(&database);
    assert!(told.contains("mount/archive\" is not there"), "{told}");
    assert!(!is_there(&history.path("mount")));
    std::fs::create_dir(history.path("mount")).unwrap();
    archived(&database);
    assert!(is_there(&deep));
    // Who begins a new archive elsewhere makes this folder.
    let folder = std::fs::read_dir(&deep).unwrap().next().unwrap().unwrap().file_name();
    assert!(told.contains(folder.to_str().unwrap()), "{told}");
    database.close().unwrap();
}

#[test]
fn an_archive_that_was_not_mounted_loses_nothing() {
    let mut history = History::archived_once();
    let archive = history.path("archive");
    // The folder that it is mounted in is there, and empty.
    without(&archive, || {
        std::fs::create_dir(&archive).unwrap();
        let told = history.go_on_unarchived();
        assert!(told.contains("has nothing of this database"), "{told}");
        // Not even an empty one, or nothing could be renamed to it.
        std::fs::remove_dir(&archive).unwrap();
    });
    // It is not.
    without(&archive, || {
        let told = history.go_on_unarchived();
        assert!(told.contains("is not there"), "{told}");
        assert!(!is_there(&archive));
    });
    // While the database runs.
    let database = history.open();
    history.archive_more(&database);
    without(&archive, || {
        history.go_on(&database, 40);
        // It may have been writing there in that moment.
        while !failure(&database).contains("is not there") {}
        std::fs::create_dir(&archive).unwrap();
        history.go_on(&database, 40);
        let told = loop {
            match failure(&database) {
                told if told.contains("is not there") => {}
                told => break told,
            }
        };
        assert!(told.contains("has nothing of this database"), "{told}");
        std::fs::remove_dir(&archive).unwrap();
    });
    make_checkpoint(&database);
    archived(&database);
    database.close().unwrap();
    history.verify();
}

#[test]
fn a_directory_that_was_set_back_is_kept_out_of_the_archive() {
    let mut history = History::archived_once();
    let database = history.open();
    history.archive_more(&database);
    // As a disk's snapshot has it.
    copy_directory(&history.path("data"), &history.path("early"));
    history.archive_more(&database);
    backup(&database, &history.path("late")).unwrap();
    make_checkpoint(&database);
    archived(&database);
    database.close().unwrap();
    drop(database);
    copy_directory(&history.path("early"), &history.path("again"));
    let told = history.other_fails("again");
    assert!(told.contains("an earlier copy"), "{told}");
    // Nor does a restore mix what it archives elsewhere with a backup of what the first did meanwhile.
    history.other_goes_on("early", "other");
    history.is_refused_of(("late", "other"), "another history");
    history.restore_all();
}

#[test]
fn copies_of_a_directory_are_told_from_each_other() {
    let mut history = History::archived_once();
    copy_directory(&history.path("data"), &history.path("copy"));
    copy_directory(&history.path("data"), &history.path("second"));
    let database = history.open();
    history.go_on(&database, 40);
    backup(&database, &history.path("late")).unwrap();
    history.archive_more(&database);
    database.close().unwrap();
    drop(database);
    // Both are incarnation 2.
    history.other_goes_on("copy", "other");
    history.is_refused_of(("late", "other"), "another history");
    // One that did not archive in its incarnation 2 does not go on from the other's.
    let other = Database::open(&history.path("second"), small(2)).unwrap();
    make_checkpoint(&other);
    other.close().unwrap();
    drop(other);
    let told = history.other_fails("second");
    assert!(told.contains("another copy of this database"), "{told}");
    history.verify();
}

/// Its numbers are above those that the archive has, which it never had anything to do with.
#[test]
fn a_copy_from_before_anything_was_archived_keeps_out_of_the_archive() {
    let mut history = History::new();
    history.life_with(small(2), |history, database| history.go_on(database, 5));
    copy_directory(&history.path("data"), &history.path("copy"));
    history.go_on_archiving();
    for _ in 0..3 {
        let other = Database::open(&history.path("copy"), small(2)).unwrap();
        make_checkpoint(&other);
        other.close().unwrap();
    }
    let told = history.other_fails("copy");
    assert!(told.contains("another copy of this database"), "{told}");
}

/// What the machine does that was set back to a snapshot while the database ran, and goes on.
#[test]
fn a_machine_that_was_set_back_keeps_out_of_the_archive() {
    let mut history = History::archived_once();
    let database = history.open();
    history.archive_more(&database);
    copy_directory(&history.path("data"), &history.path("early"));
    history.archive_more(&database);
    database.close().unwrap();
    drop(database);
    let disk = RealDisk::open(&history.path("archive"), IoChoice::Threads).unwrap();
    let id = history.folder().file_name().unwrap().to_str().unwrap().to_owned();
    let archive = Archive::new(Arc::new(disk), u128::from_str_radix(&id, 16).unwrap());
    let early = RealDisk::open(&history.path("early"), IoChoice::Threads).unwrap();
    let _lock = RealDisk::existing(&history.folder()).lock("a test").unwrap();
    // The checkpoint that it makes next.
    let path = history.archived_files(".reached").pop().unwrap();
    let point = Point::decode(&std::fs::read(&path).unwrap(), "reached").unwrap();
    let other = Point { wall_micros: point.wall_micros + 1, ..point.clone() };
    let told = archive.reach(&early, &other, &[], &Watch::default()).unwrap_err().to_string();
    assert!(told.contains("an earlier copy"), "{told}");
    assert_eq!(std::fs::read(&path).unwrap(), point.encode());
    history.verify();
}

/// Logs went first, so that the start after a crash promised the archive what was not there any more.
#[test]
fn beginnings_are_forgotten_before_the_logs_behind_them_go() {
    let mut history = History::archived_once();
    without(&history.path("archive"), || history.go_on_unarchived());
    let obstacle = history.path("data/0000000099.begun");
    std::fs::create_dir(&obstacle).unwrap();
    let told = Database::open(&history.path("data"), small(2)).err().unwrap().to_string();
    assert!(told.contains("0000000099.begun"), "{told}");
    std::fs::remove_dir(&obstacle).unwrap();
    history.go_on_archiving();
    history.verify();
}

/// Nothing says whose they are: points do, of which there are none.
#[test]
fn segments_without_points_are_compared() {
    let mut history = History::archived_once();
    history.life(|history, database| history.go_on(database, 40));
    for ending in [".begun", ".reached"] {
        history.archived_files(ending).iter().for_each(|it| std::fs::remove_file(it).unwrap());
    }
    // The newest with records: the data directory has it still.
    let has_records = |it: &PathBuf| std::fs::read(it).unwrap()[4096..].iter().any(|it| *it != 0);
    let segment = history.archived_files(".seg").into_iter().rfind(has_records).unwrap();
    let good = std::fs::read(&segment).unwrap();
    let mut other = good.clone();
    let last = other.iter().rposition(|byte| *byte != 0).unwrap();
    other[last] ^= 1;
    std::fs::write(&segment, &other).unwrap();
    let told = history.go_on_unarchived();
    assert!(told.contains("is not what the data directory has"), "{told}");
    assert!(told.contains(segment.file_name().unwrap().to_str().unwrap()), "{told}");
    assert_eq!(std::fs::read(&segment).unwrap(), other);
    std::fs::write(&segment, good).unwrap();
    history.go_on_archiving();
}

/// Two that archive at one time would each find nothing of the other.
#[test]
fn one_process_at_a_time_archives_a_database() {
    let mut history = History::archived_once();
    let folder = RealDisk::open(&history.folder(), IoChoice::Threads).unwrap();
    let other = folder.lock("another").unwrap();
    let database = history.open();
    let told = failure(&database);
    assert!(told.contains("is in use by"), "{told}");
    drop(other);
    history.archive_more(&database);
    database.close().unwrap();
    history.verify();
}

/// It lacks what was archived since, and has lost for good what is used again in the data directory.
#[test]
fn an_archive_that_was_set_back_is_refused() {
    let mut history = History::archived_once();
    let database = history.open();
    history.archive_more(&database);
    let folder = history.folder();
    copy_directory(&folder, &history.path("earlier"));
    history.archive_more(&database);
    std::fs::rename(&folder, history.path("newer")).unwrap();
    copy_directory(&history.path("earlier"), &folder);
    // While it runs, and after a start.
    let told = failure(&database);
    assert!(told.contains("the archive was set back"), "{told}");
    database.close().unwrap();
    drop(database);
    let told = history.go_on_unarchived();
    assert!(told.contains("the archive was set back"), "{told}");
    // To before the newest incarnation that it has.
    replace_directory(&history.path("newer"), &folder);
    history.go_on_archiving();
    replace_directory(&history.path("newer"), &folder);
    let told = history.go_on_unarchived();
    assert!(told.contains("the archive was set back"), "{told}");
}

/// As operations.md says: an empty folder is a new archive, for backups that are taken from then on.
#[test]
fn a_new_archive_is_begun_where_its_folder_was_made() {
    let mut history = History::archived_once();
    let folder = history.folder();
    std::fs::rename(&folder, history.path("old")).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let database = history.open();
    history.go_on(&database, 5);
    std::fs::remove_dir_all(history.path("backup")).unwrap();
    backup(&database, &history.path("backup")).unwrap();
    history.moments.drain(..history.moments.len() - 1);
    history.archive_more(&database);
    database.close().unwrap();
    drop(database);
    history.go_on_archiving();
    history.verify();
}

#[test]
fn archives_of_other_databases_are_refused() {
    let history = History::archived_once();
    let other = History::archived_once();
    let elsewhere = other.path("archive");
    let refused = |what: &str| {
        let told = Database::restore(
            &history.path("backup"),
            Some(&elsewhere),
            &history.path("no"),
            Until::End,
        );
        let told = told.unwrap_err().to_string();
        assert!(told.contains(what), "{told}");
        assert!(!is_there(&history.path("no")));
    };
    refused("has nothing of this database");
    // As if somebody had given the folder another name.
    let name = elsewhere.join(history.folder().file_name().unwrap());
    std::fs::rename(other.folder(), &name).unwrap();
    refused("another database");
    for file in std::fs::read_dir(&name).unwrap().map(|it| it.unwrap().path()) {
        if file.extension().is_some_and(|it| it != "seg") {
            std::fs::remove_file(file).unwrap();
        }
    }
    refused("another database");
}

/// Its first point was noted as one that it may not have got, and was for as long as it was the newest.
#[test]
fn an_archive_that_was_set_back_to_before_its_first_checkpoint_is_refused() {
    let mut history = History::new();
    let mut told = Ok(());
    history.life(|history, database| {
        history.go_on(database, 5);
        while !is_there(&history.path("data/ARCHIVED")) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (folder, earlier) = (history.folder(), history.path("earlier"));
        copy_directory(&folder, &earlier);
        history.archive_more(database);
        replace_directory(&earlier, &folder);
        told = archives(database);
    });
    let told = told.expect_err("it lacks what was archived");
    assert!(told.contains("the archive was set back"), "{told}");
}

/// The moment between the archive's getting a point and its being noted as the newest, in which nothing was let
/// go of: an archive that has the point before gets the same again.
#[test]
fn an_archive_that_was_set_back_while_its_point_was_not_settled_lacks_nothing() {
    let mut history = History::archived_once();
    let (folder, earlier) = (history.folder(), history.path("earlier"));
    let mut unsettled = Vec::new();
    history.life(|history, database| {
        history.archive_more(database);
        copy_directory(&folder, &earlier);
        copy_directory(&history.path("data"), &history.path("before"));
        history.archive_more(database);
        unsettled = std::fs::read(history.path("data/REACHED")).unwrap();
    });
    // As a process leaves it that is killed there: it has let go of nothing since the point before. The slots
    // of both points are filled.
    let settled = std::fs::read(history.path("before/REACHED")).unwrap();
    for (slot, other) in unsettled.chunks_mut(4096).zip(settled.chunks(4096)) {
        if slot.iter().all(|byte| *byte == 0) {
            slot.copy_from_slice(other);
        }
    }
    replace_directory(&history.path("before"), &history.path("data"));
    std::fs::write(history.path("data/REACHED"), &unsettled).unwrap();
    history.set_back();
    replace_directory(&earlier, &folder);
    history.go_on_archiving();
    history.verify();
}

/// What a process leaves that is killed when the archive has got how its incarnation began, and before that is
/// noted: `<n>.begun` is there still, and `ARCHIVED` as it was.
fn unsettle(history: &mut History, number: u32, work: impl FnOnce(&mut History, &Database)) {
    let [archived, begun] =
        ["ARCHIVED", &format!("{number:010}.begun")].map(|it| history.path("data").join(it));
    let before = std::fs::read(&archived).ok();
    history.life(|history, database| {
        while is_there(&begun) {
            std::thread::sleep(Duration::from_millis(5));
        }
        work(history, database);
    });
    std::fs::rename(&archived, &begun).unwrap();
    before.iter().for_each(|bytes| std::fs::write(&archived, bytes).unwrap());
}

/// A later start without an archive forgot that point, and the next one with it took it for another copy's.
#[test]
fn a_beginning_that_was_archived_and_forgotten_is_the_databases_own() {
    for is_first in [true, false] {
        let mut history = History::new();
        if !is_first {
            history = History::archived_once();
        }
        let number = if is_first { 1 } else { 2 };
        unsettle(&mut history, number, |history, database| history.go_on(database, 5));
        // Twice: what the archive may have stays in mind.
        for _ in 0..2 {
            history.life_with(small(2), |history, database| {
                history.go_on(database, 40);
                make_checkpoint(database);
            });
            assert!(is_there(&history.path("data/FORGOTTEN")));
            let archive = history.path("archive");
            without(&archive, || {
                std::fs::write(&archive, "no directory").unwrap();
                history.go_on_unarchived();
                std::fs::remove_file(&archive).unwrap();
            });
        }
        history.life_with(small(2), |_, database| {
            make_checkpoint(database);
        });
        history.archives_again().unwrap();
        assert!(!is_there(&history.path("data/FORGOTTEN")));
        // From here on it is complete again.
        history.moments.clear();
        let _ = std::fs::remove_dir_all(history.path("backup"));
        history.life(|history, database| {
            history.go_on(database, 5);
            backup(database, &history.path("backup")).unwrap();
            history.archive_more(database);
        });
        history.go_on_archiving();
        history.verify();
    }
}

/// The archive never got it, so what another copy began with the same number there is not its own.
#[test]
fn a_beginning_that_was_forgotten_says_nothing_of_another_copys() {
    let mut history = History::archived_once();
    copy_directory(&history.path("data"), &history.path("copy"));
    let archive = history.path("archive");
    without(&archive, || drop(history.go_on_unarchived()));
    history.life_with(small(2), |_, database| {
        make_checkpoint(database);
    });
    assert!(is_there(&history.path("data/FORGOTTEN")));
    copy_directory(&history.path("data"), &history.path("again"));
    // Nobody else was there meanwhile.
    copy_directory(&archive, &history.path("kept"));
    history.archives_again().unwrap();
    replace_directory(&history.path("kept"), &archive);
    // Somebody was.
    let other = Database::open(&history.path("copy"), archiving(&archive)).unwrap();
    archives(&other).unwrap();
    other.close().unwrap();
    let told = history.other_fails("again");
    assert!(told.contains("another copy of this database"), "{told}");
}

/// A segment whose header is damaged looks like one that was never finished: it was passed over, and those
/// behind it were used again as if the archive had everything.
#[test]
fn a_damaged_segment_of_the_data_directory_is_not_left_out_of_the_archive() {
    for is_running in [true, false] {
        let mut history = History::new();
        let (log, archive) = (history.path("data/log/0000"), history.path("archive"));
        let segments = || {
            let mut files: Vec<_> =
                std::fs::read_dir(&log).unwrap().map(|file| file.unwrap().path()).collect();
            files.sort_unstable();
            files
        };
        let damage = || {
            // A process may have it open, so it stays the same file.
            let file = std::fs::OpenOptions::new().write(true).open(&segments()[1]).unwrap();
            file.write_all_at(&[0xff; 8], 20).unwrap();
            std::fs::remove_file(&archive).unwrap();
        };
        std::fs::write(&archive, "no directory").unwrap();
        let mut told = Ok(());
        history.life(|history, database| {
            while segments().len() < 5 {
                history.go_on(database, 40);
            }
            make_checkpoint(database);
            if is_running {
                damage();
                told = archives_after(database, "already exists");
            }
        });
        if !is_running {
            damage();
            told = history.archives_again();
        }
        let told = told.expect_err("the archive would lack it");
        assert!(told.contains("\"log/0000\" has no segment of incarnation 1"), "{told}");
        assert!(history.archived_files(".reached").is_empty());
        // As it says.
        history.life_with(small(2), |_, database| {
            make_checkpoint(database);
        });
        history.moments.clear();
        history.life(|history, database| {
            history.go_on(database, 5);
            backup(database, &history.path("backup")).unwrap();
            history.archive_more(database);
        });
        history.verify();
    }
}
