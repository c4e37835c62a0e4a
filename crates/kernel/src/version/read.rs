//! Which version of a row a reader, a writer or a check sees (rule 6.1, PhoebeDB's Algorithm 1).
//!
//! Invariants:
//! - A chain is walked from the newest record to older ones; the image starts as the page's and
//!   each record that is not seen is undone in the private copy. A record that is reclaimed, or
//!   none, ends the chain: it and all below are visible to everybody, and stable.
//! - Nothing read here is to be believed before the leaf's version validates (rule 6.3), unless
//!   the leaf is held; whatever a racing reader meets is bounds-checked and ends in `Retry`.
//! - A `Lock` record is not a version: it is never "seen", and the walk passes through it.
//! - No latch is taken; nobody waits here: `Stop` says what for (rule 3.5).

use super::longs::resolve_keys;
use super::record::{Header, ImageReader, Kind, header, image};
use super::row_buffer::RowBuffer;
use super::snapshot::{Fate, Judgement, Observe, SnapshotView, TransactionStates};
use super::space::UndoRef;
use super::twin;
use super::{Presence, VersionSpace};
use crate::base::{CommandId, Cts, HomeId, Observed, Outcome, RowId, Stamp, Stop, TreeId, Xid};
use crate::buffer::SideSlot;
use crate::latch::PageBytes;
use crate::page::rowleaf::{Leaf, RowState, SlotIndex};
use crate::sync::mutant;
use crate::tree::table::{LeafWrite, TableTree};

/// One row of a leaf that is read racily or held, with its versions.
pub(crate) struct RowAt<'a, 'l, B: PageBytes> {
    pub(crate) space: &'a VersionSpace,
    pub(crate) leaf: &'a Leaf<'l, B>,
    pub(crate) side: &'a SideSlot,
    pub(crate) tree: TreeId,
    /// Where long values are, for keys.
    pub(crate) table: &'a TableTree,
    pub(crate) row: RowId,
    pub(crate) slot: SlotIndex,
}

/// A reader's identity: how it judges, and where it notes what it saw.
pub(crate) struct Reader<'a> {
    pub(crate) snapshot: &'a SnapshotView,
    pub(crate) states: &'a dyn TransactionStates,
    pub(crate) observed: &'a mut dyn Observe,
}

/// The newest state of a row, for who wants to change or lock it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Newest {
    /// Visible to everybody, and stable.
    Settled,
    /// Committed at this timestamp by a transaction of this instance's log.
    Committed(HomeId, Cts),
    /// The asking transaction has it locked; its newest change, if any, is of this command.
    Own(Option<CommandId>),
    /// Another transaction has changed or locked it and has not ended.
    InFlight(Xid),
}

/// Which version of a row was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// The page's.
    Page,
    /// One that undo led back to.
    Older,
}

/// What a check for a key found (rule 5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HasKey {
    Yes,
    No,
}

/// Whether a row of another has a key of a unique index (rule 5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UniqueKey {
    /// It has, however those in flight end.
    Had,
    /// It has not.
    Free,
    /// This transaction's end decides it.
    Undecided(Xid),
}

/// So many columns, and their variable values are asked for all at once before the first is copied.
const COLUMNS_MANY: usize = 8;

/// Appends the page's version of `columns` to `out`; answers whether the row is not deleted.
#[inline]
pub(crate) fn copy_newest<B: PageBytes>(
    leaf: &Leaf<'_, B>,
    slot: SlotIndex,
    columns: &[u16],
    out: &mut RowBuffer,
) -> Presence {
    leaf.prefetch(slot, columns);
    if columns.len() >= COLUMNS_MANY {
        leaf.prefetch_heap(slot, columns);
    }
    for column in columns {
        out.push_with(|bytes| leaf.append_column(slot, *column as usize, bytes));
    }
    match leaf.state(slot) {
        RowState::Live => Presence::Present,
        RowState::Deleted => Presence::Absent,
    }
}

