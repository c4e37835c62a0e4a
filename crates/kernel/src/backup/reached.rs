//! What a data directory remembers of how far its logs are archived: the file `REACHED`.
//!
//! Two slots: a note of the newest point that the archive has and, while that gets another, of this. If the
//! archive's is not noted, somebody else archives there, or one of the directories was set back to an earlier
//! state (backup rule 9).
//!
//! Invariants: a note is durable before the archive gets its point, and beside that of the point that
//! the archive has then, which goes when the archive has the other. The file is made with the manifest of an incarnation, and its slots are written in
//! place: archiving lets go of logs, so it must not need room on a disk that they have filled.
//! One thread writes. Every byte: docs/format/backup.md.

use super::Point;
use crate::base::{Cts, Error, Result};
use crate::io::{Direct, Disk, OpenHow};

/// The file's name.
pub(super) const REACHED_NAME: &str = "REACHED";

const MAGIC: &[u8; 8] = b"ATOLLRCH";
const FORMAT_VERSION: u32 = 1;
/// Where the second slot begins: a torn write does not reach the other.
const SLOT_BYTES: u64 = 4096;
const NOTE_BYTES: usize = 60;

/// A point as it is told from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    incarnation: u32,
    checkpoint: u64,
    timestamp: Cts,
    cts: Cts,
    wall_micros: i64,
    /// The checksum at its end.
    sum: u32,
    /// Whether the archive had none before: if it has none it was not written, perhaps.
    is_first: bool,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Empty,
    Note(Note),
    Damaged,
}

/// How a point in an archive is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It was archived from here.
    Own,
    /// Another one was that this may have preceded.
    Older,
    /// It never was.
    No,
}

/// The two slots.
#[derive(Debug)]
pub(super) struct Reached {
    slots: [Slot; 2],
}

impl Slot {
    fn is_of(&self, point: &Point) -> bool {
        matches!(self, Slot::Note(note) if note.is_of(&Note::of(point)))
    }
}

impl Note {
    fn of(point: &Point) -> Note {
        let checkpoint = point.manifest.checkpoint.as_ref();
        let bytes = point.encode();
        let sum = bytes.last_chunk().map_or(0, |sum| u32::from_le_bytes(*sum));
        Note {
            incarnation: point.incarnation(),
            checkpoint: checkpoint.map_or(0, |it| it.number),
            timestamp: checkpoint.map_or(Cts::ZERO, |it| it.timestamp),
            cts: point.cts,
            wall_micros: point.wall_micros,
            sum,
            is_first: false,
        }
    }

    /// Whether it is of the same point.
    fn is_of(&self, other: &Note) -> bool {
        Note { is_first: other.is_first, ..*self } == *other
    }

    fn encode(&self) -> [u8; NOTE_BYTES] {
        let mut out = [0; NOTE_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.incarnation.to_le_bytes());
        out[16..24].copy_from_slice(&self.checkpoint.to_le_bytes());
        out[24..32].copy_from_slice(&self.timestamp.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.cts.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.wall_micros.to_le_bytes());
        out[48..52].copy_from_slice(&self.sum.to_le_bytes());
        out[52..56].copy_from_slice(&u32::from(self.is_first).to_le_bytes());
        let sum = crc32c::crc32c(&out[..56]);
        out[56..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Result<Slot> {
        let u32_at =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(Slot::Empty);
        }
        if &bytes[..8] != MAGIC || crc32c::crc32c(&bytes[..56]) != u32_at(56) {
            return Ok(Slot::Damaged);
        }
        let version = u32_at(8);
        if version != FORMAT_VERSION {
            let detail = format!(
                "\"{REACHED_NAME}\" has version {version}; this program reads version \
                 {FORMAT_VERSION} only"
            );
            return Err(Error::Unusable { detail });
        }
        Ok(Slot::Note(Note {
            incarnation: u32_at(12),
            checkpoint: u64_at(16),
            timestamp: Cts(u64_at(24)),
            cts: Cts(u64_at(32)),
            wall_micros: u64_at(40).cast_signed(),
            sum: u32_at(48),
            is_first: u32_at(52) != 0,
        }))
    }
}

impl Reached {
    /// Makes the file if it is not there. Blocks until it is durable; its name is when the directory was
    /// synced. `DiskFull`, `Io`.
    pub fn make(disk: &dyn Disk) -> Result<()> {
        if disk.exists(REACHED_NAME)? {
            return Ok(());
        }
        let file = disk.open(REACHED_NAME, OpenHow::CreateOrOpen, Direct::No)?;
        file.write_at(0, &[0; 2 * SLOT_BYTES as usize])?;
        file.sync()
    }

