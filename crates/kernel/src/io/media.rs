//! What a disk holds, and what of it survives a crash: the model behind `SimDisk` and behind
//! crash images of recordings.
//!
//! Invariants, for a crash at any moment, by its seed:
//! 1. A sector (512 bytes) of which a durable write has completed, or that a completed sync
//!    covers (the write had completed before the sync began), holds that write or a later one.
//! 2. Every other write, completed or in flight, is kept, lost, or torn between sectors, each
//!    for itself: so later writes may survive earlier ones.
//! 3. A file's length is at least what a completed durable write or sync covered since it was last
//!    made shorter. Until a sync that began after that has completed, what was cut off may be back as
//!    it was: length and bytes together, or neither.
//! 4. A name that was created, renamed or removed since the last `sync_dir` of its folder may be
//!    back as it was, each change for itself; syncing a file does not make its name durable. A
//!    file in a lost folder is lost.
//!
//! A plain data structure: no clock, no randomness but what `crash` is given, no faults.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::machine::Seeded;
use super::memory::children;
use super::sparse::Sparse;

/// Bytes that are written whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// Names a file for as long as the media lasts, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub usize);

/// Names a write from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(u64);

/// A disk's contents.
#[derive(Default)]
pub struct Media {
    files: Vec<Inode>,
    /// Names as programs see them.
    names: BTreeMap<String, Entry>,
    /// Names that survive.
    durable_names: BTreeMap<String, Entry>,
    /// Changes of names that are not durable, in order.
    journal: Vec<NameChange>,
    /// Writes that have started and not ended.
    flying: BTreeMap<WriteId, (FileId, Arc<Written>)>,
    /// Counts starts and ends, so that their order is known.
    moment: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File(FileId),
    Folder,
}

#[derive(Default)]
struct Inode {
    /// What reads see.
    current: Sparse,
    /// What survives.
    durable: Sparse,
    /// By sector, the writes that may survive: completed ones by their end, then flying ones.
    unsynced: BTreeMap<usize, Vec<Version>>,
    /// Where it was made shorter since the last sync, in order.
    cuts: Vec<Cut>,
}

/// A file was made this long.
#[derive(Clone, Copy)]
struct Cut {
    length: usize,
    moment: u64,
}

struct Version {
    written: Arc<Written>,
    /// When the write ended; `None` while it flies, and for ever if it failed.
    ended: Option<u64>,
}

impl Version {
    /// Whether the write was in the file when that was cut.
    fn ended_before(&self, cut: Cut) -> bool {
        self.ended.is_some_and(|ended| ended < cut.moment)
    }
}

/// The bytes of one write, whole sectors.
struct Written {
    id: WriteId,
    first_sector: usize,
    bytes: Vec<u8>,
}

impl Written {
    fn sector(&self, sector: usize) -> &[u8] {
        let at = (sector - self.first_sector) * SECTOR_BYTES;
        &self.bytes[at..at + SECTOR_BYTES]
    }

    fn sectors(&self) -> std::ops::Range<usize> {
        self.first_sector..self.first_sector + self.bytes.len() / SECTOR_BYTES
    }
}

enum NameChange {
    Link { name: String, entry: Entry },
    Unlink { name: String },
    Rename { from: String, to: String },
}

fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl NameChange {
    fn is_in(&self, folder: &str) -> bool {
        match self {
            NameChange::Link { name, .. } | NameChange::Unlink { name } => parent(name) == folder,
            NameChange::Rename { from, to } => parent(from) == folder || parent(to) == folder,
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, Entry>) {
        match self {
            NameChange::Link { name, entry } => {
                names.insert(name.clone(), *entry);
            }
            NameChange::Unlink { name } => {
                names.remove(name);
            }
            NameChange::Rename { from, to } => {
                if let Some(entry) = names.remove(from) {
                    names.insert(to.clone(), entry);
                }
            }
        }
    }
}

/// What a crash does to a write that is not durable.
#[derive(Clone, Copy)]
enum Fate {
    Kept,
    Lost,
    /// The first so many sectors are kept.
    Head(usize),
    /// All but the first so many sectors are kept.
    Tail(usize),
    /// Each sector for itself.
    Scattered(u64),
}

impl Fate {
    fn draw(random: &mut Seeded, sectors: usize) -> Fate {
        match random.below(8) {
            0..=2 => Fate::Kept,
            3 | 4 => Fate::Lost,
            5 => Fate::Head(random.below(sectors as u64 + 1) as usize),
            6 => Fate::Tail(random.below(sectors as u64 + 1) as usize),
            _ => Fate::Scattered(random.next_u64()),
        }
    }

    fn keeps(self, index: usize) -> bool {
        match self {
            Fate::Kept => true,
            Fate::Lost => false,
            Fate::Head(n) => index < n,
            Fate::Tail(n) => index >= n,
            Fate::Scattered(seed) => Seeded::new(seed ^ index as u64).one_in(2),
        }
    }
}

impl Media {
    /// The file of that name.
    pub fn find(&self, name: &str) -> Option<FileId> {
        match self.names.get(name) {
            Some(Entry::File(file)) => Some(*file),
            Some(Entry::Folder) | None => None,
        }
    }

    /// Whether a file or folder has the name.
    pub fn exists(&self, name: &str) -> bool {
        name.is_empty() || self.names.contains_key(name)
    }

    /// The names directly inside a folder, sorted.
    pub fn list(&self, folder: &str) -> Vec<String> {
        children(folder, self.names.keys())
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.journal.push(change);
    }

    /// Makes an empty file.
    pub fn create(&mut self, name: &str) -> FileId {
        let file = FileId(self.files.len());
        self.files.push(Inode::default());
        self.change(NameChange::Link { name: name.to_owned(), entry: Entry::File(file) });
        file
    }

    /// Puts a file there as it has been for long: durable, name, folders and bytes.
    pub fn plant(&mut self, name: &str, bytes: Vec<u8>) -> FileId {
        let bytes = Sparse::of(&bytes);
        let file = FileId(self.files.len());
        self.files.push(Inode { durable: bytes.clone(), current: bytes, ..Inode::default() });
        let mut folder = parent(name);
        let mut entries = vec![(name, Entry::File(file))];
        while !folder.is_empty() {
            entries.push((folder, Entry::Folder));
            folder = parent(folder);
        }
        for (name, entry) in entries {
            self.names.insert(name.to_owned(), entry);
            self.durable_names.insert(name.to_owned(), entry);
        }
        file
    }

    /// Makes a folder and those above it.
    pub fn create_folder(&mut self, name: &str) {
        let above = name.match_indices('/').map(|(end, _)| &name[..end]);
        for folder in above.chain([name]) {
            if !self.exists(folder) {
                let name = folder.to_owned();
                self.change(NameChange::Link { name, entry: Entry::Folder });
            }
        }
    }

    /// Gives a file another name; `false` if there is none.
    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        let found = self.find(from).is_some();
        if found {
            self.change(NameChange::Rename { from: from.to_owned(), to: to.to_owned() });
        }
        found
    }

    /// Removes a file; `false` if there is none.
    pub fn remove(&mut self, name: &str) -> bool {
        let found = self.find(name).is_some();
        if found {
            self.change(NameChange::Unlink { name: name.to_owned() });
        }
        found
    }

    /// Makes the changes of names in a folder durable.
    pub fn sync_folder(&mut self, folder: &str) {
        for change in std::mem::take(&mut self.journal) {
            if change.is_in(folder) {
                change.apply(&mut self.durable_names);
            } else {
                self.journal.push(change);
            }
        }
    }

    /// The length of a file.
    pub fn len(&self, file: FileId) -> u64 {
        self.files[file.0].current.len() as u64
    }

    /// Bytes of all files that have a name.
    pub fn used(&self) -> u64 {
        let files = self.names.values().filter_map(|entry| match entry {
            Entry::File(file) => Some(self.len(*file)),
            Entry::Folder => None,
        });
        files.sum()
    }

    /// Reads; fewer bytes at the end only.
    pub fn read(&self, file: FileId, offset: u64, into: &mut [u8]) -> usize {
        let current = &self.files[file.0].current;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(current.len());
        let n = into.len().min(current.len() - start);
        current.read(start, &mut into[..n]);
        n
    }

    /// Makes a file at least `bytes` long.
    pub fn allocate(&mut self, file: FileId, bytes: u64) {
        let current = &mut self.files[file.0].current;
        let bytes = usize::try_from(bytes).expect("simulated files fit in memory");
        current.grow(bytes);
    }

    /// Makes a file at most `bytes` long, whole sectors.
    pub fn truncate(&mut self, file: FileId, bytes: u64) {
        self.moment += 1;
        let length = usize::try_from(bytes).expect("simulated files fit in memory");
        assert!(length.is_multiple_of(SECTOR_BYTES), "files are cut between sectors");
        let (inode, moment) = (&mut self.files[file.0], self.moment);
        if inode.current.len() > length {
            inode.current.truncate(length);
            inode.cuts.push(Cut { length, moment });
        }
    }

    /// Whether a file was made shorter and a crash may undo that.
    pub fn has_cuts(&self) -> bool {
        self.files.iter().any(|inode| !inode.cuts.is_empty())
    }

    /// A write begins: from now on it may survive a crash.
    pub fn write_start(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> WriteId {
        self.moment += 1;
        let id = WriteId(self.moment);
        let start = usize::try_from(offset).expect("simulated files fit in memory");
        let end = start + bytes.len();
        let first_sector = start / SECTOR_BYTES;
        let from = first_sector * SECTOR_BYTES;
        let inode = &mut self.files[file.0];
        // Parts of sectors are written as the cache would: with what is around them.
        let mut whole = vec![0; end.next_multiple_of(SECTOR_BYTES) - from];
        let around = from.min(inode.current.len())..(from + whole.len()).min(inode.current.len());
        inode.current.read(around.start, &mut whole[..around.len()]);
        whole[start - from..end - from].copy_from_slice(bytes);
        let written = Arc::new(Written { id, first_sector, bytes: whole });
        for sector in written.sectors() {
            let version = Version { written: written.clone(), ended: None };
            inode.unsynced.entry(sector).or_default().push(version);
        }
        self.flying.insert(id, (file, written));
        id
    }

    /// A write ends: reads see it; a durable one survives from now on. `length` is the file
    /// position at which the caller's bytes end.
    pub fn write_end(&mut self, id: WriteId, length: u64, survives: Survives) {
        self.moment += 1;
        let moment = self.moment;
        let (file, written) = self.flying.remove(&id).expect("a write ends once");
        let inode = &mut self.files[file.0];
        let length = usize::try_from(length).expect("simulated files fit in memory");
        inode.current.grow(length);
        for sector in written.sectors() {
            copy_sector(&mut inode.current, sector, written.sector(sector));
            inode.end_version(sector, id, moment);
        }
        if survives == Survives::Always {
            inode.settle_cuts(moment);
            inode.durable.grow(length);
            for sector in written.sectors() {
                inode.settle(sector, moment);
            }
        }
    }

    /// A write failed: each sector has it or not, until a later write of that is synced.
    pub fn write_failed(&mut self, id: WriteId) {
        self.moment += 1;
        let moment = self.moment;
        let Some((file, written)) = self.flying.remove(&id) else { return };
        for sector in written.sectors() {
            self.files[file.0].end_version(sector, id, moment);
        }
    }

    /// A sync begins; give what this returns to `sync_end`.
    pub fn sync_start(&mut self, file: FileId) -> SyncStart {
        self.moment += 1;
        SyncStart { file, moment: self.moment, length: self.files[file.0].current.len() }
    }

    /// A sync ends: writes that had ended when it began survive.
    pub fn sync_end(&mut self, sync: SyncStart) {
        let inode = &mut self.files[sync.file.0];
        inode.settle_cuts(sync.moment);
        inode.durable.grow(sync.length);
        let sectors: Vec<usize> = inode.unsynced.keys().copied().collect();
        for sector in sectors {
            inode.settle(sector, sync.moment);
        }
    }

    /// The program dies and the machine does not: what it had written stays as it is, durable or
    /// not; each write in flight is done (but not durable) or not.
    pub fn kill(&mut self, random: &mut Seeded) {
        for (id, (file, written)) in std::mem::take(&mut self.flying) {
            if random.one_in(2) {
                self.flying.insert(id, (file, written.clone()));
                let end = (written.sectors().end * SECTOR_BYTES) as u64;
                self.write_end(id, end, Survives::WhenSynced);
                continue;
            }
            for sector in written.sectors() {
                if let Some(versions) = self.files[file.0].unsynced.get_mut(&sector) {
                    versions.retain(|version| version.written.id != id);
                }
            }
        }
    }

    /// What its program sees until it notices its end: the files as they are, for reads.
    pub fn as_seen(&self) -> Media {
        let current = self.files.iter().map(|inode| inode.current.clone());
        let files = current.map(|current| Inode { current, ..Inode::default() }).collect();
        Media { files, names: self.names.clone(), ..Media::default() }
    }

    /// What is left after a crash now.
    pub fn crash(&self, random: &mut Seeded) -> Media {
        let names = self.surviving_names(random);
        let mut media = Media::default();
        for (name, entry) in names {
            let entry = match entry {
                Entry::Folder => Entry::Folder,
                Entry::File(file) => {
                    let bytes = self.files[file.0].survive(random);
                    media.files.push(Inode {
                        current: bytes.clone(),
                        durable: bytes,
                        ..Inode::default()
                    });
                    Entry::File(FileId(media.files.len() - 1))
                }
            };
            media.names.insert(name.clone(), entry);
            media.durable_names.insert(name, entry);
        }
        media
    }

    fn surviving_names(&self, random: &mut Seeded) -> BTreeMap<String, Entry> {
        let mut names = self.durable_names.clone();
        let all = self.journal.len() as u64;
        // As a journaling file system does it (a prefix), or as POSIX allows it (any).
        let prefix = random.one_in(2).then(|| random.below(all + 1));
        for (index, change) in (0..).zip(&self.journal) {
            let kept = match prefix {
                Some(prefix) => index < prefix,
                None => random.one_in(2),
            };
            if kept {
                change.apply(&mut names);
            }
        }
        let folders: Vec<String> = names.keys().cloned().collect();
        names.retain(|name, _| {
            let mut above = name.match_indices('/').map(|(end, _)| &name[..end]);
            above.all(|folder| folders.binary_search_by(|f| f.as_str().cmp(folder)).is_ok())
        });
        names
    }
}

/// Whether a write that has ended survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// It was durable.
    Always,
    /// If a later sync covers it, or by luck.
    WhenSynced,
}

