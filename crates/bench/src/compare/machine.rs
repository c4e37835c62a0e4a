//! The machine that figures were measured on, as reports say it.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Result;
use super::figures::Spread;
use super::process::read;

/// Between what a machine is and what was measured on it.
const MEASURED: &str = "; ";

/// Synced writes that are timed.
const WRITES: usize = 200;

/// Bytes of memory; an error where /proc does not say.
pub fn memory_bytes() -> Result<u64> {
    let text = read(Path::new("/proc/meminfo"));
    let kib =
        field(&text, "MemTotal").and_then(|it| it.trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| "/proc/meminfo does not say MemTotal".to_owned())
}

/// One line: processors, memory, kernel, file system, and what a synced write takes in `folder`.
pub fn describe(folder: &Path) -> Result<String> {
    let cpus = read(Path::new("/proc/cpuinfo"));
    let model = field(&cpus, "model name").unwrap_or("an unknown processor");
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = memory_bytes()? as f64 / (1_u64 << 30) as f64;
    let kernel = read(Path::new("/proc/sys/kernel/osrelease"));
    let mounts = read(Path::new("/proc/self/mountinfo"));
    let path = std::path::absolute(folder).map_err(|error| error.to_string())?;
    let files = file_system(&mounts, &path).unwrap_or("an unknown file system");
    let micros = synced_write_us(folder)?;
    Ok(format!(
        "{model}, {count} processors, {memory:.0} GiB, Linux {}, {files}{MEASURED}a synced 8 KiB write takes \
         {micros:.0} us (median of {WRITES})",
        kernel.trim()
    ))
}

/// Whether two such lines are of one machine, but for what was measured.
pub fn is_same(one: &str, other: &str) -> bool {
    let what = |line: &'_ str| line.split(MEASURED).next().map(str::to_owned);
    what(one) == what(other)
}

/// The processor that takes the disk's interrupts, so that nobody else helps who is confined to it; the first one if
/// nothing says which.
pub fn core_of_the_disk() -> usize {
    most_interrupted(&read(Path::new("/proc/interrupts")))
}

fn most_interrupted(interrupts: &str) -> usize {
    let cores = interrupts.lines().next().map_or(0, |line| line.split_whitespace().count());
    let mut counts = vec![0_u64; cores];
    let is_disk = |line: &&str| {
        let of_virtio = line.contains("virtio") && line.contains("-req");
        of_virtio || ["nvme", "ahci", "blkif", "scsi"].iter().any(|it| line.contains(it))
    };
    for line in interrupts.lines().skip(1).filter(is_disk) {
        let its = line.split_whitespace().skip(1).map_while(|it| it.parse::<u64>().ok());
        counts.iter_mut().zip(its).for_each(|(count, its)| *count += its);
    }
    let most = counts.iter().enumerate().rev().max_by_key(|(_, count)| **count);
    most.map_or(0, |(core, _)| core)
}

/// The value of `name : value` or `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let named = |line: &'a str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    };
    text.lines().find_map(named)
}

/// The type of the file system that a path is in: of the longest mount point that it begins with.
fn file_system<'a>(mountinfo: &'a str, path: &Path) -> Option<&'a str> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, rest) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?;
        path.starts_with(point).then(|| (point.len(), rest.split(' ').next().unwrap_or(rest)))
    });
    mounts.max_by_key(|it| it.0).map(|it| it.1)
}

fn synced_write_us(folder: &Path) -> Result<f64> {
    let path = folder.join(format!("atoll-compare-write-{}", std::process::id()));
    let times = || -> std::io::Result<Vec<f64>> {
        let mut file = std::fs::File::create(&path)?;
        let mut times = Vec::new();
        for _ in 0..WRITES {
            let began = Instant::now();
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&[7; 8192])?;
            file.sync_data()?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(times)
    };
    let times = times().map_err(|error| format!("--folder {}: {error}", folder.display()));
    // It is of no use any more.
    let _ = std::fs::remove_file(&path);
    Ok(Spread::of(times?).median)
}

/// Today, in UTC, as 2026-11-22.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    date(seconds / 86_400)
}

/// The date so many days after 1970-01-01. Source: Hinnant, "chrono-compatible low-level date
/// algorithms", `civil_from_days`: years begin in March, so that a leap day is a year's last.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_disks_core_is_where_most_of_its_interrupts_went() {
        let text = "            CPU0       CPU1
 35:          0          1 PCI-MSIX-0000:00:02.0   0-edge      virtio1-config
 36:          7   17879608 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 41:       3491   99999999 PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx
LOC:   99999999          3 Local timer interrupts
";
        assert_eq!(most_interrupted(text), 1);
        assert_eq!(most_interrupted("            CPU0       CPU1\n"), 0);
        assert_eq!(most_interrupted(""), 0);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, text) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn a_path_is_in_the_innermost_mount() {
        let text = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                    25 22 0:5 / /dev rw shared:1 - devtmpfs dev rw\n\
                    26 25 0:21 / /dev/shm rw - tmpfs tmpfs rw\n";
        let of = |path: &str| file_system(text, Path::new(path));
        assert_eq!(of("/tmp/x"), Some("ext4"));
        assert_eq!(of("/dev/shm/x"), Some("tmpfs"));
        assert_eq!(of("/device"), Some("ext4"));
    }

    #[test]
    fn this_machine_is_described() {
        let folder = tempfile::tempdir().unwrap();
        let text = describe(folder.path()).unwrap();
        assert!(text.contains("processors") && text.contains("synced 8 KiB write"), "{text}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        assert!(describe(Path::new("/nonexistent")).unwrap_err().contains("/nonexistent"));
    }
}
