//! Stacks for coroutines: mapped with a guard page, touched lazily, pooled (rule 2.2).
//!
//! Invariants: a stack belongs to one running or suspended coroutine or to the pool; the pool
//! keeps at most `kept_max` of them and unmaps the rest. A pool belongs to one instance.

use std::cell::{Cell, RefCell};

use corosensei::stack::{DefaultStack, Stack};

use crate::base::{Error, Result};

/// What the lowest part of a stack is kept free for: the guard page itself.
const GUARD_BYTES: usize = 4096;

/// The instance's stacks.
pub(super) struct StackPool {
    bytes: usize,
    kept_max: usize,
    free: RefCell<Vec<DefaultStack>>,
    live: Cell<usize>,
}

impl StackPool {
    /// A pool of stacks of `bytes` each that keeps at most `kept_max` unused ones.
    pub(super) fn new(bytes: usize, kept_max: usize) -> StackPool {
        StackPool { bytes, kept_max, free: RefCell::default(), live: Cell::new(0) }
    }

    /// A stack, pooled or new; `OutOfMemory` if the system gives no more mappings.
    pub(super) fn take(&self) -> Result<DefaultStack> {
        let pooled = self.free.borrow_mut().pop();
        let stack = match pooled {
            Some(stack) => stack,
            None => DefaultStack::new(self.bytes)
                .map_err(|_| Error::OutOfMemory { what: "address space for stacks" })?,
        };
        self.live.set(self.live.get() + 1);
        Ok(stack)
    }

    /// Takes back the stack of a coroutine that has ended.
    pub(super) fn give(&self, stack: DefaultStack) {
        self.live.set(self.live.get() - 1);
        let mut free = self.free.borrow_mut();
        if free.len() < self.kept_max {
            free.push(stack);
        }
    }

    /// A stack was dropped with its coroutine.
    pub(super) fn lost(&self) {
        self.live.set(self.live.get() - 1);
    }

    /// Stacks in use.
    pub(super) fn live(&self) -> usize {
        self.live.get()
    }
}

/// The addresses of one stack that code may use.
#[derive(Clone, Copy)]
pub(super) struct StackRange {
    low: usize,
    high: usize,
}

impl StackRange {
    pub(super) fn of(stack: &DefaultStack) -> StackRange {
        StackRange { low: stack.limit().get() + GUARD_BYTES, high: stack.base().get() }
    }

    /// Bytes left if the caller runs on this stack, else `None`.
    pub(super) fn left(&self) -> Option<usize> {
        let here = address();
        (self.low..self.high).contains(&here).then(|| here - self.low)
    }
}

/// An address in the caller's frame or just below it.
#[inline(never)]
fn address() -> usize {
    let place = 0u8;
    std::hint::black_box(&raw const place) as usize
}

/// Bytes between the caller's frame and `limit`, the lowest address of its stack.
pub(super) fn left_above(limit: usize) -> usize {
    address().saturating_sub(limit)
}

/// The lowest usable address of the calling thread's own stack.
pub(super) fn thread_stack_limit() -> usize {
    // SAFETY: `attributes` is initialised by `pthread_getattr_np` before it is read and destroyed
    // after; both calls concern the calling thread only.
    unsafe {
        let mut attributes = std::mem::zeroed::<libc::pthread_attr_t>();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return address().saturating_sub(1 << 20);
        }
        let (mut low, mut bytes) = (std::ptr::null_mut(), 0);
        let known = libc::pthread_attr_getstack(&attributes, &mut low, &mut bytes) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        if known { low as usize + GUARD_BYTES } else { address().saturating_sub(1 << 20) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_bounded_and_reuses() {
        let pool = StackPool::new(64 * 1024, 1);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        assert_eq!(pool.live(), 2);
        let base = b.base();
        pool.give(b);
        pool.give(a);
        assert_eq!(pool.free.borrow().len(), 1);
        assert_eq!(pool.take().unwrap().base(), base);
        assert_eq!(pool.live(), 1);
    }
}
