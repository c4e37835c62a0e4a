//! Where a session stands: implicit transactions, blocks, failed blocks.
//!
//! ```text
//!   Idle --statement--> Implicit --end of query or Sync--> Idle (committed)
//!   Implicit --BEGIN--> Block --COMMIT--> Idle; Block --error--> Failed --ROLLBACK--> Idle
//!   Implicit --error--> Idle (rolled back); Failed --ROLLBACK TO--> Block
//! ```
//!
//! Invariants: the kernel's transaction exists exactly in Implicit (once a statement needed it),
//! in Block, and in Failed if there is a savepoint; a failed one is rolled back at once, whole or
//! to its newest savepoint, so its locks are free. What may fail at COMMIT (cursors WITH HOLD, see
//! `held`) comes before the kernel's commit.

use super::client::{Client, Severity};
use super::{Phase, Session};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::statement::{IsolationName, TransactionModes};
use atoll_kernel::api::{Access, Context, Isolation, Transaction};

/// The error of a command that only a transaction block has a use for (25P01).
pub(super) fn only_in_blocks(what: &str) -> SqlError {
    SqlError::new(
        SqlState::NO_ACTIVE_SQL_TRANSACTION,
        format!("{what} can only be used in transaction blocks"),
    )
}

impl Session {
    /// The transaction of the statement that is about to run; begun now if there is none.
    pub(crate) fn ensure_transaction(&mut self, context: &Context) -> SqlResult<()> {
        if self.phase == Phase::Idle {
            self.phase = Phase::Implicit;
        }
        if self.transaction.is_none() {
            self.context.begin_statement(true);
            self.apply_settings();
            let (isolation, read_only) =
                (self.defaults.isolation.clone()?, self.defaults.read_only);
            self.begin_kernel(context, isolation, read_only)?;
        } else {
            self.context.begin_statement(false);
        }
        Ok(())
    }

    pub(super) fn begin_kernel(
        &mut self,
        context: &Context,
        isolation: Isolation,
        read_only: bool,
    ) -> SqlResult<()> {
        let access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
        let mut transaction = self.kernel.begin(context, isolation, access)?;
        self.choose_what_to_read(context, &mut transaction)?;
        self.context.transaction_id.set(number_of(&transaction));
        self.transaction = Some(transaction);
        self.affinity.begin();
        self.queried = false;
        self.indexes_before = None;
        Ok(())
    }

