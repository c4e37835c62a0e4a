//! One slot's undo as its own instance writes it, and the instance's chunk pool.
//!
//! Invariants: one thread uses an arena (its instance's); what readers see of it is in
//! [`ArenaShared`]. Positions only grow: rolled-back records keep theirs. Room is taken by
//! [`Arena::reserve`], which may fail, before any latch (rule 4.6); [`Arena::push`] cannot fail.
//! A pool never holds more than its limit and never gives memory back (rules 4.3, 6.9).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::record::{
    self, Flags, HEADER_WORDS, Header, ImageBuilder, Kind, SHAPE, WRITER, header, shape, with_rows,
};
use super::space::{ArenaShared, CHUNK_BYTES, CHUNK_WORDS, ChunkPtr, POSITION_MAX, UndoRef};
use super::twin::VersionSpace;
use crate::base::{CommandId, Cts, Error, InstanceId, Result, RowId, SlotId, Stamp, TreeId, Xid};
use crate::sync::Ordering;

const CHUNK: u64 = CHUNK_WORDS as u64;
/// A slot with fewer positions left than this starts no new transaction.
const POSITIONS_SPARE: u64 = 1 << 34;

/// The undo chunks of one instance.
pub(super) struct ChunkPool {
    space: Arc<VersionSpace>,
    instance: InstanceId,
    free: RefCell<Vec<ChunkPtr>>,
    allocated_bytes: Cell<u64>,
    bytes_max: u64,
}

impl ChunkPool {
    pub(super) fn new(space: Arc<VersionSpace>, instance: InstanceId, bytes_max: u64) -> ChunkPool {
        let (free, allocated_bytes) = (RefCell::default(), Cell::new(0));
        ChunkPool { space, instance, free, allocated_bytes, bytes_max }
    }

    fn take(&self) -> Result<ChunkPtr> {
        // The last one given back is the one most likely in the cache.
        if let Some(chunk) = self.free.borrow_mut().pop() {
            return Ok(chunk);
        }
        if self.allocated_bytes.get() + CHUNK_BYTES > self.bytes_max {
            return Err(Error::OutOfMemory { what: "undo" });
        }
        self.allocated_bytes.set(self.allocated_bytes.get() + CHUNK_BYTES);
        Ok(self.space.undo().allocate(self.instance))
    }

    fn give_back(&self, chunk: ChunkPtr) {
        self.free.borrow_mut().push(chunk);
    }

    /// Bytes that may be in use.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes in use.
    pub(super) fn used_bytes(&self) -> u64 {
        self.allocated_bytes.get() - self.free.borrow().len() as u64 * CHUNK_BYTES
    }
}

/// What identifies a new record.
#[derive(Clone, Copy)]
pub(crate) struct NewRecord {
    pub(crate) writer: Xid,
    pub(crate) command: CommandId,
    pub(crate) tree: TreeId,
    pub(crate) row: RowId,
    pub(crate) kind: Kind,
    pub(crate) flags: Flags,
    /// The row's newest record until now.
    pub(crate) next: UndoRef,
    /// Heap bytes that were reserved for the row before this change.
    pub(crate) reserved: u16,
    /// Position of this transaction's previous record, 0 if it is the first.
    pub(crate) previous: u64,
}

/// One slot's undo, for its owner.
pub(crate) struct Arena {
    pool: Rc<ChunkPool>,
    shared: Arc<ArenaShared>,
    instance: InstanceId,
    slot: SlotId,
    /// Where the next record goes.
    head: Cell<u64>,
    /// The chunk that the next record goes to, with its number, unless it was given back.
    chunk: Cell<Option<(u64, ChunkPtr)>>,
    /// Where the last transaction's undo ended.
    claimed: Cell<u64>,
    /// The chunks that are taken, by number, oldest first; the last is `chunk`.
    taken: RefCell<std::collections::VecDeque<(u64, ChunkPtr)>>,
}

impl Arena {
    pub(super) fn new(pool: &Rc<ChunkPool>, slot: SlotId) -> Arena {
        let instance = pool.instance;
        let shared = Arc::clone(pool.space.undo().arena(instance, slot));
        let head = shared.reclaimed();
        Arena {
            pool: Rc::clone(pool),
            shared,
            instance,
            slot,
            head: Cell::new(head),
            chunk: Cell::new(None),
            claimed: Cell::new(head),
            taken: RefCell::default(),
        }
    }

    /// Where the next record will be at the earliest.
    pub(crate) fn position(&self) -> u64 {
        self.head.get()
    }

    /// Whether anything was written since `claim`.
    pub(crate) fn has_unclaimed(&self) -> bool {
        self.head.get() != self.claimed.get()
    }

    /// Says that everything up to here is queued for collection; answers how many bytes it is.
    pub(crate) fn claim(&self) -> u64 {
        let head = self.head.get();
        (head - self.claimed.replace(head)) * 8
    }

