//! Ends a stage, or a command, that does not come to its end, so that the others still run and the last line is said.
//!
//! Invariants: only descendants of this process are ended, by their ids; processes that left the tree
//! of descendants (their parent ended before them) are not known any more.

use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Between two times of ending what a stage has started.
const AGAIN: Duration = Duration::from_secs(2);

/// Watches a stage while it lives.
pub struct Watch {
    /// Nothing is sent: that it is gone says that the stage has ended.
    _stage: Sender<()>,
}

impl Watch {
    /// Ends all that this process has started, should the watch live longer than `limit`.
    pub fn begin(stage: &'static str, limit: Duration) -> Self {
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            let mut wait = limit;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                println!("{stage}: takes longer than {} s; ended", limit.as_secs());
                end_started_by(std::process::id());
                wait = AGAIN;
            }
        });
        Watch { _stage: sender }
    }
}

/// Ends all that a process has started, and what these have; not itself.
pub fn end_started_by(process: u32) {
    let processes = descendants(process, &parents());
    if !processes.is_empty() {
        // Those that have ended meanwhile are no loss.
        let ids = processes.iter().map(u32::to_string);
        let _ = Command::new("kill").arg("-KILL").args(ids).status();
    }
}

/// Every process and its parent.
fn parents() -> Vec<(u32, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        Some((id, parent(&std::fs::read_to_string(entry.path().join("stat")).ok()?)?))
    };
    entries.filter_map(process).collect()
}

/// From `ID (NAME) STATE PARENT ...`; the name may hold anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// All below `root`, parents before their children.
fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&of) = found.get(next) {
        let children = parents.iter().filter(|(_, parent)| *parent == of).map(|(id, _)| *id);
        found.extend(children.collect::<Vec<_>>());
        next += 1;
    }
    found.split_off(1)
}

/// Held by tests that end processes, or start some: a watch ends those of the others, too.
#[cfg(test)]
pub static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_whatever_their_names() {
        assert_eq!(parent("17 (a) b (c) S 4 17 17"), Some(4));
        let parents = [(2, 1), (3, 2), (4, 9), (5, 3), (9, 1), (6, 7)];
        assert_eq!(descendants(2, &parents), [3, 5]);
        assert_eq!(descendants(1, &parents), [2, 9, 3, 4, 5]);
        assert!(descendants(6, &parents).is_empty());
    }

    #[test]
    fn what_takes_too_long_is_ended_and_what_does_not_is_not() {
        let _alone = ALONE.lock();
        let _watch = Watch::begin("a test", Duration::from_millis(300));
        let slow = Command::new("sh").args(["-c", "sleep 60; true"]).status().unwrap();
        assert!(!slow.success());
    }
}
