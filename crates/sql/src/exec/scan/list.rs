//! The keys of a list, one after the other.
//!
//! Invariants: keys come in the order in which the list has them, equal ones as often as they are there. An array is
//! computed once a scan, at its beginning: no array, as NULL is, has no keys, and an element that is NULL or that the
//! column cannot hold is none.

use crate::error::SqlResult;
use crate::exec::{Cx, keys};
use crate::plan::node::KeyList;
use crate::types::Datum;
use atoll_kernel::api::{IndexEntry, KeyBytes};

/// A list at work.
#[derive(Default)]
pub(super) struct List {
    /// The number of the key that comes next.
    next: usize,
    /// The array, once it is computed.
    array: Option<Datum>,
}

impl List {
    /// Puts the next key that can match a row into `key`; false at the end.
    pub(super) fn next(
        &mut self,
        (index, list): (&IndexEntry, &KeyList),
        key: &mut KeyBytes,
        cx: &mut Cx<'_, '_>,
    ) -> SqlResult<bool> {
        match list {
            KeyList::Written(lists) => {
                while let Some(values) = lists.get(self.next) {
                    self.next += 1;
                    if keys::point(index, values, None, key, cx)? {
                        return Ok(true);
                    }
                }
            }
            KeyList::Elements { prefix, array, .. } => {
                if self.array.is_none() {
                    self.array = Some(array.program.eval(cx)?);
                }
                let Some(Datum::Array(elements)) = &self.array else { return Ok(false) };
                while let Some(element) = elements.elements.get(self.next) {
                    self.next += 1;
                    let last = Some((element.clone(), array.ty));
                    if keys::point(index, prefix, last, key, cx)? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}
