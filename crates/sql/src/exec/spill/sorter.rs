//! Sorting rows of any number: in memory, or in runs on disk that are merged.
//!
//! Invariants: stable: rows with equal keys come in the order in which they were added (runs are
//! merged in the order in which they were made). A row's first values are its keys. At most
//! [`Sorter::fan_in`] runs are merged at once, so merging needs no more than `work_mem`. With
//! [`Repeated::Once`] the first row of each key is given; the others go whenever rows are sorted,
//! at the latest when there are twice as many as were told apart before.

use super::file::{SpillFile, SpillReader, buffer_bytes};
use super::memory::{Memory, Reservation};
use super::{Row, row_bytes};
use crate::error::SqlResult;
use crate::exec::Cx;
use crate::exec::compare::{compare, order_head};
use crate::plan::node::Repeated;
use crate::types::{Datum, TypeOid};
use std::cmp::Ordering;

/// How one key orders.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct SortKey {
    pub ty: TypeOid,
    pub descending: bool,
    pub nulls_first: bool,
}

impl SortKey {
    /// Ascending, NULLs last.
    pub(in crate::exec) fn ascending(ty: TypeOid) -> SortKey {
        SortKey { ty, descending: false, nulls_first: false }
    }
}

/// Compares the keys of two rows.
pub(in crate::exec) fn order(keys: &[SortKey], a: &[Datum], b: &[Datum]) -> Ordering {
    for (key, (a, b)) in keys.iter().zip(a.iter().zip(b)) {
        let found = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if key.descending => compare(b, a, key.ty),
            (false, false) => compare(a, b, key.ty),
        };
        if found != Ordering::Equal {
            return found;
        }
    }
    Ordering::Equal
}

/// A row in memory, and a number that orders it as far as it goes: rows with different heads compare
/// as these do (abbreviated keys).
pub(in crate::exec) struct Headed {
    head: u64,
    row: Row,
}

fn head(keys: &[SortKey], row: &[Datum]) -> u64 {
    match (keys.first(), row.first()) {
        (Some(key), Some(Datum::Null)) if key.nulls_first => 0,
        (Some(_), Some(Datum::Null)) => u64::MAX,
        (Some(key), Some(value)) if key.descending => !order_head(value, key.ty),
        (Some(key), Some(value)) => order_head(value, key.ty),
        _ => 0,
    }
}

/// Takes rows.
pub(in crate::exec) struct Sorter {
    keys: Box<[SortKey]>,
    rows: Vec<Headed>,
    reserved: Reservation,
    runs: Vec<SpillFile>,
    /// Only so many first rows are wanted.
    first: Option<usize>,
    repeated: Repeated,
    /// As many rows as may stay of those that are there, as far as is known; none if all do. When
    /// there are more than twice as many, sorting them is worth it.
    stay: Option<usize>,
}

/// So many rows beyond that are taken while there is memory.
const BATCH: usize = 1024;

impl Sorter {
    /// Of rows that begin with these keys; `first`: only so many rows will be read.
    pub(in crate::exec) fn new(keys: Box<[SortKey]>, first: Option<usize>) -> Sorter {
        let (rows, reserved, runs) = (Vec::new(), Reservation::default(), Vec::new());
        Sorter { keys, rows, reserved, runs, first, repeated: Repeated::All, stay: first }
    }

    /// The same, that gives rows with equal keys as said.
    pub(in crate::exec) fn with(self, repeated: Repeated) -> Sorter {
        let stay = if repeated == Repeated::Once { Some(0) } else { self.stay };
        Sorter { repeated, stay, ..self }
    }

    /// Adds a row.
    pub(in crate::exec) fn add(&mut self, row: Row, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.reserved.grow(cx.memory(), size_of::<u64>() + row_bytes(&row))?;
        self.rows.push(Headed { head: head(&self.keys, &row), row });
        if let Some(stay) = self.stay {
            let room = if self.reserved.is_over() { 1 } else { BATCH };
            if self.rows.len() >= 2 * stay + room {
                self.cut(cx)?;
            }
        }
        if self.reserved.is_over() {
            self.spill(cx)?;
        }
        Ok(())
    }

    /// Keeps those rows only that may be given.
    fn cut(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.sort();
        self.stay = Some(self.rows.len());
        self.reserved.clear();
        let bytes = self.rows.iter().map(|it| size_of::<u64>() + row_bytes(&it.row)).sum();
        self.reserved.grow(cx.memory(), bytes)
    }

    /// Orders the rows, and lets go of those that will not be given.
    fn sort(&mut self) {
        let keys = &self.keys;
        let by =
            |a: &Headed, b: &Headed| a.head.cmp(&b.head).then_with(|| order(keys, &a.row, &b.row));
        self.rows.sort_by(by);
        if self.repeated == Repeated::Once {
            self.rows.dedup_by(|next, kept| by(kept, next).is_eq());
        }
        if let Some(first) = self.first {
            self.rows.truncate(first);
        }
    }

    fn spill(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.sort();
        let mut run = SpillFile::create(cx)?;
        for kept in self.rows.drain(..) {
            cx.breathe()?;
            run.push(&kept.row, cx)?;
        }
        run.finish(cx)?;
        self.rows.shrink_to(0);
        self.reserved.clear();
        self.runs.push(run);
        Ok(())
    }

    fn fan_in(memory: &Memory) -> usize {
        (memory.work_bytes() / buffer_bytes(memory)).clamp(4, 256)
    }

