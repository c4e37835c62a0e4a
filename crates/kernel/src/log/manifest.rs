//! The manifest: what a database is and which part of each log counts (rules 9.1, 9.4).
//!
//! Invariants: a manifest is swapped atomically and its number grows; the last incarnation is
//! the running one and has no cuts; earlier ones have a cut for every log they wrote.

use crate::base::{Cts, Error, HomeId, INSTANCES_MAX, LogPosition, Place, Result, TreeId};
use crate::io::{Direct, Disk, LOCK_NAME, OpenHow};
use crate::store::LongPlaces;
use crate::sync::mutant;

/// The version of everything on disk that this program reads and writes.
pub const FORMAT_VERSION: u32 = 5;

/// What a data directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Grows with every swap.
    pub number: u64,
    /// Chosen at random when the database was made; in every segment header.
    pub database: u128,
    /// Bytes of a page, fixed at creation.
    pub page_bytes: u32,
    /// Added to clock cycles so that timestamps are above every one found on disk (rule 3.1).
    pub clock_offset: u64,
    /// How many homes there are.
    pub homes: u16,
    /// All incarnations of which a log is kept, oldest first; the last one is running.
    pub incarnations: Vec<Incarnation>,
    /// The published checkpoint, if there is one; the logs begin at or before its timestamp.
    pub checkpoint: Option<Checkpoint>,
}

/// A global checkpoint: everything that committed below its timestamp, as pages (section 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Grows with every checkpoint.
    pub number: u64,
    /// S: it holds exactly the commits below.
    pub timestamp: Cts,
    /// The incarnation that made it, and how many instances that had: each of them had a log
    /// segment where the manifest says that its part begins.
    pub incarnation: u32,
    /// As above.
    pub instances: u32,
    /// Numbers of objects and trees from here on were never used.
    pub oid_next: u32,
    /// As above.
    pub tree_next: u32,
    /// The trees, the catalog's own among them.
    pub trees: Vec<TreeImage>,
    /// Where sequences stand.
    pub sequences: Vec<SequenceImage>,
    /// The long values that it has, by home: those that rows refer to, and some of others.
    pub longs: Vec<LongPlaces>,
}

/// One tree of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeImage {
    /// The tree.
    pub tree: TreeId,
    /// Its root page, an inner node.
    pub root: Place,
    /// Whether rows may have long values.
    pub longs: HasLongs,
    /// A table's row ids from here on were never used; of no meaning for an index.
    pub rows_next: u64,
    /// Leaves.
    pub leaves: u64,
}

/// Whether rows of a tree may have long values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HasLongs {
    /// They may.
    Yes,
    /// None has.
    No,
}

/// Where a sequence stands in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceImage {
    /// The number of its values.
    pub values: TreeId,
    /// The record that says so; zero if it is older than the logs.
    pub cts: Cts,
    /// Its last value.
    pub last: i64,
    /// Whether that was handed out.
    pub called: bool,
}

/// One life of the database between two starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// Its number; grows.
    pub number: u32,
    /// One for every home it had: where its part of the log begins and ends.
    pub logs: Vec<LogSpan>,
}

/// The part of a home's log that one incarnation wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSpan {
    /// Where its first segment begins.
    pub start: LogPosition,
    /// Where it ends, once recovery has cut it; `None` while it runs.
    pub cut: Option<Cut>,
}

/// Where a log ends (rule 9.3): what lies before `position` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The log.
    pub home: HomeId,
    /// One past the last byte that counts.
    pub position: LogPosition,
    /// The largest cts that counts, over all incarnations of this log.
    pub cts: Cts,
}

const MAGIC: &[u8; 8] = b"ATOLLMAN";
const PREFIX: &str = "MANIFEST.";
const TEMPORARY: &str = "MANIFEST.tmp";
const HEADER_BYTES: usize = 56;
const INCARNATION_BYTES: usize = 8;
const SPAN_BYTES: usize = 32;

/// What may lie in a data directory before its first manifest does.
const ALLOWED_BEFORE: [&str; 5] = [LOCK_NAME, TEMPORARY, "log", "atoll.toml", "lost+found"];

