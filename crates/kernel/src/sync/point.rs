//! Interleaving points for the simulator.
//!
//! Invariants: without feature `interleave` nothing here exists at run time. With it, the hook is
//! a thread-local that only `sim` sets, around one turn of one instance; it may suspend the
//! caller's whole instance, latches held and all, and run others in between: every caller must
//! therefore be correct if any other instance runs here, which is what the points are for.

/// Marks a window of a protocol by name.
#[cfg(not(feature = "interleave"))]
#[inline(always)]
pub fn point(_name: &'static str) {}

#[cfg(feature = "interleave")]
pub use on::{PointHook, point, with_hook};

#[cfg(feature = "interleave")]
mod on {
    use std::cell::RefCell;
    use std::rc::Rc;

    /// What the simulator does at a point.
    pub type PointHook = Rc<dyn Fn(&'static str)>;

    thread_local! {
        static HOOK: RefCell<Option<PointHook>> = const { RefCell::new(None) };
    }

    /// Marks a window of a protocol by name.
    pub fn point(name: &'static str) {
        let hook = HOOK.with_borrow(|hook| hook.clone());
        if let Some(hook) = hook {
            hook(name);
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
