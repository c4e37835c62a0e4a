//! Damage of one file of several that say the same, or of one that is not needed: the others do. Each test
//! is of a refusal that a review found to be one too many, or of one that was missing.

use std::path::PathBuf;

use super::*;

/// Changes a bit in the middle of what a file holds.
pub(super) fn damage(bytes: &mut [u8]) {
    // Of two slots only the second may be taken.
    let first = bytes.iter().position(|byte| *byte != 0).unwrap();
    let middle = first + (bytes.iter().rposition(|byte| *byte != 0).unwrap() - first) / 2;
    // Not between records, where nothing is. No byte becomes zero, so that it is found again.
    let at = bytes[..=middle].iter().rposition(|byte| byte & !8 != 0).unwrap();
    bytes[at] ^= 8;
}

/// Changes a bit of what lies between the records of a log, where zeros are.
fn damage_padding(bytes: &mut [u8]) {
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 4096 * 4096;
    // A block's last byte is one of a record seldom.
    let at = (8191..last).step_by(4096).find(|at| bytes[at - 8..=*at].iter().all(|it| *it == 0));
    bytes[at.unwrap()] ^= 8;
}

/// Changes a bit of a segment's header.
pub(super) fn damage_header(bytes: &mut [u8]) {
    bytes[20] ^= 8;
}

/// Changes when the first flush of a segment says that it was made, with a checksum that holds: so would
/// another history have it.
fn forge(bytes: &mut [u8]) {
    let length = u32::from_le_bytes(bytes[4100..4104].try_into().unwrap());
    let end = 4096 + length as usize;
    bytes[end - 8] ^= 1;
    let sum = crc32c::crc32c(&bytes[4100..end]);
    bytes[4096..4100].copy_from_slice(&sum.to_le_bytes());
}

