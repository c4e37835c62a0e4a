//! Verifying a database: structure of every tree, long values, indexes against tables.
//!
//! Invariants: the caller keeps everybody else away, so every row in place is the
//! newest version; collection may go on: it takes out what no check counts. Each finding names the table or
//! index, and the page or row where there is one: a page that is damaged is one problem, and everything that can be
//! reached without it is checked all the same (`survey.rs` where not even recovery can do without).
//! Memory is bounded whatever a database holds: a tree is walked page by page, and what its entries should be is
//! summed up (`tallies.rs`), a megabyte for an index and a bit for a page of long values at most. Each
//! page of a tree is read once, in order of the keys, unless something is wrong.

mod archives;
mod entries;
mod rows;
mod survey;
mod tallies;

use std::path::Path;
use std::sync::Arc;

use super::database::Database;
use super::open::inspect;
use super::options::Options;
use crate::backup::damaged_notes;
use crate::base::{Error, Outcome, Result, Stop, Unread};
use crate::buffer::BufferPool;
use crate::catalog::{Catalog, TableEntry};
use crate::io::{DirLock, Disk, RealDisk};
use crate::log::manifest::Manifest;
use entries::check_entries;
use rows::check_rows;
use survey::survey;
use tallies::{LINES_MAX, Lines, PageSet};

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Tables looked at.
    pub tables: u64,
    /// Rows looked at.
    pub rows: u64,
    /// Index entries looked at.
    pub entries: u64,
    /// Pages of long values that rows refer to.
    pub overflow_pages: u64,
    /// Pages of long values that no row refers to: of versions in undo, of rows that collection
    /// has yet to take. With nothing running and everything collected there are none.
    pub overflow_pages_in_undo: u64,
    /// What is wrong, one line each: the first ten thousand.
    pub problems: Vec<String>,
    /// How many there are besides.
    pub more_problems: u64,
    /// What could not be checked because of them, one line each.
    pub unchecked: Vec<String>,
}

impl Findings {
    /// Takes in what is wrong with a tree.
    fn tell(&mut self, label: &str, lines: Lines) {
        self.more_problems += lines.more;
        for line in lines.first {
            if self.problems.len() < LINES_MAX {
                self.problems.push(format!("{label}: {line}"));
            } else {
                self.more_problems += 1;
            }
        }
    }
}

impl Database {
    /// Checks every table and index. Nobody may change anything meanwhile. Damage is a problem, not an
    /// error. Errors: what keeps the check from its end (`OutOfMemory`).
    pub fn check(&self) -> Result<Findings> {
        Ok(Check::of(&self.shared().published.newest())?.findings)
    }

    /// Recovers what `directory` holds, in memory, and checks every table and index. If it cannot be recovered for
    /// damaged pages, names all of these in the newest checkpoint. On disk
    /// nothing changes that the database refers to; what a small buffer pool has no room for of what recovery
    /// changed is written to free places of the page files, which are made or grow for that. Errors as
    /// [`Database::open`], if no damaged page is the reason; `Unusable` if there is no database.
    pub fn inspect(
        directory: &Path,
        options: Options,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Findings> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory, options.rings)?);
        let before = Manifest::read(&*disk)?;
        let again = || take_again(&*disk, &options, before.as_ref());
        let mut findings = match inspect(&disk, &options, progress) {
            Ok((catalog, unread)) => {
                let _lock = again()?;
                check_recovered(&catalog, &unread)?
            }
            Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => {
                let _lock = again()?;
                check_damaged(error, &disk, &options)?
            }
            Err(error) => return Err(error),
        };
        // A start does without them; archiving, or a restore, does not.
        let notes = damaged_notes(&*disk)?;
        findings.problems.extend(notes.iter().map(Error::to_string));
        Ok(findings)
    }
}

/// Takes the directory, which recovery has let go of, for the rest of a check. `Unusable` if somebody has
/// opened it in between: then the trees on disk are not those that were recovered.
fn take_again(disk: &dyn Disk, options: &Options, before: Option<&Manifest>) -> Result<DirLock> {
    let lock = disk.lock(&options.lock_note)?;
    if Manifest::read(disk)?.as_ref() != before {
        let detail = "another process has opened the database meanwhile: check it again";
        return Err(Error::Unusable { detail: detail.to_owned() });
    }
    Ok(lock)
}

