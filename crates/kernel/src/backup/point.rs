//! A point: up to where copied logs are complete, and the manifest to read them by.
//!
//! Invariants: written whole or not at all; verified when it is read; another version is refused.
//! Every byte: docs/format/backup.md.

use crate::base::{Cts, Error, HomeId, LogPosition, Result};
use crate::io::{Direct, Disk, OpenHow};
use crate::log::manifest::Manifest;

/// The name of a backup's point.
pub const BACKUP_NAME: &str = "BACKUP";

const MAGIC: &[u8; 8] = b"ATOLLPNT";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 44;

/// Up to where copied logs are complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The logs hold every commit below, from where the manifest's last incarnation begins or,
    /// with a checkpoint, from where its replay does.
    pub cts: Cts,
    /// A time at which everything that the manifest's checkpoint holds was committed.
    pub from_micros: i64,
    /// When this was so, in microseconds since 1970.
    pub wall_micros: i64,
    /// Up to where each log of the manifest's last incarnation was copied.
    pub ends: Vec<LogPosition>,
    /// The database as it ran.
    pub manifest: Manifest,
}

impl Point {
    /// The incarnation that it is of.
    pub fn incarnation(&self) -> u32 {
        self.manifest.current().number
    }

    /// The largest cts that its incarnation found when it began.
    pub fn found(&self) -> Cts {
        let bases = (0..self.manifest.homes).map(|home| self.manifest.base(HomeId(home)));
        bases.max().unwrap_or(Cts::ZERO)
    }

    /// Whether one history can have this point and then `later`: no checkpoint is taken back.
    pub fn may_precede(&self, later: &Point) -> bool {
        let newest = |point: &Point| {
            point
                .manifest
                .checkpoint
                .as_ref()
                .map_or((0, Cts::ZERO), |it| (it.number, it.timestamp))
        };
        let ((number, timestamp), (later, later_timestamp)) = (newest(self), newest(later));
        match number == later {
            true => timestamp == later_timestamp,
            false => number < later && timestamp <= later_timestamp,
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        let manifest = self.manifest.encode();
        for count in [self.ends.len(), manifest.len()] {
            out.extend_from_slice(&u32::try_from(count).expect("it fits memory").to_le_bytes());
        }
        out.extend_from_slice(&self.cts.0.to_le_bytes());
        out.extend_from_slice(&self.from_micros.to_le_bytes());
        out.extend_from_slice(&self.wall_micros.to_le_bytes());
        self.ends.iter().for_each(|end| out.extend_from_slice(&end.0.to_le_bytes()));
        out.extend_from_slice(&manifest);
        let sum = crc32c::crc32c(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads one from its bytes; `name` is for people. `Corrupt`, `Unusable`.
    pub fn decode(bytes: &[u8], name: &str) -> Result<Point> {
        let damaged = |what: &str| {
            let detail = format!("\"{name}\": {what}");
            Error::Corrupt { page: None, detail }
        };
        if bytes.len() < HEADER_BYTES + 4 || &bytes[..8] != MAGIC {
            return Err(damaged("it is too short, or no point of a backup or archive"));
        }
        let (body, sum) = bytes.split_at(bytes.len() - 4);
        let u32_at =
            |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
        let u64_at =
            |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("eight bytes"));
        let version = u32_at(8);
        if version != FORMAT_VERSION && (1..1000).contains(&version) {
            let detail = format!(
                "\"{name}\" has version {version}; this program reads version {FORMAT_VERSION} only"
            );
            return Err(Error::Unusable { detail });
        }
        if crc32c::crc32c(body).to_le_bytes() != sum {
            return Err(damaged("its checksum does not hold"));
        }
        let (ends, manifest) = (u32_at(12) as usize, u32_at(16) as usize);
        let from = HEADER_BYTES + ends * 8;
        if body.len() != from + manifest {
            return Err(damaged("its parts do not fit together"));
        }
        Ok(Point {
            cts: Cts(u64_at(20)),
            from_micros: u64_at(28).cast_signed(),
            wall_micros: u64_at(36).cast_signed(),
            ends: (0..ends).map(|at| LogPosition(u64_at(HEADER_BYTES + at * 8))).collect(),
            manifest: Manifest::decode(&body[from..], name)?,
        })
    }

    /// Reads the file `name`; none if there is none. `Corrupt`, `Unusable`, `Io`.
    pub fn read(disk: &dyn Disk, name: &str) -> Result<Option<Point>> {
        if !disk.exists(name)? {
            return Ok(None);
        }
        let file = disk.open(name, OpenHow::Existing, Direct::No)?;
        let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
        let n = file.read_at(0, &mut bytes)?;
        Point::decode(&bytes[..n], name).map(Some)
    }

    /// Writes it as `name` in `folder` (empty: the directory itself), replacing what has the name.
    /// Blocks until it is durable. `DiskFull`, `Io`.
    pub fn write(&self, disk: &dyn Disk, folder: &str, name: &str) -> Result<()> {
        let whole = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let unfinished = format!("{whole}.tmp");
        if disk.exists(&unfinished)? {
            disk.remove(&unfinished)?;
        }
        let file = disk.open(&unfinished, OpenHow::CreateNew, Direct::No)?;
        file.write_at(0, &self.encode())?;
        file.sync()?;
        disk.rename(&unfinished, &whole)?;
        disk.sync_dir(folder)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::log::manifest::{Incarnation, LogSpan};

    #[test]
    fn a_point_survives_encoding_and_every_changed_byte_is_found() {
        let span = LogSpan { start: LogPosition(4096), cut: None };
        let manifest = Manifest {
            number: 7,
            database: 9,
            page_bytes: 16384,
            clock_offset: 3,
            homes: 2,
            incarnations: vec![Incarnation { number: 4, logs: vec![span; 2] }],
            checkpoint: None,
        };
        let ends = vec![LogPosition(8192), LogPosition(u64::MAX)];
        let point = Point { cts: Cts(12), from_micros: -1, wall_micros: i64::MAX, ends, manifest };
        let mut bytes = point.encode();
        assert_eq!(Point::decode(&bytes, "x").unwrap(), point);
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(Point::decode(&bytes, "x").is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
        assert!(Point::decode(&bytes[..bytes.len() - 1], "x").is_err());
    }
}
