//! Cursors WITH HOLD: what stays of them when their transaction commits, and pg_cursors.
//!
//! Invariants: before the kernel commits, the queries of the transaction's holdable cursors are
//! read to their end, by the snapshots they were opened with; their rows are kept in memory up to
//! `work_mem` each, then on disk. If that fails, or the commit does, the transaction is rolled back
//! and none of them stays (PostgreSQL keeps those that it had read before the one that failed). A
//! cursor that is held has no snapshot, locks, or transaction; its birth is [`HELD`], before every
//! savepoint, so no rollback reaches it. It goes by CLOSE, DISCARD ALL, or with its session.

use super::Session;
use super::context::SessionContext;
use super::cursor::Cursor;
use super::extended::{Portal, State};
use super::walk::Source;
use crate::error::{SqlError, SqlResult};
use crate::exec::spill::{Row, RowStore};
use crate::functions::{CursorDescription, FunctionContext};
use crate::parse::statement::{CursorSpan, Scroll};
use atoll_kernel::api::{Context, Parker};
use std::rc::Rc;

/// The birth of portals that outlive transactions.
pub(super) const HELD: u64 = 0;

/// Cursors that become held if their transaction commits, with their names.
pub(super) type ToHold = Vec<(String, Portal)>;

impl Session {
    /// Ends the transaction's portals; those that are held stay.
    pub(super) fn end_portals(&mut self) {
        self.portals.retain(|portal| portal.birth == HELD);
    }

    /// Reads the transaction's holdable cursors to their end, for [`Session::keep_held`] after the
    /// commit. On an error all of them are gone. Waits for what their queries wait for; as in
    /// PostgreSQL the commit has no time limit, but can be cancelled.
    pub(super) fn hold_cursors(&mut self, context: &Context) -> SqlResult<ToHold> {
        let holdable = |portal: &Portal| {
            let said = portal.declared.as_ref().is_some_and(|it| it.span == CursorSpan::Session);
            said && portal.birth != HELD && matches!(portal.state, State::Cursor(_))
        };
        if !self.portals.named().any(|(_, portal)| holdable(portal)) {
            return Ok(ToHold::new());
        }
        self.kernel.deadline_ns = None;
        let mut held: ToHold = self.portals.extract_named(holdable);
        held.sort_by_key(|(_, portal)| portal.birth);
        for (_, portal) in &mut held {
            if let State::Cursor(cursor) = &mut portal.state {
                self.hold(context, cursor)?;
            }
            portal.birth = HELD;
        }
        Ok(held)
    }

    fn hold(&mut self, context: &Context, cursor: &mut Cursor) -> SqlResult<()> {
        let Cursor { fetching, walk } = cursor;
        if let Some(mut query) = fetching.take() {
            self.fetch_with(context, &mut query, &mut |pull| walk.hold(pull))?;
        }
        walk.give_back_unused();
        Ok(())
    }

    /// The transaction has committed: its holdable cursors stay.
    pub(super) fn keep_held(&mut self, held: ToHold) {
        held.into_iter().for_each(|(name, portal)| self.portals.insert(name, portal));
    }

    /// What a held cursor is walked with.
    pub(super) fn held_source<'s>(&'s mut self, context: &'s Context) -> HeldSource<'s> {
        let functions = self.context.clone();
        *functions.view.borrow_mut() = self.view();
        HeldSource { session: self, context, functions, ticks: 0 }
    }

    /// Lets the next statement see the session's cursors in pg_cursors.
    pub(super) fn show_cursors(&self) {
        let shown = self.portals.named().filter_map(|(name, portal)| {
            let declared = portal.declared.as_ref()?;
            Some(CursorDescription {
                name: name.clone(),
                text: declared.text.clone(),
                is_holdable: declared.span == CursorSpan::Session,
                is_binary: declared.binary,
                is_scrollable: declared.scroll == Scroll::Yes,
                created: declared.created,
            })
        });
        *self.context.cursors.borrow_mut() = shown.collect();
    }
}

/// A held cursor has all its rows: nothing is read, and they were there before a commit that is
/// told to the client, or about to be.
pub(super) struct HeldSource<'s> {
    session: &'s mut Session,
    context: &'s Context,
    functions: Rc<SessionContext>,
    ticks: u32,
}

impl Source for HeldSource<'_> {
    fn read(&mut self) -> SqlResult<Option<Row>> {
        Ok(None)
    }

    fn keep(&mut self, _: &mut RowStore, _: Row) -> SqlResult<()> {
        Err(SqlError::internal("a held cursor reads no rows"))
    }

    fn context(&self) -> &Context {
        self.context
    }

    fn functions(&self) -> &dyn FunctionContext {
        &*self.functions
    }

    fn breathe(&mut self) -> SqlResult<()> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(16) && self.context.should_yield() {
            self.session.kernel.check(self.context)?;
            self.context.yield_now();
        }
        Ok(())
    }

    fn settle(&mut self) -> SqlResult<()> {
        self.session.settle(self.context)
    }
}
