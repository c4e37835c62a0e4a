//! One slot: the word, the cts and the waiters of the transaction that uses it, and the two
//! handshakes on them (rules 3.4, 3.5, 6.6). Written once, over [`crate::sync`]; `loom` runs it.
//!
//! **Commit against visibility.** The committer stores *preparing*, fences, reads the clock,
//! stores the cts, and later stores *committed*. A reader reads its snapshot from the clock,
//! fences, then reads word, cts, word.
//!
//! - *Never misses a commit below its snapshot*: if the reader's first load misses *preparing*,
//!   then its fence came before the committer's, so the clock was read by the committer after it
//!   was read by the reader: cts >= snapshot, and the older version is right.
//! - *Never half*: with a cts below the snapshot and not yet *committed* the reader waits, and
//!   judges again from the start; with a cts at or above it every read answers "older".
//! - *Never a stale cts*: the cts is cleared before the word of a new use or a new attempt is
//!   published (release), so who acquires that word reads zero or this attempt's cts; a cts of a
//!   later attempt is published after that attempt's word, so the second load of the word
//!   differs. A zero read after *committed* was seen is the next use's. (sequence, attempt) never
//!   repeats: no ABA.
//!
//! **End against enlisting waiter.** A waiter puts itself on the list, fences, and looks at the
//! word again; the ender publishes the end, fences, and looks at the list. One of both sees the
//! other.
//!
//! **Rows given back against enlisting waiter** (a rollback to a savepoint, rule 6.5). The owner
//! restores the rows, counts `given_back` up, fences, and looks at the list. A waiter enlists,
//! fences, reads `given_back`, and looks *at the row* again before it waits for the end or for
//! another count. If the owner misses it on the list, its look comes after the owner's fence and
//! finds the row free; else it is woken, or has read an older count than the present one.
//!
//! Who writes: the word and the cts are written by the one instance that owns the slot; any
//! thread reads them. The list is written by any thread under its mutex; `enlisted` is a hint
//! that spares the ender the mutex, written under the mutex, read by the ender.

use super::word::{SlotWord, State};
use crate::base::{Cts, HomeId, Observed};
use crate::sync::{AtomicU64, Mutex, Ordering, fence, mutant, point};
use crate::version::Fate;

/// What can be woken: `runtime::Unparker`, or a model's thread.
pub trait Wake {
    /// Ends one present or future wait of the owner. Any thread; never blocks.
    fn wake(&self);
}

/// What a reader of the word concludes about version of one use of a slot (rule 3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// In flight, or committed at or above the snapshot: the older version is right.
    Older,
    /// Committed at this timestamp, below the snapshot: this version is right.
    This(Cts),
    /// *Preparing* without a cts, or with one below the snapshot: let go of latches, wait until
    /// the word is no longer this one, judge again from the start.
    Undecided(SlotWord),
    /// The slot is in another use, or rolled back: validate the page and read the row again.
    Reread,
}

/// How one use of a slot ended, as far as a waiter can still tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Committed at this timestamp.
    Committed(Cts),
    /// Rolled back, or ended without a commit record.
    Gone,
    /// The slot is in another use. Its instance's log held this commit last when it was looked
    /// at; the awaited one, if it committed, is not above it.
    Reused(Cts),
}

/// A waiter's place on a slot's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enlisted {
    /// Takes it out again.
    pub ticket: u64,
    /// How often rows had been given back when it came.
    pub given_back: u64,
}

/// One waiter for a transaction's end. `ticket` lets it take itself out again.
struct EndWaiter<W> {
    ticket: u64,
    waker: W,
}

struct EndWaiters<W> {
    next_ticket: u64,
    list: Vec<EndWaiter<W>>,
}

