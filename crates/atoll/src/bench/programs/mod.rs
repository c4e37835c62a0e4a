//! Benchmarks that start programs: servers, clients, or benchmarks of their own.
//!
//! Invariants: SIGINT and SIGTERM are asked for by a watch, so that what was started ends in order. Progress goes to
//! standard error, the report to standard output.

pub mod aims;
pub mod checkpoints;
pub mod compare;
pub mod restart;
pub mod slices;

use std::cell::RefCell;
use std::path::PathBuf;

use atoll_bench::compare::contender::Places;
use atoll_bench::compare::install::Install;
use atoll_bench::compare::machine;
use atoll_bench::compare::process::{Watch, Wish};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Runs what starts servers: it hears of SIGINT and SIGTERM by its watch, and tells of its progress on standard
/// error.
fn watched<T>(
    run: impl FnOnce(&Watch<'_>, &mut dyn FnMut(&str)) -> Result<T, String>,
) -> Result<T, String> {
    let signals = Signals::new([SIGINT, SIGTERM]);
    let signals = RefCell::new(signals.map_err(|error| error.to_string())?);
    let ask = || match signals.borrow_mut().pending().next() {
        Some(_) => Wish::End,
        None => Wish::GoOn,
    };
    run(&Watch::new(&ask), &mut |line| eprintln!("* {line}"))
}

/// What this program was asked, for reports.
fn command_line() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("atoll {}", words.join(" "))
}

/// Memory for pages of every server, from a number of MiB or the machine's.
fn memory_bytes(mib: Option<u64>) -> Result<u64, String> {
    match mib {
        Some(mib) => Ok(mib << 20),
        None => Ok(machine::memory_bytes()? / 4),
    }
}

/// Where programs are looked for, and installed if they may be.
fn places(install: bool) -> Places {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cache = if rustix::process::geteuid().is_root() {
        // PostgreSQL does not run as root, and may not enter root's own folder.
        PathBuf::from("/var/cache")
    } else {
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
        let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        named.or_else(home).unwrap_or_else(std::env::temp_dir)
    };
    Places {
        path: std::env::split_paths(&path).collect(),
        postgres: PathBuf::from("/usr/lib/postgresql"),
        cache: cache.join("atoll"),
        install: if install { Install::Missing } else { Install::Not },
        say: |line| eprintln!("* {line}"),
    }
}
