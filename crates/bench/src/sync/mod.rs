//! What a commit's latency is measured against: bare durable writes.
//!
//! ```text
//!   closed loop: a writer's next write begins when its last has ended; latencies are writes'
//!   open loop:   commits arrive evenly --at each writer in turn--> its next write carries all that have;
//!                latencies are commits', from their arrival
//! ```
//!
//! Invariants: each writer is a thread with a file and a ring of its own, one of whose writes is in flight
//! ([`writer`]). In an open loop nothing but the disk and the system's way to it takes time, so that its latencies are what
//! a database that cost nothing would have, which writes to as many logs: when the disk stands still, they tell of it as its
//! latencies do.

mod arriving;
mod writer;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use atoll_kernel::base::Error;
use atoll_kernel::io::{Disk, FileRef, IO_ALIGN, IoChoice, RealDisk};

use crate::arrivals::Rate;
use arriving::Arriving;
use writer::{Writer, Written};

/// The most bytes of a write: what one of a log's buffers has.
const BYTES_MAX: usize = 1 << 20;

/// What to run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Bytes of a write: a multiple of 4096.
    pub bytes: usize,
    /// How many write at once, at least one.
    pub writers: usize,
    /// Commits that arrive a second (open loop); none: closed loop.
    pub rate: Option<Rate>,
    /// How long is measured.
    pub seconds: u64,
    /// A folder on the disk that is measured; a folder in it is made and removed.
    pub folder: PathBuf,
}

/// What came of it.
pub struct Report {
    /// What was run.
    pub setting: Setting,
    /// Which form of asynchronous I/O the ring is.
    pub ring_kind: &'static str,
    /// What all wrote.
    written: Written,
}

impl Report {
    /// As one JSON object.
    pub fn json(&self) -> serde_json::Value {
        let mut all = serde_json::json!({
            "benchmark": "sync",
            "bytes": self.setting.bytes,
            "writers": self.setting.writers,
            "seconds": self.setting.seconds,
            "ring_kind": self.ring_kind,
            "writes": self.written.writes,
            "ring_us": self.written.ring.json(),
            "fdatasync_us": self.written.fdatasync.json(),
        });
        if let Some(rate) = self.setting.rate {
            all["rate"] = rate.per_second().into();
            all["commits"] = self.commits().into();
        }
        all
    }

    /// What arrived and was written.
    fn commits(&self) -> u64 {
        self.written.ring.count() + self.written.fdatasync.count()
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Setting { bytes, seconds, writers, rate, .. } = self.setting;
        let writes = self.written.writes;
        let at_a_time = if writers == 1 { "one".to_owned() } else { writers.to_string() };
        write!(
            f,
            "sync: {writes} durable writes of {bytes} bytes in {seconds} s, {at_a_time} at a time"
        )?;
        if let Some(rate) = rate {
            let (commits, rate) = (self.commits(), rate.per_second());
            write!(f, ", for {commits} commits that arrived at {rate} a second")?;
        }
        writeln!(f, "\n  the log's way ({}): {}", self.ring_kind, self.written.ring)?;
        write!(f, "  pwrite and fdatasync: {}", self.written.fdatasync)
    }
}

/// Makes the files, writes, removes them. Errors are one line.
pub fn run(setting: &Setting) -> Result<Report, String> {
    let is_whole = setting.bytes.is_multiple_of(IO_ALIGN) && setting.bytes > 0;
    if !is_whole || setting.bytes > BYTES_MAX {
        return Err(format!("bytes must be a multiple of {IO_ALIGN}, at most {BYTES_MAX}"));
    }
    if setting.writers == 0 {
        return Err("writers must be at least 1".to_owned());
    }
    if setting.seconds == 0 {
        return Err("seconds must be at least 1".to_owned());
    }
    if !setting.folder.is_dir() {
        return Err(format!("{} is not a folder", setting.folder.display()));
    }
    let place = Removed(setting.folder.join(format!("atoll-bench-sync-{}", std::process::id())));
    measure(setting, &place).map_err(|error| error.to_string())
}

