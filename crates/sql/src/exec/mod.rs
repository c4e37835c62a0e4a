//! The executor: pull-based operators over one frame of slots.
//!
//! Invariants: [`Operator::next`] leaves a row in the frame's slots that the plan says it writes,
//! or answers that there is none; it may wait (the kernel's calls do) and holds no latch. Every
//! loop that may run long calls [`Cx::breathe`]. An execution that ended with an error is not
//! gone on with.

mod aggregate;
mod compare;
mod conflict;
mod copy_row;
pub mod fast;
mod filter;
pub mod gather;
mod join;
mod keys;
mod limit;
mod lock;
pub mod modify;
pub mod program;
pub mod run;
mod scan;
mod set_operation;
mod sets;
mod sort;
pub mod spill;
mod subplan;
mod virtual_scan;
pub mod watch;
mod with;

pub use compare::{KeyMap, KeySet, compare, compare_nulls_last, hash_key};
pub use copy_row::{Encoder, decode_row};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::FunctionContext;
use crate::plan::Planned;
use crate::plan::node::{JoinMethod, Plan};
use crate::relations::CatalogView;
use crate::types::Datum;
use atoll_kernel::api::{Context, KeyBytes, Parker, RowBuffer, Statement};
use std::cell::RefCell;
use std::rc::Rc;

/// An operator at work.
pub trait Operator {
    /// The next row, into the frame; false at the end.
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool>;

    /// Begins again; what it reads of outer rows may have changed.
    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()>;

    /// Begins again for the next row of the loop whose inner side this is. Only what keeps rows that
    /// do not depend on that row need tell it from [`Operator::restart`].
    fn repeat(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.restart(cx)
    }
}

/// An operator of a plan.
pub type BoxedOperator<'p> = Box<dyn Operator + 'p>;

/// Rows kept for several readers.
pub type Rows = Rc<RefCell<spill::RowStore>>;

/// A common table expression's state in one execution.
#[derive(Default)]
pub struct CteState<'p> {
    rows: Rows,
    operator: Option<BoxedOperator<'p>>,
    /// All rows are there.
    is_complete: bool,
}

/// A subquery's state in one execution.
#[derive(Default)]
pub struct SubplanState<'p> {
    operator: Option<BoxedOperator<'p>>,
    value: Option<Datum>,
    rows: Option<Rows>,
    table: Option<subplan::Table>,
}

/// What a session lets its executions do.
#[derive(Default)]
pub struct Allowed {
    /// What executions may take; without it, as much as they like.
    pub memory: Option<Rc<spill::MemorySettings>>,
    /// Who wants to know what the next execution's operators do.
    pub watch: Option<Rc<watch::Watch>>,
}

/// Scratch memory that nobody uses. The sessions of an instance share it: an idle one keeps none, and
/// what was used last is still in the processor's caches.
#[derive(Default)]
pub struct ScratchPool(RefCell<Vec<Scratch>>);

/// How many a pool keeps, and how long their parts may be.
const SCRATCHES_MAX: usize = 16;
const SCRATCH_BYTES_MAX: usize = 64 * 1024;
const SCRATCH_VALUES_MAX: usize = 1024;

impl ScratchPool {
    /// Memory for an execution that is allowed what `allowed` says, until it is given back.
    pub fn lend(&self, allowed: &mut Allowed) -> Scratch {
        let mut scratch = self.0.borrow_mut().pop().unwrap_or_default();
        (scratch.memory, scratch.watch) = (allowed.memory.take(), allowed.watch.take());
        scratch
    }

    /// Takes it back after the execution's end.
    pub fn give_back(&self, mut scratch: Scratch, allowed: &mut Allowed) {
        (allowed.memory, allowed.watch) = (scratch.memory.take(), scratch.watch.take());
        let mut kept = self.0.borrow_mut();
        if kept.len() < SCRATCHES_MAX && scratch.is_small() {
            kept.push(scratch);
        }
    }
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
    /// What executions may take; without it, as much as they like.
    pub memory: Option<Rc<spill::MemorySettings>>,
    /// Who wants to know what the next execution's operators do.
    pub watch: Option<Rc<watch::Watch>>,
}

