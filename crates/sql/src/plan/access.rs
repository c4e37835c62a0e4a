//! Access paths: which index, if any, serves conditions on a table.
//!
//! Invariants: an access gives every row that satisfies the conditions it was made from; those
//! it guarantees exactly are left out of the scan's filter. A condition serves an index only if
//! the index orders the column as the condition's operator does, and its other side can be
//! computed before the scan starts.

use super::Planner;
use super::listed::Listed;
use super::node::{Access, KeyValue, Order, RangeEnd};
use crate::bind::bound::{Bound, BoundKind, RelationId};
use crate::bind::walk;
use crate::error::SqlResult;
use crate::functions::{Coercion, Comparison};
use crate::relations::RelationInfo;
use crate::statistics::TableStatistics;
use crate::statistics::estimate::selectivity;
use crate::types::{Type, TypeOid};
use atoll_kernel::api::{IndexEntry, TableEntry};
use std::collections::HashSet;
use std::sync::Arc;

/// A chosen access.
pub(super) struct Choice {
    /// The access.
    pub access: Access,
    /// Which of the conditions it guarantees.
    pub used: Vec<usize>,
    /// About how many rows it gives.
    pub rows: f64,
    /// Is it better than reading everything?
    pub indexed: bool,
}

/// A condition as an index sees it.
enum Condition<'b> {
    Compare { column: u16, comparison: Comparison, value: &'b Bound, exact: bool },
    OneOf(Listed<'b>),
}

/// The column under conversions that keep the stored form and its order.
pub(super) fn plain_column(bound: &Bound) -> Option<(RelationId, u16, TypeOid)> {
    match &bound.kind {
        BoundKind::Column(column) => Some((column.relation, column.column, bound.ty.oid)),
        BoundKind::Coerce(Coercion::Relabel, inner) => {
            let (relation, column, ty) = plain_column(inner)?;
            let strings = |oid| matches!(oid, TypeOid::TEXT | TypeOid::VARCHAR | TypeOid::NAME);
            (strings(ty) && strings(bound.ty.oid)).then_some((relation, column, bound.ty.oid))
        }
        _ => None,
    }
}

fn integer(oid: TypeOid) -> bool {
    matches!(oid, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8)
}

/// Does `value` have the column's order?
pub(super) fn same_order(column: TypeOid, value: TypeOid) -> bool {
    column == value || (integer(column) && integer(value))
}

/// The ends of a range, and which share of the table each leaves.
#[derive(Default)]
struct Ends {
    low: Option<RangeEnd>,
    high: Option<RangeEnd>,
    shares: Vec<f64>,
}

/// What is known of a table's columns.
struct Known<'a> {
    info: &'a RelationInfo,
    statistics: Option<&'a TableStatistics>,
}

impl Known<'_> {
    /// The share of rows with `column comparison value`.
    fn share(&self, column: u16, comparison: Comparison, value: Option<&Bound>) -> f64 {
        let ty = self.info.columns[column as usize].ty;
        let value = value.and_then(Bound::as_constant);
        selectivity(self.statistics, column as usize, ty, comparison, value)
    }

    /// The share of rows that one list of values of these columns has.
    fn key_share(&self, columns: &[u16]) -> f64 {
        match self.statistics {
            None => 0.005,
            Some(_) => {
                columns.iter().map(|column| self.share(*column, Comparison::Equal, None)).product()
            }
        }
    }
}

