//! Queries read a part at a time: portals with row limits, and cursors.
//!
//! Invariants: between two fetches a query's state is on the heap, without a stack (kernel rule
//! 2.2): its operators, its slots, and the snapshot of the command that opened it, so that it sees
//! what was there then, whatever its transaction does since. It goes with its transaction. Of a
//! cursor WITH HOLD the rows stay, read by that snapshot before its transaction commits (`held`).
//! A cursor in which a fetch failed cannot be fetched from any more.

use super::Session;
use super::cache::{CachedStatement, PlanEntry};
use super::client::{Announce, Client, ColumnDescription, Format, Room};
use super::execute::{ATTEMPTS_MAX, Done, Sending, may_run};
use super::extended::{Portal, State, not_runnable};
use super::walk::{Giving, Source, Walk};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::run::{self, Pull};
use crate::exec::spill::{Memory, RowStore};
use crate::exec::{BoxedOperator, Cx, Opening, Suspended};
use crate::functions::FunctionContext;
use crate::parse::statement::{CursorSpan, DeclareCursor, FetchDirection, Scroll, Utility};
use crate::relations::CatalogView;
use crate::types::Datum;
use atoll_kernel::api::{Context, Snapshot};
use smol_str::format_smolstr;
use std::rc::Rc;
use std::sync::Arc;

/// An execution and its operators.
struct Execution<'p> {
    operator: Option<BoxedOperator<'p>>,
    state: Option<Suspended<'p>>,
}

self_cell::self_cell!(
    struct Running {
        owner: Rc<PlanEntry>,
        #[not_covariant]
        dependent: Execution,
    }
);

/// A query that is read a part at a time.
pub(super) struct Fetching {
    running: Running,
    snapshot: Snapshot,
    view: CatalogView,
    parameters: Vec<Datum>,
}

