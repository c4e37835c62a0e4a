//! Key nodes: inner nodes of all trees and leaves of index trees.
//!
//! An inner node holds (key, child) pairs; child i covers the keys from key i up to key i+1, and
//! key 0 is the node's lower fence. An index leaf holds entries: key bytes, then the row id as
//! eight big-endian bytes. Keys are byte strings and compare as such.

/// Bytes of the longest key of an index entry, without its row id (54000 beyond it).
pub const KEY_BYTES_MAX: usize = 2000;
/// Bytes of the longest entry or separator.
pub const ENTRY_BYTES_MAX: usize = KEY_BYTES_MAX + 8;

/// On which side of all strings that begin with the probe's bytes the place is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// Directly before the string itself.
    Before,
    /// Directly after all strings that begin with it.
    After,
}

/// A place between keys.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// The string.
    pub bytes: &'a [u8],
    /// Which side of it.
    pub edge: Edge,
}

impl<'a> Probe<'a> {
    /// Before every key.
    pub const MIN: Probe<'static> = Probe { bytes: &[], edge: Edge::Before };
    /// After every key.
    pub const MAX: Probe<'static> = Probe { bytes: &[], edge: Edge::After };

    /// Directly before `bytes`.
    #[inline]
    pub fn before(bytes: &'a [u8]) -> Probe<'a> {
        Probe { bytes, edge: Edge::Before }
    }

    /// Directly after all that begins with `bytes`.
    #[inline]
    pub fn after(bytes: &'a [u8]) -> Probe<'a> {
        Probe { bytes, edge: Edge::After }
    }
}
