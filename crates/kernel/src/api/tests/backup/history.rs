//! What the tests of backups and archives begin with: a database that goes on, with recorded moments, and
//! what is done to its files.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::checkpoints::make_checkpoint;
use super::*;

pub(super) type Rows = Vec<(i64, i64)>;

/// Small segments, so that logs are used again soon; checkpoints on request only.
pub(super) fn small(instances: u16) -> Options {
    Options {
        log_segment_bytes: 256 << 10,
        log_buffer_bytes: 64 << 10,
        checkpoint_interval_ms: 0,
        checkpoint_wal_bytes: 0,
        ..options(instances)
    }
}

/// As `small`, of two instances, and archiving.
pub(super) fn archiving(directory: &Path) -> Options {
    Options { archive_directory: Some(directory.to_owned()), ..small(2) }
}

/// As a tool that does not know where logs are archived.
pub(super) fn keeping() -> Options {
    Options { unarchived_logs: UnarchivedLogs::Keep, ..small(2) }
}

pub(super) fn backup(database: &Database, directory: &Path) -> Result<BackupReport> {
    database.backup(directory, &mut |_, _| Ok(()))
}

/// What a database in `directory` has; it must be sound, too.
pub(super) fn rows_in(directory: &Path, table: Oid) -> Rows {
    let findings = Database::inspect(directory, small(2), &mut |_| ()).expect("it is readable");
    assert_eq!(findings.problems, Vec::<String>::new());
    let database = Database::open(directory, small(2)).expect("it can be opened");
    let rows = all(&database, table);
    // It goes on as any database does, and again after that.
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1 << 40, 1)).unwrap();
    make_checkpoint(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1 << 41, 1)).unwrap();
    database.close().unwrap();
    drop(database);
    let database = Database::open(directory, small(2)).expect("it can be opened again");
    assert_eq!(all(&database, table).len(), rows.len() + 2);
    database.close().unwrap();
    rows
}

pub(super) fn is_there(path: &Path) -> bool {
    path.exists()
}

pub(super) fn micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_micros()).expect("not yet")
}

fn archive_status(database: &Database) -> (ArchiveStatus, u64) {
    let status = database.run(Target::Any, |context| {
        CheckpointWatch::new(context.instance()).status().expect("it is on disk")
    });
    let status = status.unwrap();
    (status.archive.expect("logs are to be archived"), status.counters.newest)
}