/// A sync that has begun.
#[derive(Clone, Copy, Debug)]
pub struct SyncStart {
    file: FileId,
    moment: u64,
    length: usize,
}

fn copy_sector(bytes: &mut Sparse, sector: usize, from: &[u8]) {
    bytes.write(sector * SECTOR_BYTES, from);
}

impl Inode {
    /// The write of a sector has ended, behind those that ended before.
    fn end_version(&mut self, sector: usize, id: WriteId, moment: u64) {
        let Some(versions) = self.unsynced.get_mut(&sector) else { return };
        // From behind: a sector that is written again and again has many, and the last ones end.
        if let Some(place) = versions.iter().rposition(|v| v.written.id == id) {
            let mut version = versions.remove(place);
            version.ended = Some(moment);
            let completed = versions.partition_point(|v| v.ended.is_some());
            versions.insert(completed, version);
        }
    }

    /// Makes the last version of a sector that ended at or before `moment` durable, and forgets
    /// it and those before it.
    fn settle(&mut self, sector: usize, moment: u64) {
        let Some(versions) = self.unsynced.get_mut(&sector) else { return };
        let settled = versions.partition_point(|v| v.ended.is_some_and(|ended| ended <= moment));
        if let Some(last) = versions.drain(..settled).next_back() {
            copy_sector(&mut self.durable, sector, last.written.sector(sector));
        }
        if versions.is_empty() {
            self.unsynced.remove(&sector);
        }
    }

