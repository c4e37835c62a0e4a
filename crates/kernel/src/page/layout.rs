//! The columns of a table as its leaves store them (rule 5.2).
//!
//! Invariants: a layout never changes once a leaf names its version; a newer one only adds
//! columns at the end. Types here are physical: what they mean is the business of the layers above.

use crate::base::{Error, Result};

/// The physical form of one column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ColumnType {
    /// One byte, 0 or 1.
    Bool,
    /// Two bytes, little-endian, signed.
    Int2,
    /// Four bytes, little-endian, signed.
    Int4,
    /// Eight bytes, little-endian, signed.
    Int8,
    /// Eight bytes, IEEE 754, little-endian.
    Float8,
    /// Any number of bytes; they compare as byte strings.
    Bytes,
    /// Variable bytes of which all but the last `trailer` compare as byte strings (numeric).
    Ordered {
        /// Bytes at the end that play no part in the order.
        trailer: u8,
    },
}

impl ColumnType {
    /// Bytes of a value if they are always the same number, `None` if values vary.
    #[inline]
    pub const fn fixed_bytes(self) -> Option<usize> {
        match self {
            ColumnType::Bool => Some(1),
            ColumnType::Int2 => Some(2),
            ColumnType::Int4 => Some(4),
            ColumnType::Int8 | ColumnType::Float8 => Some(8),
            ColumnType::Bytes | ColumnType::Ordered { .. } => None,
        }
    }
}

/// Bytes of a variable column in a row's fixed part: offset and length into the heap, 16 bits each.
pub(crate) const VARIABLE_ENTRY_BYTES: usize = 4;

/// Bytes of a row's id, which its fixed part begins with.
pub(crate) const ROW_ID_BYTES: usize = 8;

/// Columns that a table may have at most (as in PostgreSQL).
pub const COLUMNS_MAX: usize = 1600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnPlace {
    /// Bytes of a row's fixed part before this column's value.
    pub before: u32,
    /// Bytes of this column's value there.
    pub width: u16,
    pub variable: bool,
}

/// One version of a table's columns, with what the leaf code needs precomputed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    version: u16,
    columns: Vec<ColumnType>,
    places: Vec<ColumnPlace>,
    /// Columns whose values vary in length.
    variable: Vec<u16>,
    /// Bytes of a row's bits: of deletion, and of null for each column.
    bits_bytes: usize,
    fixed_bytes: usize,
}

impl Layout {
    /// Layout `version` with `columns`. Error: `TooLarge` if a row's fixed part could not fit.
    pub fn new(version: u16, columns: Vec<ColumnType>) -> Result<Layout> {
        if columns.len() > COLUMNS_MAX {
            return Err(Error::TooLarge {
                what: "table: columns",
                bytes: columns.len(),
                bytes_max: COLUMNS_MAX,
            });
        }
        let mut places = Vec::with_capacity(columns.len());
        let bits_bytes = (1 + columns.len()).div_ceil(8);
        let (mut variable, mut before) = (Vec::new(), ROW_ID_BYTES + bits_bytes);
        for (number, column) in columns.iter().enumerate() {
            let fixed = column.fixed_bytes();
            if fixed.is_none() {
                variable.push(number as u16);
            }
            let width = fixed.unwrap_or(VARIABLE_ENTRY_BYTES);
            places.push(ColumnPlace {
                before: before as u32,
                width: width as u16,
                variable: fixed.is_none(),
            });
            before += width;
        }
        let row_bytes = before - ROW_ID_BYTES - bits_bytes;
        if row_bytes > super::rowleaf::ROW_BYTES_MAX {
            return Err(Error::TooLarge {
                what: "row: fixed-width part",
                bytes: row_bytes,
                bytes_max: super::rowleaf::ROW_BYTES_MAX,
            });
        }
        Ok(Layout { version, columns, places, variable, bits_bytes, fixed_bytes: before })
    }

    /// The number by which leaves name this layout.
    #[inline]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The columns in order.
    #[inline]
    pub fn columns(&self) -> &[ColumnType] {
        &self.columns
    }

    /// Bytes of a row's fixed part: its id, its bits, and for each column its value or where that is.
    #[inline]
    pub(crate) fn fixed_bytes(&self) -> usize {
        self.fixed_bytes
    }

    /// Bytes of a row's bits, which are behind its id.
    #[inline]
    pub(crate) fn bits_bytes(&self) -> usize {
        self.bits_bytes
    }

    /// Where the values are in a row's fixed part.
    #[inline]
    pub(crate) fn values_at(&self) -> usize {
        ROW_ID_BYTES + self.bits_bytes
    }

    /// Bytes of the values in a row's fixed part, without its id and bits.
    #[inline]
    pub(crate) fn row_bytes(&self) -> usize {
        self.fixed_bytes - self.values_at()
    }

    /// The columns whose values vary in length, in order.
    #[inline]
    pub(crate) fn variable(&self) -> &[u16] {
        &self.variable
    }

    /// Where each column is, in order.
    #[inline]
    pub(crate) fn places(&self) -> &[ColumnPlace] {
        &self.places
    }

    #[inline]
    pub(crate) fn place(&self, column: usize) -> Option<ColumnPlace> {
        self.places.get(column).copied()
    }
}
