//! The clock that orders commits (rules 3.1 to 3.3).
//!
//! Invariants: a snapshot is one pure reading and writes nothing; a commit's reading comes after
//! everything its thread did before, so a reader that misses the *preparing* mark has read its
//! clock earlier. The cycle counter is used only if it is invariant and no pair of processors ever
//! saw it go back; otherwise one shared counter is. Readings plus the offset are above every cts
//! found on disk. The sequences of instructions are checked by a test that reads them back.

use std::sync::{Arc, Barrier};

use crossbeam_utils::CachePadded;

use crate::base::{Cts, Error, Result};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

use super::processor::{allowed_processors, bind_to};

/// The setting `clock` (rule 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClockChoice {
    /// The cycle counter if it passes the tests, else the shared counter.
    #[default]
    Auto,
    /// The cycle counter; an error if it does not pass.
    Tsc,
    /// The shared counter. The simulator's choice, too.
    Counter,
}

/// What the clock reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockForm {
    /// The processors' cycle counters.
    Tsc,
    /// One shared counter.
    Counter,
}

/// The clock of one database.
pub struct Clock {
    form: ClockForm,
    // Tsc: what is added to a reading; written by `start_above`, before any transaction.
    offset: AtomicU64,
    // Counter: the next commit's cts; written by every commit.
    counter: CachePadded<AtomicU64>,
}

impl Clock {
    /// Chooses by the rule; `Tsc` fails with `Unusable` where the test does not pass.
    pub fn choose(choice: ClockChoice) -> Result<Arc<Clock>> {
        let form = match choice {
            ClockChoice::Counter => ClockForm::Counter,
            ClockChoice::Auto if tsc_trouble().is_none() => ClockForm::Tsc,
            ClockChoice::Auto => ClockForm::Counter,
            ClockChoice::Tsc => match tsc_trouble() {
                None => ClockForm::Tsc,
                Some(trouble) => {
                    let detail = format!("clock = tsc is not possible here: {trouble}");
                    return Err(Error::Unusable { detail });
                }
            },
        };
        Ok(Arc::new(Clock::with_form(form)))
    }

    fn with_form(form: ClockForm) -> Clock {
        Clock { form, offset: AtomicU64::new(0), counter: CachePadded::new(AtomicU64::new(1)) }
    }

    /// What it reads.
    pub fn form(&self) -> ClockForm {
        self.form
    }

    /// Before the first transaction: from now on every reading is above `found`, the largest cts
    /// on disk.
    pub fn start_above(&self, found: Cts) {
        match self.form {
            ClockForm::Counter => {
                self.counter.fetch_max(found.0 + 1, Ordering::SeqCst);
            }
            ClockForm::Tsc => {
                let short = (found.0 + 1).saturating_sub(snapshot_cycles());
                self.offset.fetch_max(short, Ordering::SeqCst);
            }
        }
    }

    /// What is added to the raw reading now.
    pub fn offset(&self) -> u64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// A snapshot's reading (rule 3.2): commits strictly below it are seen.
    #[inline]
    pub fn snapshot(&self) -> Cts {
        match self.form {
            ClockForm::Tsc => Cts(snapshot_cycles() + self.offset.load(Ordering::Relaxed)),
            // Partner: the fetch_add of `commit_reading`.
            ClockForm::Counter => Cts(self.counter.load(Ordering::SeqCst)),
        }
    }

    /// A commit's reading (rule 3.2), after *preparing* is published. The caller takes the
    /// maximum of rule 3.3.
    #[inline]
    pub fn commit_reading(&self) -> Cts {
        match self.form {
            ClockForm::Tsc => Cts(commit_cycles() + self.offset.load(Ordering::Relaxed)),
            ClockForm::Counter => Cts(self.counter.fetch_add(1, Ordering::SeqCst)),
        }
    }

    /// Whether the clock reads at or below a *finished* cts: with the cycle counter that means
    /// that it warped, and the process must end (rule 3.1).
    pub fn has_warped(&self, finished: Cts) -> bool {
        self.form == ClockForm::Tsc && self.snapshot() < finished
    }
}

/// LFENCE; RDTSC; LFENCE.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn snapshot_cycles() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: reads the cycle counter; writes the two named registers only. It is not marked
    // `nomem`, so the compiler moves no memory access across it either.
    unsafe {
        std::arch::asm!(
            "lfence",
            "rdtsc",
            "lfence",
            out("rax") low,
            out("rdx") high,
            options(nostack),
        );
    }
    high << 32 | low
}

/// MFENCE; LFENCE; RDTSC.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn commit_cycles() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: as in `snapshot_cycles`.
    unsafe {
        std::arch::asm!(
            "mfence",
            "lfence",
            "rdtsc",
            out("rax") low,
            out("rdx") high,
            options(nostack),
        );
    }
    high << 32 | low
}

#[cfg(not(target_arch = "x86_64"))]
fn snapshot_cycles() -> u64 {
    unreachable!("the cycle counter is chosen on x86-64 only")
}

#[cfg(not(target_arch = "x86_64"))]
fn commit_cycles() -> u64 {
    unreachable!("the cycle counter is chosen on x86-64 only")
}

/// Why the cycle counter cannot be used, if it cannot.
fn tsc_trouble() -> Option<String> {
    if !tsc_is_invariant() {
        return Some("the processor does not promise an invariant cycle counter".to_owned());
    }
    warp_test(&allowed_processors())
}

#[cfg(target_arch = "x86_64")]
fn tsc_is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_is_invariant() -> bool {
    false
}

/// Exchanges of one pair in the warp test.
const WARP_ROUNDS: u32 = 2_000;

