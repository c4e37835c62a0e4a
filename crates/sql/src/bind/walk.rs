//! Walking over bound trees.
//!
//! Invariants: [`children`] and [`children_mut`] list the direct subexpressions of a node, those
//! of a subquery's left side included, those inside the subquery's query not; [`in_query`] walks
//! every expression of a query, subqueries included.

use super::bound::{
    Body, Bound, BoundKind, BoundSet, ColumnRef, From, Query, SetOrScalar, SubqueryKind,
};
use crate::functions::Volatility;

/// Calls `visit` for each direct subexpression.
pub fn children<'b>(bound: &'b Bound, visit: &mut dyn FnMut(&'b Bound)) {
    match &bound.kind {
        BoundKind::Constant(_)
        | BoundKind::Parameter(_)
        | BoundKind::Column(_)
        | BoundKind::GroupKey(_)
        | BoundKind::Aggregate(_) => {}
        BoundKind::Call(call) => call.arguments.iter().for_each(visit),
        BoundKind::Operator(_, left, right) => {
            if let Some(left) = left {
                visit(left);
            }
            visit(right);
        }
        BoundKind::Coerce(_, inner)
        | BoundKind::Typmod(_, inner)
        | BoundKind::Not(inner)
        | BoundKind::Is(_, inner)
        | BoundKind::Field(inner, _) => visit(inner),
        BoundKind::And(items)
        | BoundKind::Or(items)
        | BoundKind::Coalesce(items)
        | BoundKind::MinMax(_, _, items)
        | BoundKind::Array(_, items)
        | BoundKind::Row(items) => items.iter().for_each(visit),
        BoundKind::Distinct { sides, .. } | BoundKind::NullIf(_, sides) => {
            visit(&sides.0);
            visit(&sides.1);
        }
        BoundKind::In { left, rows } => {
            left.iter().for_each(&mut *visit);
            rows.iter().flatten().for_each(|(_, right)| visit(right));
        }
        BoundKind::Quantified { left, array, .. } => {
            visit(left);
            visit(array);
        }
        BoundKind::RowCompare { columns, .. } => {
            for (_, _, left, right) in columns {
                visit(left);
                visit(right);
            }
        }
        BoundKind::Case(branches, otherwise) => {
            for (condition, result) in branches {
                visit(condition);
                visit(result);
            }
            visit(otherwise);
        }
        BoundKind::Subscript(array, indices) => {
            visit(array);
            indices.iter().for_each(visit);
        }
        BoundKind::Slice(array, low, high) => {
            visit(array);
            low.iter().for_each(|low| visit(low));
            high.iter().for_each(|high| visit(high));
        }
        BoundKind::SetElement(parts) => {
            std::iter::once(&parts.0).chain(&parts.1).chain([&parts.2]).for_each(visit);
        }
        BoundKind::Subquery(subquery) => {
            if let SubqueryKind::Quantified { left, .. } = &subquery.kind {
                left.iter().for_each(|(left, _)| visit(left));
            }
        }
        BoundKind::Set(set) => set.arguments.iter().for_each(visit),
    }
}

/// Calls `visit` for each direct subexpression, to change it.
pub fn children_mut(bound: &mut Bound, visit: &mut dyn FnMut(&mut Bound)) {
    match &mut bound.kind {
        BoundKind::Constant(_)
        | BoundKind::Parameter(_)
        | BoundKind::Column(_)
        | BoundKind::GroupKey(_)
        | BoundKind::Aggregate(_) => {}
        BoundKind::Call(call) => call.arguments.iter_mut().for_each(visit),
        BoundKind::Operator(_, left, right) => {
            if let Some(left) = left {
                visit(left);
            }
            visit(right);
        }
        BoundKind::Coerce(_, inner)
        | BoundKind::Typmod(_, inner)
        | BoundKind::Not(inner)
        | BoundKind::Is(_, inner)
        | BoundKind::Field(inner, _) => visit(inner),
        BoundKind::And(items)
        | BoundKind::Or(items)
        | BoundKind::Coalesce(items)
        | BoundKind::MinMax(_, _, items)
        | BoundKind::Array(_, items)
        | BoundKind::Row(items) => items.iter_mut().for_each(visit),
        BoundKind::Distinct { sides, .. } | BoundKind::NullIf(_, sides) => {
            visit(&mut sides.0);
            visit(&mut sides.1);
        }
        BoundKind::In { left, rows } => {
            left.iter_mut().for_each(&mut *visit);
            rows.iter_mut().flatten().for_each(|(_, right)| visit(right));
        }
        BoundKind::Quantified { left, array, .. } => {
            visit(left);
            visit(array);
        }
        BoundKind::RowCompare { columns, .. } => {
            for (_, _, left, right) in columns {
                visit(left);
                visit(right);
            }
        }
        BoundKind::Case(branches, otherwise) => {
            for (condition, result) in branches {
                visit(condition);
                visit(result);
            }
            visit(otherwise);
        }
        BoundKind::Subscript(array, indices) => {
            visit(array);
            indices.iter_mut().for_each(visit);
        }
        BoundKind::Slice(array, low, high) => {
            visit(array);
            low.iter_mut().chain(high).for_each(|end| visit(end));
        }
        BoundKind::SetElement(parts) => {
            let (array, indices, value) = &mut **parts;
            std::iter::once(array).chain(indices).chain([value]).for_each(visit);
        }
        BoundKind::Subquery(subquery) => {
            if let SubqueryKind::Quantified { left, .. } = &mut subquery.kind {
                left.iter_mut().for_each(|(left, _)| visit(left));
            }
        }
        BoundKind::Set(set) => set.arguments.iter_mut().for_each(visit),
    }
}