/// A slot's shared part. Aligned so that two slots never share a line (or a pair of lines that
/// the prefetcher ties together).
#[repr(align(128))]
pub struct Slot<W> {
    // Written by the owner instance (Release), read by all (Acquire). Partner: itself, and the
    // fences in `prepare` / the snapshot reading, and in `end` / `enlist`.
    word: AtomicU64,
    // The cts of the present use: zero until `prepare`. Same writer, same readers.
    cts: AtomicU64,
    // The last cts published by any use of this slot. Same writer; waiters read it.
    last_cts: AtomicU64,
    // The clock at the present use's begin. Same writer; deadlock detectors read it.
    began: AtomicU64,
    // How often transactions of this slot gave rows back before their end. Same writer; waiters
    // and detectors read it. Never goes back.
    given_back: AtomicU64,
    // How many are on the list; written under the mutex, read by the owner after its fence.
    enlisted: AtomicU64,
    // Any thread, briefly; in order of arrival.
    waiters: Mutex<EndWaiters<W>>,
}

impl<W: Wake> Default for Slot<W> {
    fn default() -> Self {
        Slot {
            word: AtomicU64::new(SlotWord::FREE.raw()),
            cts: AtomicU64::new(0),
            last_cts: AtomicU64::new(0),
            began: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            enlisted: AtomicU64::new(0),
            waiters: Mutex::new(EndWaiters { next_ticket: 0, list: Vec::new() }),
        }
    }
}

/// The owner's side. Only the instance that owns the slot may call these.
impl<W: Wake> Slot<W> {
    /// Begins the next use at clock `began`; returns its word, or `None` if the slot must be
    /// retired.
    pub fn begin(&self, began: Cts) -> Option<SlotWord> {
        let before = self.word();
        debug_assert!(matches!(before.state(), State::Free | State::Finished | State::Gone));
        let word = before.next_use()?;
        // Relaxed: ordered before the word by its Release (a reader that acquires the new word
        // reads zero or later).
        self.cts.store(0, Ordering::Relaxed);
        self.began.store(began.0, Ordering::Relaxed);
        self.word.store(word.raw(), Ordering::Release);
        Some(word)
    }

    /// *Active* → *preparing*, fence, the clock, the cts: in this order (rule 3.4). `choose` reads
    /// the clock and answers the cts (rule 3.3); it must neither wait nor fail.
    pub fn prepare(&self, choose: impl FnOnce() -> Cts) -> Cts {
        let word = self.word();
        debug_assert_eq!(word.state(), State::Active);
        if mutant("txn-cts-before-preparing") {
            let cts = choose();
            point("txn-cts-read");
            self.word.store(word.with_state(State::Preparing).raw(), Ordering::Release);
            self.cts.store(cts.0, Ordering::Release);
            return cts;
        }
        self.word.store(word.with_state(State::Preparing).raw(), Ordering::Release);
        point("txn-preparing-published");
        // Partner: the fence inside a snapshot's clock reading (rule 3.2).
        if !mutant("txn-no-fence-before-clock") {
            fence(Ordering::SeqCst);
        }
        let cts = choose();
        debug_assert_ne!(cts, Cts::ZERO, "zero means that there is no cts yet");
        point("txn-cts-read");
        self.cts.store(cts.0, Ordering::Release);
        point("txn-cts-published");
        cts
    }

    /// *Preparing* → *active* in the next attempt (rule 6.4): the cts is given up.
    #[allow(dead_code, reason = "SERIALIZABLE is a later issue; the models run it")]
    pub fn give_up(&self) {
        let word = self.word();
        debug_assert_eq!(word.state(), State::Preparing);
        self.cts.store(0, Ordering::Relaxed);
        self.word.store(word.next_attempt().raw(), Ordering::Release);
    }

    /// *Preparing* → *committed*: from here the cts counts. The redo is in the log buffer.
    pub fn committed(&self) {
        let word = self.word();
        debug_assert_eq!(word.state(), State::Preparing);
        self.last_cts.store(self.cts.load(Ordering::Relaxed), Ordering::Release);
        self.word.store(word.with_state(State::Committed).raw(), Ordering::Release);
        point("txn-committed");
    }