fn change(path: &Path, how: fn(&mut [u8])) {
    let mut bytes = std::fs::read(path).unwrap();
    how(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

fn segments_in(directory: &Path) -> Vec<PathBuf> {
    let logs = std::fs::read_dir(directory.join("log")).unwrap().map(|log| log.unwrap().path());
    let files = logs.flat_map(|log| std::fs::read_dir(log).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

/// Of segment files those that have anything but a header.
fn with_records(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    files.retain(|it| std::fs::read(it).unwrap()[4096..].iter().any(|byte| *byte != 0));
    files
}

/// The archived segments of one incarnation.
pub(super) fn archived_by(history: &History, incarnation: u32) -> Vec<PathBuf> {
    let mut files = history.archived_files(".seg");
    let part = format!("-{incarnation:010}-");
    files.retain(|it| it.to_string_lossy().contains(&part));
    files
}

fn file_name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// A database that was backed up with logs that are in the archive, too; it is closed.
fn backed_up_and_archived() -> History {
    let mut history = History::new();
    history.life(|history, database| {
        history.go_on(database, 5);
        make_checkpoint(database);
        history.go_on(database, 5);
        backup(database, &history.path("backup")).unwrap();
        archived(database);
    });
    history
}

#[test]
fn of_two_copies_of_a_segment_the_one_that_goes_on_is_taken() {
    let history = History::archived_once();
    // Each segment of the backup is damaged; the archive's goes on behind it.
    let segments = with_records(segments_in(&history.path("backup")));
    for segment in &segments {
        while_changed(segment, damage, || {
            let (backup, target) = (history.path("backup"), history.path("no"));
            let alone = Database::restore(&backup, None, &target, Until::End);
            assert!(matches!(alone, Err(Error::Corrupt { .. })), "{alone:?}");
            history.restore("damaged", Until::End).unwrap();
            assert!(history.has_rows("damaged", &history.moments[1].1));
        });
    }
    assert!(!segments.is_empty(), "the backup has logs");
}

#[test]
fn a_damaged_copy_in_the_archive_of_what_the_backup_has_is_not_taken() {
    let history = backed_up_and_archived();
    for how in [damage_padding, damage, damage_header] {
        with_records(history.archived_files(".seg")).iter().for_each(|it| change(it, how));
        history.restore_all();
    }
}

#[test]
fn copies_of_a_segment_that_are_valid_where_they_differ_are_refused() {
    let history = backed_up_and_archived();
    history.restore_all();
    with_records(history.archived_files(".seg")).iter().for_each(|it| change(it, forge));
    history.is_refused("where the records of both are valid");
}

#[test]
fn a_damaged_beginning_of_another_incarnation_keeps_no_backup_from_being_made() {
    let mut history = History::new();
    std::fs::write(history.path("archive"), "no directory").unwrap();
    for _ in 0..2 {
        history.life(|history, database| {
            history.go_on(database, 5);
            make_checkpoint(database);
        });
    }
    let data = history.path("data");
    let begun = |number: u32| data.join(format!("{number:010}.begun"));
    while_changed(&begun(1), damage, || {
        let mut lines = Vec::new();
        let tell = &mut |line: &str| lines.push(line.to_owned());
        let database = Database::open_telling(&data, keeping(), tell).unwrap();
        assert!(lines.iter().any(|line| line.contains("\"0000000001.begun\"")), "{lines:?}");
        backup(&database, &history.path("backup")).unwrap();
        // Its own says what belongs to it.
        while_changed(&begun(3), damage, || {
            let told = backup(&database, &history.path("no")).unwrap_err().to_string();
            assert!(told.contains("\"0000000003.begun\""), "{told}");
            assert!(!is_there(&history.path("no")));
        });
        database.close().unwrap();
    });
    std::fs::remove_file(history.path("archive")).unwrap();
    history.go_on_archiving();
    history.restore_all();
}

/// Any header in the archive was looked at, and one that was damaged refused, though older than the backup.
#[test]
fn segments_from_before_the_backup_may_be_damaged() {
    let mut history = History::new();
    history.go_on_archiving();
    history.life(|history, database| {
        history.archive_more(database);
        backup(database, &history.path("backup")).unwrap();
        history.archive_more(database);
    });
    assert_eq!(history.restore_all().damaged, Vec::<String>::new());
    let old = archived_by(&history, 1);
    let new = archived_by(&history, 2);
    // One that cannot be read at all, and of which the name says nothing.
    std::fs::create_dir(history.folder().join("x.seg")).unwrap();
    let (mut needed, mut others) = (0, 0);
    for segment in old.iter().chain(&new) {
        let name = file_name(segment);
        while_changed(segment, damage_header, || match history.restore("all", Until::End) {
            Ok(restored) => {
                assert!(history.has_rows("all", history.last()), "{name}");
                let damaged = &restored.damaged;
                let is_told = |what: &str| damaged.iter().any(|line| line.contains(what));
                assert!(damaged.len() == 2 && is_told(name) && is_told("x.seg"), "{damaged:?}");
                others += 1;
            }
            Err(error) => {
                let told = error.to_string();
                assert!(new.contains(segment) && told.contains(name), "{told}");
                assert!(told.contains("its header is damaged"), "{told}");
                needed += 1;
            }
        });
    }
    assert!(needed >= 1 && others >= old.len() && !old.is_empty(), "{needed} {others}");
}

/// What came later was looked for all the same.
#[test]
fn segments_of_lives_after_the_asked_time_may_be_damaged_or_missing() {
    for is_killed in [false, true] {
        let mut history = History::archived_once();
        if is_killed {
            // No flush says that the moment is over.
            let crashed = history.path("crashed");
            history.life(|history, database| {
                history.archive_more(database);
                history.go_on(database, 5);
                copy_directory(&history.path("data"), &crashed);
            });
            replace_directory(&crashed, &history.path("data"));
        }
        let (wall, rows) = history.moments.last().unwrap().clone();
        let lives = if is_killed { [3, 4] } else { [2, 3] };
        history.go_on_archiving();
        history.go_on_archiving();
        let cts = Cts(history.restore("at", Until::Micros(wall)).unwrap().below.0 - 1);
        assert!(history.has_rows("at", &rows));
        let later = lives.map(|it| archived_by(&history, it)).concat();
        let comes_back = |damaged: usize| {
            for until in [Until::Micros(wall), Until::Cts(cts)] {
                let restored = history.restore("at", until).unwrap();
                assert!(history.has_rows("at", &rows), "{until:?}");
                assert_eq!(restored.damaged.len(), damaged);
            }
        };
        let check = |damaged: usize| {
            history.is_refused("is damaged or missing from position");
            comes_back(damaged);
        };
        // Of points only the one that says where the life ended is needed.
        let needed = format!("{:010}.begun", lives[0]);
        for life in lives {
            for point in ["begun", "reached"].map(|it| format!("{life:010}.{it}")) {
                while_changed(&history.folder().join(&point), damage, || {
                    history.is_refused("its checksum does not hold");
                    match point == needed {
                        false => comes_back(1),
                        true => drop(history.restore("no", Until::Cts(cts)).unwrap_err()),
                    }
                });
            }
        }
        later.iter().for_each(|it| change(it, damage_header));
        check(later.len());
        later.iter().for_each(|it| std::fs::remove_file(it).unwrap());
        check(0);
    }
}

/// A log alone counts as far as it goes if nothing notes how far that is. Damage was taken for its end.
#[test]
fn damage_of_what_nothing_notes_is_not_passed_over() {
    let mut history = History::new();
    let options = Options { archive_directory: Some(history.path("archive")), ..small(1) };
    history.life_with(options.clone(), |history, database| {
        history.go_on(database, 5);
        backup(database, &history.path("backup")).unwrap();
        make_checkpoint(database);
        archived(database);
    });
    history.life_with(options, |history, database| {
        while with_records(archived_by(history, 2)).len() < 3 {
            history.archive_more(database);
        }
    });
    // As if the data directory was lost while the archive was brought up to date.
    std::fs::remove_file(history.archived_files("0000000002.reached").pop().unwrap()).unwrap();
    history.restore_all();
    let segment = with_records(archived_by(&history, 2))[1].clone();
    for how in [damage, damage_header] {
        while_changed(&segment, how, || {
            history.is_refused(file_name(&segment));
            history.is_refused("is damaged or missing from position");
            let told = history.restore("no", Until::End).unwrap_err().to_string();
            // What is whole can be had.
            let (_, cts) = told.split_once("it has all commits up to cts ").unwrap();
            let digits = cts.find(|it: char| !it.is_ascii_digit()).unwrap_or(cts.len());
            let cts: u64 = cts[..digits].parse().unwrap();
            let restored = history.restore("some", Until::Cts(Cts(cts))).unwrap();
            assert_eq!(restored.below, Cts(cts + 1));
            let rows = rows_in(&history.path("some"), history.table);
            assert!(!rows.is_empty() && rows.len() < history.last().len());
            std::fs::remove_dir_all(history.path("some")).unwrap();
            assert!(history.restore("no", Until::Cts(Cts(cts + 1))).is_err());
        });
    }
    without(&segment, || history.is_refused("is damaged or missing from position"));
}

/// A log that ends at damage has all below its last commit, but not all that was committed by a time.
#[test]
fn damage_before_the_asked_time_is_not_passed_over() {
    let mut history = History::new();
    let options = Options { archive_directory: Some(history.path("archive")), ..small(1) };
    history.life_with(options, |history, database| {
        history.go_on(database, 5);
        backup(database, &history.path("backup")).unwrap();
        while with_records(archived_by(history, 1)).len() < 3 {
            history.go_on(database, 20);
            history.archive_more(database);
        }
        history.go_on(database, 5);
        make_checkpoint(database);
        archived(database);
    });
    history.verify();
    let (mut refused, mut others) = (0, 0);
    for segment in &with_records(archived_by(&history, 1)) {
        for how in [damage, damage_header] {
            while_changed(segment, how, || {
                for (wall, rows) in &history.moments[1..history.moments.len() - 1] {
                    match history.restore("at", Until::Micros(*wall)) {
                        Ok(_) => others += usize::from(history.has_rows("at", rows)),
                        Err(error) => {
                            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                            refused += 1;
                        }
                    }
                }
            });
        }
    }
    let tried = 2 * with_records(archived_by(&history, 1)).len() * (history.moments.len() - 2);
    assert_eq!(refused + others, tried, "what is restored is right");
    assert!(refused > 0 && others > 0, "{refused} {others}");
}
