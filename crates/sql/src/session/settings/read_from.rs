//! What a session's transactions read: the tables as they are, or a checkpoint (`atoll.read_from`).
//!
//! Invariants: a transaction reads one or the other from its first query to its end; one that reads a
//! checkpoint pins it, is read only, and holds no snapshot.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::session::{Phase, Session};
use atoll_kernel::api::{Access, Context, Error, Transaction, WhichCheckpoint};

/// The parameter's name.
pub(in crate::session) const READ_FROM: &str = "atoll.read_from";
/// Its default.
pub(super) const CURRENT: &str = "current";

/// What transactions read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::session) enum ReadFrom {
    /// The tables as they are.
    #[default]
    Current,
    /// A checkpoint that was published.
    Checkpoint(WhichCheckpoint),
}

impl ReadFrom {
    /// What a value of the parameter means: `current`, `checkpoint` for the newest one, or
    /// `checkpoint N` or `N` for the one with that number.
    pub fn parse(value: &str) -> Option<ReadFrom> {
        let value = value.trim().to_ascii_lowercase();
        match value.as_str() {
            CURRENT => Some(ReadFrom::Current),
            "checkpoint" => Some(ReadFrom::Checkpoint(WhichCheckpoint::Newest)),
            other => {
                let number = other.strip_prefix("checkpoint").unwrap_or(other).trim();
                let number = number.parse().ok()?;
                Some(ReadFrom::Checkpoint(WhichCheckpoint::Number(number)))
            }
        }
    }
}

impl Session {
    /// Lets a transaction that has just begun read what the session wants. 55000.
    pub(in crate::session) fn choose_what_to_read(
        &self,
        context: &Context,
        transaction: &mut Transaction,
    ) -> SqlResult<()> {
        let ReadFrom::Checkpoint(which) = self.defaults.read_from else { return Ok(()) };
        let pinned = self.kernel.pin_checkpoint(which).map_err(|error| match error {
            Error::NotFound { what } => {
                let text = format!("{what} does not exist, or is not kept any more");
                SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text).hint(
                    "CHECKPOINT makes one; older ones are kept while a transaction reads them. \
                     SET atoll.read_from = 'current' reads the tables as they are.",
                )
            }
            other => other.into(),
        })?;
        Ok(transaction.read_checkpoint(pinned, context)?)
    }

    /// After the parameter was set: the block's transaction begins again if it reads something else
    /// now. The caller has made sure that it has not read yet.
    pub(in crate::session) fn read_anew(&mut self, context: &Context) -> SqlResult<()> {
        if self.phase != Phase::Block {
            return Ok(());
        }
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        let isolation = transaction.isolation();
        // One that reads a checkpoint is read only whether it was asked to be or not.
        let asked = transaction.checkpoint().is_none() && transaction.access() == Access::ReadOnly;
        transaction.rollback(&mut self.kernel, context);
        self.begin_kernel(context, isolation, asked || self.defaults.read_only)
    }

    /// What is read does not change within a transaction that has read something (25001).
    pub(in crate::session) fn check_may_read_anew(&self) -> SqlResult<()> {
        let has_read = self.queried || !self.savepoints.is_empty();
        if self.phase != Phase::Block || !has_read {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::ACTIVE_SQL_TRANSACTION,
            format!("\"{READ_FROM}\" must be set before any query of the transaction"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_understood() {
        let number = |number| ReadFrom::Checkpoint(WhichCheckpoint::Number(number));
        let newest = ReadFrom::Checkpoint(WhichCheckpoint::Newest);
        for (value, meant) in [
            ("current", Some(ReadFrom::Current)),
            ("Checkpoint", Some(newest)),
            ("checkpoint 17", Some(number(17))),
            ("17", Some(number(17))),
            ("", None),
            ("-3", None),
            ("checkpoints", None),
            ("newest", None),
        ] {
            assert_eq!(ReadFrom::parse(value), meant, "{value}");
        }
    }
}