    /// Ends the use (as *finished* if it committed, *gone* otherwise) and wakes, in order of
    /// arrival, all who wait for that. No version carries the xid any more. Returns how many.
    pub fn end(&self) -> usize {
        let word = self.word();
        let ended = match word.state() {
            State::Committed => State::Finished,
            State::Active => State::Gone,
            other => unreachable!("a use ends from committed or active, not from {other:?}"),
        };
        self.word.store(word.with_state(ended).raw(), Ordering::Release);
        point("txn-end-published");
        // Partner: the fence in `enlist`.
        if !mutant("txn-no-fence-at-end") {
            fence(Ordering::SeqCst);
        }
        if mutant("txn-no-wake-at-end") {
            return 0;
        }
        self.wake_all()
    }

    /// Rows went back to what they were before this use had them (rule 6.7): wakes all who wait
    /// for it, to look again. Returns how many.
    pub fn give_back(&self) -> usize {
        let before = self.given_back.load(Ordering::Relaxed);
        // Release: whoever sees the count sees the rows.
        self.given_back.store(before + 1, Ordering::Release);
        point("txn-rows-given-back");
        // Partner: the fence in `enlist`.
        if !mutant("txn-no-fence-at-give-back") {
            fence(Ordering::SeqCst);
        }
        if mutant("txn-give-back-wakes-nobody") {
            return 0;
        }
        self.wake_all()
    }

    /// Wakes all waiters in order of arrival, if there are any. After a fence.
    fn wake_all(&self) -> usize {
        if self.enlisted.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let taken = {
            let mut waiters = self.waiters.lock().expect("no panic while it is held");
            self.enlisted.store(0, Ordering::Relaxed);
            std::mem::take(&mut waiters.list)
        };
        for waiter in &taken {
            waiter.waker.wake();
        }
        taken.len()
    }
}

/// Everybody's side.
impl<W: Wake> Slot<W> {
    /// The word as it is now (Acquire).
    #[inline]
    pub fn word(&self) -> SlotWord {
        SlotWord::from_raw(self.word.load(Ordering::Acquire))
    }

    /// How often rows were given back before an end (Acquire).
    pub fn given_back(&self) -> u64 {
        self.given_back.load(Ordering::Acquire)
    }

    /// How many are on the list.
    #[cfg(all(test, not(loom)))]
    pub fn enlisted(&self) -> u64 {
        self.enlisted.load(Ordering::Relaxed)
    }

    /// The clock when the present use began.
    pub fn began(&self) -> Cts {
        Cts(self.began.load(Ordering::Relaxed))
    }

    /// Judges a version of use `sequence` for a snapshot (rule 3.5). `snapshot` was read from the
    /// clock before this call.
    #[inline]
    pub fn judge(&self, sequence: u64, snapshot: Cts) -> Seen {
        let word = self.word();
        if word.sequence() != sequence {
            return Seen::Reread;
        }
        match word.state() {
            State::Active => Seen::Older,
            State::Free | State::Gone => Seen::Reread,
            State::Preparing => {
                let cts = Cts(self.cts.load(Ordering::Acquire));
                point("txn-judge-between-loads");
                let again = self.word();
                if again != word && !mutant("txn-judge-without-second-load") {
                    return if again.sequence() == sequence {
                        Seen::Undecided(word)
                    } else {
                        Seen::Reread
                    };
                }
                if cts != Cts::ZERO && cts >= snapshot {
                    return Seen::Older;
                }
                if mutant("txn-believe-preparing") && cts != Cts::ZERO {
                    return Seen::This(cts);
                }
                Seen::Undecided(word)
            }
            State::Committed | State::Finished => match self.decided_cts(sequence) {
                Some(cts) if cts < snapshot => Seen::This(cts),
                Some(_) => Seen::Older,
                None => Seen::Reread,
            },
        }
    }

