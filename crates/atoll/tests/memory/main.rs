//! What the server has in memory: all together, and old versions, which may not fill it.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod old_snapshots;
mod resident;
