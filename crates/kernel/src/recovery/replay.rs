//! Replay in parallel: rounds of reading (a thread a log) and applying (a thread a core).
//!
//! Invariants: a round takes all commits of all logs up to one cts, so every later round is later
//! in time; within a round each row belongs to one worker, which applies its changes in order of
//! (cts, position); a commit that changes definitions ends the commits before it: its definitions
//! take effect on one thread, then its rows go with those after it (rule 9.5). A commit larger than a
//! round comes alone, after all before it, in pieces: its definitions first, in a pass of their own, as
//! those of smaller commits do, so that rows of trees that it dropped are passed over. No queue connects
//! threads, so none can deadlock.

use rustc_hash::FxHashMap as HashMap;
use std::cell::OnceCell;
use std::time::{Duration, Instant};

use super::definitions::Definitions;
use super::feed::Feed;
use super::kept::KeptEntries;
use crate::base::{Cts, Error, HomeId, Result, RowId, TreeId};
use crate::buffer::until_done;
use crate::catalog::CATALOG_TREE;
use crate::log::LogReader;
use crate::page::overflow::StoredLong;
use crate::sync::in_parallel;
use crate::tree::hints::LeafHints;
use crate::tree::overflow::{NewLong, write_stored};
use crate::tree::table::{RestoreCursor, Restored, TableTree, Unwatched, Watch};
use crate::txn::redo::{Change, RedoReader, RedoValue};

/// Rows that go to one worker together, so that ascending rows stay ascending.
const ROWS_TOGETHER: u64 = 1 << 10;

/// Places in indexes that a worker remembers, as a power of two.
const HINTS_LOG2: u32 = 12;

/// Bytes of changed entries that a worker may note, of all indexes together, before it makes them all.
const NOTED_BYTES_MAX: usize = 8 << 20;

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

/// A change on its way to its worker.
struct Item<'a> {
    cts: Cts,
    change: Change<'a>,
    /// The place of its commit's long values in [`Parsed::longs`]; 0 is that of none.
    longs: u32,
}

/// The long values that a commit, or a piece of one, names: from number `first` on.
#[derive(Default)]
struct Longs<'a> {
    first: u64,
    values: Vec<StoredLong<'a>>,
}

/// One log's share of a round: for each worker its changes in order, and the commits that change
/// definitions.
struct Parsed<'a> {
    of_worker: Vec<Vec<Item<'a>>>,
    barriers: Vec<(Cts, &'a [u8])>,
    /// The long values of commits that have any; the first are those of no commit.
    longs: Vec<Longs<'a>>,
    notes: Vec<(Cts, &'a [u8])>,
    commits: u64,
    changes: u64,
    bytes: u64,
}

/// Whether a commit changes definitions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defines {
    Yes,
    No,
}

/// How a replay goes.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Threads that apply changes.
    pub workers: usize,
    /// Bytes that a round reads of each log, about; a larger commit is replayed in pieces of as
    /// many.
    pub round_bytes: usize,
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
    loop {
        in_parallel(feeds.iter_mut().map(|feed| move || feed.fill(round_bytes)))?;
        if feeds.iter().all(Feed::is_empty) {
            break;
        }
        let held = feeds.iter().map(Feed::held_bytes).sum();
        done.held_bytes_max = done.held_bytes_max.max(held);
        let to = feeds.iter().filter_map(Feed::complete_to).min().unwrap_or(Cts::MAX);
        round(&feeds, to, definitions, workers, &mut done)?;
        feeds.iter_mut().for_each(|feed| feed.drop_up_to(to));
        let mut tell = |done: &mut Replayed| {
            done.elapsed = began.elapsed();
            progress(done);
        };
        tell(&mut done);
        let held = feeds.iter().map(Feed::held_bytes).sum();
        for feed in &mut feeds {
            if let Some(cts) = feed.large_after(to) {
                replay_large((feed, cts, held), definitions, options, &mut done, &mut tell)?;
                feed.drop_large();
            }
        }
    }
    done.elapsed = began.elapsed();
    Ok(done)
}

