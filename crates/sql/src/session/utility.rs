//! Statements that are neither queries nor data changes: who does them.
//!
//! Invariants: answers the tag as PostgreSQL has it.

use super::Session;
use super::cache::CachedStatement;
use super::client::{Client, Format};
use super::execute::{Done, Sending};
use crate::bind;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::Cx;
use crate::parse::ast::Expr;
use crate::parse::statement::Utility;
use crate::types::{Datum, Type, TypeOid};
use atoll_kernel::api::Context;

fn done(tag: impl Into<String>) -> SqlResult<Done> {
    Ok(Done { tag: tag.into(), rest: Vec::new() })
}

impl Session {
    /// Runs a utility statement. `several`: it is one of several of a simple query.
    pub(super) fn utility(
        &mut self,
        context: &Context,
        utility: &Utility,
        sending: Sending<'_>,
        several: bool,
        client: &mut dyn Client,
    ) -> SqlResult<Done> {
        match utility {
            Utility::Begin { start, modes } => done(self.begin(context, *start, *modes, client)?),
            Utility::Commit { chain } => done(self.commit(context, *chain, client)?),
            Utility::Rollback { chain } => done(self.rollback(context, *chain, client)?),
            Utility::Savepoint(name) => done(self.savepoint(name)?),
            Utility::Release(name) => done(self.release(name)?),
            Utility::RollbackTo(name) => done(self.roll_back_to(name)?),
            Utility::SetTransaction { session, modes } => {
                match session {
                    true => self.session_characteristics(*modes)?,
                    false => self.set_transaction(context, *modes, client)?,
                }
                done("SET")
            }
            Utility::Set { name, local, value, reset } => {
                self.set(context, name, value, *local, client)?;
                done(if *reset { "RESET" } else { "SET" })
            }
            Utility::ResetAll => {
                self.reset_all();
                done("RESET")
            }
            Utility::Show(name) => self.show(name, sending, client),
            Utility::Discard(what) => done(self.discard(what, several)?),
            Utility::Prepare { name, types, statement } => {
                let types = types.iter().map(|ty| Ok(bind::type_of(ty)?.oid));
                let types = types.collect::<SqlResult<Vec<TypeOid>>>()?;
                self.prepare_statement(context, name, statement, types)?;
                done("PREPARE")
            }
            Utility::Execute { name, arguments } => {
                self.execute_prepared(context, name, arguments, sending, several, client)
            }
            Utility::Deallocate(name) => match name {
                Some(name) => {
                    self.prepared_named(name)?;
                    self.close_statement(name);
                    done("DEALLOCATE")
                }
                None => {
                    self.prepared.clear();
                    done("DEALLOCATE ALL")
                }
            },
            Utility::DeclareCursor { .. }
            | Utility::Fetch { .. }
            | Utility::Close(_)
            | Utility::Explain(_) => self.query_statement(context, utility, sending, client),
            Utility::Copy(copy) => {
                let rows = self.copy(context, copy, client)?;
                done(format!("COPY {rows}"))
            }
            Utility::Vacuum { vacuum, analyze, tables } => {
                done(self.vacuum(context, *vacuum, *analyze, tables, several, client)?)
            }
            // Everything acknowledged is in the log.
            Utility::Checkpoint => Err(SqlError::not_supported("CHECKPOINT")),
            definition => done(self.definition(context, definition, client)?),
        }
    }

    /// Statements about a query: cursors, EXPLAIN.
    fn query_statement(
        &mut self,
        context: &Context,
        utility: &Utility,
        sending: Sending<'_>,
        client: &mut dyn Client,
    ) -> SqlResult<Done> {
        match utility {
            Utility::DeclareCursor { name, binary, scroll, query } => {
                let format = if *binary { Format::Binary } else { Format::Text };
                self.declare_cursor(context, name, (*scroll, format), query)?;
                done("DECLARE CURSOR")
            }
            Utility::Close(name) => done(self.close_cursor(name.as_deref())?),
            Utility::Explain(explain) => self.explain(context, explain, sending, client),
            fetch => self.fetch(context, fetch, sending, client),
        }
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
        let mut cx =
            Cx::begin(&planned.0, &[], &*functions, &view, &mut statement, &mut self.scratch);
        let value = planned.1.eval(&mut cx);
        cx.end(&mut self.scratch);
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
