//! Long values: written to chains of overflow pages, read and freed again (rule 5.8).
//!
//! Invariants: a chain belongs to whoever made it until a row refers to it, and is freed if that
//! never happens ([`LongWriter`], [`NewLong`]); from then on it never changes, and is freed exactly
//! once, when the last version that refers to it goes (`version`). Frames are reserved a block at
//! a time, before the first latch of that block (rule 4.6). Reading latches nothing; a page that
//! is not the one meant (freed meanwhile) is noticed by its header under one version of its latch.
//! One page is latched at a time, with nothing else held. Nothing here yields: each call does one portion,
//! and the shell yields in between; it waits only for a page that has left memory to be read
//! (`buffer::long`), with the thread blocked.

mod free;
#[cfg(all(test, loom))]
mod loom_longs;
mod read;
#[cfg(all(test, not(loom)))]
mod tests;
mod write;

pub use free::{FreeChain, FreeLeft, free_chain};
pub use read::{LongOwner, LongPages, LongReader, Portion, pages_of, read_whole};
pub use write::{LongWriter, NewLong, write_stored};
