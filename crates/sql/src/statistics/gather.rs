//! Reading a table for ANALYZE: every row is counted, a sample of them is looked at.
//!
//! The sample is a reservoir (Vitter's algorithm R), so every row is in it with the same
//! probability; the number of different values is estimated from it by Haas and Stokes' Duj1, as
//! PostgreSQL does. Invariants: yields and heeds interrupts as queries do; holds the sample and
//! nothing else; reads what its statement's snapshot sees.

use super::{ColumnStatistics, TableStatistics};
use crate::error::SqlResult;
use crate::relations::RelationInfo;
use crate::types::order::Comparator;
use crate::types::{Datum, Type, order, storage};
use atoll_kernel::api::{ColumnId, Parker, RowBuffer, Statement, TableEntry};

/// Rows that are looked at: 300 for each of 100 parts, as PostgreSQL takes by default.
pub(super) const SAMPLE_ROWS: usize = 30_000;
/// Common values that are kept, and parts of a histogram.
const PARTS: usize = 100;
/// Longer values are counted by length only, as in PostgreSQL.
const WIDTH_MAX: usize = 1024;

/// A splitmix64 generator; sampling needs no better.
struct Random(u64);

impl Random {
    /// A number from 0 to `below`, that left out.
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(word ^ (word >> 31)) * u128::from(below)) >> 64) as u64
    }
}

/// Reads the table and describes it (57014 when interrupted).
pub(crate) fn gather(
    statement: &mut Statement<'_>,
    info: &RelationInfo,
    table: &TableEntry,
    seed: u64,
) -> SqlResult<TableStatistics> {
    let ids: Vec<ColumnId> = (0..info.columns.len()).map(|at| ColumnId(at as u16)).collect();
    let mut cursor = statement.scan(table, &ids);
    let mut row = RowBuffer::new();
    let mut random = Random(seed);
    let mut sample: Vec<Vec<(Datum, usize)>> = Vec::new();
    let mut rows = 0u64;
    while cursor.next(statement, &mut row)?.is_some() {
        rows += 1;
        if rows.is_multiple_of(16) && statement.context().should_yield() {
            let context = statement.context();
            statement.session().check(context)?;
            context.yield_now();
        }
        let place = match sample.len() {
            filled if filled < SAMPLE_ROWS => filled,
            _ => random.below(rows) as usize,
        };
        if place < SAMPLE_ROWS {
            let values = values(&row, info)?;
            match sample.get_mut(place) {
                Some(slot) => *slot = values,
                None => sample.push(values),
            }
        }
    }
    let types = info.columns.iter().map(|column| column.ty).enumerate();
    let columns = types.map(|(at, ty)| {
        let column = sample.iter_mut().map(|row| std::mem::take(&mut row[at])).collect();
        describe(column, ty, rows as f64)
    });
    Ok(TableStatistics { rows: rows as f64, columns: columns.collect() })
}

/// The row's values with their stored lengths; long ones stay behind.
fn values(row: &RowBuffer, info: &RelationInfo) -> SqlResult<Vec<(Datum, usize)>> {
    let value = |(at, ty): (usize, Type)| match row.column(at) {
        None => Ok((Datum::Null, 0)),
        // Its place is counted as a value of its own.
        Some(bytes) if bytes.len() > WIDTH_MAX => Ok((Datum::Null, bytes.len())),
        Some(bytes) => Ok((storage::decode(ty.oid, bytes)?, bytes.len())),
    };
    info.columns.iter().map(|column| column.ty).enumerate().map(value).collect()
}

/// Describes a column by its part of the sample. `rows` is how many rows the table has.
pub(super) fn describe(sample: Vec<(Datum, usize)>, ty: Type, rows: f64) -> ColumnStatistics {
    let looked_at = sample.len() as f64;
    if sample.is_empty() {
        return ColumnStatistics::default();
    }
    let bytes: usize = sample.iter().map(|(_, bytes)| bytes).sum();
    let long = sample.iter().filter(|(value, bytes)| value.is_null() && *bytes > 0).count();
    let mut values: Vec<Datum> =
        sample.into_iter().map(|(value, _)| value).filter(|value| !value.is_null()).collect();
    let there = values.len() + long;
    let mut column = ColumnStatistics {
        null_fraction: 1.0 - there as f64 / looked_at,
        width: bytes as f64 / (there as f64).max(1.0),
        ..ColumnStatistics::default()
    };
    let Some(order) = order::comparator(ty.oid) else { return column };
    values.sort_by(order);
    let groups = groups(&values, order);
    let once = groups.iter().filter(|group| group.1 == 1).count() + long;
    let not_null = rows * there as f64 / looked_at;
    column.distinct = distinct((groups.len() + long) as f64, once as f64, there as f64, not_null);
    column.common = common(&values, &groups, looked_at, rows);
    let is_common =
        |value: &Datum| column.common.iter().any(|(common, _)| order(common, value).is_eq());
    let others: Vec<(usize, usize)> =
        groups.into_iter().filter(|(at, _)| !is_common(&values[*at])).collect();
    column.bounds = bounds(&values, &others);
    column
}

/// Where each run of equal values begins, and how long it is.
fn groups(values: &[Datum], order: Comparator) -> Vec<(usize, usize)> {
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for (at, value) in values.iter().enumerate() {
        match groups.last_mut() {
            Some((start, count)) if order(&values[*start], value).is_eq() => *count += 1,
            _ => groups.push((at, 1)),
        }
    }
    groups
}

/// Different values among `total`, of which `seen` were looked at and had `found` different ones,
/// `once` of them once only.
fn distinct(found: f64, once: f64, seen: f64, total: f64) -> f64 {
    if seen >= total || found == 0.0 {
        return found;
    }
    if once >= seen {
        return total;
    }
    (seen * found / (seen - once + once * seen / total)).clamp(found, total)
}

/// Values that are clearly more common than the average; all of them, if they are few and the
/// sample shows each several times.
fn common(
    values: &[Datum],
    groups: &[(usize, usize)],
    looked_at: f64,
    rows: f64,
) -> Vec<(Datum, f64)> {
    let repeated = groups.iter().all(|(_, count)| *count > 1);
    let complete = groups.len() <= PARTS && (repeated || looked_at >= rows);
    let average = values.len() as f64 / (groups.len() as f64).max(1.0);
    let mut chosen: Vec<(usize, usize)> = groups
        .iter()
        .filter(|(_, count)| *count > 1 && (complete || *count as f64 > 1.25 * average))
        .copied()
        .collect();
    chosen.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    chosen.truncate(PARTS);
    let share = |(at, count): (usize, usize)| (values[at].clone(), count as f64 / looked_at);
    chosen.into_iter().map(share).collect()
}

/// Bounds of equally large parts of the values in these groups.
fn bounds(values: &[Datum], groups: &[(usize, usize)]) -> Vec<Datum> {
    if groups.len() < 2 {
        return Vec::new();
    }
    let spread: Vec<usize> = groups.iter().flat_map(|(at, count)| *at..at + count).collect();
    let count = groups.len().min(PARTS + 1);
    (0..count).map(|at| values[spread[at * (spread.len() - 1) / (count - 1)]].clone()).collect()
}
