//! How many latches the current thread holds: `park` asserts that it is none (rule 1.2).
//!
//! Invariants: every guard that holds a latch counts itself when it is made and when it is
//! dropped, on the same thread (guards are not `Send`). The count is a plain thread-local cell:
//! one addition per latch. It is no global in the sense of style rule 10: it says something
//! about the thread's own stack and dies with it.

use std::cell::Cell;

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Latches that this thread (in the simulator: this instance) holds now.
#[inline]
pub fn held_latches() -> u32 {
    HELD.with(Cell::get)
}

/// Replaces the count and returns the old one. For the simulator alone, which interleaves several
/// instances on one thread and suspends them inside latches: it gives each its own count.
pub fn exchange_held(count: u32) -> u32 {
    HELD.with(|held| held.replace(count))
}

#[inline]
pub(crate) fn note_acquired() {
    HELD.with(|held| held.set(held.get() + 1));
}

#[inline]
pub(crate) fn note_released() {
    HELD.with(|held| held.set(held.get().wrapping_sub(1)));
}
