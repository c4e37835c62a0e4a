//! Statements that are neither queries nor data changes: who does them.
//!
//! Invariants: answers the tag as PostgreSQL has it.

use super::Session;
use super::cache::CachedStatement;
use super::client::{Client, ColumnDescription, Room, Severity};
use super::execute::{Done, Sending};
use crate::bind;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::Cx;
use crate::parse::ast::Expr;
use crate::parse::statement::Utility;
use crate::types::{Datum, Type, TypeOid};
use atoll_kernel::api::{Context, Error, Parker};
use std::path::Path;
use std::sync::Arc;

/// How often a notice tells how far a backup is, in nanoseconds.
const TELL_NS: u64 = 2_000_000_000;

impl Session {
    /// Runs a utility statement but DECLARE, which has parameters. `several`: it is one of several of a simple query.
    pub(super) fn utility(
        &mut self,
        context: &Context,
        utility: &Utility,
        sending: Sending<'_>,
        several: bool,
        client: &mut dyn Client,
    ) -> SqlResult<Done> {
        match utility {
            Utility::Begin { start, modes } => {
                Done::all(self.begin(context, *start, *modes, client)?)
            }
            Utility::Commit { chain } => Done::all(self.commit(context, *chain, client)?),
            Utility::Rollback { chain } => Done::all(self.rollback(context, *chain, client)?),
            Utility::Savepoint(name) => Done::all(self.savepoint(name)?),
            Utility::Release(name) => Done::all(self.release(name)?),
            Utility::RollbackTo(name) => Done::all(self.roll_back_to(context, name)?),
            Utility::SetTransaction { session, modes } => {
                match session {
                    true => self.session_characteristics(*modes)?,
                    false => self.set_transaction(context, *modes, client)?,
                }
                Done::all("SET")
            }
            Utility::Set { name, local, value, reset } => {
                self.set(context, name, value, *local, client)?;
                Done::all(if *reset { "RESET" } else { "SET" })
            }
            Utility::ResetAll => {
                self.reset_all();
                Done::all("RESET")
            }
            Utility::Show(name) => self.show(name, sending, client),
            Utility::Discard(what) => Done::all(self.discard(what, several)?),
            Utility::Prepare { name, types, statement } => {
                let types = types.iter().map(|ty| Ok(bind::type_of(ty)?.oid));
                let types = types.collect::<SqlResult<Vec<TypeOid>>>()?;
                self.prepare_statement(context, name, statement, types)?;
                Done::all("PREPARE")
            }
            Utility::Execute { name, arguments } => {
                self.execute_prepared(context, name, arguments, sending, several, client)
            }
            Utility::Deallocate(name) => match name {
                Some(name) => {
                    self.prepared_named(name)?;
                    self.close_statement(name);
                    Done::all("DEALLOCATE")
                }
                None => {
                    self.prepared.clear();
                    Done::all("DEALLOCATE ALL")
                }
            },
            Utility::Fetch { .. } => self.fetch(context, utility, sending, client),
            Utility::Close(name) => Done::all(self.close_cursor(name.as_deref())?),
            Utility::Explain(explain) => self.explain(context, explain, sending, client),
            Utility::Copy(copy) => {
                let rows = self.copy(context, copy, client)?;
                Done::all(format!("COPY {rows}"))
            }
            Utility::Vacuum { vacuum, analyze, tables } => {
                Done::all(self.vacuum(context, *vacuum, *analyze, tables, several, client)?)
            }
            Utility::Checkpoint => Done::all(self.checkpoint(context)?),
            Utility::Backup(to) => self.backup(context, to, (sending, several), client),
            definition => Done::all(self.definition(context, definition, several, client)?),
        }
    }

