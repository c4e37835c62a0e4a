//! A table and its indexes as trees, as far as changes, rollback and collection must know them.
//!
//! Invariants: immutable once made; the catalog makes a new one when an index is added or dropped.
//! Rollback and collection always ask for the newest one ([`Tables`]), so an index that came later
//! is maintained too.

use std::sync::Arc;

use super::VersionSpace;
use super::read::RowAt;
use crate::base::{RowId, TreeId};
use crate::latch::{PageBytes, RacyPage};
use crate::page::rowleaf::{Leaf, SlotIndex};
use crate::tree::index::IndexTree;
use crate::tree::key::{KeyPart, encode_key};
use crate::tree::table::{LeafView, TableTree};

/// Whether an index allows a key once only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unique {
    /// Once, nulls apart (rule 5.6).
    Yes,
    /// Any number of times.
    No,
}

/// An index tree and how its keys are made of a row.
pub struct IndexAccess {
    /// The entries.
    pub tree: Arc<IndexTree>,
    /// How each key column is encoded.
    pub parts: Vec<KeyPart>,
    /// Which column of the table each key column is.
    pub columns: Vec<u16>,
    /// Whether keys are unique.
    pub unique: Unique,
}

impl IndexAccess {
    /// Replaces `key` by the key of a row whose column `columns[i]` is `value(i)`. Answers whether
    /// it has a null.
    #[inline]
    pub(crate) fn encode<'v>(
        &self,
        key: &mut Vec<u8>,
        value: impl Fn(usize) -> Option<&'v [u8]>,
    ) -> HasNull {
        const FEW: usize = 4;
        key.clear();
        let count = self.columns.len();
        let mut few: [Option<&[u8]>; FEW] = [None; FEW];
        let many: Vec<Option<&[u8]>>;
        let values = if count <= FEW {
            for (index, place) in few.iter_mut().enumerate().take(count) {
                *place = value(index);
            }
            &few[..count]
        } else {
            many = (0..count).map(value).collect();
            &many[..]
        };
        encode_key(&self.parts, values, key);
        if values.iter().any(Option::is_none) { HasNull::Yes } else { HasNull::No }
    }

    /// Whether the page's version of the row in `slot` has this whole key; none if that takes more
    /// than comparing integers.
    #[inline]
    pub(crate) fn page_has_key<B: PageBytes>(
        &self,
        leaf: &Leaf<'_, B>,
        slot: SlotIndex,
        key: &[u8],
    ) -> Option<bool> {
        let mut rest = key;
        for (part, column) in self.parts.iter().zip(&self.columns) {
            let wanted = part.take_integer(&mut rest)?;
            if leaf.fixed_bits(slot, usize::from(*column)) != Some(wanted) {
                return Some(false);
            }
        }
        Some(rest.is_empty())
    }
}

/// Whether a key has a null, so that uniqueness does not concern it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HasNull {
    Yes,
    No,
}

/// A table tree with the index trees over it. Aligned, so that the counts of an instance's own
/// references share no line with another's.
#[repr(align(128))]
pub struct TableAccess {
    /// The rows.
    pub tree: Arc<TableTree>,
    /// The indexes, in the order in which entries are added.
    pub indexes: Vec<IndexAccess>,
    /// Where the versions of the rows are.
    pub versions: Arc<VersionSpace>,
    /// One bit a column: whether a key has it.
    indexed: Vec<u64>,
}

impl TableAccess {
    /// The access paths of one table.
    pub fn new(
        tree: Arc<TableTree>,
        indexes: Vec<IndexAccess>,
        versions: Arc<VersionSpace>,
    ) -> TableAccess {
        let mut indexed = Vec::new();
        for column in indexes.iter().flat_map(|index| &index.columns) {
            let word = *column as usize / 64;
            if indexed.len() <= word {
                indexed.resize(word + 1, 0);
            }
            indexed[word] |= 1 << (column % 64);
        }
        TableAccess { tree, indexes, versions, indexed }
    }

    /// The table tree's number.
    pub fn id(&self) -> TreeId {
        self.tree.id()
    }

    /// The row in `slot` of a leaf that is read racily, with its versions.
    #[inline]
    pub(crate) fn row_at<'a, 'l>(
        &'a self,
        leaf: &'a LeafView<'l>,
        row: RowId,
        slot: SlotIndex,
    ) -> RowAt<'a, 'l, RacyPage> {
        let (space, tree, table) = (&*self.versions, self.id(), &*self.tree);
        RowAt { space, leaf, side: leaf.side(), tree, table, row, slot }
    }

    /// Whether changes of these columns are done in place: they have fixed width, and no key has one.
    #[inline]
    pub(crate) fn in_place(&self, mut columns: impl Iterator<Item = u16>) -> bool {
        let types = self.tree.layout().columns();
        columns.all(|column| {
            let known = types.get(usize::from(column));
            known.is_some_and(|known| known.fixed_bytes().is_some()) && !self.is_indexed(column)
        })
    }

    /// Whether a key of some index has the column.
    #[inline]
    pub(crate) fn is_indexed(&self, column: u16) -> bool {
        self.indexed.get(column as usize / 64).is_some_and(|word| word >> (column % 64) & 1 != 0)
    }
}

/// Finds the newest access paths of a table tree: committed, or made by the transaction that asks.
pub trait Tables {
    /// None if the tree was dropped: then nobody needs its versions or entries any more.
    fn table(&self, id: TreeId) -> Option<Arc<TableAccess>>;
}
