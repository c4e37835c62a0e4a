//! Reading a long value in portions.
//!
//! Invariants: latches nothing; a page counts if its header says that it is the page meant (kind,
//! PID, tree, owner, ordinal) and its version validates after its content was copied. The whole
//! value counts when its checksum is that of the reference. Whoever reads a version that his
//! snapshot holds finds the chain whole, so anything else is `Corrupt`; whoever follows what he
//! read racily takes `Corrupt` for a reason to read again.

use crate::base::PAGE_BYTES;
use crate::base::{Error, Outcome, Pid, Result, Stop, TreeId};
use crate::buffer::{BufferPool, PageRead};
use crate::io::IoBuffer;
use crate::latch::{OwnedPage, PageBytes};
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

/// Whose long values are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LongOwner {
    /// The tree that their pages name.
    pub tree: TreeId,
    /// Where the pages are.
    pub pages: LongPages,
}

/// Where pages of long values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LongPages {
    /// In memory, all of them.
    InMemory,
    /// In a checkpoint that is pinned: those that are not in memory any more lie on disk.
    OnDisk,
}

impl LongOwner {
    /// A tree whose pages are in memory.
    pub fn in_memory(tree: TreeId) -> LongOwner {
        LongOwner { tree, pages: LongPages::InMemory }
    }
}

/// A long value being read.
pub struct LongReader {
    reference: LongRef,
    owner: LongOwner,
    next: Pid,
    ordinal: u32,
    raw_bytes: usize,
    checksum: u32,
    /// Stored bytes that were read and belong to a block that is not complete.
    stored: Vec<u8>,
}

impl LongReader {
    /// Begins to read the value of `owner` that `reference` names.
    pub fn new(reference: LongRef, owner: LongOwner) -> LongReader {
        let next = reference.first;
        LongReader {
            reference,
            owner,
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

    /// Appends the next block of the value to `out`; blocks where a page is read from disk. Errors:
    /// `Corrupt`, `Io`.
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
        let Some(frame) = pool.find_overflow(self.next) else {
            return self.page_on_disk(pool);
        };
        let before = self.stored.len();
        loop {
            self.stored.truncate(before);
            match self.copy(frame) {
                Ok(Some(next)) => {
                    (self.next, self.ordinal) = (next, self.ordinal + 1);
                    return Ok(());
                }
                Err(Stop::Retry) => spin(),
                // It was freed just now.
                Ok(None) if self.owner.pages == LongPages::OnDisk => {
                    self.stored.truncate(before);
                    return self.page_on_disk(pool);
                }
                Ok(None) | Err(_) => return Err(self.corrupt("the page is another one")),
            }
        }
    }

    /// Reads a page that is not in memory.
    fn page_on_disk(&mut self, pool: &BufferPool) -> Result<()> {
        let place = match self.owner.pages {
            LongPages::InMemory => None,
            LongPages::OnDisk => self.next.place(),
        };
        let (Some(place), Some(store)) = (place, pool.store()) else {
            return Err(self.corrupt("there is no such page"));
        };
        let mut buffer = IoBuffer::zeroed(PAGE_BYTES);
        store.read(place, &mut buffer)?;
        let page = OwnedPage(buffer.first_chunk().expect("a buffer of a page"));
        let next = self.take(page).ok_or_else(|| self.corrupt("the page is another one"))?;
        (self.next, self.ordinal) = (next, self.ordinal + 1);
        Ok(())
    }

    /// Copies a page's content; answers the page after it, or none if it is another page.
    fn copy(&mut self, frame: crate::buffer::FrameRef) -> Outcome<Option<Pid>> {
        let read = PageRead::begin(frame)?;
        let next = self.take(read.racy());
        read.validate()?;
        Ok(next)
    }

    /// Takes the content of a page; answers the page after it, or none if it is another page.
    fn take(&mut self, page: impl PageBytes) -> Option<Pid> {
        let own = OverflowPage::read(page);
        let is_it = header::kind(page) == Some(PageKind::Overflow)
            && header::pid(page) == self.next
            && header::tree(page) == self.owner.tree
            && own.owner == self.reference.first
            && own.ordinal == self.ordinal
            && own.content_bytes <= CONTENT_BYTES;
        if is_it {
            overflow::append_content(page, own.content_bytes, &mut self.stored);
        }
        is_it.then_some(own.next)
    }

    fn corrupt(&self, what: &str) -> Error {
        let LongRef { first, raw_bytes, .. } = self.reference;
        let (tree, ordinal) = (self.owner.tree, self.ordinal);
        let detail = format!(
            "long value of {raw_bytes} bytes of tree {tree}, which begins with page {first}, at its page {ordinal}: {what}"
        );
        Error::Corrupt { page: Some(self.next), detail }
    }
}

/// Appends a whole value to `out`: for short ones, and for checks.
pub fn read_whole(
    pool: &BufferPool,
    owner: LongOwner,
    reference: LongRef,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut reader = LongReader::new(reference, owner);
    while reader.portion(pool, out)? == Portion::More {}
    Ok(())
}
