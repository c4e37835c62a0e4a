//! The executor: pull-based operators over one frame of slots.
//!
//! Invariants: [`Operator::next`] leaves a row in the frame's slots that the plan says it writes,
//! or answers that there is none; it may wait (the kernel's calls do) and holds no latch. Every
//! loop that may run long calls [`Cx::breathe`]. An execution that ended with an error is not
//! gone on with.

mod aggregate;
mod compare;
mod copy_row;
pub mod fast;
mod filter;
mod hash_join;
mod keys;
mod limit;
mod lock;
mod loop_join;
pub mod modify;
pub mod program;
pub mod run;
mod scan;
mod set_operation;
mod sets;
mod sort;
mod subplan;
mod virtual_scan;

pub use compare::{compare, compare_nulls_last, hash_key};
pub use copy_row::{Encoder, decode_row};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::FunctionContext;
use crate::plan::Planned;
use crate::plan::node::Plan;
use crate::relations::CatalogView;
use crate::types::Datum;
use atoll_kernel::api::{Context, KeyBytes, Parker, RowBuffer, Statement};
use std::rc::Rc;

/// An operator at work.
pub trait Operator {
    /// The next row, into the frame; false at the end.
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool>;

    /// Begins again; what it reads of outer rows may have changed.
    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()>;
}

/// An operator of a plan.
pub type BoxedOperator<'p> = Box<dyn Operator + 'p>;

/// Rows kept in memory.
pub type Rows = Rc<Vec<Box<[Datum]>>>;

/// A subquery's state in one execution.
#[derive(Default)]
pub struct SubplanState<'p> {
    operator: Option<BoxedOperator<'p>>,
    value: Option<Datum>,
    rows: Option<Rows>,
    table: Option<subplan::Table>,
}

/// Memory that executions use one after the other.
#[derive(Default)]
pub struct Scratch {
    frame: Vec<Datum>,
    stack: Vec<Datum>,
    row: RowBuffer,
    key: KeyBytes,
    bytes: Vec<u8>,
    encoder: Encoder,
    output: Vec<Datum>,
}

/// One execution of a plan.
pub struct Cx<'e, 't> {
    /// The plan.
    pub planned: &'e Planned,
    /// The slots.
    pub frame: Vec<Datum>,
    /// The stack of programs.
    pub stack: Vec<Datum>,
    /// The parameters' values.
    pub parameters: &'e [Datum],
    /// What functions ask.
    pub functions: &'e dyn FunctionContext,
    /// What virtual relations are computed from.
    pub view: &'e CatalogView,
    /// The kernel's command.
    pub statement: &'e mut Statement<'t>,
    /// Row, key and encoding buffers.
    pub row: RowBuffer,
    key: KeyBytes,
    bytes: Vec<u8>,
    encoder: Encoder,
    output: Vec<Datum>,
    subplans: Vec<SubplanState<'e>>,
    ctes: Vec<Option<Rows>>,
    ticks: u32,
}

impl<'e, 't> Cx<'e, 't> {
    /// Begins an execution with the scratch memory, which [`Cx::end`] gives back.
    pub fn begin(
        planned: &'e Planned,
        parameters: &'e [Datum],
        functions: &'e dyn FunctionContext,
        view: &'e CatalogView,
        statement: &'e mut Statement<'t>,
        scratch: &mut Scratch,
    ) -> Cx<'e, 't> {
        let scratch = std::mem::take(scratch);
        let mut frame = scratch.frame;
        frame.clear();
        frame.resize(planned.frame, Datum::Null);
        let mut subplans = Vec::new();
        subplans.resize_with(planned.subplans.len(), SubplanState::default);
        Cx {
            planned,
            frame,
            stack: scratch.stack,
            parameters,
            functions,
            view,
            statement,
            row: scratch.row,
            key: scratch.key,
            bytes: scratch.bytes,
            encoder: scratch.encoder,
            output: scratch.output,
            subplans,
            ctes: vec![None; planned.ctes.len()],
            ticks: 0,
        }
    }

    /// Ends the execution and keeps its memory.
    pub fn end(mut self, scratch: &mut Scratch) {
        self.stack.clear();
        self.output.clear();
        *scratch = Scratch {
            frame: std::mem::take(&mut self.frame),
            stack: std::mem::take(&mut self.stack),
            row: std::mem::take(&mut self.row),
            key: std::mem::take(&mut self.key),
            bytes: std::mem::take(&mut self.bytes),
            encoder: std::mem::take(&mut self.encoder),
            output: std::mem::take(&mut self.output),
        };
    }

