//! Where a session's transactions hash to, and whether it had rather be there (kernel rule 2.10).
//!
//! ```text
//!   None --begin--> Asked --hint or first key--> Near(instance) --end--> None (noted)
//!                     |------------------ end ------------------------> None (noted as none)
//! ```
//!
//! Invariants: at most one key a transaction, the hint before the first statement's. A session
//! wants to move when [`MOST`] of its last [`WINDOW`] transactions hashed to one other instance,
//! and never before it has run `rest` transactions where it is. `rest` doubles with each move that
//! follows soon on the one before, up to [`REST_MAX`], so a session whose keys change all the time
//! stays where it is; a long stay forgives everything. Only a hint that came with the start of the
//! session is followed at once.

use atoll_kernel::api::{AffinityKey, InstanceId};
use atoll_kernel::sync::{AtomicU64, Ordering};

/// Transactions that are looked back on.
const WINDOW: usize = 16;
/// How many of them make a session move: three quarters.
const MOST: usize = 12;
/// Transactions between a session's moves, at most.
const REST_MAX: u32 = 3072;
/// Transactions, in rests, after which moves of long ago count no more.
const LONG_RESTS: u32 = 8;

/// What is known of the running transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Present {
    /// There is none.
    None,
    /// It has no key yet.
    Asked,
    /// It hashes there.
    Near(InstanceId),
}

/// A session's transactions by where they hash to.
#[derive(Clone, Debug)]
pub(super) struct Affinity {
    /// Of the setting `atoll.affinity`.
    pub hint: Option<AffinityKey>,
    instances: usize,
    here: InstanceId,
    present: Present,
    last: [Option<InstanceId>; WINDOW],
    next: usize,
    /// Transactions since it came here, or was last kept here.
    since: u32,
    rest: u32,
    /// Where the hint of its start sends it.
    at_once: Option<InstanceId>,
}

impl Affinity {
    /// Of a new session on `here`, one of `instances`.
    pub fn new(here: InstanceId, instances: usize) -> Affinity {
        Affinity {
            hint: None,
            instances,
            here,
            present: Present::None,
            last: [None; WINDOW],
            next: 0,
            since: 0,
            rest: MOST as u32,
            at_once: None,
        }
    }

    /// The session begins with the hint that is set.
    pub fn begin_session(&mut self) {
        let near = self.hint.map(|key| key.instance(self.instances));
        self.at_once = near.filter(|near| *near != self.here);
    }

    /// A transaction begins.
    pub fn begin(&mut self) {
        self.present = Present::Asked;
    }

    /// Whether the running transaction has no key yet.
    pub fn asks(&self) -> bool {
        self.present == Present::Asked
    }

    /// The running transaction's key, if it has none yet.
    pub fn note(&mut self, key: AffinityKey) {
        if self.asks() {
            self.present = Present::Near(key.instance(self.instances));
        }
    }

    /// The transaction ends. Answers where it hashed to, if it had a key.
    pub fn end(&mut self) -> Option<InstanceId> {
        if self.present == Present::None {
            return None;
        }
        if let Some(hint) = self.hint {
            self.note(hint);
        }
        let near = match std::mem::replace(&mut self.present, Present::None) {
            Present::Near(near) => Some(near),
            Present::None | Present::Asked => None,
        };
        self.last[self.next] = near;
        self.next = (self.next + 1) % WINDOW;
        self.since = self.since.saturating_add(1);
        self.at_once = None;
        near
    }

    /// The instance that the session had rather be on.
    pub fn wanted(&self) -> Option<InstanceId> {
        if self.at_once.is_some() || self.since < self.rest {
            return self.at_once;
        }
        let elsewhere = |near: &&Option<InstanceId>| near.is_some_and(|near| near != self.here);
        let first = *self.last.iter().find(elsewhere)?;
        let count = |near| self.last.iter().filter(|other| **other == near).count();
        // Only one can have so many, but the first of another may not be it.
        let candidates = self.last.iter().filter(elsewhere).copied();
        std::iter::once(first).chain(candidates).find(|near| count(*near) >= MOST).flatten()
    }

