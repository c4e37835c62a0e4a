//! Logs that are kept for an archive, and those that are not; and what is said of it.

use super::*;

fn segments_of(directory: &Path) -> usize {
    let logs = std::fs::read_dir(directory.join("log")).unwrap().map(|log| log.unwrap().path());
    logs.map(|log| std::fs::read_dir(log).unwrap().count()).sum()
}

fn has_begun(directory: &Path) -> bool {
    let names = std::fs::read_dir(directory).unwrap().map(|it| it.unwrap().file_name());
    names.into_iter().any(|name| name.to_string_lossy().ends_with(".begun"))
}

/// What is said when a database is opened.
fn lines_of(directory: &Path, options: Options) -> Vec<String> {
    let mut lines = Vec::new();
    let tell = &mut |line: &str| lines.push(line.to_owned());
    let database = Database::open_telling(directory, options, tell).unwrap();
    database.close().unwrap();
    lines
}

/// They cannot be archived, so nothing is gained by keeping them: they were, for ever.
#[test]
fn a_backup_that_was_started_uses_its_logs_again() {
    let mut history = History::new();
    history.life_with(small(2), |history, database| {
        history.go_on(database, 5);
        backup(database, &history.path("backup")).unwrap();
    });
    let (started, options) = (history.path("backup"), archiving(&history.path("archive")));
    let told = lines_of(&started, options.clone());
    let reason = "is a backup that was started as it is";
    assert!(told.iter().any(|line| line.contains(reason)), "{told:?}");
    let database = Database::open(&started, options).unwrap();
    for _ in 0..40 {
        history.go_on(&database, 60);
        make_checkpoint(&database);
    }
    let told = failure(&database);
    assert!(told.contains(reason), "{told}");
    let left = segments_of(&started);
    assert!(left <= 12, "{left} segments");
    assert!(!has_begun(&started) && !is_there(&history.path("archive")));
    database.close().unwrap();
}

#[test]
fn a_tool_keeps_no_logs_of_a_database_that_is_not_archived() {
    let mut history = History::new();
    let data = history.path("data");
    history.life_with(small(2), |_, _| ());
    let database = Database::open(&data, keeping()).unwrap();
    history.go_on(&database, 5);
    backup(&database, &history.path("backup")).unwrap();
    assert!(!has_begun(&data) && !has_begun(&history.path("backup")));
    database.close().unwrap();
    drop(database);
    // One that is to be archived, and was not yet, is another matter.
    std::fs::write(history.path("archive"), "no directory").unwrap();
    lines_of(&data, archiving(&history.path("archive")));
    std::fs::remove_file(data.join("0000000003.begun")).unwrap();
    std::fs::write(data.join("0000000002.begun"), "any").unwrap();
    lines_of(&data, keeping());
    assert!(is_there(&data.join("0000000004.begun")));
}

#[test]
fn a_start_without_the_archive_of_before_says_so() {
    let mut history = History::new();
    history.life(|history, database| {
        history.go_on(database, 5);
        make_checkpoint(database);
        archived(database);
    });
    let data = history.path("data");
    let is_said = |options: Options| {
        let lines = lines_of(&data, options);
        lines.iter().filter(|line| line.contains("archive_directory")).count()
    };
    assert_eq!(is_said(archiving(&history.path("archive"))), 0);
    assert_eq!(is_said(keeping()), 0);
    assert_eq!(is_said(small(2)), 1);
    assert!(!has_begun(&data));
}

#[test]
fn an_archive_that_cannot_be_looked_for_is_told_from_one_that_is_not_there() {
    let mut history = History::new();
    let archive = history.path("archive");
    std::os::unix::fs::symlink(&archive, &archive).unwrap();
    let database = history.open();
    let told = failure(&database);
    assert!(told.contains("look for") && !told.contains("not there"), "{told}");
    database.close().unwrap();
}

#[test]
fn archiving_that_fails_and_works_again_is_told_of() {
    let mut history = History::new();
    std::fs::write(history.path("archive"), "no directory").unwrap();
    let database = history.open();
    let events = database.checkpoint_events().unwrap();
    history.go_on(&database, 5);
    make_checkpoint(&database);
    let failed = |event: CheckpointEvent| match event {
        CheckpointEvent::ArchivingFailed(reason) => Some(reason),
        _ => None,
    };
    let told = events.iter().find_map(failed).unwrap();
    assert!(told.contains("archive"), "{told}");
    std::fs::remove_file(history.path("archive")).unwrap();
    let next = events.iter().find(|event| {
        !matches!(event, CheckpointEvent::Published(_) | CheckpointEvent::ArchivingFailed(_))
    });
    assert_eq!(next, Some(CheckpointEvent::ArchivingAgain));
    make_checkpoint(&database);
    archived(&database);
    database.close().unwrap();
    drop(database);
    let rest: Vec<_> = events.iter().collect();
    assert!(rest.iter().all(|event| matches!(event, CheckpointEvent::Published(_))), "{rest:?}");
    assert!(!rest.is_empty());
}
