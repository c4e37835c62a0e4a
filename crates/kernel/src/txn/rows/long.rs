//! The long values of one change: written to overflow pages and to the redo before the change.
//!
//! Invariants: a value's pages are freed when this is dropped, unless the change has put its
//! reference into a row ([`Longs::adopt`], under the leaf's latch): from then on they go with that
//! version. The redo has the values already, as entries of their own; the change names them.

use crate::base::Pid;
use crate::page::overflow::REFERENCE_BYTES;
use crate::tree::overflow::NewLong;

/// The long values of one change.
#[derive(Default)]
pub struct Longs {
    parts: Vec<Part>,
}

struct Part {
    /// Which of the change's values.
    at: usize,
    value: NewLong,
    reference: [u8; REFERENCE_BYTES],
    /// Which of the transaction's long values in the redo.
    redo: u64,
}

impl Longs {
    /// None.
    pub fn new() -> Longs {
        Longs::default()
    }

    /// The `at`-th of the change's values is `value`, and the `redo`-th long value of the redo.
    pub fn add(&mut self, at: usize, value: NewLong, redo: u64) {
        let reference = value.reference();
        debug_assert_ne!(reference.first, Pid(0), "a long value has pages");
        self.parts.push(Part { at, value, reference: reference.encode(), redo });
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether the `at`-th value is one.
    pub fn has(&self, at: usize) -> bool {
        self.parts.iter().any(|part| part.at == at)
    }

    /// The positions of the values that are long.
    pub(super) fn positions(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|part| part.at)
    }

    /// What the row keeps of the `at`-th value, `value`.
    pub(super) fn stored<'v>(&'v self, at: usize, value: Option<&'v [u8]>) -> Option<&'v [u8]> {
        match self.parts.iter().find(|part| part.at == at) {
            Some(part) => Some(&part.reference),
            None => value,
        }
    }

    /// The number in the redo of the `at`-th value, if it is long.
    pub(super) fn in_redo(&self, at: usize) -> Option<u64> {
        self.parts.iter().find(|part| part.at == at).map(|part| part.redo)
    }

    /// A row has the references now.
    pub(super) fn adopt(&mut self) {
        self.parts.iter_mut().for_each(|part| part.value.adopt());
    }
}
