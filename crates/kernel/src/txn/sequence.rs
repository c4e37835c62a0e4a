//! Where a sequence stands, and how values are taken from it (rule 7.7).
//!
//! Invariants: a value is handed out only if a record that covers it, with a cts of its own, is in
//! some log: *raising* the bound is that record. It belongs to no transaction, so no rollback takes
//! it back. The records of one sequence have growing cts, because each observes the one before
//! it (rule 3.3), so the last one in order of cts says where a recovered sequence goes on: nothing
//! at or before the bound is handed out again. Who takes a value observes the record (rule 7.4):
//! an answer, and a commit, wait for it.
//!
//! The mutex is held while a record is copied into the log's buffer, which neither waits nor
//! yields; if there is no room the caller waits without it and comes again.

use super::environment::Environment;
use super::local::TxnLocal;
use super::redo::RedoBuffer;
use crate::base::{Cts, Observed, Outcome, TreeId};
use crate::runtime::Critical;
use crate::sync::{Mutex, mutant, point};

/// Values that a record covers beyond those asked for, as in PostgreSQL.
const AHEAD: u64 = 32;

/// Whether a sequence begins again at its other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cycle {
    /// It does.
    Yes,
    /// It ends there.
    No,
}

/// How a sequence counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counting {
    /// From one value to the next; not zero.
    pub increment: i64,
    /// The smallest value.
    pub min: i64,
    /// The largest value.
    pub max: i64,
    /// What comes after the last one.
    pub cycle: Cycle,
}

impl Counting {
    /// The last value before the sequence cycles or ends.
    fn limit(&self) -> i64 {
        if self.increment > 0 { self.max } else { self.min }
    }

    /// How many steps there are from `value` to the limit.
    fn steps_left(&self, value: i64) -> u64 {
        let (way, step) = (self.limit() as i128 - value as i128, self.increment as i128);
        u64::try_from(way / step).unwrap_or(0)
    }

    /// `value` and so many steps; they are left.
    fn after(&self, value: i64, steps: u64) -> i64 {
        (value as i128 + self.increment as i128 * steps as i128) as i64
    }

    /// The next value to hand out; none if the sequence has come to its end.
    fn next(&self, state: SequenceState) -> Option<i64> {
        if !state.called {
            return Some(state.last);
        }
        if self.steps_left(state.last) > 0 {
            return Some(self.after(state.last, 1));
        }
        match self.cycle {
            Cycle::No => None,
            Cycle::Yes if self.increment > 0 => Some(self.min),
            Cycle::Yes => Some(self.max),
        }
    }
}

/// Where a sequence stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceState {
    /// The last value, or the first if none was handed out.
    pub last: i64,
    /// Whether `last` was handed out.
    pub called: bool,
}

/// Values taken together: `first` and those after it, each by the increment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The first.
    pub first: i64,
    /// How many.
    pub count: u64,
    /// The record that covers them, to be observed.
    pub seen: Observed,
}

struct Values {
    state: SequenceState,
    /// What the newest record says, or what recovery found.
    logged: SequenceState,
    /// How many more values the newest record covers, and that record.
    covered: u64,
    record: Option<Observed>,
}

/// The values of one sequence: shared by all instances, and outlives definitions that change
/// nothing about them.
pub struct Sequence {
    id: TreeId,
    values: Mutex<Values>,
}

impl Sequence {
    /// Values with this number, beginning at `state`; no record covers any yet.
    pub fn new(id: TreeId, state: SequenceState) -> Sequence {
        Sequence {
            id,
            values: Mutex::new(Values { state, logged: state, covered: 0, record: None }),
        }
    }

    /// The number under which records name it, never used for other values.
    pub fn id(&self) -> TreeId {
        self.id
    }

    /// Where it stands; values that an instance keeps for later count as handed out.
    pub fn state(&self) -> SequenceState {
        self.values.lock().expect("no panic while it is held").state
    }

    /// Where it stands, and how many values may still be taken before the next record.
    pub fn state_and_covered(&self) -> (SequenceState, u64) {
        let values = self.values.lock().expect("no panic while it is held");
        (values.state, values.covered)
    }

    /// What a recovery would find, and the record that says so; none if it is older than this
    /// process.
    pub fn logged(&self) -> (SequenceState, Option<Observed>) {
        let values = self.values.lock().expect("no panic while it is held");
        (values.logged, values.record)
    }

