//! FROM and WHERE: access to each relation, order and method of joins.
//!
//! Invariants: every condition is applied once, at the lowest place where all it reads is there;
//! never below the nullable side of an outer join unless it belongs to that join's own ON. An
//! item that reads its neighbours laterally comes after them, as the inner side of a loop.

use super::Planner;
use super::item::WORKING_ROWS;
use super::node::{InnerRows, JoinType, Plan};
use crate::bind::bound::{Bound, BoundKind, From, RelationId};
use crate::bind::walk;
use crate::error::SqlResult;
use crate::exec::program::Program;
use crate::functions::{Comparison, Strictness};
use crate::parse::ast::JoinKind;
use crate::relations::Source;
use crate::types::TypeOid;
use std::collections::HashSet;

/// A set of relations.
pub(super) type Set = HashSet<RelationId>;

/// A part of a plan with what is known of it.
pub(super) struct Part {
    pub plan: Plan,
    pub relations: Set,
    pub rows: f64,
}

/// An item that is joined as a whole.
struct Unit<'q> {
    from: &'q From,
    relations: Set,
    /// Neighbours that it reads.
    needs: Set,
}

impl<'q> Planner<'_> {
    /// Plans FROM with the conditions of WHERE; `outer` are relations whose columns are there
    /// already.
    pub(super) fn from(
        &mut self,
        from: &'q From,
        filter: Option<&'q Bound>,
        outer: &Set,
    ) -> SqlResult<Part> {
        self.joined_where(from, filter, Vec::new(), outer)
    }

    /// As [`Planner::from`], with more conditions.
    pub(super) fn joined_where(
        &mut self,
        from: &'q From,
        filter: Option<&'q Bound>,
        mut conditions: Vec<Bound>,
        outer: &Set,
    ) -> SqlResult<Part> {
        let mut semis = Vec::new();
        if let Some(filter) = filter {
            super::semi::split(filter, &mut conditions, &mut semis);
        }
        let mut items = Vec::new();
        self.collect(from, &mut items, &mut conditions);
        // Relations of enclosing queries are known before anything here is read.
        let enclosing = std::mem::take(&mut self.local);
        let part = self.joined(items, conditions, outer);
        let part = part.and_then(|part| {
            semis.into_iter().try_fold(part, |part, semi| self.semi_join(part, semi, outer))
        });
        self.local = enclosing;
        part
    }

    pub(super) fn joined(
        &mut self,
        items: Vec<&'q From>,
        conditions: Vec<Bound>,
        outer: &Set,
    ) -> SqlResult<Part> {
        let mut all = Set::new();
        items.iter().for_each(|item| relations_of(item, &mut all));
        self.local.extend(all.iter().copied());
        let mut units: Vec<Unit<'q>> = Vec::with_capacity(items.len());
        for item in items {
            let mut relations = Set::new();
            relations_of(item, &mut relations);
            let mut columns = Vec::new();
            walk::in_from(item, &mut |bound| walk::columns(bound, &mut columns));
            let reads = columns.iter().map(|column| column.relation);
            let needs = reads.filter(|r| all.contains(r) && !relations.contains(r)).collect();
            units.push(Unit { from: item, relations, needs });
        }
        self.order(units, conditions, &all, outer)
    }

    /// Takes inner joins apart; outer joins stay whole.
    fn collect(&mut self, from: &'q From, items: &mut Vec<&'q From>, conditions: &mut Vec<Bound>) {
        match from {
            From::Join { kind: JoinKind::Inner, sides, condition } => {
                self.collect(&sides.0, items, conditions);
                self.collect(&sides.1, items, conditions);
                if let Some(condition) = condition {
                    flatten(condition, conditions);
                }
            }
            // A condition above that is never true for the NULLs of the right side makes an
            // outer join an inner one.
            From::Join { kind: JoinKind::Left, sides, condition } => {
                let mut right = Set::new();
                relations_of(&sides.1, &mut right);
                if conditions.iter().any(|above| super::semi::rejects_null(above, &right)) {
                    self.collect(&sides.0, items, conditions);
                    self.collect(&sides.1, items, conditions);
                    if let Some(condition) = condition {
                        flatten(condition, conditions);
                    }
                } else {
                    items.push(from);
                }
            }
            other => items.push(other),
        }
    }

