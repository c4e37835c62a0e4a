//! What ANALYZE found out about tables: how many values a column has, which are common, how the
//! others are spread. The planner's guesses rest on it; pg_stats shows it.
//!
//! Kept in memory, for the database, and gone with the process: a table that was not analysed since
//! the start is planned by its row count and fixed guesses. Row counts are not kept here: the kernel
//! estimates them whenever they are asked for.
//!
//! Invariants: a [`Statistics`] never changes; the [`Shelf`] swaps in a new one, with a new version,
//! so that plans made for an older one are made again. Columns are by position in their table,
//! which no definition changes for a table's oid.

pub(crate) mod estimate;
mod gather;
#[cfg(test)]
mod tests;

use crate::types::Datum;
use atoll_kernel::sync::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) use gather::gather;

/// One column, as PostgreSQL's pg_stats describes it.
#[derive(Clone, Debug, Default)]
pub struct ColumnStatistics {
    /// The share of NULLs.
    pub null_fraction: f64,
    /// Bytes of a stored value on average.
    pub width: f64,
    /// How many different values there are, NULL left out; 0 if unknown.
    pub distinct: f64,
    /// Common values with their shares of all rows, the most common first.
    pub common: Vec<(Datum, f64)>,
    /// Bounds of parts with equally many of the other values, ascending: the least to the
    /// greatest. Empty if there are fewer than two.
    pub bounds: Vec<Datum>,
}

/// One table.
#[derive(Clone, Debug, Default)]
pub struct TableStatistics {
    /// Rows that were seen.
    pub rows: f64,
    /// By position.
    pub columns: Vec<ColumnStatistics>,
}

/// When a table was last looked after, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Care {
    /// When, in microseconds since 2000-01-01 UTC; none if never.
    pub last: Option<i64>,
    /// How often since the start.
    pub count: i64,
}

impl Care {
    fn again(&mut self, at: i64) {
        self.last = Some(at);
        self.count += 1;
    }
}

/// What is kept of one table.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// What the last ANALYZE found.
    pub analyzed: Option<Arc<TableStatistics>>,
    /// Runs of VACUUM.
    pub vacuum: Care,
    /// Runs of ANALYZE.
    pub analyze: Care,
}

/// All tables, by oid.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    tables: HashMap<u32, Kept>,
}

impl Statistics {
    /// What is kept of a table.
    pub fn kept(&self, table: u32) -> Option<&Kept> {
        self.tables.get(&table)
    }

    /// What ANALYZE found in a table, if it ran.
    pub fn table(&self, table: u32) -> Option<&Arc<TableStatistics>> {
        self.tables.get(&table)?.analyzed.as_ref()
    }
}

/// The newest statistics of a database, shared by its sessions.
#[derive(Default)]
pub struct Shelf {
    // Written by ANALYZE and VACUUM, read when a statement is planned.
    newest: RwLock<Arc<Statistics>>,
    // How often plans have become doubtful. Written (release) after `newest`, read (acquire) by
    // every look at a cached plan.
    version: AtomicU64,
}

impl Shelf {
    /// What plans made now are made for.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The newest statistics.
    pub fn newest(&self) -> Arc<Statistics> {
        self.newest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps what ANALYZE found. `exists` tells which tables there are; the others are forgotten.
    pub(crate) fn analyzed(
        &self,
        found: Vec<(u32, TableStatistics)>,
        at: i64,
        exists: impl Fn(u32) -> bool,
    ) {
        self.change(|tables| {
            tables.retain(|table, _| exists(*table));
            for (table, statistics) in found {
                let kept = tables.entry(table).or_default();
                kept.analyzed = Some(Arc::new(statistics));
                kept.analyze.again(at);
            }
        });
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Notes that VACUUM ran over these tables.
    pub(crate) fn vacuumed(&self, tables: &[u32], at: i64) {
        self.change(|kept| {
            for table in tables {
                kept.entry(*table).or_default().vacuum.again(at);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<u32, Kept>)) {
        let mut newest = self.newest.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Statistics::clone(&newest);
        change(&mut next.tables);
        *newest = Arc::new(next);
    }
}