/// Waits until everything up to the newest checkpoint is archived; answers the status.
pub(super) fn archived(database: &Database) -> ArchiveStatus {
    loop {
        let (archive, newest) = archive_status(database);
        if archive.checkpoint == newest {
            return archive;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes checkpoints until archiving fails; answers why.
pub(super) fn failure(database: &Database) -> String {
    loop {
        make_checkpoint(database);
        match archive_status(database).0.failure {
            Some(failure) => return failure,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Makes a checkpoint and waits until it is archived, or archiving fails; answers why.
pub(super) fn archives(database: &Database) -> std::result::Result<(), String> {
    make_checkpoint(database);
    loop {
        let (archive, newest) = archive_status(database);
        match archive.failure {
            Some(failure) => return Err(failure),
            None if archive.checkpoint == newest => return Ok(()),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// As above, when what it failed with before is over.
pub(super) fn archives_after(database: &Database, before: &str) -> std::result::Result<(), String> {
    loop {
        match archives(database) {
            Err(told) if told.contains(before) => std::thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}

/// Sets `path` aside while `work` runs.
pub(super) fn without<T>(path: &Path, work: impl FnOnce() -> T) -> T {
    let aside = path.with_extension("aside");
    std::fs::rename(path, &aside).unwrap();
    let done = work();
    std::fs::rename(&aside, path).unwrap();
    done
}

/// Changes what a file holds while `work` runs.
pub(super) fn while_changed<T>(
    path: &Path,
    change: impl FnOnce(&mut [u8]),
    work: impl FnOnce() -> T,
) -> T {
    let good = std::fs::read(path).unwrap();
    let mut bad = good.clone();
    change(&mut bad);
    assert!(bad != good, "something is changed");
    std::fs::write(path, &bad).unwrap();
    let done = work();
    std::fs::write(path, good).unwrap();
    done
}

pub(super) fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|it| (it.path(), it.file_name())).unwrap();
        match path.is_dir() {
            true => copy_directory(&path, &to.join(name)),
            false => drop(std::fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

/// The directory `to` becomes as `from` is.
pub(super) fn replace_directory(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).unwrap();
    copy_directory(from, to);
}

/// A history with recorded moments.
pub(super) struct History {
    folder: tempfile::TempDir,
    pub table: Oid,
    pub moments: Vec<(i64, Rows)>,
    next: i64,
}

impl History {
    pub fn new() -> History {
        let folder = tempfile::tempdir().unwrap();
        History { folder, table: Oid(0), moments: Vec::new(), next: 0 }
    }

    /// A database that was backed up and archives; it is closed.
    pub fn archived_once() -> History {
        let mut history = History::new();
        history.life(|history, database| {
            history.go_on(database, 5);
            backup(database, &history.path("backup")).unwrap();
            history.archive_more(database);
            history.go_on(database, 5);
        });
        history
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn open(&mut self) -> Database {
        let options = archiving(&self.path("archive"));
        self.open_with(options)
    }

    pub fn open_with(&mut self, options: Options) -> Database {
        let database = Database::open(&self.path("data"), options).unwrap();
        if self.next == 0 {
            self.table = make_accounts(&database);
        }
        database
    }

    /// From a start to an orderly end, with an archive.
    pub fn life(&mut self, work: impl FnOnce(&mut History, &Database)) {
        let options = archiving(&self.path("archive"));
        self.life_with(options, work);
    }

    pub fn life_with(&mut self, options: Options, work: impl FnOnce(&mut History, &Database)) {
        let database = self.open_with(options);
        work(self, &database);
        database.close().unwrap();
    }

    /// Some transactions, then a moment is recorded.
    pub fn go_on(&mut self, database: &Database, transactions: usize) {
        for _ in 0..transactions {
            let (table, from) = (self.table, self.next);
            self.next += 50;
            transact(database, Isolation::ReadCommitted, |statement| {
                (from..from + 50).try_for_each(|id| insert(statement, table, id, id).map(drop))?;
                if from > 0 {
                    add(statement, table, from - 1, 1000)?;
                }
                Ok(())
            })
            .unwrap();
        }
        let at = micros();
        std::thread::sleep(Duration::from_millis(1));
        self.moments.push((at, all(database, self.table)));
    }

    /// The last moment never was.
    pub fn set_back(&mut self) {
        self.moments.pop();
        self.next = self.last().len() as i64;
    }

    /// Goes on, and brings the archive up to date.
    pub fn archive_more(&mut self, database: &Database) {
        self.go_on(database, 40);
        make_checkpoint(database);
        archived(database);
    }

    /// Starts it, goes on, brings the archive up to date, and ends it.
    pub fn go_on_archiving(&mut self) {
        self.life(History::archive_more);
    }

    /// Starts it, goes on behind two checkpoints while archiving fails, and ends it; answers why it
    /// fails.
    pub fn go_on_unarchived(&mut self) -> String {
        let mut told = String::new();
        self.life(|history, database| {
            for _ in 0..2 {
                history.go_on(database, 40);
                make_checkpoint(database);
            }
            told = failure(database);
            history.go_on(database, 5);
        });
        told
    }

    /// What a start with an archive says to archiving.
    pub fn archives_again(&mut self) -> std::result::Result<(), String> {
        let mut done = Ok(());
        self.life(|_, database| done = archives(database));
        done
    }

    pub fn restore(&self, name: &str, until: Until) -> Result<Restored> {
        let (backup, archive) = (self.path("backup"), self.path("archive"));
        Database::restore(&backup, Some(&archive), &self.path(name), until)
    }

    /// Whether what was restored as `name` has the rows of a moment. It is removed.
    pub fn has_rows(&self, name: &str, rows: &Rows) -> bool {
        let path = self.path(name);
        let found = rows_in(&path, self.table);
        std::fs::remove_dir_all(path).unwrap();
        found == *rows
    }

    /// The rows of the last moment.
    pub fn last(&self) -> &Rows {
        &self.moments.last().unwrap().1
    }

    /// Restores everything, and compares it with the last moment.
    pub fn restore_all(&self) -> Restored {
        let restored = self.restore("all", Until::End).unwrap();
        assert!(self.has_rows("all", self.last()), "{restored:?}");
        restored
    }

    /// From the backup and the archive all moments since come back.
    pub fn verify(&self) {
        for (at, (wall, rows)) in self.moments.iter().enumerate().skip(1) {
            let until = match at + 1 == self.moments.len() {
                true => Until::End,
                false => Until::Micros(*wall),
            };
            self.restore("at", until).unwrap();
            assert!(self.has_rows("at", rows), "moment {at}");
        }
    }

    /// A restore of everything is refused, for this reason, and leaves nothing.
    pub fn is_refused(&self, what: &str) {
        self.is_refused_of(("backup", "archive"), what);
    }

    pub fn is_refused_of(&self, (backup, archive): (&str, &str), what: &str) {
        let target = self.path("no");
        let (backup, archive) = (self.path(backup), self.path(archive));
        let told = Database::restore(&backup, Some(&archive), &target, Until::End);
        let told = told.unwrap_err().to_string();
        assert!(told.contains(what), "{told}");
        assert!(!is_there(&target));
    }

    /// The database's folder in the archive.
    pub fn folder(&self) -> PathBuf {
        let one = std::fs::read_dir(self.path("archive")).unwrap().next().unwrap();
        one.unwrap().path()
    }

    pub fn archived_files(&self, ending: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
        files.sort_unstable();
        files
    }

    /// Another copy of the database, at `name`, goes on and archives into `archive` of its own.
    pub fn other_goes_on(&self, name: &str, archive: &str) {
        let id = self.folder().file_name().unwrap().to_owned();
        std::fs::create_dir_all(self.path(archive).join(id)).unwrap();
        let other = Database::open(&self.path(name), archiving(&self.path(archive))).unwrap();
        let table = self.table;
        for id in 1000..1040 {
            let work = |it: &mut Statement<'_>| insert(it, table, id << 20, -1).map(drop);
            transact(&other, Isolation::ReadCommitted, work).unwrap();
        }
        make_checkpoint(&other);
        archived(&other);
        other.close().unwrap();
    }

    /// What another copy of the database, at `name`, says when it archives where this one does.
    pub fn other_fails(&self, name: &str) -> String {
        let options = archiving(&self.path("archive"));
        let other = Database::open(&self.path(name), options).unwrap();
        let told = failure(&other);
        other.close().unwrap();
        told
    }
}
