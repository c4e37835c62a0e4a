//! Reading a long value in portions.
//!
//! Invariants: latches nothing; a page counts if its header says that it is the page meant (kind,
//! PID, tree, owner, ordinal) and its version validates after its content was copied. The whole
//! value counts when its checksum is that of the reference. Whoever reads a version that his
//! snapshot holds finds the chain whole, so anything else is `Corrupt`; whoever follows what he
//! read racily takes `Corrupt` for a reason to read again.

use crate::base::{Error, Outcome, Pid, Result, Stop, TreeId};
use crate::buffer::{BufferPool, PageRead};
use crate::page::overflow::{
    self, BLOCK_BYTES, CONTENT_BYTES, LongRef, OverflowPage, block_len, decode_block,
};
use crate::page::{PageKind, header};
use crate::sync::spin;

/// Whether the value is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Portion {
    /// There is more to read.
    More,
    /// All of it has been read and its checksum is right.
    Done,
}

/// A long value being read.
pub struct LongReader {
    reference: LongRef,
    tree: TreeId,
    next: Pid,
    ordinal: u32,
    raw_bytes: usize,
    checksum: u32,
    /// Stored bytes that were read and belong to a block that is not complete.
    stored: Vec<u8>,
}

impl LongReader {
    /// Begins to read the value of `tree` that `reference` names.
    pub fn new(reference: LongRef, tree: TreeId) -> LongReader {
        let next = reference.first;
        LongReader {
            reference,
            tree,
            next,
            ordinal: 0,
            raw_bytes: 0,
            checksum: 0,
            stored: Vec::new(),
        }
    }

    /// The pages read so far end before this one, 0 at the end: for checks that count pages.
    pub fn next_page(&self) -> Pid {
        self.next
    }

    /// Appends the next block of the value to `out`. Errors: `Corrupt`.
    pub fn portion(&mut self, pool: &BufferPool, out: &mut Vec<u8>) -> Result<Portion> {
        let left = self.reference.raw_bytes as usize - self.raw_bytes;
        if left == 0 {
            return self.end();
        }
        let block = loop {
            if let Some(len) = block_len(&self.stored)
                && len <= self.stored.len()
            {
                break len;
            }
            self.page(pool)?;
        };
        let before = out.len();
        decode_block(&self.stored[..block], left.min(BLOCK_BYTES), out)?;
        self.stored.drain(..block);
        self.checksum = crc32c::crc32c_append(self.checksum, &out[before..]);
        self.raw_bytes += out.len() - before;
        if self.raw_bytes == self.reference.raw_bytes as usize {
            return self.end();
        }
        Ok(Portion::More)
    }

    fn end(&self) -> Result<Portion> {
        if self.checksum != self.reference.checksum {
            return Err(self.corrupt("its checksum is wrong"));
        }
        if self.next != Pid(0) || self.ordinal != self.reference.pages || !self.stored.is_empty() {
            return Err(self.corrupt("it has pages beyond its end"));
        }
        Ok(Portion::Done)
    }

    fn page(&mut self, pool: &BufferPool) -> Result<()> {
        if self.next == Pid(0) || self.ordinal == self.reference.pages {
            return Err(self.corrupt("it ends too early"));
        }
        let frame = pool.find_overflow(self.next);
        let frame = frame.ok_or_else(|| self.corrupt("there is no such page"))?;
        let before = self.stored.len();
        loop {
            self.stored.truncate(before);
            match self.copy(frame) {
                Ok(next) => {
                    (self.next, self.ordinal) = (next, self.ordinal + 1);
                    return Ok(());
                }
                Err(Stop::Retry) => spin(),
                Err(_) => return Err(self.corrupt("the page is another one")),
            }
        }
    }

    /// Copies a page's content; answers the page after it.
    fn copy(&mut self, frame: crate::buffer::FrameRef) -> Outcome<Pid> {
        let read = PageRead::begin(frame)?;
        let page = read.racy();
        let own = OverflowPage::read(page);
        let is_it = header::kind(page) == Some(PageKind::Overflow)
            && header::pid(page) == self.next
            && header::tree(page) == self.tree
            && own.owner == self.reference.first
            && own.ordinal == self.ordinal
            && own.content_bytes <= CONTENT_BYTES;
        if is_it {
            overflow::append_content(page, own.content_bytes, &mut self.stored);
        }
        read.validate()?;
        if is_it { Ok(own.next) } else { Err(Stop::NeedPage(self.next)) }
    }

    fn corrupt(&self, what: &str) -> Error {
        let LongRef { first, raw_bytes, .. } = self.reference;
        let (tree, ordinal) = (self.tree, self.ordinal);
        let detail = format!(
            "long value of {raw_bytes} bytes of tree {tree}, which begins with page {first}, at its page {ordinal}: {what}"
        );
        Error::Corrupt { page: Some(self.next), detail }
    }
}

/// Appends a whole value to `out`: for short ones, and for checks.
pub fn read_whole(
    pool: &BufferPool,
    tree: TreeId,
    reference: LongRef,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut reader = LongReader::new(reference, tree);
    while reader.portion(pool, out)? == Portion::More {}
    Ok(())
}