impl Manifest {
    /// Reads the newest whole manifest; `None` in a directory that is new. Changes nothing.
    /// Names what it refuses: other versions and foreign files (`Unusable`), damage (`Corrupt`).
    pub fn read(disk: &dyn Disk) -> Result<Option<Manifest>> {
        let numbers = Self::numbers(disk)?;
        let mut damage = Vec::new();
        for &number in numbers.iter().rev() {
            let name = file_name(number);
            match Self::decode(&read_whole(disk, &name)?, &name) {
                Ok(manifest) if manifest.number == number => return Ok(Some(manifest)),
                Ok(other) => damage.push(format!("\"{name}\" says that it is {}", other.number)),
                // Not whole: an older one may be, and the logs tell whether it is too old.
                Err(Error::Corrupt { detail, .. }) => damage.push(detail),
                Err(other) => return Err(other),
            }
        }
        if !damage.is_empty() {
            return Err(Error::Corrupt { page: None, detail: damage.join("; ") });
        }
        Self::check_new(disk).map(|()| None)
    }

    /// Refuses a directory without a manifest that holds anything else.
    fn check_new(disk: &dyn Disk) -> Result<()> {
        let names = disk.list("")?;
        if let Some(foreign) = names.iter().find(|name| !ALLOWED_BEFORE.contains(&name.as_str())) {
            let detail = format!(
                "this is not an Atoll data directory: it holds \"{foreign}\" and no manifest; \
                 name an empty directory"
            );
            return Err(Error::Unusable { detail });
        }
        for home in disk.list("log")? {
            if let Some(segment) = disk.list(&format!("log/{home}"))?.first() {
                let detail = format!("\"log/{home}/{segment}\" is there, but no manifest");
                return Err(Error::Corrupt { page: None, detail });
            }
        }
        Ok(())
    }

