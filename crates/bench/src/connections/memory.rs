//! Memory of a server's processes, from /proc.
//!
//! Invariants: what is counted is resident anonymous memory (RssAnon): what a process has allocated
//! and touched. Neither memory that is shared between processes, nor file pages, nor what the
//! system keeps for sockets: the last is estimated by the machine's slab memory, which is of both ends.

use std::fs;

use crate::cpu;

/// Bytes that a process and its descendants hold. None where /proc does not say.
pub(super) fn of_tree(pid: u32) -> Option<u64> {
    let of = |pid: u32| kilobytes(&format!("/proc/{pid}/status"), "RssAnon:");
    let mut processes = cpu::tree(pid).into_iter();
    let root = of(processes.next()?)?;
    Some((root + processes.filter_map(of).sum::<u64>()) * 1024)
}

/// Bytes that the whole system keeps in its caches of small objects.
pub(super) fn slab() -> Option<u64> {
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
        let before = of_tree(std::process::id()).unwrap();
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = of_tree(std::process::id()).unwrap();
        assert!(after >= before + (48 << 20), "{before} {after}");
        drop(touched);
        assert!(slab().unwrap() > 0);
        assert!(of_tree(u32::MAX).is_none());
    }
}
