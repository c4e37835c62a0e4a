//! Memory of executions: what an operator may keep, and where the rest goes.
//!
//! Invariants: an operator that keeps rows counts them in a [`Reservation`] and moves to temporary
//! files when it has more than `work_mem` (all but what must stay in memory: one row, one group,
//! one buffer a run). Answers do not depend on it. Temporary files go with what made them, errors
//! and unwinding included. All memory together is bounded by the server's [`Budget`].

mod codec;
mod file;
mod memory;
mod seen;
mod sorter;
mod store;

pub use memory::{Budget, Memory, MemorySettings, Reservation};
pub(super) use seen::SeenKeys;
pub(super) use sorter::{SortKey, Sorted, Sorter, order};
pub use store::{RowStore, StoreCursor};

use crate::types::Datum;

/// A row kept, or on its way from a file.
pub type Row = Box<[Datum]>;

/// Bytes that a row takes, roughly.
pub fn row_bytes(row: &[Datum]) -> usize {
    size_of::<Row>() + row.iter().map(|value| size_of::<Datum>() + heap_bytes(value)).sum::<usize>()
}

/// Bytes of a value outside of itself, roughly.
fn heap_bytes(value: &Datum) -> usize {
    const ARC: usize = 16;
    match value {
        Datum::Text(text) if text.is_heap_allocated() => ARC + text.len(),
        Datum::Bytea(bytes) => ARC + bytes.len(),
        Datum::Interval(_) | Datum::Uuid(_) => ARC + 16,
        Datum::Array(array) => ARC + 64 + row_bytes(&array.elements),
        Datum::Record(record) => ARC + 64 + row_bytes(&record.fields),
        _ => 0,
    }
}
