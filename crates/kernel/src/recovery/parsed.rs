//! What a round has to do, taken apart: for each tree and share of its rows the changes of these.
//!
//! Invariants: a run of one log's commits (or a piece of a large commit) becomes one [`Parsed`], whose
//! lists are in order of (cts, position); those of several runs of one log follow each other. An
//! [`Item`] is where a change is, not what it says: the bytes were checked by the reader, and are read
//! again where the change is made. [`Lists`] are kept from round to round for their memory, which is
//! at most four times what the last round needed of each.

use rustc_hash::FxHashMap as HashMap;
use std::ops::Range;

use super::feed::Feed;
use crate::base::{Cts, Result, RowId, TreeId};
use crate::catalog::CATALOG_TREE;
use crate::page::overflow::StoredLong;
use crate::sync::prefetch_line;
use crate::txn::redo::{Change, Changes, NamesLongs, RedoReader, Values};

/// Rows that are in one share together, so that ascending rows stay ascending.
const ROWS_TOGETHER: u64 = 1 << 12;
/// Trees whose lists are found without a search, as a power of two.
const KNOWN_LOG2: u32 = 6;

/// What a change does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Insert,
    Update,
    Delete,
}

/// A change on its way to who makes it.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub row: RowId,
    pub cts: Cts,
    /// What it does (2 bits), whether it names long values (1), how many values it has (11), which
    /// [`Parsed`] it is in (12), and where there its values begin (38).
    packed: u64,
}

const COUNT_SHIFT: u32 = 3;
const SOURCE_SHIFT: u32 = 14;
const PLACE_SHIFT: u32 = 26;
/// Runs of commits that a round may be taken apart to.
pub(super) const SOURCES_MAX: usize = 1 << (PLACE_SHIFT - SOURCE_SHIFT);

const _: () = {
    assert!(crate::page::COLUMNS_MAX < 1 << (SOURCE_SHIFT - COUNT_SHIFT));
    assert!(size_of::<Item>() == 24);
};

impl Item {
    fn new(row: RowId, cts: Cts, (what, count): (What, usize), at: (usize, usize)) -> Item {
        let (source, place) = at;
        let packed = what as u64
            | (count as u64) << COUNT_SHIFT
            | (source as u64) << SOURCE_SHIFT
            | (place as u64) << PLACE_SHIFT;
        Item { row, cts, packed }
    }

    /// A change that says nothing but its number.
    #[cfg(all(test, not(loom)))]
    pub fn numbered(row: RowId, cts: Cts, number: usize) -> Item {
        Item::new(row, cts, (What::Delete, 0), (0, number))
    }

    /// That number.
    #[cfg(all(test, not(loom)))]
    pub fn number(self) -> usize {
        self.place()
    }

    fn with_longs(self) -> Item {
        Item { packed: self.packed | 1 << 2, ..self }
    }

    #[inline]
    pub fn what(self) -> What {
        match self.packed & 3 {
            0 => What::Insert,
            1 => What::Update,
            _ => What::Delete,
        }
    }

    /// Whether one of its values is a long one.
    #[inline]
    pub fn names_longs(self) -> bool {
        self.packed & 1 << 2 != 0
    }

    /// Which of a pass's [`Parsed`] it is in.
    #[inline]
    pub fn source(self) -> usize {
        (self.packed >> SOURCE_SHIFT) as usize % SOURCES_MAX
    }

    #[inline]
    fn count(self) -> usize {
        (self.packed >> COUNT_SHIFT) as usize % (1 << (SOURCE_SHIFT - COUNT_SHIFT))
    }

    #[inline]
    fn place(self) -> usize {
        (self.packed >> PLACE_SHIFT) as usize
    }
}

/// The changes of one tree, by share.
struct OfTree {
    tree: TreeId,
    of_share: Vec<Vec<Item>>,
}

/// The changes of a [`Parsed`].
pub(super) struct Lists {
    trees: Vec<OfTree>,
    places: HashMap<TreeId, u32>,
    /// The places of some of them, by the number's last bits.
    known: [(TreeId, u32); 1 << KNOWN_LOG2],
    shares: usize,
}

