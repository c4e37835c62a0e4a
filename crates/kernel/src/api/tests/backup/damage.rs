//! Damage of one file of several that say the same, or of one that is not needed: the others do. Each test
//! is of a refusal that a review found to be one too many.

use super::*;

/// Changes a bit in the middle of what a file holds, and again back.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 2;
    // Not between records, where nothing is. No byte becomes zero, so that it is found again.
    let at = bytes[..middle].iter().rposition(|byte| byte & !8 != 0).unwrap();
    bytes[at] ^= 8;
    std::fs::write(path, bytes).unwrap();
}

/// Changes a bit of what lies between the records of a log, where zeros are.
fn damage_padding(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 4096 * 4096;
    // A block's last byte is one of a record seldom.
    let at = (8191..last).step_by(4096).find(|at| bytes[at - 8..=*at].iter().all(|it| *it == 0));
    bytes[at.unwrap()] ^= 8;
    std::fs::write(path, bytes).unwrap();
}

/// Changes when the first flush of a segment says that it was made, with a checksum that holds: so would
/// another history have it.
fn forge(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let length = u32::from_le_bytes(bytes[4100..4104].try_into().unwrap());
    let end = 4096 + length as usize;
    bytes[end - 8] ^= 1;
    let sum = crc32c::crc32c(&bytes[4100..end]);
    bytes[4096..4100].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

fn segments_in(directory: &Path) -> Vec<PathBuf> {
    let logs = std::fs::read_dir(directory.join("log")).unwrap().map(|log| log.unwrap().path());
    let files = logs.flat_map(|log| std::fs::read_dir(log).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

/// Whether a segment file has anything but its header.
fn has_records(path: &Path) -> bool {
    std::fs::read(path).unwrap()[4096..].iter().any(|byte| *byte != 0)
}

#[test]
fn of_two_copies_of_a_segment_the_one_that_goes_on_is_taken() {
    let mut history = History::new();
    let database = history.open();
    history.go_on(&database, 5);
    backup(&database, &history.path("backup")).unwrap();
    history.go_on(&database, 5);
    make_checkpoint(&database);
    archived(&database);
    database.close().unwrap();
    drop(database);
    let expected = history.moments.last().unwrap().1.clone();
    // Each segment of the backup is damaged; the archive's goes on behind it.
    let mut found = 0;
    for segment in segments_in(&history.path("backup")).iter().filter(|it| has_records(it)) {
        let good = std::fs::read(segment).unwrap();
        damage(segment);
        found += 1;
        let alone =
            Database::restore(&history.path("backup"), None, &history.path("no"), Until::End);
        assert!(matches!(alone, Err(Error::Corrupt { .. })), "{alone:?}");
        let name = format!("damaged{found}");
        history.restore(&name, Until::End).unwrap();
        assert!(rows_in(&history.path(&name), history.table) == expected);
        std::fs::write(segment, good).unwrap();
    }
    assert!(found >= 1, "the backup has logs");
}

#[test]
fn a_damaged_copy_in_the_archive_of_what_the_backup_has_is_not_taken() {
    let mut history = History::new();
    let database = history.open();
    history.go_on(&database, 5);
    make_checkpoint(&database);
    history.go_on(&database, 5);
    backup(&database, &history.path("backup")).unwrap();
    archived(&database);
    database.close().unwrap();
    drop(database);
    let expected = history.moments.last().unwrap().1.clone();
    let segments = history.archived_files(".seg");
    for (name, damage) in [("padding", damage_padding as fn(&Path)), ("records", damage)] {
        segments.iter().filter(|it| has_records(it)).for_each(|it| damage(it));
        history.restore(name, Until::End).unwrap();
        assert!(rows_in(&history.path(name), history.table) == expected);
    }
}

#[test]
fn copies_of_a_segment_that_are_valid_where_they_differ_are_refused() {
    let mut history = History::new();
    let database = history.open();
    history.go_on(&database, 5);
    backup(&database, &history.path("backup")).unwrap();
    archived(&database);
    database.close().unwrap();
    drop(database);
    history.restore("end", Until::End).unwrap();
    let segments = history.archived_files(".seg");
    segments.iter().filter(|it| has_records(it)).for_each(|it| forge(it));
    let told = history.restore("no", Until::End).unwrap_err().to_string();
    assert!(told.contains("where the records of both are valid"), "{told}");
    assert!(!is_there(&history.path("no")));
}

#[test]
fn a_damaged_beginning_of_another_incarnation_keeps_no_backup_from_being_made() {
    let mut history = History::new();
    std::fs::write(history.path("archive"), "no directory").unwrap();
    for _ in 0..2 {
        let database = history.open();
        history.go_on(&database, 5);
        make_checkpoint(&database);
        database.close().unwrap();
    }
    let data = history.path("data");
    let begun = |number: u32| data.join(format!("{number:010}.begun"));
    let good = std::fs::read(begun(1)).unwrap();
    damage(&begun(1));
    let keeping = Options { unarchived_logs: UnarchivedLogs::Keep, ..small(2) };
    let mut lines = Vec::new();
    let tell = &mut |line: &str| lines.push(line.to_owned());
    let database = Database::open_telling(&data, keeping, tell).unwrap();
    assert!(lines.iter().any(|line| line.contains("\"0000000001.begun\"")), "{lines:?}");
    backup(&database, &history.path("backup")).unwrap();
    // Its own says what belongs to it.
    damage(&begun(3));
    let told = backup(&database, &history.path("no")).unwrap_err().to_string();
    assert!(told.contains("\"0000000003.begun\""), "{told}");
    assert!(!is_there(&history.path("no")));
    damage(&begun(3));
    database.close().unwrap();
    drop(database);
    std::fs::write(begun(1), good).unwrap();
    std::fs::remove_file(history.path("archive")).unwrap();
    let database = history.open();
    history.go_on(&database, 40);
    make_checkpoint(&database);
    archived(&database);
    database.close().unwrap();
    history.restore("end", Until::End).unwrap();
    assert!(rows_in(&history.path("end"), history.table) == history.moments.last().unwrap().1);
}
