//! Conditions on a subquery's outputs as conditions inside of it, where an index may serve them.
//!
//! Invariants: a condition goes inside only if every row that it leaves out could not have changed
//! the others: not below LIMIT, DISTINCT ON, row locks, recursion or functions that return sets;
//! below grouping only if it reads keys alone; below a set operation only into both sides. What
//! is volatile, on either side, stays where it is written, and so does what has subqueries.

use crate::bind::bound::{Body, Bound, BoundKind, ColumnRef, Query, RelationId, Select};
use crate::bind::walk;

/// Takes those of `conditions`, which know the query's outputs as columns of `relation`, that can
/// be tested inside of the query, as conditions on columns of the query.
pub(super) fn take(query: &Query, relation: RelationId, conditions: &mut Vec<Bound>) -> Vec<Bound> {
    let mut taken = Vec::new();
    conditions.retain(|condition| {
        let mut outputs = Vec::new();
        let goes = is_plain(condition) && {
            let mut columns = Vec::new();
            walk::columns(condition, &mut columns);
            let own = columns.iter().filter(|column| column.relation == relation);
            outputs.extend(own.map(|column| column.column));
            !outputs.is_empty() && accepts(query, &outputs)
        };
        if goes {
            taken.push(replaced(condition, relation, &|index| {
                BoundKind::Column(ColumnRef { relation: query.relation, column: index })
            }));
        }
        !goes
    });
    taken
}

/// Conditions on a SELECT's outputs as conditions on what it reads.
pub(super) fn into_select(query: &Query, select: &Select, conditions: Vec<Bound>) -> Vec<Bound> {
    let value = |index: u16| {
        let own = ColumnRef { relation: query.relation, column: index };
        let output = query.outputs.get(index as usize).and_then(|output| output.value.as_ref());
        match (output.map(|value| &value.kind), &select.grouping) {
            (Some(BoundKind::GroupKey(key)), Some(grouping))
                if key.relation == grouping.relation =>
            {
                grouping.keys[key.column as usize].kind.clone()
            }
            (Some(kind), _) => kind.clone(),
            (None, _) => BoundKind::Column(own),
        }
    };
    conditions.iter().map(|condition| replaced(condition, query.relation, &value)).collect()
}

/// Conditions on a set operation's outputs as conditions on those of a side.
pub(super) fn into_side(query: &Query, side: &Query, conditions: &[Bound]) -> Vec<Bound> {
    let column =
        |index: u16| BoundKind::Column(ColumnRef { relation: side.relation, column: index });
    conditions.iter().map(|condition| replaced(condition, query.relation, &column)).collect()
}

fn is_plain(bound: &Bound) -> bool {
    let mut has_subquery = false;
    walk::deep(bound, &mut |part| has_subquery |= matches!(part.kind, BoundKind::Subquery(_)));
    !has_subquery && !walk::is_volatile(bound)
}

/// May a condition on these outputs be tested inside?
fn accepts(query: &Query, outputs: &[u16]) -> bool {
    if query.limit.is_some() || query.offset.is_some() || !query.locked.is_empty() {
        return false;
    }
    match &query.body {
        Body::Select(select) => {
            let fits = |index: &u16| {
                let output = query.outputs.get(*index as usize);
                let value = output.and_then(|output| output.value.as_ref());
                value.is_some_and(|value| match (&value.kind, &select.grouping) {
                    (BoundKind::Column(_), _) => true,
                    (BoundKind::GroupKey(key), Some(grouping)) => {
                        grouping.keys.get(key.column as usize).is_some_and(is_plain)
                    }
                    (_, Some(_)) => false,
                    (_, None) => is_plain(value),
                })
            };
            !select.has_sets && select.distinct_on.is_empty() && outputs.iter().all(fits)
        }
        Body::SetOperation { sides, .. } => {
            accepts(&sides.0, outputs) && accepts(&sides.1, outputs)
        }
        Body::Values(_) | Body::Recursive { .. } => false,
    }
}

/// The expression with other things in the place of a relation's columns.
fn replaced(bound: &Bound, relation: RelationId, with: &dyn Fn(u16) -> BoundKind) -> Bound {
    fn replace(bound: &mut Bound, relation: RelationId, with: &dyn Fn(u16) -> BoundKind) {
        match &bound.kind {
            BoundKind::Column(column) if column.relation == relation => {
                bound.kind = with(column.column);
            }
            _ => walk::children_mut(bound, &mut |child| replace(child, relation, with)),
        }
    }
    let mut own = bound.clone();
    replace(&mut own, relation, with);
    own
}
