//! Grouping, by hashing or by sorting, and aggregates.
//!
//! Invariants: without keys there is exactly one group, also over no rows. Groups that fit into
//! `work_mem` come in the order of their first rows; rows of the groups that do not are sorted by
//! the keys on disk and come after them, one group in memory at a time. With DISTINCT or ORDER BY in
//! an aggregate all rows are sorted by the keys, because such an aggregate keeps rows itself: in
//! a sorter of its own. Strict aggregates never see a NULL argument.

use super::filter::KEY_BYTES;
use super::program::{Program, Slot};
use super::spill::{Reservation, Row, SortKey, Sorted, Sorter, order};
use super::{BoxedOperator, Cx, KeyMap, Operator, hash_key};
use crate::error::SqlResult;
use crate::functions::Strictness;
use crate::functions::aggregate::Accumulator;
use crate::plan::node::{AggregatePlan, GroupMethod};
use crate::types::{Datum, TypeOid};
use std::cmp::Ordering;

type Key = (Program, TypeOid, Slot);

/// The state of one aggregate in one group.
struct State {
    accumulator: Box<dyn Accumulator>,
    /// For DISTINCT and ORDER BY: the arguments, in order at the end.
    ordered: Option<Sorter>,
}

struct Group {
    keys: Vec<Datum>,
    states: Vec<State>,
    /// What its states were counted as.
    heap_bytes: usize,
}

/// Grouping at work.
pub(super) struct Grouping<'p> {
    input: BoxedOperator<'p>,
    keys: &'p [Key],
    aggregates: &'p [AggregatePlan],
    /// The input's slots, which rows put aside need.
    slots: &'p [Slot],
    method: GroupMethod,
    by: Box<[SortKey]>,
    stage: Stage,
    reserved: Reservation,
}

enum Stage {
    Begin,
    /// Groups of memory, then the rest.
    Groups(std::vec::IntoIter<Group>, Option<Sorter>),
    /// The rest, by key; the first row of the next group.
    Sorted(Sorted, Option<Row>),
}

