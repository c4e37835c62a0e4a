//! Recovery: from logs to the state that they say (section 9).
//!
//! Invariants (README.md numbers them): only commits within the cut are replayed, in order of
//! (cts, position in the transaction) per row; a definition takes effect before any later change;
//! nothing on disk is written; replay may end anywhere and begin again. Checkpoints come later, so
//! replay begins at the start of every log, in empty trees, and indexes are built whole at the end
//! (each is "created at or after S", rule 9.5).
//!
//! `api` calls this before any instance runs. `log` finds the cut; `tree` stores the rows.

mod definitions;
mod feed;
mod indexes;
mod replay;

pub use definitions::Definitions;
pub use indexes::build_catalog;
pub(crate) use replay::until_done;
pub use replay::{ReplayOptions, Replayed, replay};
