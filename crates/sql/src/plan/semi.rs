//! EXISTS, NOT EXISTS and IN of WHERE as semi and anti joins; outer joins that are inner ones;
//! which method joins two sides.
//!
//! Invariants: only conditions that stand alone in WHERE (under ANDs) are turned, where NULL counts
//! as false; NOT IN stays a subquery, because its NULLs mean something else. A subquery is turned
//! only if some equality ties it to the rows around it: then each side is read once, or the inner
//! side is looked up by an index. What cannot be turned is evaluated as it stands.

use super::Planner;
use super::join::{Part, Set, flatten, relations_of};
use super::node::{JoinMethod, JoinType, Plan};
use crate::bind::bound::{
    Body, Bound, BoundKind, BoundSubquery, From, Query, RelationId, Select, SubqueryKind,
};
use crate::bind::walk;
use crate::error::SqlResult;
use crate::functions::{Comparison, Strictness};
use crate::parse::ast::{Quantifier, Test};
use crate::types::TypeOid;

/// A condition that may become a join.
pub(super) struct Semi<'q> {
    bound: &'q Bound,
    subquery: &'q BoundSubquery,
    select: &'q Select,
    kind: JoinType,
}

/// Splits a condition at its ANDs into plain conditions and those that may become joins.
pub(super) fn split<'q>(bound: &'q Bound, plain: &mut Vec<Bound>, semis: &mut Vec<Semi<'q>>) {
    match &bound.kind {
        BoundKind::And(items) => items.iter().for_each(|item| split(item, plain, semis)),
        _ => match recognise(bound) {
            Some(semi) => semis.push(semi),
            None => flatten(bound, plain),
        },
    }
}

fn recognise(bound: &Bound) -> Option<Semi<'_>> {
    let (inner, kind) = match &bound.kind {
        BoundKind::Not(inner) => (&**inner, JoinType::Anti),
        _ => (bound, JoinType::Semi),
    };
    let BoundKind::Subquery(subquery) = &inner.kind else { return None };
    let fits = match &subquery.kind {
        SubqueryKind::Exists => true,
        SubqueryKind::Quantified { quantifier: Quantifier::Any, left } => {
            kind == JoinType::Semi
                && left.iter().all(|(_, row)| row.comparison == Some(Comparison::Equal))
        }
        _ => false,
    };
    let select = plain_select(&subquery.query)?;
    fits.then_some(Semi { bound, subquery, select, kind })
}

/// The SELECT of a query that gives as many rows as its FROM and WHERE do.
fn plain_select(query: &Query) -> Option<&Select> {
    let Body::Select(select) = &query.body else { return None };
    let is_plain = query.limit.is_none()
        && query.offset.is_none()
        && query.locked.is_empty()
        && select.grouping.is_none()
        && select.having.is_none()
        && select.distinct_on.is_empty()
        && !select.has_sets
        && select.from.is_some();
    is_plain.then_some(select)
}

impl<'q> Planner<'_> {
    /// Joins what a condition asks of each row of `part`, or filters by it.
    pub(super) fn semi_join(&mut self, part: Part, semi: Semi<'q>, outer: &Set) -> SqlResult<Part> {
        let Some((from, own, joining)) = self.taken_apart(&part, &semi)? else {
            return self.filtered_by(part, semi.bound);
        };
        let mut inner = Set::new();
        relations_of(from, &mut inner);
        self.local.extend(inner.iter().copied());
        let mut known = outer.clone();
        known.extend(part.relations.iter().copied());
        let (relations, rows) = (part.relations.clone(), part.rows);
        let joined = self.combine(semi.kind, part, from, own, joining, &known, outer)?;
        Ok(Part { relations, rows: (rows * 0.5).max(1.0), ..joined })
    }

    fn filtered_by(&mut self, mut part: Part, condition: &Bound) -> SqlResult<Part> {
        let filter = self.compile(condition)?;
        part.plan = Plan::Filter(Box::new(part.plan), filter);
        part.rows = (part.rows * 0.5).max(1.0);
        Ok(part)
    }

