//! Counting what operators do, for EXPLAIN ANALYZE.
//!
//! Invariants: only executions that are watched pay for it; an operator is known by the address of
//! its plan, which stays where it is while the plan lives.

use super::{BoxedOperator, Cx, Operator};
use crate::error::SqlResult;
use crate::plan::node::Plan;
use atoll_kernel::api::Parker;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// What one operator has done.
#[derive(Default)]
pub struct Counts {
    /// How often it began.
    pub loops: Cell<u64>,
    /// Rows given, in all.
    pub rows: Cell<u64>,
    /// Until the first row of the first time.
    pub first_ns: Cell<u64>,
    /// In all, with its inputs.
    pub total_ns: Cell<u64>,
    /// It went to temporary files.
    pub on_disk: Cell<bool>,
    /// Rows that a scan by an index looked at in the table.
    pub heap_fetches: Cell<u64>,
}

/// The counts of all operators of an execution.
#[derive(Default)]
pub struct Watch {
    counts: RefCell<HashMap<usize, Rc<Counts>>>,
}

/// By what an operator is known.
fn key(plan: &Plan) -> usize {
    match plan {
        Plan::Table(scan) => std::ptr::from_ref(&**scan).addr(),
        other => std::ptr::from_ref(other).addr(),
    }
}

impl Watch {
    /// An operator's counts.
    pub fn of(&self, plan: &Plan) -> Rc<Counts> {
        self.at(key(plan))
    }

    /// The counts of what is at an address.
    pub fn at(&self, address: usize) -> Rc<Counts> {
        self.counts.borrow_mut().entry(address).or_default().clone()
    }
}

/// An operator that is watched.
pub(super) struct Watched<'p> {
    inner: BoxedOperator<'p>,
    counts: Rc<Counts>,
    fresh: bool,
}

impl<'p> Watched<'p> {
    pub(super) fn new(inner: BoxedOperator<'p>, counts: Rc<Counts>) -> Watched<'p> {
        Watched { inner, counts, fresh: true }
    }
}

fn add(cell: &Cell<u64>, value: u64) {
    cell.set(cell.get() + value);
}

impl Operator for Watched<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let counts = &self.counts;
        if std::mem::take(&mut self.fresh) {
            add(&counts.loops, 1);
        }
        let outside = std::mem::take(&mut cx.on_disk);
        let fetches_outside = std::mem::take(&mut cx.heap_fetches);
        let began = cx.statement.context().now_ns();
        let result = self.inner.next(cx);
        add(&counts.total_ns, cx.statement.context().now_ns().saturating_sub(began));
        counts.on_disk.set(counts.on_disk.get() | cx.on_disk);
        cx.on_disk = outside;
        add(&counts.heap_fetches, cx.heap_fetches);
        cx.heap_fetches = fetches_outside;
        if matches!(result, Ok(true)) {
            if counts.rows.get() == 0 {
                counts.first_ns.set(counts.total_ns.get());
            }
            add(&counts.rows, 1);
        }
        result
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.fresh = true;
        self.inner.restart(cx)
    }

    fn repeat(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.fresh = true;
        self.inner.repeat(cx)
    }
}
