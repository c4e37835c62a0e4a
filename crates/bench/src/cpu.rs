//! CPU time: of this process, and of another one with its children, from /proc.

use std::time::Duration;

/// CPU time (user and system) that the process `pid` and its living descendants have used.
/// None where /proc does not say.
pub fn of_tree(pid: u32) -> Option<Duration> {
    let mut total = of_process(pid)?;
    for child in children(pid) {
        total += of_tree(child).unwrap_or_default();
    }
    Some(total)
}

/// CPU time of this process, finished children not included.
pub fn own() -> Duration {
    of_process(std::process::id()).unwrap_or_default()
}

fn of_process(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields after the command's closing bracket: state is the 1st, utime and stime 12th and 13th,
    // those of waited-for children 14th and 15th.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = (11..15).filter_map(|at| fields.get(at)?.parse::<u64>().ok()).sum();
    Some(Duration::from_micros(ticks * 10_000))
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut found = Vec::new();
    for task in tasks.flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_grows_with_work() {
        let before = own();
        let mut sum = 0_u64;
        while own() < before + Duration::from_millis(20) {
            for number in 0..100_000_u64 {
                sum = std::hint::black_box(sum.wrapping_add(number));
            }
        }
        assert!(of_tree(std::process::id()).is_some_and(|all| all >= own()));
        assert!(of_tree(u32::MAX).is_none());
    }
}