    /// Takes the next `count` values, or as many as there are before its limit; none if it has
    /// come to its end. `raise` logs the bound that it is given, after the record that it is
    /// given; its `Stop` is answered, and nothing was taken.
    pub fn take(
        &self,
        counting: &Counting,
        count: u64,
        raise: impl FnOnce(SequenceState, Option<Observed>) -> Outcome<Observed>,
    ) -> Outcome<Option<Taken>> {
        let mut values = self.values.lock().expect("no panic while it is held");
        let Some(first) = counting.next(values.state) else { return Ok(None) };
        let more = counting.steps_left(first).min(count.max(1) - 1);
        let (last, count) = (counting.after(first, more), more + 1);
        if values.covered < count || values.record.is_none() {
            let ahead = counting.steps_left(last).min(AHEAD);
            let bound = SequenceState { last: counting.after(last, ahead), called: true };
            let record = raise(bound, values.record)?;
            point("sequence-raised");
            values.record = Some(record);
            values.logged = bound;
            values.covered = count + ahead;
        }
        values.covered -= count;
        values.state = SequenceState { last, called: true };
        let seen = values.record.expect("a record covers what is taken");
        Ok(Some(Taken { first, count, seen }))
    }

    /// Goes on from `state`, whatever was handed out before.
    pub fn set(
        &self,
        state: SequenceState,
        log: impl FnOnce(SequenceState, Option<Observed>) -> Outcome<Observed>,
    ) -> Outcome<Observed> {
        let mut values = self.values.lock().expect("no panic while it is held");
        let record = log(state, values.record)?;
        *values = Values { state, logged: state, covered: 0, record: Some(record) };
        Ok(record)
    }
}

const STATE_NOTE: u8 = 1;
const NOTE_BYTES: usize = 14;

/// The note (docs/format/redo.md) that says where the sequence `id` stands.
pub fn encode_note(id: TreeId, state: SequenceState) -> [u8; NOTE_BYTES] {
    let mut note = [0; NOTE_BYTES];
    note[0] = STATE_NOTE;
    note[1..5].copy_from_slice(&id.0.to_le_bytes());
    note[5..13].copy_from_slice(&state.last.to_le_bytes());
    note[13] = u8::from(state.called);
    note
}

/// Reads such a note; none if it is something else.
pub fn decode_note(note: &[u8]) -> Option<(TreeId, SequenceState)> {
    let note: &[u8; NOTE_BYTES] = note.try_into().ok()?;
    if note[0] != STATE_NOTE || note[13] > 1 {
        return None;
    }
    let id = u32::from_le_bytes(note[1..5].try_into().ok()?);
    let last = i64::from_le_bytes(note[5..13].try_into().ok()?);
    Some((TreeId(id), SequenceState { last, called: note[13] == 1 }))
}

impl<E: Environment> TxnLocal<E> {
    /// Takes values from a sequence (see [`Sequence::take`]). `WaitFor(LogRoom)`, `DiskFull`,
    /// `Io`: nothing was taken.
    pub fn take_values(
        &self,
        sequence: &Sequence,
        counting: &Counting,
        count: u64,
    ) -> Outcome<Option<Taken>> {
        sequence.take(counting, count, |bound, before| {
            if mutant("sequence-bound-not-logged") {
                return Ok(Observed { home: self.environment.home(), cts: Cts::ZERO });
            }
            self.log_state(sequence.id(), bound, before)
        })
    }

    /// Sets where a sequence goes on; answers the record, to be observed. Errors as
    /// [`TxnLocal::take_values`].
    pub fn set_sequence(&self, sequence: &Sequence, state: SequenceState) -> Outcome<Observed> {
        sequence.set(state, |state, before| self.log_state(sequence.id(), state, before))
    }

