//! Building the nodes of a tree from below: from sorted entries, or from leaves that are there.
//!
//! How: each level stages the keys of the node that it is building. When the next key would fill
//! the node beyond 90 percent, the separator between the last key and that one becomes the node's
//! upper fence; now its prefix is known and it is written out at once, and handed to the level
//! above as (lower fence, child). The last node of each level has no upper fence, hence no prefix;
//! what does not fit without it becomes several nodes.
//!
//! Invariants: where nodes go is the sink's business (frames, or pages of a checkpoint); what it
//! was given and is not needed, it gives back itself.

use std::ops::Range;

use crate::base::{PAGE_BYTES, Result};
use crate::page::keynode::{self, SPACE_BYTES};

/// How full nodes are made.
const TARGET_BYTES: usize = SPACE_BYTES * 9 / 10;
/// Bytes of a slot, and of a swip, beside each key.
const SLOT_BYTES: usize = 8;
const SWIP_BYTES: usize = 8;

/// The node that one level is building.
#[derive(Default)]
struct Level {
    /// Lower fence of the node.
    lower: Vec<u8>,
    /// Its keys, one behind the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// Its children; zeros in a leaf.
    swips: Vec<u64>,
    /// Nodes of this level that were written out.
    written: usize,
}

impl Level {
    fn key(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[from..self.ends[at] as usize]
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of slots and heap of a node of the keys in `keys`, without their first `prefix` bytes.
    fn node_bytes(&self, level: usize, keys: Range<usize>, prefix: usize, fences: usize) -> usize {
        let beside = if level == 0 { SLOT_BYTES } else { SLOT_BYTES + SWIP_BYTES };
        let end = |count: usize| if count == 0 { 0 } else { self.ends[count - 1] as usize };
        end(keys.end) - end(keys.start) + keys.len() * beside - keys.len() * prefix + fences
    }

    /// Whether the node is full enough that `next`, the key behind its last, begins another.
    fn is_full(&self, level: usize, next: &[u8]) -> bool {
        let (all, fences) = (0..self.count(), self.lower.len() + next.len());
        if self.node_bytes(level, all.clone(), 0, fences) <= TARGET_BYTES {
            return false;
        }
        // The upper fence will be a beginning of `next` that is longer than this.
        let prefix = keynode::common_prefix(&self.lower, next);
        !all.is_empty() && self.node_bytes(level, all, prefix, fences) > TARGET_BYTES
    }

    /// Up to where the keys from `from` on fit one node between `lower` and `upper`; if not to the
    /// end, the separator behind them. They may not, though `is_full` said no before: the prefix
    /// shrinks at the end of a group of keys that share much, and there is none without an upper
    /// fence.
    fn node_from(
        &self,
        level: usize,
        from: usize,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> (usize, Option<Vec<u8>>) {
        let fits = |to: usize, upper: Option<&[u8]>| {
            let prefix = upper.map_or(0, |upper| keynode::common_prefix(lower, upper));
            let fences = lower.len() + upper.map_or(0, <[u8]>::len);
            self.node_bytes(level, from..to, prefix, fences) <= SPACE_BYTES
        };
        if fits(self.count(), upper) {
            return (self.count(), upper.map(<[u8]>::to_vec));
        }
        let mut to = self.count() - 1;
        loop {
            let separator = self.separator(level, to);
            // One key always fits.
            if to == from + 1 || fits(to, Some(&separator)) {
                return (to, Some(separator));
            }
            to -= 1;
        }
    }

    /// The separator in front of key `at`.
    fn separator(&self, level: usize, at: usize) -> Vec<u8> {
        let mut separator = Vec::new();
        if level == 0 {
            keynode::shortest_separator(self.key(at - 1), self.key(at), &mut separator);
        } else {
            separator.extend_from_slice(self.key(at));
        }
        separator
    }

    fn stage(&mut self, key: &[u8], swip: u64) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u32);
        self.swips.push(swip);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.swips.clear();
    }
}

