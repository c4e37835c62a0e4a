//! A database that lies closed, with checkpoints and log behind the last one, to be damaged.
//!
//! Invariants: what it holds is known; `pages_of_trees` is found through the manifest by reading
//! inner nodes, without the kernel's own loading.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use atoll::{Database, Instances, Options};
use atoll_kernel::api::{Database as Kernel, Target};
use atoll_kernel::base::{HomeId, PAGE_BYTES, Place};
use atoll_kernel::buffer::Swip;
use atoll_kernel::io::{IoChoice, RealDisk};
use atoll_kernel::latch::{OwnedPage, PageBytes};
use atoll_kernel::log::manifest::Manifest;
use atoll_kernel::page::PageKind;
use atoll_kernel::page::header;
use atoll_kernel::page::keynode::KeyNode;

use super::refusal::content;

/// Commits after the last checkpoint, one row each.
const TAIL: i32 = 60;

/// Tables and what their rows are ordered by.
const TABLES: [(&str, &str); 4] =
    [("people", "id"), ("papers", "id"), ("empty", "x"), ("tail", "n")];

/// A closed database.
pub struct Victim {
    pub folder: tempfile::TempDir,
    /// Every file as it should be.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// What the tables hold.
    pub rows: Rows,
}

/// Rows as text, by table.
pub type Rows = Vec<Vec<Vec<Option<String>>>>;

pub fn options() -> Options {
    Options {
        instances: Instances::Count(2),
        buffer_pool_bytes: 64 << 20,
        undo_bytes: 16 << 20,
        log_segment_bytes: 256 << 10,
        log_buffer_bytes: 64 << 10,
        checkpoint_interval_ms: 0,
        checkpoint_wal_bytes: 0,
        ..Options::default()
    }
}

/// Makes a checkpoint now.
pub fn make_checkpoint(database: &Database) {
    let made = database.kernel().run(Target::Any, Kernel::checkpoint);
    made.unwrap().unwrap().unwrap();
}

