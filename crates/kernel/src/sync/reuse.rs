//! An allocator that hands out first what was freed last: what a thread has just had is still in its caches.
//!
//! It stands before another one, which is asked for what is not at hand, and given back what is too much. Allocators that
//! go through a page's blocks before one of them comes again hand out memory that has left the caches; where statements
//! take and free the same few dozens of small blocks, that is most of what allocation costs
//! (docs/adr/2026-11-30-blocks-freed-last-come-first.md).
//!
//! Invariants: a program has one of these, for a thread has one set of blocks. A block of up to [`BYTES_MAX`] bytes has its
//! class's size from when the inner allocator gives it until that gets it back, so any of a class serves for any. A thread
//! keeps at most [`KEPT_MAX`] free blocks of a class, and gives them back when it ends. Nothing is shared: a block is the
//! thread's that frees it. While a thread's blocks are looked at nothing is allocated, and no task changes.
//!
//! Nothing of it is inlined: it is called from everywhere, and a sixth more code cost what it gained.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::null_mut;

/// Sizes of classes are multiples of that, and blocks are aligned to it.
const STEP: usize = 16;
/// The largest blocks that are kept.
const BYTES_MAX: usize = 512;
const CLASSES: usize = BYTES_MAX / STEP;
/// How many of a class.
const KEPT_MAX: usize = 32;

/// The allocator inside.
type Inner = &'static (dyn GlobalAlloc + Sync);

/// Keeps small blocks for the threads that free them, before another allocator: a program's global one.
///
/// At most 270 KiB a thread. Waits for nothing but what the inner one waits for.
pub struct Reusing {
    inner: Inner,
}

impl Reusing {
    /// Before this one.
    pub const fn new(inner: Inner) -> Reusing {
        Reusing { inner }
    }
}

/// A class of blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Class(usize);

impl Class {
    /// That of such blocks, if they are kept.
    fn of(layout: Layout) -> Option<Class> {
        // Nobody asks for nothing; it would be no class.
        let last = layout.size().wrapping_sub(1);
        (last < BYTES_MAX && layout.align() <= STEP).then_some(Class(last / STEP))
    }

    /// What the inner allocator is asked for.
    fn layout(self) -> Layout {
        // SAFETY: the alignment is a power of two, and the size far from overflowing.
        unsafe { Layout::from_size_align_unchecked((self.0 + 1) * STEP, STEP) }
    }
}

/// Free blocks of one class.
struct Stack {
    count: Cell<usize>,
    blocks: [Cell<*mut u8>; KEPT_MAX],
}

impl Stack {
    const fn new() -> Stack {
        Stack { count: Cell::new(0), blocks: [const { Cell::new(null_mut()) }; KEPT_MAX] }
    }

    fn pop(&self) -> *mut u8 {
        let Some(top) = self.count.get().checked_sub(1) else { return null_mut() };
        let Some(block) = self.blocks.get(top) else { return null_mut() };
        self.count.set(top);
        block.get()
    }

    /// Whether there was room.
    fn push(&self, block: *mut u8) -> bool {
        let count = self.count.get();
        let Some(place) = self.blocks.get(count) else { return false };
        place.set(block);
        self.count.set(count + 1);
        true
    }
}

/// Those of a thread.
struct Kept {
    stacks: [Stack; CLASSES],
    // Whose blocks they are, once there are some.
    inner: Cell<Option<Inner>>,
}

