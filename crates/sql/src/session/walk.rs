//! Where a cursor stands among its rows, and how it goes elsewhere.
//!
//! Invariants: rows are numbered from 1; place 0 is before the first, one more than there are is
//! behind the last. A scrolling cursor keeps the rows that it has read, on disk if they are many;
//! one without SCROLL keeps the last one only, and goes forward. Once it is held, it keeps all rows
//! that it may still be asked for, and its query is gone.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::run::Pull;
use crate::exec::spill::{Row, RowStore, StoreCursor};
use crate::functions::FunctionContext;
use crate::parse::statement::{FetchDirection, Scroll};
use crate::types::Datum;
use atoll_kernel::api::Context;

/// What a cursor's rows come from, while one FETCH runs.
pub(super) trait Source {
    /// One more row of the query; none at its end.
    fn read(&mut self) -> SqlResult<Option<Row>>;

    /// Puts a row of the query into the store.
    fn keep(&mut self, rows: &mut RowStore, row: Row) -> SqlResult<()>;

    /// Of the task.
    fn context(&self) -> &Context;

    /// What the text of values asks.
    fn functions(&self) -> &dyn FunctionContext;

    /// Lets others run when the slice is used up; ends the statement when it is cancelled.
    fn breathe(&mut self) -> SqlResult<()>;

    /// Waits until what was read may leave the process (kernel rule 7.6).
    fn settle(&mut self) -> SqlResult<()>;
}

impl Source for Pull<'_, '_, '_> {
    fn read(&mut self) -> SqlResult<Option<Row>> {
        self.row()
    }

    fn keep(&mut self, rows: &mut RowStore, row: Row) -> SqlResult<()> {
        rows.push(row, self.cx)
    }

    fn context(&self) -> &Context {
        self.cx.statement.context()
    }

    fn functions(&self) -> &dyn FunctionContext {
        self.cx.functions
    }

    fn breathe(&mut self) -> SqlResult<()> {
        self.cx.breathe()
    }

    fn settle(&mut self) -> SqlResult<()> {
        self.cx.statement.settle();
        Ok(())
    }
}

/// Takes the rows of a FETCH; MOVE has none, and needs only their number.
pub(super) type Giving<'g> = Option<&'g mut dyn FnMut(&[Datum], &mut dyn Source) -> SqlResult<()>>;

/// What a cursor keeps of its rows.
enum Kept {
    /// All but so many first ones.
    Store(Box<RowStore>, StoreCursor, i64),
    /// The last one read.
    Last(Option<Row>),
}

/// A cursor's place and rows.
pub(super) struct Walk {
    kept: Kept,
    scroll: Scroll,
    /// Rows read of the query.
    read: i64,
    /// The present row.
    position: i64,
    /// How many rows there are, once that is known.
    end: Option<i64>,
}

impl Walk {
    /// Before the first row.
    pub(super) fn new(scroll: Scroll) -> Walk {
        let kept = match scroll {
            Scroll::Yes => Kept::Store(Box::default(), StoreCursor::default(), 0),
            Scroll::Unsaid | Scroll::No => Kept::Last(None),
        };
        Walk { kept, scroll, read: 0, position: 0, end: None }
    }

    /// Does FETCH, or MOVE, which gives no rows; answers how many rows it went to.
    pub(super) fn go(
        &mut self,
        direction: FetchDirection,
        source: &mut dyn Source,
        mut give: Giving<'_>,
    ) -> SqlResult<u64> {
        let (position, is_move) = (self.position, give.is_none());
        let mut count = 0;
        match direction {
            FetchDirection::Forward(0) | FetchDirection::Relative(0) => {
                if !is_move {
                    self.check_again(position)?;
                }
                count += self.give_one(position, source, &mut give)?;
            }
            FetchDirection::Forward(rows) if rows > 0 => {
                let last = position.saturating_add(rows);
                if is_move && self.end.is_some() {
                    return Ok(self.jump(last));
                }
                while self.position < last && !self.is_behind() {
                    count += self.give_one(self.position + 1, source, &mut give)?;
                }
            }
            // MOVE BACKWARD ALL is a way to say: to the start. Any cursor is there once.
            FetchDirection::Forward(rows) if is_move && rows <= -i64::MAX && position == 0 => {}
            FetchDirection::Forward(rows) => {
                self.check_scroll()?;
                let first = position.saturating_add(rows).max(0);
                if is_move {
                    return Ok(self.jump(first));
                }
                while self.position > first {
                    count += self.give_one(self.position - 1, source, &mut give)?;
                }
            }
            FetchDirection::Relative(rows) => {
                let place = position.saturating_add(rows).max(0);
                count += self.give_one(place, source, &mut give)?;
            }
            FetchDirection::Absolute(place) if place >= 0 => {
                self.check_again(place)?;
                count += self.give_one(place, source, &mut give)?;
            }
            FetchDirection::Absolute(place) => {
                // Goes to the end and back.
                if self.scroll == Scroll::No {
                    self.check_scroll()?;
                }
                while self.end.is_none() {
                    self.read_on(source)?;
                }
                let behind = self.end.unwrap_or(0).saturating_add(1);
                count += self.give_one(behind.saturating_add(place).max(0), source, &mut give)?;
            }
        }
        Ok(count)
    }