    /// Numbers of the manifests in the directory, ascending.
    fn numbers(disk: &dyn Disk) -> Result<Vec<u64>> {
        let names = disk.list("")?;
        let number = |name: &String| name.strip_prefix(PREFIX).and_then(|n| n.parse().ok());
        let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A number above those of all manifests in the directory, whole or not.
    pub fn next_number(disk: &dyn Disk) -> Result<u64> {
        Ok(Self::numbers(disk)?.last().map_or(1, |newest| newest + 1))
    }

    /// Makes this the directory's manifest. Blocks until it is durable; its number must exceed
    /// every one on disk. Until there is a checkpoint the one before it is kept; older ones go.
    pub fn swap(&self, disk: &dyn Disk) -> Result<()> {
        let numbers = Self::numbers(disk)?;
        let newest = numbers.last().copied().unwrap_or(0);
        if self.number <= newest {
            let detail = format!("manifest {} would follow {newest}", self.number);
            return Err(Error::Internal { detail });
        }
        if disk.exists(TEMPORARY)? {
            disk.remove(TEMPORARY)?;
        }
        let file = disk.open(TEMPORARY, OpenHow::CreateNew, Direct::No)?;
        file.write_at(0, &self.encode())?;
        if !mutant("manifest-not-synced") {
            file.sync()?;
        }
        disk.rename(TEMPORARY, &file_name(self.number))?;
        disk.sync_dir("")?;
        // What an older one refers to may be gone after a checkpoint, so none is kept then.
        let kept = if self.checkpoint.is_some() { self.number } else { newest };
        for &old in numbers.iter().filter(|&&number| number < kept) {
            disk.remove(&file_name(old))?;
        }
        Ok(())
    }

    /// The running incarnation.
    pub fn current(&self) -> &Incarnation {
        self.incarnations.last().expect("a manifest has an incarnation")
    }

    /// The largest cts of `home` that is stable when the running incarnation begins: what earlier
    /// ones left, or the checkpoint has.
    pub fn base(&self, home: HomeId) -> Cts {
        self.cut_base(home).max(self.before_checkpoint())
    }

    /// The largest cts of `home` that earlier incarnations left in the log.
    pub fn cut_base(&self, home: HomeId) -> Cts {
        let cuts = self.incarnations.iter().filter_map(|i| i.logs.get(usize::from(home.0))?.cut);
        cuts.map(|cut| cut.cts).max().unwrap_or(Cts::ZERO)
    }

    /// Whether the running incarnation's part of the log of `home` must have its first segment.
    pub fn must_begin(&self, home: HomeId) -> bool {
        self.checkpoint.as_ref().is_some_and(|checkpoint| {
            checkpoint.incarnation == self.current().number
                && u32::from(home.0) < checkpoint.instances
        })
    }

    /// The largest timestamp below that of the checkpoint: what committed by then is in it, whether
    /// or not a log has it still.
    pub fn before_checkpoint(&self) -> Cts {
        let timestamp = self.checkpoint.as_ref().map(|checkpoint| checkpoint.timestamp);
        timestamp.map_or(Cts::ZERO, |timestamp| Cts(timestamp.0 - 1))
    }

    /// The manifest's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&self.page_bytes.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.database.to_le_bytes());
        out.extend_from_slice(&self.clock_offset.to_le_bytes());
        out.extend_from_slice(&self.homes.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        let count = u32::try_from(self.incarnations.len()).expect("a few at most");
        out.extend_from_slice(&count.to_le_bytes());
        for incarnation in &self.incarnations {
            out.extend_from_slice(&incarnation.number.to_le_bytes());
            let logs = u16::try_from(incarnation.logs.len()).expect("at most 512 homes");
            out.extend_from_slice(&logs.to_le_bytes());
            out.extend_from_slice(&[0, 0]);
            for span in &incarnation.logs {
                let (has_cut, position, cts) =
                    span.cut.map_or((0, 0, 0), |cut| (1u64, cut.position.0, cut.cts.0));
                for word in [span.start.0, has_cut, position, cts] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
            }
        }
        self.encode_checkpoint(&mut out);
        let sum = crc32c::crc32c(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    fn encode_checkpoint(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&u32::from(self.checkpoint.is_some()).to_le_bytes());
        let Some(checkpoint) = &self.checkpoint else { return };
        out.extend_from_slice(&checkpoint.number.to_le_bytes());
        out.extend_from_slice(&checkpoint.timestamp.0.to_le_bytes());
        let counts = [checkpoint.trees.len(), checkpoint.sequences.len()];
        let [trees, sequences] = counts.map(|n| u32::try_from(n).expect("numbers have 32 bits"));
        let Checkpoint { incarnation, instances, oid_next, tree_next, .. } = *checkpoint;
        for word in [incarnation, instances, oid_next, tree_next, trees, sequences] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for tree in &checkpoint.trees {
            out.extend_from_slice(&tree.tree.0.to_le_bytes());
            let longs = u32::from(tree.longs == HasLongs::Yes);
            out.extend_from_slice(&longs.to_le_bytes());
            for word in [tree.root.0, tree.rows_next, tree.leaves] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        for sequence in &checkpoint.sequences {
            out.extend_from_slice(&sequence.values.0.to_le_bytes());
            out.extend_from_slice(&u32::from(sequence.called).to_le_bytes());
            out.extend_from_slice(&sequence.cts.0.to_le_bytes());
            out.extend_from_slice(&sequence.last.to_le_bytes());
        }
        let homes = u32::try_from(checkpoint.longs.len()).expect("at most 512 homes");
        out.extend_from_slice(&homes.to_le_bytes());
        checkpoint.longs.iter().for_each(|places| places.encode(out));
    }

    /// Reads a manifest from its bytes; `name` is for people.
    pub fn decode(bytes: &[u8], name: &str) -> Result<Manifest> {
        let damaged =
            |what: &str| Error::Corrupt { page: None, detail: format!("\"{name}\": {what}") };
        if bytes.len() < HEADER_BYTES + 4 {
            return Err(damaged("too short"));
        }
        if &bytes[..8] != MAGIC {
            return Err(damaged("not a manifest"));
        }
        let (body, sum) = bytes.split_at(bytes.len() - 4);
        let mut input = Input { bytes: &body[8..] };
        let version = input.u32().ok_or_else(|| damaged("too short"))?;
        if crc32c::crc32c(body).to_le_bytes() != sum {
            // A future version may put its checksum elsewhere: say the version if it is sane.
            return Err(match version {
                FORMAT_VERSION => damaged("its checksum does not hold"),
                other if (1..1000).contains(&other) => other_version(name, other),
                _ => damaged("its checksum does not hold"),
            });
        }
        if version != FORMAT_VERSION {
            return Err(other_version(name, version));
        }
        Self::decode_body(&mut input).ok_or_else(|| damaged("its parts do not fit together"))
    }

    fn decode_body(input: &mut Input<'_>) -> Option<Manifest> {
        let page_bytes = input.u32()?;
        let number = input.u64()?;
        let database = u128::from(input.u64()?) | u128::from(input.u64()?) << 64;
        let clock_offset = input.u64()?;
        let homes = input.u16()?;
        input.u16()?;
        let count = input.u32()?;
        let mut incarnations = Vec::new();
        for _ in 0..count {
            incarnations.push(Self::decode_incarnation(input)?);
        }
        let checkpoint = match input.u32()? {
            0 => None,
            1 => Some(Self::decode_checkpoint(input)?),
            _ => return None,
        };
        let ascending = incarnations.is_sorted_by(|a: &Incarnation, b| a.number < b.number);
        let last = incarnations.last()?;
        let running = last.logs.len() == usize::from(homes)
            && last.logs.iter().all(|span| span.cut.is_none());
        let sane = ascending
            && running
            && usize::from(homes) <= INSTANCES_MAX
            && homes > 0
            && checkpoint.as_ref().is_none_or(|it| it.longs.len() <= usize::from(homes))
            && input.bytes.is_empty();
        let manifest = Manifest {
            number,
            database,
            page_bytes,
            clock_offset,
            homes,
            incarnations,
            checkpoint,
        };
        sane.then_some(manifest)
    }

    fn decode_checkpoint(input: &mut Input<'_>) -> Option<Checkpoint> {
        let (number, timestamp) = (input.u64()?, Cts(input.u64()?));
        let (incarnation, instances) = (input.u32()?, input.u32()?);
        let (oid_next, tree_next) = (input.u32()?, input.u32()?);
        let (trees, sequences) = (input.u32()?, input.u32()?);
        let trees = (0..trees).map(|_| {
            Some(TreeImage {
                tree: TreeId(input.u32()?),
                longs: if input.u32()? == 0 { HasLongs::No } else { HasLongs::Yes },
                root: Place(input.u64()?),
                rows_next: input.u64()?,
                leaves: input.u64()?,
            })
        });
        let trees = trees.collect::<Option<_>>()?;
        let sequences = (0..sequences).map(|_| {
            Some(SequenceImage {
                values: TreeId(input.u32()?),
                called: input.u32()? == 1,
                cts: Cts(input.u64()?),
                last: input.u64()? as i64,
            })
        });
        let sequences = sequences.collect::<Option<_>>()?;
        let homes = input.u32()?;
        let longs = (0..homes).map(|_| LongPlaces::decode(&mut input.bytes));
        let longs = longs.collect::<Option<_>>()?;
        Some(Checkpoint {
            number,
            timestamp,
            incarnation,
            instances,
            oid_next,
            tree_next,
            trees,
            sequences,
            longs,
        })
    }

    fn decode_incarnation(input: &mut Input<'_>) -> Option<Incarnation> {
        let number = input.u32()?;
        let logs = input.u16()?;
        input.u16()?;
        let mut spans = Vec::new();
        for home in 0..logs {
            let start = LogPosition(input.u64()?);
            let has_cut = input.u64()?;
            let (position, cts) = (LogPosition(input.u64()?), Cts(input.u64()?));
            let cut = (has_cut == 1).then_some(Cut { home: HomeId(home), position, cts });
            spans.push(LogSpan { start, cut });
        }
        Some(Incarnation { number, logs: spans })
    }
}

const _: () = assert!(INCARNATION_BYTES == 4 + 2 + 2 && SPAN_BYTES == 4 * 8);

fn other_version(name: &str, version: u32) -> Error {
    let detail = format!(
        "\"{name}\" was written by format version {version}; this program reads version \
         {FORMAT_VERSION} only"
    );
    Error::Unusable { detail }
}

fn file_name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

fn read_whole(disk: &dyn Disk, name: &str) -> Result<Vec<u8>> {
    let file = disk.open(name, OpenHow::Existing, Direct::No)?;
    // 28 bytes a tree; what is longer than any database's is no manifest.
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX).min(1 << 36);
    let mut bytes = vec![0; len];
    let n = file.read_at(0, &mut bytes)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Takes little-endian words from the front of bytes.
struct Input<'a> {
    bytes: &'a [u8],
}

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (word, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*word)
    }
    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{IoChoice, MemoryDisk};

