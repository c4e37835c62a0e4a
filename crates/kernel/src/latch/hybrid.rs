//! The hybrid latch: optimistic, shared and exclusive in one word (rule 4.1).
//!
//! Word: version in the high 48 bits, state in the low 16: 0 free, 1..=65534 that many shared
//! holders, 65535 exclusive. The version grows by one with every exclusive release that changed
//! something and never goes back, not when the frame is reused either: nobody resets the word.
//!
//! Why an optimistic read that validates saw no change (the argument that the loom model checks):
//! the writer takes the word (W1), issues a release fence (F1), stores data (D), and releases the
//! word with a larger version (W2, release). The reader loads the word (R1, acquire; it is not
//! exclusive), loads data, issues an acquire fence (F2), loads the word again (R2).
//! - If a data load saw D, then F1 synchronises with F2, so R2 sees W1 or later: exclusive or a
//!   larger version; it does not validate.
//! - If R1 saw W2, it synchronises with it, so no data load sees anything older than D.
//!
//! Shared holders do not disturb optimistic readers: the state is masked out when they compare.
//!
//! Waiting is bounded: after some spinning and some yields to the operating system the attempt
//! answers [`Stop::Retry`], and the shell decides. Callers hold other latches only in the order
//! of tree/README.md.

use crate::base::{Outcome, Stop};
use crate::sync::{AtomicU64, Ordering, fence, ledger, mutant, point, spin};

const STATE: u64 = 0xffff;
const EXCLUSIVE: u64 = 0xffff;
const SHARED_MAX: u64 = 0xfffe;
const VERSION_ONE: u64 = 1 << 16;

#[cfg(not(loom))]
const SPINS_MAX: u32 = 400;
#[cfg(not(loom))]
const YIELDS_MAX: u32 = 200;
#[cfg(loom)]
const SPINS_MAX: u32 = 1;
#[cfg(loom)]
const YIELDS_MAX: u32 = 0;

/// What an optimistic reader remembers of a latch: the word without its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(u64);

impl Version {
    /// The number alone, for remembering beyond a latch (rule 6.4): grows with every change.
    pub const fn number(self) -> u64 {
        self.0 >> 16
    }
}

/// Whether an exclusive holder changed what the latch protects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// Optimistic readers that began before must not validate.
    Changed,
    /// Nothing was stored; readers that began before remain right.
    Unchanged,
}

/// One latch word. All zero bytes are a free latch of version 0.
///
/// Written by: whoever takes or releases it. Read by: everyone.
#[repr(transparent)]
pub struct HybridLatch {
    word: AtomicU64,
}

impl Default for HybridLatch {
    fn default() -> HybridLatch {
        HybridLatch::new()
    }
}

impl HybridLatch {
    /// A free latch of version 0.
    pub fn new() -> HybridLatch {
        HybridLatch { word: AtomicU64::new(0) }
    }

    /// Begins an optimistic read; waits a bounded while for an exclusive holder, then `Retry`.
    #[inline]
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn read(&self) -> Outcome<Version> {
        // Acquire: pairs with the release store in `unlock_exclusive`.
        let word = self.word.load(Ordering::Acquire);
        if word & STATE != EXCLUSIVE {
            return Ok(Version(word & !STATE));
        }
        self.wait_to_read()
    }

    /// Whether nothing was changed since `version` was read. Everything read racily in between
    /// may be believed if so, and only then.
    #[inline]
    pub fn validate(&self, version: Version) -> bool {
        point("latch.validate");
        if !mutant("latch_validate_without_fence") {
            // Acquire: pairs with the release fence in `entered_exclusive`.
            fence(Ordering::Acquire);
        }
        let word = self.word.load(Ordering::Relaxed);
        word & !STATE == version.0 && word & STATE != EXCLUSIVE
    }

