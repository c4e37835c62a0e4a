//! Where in a recording checkpoints were being made.
//!
//! A checkpoint shows as writes to page files, then a manifest that gets its name, then the sync of
//! the folder that makes the name last; log segments that it gave up get new names after that.
//!
//! Invariants: knows files by the names that the recording gives them, and nothing of the kernel. A
//! checkpoint that came to nothing is taken for a part of the next one.

use std::collections::HashMap;

use atoll_kernel::io::Seeded;
use atoll_kernel::io::trace::Event;

/// Bytes of a page file's header, which is no page of a checkpoint.
const HEADER_BYTES: u64 = 16 << 10;
/// Events after a checkpoint, and after a reuse, in which its traces are fresh.
const AFTERMATH_EVENTS: usize = 12;

/// One checkpoint of the recording, by numbers of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Checkpoint {
    /// Its first write to a page file.
    first_write: usize,
    /// Its manifest gets its name.
    named: usize,
    /// The name lasts.
    durable: usize,
}

/// What of a checkpoint had happened before a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// None was being made.
    Between,
    /// Pages were being written or synced.
    Pages,
    /// The manifest had its name, and could lose it.
    Naming,
}

/// Checkpoints of a recording, and what else they bring about.
#[derive(Default)]
pub struct Landmarks {
    checkpoints: Vec<Checkpoint>,
    /// A page file got another extent.
    growths: Vec<usize>,
    /// A log segment was used again.
    reused: Vec<usize>,
}

impl Landmarks {
    /// Finds them.
    pub fn find(events: &[Event]) -> Landmarks {
        let mut found = Landmarks::default();
        let mut lengths: HashMap<u32, u64> = HashMap::new();
        let (mut first_write, mut named) = (None, None);
        for (at, event) in events.iter().enumerate() {
            match event {
                Event::Create { file, name } if name.starts_with("pages/") => {
                    lengths.insert(*file, HEADER_BYTES);
                }
                Event::WriteStart { file, offset, .. }
                    if lengths.contains_key(file) && *offset >= HEADER_BYTES =>
                {
                    first_write.get_or_insert(at);
                }
                Event::Allocate { file, bytes } => {
                    if let Some(length) = lengths.get_mut(file).filter(|it| **it < *bytes) {
                        *length = *bytes;
                        found.growths.push(at);
                    }
                }
                Event::Rename { to, .. } if to.starts_with("MANIFEST.") => named = Some(at),
                Event::Rename { to, .. } if to.ends_with(".seg") => found.reused.push(at),
                Event::SyncFolder { name } if name.is_empty() => {
                    // The first manifest of all comes before any page.
                    if let (Some(first_write), Some(named)) = (first_write, named) {
                        found.checkpoints.push(Checkpoint { first_write, named, durable: at });
                    }
                    if named.take().is_some() {
                        first_write = None;
                    }
                }
                _ => {}
            }
        }
        if let Some(first_write) = first_write {
            // The recording ends within it.
            let (named, durable) = (named.unwrap_or(events.len()), events.len());
            found.checkpoints.push(Checkpoint { first_write, named, durable });
        }
        found
    }

    /// How many checkpoints were begun.
    pub fn checkpoints(&self) -> usize {
        self.checkpoints.len()
    }

    /// How many extents page files got.
    pub fn growths(&self) -> usize {
        self.growths.len()
    }

    /// How many log segments were used again.
    pub fn reused(&self) -> usize {
        self.reused.len()
    }

    /// What was going on when `point` events had happened.
    pub fn stage(&self, point: usize) -> Stage {
        let ended = self.checkpoints.partition_point(|it| it.durable < point);
        match self.checkpoints.get(ended) {
            Some(it) if it.named < point => Stage::Naming,
            Some(it) if it.first_write < point => Stage::Pages,
            _ => Stage::Between,
        }
    }

    /// Whether a log segment was used again within the last events before `point`, so that its names
    /// may be the old ones still.
    pub fn reused_just_before(&self, point: usize) -> bool {
        let before = self.reused.partition_point(|at| *at < point);
        before > 0 && self.reused[before - 1] + AFTERMATH_EVENTS >= point
    }

    /// A point within a checkpoint or shortly after it; none without a checkpoint.
    pub fn draw(&self, random: &mut Seeded) -> Option<usize> {
        let mut below = |count: usize| random.below(count.max(1) as u64) as usize;
        let it = self.checkpoints.get(below(self.checkpoints.len()))?;
        let (from, to) = match below(3) {
            0 => (it.first_write, it.named),
            1 => (it.named, it.durable),
            _ => (it.durable, it.durable + AFTERMATH_EVENTS),
        };
        Some(from + 1 + below(to - from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_found_between_their_first_page_and_their_name() {
        let write = |file, offset| Event::WriteStart {
            op: 1,
            file,
            offset,
            durability: atoll_kernel::io::Durability::Volatile,
            bytes: vec![1],
        };
        let name =
            |from: &str, to: &str| Event::Rename { from: from.to_owned(), to: to.to_owned() };
        let sync = |name: &str| Event::SyncFolder { name: name.to_owned() };
        let events = [
            name("MANIFEST.tmp", "MANIFEST.1"),
            sync(""),
            Event::Create { file: 7, name: "pages/0000.pages.new".to_owned() },
            write(7, 0),
            name("pages/0000.pages.new", "pages/0000.pages"),
            sync("pages"),
            sync(""),
            Event::Allocate { file: 7, bytes: 257 * HEADER_BYTES },
            write(7, 5 * HEADER_BYTES),
            write(3, 5 * HEADER_BYTES),
            name("MANIFEST.tmp", "MANIFEST.2"),
            sync(""),
            name("log/0000/000000000001.seg", "log/0000/000000000003.seg"),
            write(7, 9 * HEADER_BYTES),
        ];
        let found = Landmarks::find(&events);
        assert_eq!((found.checkpoints(), found.growths(), found.reused()), (2, 1, 1));
        let stages: Vec<Stage> = (0..=events.len()).map(|point| found.stage(point)).collect();
        let (between, pages, naming) = (Stage::Between, Stage::Pages, Stage::Naming);
        assert_eq!(stages[..9], [between; 9]);
        assert_eq!(stages[9..], [pages, pages, naming, between, between, pages]);
        assert!(!found.reused_just_before(12) && found.reused_just_before(13));
        let mut random = Seeded::new(1);
        assert!((0..100).all(|_| found.draw(&mut random).is_some_and(|point| point > 8)));
    }
}
