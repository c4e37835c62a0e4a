//! What a commit's latency is measured against: bare durable writes, one at a time.
//!
//! Invariants: the file is as a log's segment is (`kernel::log`, segment): its room is allocated and
//! every byte of it written and synced before, so that no write changes what the file system keeps
//! of it; it goes around the page cache where the file system can; writes follow each other, and
//! begin anew at its end. There is one at a time. Two ways take turns, write by write, so that both
//! meet the same device: *ring*, a durable write of the kernel's own ring as the log submits it, and
//! *fdatasync*, a pwrite followed by fdatasync(2), as any program would do it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use atoll_kernel::base::Error;
use atoll_kernel::io::{
    Direct, Disk, Durability, FileRef, IO_ALIGN, IoBuffer, IoChoice, Op, OpenHow, RealDisk,
    Returned, Ring, Token,
};
use atoll_kernel::log::LogOptions;

use crate::latency::Latencies;

/// The most bytes of a write: what one of a log's buffers has.
const BYTES_MAX: usize = 1 << 20;
/// Bytes that are written at once when the file is made.
const PIECE_BYTES: usize = 1 << 20;
/// The file's name.
const NAME: &str = "writes";

/// What to run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Bytes of a write: a multiple of 4096.
    pub bytes: usize,
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
    /// Writes by the ring.
    pub ring: Latencies,
    /// Writes by pwrite and fdatasync.
    pub fdatasync: Latencies,
}

impl Report {
    /// As one JSON object.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "benchmark": "sync",
            "bytes": self.setting.bytes,
            "seconds": self.setting.seconds,
            "ring_kind": self.ring_kind,
            "writes": self.ring.count() + self.fdatasync.count(),
            "ring_us": self.ring.json(),
            "fdatasync_us": self.fdatasync.json(),
        })
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let writes = self.ring.count() + self.fdatasync.count();
        let Setting { bytes, seconds, .. } = self.setting;
        writeln!(
            f,
            "sync: {writes} durable writes of {bytes} bytes in {seconds} s, one at a time"
        )?;
        writeln!(f, "  the log's way ({}): {}", self.ring_kind, self.ring)?;
        write!(f, "  pwrite and fdatasync: {}", self.fdatasync)
    }
}

/// Makes the file, writes, removes it. Errors are one line.
pub fn run(setting: &Setting) -> Result<Report, String> {
    let is_whole = setting.bytes.is_multiple_of(IO_ALIGN) && setting.bytes > 0;
    if !is_whole || setting.bytes > BYTES_MAX {
        return Err(format!("bytes must be a multiple of {IO_ALIGN}, at most {BYTES_MAX}"));
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
    let bytes = LogOptions::default().segment_bytes;
    let file = make(&disk, bytes)?;
    let ring = disk.ring()?;
    let mut buffer = IoBuffer::zeroed(setting.bytes);
    let (mut by_ring, mut by_calls) = (Latencies::default(), Latencies::default());
    let end = Instant::now() + Duration::from_secs(setting.seconds);
    let (mut at, mut began) = (0, Instant::now());
    while began < end {
        buffer.fill(began.elapsed().subsec_nanos() as u8);
        began = Instant::now();
        buffer = write_by_ring(&*ring, &file, at, buffer)?;
        by_ring.record(began.elapsed());
        at = next(at, setting.bytes as u64, bytes);
        began = Instant::now();
        file.write_at(at, &buffer)?;
        file.sync()?;
        by_calls.record(began.elapsed());
        at = next(at, setting.bytes as u64, bytes);
    }
    let setting = setting.clone();
    Ok(Report { setting, ring_kind: disk.kind(), ring: by_ring, fdatasync: by_calls })
}

/// A file that is wholly written, and durable with its length and name.
fn make(disk: &RealDisk, bytes: u64) -> Result<FileRef, Error> {
    let file = disk.open(NAME, OpenHow::CreateNew, Direct::Yes)?;
    file.allocate(bytes)?;
    let zeros = IoBuffer::zeroed(PIECE_BYTES);
    for at in (0..bytes).step_by(PIECE_BYTES) {
        file.write_at(at, &zeros)?;
    }
    file.sync()?;
    disk.sync_dir("")?;
    Ok(file)
}

/// Where the write after the one at `at` goes.
fn next(at: u64, write: u64, file: u64) -> u64 {
    let after = at + write;
    if after + write <= file { after } else { 0 }
}

fn write_by_ring(
    ring: &dyn Ring,
    file: &FileRef,
    offset: u64,
    buffer: IoBuffer,
) -> Result<IoBuffer, Error> {
    let (file, durability) = (file.clone(), Durability::Durable);
    ring.submit(Op::Write { file, offset, buffer, durability }, Token(1));
    let mut ended = Vec::with_capacity(1);
    loop {
        ring.wait(None);
        ring.reap(&mut ended);
        let Some(done) = ended.pop() else { continue };
        let what = || "write durably".to_owned();
        done.result.map_err(|errno| Error::Io { what: what(), errno })?;
        return match done.buffer {
            Returned::Io(buffer) => Ok(buffer),
            _ => Err(Error::Internal { detail: "a write gave no buffer back".to_owned() }),
        };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn writes_follow_each_other_and_stay_in_the_file() {
        assert_eq!((next(0, 4096, 12288), next(4096, 4096, 12288)), (4096, 8192));
        assert_eq!(next(8192, 4096, 12288), 0);
        // One that would not fit whole begins anew, too.
        assert_eq!(next(0, 8192, 12288), 0);
    }

    #[test]
    fn both_ways_are_measured_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let setting = Setting { bytes: 8192, seconds: 1, folder: folder.path().to_owned() };
        let report = run(&setting).unwrap();
        assert!(report.ring.count() > 0, "{report}");
        assert_eq!(report.ring.count(), report.fdatasync.count(), "they take turns");
        let json = report.json();
        assert_eq!(json["writes"], 2 * report.ring.count());
        for way in ["ring_us", "fdatasync_us"] {
            assert!(json[way]["p50"].as_u64() > Some(0) && json[way]["p99"].is_u64(), "{json}");
        }
        assert!(folder.path().read_dir().unwrap().next().is_none(), "its folder was left behind");
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let folder = std::env::temp_dir();
        for (bytes, seconds, expect) in [
            (0, 1, "multiple of 4096"),
            (100, 1, "multiple of 4096"),
            (4097, 1, "multiple of 4096"),
            (2 << 20, 1, "at most 1048576"),
            (4096, 0, "seconds must be"),
        ] {
            let refused = run(&Setting { bytes, seconds, folder: folder.clone() });
            assert!(refused.err().unwrap().contains(expect), "{bytes} {seconds}");
        }
        let nowhere = folder.join("no/such/folder");
        let refused = run(&Setting { bytes: 4096, seconds: 1, folder: nowhere });
        assert!(refused.err().unwrap().contains("is not a folder"));
    }
}
