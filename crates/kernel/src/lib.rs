//! Atoll's storage kernel: a ring of instances around one shared memory.
//!
//! The design, its rules and their numbers are in ARCHITECTURE.md; each module's README repeats
//! the rules it keeps. Modules may use only modules above them in this list (`cargo xtask tidy`
//! checks it). What other crates may use is [`api`], [`base`] and the `io` forms that they name
//! when they open a database.
#![warn(missing_docs)]

pub mod base;
pub mod sync;
pub mod io;
pub mod latch;
pub mod page;
pub mod store;
pub mod runtime;
pub mod buffer;
pub mod tree;
pub mod version;
pub mod log;
pub mod txn;
pub mod catalog;
pub mod checkpoint;
pub mod recovery;
pub mod backup;
pub mod api;