impl Scratch {
    fn is_small(&self) -> bool {
        let values = self.frame.capacity().max(self.stack.capacity()).max(self.output.capacity());
        let bytes = self.bytes.capacity().max(self.encoder.capacity());
        values <= SCRATCH_VALUES_MAX && bytes <= SCRATCH_BYTES_MAX
    }
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
    pub parameters: &'t [Datum],
    /// What functions ask.
    pub functions: &'t dyn FunctionContext,
    /// What virtual relations are computed from.
    pub view: &'t CatalogView,
    /// The kernel's command.
    pub statement: &'t mut Statement<'t>,
    /// Row, key and encoding buffers.
    pub row: RowBuffer,
    key: KeyBytes,
    bytes: Vec<u8>,
    encoder: Encoder,
    output: Vec<Datum>,
    subplans: Vec<SubplanState<'e>>,
    ctes: Vec<CteState<'e>>,
    /// The working tables of recursions; none while one does not run.
    working: Vec<Option<Rows>>,
    settings: Option<Rc<spill::MemorySettings>>,
    memory: Option<Rc<spill::Memory>>,
    /// Has the operator that was asked last gone to disk? For EXPLAIN ANALYZE.
    on_disk: bool,
    /// Rows that scans by an index looked at in the table.
    heap_fetches: u64,
    /// Who wants to know what operators do.
    pub watch: Option<Rc<watch::Watch>>,
    ticks: u32,
}

impl<'e, 't> Cx<'e, 't> {
    /// Begins an execution with the scratch memory, which [`Cx::end`] gives back.
    pub fn begin(
        planned: &'e Planned,
        parameters: &'t [Datum],
        functions: &'t dyn FunctionContext,
        view: &'t CatalogView,
        statement: &'t mut Statement<'t>,
        scratch: &mut Scratch,
    ) -> Cx<'e, 't> {
        let frame = std::mem::take(&mut scratch.frame);
        let state = Suspended::with_frame(planned, frame);
        Cx::resume(planned, parameters, (functions, view), statement, scratch, state)
    }

    /// Goes on with an execution.
    pub fn resume(
        planned: &'e Planned,
        parameters: &'t [Datum],
        (functions, view): (&'t dyn FunctionContext, &'t CatalogView),
        statement: &'t mut Statement<'t>,
        scratch: &mut Scratch,
        state: Suspended<'e>,
    ) -> Cx<'e, 't> {
        let scratch = std::mem::take(scratch);
        Cx {
            planned,
            frame: state.frame,
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
            subplans: state.subplans,
            ctes: state.ctes,
            working: state.working,
            settings: scratch.memory,
            memory: state.memory,
            on_disk: false,
            heap_fetches: 0,
            watch: scratch.watch,
            ticks: 0,
        }
    }

