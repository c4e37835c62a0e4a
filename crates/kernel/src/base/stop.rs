//! How a kernel operation that cannot finish says why (rule 1.1).
//!
//! Every core operation is a plain function that never blocks; it returns [`Outcome`]. The shell
//! around it (`txn::shell`) does what [`Stop`] asks and calls the operation again.

use super::{Cts, Error, HomeId, KeyHash, Place, RowId, TreeId, Xid};

/// What a core operation answers: a result, or the reason it stopped.
pub type Outcome<T> = std::result::Result<T, Stop>;

/// Why a core operation stopped before its end. No latch is held when this is returned.
#[derive(Debug)]
pub enum Stop {
    /// An optimistic read did not validate; call again (style rule 7: never shown to a user).
    Retry,
    /// The page is not in memory; load it and call again.
    NeedPage(NeededPage),
    /// Something must happen first; wait for it and call again.
    WaitFor(WaitFor),
    /// The operation failed.
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// A page that is not in memory, as its parent refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededPage {
    /// Where it lies.
    pub place: Place,
    /// The address of the parent's frame, when it was read: a hint, checked by whoever uses it.
    pub parent: u64,
}

impl std::fmt::Display for NeededPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of home {}", self.place.number(), self.place.home())
    }
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// The row is the caller's turn to take (rule 6.5).
    Row {
        /// Who has it in flight, or is to have it next.
        holder: Xid,
        /// The row's table.
        tree: TreeId,
        /// The row.
        row: RowId,
    },
    /// Whether a key of a unique index is free is decided, and it is the caller's turn to look
    /// (rules 5.6 and 6.5).
    Key {
        /// Whose end decides it, or who is to look next.
        holder: Xid,
        /// The index's tree.
        index: TreeId,
        /// The key.
        key: KeyHash,
    },
    /// The word of the *preparing* transaction changes (rule 3.5).
    Decision(Xid),
    /// A table lock held or awaited by others is free to take.
    TableLock(TreeId),
    /// The own instance's log buffer or disk reservation has room.
    LogRoom,
    /// The clock passes the timestamp (rule 3.3).
    Clock(Cts),
    /// The home's log is stable up to the timestamp.
    Stable(HomeId, Cts),
    /// Others on this instance run first.
    Yield,
}
