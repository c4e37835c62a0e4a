//! Savepoints, and statements that are undone alone (rule 6.7).
//!
//! Invariants: a savepoint is a position in everything that a transaction has done: its undo and
//! redo, its definitions, its table locks. Rolling back to one restores rows, index entries, row
//! locks, definitions and table locks as they were there, wakes who waited for what is given back,
//! and cannot fail; what was observed meanwhile stays observed (rule 7.4). Definitions and rows are
//! undone in the reverse of the order in which they were done, so that each row goes back under the
//! definition under which it was changed. A savepoint goes with any earlier one that is released
//! or rolled back to; one that was rolled back to stays.
//!
//! Rows that were changed after the last definition, in most transactions all, go back in portions, between
//! which others run; so do they while pages are read. The transaction is *active* all the time, and each row
//! is free from when it is back. Nothing of the transaction is used meanwhile: its task has begun to undo
//! it, and goes on until it has.

use std::cell::Cell;

use super::catalog_changes::{CatalogChanges, CatalogPosition, Side};
use super::core::{Context, CoreInner};
use super::environment::KernelEnvironment;
use super::session::{Session, Transaction, ended};
use super::statement::Statement;
use crate::base::{Error, Result};
use crate::runtime::{Critical, Parker};
use crate::sync::mutant;
use crate::txn::TxnHandle;
use crate::txn::rows::{GivenBack, Mark, Waits};
use crate::version::Tables;

/// Names a savepoint of one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(u64);

/// How far a transaction has come.
pub(super) struct Position {
    changes: Mark,
    catalog: CatalogPosition,
    locks: usize,
}

impl Position {
    /// Where a transaction begins.
    pub fn start() -> Position {
        Position { changes: Mark::START, catalog: CatalogPosition::default(), locks: 0 }
    }

    /// Where the transaction is now.
    pub fn now(handle: &TxnHandle<KernelEnvironment>, catalog: &CatalogChanges) -> Position {
        Position {
            changes: handle.changes().mark(),
            catalog: catalog.position(),
            locks: handle.locks_taken(),
        }
    }
}

/// The savepoints of a transaction, the oldest first.
#[derive(Default)]
pub(super) struct Savepoints {
    stack: Vec<(Savepoint, Position)>,
    made: u64,
}

impl Savepoints {
    fn find(&self, savepoint: Savepoint) -> Result<usize> {
        let found = self.stack.iter().position(|(own, _)| *own == savepoint);
        found.ok_or_else(|| Error::NotFound { what: format!("savepoint {}", savepoint.0) })
    }
}

/// How many rows go back, about, before it is asked whether others should run.
const PORTION_ROWS: u16 = 8;
/// Of how many rows pages are read at the same time.
const READ_ROWS: u16 = 32;

/// How long it is waited for the page provider to make frames free, and how often it is looked.
const PATIENCE_NS: u64 = 50_000_000;
const MOMENT_NS: u64 = 1_000_000;

/// Whether the pool has free frames, now or soon. If it has none for long (a full disk), whoever runs beside a
/// rollback takes what it frees: then it does not let anybody run, and comes to its end with the frames
/// that are kept for it.
fn has_frames_soon(core: &CoreInner, context: &Context) -> bool {
    let deadline_ns = context.now_ns() + PATIENCE_NS;
    while !core.shared.pool.has_free_frames() {
        if context.now_ns() >= deadline_ns {
            return false;
        }
        context.park(Some(context.now_ns() + MOMENT_NS));
    }
    true
}

/// Undoes the rows after `to` that were changed after the last definition, or some of them.
fn undo_rows_in_portions(
    core: &CoreInner,
    handle: &mut TxnHandle<KernelEnvironment>,
    catalog: &CatalogChanges,
    to: &Position,
    context: &Context,
) {
    let rows = catalog.rows_at_last_change(&to.catalog).unwrap_or(to.changes);
    let tables = catalog.without_made(&to.catalog, &*core.tables);
    let loads = Cell::new(0);
    let how: (&dyn Tables, _) = (&tables, Waits::Task { parker: context, loads: &loads });
    loop {
        let before = loads.get();
        let has_more = {
            let _critical = Critical::enter("rolling back");
            handle.changes_mut().roll_back_some(rows, how, PORTION_ROWS)
        };
        if !has_more {
            return;
        }
        // Only when others are to run: the question touches every partition.
        let has_loaded = loads.get() > before;
        if (has_loaded || context.should_yield()) && !has_frames_soon(core, context) {
            return;
        }
        if has_loaded {
            // They lie on disk: the next ones are read together.
            let pages = handle.changes().pages_to_undo(rows, &tables, READ_ROWS);
            core.shared.pool.load_together(context, &pages);
        }
        if context.should_yield() && !mutant("rollback-never-yields") {
            context.yield_now();
        }
    }
}

