//! Recovery: from logs to the state that they say (section 9).
//!
//! Invariants (README.md numbers them): only commits within the cut are replayed, in order of
//! (cts, position in the transaction) per row; a definition takes effect before any later change;
//! nothing on disk is written; replay may end anywhere and begin again. Replay begins at the start of
//! every log, in empty trees, or from a state as of one timestamp that was loaded. Indexes that are
//! there then are kept in step with their rows; all others are built whole at the end (each is
//! "created at or after S", rule 9.5).
//!
//! `api` calls this before any instance runs. `log` finds the cut; `tree` stores the rows.

mod ahead;
mod definitions;
mod entries;
mod feed;
mod indexes;
mod kept;
mod load;
mod longs;
mod order;
mod parsed;
mod pass;
mod replay;
#[cfg(all(test, not(loom)))]
mod tests;
mod view;
mod worker;

pub use definitions::{Definitions, Loaded, catalog_objects};
pub use indexes::build_catalog;
pub use load::{LoadedCheckpoint, Places, load};
pub use replay::{ReplayOptions, Replayed, Workers, replay};
pub use view::{CheckpointView, view};
