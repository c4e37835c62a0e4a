//! Running one statement: locks, plan, execution, tag.
//!
//! Invariants: table locks are taken in the order of oids, before anything is read; a catalog
//! that changed meanwhile makes the statement begin again with the new one. A statement that runs
//! again has told its client nothing yet.

use super::Session;
use super::cache::{CachedStatement, PlanEntry};
use super::client::{Announce, Client, Format, Room};
use crate::error::{SqlError, SqlResult};
use crate::exec::spill::RowStore;
use crate::exec::{Cx, run};
use crate::parse::statement::{Statement, Utility};
use crate::plan::{Action, Choices, Modification, Planned, TableUse};
use crate::relations::CatalogView;
use crate::types::Datum;
use atoll_kernel::api::{
    Access, Catalog, CatalogRef, Context, Cts, Error, Parker, Statement as KernelStatement,
    TableLockMode,
};
use smol_str::{SmolStr, format_smolstr};
use std::rc::Rc;
use std::sync::Arc;

/// How the rows of a statement are sent.
#[derive(Clone, Copy)]
pub(super) struct Sending<'f> {
    /// RowDescription first?
    pub announce: Announce,
    /// The columns' formats.
    pub formats: &'f [Format],
    /// Rows to send now; 0 is all.
    pub rows_max: u64,
    /// Send them at all?
    pub answer: Answer,
}

/// Does anybody want the rows?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The client.
    Send,
    /// Nobody: EXPLAIN ANALYZE only counts.
    Discard,
}

/// What a statement did.
pub(super) struct Done {
    /// Its tag.
    pub tag: SmolStr,
    /// The rows that were not sent, if the limit was reached: none or more.
    pub rest: Option<Box<RowStore>>,
}

impl Done {
    /// Of a statement that sent all its rows.
    pub fn all(tag: impl Into<SmolStr>) -> SqlResult<Done> {
        Ok(Done { tag: tag.into(), rest: None })
    }

    /// Of a statement that sent so many rows; the others are in `rest`. Its execution is over.
    pub fn limited(
        tag: SmolStr,
        rows_max: u64,
        sent: u64,
        mut rest: Option<Box<RowStore>>,
    ) -> Done {
        if rows_max != 0 && sent == rows_max {
            rest.get_or_insert_default().give_back_unused();
        }
        Done { tag, rest }
    }
}

/// Attempts to plan and lock against a catalog that keeps changing.
pub(super) const ATTEMPTS_MAX: u32 = 100;

impl Session {
    /// A statement begins: its clock, its time limit.
    pub(super) fn begin_statement(&mut self, context: &Context) {
        self.apply_settings();
        self.begin_time_limit(context);
    }

    /// `statement_timeout` counts from now on.
    pub(super) fn begin_time_limit(&mut self, context: &Context) {
        let timeout_ns = self.defaults.timeout_ns;
        self.kernel.deadline_ns = timeout_ns.map(|timeout| context.now_ns() + timeout);
    }

    /// Between two statements that have come together: a cancel ends both, and others run if the slice
    /// is used up.
    pub(super) fn breathe(&mut self, context: &Context) -> SqlResult<()> {
        self.kernel.check(context)?;
        if context.should_yield() {
            context.yield_now();
        }
        Ok(())
    }

    /// The catalog as it is now, with the open transaction's changes.
    pub(super) fn newest_catalog(&mut self) -> CatalogRef {
        match &self.transaction {
            Some(transaction) => transaction.catalog(&mut self.kernel),
            None => self.kernel.catalog(),
        }
    }

    /// What the planner is told: by the settings, and by what the transaction has met.
    pub(super) fn choices(&self) -> Choices {
        Choices { indexes_before: self.indexes_before, ..self.choices }
    }

    /// The plan of a statement for the catalog as it is now.
    pub(super) fn plan(
        &mut self,
        context: &Context,
        cached: &CachedStatement,
    ) -> SqlResult<Rc<PlanEntry>> {
        let catalog = self.newest_catalog();
        let engine = &self.local.engine;
        let path = &self.path;
        // Read before the statistics themselves: at worst a plan is made once too often.
        let statistics = engine.statistics.version();
        let view = || CatalogView {
            catalog: (*catalog).clone(),
            registry: engine.registry.clone(),
            path: path.clone(),
            statistics: engine.statistics.newest(),
        };
        cached.plan(context, &catalog, statistics, view, path, self.choices())
    }

    /// Runs a query or a data change.
    pub(super) fn run_planned(
        &mut self,
        context: &Context,
        cached: &CachedStatement,
        parameters: &[Datum],
        sending: Sending<'_>,
        client: &mut dyn Client,
    ) -> SqlResult<Done> {
        self.ensure_transaction(context)?;
        self.queried = true;
        for _ in 0..ATTEMPTS_MAX {
            let entry = self.plan(context, cached)?;
            self.note_affinity(&entry.planned, parameters);
            if entry.planned.uses_virtual {
                self.show_cursors();
            }
            if entry.planned.changes_rows() {
                self.check_writable(command_of(cached))?;
            }
            if let Some(done) = self.attempt(context, &entry, parameters, sending, client)? {
                return Ok(done);
            }
        }
        Err(SqlError::internal("the catalog changes faster than statements are planned"))
    }

