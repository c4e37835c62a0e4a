//! The simulator: many instances in one thread, a simulated disk and clock, crashes at any point,
//! and a checker that knows nothing of the kernel.
//!
//! Invariants: a seed determines a run completely; every choice comes from it. Nothing here is
//! used by a server; [`images`] alone uses one, the real one. docs/testing.md says how to use it.

pub mod as_of;
pub mod campaign;
pub mod checker;
pub mod clients;
pub mod counters;
pub mod cut;
mod damage;
pub mod history;
pub mod images;
pub mod life;
pub mod operations;
pub mod run;
pub mod stops;
pub mod tables;
pub mod workers;