    fn order(
        &mut self,
        mut units: Vec<Unit<'q>>,
        mut conditions: Vec<Bound>,
        all: &Set,
        outer: &Set,
    ) -> SqlResult<Part> {
        let mut placed: Option<Part> = None;
        while !units.is_empty() {
            let empty = Set::new();
            let there = placed.as_ref().map_or(&empty, |part| &part.relations);
            let mut best: Option<(usize, f64)> = None;
            for (index, unit) in units.iter().enumerate() {
                if !unit.needs.is_subset(there) {
                    continue;
                }
                let cost = self.weight(unit, &conditions, there, outer, all);
                if best.is_none_or(|(_, least)| cost < least) {
                    best = Some((index, cost));
                }
            }
            // Lateral references form no cycle, so one is always ready.
            let (index, _) = best.unwrap_or((0, 0.0));
            let unit = units.remove(index);
            let part = match placed.take() {
                None => {
                    let own = self.take(&mut conditions, &unit.relations, all);
                    self.unit(unit.from, own, outer)?
                }
                Some(left) => self.join_unit(left, unit, &mut conditions, all, outer)?,
            };
            placed = Some(part);
        }
        let mut part = placed.unwrap_or(Part { plan: Plan::One, relations: Set::new(), rows: 1.0 });
        if let Some(rest) = self.compile_filter(&conditions)? {
            part.plan = Plan::Filter(Box::new(part.plan), rest);
        }
        Ok(part)
    }

    /// Which relations of `all` a condition reads.
    pub(super) fn reads(&self, bound: &Bound, all: &Set) -> Set {
        let mut columns = Vec::new();
        walk::columns(bound, &mut columns);
        let relations = columns.iter().map(|column| column.relation);
        relations.filter(|relation| all.contains(relation)).collect()
    }

    /// Takes the conditions out that read nothing but `relations`.
    fn take(&self, conditions: &mut Vec<Bound>, relations: &Set, all: &Set) -> Vec<Bound> {
        let (own, rest) = std::mem::take(conditions)
            .into_iter()
            .partition(|condition| self.reads(condition, all).is_subset(relations));
        *conditions = rest;
        own
    }

    /// About how many rows the unit adds to each row that is there; unconnected ones come late.
    fn weight(
        &mut self,
        unit: &Unit<'q>,
        conditions: &[Bound],
        there: &Set,
        outer: &Set,
        all: &Set,
    ) -> f64 {
        let own: Vec<Bound> = conditions
            .iter()
            .filter(|condition| {
                let reads = self.reads(condition, all);
                reads.iter().all(|r| unit.relations.contains(r) || there.contains(r))
                    && reads.iter().any(|r| unit.relations.contains(r))
            })
            .cloned()
            .collect();
        let connected = own.iter().any(|condition| {
            self.reads(condition, all).iter().any(|relation| there.contains(relation))
        });
        let penalty = if there.is_empty() || connected { 1.0 } else { 1e6 };
        let rows = match unit.from {
            From::Relation(relation, info) => match &info.source {
                Source::Table(table) => {
                    let known: Set = there.union(outer).copied().collect();
                    match self.access(*relation, info, table, &own, &known) {
                        Ok(choice) if choice.indexed => choice.rows,
                        Ok(choice) => choice.rows + table.approximate_rows() as f64 * 0.01,
                        Err(_) => 1e9,
                    }
                }
                Source::Virtual(relation) => {
                    let rows = relation.estimated_rows(self.view) as f64;
                    (rows * 0.1f64.powi(own.len() as i32)).max(1.0)
                }
                Source::Sequence(_) => 1.0,
            },
            From::Function { .. } => 1000.0,
            From::Subquery(_) | From::Cte(..) => 1000.0,
            From::Working(..) => WORKING_ROWS,
            From::Join { .. } => 2000.0,
        };
        rows * penalty
    }

    pub(super) fn known_before(
        &self,
        value: &Bound,
        relation: RelationId,
        available: &Set,
    ) -> bool {
        let mut columns = Vec::new();
        walk::columns(value, &mut columns);
        columns.iter().all(|column| {
            let own = column.relation;
            own != relation && (available.contains(&own) || !self.local.contains(&own))
        })
    }

