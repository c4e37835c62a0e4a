//! Copies of a database: backups, archived logs, and databases made from them (rules 8.7 and 8.9).
//!
//! A *backup* is a directory that holds a checkpoint's pages, the logs behind it and, made last, a
//! manifest: a database that a start recovers. An *archive* holds logs that are about to be used
//! again, and what their cuts are. A backup and an archive make the database of any time between.
//!
//! Invariants (README.md numbers them): everything here is files, read and written by blocking
//! calls of a thread that is no instance; what is copied is verified; a copy has the name by which
//! it counts only when all of it is durable; who fails or is cancelled leaves no such name.
//! `api` says what is copied while a database runs.

mod archive;
mod begun;
mod choice;
mod copy;
mod history;
mod line;
mod point;
mod points;
mod reached;
mod restore;
mod time;
mod verify;
mod watch;

pub use archive::{Archive, ArchivedUpTo};
pub use begun::{
    copy_begun, damaged_begun, damaged_notes, forget_begun, is_archiving, note_begun, was_archived,
};
pub use copy::{CopiedPages, copy_logs, copy_pages};
pub use point::{BACKUP_NAME, Point};
pub use restore::{Restore, Restored, Until, restore};
pub use verify::{ArchiveFindings, databases, verify_archive};
pub use watch::Watch;
