//! Queries read a part at a time: portals with row limits, and cursors.
//!
//! Invariants: between two fetches a query's state is on the heap, without a stack (kernel rule
//! 2.2): its operators, its slots, and the snapshot of the command that opened it, so that it sees
//! what was there then, whatever its transaction does since. It goes with its transaction. A
//! scrolling cursor keeps the rows that it has read, on disk if they are many; one without SCROLL
//! keeps the last one only and goes forward.

use super::Session;
use super::cache::{CachedStatement, PlanEntry};
use super::client::{Client, ColumnDescription, Format, Room};
use super::execute::{ATTEMPTS_MAX, Done, Sending, lock_tables};
use super::extended::{Portal, State};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::run::{self, Pull};
use crate::exec::spill::{Row, RowStore, StoreCursor};
use crate::exec::{BoxedOperator, Cx, Suspended};
use crate::parse::ast::Query;
use crate::parse::statement::{FetchDirection, Statement, Utility};
use crate::relations::CatalogView;
use crate::types::Datum;
use atoll_kernel::api::{Context, Snapshot};
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
            let Some(transaction) = &mut self.transaction else { break };
            let mut statement = transaction.statement(&mut self.kernel, context)?;
            if !lock_tables(&mut statement, &entry.planned)? || !entry.is_for(statement.catalog()) {
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
        let Fetching { running, snapshot, view, parameters } = fetching;
        let (kernel, scratch) = (&mut self.kernel, &mut self.scratch);
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
                    None => run::open_query(planned)?,
                };
                let state = execution.state.take().unwrap_or_else(|| Suspended::new(planned));
                let asked = (&*functions as &dyn crate::functions::FunctionContext, &*view);
                let mut cx = Cx::resume(planned, parameters, asked, &mut statement, scratch, state);
                let result = take(&mut Pull::new(planned, &mut operator, &mut cx));
                execution.state = Some(cx.suspend(scratch));
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
                if client.row(&row, pull.cx.functions)? == Room::Full {
                    pull.cx.statement.settle();
                    client.flush()?;
                }
            }
            Ok(())
        })?;
        Ok((sent, ended))
    }

    /// DECLARE CURSOR.
    pub(super) fn declare_cursor(
        &mut self,
        context: &Context,
        name: &str,
        (scroll, format): (bool, Format),
        query: &Query,
    ) -> SqlResult<()> {
        if self.phase != super::Phase::Block {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if self.portals.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{name}\" already exists"),
            ));
        }
        if scroll && query.for_update.is_some() {
            return Err(SqlError::not_supported("DECLARE SCROLL CURSOR .. FOR UPDATE"));
        }
        if query.with.changes_rows() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "DECLARE CURSOR must not contain data-modifying statements in WITH",
            ));
        }
        let statement = Statement::Query(Box::new(query.clone()));
        let cached = Rc::new(CachedStatement::closed(statement, false, Vec::new()));
        let fetching = self.open_fetching(context, &cached, Vec::new())?;
        let columns = fetching.running.borrow_owner().planned.columns.clone();
        let cursor = Cursor { fetching, kept: Kept::new(scroll), read: 0, position: 0, end: None };
        let state = State::Cursor(Box::new(cursor));
        let formats = vec![format];
        let birth = self.birth();
        let portal = Portal { cached, parameters: Vec::new(), formats, columns, state, birth };
        self.portals.insert(name.to_owned(), portal);
        Ok(())
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
        if let (Some(columns), false) = (&portal.columns, is_move) {
            let formats =
                if sending.formats.is_empty() { &portal.formats } else { sending.formats };
            client.begin_rows(columns, formats, sending.announce);
        }
        let State::Cursor(cursor) = &mut portal.state else {
            self.portals.insert(key, portal);
            return Err(SqlError::not_supported("FETCH from a portal of the protocol"));
        };
        let Cursor { fetching, kept, read, position, end } = &mut **cursor;
        let mut walk = Walk { kept, read, position, end };
        let mut count = 0;
        self.fetch_with(context, fetching, &mut |pull| {
            walk.go(*direction, pull, &mut |row, pull| {
                count += 1;
                if *is_move {
                    return Ok(());
                }
                if client.row(row, pull.cx.functions)? == Room::Full {
                    pull.cx.statement.settle();
                    client.flush()?;
                }
                Ok(())
            })
        })?;
        self.portals.insert(key, portal);
        let word = if *is_move { "MOVE" } else { "FETCH" };
        Ok(Done { tag: format!("{word} {count}"), rest: Vec::new() })
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

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

