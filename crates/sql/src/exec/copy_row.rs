//! Between datums and the kernel's physical columns.
//!
//! Invariants: an [`Encoder`] keeps its memory from row to row; the values it lends are valid
//! until the next row.

use super::program::Slot;
use crate::error::SqlResult;
use crate::types::{Datum, TypeOid, storage};
use atoll_kernel::api::{ColumnType, RowView};

/// A row of physical columns being made, or several.
#[derive(Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    ends: Vec<Option<(u32, u32)>>,
}

impl Encoder {
    /// Bytes that it keeps, about.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity().max(self.ends.capacity())
    }

    /// Begins a new row.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends a value of a column of this physical type.
    pub fn push(&mut self, physical: ColumnType, value: &Datum) -> SqlResult<()> {
        if value.is_null() {
            self.ends.push(None);
            return Ok(());
        }
        let start = self.bytes.len() as u32;
        storage::encode(physical, value, &mut self.bytes)?;
        self.ends.push(Some((start, self.bytes.len() as u32)));
        Ok(())
    }

    /// Forgets all values but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        let end = self.ends.iter().rev().find_map(|ends| *ends).map_or(0, |(_, end)| end);
        self.bytes.truncate(end as usize);
    }

    /// Bytes that all values take.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The value at `index`.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        self.ends[index].map(|(start, end)| &self.bytes[start as usize..end as usize])
    }

    /// Calls `run` with all values; up to a few need no allocation.
    pub fn with_values<R>(&self, run: impl FnOnce(&[Option<&[u8]>]) -> R) -> R {
        const FEW: usize = 16;
        if self.ends.len() <= FEW {
            let mut values = [None; FEW];
            for (index, value) in values.iter_mut().enumerate().take(self.ends.len()) {
                *value = self.value(index);
            }
            return run(&values[..self.ends.len()]);
        }
        let values: Vec<Option<&[u8]>> = (0..self.ends.len()).map(|i| self.value(i)).collect();
        run(&values)
    }
}

/// Copies a row's columns into slots of the frame.
#[inline]
pub fn decode_row(
    row: RowView<'_>,
    types: &[TypeOid],
    slots: &[Slot],
    frame: &mut [Datum],
) -> SqlResult<()> {
    for (index, (ty, slot)) in types.iter().zip(slots).enumerate() {
        frame[*slot as usize] = match row.column(index) {
            Some(bytes) => storage::decode(*ty, bytes)?,
            None => Datum::Null,
        };
    }
    Ok(())
}
