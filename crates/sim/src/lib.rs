//! The simulator: many instances in one thread, a simulated disk and clock, crashes at any point,
//! and a checker that knows nothing of the kernel.
//!
//! Invariants: a seed determines a run completely; every choice comes from it. Nothing here is
//! used by a server.

pub mod checker;
pub mod history;