/// Who undoes.
#[derive(Clone, Copy)]
pub(super) enum By<'a> {
    /// A task: others run meanwhile.
    Task(&'a Context),
    /// An instance's turn.
    Turn,
}

/// Undoes rows and definitions after `to`. The table locks stay.
pub(super) fn undo_to(
    core: &CoreInner,
    handle: &mut TxnHandle<KernelEnvironment>,
    catalog: &mut CatalogChanges,
    (to, by): (&Position, By<'_>),
) {
    let has_rows = handle.changes().has_changed_since(to.changes);
    if let By::Task(context) = by {
        undo_rows_in_portions(core, handle, catalog, to, context);
    }
    let _critical = Critical::enter("rolling back to a savepoint");
    let tables: &dyn Tables = &*core.tables;
    let undone = catalog.go_back(&to.catalog);
    undone.forget_made(&core.shared);
    let mut given_back = if has_rows { GivenBack::Rows } else { GivenBack::Nothing };
    let mut undo = |handle: &mut TxnHandle<KernelEnvironment>, to| {
        if handle.changes_mut().roll_back(to, tables) == GivenBack::Rows {
            given_back = GivenBack::Rows;
        }
    };
    undone.restore(&core.shared, |mark| undo(handle, mark));
    undo(handle, to.changes);
    core.txn.discard_chunks(handle);
    if given_back == GivenBack::Rows {
        core.txn.rows_given_back(handle);
    }
    undone.drop_trees(core, Side::New);
}

/// Goes back to `to` in everything.
fn roll_back(
    core: &CoreInner,
    handle: &mut TxnHandle<KernelEnvironment>,
    catalog: &mut CatalogChanges,
    (to, context): (&Position, &Context),
) {
    undo_to(core, handle, catalog, (to, By::Task(context)));
    // After the definitions, so that the next holder finds them as they were.
    if !mutant("savepoint-keeps-table-locks") {
        core.txn.release_locks_since(handle, to.locks);
    }
}

impl Transaction {
    /// Remembers how far the transaction has come.
    pub fn savepoint(&mut self) -> Result<Savepoint> {
        let handle = self.handle.as_ref().ok_or_else(ended)?;
        self.savepoints.made += 1;
        let savepoint = Savepoint(self.savepoints.made);
        let position = Position::now(handle, &self.catalog);
        self.savepoints.stack.push((savepoint, position));
        self.savepoints_changed();
        Ok(savepoint)
    }

    /// Forgets a savepoint and all later ones; what was done since stays. `NotFound`.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        let at = self.savepoints.find(savepoint)?;
        self.savepoints.stack.truncate(at);
        self.savepoints_changed();
        Ok(())
    }

    /// Undoes everything since the savepoint, which stays; later ones go. Cannot fail but with
    /// `NotFound`, and then nothing was undone. Others run meanwhile if there is much of it. Cursors and
    /// catalog references of statements since then must not be used any more.
    pub fn roll_back_to(&mut self, savepoint: Savepoint, context: &Context) -> Result<()> {
        let at = self.savepoints.find(savepoint)?;
        let handle = self.handle.as_mut().ok_or_else(ended)?;
        self.savepoints.stack.truncate(at + 1);
        let to = &self.savepoints.stack[at].1;
        roll_back(&self.core, handle, &mut self.catalog, (to, context));
        self.savepoints_changed();
        Ok(())
    }

    fn savepoints_changed(&mut self) {
        let newest = self.savepoints.stack.last().map(|(_, position)| &position.catalog);
        self.catalog.set_savepoint(newest);
    }
}

impl Statement<'_> {
    /// Undoes all that this statement (since it began or was resumed) has done to rows and
    /// definitions, so that the transaction goes on as if it had not run; its table locks stay.
    pub fn roll_back(self) {
        undo_to(self.core, self.handle, self.changes, (&self.started, By::Task(self.context)));
    }

    /// As [`Statement::roll_back`], to do it all again with a new snapshot where the isolation has
    /// one per statement (rule 6.4).
    pub fn start_again(&mut self) {
        undo_to(self.core, self.handle, self.changes, (&self.started, By::Task(self.context)));
        self.core.txn.refresh_snapshot(self.handle);
        self.catalog = self.changes.own().unwrap_or_else(|| Session::catalog(self.session));
        self.observe_catalog();
    }
}