    pub(super) fn outer_join(
        &mut self,
        kind: JoinKind,
        sides: &'q (From, From),
        on: Option<&'q Bound>,
        mut above: Vec<Bound>,
        outer: &Set,
    ) -> SqlResult<Part> {
        let (mut left_set, mut right_set) = (Set::new(), Set::new());
        relations_of(&sides.0, &mut left_set);
        relations_of(&sides.1, &mut right_set);
        let all: Set = left_set.union(&right_set).copied().collect();
        // Conditions from above on the preserved side alone may be applied below.
        let below = match kind {
            JoinKind::Left => self.take(&mut above, &left_set, &all),
            _ => Vec::new(),
        };
        let left = self.side(&sides.0, below, outer)?;
        let mut conditions = Vec::new();
        if let Some(on) = on {
            flatten(on, &mut conditions);
        }
        let mut known = outer.clone();
        known.extend(left.relations.iter().copied());
        let right_only = match kind {
            JoinKind::Left => self.take(&mut conditions, &right_set, &all),
            _ => Vec::new(),
        };
        let join = if kind == JoinKind::Full { JoinType::Full } else { JoinType::Left };
        let mut part = self.combine(join, left, &sides.1, right_only, conditions, &known, outer)?;
        if let Some(filter) = self.compile_filter(&above)? {
            part.plan = Plan::Filter(Box::new(part.plan), filter);
        }
        Ok(part)
    }

    /// A side of an outer join, which may be a tree of joins itself.
    fn side(&mut self, from: &'q From, conditions: Vec<Bound>, outer: &Set) -> SqlResult<Part> {
        match from {
            From::Join { kind: JoinKind::Inner, .. } => {
                let mut items = Vec::new();
                let mut conditions = conditions;
                self.collect(from, &mut items, &mut conditions);
                self.joined(items, conditions, outer)
            }
            other => self.unit(other, conditions, outer),
        }
    }

    fn join_unit(
        &mut self,
        left: Part,
        unit: Unit<'q>,
        conditions: &mut Vec<Bound>,
        all: &Set,
        outer: &Set,
    ) -> SqlResult<Part> {
        let own = self.take(conditions, &unit.relations, all);
        let both: Set = left.relations.union(&unit.relations).copied().collect();
        let joining = self.take(conditions, &both, all);
        let mut known = outer.clone();
        known.extend(left.relations.iter().copied());
        if !unit.needs.is_empty() {
            // Lateral: a loop, with all conditions at the inner side.
            let mut inside = own;
            inside.extend(joining);
            let right = self.unit(unit.from, inside, &known)?;
            return Ok(self.looped(JoinType::Inner, left, right, None));
        }
        self.combine(JoinType::Inner, left, unit.from, own, joining, &known, outer)
    }

    /// Joins `right` to `left`: by index, by hashing, or by looping over kept rows.
    #[expect(clippy::too_many_arguments, reason = "the parts of one join")]
    pub(super) fn combine(
        &mut self,
        kind: JoinType,
        left: Part,
        right: &'q From,
        own: Vec<Bound>,
        joining: Vec<Bound>,
        known: &Set,
        outer: &Set,
    ) -> SqlResult<Part> {
        if kind != JoinType::Full
            && self.choices.loop_join
            && let Some(inner) = self.by_index(right, &own, &joining, known, left.rows)?
        {
            return Ok(self.looped(kind, left, inner, None));
        }
        let lateral = {
            let mut columns = Vec::new();
            walk::in_from(right, &mut |bound| walk::columns(bound, &mut columns));
            columns.iter().any(|c| left.relations.contains(&c.relation))
        };
        if lateral {
            let right = self.side(right, own, known)?;
            let condition = self.compile_filter(&joining)?;
            return Ok(self.looped(kind, left, right, condition));
        }
        let scans = self.working_scans;
        let outside = super::reads_outside(right, &own);
        let right = self.side(right, own, outer)?;
        let inner_rows = match outside || self.working_scans > scans {
            true => InnerRows::Others,
            false => InnerRows::Same,
        };
        let mut keys = Vec::new();
        let mut rest = Vec::new();
        for condition in joining {
            match self.hash_key(&condition, &left.relations, &right.relations)? {
                Some(key) => keys.push(key),
                None => rest.push(condition),
            }
        }
        let condition = self.compile_filter(&rest)?;
        // Without equalities only a loop can join, except everything with everything.
        if keys.is_empty() && kind != JoinType::Full {
            let input = Box::new(right.plan);
            let kept = Plan::Keep { input, slots: Vec::new(), rows: inner_rows };
            let right = Part { plan: kept, ..right };
            return Ok(self.looped(kind, left, right, condition));
        }
        let (left_rows, right_rows) = (left.rows, right.rows);
        let rows = (left.rows * right.rows * 0.01).max(left.rows.min(right.rows)).max(1.0);
        let relations = left.relations.union(&right.relations).copied().collect();
        let plan = Plan::Hash {
            kind,
            outer: Box::new(left.plan),
            inner: Box::new(right.plan),
            keys,
            condition,
            outer_slots: Vec::new(),
            inner_slots: Vec::new(),
            method: self.join_method(left_rows, right_rows),
            inner_rows,
        };
        Ok(Part { plan, relations, rows })
    }