impl Planner<'_> {
    /// The best access to `relation` by `conditions`, whose other sides may use `available`
    /// relations.
    pub(super) fn access(
        &mut self,
        relation: RelationId,
        info: &RelationInfo,
        table: &Arc<TableEntry>,
        conditions: &[Bound],
        available: &HashSet<RelationId>,
    ) -> SqlResult<Choice> {
        let found: Vec<(usize, Condition<'_>)> = conditions
            .iter()
            .enumerate()
            .filter_map(|(index, bound)| {
                Some((index, self.condition_on(relation, bound, available)?))
            })
            .collect();
        let total = (table.approximate_rows() as f64).max(1.0);
        let statistics = self.view.statistics.table(info.oid).cloned();
        let known = Known { info, statistics: statistics.as_deref() };
        let mut filtered = total;
        for (_, condition) in &found {
            filtered *= match condition {
                Condition::Compare { column, comparison, value, .. } => {
                    known.share(*column, *comparison, Some(value))
                }
                Condition::OneOf(listed) => {
                    (listed.about() * known.key_share(listed.columns())).min(0.5)
                }
            };
        }
        let mut best = Choice {
            access: Access::All,
            used: Vec::new(),
            rows: filtered.max(1.0),
            indexed: false,
        };
        let mut best_cost = total;
        let may_use = self.choices.index_scan;
        for index in self.choices.readable(table).filter(|_| may_use) {
            let Some((choice, cost)) = self.try_index(index, &known, &found, total, filtered)?
            else {
                continue;
            };
            if !best.indexed || cost < best_cost {
                best = choice;
                best_cost = cost;
            }
        }
        Ok(best)
    }

    fn condition_on<'b>(
        &self,
        relation: RelationId,
        bound: &'b Bound,
        available: &HashSet<RelationId>,
    ) -> Option<Condition<'b>> {
        if let Some((column, comparison, value)) = self.compared(relation, bound, available) {
            return Some(Condition::Compare { column, comparison, value, exact: true });
        }
        // A boolean column alone, or its negation, serves no index here.
        self.listed(relation, bound, available).map(Condition::OneOf)
    }

    /// A column of the relation, how it is compared, and with what.
    pub(super) fn compared<'b>(
        &self,
        relation: RelationId,
        bound: &'b Bound,
        available: &HashSet<RelationId>,
    ) -> Option<(u16, Comparison, &'b Bound)> {
        let BoundKind::Operator(row, Some(left), right) = &bound.kind else { return None };
        let comparison = row.comparison?;
        if let Some((own, column, ty)) = plain_column(left)
            && own == relation
            && same_order(ty, right.ty.oid)
            && self.computable(right, relation, available)
        {
            return Some((column, comparison, right));
        }
        let (own, column, ty) = plain_column(right)?;
        let fits = own == relation
            && same_order(ty, left.ty.oid)
            && self.computable(left, relation, available);
        fits.then_some((column, mirrored(comparison), left))
    }

    /// Can the value be computed before the relation is scanned?
    pub(super) fn computable(
        &self,
        value: &Bound,
        relation: RelationId,
        available: &HashSet<RelationId>,
    ) -> bool {
        let mut columns = Vec::new();
        walk::columns(value, &mut columns);
        let known = |column: &crate::bind::bound::ColumnRef| {
            column.relation != relation
                && (available.contains(&column.relation) || !self.local.contains(&column.relation))
        };
        columns.iter().all(known) && !crate::bind::walk::is_volatile(value)
    }

    fn try_index(
        &mut self,
        index: &Arc<IndexEntry>,
        known: &Known<'_>,
        found: &[(usize, Condition<'_>)],
        total: f64,
        filtered: f64,
    ) -> SqlResult<Option<(Choice, f64)>> {
        let info = known.info;
        let unique = index.def.kind.is_unique();
        let mut fraction = 1.0;
        let width = index.def.columns.len();
        let mut prefix: Vec<KeyValue> = Vec::new();
        let mut used = Vec::new();
        for part in &index.def.columns {
            let column = part.column.0;
            let equal = found.iter().find(|(_, condition)| {
                matches!(condition, Condition::Compare { column: own, comparison: Comparison::Equal, .. } if *own == column)
            });
            let Some((at, Condition::Compare { value, .. })) = equal else { break };
            prefix.push(self.key_value(value, info.columns[column as usize].ty)?);
            used.push(*at);
            fraction *= match known.statistics {
                Some(_) => known.share(column, Comparison::Equal, Some(value)),
                None if unique => 0.005,
                None => 0.02,
            };
        }
        if prefix.len() == width && unique {
            let access = Access::Point(index.clone(), prefix);
            return Ok(Some((Choice { access, used, rows: 1.0, indexed: true }, 0.0)));
        }
        if let Some(choice) = self.try_in(index, known, found, &prefix, total * fraction)? {
            return Ok(Some(choice));
        }
        let Ends { low, high, shares } = match index.def.columns.get(prefix.len()) {
            Some(part) => self.range_ends(part.column.0, known, found, &mut used)?,
            None => Ends::default(),
        };
        if prefix.is_empty() && low.is_none() && high.is_none() {
            return Ok(None);
        }
        fraction *= match (shares.as_slice(), known.statistics) {
            // What lies above the one and below the other.
            ([a, b], Some(_)) => (a + b - 1.0).max(0.005),
            (shares, _) => shares.iter().product(),
        };
        // Not rounded up to a row: of two indexes the one that leaves less is better, also where
        // the guesses say that either leaves next to nothing.
        let rows = total * fraction;
        let order = Order::Forward;
        let access = Access::Range { index: index.clone(), prefix, low, high, order };
        let choice = Choice { access, used, rows: rows.min(filtered).max(1.0), indexed: true };
        Ok(Some((choice, rows * 1.2)))
    }

    /// Ends that conditions set to the range of a column; those that they guarantee are `used`.
    fn range_ends(
        &mut self,
        column: u16,
        known: &Known<'_>,
        found: &[(usize, Condition<'_>)],
        used: &mut Vec<usize>,
    ) -> SqlResult<Ends> {
        let ty = known.info.columns[column as usize].ty;
        let mut ends = Ends::default();
        for (at, condition) in found {
            let Condition::Compare { column: own, comparison, value, exact } = condition else {
                continue;
            };
            let end = match comparison {
                Comparison::Greater | Comparison::GreaterEqual => &mut ends.low,
                Comparison::Less | Comparison::LessEqual => &mut ends.high,
                _ => continue,
            };
            if *own != column || end.is_some() {
                continue;
            }
            let inclusive = matches!(comparison, Comparison::GreaterEqual | Comparison::LessEqual);
            *end = Some(RangeEnd { value: self.key_value(value, ty)?, inclusive });
            ends.shares.push(known.share(column, *comparison, Some(value)));
            if *exact {
                used.push(*at);
            }
        }
        Ok(ends)
    }

    /// IN lists over the columns that follow the equal ones, or over the leading ones.
    fn try_in(
        &mut self,
        index: &Arc<IndexEntry>,
        known: &Known<'_>,
        found: &[(usize, Condition<'_>)],
        prefix: &[KeyValue],
        total: f64,
    ) -> SqlResult<Option<(Choice, f64)>> {
        let info = known.info;
        let wanted: Vec<u16> =
            index.def.columns[prefix.len()..].iter().map(|part| part.column.0).collect();
        for (at, condition) in found {
            let Condition::OneOf(listed) = condition else { continue };
            let columns = listed.columns();
            let leads = columns.len() <= wanted.len()
                && wanted[..columns.len()].iter().all(|column| columns.contains(column));
            if !leads || columns.is_empty() {
                continue;
            }
            let keys = self.key_list(listed, info, prefix, &wanted[..columns.len()])?;
            let whole = prefix.len() + columns.len() == index.def.columns.len();
            let each = match whole && index.def.kind.is_unique() {
                true => 1.0,
                false => total * known.key_share(columns),
            };
            let rows = (listed.about() * each.max(1.0)).min(total);
            let mut used = vec![*at];
            used.extend(found.iter().filter_map(|(other, condition)| match condition {
                Condition::Compare { column, comparison: Comparison::Equal, .. }
                    if index.def.columns[..prefix.len()].iter().any(|p| p.column.0 == *column) =>
                {
                    Some(*other)
                }
                _ => None,
            }));
            // Two equalities on one column: only the first is in the key.
            used.truncate(1 + prefix.len());
            let access = Access::Points(index.clone(), keys);
            return Ok(Some((Choice { access, used, rows, indexed: true }, rows * 1.2)));
        }
        Ok(None)
    }

    pub(super) fn key_value(&mut self, value: &Bound, ty: Type) -> SqlResult<KeyValue> {
        Ok(KeyValue { program: self.compile(value)?, ty })
    }
}

fn mirrored(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessEqual => Comparison::GreaterEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterEqual => Comparison::LessEqual,
        other => other,
    }
}