    /// FROM, the conditions on it alone, and those that tie it to `part`; none if it is not to be
    /// joined.
    #[expect(clippy::type_complexity, reason = "the parts of one join")]
    fn taken_apart(
        &mut self,
        part: &Part,
        semi: &Semi<'q>,
    ) -> SqlResult<Option<(&'q From, Vec<Bound>, Vec<Bound>)>> {
        let Some(from) = &semi.select.from else { return Ok(None) };
        let mut inner = Set::new();
        relations_of(from, &mut inner);
        let mut columns = Vec::new();
        walk::in_from(from, &mut |bound| walk::columns(bound, &mut columns));
        if columns.iter().any(|column| part.relations.contains(&column.relation)) {
            return Ok(None);
        }
        let mut conditions = Vec::new();
        if let Some(filter) = &semi.select.filter {
            flatten(filter, &mut conditions);
        }
        if let SubqueryKind::Quantified { left, .. } = &semi.subquery.kind {
            for ((left, row), output) in left.iter().zip(&semi.subquery.query.outputs) {
                let Some(right) = &output.value else { return Ok(None) };
                let sides = (Some(Box::new(left.clone())), Box::new(right.clone()));
                let kind = BoundKind::Operator(row, sides.0, sides.1);
                conditions.push(Bound::new(kind, TypeOid::BOOL, semi.bound.at));
            }
        }
        if conditions.iter().any(walk::is_volatile) {
            return Ok(None);
        }
        let (joining, own): (Vec<Bound>, Vec<Bound>) = conditions
            .into_iter()
            .partition(|condition| !self.reads(condition, &part.relations).is_empty());
        let ties = joining.iter().any(|condition| self.ties(condition, &part.relations, &inner));
        Ok(ties.then_some((from, own, joining)))
    }

    /// Is it an equality of something of one side with something of the other?
    fn ties(&self, condition: &Bound, left: &Set, right: &Set) -> bool {
        let BoundKind::Operator(row, Some(a), b) = &condition.kind else { return false };
        let all: Set = left.union(right).copied().collect();
        let (reads_a, reads_b) = (self.reads(a, &all), self.reads(b, &all));
        let apart = |a: &Set, b: &Set| {
            !a.is_empty() && !b.is_empty() && a.is_subset(left) && b.is_subset(right)
        };
        row.comparison == Some(Comparison::Equal)
            && row.strictness == Strictness::Strict
            && (a.ty.oid == b.ty.oid || super::both_integers(a.ty.oid, b.ty.oid))
            && (apart(&reads_a, &reads_b) || apart(&reads_b, &reads_a))
    }

    /// How two sides of about so many rows are joined by equalities: by a hash table, if it is
    /// likely to fit or sorting both sides costs more than hashing what is sorted in the end.
    pub(super) fn join_method(&self, outer_rows: f64, inner_rows: f64) -> JoinMethod {
        let choices = &self.choices;
        let fits = inner_rows * ROW_BYTES <= choices.work_bytes as f64;
        let by_hash = outer_rows + 2.0 * inner_rows;
        let sorted = |rows: f64| rows * rows.max(2.0).log2() * 0.2;
        // A table that does not fit is given up: what went into it was for nothing.
        let by_merge = sorted(outer_rows) + sorted(inner_rows);
        let by_hash = if fits { by_hash } else { by_merge + inner_rows };
        match (choices.hash_join, choices.merge_join) {
            (true, false) => JoinMethod::Hash,
            (false, true) => JoinMethod::Merge,
            _ if by_hash <= by_merge => JoinMethod::Hash,
            _ => JoinMethod::Merge,
        }
    }
}

/// What a row is taken to need in a hash table.
const ROW_BYTES: f64 = 200.0;

/// Is the condition never true when all columns of these relations are NULL?
pub(super) fn rejects_null(bound: &Bound, relations: &Set) -> bool {
    let reads = |side: &Bound| strict_column(side).is_some_and(|r| relations.contains(&r));
    match &bound.kind {
        BoundKind::Operator(row, left, right) => {
            row.strictness == Strictness::Strict
                && (left.as_deref().is_some_and(reads) || reads(right))
        }
        BoundKind::Is(Test::NotNull, inner) => reads(inner),
        BoundKind::In { left, .. } => left.iter().any(reads),
        _ => false,
    }
}

/// The relation of a column under conversions, which keep NULL.
fn strict_column(bound: &Bound) -> Option<RelationId> {
    match &bound.kind {
        BoundKind::Column(column) => Some(column.relation),
        BoundKind::Coerce(_, inner) | BoundKind::Typmod(_, inner) => strict_column(inner),
        _ => None,
    }
}
