//! SAVEPOINT, RELEASE, ROLLBACK TO.
//!
//! Invariants: savepoints exist in transaction blocks only, the oldest first; of several with one
//! name the newest is meant. Rolling back to one takes portals, settings and the access mode back,
//! too, and makes a failed block go on.

use super::settings::Settings;
use super::{Phase, Session};
use crate::error::{SqlError, SqlResult, SqlState};
use atoll_kernel::api::{Access, Context};

/// A savepoint of a transaction block.
pub(super) struct Savepoint {
    name: String,
    kernel: atoll_kernel::api::Savepoint,
    /// When it was made, among portals and savepoints.
    birth: u64,
    settings: Settings,
    access: Access,
}

impl Session {
    /// The next number of a portal or savepoint.
    pub(super) fn birth(&mut self) -> u64 {
        self.births += 1;
        self.births
    }

    fn check_in_block(&self, what: &str) -> SqlResult<()> {
        if matches!(self.phase, Phase::Block | Phase::Failed) {
            return Ok(());
        }
        Err(super::transaction::only_in_blocks(what))
    }

    fn savepoint_named(&self, name: &str) -> SqlResult<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SAVEPOINT_SPECIFICATION,
                format!("savepoint \"{name}\" does not exist"),
            )
        })
    }

    /// SAVEPOINT.
    pub(super) fn savepoint(&mut self, name: &str) -> SqlResult<&'static str> {
        self.check_in_block("SAVEPOINT")?;
        let birth = self.birth();
        let settings = self.context.settings.borrow().clone();
        let Some(transaction) = &mut self.transaction else {
            return Err(SqlError::internal("a block without a transaction"));
        };
        let (kernel, access) = (transaction.savepoint()?, transaction.access());
        self.savepoints.push(Savepoint { name: name.to_owned(), kernel, birth, settings, access });
        Ok("SAVEPOINT")
    }

    /// RELEASE SAVEPOINT.
    pub(super) fn release(&mut self, name: &str) -> SqlResult<&'static str> {
        self.check_in_block("RELEASE SAVEPOINT")?;
        let at = self.savepoint_named(name)?;
        let kernel = self.savepoints[at].kernel;
        self.savepoints.truncate(at);
        if let Some(transaction) = &mut self.transaction {
            transaction.release(kernel)?;
        }
        Ok("RELEASE")
    }

    /// ROLLBACK TO SAVEPOINT.
    pub(super) fn roll_back_to(
        &mut self,
        context: &Context,
        name: &str,
    ) -> SqlResult<&'static str> {
        self.check_in_block("ROLLBACK TO SAVEPOINT")?;
        let at = self.savepoint_named(name)?;
        self.savepoints.truncate(at + 1);
        self.back_to_newest_savepoint(context);
        self.phase = Phase::Block;
        Ok("ROLLBACK")
    }

    /// Undoes everything since the newest savepoint; false if there is none.
    pub(super) fn back_to_newest_savepoint(&mut self, context: &Context) -> bool {
        let (Some(savepoint), Some(transaction)) =
            (self.savepoints.last(), self.transaction.as_mut())
        else {
            return false;
        };
        let undone = transaction.roll_back_to(savepoint.kernel, context);
        debug_assert!(undone.is_ok(), "the kernel has every savepoint of the block");
        transaction.set_access(savepoint.access);
        let birth = savepoint.birth;
        self.portals.retain(|portal| portal.birth < birth);
        self.context.settings.borrow_mut().go_back(&savepoint.settings);
        self.apply_settings();
        true
    }
}