    /// A statement may not run in a failed block (25P02).
    pub(super) fn check_not_failed(&self) -> SqlResult<()> {
        if self.phase != Phase::Failed {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::IN_FAILED_SQL_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        ))
    }

    /// Draws the consequences of an error.
    pub(super) fn failed(&mut self, context: &Context) {
        self.kernel.deadline_ns = None;
        self.undo_failed(context);
        // A cancel is heard of by now, or comes too late.
        self.kernel.interrupt().clear();
    }

    fn undo_failed(&mut self, context: &Context) {
        if matches!(self.phase, Phase::Block | Phase::Failed)
            && self.back_to_newest_savepoint(context)
        {
            self.phase = Phase::Failed;
            return;
        }
        self.end_portals();
        if let Some(transaction) = self.transaction.take() {
            transaction.rollback(&mut self.kernel, context);
        }
        match self.phase {
            Phase::Implicit => {
                self.phase = Phase::Idle;
                self.settings_end(false);
            }
            Phase::Block => self.phase = Phase::Failed,
            Phase::Idle | Phase::Failed => {}
        }
    }

    fn settings_end(&mut self, committed: bool) {
        self.end_affinity();
        self.context.settings.borrow_mut().end_transaction(committed);
        self.apply_settings();
    }

    /// Commits the implicit transaction, if there is one.
    pub(super) fn end_implicit(&mut self, context: &Context) -> SqlResult<()> {
        if self.phase == Phase::Implicit {
            self.commit_kernel(context)?;
        }
        Ok(())
    }

    fn commit_kernel(&mut self, context: &Context) -> SqlResult<()> {
        let held = match self.hold_cursors(context) {
            Ok(held) => held,
            Err(error) => {
                self.rollback_kernel(context);
                return Err(error);
            }
        };
        self.end_portals();
        self.savepoints.clear();
        self.phase = Phase::Idle;
        let result = match self.transaction.take() {
            Some(transaction) => transaction.commit(&mut self.kernel, context).map(|_| ()),
            None => Ok(()),
        };
        if result.is_ok() {
            self.keep_held(held);
        }
        self.settings_end(result.is_ok());
        Ok(result?)
    }

    fn rollback_kernel(&mut self, context: &Context) {
        self.end_portals();
        self.savepoints.clear();
        if let Some(transaction) = self.transaction.take() {
            transaction.rollback(&mut self.kernel, context);
        }
        self.phase = Phase::Idle;
        self.settings_end(false);
    }

    /// BEGIN, START TRANSACTION.
    pub(super) fn begin(
        &mut self,
        context: &Context,
        start: bool,
        modes: TransactionModes,
        client: &mut dyn Client,
    ) -> SqlResult<&'static str> {
        let tag = if start { "START TRANSACTION" } else { "BEGIN" };
        let isolation = wanted_isolation(modes)?;
        if self.phase == Phase::Block {
            let text = "there is already a transaction in progress";
            let warning = SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, text);
            self.notice(client, Severity::Warning, &warning);
            self.set_transaction(context, modes, client)?;
            return Ok(tag);
        }
        if self.transaction.is_none() {
            self.context.begin_statement(true);
            self.apply_settings();
            let read_only = modes.read_only.unwrap_or(self.defaults.read_only);
            let isolation = match isolation {
                Some(isolation) => isolation,
                None => self.defaults.isolation.clone()?,
            };
            self.begin_kernel(context, isolation, read_only)?;
        } else {
            // The statements of this query that ran already become part of the block.
            self.set_modes(modes)?;
        }
        self.phase = Phase::Block;
        Ok(tag)
    }

    /// COMMIT, END. Answers the tag.
    pub(super) fn commit(
        &mut self,
        context: &Context,
        chain: bool,
        client: &mut dyn Client,
    ) -> SqlResult<&'static str> {
        let modes = self.present_modes();
        match self.phase {
            Phase::Failed => {
                self.rollback_kernel(context);
                self.chain(context, chain, modes)?;
                return Ok("ROLLBACK");
            }
            Phase::Block => self.commit_kernel(context)?,
            Phase::Idle | Phase::Implicit => {
                self.outside(chain, "COMMIT AND CHAIN", client)?;
                self.commit_kernel(context)?;
                return Ok("COMMIT");
            }
        }
        self.chain(context, chain, modes)?;
        Ok("COMMIT")
    }

    /// ROLLBACK, ABORT.
    pub(super) fn rollback(
        &mut self,
        context: &Context,
        chain: bool,
        client: &mut dyn Client,
    ) -> SqlResult<&'static str> {
        let modes = self.present_modes();
        if matches!(self.phase, Phase::Idle | Phase::Implicit) {
            self.outside(chain, "ROLLBACK AND CHAIN", client)?;
            self.rollback_kernel(context);
            return Ok("ROLLBACK");
        }
        self.rollback_kernel(context);
        self.chain(context, chain, modes)?;
        Ok("ROLLBACK")
    }

    fn outside(&self, chain: bool, what: &str, client: &mut dyn Client) -> SqlResult<()> {
        if chain {
            return Err(only_in_blocks(what));
        }
        let text = "there is no transaction in progress";
        let warning = SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, text);
        self.notice(client, Severity::Warning, &warning);
        Ok(())
    }

    fn present_modes(&self) -> (Isolation, bool) {
        self.transaction.as_ref().map_or((Isolation::ReadCommitted, false), |transaction| {
            (transaction.isolation(), transaction.access() == Access::ReadOnly)
        })
    }

    fn chain(&mut self, context: &Context, chain: bool, modes: (Isolation, bool)) -> SqlResult<()> {
        if chain {
            self.context.begin_statement(true);
            self.begin_kernel(context, modes.0, modes.1)?;
            self.phase = Phase::Block;
        }
        Ok(())
    }

    /// SET TRANSACTION. The isolation cannot change after the first query (25001).
    pub(super) fn set_modes(&mut self, modes: TransactionModes) -> SqlResult<()> {
        let wanted = wanted_isolation(modes)?;
        let in_subtransaction = !self.savepoints.is_empty();
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        if let Some(wanted) = wanted
            && wanted != transaction.isolation()
        {
            if in_subtransaction {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction",
                ));
            }
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "SET TRANSACTION ISOLATION LEVEL must be called before any query",
            ));
        }
        if modes.read_only == Some(false) && transaction.checkpoint().is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "cannot set transaction read-write mode while a checkpoint is read",
            ));
        }
        if let Some(read_only) = modes.read_only {
            transaction.set_access(if read_only { Access::ReadOnly } else { Access::ReadWrite });
        }
        Ok(())
    }

    /// SET TRANSACTION before the first query of a block: begins it again in the new modes.
    pub(super) fn set_transaction(
        &mut self,
        context: &Context,
        modes: TransactionModes,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        if self.phase != Phase::Block {
            self.notice(client, Severity::Warning, &only_in_blocks("SET TRANSACTION"));
            wanted_isolation(modes)?;
            return Ok(());
        }
        let wanted = wanted_isolation(modes)?;
        let fresh = !self.queried && self.savepoints.is_empty();
        if let (Some(wanted), true) = (wanted, fresh) {
            let read_only = self.present_modes().1;
            if let Some(transaction) = self.transaction.take() {
                transaction.rollback(&mut self.kernel, context);
            }
            self.begin_kernel(context, wanted, read_only)?;
        }
        self.set_modes(modes)
    }

    /// Commands that cannot run in a transaction block (25001).
    pub(crate) fn forbid_block(&self, what: &str, several: bool) -> SqlResult<()> {
        if self.phase == Phase::Block || several {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot run inside a transaction block"),
            ));
        }
        Ok(())
    }

    /// What would end with its transaction is refused outside a transaction block (25P01); statements of one simple query are
    /// one, too.
    pub(crate) fn require_block(&self, what: &str, several: bool) -> SqlResult<()> {
        if self.phase == Phase::Block || several { Ok(()) } else { Err(only_in_blocks(what)) }
    }

    /// Changes are refused in read-only transactions (25006).
    pub(crate) fn check_writable(&self, command: &str) -> SqlResult<()> {
        let read_only = self.transaction.as_ref().is_some_and(|t| t.access() == Access::ReadOnly);
        if read_only {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {command} in a read-only transaction"),
            ));
        }
        Ok(())
    }
}

fn number_of(transaction: &Transaction) -> u64 {
    transaction.xid().map_or(0, |xid| xid.raw() & !(1 << 63))
}

/// The isolation that a name means; SERIALIZABLE is refused, not weakened.
pub(super) fn isolation_of(name: &str) -> SqlResult<Isolation> {
    match name {
        "serializable" => Err(SqlError::not_supported("the isolation level SERIALIZABLE")),
        "repeatable read" => Ok(Isolation::RepeatableRead),
        _ => Ok(Isolation::ReadCommitted),
    }
}

/// The isolation that modes ask for.
pub(super) fn wanted_isolation(modes: TransactionModes) -> SqlResult<Option<Isolation>> {
    match modes.isolation {
        None => Ok(None),
        Some(IsolationName::ReadCommitted | IsolationName::ReadUncommitted) => {
            Ok(Some(Isolation::ReadCommitted))
        }
        Some(IsolationName::RepeatableRead) => Ok(Some(Isolation::RepeatableRead)),
        Some(IsolationName::Serializable) => isolation_of("serializable").map(Some),
    }
}
