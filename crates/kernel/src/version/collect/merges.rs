//! Merges of what a collection leaves nearly empty: leaves of tables, and inner nodes that are alone (rule 5.3).
//!
//! Indexes merge their leaves when entries are removed (`tree/index/change.rs`). Inner nodes of either whose
//! neighbour was not in memory then come here ([`AloneNode`]), to be gone on with when it is.
//!
//! Invariants: nothing is loaded here: a node that needs a page is left in the list, and who collects is asked for the
//! page. Nothing depends on a merge, so one that is in vain too often is forgotten. A merge is of what is there
//! when it is made: the list may name what others have changed or merged.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::super::access::{TableAccess, Tables};
use super::{Collected, InstanceVersions};
use crate::base::{Outcome, RowId, Stop, TreeId};
use crate::buffer::PageWrite;
use crate::page::{header, rowleaf};
use crate::tree::descent::{AloneNode, Merged};

/// Merges that one collection tries.
const MERGES_MAX: usize = 64;
/// How often a merge of leaves that something is in the way of is tried.
const MERGE_TRIES: u32 = 64;
/// Pages for which who collects is asked for one node: it may need the path to it and its neighbour, level by level.
/// If they drive each other out, the node stays as it is.
const NODE_LOADS: u32 = 32;

/// What is to be merged.
enum What {
    /// The table's leaf with this lower fence.
    Leaf(RowId),
    /// A node of the table's tree, or of that of an index.
    Node(Option<TreeId>, AloneNode),
}

/// A merge to be tried.
struct Merge {
    table: TreeId,
    what: What,
    tries: u32,
}

/// Merges to be tried, of one instance.
#[derive(Default)]
pub(super) struct Merges(RefCell<VecDeque<Merge>>);

impl Merges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    fn push(&self, table: TreeId, what: What) {
        self.0.borrow_mut().push_back(Merge { table, what, tries: 0 });
    }
}

impl InstanceVersions {
    pub(super) fn note_underfull(&self, page: &PageWrite) {
        if rowleaf::is_underfull(page.bytes()) {
            let (table, row) = (header::tree(page.owned()), rowleaf::lower_fence(page.bytes()));
            self.merges.push(table, What::Leaf(row));
        }
    }

    /// Takes over the nodes that merges have left alone in the table's indexes.
    pub(super) fn note_alone_in_indexes(&self, table: &TableAccess) {
        for index in &table.indexes {
            for node in index.tree.take_alone() {
                self.merges.push(table.id(), What::Node(Some(index.tree.tree()), node));
            }
        }
    }

    /// Merges leaves that were found underfull and nodes that are alone. A leaf whose neighbour has a twin is
    /// tried again with later collections, for a while; the first node that needs a page ends it.
    pub(super) fn merge_underfull(&self, tables: &dyn Tables, done: &mut Collected) {
        let waiting = self.merges.0.borrow().len();
        for _ in 0..waiting.min(MERGES_MAX) {
            let Some(mut merge) = self.merges.0.borrow_mut().pop_front() else { break };
            let Some(table) = tables.table(merge.table) else { continue };
            merge.tries += 1;
            match try_merge(&table, &mut merge.what) {
                Ok(Merged::Yes) => {
                    done.merged += 1;
                    for node in table.tree.take_alone() {
                        self.merges.push(merge.table, What::Node(None, node));
                    }
                    // It may still be underfull, and have another neighbour.
                    merge.tries -= 1;
                    self.merges.0.borrow_mut().push_back(merge);
                }
                Ok(Merged::Later) if merge.tries <= MERGE_TRIES => {
                    self.merges.0.borrow_mut().push_back(merge);
                }
                Err(Stop::NeedPage(page))
                    if matches!(merge.what, What::Node(..)) && merge.tries <= NODE_LOADS =>
                {
                    done.needs = Some(page);
                    self.merges.0.borrow_mut().push_front(merge);
                    break;
                }
                // Too full, or done, or the tree is going.
                _ => {}
            }
        }
    }
}

/// `No` of a node: there is nothing to be done again.
fn try_merge(table: &TableAccess, what: &mut What) -> Outcome<Merged> {
    match what {
        What::Leaf(row) => table.tree.merge_leaf(*row),
        What::Node(None, node) => table.tree.merge_alone(node).map(|()| Merged::No),
        What::Node(Some(tree), node) => {
            let index = table.indexes.iter().find(|index| index.tree.tree() == *tree);
            let merged = index.map_or(Ok(()), |index| index.tree.merge_alone(node));
            merged.map(|()| Merged::No)
        }
    }
}