impl<'p> Grouping<'p> {
    pub(super) fn new(
        input: BoxedOperator<'p>,
        (keys, aggregates): (&'p [Key], &'p [AggregatePlan]),
        slots: &'p [Slot],
        method: GroupMethod,
    ) -> Grouping<'p> {
        let by = keys.iter().map(|(_, ty, _)| SortKey::ascending(*ty)).collect();
        let (stage, reserved) = (Stage::Begin, Reservation::default());
        Grouping { input, keys, aggregates, slots, method, by, stage, reserved }
    }

    fn new_group(&self, keys: Vec<Datum>) -> Group {
        let state = |plan: &AggregatePlan| State {
            accumulator: (plan.function)(&plan.types),
            ordered: plan.keeps_rows().then(|| Sorter::new(order_of(plan), None)),
        };
        Group { keys, states: self.aggregates.iter().map(state).collect(), heap_bytes: 0 }
    }

    fn group_bytes(&self) -> usize {
        KEY_BYTES + 64 + (self.keys.len() + 4 * self.aggregates.len()) * size_of::<Datum>()
    }

    fn fill(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Stage> {
        let mut groups: Vec<Group> = Vec::new();
        let mut numbers: KeyMap<usize> = KeyMap::default();
        let mut rest: Option<Sorter> = None;
        let sorts = self.method == GroupMethod::Sort;
        if self.keys.is_empty() {
            groups.push(self.new_group(Vec::new()));
        }
        let mut bytes = Vec::new();
        while self.input.next(cx)? {
            cx.breathe()?;
            let mut number = 0;
            if !self.keys.is_empty() {
                bytes.clear();
                let mut values = Vec::with_capacity(self.keys.len());
                for (program, ty, _) in self.keys {
                    let value = program.eval(cx)?;
                    hash_key(&value, *ty, &mut bytes);
                    values.push(value);
                }
                number = match numbers.get(&bytes) {
                    Some(number) => *number,
                    None if sorts || self.reserved.is_over() => {
                        let rest = rest.get_or_insert_with(|| Sorter::new(self.by.clone(), None));
                        values.extend(self.slots.iter().map(|s| cx.frame[*s as usize].clone()));
                        rest.add(values.into(), cx)?;
                        continue;
                    }
                    None => {
                        self.reserved.grow(cx.memory(), bytes.len() + self.group_bytes())?;
                        groups.push(self.new_group(values));
                        numbers.insert(bytes.clone(), groups.len() - 1);
                        groups.len() - 1
                    }
                };
            }
            let group = &mut groups[number];
            add_row(self.aggregates, &mut group.states, cx)?;
            let heap = group.states.iter().map(|state| state.accumulator.heap_bytes()).sum();
            if heap > group.heap_bytes {
                self.reserved.grow(cx.memory(), heap - group.heap_bytes)?;
                group.heap_bytes = heap;
            }
        }
        cx.note_disk(rest.is_some() && !sorts);
        Ok(Stage::Groups(groups.into_iter(), rest))
    }

    /// Leaves a group's row in the frame.
    fn give(&self, mut group: Group, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        for ((_, _, slot), value) in self.keys.iter().zip(group.keys) {
            cx.frame[*slot as usize] = value;
        }
        for (plan, state) in self.aggregates.iter().zip(&mut group.states) {
            let value = finish(plan, state, cx)?;
            cx.frame[plan.slot as usize] = value;
        }
        Ok(())
    }

    /// The next group of sorted rows.
    fn next_sorted(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Option<Group>> {
        let Stage::Sorted(_, first) = &mut self.stage else { return Ok(None) };
        let Some(first) = first.take() else { return Ok(None) };
        let width = self.by.len();
        let mut group = self.new_group(first[..width].to_vec());
        let mut next = Some(first);
        while let Some(row) = next {
            cx.breathe()?;
            if order(&self.by, &row[..width], &group.keys) != Ordering::Equal {
                self.stage_first(row);
                break;
            }
            cx.put(self.slots, row, width);
            add_row(self.aggregates, &mut group.states, cx)?;
            let Stage::Sorted(rows, _) = &mut self.stage else { break };
            next = rows.next(cx)?;
        }
        Ok(Some(group))
    }

    fn stage_first(&mut self, row: Row) {
        if let Stage::Sorted(_, first) = &mut self.stage {
            *first = Some(row);
        }
    }
}

/// How an aggregate's rows are sorted: by its ORDER BY, or for DISTINCT alone by the arguments, as
/// PostgreSQL does; equal arguments stand together in any case.
fn order_of(plan: &AggregatePlan) -> Box<[SortKey]> {
    let keys = plan.order_by.iter().map(|(_, ty, descending, nulls_first)| SortKey {
        ty: *ty,
        descending: *descending,
        nulls_first: *nulls_first,
    });
    let arguments = plan.types.iter().filter(|_| plan.distinct);
    keys.chain(arguments.map(|ty| SortKey::ascending(*ty))).collect()
}

/// Adds the row in the frame to a group.
fn add_row(
    aggregates: &[AggregatePlan],
    states: &mut [State],
    cx: &mut Cx<'_, '_>,
) -> SqlResult<()> {
    for (plan, state) in aggregates.iter().zip(states) {
        add(plan, state, cx)?;
    }
    Ok(())
}

fn add(plan: &AggregatePlan, state: &mut State, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
    if let Some(filter) = &plan.filter
        && !filter.test(cx)?
    {
        return Ok(());
    }
    let mut arguments = std::mem::take(&mut cx.output);
    arguments.clear();
    for program in &plan.arguments {
        let value = program.eval(cx)?;
        arguments.push(value);
    }
    let skip = plan.strictness == Strictness::Strict && arguments.iter().any(Datum::is_null);
    let result = if skip { Ok(()) } else { add_values(plan, state, &arguments, cx) };
    cx.output = arguments;
    result
}

fn add_values(
    plan: &AggregatePlan,
    state: &mut State,
    arguments: &[Datum],
    cx: &mut Cx<'_, '_>,
) -> SqlResult<()> {
    let Some(sorter) = &mut state.ordered else {
        return state.accumulator.add(arguments, cx.functions);
    };
    let mut row = Vec::with_capacity(plan.order_by.len() + arguments.len());
    for (program, ..) in &plan.order_by {
        row.push(program.eval(cx)?);
    }
    row.extend_from_slice(arguments);
    sorter.add(row.into(), cx)
}

/// The aggregate's value; rows that were held back are added in their order, and for DISTINCT
/// once each.
fn finish(plan: &AggregatePlan, state: &mut State, cx: &mut Cx<'_, '_>) -> SqlResult<Datum> {
    let Some(sorter) = state.ordered.take() else {
        return state.accumulator.finish(cx.functions);
    };
    let mut sorted = sorter.finish(cx)?;
    cx.note_disk(sorted.is_on_disk());
    let (mut last, mut key) = (None::<Vec<u8>>, Vec::new());
    while let Some(row) = sorted.next(cx)? {
        cx.breathe()?;
        let arguments = &row[plan.order_by.len()..];
        if plan.distinct {
            key.clear();
            arguments
                .iter()
                .zip(&plan.types)
                .for_each(|(value, ty)| hash_key(value, *ty, &mut key));
            if last.as_ref() == Some(&key) {
                continue;
            }
            last = Some(key.clone());
        }
        state.accumulator.add(arguments, cx.functions)?;
    }
    state.accumulator.finish(cx.functions)
}

impl Operator for Grouping<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if matches!(self.stage, Stage::Begin) {
            self.stage = self.fill(cx)?;
        }
        if let Stage::Groups(groups, rest) = &mut self.stage {
            if let Some(group) = groups.next() {
                self.give(group, cx)?;
                return Ok(true);
            }
            self.reserved.clear();
            let Some(rest) = rest.take() else { return Ok(false) };
            let mut rows = rest.finish(cx)?;
            cx.note_disk(rows.is_on_disk());
            let first = rows.next(cx)?;
            self.stage = Stage::Sorted(rows, first);
        }
        match self.next_sorted(cx)? {
            Some(group) => {
                self.give(group, cx)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.stage = Stage::Begin;
        self.reserved.clear();
        self.input.restart(cx)
    }
}
