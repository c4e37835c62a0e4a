//! What ends a benchmark before its end: SIGINT and SIGTERM.
//!
//! Invariants: one that is interrupted says so in a line, ends with 128 and the signal's number,
//! and leaves no temporary directory. No destructor runs then, and instances go on: one that lost
//! its files would abort the process, and one that makes new files would keep their directory from
//! being removed. So the process becomes a shell that removes it: exec(2) ends all threads first.
//! No process is started here; those in `programs`, which start some, ask for signals by themselves.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Removes its first argument and ends with its second; a second Ctrl-C does not keep it from that.
const REMOVE: &str = r#"trap "" INT TERM; rm -rf -- "$1"; exit "$2""#;

/// From now on an interrupt ends the process, and removes this directory, if there is one.
pub fn watch(temporary: Option<&Path>) -> Result<(), String> {
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| format!("cannot wait for signals: {error}"))?;
    let temporary = temporary.map(Path::to_owned);
    std::thread::spawn(move || {
        let signal = signals.forever().next().unwrap_or(SIGTERM);
        // Ctrl-C ends a whole pipeline, and with it who reads this.
        let _ = writeln!(std::io::stderr(), "atoll: interrupted");
        end(temporary.as_deref(), 128 + signal);
    });
    Ok(())
}

fn end(temporary: Option<&Path>, code: i32) -> ! {
    if let Some(directory) = temporary {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", REMOVE, "sh"]).arg(directory).arg(code.to_string());
        // It answers only where there is no shell; then what can be removed beside instances is.
        let _ = shell.exec();
        let _ = std::fs::remove_dir_all(directory);
    }
    std::process::exit(code)
}
