//! What a run will need: memory for pages, and disk for pages and the log. A run that will not fit
//! is refused before it begins.
//!
//! Invariants: figures are upper estimates, measured and rounded up; too small a disk would end a
//! run with 53100 in its middle, and so would too small a pool with 53200 if the database is in
//! memory. On disk the pool may be smaller than the data: that is what is then measured.

use std::path::Path;

use crate::arrivals::{GRACE, Rate};
use crate::setting::{Place, Setting};

/// What a database needs besides, of either.
pub const BASE: u64 = 256 << 20;

/// The smallest pool with which a run on disk is worth measuring: with fewer frames, clients evict from
/// each other what they are about to read.
const POOL_LEAST: u64 = 8 << 20;

/// What a run will need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Memory for pages.
    pub pool_bytes: u64,
    /// Disk for the log.
    pub log_bytes: u64,
}

/// What one row or transaction adds, at most.
#[derive(Clone, Copy, Debug)]
pub struct Each {
    /// Bytes of pages.
    pub pages: u64,
    /// Bytes of log, padding included.
    pub log: u64,
}

/// With which options of its own a run needs less, for the line that refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Less memory.
    pub memory: &'static str,
    /// Less disk.
    pub disk: &'static str,
}

impl Advice {
    /// For the workloads, which all have the same options.
    pub const WORKLOADS: Advice = Advice {
        memory: "fewer seconds or rows, or a database on disk (--data) with a smaller \
                 --buffer-pool",
        disk: "fewer seconds or rows, or another --data",
    };
}

impl Need {
    /// Of so many rows, and of so many seconds in which each instance may do `rate` transactions.
    pub fn of(rows: (u64, Each), (instance_seconds, rate): (u64, u64), each: Each) -> Need {
        let transactions = instance_seconds.saturating_mul(rate);
        let sum = |of: fn(&Each) -> u64| {
            let grown = transactions.saturating_mul(of(&each));
            BASE.saturating_add(rows.0.saturating_mul(of(&rows.1))).saturating_add(grown)
        };
        Need { pool_bytes: sum(|it| it.pages), log_bytes: sum(|it| it.log) }
    }
}

/// Seconds of all instances together that a run lasts, at most.
pub fn instance_seconds(setting: &Setting, instances: u16) -> u64 {
    let lasts = seconds(setting.seconds, setting.warmup_seconds, setting.rate);
    lasts.saturating_mul(instances.into())
}

/// Seconds that a run with its warm-up lasts, at most: an open loop that falls behind is served for
/// a while after its end, and that of its warm-up, too.
pub fn seconds(measured: u64, warmup: u64, rate: Option<Rate>) -> u64 {
    let loops = 1 + u64::from(warmup > 0);
    let grace = if rate.is_some() { loops * GRACE.as_secs() } else { 0 };
    measured.saturating_add(warmup).saturating_add(grace)
}

/// Bytes that the files of a database on disk may take: pages, with room for the copies that
/// checkpoints make, and logs, which checkpoints shorten if they are made by the logs' growth.
fn disk(need: &Need, place: &Place) -> u64 {
    let log = match place.checkpoint_wal_bytes {
        0 => need.log_bytes,
        // What is written until a checkpoint that was begun is done, and the rest of a segment.
        growth => need.log_bytes.min(growth.saturating_mul(3).saturating_add(BASE)),
    };
    log.saturating_add(need.pool_bytes.saturating_mul(2))
}

/// An error that names what is missing, if anything is, and advises.
pub fn refuse(need: &Need, pool_bytes: u64, place: &Place, advice: &Advice) -> Result<(), String> {
    let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
    let data = place.data.as_deref();
    if data.is_some() && pool_bytes < POOL_LEAST.min(need.pool_bytes) {
        return Err(format!(
            "clients would evict from each other what they are about to read: a larger \
             --buffer-pool, of {} MiB at least",
            POOL_LEAST >> 20
        ));
    }
    if data.is_none() && pool_bytes < need.pool_bytes {
        return Err(format!(
            "the data may grow to {:.1} GiB, the buffer pool has {:.1}: fewer seconds or \
             rows, or a larger --buffer-pool",
            gib(need.pool_bytes),
            gib(pool_bytes)
        ));
    }
    let log_in_memory = if data.is_none() { need.log_bytes } else { 0 };
    let wanted = pool_bytes.min(need.pool_bytes).saturating_add(log_in_memory);
    if let Some(memory) = memory_available()
        && memory < wanted
    {
        return Err(format!(
            "the run may need {:.1} GiB of memory, {:.1} are available: {}",
            gib(wanted),
            gib(memory),
            advice.memory
        ));
    }
    let (free, wanted) = (data.map(disk_free).transpose()?, disk(need, place));
    match free {
        Some(free) if free < wanted => Err(format!(
            "the files may grow to {:.1} GiB, the disk has {:.1} free: {}",
            gib(wanted),
            gib(free),
            advice.disk
        )),
        _ => Ok(()),
    }
}

/// Memory that can be had without swapping, where /proc says.
pub fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

/// Bytes free on the disk that `path`, or its nearest ancestor that is there, lies on.
pub fn disk_free(path: &Path) -> Result<u64, String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let there = path.ancestors().find(|it| it.exists()).unwrap_or(Path::new("/"));
    let stat =
        rustix::fs::statvfs(there).map_err(|error| format!("{}: {error}", there.display()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Isolation;

    /// What an open loop does after its end needs room, too.
    #[test]
    fn an_open_loop_may_last_longer() {
        let closed = Setting { seconds: 10, ..crate::testing::setting(Isolation::ReadCommitted) };
        assert_eq!(instance_seconds(&closed, 2), 20);
        let open = Setting { rate: Rate::new(5.0).ok(), ..closed };
        assert_eq!(instance_seconds(&open, 2), 30);
        assert_eq!(instance_seconds(&Setting { warmup_seconds: 3, ..open }, 2), 46);
    }

    fn refusal(need: &Need, pool_bytes: u64, place: &Place) -> Option<String> {
        refuse(need, pool_bytes, place, &Advice::WORKLOADS).err()
    }

    #[test]
    fn what_will_not_fit_is_refused_by_name() {
        let each = Each { pages: 700, log: 1300 };
        let need = Need::of((1, each), (1, 60_000), each);
        assert_eq!(need.pool_bytes, BASE + 60_001 * 700);
        assert_eq!(need.log_bytes, BASE + 60_001 * 1300);
        let place = Place::default();
        let told = refusal(&need, need.pool_bytes - 1, &place).expect("the pool is too small");
        assert!(told.contains("--buffer-pool"), "{told}");
        let need = Need::of((1, each), (1_000_000_000, 60_000), each);
        let told = refusal(&need, need.pool_bytes, &place).expect("no machine has that memory");
        assert!(told.contains("of memory"), "{told}");
        let folder = std::env::temp_dir().join("not/there/yet");
        let place = Place { data: Some(folder), checkpoint_wal_bytes: 0, ..Place::default() };
        let need = Need { pool_bytes: 2, log_bytes: u64::MAX };
        let told = refusal(&need, 1, &place).expect("too few frames");
        assert!(told.contains("a larger --buffer-pool"), "{told}");
        let told = refusal(&need, 2, &place).expect("no disk has so much room");
        assert!(told.contains("--data"), "{told}");
        let recycled = Place { checkpoint_wal_bytes: 1 << 20, ..place };
        assert_eq!(refusal(&need, 2, &recycled), None);
    }
}
