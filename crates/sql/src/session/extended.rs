//! The extended protocol: prepared statements and portals.
//!
//! Invariants: a portal belongs to the transaction it was bound in and goes with it, unless it is a
//! cursor that is held (`held`). A query that is
//! executed with a row limit stops there and goes on at the next Execute (`cursor`); of other
//! statements, which have run to their end, the rows that were not sent wait.

use super::cache::CachedStatement;
use super::client::{Announce, Client, ColumnDescription, Format, Room, StatementDescription};
use super::cursor::{Cursor, Declared, Fetching};
use super::execute::{Answer, Sending};
use super::{Phase, Session};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::spill::{RowStore, StoreCursor};
use crate::parse::statement::{Statement, Utility};
use crate::parse::{self, Parsed};
use crate::types::{Datum, Type, TypeOid, binary, text as text_form};
use atoll_kernel::api::Context;
use smol_str::SmolStr;
use std::rc::Rc;
use std::sync::Arc;

/// The parts of a Bind message.
pub struct BindRequest<'m, 'p> {
    /// The portal's name.
    pub portal: &'m str,
    /// The statement's name.
    pub statement: &'m str,
    /// None (all text), one (for all) or one a parameter.
    pub parameter_formats: &'m [Format],
    /// The parameters, in order.
    pub parameters: &'m mut dyn Iterator<Item = Option<&'p [u8]>>,
    /// None (all text), one (for all) or one a column.
    pub result_formats: &'m [Format],
}

/// A bound statement.
pub(super) struct Portal {
    pub cached: Rc<CachedStatement>,
    pub parameters: Vec<Datum>,
    pub formats: Vec<Format>,
    pub columns: Option<Arc<[ColumnDescription]>>,
    pub state: State,
    /// When it was made, among portals and savepoints; `HELD` once it has outlived its transaction.
    pub birth: u64,
    /// What DECLARE said, if it is a cursor.
    pub declared: Option<Box<Declared>>,
}

/// How far a portal is.
pub(super) enum State {
    /// It has not run.
    New,
    /// A query that is read a part at a time.
    Open(Box<Fetching>),
    /// It has run: rows that were not sent because of a limit (of RETURNING, of FETCH), its tag.
    Ran(Option<Box<Rest>>, SmolStr),
    /// A cursor of DECLARE.
    Cursor(Box<Cursor>),
    /// A cursor in which a fetch failed.
    Failed,
}

/// Rows that wait for the next Execute.
pub(super) struct Rest {
    rows: Box<RowStore>,
    cursor: StoreCursor,
    next: u64,
}

impl Session {
    fn guarded<T>(
        &mut self,
        context: &Context,
        run: impl FnOnce(&mut Session) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let result = run(self);
        if result.is_err() {
            self.failed(context);
        }
        result
    }

