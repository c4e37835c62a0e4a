//! Values as they lie in pages: written for inserts and updates, read back out of rows.
//!
//! Invariants: forms are those of `atoll_sql::types::storage`, which writes all but the plainest;
//! a value that is not what its column promises is an error, never a default.

use atoll_kernel::api::{Error, Result, RowBuffer, RowValues, RowView};
use atoll_sql::types::{Datum, Numeric, TypeOid, storage};

/// Columns that most rows and changes have at most, and that any has.
const COLUMNS_FEW: usize = 21;
const COLUMNS_MAX: usize = 40;

/// The values of one row or change, or of several rows; reused.
#[derive(Default)]
pub struct Stored {
    bytes: Vec<u8>,
    /// Where each value ends, and whether it is NULL.
    ends: Vec<(u32, bool)>,
}

impl Stored {
    /// Forgets all values.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn end(&mut self, is_null: bool) {
        self.ends.push((self.bytes.len() as u32, is_null));
    }

    /// An integer.
    #[inline]
    pub fn int(&mut self, value: i32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self.end(false);
    }

    /// A small integer.
    #[inline]
    pub fn small(&mut self, value: i16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self.end(false);
    }

    /// A big integer.
    #[inline]
    pub fn long(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self.end(false);
    }

    /// A timestamp.
    #[inline]
    pub fn time(&mut self, micros: i64) {
        self.bytes.extend_from_slice(&micros.to_le_bytes());
        self.end(false);
    }

    /// mantissa / 10^scale, of a `numeric(p, scale)` of at most 16 digits.
    #[inline]
    pub fn decimal(&mut self, mantissa: i64, scale: u16) {
        let word = Numeric::small(mantissa, scale).encode_scaled(&mut self.bytes);
        word.expect("so few digits have a word");
        self.end(false);
    }

    /// A varchar, or bytes that are stored already.
    #[inline]
    pub fn raw(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.end(false);
    }

    /// A char(width).
    pub fn padded(&mut self, value: &str, width: usize) {
        let value = Datum::from(format!("{value:width$}"));
        let physical = storage::column_type(TypeOid::BPCHAR.into()).expect("a column type");
        storage::encode(physical, &value, &mut self.bytes).expect("text has a stored form");
        self.end(false);
    }

    /// NULL.
    #[inline]
    pub fn null(&mut self) {
        self.end(true);
    }

    /// Calls `with` with the values in order.
    #[inline]
    pub fn values<T>(&self, with: impl FnOnce(&[Option<&[u8]>]) -> T) -> T {
        match self.ends.len() {
            0..=COLUMNS_FEW => self.within::<COLUMNS_FEW, T>(with),
            _ => self.within::<COLUMNS_MAX, T>(with),
        }
    }

    /// Calls `with` with the values of several rows, each of so many columns.
    pub fn rows<T>(&self, columns: usize, with: impl FnOnce(RowValues<'_>) -> T) -> T {
        let mut start = 0;
        let values: Vec<Option<&[u8]>> = self
            .ends
            .iter()
            .map(|(end, is_null)| {
                let bytes = &self.bytes[start..*end as usize];
                start = *end as usize;
                (!is_null).then_some(bytes)
            })
            .collect();
        with(RowValues::new(&values, values.len() / columns))
    }

    #[inline]
    fn within<const N: usize, T>(&self, with: impl FnOnce(&[Option<&[u8]>]) -> T) -> T {
        let mut values = [None; N];
        let mut start = 0;
        for (value, (end, is_null)) in values.iter_mut().zip(&self.ends) {
            *value = (!is_null).then(|| &self.bytes[start..*end as usize]);
            start = *end as usize;
        }
        with(&values[..self.ends.len()])
    }
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::Internal { detail: format!("a stored value is no {what}") }
}

/// The integer in a column.
#[inline]
pub fn int<'r>(row: impl Into<RowView<'r>>, column: usize) -> Result<i32> {
    let bytes = row.into().column(column).and_then(|bytes| bytes.try_into().ok());
    bytes.map(i32::from_le_bytes).ok_or_else(|| damaged("integer"))
}

/// The big integer in a column.
#[inline]
pub fn long(row: &RowBuffer, column: usize) -> Result<i64> {
    let bytes = row.column(column).and_then(|bytes| bytes.try_into().ok());
    bytes.map(i64::from_le_bytes).ok_or_else(|| damaged("big integer"))
}

/// The small integer in a column.
#[inline]
pub fn small(row: &RowBuffer, column: usize) -> Result<i16> {
    let bytes = row.column(column).and_then(|bytes| bytes.try_into().ok());
    bytes.map(i16::from_le_bytes).ok_or_else(|| damaged("small integer"))
}

/// The decimal number in a column, as a multiple of 10^-scale.
#[inline]
pub fn decimal<'r>(row: impl Into<RowView<'r>>, column: usize, scale: u16) -> Result<i64> {
    let number = row.into().column(column).and_then(Numeric::decode_stored);
    let scaled = number.and_then(|number| number.to_scaled_i128(scale));
    scaled.and_then(|it| i64::try_from(it).ok()).ok_or_else(|| damaged("decimal number"))
}

/// The bytes in a column.
#[inline]
pub fn bytes<'r>(row: impl Into<RowView<'r>>, column: usize) -> Result<&'r [u8]> {
    row.into().column(column).ok_or_else(|| damaged("text"))
}