    /// Whether none of its last transactions hashed anywhere.
    pub fn is_free(&self) -> bool {
        self.hint.is_none() && self.last.iter().all(Option::is_none)
    }

    /// It has moved there.
    pub fn moved(&mut self, here: InstanceId) {
        if self.is_free() {
            // It followed nothing.
            self.here = here;
            return;
        }
        let soon = self.since < self.rest.saturating_mul(LONG_RESTS);
        // To follow its first hint is no going to and fro.
        if self.at_once.take().is_none() {
            self.rest = if soon { (self.rest * 2).min(REST_MAX) } else { MOST as u32 };
        }
        self.here = here;
        self.forget();
    }

    /// It could not move: it is asked again later.
    pub fn stayed(&mut self) {
        self.at_once = None;
        self.forget();
    }

    fn forget(&mut self) {
        self.since = 0;
        self.last = [None; WINDOW];
    }

    /// Where it is.
    pub fn here(&self) -> InstanceId {
        self.here
    }
}

/// What the sessions of one instance have counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutingCounts {
    /// Sessions that came from another instance.
    pub arrived: u64,
    /// Sessions that went to another one.
    pub departed: u64,
    /// Times that a session had to stay, for something that cannot move.
    pub kept: u64,
    /// Transactions with a key that ran where it hashes to.
    pub near: u64,
    /// Transactions with a key that hashes to another instance.
    pub far: u64,
}

/// One instance's counters, on lines of their own. Written by its own thread alone, read by any.
#[derive(Default)]
#[repr(align(128))]
struct Counters {
    arrived: AtomicU64,
    departed: AtomicU64,
    kept: AtomicU64,
    near: AtomicU64,
    far: AtomicU64,
}

/// What is counted of an instance's sessions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    Arrived,
    Departed,
    Kept,
    Near,
    Far,
}

/// The counters of all instances.
pub struct Routing {
    instances: Box<[Counters]>,
}

impl Routing {
    pub(super) fn new(instances: usize) -> Routing {
        Routing { instances: (0..instances).map(|_| Counters::default()).collect() }
    }