/// The writer of a record as of now: who has committed may not have stamped the record yet.
#[inline]
fn as_of_now(writer: Stamp, states: &dyn TransactionStates) -> Outcome<Stamp> {
    let Stamp::InFlight(xid) = writer else { return Ok(writer) };
    match states.fate(xid) {
        Fate::InFlight => Ok(writer),
        Fate::Committed(cts) => Ok(Stamp::Committed(cts)),
        Fate::Reread => Err(Stop::Retry),
    }
}

/// As [`copy_newest`], of a leaf that is held.
pub(crate) fn copy_held(
    leaf: &LeafWrite<'_>,
    slot: SlotIndex,
    columns: &[u16],
    out: &mut RowBuffer,
) -> Presence {
    copy_newest(&leaf.view(), slot, columns, out)
}

impl<B: PageBytes> RowAt<'_, '_, B> {
    /// The header of a record of this row's chain; none where the chain ends.
    #[inline]
    pub(crate) fn record(&self, at: UndoRef) -> Outcome<Option<Header>> {
        if at.is_none() {
            return Ok(None);
        }
        match self.space.undo().copy(at, header) {
            None => Ok(None),
            Some(Some(header)) if header.is_of(self.row) && header.tree == self.tree => {
                Ok(Some(header))
            }
            // Another row's record, or no record: the twin that led here was not this leaf's.
            Some(_) => Err(Stop::Retry),
        }
    }

    /// The row's newest record, dead or alive.
    #[inline]
    pub(crate) fn newest_record(&self) -> UndoRef {
        twin::newest(self.side, self.row)
    }

    /// Whether the row has one version, visible to everybody and stable.
    pub(crate) fn is_settled(&self) -> bool {
        self.space.is_dead(self.newest_record())
    }

    /// Appends the page's version of `columns` to `out`; answers whether the row is not deleted.
    #[inline]
    pub(crate) fn copy_page(&self, columns: &[u16], out: &mut RowBuffer) -> Presence {
        copy_newest(self.leaf, self.slot, columns, out)
    }

    /// Undoes the record at `at` in the cells of `out` from `base` on; answers what the row was
    /// before it.
    fn undo(
        &self,
        at: UndoRef,
        record: &Header,
        columns: &[u16],
        (out, base): (&mut RowBuffer, usize),
        present: Presence,
    ) -> Outcome<Presence> {
        match record.kind {
            Kind::Insert => return Ok(Presence::Absent),
            Kind::Delete => return Ok(Presence::Present),
            Kind::Lock => return Ok(present),
            Kind::Update => {}
        }
        let mut bytes = std::mem::take(&mut out.scratch);
        let copied = self.space.undo().copy(at, |words| {
            header(words).map(|header| image(words, &header, &mut bytes)).is_some()
        });
        if copied == Some(true) {
            for old in ImageReader::new(&bytes, record.columns).filter(|old| old.changed) {
                // A column may be asked for twice, as a value and as a part of a key.
                for (cell, _) in columns.iter().enumerate().filter(|it| *it.1 == old.column) {
                    out.set_form(base + cell, old.value, old.form);
                }
            }
        }
        out.scratch = bytes;
        // Reclaimed after it was judged as not to be seen: it was rolled back meanwhile.
        if copied == Some(true) { Ok(present) } else { Err(Stop::Retry) }
    }

    /// Appends the version that `reader` sees to `out`, or nothing. Stops: `Retry`; `WaitFor` for
    /// a writer that is deciding (rule 3.5).
    #[inline]
    pub(crate) fn visible(
        &self,
        reader: &mut Reader<'_>,
        columns: &[u16],
        out: &mut RowBuffer,
    ) -> Outcome<Presence> {
        self.visible_told(reader, columns, out).map(|(present, _)| present)
    }