/// Recovery has done without what is `left`, which no row needs.
fn check_recovered(catalog: &Catalog, left: &Unread) -> Result<Findings> {
    let Check { mut findings, unread, .. } = Check::of(catalog)?;
    findings.problems.extend(left.lines("no row needs it, but it could not be read"));
    // What was just recovered has no undo; but whose pages they are is not known if rows are not.
    let lost = findings.overflow_pages_in_undo;
    if lost > 0 && unread == 0 && left.is_empty() {
        findings.problems.push(format!("{lost} overflow pages belong to no row"));
    }
    Ok(findings)
}

/// `error` keeps the database from being recovered: finds all damaged pages, of which one may be the reason. The
/// same error if there are none.
fn check_damaged(error: Error, disk: &Arc<dyn Disk>, options: &Options) -> Result<Findings> {
    let mut check = Check::default();
    // Whatever ended it, what it has found counts.
    let ended = survey(disk, options, &mut check);
    let mut findings = check.findings;
    if findings.problems.is_empty() {
        return Err(error);
    }
    findings.overflow_pages = check.longs.count();
    let detail = match &error {
        Error::Corrupt { detail, .. } => detail.clone(),
        other => other.to_string(),
    };
    if !findings.problems.iter().any(|problem| problem.contains(&detail)) {
        findings.problems.push(format!("the database cannot be recovered: {error}"));
    }
    if let Err(error) = ended {
        findings.unchecked.push(format!("the other trees of the checkpoint: {error}"));
    }
    let left = "what the logs have behind the checkpoint, and indexes against their tables: a start \
                cannot do without the damaged pages, either";
    findings.unchecked.push(left.to_owned());
    Ok(findings)
}

/// A check under way.
#[derive(Default)]
struct Check {
    findings: Findings,
    /// Pages of long values that rows refer to.
    longs: PageSet,
    /// Pages and long values that could not be read.
    unread: u64,
}

impl Check {
    /// Checks all trees of a catalog, its own among them.
    fn of(catalog: &Catalog) -> Result<Check> {
        let mut check = Check::default();
        if let Some(own) = catalog.own_access() {
            check_rows(&own.tree, &[], "the catalog", &mut check)?;
        }
        // In order of creation: the same database is told of in the same way.
        let mut tables: Vec<_> = catalog.tables().collect();
        tables.sort_by_key(|table| table.def.oid);
        for table in &tables {
            check.table(table)?;
        }
        if let Some(table) = tables.first() {
            check.count_longs(table.access.tree.pool());
        }
        Ok(check)
    }

    fn table(&mut self, table: &TableEntry) -> Result<()> {
        let (name, access) = (&table.def.name, &*table.access);
        self.findings.tables += 1;
        let rows = check_rows(&access.tree, &access.indexes, &table_label(name), self)?;
        self.findings.rows += rows.count;
        for (at, balance) in rows.balances.into_iter().enumerate() {
            let label = index_label(&table.indexes[at].def.name, name);
            check_entries((access, at), (balance, rows.unread), &label, self)?;
        }
        Ok(())
    }

    fn count_longs(&mut self, pool: &BufferPool) {
        self.findings.overflow_pages = self.longs.count();
        let pages = pool.overflow_pages().into_iter();
        self.findings.overflow_pages_in_undo =
            pages.filter(|page| !self.longs.has(*page)).count() as u64;
    }
}

fn table_label(table: &str) -> String {
    format!("table \"{table}\"")
}

fn index_label(index: &str, table: &str) -> String {
    format!("index \"{index}\" of \"{table}\"")
}

/// What a walk answered, which has nothing to wait for.
fn ended<T>(walked: Outcome<T>) -> Result<T> {
    walked.map_err(|stop| match stop {
        Stop::Error(error) => error,
        stop => Error::Internal { detail: format!("a check was stopped: {stop:?}") },
    })
}