    /// With or without a transaction, read-only or not, as PostgreSQL does it.
    fn checkpoint(&self, context: &Context) -> SqlResult<&'static str> {
        self.kernel.checkpoint(context)?;
        Ok("CHECKPOINT")
    }

    fn session_characteristics(
        &mut self,
        modes: crate::parse::statement::TransactionModes,
    ) -> SqlResult<()> {
        use super::transaction::wanted_isolation;
        use atoll_kernel::api::Isolation;
        if let Some(isolation) = wanted_isolation(modes)? {
            let name = match isolation {
                Isolation::RepeatableRead => "repeatable read",
                _ => "read committed",
            };
            let value = [name.to_owned()];
            self.context.settings.borrow_mut().set(
                "default_transaction_isolation",
                &value,
                false,
            )?;
        }
        if let Some(read_only) = modes.read_only {
            let value = [if read_only { "on" } else { "off" }.to_owned()];
            self.context.settings.borrow_mut().set(
                "default_transaction_read_only",
                &value,
                false,
            )?;
        }
        Ok(())
    }

    fn execute_prepared(
        &mut self,
        context: &Context,
        name: &str,
        arguments: &[Expr],
        sending: Sending<'_>,
        several: bool,
        client: &mut dyn Client,
    ) -> SqlResult<Done> {
        let cached = self.prepared_named(name)?;
        if !cached.is_planned() {
            if !arguments.is_empty() {
                return Err(wrong_count(name, 0, arguments.len()));
            }
            return self.run_statement(context, &cached, &[], sending, several, client);
        }
        let values = self.arguments_of(context, name, &cached, arguments)?;
        self.run_planned(context, &cached, &values, sending, client)
    }

    /// The values of EXECUTE's arguments.
    pub(super) fn arguments_of(
        &mut self,
        context: &Context,
        name: &str,
        cached: &CachedStatement,
        arguments: &[Expr],
    ) -> SqlResult<Vec<Datum>> {
        self.ensure_transaction(context)?;
        let entry = self.plan(context, cached)?;
        let wanted = &entry.planned.parameters;
        if wanted.len() != arguments.len() {
            return Err(wrong_count(name, wanted.len(), arguments.len()));
        }
        let mut values = Vec::with_capacity(arguments.len());
        for (argument, ty) in arguments.iter().zip(wanted) {
            values.push(self.evaluate(context, argument, Type::new(*ty), "parameter")?);
        }
        Ok(values)
    }

    /// The value of an expression without columns.
    pub(super) fn evaluate(
        &mut self,
        context: &Context,
        expr: &Expr,
        ty: Type,
        clause: &'static str,
    ) -> SqlResult<Datum> {
        let view = self.view();
        let planned = context.on_thread_stack(|| -> SqlResult<_> {
            let bound = bind::bind_constant(&view, expr, ty, clause)?;
            crate::plan::plan_value(&view, &bound)
        })?;
        let Some(transaction) = &mut self.transaction else {
            return Err(SqlError::internal("a value without a transaction"));
        };
        let mut statement = transaction.statement(&mut self.kernel, context)?;
        let functions = self.context.clone();
        let (pool, allowed) = (&self.local.scratch, &mut self.allowed);
        let mut scratch = pool.lend(allowed);
        let mut cx = Cx::begin(&planned.0, &[], &*functions, &view, &mut statement, &mut scratch);
        let value = planned.1.eval(&mut cx);
        cx.end(&mut scratch);
        pool.give_back(scratch, allowed);
        value
    }
}

fn wrong_count(name: &str, wanted: usize, given: usize) -> SqlError {
    SqlError::new(
        SqlState::SYNTAX_ERROR,
        format!("wrong number of parameters for prepared statement \"{name}\""),
    )
    .detail(format!("Expected {wanted} parameters but got {given}."))
}

/// The columns of the row that CALL atoll_backup answers.
pub(super) fn backup_columns() -> Arc<[ColumnDescription]> {
    let column = |(name, ty): (&str, TypeOid)| ColumnDescription {
        name: name.into(),
        ty: Type::new(ty),
        table: 0,
        number: 0,
    };
    let all = [
        ("checkpoint", TypeOid::INT8),
        ("cts", TypeOid::INT8),
        ("pages", TypeOid::INT8),
        ("bytes", TypeOid::INT8),
        ("ms", TypeOid::FLOAT8),
    ];
    all.map(column).into_iter().collect()
}

impl Session {
    /// Copies the database to a directory of the server's that is empty or not there.
    pub(super) fn backup(
        &mut self,
        context: &Context,
        directory: &str,
        (sending, several): (Sending<'_>, bool),
        client: &mut dyn Client,
    ) -> SqlResult<Done> {
        self.forbid_block("CALL atoll_backup", several)?;
        let path = Path::new(directory);
        if !path.is_absolute() {
            let text = "relative path not allowed for a backup on the server";
            return Err(SqlError::new(SqlState::INVALID_NAME, text));
        }
        // From here on everything that was answered may leave.
        self.kernel.settle(context)?;
        let mut told_ns = context.now_ns();
        let mut tell = |done: u64, total: u64| {
            let now_ns = context.now_ns();
            if now_ns < told_ns + TELL_NS {
                return Ok(());
            }
            told_ns = now_ns;
            let text = format!("backup: {} of {} MB copied", done >> 20, total >> 20);
            let notice = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, text);
            self.notice(client, Severity::Notice, &notice);
            // Nobody wants it if the client is gone.
            client.flush().map_err(|_| Error::Cancelled)
        };
        let report = self.kernel.backup(context, path, &mut tell)?;
        client.begin_rows(&backup_columns(), sending.formats, sending.announce);
        let count = |number: u64| Datum::from(i64::try_from(number).unwrap_or(i64::MAX));
        let row = [
            count(report.checkpoint),
            count(report.below.0.saturating_sub(1)),
            count(report.pages),
            count(report.page_bytes + report.log_bytes),
            Datum::from(report.elapsed_ns as f64 / 1e6),
        ];
        if client.row((&row).into(), &*self.context)? == Room::Full {
            client.flush()?;
        }
        Done::all("CALL")
    }
}
