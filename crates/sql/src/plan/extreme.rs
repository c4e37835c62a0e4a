//! min and max of a column that an index orders: its first entry and its last, instead of all.
//!
//! Invariants: what comes of it are the rows of which one has the least value and one the greatest, if they are asked
//! for, so that aggregating them gives what aggregating all would. Rows whose value is NULL do not count, wherever the
//! index has them.

use super::Planner;
use super::access::plain_column;
use super::node::{Access, Order, Plan, TableScan};
use crate::bind::bound::{Aggregate, Bound, BoundKind, ColumnRef, Grouping, RelationId};
use crate::error::SqlResult;
use crate::parse::ast::{At, Test};
use crate::types::{Datum, TypeOid};
use atoll_kernel::api::{Direction, IndexEntry};
use std::sync::Arc;

/// Which end of a column's values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Least,
    Greatest,
}

impl Planner<'_> {
    /// Leaves of a scan the rows that these aggregates need, if they are all min or max of one column and an index
    /// gives them first.
    pub(super) fn only_extremes(&mut self, plan: Plan, grouping: &Grouping) -> SqlResult<Plan> {
        let Plan::Table(scan) = &plan else { return Ok(plan) };
        let Some((column, ends)) = extremes_of(grouping, scan.relation) else { return Ok(plan) };
        let Some(first) = self.ordered(scan, column) else { return Ok(plan) };
        let mut rows = Vec::with_capacity(2);
        for end in [End::Least, End::Greatest] {
            if ends.contains(&end) {
                rows.push(self.one_row(scan, (column, end), &first)?);
            }
        }
        let slot = self.slots.of(ColumnRef { relation: scan.relation, column });
        Ok(match (rows.pop(), rows.pop()) {
            (Some(one), None) => one,
            (Some(second), Some(first)) => Plan::SetOperation {
                operation: None,
                sides: Box::new((first, second)),
                from: (vec![slot], vec![slot]),
                slots: vec![slot],
                types: vec![TypeOid(scan.table.def.columns[column as usize].type_oid)],
            },
            _ => plan,
        })
    }

    /// How the scan gives the rows with the least values of a column first; none if it tests what no index
    /// guarantees, since many rows might fail.
    fn ordered(&self, scan: &TableScan, column: u16) -> Option<Access> {
        if scan.filter.is_some() {
            return None;
        }
        let order_of = |index: &Arc<IndexEntry>, at: usize| {
            let part = index.def.columns.get(at).filter(|part| part.column.0 == column)?;
            Some(match part.direction {
                Direction::Ascending => Order::Forward,
                Direction::Descending => Order::Backward,
            })
        };
        match &scan.access {
            Access::All if self.choices.index_scan => {
                self.choices.readable(&scan.table).find_map(|index| {
                    let order = order_of(index, 0)?;
                    let (index, prefix, low, high) = (index.clone(), Vec::new(), None, None);
                    Some(Access::Range { index, prefix, low, high, order })
                })
            }
            Access::Range { index, prefix, low, high, .. } => {
                let order = order_of(index, prefix.len())?;
                let (index, prefix) = (index.clone(), prefix.clone());
                Some(Access::Range { index, prefix, low: low.clone(), high: high.clone(), order })
            }
            _ => None,
        }
    }

    /// The first row of a scan from one of its ends whose value is not NULL.
    fn one_row(
        &mut self,
        scan: &TableScan,
        (column, end): (u16, End),
        from_least: &Access,
    ) -> SqlResult<Plan> {
        let mut scan = scan.clone();
        scan.access = from_least.clone();
        let mut may_be_null = !scan.table.def.columns[column as usize].not_null;
        if let Access::Range { order, low, high, .. } = &mut scan.access {
            if end == End::Greatest {
                *order = match order {
                    Order::Forward => Order::Backward,
                    Order::Backward => Order::Forward,
                };
            }
            // NULL is within no end.
            may_be_null &= low.is_none() && high.is_none();
        }
        if may_be_null {
            let ty = TypeOid(scan.table.def.columns[column as usize].type_oid);
            let value = BoundKind::Column(ColumnRef { relation: scan.relation, column });
            let value = Box::new(Bound::new(value, ty, At::NONE));
            let test = Bound::new(BoundKind::Is(Test::NotNull, value), TypeOid::BOOL, At::NONE);
            scan.filter = self.compile_filter(&[test])?;
        }
        scan.rows = 1.0;
        let one = self.compile(&Bound::constant(Datum::Int8(1), TypeOid::INT8))?;
        Ok(Plan::Limit(Box::new(Plan::Table(Box::new(scan))), Some(one), None))
    }
}

/// The column of the relation of which the aggregates are min or max, and which they are; none if they are anything
/// else.
fn extremes_of(grouping: &Grouping, relation: RelationId) -> Option<(u16, Vec<End>)> {
    if !grouping.keys.is_empty() {
        return None;
    }
    let extreme = |aggregate: &Aggregate| {
        let end = match aggregate.name {
            "min" => End::Least,
            "max" => End::Greatest,
            _ => return None,
        };
        let [argument] = aggregate.arguments.as_slice() else { return None };
        let (own, column, _) = plain_column(argument)?;
        let is_plain = aggregate.filter.is_none() && own == relation;
        is_plain.then_some((column, end))
    };
    let found: Vec<(u16, End)> = grouping.aggregates.iter().map(extreme).collect::<Option<_>>()?;
    let column = found.first()?.0;
    let is_one = found.iter().all(|(other, _)| *other == column);
    is_one.then(|| (column, found.into_iter().map(|(_, end)| end).collect()))
}