/// A folder that goes when this does.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // A failure here hides nothing.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn measure(setting: &Setting, place: &Removed) -> Result<Report, Error> {
    let disk = RealDisk::open(&place.0, IoChoice::Auto)?;
    let make = |writer| writer::make(&disk, &format!("writes-{writer}"));
    let files = (0..setting.writers).map(make).collect::<Result<Vec<_>, Error>>()?;
    let began = Instant::now();
    let written = std::thread::scope(|threads| {
        let start = |(number, file)| {
            let write = {
                let disk = &disk;
                move || write(setting, disk, (number, file), began)
            };
            std::thread::Builder::new()
                .name(format!("writer-{number}"))
                .spawn_scoped(threads, write)
        };
        let all: Vec<_> = files.into_iter().enumerate().map(start).collect();
        let mut written = Written::default();
        for one in all {
            let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(0);
            let what = || "start a thread".to_owned();
            let one = one.map_err(|error| Error::Io { what: what(), errno: errno(error) })?;
            let panicked = |_| Error::Internal { detail: "a writer ended by itself".to_owned() };
            written.add(&one.join().map_err(panicked)??);
        }
        Ok::<_, Error>(written)
    })?;
    Ok(Report { setting: setting.clone(), ring_kind: disk.kind(), written })
}

/// What the thread of one of them does.
fn write(
    setting: &Setting,
    disk: &RealDisk,
    (number, file): (usize, FileRef),
    began: Instant,
) -> Result<Written, Error> {
    let seconds = Duration::from_secs(setting.seconds);
    let writer = Writer::new(disk, file, setting.bytes)?;
    match setting.rate {
        Some(rate) => writer.open(began, Arriving::at(number, setting.writers, rate, seconds)),
        None => writer.closed(seconds),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn setting(folder: &std::path::Path) -> Setting {
        Setting { bytes: 8192, writers: 1, rate: None, seconds: 1, folder: folder.to_owned() }
    }

    #[test]
    fn both_ways_are_measured_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let report = run(&setting(folder.path())).unwrap();
        let (ring, calls) = (report.written.ring.count(), report.written.fdatasync.count());
        assert!(ring > 0 && ring - calls <= 1, "they take turns: {report}");
        let json = report.json();
        assert_eq!(json["writes"], ring + calls);
        assert!(json.get("rate").is_none(), "{json}");
        for way in ["ring_us", "fdatasync_us"] {
            assert!(json[way]["p50"].as_u64() > Some(0) && json[way]["p99"].is_u64(), "{json}");
        }
        assert!(folder.path().read_dir().unwrap().next().is_none(), "its folder was left behind");
    }

    /// Whatever the disk does, all that arrives is written, by one or the other, and of what arrives faster than
    /// anything writes a write carries many.
    #[test]
    fn what_arrives_is_written_together() {
        let folder = tempfile::tempdir().unwrap();
        let rate = Rate::new(200_000.0).unwrap();
        let setting = Setting { writers: 3, rate: Some(rate), ..setting(folder.path()) };
        let report = run(&setting).unwrap();
        assert_eq!(report.commits(), 200_000, "{report}");
        let json = report.json();
        assert_eq!((&json["rate"], &json["commits"]), (&200_000.0.into(), &200_000.into()));
        let writes = json["writes"].as_u64().unwrap();
        assert!((3..200_000).contains(&writes), "{report}");
        let told = report.to_string();
        assert!(told.contains("3 at a time, for 200000 commits that arrived at 200000"), "{told}");
        assert!(folder.path().read_dir().unwrap().next().is_none(), "its folder was left behind");
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let folder = std::env::temp_dir();
        for (bytes, writers, seconds, expect) in [
            (0, 1, 1, "multiple of 4096"),
            (100, 1, 1, "multiple of 4096"),
            (4097, 1, 1, "multiple of 4096"),
            (2 << 20, 1, 1, "at most 1048576"),
            (4096, 0, 1, "writers must be"),
            (4096, 1, 0, "seconds must be"),
        ] {
            let refused = run(&Setting { bytes, writers, seconds, ..setting(&folder) });
            assert!(refused.err().unwrap().contains(expect), "{bytes} {writers} {seconds}");
        }
        let refused = run(&setting(&folder.join("no/such/folder")));
        assert!(refused.err().unwrap().contains("is not a folder"));
    }
}
