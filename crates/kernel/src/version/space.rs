//! Where undo lies: chunks that are never returned, and how an [`UndoRef`] is followed to one.
//!
//! Invariants:
//! - A chunk is never unmapped while the [`UndoSpace`] lives, so a stale reader touches memory of
//!   the right type always (rule 4.3); chunks are words, written and read with relaxed atomics.
//! - Positions of one slot's arena only grow. A position below `reclaimed` means nothing any more;
//!   a copy counts only if its position was not below it before *and after* copying (rule 6.3).
//! - Only the slot's own instance writes an arena's shared words; any thread reads them.
//!
//! The copy is a seqlock: the owner stores `reclaimed`, release-fences, and only then overwrites
//! chunk words; a reader loads words, acquire-fences, and loads `reclaimed` again: who saw an
//! overwritten word sees the higher mark.

use std::ops::DerefMut;
use std::sync::{Arc, OnceLock, PoisonError};

use crossbeam_utils::CachePadded;

use crate::base::{HomeId, InstanceId, SLOTS_PER_INSTANCE_MAX, SlotId};
use crate::sync::{AtomicPtr, AtomicU64, Ordering, PlainMutex as Mutex, fence, mutant, point};

/// Words (granules of 8 bytes) of one chunk; a record never crosses chunks.
#[cfg(not(loom))]
pub(super) const CHUNK_WORDS: usize = 2048;
/// A model's chunk: each word costs loom.
#[cfg(loom)]
pub(super) const CHUNK_WORDS: usize = 8;
/// Bytes of one chunk.
pub(super) const CHUNK_BYTES: u64 = (CHUNK_WORDS * 8) as u64;
/// Positions of one arena over its life: 39 bits of granules, 4 TiB.
pub(super) const POSITION_MAX: u64 = (1 << POSITION_BITS) - 1;

const POSITION_BITS: u32 = 39;
const SLOT_BITS: u32 = 16;
const SEGMENT_SLOTS: usize = 256;
const DIRECTORY_START: usize = 4;

/// Names an undo record for ever: instance (9 bits), slot (16), position in granules (39).
/// The all-zero word means none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UndoRef(pub(super) u64);

impl UndoRef {
    /// No record.
    pub(crate) const NONE: UndoRef = UndoRef(0);

    pub(super) fn new(instance: InstanceId, slot: SlotId, position: u64) -> UndoRef {
        debug_assert!(position != 0 && position <= POSITION_MAX);
        UndoRef(
            (instance.0 as u64) << (SLOT_BITS + POSITION_BITS)
                | (slot.0 as u64) << POSITION_BITS
                | position,
        )
    }

    /// Whether this names no record.
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The writer's instance.
    pub(crate) fn instance(self) -> InstanceId {
        InstanceId((self.0 >> (SLOT_BITS + POSITION_BITS)) as u16)
    }

    /// The log that holds the writer's commit: instance i commits only into log i.
    pub(crate) fn home(self) -> HomeId {
        HomeId(self.instance().0)
    }

    pub(super) fn slot(self) -> SlotId {
        SlotId((self.0 >> POSITION_BITS) as u16)
    }

    /// The position in its slot's arena.
    pub(crate) fn position(self) -> u64 {
        self.0 & POSITION_MAX
    }
}

/// A chunk's first word. Points to `CHUNK_WORDS` words that live as long as the [`UndoSpace`].
#[derive(Clone, Copy)]
pub(super) struct ChunkPtr(pub(super) *const AtomicU64);

// SAFETY: the words behind are atomics owned by the `UndoSpace`, which every user holds alive.
unsafe impl Send for ChunkPtr {}

impl ChunkPtr {
    /// The chunk's words.
    ///
    /// # Safety
    /// The `UndoSpace` that allocated the chunk must outlive the answer.
    pub(super) unsafe fn words<'a>(self) -> &'a [AtomicU64] {
        // SAFETY: allocated with CHUNK_WORDS words by `UndoSpace::allocate`; never freed before it.
        unsafe { std::slice::from_raw_parts(self.0, CHUNK_WORDS) }
    }
}

/// Maps chunk numbers of one arena to chunks: a ring of the live ones, a power of two long.
struct Directory {
    chunks: Box<[AtomicPtr<AtomicU64>]>,
}

