//! Replay in parallel: rounds of reading (a thread a log), taking apart and applying (a thread a core).
//!
//! Invariants: a round takes all commits of all logs up to one cts, so every later round is later
//! in time; within a round each row is one worker's (`pass`), which applies its changes in order of
//! (cts, position), but row by row (`worker` says why it may); a commit that changes definitions ends the commits
//! before it: its definitions take effect on one thread, then its rows go with those after it (rule 9.5). A commit larger than a
//! round comes alone, after all before it, in pieces: its definitions first, in a pass of their own, as
//! those of smaller commits do, so that rows of trees that it dropped are passed over. No queue connects
//! threads, so none can deadlock.

use std::time::{Duration, Instant};

use super::definitions::Definitions;
use super::entries::make_all;
use super::feed::Feed;
use super::parsed::{Lists, Parsed, SOURCES_MAX, Span, row_of, trees_between};
use super::pass::Pass;
use crate::base::{Cts, Result, TreeId};
use crate::catalog::CATALOG_TREE;
use crate::log::LogReader;
use crate::sync::in_parallel;
use crate::txn::redo::{Change, RedoReader};

/// How much more memory changes of entries may take in a round than the redo that they follow from.
const NOTED_TO_REDO: usize = 2;

/// What a replay did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replayed {
    /// Commits.
    pub commits: u64,
    /// Row changes.
    pub changes: u64,
    /// Bytes of redo.
    pub bytes: u64,
    /// Bytes of redo that were in memory at once, at most.
    pub held_bytes_max: usize,
    /// How long it took.
    pub elapsed: Duration,
}

/// How many threads replay.
#[derive(Clone, Copy, Debug)]
pub struct Workers {
    /// While they hardly wait.
    pub computing: usize,
    /// While they wait for pages, of which each reads one after the other; no fewer.
    pub reading: usize,
}

/// How a replay goes.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Threads that apply changes.
    pub workers: Workers,
    /// Bytes that a round reads of each log, about; a larger commit is replayed in pieces of as
    /// many.
    pub round_bytes: usize,
}

/// What is kept from round to round, for its memory.
struct Memory {
    lists: Vec<Lists>,
    workers: Workers,
    /// Bytes of changes of entries that all workers may put off.
    noted_max: usize,
}

impl Memory {
    fn lists(&mut self) -> Lists {
        self.lists.pop().unwrap_or_else(|| Lists::new(self.workers.reading))
    }
}

/// Replays everything that `logs` hold into the trees of `definitions`. `progress` hears now and then
/// how far it is.
pub fn replay(
    logs: Vec<LogReader>,
    definitions: &mut Definitions,
    options: ReplayOptions,
    progress: &mut dyn FnMut(&Replayed),
) -> Result<Replayed> {
    let ReplayOptions { workers, round_bytes } = options;
    let began = Instant::now();
    let mut feeds: Vec<Feed> = logs.into_iter().map(Feed::new).collect();
    let mut done = Replayed::default();
    let noted_max = NOTED_TO_REDO * round_bytes * feeds.len();
    let mut memory = Memory { lists: Vec::new(), workers, noted_max };
    loop {
        in_parallel(feeds.iter_mut().map(|feed| move || feed.fill(round_bytes)))?;
        if feeds.iter().all(Feed::is_empty) {
            break;
        }
        let held = feeds.iter().map(Feed::held_bytes).sum();
        done.held_bytes_max = done.held_bytes_max.max(held);
        let to = feeds.iter().filter_map(Feed::complete_to).min().unwrap_or(Cts::MAX);
        round(&feeds, to, definitions, &mut memory, &mut done)?;
        feeds.iter_mut().for_each(|feed| feed.drop_up_to(to));
        let mut tell = |done: &mut Replayed| {
            done.elapsed = began.elapsed();
            progress(done);
        };
        tell(&mut done);
        let held = feeds.iter().map(Feed::held_bytes).sum();
        for feed in &mut feeds {
            if let Some(cts) = feed.large_after(to) {
                let place = (&*feed, cts, held, round_bytes);
                replay_large(place, definitions, &mut memory, &mut done, &mut tell)?;
                feed.drop_large();
            }
        }
    }
    definitions.remove_unread_entries()?;
    done.elapsed = began.elapsed();
    Ok(done)
}