fn round(
    feeds: &[Feed],
    to: Cts,
    definitions: &mut Definitions,
    workers: usize,
    done: &mut Replayed,
) -> Result<()> {
    let parsed = in_parallel(feeds.iter().map(|feed| move || parse(feed, to, workers)))?;
    let mut barriers: Vec<(Cts, &[u8])> =
        parsed.iter().flat_map(|log| log.barriers.iter().copied()).collect();
    barriers.sort_by_key(|(cts, _)| *cts);
    let mut from = Cts::ZERO;
    for (cts, payload) in &barriers {
        apply(&parsed, from, Some(*cts), definitions, workers)?;
        for change in RedoReader::new(payload) {
            let change = change?;
            if tree_of(&change) == Some(CATALOG_TREE) {
                definitions.apply(&change)?;
            }
        }
        from = *cts;
    }
    apply(&parsed, from, None, definitions, workers)?;
    for log in &parsed {
        log.notes.iter().try_for_each(|(cts, note)| definitions.note(*cts, note))?;
        done.commits += log.commits;
        done.changes += log.changes;
        done.bytes += log.bytes;
    }
    Ok(())
}

/// Replays the commit of `cts` at which `feed` stands, while all feeds hold `held` bytes.
fn replay_large(
    (feed, cts, held): (&Feed, Cts, usize),
    definitions: &mut Definitions,
    options: ReplayOptions,
    done: &mut Replayed,
    tell: &mut dyn FnMut(&mut Replayed),
) -> Result<()> {
    let ReplayOptions { workers, round_bytes } = options;
    feed.large_in_pieces(round_bytes, |reader| {
        for change in reader {
            match change? {
                Change::Note(note) => definitions.note(cts, note)?,
                change if tree_of(&change) == Some(CATALOG_TREE) => definitions.apply(&change)?,
                _ => {}
            }
        }
        Ok(())
    })?;
    done.commits += 1;
    feed.large_in_pieces(round_bytes, |reader| {
        let mut parsed = Parsed::new(workers);
        parsed.take(cts, reader)?;
        done.bytes += reader.whole().0 as u64;
        done.held_bytes_max = done.held_bytes_max.max(held + reader.bytes());
        done.changes += parsed.changes;
        apply(&[parsed], Cts::ZERO, None, definitions, workers)?;
        tell(done);
        Ok(())
    })
}

fn tree_of(change: &Change<'_>) -> Option<TreeId> {
    match change {
        Change::Insert { tree, .. } | Change::Update { tree, .. } | Change::Delete { tree, .. } => {
            Some(*tree)
        }
        Change::Note(_) => None,
    }
}

fn row_of(change: &Change<'_>) -> RowId {
    match change {
        Change::Insert { row, .. } | Change::Update { row, .. } | Change::Delete { row, .. } => {
            *row
        }
        Change::Note(_) => RowId(0),
    }
}

fn worker_of(tree: TreeId, row: RowId, workers: usize) -> usize {
    let place = (row.0 / ROWS_TOGETHER) ^ u64::from(tree.0) << 40;
    let hash = u128::from(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    ((hash * workers as u128) >> 64) as usize
}

impl<'a> Parsed<'a> {
    fn new(workers: usize) -> Parsed<'a> {
        Parsed {
            of_worker: (0..workers).map(|_| Vec::new()).collect(),
            barriers: Vec::new(),
            notes: Vec::new(),
            longs: vec![Longs::default()],
            commits: 0,
            changes: 0,
            bytes: 0,
        }
    }

    /// Takes the changes of a commit, or of a piece of one, to their workers.
    fn take(&mut self, cts: Cts, reader: &mut RedoReader<'a>) -> Result<Defines> {
        let workers = self.of_worker.len();
        let mut defines = Defines::No;
        while let Some(change) = reader.next() {
            let change = change?;
            if let Change::Note(note) = change {
                self.notes.push((cts, note));
            }
            let Some(tree) = tree_of(&change) else { continue };
            if tree == CATALOG_TREE {
                defines = Defines::Yes;
            }
            self.changes += 1;
            let worker = worker_of(tree, row_of(&change), workers);
            let longs = if reader.longs().is_empty() { 0 } else { self.longs.len() as u32 };
            self.of_worker[worker].push(Item { cts, change, longs });
        }
        if !reader.longs().is_empty() {
            let (first, values) = (reader.longs_before(), reader.longs().to_vec());
            self.longs.push(Longs { first, values });
        }
        Ok(defines)
    }
}