    /// As [`RowAt::visible`]; says which version that is.
    #[inline]
    pub(crate) fn visible_told(
        &self,
        reader: &mut Reader<'_>,
        columns: &[u16],
        out: &mut RowBuffer,
    ) -> Outcome<(Presence, Seen)> {
        let empty = out.mark();
        let mut told = (self.copy_page(columns, out), Seen::Page);
        if twin::has_table(self.side) {
            told = self.walk(reader, columns, (out, empty.cells), told.0)?;
        }
        if told.0 == Presence::Absent {
            out.rewind(empty);
        }
        Ok(told)
    }

    fn walk(
        &self,
        reader: &mut Reader<'_>,
        columns: &[u16],
        (out, base): (&mut RowBuffer, usize),
        mut present: Presence,
    ) -> Outcome<(Presence, Seen)> {
        let (mut at, mut seen) = (self.newest_record(), Seen::Page);
        while let Some(record) = self.record(at)? {
            if record.kind != Kind::Lock {
                if self.sees(reader, at, &record)? {
                    break;
                }
                present = self.undo(at, &record, columns, (&mut *out, base), present)?;
                seen = Seen::Older;
                if record.kind == Kind::Insert {
                    break;
                }
            }
            at = record.next;
        }
        Ok((present, seen))
    }

    /// Whether the change of `record` is in the reader's snapshot; notes it if so (rule 7.4).
    #[inline]
    fn sees(&self, reader: &mut Reader<'_>, at: UndoRef, record: &Header) -> Outcome<bool> {
        let snapshot = reader.snapshot;
        let cts = match record.writer {
            Stamp::Committed(cts) if cts < snapshot.timestamp => cts,
            Stamp::Committed(_) => return Ok(false),
            // Own changes of this command or later are undone like foreign ones.
            Stamp::InFlight(xid) if Some(xid) == snapshot.own => {
                return Ok(record.command < snapshot.command
                    || (mutant("own-command-visible") && record.command == snapshot.command));
            }
            Stamp::InFlight(xid) => match reader.states.judge(xid, snapshot) {
                Judgement::Visible(cts) => cts,
                Judgement::NotVisible => return Ok(false),
                Judgement::Wait(wait) => return Err(Stop::WaitFor(wait)),
                Judgement::Reread => return Err(Stop::Retry),
            },
        };
        if !mutant("read-not-observed") {
            reader.observed.observe(Observed { home: at.home(), cts });
        }
        Ok(true)
    }

    /// The newest state of the row. Locks of ended transactions are not changes.
    pub(crate) fn newest(&self, own: Xid, states: &dyn TransactionStates) -> Outcome<Newest> {
        let mut at = self.newest_record();
        let mut mine = false;
        while let Some(record) = self.record(at)? {
            let is_change = record.kind != Kind::Lock;
            let cts = match record.writer {
                Stamp::InFlight(xid) if xid == own => {
                    if is_change {
                        return Ok(Newest::Own(Some(record.command)));
                    }
                    mine = true;
                    at = record.next;
                    continue;
                }
                // Below an own lock everything is committed.
                _ if mine => return Ok(Newest::Own(None)),
                writer => match as_of_now(writer, states)? {
                    Stamp::InFlight(xid) => return Ok(Newest::InFlight(xid)),
                    Stamp::Committed(cts) => cts,
                },
            };
            if is_change || mutant("lock-is-a-change") {
                return Ok(Newest::Committed(at.home(), cts));
            }
            at = record.next;
        }
        Ok(if mine { Newest::Own(None) } else { Newest::Settled })
    }

    /// When the newest committed version was made, if its record lives: below changes in flight.
    pub(crate) fn newest_committed(
        &self,
        states: &dyn TransactionStates,
    ) -> Outcome<Option<(HomeId, Cts)>> {
        let mut at = self.newest_record();
        while let Some(record) = self.record(at)? {
            if record.kind != Kind::Lock
                && let Stamp::Committed(cts) = as_of_now(record.writer, states)?
            {
                return Ok(Some((at.home(), cts)));
            }
            at = record.next;
        }
        Ok(None)
    }

