//! Aggregates: the state of one group.
//!
//! Invariants: `finish` may be called between `add`s (window frames do) and changes nothing.

use super::FunctionContext;
use crate::error::SqlResult;
use crate::types::Datum;

/// The state of one group of one aggregate call.
pub trait Accumulator {
    /// Adds one row's arguments. NULLs are the accumulator's to skip or to count.
    fn add(&mut self, args: &[Datum], context: &dyn FunctionContext) -> SqlResult<()>;

    /// The aggregate's value so far.
    fn finish(&self, context: &dyn FunctionContext) -> SqlResult<Datum>;

    /// Bytes on the heap, roughly, for the memory budget.
    fn heap_bytes(&self) -> usize {
        0
    }
}