    /// Stops between two rows: what the execution has goes into its state, what only works for it
    /// back to the scratch memory.
    pub fn suspend(mut self, scratch: &mut Scratch) -> Suspended<'e> {
        let frame = std::mem::take(&mut self.frame);
        let (subplans, ctes) = (std::mem::take(&mut self.subplans), std::mem::take(&mut self.ctes));
        let working = std::mem::take(&mut self.working);
        let memory = self.memory.take();
        self.end(scratch);
        Suspended { frame, subplans, ctes, working, memory }
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
            memory: self.settings.take(),
            watch: None,
        };
    }

    /// The execution's memory account.
    pub fn memory(&mut self) -> &Rc<spill::Memory> {
        let settings = &self.settings;
        self.memory.get_or_insert_with(|| match settings {
            Some(settings) => spill::Memory::new(settings),
            None => spill::Memory::new(&Rc::new(spill::MemorySettings::unlimited())),
        })
    }

    /// Notes whether an operator has gone to disk.
    fn note_disk(&mut self, is_on_disk: bool) {
        self.on_disk |= is_on_disk;
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
        check_stack(self.statement.context())
    }

    /// For opening an operator within this execution.
    pub fn opening(&self) -> Opening<'_> {
        Opening { context: self.statement.context(), watch: self.watch.as_ref() }
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

    /// Puts a saved row back that nobody needs any more; `skipped` of its values come before those of the slots.
    fn put(&mut self, slots: &[program::Slot], row: Box<[Datum]>, skipped: usize) {
        for (slot, value) in slots.iter().zip(row.into_iter().skip(skipped)) {
            self.frame[*slot as usize] = value;
        }
    }

    /// Makes slots NULL.
    fn clear(&mut self, slots: &[program::Slot]) {
        slots.iter().for_each(|slot| self.frame[*slot as usize] = Datum::Null);
    }
}

/// An execution between two fetches, on the heap (kernel rule 2.2). Its operators are kept beside
/// it.
pub struct Suspended<'e> {
    frame: Vec<Datum>,
    subplans: Vec<SubplanState<'e>>,
    ctes: Vec<CteState<'e>>,
    working: Vec<Option<Rows>>,
    memory: Option<Rc<spill::Memory>>,
}

impl<'e> Suspended<'e> {
    /// An execution that has not begun.
    pub fn new(planned: &'e Planned) -> Suspended<'e> {
        Suspended::with_frame(planned, Vec::new())
    }

    fn with_frame(planned: &'e Planned, mut frame: Vec<Datum>) -> Suspended<'e> {
        frame.clear();
        frame.resize(planned.frame, Datum::Null);
        let mut subplans = Vec::new();
        subplans.resize_with(planned.subplans.len(), SubplanState::default);
        let mut ctes = Vec::new();
        ctes.resize_with(planned.ctes.len(), CteState::default);
        Suspended { frame, subplans, ctes, working: vec![None; planned.working], memory: None }
    }
}

/// Stack that must be left below an operator: a row operation and a wait fit well.
const STACK_LEFT_MIN: usize = 24 * 1024;

fn check_stack(context: &Context) -> SqlResult<()> {
    match context.stack_left_bytes() < STACK_LEFT_MIN {
        true => Err(too_deep()),
        false => Ok(()),
    }
}

/// What is said of a statement that would need more stack than there is.
pub(crate) fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
}

/// What opening takes.
#[derive(Clone, Copy)]
pub struct Opening<'o> {
    /// The task that does it.
    pub context: &'o Context,
    /// Who wants to know what the operators do.
    pub watch: Option<&'o Rc<watch::Watch>>,
}

/// The operator of a plan, watched if somebody wants to know what it does.
/// `STATEMENT_TOO_COMPLEX` if it is too deep for the stack: a join of hundreds of tables.
pub fn open<'p>(plan: &'p Plan, opening: Opening<'_>) -> SqlResult<BoxedOperator<'p>> {
    check_stack(opening.context)?;
    let operator = open_plain(plan, opening)?;
    Ok(match opening.watch {
        Some(watch) => Box::new(watch::Watched::new(operator, watch.of(plan))),
        None => operator,
    })
}