    /// The file stays as short as it was made up to `moment`.
    fn settle_cuts(&mut self, moment: u64) {
        let settled = self.cuts.partition_point(|cut| cut.moment <= moment);
        for cut in self.cuts.drain(..settled) {
            self.durable.truncate(cut.length);
            for versions in self.unsynced.range_mut(cut.length / SECTOR_BYTES..) {
                versions.1.retain(|version| !version.ended_before(cut));
            }
        }
        self.unsynced.retain(|_, versions| !versions.is_empty());
    }

    fn survive(&self, random: &mut Seeded) -> Sparse {
        let mut bytes = self.durable.clone();
        // A later cut survives only with the earlier ones. Files that were never cut draw nothing.
        let kept = match self.cuts.len() as u64 {
            0 => 0,
            cuts => random.below(cuts + 1) as usize,
        };
        let cuts = &self.cuts[..kept];
        cuts.iter().for_each(|cut| bytes.truncate(cut.length));
        if self.current.len() > bytes.len() && random.one_in(2) {
            bytes.resize(self.current.len());
        }
        let mut fates: BTreeMap<WriteId, Fate> = BTreeMap::new();
        for (&sector, versions) in &self.unsynced {
            for version in versions {
                let is_behind = |cut: &Cut| sector >= cut.length / SECTOR_BYTES;
                if cuts.iter().any(|cut| is_behind(cut) && version.ended_before(*cut)) {
                    continue;
                }
                let sectors = version.written.sectors();
                let fate = *fates
                    .entry(version.written.id)
                    .or_insert_with(|| Fate::draw(random, sectors.len()));
                if !fate.keeps(sector - sectors.start) {
                    continue;
                }
                let end = (sector + 1) * SECTOR_BYTES;
                bytes.grow(end);
                copy_sector(&mut bytes, sector, version.written.sector(sector));
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(media: &mut Media, file: FileId, offset: u64, bytes: &[u8], survives: Survives) {
        let id = media.write_start(file, offset, bytes);
        media.write_end(id, offset + bytes.len() as u64, survives);
    }

    fn sync(media: &mut Media, file: FileId) {
        let start = media.sync_start(file);
        media.sync_end(start);
    }

    fn whole(media: &Media, name: &str) -> Option<Vec<u8>> {
        let file = media.find(name)?;
        let mut bytes = vec![0; media.len(file) as usize];
        media.read(file, 0, &mut bytes);
        Some(bytes)
    }

    /// What crashes by many seeds leave of the file `f`.
    fn outcomes(media: &Media) -> Vec<Option<Vec<u8>>> {
        let mut seen: Vec<_> =
            (0..200).map(|seed| whole(&media.crash(&mut Seeded::new(seed)), "f")).collect();
        seen.sort();
        seen.dedup();
        seen
    }

    #[test]
    fn names_and_bytes_survive_only_what_was_synced() {
        let mut media = Media::default();
        let file = media.create("f");
        write(&mut media, file, 0, &[1; 1024], Survives::Always);
        assert!(outcomes(&media).contains(&None), "the name is not durable");
        media.sync_folder("");
        assert_eq!(outcomes(&media), [Some(vec![1; 1024])]);

        write(&mut media, file, 0, &[2; 1024], Survives::WhenSynced);
        let seen = outcomes(&media);
        let torn: Vec<u8> = [[1; 512], [2; 512]].concat();
        let torn_otherwise: Vec<u8> = [[2; 512], [1; 512]].concat();
        for expected in [vec![1; 1024], vec![2; 1024], torn, torn_otherwise] {
            assert!(seen.contains(&Some(expected)));
        }
        assert_eq!(seen.len(), 4);
        sync(&mut media, file);
        assert_eq!(outcomes(&media), [Some(vec![2; 1024])]);

        // Writes that fly when a sync begins are not covered by it; two that are not synced
        // survive in either order.
        let flies = media.write_start(file, 0, &[3; 512]);
        sync(&mut media, file);
        assert_eq!(outcomes(&media).len(), 2);
        media.write_end(flies, 512, Survives::WhenSynced);
        write(&mut media, file, 512, &[4; 512], Survives::WhenSynced);
        assert_eq!(outcomes(&media).len(), 4);
        // A durable write is not undone by an older one that was never synced.
        write(&mut media, file, 0, &[5; 512], Survives::Always);
        assert!(outcomes(&media).iter().flatten().all(|bytes| bytes[0] == 5));
    }

    #[test]
    fn what_was_cut_off_is_gone_when_a_sync_has_covered_it() {
        let mut media = Media::default();
        let file = media.create("f");
        write(&mut media, file, 0, &[1; 1024], Survives::Always);
        media.sync_folder("");
        media.truncate(file, 512);
        assert_eq!(media.len(file), 512);
        let (cut, whole_file) = (Some(vec![1; 512]), Some(vec![1; 1024]));
        assert_eq!(outcomes(&media), [cut.clone(), whole_file]);
        // It grows again: what was cut off does not come back when the cut does not.
        write(&mut media, file, 512, &[2; 512], Survives::WhenSynced);
        let seen = outcomes(&media);
        assert!(seen.contains(&cut) && seen.contains(&Some([[1; 512], [2; 512]].concat())));
        media.truncate(file, 512);
        sync(&mut media, file);
        assert_eq!(outcomes(&media), [cut]);
        media.allocate(file, 1024);
        sync(&mut media, file);
        assert_eq!(outcomes(&media), [Some([[1; 512], [0; 512]].concat())]);
        // A sync that began before the cut does not cover it.
        let early = media.sync_start(file);
        media.truncate(file, 0);
        media.sync_end(early);
        assert_eq!(outcomes(&media).len(), 2);
    }

    #[test]
    fn renames_are_lost_or_kept_whole() {
        let mut media = Media::default();
        let old = media.create("f");
        write(&mut media, old, 0, &[1; 512], Survives::Always);
        media.sync_folder("");
        let new = media.create("g");
        write(&mut media, new, 0, &[2; 512], Survives::Always);
        media.sync_folder("");
        assert!(media.rename("g", "f"));
        let mut seen = outcomes(&media);
        assert_eq!(seen, [Some(vec![1; 512]), Some(vec![2; 512])]);
        media.sync_folder("");
        seen = outcomes(&media);
        assert_eq!(seen, [Some(vec![2; 512])]);
        assert!(media.remove("f"));
        assert_eq!(outcomes(&media).len(), 2);
    }

    #[test]
    fn a_file_in_a_lost_folder_is_lost() {
        let mut media = Media::default();
        media.create_folder("a/b");
        media.create("a/b/f");
        media.sync_folder("a/b");
        let lost = |media: &Media| {
            (0..50).filter(|&s| !media.crash(&mut Seeded::new(s)).exists("a/b/f")).count()
        };
        assert!(lost(&media) > 0);
        media.sync_folder("a");
        assert!(lost(&media) > 0);
        media.sync_folder("");
        assert_eq!(lost(&media), 0);
    }
}
