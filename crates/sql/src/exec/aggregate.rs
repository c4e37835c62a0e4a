//! Grouping by hashing, and aggregates.
//!
//! Invariants: without keys there is exactly one group, also over no rows; with keys groups come
//! in the order of their first rows. Strict aggregates never see a NULL argument.

use super::compare::compare;
use super::program::{Program, Slot};
use super::{BoxedOperator, Cx, Operator, hash_key};
use crate::error::SqlResult;
use crate::functions::Strictness;
use crate::functions::aggregate::Accumulator;
use crate::plan::node::AggregatePlan;
use crate::types::{Datum, TypeOid};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

type Key = (Program, TypeOid, Slot);

/// The state of one aggregate in one group.
struct State {
    accumulator: Box<dyn Accumulator>,
    /// For DISTINCT: the arguments seen.
    seen: HashSet<Vec<u8>>,
    /// For ORDER BY: keys and arguments, sorted at the end.
    ordered: Vec<(Vec<Datum>, Vec<Datum>)>,
}

struct Group {
    keys: Vec<Datum>,
    states: Vec<State>,
}

/// Grouping at work.
pub(super) struct Grouping<'p> {
    input: BoxedOperator<'p>,
    keys: &'p [Key],
    aggregates: &'p [AggregatePlan],
    groups: Option<std::vec::IntoIter<Group>>,
}

impl<'p> Grouping<'p> {
    pub(super) fn new(
        input: BoxedOperator<'p>,
        keys: &'p [Key],
        aggregates: &'p [AggregatePlan],
    ) -> Grouping<'p> {
        Grouping { input, keys, aggregates, groups: None }
    }

    fn new_group(&self, keys: Vec<Datum>) -> Group {
        let state = |plan: &AggregatePlan| State {
            accumulator: (plan.function)(&plan.types),
            seen: HashSet::new(),
            ordered: Vec::new(),
        };
        Group { keys, states: self.aggregates.iter().map(state).collect() }
    }

    fn fill(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Vec<Group>> {
        let mut groups: Vec<Group> = Vec::new();
        let mut numbers: HashMap<Vec<u8>, usize> = HashMap::new();
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
                    None => {
                        groups.push(self.new_group(values));
                        numbers.insert(bytes.clone(), groups.len() - 1);
                        groups.len() - 1
                    }
                };
            }
            for (plan, state) in self.aggregates.iter().zip(&mut groups[number].states) {
                add(plan, state, cx)?;
            }
        }
        Ok(groups)
    }
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
    if plan.distinct {
        let mut key = Vec::new();
        for (value, ty) in arguments.iter().zip(&plan.types) {
            hash_key(value, *ty, &mut key);
        }
        if !state.seen.insert(key) {
            return Ok(());
        }
    }
    if plan.order_by.is_empty() && !plan.distinct {
        return state.accumulator.add(arguments, cx.functions);
    }
    let mut keys = Vec::with_capacity(plan.order_by.len());
    for (program, ..) in &plan.order_by {
        keys.push(program.eval(cx)?);
    }
    state.ordered.push((keys, arguments.to_vec()));
    Ok(())
}

/// Adds the rows that were held back, in their order; DISTINCT alone sorts by the arguments, as
/// PostgreSQL does.
fn finish(plan: &AggregatePlan, state: &mut State, cx: &mut Cx<'_, '_>) -> SqlResult<Datum> {
    let mut ordered = std::mem::take(&mut state.ordered);
    ordered.sort_by(|(a_keys, a_args), (b_keys, b_args)| {
        let keys = plan.order_by.iter().zip(a_keys.iter().zip(b_keys));
        let by_keys = keys
            .map(|((_, ty, descending, nulls_first), (a, b))| {
                place(a, b, *ty, *descending, *nulls_first)
            })
            .find(|order| *order != Ordering::Equal);
        by_keys.unwrap_or_else(|| {
            if !plan.order_by.is_empty() {
                return Ordering::Equal;
            }
            let arguments = plan.types.iter().zip(a_args.iter().zip(b_args));
            let by_arguments = arguments.map(|(ty, (a, b))| place(a, b, *ty, false, false));
            by_arguments.fold(Ordering::Equal, Ordering::then)
        })
    });
    for (_, arguments) in &ordered {
        cx.breathe()?;
        state.accumulator.add(arguments, cx.functions)?;
    }
    state.accumulator.finish(cx.functions)
}

fn place(a: &Datum, b: &Datum, ty: TypeOid, descending: bool, nulls_first: bool) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => {
            if nulls_first {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (false, true) => {
            if nulls_first {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (false, false) if descending => compare(b, a, ty),
        (false, false) => compare(a, b, ty),
    }
}

impl Operator for Grouping<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if self.groups.is_none() {
            let groups = self.fill(cx)?;
            self.groups = Some(groups.into_iter());
        }
        let Some(mut group) = self.groups.as_mut().and_then(Iterator::next) else {
            return Ok(false);
        };
        for ((_, _, slot), value) in self.keys.iter().zip(group.keys) {
            cx.frame[*slot as usize] = value;
        }
        for (plan, state) in self.aggregates.iter().zip(&mut group.states) {
            let value = finish(plan, state, cx)?;
            cx.frame[plan.slot as usize] = value;
        }
        Ok(true)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.groups = None;
        self.input.restart(cx)
    }
}