    /// Logs where a sequence stands, as a record that is no transaction's: it changes no row, so
    /// it needs no slot, and is neither visible nor invisible to any snapshot.
    fn log_state(
        &self,
        id: TreeId,
        state: SequenceState,
        before: Option<Observed>,
    ) -> Outcome<Observed> {
        let mut redo = RedoBuffer::default();
        redo.note(&encode_note(id, state));
        let room = self.environment.reserve(redo.bytes().len(), 0)?;
        // Nothing below may fail or wait (as in a commit, rule 3.4).
        let _critical = Critical::enter("logging a sequence");
        let home = self.environment.home();
        let after = before.map_or(Cts::ZERO, |seen| seen.cts);
        let clock = self.shared.clock.commit_reading();
        let cts = clock.max(self.last_cts.get().next()).max(after.next());
        self.last_cts.set(cts);
        let other = before.filter(|seen| seen.home != home && !self.is_stable(*seen));
        self.environment.commit(room, cts, other.as_slice(), &[], redo.bytes());
        Ok(Observed { home, cts })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::{Cts, HomeId, Stop, WaitFor};

    fn counting(increment: i64, min: i64, max: i64, cycle: Cycle) -> Counting {
        Counting { increment, min, max, cycle }
    }

    fn at(last: i64, called: bool) -> SequenceState {
        SequenceState { last, called }
    }

    /// Takes `rounds` times `count` values; answers them, and the bounds that were logged.
    fn run(
        counting: Counting,
        start: SequenceState,
        count: u64,
        rounds: usize,
    ) -> (Vec<Option<(i64, u64)>>, Vec<i64>) {
        let sequence = Sequence::new(TreeId(7), start);
        let mut bounds = Vec::new();
        let mut taken = Vec::new();
        for _ in 0..rounds {
            let next = sequence.take(&counting, count, |bound, before| {
                let cts = Cts(bounds.len() as u64 + 1);
                assert_eq!(before.map(|it| it.cts), (cts.0 > 1).then(|| Cts(cts.0 - 1)));
                bounds.push(bound.last);
                Ok(Observed { home: HomeId(0), cts })
            });
            taken
                .push(next.expect("raising does not fail").map(|taken| (taken.first, taken.count)));
        }
        (taken, bounds)
    }

    #[test]
    fn values_come_in_order_and_under_a_logged_bound() {
        let up = counting(1, 1, i64::MAX, Cycle::No);
        let (taken, bounds) = run(up, at(1, false), 1, 40);
        assert_eq!(taken, (1..=40).map(|value| Some((value, 1))).collect::<Vec<_>>());
        assert_eq!(bounds, [33, 66]);
        // What recovery finds goes on behind the bound.
        assert_eq!(run(up, at(66, true), 1, 1).0, [Some((67, 1))]);
        let down = counting(-3, -10, -1, Cycle::No);
        let (taken, bounds) = run(down, at(-1, false), 1, 5);
        assert_eq!(taken, [Some((-1, 1)), Some((-4, 1)), Some((-7, 1)), Some((-10, 1)), None]);
        assert_eq!(bounds, [-10]);
    }

    #[test]
    fn the_end_cycles_or_ends_and_is_never_overrun() {
        let ends = counting(10, 0, 25, Cycle::No);
        assert_eq!(run(ends, at(0, false), 100, 2).0, [Some((0, 3)), None]);
        let cycles = counting(10, 3, 25, Cycle::Yes);
        let (taken, bounds) = run(cycles, at(20, false), 1, 5);
        assert_eq!(taken, [20, 3, 13, 23, 3].map(|value| Some((value, 1))));
        // Each time round has its own records.
        assert_eq!(bounds, [20, 23, 23]);
        let brim = counting(i64::MAX, i64::MIN, i64::MAX, Cycle::No);
        let (taken, _) = run(brim, at(i64::MIN, false), 1, 4);
        assert_eq!(taken, [Some((i64::MIN, 1)), Some((-1, 1)), Some((i64::MAX - 1, 1)), None]);
    }

    #[test]
    fn a_raise_that_must_wait_has_taken_nothing() {
        let sequence = Sequence::new(TreeId(7), at(1, false));
        let up = counting(1, 1, 100, Cycle::No);
        let stopped = sequence.take(&up, 1, |_, _| Err(Stop::WaitFor(WaitFor::LogRoom)));
        assert!(matches!(stopped, Err(Stop::WaitFor(WaitFor::LogRoom))));
        assert_eq!(sequence.state(), at(1, false));
        let seen = Observed { home: HomeId(1), cts: Cts(9) };
        let taken = sequence.take(&up, 5, |_, _| Ok(seen)).unwrap();
        assert_eq!(taken, Some(Taken { first: 1, count: 5, seen }));
        assert_eq!(sequence.set(at(50, true), |_, before| Ok(before.unwrap())).unwrap(), seen);
        let next = sequence.take(&up, 1, |bound, _| {
            assert_eq!(bound.last, 83);
            Ok(seen)
        });
        assert_eq!(next.unwrap().unwrap().first, 51);
    }

    #[test]
    fn notes_read_back_and_others_do_not() {
        for state in [at(i64::MIN, true), at(5, false)] {
            let note = encode_note(TreeId(u32::MAX - 1), state);
            assert_eq!(decode_note(&note), Some((TreeId(u32::MAX - 1), state)));
            assert_eq!(decode_note(&note[1..]), None);
        }
        assert_eq!(decode_note(&[2; NOTE_BYTES]), None);
    }
}