    /// Whether the slot must be retired: its positions are nearly used up.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.head.get() > POSITION_MAX - POSITIONS_SPARE
    }

    /// Whether a record of `words` can be pushed as it is.
    #[inline]
    pub(crate) fn has_room(&self, words: usize) -> bool {
        let head = self.head.get();
        let present = self.chunk.get().is_some_and(|(number, _)| number == head / CHUNK);
        present && (head % CHUNK) as usize + words <= CHUNK_WORDS
    }

    /// Makes sure that a record of `words` can be pushed. Error: `OutOfMemory` beyond the
    /// instance's share; nothing has changed then.
    pub(crate) fn reserve(&self, words: usize) -> Result<()> {
        if words > CHUNK_WORDS {
            return Err(Error::TooLarge {
                what: "before-image",
                bytes: words * 8,
                bytes_max: CHUNK_WORDS * 8,
            });
        }
        if self.has_room(words) {
            return Ok(());
        }
        let mut head = self.head.get();
        let fits = (head % CHUNK) as usize + words <= CHUNK_WORDS;
        let chunk = self.pool.take()?;
        if !fits {
            head = head.next_multiple_of(CHUNK);
        }
        if head + CHUNK > POSITION_MAX {
            self.pool.give_back(chunk);
            return Err(Error::Limit { what: "undo positions of a slot" });
        }
        let number = head / CHUNK;
        let mut taken = self.taken.borrow_mut();
        let oldest = taken.front().map_or(number, |(oldest, _)| *oldest);
        self.shared.set_chunk(number, oldest, chunk);
        taken.push_back((number, chunk));
        self.chunk.set(Some((number, chunk)));
        self.head.set(head);
        Ok(())
    }

    /// Writes a record into room that was reserved. It is in no chain yet: the caller publishes it
    /// through the twin table (release) under the page's latch.
    #[inline]
    pub(crate) fn push(&self, new: &NewRecord, image: &ImageBuilder) -> UndoRef {
        let words = image.record_words();
        let head = self.head.get();
        let offset = (head % CHUNK) as usize;
        let (number, chunk) = self.chunk.get().expect("room was reserved");
        debug_assert_eq!(number, head / CHUNK);
        assert!(offset + words <= CHUNK_WORDS, "room was reserved for the whole record");
        // SAFETY: the pool holds the `VersionSpace`, which owns the chunk.
        let place = &unsafe { chunk.words() }[offset..offset + words];
        let put = |word: usize, value: u64| place[word].store(value, Ordering::Relaxed);
        put(WRITER, new.writer.raw());
        put(1, new.next.0);
        put(2, new.row.0);
        put(3, new.tree.0 as u64 | (new.command.0 as u64) << 32);
        let columns = if new.kind == Kind::Insert { 1 } else { image.columns };
        put(SHAPE, shape(new.kind, new.flags, words, columns, new.reserved));
        put(5, new.previous);
        for (word, bytes) in image.bytes.chunks(8).enumerate() {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            put(HEADER_WORDS + word, u64::from_le_bytes(padded));
        }
        self.head.set(head + words as u64);
        UndoRef::new(self.instance, self.slot, head)
    }

    /// The reference of one of this arena's positions.
    pub(crate) fn at(&self, position: u64) -> UndoRef {
        UndoRef::new(self.instance, self.slot, position)
    }

    /// Lets `look` see the words of an own record that is not reclaimed.
    fn with<R>(&self, position: u64, look: impl FnOnce(&[crate::sync::AtomicU64]) -> R) -> R {
        let number = position / CHUNK;
        let taken = self.taken.borrow();
        let oldest = taken.front().expect("an own record is in a taken chunk").0;
        // Numbers are consecutive.
        let (found, chunk) = taken[(number - oldest) as usize];
        debug_assert_eq!(found, number);
        // SAFETY: the pool holds the `VersionSpace`, which owns the chunk.
        let words = unsafe { chunk.words() };
        look(&words[(position % CHUNK) as usize..])
    }

    /// Copies an own record; `image` is cleared first.
    pub(crate) fn read(&self, position: u64, image: &mut Vec<u8>) -> Header {
        self.with(position, |words| {
            let header = header(words).expect("an own record is whole");
            record::image(words, &header, image);
            header
        })
    }

    /// An own insert stands for so many rows now. The leaf of the newest of them is held.
    pub(crate) fn set_rows(&self, position: u64, rows: u16) {
        self.with(position, |words| {
            let shape = words[SHAPE].load(Ordering::Relaxed);
            // Relaxed: who reads the row under its leaf's version reads this, too.
            words[SHAPE].store(with_rows(shape, rows), Ordering::Relaxed);
        });
    }

    /// An own record's header.
    pub(crate) fn header(&self, position: u64) -> Header {
        self.with(position, |words| header(words).expect("an own record is whole"))
    }

    /// Writes the commit timestamp into an own record; answers the previous record's position.
    pub(crate) fn stamp(&self, position: u64, cts: Cts) -> u64 {
        self.with(position, |words| {
            // Release: partner is the acquire load in `record::header`.
            words[WRITER].store(Stamp::Committed(cts).raw(), Ordering::Release);
            words[5].load(Ordering::Relaxed)
        })
    }

    /// Gives a chunk back that was reserved and not used, if nothing older is alive.
    pub(crate) fn release_unused(&self) {
        if self.shared.reclaimed() == self.head.get() {
            self.reclaim(self.head.get());
        }
    }

    /// Says that what was before the records below `position` nobody needs any more.
    pub(crate) fn pass(&self, position: u64) {
        self.shared.set_passed(position);
    }

    /// Reclaims everything below `position`: to every reader, chains end there from now on.
    pub(crate) fn reclaim(&self, position: u64) {
        debug_assert!(position <= self.head.get() && position >= self.shared.reclaimed());
        self.shared.set_reclaimed(position);
        let mut taken = self.taken.borrow_mut();
        while let Some(&(number, chunk)) = taken.front() {
            let whole = (number + 1) * CHUNK <= position;
            // An arena with nothing alive gives its chunk to the slots that work, and goes on in
            // another one at the same position.
            let idle = position == self.head.get();
            if !whole && !idle {
                break;
            }
            taken.pop_front();
            self.pool.give_back(chunk);
        }
        if taken.is_empty() {
            self.chunk.set(None);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn arena(bytes_max: u64) -> Arena {
        let space = VersionSpace::new(2);
        let pool = Rc::new(ChunkPool::new(space, InstanceId(1), bytes_max));
        Arena::new(&pool, SlotId(9))
    }

    fn new(row: u64, previous: u64) -> NewRecord {
        NewRecord {
            writer: Xid::new(InstanceId(1), SlotId(9), 5),
            command: CommandId(3),
            tree: TreeId(8),
            row: RowId(row),
            kind: Kind::Update,
            flags: Flags::KEY,
            next: UndoRef::NONE,
            reserved: 12,
            previous,
        }
    }

    fn image(value: &[u8]) -> ImageBuilder {
        let mut image = ImageBuilder::default();
        let put = |out: &mut Vec<u8>| {
            out.extend_from_slice(value);
            Some(crate::page::overflow::Form::Inline)
        };
        image.push(4, true, put);
        image
    }

    #[test]
    fn records_read_back_until_they_are_reclaimed() {
        let arena = arena(10 * CHUNK_BYTES);
        let space = Arc::clone(&arena.pool.space);
        let mut previous = 0;
        let mut all = Vec::new();
        for row in 0..300_u64 {
            let image = image(&row.to_le_bytes().repeat(1 + row as usize % 20));
            arena.reserve(image.record_words()).expect("within the limit");
            let at = arena.push(&new(row, previous), &image);
            previous = at.position();
            all.push(at);
        }
        let mut bytes = Vec::new();
        for (row, at) in all.iter().enumerate() {
            let header = arena.read(at.position(), &mut bytes);
            assert_eq!(header.row, RowId(row as u64));
            assert_eq!((header.tree, header.command), (TreeId(8), CommandId(3)));
            assert_eq!((header.kind, header.reserved), (Kind::Update, 12));
            let value = (row as u64).to_le_bytes().repeat(1 + row % 20);
            assert_eq!(&bytes[4..4 + value.len()], &value[..]);
            assert!(!space.undo().is_reclaimed(*at));
        }
        assert!(arena.pool.used_bytes() > CHUNK_BYTES);
        arena.reclaim(all[200].position());
        assert!(space.undo().is_reclaimed(all[199]) && !space.undo().is_reclaimed(all[200]));
        arena.reclaim(arena.position());
        assert_eq!(arena.pool.used_bytes(), 0, "an idle arena holds no chunk");
        // It goes on where it was, in another chunk.
        let image = image(b"x");
        let before = arena.position();
        arena.reserve(image.record_words()).expect("within the limit");
        let at = arena.push(&new(1, 0), &image);
        assert_eq!(at.position(), before);
        assert_eq!(arena.header(before).row, RowId(1));
    }

    #[test]
    fn the_limit_is_an_error_and_leaves_the_arena_usable() {
        let arena = arena(2 * CHUNK_BYTES);
        let image = image(&[7; 4000]);
        let mut pushed = 0;
        let failed = loop {
            match arena.reserve(image.record_words()) {
                Ok(()) => arena.push(&new(1, 0), &image),
                Err(error) => break error,
            };
            pushed += 1;
        };
        assert_eq!(failed, Error::OutOfMemory { what: "undo" });
        assert_eq!(pushed, 8);
        arena.reclaim(arena.position());
        assert!(arena.reserve(image.record_words()).is_ok());
    }
}
