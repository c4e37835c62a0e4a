//! The slot word: sequence, attempts and state of one use of one slot, in 64 bits (rule 3.4).
//!
//! Layout, high to low: sequence 38 bits, attempts 23, state 3. Invariants: the sequence never
//! goes back and a slot whose sequence would wrap is retired; attempts count the times that this
//! use went back from *preparing* to *active*, so a reader that sees the same word twice has seen
//! one attempt. Pure: the atomic that holds the word is in [`super::handshake`].

use crate::base::SLOT_SEQUENCE_MAX;

const STATE_BITS: u32 = 3;
const ATTEMPT_BITS: u32 = 23;

/// What the transaction that uses a slot is doing.
///
/// ```text
/// Free -> Active <-> Preparing -> Committed -> Finished -> Active (next sequence)
///            \--------------------------------> Gone ----> Active (next sequence)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Never used.
    Free = 0,
    /// Running, or rolling back: its versions are invisible to all others.
    Active = 1,
    /// Between the decision to commit and the publication of it; the cts may be there or not.
    Preparing = 2,
    /// The cts counts; undo records are being stamped.
    Committed = 3,
    /// Committed, every undo record carries the cts; waiters have been or are being woken.
    Finished = 4,
    /// Ended without a commit: rolled back, or nothing was written. No version carries its xid.
    Gone = 5,
}

/// One value of a slot's word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SlotWord(u64);

impl SlotWord {
    /// A slot that was never used.
    pub const FREE: SlotWord = SlotWord(0);

    /// The word of use `sequence` in its `attempt`-th attempt to commit.
    pub const fn new(sequence: u64, attempt: u32, state: State) -> SlotWord {
        assert!(sequence <= SLOT_SEQUENCE_MAX && attempt < 1 << ATTEMPT_BITS, "parts fit");
        SlotWord(
            sequence << (ATTEMPT_BITS + STATE_BITS) | (attempt as u64) << STATE_BITS | state as u64,
        )
    }

    /// Decodes what the atomic holds.
    pub const fn from_raw(raw: u64) -> SlotWord {
        SlotWord(raw)
    }

    /// What the atomic holds.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Which use of the slot.
    pub const fn sequence(self) -> u64 {
        self.0 >> (ATTEMPT_BITS + STATE_BITS)
    }

    /// How often this use went back from *preparing* to *active*.
    pub const fn attempt(self) -> u32 {
        (self.0 >> STATE_BITS) as u32 & ((1 << ATTEMPT_BITS) - 1)
    }

    /// The state.
    pub const fn state(self) -> State {
        match self.0 & ((1 << STATE_BITS) - 1) {
            0 => State::Free,
            1 => State::Active,
            2 => State::Preparing,
            3 => State::Committed,
            4 => State::Finished,
            _ => State::Gone,
        }
    }

    /// The same use and attempt in another state.
    pub const fn with_state(self, state: State) -> SlotWord {
        SlotWord::new(self.sequence(), self.attempt(), state)
    }

    /// The same use, *active* again in its next attempt (rule 6.4).
    #[allow(dead_code, reason = "SERIALIZABLE is a later issue; the models run it")]
    pub const fn next_attempt(self) -> SlotWord {
        SlotWord::new(self.sequence(), self.attempt() + 1, State::Active)
    }

    /// The next use, *active*; `None` if the sequence would wrap and the slot must be retired.
    pub const fn next_use(self) -> Option<SlotWord> {
        if self.sequence() == SLOT_SEQUENCE_MAX {
            return None;
        }
        Some(SlotWord::new(self.sequence() + 1, 0, State::Active))
    }

    /// Whether use `sequence` has ended: *finished*, *gone*, or the slot is in a later use.
    pub const fn has_ended(self, sequence: u64) -> bool {
        self.sequence() != sequence || matches!(self.state(), State::Finished | State::Gone)
    }
}

impl std::fmt::Debug for SlotWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{:?}", self.sequence(), self.attempt(), self.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_packing_at_their_limits() {
        let word = SlotWord::new(SLOT_SEQUENCE_MAX, (1 << ATTEMPT_BITS) - 1, State::Gone);
        assert_eq!(word.sequence(), SLOT_SEQUENCE_MAX);
        assert_eq!(word.attempt(), (1 << ATTEMPT_BITS) - 1);
        assert_eq!(word.state(), State::Gone);
        assert_eq!(SlotWord::from_raw(word.raw()), word);
        assert_eq!(word.next_use(), None, "a slot whose sequence would wrap is retired");
    }

    #[test]
    fn ended_means_finished_gone_or_another_use() {
        let word = SlotWord::new(4, 0, State::Active);
        assert!(!word.has_ended(4));
        assert!(!word.with_state(State::Committed).has_ended(4));
        assert!(word.with_state(State::Finished).has_ended(4));
        assert!(word.with_state(State::Gone).has_ended(4));
        assert!(word.has_ended(3));
        assert_eq!(word.with_state(State::Preparing).next_attempt().attempt(), 1);
    }
}