impl Lists {
    /// Each tree's rows in `shares` shares.
    pub fn new(shares: usize) -> Lists {
        let known = [(TreeId(0), u32::MAX); 1 << KNOWN_LOG2];
        Lists { trees: Vec::new(), places: HashMap::default(), known, shares }
    }

    /// Forgets the changes; keeps memory for as many of the trees that had any.
    fn clear(&mut self) {
        self.places.clear();
        self.known.fill((TreeId(0), u32::MAX));
        self.trees.retain(|it| it.of_share.iter().any(|items| !items.is_empty()));
        for (place, of_tree) in self.trees.iter_mut().enumerate() {
            self.places.insert(of_tree.tree, place as u32);
            for items in &mut of_tree.of_share {
                let needed = items.len();
                items.clear();
                items.shrink_to(4 * needed);
            }
        }
    }

    #[inline]
    fn of_tree(&mut self, tree: TreeId) -> &mut OfTree {
        let known = &mut self.known[tree.0 as usize % (1 << KNOWN_LOG2)];
        if known.0 != tree || known.1 == u32::MAX {
            let (trees, shares) = (&mut self.trees, self.shares);
            let place = self.places.entry(tree).or_insert_with(|| {
                trees.push(OfTree { tree, of_share: vec![Vec::new(); shares] });
                trees.len() as u32 - 1
            });
            *known = (tree, *place);
        }
        &mut self.trees[known.1 as usize]
    }
}

/// At or above the one, below the other if there is one.
pub(super) type Span = (Cts, Option<Cts>);

/// The trees with changes in each span between two of `cuts`, which ascend: so that many cuts do not
/// cost a look at every tree each.
pub(super) fn trees_between(parsed: &[Parsed<'_>], cuts: &[Cts]) -> Vec<Vec<TreeId>> {
    let mut spans = vec![Vec::new(); cuts.len() + 1];
    parsed.iter().for_each(|part| part.note_trees(cuts, &mut spans));
    for trees in &mut spans {
        trees.sort_unstable();
        trees.dedup();
    }
    spans
}

/// How many items are before `cts`.
fn before(items: &[Item], cts: Cts) -> usize {
    items.partition_point(|item| item.cts < cts)
}

/// The long values that a commit, or a piece of one, names: from number `first` on.
pub(super) struct Longs<'a> {
    cts: Cts,
    pub first: u64,
    pub values: Vec<StoredLong<'a>>,
}

/// One run of commits of a round: for each tree and share its changes in order, and the commits
/// that change definitions.
pub(super) struct Parsed<'a> {
    bytes: &'a [u8],
    /// Which one it is among those of its pass.
    source: usize,
    lists: Lists,
    pub barriers: Vec<(Cts, &'a [u8])>,
    pub notes: Vec<(Cts, &'a [u8])>,
    /// Of commits that have any, in order.
    longs: Vec<Longs<'a>>,
    pub commits: u64,
    pub changes: u64,
    pub payload_bytes: u64,
}

/// Whether a commit changes definitions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Defines {
    Yes,
    No,
}

/// The row that a change is of, with its tree; none of a note.
pub(super) fn row_of(change: &Change<'_>) -> Option<(TreeId, RowId)> {
    match change {
        Change::Insert { tree, row, .. }
        | Change::Update { tree, row, .. }
        | Change::Delete { tree, row } => Some((*tree, *row)),
        Change::Note(_) => None,
    }
}