impl Kept {
    const fn new() -> Kept {
        Kept { stacks: [const { Stack::new() }; CLASSES], inner: Cell::new(None) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let Some(inner) = self.inner.get() else { return };
        for (class, stack) in self.stacks.iter().enumerate() {
            let block = || Some(stack.pop()).filter(|block| !block.is_null());
            for block in std::iter::from_fn(block) {
                // SAFETY: the inner allocator gave it for this class (`alloc`), and nobody has it.
                unsafe { inner.dealloc(block, Class(class).layout()) };
            }
        }
    }
}

thread_local! {
    static KEPT: Kept = const { Kept::new() };
}

// SAFETY: blocks of no class go to and from the inner allocator as they are. One of a class comes from it with the class's
// layout, which holds the one that is asked for; it is with its holder or in one thread's stack, never both: `dealloc`'s
// caller gives it up, `pop` takes it out. A thread whose blocks are gone (it ends) asks the inner allocator.
unsafe impl GlobalAlloc for Reusing {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = Class::of(layout) else {
            // SAFETY: the caller's promises are the inner allocator's.
            return unsafe { self.inner.alloc(layout) };
        };
        let block = KEPT.try_with(|kept| kept.stacks[class.0].pop()).unwrap_or(null_mut());
        if !block.is_null() {
            return block;
        }
        // SAFETY: a class's layout is not empty.
        unsafe { self.inner.alloc(class.layout()) }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = Class::of(layout) else {
            // SAFETY: it is the inner allocator's, of this layout.
            return unsafe { self.inner.dealloc(block, layout) };
        };
        let keep = |kept: &Kept| {
            kept.inner.set(Some(self.inner));
            kept.stacks[class.0].push(block)
        };
        if !KEPT.try_with(keep).unwrap_or(false) {
            // SAFETY: it is the inner allocator's, of its class's layout.
            unsafe { self.inner.dealloc(block, class.layout()) };
        }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Class::of(layout).is_none() {
            // SAFETY: the caller's promises are the inner allocator's.
            return unsafe { self.inner.alloc_zeroed(layout) };
        }
        // SAFETY: as `alloc`.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: it has at least so many bytes, and nobody else has it.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller says that the size, rounded up to the alignment, does not overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (Class::of(layout), Class::of(wanted)) {
            // SAFETY: it is the inner allocator's, of this layout, and stays so.
            (None, None) => unsafe { self.inner.realloc(block, layout, size) },
            (old, new) if old == new => block,
            _ => {
                // SAFETY: as `alloc`.
                let new = unsafe { self.alloc(wanted) };
                if !new.is_null() {
                    let bytes = layout.size().min(size);
                    // SAFETY: both have so many bytes, and are two blocks; the old one is given up.
                    unsafe {
                        new.copy_from_nonoverlapping(block, bytes);
                        self.dealloc(block, layout);
                    }
                }
                new
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;

    /// Knows which blocks it has given, and with what layout.
    #[derive(Default)]
    struct Watched {
        given: Mutex<BTreeMap<usize, Layout>>,
    }

    impl Watched {
        fn new() -> &'static Watched {
            Box::leak(Box::default())
        }

        fn count(&self) -> usize {
            self.given.lock().unwrap().len()
        }
    }

    // SAFETY: the system's allocator does it; what is given back must be what was given.
    unsafe impl GlobalAlloc for Watched {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller's promises are the system's.
            let block = unsafe { std::alloc::System.alloc(layout) };
            assert!(self.given.lock().unwrap().insert(block.addr(), layout).is_none());
            block
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            assert_eq!(self.given.lock().unwrap().remove(&block.addr()), Some(layout));
            // SAFETY: the system gave it, with this layout.
            unsafe { std::alloc::System.dealloc(block, layout) };
        }
    }