fn parse(feed: &Feed, to: Cts, workers: usize) -> Result<Parsed<'_>> {
    let mut parsed = Parsed::new(workers);
    for (cts, payload) in feed.up_to(to) {
        parsed.commits += 1;
        parsed.bytes += payload.len() as u64;
        if parsed.take(cts, &mut RedoReader::new(payload))? == Defines::Yes {
            parsed.barriers.push((cts, payload));
        }
    }
    Ok(parsed)
}

/// Applies what is at or above `from` and below `below`.
fn apply(
    parsed: &[Parsed<'_>],
    from: Cts,
    below: Option<Cts>,
    definitions: &Definitions,
    workers: usize,
) -> Result<()> {
    let work = (0..workers).map(|worker| {
        let lists: Vec<List<'_>> = parsed
            .iter()
            .map(|log| {
                let items = log.of_worker[worker].as_slice();
                let start = items.partition_point(|item| item.cts < from);
                let end = below
                    .map_or(items.len(), |below| items.partition_point(|item| item.cts < below));
                (&items[start..end.max(start)], log.longs.as_slice())
            })
            .collect();
        move || apply_lists(lists, definitions, HomeId(worker as u16 % definitions.homes))
    });
    in_parallel(work).map(drop)
}

/// Changes of one log for one worker, and the long values that they name.
type List<'a> = (&'a [Item<'a>], &'a [Longs<'a>]);

/// Merges the logs' lists by cts and applies them.
fn apply_lists(mut lists: Vec<List<'_>>, definitions: &Definitions, home: HomeId) -> Result<()> {
    let mut worker =
        Worker { definitions, home, tables: HashMap::default(), hints: OnceCell::new(), noted: 0 };
    loop {
        let heads = lists.iter().enumerate();
        let next = heads.filter_map(|(at, list)| Some((list.0.first()?.cts, at))).min();
        let Some((cts, at)) = next else { return worker.finish() };
        let longs = lists[at].1;
        while let Some((item, rest)) = lists[at].0.split_first().filter(|(item, _)| item.cts == cts)
        {
            lists[at].0 = rest;
            worker.apply(&item.change, &longs[item.longs as usize])?;
        }
    }
}

/// One worker of one pass.
struct Worker<'d> {
    definitions: &'d Definitions,
    home: HomeId,
    /// By tree; none for those that nobody owns.
    tables: HashMap<TreeId, Option<Replaying<'d>>>,
    /// Where index entries were put last.
    hints: OnceCell<LeafHints>,
    /// Bytes of changes of entries that were noted since all were made.
    noted: usize,
}

/// A table that a worker has changed.
struct Replaying<'d> {
    tree: &'d TableTree,
    cursor: RestoreCursor,
    /// If it has indexes that are kept.
    entries: Option<KeptEntries<'d>>,
}

impl Worker<'_> {
    fn apply(&mut self, change: &Change<'_>, longs: &Longs<'_>) -> Result<()> {
        let (definitions, home) = (self.definitions, self.home);
        let Some(id) = tree_of(change) else { return Ok(()) };
        let table = self.tables.entry(id).or_insert_with(|| {
            definitions.rows(id).map(|rows| Replaying {
                tree: &rows.tree,
                cursor: RestoreCursor::new(home),
                entries: (!rows.kept.is_empty()).then(|| KeptEntries::new(&rows.kept, &rows.tree)),
            })
        });
        let Some(Replaying { tree, cursor, entries }) = table else { return Ok(()) };
        let entries = entries.as_mut();
        let mut watched = match change {
            Change::Update { changes, .. } => {
                entries.and_then(|it| it.watch(changes.map(|(column, _)| column)))
            }
            _ => entries.map(KeptEntries::watch_all),
        };
        match &mut watched {
            Some(watch) => store(tree, cursor, change, longs, *watch)?,
            None => store(tree, cursor, change, longs, &mut Unwatched)?,
        }
        if let Some(entries) = watched {
            let hints = self.hints.get_or_init(|| LeafHints::new(HINTS_LOG2));
            self.noted += entries.changed(row_of(change), hints)?;
        }
        if self.noted > NOTED_BYTES_MAX { self.finish() } else { Ok(()) }
    }

    /// Makes all changes of entries that were put off: at the end of a pass, or when they are many.
    fn finish(&mut self) -> Result<()> {
        self.noted = 0;
        let Some(hints) = self.hints.get() else { return Ok(()) };
        let tables = self.tables.values_mut().flatten();
        tables.filter_map(|table| table.entries.as_mut()).try_for_each(|it| it.flush(hints))
    }
}