/// What takes the rows of one fetch.
pub(super) type Taking<'f> = &'f mut dyn FnMut(&mut Pull<'_, '_, '_>) -> SqlResult<()>;

impl Session {
    /// Plans a query and opens it with a snapshot of its own.
    pub(super) fn open_fetching(
        &mut self,
        context: &Context,
        cached: &CachedStatement,
        parameters: Vec<Datum>,
    ) -> SqlResult<Fetching> {
        self.ensure_transaction(context)?;
        self.queried = true;
        for _ in 0..ATTEMPTS_MAX {
            let entry = self.plan(context, cached)?;
            self.note_affinity(&entry.planned, &parameters);
            let Some(transaction) = &mut self.transaction else { break };
            let mut statement = transaction.statement(&mut self.kernel, context)?;
            if !may_run(&mut statement, &entry, &mut self.indexes_before)? {
                continue;
            }
            drop(statement);
            let snapshot = transaction.hold_snapshot()?;
            let view = self.view();
            let running = Running::new(entry, |_| Execution { operator: None, state: None });
            return Ok(Fetching { running, snapshot, view, parameters });
        }
        Err(SqlError::internal("the catalog changes faster than statements are planned"))
    }

    /// Lets `take` pull rows of the query.
    pub(super) fn fetch_with(
        &mut self,
        context: &Context,
        fetching: &mut Fetching,
        take: Taking<'_>,
    ) -> SqlResult<()> {
        let functions = self.context.clone();
        *functions.view.borrow_mut() = fetching.view.clone();
        if fetching.running.borrow_owner().planned.uses_virtual {
            self.show_cursors();
        }
        let Fetching { running, snapshot, view, parameters } = fetching;
        let (kernel, pool, allowed) = (&mut self.kernel, &self.local.scratch, &mut self.allowed);
        let Some(transaction) = &mut self.transaction else {
            return Err(SqlError::internal("a portal without a transaction"));
        };
        transaction.exchange_snapshot(snapshot)?;
        let result = match transaction.resume(kernel, context) {
            Err(error) => Err(error.into()),
            Ok(mut statement) => running.with_dependent_mut(|entry, execution| {
                let planned = &entry.planned;
                let mut operator = match execution.operator.take() {
                    Some(operator) => operator,
                    None => run::open_query(planned, Opening { context, watch: None })?,
                };
                let state = execution.state.take().unwrap_or_else(|| Suspended::new(planned));
                let asked = (&*functions as &dyn crate::functions::FunctionContext, &*view);
                let mut scratch = pool.lend(allowed);
                let lent = &mut scratch;
                let mut cx = Cx::resume(planned, parameters, asked, &mut statement, lent, state);
                let result = take(&mut Pull::new(planned, &mut operator, &mut cx));
                execution.state = Some(cx.suspend(&mut scratch));
                pool.give_back(scratch, allowed);
                execution.operator = Some(operator);
                result
            }),
        };
        // Later commands see by their own snapshots again.
        let back = transaction.exchange_snapshot(snapshot);
        result.and(back.map_err(SqlError::from))
    }

    /// Sends up to `rows_max` rows (0 is all) of a portal's query; true if that ended it.
    pub(super) fn send_fetched(
        &mut self,
        context: &Context,
        fetching: &mut Fetching,
        rows_max: u64,
        client: &mut dyn Client,
    ) -> SqlResult<(u64, bool)> {
        let (mut sent, mut ended) = (0, false);
        self.fetch_with(context, fetching, &mut |pull| {
            while rows_max == 0 || sent < rows_max {
                let Some(row) = pull.row()? else {
                    ended = true;
                    break;
                };
                sent += 1;
                if client.row((&row[..]).into(), pull.cx.functions)? == Room::Full {
                    pull.cx.statement.settle();
                    client.flush()?;
                }
            }
            Ok(())
        })?;
        Ok((sent, ended))
    }

    /// DECLARE CURSOR, of a query with parameters. `several`: it is one of several statements of a
    /// simple query, which are a transaction block for cursors.
    pub(super) fn declare_cursor(
        &mut self,
        context: &Context,
        declare: &DeclareCursor,
        (cached, parameters): (&Rc<CachedStatement>, &[Datum]),
        several: bool,
    ) -> SqlResult<Done> {
        check_query(declare)?;
        if declare.span == CursorSpan::Transaction {
            self.require_block("DECLARE CURSOR", several)?;
        }
        if self.portals.contains_key(&declare.name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{}\" already exists", declare.name),
            ));
        }
        let fetching = self.open_fetching(context, cached, parameters.to_vec())?;
        let columns = fetching.running.borrow_owner().planned.columns.clone();
        // What is held is kept anyway: it goes back for nothing.
        let scroll = match (declare.scroll, declare.span) {
            (Scroll::Unsaid, CursorSpan::Session) => Scroll::Yes,
            (scroll, _) => scroll,
        };
        let cursor = Cursor { fetching: Some(fetching), walk: Walk::new(scroll) };
        let declared = Declared {
            text: declare.text.clone(),
            span: declare.span,
            binary: declare.binary,
            scroll,
            created: self.context.statement_timestamp(),
        };
        let portal = Portal {
            cached: cached.clone(),
            parameters: Vec::new(),
            formats: vec![if declare.binary { Format::Binary } else { Format::Text }],
            columns,
            state: State::Cursor(Box::new(cursor)),
            birth: self.birth(),
            declared: Some(Box::new(declared)),
        };
        self.portals.insert(declare.name.clone(), portal);
        Done::all("DECLARE CURSOR")
    }

    /// FETCH and MOVE. Answers the tag.
    pub(super) fn fetch(
        &mut self,
        context: &Context,
        statement: &Utility,
        sending: Sending<'_>,
        client: &mut dyn Client,
    ) -> SqlResult<Done> {
        let Utility::Fetch { name, direction, is_move } = statement else {
            return Err(SqlError::internal("a FETCH of something else"));
        };
        self.check_not_failed()?;
        let (key, mut portal) = self.portals.remove_entry(name).ok_or_else(|| no_cursor(name))?;
        let result = match &mut portal.state {
            State::Cursor(cursor) => {
                if let (Some(columns), false) = (&portal.columns, is_move) {
                    // A statement of the extended protocol has formats of its own.
                    let formats = match sending.announce {
                        Announce::Yes => &portal.formats,
                        Announce::No => sending.formats,
                    };
                    client.begin_rows(columns, formats, sending.announce);
                }
                let to_send = (!is_move).then_some(sending.rows_max);
                let walked = self.walk(context, cursor, *direction, to_send, client);
                walked.inspect_err(|_| portal.state = State::Failed)
            }
            State::Failed => Err(not_runnable(name)),
            _ => Err(SqlError::not_supported("FETCH from a portal of the protocol")),
        };
        self.portals.insert(key, portal);
        let (count, sent, rest) = result?;
        let word = if *is_move { "MOVE" } else { "FETCH" };
        Ok(Done::limited(format_smolstr!("{word} {count}"), sending.rows_max, sent, rest))
    }

    /// Lets a cursor go, and sends up to `to_send` (0 is all) of the rows that it goes to, none for
    /// MOVE. Answers how many rows there are, how many are sent, and the others.
    fn walk(
        &mut self,
        context: &Context,
        cursor: &mut Cursor,
        direction: FetchDirection,
        to_send: Option<u64>,
        client: &mut dyn Client,
    ) -> SqlResult<(u64, u64, Option<Box<RowStore>>)> {
        let (most, mut sent) = (to_send.unwrap_or(0), 0);
        let mut rest: Option<Box<RowStore>> = None;
        // What is not sent now outlives the cursor: it has an account of its own.
        let memory = match most {
            0 => None,
            _ => self.allowed.memory.as_ref().map(Memory::new),
        };
        let mut send = |row: &[Datum], source: &mut dyn Source| {
            if let (Some(memory), true) = (&memory, sent >= most) {
                return rest.get_or_insert_default().push_in(row.into(), memory, context);
            }
            sent += 1;
            if client.row(row.into(), source.functions())? == Room::Full {
                source.settle()?;
                client.flush()?;
            }
            Ok(())
        };
        let mut give: Giving<'_> = if to_send.is_none() { None } else { Some(&mut send) };
        let Cursor { fetching, walk } = cursor;
        let mut count = 0;
        match fetching {
            Some(fetching) => self.fetch_with(context, fetching, &mut |pull| {
                count = walk.go(direction, pull, give.take())?;
                Ok(())
            })?,
            None => count = walk.go(direction, &mut self.held_source(context), give)?,
        }
        Ok((count, sent, rest))
    }

    /// CLOSE; `None` for ALL. Answers the tag.
    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> SqlResult<&'static str> {
        match name {
            Some(name) => {
                self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
                Ok("CLOSE CURSOR")
            }
            None => {
                self.portals.clear();
                Ok("CLOSE CURSOR ALL")
            }
        }
    }

    /// The columns that FETCH from a cursor returns.
    pub(super) fn cursor_columns(&self, name: &str) -> Option<Arc<[ColumnDescription]>> {
        self.portals.get(name)?.columns.clone()
    }
}