    /// Takes the latch exclusively if nothing changed since `version`; one attempt, no waiting.
    #[inline]
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn upgrade(&self, version: Version) -> bool {
        // Acquire: pairs with both releasing stores.
        let taken = self.word.compare_exchange(
            version.0,
            version.0 | EXCLUSIVE,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if taken.is_ok() {
            ledger::add(ledger::What::Latch, 0);
            self.entered_exclusive();
        }
        taken.is_ok()
    }

    /// Takes the latch exclusively; waits a bounded while, then `Retry`.
    #[inline]
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn lock_exclusive(&self) -> Outcome<()> {
        if self.try_exclusive().is_some() {
            return Ok(());
        }
        self.wait_exclusive()
    }

    /// Takes the latch exclusively if it is free; one attempt.
    #[inline]
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn try_exclusive(&self) -> Option<()> {
        let word = self.word.load(Ordering::Relaxed);
        (word & STATE == 0 && self.upgrade(Version(word))).then_some(())
    }

    #[inline]
    fn entered_exclusive(&self) {
        if !mutant("latch_lock_without_fence") {
            // Release: pairs with the acquire fence in `validate` (F1 and F2 above).
            fence(Ordering::Release);
        }
        point("latch.exclusive");
    }

    /// The version that the latch will have when its holder, who calls this, releases it as changed.
    pub fn version_after_change(&self) -> Version {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE, EXCLUSIVE, "only an exclusive holder asks");
        Version((word & !STATE).wrapping_add(VERSION_ONE))
    }

    /// Releases an exclusively held latch. Only its holder may call this.
    #[inline]
    pub fn unlock_exclusive(&self, release: Release) {
        point("latch.unlock");
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE, EXCLUSIVE, "only an exclusive holder releases");
        let bump = release == Release::Changed && !mutant("latch_no_version_bump");
        let next = (word & !STATE).wrapping_add(if bump { VERSION_ONE } else { 0 });
        // Release: pairs with the acquire loads of `read`, `upgrade` and `try_shared`.
        self.word.store(next, Ordering::Release);
    }

    /// Takes the latch shared; waits a bounded while, then `Retry`.
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn lock_shared(&self) -> Outcome<Version> {
        if let Some(version) = self.try_shared() {
            return Ok(version);
        }
        self.wait_shared()
    }

    /// Takes the latch shared if no one holds it exclusively; one attempt.
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn try_shared(&self) -> Option<Version> {
        let word = self.word.load(Ordering::Relaxed);
        if word & STATE >= SHARED_MAX {
            return None;
        }
        // Acquire: pairs with the release store in `unlock_exclusive`.
        let taken =
            self.word.compare_exchange(word, word + 1, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_ok() {
            ledger::add(ledger::What::Latch, 0);
        }
        taken.is_ok().then_some(Version(word & !STATE))
    }

    /// Releases one shared hold.
    pub fn unlock_shared(&self) {
        // Release: pairs with the acquire in `upgrade`: the next writer comes after our reads.
        let before = self.word.fetch_sub(1, Ordering::Release);
        debug_assert!((1..=SHARED_MAX).contains(&(before & STATE)), "a shared holder releases");
    }

    /// Whether somebody holds it exclusively now (for assertions).
    pub fn is_exclusive(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STATE == EXCLUSIVE
    }

    // Loops, and not one function that takes a closure: a closure cannot be `track_caller`, and the ledger
    // is to say whose latch it was that was taken behind a wait.

    #[cold]
    #[cfg_attr(feature = "ledger", track_caller)]
    fn wait_to_read(&self) -> Outcome<Version> {
        let mut patience = Patience::begin();
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word & STATE != EXCLUSIVE {
                return Ok(Version(word & !STATE));
            }
            patience.pause()?;
        }
    }

    #[cold]
    #[cfg_attr(feature = "ledger", track_caller)]
    fn wait_exclusive(&self) -> Outcome<()> {
        let mut patience = Patience::begin();
        while self.try_exclusive().is_none() {
            patience.pause()?;
        }
        Ok(())
    }

    #[cold]
    #[cfg_attr(feature = "ledger", track_caller)]
    fn wait_shared(&self) -> Outcome<Version> {
        let mut patience = Patience::begin();
        loop {
            if let Some(version) = self.try_shared() {
                return Ok(version);
            }
            patience.pause()?;
        }
    }
}

/// How long one wait for a latch goes on, and the ledger's count of it.
struct Patience {
    pauses: u32,
    _waits: ledger::Timed,
}

impl Patience {
    #[cfg_attr(feature = "ledger", track_caller)]
    fn begin() -> Patience {
        Patience { pauses: 0, _waits: ledger::timed(ledger::What::LatchWait) }
    }

    /// Spins for a moment; later, offers the processor: the holder may have been descheduled in the
    /// middle of its few nanoseconds. `Retry` when it has been long enough.
    fn pause(&mut self) -> Outcome<()> {
        if self.pauses < SPINS_MAX {
            spin();
        } else {
            #[cfg(not(loom))]
            std::thread::yield_now();
        }
        self.pauses += 1;
        if self.pauses < SPINS_MAX + YIELDS_MAX { Ok(()) } else { Err(Stop::Retry) }
    }
}
