//! One that writes durably, again and again, by either of two ways in turn.
//!
//! Invariants: its file is as a log's segment is (`kernel::log`, segment): its room is allocated and every byte of
//! it written and synced before, so that no write changes what the file system keeps of it; it goes around the page
//! cache where the file system can; writes follow each other, and begin anew at its end. One of its writes is in
//! flight at a time. Both ways meet the same device, as they take turns write by write.

use std::time::{Duration, Instant};

use atoll_kernel::base::Error;
use atoll_kernel::io::{
    Direct, Disk, Durability, FileRef, IoBuffer, Op, OpenHow, RealDisk, Returned, Ring, Token,
};
use atoll_kernel::log::LogOptions;

use super::arriving::Arriving;
use crate::latency::Latencies;

/// Bytes that are written at once when the file is made.
const PIECE_BYTES: usize = 1 << 20;
/// From when on one that waits for an arrival does not sleep: sleep ends late by about as much.
const AWAKE: Duration = Duration::from_micros(150);

/// What came of one's writes, or of all.
#[derive(Default)]
pub struct Written {
    /// How many there were.
    pub writes: u64,
    /// Latencies by the ring: of the writes, or of the commits that they carried.
    pub ring: Latencies,
    /// The same by pwrite and fdatasync.
    pub fdatasync: Latencies,
}

impl Written {
    /// Adds another's.
    pub fn add(&mut self, other: &Written) {
        self.writes += other.writes;
        self.ring.add(&other.ring);
        self.fdatasync.add(&other.fdatasync);
    }
}

/// The two ways.
#[derive(Clone, Copy)]
enum Way {
    /// A durable write of the kernel's own ring, as the log submits it.
    Ring,
    /// A pwrite followed by fdatasync(2), as any program would do it.
    Calls,
}

/// What writes.
pub struct Writer {
    file: FileRef,
    file_bytes: u64,
    ring: Box<dyn Ring>,
    /// None while it is being written.
    buffer: Option<IoBuffer>,
    bytes: usize,
    /// Where the next write goes.
    at: u64,
    next: Way,
    written: Written,
}

impl Writer {
    /// One for the calling thread, whose ring it has, that writes so many bytes at once to a file that was
    /// [made](make).
    pub fn new(disk: &RealDisk, file: FileRef, bytes: usize) -> Result<Writer, Error> {
        Ok(Writer {
            file_bytes: file.len()?,
            file,
            ring: disk.ring()?,
            buffer: Some(IoBuffer::zeroed(bytes)),
            bytes,
            at: 0,
            next: Way::Ring,
            written: Written::default(),
        })
    }

    /// Writes for so long, one after the other.
    pub fn closed(mut self, seconds: Duration) -> Result<Written, Error> {
        let end = Instant::now() + seconds;
        let mut began = Instant::now();
        while began < end {
            let way = self.write(began.elapsed())?;
            self.latencies(way).record(began.elapsed());
            began = Instant::now();
        }
        Ok(self.written)
    }

    /// Writes what has arrived since `began`, all of it at once, until the last has.
    pub fn open(mut self, began: Instant, mut arriving: Arriving) -> Result<Written, Error> {
        let mut arrived = Vec::new();
        while let Some(next) = arriving.next_at() {
            await_arrival(began + next);
            let now = began.elapsed();
            arriving.take(now, &mut arrived);
            let way = self.write(now)?;
            let ended = began.elapsed();
            let latencies = self.latencies(way);
            for at in arrived.drain(..) {
                latencies.record(ended.saturating_sub(at));
            }
        }
        Ok(self.written)
    }

    fn latencies(&mut self, way: Way) -> &mut Latencies {
        match way {
            Way::Ring => &mut self.written.ring,
            Way::Calls => &mut self.written.fdatasync,
        }
    }

    /// One write, and by which way it went; `now` makes it unlike the one before.
    fn write(&mut self, now: Duration) -> Result<Way, Error> {
        let mut buffer = self.buffer.take().unwrap_or_else(|| IoBuffer::zeroed(self.bytes));
        buffer.fill(now.subsec_nanos() as u8);
        let way = self.next;
        (self.buffer, self.next) = match way {
            Way::Ring => (Some(self.by_ring(buffer)?), Way::Calls),
            Way::Calls => {
                self.file.write_at(self.at, &buffer)?;
                self.file.sync()?;
                (Some(buffer), Way::Ring)
            }
        };
        self.at = next(self.at, self.bytes as u64, self.file_bytes);
        self.written.writes += 1;
        Ok(way)
    }

    fn by_ring(&self, buffer: IoBuffer) -> Result<IoBuffer, Error> {
        let (file, offset, durability) = (self.file.clone(), self.at, Durability::Durable);
        self.ring.submit(Op::Write { file, offset, buffer, durability }, Token(1));
        let mut ended = Vec::with_capacity(1);
        loop {
            self.ring.wait(None);
            self.ring.reap(&mut ended);
            let Some(done) = ended.pop() else { continue };
            let what = || "write durably".to_owned();
            done.result.map_err(|errno| Error::Io { what: what(), errno })?;
            return match done.buffer {
                Returned::Io(buffer) => Ok(buffer),
                _ => Err(Error::Internal { detail: "a write gave no buffer back".to_owned() }),
            };
        }
    }
}

/// Until then, asleep but for the last of it.
fn await_arrival(at: Instant) {
    loop {
        let early = at.saturating_duration_since(Instant::now());
        if early.is_zero() {
            return;
        }
        match early.checked_sub(AWAKE) {
            Some(long) if !long.is_zero() => std::thread::sleep(long),
            _ => std::thread::yield_now(),
        }
    }
}

/// A new file of this name, as long as a log's segment, wholly written, and durable with its length and name.
pub fn make(disk: &RealDisk, name: &str) -> Result<FileRef, Error> {
    let bytes = LogOptions::default().segment_bytes;
    let file = disk.open(name, OpenHow::CreateNew, Direct::Yes)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_follow_each_other_and_stay_in_the_file() {
        assert_eq!((next(0, 4096, 12288), next(4096, 4096, 12288)), (4096, 8192));
        assert_eq!(next(8192, 4096, 12288), 0);
        // One that would not fit whole begins anew, too.
        assert_eq!(next(0, 8192, 12288), 0);
    }
}
