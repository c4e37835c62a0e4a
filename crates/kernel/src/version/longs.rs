//! Long values (rule 5.8) where versions meet them: in keys, and when a version goes.
//!
//! Invariants:
//! - A long value's pages are freed once, with the last version that refers to them: by the
//!   collection of the record whose before-image has the reference, of the delete of its row, or by
//!   the rollback of the change that put it there. Who frees has taken the reference out of the row
//!   under its leaf's latch, or owns the record, so nobody else can.
//! - Freeing is put off ([`Garbage`]): rollback and collection only note the chain, and collection
//!   frees it in portions, because a gigabyte is 65,536 pages.
//! - Keys are short. A long value whose bytes could be a key's is read when a key is made of it; a
//!   longer one is replaced by something that no index takes ([`TOO_LONG`]).
//! - If it cannot be read by who only wants to take an entry out (collection, rollback, replay), the entry is left where it is
//!   ([`unless_unread`]): whoever stood still for it would keep everything behind it. That it is harmless: it leads
//!   to no row, or to one that has another key, as entries do that a rollback found no frame for
//!   (`txn/rows/rollback.rs`) and those that a checkpoint has of what a crash undid. Who comes from an entry looks
//!   at the row, unless the leaf is *exact*: but who deletes a row, or gives it another key, clears that bit in the leaf
//!   of its entry before he commits, and a sweep sets it only if every entry's row is there with its key. The
//!   *keyed* bit says that the row has no other key: one that is gone has none (its id is not given again), and who gives a row
//!   another key clears this bit, too. A key of a unique index is taken only if the row has it.

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use super::record::ImageReader;
use super::row_buffer::RowBuffer;
use crate::base::{Error, Outcome, Result, Stop};
use crate::buffer::BufferPool;
use crate::page::keynode::KEY_BYTES_MAX;
use crate::page::overflow::{Form, LongRef};
use crate::page::rowleaf::SlotIndex;
use crate::sync::mutant;
use crate::tree::overflow::{FreeChain, FreeLeft, read_whole};
use crate::tree::table::{LeafView, TableTree};

/// Pages that are read so that they can be freed, between two chances for others to run: a disk takes a few
/// milliseconds for them.
const READS_MAX: usize = 16;

/// Stands for a value that is too long for any index.
static TOO_LONG: [u8; KEY_BYTES_MAX + 64] = [0; KEY_BYTES_MAX + 64];

/// Puts a long value's bytes behind what `out` has, if a key could have them; else something that
/// no index takes. `Retry` if its pages are gone: then what led there was not the newest, either.
pub(crate) fn append_key_value(
    table: &TableTree,
    reference: &[u8],
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let reference = LongRef::decode(reference).ok_or(Stop::Retry)?;
    read_key_value(table, reference, out).map_err(|error| match error {
        Error::Corrupt { page: Some(_), .. } => Stop::Retry,
        // Damage on disk, or none could read it.
        error => Stop::Error(error),
    })
}

/// As [`append_key_value`]. `Corrupt`, `Io`: then nothing is put there.
fn read_key_value(table: &TableTree, reference: LongRef, out: &mut Vec<u8>) -> Result<()> {
    if reference.raw_bytes as usize > KEY_BYTES_MAX {
        out.extend_from_slice(&TOO_LONG);
        return Ok(());
    }
    let start = out.len();
    let read = read_whole(table.pool(), table.long_owner(), reference, out);
    read.inspect_err(|_| out.truncate(start))
}