/// Calls `visit` for `bound` and everything in it, subqueries included.
pub fn deep(bound: &Bound, visit: &mut dyn FnMut(&Bound)) {
    visit(bound);
    children(bound, &mut |child| deep(child, visit));
    if let BoundKind::Subquery(subquery) = &bound.kind {
        in_query(&subquery.query, &mut |child| deep(child, visit));
    }
}

/// Calls `visit` for every top expression of a query, nested queries of FROM included.
pub fn in_query(query: &Query, visit: &mut dyn FnMut(&Bound)) {
    query.outputs.iter().filter_map(|output| output.value.as_ref()).for_each(&mut *visit);
    query.limit.iter().chain(&query.offset).for_each(|bound| visit(bound));
    match &query.body {
        Body::Select(select) => {
            if let Some(from) = &select.from {
                in_from(from, visit);
            }
            select.filter.iter().chain(&select.having).for_each(&mut *visit);
            if let Some(grouping) = &select.grouping {
                grouping.keys.iter().for_each(&mut *visit);
                for aggregate in &grouping.aggregates {
                    aggregate.arguments.iter().chain(&aggregate.filter).for_each(&mut *visit);
                    aggregate.order_by.iter().for_each(|(bound, _, _)| visit(bound));
                }
            }
        }
        Body::Values(rows) => rows.iter().flatten().for_each(visit),
        Body::SetOperation { sides, .. } | Body::Recursive { sides, .. } => {
            in_query(&sides.0, visit);
            in_query(&sides.1, visit);
        }
    }
}

/// Calls `visit` for every top expression of an item of FROM.
pub fn in_from(from: &From, visit: &mut dyn FnMut(&Bound)) {
    match from {
        From::Relation(..) | From::Cte(..) | From::Working(..) => {}
        From::Subquery(query) => in_query(query, visit),
        From::Function { call: SetOrScalar::Set(set), .. } => {
            let BoundSet { arguments, .. } = &**set;
            arguments.iter().for_each(visit);
        }
        From::Function { call: SetOrScalar::Scalar(bound), .. } => visit(bound),
        From::Join { sides, condition, .. } => {
            in_from(&sides.0, visit);
            in_from(&sides.1, visit);
            condition.iter().for_each(visit);
        }
    }
}

/// Does the expression call anything whose answer changes from row to row?
pub fn is_volatile(bound: &Bound) -> bool {
    let mut found = false;
    deep(bound, &mut |part| {
        found |= match &part.kind {
            BoundKind::Call(call) => call.volatility == Volatility::Volatile,
            BoundKind::Operator(row, _, _) => row.volatility == Volatility::Volatile,
            BoundKind::Set(_) => true,
            _ => false,
        };
    });
    found
}

/// Does anything in the query?
pub fn is_volatile_query(query: &Query) -> bool {
    let mut found = false;
    in_query(query, &mut |bound| found |= is_volatile(bound));
    found
}

/// May the query be run more than once, or not at all, without anybody noticing?
pub fn may_repeat(query: &Query) -> bool {
    !matches!(query.body, Body::Recursive { .. })
        && query.locked.is_empty()
        && !is_volatile_query(query)
}

/// Every column that `bound` refers to, subqueries included.
pub fn columns(bound: &Bound, found: &mut Vec<ColumnRef>) {
    deep(bound, &mut |part| match &part.kind {
        BoundKind::Column(column) | BoundKind::GroupKey(column) | BoundKind::Aggregate(column) => {
            found.push(*column);
        }
        _ => {}
    });
}