fn round(
    feeds: &[Feed],
    to: Cts,
    definitions: &mut Definitions,
    memory: &mut Memory,
    done: &mut Replayed,
) -> Result<()> {
    // One log may have much more to say than the others: with few logs each is taken apart by several.
    let runs_each =
        (memory.workers.reading / feeds.len().max(1)).clamp(1, SOURCES_MAX / feeds.len().max(1));
    let runs = feeds.iter().flat_map(|feed| feed.up_to(to, runs_each).map(move |run| (feed, run)));
    let work: Vec<_> =
        runs.enumerate().map(|(source, (feed, run))| (feed, run, source, memory.lists())).collect();
    let parsed = in_parallel(
        work.into_iter()
            .map(|(feed, run, source, lists)| move || Parsed::of_run(feed, run, source, lists)),
    )?;
    let mut barriers: Vec<(Cts, &[u8])> =
        parsed.iter().flat_map(|log| log.barriers.iter().copied()).collect();
    barriers.sort_by_key(|(cts, _)| *cts);
    let cuts: Vec<Cts> = barriers.iter().map(|(cts, _)| *cts).collect();
    let spans = trees_between(&parsed, &cuts);
    let mut from = Cts::ZERO;
    for ((cts, payload), trees) in barriers.iter().zip(&spans) {
        apply(&parsed, ((from, Some(*cts)), trees), definitions, memory)?;
        for change in RedoReader::new(payload) {
            let change = change?;
            if row_of(&change).is_some_and(|(tree, _)| tree == CATALOG_TREE) {
                definitions.apply(&change)?;
            }
        }
        from = *cts;
    }
    apply(&parsed, ((from, None), &spans[cuts.len()]), definitions, memory)?;
    for log in &parsed {
        log.notes.iter().try_for_each(|(cts, note)| definitions.note(*cts, note))?;
        done.commits += log.commits;
        done.changes += log.changes;
        done.bytes += log.payload_bytes;
    }
    memory.lists.extend(parsed.into_iter().map(Parsed::into_lists));
    Ok(())
}

/// Replays the commit of `cts` at which `feed` stands, while all feeds hold `held` bytes, in pieces
/// of `round_bytes`.
fn replay_large(
    (feed, cts, held, round_bytes): (&Feed, Cts, usize, usize),
    definitions: &mut Definitions,
    memory: &mut Memory,
    done: &mut Replayed,
    tell: &mut dyn FnMut(&mut Replayed),
) -> Result<()> {
    feed.large_in_pieces(round_bytes, |_, reader| {
        for change in reader {
            match change? {
                Change::Note(note) => definitions.note(cts, note)?,
                change if row_of(&change).is_some_and(|(tree, _)| tree == CATALOG_TREE) => {
                    definitions.apply(&change)?
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    done.commits += 1;
    feed.large_in_pieces(round_bytes, |bytes, reader| {
        let mut parsed = Parsed::new(bytes, 0, memory.lists());
        parsed.take(cts, 0, reader)?;
        done.bytes += reader.whole().0 as u64;
        done.held_bytes_max = done.held_bytes_max.max(held + reader.bytes());
        done.changes += parsed.changes;
        let parsed = [parsed];
        let trees = trees_between(&parsed, &[]).concat();
        apply(&parsed, ((Cts::ZERO, None), &trees), definitions, memory)?;
        memory.lists.extend(parsed.map(Parsed::into_lists));
        tell(done);
        Ok(())
    })
}

/// Applies what is in a span of time, where those trees have changes.
fn apply(
    parsed: &[Parsed<'_>],
    what: (Span, &[TreeId]),
    definitions: &Definitions,
    memory: &Memory,
) -> Result<()> {
    if what.1.is_empty() {
        return Ok(());
    }
    let Memory { workers, noted_max, .. } = *memory;
    let pass = Pass::new(parsed, what, definitions, workers.reading);
    make_all(pass.run(workers, noted_max)?, workers)
}