/// Every pair of `processors` passes readings through one word; a reading below one that the other
/// made before is a warp. All disjoint pairs run at once (a round-robin tournament).
fn warp_test(processors: &[usize]) -> Option<String> {
    let mut seats: Vec<Option<usize>> = processors.iter().copied().map(Some).collect();
    if seats.is_empty() {
        return Some("the system does not say which processors there are".to_owned());
    }
    if seats.len() % 2 == 1 {
        seats.push(None);
    }
    let (pairs, rounds) = (seats.len() / 2, seats.len() - 1);
    let words: Vec<_> = (0..pairs * rounds).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
    let (warped, unbound) = (AtomicBool::new(false), AtomicBool::new(false));
    let barrier = Barrier::new(processors.len());
    std::thread::scope(|scope| {
        for (seat, processor) in seats.iter().enumerate() {
            let Some(processor) = *processor else { continue };
            let (words, warped, unbound, barrier) = (&words, &warped, &unbound, &barrier);
            let seats = seats.len();
            scope.spawn(move || {
                if !bind_to(processor) {
                    unbound.store(true, Ordering::Relaxed);
                }
                for round in 0..rounds {
                    let pair = pair_of(seat, round, seats);
                    barrier.wait();
                    if warps(&words[round * pairs + pair]) {
                        warped.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    if warped.load(Ordering::Relaxed) {
        Some("two processors' cycle counters differ (a warp was seen)".to_owned())
    } else if unbound.load(Ordering::Relaxed) {
        Some("threads cannot be bound to processors, so not every pair was tested".to_owned())
    } else {
        None
    }
}

/// The pair in which `seat` plays in `round` (circle method): both of a pair get one number.
fn pair_of(seat: usize, round: usize, seats: usize) -> usize {
    let rest = seats - 1;
    if seat == rest {
        return 0;
    }
    let place = (seat + round) % rest;
    if place == 0 { 0 } else { place.min(rest - place) }
}

fn warps(word: &AtomicU64) -> bool {
    for _ in 0..WARP_ROUNDS {
        let before = word.load(Ordering::Acquire);
        let now = snapshot_cycles();
        if now < before {
            return true;
        }
        word.fetch_max(now, Ordering::AcqRel);
        std::hint::spin_loop();
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[inline(never)]
    extern "C" fn probe_snapshot() -> u64 {
        snapshot_cycles()
    }

    #[inline(never)]
    extern "C" fn probe_commit() -> u64 {
        commit_cycles()
    }

    /// The first 64 bytes of a function's code.
    #[cfg(target_arch = "x86_64")]
    fn code_of(function: extern "C" fn() -> u64) -> Vec<u8> {
        // SAFETY: code is readable, and a function of this file is followed by others' code or
        // padding within its section for more than 64 bytes.
        unsafe { std::slice::from_raw_parts(function as *const u8, 64) }.to_vec()
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_emitted_code_has_the_fences_of_rule_3_2() {
        const LFENCE: [u8; 3] = [0x0f, 0xae, 0xe8];
        const MFENCE: [u8; 3] = [0x0f, 0xae, 0xf0];
        const RDTSC: [u8; 2] = [0x0f, 0x31];
        let snapshot = [&LFENCE[..], &RDTSC, &LFENCE].concat();
        let commit = [&MFENCE[..], &LFENCE, &RDTSC].concat();
        assert!(code_of(probe_snapshot).windows(8).any(|bytes| bytes == snapshot));
        assert!(code_of(probe_commit).windows(8).any(|bytes| bytes == commit));
        assert!(probe_snapshot() < probe_commit());
    }

    #[test]
    fn every_pair_of_seats_meets_once() {
        for seats in [2, 4, 8, 10] {
            let mut met = std::collections::HashSet::new();
            for round in 0..seats - 1 {
                for a in 0..seats {
                    for b in a + 1..seats {
                        if pair_of(a, round, seats) == pair_of(b, round, seats) {
                            assert!(met.insert((a, b)), "{a} and {b} meet twice of {seats}");
                        }
                    }
                }
            }
            assert_eq!(met.len(), seats * (seats - 1) / 2);
        }
    }

    #[test]
    fn a_commit_reading_is_visible_to_later_snapshots_only() {
        for clock in [
            Clock::choose(ClockChoice::Counter).unwrap(),
            Clock::choose(ClockChoice::Auto).unwrap(),
        ] {
            clock.start_above(Cts(1_000));
            let before = clock.snapshot();
            let cts = clock.commit_reading();
            let after = clock.snapshot();
            assert!(before <= cts && cts < after, "{:?}", clock.form());
            assert!(before > Cts(1_000));
            assert!(!clock.has_warped(cts));
        }
    }

    #[test]
    fn the_offset_lifts_readings_above_what_was_found() {
        let far = Cts(1 << 62);
        for choice in [ClockChoice::Counter, ClockChoice::Auto] {
            let clock = Clock::choose(choice).unwrap();
            clock.start_above(far);
            assert!(clock.snapshot() > far && clock.commit_reading() > far);
        }
    }

    #[test]
    fn a_warp_is_noticed_and_auto_then_counts() {
        let clock = Clock::with_form(ClockForm::Tsc);
        if tsc_is_invariant() {
            let word = AtomicU64::new(u64::MAX);
            assert!(warps(&word), "a reading below an earlier one is a warp");
            assert!(clock.has_warped(Cts::MAX));
        }
        assert_eq!(
            tsc_trouble().is_none(),
            Clock::choose(ClockChoice::Auto).unwrap().form() == ClockForm::Tsc
        );
        assert!(warp_test(&[]).is_some());
    }

    #[test]
    fn the_shared_counter_is_unique_across_threads() {
        let clock = Clock::choose(ClockChoice::Counter).unwrap();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..500).map(|_| clock.commit_reading().0).collect::<Vec<_>>())
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2000);
    }
}
