//! A set of keys that answers at once whether a key is new, whatever their number: UNION of WITH
//! RECURSIVE has to know before the row is worked on.
//!
//! Invariants: keys in memory up to `work_mem`; then they become a run on disk, sorted by hash, of
//! which every [`STRIDE`]th key's place is remembered. Runs of one level are merged when there are
//! [`FAN_IN`], so there are few. A filter of bits, a quarter of `work_mem`, spares most new keys the
//! look into the runs: it may say that a key is there which is not, never the other way round. A key
//! is in memory or in one run.

use super::Row;
use super::file::{SpillFile, SpillReader};
use super::memory::Reservation;
use crate::error::SqlResult;
use crate::exec::filter::KEY_BYTES;
use crate::exec::{Cx, KeySet};
use crate::types::Datum;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One place of so many keys is remembered.
const STRIDE: u64 = 64;

/// So many runs of one level become one.
const FAN_IN: usize = 8;

/// The keys that were seen.
#[derive(Default)]
pub(in crate::exec) struct SeenKeys {
    newest: KeySet,
    reserved: Reservation,
    runs: Vec<Run>,
    filter: Filter,
}

/// Keys on disk.
struct Run {
    file: SpillFile,
    reader: SpillReader,
    /// How often its keys were merged.
    level: u32,
    /// The hash of every [`STRIDE`]th key, and where it is.
    places: Vec<(u64, u64)>,
    reserved: Reservation,
}

/// Bits that the hashes of the keys on disk have set.
#[derive(Default)]
struct Filter {
    words: Vec<u64>,
    reserved: Reservation,
}

fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

impl SeenKeys {
    /// Adds a key; true if it is new.
    pub(in crate::exec) fn add(&mut self, key: Vec<u8>, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if self.newest.contains(&key) || self.is_on_disk(&key, cx)? {
            return Ok(false);
        }
        self.reserved.grow(cx.memory(), key.len() + KEY_BYTES)?;
        self.newest.insert(key);
        if self.reserved.is_over() {
            self.write(cx)?;
        }
        Ok(true)
    }

    fn is_on_disk(&mut self, key: &[u8], cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if self.runs.is_empty() {
            return Ok(false);
        }
        let hash = hash_of(key);
        if !self.filter.may_have(hash) {
            return Ok(false);
        }
        for run in &mut self.runs {
            if run.has(hash, key, cx)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes a run of the keys in memory.
    fn write(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        cx.note_disk(true);
        if self.filter.words.is_empty() {
            let words = (cx.memory().work_bytes() / 4 / size_of::<u64>()).max(1);
            self.filter.reserved.grow(cx.memory(), words * size_of::<u64>())?;
            self.filter.words = vec![0; words];
        }
        let mut keys: Vec<(u64, Vec<u8>)> =
            self.newest.drain().map(|key| (hash_of(&key), key)).collect();
        keys.sort_unstable();
        let mut run = Run::new(0, cx)?;
        for (hash, key) in keys {
            cx.breathe()?;
            self.filter.set(hash);
            run.push(hash, &[Datum::Int8(hash as i64), Datum::Bytea(key.into())], cx)?;
        }
        self.newest.shrink_to(0);
        self.reserved.clear();
        run.file.finish(cx)?;
        self.runs.push(run);
        self.merge(cx)
    }

    /// Merges the newest runs while there are too many of one level.
    fn merge(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        while let Some(level) = self.runs.last().map(|run| run.level) {
            let first = self.runs.len().saturating_sub(FAN_IN);
            if self.runs.len() < FAN_IN || self.runs[first].level != level {
                break;
            }
            let runs = self.runs.split_off(first);
            self.runs.push(merged(runs, level + 1, cx)?);
        }
        Ok(())
    }
}

impl Run {
    fn new(level: u32, cx: &mut Cx<'_, '_>) -> SqlResult<Run> {
        let file = SpillFile::create(cx)?;
        let (reader, reserved) = (SpillReader::default(), Reservation::default());
        Ok(Run { file, reader, level, places: Vec::new(), reserved })
    }

    fn push(&mut self, hash: u64, row: &[Datum], cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        if self.file.rows().is_multiple_of(STRIDE) {
            self.reserved.grow(cx.memory(), size_of::<(u64, u64)>())?;
            self.places.push((hash, self.file.end()));
        }
        self.file.push(row, cx)
    }

    fn has(&mut self, hash: u64, key: &[u8], cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        // Keys with the same hash may begin before the first place that has it.
        let after = self.places.partition_point(|(first, _)| *first < hash);
        let Some((_, place)) = self.places.get(after.saturating_sub(1)) else { return Ok(false) };
        self.reader.seek(*place);
        while let Some(row) = self.reader.next(&self.file, cx)? {
            let (own_hash, own_key) = parts(&row);
            if own_hash > hash {
                break;
            }
            if own_hash == hash && own_key == key {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn parts(row: &[Datum]) -> (u64, &[u8]) {
    match row {
        [hash, Datum::Bytea(key)] => (hash.as_i64() as u64, key),
        _ => (0, &[]),
    }
}

fn merged(runs: Vec<Run>, level: u32, cx: &mut Cx<'_, '_>) -> SqlResult<Run> {
    let mut heads: Vec<(Run, Row)> = Vec::with_capacity(runs.len());
    for mut run in runs {
        run.reader.seek(0);
        if let Some(row) = run.reader.next(&run.file, cx)? {
            heads.push((run, row));
        }
    }
    let mut out = Run::new(level, cx)?;
    while !heads.is_empty() {
        cx.breathe()?;
        let ordered = (0..heads.len()).min_by(|a, b| parts(&heads[*a].1).cmp(&parts(&heads[*b].1)));
        let Some(least) = ordered else { break };
        let (run, row) = &mut heads[least];
        let next = run.reader.next(&run.file, cx)?;
        let given = match next {
            Some(next) => std::mem::replace(row, next),
            None => heads.swap_remove(least).1,
        };
        out.push(parts(&given).0, &given, cx)?;
    }
    out.file.finish(cx)?;
    Ok(out)
}

impl Filter {
    /// The bits of a hash, as (word, bit).
    fn bits(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (count, step) = (self.words.len() as u64 * 64, (hash >> 32) | 1);
        (0..4u64).map(move |turn| {
            let bit = hash.wrapping_add(turn.wrapping_mul(step)) % count;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    fn set(&mut self, hash: u64) {
        for (word, bit) in self.bits(hash) {
            self.words[word] |= bit;
        }
    }

    fn may_have(&self, hash: u64) -> bool {
        self.bits(hash).all(|(word, bit)| self.words[word] & bit != 0)
    }
}