/// None if it is `Corrupt` or `Io`, which is told to the pool: an entry stays that was to go.
pub(crate) fn unless_unread<T>(table: &TableTree, read: Outcome<T>) -> Outcome<Option<T>> {
    match read {
        Err(Stop::Error(why)) if why.is_unreadable() && !mutant("collection-stops-at-damage") => {
            table.pool().note_unread(why);
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// Appends what a key is made of a row's column, `None` for a null; long values are read.
pub fn append_key_column(
    table: &TableTree,
    leaf: &LeafView<'_>,
    slot: SlotIndex,
    column: usize,
    out: &mut Vec<u8>,
) -> Outcome<Option<()>> {
    let start = out.len();
    match leaf.append_column(slot, column, out) {
        None => Ok(None),
        Some(Form::Inline) => Ok(Some(())),
        Some(Form::Long) => {
            let reference = out.split_off(start);
            append_key_value(table, &reference, out).map(Some)
        }
    }
}

/// Replaces the references in `row`'s cells from `first` on by what a key is made of.
#[inline]
pub(crate) fn resolve_keys(table: &TableTree, row: &mut RowBuffer, first: usize) -> Outcome<()> {
    for index in first..row.len() {
        if row.form(index) == Form::Long {
            resolve_cell(table, row, index)?;
        }
    }
    Ok(())
}

#[cold]
fn resolve_cell(table: &TableTree, row: &mut RowBuffer, index: usize) -> Outcome<()> {
    let mut value = Vec::new();
    let reference = row.column(index).unwrap_or_default().to_vec();
    append_key_value(table, &reference, &mut value)?;
    row.set(index, Some(&value));
    Ok(())
}

/// As [`resolve_keys`] of all cells, for who alone may change the row that was copied: so what it refers to is there.
/// `Corrupt`, `Io`: some cannot be read, and are references still; the others are resolved.
pub(crate) fn resolve_own_keys(table: &TableTree, row: &mut RowBuffer) -> Result<()> {
    let mut resolved = Ok(());
    for index in 0..row.len() {
        if row.form(index) == Form::Long
            && let Err(stop) = resolve_cell(table, row, index)
        {
            resolved = Err(own_error(table, stop));
        }
    }
    resolved
}

#[cold]
fn own_error(table: &TableTree, stop: Stop) -> Error {
    match stop {
        Stop::Error(error) => error,
        _ => {
            let (tree, page) = (table.id(), None);
            let detail = format!("a row of tree {tree} refers to a long value that is none");
            Error::Corrupt { page, detail }
        }
    }
}

/// Columns and their values.
pub(super) type Resolved = Vec<(u16, Vec<u8>)>;

/// The long values of a before-image that keys may be made of, resolved; empty if it has none.
pub(crate) fn resolve_image(
    table: &TableTree,
    image: ImageReader<'_>,
    is_key: impl Fn(u16) -> bool,
) -> Outcome<Resolved> {
    let mut resolved = Vec::new();
    for old in image.filter(|old| old.form == Form::Long && is_key(old.column)) {
        let mut value = Vec::new();
        append_key_value(table, old.value.unwrap_or_default(), &mut value)?;
        resolved.push((old.column, value));
    }
    Ok(resolved)
}

/// As [`resolve_image`], for who collects the record. Answers, too, which columns could not be resolved: their values cannot
/// be read, which is told, or are gone: of a column that the change left alone, and that a later change replaced, which
/// another instance has collected already.
pub(super) fn resolve_passed_image(
    table: &TableTree,
    image: ImageReader<'_>,
    is_key: impl Fn(u16) -> bool,
) -> Outcome<(Resolved, Vec<u16>)> {
    let (mut resolved, mut unknown) = (Vec::new(), Vec::new());
    for old in image.filter(|old| old.form == Form::Long && is_key(old.column)) {
        let mut value = Vec::new();
        match append_key_value(table, old.value.unwrap_or_default(), &mut value) {
            Err(Stop::Retry) => {
                // What the change itself took out is there until its record goes.
                if old.changed {
                    table.pool().note_unread(own_error(table, Stop::Retry));
                }
                unknown.push(old.column);
            }
            read => match unless_unread(table, read)? {
                Some(()) => resolved.push((old.column, value)),
                None => unknown.push(old.column),
            },
        }
    }
    Ok((resolved, unknown))
}

/// Chains that nobody refers to any more, of one instance.
#[derive(Default)]
pub(crate) struct Garbage {
    /// Where pages are; known since the first long value was met.
    pool: OnceCell<Arc<BufferPool>>,
    chains: RefCell<VecDeque<FreeChain>>,
    /// Why some could not be freed, the first time.
    failure: OnceCell<Error>,
}

impl Garbage {
    /// Says where pages are.
    pub(crate) fn know(&self, pool: &Arc<BufferPool>) {
        self.pool.get_or_init(|| pool.clone());
    }

    /// Nobody refers to the chain any more.
    pub(crate) fn add(&self, reference: LongRef) {
        self.chains.borrow_mut().push_back(FreeChain::new(reference.first));
    }

    /// Notes the long values that an image's change replaced.
    pub(crate) fn add_image(&self, image: ImageReader<'_>) {
        let replaced = image.filter(|old| old.changed && old.form == Form::Long);
        for reference in replaced.filter_map(|old| LongRef::decode(old.value?)) {
            self.add(reference);
        }
    }

    /// Whether there is nothing to free.
    pub(crate) fn is_empty(&self) -> bool {
        self.chains.borrow().is_empty()
    }

    /// Frees up to about `pages_max` pages, and not so many that must be read for it; answers how many. Of a chain with a page on
    /// disk that cannot be read the rest is nobody's; why is kept, here and by the pool.
    pub(crate) fn free(&self, pages_max: usize) -> usize {
        let Some(pool) = self.pool.get() else { return 0 };
        let mut left = FreeLeft { pages: pages_max, reads: READS_MAX };
        while left.pages > 0 && left.reads > 0 {
            let Some(mut chain) = self.chains.borrow_mut().pop_front() else { break };
            match chain.free_some(pool, &mut left) {
                Ok(()) if chain.is_gone() => {}
                Ok(()) => self.chains.borrow_mut().push_front(chain),
                Err(error) => {
                    pool.note_unread(error.clone());
                    let _ = self.failure.set(error);
                }
            }
        }
        pages_max - left.pages
    }

    /// Why some pages could not be freed, if so.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }
}