    fn looped(&self, kind: JoinType, left: Part, right: Part, condition: Option<Program>) -> Part {
        let relations = left.relations.union(&right.relations).copied().collect();
        let rows = (left.rows * right.rows).max(1.0);
        let plan = Plan::Loop {
            kind,
            outer: Box::new(left.plan),
            inner: Box::new(right.plan),
            condition,
            inner_slots: Vec::new(),
        };
        Part { plan, relations, rows }
    }

    /// The inner side found by an index (or a virtual relation's look-up) for each outer row.
    fn by_index(
        &mut self,
        right: &'q From,
        own: &[Bound],
        joining: &[Bound],
        known: &Set,
        outer_rows: f64,
    ) -> SqlResult<Option<Part>> {
        let From::Relation(relation, info) = right else { return Ok(None) };
        let mut both = own.to_vec();
        both.extend_from_slice(joining);
        match &info.source {
            Source::Table(table) => {
                let choice = self.access(*relation, info, table, &both, known)?;
                let joins = choice.used.iter().any(|used| *used >= own.len());
                // Reading the whole table once is cheaper than very many look-ups.
                let total = table.approximate_rows() as f64;
                let cheaper = outer_rows * choice.rows * 4.0 < total + outer_rows + 1000.0;
                if !(choice.indexed && joins && cheaper) {
                    return Ok(None);
                }
                self.scan(*relation, info, both, known).map(Some)
            }
            Source::Virtual(source) => {
                let key = self.virtual_key(*relation, info, *source, joining, known)?;
                let rows = source.estimated_rows(self.view) as f64;
                if key.is_none() || outer_rows > rows * 4.0 + 16.0 {
                    return Ok(None);
                }
                self.scan(*relation, info, both, known).map(Some)
            }
            Source::Sequence(_) => Ok(None),
        }
    }

    /// An equality that can be hashed: a side each.
    pub(super) fn hash_key(
        &mut self,
        condition: &Bound,
        left: &Set,
        right: &Set,
    ) -> SqlResult<Option<(Program, Program, TypeOid)>> {
        let BoundKind::Operator(row, Some(a), b) = &condition.kind else { return Ok(None) };
        let hashable = row.comparison == Some(Comparison::Equal)
            && row.strictness == Strictness::Strict
            && (a.ty.oid == b.ty.oid || super::both_integers(a.ty.oid, b.ty.oid));
        if !hashable {
            return Ok(None);
        }
        let all: Set = left.union(right).copied().collect();
        let (reads_a, reads_b) = (self.reads(a, &all), self.reads(b, &all));
        if reads_a.is_empty() || reads_b.is_empty() {
            return Ok(None);
        }
        let ty = a.ty.oid;
        if reads_a.is_subset(left) && reads_b.is_subset(right) {
            return Ok(Some((self.compile(a)?, self.compile(b)?, ty)));
        }
        if reads_a.is_subset(right) && reads_b.is_subset(left) {
            return Ok(Some((self.compile(b)?, self.compile(a)?, ty)));
        }
        Ok(None)
    }
}

/// Splits a condition at its ANDs.
pub(super) fn flatten(bound: &Bound, out: &mut Vec<Bound>) {
    match &bound.kind {
        BoundKind::And(items) => items.iter().for_each(|item| flatten(item, out)),
        _ => out.push(bound.clone()),
    }
}

/// The relations whose columns an item shows.
pub(super) fn relations_of(from: &From, out: &mut Set) {
    match from {
        From::Relation(relation, _)
        | From::Cte(relation, _)
        | From::Working(relation, ..)
        | From::Function { relation, .. } => {
            out.insert(*relation);
        }
        From::Subquery(query) => {
            out.insert(query.relation);
        }
        From::Join { sides, .. } => {
            relations_of(&sides.0, out);
            relations_of(&sides.1, out);
        }
    }
}
