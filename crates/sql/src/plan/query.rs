//! Plans of queries: SELECT's clauses in their order, VALUES, set operations.
//!
//! Invariants: an output that is a plain column of the query's own takes no step; sorting comes
//! after projection, locking after sorting, LIMIT last.

use super::join::{Set, flatten, relations_of};
use super::node::{
    Access, AggregatePlan, GroupMethod, LockTarget, Order, Plan, Repeated, ScanColumns, SortBy,
};
use super::{Planner, push};
use crate::bind::bound::{
    Aggregate, Body, Bound, BoundKind, BoundSet, ColumnRef, From, Grouping, Query, ROW_ID, Select,
};
use crate::error::SqlResult;
use crate::exec::program::Slot;
use crate::exec::too_deep;
use crate::parse::ast::{JoinKind, SetOperation};
use crate::types::TypeOid;
use atoll_kernel::api::Direction;

/// Queries one within the other: as deep as a text may nest. The thread's stack has room for
/// more.
const NESTED_MAX: u32 = 600;

impl<'q> Planner<'_> {
    /// Plans a query; gives the slots of all its outputs.
    pub(super) fn query(&mut self, query: &'q Query) -> SqlResult<(Plan, Vec<Slot>)> {
        self.query_where(query, Vec::new())
    }

    /// Plans a query with conditions on its outputs from outside, which [`push::take`] gave.
    pub(super) fn query_where(
        &mut self,
        query: &'q Query,
        conditions: Vec<Bound>,
    ) -> SqlResult<(Plan, Vec<Slot>)> {
        // A chain of WITH is as deep as it is long, however flat its text.
        if self.nested >= NESTED_MAX {
            return Err(too_deep());
        }
        self.nested += 1;
        let planned = self.query_within(query, conditions);
        self.nested -= 1;
        planned
    }

    fn query_within(
        &mut self,
        query: &'q Query,
        conditions: Vec<Bound>,
    ) -> SqlResult<(Plan, Vec<Slot>)> {
        let plan = match &query.body {
            Body::Select(select) => self.select(query, select, conditions)?,
            Body::Values(rows) => {
                let rows =
                    rows.iter().map(|row| self.compile_all(row)).collect::<SqlResult<_>>()?;
                let slots = self.output_slots(query);
                let plan = Plan::Values { rows, slots };
                self.sorted(plan, query)?
            }
            Body::SetOperation { operation, all, sides } => {
                let operation = (*operation, *all);
                let plan = self.set_operation(query, operation, sides, &conditions)?;
                self.sorted(plan, query)?
            }
            Body::Recursive { id, all, sides } => self.recursive(query, *id, *all, sides)?,
        };
        let plan = self.limited(plan, query)?;
        Ok((plan, self.output_slots(query)))
    }

    fn output_slots(&mut self, query: &Query) -> Vec<Slot> {
        let relation = query.relation;
        let column = |index: usize| ColumnRef { relation, column: index as u16 };
        (0..query.outputs.len()).map(|index| self.slots.of(column(index))).collect()
    }

    fn select(
        &mut self,
        query: &'q Query,
        select: &'q Select,
        conditions: Vec<Bound>,
    ) -> SqlResult<Plan> {
        let mut conditions = push::into_select(query, select, conditions);
        let mut plan = match &select.from {
            Some(from) => {
                self.joined_where(from, select.filter.as_ref(), conditions, &Set::new())?.plan
            }
            None => {
                conditions.extend(select.filter.clone());
                match self.compile_filter(&conditions)? {
                    Some(filter) => Plan::Filter(Box::new(Plan::One), filter),
                    None => Plan::One,
                }
            }
        };
        let mut own = Set::new();
        if let Some(from) = &select.from {
            relations_of(from, &mut own);
        }
        if let Some(grouping) = &select.grouping {
            plan = self.only_extremes(plan, grouping)?;
            plan = self.grouped(plan, grouping, &own)?;
        }
        if let Some(having) = &select.having {
            plan = Plan::Filter(Box::new(plan), self.compile(having)?);
        }
        plan = self.projected(plan, query, &own)?;
        let types = |output: &u16| query.outputs[*output as usize].ty.oid;
        // Sorted rows are told apart while they are sorted.
        if select.distinct && query.order_by.is_empty() {
            let slots = self.output_slots(query);
            let keys = (0..query.visible as u16).map(|o| (slots[o as usize], types(&o))).collect();
            plan = Plan::Distinct(Box::new(plan), keys);
        }
        plan = self.sorted(plan, query)?;
        if !select.distinct_on.is_empty() {
            let slots = self.output_slots(query);
            let keys = select.distinct_on.iter().map(|o| (slots[*o as usize], types(o))).collect();
            plan = Plan::First(Box::new(plan), keys);
        }
        if !query.locked.is_empty() {
            plan = self.locked(plan, query, select)?;
        }
        Ok(plan)
    }