    fn manifest(number: u64) -> Manifest {
        let span = |start, cut| LogSpan { start: LogPosition(start), cut };
        let cut = Cut { home: HomeId(0), position: LogPosition(5000), cts: Cts(77) };
        Manifest {
            number,
            database: 9 << 90 | 4,
            page_bytes: 16384,
            clock_offset: 12345,
            homes: 2,
            incarnations: vec![
                Incarnation { number: 1, logs: vec![span(0, Some(cut))] },
                Incarnation { number: 4, logs: vec![span(8192, None), span(0, None)] },
            ],
            checkpoint: None,
        }
    }

    #[test]
    fn survives_encoding_and_finds_every_changed_byte() {
        let manifest = manifest(3);
        let mut bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes, "m"), Ok(manifest.clone()));
        assert_eq!(manifest.base(HomeId(0)), Cts(77));
        assert_eq!(manifest.base(HomeId(1)), Cts::ZERO);
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert!(Manifest::decode(&bytes, "m").is_err(), "byte {at}");
            bytes[at] ^= 0x10;
        }
        assert!(Manifest::decode(&bytes[..bytes.len() - 1], "m").is_err());
    }

    #[test]
    fn a_checkpoint_survives_encoding_and_leaves_no_older_manifest() {
        let tree = |tree, number| TreeImage {
            tree: TreeId(tree),
            root: Place::new(HomeId(1), number),
            longs: if tree == 1 { HasLongs::No } else { HasLongs::Yes },
            rows_next: 900,
            leaves: 3,
        };
        let checkpoint = Checkpoint {
            number: 7,
            timestamp: Cts(500),
            incarnation: 4,
            instances: 2,
            oid_next: 17_000,
            tree_next: 12,
            trees: vec![tree(1, 8), tree(4, 9)],
            sequences: vec![SequenceImage {
                values: TreeId(5),
                cts: Cts(480),
                last: -3,
                called: true,
            }],
            longs: vec![LongPlaces::default(); 2],
        };
        let manifest = Manifest { checkpoint: Some(checkpoint), ..manifest(3) };
        let mut bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes, "m"), Ok(manifest.clone()));
        assert_eq!(manifest.base(HomeId(0)), Cts(499));
        let mut wider = manifest.clone();
        wider.checkpoint.as_mut().unwrap().longs.push(LongPlaces::default());
        assert!(Manifest::decode(&wider.encode(), "m").is_err(), "one a home at most");
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert!(Manifest::decode(&bytes, "m").is_err(), "byte {at}");
            bytes[at] ^= 0x10;
        }
        let disk = MemoryDisk::new(IoChoice::Threads);
        let older = |number| Manifest { number, checkpoint: None, ..manifest.clone() };
        (1..3).for_each(|number| older(number).swap(&disk).unwrap());
        manifest.swap(&disk).unwrap();
        assert_eq!(disk.list("").unwrap(), ["MANIFEST.3"]);
    }

    #[test]
    fn the_newest_whole_one_counts() {
        let disk = MemoryDisk::new(IoChoice::Threads);
        assert_eq!(Manifest::read(&disk), Ok(None));
        for number in [1, 2, 3] {
            manifest(number).swap(&disk).unwrap();
        }
        assert_eq!(disk.list("").unwrap(), ["MANIFEST.2", "MANIFEST.3"]);
        assert!(matches!(manifest(3).swap(&disk), Err(Error::Internal { .. })));
        assert_eq!(Manifest::read(&disk), Ok(Some(manifest(3))));
        let file = disk.open("MANIFEST.3", OpenHow::Existing, Direct::No).unwrap();
        file.write_at(20, &[1]).unwrap();
        assert_eq!(Manifest::read(&disk), Ok(Some(manifest(2))));
        let file = disk.open("MANIFEST.2", OpenHow::Existing, Direct::No).unwrap();
        file.write_at(20, &[1]).unwrap();
        let Err(Error::Corrupt { detail, .. }) = Manifest::read(&disk) else { panic!("taken") };
        assert!(detail.contains("MANIFEST.2") && detail.contains("MANIFEST.3"), "{detail}");
    }

    #[test]
    fn other_versions_and_foreign_directories_are_refused_by_name() {
        let disk = MemoryDisk::new(IoChoice::Threads);
        let mut bytes = manifest(1).encode();
        let end = bytes.len() - 4;
        bytes[8] = 9;
        let sum = crc32c::crc32c(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
        let file = disk.open("MANIFEST.1", OpenHow::CreateNew, Direct::No).unwrap();
        file.write_at(0, &bytes).unwrap();
        let Err(Error::Unusable { detail }) = Manifest::read(&disk) else { panic!("taken") };
        assert!(detail.contains("version 9"), "{detail}");

        let disk = MemoryDisk::new(IoChoice::Threads);
        disk.open("PG_VERSION", OpenHow::CreateNew, Direct::No).unwrap();
        let Err(Error::Unusable { detail }) = Manifest::read(&disk) else { panic!("taken") };
        assert!(detail.contains("PG_VERSION"), "{detail}");

        let disk = MemoryDisk::new(IoChoice::Threads);
        disk.open("log/0000/000000000001.seg", OpenHow::CreateNew, Direct::No).unwrap();
        disk.create_dir("log/0000").unwrap();
        assert!(matches!(Manifest::read(&disk), Err(Error::Corrupt { .. })));
    }
}
