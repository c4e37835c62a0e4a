//! Damage of one file of several that say the same, or of one that is not needed: the others do. Each test
//! is of a refusal that a review found to be one too many.

use std::path::PathBuf;

use super::*;

/// Changes a bit in the middle of what a file holds.
fn damage(bytes: &mut [u8]) {
    let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 2;
    // Not between records, where nothing is. No byte becomes zero, so that it is found again.
    let at = bytes[..middle].iter().rposition(|byte| byte & !8 != 0).unwrap();
    bytes[at] ^= 8;
}

/// Changes a bit of what lies between the records of a log, where zeros are.
fn damage_padding(bytes: &mut [u8]) {
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 4096 * 4096;
    // A block's last byte is one of a record seldom.
    let at = (8191..last).step_by(4096).find(|at| bytes[at - 8..=*at].iter().all(|it| *it == 0));
    bytes[at.unwrap()] ^= 8;
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
    for how in [damage_padding, damage] {
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
