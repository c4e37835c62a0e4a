//! What the tests of all workloads need: a short run on two instances, a database, columns; and programs to stand in for
//! others.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::Command;

use atoll_kernel::api::{ColumnId, Database, Instances, Options, TableEntry};
use atoll_kernel::runtime::RuntimeOptions;

use crate::native::{Native, run};
use crate::report::Report;
use crate::setting::{Calls, Durability, Isolation, Place, Setting};

/// Eight clients for a second.
pub fn setting(isolation: Isolation) -> Setting {
    Setting {
        clients: 8,
        seconds: 1,
        warmup_seconds: 0,
        isolation,
        durability: Durability::Commit,
        calls: Calls::Inside,
        rate: None,
        seed: 42,
    }
}

/// Two instances in memory, with more of it than a run is estimated to need: on a busy machine collection
/// may be behind what conflicts leave.
pub fn place() -> Place {
    Place { instances: Instances::Count(2), buffer_pool_bytes: Some(4 << 30), ..Place::default() }
}

/// A whole run there.
pub fn run_tiny<W: Native>(workload: &W, setting: &Setting) -> Report {
    run(workload, setting, &place(), &mut |_| ()).unwrap()
}

/// The shares of the kinds among what was done are `percents`, as closely as so many draws come
/// to. Few may be done: whoever waits for a deadlock to be found waits for a second.
pub fn shares_hold(report: &Report, percents: &[f64]) {
    let (done, all) = (&report.driven.counts.done, report.driven.counts.transactions() as f64);
    assert!(all > 0.0, "{report}");
    for (kind, (done, percent)) in done.iter().zip(percents).enumerate() {
        let (found, share) = (*done as f64 / all, percent / 100.0);
        let deviation = (share * (1.0 - share) / all).sqrt();
        // Each of the eight clients may still have one in hand.
        let may = 6.0 * deviation + 8.0 / all;
        assert!((found - share).abs() <= may, "{kind}: {found}, not {share}: {report}");
    }
}

/// A small database.
pub fn open(instances: u16) -> Database {
    open_with(instances, RuntimeOptions::default())
}

/// The same, with instances that are so.
pub fn open_with(instances: u16, runtime: RuntimeOptions) -> Database {
    let options = Options {
        instances: Instances::Count(instances),
        runtime,
        buffer_pool_bytes: 256 << 20,
        undo_bytes: 64 << 20,
        ..Options::default()
    };
    Database::open_in_memory(options).unwrap()
}

/// The constants of a table's columns are the columns that its SQL has made.
pub fn are_columns_of(table: &TableEntry, columns: &[(&str, ColumnId)]) {
    assert_eq!(table.def.columns.len(), columns.len(), "{}", table.def.name);
    for (name, column) in columns {
        assert_eq!(table.def.column(&name.to_lowercase()), Some(*column), "{name}");
    }
}

/// Writes a program. A shell does: what this process has open for writing, another test's child may have for a
/// moment, too, and nobody could run it then.
pub fn script(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "printf '%s' \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(path).arg(text);
    assert!(shell.status().unwrap().success());
}
