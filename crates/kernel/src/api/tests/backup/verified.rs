//! An archive is verified by itself: a flipped bit in any of its files is found, and what is missing is named.

use std::path::PathBuf;

use super::damage::{archived_by, damage, damage_header};
use super::*;

impl History {
    /// What a check of the archive finds.
    fn check(&self) -> ArchiveFindings {
        let all = Database::inspect_archive(&self.path("archive"), &mut |_| ()).unwrap().unwrap();
        assert_eq!(all.len(), 1);
        all.into_iter().next().unwrap()
    }

    /// All of it is sound.
    fn is_sound(&self) -> ArchiveFindings {
        let found = self.check();
        assert_eq!(found.problems, Vec::<String>::new());
        found
    }

    /// The first problem that is found of the file with this name.
    fn problem(&self, name: &str) -> String {
        let found = self.check();
        let told: Vec<_> = found.problems.iter().filter(|line| line.contains(name)).collect();
        assert!(!told.is_empty(), "{name}: {:?}", found.problems);
        told[0].clone()
    }
}

/// A database of three lives, of which the last goes on in the data directory alone.
fn three_lives() -> History {
    let mut history = History::new();
    history.go_on_archiving();
    for _ in 0..2 {
        history.life(|history, database| {
            while in_use(history.archived_files(".seg")).len() < 6 {
                history.archive_more(database);
            }
            history.archive_more(database);
            history.go_on(database, 5);
        });
    }
    history
}

/// Of segment files those that have records: others have what an earlier use has left, or nothing.
fn in_use(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    files.retain(|file| {
        let bytes = std::fs::read(file).unwrap();
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        // The header says where it begins, each record where it is.
        bytes.len() >= 8192 && number(4096 + 16) == number(24) + 4096
    });
    files
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn an_archive_that_is_sound_says_how_far_it_goes() {
    let history = three_lives();
    let found = history.is_sound();
    assert_eq!(found.notes, Vec::<String>::new());
    assert_eq!(found.segments as usize, history.archived_files(".seg").len());
    assert!(found.commits > 80, "{found:?}");
    // The last checkpoint was archived after the last moment but one, and before the last.
    let to = found.complete_to_micros.unwrap();
    let moments: Vec<i64> = history.moments.iter().map(|it| it.0).collect();
    let [.., before, last] = moments[..] else { panic!("{moments:?}") };
    assert!((before..=last).contains(&to), "{before} {to} {last}");
    // Its folder alone is as good; a data directory is none, nor is any other.
    let own = Database::inspect_archive(&history.folder(), &mut |_| ()).unwrap().unwrap();
    assert_eq!(own[0].commits, found.commits);
    for other in [history.path("data"), history.path("data/log"), history.path("")] {
        assert!(Database::inspect_archive(&other, &mut |_| ()).unwrap().is_none(), "{other:?}");
    }
}

#[test]
fn a_flipped_bit_in_any_file_of_an_archive_is_found_by_its_name() {
    let history = three_lives();
    let points = [history.archived_files(".begun"), history.archived_files(".reached")].concat();
    assert_eq!(points.len(), 6);
    for point in &points {
        while_changed(point, damage, || {
            let told = history.problem(&name_of(point));
            assert!(told.contains("its checksum does not hold"), "{told}");
        });
    }
    let segments = in_use(history.archived_files(".seg"));
    for segment in &segments {
        // What lies behind the last record may be of an earlier use, too.
        let damage_record = |bytes: &mut [u8]| bytes[4096 + 24] ^= 8;
        for how in [damage_record, damage_header] {
            while_changed(segment, how, || drop(history.problem(&name_of(segment))));
        }
    }
    history.is_sound();
}

#[test]
fn what_an_archive_lacks_is_told_but_for_the_oldest() {
    let history = three_lives();
    let is_missed = |path: &Path| {
        without(path, || {
            let found = history.check();
            assert!(!found.problems.is_empty(), "{path:?}");
        });
    };
    // Of later lives each segment, and each point that says how they began.
    for life in [2, 3] {
        in_use(archived_by(&history, life)).iter().for_each(|it| is_missed(it));
    }
    is_missed(&history.folder().join("0000000002.begun"));
    // A gap.
    let last = in_use(archived_by(&history, 1)).pop().unwrap();
    let of_log = &name_of(&last)[..5];
    let mut first = in_use(archived_by(&history, 1));
    first.retain(|it| name_of(it).starts_with(of_log));
    if first.len() > 2 {
        is_missed(&first[1]);
    }
    // The oldest segments were removed: the first ones of the first life, all of it, with its points.
    std::fs::remove_file(&first[0]).unwrap();
    let found = history.is_sound();
    assert!(first.len() == 1 || found.notes.len() == 1, "{found:?}");
    archived_by(&history, 1).iter().for_each(|it| std::fs::remove_file(it).unwrap());
    history.is_sound();
    std::fs::remove_file(history.folder().join("0000000001.begun")).unwrap();
    history.is_sound();
    std::fs::remove_file(history.folder().join("0000000001.reached")).unwrap();
    history.is_sound();
}

#[test]
fn a_file_of_another_place_or_another_database_is_told() {
    let history = three_lives();
    let [first, .., last] = &in_use(history.archived_files(".seg"))[..] else { panic!() };
    let other = first.with_file_name(name_of(first).replace("-0000000001-", "-0000000009-"));
    std::fs::rename(first, &other).unwrap();
    let told = history.problem(&name_of(&other));
    assert!(told.contains("its header says"), "{told}");
    std::fs::rename(&other, first).unwrap();
    // As an archive of another database has it.
    let foreign = History::archived_once();
    let [own, ..] = &foreign.archived_files(".begun")[..] else { panic!() };
    let point = history.folder().join(name_of(own));
    let good = std::fs::read(&point).unwrap();
    std::fs::copy(own, &point).unwrap();
    let told = history.problem(&name_of(own));
    assert!(told.contains("is of another database"), "{told}");
    std::fs::write(&point, good).unwrap();
    std::fs::copy(&in_use(foreign.archived_files(".seg"))[0], last).unwrap();
    let told = history.problem(&name_of(last));
    assert!(told.contains("is of another database"), "{told}");
}

/// Only archiving, and restores, read them: a start does not.
#[test]
fn a_data_directory_is_checked_with_what_it_knows_of_its_archive() {
    let mut history = three_lives();
    history.life(|history, database| {
        backup(database, &history.path("backup")).unwrap();
    });
    let data = history.path("data");
    let problems = |path: &Path| Database::inspect(path, small(2), &mut |_| ()).unwrap().problems;
    assert_eq!(problems(&data), Vec::<String>::new());
    let begun = std::fs::read_dir(&data).unwrap().map(|it| it.unwrap().path());
    let begun = begun.filter(|it| name_of(it).ends_with(".begun"));
    let notes = ["ARCHIVED", "REACHED"].map(|name| data.join(name)).into_iter().chain(begun);
    for note in notes.chain([history.path("backup").join("BACKUP")]) {
        let directory = note.parent().unwrap().to_owned();
        while_changed(&note, damage, || {
            let told = problems(&directory);
            assert!(told.len() == 1 && told[0].contains(&name_of(&note)), "{note:?} {told:?}");
        });
    }
}