    /// Rule 5.6: whether another row than the checker's has the key of `columns` that `matches`
    /// tests for. The newest committed version decides, and is observed; of a row in flight by the
    /// checker itself its newest version. A row in flight by another transaction has it if its newest
    /// committed version and all its uncommitted ones do; if some do and some do not, that
    /// transaction's end decides.
    pub(crate) fn unique_has_key(
        &self,
        reader: &mut Reader<'_>,
        columns: &[u16],
        out: &mut RowBuffer,
        matches: &mut dyn FnMut(&RowBuffer) -> bool,
    ) -> Outcome<UniqueKey> {
        out.clear();
        let mut matches = |version: &mut RowBuffer| self.key_matches(version, matches);
        if mutant("unique-judge-uses-snapshot") {
            let present = self.visible(reader, columns, out)?;
            let has = present == Presence::Present && matches(out)?;
            return Ok(if has { UniqueKey::Had } else { UniqueKey::Free });
        }
        let mut present = self.copy_page(columns, out);
        // Whose uncommitted versions there are, and whether any, and all of them, have the key.
        let mut others: Option<Xid> = None;
        let (mut any_has, mut all_have) = (false, true);
        let mut at = self.newest_record();
        while let Some(record) = self.record(at)? {
            let is_change = record.kind != Kind::Lock;
            let cts = match record.writer {
                Stamp::InFlight(xid) if Some(xid) == reader.snapshot.own => break,
                writer => match as_of_now(writer, reader.states)? {
                    Stamp::InFlight(xid) => {
                        if is_change {
                            let has = present == Presence::Present && matches(out)?;
                            (any_has, all_have) = (any_has || has, all_have && has);
                            others = Some(xid);
                            present = self.undo(at, &record, columns, (&mut *out, 0), present)?;
                        }
                        if record.kind == Kind::Insert {
                            break;
                        }
                        at = record.next;
                        continue;
                    }
                    Stamp::Committed(cts) => cts,
                },
            };
            if is_change {
                reader.observed.observe(Observed { home: at.home(), cts });
                break;
            }
            at = record.next;
        }
        let has = present == Presence::Present && matches(out)?;
        let agree = has == any_has && has == all_have;
        Ok(match others {
            Some(xid) if !agree || (has && mutant("key-in-flight-awaited")) => {
                UniqueKey::Undecided(xid)
            }
            _ if has => UniqueKey::Had,
            _ => UniqueKey::Free,
        })
    }

    /// Whether the version in `out` has the key that `matches` tests for, long values read.
    #[inline]
    fn key_matches(
        &self,
        out: &mut RowBuffer,
        matches: &mut dyn FnMut(&RowBuffer) -> bool,
    ) -> Outcome<bool> {
        resolve_keys(self.table, out, 0)?;
        Ok(matches(out))
    }

    /// Rule 5.5: whether a retained version of the row has the key: the page's, and those that
    /// the records above `stop` lead back to that have not passed the horizon. What lies before the
    /// change of `stop` itself is what the caller is about to give up.
    pub(crate) fn retained_has_key(
        &self,
        stop: UndoRef,
        columns: &[u16],
        out: &mut RowBuffer,
        matches: &mut dyn FnMut(&RowBuffer) -> bool,
    ) -> Outcome<HasKey> {
        out.clear();
        let mut present = self.copy_page(columns, out);
        let mut at = self.newest_record();
        loop {
            if present == Presence::Present && self.key_matches(out, matches)? {
                return Ok(HasKey::Yes);
            }
            if at == stop || mutant("entry-removed-while-retained") {
                return Ok(HasKey::No);
            }
            if self.space.has_passed(at) && !mutant("entry-kept-for-what-has-passed") {
                return Ok(HasKey::No);
            }
            let Some(record) = self.record(at)? else { return Ok(HasKey::No) };
            if record.kind == Kind::Insert {
                return Ok(HasKey::No);
            }
            present = self.undo(at, &record, columns, (&mut *out, 0), present)?;
            at = record.next;
        }
    }
}