impl Directory {
    fn new(len: usize) -> Directory {
        Directory { chunks: (0..len).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect() }
    }

    fn entry(&self, chunk: u64) -> &AtomicPtr<AtomicU64> {
        &self.chunks[chunk as usize & (self.chunks.len() - 1)]
    }
}

/// The part of a slot's arena that readers of all instances look at.
pub(super) struct ArenaShared {
    /// Positions below are reclaimed. Written by the owner's collection, read by everybody.
    reclaimed: CachePadded<AtomicU64>,
    /// What was before the records below, nobody needs any more: at the latest when they are visited.
    /// Written by the owner's collection, read by who rolls back or collects, hardly ever.
    passed: CachePadded<AtomicU64>,
    /// The present directory. Written by the owner when it grows, read by everybody.
    directory: AtomicPtr<Directory>,
    /// Directories that were outgrown: a stale reader may still look into one. Owner only.
    outgrown: Mutex<Vec<ChunkDirectory>>,
}

struct ChunkDirectory(*mut Directory);
// SAFETY: owned by the list that holds it; only freed when the `ArenaShared` is dropped.
unsafe impl Send for ChunkDirectory {}

impl ArenaShared {
    fn new() -> ArenaShared {
        let directory = Box::into_raw(Box::new(Directory::new(DIRECTORY_START)));
        ArenaShared {
            // Position 0 of instance 0, slot 0 would read as "none".
            reclaimed: CachePadded::new(AtomicU64::new(1)),
            passed: CachePadded::new(AtomicU64::new(1)),
            directory: AtomicPtr::new(directory),
            outgrown: Mutex::new(Vec::new()),
        }
    }

    fn directory(&self) -> &Directory {
        // Acquire: partner is the release store in `grow`.
        let directory = self.directory.load(Ordering::Acquire);
        // SAFETY: directories are freed by `drop` only.
        unsafe { &*directory }
    }

    /// The first position that is not reclaimed.
    #[inline]
    pub(super) fn reclaimed(&self) -> u64 {
        // Acquire: partner is the store in `set_reclaimed`; who sees the mark sees what the
        // collection did to pages before it.
        self.reclaimed.load(Ordering::Acquire)
    }

    /// Moves the mark; owner only. Chunk words below may be overwritten from here on.
    pub(super) fn set_reclaimed(&self, position: u64) {
        // Release: partner is `reclaimed`.
        self.reclaimed.store(position, Ordering::Release);
        // Orders the mark before every later overwrite of a chunk; partner: the fence in `copy`.
        if !mutant("undo-mark-unfenced") {
            fence(Ordering::Release);
        }
    }

    /// Says that the records below `position` have passed the horizon; owner only, before the first
    /// of them is visited.
    pub(super) fn set_passed(&self, position: u64) {
        // Relaxed: whom it concerns comes with the leaf's latch that the visitor takes after it.
        self.passed.store(position, Ordering::Relaxed);
    }

    /// The chunk with this number. The number must be live, or the answer is another one or null.
    fn chunk(&self, number: u64) -> *const AtomicU64 {
        // Acquire: partner is the release store in `set_chunk`.
        self.directory().entry(number).load(Ordering::Acquire)
    }

    /// Names the chunk of `number`; owner only. `live` chunks from `oldest` on must stay named.
    pub(super) fn set_chunk(&self, number: u64, oldest: u64, chunk: ChunkPtr) {
        if number - oldest >= self.directory().chunks.len() as u64 {
            self.grow(number, oldest);
        }
        // Release: partner is `chunk`.
        self.directory().entry(number).store(chunk.0.cast_mut(), Ordering::Release);
    }

    fn grow(&self, number: u64, oldest: u64) {
        let old = self.directory();
        let larger = Directory::new(old.chunks.len() * 2);
        for live in oldest..number {
            let chunk = old.entry(live).load(Ordering::Relaxed);
            larger.entry(live).store(chunk, Ordering::Relaxed);
        }
        // Release: partner is `directory`.
        let old = self.directory.swap(Box::into_raw(Box::new(larger)), Ordering::AcqRel);
        self.outgrown.lock().unwrap_or_else(PoisonError::into_inner).push(ChunkDirectory(old));
    }
}

