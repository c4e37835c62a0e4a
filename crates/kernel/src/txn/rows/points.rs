//! Looking up rows by whole keys of unique indexes: one, or several with one call.
//!
//! Invariants: a row is what was asked for if the version of it that the snapshot sees has the key,
//! and only then: whether a search of the index led to it or a guess ([`crate::tree::guesses`]).
//! What was fetched ahead ([`super::ahead`]) is not believed. Reading writes nothing shared.

use super::ahead::{PointAhead, PointPlace};
use super::read::{KeyCheck, RowReader};
use crate::base::{Outcome, RowId};
use crate::sync::mutant;
use crate::tree::index::{Keyed, Near};
use crate::version::undo::Seen;
use crate::version::{Presence, RowBuffer, RowView};

/// Rows that several look-ups found, each at its look-up's number.
#[derive(Default)]
pub struct PointRows {
    found: Vec<Found>,
    pub(crate) cells: RowBuffer,
}

/// What a look-up found.
#[derive(Clone, Copy)]
struct Found {
    row: Option<RowId>,
    // Its cells begin here.
    first: usize,
}

impl PointRows {
    /// Of no look-ups.
    pub fn new() -> PointRows {
        PointRows::default()
    }

    /// Look-ups, whether they found a row or not.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there was no look-up.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The id of the row that the `at`-th look-up found; none if nothing has its key.
    ///
    /// Panics if there were fewer.
    #[inline]
    pub fn row(&self, at: usize) -> Option<RowId> {
        self.found[at].row
    }

    /// The columns asked for of the row that the `at`-th look-up found; without one there are none.
    ///
    /// Panics if there were fewer look-ups.
    #[inline]
    pub fn view(&self, at: usize) -> RowView<'_> {
        self.cells.view_from(self.found[at].first)
    }

    /// Forgets all and keeps the memory.
    pub fn clear(&mut self) {
        self.found.clear();
        self.cells.clear();
    }

    /// The cells of the row that the `at`-th look-up found.
    pub(crate) fn cells_of(&self, at: usize) -> std::ops::Range<usize> {
        let end = self.found.get(at + 1).map_or(self.cells.len(), |next| next.first);
        self.found[at].first..end
    }
}

impl RowReader<'_> {
    /// Reads the rows of the look-ups that are not in `out` yet; `found` is memory. Stops as
    /// [`RowReader::read`]; call again with the same `out`.
    pub fn read_points(
        &mut self,
        points: &[PointAhead<'_>],
        found: &mut Vec<RowId>,
        (out, check): (&mut PointRows, &mut KeyCheck),
    ) -> Outcome<()> {
        while let Some(point) = points.get(out.found.len()) {
            let empty = out.cells.mark();
            match self.read_point(point, found, (&mut out.cells, &mut *check)) {
                Ok(row) => out.found.push(Found { row, first: empty.cells }),
                Err(stop) => {
                    out.cells.rewind(empty);
                    return Err(stop);
                }
            }
        }
        Ok(())
    }

    /// Appends the row of a look-up to `out`, or nothing; `found` is memory. A stop leaves in `out` what
    /// is not to be believed. Stops as [`RowReader::read`].
    #[inline]
    pub fn read_point(
        &mut self,
        point: &PointAhead<'_>,
        found: &mut Vec<RowId>,
        (out, check): (&mut RowBuffer, &mut KeyCheck),
    ) -> Outcome<Option<RowId>> {
        let guess = match point.place.get() {
            PointPlace::Unknown => point.guess(self.hints),
            PointPlace::Guessed(row) => Some(row),
            PointPlace::Entry(_) => None,
        };
        if let Some(row) = guess
            && self.read_guessed(point, row, (&mut *out, &mut *check))? == Presence::Present
        {
            return Ok(Some(row));
        }
        self.search_point(point, found, (out, check))
    }

    /// As [`RowReader::read_point`], by the index.
    fn search_point(
        &mut self,
        point: &PointAhead<'_>,
        found: &mut Vec<RowId>,
        (out, check): (&mut RowBuffer, &mut KeyCheck),
    ) -> Outcome<Option<RowId>> {
        let PointAhead { table, index, key, columns, place } = point;
        found.clear();
        let keyed = match place.get().entry() {
            Some((row, keyed)) => {
                found.push(row);
                keyed
            }
            None => index.tree.point(Near::Hints(self.hints), key, found)?,
        };
        for row in &*found {
            let entry = (*index, *key, keyed);
            let buffers = (&mut *out, &mut *check);
            if self.append_by_key(table, entry, *row, columns, buffers)? == Presence::Present {
                self.hints.guesses.note(index.tree.tree(), key, *row);
                return Ok(Some(*row));
            }
        }
        Ok(None)
    }

    /// Appends a row to `out` that has a look-up's key, most likely: absent, and nothing appended, also
    /// if the version that is seen has another, or the row is not easily read. Then the index is to be
    /// asked.
    #[inline]
    fn read_guessed(
        &mut self,
        point: &PointAhead<'_>,
        row: RowId,
        (out, check): (&mut RowBuffer, &mut KeyCheck),
    ) -> Outcome<Presence> {
        let PointAhead { table, index, key, columns, .. } = point;
        let (empty, hint) = (out.mark(), self.hints.of_row(table.id(), row));
        let mut told = None;
        // Where the hint says, then where a descent does.
        for _ in 0..2 {
            told = table.tree.read_there(hint.get(), row, |leaf, slot| {
                let Some(slot) = slot else { return Ok(Some(Presence::Absent)) };
                let (at, mut reader) = self.at(table, leaf, slot);
                let (present, seen) = at.visible_told(&mut reader, columns, out)?;
                // Most keys are integers, of rows that nobody has changed lately.
                Ok(match (present, seen) {
                    (Presence::Absent, _) => Some(Presence::Absent),
                    (_, Seen::Older) if !mutant("guess-checked-in-page") => None,
                    _ if mutant("guess-unchecked") => Some(Presence::Present),
                    _ => index.page_has_key(leaf, slot, key).map(|has| match has {
                        true => Presence::Present,
                        false => Presence::Absent,
                    }),
                })
            });
            if told.is_some() || table.tree.prefetch_leaf_anew(hint, row).is_none() {
                break;
            }
            out.rewind(empty);
        }
        let told = told.transpose()?;
        if told == Some(Some(Presence::Present)) {
            return Ok(Presence::Present);
        }
        out.rewind(empty);
        match told {
            // An older version, or a key that is not so easily compared.
            Some(None) => {
                let entry = (*index, *key, Keyed::No);
                self.append_by_key(table, entry, row, columns, (out, check))
            }
            Some(Some(_)) | None => Ok(Presence::Absent),
        }
    }
}
