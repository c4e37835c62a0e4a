//! The interval type: months, days and microseconds, as PostgreSQL keeps them apart.

/// An interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Months, years included.
    pub months: i32,
    /// Days, weeks included.
    pub days: i32,
    /// Microseconds of the time part.
    pub micros: i64,
}