    /// Parse: one statement or none. `types` are the declared parameter types (0 = infer).
    pub fn parse(
        &mut self,
        context: &Context,
        name: &str,
        text: &str,
        types: &[TypeOid],
    ) -> SqlResult<()> {
        self.guarded(context, |session| {
            if !name.is_empty() && session.prepared.contains_key(name) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_PREPARED_STATEMENT,
                    format!("prepared statement \"{name}\" already exists"),
                ));
            }
            let cached = session.prepare(context, text, types)?;
            session.prepared.insert(name.to_owned(), cached);
            Ok(())
        })
    }

    fn prepare(
        &mut self,
        context: &Context,
        text: &str,
        types: &[TypeOid],
    ) -> SqlResult<Rc<CachedStatement>> {
        let cached = match self.local.cache.get(text, types) {
            Some(cached) if self.is_promised_now(&cached) => cached,
            Some(cached) => {
                let statement = &cached.statement;
                let statement = context.on_thread_stack(|| statement.clone());
                let cached = Rc::new(cached.anew(statement));
                self.local.cache.put(text, types, cached.clone());
                cached
            }
            None => {
                let mut parsed = context.on_thread_stack(|| parse::parse(text))?;
                if parsed.len() > 1 {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "cannot insert multiple commands into a prepared statement",
                    ));
                }
                let (statement, is_exit) = match parsed.pop() {
                    None => (None, false),
                    Some(Parsed { statement, is_transaction_exit, .. }) => {
                        if !is_transaction_exit {
                            self.check_not_failed()?;
                        }
                        (Some(statement?), is_transaction_exit)
                    }
                };
                let mut cached = context.on_thread_stack(|| {
                    CachedStatement::prepared(statement, is_exit, types.to_vec())
                });
                cached.text = Some(text.into());
                let cached = Rc::new(cached);
                self.local.cache.put(text, types, cached.clone());
                cached
            }
        };
        if let Some(part) = cached.planned_part() {
            self.check_not_failed()?;
            // Errors of names and types belong to Parse.
            self.plan(context, part).map_err(|error| parse::in_characters(error, text))?;
        } else if !cached.is_exit && cached.statement.is_some() {
            self.check_not_failed()?;
        }
        Ok(cached)
    }

    /// Whether what the sessions that have the statement rely on is what this one would find.
    fn is_promised_now(&mut self, cached: &CachedStatement) -> bool {
        let catalog = self.newest_catalog();
        cached.planned_part().is_none_or(|part| part.is_promised_for(&catalog, &self.path))
    }

    fn statement_named(&self, name: &str) -> SqlResult<Rc<CachedStatement>> {
        self.prepared.get(name).cloned().ok_or_else(|| {
            let message = if name.is_empty() {
                "unnamed prepared statement does not exist".to_owned()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// Bind.
    pub fn bind(&mut self, context: &Context, request: BindRequest<'_, '_>) -> SqlResult<()> {
        self.guarded(context, |session| session.bind_inside(context, request))
    }

    fn bind_inside(&mut self, context: &Context, request: BindRequest<'_, '_>) -> SqlResult<()> {
        let BindRequest { portal, statement, parameter_formats, parameters, result_formats } =
            request;
        let cached = self.statement_named(statement)?;
        if !cached.is_exit {
            self.check_not_failed()?;
        }
        if !portal.is_empty() && self.portals.contains_key(portal) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{portal}\" already exists"),
            ));
        }
        // The memory of the portal that this one replaces is used again.
        let (mut values, mut formats) = match self.portals.remove(portal) {
            Some(old) => (old.parameters, old.formats),
            None => (Vec::new(), Vec::new()),
        };
        values.clear();
        let (columns, types) = if let Some(part) = cached.planned_part() {
            let entry = self.plan(context, part)?;
            values.reserve(entry.planned.parameters.len());
            self.read_parameters(
                &entry.planned.parameters,
                parameter_formats,
                parameters,
                &mut values,
            )?;
            // DECLARE itself returns no rows.
            let columns = entry.planned.columns.clone().filter(|_| cached.is_planned());
            (columns, entry.planned.parameters.len())
        } else {
            (self.utility_columns(&cached)?, 0)
        };
        let has_part = cached.planned_part().is_some();
        let wanted = if has_part { types } else { cached.declared.len() };
        if !has_part {
            values.extend(parameters.map(|_| Datum::Null));
        }
        if values.len() != wanted {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {wanted}",
                    values.len()
                ),
            ));
        }
        let width = columns.as_ref().map_or(0, |columns| columns.len());
        if result_formats.len() > 1 && result_formats.len() != width {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message has {} result formats but query has {width} columns",
                    result_formats.len()
                ),
            ));
        }
        formats.clear();
        formats.extend_from_slice(result_formats);
        let birth = self.birth();
        let (state, declared) = (State::New, None);
        let new = Portal { cached, parameters: values, formats, columns, state, birth, declared };
        self.portals.insert(portal.to_owned(), new);
        if self.phase == Phase::Idle {
            self.phase = Phase::Implicit;
        }
        Ok(())
    }

    fn read_parameters(
        &self,
        types: &[TypeOid],
        formats: &[Format],
        parameters: &mut dyn Iterator<Item = Option<&[u8]>>,
        values: &mut Vec<Datum>,
    ) -> SqlResult<()> {
        for (index, parameter) in parameters.enumerate() {
            // Too many are counted by the caller.
            let Some(ty) = types.get(index) else {
                values.push(Datum::Null);
                continue;
            };
            let format = match formats {
                [] => Format::Text,
                [one] => *one,
                many => *many.get(index).ok_or_else(|| {
                    SqlError::new(
                        SqlState::PROTOCOL_VIOLATION,
                        format!(
                            "bind message has {} parameter formats but {} parameters",
                            many.len(),
                            types.len()
                        ),
                    )
                })?,
            };
            values.push(match (parameter, format) {
                (None, _) => Datum::Null,
                (Some(bytes), Format::Binary) => {
                    binary::receive(Type::new(*ty), bytes, &*self.context)?
                }
                (Some(bytes), Format::Text) => match text_form::plain_number(*ty, bytes) {
                    Some(number) => number,
                    None => self.read_text(*ty, bytes)?,
                },
            });
        }
        Ok(())
    }

    fn read_text(&self, ty: TypeOid, bytes: &[u8]) -> SqlResult<Datum> {
        let text = std::str::from_utf8(bytes).map_err(|_| {
            SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"UTF8\"",
            )
        })?;
        text_form::input(Type::new(ty), text, &*self.context)
    }

    /// The columns that a utility statement returns.
    fn utility_columns(
        &mut self,
        cached: &CachedStatement,
    ) -> SqlResult<Option<Arc<[ColumnDescription]>>> {
        let Some(Statement::Utility(utility)) = &cached.statement else { return Ok(None) };
        match &**utility {
            Utility::Show(name) => self.show_columns(name).map(Some),
            Utility::Explain(_) => Ok(Some(super::explain::columns())),
            Utility::Backup(_) => Ok(Some(super::utility::backup_columns())),
            Utility::Fetch { name, is_move: false, .. } => Ok(self.cursor_columns(name)),
            _ => Ok(None),
        }
    }

    /// Describe of a statement.
    pub fn describe_statement(
        &mut self,
        context: &Context,
        name: &str,
    ) -> SqlResult<StatementDescription> {
        self.guarded(context, |session| {
            let cached = session.statement_named(name)?;
            let Some(part) = cached.planned_part() else {
                let columns = session.utility_columns(&cached)?;
                let parameters = cached.declared.iter().map(|oid| Type::new(*oid)).collect();
                return Ok(StatementDescription { parameters, columns });
            };
            session.check_not_failed()?;
            let entry = session.plan(context, part)?;
            let parameters = entry.planned.parameters.iter().map(|oid| Type::new(*oid)).collect();
            let columns = entry.planned.columns.clone().filter(|_| cached.is_planned());
            Ok(StatementDescription { parameters, columns })
        })
    }

    /// Describe of a portal: its columns with their formats; `None` if it returns no rows.
    #[expect(clippy::type_complexity, reason = "columns and how they are sent")]
    pub fn describe_portal(
        &mut self,
        context: &Context,
        name: &str,
    ) -> SqlResult<Option<(Arc<[ColumnDescription]>, Vec<Format>)>> {
        self.guarded(context, |session| {
            let portal = session.portals.get(name).ok_or_else(|| no_portal(name))?;
            Ok(portal.columns.clone().map(|columns| (columns, portal.formats.clone())))
        })
    }

    /// Execute: at most `rows_max` rows (0 = all), then CommandComplete or PortalSuspended.
    pub fn execute(
        &mut self,
        context: &Context,
        portal: &str,
        rows_max: u32,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        self.guarded(context, |session| session.execute_inside(context, portal, rows_max, client))
    }

    fn execute_inside(
        &mut self,
        context: &Context,
        name: &str,
        rows_max: u32,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        let (key, mut portal) = self.portals.remove_entry(name).ok_or_else(|| no_portal(name))?;
        if portal.cached.statement.is_none() {
            client.empty_query();
            self.portals.insert(key, portal);
            return Ok(());
        }
        let result = match &mut portal.state {
            State::New => self.execute_first(context, (name, &mut portal), rows_max, client)?,
            State::Cursor(_) | State::Failed => {
                self.portals.insert(key, portal);
                return Err(not_runnable(name));
            }
            _ => {
                self.begin_time_limit(context);
                self.go_on(context, (name, &mut portal), rows_max, client)?;
                self.kernel.deadline_ns = None;
                Keep::Yes
            }
        };
        // A transaction command has taken the portals with it.
        if result == Keep::Yes {
            self.portals.insert(key, portal);
        }
        Ok(())
    }

    fn execute_first(
        &mut self,
        context: &Context,
        (name, portal): (&str, &mut Portal),
        rows_max: u32,
        client: &mut dyn Client,
    ) -> SqlResult<Keep> {
        let cached = portal.cached.clone();
        // What changes rows runs to its end, whatever is fetched of it.
        let is_read = |statement: &Statement| matches!(statement, Statement::Query(query) if !query.with.changes_rows());
        if rows_max > 0 && cached.statement.as_ref().is_some_and(is_read) {
            self.check_not_failed()?;
            self.begin_statement(context);
            let parameters = std::mem::take(&mut portal.parameters);
            let fetching = self.open_fetching(context, &cached, parameters)?;
            portal.state = State::Open(Box::new(fetching));
            self.go_on(context, (name, portal), rows_max, client)?;
            self.kernel.deadline_ns = None;
            return Ok(Keep::Yes);
        }
        let sending = Sending {
            announce: Announce::No,
            formats: &portal.formats,
            rows_max: u64::from(rows_max),
            answer: Answer::Send,
        };
        let done =
            self.run_statement(context, &cached, &portal.parameters, sending, false, client)?;
        match &done.rest {
            None => client.complete(&done.tag),
            Some(_) => client.suspended(),
        }
        let rest = |rows| Box::new(Rest { rows, cursor: StoreCursor::default(), next: 0 });
        portal.state = State::Ran(done.rest.map(rest), done.tag);
        let keeps = portal.columns.is_some() || self.phase != Phase::Idle;
        Ok(if keeps { Keep::Yes } else { Keep::No })
    }

    /// Sends more rows of a portal.
    fn go_on(
        &mut self,
        context: &Context,
        (name, portal): (&str, &mut Portal),
        rows_max: u32,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        let Some(columns) = &portal.columns else { return Err(not_runnable(name)) };
        client.begin_rows(columns, &portal.formats, Announce::No);
        let most = u64::from(rows_max);
        let (sent, ended) = match &mut portal.state {
            State::Open(fetching) => self.send_fetched(context, fetching, most, client)?,
            State::Ran(rest, _) => {
                let mut sent = 0;
                while let Some(rest) = rest
                    && (most == 0 || sent < most)
                {
                    let Some(row) = rest.rows.row(rest.next, &mut rest.cursor, context)? else {
                        break;
                    };
                    rest.next += 1;
                    sent += 1;
                    if client.row((&row[..]).into(), &*self.context)? == Room::Full {
                        self.settle(context)?;
                        client.flush()?;
                    }
                }
                (sent, most == 0 || sent < most)
            }
            State::New | State::Cursor(_) | State::Failed => return Err(not_runnable(name)),
        };
        match (&portal.state, &portal.cached.statement) {
            _ if !ended => client.suspended(),
            (_, Some(Statement::Query(_))) => client.complete(&format!("SELECT {sent}")),
            // It says how many rows there were altogether.
            (State::Ran(_, tag), _) => client.complete(tag),
            _ => return Err(not_runnable(name)),
        }
        Ok(())
    }

    /// Close of a statement; one that is not there is no error.
    pub fn close_statement(&mut self, name: &str) {
        self.prepared.remove(name);
    }

    /// Close of a portal; one that is not there is no error.
    pub fn close_portal(&mut self, name: &str) {
        self.portals.remove(name);
    }

    /// Sync: ends the implicit transaction (commits it unless something failed).
    pub fn sync(&mut self, context: &Context, client: &mut dyn Client) -> SqlResult<()> {
        let result = self.end_implicit(context);
        self.report_settings(client);
        result
    }

    /// A message of the extended protocol failed outside the session: as if a statement had.
    pub fn fail(&mut self, context: &Context) {
        self.failed(context);
    }

    /// PREPARE.
    pub(super) fn prepare_statement(
        &mut self,
        context: &Context,
        name: &str,
        statement: &Statement,
        types: Vec<TypeOid>,
    ) -> SqlResult<()> {
        if self.prepared.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        let statement = context.on_thread_stack(|| statement.clone());
        let cached = Rc::new(CachedStatement::prepared(Some(statement), false, types));
        if cached.is_planned() {
            self.plan(context, &cached)?;
        }
        self.prepared.insert(name.to_owned(), cached);
        Ok(())
    }

    /// The statement that EXECUTE names.
    pub(super) fn prepared_named(&self, name: &str) -> SqlResult<Rc<CachedStatement>> {
        self.statement_named(name)
    }
}

/// Does a portal stay after it ran?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Yes,
    No,
}

pub(super) fn not_runnable(portal: &str) -> SqlError {
    SqlError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("portal \"{portal}\" cannot be run"),
    )
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}
