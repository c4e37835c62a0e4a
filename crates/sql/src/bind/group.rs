//! Grouping: which keys and aggregates a SELECT has, and the check that every other column is in
//! an aggregate (42803).
//!
//! Invariants: a key that is a plain column keeps its reference (the grouping operator gives it
//! back in its own place); a key that is an expression is replaced by a reference to the
//! grouping relation wherever it occurs. Columns that depend on a primary key among the keys
//! become keys themselves, which changes no group.

use super::bound::{
    Aggregate, Bound, BoundKind, ColumnRef, From, Grouping, Output, RelationId, Select,
};
use super::scope::Item;
use super::{Binder, error_at, walk};
use crate::error::{SqlResult, SqlState};
use crate::functions::Volatility;
use crate::relations::RelationInfo;
use atoll_kernel::api::IndexKind;
use std::sync::Arc;

impl Binder<'_> {
    /// Makes the select group, if it does, and checks its outputs and HAVING.
    pub(super) fn group(
        &mut self,
        select: &mut Select,
        mut keys: Vec<Bound>,
        outputs: &mut [Output],
    ) -> SqlResult<()> {
        let aggregates = std::mem::take(&mut self.block().aggregates);
        if keys.is_empty() && aggregates.is_empty() && select.having.is_none() {
            return Ok(());
        }
        let relation = match self.block().grouping {
            Some(relation) => relation,
            None => self.new_relation(),
        };
        let mut own = Vec::new();
        if let Some(from) = &select.from {
            relations_of(from, &mut own);
        }
        let items = self.block().items.clone();
        let mut check = Check { relation, own: &own, items: &items, dependent: Vec::new() };
        for output in outputs.iter_mut() {
            if let Some(value) = &mut output.value {
                check.replace(value, &mut keys)?;
            }
        }
        if let Some(having) = &mut select.having {
            check.replace(having, &mut keys)?;
        }
        keys.extend(check.dependent);
        select.grouping = Some(Grouping { relation, keys, aggregates });
        Ok(())
    }
}

/// The relations of FROM with what they are.
fn relations_of(from: &From, found: &mut Vec<(RelationId, Option<Arc<RelationInfo>>)>) {
    match from {
        From::Relation(relation, info) => found.push((*relation, Some(info.clone()))),
        From::Subquery(query) => found.push((query.relation, None)),
        From::Cte(relation, _) | From::Working(relation, ..) | From::Function { relation, .. } => {
            found.push((*relation, None))
        }
        From::Join { sides, .. } => {
            relations_of(&sides.0, found);
            relations_of(&sides.1, found);
        }
    }
}

struct Check<'c> {
    relation: RelationId,
    own: &'c [(RelationId, Option<Arc<RelationInfo>>)],
    items: &'c [Item],
    dependent: Vec<Bound>,
}

impl Check<'_> {
    /// Replaces keys in `bound` and refuses other columns of this query.
    fn replace(&mut self, bound: &mut Bound, keys: &mut [Bound]) -> SqlResult<()> {
        if matches!(bound.kind, BoundKind::Aggregate(column) if column.relation == self.relation) {
            return Ok(());
        }
        if let Some(index) = keys.iter().position(|key| same(key, bound)) {
            if !matches!(bound.kind, BoundKind::Column(_)) {
                let column = ColumnRef { relation: self.relation, column: index as u16 };
                bound.kind = BoundKind::GroupKey(column);
            }
            return Ok(());
        }
        if let BoundKind::Column(column) = &bound.kind {
            let column = *column;
            return self.column(bound, column, keys);
        }
        let mut result = Ok(());
        walk::children_mut(bound, &mut |child| {
            if result.is_ok() {
                result = self.replace(child, keys);
            }
        });
        result?;
        if let BoundKind::Subquery(subquery) = &bound.kind {
            let mut columns = Vec::new();
            walk::in_query(&subquery.query, &mut |inner| {
                walk::deep(inner, &mut |part| {
                    if let BoundKind::Column(column) = &part.kind {
                        columns.push((*column, part.clone()));
                    }
                })
            });
            for (column, part) in columns {
                let grouped = keys.iter().any(|key| same(key, &part));
                if !grouped {
                    self.column(&part, column, keys)?;
                }
            }
        }
        Ok(())
    }

    fn column(&mut self, bound: &Bound, column: ColumnRef, keys: &[Bound]) -> SqlResult<()> {
        let Some((_, info)) = self.own.iter().find(|(own, _)| *own == column.relation) else {
            return Ok(());
        };
        if self.dependent.iter().any(|other| same(other, bound)) {
            return Ok(());
        }
        if let Some(info) = info
            && depends_on_key(info, column.relation, keys)
        {
            self.dependent.push(bound.clone());
            return Ok(());
        }
        let item = self.items.iter().find(|item| item.relation == Some(column.relation));
        let name = item.and_then(|item| {
            let shown = &item.columns.get(column.column as usize)?.name;
            Some(format!("{}.{shown}", item.name.as_deref()?))
        });
        let name = name.unwrap_or_else(|| "?column?".to_owned());
        Err(error_at(
            SqlState::GROUPING_ERROR,
            format!(
                "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
            ),
            bound.at,
        ))
    }
}