    /// A key that is a column of an outer query has a place of its own, too: that of the column is
    /// not this query's to clear.
    fn grouped(&mut self, input: Plan, grouping: &Grouping, own: &Set) -> SqlResult<Plan> {
        let mut keys = Vec::with_capacity(grouping.keys.len());
        for (index, key) in grouping.keys.iter().enumerate() {
            let slot = match &key.kind {
                BoundKind::Column(column) if own.contains(&column.relation) => {
                    self.slots.of(*column)
                }
                _ => {
                    let made = ColumnRef { relation: grouping.relation, column: index as u16 };
                    self.note(made, key);
                    self.slots.of(made)
                }
            };
            keys.push((self.compile(key)?, key.ty.oid, slot));
        }
        let mut aggregates = Vec::with_capacity(grouping.aggregates.len());
        for (index, aggregate) in grouping.aggregates.iter().enumerate() {
            let column = crate::bind::FIRST_AGGREGATE + index as u16;
            let made = ColumnRef { relation: grouping.relation, column };
            self.note_aggregate(made, aggregate);
            let slot = self.slots.of(made);
            aggregates.push(self.aggregate(aggregate, slot)?);
        }
        // Aggregates that keep rows themselves take one group at a time.
        let keeps_rows = aggregates.iter().any(AggregatePlan::keeps_rows);
        let method = match keeps_rows || !self.choices.hash_groups {
            true if !keys.is_empty() => GroupMethod::Sort,
            _ => GroupMethod::Hash,
        };
        let slots = Vec::new();
        Ok(Plan::Aggregate { input: Box::new(input), keys, aggregates, slots, method })
    }

    fn aggregate(&mut self, aggregate: &Aggregate, slot: Slot) -> SqlResult<AggregatePlan> {
        let mut order_by = Vec::with_capacity(aggregate.order_by.len());
        for (key, descending, nulls_first) in &aggregate.order_by {
            order_by.push((self.compile(key)?, key.ty.oid, *descending, *nulls_first));
        }
        let filter = aggregate.filter.as_ref().map(|filter| self.compile(filter)).transpose()?;
        Ok(AggregatePlan {
            function: aggregate.function,
            strictness: aggregate.strictness,
            arguments: self.compile_all(&aggregate.arguments)?,
            types: aggregate.arguments.iter().map(|argument| argument.ty.oid).collect(),
            distinct: aggregate.distinct,
            order_by,
            filter,
            slot,
        })
    }

    /// Computes the outputs that are no plain columns. A column of an outer query is copied: where
    /// an outer join has no row of this query, the output is NULL and the column is not.
    fn projected(&mut self, mut plan: Plan, query: &'q Query, own: &Set) -> SqlResult<Plan> {
        let mut before = Vec::new();
        let mut sets = Vec::new();
        let mut after = Vec::new();
        for (index, output) in query.outputs.iter().enumerate() {
            let Some(value) = &output.value else { continue };
            let shown = ColumnRef { relation: query.relation, column: index as u16 };
            self.note(shown, value);
            match &value.kind {
                BoundKind::Column(column) if own.contains(&column.relation) => {
                    self.slots.alias(shown, *column);
                }
                BoundKind::GroupKey(column) | BoundKind::Aggregate(column) => {
                    self.slots.alias(shown, *column);
                }
                BoundKind::Set(set) => {
                    let slot = self.slots.of(shown);
                    sets.push((self.set_plan(set)?, slot));
                }
                _ => {
                    let mut value = value.clone();
                    let mut found: Vec<(BoundSet, ColumnRef)> = Vec::new();
                    self.extract_sets(&mut value, &mut found);
                    let program = self.compile(&value)?;
                    let slot = self.slots.of(shown);
                    if found.is_empty() {
                        before.push((program, slot));
                    } else {
                        after.push((program, slot));
                    }
                    for (set, column) in found {
                        let slot = self.slots.of(column);
                        sets.push((self.set_plan(&set)?, slot));
                    }
                }
            }
        }
        if !before.is_empty() {
            plan = Plan::Project(Box::new(plan), before);
        }
        if !sets.is_empty() {
            plan = Plan::ProjectSet(Box::new(plan), sets);
        }
        if !after.is_empty() {
            plan = Plan::Project(Box::new(plan), after);
        }
        Ok(plan)
    }

