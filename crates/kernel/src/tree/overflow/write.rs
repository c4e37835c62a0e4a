//! Writing a long value: block by block, compressed, into a chain of pages.
//!
//! Invariants: a page is complete, and may leave memory, when its successor is named or the value is;
//! the chain is private until [`NewLong::adopt`]; a page's successor is named before
//! the next block begins; a block is added as a whole or not at all, so that who makes room may give it
//! again; what is dropped unfinished or never adopted is freed. A checkpoint has values that are finished,
//! with all their pages, and no others.

use std::sync::Arc;

use super::free::free_chain;
use crate::base::{HomeId, Pid, Result, Stop, TreeId};
use crate::buffer::{BufferPool, FrameRef, PageWrite};
use crate::page::overflow::{self, CONTENT_BYTES, LongRef, StoredLong};
use crate::sync::spin_to_retry;

/// A long value being written. Blocks are given in order; all but the last hold
/// [`overflow::BLOCK_BYTES`].
pub struct LongWriter {
    chain: NewLong,
    home: HomeId,
    tree: TreeId,
    pages: Vec<Pid>,
    last: Option<(FrameRef, usize)>,
}

/// A chain that no row refers to yet: freed when it is dropped.
pub struct NewLong {
    pool: Arc<BufferPool>,
    reference: LongRef,
    is_adopted: bool,
}

impl NewLong {
    /// What a row keeps.
    pub fn reference(&self) -> LongRef {
        self.reference
    }

    /// A row refers to it now: it is freed with that row's version.
    pub fn adopt(&mut self) {
        self.is_adopted = true;
    }
}

impl Drop for NewLong {
    fn drop(&mut self) {
        if !self.is_adopted && self.reference.first != Pid(0) {
            free_chain(&self.pool, self.reference.first);
        }
    }
}

impl LongWriter {
    /// Begins a value of `tree` in pages of `home`.
    pub fn new(pool: &Arc<BufferPool>, home: HomeId, tree: TreeId) -> LongWriter {
        let reference =
            LongRef { first: Pid(0), raw_bytes: 0, stored_bytes: 0, pages: 0, checksum: 0 };
        pool.note_longs(home, tree);
        let chain = NewLong { pool: pool.clone(), reference, is_adopted: false };
        LongWriter { chain, home, tree, pages: Vec::new(), last: None }
    }

    /// Adds a block: `raw` is what it holds, `block` its stored form. Errors: `OutOfMemory`, the pool is
    /// full; `DiskFull`, `Io`: pages have their place on disk from the beginning. Then the block was not
    /// added, and may be given again.
    pub fn put(&mut self, raw: &[u8], block: &[u8]) -> Result<()> {
        self.put_stored(block)?;
        let reference = &mut self.chain.reference;
        reference.checksum = crc32c::crc32c_append(reference.checksum, raw);
        reference.raw_bytes += raw.len() as u32;
        Ok(())
    }

    fn put_stored(&mut self, mut block: &[u8]) -> Result<()> {
        let room = self.last.map_or(0, |(_, used)| CONTENT_BYTES - used);
        let mut pages = self.pages_for(block.len().saturating_sub(room))?.into_iter();
        self.chain.reference.stored_bytes += block.len() as u32;
        while !block.is_empty() {
            if let Some((frame, used)) = &mut self.last
                && *used < CONTENT_BYTES
            {
                let taken = overflow::fill(held(*frame).bytes_mut(), block);
                *used += taken;
                block = &block[taken..];
                continue;
            }
            let (pid, frame) = pages.next().expect("there are as many as the block needs");
            let reference = &mut self.chain.reference;
            if reference.first == Pid(0) {
                reference.first = pid;
            }
            reference.pages += 1;
            self.pages.push(pid);
            if let Some((before, _)) = self.last.replace((frame, 0)) {
                let mut before = held(before);
                overflow::set_next(before.bytes_mut(), pid);
                before.frame().set_complete();
            }
        }
        Ok(())
    }

    /// The chain's next pages, still empty, for so many stored bytes: all, or none with an error.
    fn pages_for(&self, bytes: usize) -> Result<Vec<(Pid, FrameRef)>> {
        let count = bytes.div_ceil(CONTENT_BYTES);
        let NewLong { pool, reference, .. } = &self.chain;
        let mut reserved = pool.reserve(self.home, count)?;
        let (mut pages, mut first) = (Vec::with_capacity(count), reference.first);
        for ordinal in (reference.pages..).take(count) {
            match pool.allocate_overflow(&mut reserved, self.tree) {
                Ok(mut page) => {
                    let pid = page.pid();
                    if first == Pid(0) {
                        first = pid;
                    }
                    overflow::format(page.bytes_mut(), first, ordinal);
                    pages.push((pid, page.frame()));
                }
                Err(error) => {
                    pages.into_iter().for_each(|(_, frame)| pool.free(held(frame)));
                    return Err(error);
                }
            }
        }
        Ok(pages)
    }

    /// The whole value was given.
    pub fn finish(self) -> NewLong {
        if let Some((last, _)) = self.last {
            let last = held(last);
            last.frame().set_complete();
            last.unchanged();
        }
        self.chain.pool.complete_long(self.home, &self.pages);
        self.chain
    }
}

/// Takes a page that only its writer knows: at worst somebody who remembers its frame for another
/// page looks at it for a moment.
fn held(frame: FrameRef) -> PageWrite {
    loop {
        match PageWrite::lock(frame) {
            Ok(page) => return page,
            Err(Stop::Retry) => spin_to_retry(),
            Err(stop) => unreachable!("a latch answers nothing else: {stop:?}"),
        }
    }
}

/// Puts a value back as it stood in the log (recovery).
pub fn write_stored(
    pool: &Arc<BufferPool>,
    home: HomeId,
    tree: TreeId,
    value: &StoredLong<'_>,
) -> Result<NewLong> {
    let mut writer = LongWriter::new(pool, home, tree);
    for part in value.blocks.chunks(overflow::BLOCK_BYTES) {
        writer.put_stored(part)?;
    }
    writer.chain.reference.raw_bytes = value.raw_bytes;
    writer.chain.reference.checksum = value.checksum;
    Ok(writer.finish())
}
