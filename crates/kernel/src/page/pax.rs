//! PAX leaves (being built).

/// Bytes of the largest row.
pub const ROW_BYTES_MAX: usize = 8000;
