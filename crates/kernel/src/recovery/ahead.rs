//! Loading the leaves that a pass is about to change, all workers' together: so neighbours on disk are read at once
//! ([`BufferPool::load_runs`]). Where they lie has little to do with the order of their keys.
//!
//! Invariants: what is loaded is a guess. A leaf that was not loaded, has left memory again, or could not be read is
//! loaded, or found damaged, when its turn comes. Nothing is latched meanwhile.

use std::borrow::Borrow;

use super::replay::Workers;
use crate::base::{NeededPage, Outcome, Result};
use crate::buffer::{BufferPool, until_done};
use crate::store::RUN_PAGES;
use crate::sync::in_turns;

/// The part of the pool that is loaded ahead at most.
const POOL_PART: usize = 4;
/// Threads that load at most, each up to a megabyte at a time: more keep no device busier.
const LOADING_MAX: usize = 64;

/// Notes the leaves of `keys` (in ascending order) that are not in memory. `look` notes the leaf of a key, if
/// it is one of them, and answers where it ends; none if it is the last.
pub(super) fn note_missing<'k, K: Ord + ?Sized + 'k, E: Borrow<K>>(
    pool: &BufferPool,
    keys: impl Iterator<Item = &'k K>,
    look: impl Fn(&K, &mut Vec<NeededPage>) -> Outcome<Option<E>>,
    missing: &mut Vec<NeededPage>,
) -> Result<()> {
    // Before the first checkpoint, and as long as all fits the pool, nothing can be missing.
    if pool.store().is_none_or(|store| store.is_empty()) {
        return Ok(());
    }
    let mut end: Option<E> = None;
    for key in keys {
        if end.as_ref().is_none_or(|end| key >= end.borrow()) {
            end = until_done(pool, || look(key, missing))?;
            if end.is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// Loads the pages that threads have noted beside the work that they have prepared; answers all that work, and how
/// many threads go on with it: fewer if there is nothing left to read.
pub(super) fn load_missing<T>(
    pool: &BufferPool,
    prepared: Vec<(Vec<T>, Vec<NeededPage>)>,
    workers: Workers,
) -> Result<(Vec<T>, usize)> {
    let (work, missing): (Vec<_>, Vec<_>) = prepared.into_iter().unzip();
    let mut missing = missing.concat();
    missing.sort_unstable_by_key(|page| page.place);
    missing.dedup_by_key(|page| page.place);
    let most = pool.frames() / POOL_PART;
    let threads = if missing.len() > most { workers.reading } else { workers.computing };
    missing.truncate(most);
    let pieces: Vec<&[NeededPage]> = missing.chunks(RUN_PAGES).collect();
    in_turns(&pieces, workers.reading.min(LOADING_MAX), |pieces| {
        pieces.for_each(|pages| pool.load_runs(pages));
        Ok(())
    })?;
    Ok((work.into_iter().flatten().collect(), threads))
}
