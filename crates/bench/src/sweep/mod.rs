//! Sweeps: one thing is varied, everything else stays, and its values take turns in rounds, so that a
//! machine's moods fall on all.
//!
//! `checkpoints` varies the interval between checkpoints, `clients` the number of clients of any workload,
//! `slices` the build.
//! (Connections by the thousand, which do one statement each, are `connections`.)

pub mod checkpoints;
pub mod clients;
pub mod slices;
