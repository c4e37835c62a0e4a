//! Interleaving points for the simulator.
//!
//! Invariants: without feature `interleave` nothing here exists at run time. With it, the hook is
//! a thread-local that only `sim` sets, around one turn of one instance; it may suspend the
//! caller's whole instance, latches held and all, and run others in between: every caller must
//! therefore be correct if any other instance runs here, which is what the points are for.

use std::rc::Rc;

/// What the simulator decides.
pub trait Decider {
    /// Whether the instance stops at this point.
    fn stops(&self, name: &'static str) -> bool;
    /// Whether a task that may linger here (`TaskContext::linger`) does; asked again and again.
    fn stays(&self, _name: &'static str) -> bool {
        false
    }
    /// Work of this name has begun somewhere.
    fn enters(&self, _name: &'static str) {}
    /// And has ended, or was unwound.
    fn leaves(&self, _name: &'static str) {}
}

impl<F: Fn(&'static str) -> bool> Decider for F {
    fn stops(&self, name: &'static str) -> bool {
        self(name)
    }
}

/// What happens at the points that one instance reaches.
#[derive(Clone)]
pub struct PointHook {
    /// Who decides.
    pub decider: Rc<dyn Decider>,
    /// Suspends the instance.
    pub suspend: Rc<dyn Fn(&'static str)>,
}

/// Marks a window of a protocol by name.
#[cfg(not(feature = "interleave"))]
#[inline(always)]
pub fn point(_name: &'static str) {}

/// Whether the simulator wants the calling task to linger.
#[cfg(not(feature = "interleave"))]
#[inline(always)]
pub fn stays(_name: &'static str) -> bool {
    false
}

/// Tells the simulator that work of this name goes on until the answer is dropped.
#[cfg(not(feature = "interleave"))]
#[inline(always)]
pub fn within(_name: &'static str) -> Within {
    Within
}

/// Work goes on until this is dropped.
#[cfg(not(feature = "interleave"))]
pub struct Within;

#[cfg(feature = "interleave")]
pub use on::{Within, point, stays, with_hook, within};

#[cfg(feature = "interleave")]
mod on {
    use std::cell::RefCell;

    use super::PointHook;

    thread_local! {
        static HOOK: RefCell<Option<PointHook>> = const { RefCell::new(None) };
    }

    /// Marks a window of a protocol by name.
    pub fn point(name: &'static str) {
        let hook = HOOK.with_borrow(|hook| hook.clone());
        if let Some(hook) = hook
            && hook.decider.stops(name)
        {
            (hook.suspend)(name);
        }
    }

    /// Whether the simulator wants the calling task to linger.
    pub fn stays(name: &'static str) -> bool {
        let hook = HOOK.with_borrow(|hook| hook.clone());
        hook.is_some_and(|hook| hook.decider.stays(name))
    }

    /// Tells the simulator that work of this name goes on until the answer is dropped.
    pub fn within(name: &'static str) -> Within {
        let hook = HOOK.with_borrow(|hook| hook.clone());
        hook.iter().for_each(|hook| hook.decider.enters(name));
        Within { hook, name }
    }

    /// Work goes on until this is dropped.
    pub struct Within {
        hook: Option<PointHook>,
        name: &'static str,
    }

    impl Drop for Within {
        fn drop(&mut self) {
            self.hook.iter().for_each(|hook| hook.decider.leaves(self.name));
        }
    }

    /// Runs `body` with `hook` at every point that it reaches on this thread.
    pub fn with_hook<R>(hook: PointHook, body: impl FnOnce() -> R) -> R {
        let before = HOOK.with_borrow_mut(|place| place.replace(hook));
        let result = body();
        HOOK.with_borrow_mut(|place| *place = before);
        result
    }
}