    /// Goes to a place whose row has been read, or behind the end, which is known; answers how many
    /// rows were on the way, with the one at the place.
    fn jump(&mut self, place: i64) -> u64 {
        let end = self.end.unwrap_or(self.read);
        let place = place.min(end + 1);
        let rows = match place > self.position {
            true => place.min(end) - self.position.min(end),
            false => self.position - place.max(1),
        };
        self.position = place;
        u64::try_from(rows).unwrap_or(0)
    }

    /// Reads the query to its end, and keeps what may still be asked for: afterwards the walk needs
    /// no query.
    pub(super) fn hold(&mut self, pull: &mut Pull<'_, '_, '_>) -> SqlResult<()> {
        if let Kept::Last(_) = self.kept {
            self.kept = Kept::Store(Box::default(), StoreCursor::default(), self.read);
        }
        while self.end.is_none() {
            self.read_on(pull)?;
        }
        match &mut self.kept {
            Kept::Store(rows, ..) => rows.finish(pull.cx),
            Kept::Last(_) => Ok(()),
        }
    }

    /// The query is gone: memory that only it needed goes back to the server.
    pub(super) fn give_back_unused(&self) {
        if let Kept::Store(rows, ..) = &self.kept {
            rows.give_back_unused();
        }
    }

    fn is_behind(&self) -> bool {
        self.end.is_some_and(|end| self.position > end)
    }

    fn check_scroll(&self) -> SqlResult<()> {
        if self.scroll == Scroll::Yes {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "cursor can only scan forward",
        )
        .hint("Declare it with SCROLL option to enable backward scan."))
    }

    /// With NO SCROLL the present row cannot be fetched again.
    fn check_again(&self, place: i64) -> SqlResult<()> {
        let again = place == self.position && place > 0 && !self.is_behind();
        if again && self.scroll == Scroll::No { self.check_scroll() } else { Ok(()) }
    }

    /// Goes to a row and gives it; answers how many rows that are, 0 or 1.
    fn give_one(
        &mut self,
        place: i64,
        source: &mut dyn Source,
        give: &mut Giving<'_>,
    ) -> SqlResult<u64> {
        if place < self.position {
            self.check_scroll()?;
        }
        while self.read < place && self.end.is_none() {
            self.read_on(source)?;
        }
        if let Some(end) = self.end
            && place > end
        {
            self.position = end + 1;
            return Ok(0);
        }
        if place > 0 && place < self.read && matches!(self.kept, Kept::Last(_)) {
            self.check_scroll()?;
        }
        self.position = place;
        if place == 0 {
            return Ok(0);
        }
        let Some(give) = give else { return Ok(1) };
        source.breathe()?;
        let row = match &mut self.kept {
            Kept::Store(rows, cursor, before) => {
                rows.row((place - *before - 1) as u64, cursor, source.context())?
            }
            // It is the one read last.
            Kept::Last(row) => row.clone(),
        };
        let row = row.ok_or_else(|| SqlError::internal("a cursor has lost a row"))?;
        give(&row, source)?;
        Ok(1)
    }

    /// Reads one more row of the query.
    fn read_on(&mut self, source: &mut dyn Source) -> SqlResult<()> {
        source.breathe()?;
        match source.read()? {
            None => self.end = Some(self.read),
            Some(row) => {
                self.read += 1;
                match &mut self.kept {
                    Kept::Store(rows, ..) => source.keep(rows, row)?,
                    Kept::Last(last) => *last = Some(row),
                }
            }
        }
        Ok(())
    }
}