/// Where finished nodes go.
pub trait NodeSink {
    /// Makes a page of a node of `level` (0: a leaf of an index); `fill` gives it everything but
    /// its common header. Answers the word that stands for it in its parent.
    fn put(&mut self, level: usize, fill: &dyn Fn(&mut [u8; PAGE_BYTES])) -> Result<u64>;
}

/// A tree being built from below.
pub struct Nodes<S> {
    levels: Vec<Level>,
    /// The lowest level that is built: 0 from entries, 1 from leaves.
    first: usize,
    /// Where nodes go.
    pub sink: S,
}

impl<S: NodeSink> Nodes<S> {
    /// From entries of an index.
    pub fn of_entries(sink: S) -> Nodes<S> {
        Nodes { levels: vec![Level::default()], first: 0, sink }
    }

    /// Above leaves that are there.
    pub fn above_leaves(sink: S) -> Nodes<S> {
        Nodes { levels: vec![Level::default(), Level::default()], first: 1, sink }
    }

    /// The last entry pushed, if its leaf is still being built.
    pub fn last_entry(&self) -> Option<&[u8]> {
        let leaf = &self.levels[0];
        // An empty leaf is only ever the first.
        leaf.count().checked_sub(1).map(|last| leaf.key(last))
    }

    /// Adds an entry above all before it.
    pub fn push_entry(&mut self, entry: &[u8]) -> Result<()> {
        let leaf = &self.levels[0];
        if leaf.is_full(0, entry) {
            let mut separator = Vec::new();
            keynode::shortest_separator(leaf.key(leaf.count() - 1), entry, &mut separator);
            self.close(0, Some(separator))?;
        }
        self.levels[0].stage(entry, 0);
        Ok(())
    }

    /// Adds a leaf that begins at `lower`, behind all before it.
    pub fn push_leaf(&mut self, lower: &[u8], child: u64) -> Result<()> {
        self.push_child(1, lower, child)
    }

    fn push_child(&mut self, level: usize, lower: &[u8], child: u64) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Level::default());
        }
        if self.levels[level].is_full(level, lower) {
            self.close(level, Some(lower.to_vec()))?;
        }
        self.levels[level].stage(lower, child);
        Ok(())
    }

    /// Writes out what `level` has staged, up to `upper`, where its next node begins.
    fn close(&mut self, level: usize, upper: Option<Vec<u8>>) -> Result<()> {
        let mut staged = std::mem::take(&mut self.levels[level]);
        let mut lower = std::mem::take(&mut staged.lower);
        let mut from = 0;
        loop {
            let (to, fence) = staged.node_from(level, from, &lower, upper.as_deref());
            let child = self.sink.put(level, &|page| {
                fill(page, level, &staged, from..to, &lower, fence.as_deref());
            })?;
            self.push_child(level + 1, &lower, child)?;
            staged.written += 1;
            from = to;
            lower = fence.unwrap_or_default();
            if from == staged.count() {
                break;
            }
        }
        staged.clear();
        staged.lower = lower;
        self.levels[level] = staged;
        Ok(())
    }

    /// Ends the building; answers the root, an inner node without fences, and the sink.
    pub fn finish(mut self) -> Result<(u64, S)> {
        let mut level = self.first;
        loop {
            let top = &self.levels[level];
            let is_root = level > 0 && top.written == 0;
            if is_root && top.node_bytes(level, 0..top.count(), 0, 0) <= SPACE_BYTES {
                break;
            }
            self.close(level, None)?;
            level += 1;
        }
        let staged = std::mem::take(&mut self.levels[level]);
        let root = self.sink.put(level, &|page| {
            fill(page, level, &staged, 0..staged.count(), &[], None);
        })?;
        Ok((root, self.sink))
    }
}

fn fill(
    page: &mut [u8; PAGE_BYTES],
    level: usize,
    staged: &Level,
    keys: Range<usize>,
    lower: &[u8],
    upper: Option<&[u8]>,
) {
    keynode::format_node(page, level as u16, lower, upper);
    for at in keys {
        keynode::append(page, staged.key(at), staged.swips[at])
            .expect("a level is closed before it overflows its node");
    }
    keynode::finish(page);
}