/// What DECLARE's words ask of its query. 0A000.
fn check_query(declare: &DeclareCursor) -> SqlResult<()> {
    let refused = |what: &str| SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what);
    if declare.query.with.changes_rows() {
        return Err(refused("DECLARE CURSOR must not contain data-modifying statements in WITH"));
    }
    if declare.query.for_update.is_none() {
        return Ok(());
    }
    if declare.span == CursorSpan::Session {
        return Err(refused("DECLARE CURSOR WITH HOLD ... FOR UPDATE is not supported")
            .detail("Holdable cursors must be READ ONLY."));
    }
    if declare.scroll == Scroll::Yes {
        return Err(refused("DECLARE SCROLL CURSOR ... FOR UPDATE is not supported")
            .detail("Scrollable cursors must be READ ONLY."));
    }
    Ok(())
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

/// A cursor between two fetches.
pub(super) struct Cursor {
    /// Its query; none once its rows are held.
    pub fetching: Option<Fetching>,
    /// Its place, and the rows it keeps.
    pub walk: Walk,
}

/// What DECLARE said, and when: for pg_cursors.
pub(super) struct Declared {
    /// The whole text.
    pub text: Arc<str>,
    /// WITH HOLD?
    pub span: CursorSpan,
    /// BINARY?
    pub binary: bool,
    /// Yes, if it can go back.
    pub scroll: Scroll,
    /// Microseconds since 2000-01-01.
    pub created: i64,
}