    /// The cts of use `sequence`, whose word has just been seen *committed* or *finished*; `None`
    /// if the slot is being used again. Zero is the next use's, which clears the cts before it
    /// shows its word: the second load need not see that word yet (the model found this).
    fn decided_cts(&self, sequence: u64) -> Option<Cts> {
        let cts = Cts(self.cts.load(Ordering::Acquire));
        let cleared = cts == Cts::ZERO && !mutant("txn-zero-is-a-cts");
        (!cleared && self.word().sequence() == sequence).then_some(cts)
    }

    /// The newest state of use `sequence`, regardless of snapshots.
    pub fn fate(&self, sequence: u64) -> Fate {
        let word = self.word();
        if word.sequence() != sequence {
            return Fate::Reread;
        }
        match word.state() {
            State::Active | State::Preparing => Fate::InFlight,
            State::Free | State::Gone => Fate::Reread,
            State::Committed | State::Finished => {
                self.decided_cts(sequence).map_or(Fate::Reread, Fate::Committed)
            }
        }
    }

    /// How use `sequence` ended; `None` while it has not.
    pub fn ending(&self, sequence: u64) -> Option<Ending> {
        let word = self.word();
        if word.sequence() == sequence {
            match word.state() {
                State::Finished => {
                    if let Some(cts) = self.decided_cts(sequence) {
                        return Some(Ending::Committed(cts));
                    }
                }
                State::Gone => return Some(Ending::Gone),
                _ => return None,
            }
        }
        Some(Ending::Reused(Cts(self.last_cts.load(Ordering::Acquire))))
    }

    /// Enlists a waiter for the end of use `sequence`, fences and looks again (rule 6.6). `None`:
    /// it has ended already and nothing was enlisted. Otherwise `waker` will be woken at the end
    /// or when rows are given back, unless [`Slot::withdraw`] comes first. Who waits for a row
    /// looks at the row again after this call.
    pub fn enlist(&self, sequence: u64, waker: W) -> Option<Enlisted> {
        let ticket = {
            let mut waiters = self.waiters.lock().expect("no panic while it is held");
            let ticket = waiters.next_ticket;
            waiters.next_ticket += 1;
            waiters.list.push(EndWaiter { ticket, waker });
            self.enlisted.store(waiters.list.len() as u64, Ordering::Relaxed);
            ticket
        };
        point("txn-enlisted");
        // Partner: the fences in `end` and `give_back`.
        if !mutant("txn-no-fence-in-enlist") {
            fence(Ordering::SeqCst);
        }
        if self.word().has_ended(sequence) && !mutant("txn-enlist-without-second-look") {
            self.withdraw(ticket);
            return None;
        }
        Some(Enlisted { ticket, given_back: self.given_back() })
    }

    /// Whether what use `sequence` had when somebody enlisted may have changed hands since.
    pub fn has_moved(&self, sequence: u64, since: Enlisted) -> bool {
        self.word().has_ended(sequence) || self.given_back() != since.given_back
    }

    /// Takes a waiter out again, if it is still there.
    pub fn withdraw(&self, ticket: u64) {
        let mut waiters = self.waiters.lock().expect("no panic while it is held");
        if mutant("txn-lose-a-queued-waiter") {
            waiters.list.retain(|waiter| waiter.ticket < ticket);
        } else {
            waiters.list.retain(|waiter| waiter.ticket != ticket);
        }
        self.enlisted.store(waiters.list.len() as u64, Ordering::Relaxed);
    }
}

/// What an [`Ending`] lets a waiter on `home`'s transaction depend on (rule 7.4).
impl Ending {
    /// The commit to observe, if any.
    pub fn observed(self, home: HomeId) -> Option<Observed> {
        match self {
            Ending::Committed(cts) => Some(Observed { home, cts }),
            Ending::Reused(cts) if cts != Cts::ZERO => Some(Observed { home, cts }),
            Ending::Gone | Ending::Reused(_) => None,
        }
    }
}

#[cfg(all(test, loom))]
#[path = "models.rs"]
mod models;