/// Are all columns of the relation's primary key among the keys?
fn depends_on_key(info: &RelationInfo, relation: RelationId, keys: &[Bound]) -> bool {
    let Some(table) = info.table() else { return false };
    let Some(primary) = table.indexes.iter().find(|i| i.def.kind == IndexKind::Primary) else {
        return false;
    };
    primary.def.columns.iter().all(|part| {
        let wanted = ColumnRef { relation, column: part.column.0 };
        keys.iter().any(|key| matches!(key.kind, BoundKind::Column(column) if column == wanted))
    })
}

/// Are two aggregates the same computation? Volatile arguments never are.
pub(super) fn same_aggregate(a: &Aggregate, b: &Aggregate) -> bool {
    let all = |a: &[Bound], b: &[Bound]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b) && !is_volatile(a))
    };
    let filters = match (&a.filter, &b.filter) {
        (None, None) => true,
        (Some(a), Some(b)) => same(a, b) && !is_volatile(a),
        _ => false,
    };
    std::ptr::fn_addr_eq(a.function, b.function)
        && a.name == b.name
        && a.distinct == b.distinct
        && a.order_by.is_empty()
        && b.order_by.is_empty()
        && filters
        && all(&a.arguments, &b.arguments)
}

fn is_volatile(bound: &Bound) -> bool {
    let mut found = false;
    walk::deep(bound, &mut |part| {
        found |=
            matches!(&part.kind, BoundKind::Call(call) if call.volatility == Volatility::Volatile);
    });
    found
}

/// Are two bound expressions the same? Decided from the tree alone; `false` where unsure.
pub(super) fn same(a: &Bound, b: &Bound) -> bool {
    if a.ty != b.ty {
        return false;
    }
    let alike = match (&a.kind, &b.kind) {
        (BoundKind::Constant(a), BoundKind::Constant(b)) => {
            return format!("{a:?}") == format!("{b:?}");
        }
        (BoundKind::Parameter(a), BoundKind::Parameter(b)) => return a == b,
        (BoundKind::Column(a), BoundKind::Column(b))
        | (BoundKind::GroupKey(a), BoundKind::GroupKey(b))
        | (BoundKind::Aggregate(a), BoundKind::Aggregate(b)) => return a == b,
        (BoundKind::Call(a), BoundKind::Call(b)) => {
            a.name == b.name && std::ptr::fn_addr_eq(a.function, b.function)
        }
        (BoundKind::Operator(a, left, _), BoundKind::Operator(b, other, _)) => {
            std::ptr::eq(*a, *b) && left.is_some() == other.is_some()
        }
        (BoundKind::Coerce(a, _), BoundKind::Coerce(b, _)) => {
            std::mem::discriminant(a) == std::mem::discriminant(b)
        }
        (BoundKind::Typmod(a, _), BoundKind::Typmod(b, _)) => a == b,
        (BoundKind::Is(a, _), BoundKind::Is(b, _)) => a == b,
        (BoundKind::Field(_, a), BoundKind::Field(_, b)) => a == b,
        (BoundKind::MinMax(a, _, _), BoundKind::MinMax(b, _, _)) => a == b,
        // A copy, as GROUP BY 1 takes one of an output: the number is of one query only. What is
        // written twice counts as two.
        (BoundKind::Subquery(a), BoundKind::Subquery(b)) => {
            return a.query.relation == b.query.relation;
        }
        (BoundKind::Set(_), _) => false,
        (
            BoundKind::Quantified { operator: a, quantifier: qa, .. },
            BoundKind::Quantified { operator: b, quantifier: qb, .. },
        ) => std::ptr::eq(*a, *b) && qa == qb,
        (BoundKind::Distinct { negated: a, .. }, BoundKind::Distinct { negated: b, .. }) => a == b,
        (BoundKind::In { left: a, rows: ra }, BoundKind::In { left: b, rows: rb }) => {
            a.len() == b.len() && ra.len() == rb.len()
        }
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    };
    if !alike {
        return false;
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    walk::children(a, &mut |child| left.push(child));
    walk::children(b, &mut |child| right.push(child));
    left.len() == right.len() && left.into_iter().zip(right).all(|(a, b)| same(a, b))
}