    /// Puts a made-up column in the place of each set-returning function inside `value`.
    fn extract_sets(&mut self, value: &mut Bound, found: &mut Vec<(BoundSet, ColumnRef)>) {
        if let BoundKind::Set(set) = &value.kind {
            let column = ColumnRef { relation: self.pseudo_relation(), column: 0 };
            found.push(((**set).clone(), column));
            value.kind = BoundKind::Column(column);
            return;
        }
        crate::bind::walk::children_mut(value, &mut |child| self.extract_sets(child, found));
    }

    fn sorted(&mut self, mut plan: Plan, query: &'q Query) -> SqlResult<Plan> {
        if query.order_by.is_empty() || self.ordered_by_index(&mut plan, query) {
            return Ok(plan);
        }
        let slots = self.output_slots(query);
        let by = |output: u16, descending: bool, nulls_first: bool| {
            let (slot, ty) = (slots[output as usize], query.outputs[output as usize].ty.oid);
            SortBy { slot, ty, descending, nulls_first }
        };
        let named = query.order_by.iter();
        let mut keys: Vec<_> =
            named.map(|key| by(key.output, key.descending, key.nulls_first)).collect();
        let (first, repeated) = match &query.body {
            Body::Select(select) if select.distinct => (false, Repeated::Once),
            Body::Select(select) => (!select.distinct_on.is_empty(), Repeated::All),
            _ => (false, Repeated::All),
        };
        if repeated == Repeated::Once {
            // Then all that is shown tells rows apart.
            let is_named = |output: &u16| query.order_by.iter().any(|key| key.output == *output);
            let others = (0..query.visible as u16).filter(|output| !is_named(output));
            keys.extend(others.map(|output| by(output, false, false)));
        }
        let limit = match &query.limit {
            Some(limit) if query.locked.is_empty() && !first => {
                let offset = query.offset.as_ref().map(|o| self.compile(o)).transpose()?;
                Some((self.compile(limit)?, offset))
            }
            _ => None,
        };
        Ok(Plan::Sort { input: Box::new(plan), keys, slots: Vec::new(), limit, repeated })
    }

    /// Makes a scan of one table give its rows in the order asked for, if an index can.
    fn ordered_by_index(&mut self, plan: &mut Plan, query: &Query) -> bool {
        let Body::Select(select) = &query.body else { return false };
        if select.grouping.is_some() || select.distinct || !select.distinct_on.is_empty() {
            return false;
        }
        let mut inner = plan;
        while let Plan::Project(input, _) = inner {
            inner = input;
        }
        let Plan::Table(scan) = inner else { return false };
        let mut wanted = Vec::with_capacity(query.order_by.len());
        for key in &query.order_by {
            let value = query.outputs[key.output as usize].value.as_ref();
            let Some((relation, column, _)) = value.and_then(super::access::plain_column) else {
                return false;
            };
            if relation != scan.relation {
                return false;
            }
            wanted.push((column, key.descending, key.nulls_first));
        }
        match &mut scan.access {
            Access::Point(..) => true,
            Access::Range { index, prefix, order, .. } => {
                match follows(index, prefix.len(), &wanted) {
                    Some(found) => {
                        *order = found;
                        true
                    }
                    None => false,
                }
            }
            Access::All if query.limit.is_some() => {
                let found = self.choices.readable(&scan.table).find_map(|index| {
                    follows(index, 0, &wanted).map(|order| (index.clone(), order))
                });
                let Some((index, order)) = found else { return false };
                let (prefix, low, high) = (Vec::new(), None, None);
                scan.access = Access::Range { index, prefix, low, high, order };
                true
            }
            _ => false,
        }
    }

    fn limited(&mut self, plan: Plan, query: &Query) -> SqlResult<Plan> {
        let limit = query.limit.as_ref().map(|limit| self.compile(limit)).transpose()?;
        let offset = query.offset.as_ref().map(|offset| self.compile(offset)).transpose()?;
        Ok(match (&limit, &offset) {
            (None, None) => plan,
            _ => Plan::Limit(Box::new(plan), limit, offset),
        })
    }