    /// Of the directory `disk`; empty if the file is not there. `Unusable` if it is of another version; `Io`.
    pub fn read(disk: &dyn Disk) -> Result<Reached> {
        let mut slots = [Slot::Empty; 2];
        if !disk.exists(REACHED_NAME)? {
            return Ok(Reached { slots });
        }
        let file = disk.open(REACHED_NAME, OpenHow::Existing, Direct::No)?;
        for (slot, at) in slots.iter_mut().zip([0, SLOT_BYTES]) {
            let mut bytes = [0; NOTE_BYTES];
            file.read_at(at, &mut bytes)?;
            *slot = Note::decode(&bytes)?;
        }
        Ok(Reached { slots })
    }

    fn notes(&self) -> impl Iterator<Item = &Note> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Note(note) => Some(note),
            Slot::Empty | Slot::Damaged => None,
        })
    }

    /// `Corrupt` if a slot is damaged.
    pub fn check(&self) -> Result<()> {
        match self.slots.contains(&Slot::Damaged) {
            true => {
                let detail = format!("\"{REACHED_NAME}\": its checksum does not hold");
                Err(Error::Corrupt { page: None, detail })
            }
            false => Ok(()),
        }
    }

    /// How a point that the archive has is known here. `Corrupt` if that cannot be told.
    pub fn knows(&self, point: &Point) -> Result<Known> {
        let found = Note::of(point);
        if self.notes().any(|note| note.is_of(&found)) {
            return Ok(Known::Own);
        }
        self.check()?;
        let is_older =
            |note: &Note| found.checkpoint < note.checkpoint && found.timestamp <= note.timestamp;
        Ok(if self.notes().any(is_older) { Known::Older } else { Known::No })
    }

    /// Whether the archive has had a point of `incarnation` for certain.
    pub fn had(&self, incarnation: u32) -> bool {
        self.notes().any(|note| note.incarnation == incarnation && !note.is_first)
    }

    /// Notes that the archive is about to get `next`, and has `present`, which is noted. Blocks until it is
    /// durable. `Io`; `DiskFull` if the file is not there and cannot be made.
    pub fn note(disk: &dyn Disk, present: Option<&Point>, next: &Point) -> Result<()> {
        Reached::make(disk)?;
        let known = Reached::read(disk)?;
        let is_kept = present.is_some_and(|present| known.slots[0].is_of(present));
        let at = if is_kept { SLOT_BYTES } else { 0 };
        let note = Note { is_first: present.is_none(), ..Note::of(next) };
        let file = disk.open(REACHED_NAME, OpenHow::Existing, Direct::No)?;
        file.write_at(at, &note.encode())?;
        file.sync()
    }

    /// The archive has `point`, and what it had before counts no more. Blocks until it is durable. `Io`.
    pub fn settle(disk: &dyn Disk, point: &Point) -> Result<()> {
        let file = disk.open(REACHED_NAME, OpenHow::Existing, Direct::No)?;
        let (known, settled) = (Reached::read(disk)?, Note::of(point));
        let at = match known.slots.iter().position(|slot| *slot == Slot::Note(settled)) {
            Some(at) => at,
            // If it was the archive's first: from now on it must be there. Beside that note, which a torn write
            // would leave nothing of.
            None => {
                let at = usize::from(known.slots[0].is_of(point));
                file.write_at(SLOT_BYTES * at as u64, &settled.encode())?;
                file.sync()?;
                at
            }
        };
        file.write_at(SLOT_BYTES * (1 - at) as u64, &[0; NOTE_BYTES])?;
        file.sync()
    }

    /// What an archive had that is not there any more says nothing. Blocks until it is durable. `Io`.
    pub fn forget(&self, disk: &dyn Disk) -> Result<()> {
        if self.slots == [Slot::Empty; 2] {
            return Ok(());
        }
        let file = disk.open(REACHED_NAME, OpenHow::Existing, Direct::No)?;
        file.write_at(0, &[0; NOTE_BYTES])?;
        file.write_at(SLOT_BYTES, &[0; NOTE_BYTES])?;
        file.sync()
    }
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use super::*;
    use crate::base::LogPosition;
    use crate::io::{IoChoice, MemoryDisk};
    use crate::log::manifest::{Checkpoint, Incarnation, LogSpan, Manifest};

    pub(in crate::backup) fn point(incarnation: u32, checkpoint: u64) -> Point {
        let span = LogSpan { start: LogPosition(0), cut: None };
        let timestamp = Cts(checkpoint * 10);
        let checkpoint = Checkpoint {
            number: checkpoint,
            timestamp,
            incarnation,
            instances: 1,
            oid_next: 1,
            tree_next: 1,
            trees: Vec::new(),
            sequences: Vec::new(),
            longs: Vec::new(),
        };
        let manifest = Manifest {
            number: 7,
            database: 9,
            page_bytes: 16384,
            clock_offset: 3,
            homes: 1,
            incarnations: vec![Incarnation { number: incarnation, logs: vec![span] }],
            checkpoint: Some(checkpoint),
        };
        Point { cts: timestamp, from_micros: 1, wall_micros: 2, ends: Vec::new(), manifest }
    }

    #[test]
    fn a_point_is_noted_before_the_archive_has_it_and_the_one_before_until_then() {
        let disk = MemoryDisk::new(IoChoice::Threads);
        let known = |number: u64| Reached::read(&disk).unwrap().knows(&point(1, number)).unwrap();
        let had = |incarnation: u32| Reached::read(&disk).unwrap().had(incarnation);
        assert_eq!(known(1), Known::No);
        Reached::note(&disk, None, &point(1, 1)).unwrap();
        // It failed, and did again; then one reached the archive.
        Reached::note(&disk, None, &point(1, 2)).unwrap();
        assert_eq!([known(1), known(2), known(3)], [Known::Older, Known::Own, Known::No]);
        assert!(!had(1));
        Reached::settle(&disk, &point(1, 2)).unwrap();
        assert!(had(1));
        assert_eq!([known(1), known(2)], [Known::Older, Known::Own]);
        for number in [3, 4] {
            // It does not know whether this one did.
            Reached::note(&disk, Some(&point(1, 2)), &point(1, number)).unwrap();
            assert_eq!([known(2), known(number), known(5)], [Known::Own, Known::Own, Known::No]);
            assert!(had(1) && !had(2));
        }
        assert_eq!(known(3), Known::Older);
        Reached::settle(&disk, &point(1, 4)).unwrap();
        assert_eq!([known(2), known(4)], [Known::Older, Known::Own]);
        assert!(had(1) && !had(2));
        Reached::note(&disk, Some(&point(1, 4)), &point(1, 5)).unwrap();
        // It did, and that was not noted.
        Reached::note(&disk, Some(&point(1, 5)), &point(1, 6)).unwrap();
        assert_eq!([known(4), known(5), known(6)], [Known::Older, Known::Own, Known::Own]);
        Reached::read(&disk).unwrap().forget(&disk).unwrap();
        assert_eq!(known(6), Known::No);
    }

    #[test]
    fn a_torn_slot_is_of_what_no_archive_has_and_damage_is_told() {
        let disk = MemoryDisk::new(IoChoice::Threads);
        Reached::note(&disk, None, &point(1, 1)).unwrap();
        Reached::note(&disk, Some(&point(1, 1)), &point(1, 2)).unwrap();
        let file = disk.open(REACHED_NAME, OpenHow::Existing, Direct::No).unwrap();
        let good = Note::of(&point(1, 2)).encode();
        for at in 0..NOTE_BYTES {
            let mut bad = good;
            bad[at] ^= 1;
            file.write_at(SLOT_BYTES, &bad).unwrap();
            let reached = Reached::read(&disk).unwrap();
            assert_eq!(reached.knows(&point(1, 1)), Ok(Known::Own));
            let told = reached.knows(&point(1, 2));
            assert!(matches!(told, Err(Error::Corrupt { .. })), "byte {at}: {told:?}");
        }
        let mut other = good;
        other[8] = 2;
        let sum = crc32c::crc32c(&other[..56]);
        other[56..].copy_from_slice(&sum.to_le_bytes());
        file.write_at(SLOT_BYTES, &other).unwrap();
        assert!(matches!(Reached::read(&disk), Err(Error::Unusable { .. })));
    }
}
