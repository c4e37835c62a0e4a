//! Reading a long value in portions.
//!
//! Invariants: latches nothing; a page counts if its header says that it is the page meant (kind,
//! PID, tree, owner, ordinal) and its version validates after its content was copied. The whole
//! value counts when its checksum is that of the reference. Whoever reads a version that his
//! snapshot holds finds the chain whole, so anything else is `Corrupt` and names the page; whoever
//! follows what he read racily takes that for a reason to read again. A page on disk that is damaged is
//! `Corrupt` without a page: its place is named.

use crate::base::PAGE_BYTES;
use crate::base::{Error, Outcome, Pid, Result, Stop, TreeId};
use crate::buffer::{BufferPool, FrameRef, LongPage, PageRead};
use crate::io::IoBuffer;
use crate::latch::{OwnedPage, PageBytes};
use crate::page::overflow::{
    self, BLOCK_BYTES, CONTENT_BYTES, LongRef, OverflowPage, block_len, decode_block,
};
use crate::page::{PageKind, header};
use crate::sync::spin_to_retry;

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
    /// Those of the newest contents: one that is not in memory is loaded.
    Loaded,
    /// In a checkpoint that is pinned: those that are not in memory any more lie on disk, and are read
    /// there, for they may be nobody's else.
    OnDisk,
}

impl LongOwner {
    /// A tree with the newest contents.
    pub fn newest(tree: TreeId) -> LongOwner {
        LongOwner { tree, pages: LongPages::Loaded }
    }
}

/// What was found in a frame.
enum Taken {
    /// The page, and this is the one after it.
    Next(Pid),
    /// A page with another PID: the one meant has left the frame.
    Elsewhere,
    /// A page with this PID that is another value's.
    Another,
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

    /// Appends the next block of the value to `out`; blocks the thread where a page is read from disk.
    /// Errors: `Corrupt`, `Io`.
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
        let decoded = decode_block(&self.stored[..block], left.min(BLOCK_BYTES), out);
        decoded.map_err(|error| self.corrupt(&error.to_string()))?;
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
        let before = self.stored.len();
        loop {
            self.stored.truncate(before);
            let Some(frame) = pool.find_overflow(self.next) else {
                match self.missing(pool)? {
                    Some(next) => return self.goes_on(next),
                    None => continue,
                }
            };
            match self.copy(frame) {
                Ok(Taken::Next(next)) => return self.goes_on(next),
                // In use, or it left just now.
                Err(Stop::Retry) | Ok(Taken::Elsewhere) => spin_to_retry(),
                Ok(Taken::Another) if self.owner.pages == LongPages::OnDisk => {
                    self.stored.truncate(before);
                    let next = self.page_on_disk(pool)?;
                    return self.goes_on(next);
                }
                Ok(Taken::Another) | Err(_) => return Err(self.corrupt("the page is another one")),
            }
        }
    }

    fn goes_on(&mut self, next: Pid) -> Result<()> {
        (self.next, self.ordinal) = (next, self.ordinal + 1);
        Ok(())
    }

    /// Loads the page that is not in memory, to be looked for again; or takes what was read, and answers
    /// the page after it.
    fn missing(&mut self, pool: &BufferPool) -> Result<Option<Pid>> {
        if self.owner.pages == LongPages::OnDisk {
            return self.page_on_disk(pool).map(Some);
        }
        match pool.load_long(self.next)? {
            Some(LongPage::Here(_)) => Ok(None),
            Some(LongPage::Apart(buffer)) => self.take_read(&buffer).map(Some),
            None => Err(self.corrupt("there is no such page")),
        }
    }

    /// Reads a page of a checkpoint that is not in memory.
    fn page_on_disk(&mut self, pool: &BufferPool) -> Result<Pid> {
        let (Some(place), Some(store)) = (self.next.place(), pool.store()) else {
            return Err(self.corrupt("there is no such page"));
        };
        let mut buffer = IoBuffer::zeroed(PAGE_BYTES);
        store.read(place, &mut buffer)?;
        self.take_read(&buffer)
    }

    fn take_read(&mut self, buffer: &IoBuffer) -> Result<Pid> {
        match self.take(OwnedPage(buffer.first_chunk().expect("a buffer of a page"))) {
            Taken::Next(next) => Ok(next),
            Taken::Elsewhere | Taken::Another => Err(self.corrupt("the page is another one")),
        }
    }

    fn copy(&mut self, frame: FrameRef) -> Outcome<Taken> {
        let read = PageRead::begin(frame)?;
        let taken = self.take(read.racy());
        read.validate()?;
        Ok(taken)
    }

    /// Takes the content of a page.
    fn take(&mut self, page: impl PageBytes) -> Taken {
        if header::kind(page) != Some(PageKind::Overflow) || header::pid(page) != self.next {
            return Taken::Elsewhere;
        }
        let own = OverflowPage::read(page);
        let is_it = header::tree(page) == self.owner.tree
            && own.owner == self.reference.first
            && own.ordinal == self.ordinal
            && own.content_bytes <= CONTENT_BYTES;
        if !is_it {
            return Taken::Another;
        }
        overflow::append_content(page, own.content_bytes, &mut self.stored);
        Taken::Next(own.next)
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

/// The pages of a value, for checks; fewer if one of them is wrong.
pub fn pages_of(pool: &BufferPool, owner: LongOwner, reference: LongRef) -> Vec<Pid> {
    let mut reader = LongReader::new(reference, owner);
    let mut pages = Vec::new();
    while reader.next != Pid(0) && reader.ordinal < reference.pages {
        pages.push(reader.next);
        if reader.page(pool).is_err() {
            break;
        }
        reader.stored.clear();
    }
    pages
}