#[inline]
fn share_of(tree: TreeId, row: RowId, shares: usize) -> usize {
    let place = (row.0 / ROWS_TOGETHER) ^ u64::from(tree.0) << 40;
    let hash = u128::from(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    ((hash * shares as u128) >> 64) as usize
}

impl<'a> Parsed<'a> {
    /// Nothing yet of `bytes`; takes the memory of `lists`.
    pub fn new(bytes: &'a [u8], source: usize, mut lists: Lists) -> Parsed<'a> {
        lists.clear();
        Parsed {
            bytes,
            source,
            lists,
            barriers: Vec::new(),
            notes: Vec::new(),
            longs: Vec::new(),
            commits: 0,
            changes: 0,
            payload_bytes: 0,
        }
    }

    /// Takes a run of a log's commits apart.
    pub fn of_run(
        feed: &'a Feed,
        run: Range<usize>,
        source: usize,
        lists: Lists,
    ) -> Result<Parsed<'a>> {
        let mut parsed = Parsed::new(feed.bytes(), source, lists);
        for commit in feed.commits(run) {
            let payload = &parsed.bytes[commit.payload.clone()];
            parsed.commits += 1;
            parsed.payload_bytes += payload.len() as u64;
            let mut reader = RedoReader::new(payload);
            if parsed.take(commit.cts, commit.payload.start, &mut reader)? == Defines::Yes {
                parsed.barriers.push((commit.cts, payload));
            }
        }
        Ok(parsed)
    }

    /// Takes the changes of a commit, or of a piece of one, whose bytes begin at `start`, to their
    /// shares.
    pub fn take(&mut self, cts: Cts, start: usize, reader: &mut RedoReader<'a>) -> Result<Defines> {
        let shares = self.lists.shares;
        let mut defines = Defines::No;
        while let Some(change) = reader.next() {
            let ((tree, row), what, count) = match change? {
                Change::Note(note) => {
                    self.notes.push((cts, note));
                    continue;
                }
                Change::Insert { tree, row, values } => ((tree, row), What::Insert, values.len()),
                Change::Update { tree, row, changes } => ((tree, row), What::Update, changes.len()),
                Change::Delete { tree, row } => ((tree, row), What::Delete, 0),
            };
            if tree == CATALOG_TREE {
                defines = Defines::Yes;
            }
            self.changes += 1;
            let (place, longs) = reader.values();
            let mut item = Item::new(row, cts, (what, count), (self.source, start + place));
            if longs == NamesLongs::Yes {
                item = item.with_longs();
            }
            let share = share_of(tree, row, shares);
            self.lists.of_tree(tree).of_share[share].push(item);
        }
        if !reader.longs().is_empty() {
            let (first, values) = (reader.longs_before(), reader.longs().to_vec());
            self.longs.push(Longs { cts, first, values });
        }
        Ok(defines)
    }

    /// Gives the memory of the lists back.
    pub fn into_lists(self) -> Lists {
        self.lists
    }

    /// Adds to each span between two of `cuts` the trees with changes in it: the first span is below
    /// the first cut, the last at or above the last one.
    fn note_trees(&self, cuts: &[Cts], spans: &mut [Vec<TreeId>]) {
        for of_tree in &self.lists.trees {
            for mut items in of_tree.of_share.iter().map(Vec::as_slice) {
                while let Some(first) = items.first() {
                    let span = cuts.partition_point(|cut| *cut <= first.cts);
                    spans[span].push(of_tree.tree);
                    let end = cuts.get(span).map_or(items.len(), |cut| before(items, *cut));
                    items = &items[end..];
                }
            }
        }
    }

    /// The changes of one share of a tree's rows, at or above `from` and below `below`.
    pub fn items(&self, (tree, share): (TreeId, usize), (from, below): Span) -> &[Item] {
        let Some(place) = self.lists.places.get(&tree) else { return &[] };
        let items = self.lists.trees[*place as usize].of_share[share].as_slice();
        let end = below.map_or(items.len(), |below| before(items, below));
        &items[before(items, from).min(end)..end]
    }

    /// Asks for the memory where an item's values are.
    #[inline]
    pub fn prefetch(&self, item: Item) {
        prefetch_line(self.bytes.as_ptr().wrapping_add(item.place()));
    }

    /// The columns that an insert puts in.
    #[inline]
    pub fn values(&self, item: Item) -> Values<'a> {
        Values::at(&self.bytes[item.place()..], item.count())
    }

    /// The columns that an update sets.
    #[inline]
    pub fn columns(&self, item: Item) -> Changes<'a> {
        Changes::at(&self.bytes[item.place()..], item.count())
    }

    /// The long values of an item's commit, of which it names some.
    pub fn longs(&self, item: Item) -> &Longs<'a> {
        let place = self.longs.partition_point(|longs| longs.cts < item.cts);
        &self.longs[place]
    }
}