    /// One attempt; None if it has to be planned anew before it begins ([`may_run`]).
    pub(super) fn attempt(
        &mut self,
        context: &Context,
        entry: &PlanEntry,
        parameters: &[Datum],
        sending: Sending<'_>,
        client: &mut dyn Client,
    ) -> SqlResult<Option<Done>> {
        let planned = &entry.planned;
        let Some(transaction) = &mut self.transaction else {
            return Err(SqlError::internal("a statement without a transaction"));
        };
        let read_only = transaction.access() == Access::ReadOnly;
        let mut statement = transaction.statement(&mut self.kernel, context)?;
        if !may_run(&mut statement, entry, &mut self.indexes_before)? {
            return Ok(None);
        }
        let functions = self.context.clone();
        functions.read_only.set(read_only);
        let is_virtual = planned.uses_virtual;
        let view = {
            let mut view = functions.view.borrow_mut();
            refresh_view(&mut view, statement.catalog(), &self.path);
            if is_virtual {
                view.statistics = self.local.engine.statistics.newest();
            }
            drop(view);
            if is_virtual { Some(functions.view.borrow().clone()) } else { None }
        };
        let empty;
        let view = match &view {
            Some(view) => view,
            None => {
                empty = functions.view.borrow();
                &empty
            }
        };
        let (pool, allowed) = (&self.local.scratch, &mut self.allowed);
        let mut scratch = pool.lend(allowed);
        let mut cx =
            Cx::begin(planned, parameters, &*functions, view, &mut statement, &mut scratch);
        if let (Some(columns), Answer::Send) = (&planned.columns, sending.answer) {
            client.begin_rows(columns, sending.formats, sending.announce);
        }
        let mut sent = 0;
        let mut rest: Option<Box<RowStore>> = None;
        let result = run::run(planned, &mut cx, &mut |given, cx| {
            if sending.answer == Answer::Discard {
                return Ok(true);
            }
            if sending.rows_max != 0 && sent >= sending.rows_max {
                let kept = given.values(&cx.frame).to_boxed();
                rest.get_or_insert_default().push(kept, cx)?;
                return Ok(true);
            }
            sent += 1;
            if client.row(given.values(&cx.frame), cx.functions)? == Room::Full {
                cx.statement.settle();
                client.flush()?;
            }
            Ok(true)
        });
        cx.end(&mut scratch);
        pool.give_back(scratch, allowed);
        let count = result?;
        let tag = tag_of(&planned.action, sent, count);
        Ok(Some(Done::limited(tag, sending.rows_max, sent, rest)))
    }

    /// Runs any statement of a simple query or a portal; its tag is sent by the caller.
    pub(super) fn run_statement(
        &mut self,
        context: &Context,
        cached: &Rc<CachedStatement>,
        parameters: &[Datum],
        sending: Sending<'_>,
        several: bool,
        client: &mut dyn Client,
    ) -> SqlResult<Done> {
        if !cached.is_exit {
            self.check_not_failed()?;
        }
        self.begin_statement(context);
        let done = match &cached.statement {
            Some(Statement::Utility(utility)) => match (&**utility, &cached.query) {
                (Utility::DeclareCursor(declare), Some(query)) => {
                    self.declare_cursor(context, declare, (query, parameters), several)?
                }
                _ => self.utility(context, utility, sending, several, client)?,
            },
            Some(_) => self.run_planned(context, cached, parameters, sending, client)?,
            None => return Err(SqlError::internal("an empty statement is not run")),
        };
        self.kernel.deadline_ns = None;
        self.report_settings(client);
        Ok(done)
    }
}

/// The view shows this catalog and search path; written only if it did not.
fn refresh_view(view: &mut CatalogView, catalog: &Arc<Catalog>, path: &Arc<[Arc<str>]>) {
    if !Arc::ptr_eq(&view.catalog, catalog) {
        view.catalog = catalog.clone();
    }
    if !Arc::ptr_eq(&view.path, path) {
        view.path = path.clone();
    }
}

/// Locks a plan's tables. False if it has to be made anew: the catalog changed, or the snapshot is
/// older than an index that it may have chosen; then the transaction goes on without such indexes.
pub(super) fn may_run(
    statement: &mut KernelStatement<'_>,
    entry: &PlanEntry,
    indexes_before: &mut Option<Cts>,
) -> SqlResult<bool> {
    if !lock_tables(statement, &entry.planned)? || !entry.is_for(statement.catalog()) {
        return Ok(false);
    }
    let tables = entry.planned.tables.iter().map(|(table, _)| *table);
    if entry.is_of_old_indexes() || statement.may_read_indexes(tables) {
        return Ok(true);
    }
    *indexes_before = Some(statement.snapshot_timestamp());
    Ok(false)
}

/// Locks a plan's tables; false if one is not what it was any more.
fn lock_tables(statement: &mut KernelStatement<'_>, planned: &Planned) -> SqlResult<bool> {
    for (table, table_use) in &planned.tables {
        let mode = match table_use {
            TableUse::Read => TableLockMode::AccessShare,
            TableUse::LockRows => TableLockMode::RowShare,
            TableUse::Write => TableLockMode::RowExclusive,
        };
        match statement.lock_table(*table, mode) {
            Ok(()) => {}
            Err(Error::CatalogChanged) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

fn tag_of(action: &Action, sent: u64, count: u64) -> SmolStr {
    match action {
        Action::Query { .. } => format_smolstr!("SELECT {sent}"),
        Action::Modify(modify) => match &modify.modification {
            Modification::Insert { .. } => format_smolstr!("INSERT 0 {count}"),
            Modification::Update { .. } => format_smolstr!("UPDATE {count}"),
            Modification::Delete { .. } => format_smolstr!("DELETE {count}"),
        },
    }
}

fn command_of(cached: &CachedStatement) -> &'static str {
    cached.statement.as_ref().map_or("", command_word)
}

/// What a statement is called when it is refused.
pub(super) fn command_word(statement: &Statement) -> &'static str {
    match statement {
        Statement::Insert(_) => "INSERT",
        Statement::Update(_) => "UPDATE",
        Statement::Delete(_) => "DELETE",
        Statement::Query(query) if query.for_update.is_none() => "SELECT",
        _ => "SELECT FOR UPDATE",
    }
}