/// What a database holds.
pub fn rows_of(database: &Database) -> Rows {
    try_rows_of(database).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, or why it cannot be read.
fn try_rows_of(database: &Database) -> Result<Rows, String> {
    let all = |(table, key)| {
        let rows = database.query(&format!("select * from {table} order by {key}"));
        rows.map_err(|error| format!("{table}: {error:?}"))
    };
    TABLES.into_iter().map(all).collect()
}

impl Victim {
    /// Two tables, one of them with long values, in three checkpoints, and log after the last.
    pub fn new() -> Victim {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&folder.path().join("data"), options()).unwrap();
        let ask = |text: &str| drop(database.query(text).unwrap());
        ask("create table people (id int primary key, name text, born int)");
        ask("create index people_born on people (born)");
        ask("create table papers (id int primary key, text text)");
        ask("create table empty (x int)");
        ask("create table tail (n int primary key, text text)");
        ask("insert into people select g, 'name ' || g || repeat('x', 200), g % 97 \
             from generate_series(1, 3000) g");
        let mut random = fastrand::Rng::with_seed(7);
        // Texts that nothing makes shorter.
        let mut text =
            |length: usize| -> String { (0..length).map(|_| random.alphanumeric()).collect() };
        for id in 1..=12 {
            ask(&format!("insert into papers values ({id}, '{}')", text(40_000)));
        }
        make_checkpoint(&database);
        ask("update people set born = born + 1 where id % 3 = 0");
        ask("delete from papers where id < 4");
        make_checkpoint(&database);
        ask("delete from people where id between 500 and 800");
        ask("update papers set text = text || 'changed' where id = 7");
        make_checkpoint(&database);
        ask("update people set name = 'renamed' where id % 50 = 0");
        for n in 0..TAIL {
            ask(&format!("insert into tail values ({n}, '{}')", text(20_000)));
        }
        let rows = rows_of(&database);
        database.close().unwrap();
        drop(database);
        let files = content(&folder.path().join("data"));
        Victim { folder, files, rows }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A file's whole path.
    pub fn path(&self, name: &str) -> PathBuf {
        self.data().join(name)
    }

    /// A file as it should be.
    pub fn bytes(&self, name: &str) -> &[u8] {
        &self.files[&self.path(name)]
    }

    /// Files whose name ends so, by their names within the directory.
    pub fn names(&self, end: &str) -> Vec<String> {
        let names = self.files.keys().map(|path| path.strip_prefix(self.data()).unwrap());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(end)).collect()
    }

    /// The manifest's name; there is one only.
    pub fn manifest_name(&self) -> String {
        format!("MANIFEST.{}", self.manifest().number)
    }

    /// Makes everything as it was.
    pub fn mend(&self) {
        let now = content(&self.data());
        for path in now.keys().filter(|path| !self.files.contains_key(*path)) {
            let removed = if path.is_dir() {
                std::fs::remove_dir_all(path)
            } else {
                std::fs::remove_file(path)
            };
            removed.unwrap();
        }
        for (path, bytes) in &self.files {
            if now.get(path) != Some(bytes) {
                std::fs::write(path, bytes).unwrap();
            }
        }
    }

    /// A copy of the directory as it is now.
    pub fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for (path, bytes) in content(&self.data()) {
            let to = copy.path().join(path.strip_prefix(self.data()).unwrap());
            if path.is_dir() {
                std::fs::create_dir_all(&to).unwrap();
            } else {
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                std::fs::write(&to, bytes).unwrap();
            }
        }
        copy
    }

    /// The published checkpoint's manifest.
    pub fn manifest(&self) -> Manifest {
        let disk = RealDisk::open(&self.data(), IoChoice::Threads).unwrap();
        Manifest::read(&disk).unwrap().unwrap()
    }

    /// The pages of the trees that the manifest names, inner nodes and leaves; not those of long
    /// values.
    pub fn pages_of_trees(&self) -> BTreeSet<Place> {
        let mut found = BTreeSet::new();
        let checkpoint = self.manifest().checkpoint.unwrap();
        let mut open: Vec<Place> = checkpoint.trees.iter().map(|tree| tree.root).collect();
        while let Some(place) = open.pop() {
            assert!(found.insert(place), "{place} belongs to two");
            let page = self.page(place);
            if header::kind(OwnedPage(&page)) != Some(PageKind::Inner) {
                continue;
            }
            let node = KeyNode::new(OwnedPage(&page));
            let words = (0..node.count()).map(|at| OwnedPage(&page).u64(node.swip_position(at)));
            open.extend(words.map(|word| Swip::place_on_disk(word).unwrap()));
        }
        found
    }

    /// The pages of long values that some checkpoint wrote.
    pub fn pages_of_long_values(&self) -> BTreeSet<Place> {
        let mut found = BTreeSet::new();
        for (home, name) in self.page_files() {
            for number in 1..self.bytes(&name).len() / PAGE_BYTES {
                let place = Place::new(home, number as u64);
                if header::kind(OwnedPage(&self.page(place))) == Some(PageKind::Overflow) {
                    found.insert(place);
                }
            }
        }
        found
    }

    /// The page files.
    pub fn page_files(&self) -> Vec<(HomeId, String)> {
        let homes = 0..self.manifest().homes;
        homes.map(|home| (HomeId(home), format!("pages/{home:04}.pages"))).collect()
    }

    fn page(&self, place: Place) -> Box<[u8; PAGE_BYTES]> {
        let bytes = self.bytes(&page_file(place));
        let at = place.number() as usize * PAGE_BYTES;
        Box::new(bytes[at..at + PAGE_BYTES].try_into().unwrap())
    }
}

/// The file that a place is in.
pub fn page_file(place: Place) -> String {
    format!("pages/{:04}.pages", place.home().0)
}

/// Opens a directory for what it holds.
pub fn open_rows(data: &Path) -> Result<Rows, String> {
    let database = Database::open(data, options()).map_err(|error| error.to_string())?;
    let rows = try_rows_of(&database);
    database.close().map_err(|error| error.to_string())?;
    rows
}
