//! Order-preserving keys from column values (rule 5.4).
//!
//! Keys of the same parts compare as byte strings exactly as their values compare column by
//! column; no key is a prefix of another one of the same parts, and the encoding of the first n
//! columns is a prefix of the whole, so it can bound a scan.
#![expect(clippy::todo, unused_variables)]

use crate::page::ColumnType;

/// Ascending or descending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// Where nulls sort, whatever the direction of the values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Nulls {
    /// Before all values.
    First,
    /// After all values.
    Last,
}

/// How one column goes into a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct KeyPart {
    /// The column's physical type.
    pub column: ColumnType,
    /// The direction of its values.
    pub direction: Direction,
    /// Where its nulls go.
    pub nulls: Nulls,
}

impl KeyPart {
    /// Ascending with nulls last: PostgreSQL's default.
    pub const fn ascending(column: ColumnType) -> KeyPart {
        KeyPart { column, direction: Direction::Ascending, nulls: Nulls::Last }
    }
}

/// Appends the key of `values` (one for each of the first `values.len()` parts; `None` is null) to
/// `out`. A fixed-width value must have its type's width; bytes beyond it are ignored and missing
/// ones read as zero.
pub fn encode_key(parts: &[KeyPart], values: &[Option<&[u8]>], out: &mut Vec<u8>) {
    todo!()
}
