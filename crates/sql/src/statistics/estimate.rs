//! How much of a table a condition leaves.
//!
//! As PostgreSQL's eqsel and scalarineqsel: common values by their share, the others evenly; ranges
//! by the histogram. Invariants: answers lie within 0 and 1; a value that is not known yet (a
//! parameter, another table's column) is taken for an average one.

use super::{ColumnStatistics, TableStatistics};
use crate::functions::Comparison;
use crate::types::order::Comparator;
use crate::types::{Datum, Type, order};
use std::cmp::Ordering;

/// Of a range whose end is not known yet.
const RANGE_UNKNOWN: f64 = 1.0 / 3.0;

/// Without statistics.
fn guess(comparison: Comparison) -> f64 {
    match comparison {
        Comparison::Equal => 0.005,
        Comparison::NotEqual => 0.995,
        _ => 0.33,
    }
}

/// The share of rows with `column comparison value`; `value` if it is known.
pub fn selectivity(
    table: Option<&TableStatistics>,
    column: usize,
    ty: Type,
    comparison: Comparison,
    value: Option<&Datum>,
) -> f64 {
    let known = table.and_then(|table| table.columns.get(column)).filter(|c| c.distinct > 0.0);
    let (Some(column), Some(order)) = (known, order::comparator(ty.oid)) else {
        return guess(comparison);
    };
    if value.is_some_and(Datum::is_null) {
        return 0.0;
    }
    let share = match comparison {
        Comparison::Equal => column.equal(value, order),
        Comparison::NotEqual => 1.0 - column.null_fraction - column.equal(value, order),
        _ => column.range(comparison, value, order),
    };
    share.clamp(0.0, 1.0)
}

impl ColumnStatistics {
    fn equal(&self, value: Option<&Datum>, order: Comparator) -> f64 {
        let Some(value) = value else { return (1.0 - self.null_fraction) / self.distinct };
        let same = |(common, _): &&(Datum, f64)| order(common, value) == Ordering::Equal;
        if let Some((_, share)) = self.common.iter().find(same) {
            return *share;
        }
        let others = (self.distinct - self.common.len() as f64).max(1.0);
        let even = self.uncommon() / others;
        // It is not among the common ones, so it is no more common than the least of them.
        self.common.last().map_or(even, |(_, least)| even.min(*least))
    }

    /// The share of rows whose value is neither NULL nor common.
    fn uncommon(&self) -> f64 {
        let common: f64 = self.common.iter().map(|(_, share)| share).sum();
        (1.0 - self.null_fraction - common).max(0.0)
    }

    fn range(&self, comparison: Comparison, value: Option<&Datum>, order: Comparator) -> f64 {
        let Some(value) = value else { return RANGE_UNKNOWN * (1.0 - self.null_fraction) };
        let holds = |found: &Datum| match comparison {
            Comparison::Less => order(found, value).is_lt(),
            Comparison::LessEqual => order(found, value).is_le(),
            Comparison::Greater => order(found, value).is_gt(),
            _ => order(found, value).is_ge(),
        };
        let common: f64 =
            self.common.iter().filter(|(found, _)| holds(found)).map(|(_, share)| share).sum();
        let Some(below) = self.below(value, order) else {
            return common + RANGE_UNKNOWN * self.uncommon();
        };
        let part = match comparison {
            Comparison::Less | Comparison::LessEqual => below,
            _ => 1.0 - below,
        };
        common + part * self.uncommon()
    }

    /// The share of the values in the histogram that lie below `value`.
    fn below(&self, value: &Datum, order: Comparator) -> Option<f64> {
        let parts = self.bounds.len().checked_sub(1).filter(|parts| *parts > 0)?;
        let at = self.bounds.partition_point(|bound| order(bound, value).is_lt());
        if at == 0 {
            return Some(0.0);
        }
        if at > parts {
            return Some(1.0);
        }
        let (low, high) = (&self.bounds[at - 1], &self.bounds[at]);
        let within = match (number(low), number(value), number(high)) {
            (Some(low), Some(value), Some(high)) if high > low => (value - low) / (high - low),
            _ => 0.5,
        };
        Some(((at - 1) as f64 + within.clamp(0.0, 1.0)) / parts as f64)
    }
}

/// The value as a point on a line, for interpolation.
fn number(value: &Datum) -> Option<f64> {
    Some(match value {
        Datum::Int2(value) => f64::from(*value),
        Datum::Int4(value) | Datum::Date(value) => f64::from(*value),
        Datum::Int8(value)
        | Datum::Time(value)
        | Datum::Timestamp(value)
        | Datum::Timestamptz(value) => *value as f64,
        Datum::Float4(value) => f64::from(*value),
        Datum::Float8(value) => *value,
        Datum::Oid(value) => f64::from(*value),
        Datum::Numeric(value) => value.to_f64_lossy(),
        _ => return None,
    })
    .filter(|number| number.is_finite())
}