/// The long values of a change, in overflow pages, until its row has them.
struct NewLongs<'a> {
    tree: &'a TableTree,
    home: HomeId,
    longs: &'a Longs<'a>,
    written: Vec<NewLong>,
}

impl NewLongs<'_> {
    fn restored<'v>(&mut self, value: RedoValue<'v>) -> Result<Restored<'v>> {
        let number = match value {
            RedoValue::Null => return Ok(Restored::Null),
            RedoValue::Inline(value) => return Ok(Restored::Inline(value)),
            RedoValue::Long(number) => number,
        };
        // The reader has seen to it that every number is that of a long value.
        let stored = self.longs.values[(number - self.longs.first) as usize];
        let long = write_stored(self.tree.pool(), self.home, self.tree.id(), &stored)?;
        let reference = long.reference().encode();
        self.written.push(long);
        Ok(Restored::Long(reference))
    }

    fn adopt(&mut self) {
        self.written.iter_mut().for_each(NewLong::adopt);
    }
}

fn store(
    tree: &TableTree,
    cursor: &mut RestoreCursor,
    change: &Change<'_>,
    longs: &Longs<'_>,
    watch: &mut dyn Watch,
) -> Result<()> {
    let mut new = NewLongs { tree, home: cursor.home(), longs, written: Vec::new() };
    match change {
        Change::Insert { row, values, .. } => {
            let columns: Vec<Restored<'_>> =
                values.map(|value| new.restored(value)).collect::<Result<_>>()?;
            until_done(tree.pool(), || tree.restore(cursor, *row, &columns, watch))?;
            new.adopt();
            Ok(())
        }
        Change::Update { row, changes, .. } => {
            let columns: Vec<(usize, Restored<'_>)> = changes
                .map(|(column, value)| Ok((usize::from(column), new.restored(value)?)))
                .collect::<Result<_>>()?;
            let is_there =
                until_done(tree.pool(), || tree.restore_columns(cursor, *row, &columns, watch))?;
            if is_there {
                new.adopt();
                return Ok(());
            }
            let detail =
                format!("the log changes row {row} of tree {}, which is not there", tree.id());
            Err(Error::Corrupt { page: None, detail })
        }
        Change::Delete { row, .. } => {
            until_done(tree.pool(), || tree.remove(cursor, *row, watch)).map(drop)
        }
        Change::Note(_) => Ok(()),
    }
}
