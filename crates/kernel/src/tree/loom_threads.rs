//! Threads of loom models over trees.
//!
//! Invariants: loads and changes of a node keep copies of pages on the stack, and loom's own stacks are smaller: so
//! the body of a model, too, runs on a thread of these.

use loom::thread;

/// In words.
const STACK_WORDS: usize = 1 << 14;

/// Runs `body` in every order of its threads with so many preemptions.
pub(super) fn model(preemptions: usize, body: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || with_stack(body).join().unwrap());
}

/// A thread with room for pages.
pub(super) fn with_stack<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    thread::Builder::new().stack_size(STACK_WORDS).spawn(work).unwrap()
}
