//! Memory of processes, from /proc; `series` has it by second.
//!
//! Invariants: *anonymous* memory (RssAnon) is what a process has allocated and touched: neither memory
//! that is shared between processes, nor file pages, nor what the system keeps for sockets (the last is
//! estimated by the machine's slab memory, which is of both ends). *Resident* memory (VmRSS) is all that a process
//! has in memory; what several processes share counts in each.

mod series;

use std::fs;

use crate::cpu;

pub use series::{Series, Taken};

/// Anonymous bytes of a process and its descendants. None where /proc does not say.
pub fn anonymous(pid: u32) -> Option<u64> {
    of_tree(pid, "RssAnon:")
}

/// Their resident bytes.
pub fn resident(pid: u32) -> Option<u64> {
    of_tree(pid, "VmRSS:")
}

fn of_tree(pid: u32, name: &str) -> Option<u64> {
    let of = |pid: u32| kilobytes(&format!("/proc/{pid}/status"), name);
    let mut processes = cpu::tree(pid).into_iter();
    let root = of(processes.next()?)?;
    Some((root + processes.filter_map(of).sum::<u64>()) * 1024)
}

/// Bytes that the whole system keeps in its caches of small objects.
pub fn slab() -> Option<u64> {
    kilobytes("/proc/meminfo", "Slab:").map(|kilobytes| kilobytes * 1024)
}

fn kilobytes(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn own_memory_grows_by_what_is_touched() {
        let before = anonymous(std::process::id()).unwrap();
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = anonymous(std::process::id()).unwrap();
        assert!(after >= before + (48 << 20), "{before} {after}");
        // While it is there: what the system leaves of a program in memory is its own affair.
        let resident_then = resident(std::process::id()).unwrap();
        assert!(resident_then >= (48 << 20), "{resident_then}");
        drop(touched);
        assert!(slab().unwrap() > 0);
        assert!(anonymous(u32::MAX).is_none() && resident(u32::MAX).is_none());
    }
}