    fn locked(&mut self, plan: Plan, query: &'q Query, select: &'q Select) -> SqlResult<Plan> {
        let mut conditions = Vec::new();
        if let Some(filter) = &select.filter {
            flatten(filter, &mut conditions);
        }
        let mut targets = Vec::new();
        if let Some(from) = &select.from {
            self.lock_targets(from, query, &mut targets, &mut conditions);
        }
        let recheck = self.compile_filter(&conditions)?;
        Ok(Plan::Lock { input: Box::new(plan), targets, recheck })
    }

    fn lock_targets(
        &mut self,
        from: &'q From,
        query: &Query,
        targets: &mut Vec<LockTarget>,
        conditions: &mut Vec<Bound>,
    ) {
        match from {
            From::Relation(relation, info) if query.locked.contains(relation) => {
                if let Some(table) = info.table() {
                    let relation = *relation;
                    self.slots.of(ColumnRef { relation, column: ROW_ID });
                    let columns = ScanColumns::default();
                    targets.push(LockTarget { relation, table: table.clone(), columns });
                }
            }
            From::Join { kind, sides, condition } => {
                self.lock_targets(&sides.0, query, targets, conditions);
                self.lock_targets(&sides.1, query, targets, conditions);
                if let (JoinKind::Inner, Some(condition)) = (kind, condition) {
                    flatten(condition, conditions);
                }
            }
            _ => {}
        }
    }

    fn set_operation(
        &mut self,
        query: &'q Query,
        (operation, all): (SetOperation, bool),
        sides: &'q (Query, Query),
        conditions: &[Bound],
    ) -> SqlResult<Plan> {
        let width = query.visible;
        let (of_left, of_right) = (
            push::into_side(query, &sides.0, conditions),
            push::into_side(query, &sides.1, conditions),
        );
        let (left, mut left_slots) = self.query_where(&sides.0, of_left)?;
        let (right, mut right_slots) = self.query_where(&sides.1, of_right)?;
        left_slots.truncate(width);
        right_slots.truncate(width);
        let types: Vec<TypeOid> = query.outputs.iter().map(|output| output.ty.oid).collect();
        let slots = self.output_slots(query);
        let keys = slots.iter().copied().zip(types.iter().copied()).collect();
        let plan = Plan::SetOperation {
            operation: (operation != SetOperation::Union).then_some((operation, all)),
            sides: Box::new((left, right)),
            from: (left_slots, right_slots),
            slots,
            types,
        };
        Ok(if all { plan } else { Plan::Distinct(Box::new(plan), keys) })
    }
}

impl<'q> Planner<'_> {
    fn recursive(
        &mut self,
        query: &'q Query,
        index: u32,
        all: bool,
        sides: &'q (Query, Query),
    ) -> SqlResult<Plan> {
        let (left, mut left_slots) = self.query(&sides.0)?;
        let (right, mut right_slots) = self.query(&sides.1)?;
        left_slots.truncate(query.visible);
        right_slots.truncate(query.visible);
        let types = query.outputs.iter().map(|output| output.ty.oid);
        self.working = self.working.max(index as usize + 1);
        Ok(Plan::Recursive {
            index,
            distinct: (!all).then(|| types.collect()),
            sides: Box::new((left, right)),
            from: (left_slots, right_slots),
            slots: self.output_slots(query),
        })
    }
}

/// Does the index give these columns in this order, after its first `skip` columns? How?
fn follows(
    index: &atoll_kernel::api::IndexEntry,
    skip: usize,
    wanted: &[(u16, bool, bool)],
) -> Option<Order> {
    use atoll_kernel::api::Nulls;
    let parts = &index.def.columns;
    let fixed: Vec<u16> = parts[..skip].iter().map(|part| part.column.0).collect();
    let mut order = None;
    let mut at = skip;
    for (column, descending, nulls_first) in wanted {
        if fixed.contains(column) {
            continue;
        }
        let part = parts.get(at)?;
        at += 1;
        let own_descending = part.direction == Direction::Descending;
        let own_first = part.nulls == Nulls::First;
        let this = match (own_descending == *descending, own_first == *nulls_first) {
            (true, true) => Order::Forward,
            (false, false) => Order::Backward,
            _ => return None,
        };
        if part.column.0 != *column || *order.get_or_insert(this) != this {
            return None;
        }
    }
    Some(order.unwrap_or(Order::Forward))
}
