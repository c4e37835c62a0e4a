//! CPU time: of this process, of another one with its children, and of the machine, from /proc; and what
//! this process writes.
//!
//! Invariants: /proc counts in hundredths of a second. A process's time holds that of its threads,
//! of `io_uring`'s workers (`iou-wrk`, which are threads of it), and of children it has waited for;
//! the kernel's own threads (`kworker`) and interrupts belong to nobody and are in the machine's.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// How often a tree is looked at again while its processes come and go.
const LOOKS_MAX: u32 = 100;

/// CPU time (user and system) that the process `pid` and its descendants have used, ended ones that
/// were waited for included. None where /proc does not say.
pub fn of_tree(pid: u32) -> Option<Duration> {
    // A process that ends between two readings is in neither, or in both: read again until the
    // same processes were there before and after.
    let mut before = tree(pid);
    for _ in 0..LOOKS_MAX {
        let root = of_process(pid)?;
        let total = before[1..].iter().filter_map(|it| of_process(*it)).sum::<Duration>();
        let after = tree(pid);
        if before == after {
            return Some(root + total);
        }
        before = after;
        std::thread::sleep(Duration::from_millis(1));
    }
    let all = before.iter().filter_map(|it| of_process(*it));
    Some(all.sum())
}

/// The process and its living descendants; parents come before their children.
pub fn tree(pid: u32) -> Vec<u32> {
    let (mut found, mut at) = (vec![pid], 0);
    while let Some(parent) = found.get(at) {
        found.extend(children(*parent));
        at += 1;
    }
    found
}

/// What all processors together did in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Worked, for processes, the kernel's threads and interrupts.
    pub busy: Duration,
    /// Had nothing to do, or waited for a disk.
    pub idle: Duration,
    /// Were taken away by the host of a virtual machine.
    pub stolen: Duration,
}

impl AddAssign for Machine {
    fn add_assign(&mut self, more: Machine) {
        self.busy += more.busy;
        self.idle += more.idle;
        self.stolen += more.stolen;
    }
}

impl Machine {
    /// As JSON, in seconds.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "busy": self.busy.as_secs_f64(),
            "idle": self.idle.as_secs_f64(),
            "stolen": self.stolen.as_secs_f64(),
        })
    }
}

/// Where the machine's clocks stand; asked again, they say what it did meanwhile.
pub struct MachineClock {
    at: Instant,
    stands: Stands,
}

/// The sums of all processors since the machine's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stands {
    processors: u32,
    idle: Duration,
    stolen: Duration,
}

impl MachineClock {
    /// Now.
    pub fn now() -> MachineClock {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        MachineClock { at: Instant::now(), stands: Stands::parse(&text).unwrap_or_default() }
    }

    /// What the machine did since; nothing where /proc does not say.
    pub fn elapsed(&self) -> Machine {
        let now = MachineClock::now();
        now.stands.since(&self.stands, now.at - self.at)
    }
}

/// Where the machine's clocks stand beside this process, which only watches what is measured.
pub struct Watching {
    machine: MachineClock,
    own: Duration,
}

impl Watching {
    /// From now on.
    pub fn now() -> Watching {
        Watching { machine: MachineClock::now(), own: own() }
    }

    /// What the machine did since without this process's watching. Of its time `waited_for` was that of what is measured: of
    /// children that it has waited for since.
    pub fn elapsed(&self, waited_for: Duration) -> Machine {
        let mut machine = self.machine.elapsed();
        let watching = own().saturating_sub(self.own).saturating_sub(waited_for);
        machine.busy = machine.busy.saturating_sub(watching);
        machine
    }
}

impl Stands {
    /// Busy is what is neither idle nor stolen: the kernel times idleness, but samples work a
    /// hundred times a second, and misses much of what is done in short pieces.
    fn since(&self, before: &Stands, elapsed: Duration) -> Machine {
        let idle = self.idle.saturating_sub(before.idle);
        let stolen = self.stolen.saturating_sub(before.stolen);
        let busy = (elapsed * self.processors).saturating_sub(idle + stolen);
        Machine { busy, idle, stolen }
    }

    /// /proc/stat: `cpu user nice system idle iowait irq softirq steal`, and a line a processor.
    fn parse(text: &str) -> Option<Stands> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        let at = |place: usize| ticks.get(place).copied().map(of_ticks);
        let is_one = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|it| it.starts_with(|it: char| it.is_ascii_digit()))
        };
        let processors = text.lines().filter(is_one).count() as u32;
        Some(Stands { processors, idle: at(3)? + at(4)?, stolen: at(7)? })
    }
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 10)
}

/// CPU time of this process, finished children not included.
pub fn own() -> Duration {
    of_process(std::process::id()).unwrap_or_default()
}

/// CPU time of one process and of the children it has waited for; also of one that has ended and
/// was not yet waited for.
pub fn of_process(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields after the command's closing bracket: state is the 1st, utime and stime 12th and 13th,
    // those of waited-for children 14th and 15th.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = (11..15).filter_map(|at| fields.get(at)?.parse::<u64>().ok()).sum();
    Some(of_ticks(ticks))
}

/// Bytes that this process has had written to disks, as far as /proc says: its own writes, not what the system
/// writes for it later.
pub fn own_written() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok())
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
#[allow(clippy::unwrap_used, reason = "tests")]
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

    #[test]
    fn the_machine_is_read_by_its_columns() {
        let text = "cpu  100 20 30 4000 500 6 7 80 9 10\ncpu0 1 2\ncpu1 3 4\nintr 5\n";
        let before = Stands::parse(text).unwrap();
        let (idle, stolen) = (Duration::from_secs(45), Duration::from_millis(800));
        assert_eq!(before, Stands { processors: 2, idle, stolen });
        let after = Stands { idle: idle * 2, stolen: stolen * 2, ..before };
        let did = after.since(&before, Duration::from_secs(30));
        assert_eq!(did, Machine { busy: Duration::from_millis(14_200), idle, stolen });
        assert_eq!(Stands::parse("cpu  1 2 3\n"), None);
        assert_eq!(Stands::parse("intr 1 2 3\n"), None);
    }

    #[test]
    fn a_machine_that_works_is_busy() {
        let (clock, began) = (MachineClock::now(), Instant::now());
        while began.elapsed() < Duration::from_millis(300) {}
        let did = clock.elapsed();
        assert!(did.busy + did.stolen >= Duration::from_millis(200), "{did:?}");
    }

    #[test]
    fn a_tree_holds_children_and_their_time() {
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 60 & wait";
        let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = child.id();
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while tree(pid).len() < 2 && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let found = tree(pid);
        let time = of_tree(pid);
        for process in found.iter().rev() {
            let _ = std::process::Command::new("kill").arg(process.to_string()).status();
        }
        child.wait().unwrap();
        assert_eq!((found.len(), found[0]), (2, pid), "{found:?}");
        assert!(time.is_some_and(|time| time >= Duration::from_millis(10)), "{time:?}");
    }
}
