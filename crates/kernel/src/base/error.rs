//! The kernel's one error enum (style rule 8).
//!
//! SQLSTATEs are attached at the edge (`sql::error`); each variant says here which it becomes.

use super::{Pid, TreeId, Xid};

/// What a kernel operation that cannot stop halfway returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A committed change newer than the snapshot is in the way (40001).
    SerializationFailure {
        /// The transaction or commit that was first, as text.
        detail: String,
    },
    /// The snapshot was ended, because the undo that it held back took too much memory (72000).
    SnapshotTooOld,
    /// The checkpoint that was read or copied was given up, because the pages that were kept only for
    /// such checkpoints took too much space (53400).
    CheckpointGivenUp,
    /// The youngest member of a cycle of waiters was ended (40P01).
    Deadlock {
        /// The transaction waited for.
        waited_for: Xid,
        /// The cycle as text, one edge a line.
        detail: String,
    },
    /// A unique index already has the key (23505).
    UniqueViolation {
        /// The index tree.
        index: TreeId,
    },
    /// A key is too long for an index (54000).
    KeyTooLong {
        /// The index tree.
        index: TreeId,
        /// The key's size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A row or value does not fit (54000).
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The buffer pool, an undo share or another memory limit is used up (53200).
    OutOfMemory {
        /// Which limit.
        what: &'static str,
    },
    /// The disk is full; nothing has become visible (53100).
    DiskFull {
        /// The file that could not grow.
        path: String,
    },
    /// A read or write failed (58030).
    Io {
        /// What was done, to which file.
        what: String,
        /// The operating system's error number, or 0.
        errno: i32,
    },
    /// Bytes on disk or in a page are not what was written (XX001). Never silent.
    Corrupt {
        /// The page, where the damage is in one.
        page: Option<Pid>,
        /// File, position and what was found.
        detail: String,
    },
    /// The directory holds another version, another system's files, or is in use (55000).
    Unusable {
        /// Who holds it or what it is, and what to do.
        detail: String,
    },
    /// The object was dropped or changed since it was bound; bind again (internal).
    CatalogChanged,
    /// A change in a transaction that reads a checkpoint (25006).
    ReadOnly,
    /// The name exists already (42P07).
    AlreadyExists {
        /// The name.
        name: String,
    },
    /// The directory is not empty (58P02).
    NotEmpty {
        /// The directory.
        path: String,
    },
    /// The object does not exist (42P01).
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// The statement was cancelled (57014).
    Cancelled,
    /// The database is closing (57P01).
    ShuttingDown,
    /// A limit of the design was reached (54000).
    Limit {
        /// Which one.
        what: &'static str,
    },
    /// A wait was asked for where none is possible, or a broken promise between modules (XX000).
    Internal {
        /// What was found.
        detail: String,
    },
}

impl Error {
    /// Whether it says that bytes on disk could not be read, or are not what was written.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Error::Corrupt { .. } | Error::Io { .. })
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::SerializationFailure { .. } => {
                write!(f, "could not serialize access due to concurrent update")
            }
            Error::SnapshotTooOld => write!(f, "snapshot too old"),
            Error::CheckpointGivenUp => {
                write!(
                    f,
                    "the checkpoint was given up: checkpoints that are read or copied keep too many pages"
                )
            }
            Error::Deadlock { .. } => write!(f, "deadlock detected"),
            Error::UniqueViolation { index } => write!(f, "duplicate key in index tree {index}"),
            Error::KeyTooLong { index, bytes, bytes_max } => {
                write!(
                    f,
                    "index row size {bytes} exceeds maximum {bytes_max} of index tree {index}"
                )
            }
            Error::TooLarge { what, bytes, bytes_max } => {
                write!(f, "{what} of {bytes} bytes exceeds the maximum of {bytes_max}")
            }
            Error::OutOfMemory { what } => write!(f, "out of memory: {what} is full"),
            Error::DiskFull { path } => write!(f, "could not extend \"{path}\": no space left"),
            Error::Io { what, errno } => write!(f, "{what}: error {errno}"),
            Error::Corrupt { page: Some(page), detail } => {
                write!(f, "page {page} is damaged: {detail}")
            }
            Error::Corrupt { page: None, detail } => write!(f, "damaged: {detail}"),
            Error::Unusable { detail } => f.write_str(detail),
            Error::CatalogChanged => write!(f, "the catalog changed"),
            Error::ReadOnly => write!(f, "a checkpoint is read, not changed"),
            Error::AlreadyExists { name } => write!(f, "\"{name}\" already exists"),
            Error::NotEmpty { path } => {
                write!(f, "directory \"{path}\" exists but is not empty")
            }
            Error::NotFound { what } => write!(f, "{what} does not exist"),
            Error::Cancelled => write!(f, "canceling statement due to user request"),
            Error::ShuttingDown => write!(f, "terminating because the database is closing"),
            Error::Limit { what } => write!(f, "limit reached: {what}"),
            Error::Internal { detail } => write!(f, "internal error: {detail}"),
        }
    }
}

impl std::error::Error for Error {}