    /// Lets others run when the slice is used up; ends the statement when it is cancelled.
    #[inline]
    pub fn breathe(&mut self) -> SqlResult<()> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(16) { self.breathe_now() } else { Ok(()) }
    }

    fn breathe_now(&mut self) -> SqlResult<()> {
        let context: &Context = self.statement.context();
        if context.should_yield() {
            self.statement.session().check(context)?;
            context.yield_now();
        }
        Ok(())
    }

    /// Refuses to go deeper when the stack is nearly used up (54001).
    pub fn check_stack(&self) -> SqlResult<()> {
        if self.statement.context().stack_left_bytes() < STACK_LEFT_MIN {
            return Err(SqlError::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                "stack depth limit exceeded",
            ));
        }
        Ok(())
    }

    /// Saves slots.
    fn save(&self, slots: &[program::Slot]) -> Box<[Datum]> {
        slots.iter().map(|slot| self.frame[*slot as usize].clone()).collect()
    }

    /// Puts saved slots back.
    fn restore(&mut self, slots: &[program::Slot], values: &[Datum]) {
        for (slot, value) in slots.iter().zip(values) {
            self.frame[*slot as usize] = value.clone();
        }
    }

    /// Makes slots NULL.
    fn clear(&mut self, slots: &[program::Slot]) {
        slots.iter().for_each(|slot| self.frame[*slot as usize] = Datum::Null);
    }
}

/// Stack that must be left below an operator: a row operation and a wait fit well.
const STACK_LEFT_MIN: usize = 24 * 1024;

/// The operator of a plan.
pub fn open(plan: &Plan) -> BoxedOperator<'_> {
    match plan {
        Plan::One => Box::new(filter::One::new()),
        Plan::Nothing => Box::new(filter::Nothing),
        Plan::Table(scan) => Box::new(scan::Scan::new(scan)),
        Plan::Virtual { relation, columns, key, filter, .. } => Box::new(
            virtual_scan::VirtualScan::new(*relation, columns, key.as_ref(), filter.as_ref()),
        ),
        Plan::Values { rows, slots } => Box::new(filter::Values::new(rows, slots)),
        Plan::Function { call, slots, ordinality, .. } => {
            Box::new(sets::Function::new(call, slots, *ordinality))
        }
        Plan::Cte { index, slots } => Box::new(subplan::CteScan::new(*index as usize, slots)),
        Plan::Filter(input, condition) => Box::new(filter::Filter::new(open(input), condition)),
        Plan::Project(input, outputs) => Box::new(filter::Project::new(open(input), outputs)),
        Plan::ProjectSet(input, outputs) => Box::new(sets::ProjectSet::new(open(input), outputs)),
        Plan::Loop { kind, outer, inner, condition, inner_slots } => Box::new(
            loop_join::Loop::new(*kind, open(outer), open(inner), condition.as_ref(), inner_slots),
        ),
        Plan::Hash { kind, outer, inner, keys, condition, outer_slots, inner_slots } => {
            let (outer, inner) = ((open(outer), &outer_slots[..]), (open(inner), &inner_slots[..]));
            Box::new(hash_join::HashJoin::new(*kind, outer, inner, keys, condition.as_ref()))
        }
        Plan::Keep(input, slots) => Box::new(filter::Keep::new(open(input), slots)),
        Plan::Aggregate { input, keys, aggregates } => {
            Box::new(aggregate::Grouping::new(open(input), keys, aggregates))
        }
        Plan::Sort { input, keys, slots, limit } => {
            Box::new(sort::Sort::new(open(input), keys, slots, limit.as_ref()))
        }
        Plan::Distinct(input, keys) => Box::new(filter::Distinct::new(open(input), keys)),
        Plan::First(input, keys) => Box::new(filter::First::new(open(input), keys)),
        Plan::SetOperation { operation, sides, from, slots, types } => {
            Box::new(set_operation::SetOp::new(*operation, sides, from, slots, types))
        }
        Plan::Limit(input, limit, offset) => {
            Box::new(limit::Limit::new(open(input), limit.as_ref(), offset.as_ref()))
        }
        Plan::Lock { input, targets, recheck } => {
            Box::new(lock::Lock::new(open(input), targets, recheck.as_ref()))
        }
    }
}