    /// Runs `work` in a thread of its own, which has no blocks yet, with an allocator before a watched one; answers how
    /// many blocks were out when the work had ended, and when the thread had.
    fn run(work: impl FnOnce(&Reusing, &Watched) + Send) -> (usize, usize) {
        let watched = Watched::new();
        let during = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                work(&Reusing::new(watched), watched);
                watched.count()
            });
            thread.join().unwrap()
        });
        (during, watched.count())
    }

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn what_was_freed_last_comes_first_and_the_threads_end_gives_all_back() {
        let (during, after) = run(|reusing, watched| {
            // SAFETY: each block is used and freed once, with its layout.
            unsafe {
                let [first, second] = [reusing.alloc(layout(33, 8)), reusing.alloc(layout(48, 1))];
                reusing.dealloc(first, layout(33, 8));
                reusing.dealloc(second, layout(48, 1));
                assert_eq!(watched.count(), 2, "kept");
                // Another size of the same class; the next class has none.
                assert_eq!(reusing.alloc(layout(40, 16)), second);
                assert_eq!(reusing.alloc(layout(34, 2)), first);
                let other = reusing.alloc(layout(49, 8));
                assert_eq!(watched.count(), 3);
                for (block, layout) in
                    [(second, layout(40, 16)), (first, layout(34, 2)), (other, layout(49, 8))]
                {
                    reusing.dealloc(block, layout);
                }
            }
        });
        assert_eq!((during, after), (3, 0));
    }

    #[test]
    fn what_is_large_or_too_much_goes_back_at_once() {
        let (during, after) = run(|reusing, watched| {
            // SAFETY: each block is freed once, with its layout.
            unsafe {
                for large in [layout(513, 8), layout(64, 32), layout(1 << 20, 4096)] {
                    let block = reusing.alloc(large);
                    assert_eq!(watched.count(), 1);
                    reusing.dealloc(block, large);
                    assert_eq!(watched.count(), 0);
                }
                let small = layout(512, 16);
                let blocks: Vec<_> = (0..KEPT_MAX + 7).map(|_| reusing.alloc(small)).collect();
                blocks.into_iter().for_each(|block| reusing.dealloc(block, small));
            }
        });
        assert_eq!((during, after), (KEPT_MAX, 0));
    }

    #[test]
    fn blocks_change_their_sizes_and_hold_what_they_held() {
        let mut random = fastrand::Rng::with_seed(7);
        let (_, after) = run(move |reusing, _| {
            let mut blocks: Vec<(*mut u8, Layout, u8)> = Vec::new();
            let size = |random: &mut fastrand::Rng| match random.u8(..4) {
                0 => random.usize(1..2_000),
                _ => random.usize(1..=BYTES_MAX),
            };
            let holds = |(block, layout, mark): (*mut u8, Layout, u8), bytes: usize| {
                // SAFETY: the block has so many bytes, all written.
                let slice = unsafe { std::slice::from_raw_parts(block, layout.size().min(bytes)) };
                assert!(slice.iter().all(|byte| *byte == mark));
            };
            for step in 0..40_000 {
                let mark = random.u8(1..);
                let wanted = layout(size(&mut random), 1 << random.u32(..6));
                // SAFETY: blocks are written within their sizes, and freed or changed once with their layouts.
                unsafe {
                    if blocks.len() < 60 && random.bool() {
                        let block = match random.bool() {
                            true => reusing.alloc(wanted),
                            false => {
                                let block = reusing.alloc_zeroed(wanted);
                                holds((block, wanted, 0), usize::MAX);
                                block
                            }
                        };
                        assert!(block.addr().is_multiple_of(wanted.align()), "step {step}");
                        block.write_bytes(mark, wanted.size());
                        blocks.push((block, wanted, mark));
                    } else if !blocks.is_empty() {
                        let (block, old, was) = blocks.swap_remove(random.usize(..blocks.len()));
                        holds((block, old, was), usize::MAX);
                        if random.bool() {
                            reusing.dealloc(block, old);
                            continue;
                        }
                        let new = layout(wanted.size(), old.align());
                        let block = reusing.realloc(block, old, new.size());
                        holds((block, new, was), old.size());
                        block.write_bytes(mark, new.size());
                        blocks.push((block, new, mark));
                    }
                }
            }
            for (block, layout, mark) in blocks {
                holds((block, layout, mark), usize::MAX);
                // SAFETY: it is given up here, with its layout.
                unsafe { reusing.dealloc(block, layout) };
            }
        });
        assert_eq!(after, 0);
    }
}