impl Drop for ArenaShared {
    fn drop(&mut self) {
        let outgrown =
            std::mem::take(&mut *self.outgrown.lock().unwrap_or_else(PoisonError::into_inner));
        let present = self.directory.load(Ordering::Relaxed);
        for directory in outgrown.iter().map(|old| old.0).chain([present]) {
            // SAFETY: made by `Box::into_raw`, each listed once, and nobody can read any more.
            drop(unsafe { Box::from_raw(directory) });
        }
    }
}

type Segment = Box<[OnceLock<Arc<ArenaShared>>]>;

/// All undo of a database, as readers see it. `Send + Sync`.
pub(super) struct UndoSpace {
    instances: Box<[InstanceUndo]>,
}

/// One instance's.
struct InstanceUndo {
    /// Segments of `SEGMENT_SLOTS` arenas each, made when first used.
    arenas: Box<[OnceLock<Segment>]>,
    /// Every chunk ever allocated; freed when the space is dropped.
    chunks: Mutex<Vec<Box<[AtomicU64]>>>,
}

impl InstanceUndo {
    fn chunks(&self) -> impl DerefMut<Target = Vec<Box<[AtomicU64]>>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UndoSpace {
    pub(super) fn new(instances: usize) -> UndoSpace {
        let segments = SLOTS_PER_INSTANCE_MAX / SEGMENT_SLOTS;
        let instance = |_| InstanceUndo {
            arenas: (0..segments).map(|_| OnceLock::new()).collect(),
            chunks: Mutex::new(Vec::new()),
        };
        UndoSpace { instances: (0..instances).map(instance).collect() }
    }

    /// Memory for one more chunk of an instance; only that instance allocates.
    pub(super) fn allocate(&self, instance: InstanceId) -> ChunkPtr {
        let chunk: Box<[AtomicU64]> = (0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect();
        let pointer = ChunkPtr(chunk.as_ptr());
        self.instances[instance.0 as usize].chunks().push(chunk);
        pointer
    }

    /// Bytes of memory that an instance has taken; 0 if there is no such instance. For people: takes a
    /// lock that its allocations take.
    pub(super) fn allocated_bytes(&self, instance: InstanceId) -> u64 {
        let chunks = self.instances.get(instance.0 as usize).map(|it| it.chunks().len());
        chunks.unwrap_or(0) as u64 * CHUNK_BYTES
    }

    /// The arena of a slot, made if it is the first time.
    pub(super) fn arena(&self, instance: InstanceId, slot: SlotId) -> &Arc<ArenaShared> {
        let segment = self.instances[instance.0 as usize].arenas[slot.0 as usize / SEGMENT_SLOTS]
            .get_or_init(|| (0..SEGMENT_SLOTS).map(|_| OnceLock::new()).collect());
        segment[slot.0 as usize % SEGMENT_SLOTS].get_or_init(|| Arc::new(ArenaShared::new()))
    }

    #[inline]
    fn find(&self, at: UndoRef) -> Option<&ArenaShared> {
        let segments = &self.instances.get(at.instance().0 as usize)?.arenas;
        let slot = at.slot().0 as usize;
        let segment = segments[slot / SEGMENT_SLOTS].get()?;
        segment[slot % SEGMENT_SLOTS].get().map(|arena| &**arena)
    }

    /// Whether the record is reclaimed, which means: visible to everyone, and stable.
    #[inline]
    pub(super) fn is_reclaimed(&self, at: UndoRef) -> bool {
        match self.find(at) {
            Some(arena) => at.position() < arena.reclaimed(),
            None => true,
        }
    }

    /// Whether nobody needs what was before the record: it is reclaimed or being visited.
    pub(super) fn has_passed(&self, at: UndoRef) -> bool {
        match self.find(at) {
            Some(arena) => {
                at.position() < arena.passed.load(Ordering::Relaxed).max(arena.reclaimed())
            }
            None => true,
        }
    }

    /// Lets `copy` copy words of the record at `at`; none if it was reclaimed before or meanwhile,
    /// and then whatever `copy` took is to be forgotten. `copy` gets the words from the record's
    /// first to its chunk's end and must survive any content.
    #[inline]
    pub(super) fn copy<R>(&self, at: UndoRef, copy: impl FnOnce(&[AtomicU64]) -> R) -> Option<R> {
        let arena = self.find(at)?;
        let position = at.position();
        if position < arena.reclaimed() {
            return None;
        }
        point("undo copy");
        let chunk = arena.chunk(position / CHUNK_WORDS as u64);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: `self` owns the chunk and outlives the borrow.
        let words = unsafe { ChunkPtr(chunk).words() };
        let copied = copy(&words[position as usize % CHUNK_WORDS..]);
        point("undo copied");
        // Partner: the fence in `set_reclaimed`.
        fence(Ordering::Acquire);
        if position < arena.reclaimed.load(Ordering::Relaxed) && !mutant("undo-skip-recheck") {
            return None;
        }
        Some(copied)
    }
}

/// The owner reclaims a record and writes the next one over it while a reader copies.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    #[test]
    fn loom_a_copy_is_of_the_record_or_does_not_count() {
        loom::model(|| {
            let space = Arc::new(UndoSpace::new(1));
            let arena = Arc::clone(space.arena(InstanceId(0), SlotId(0)));
            let chunk = space.allocate(InstanceId(0));
            arena.set_chunk(0, 0, chunk);
            let at = UndoRef::new(InstanceId(0), SlotId(0), 2);
            // SAFETY: `space` outlives the words.
            let words = unsafe { chunk.words() };
            words[2].store(5, Ordering::Relaxed);
            words[3].store(6, Ordering::Relaxed);
            let reader = {
                let space = Arc::clone(&space);
                thread::spawn(move || {
                    let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
                    space.copy(at, |words| (load(&words[0]), load(&words[1])))
                })
            };
            arena.set_reclaimed(4);
            // The chunk comes back under another number.
            arena.set_chunk(1, 1, chunk);
            words[2].store(7, Ordering::Relaxed);
            words[3].store(8, Ordering::Relaxed);
            if let Some(copied) = reader.join().expect("no panic") {
                assert_eq!(copied, (5, 6));
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_reference_survive_packing() {
        let at = UndoRef::new(InstanceId(511), SlotId(65_535), POSITION_MAX);
        assert_eq!(at.instance(), InstanceId(511));
        assert_eq!(at.slot(), SlotId(65_535));
        assert_eq!(at.position(), POSITION_MAX);
        assert!(!at.is_none() && UndoRef::NONE.is_none());
    }

    #[test]
    fn garbage_references_answer_reclaimed() {
        let space = UndoSpace::new(2);
        for raw in [1, u64::MAX, 1 << 60, (1 << 55) | 77] {
            assert!(space.copy(UndoRef(raw), |_| ()).is_none());
            assert!(space.is_reclaimed(UndoRef(raw)));
        }
    }

    #[test]
    fn a_copy_during_which_the_record_is_reclaimed_does_not_count() {
        let space = UndoSpace::new(1);
        let arena = space.arena(InstanceId(0), SlotId(0));
        arena.set_chunk(0, 0, space.allocate(InstanceId(0)));
        let at = UndoRef::new(InstanceId(0), SlotId(0), 10);
        assert_eq!(space.copy(at, |_| 1), Some(1));
        // Collection and the next writer come in between.
        let copied = space.copy(at, |words| {
            arena.set_reclaimed(11);
            words[0].store(77, Ordering::Relaxed);
            words[0].load(Ordering::Relaxed)
        });
        assert_eq!(copied, None);
        assert_eq!(space.copy(at, |_| 1), None);
    }

    #[test]
    fn a_grown_directory_keeps_the_live_chunks() {
        let space = UndoSpace::new(1);
        let arena = space.arena(InstanceId(0), SlotId(3));
        let chunks: Vec<ChunkPtr> = (0..40).map(|_| space.allocate(InstanceId(0))).collect();
        for (number, chunk) in chunks.iter().enumerate() {
            // SAFETY: `space` outlives the words.
            let words = unsafe { chunk.words() };
            words[5].store(number as u64, Ordering::Relaxed);
            arena.set_chunk(number as u64, 0, *chunk);
        }
        for number in 0..40_u64 {
            let at = UndoRef::new(InstanceId(0), SlotId(3), number * CHUNK_WORDS as u64 + 5);
            let read = space.copy(at, |words| words[0].load(Ordering::Relaxed));
            assert_eq!(read, Some(number));
        }
    }
}