fn open_plain<'p>(plan: &'p Plan, opening: Opening<'_>) -> SqlResult<BoxedOperator<'p>> {
    let open = |plan: &'p Plan| open(plan, opening);
    Ok(match plan {
        Plan::One => Box::new(filter::One::new()),
        Plan::Nothing => Box::new(filter::Nothing),
        Plan::Table(scan) => Box::new(scan::Scan::new(scan)),
        Plan::Virtual { relation, columns, key, filter, .. } => Box::new(
            virtual_scan::VirtualScan::new(*relation, columns, key.as_ref(), filter.as_ref()),
        ),
        Plan::Sequence { sequence, columns, filter, .. } => {
            Box::new(virtual_scan::SequenceScan::new(sequence, columns, filter.as_ref()))
        }
        Plan::Values { rows, slots } => Box::new(filter::Values::new(rows, slots)),
        Plan::Function { call, slots, ordinality, .. } => {
            Box::new(sets::Function::new(call, slots, *ordinality))
        }
        Plan::Cte { index, slots } => Box::new(with::CteScan::new(*index as usize, slots)),
        Plan::Recursive { index, sides, from, slots, distinct } => {
            let inputs = (open(&sides.0)?, open(&sides.1)?);
            Box::new(with::Recursive::new(*index as usize, inputs, from, slots, distinct))
        }
        Plan::Working { index, slots, .. } => {
            Box::new(with::WorkingScan::new(*index as usize, slots))
        }
        Plan::Filter(input, condition) => Box::new(filter::Filter::new(open(input)?, condition)),
        Plan::Project(input, outputs) => Box::new(filter::Project::new(open(input)?, outputs)),
        Plan::ProjectSet(input, outputs) => Box::new(sets::ProjectSet::new(open(input)?, outputs)),
        Plan::Loop { .. } | Plan::Hash { .. } => open_join(plan, opening)?,
        Plan::Keep { input, slots, rows } => {
            Box::new(filter::Keep::new(open(input)?, slots, *rows))
        }
        Plan::Aggregate { input, keys, aggregates, slots, method } => {
            let outputs = (&keys[..], &aggregates[..]);
            Box::new(aggregate::Grouping::new(open(input)?, outputs, slots, *method))
        }
        Plan::Sort { input, keys, slots, limit, repeated } => {
            Box::new(sort::Sort::new(open(input)?, keys, slots, (limit.as_ref(), *repeated)))
        }
        Plan::Distinct(input, keys) => Box::new(filter::Distinct::new(open(input)?, keys)),
        Plan::First(input, keys) => Box::new(filter::First::new(open(input)?, keys)),
        Plan::SetOperation { operation, sides, from, slots, types } => {
            let inputs = (open(&sides.0)?, open(&sides.1)?);
            match operation {
                None => Box::new(set_operation::Append::new(inputs, from, slots)),
                Some(operation) => {
                    Box::new(set_operation::Compare::new(*operation, inputs, from, slots, types))
                }
            }
        }
        Plan::Limit(input, limit, offset) => {
            Box::new(limit::Limit::new(open(input)?, limit.as_ref(), offset.as_ref()))
        }
        Plan::Lock { input, targets, recheck } => {
            Box::new(lock::Lock::new(open(input)?, targets, recheck.as_ref()))
        }
    })
}

fn open_join<'p>(plan: &'p Plan, opening: Opening<'_>) -> SqlResult<BoxedOperator<'p>> {
    let open = |plan: &'p Plan| open(plan, opening);
    Ok(match plan {
        Plan::Loop { kind, outer, inner, condition, inner_slots } => Box::new(join::Loop::new(
            *kind,
            open(outer)?,
            open(inner)?,
            condition.as_ref(),
            inner_slots,
        )),
        Plan::Hash {
            kind,
            outer,
            inner,
            keys,
            condition,
            outer_slots,
            inner_slots,
            method,
            inner_rows,
        } => {
            let plan = join::JoinPlan { kind: *kind, keys, condition: condition.as_ref() };
            let outer = join::Input { operator: open(outer)?, slots: outer_slots };
            let inner = join::Input { operator: open(inner)?, slots: inner_slots };
            match method {
                JoinMethod::Hash => Box::new(join::HashJoin::new(plan, outer, inner, *inner_rows)),
                JoinMethod::Merge => Box::new(join::MergeJoin::new(plan, outer, inner)),
            }
        }
        other => open(other)?,
    })
}
