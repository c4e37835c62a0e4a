//! What a run will need: memory for pages (nothing is evicted yet) and disk for the log (nothing
//! is recycled yet). A run that will not fit is refused before it begins.
//!
//! Invariants: figures are upper estimates, measured and rounded up; too small a pool would end
//! a run with 53200 in its middle, too small a disk with 53100.

use std::path::Path;

use super::{Setting, Size};

/// Bytes of pages of a warehouse as loaded, indexes included.
const PAGES_WAREHOUSE: u64 = 160 << 20;
/// Bytes of pages of the items.
const PAGES_ITEMS: u64 = 16 << 20;
/// Bytes of log that loading a warehouse writes.
const LOG_WAREHOUSE: u64 = 160 << 20;
/// Transactions that an instance may do in a second.
const RATE: u64 = 60_000;
/// Bytes of pages that a transaction adds.
const PAGES_TRANSACTION: u64 = 700;
/// Bytes of log that a transaction writes, padding included.
const LOG_TRANSACTION: u64 = 1300;
/// What a database needs besides, of either.
const BASE: u64 = 256 << 20;

/// What a run will need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Memory for pages.
    pub pool_bytes: u64,
    /// Disk for the log.
    pub log_bytes: u64,
}

impl Need {
    /// Of this run on so many instances.
    pub fn of(setting: &Setting, instances: u16) -> Need {
        let warehouses = setting.warehouses as u64;
        let seconds = setting.seconds + setting.warmup_seconds;
        let transactions = seconds * RATE * u64::from(instances);
        let standard = u64::from(Size::STANDARD.items.cast_unsigned());
        let share = |bytes: u64| bytes * u64::from(setting.size.items.cast_unsigned()) / standard;
        Need {
            pool_bytes: BASE
                + share(PAGES_ITEMS + warehouses * PAGES_WAREHOUSE)
                + transactions * PAGES_TRANSACTION,
            log_bytes: BASE + share(warehouses * LOG_WAREHOUSE) + transactions * LOG_TRANSACTION,
        }
    }
}

/// An error that names what is missing, if anything is.
pub fn refuse(need: &Need, pool_bytes: u64, data: Option<&Path>) -> Result<(), String> {
    let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
    if pool_bytes < need.pool_bytes {
        return Err(format!(
            "the data may grow to {:.1} GiB, the buffer pool has {:.1}: fewer seconds or \
             warehouses, or a larger --buffer-pool",
            gib(need.pool_bytes),
            gib(pool_bytes)
        ));
    }
    let log_in_memory = if data.is_none() { need.log_bytes } else { 0 };
    if let Some(memory) = memory_available()
        && memory < need.pool_bytes + log_in_memory
    {
        return Err(format!(
            "the run may need {:.1} GiB of memory, {:.1} are available: fewer seconds or warehouses",
            gib(need.pool_bytes + log_in_memory),
            gib(memory)
        ));
    }
    let free = data.map(disk_free).transpose()?;
    match free {
        Some(free) if free < need.log_bytes => Err(format!(
            "the log may grow to {:.1} GiB, the disk has {:.1} free: fewer seconds or warehouses, \
             or another --data",
            gib(need.log_bytes),
            gib(free)
        )),
        _ => Ok(()),
    }
}

/// Memory that can be had without swapping, where /proc says.
fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

/// Bytes free on the disk that `path`, or its nearest ancestor that is there, lies on.
fn disk_free(path: &Path) -> Result<u64, String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let there = path.ancestors().find(|it| it.exists()).unwrap_or(Path::new("/"));
    let stat =
        rustix::fs::statvfs(there).map_err(|error| format!("{}: {error}", there.display()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::super::{Durability, Isolation};
    use super::*;

    fn setting(seconds: u64) -> Setting {
        Setting {
            warehouses: 2,
            size: Size::STANDARD,
            clients: 1,
            seconds,
            warmup_seconds: 0,
            isolation: Isolation::RepeatableRead,
            durability: Durability::Commit,
            seed: 1,
        }
    }

    #[test]
    fn what_will_not_fit_is_refused_by_name() {
        let need = Need::of(&setting(1), 1);
        let told = refuse(&need, need.pool_bytes - 1, None).expect_err("the pool is too small");
        assert!(told.contains("--buffer-pool"), "{told}");
        let need = Need::of(&setting(1_000_000_000), 1);
        let told = refuse(&need, need.pool_bytes, None).expect_err("no machine has so much memory");
        assert!(told.contains("of memory"), "{told}");
        let need = Need { pool_bytes: 1, log_bytes: u64::MAX };
        let folder = std::env::temp_dir().join("not/there/yet");
        let told = refuse(&need, 1, Some(&folder)).expect_err("no disk has so much room");
        assert!(told.contains("--data"), "{told}");
        let need = Need { pool_bytes: 1, log_bytes: 1 };
        assert_eq!(refuse(&need, 1, Some(&folder)), Ok(()));
    }
}
