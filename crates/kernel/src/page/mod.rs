//! Page layouts as pure functions over bytes.
//!
//! Invariants: nothing here holds state, latches or frames; every offset is explicit, every
//! number little-endian, and every page begins with the common header below, which carries a
//! checksum and a format version (rule 9.7). Search code is generic over
//! [`crate::latch::PageBytes`] so that it runs on racy and on owned pages alike; functions that
//! change a page take `&mut [u8; PAGE_BYTES]`, whose holder holds the page's latch exclusively.
//! docs/format.md has every byte.

pub mod header;
pub mod keynode;
mod layout;
pub mod overflow;
pub mod rowleaf;

pub use header::{PageKind, seal, verify};
pub use layout::{COLUMNS_MAX, ColumnType, Layout};
