//! Where in a recording checkpoints were being made, and pages left memory and came back.
//!
//! A checkpoint shows as writes to page files, then a manifest that gets its name, then the sync of
//! the folder that makes the name last; log segments that it gave up get new names after that.
//!
//! What the pool does shows in what the recorder has noted of the server's counts between events.
//!
//! Invariants: knows files by the names that the recording gives them, and nothing of the kernel. A
//! checkpoint that came to nothing is taken for a part of the next one, and so are pages that were
//! written to be evicted since the last one.

use std::collections::HashMap;

use atoll_kernel::io::Seeded;
use atoll_kernel::io::trace::Event;

use super::note::{Note, Traffic};

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
    /// Whether it moved leaves from the ends of files.
    compacts: bool,
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
    /// Page files became shorter.
    cuts: usize,
    /// What the pool had done, by numbers of events.
    traffic: Vec<(usize, Traffic)>,
}

/// What the pool did about a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swapping {
    /// Pages were evicted.
    pub evicts: bool,
    /// Pages were loaded.
    pub loads: bool,
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
                        let compacts = false;
                        let durable = at;
                        found.checkpoints.push(Checkpoint {
                            first_write,
                            named,
                            durable,
                            compacts,
                        });
                    }
                    if named.take().is_some() {
                        first_write = None;
                    }
                }
                Event::Truncate { file, bytes } => {
                    if let Some(length) = lengths.get_mut(file) {
                        *length = *bytes;
                        found.cuts += 1;
                    }
                }
                Event::Note { bytes } => {
                    if let Some(Note::Traffic(now)) = Note::read(bytes) {
                        found.hear(at, now);
                    }
                }
                _ => {}
            }
        }
        if let Some(first_write) = first_write {
            // The recording ends within it.
            let (named, durable) = (named.unwrap_or(events.len()), events.len());
            found.checkpoints.push(Checkpoint { first_write, named, durable, compacts: false });
        }
        found
    }

    fn hear(&mut self, at: usize, now: Traffic) {
        let before = self.traffic().moved;
        self.traffic.push((at, now));
        // The newest one that is there to stay did that: it is counted when it is published.
        if let Some(newest) = self.checkpoints.last_mut().filter(|_| now.moved > before) {
            newest.compacts = true;
        }
    }

    /// What the pool did in all.
    pub fn traffic(&self) -> Traffic {
        self.traffic.last().map_or(Traffic::default(), |(_, traffic)| *traffic)
    }

    /// How often page files became shorter.
    pub fn cuts(&self) -> usize {
        self.cuts
    }

    /// What the pool did between the looks at it before and after `point`.
    pub fn swapping(&self, point: usize) -> Swapping {
        let after = self.traffic.partition_point(|(at, _)| *at < point);
        let (Some((_, now)), Some(before)) = (self.traffic.get(after), after.checked_sub(1)) else {
            return Swapping { evicts: false, loads: false };
        };
        let before = self.traffic[before].1;
        Swapping { evicts: now.evicted > before.evicted, loads: now.loaded > before.loaded }
    }

    /// Whether a checkpoint that moved leaves was being made.
    pub fn is_compacting(&self, point: usize) -> bool {
        let ended = self.checkpoints.partition_point(|it| it.durable < point);
        self.checkpoints.get(ended).is_some_and(|it| it.compacts && it.first_write < point)
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

    /// A point within a checkpoint or shortly after it, half of the time one that moved leaves; none
    /// without a checkpoint.
    pub fn draw(&self, random: &mut Seeded) -> Option<usize> {
        let mut below = |count: usize| random.below(count.max(1) as u64) as usize;
        let compacting: Vec<_> = self.checkpoints.iter().filter(|it| it.compacts).collect();
        let it = match (compacting.as_slice(), below(2)) {
            ([_, ..], 0) => compacting[below(compacting.len())],
            _ => self.checkpoints.get(below(self.checkpoints.len()))?,
        };
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

    #[test]
    fn what_the_pool_did_shows_between_two_looks_at_it() {
        let look = |evicted, loaded, moved| {
            let mut bytes = vec![5];
            [evicted, loaded, moved].iter().for_each(|n: &u64| bytes.extend(n.to_le_bytes()));
            Event::Note { bytes }
        };
        let name = |to: &str| Event::Rename { from: "MANIFEST.tmp".to_owned(), to: to.to_owned() };
        let write = Event::WriteStart {
            op: 1,
            file: 7,
            offset: HEADER_BYTES,
            durability: atoll_kernel::io::Durability::Volatile,
            bytes: vec![1],
        };
        let checkpoint = |to| [write.clone(), name(to), Event::SyncFolder { name: String::new() }];
        let mut events = vec![Event::Create { file: 7, name: "pages/0000.pages".to_owned() }];
        events.extend([look(0, 0, 0), look(4, 0, 0), look(4, 9, 0)]);
        events.extend(checkpoint("MANIFEST.2"));
        events.push(look(4, 9, 0));
        events.extend(checkpoint("MANIFEST.3"));
        events.push(Event::Truncate { file: 7, bytes: 5 * HEADER_BYTES });
        events.push(look(4, 9, 2));
        let found = Landmarks::find(&events);
        assert_eq!(found.traffic(), Traffic { evicted: 4, loaded: 9, moved: 2 });
        assert_eq!((found.cuts(), found.checkpoints()), (1, 2));
        let points = 0..=events.len();
        let evicts: Vec<usize> = points.clone().filter(|at| found.swapping(*at).evicts).collect();
        let loads: Vec<usize> = points.clone().filter(|at| found.swapping(*at).loads).collect();
        assert_eq!((evicts, loads), (vec![2], vec![3]));
        let compacting: Vec<usize> = points.filter(|at| found.is_compacting(*at)).collect();
        assert_eq!(compacting, [9, 10]);
    }
}