/// A cursor between two fetches.
pub(super) struct Cursor {
    fetching: Fetching,
    kept: Kept,
    /// Rows read of the query.
    read: i64,
    /// The present row: 0 is before the first; one more than there are is behind the last.
    position: i64,
    /// How many rows there are, once that is known.
    end: Option<i64>,
}

/// What a cursor keeps of the rows that it has read.
enum Kept {
    /// All.
    All(Box<RowStore>, StoreCursor),
    /// The last one.
    Last(Option<Row>),
}

impl Kept {
    fn new(scroll: bool) -> Kept {
        match scroll {
            true => Kept::All(Box::default(), StoreCursor::default()),
            false => Kept::Last(None),
        }
    }
}

/// One FETCH at work.
struct Walk<'c> {
    kept: &'c mut Kept,
    read: &'c mut i64,
    position: &'c mut i64,
    end: &'c mut Option<i64>,
}

/// Takes one row of a FETCH.
type Giving<'g> = &'g mut dyn FnMut(&[Datum], &mut Pull<'_, '_, '_>) -> SqlResult<()>;

impl Walk<'_> {
    fn go(
        &mut self,
        direction: FetchDirection,
        pull: &mut Pull<'_, '_, '_>,
        give: Giving<'_>,
    ) -> SqlResult<()> {
        let position = *self.position;
        match direction {
            FetchDirection::Forward(0) | FetchDirection::Relative(0) => {
                self.give_one(position, pull, give)
            }
            FetchDirection::Forward(count) if count > 0 => {
                let last = position.saturating_add(count);
                while *self.position < last {
                    self.give_one(*self.position + 1, pull, give)?;
                    if self.is_behind() {
                        break;
                    }
                }
                Ok(())
            }
            FetchDirection::Forward(count) => {
                self.check_scroll()?;
                let first = position.saturating_add(count).max(0);
                while *self.position > first {
                    self.give_one(*self.position - 1, pull, give)?;
                }
                Ok(())
            }
            FetchDirection::Relative(count) => {
                self.give_one(position.saturating_add(count).max(0), pull, give)
            }
            FetchDirection::Absolute(place) if place >= 0 => self.give_one(place, pull, give),
            FetchDirection::Absolute(place) => {
                while self.end.is_none() {
                    self.read_on(pull)?;
                }
                let end = self.end.unwrap_or(0);
                self.give_one(end.saturating_add(1).saturating_add(place).max(0), pull, give)
            }
        }
    }

    fn is_behind(&self) -> bool {
        self.end.is_some_and(|end| *self.position > end)
    }

    fn check_scroll(&self) -> SqlResult<()> {
        match self.kept {
            Kept::All(..) => Ok(()),
            Kept::Last(_) => Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cursor can only scan forward",
            )
            .hint("Declare it with SCROLL option to enable backward scan.")),
        }
    }

    /// Goes to a row and gives it, if there is one.
    fn give_one(
        &mut self,
        place: i64,
        pull: &mut Pull<'_, '_, '_>,
        give: Giving<'_>,
    ) -> SqlResult<()> {
        if place < *self.position {
            self.check_scroll()?;
        }
        while *self.read < place && self.end.is_none() {
            self.read_on(pull)?;
        }
        if let Some(end) = *self.end
            && place > end
        {
            *self.position = end + 1;
            return Ok(());
        }
        if place < *self.read {
            self.check_scroll()?;
        }
        *self.position = place;
        if place == 0 {
            return Ok(());
        }
        let row: Option<Row> = match self.kept {
            Kept::All(rows, cursor) => {
                rows.with(place as u64 - 1, cursor, pull.cx, |row, _| row.into())?
            }
            // The last one read: going forward has made sure of that. Behind the end of all rows
            // there is none any more to be fetched again.
            Kept::Last(row) => row.clone(),
        };
        match row {
            Some(row) => give(&row, pull),
            None => Ok(()),
        }
    }

    /// Reads one more row of the query.
    fn read_on(&mut self, pull: &mut Pull<'_, '_, '_>) -> SqlResult<()> {
        match pull.row()? {
            None => *self.end = Some(*self.read),
            Some(row) => {
                *self.read += 1;
                match self.kept {
                    Kept::All(rows, _) => rows.push(row, pull.cx)?,
                    Kept::Last(last) => *last = Some(row),
                }
            }
        }
        Ok(())
    }
}