    /// Counts one; called on the instance's own thread.
    pub(super) fn count(&self, here: InstanceId, what: Counted) {
        let Some(counters) = self.instances.get(usize::from(here.0)) else { return };
        let counter = match what {
            Counted::Arrived => &counters.arrived,
            Counted::Departed => &counters.departed,
            Counted::Kept => &counters.kept,
            Counted::Near => &counters.near,
            Counted::Far => &counters.far,
        };
        // One writer: no read-modify-write.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// All counts, by instance.
    pub fn counts(&self) -> Vec<RoutingCounts> {
        let of = |counters: &Counters| RoutingCounts {
            arrived: counters.arrived.load(Ordering::Relaxed),
            departed: counters.departed.load(Ordering::Relaxed),
            kept: counters.kept.load(Ordering::Relaxed),
            near: counters.near.load(Ordering::Relaxed),
            far: counters.far.load(Ordering::Relaxed),
        };
        self.instances.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that hashes there.
    fn key(near: u16, instances: usize) -> AffinityKey {
        let mut keys = (0_u64..).map(AffinityKey::from);
        keys.find(|key| key.instance(instances) == InstanceId(near)).unwrap()
    }

    fn run(affinity: &mut Affinity, key: Option<AffinityKey>) {
        affinity.begin();
        key.into_iter().for_each(|key| affinity.note(key));
        affinity.end();
    }

    /// Runs transactions near `near`, follows the session, answers how often it moved.
    fn moves(affinity: &mut Affinity, near: impl Fn(u32) -> u16, count: u32) -> u32 {
        let mut moved = 0;
        for number in 0..count {
            run(affinity, Some(key(near(number), 4)));
            if let Some(wanted) = affinity.wanted() {
                assert_ne!(wanted, affinity.here());
                affinity.moved(wanted);
                moved += 1;
            }
        }
        moved
    }

    #[test]
    fn three_quarters_elsewhere_make_a_session_move() {
        let mut affinity = Affinity::new(InstanceId(0), 4);
        for number in 0..11 {
            run(&mut affinity, Some(key(2, 4)));
            assert_eq!(affinity.wanted(), None, "{number}");
        }
        run(&mut affinity, Some(key(2, 4)));
        assert_eq!(affinity.wanted(), Some(InstanceId(2)));
        affinity.moved(InstanceId(2));
        assert_eq!(affinity.wanted(), None);
        // Now it is at home.
        assert_eq!(moves(&mut affinity, |_| 2, 1000), 0);
    }

    #[test]
    fn transactions_without_a_key_are_at_home_everywhere() {
        let mut affinity = Affinity::new(InstanceId(0), 4);
        for number in 0..1000 {
            run(&mut affinity, (number % 3 != 0).then(|| key(1, 4)));
            assert_eq!(affinity.wanted(), None, "{number}: two thirds are not enough");
        }
    }

    #[test]
    fn a_session_of_many_keys_stays() {
        let mut affinity = Affinity::new(InstanceId(0), 4);
        assert_eq!(moves(&mut affinity, |number| (number % 2) as u16, 10_000), 0);
        assert_eq!(moves(&mut affinity, |number| (number % 4) as u16, 10_000), 0);
    }

    #[test]
    fn moves_to_and_fro_become_rare() {
        let mut affinity = Affinity::new(InstanceId(0), 4);
        let phase = |number: u32| (number / 16 % 2) as u16;
        let first = moves(&mut affinity, phase, 1600);
        assert!((1..=10).contains(&first), "{first}");
        let later = moves(&mut affinity, phase, 160_000);
        assert!(later <= 160_000 / REST_MAX + 10, "{later}");
        // A long stay forgives: then it moves as quickly as at first.
        moves(&mut affinity, |_| 3, 40_000);
        assert_eq!(moves(&mut affinity, |_| 1, 16), 1);
    }

    #[test]
    fn a_hint_at_the_start_is_followed_at_once_and_once() {
        let mut affinity = Affinity::new(InstanceId(0), 4);
        affinity.hint = Some(key(3, 4));
        affinity.begin_session();
        assert_eq!(affinity.wanted(), Some(InstanceId(3)));
        affinity.moved(InstanceId(3));
        assert_eq!(affinity.wanted(), None);
        // It goes before the keys of statements.
        assert_eq!(moves(&mut affinity, |_| 1, 100), 1, "the test's keys are not hints");
    }

    #[test]
    fn the_hint_is_a_transactions_key_also_if_no_statement_asked() {
        let mut affinity = Affinity::new(InstanceId(0), 4);
        affinity.begin();
        affinity.hint = Some(key(3, 4));
        assert_eq!(affinity.end(), Some(InstanceId(3)));
        assert_eq!(affinity.end(), None, "there was no transaction");
    }

    #[test]
    fn who_cannot_move_is_asked_again_later() {
        let mut affinity = Affinity::new(InstanceId(0), 4);
        for _ in 0..3 {
            for _ in 0..11 {
                run(&mut affinity, Some(key(2, 4)));
                assert_eq!(affinity.wanted(), None);
            }
            run(&mut affinity, Some(key(2, 4)));
            assert_eq!(affinity.wanted(), Some(InstanceId(2)));
            affinity.stayed();
        }
    }

    #[test]
    fn counts_are_by_instance() {
        let routing = Routing::new(2);
        for what in [Counted::Arrived, Counted::Near, Counted::Near, Counted::Far] {
            routing.count(InstanceId(1), what);
        }
        let there = RoutingCounts { arrived: 1, near: 2, far: 1, ..RoutingCounts::default() };
        assert_eq!(routing.counts(), [RoutingCounts::default(), there]);
    }
}