    /// All rows in order.
    pub(in crate::exec) fn finish(mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Sorted> {
        if self.runs.is_empty() {
            self.sort();
            let rows = std::mem::take(&mut self.rows).into_iter();
            return Ok(Sorted::Memory { rows, _reserved: self.reserved });
        }
        if !self.rows.is_empty() {
            self.spill(cx)?;
        }
        let fan_in = Sorter::fan_in(cx.memory());
        let mut runs = std::mem::take(&mut self.runs);
        while runs.len() > fan_in {
            // Neighbours are merged, so that the order of runs stays that of the rows.
            let mut merged = Vec::with_capacity(runs.len().div_ceil(fan_in));
            let mut rest = runs.into_iter().peekable();
            while rest.peek().is_some() {
                let some: Vec<SpillFile> = rest.by_ref().take(fan_in).collect();
                merged.push(merge((&self.keys, self.repeated), some, cx)?);
            }
            runs = merged;
        }
        Ok(Sorted::Runs(Merge::new((self.keys, self.repeated), runs, cx)?))
    }
}

fn merge(
    (keys, repeated): (&[SortKey], Repeated),
    mut runs: Vec<SpillFile>,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<SpillFile> {
    if runs.len() == 1
        && let Some(run) = runs.pop()
    {
        return Ok(run);
    }
    let mut merge = Merge::new((keys.into(), repeated), runs, cx)?;
    let mut out = SpillFile::create(cx)?;
    while let Some(row) = merge.next(cx)? {
        cx.breathe()?;
        out.push(&row, cx)?;
    }
    out.finish(cx)?;
    Ok(out)
}

/// Gives rows in order.
pub(in crate::exec) enum Sorted {
    /// They were few.
    Memory { rows: std::vec::IntoIter<Headed>, _reserved: Reservation },
    /// They are merged.
    Runs(Merge),
}

impl Sorted {
    /// The next row.
    pub(in crate::exec) fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Option<Row>> {
        match self {
            Sorted::Memory { rows, .. } => Ok(rows.next().map(|kept| kept.row)),
            Sorted::Runs(merge) => merge.next(cx),
        }
    }

    /// Was it more than memory holds?
    pub(in crate::exec) fn is_on_disk(&self) -> bool {
        matches!(self, Sorted::Runs(_))
    }
}

/// Runs being merged: a heap of the runs that are not at their end, by their present rows.
pub(in crate::exec) struct Merge {
    keys: Box<[SortKey]>,
    repeated: Repeated,
    runs: Vec<(SpillFile, SpillReader, Row)>,
    heap: Vec<usize>,
}

impl Merge {
    fn new(
        (keys, repeated): (Box<[SortKey]>, Repeated),
        files: Vec<SpillFile>,
        cx: &mut Cx<'_, '_>,
    ) -> SqlResult<Merge> {
        let runs = Vec::with_capacity(files.len());
        let mut merge = Merge { keys, repeated, runs, heap: Vec::new() };
        for file in files {
            let mut reader = SpillReader::default();
            if let Some(row) = reader.next(&file, cx)? {
                merge.runs.push((file, reader, row));
                merge.heap.push(merge.runs.len() - 1);
            }
        }
        for place in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(place);
        }
        Ok(merge)
    }

    fn before(&self, a: usize, b: usize) -> bool {
        let found = order(&self.keys, &self.runs[a].2, &self.runs[b].2);
        found.then(a.cmp(&b)) == Ordering::Less
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let mut least = place;
            for child in [left, right] {
                if child < self.heap.len() && self.before(self.heap[child], self.heap[least]) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.heap.swap(place, least);
            place = least;
        }
    }

    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Option<Row>> {
        let Some(given) = self.take_first(cx)? else { return Ok(None) };
        while self.repeated == Repeated::Once && self.is_next(&given) {
            self.take_first(cx)?;
        }
        Ok(Some(given))
    }

    /// Does the first of the runs' rows have the same key?
    fn is_next(&self, row: &[Datum]) -> bool {
        let first = self.heap.first().map(|run| &self.runs[*run].2);
        first.is_some_and(|first| order(&self.keys, row, first).is_eq())
    }

    fn take_first(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Option<Row>> {
        let Some(&first) = self.heap.first() else { return Ok(None) };
        let (file, reader, row) = &mut self.runs[first];
        let given = match reader.next(file, cx)? {
            Some(next) => std::mem::replace(row, next),
            None => {
                let last = std::mem::take(row);
                self.heap.swap_remove(0);
                last
            }
        };
        self.sift_down(0);
        Ok(Some(given))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_never_contradict_the_order() {
        let texts = ["", "a", "b", "the same one", "the same two", "z"].map(Datum::text);
        let numbers = [i64::MIN, -5, 0, 5, i64::MAX].map(Datum::Int8);
        let of_types = [(TypeOid::TEXT, &texts[..]), (TypeOid::INT8, &numbers[..])];
        let mut decided = 0;
        for ((ty, values), how) in of_types.iter().flat_map(|it| (0..4).map(move |how| (it, how))) {
            let key = SortKey { ty: *ty, descending: how & 1 != 0, nulls_first: how & 2 != 0 };
            let values: Vec<_> = values.iter().cloned().chain([Datum::Null]).collect();
            for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
                let (a, b) = (std::slice::from_ref(a), std::slice::from_ref(b));
                let heads = head(&[key], a).cmp(&head(&[key], b));
                assert!(heads.is_eq() || heads == order(&[key], a, b), "{key:?} {a:?} {b:?}");
                decided += usize::from(heads.is_ne());
            }
        }
        assert!(decided > 200, "{decided}");
    }
}
