//! One table's lock (rule 6.6): weak modes striped per instance, strong ones by flag and queue.
//!
//! **Fast path** (a weak mode while nobody holds or wants a strong one): add one to the own
//! instance's stripe, fence, read the `strong` flag: zero, done. **Strong**: under the queue's
//! mutex raise the flag, fence, read all stripes. So of a weak request and a strong one that
//! cross, at least one sees the other. A weak one that sees the flag takes its enlistment out
//! again and goes to the queue, where it first lets the strong ones look again (they may have
//! counted it). **Release**, weak: take out of the stripe, fence, read the flag; if it is up let
//! the queue look again.
//!
//! The queue is first come, first served between conflicting requests, with one exception: a
//! request is not held up by a waiter that itself waits for a lock of the requester (it would
//! wait for ever).
//!
//! Invariants: `strong` counts strong requests that are granted or waiting, so while it is zero
//! the queue is empty and nothing strong is granted; a granted weak mode is counted in exactly one
//! stripe. Who writes: stripes by their instance, and by whoever grants to a queued weak request
//! (under the mutex); `strong` under the mutex; everybody reads both. No waiting here: a request
//! that must wait gets a [`Request`] that says when it is granted. `loom_table_lock_*` runs this
//! code.

use std::collections::VecDeque;
use std::sync::Arc;

use super::mode::{LockMode, ModeSet};
use crate::base::{InstanceId, Observed, Xid};
use crate::sync::{AtomicU32, Mutex, Ordering, fence, mutant, point};
use crate::txn::slot::Wake;

/// Counts of the three weak modes held by one instance's transactions.
#[repr(align(128))]
#[derive(Default)]
struct Stripe {
    counts: [AtomicU32; 3],
}

/// Who asks for a lock, and what it holds on this table already.
#[derive(Clone, Copy, Debug)]
pub(in crate::txn) struct Asker {
    /// The transaction; its instance names the stripe.
    pub owner: Xid,
    /// Modes it holds on this table.
    pub held: ModeSet,
}

/// A request in the queue.
pub(in crate::txn) struct Request<W> {
    asker: Asker,
    mode: LockMode,
    // WAITING, then GRANTED or WITHDRAWN. Written under the queue's mutex (Release), read by the
    // requester (Acquire).
    state: AtomicU32,
    // Commits of releases that this request may have waited for; filled when it is granted.
    observed: Mutex<Vec<Observed>>,
    waker: W,
}

const WAITING: u32 = 0;
const GRANTED: u32 = 1;
const WITHDRAWN: u32 = 2;

impl<W> Request<W> {
    /// The mode asked for.
    #[cfg(all(test, not(loom)))]
    pub fn mode(&self) -> LockMode {
        self.mode
    }

    /// Whether it has been granted.
    pub fn is_granted(&self) -> bool {
        self.state.load(Ordering::Acquire) == GRANTED
    }

    /// The commits that a granted request may have waited for (rule 7.4).
    pub fn observed(&self) -> Vec<Observed> {
        self.observed.lock().expect("no panic while it is held").clone()
    }
}

/// Granted requests, woken in order when this is dropped: after the queue is unlocked.
struct Woken<W: Wake>(Vec<Arc<Request<W>>>);

impl<W: Wake> Default for Woken<W> {
    fn default() -> Self {
        Woken(Vec::new())
    }
}

impl<W: Wake> Drop for Woken<W> {
    fn drop(&mut self) {
        for request in &self.0 {
            request.waker.wake();
        }
    }
}

/// The answer to [`TableLock::request`].
pub(in crate::txn) enum Asked<W> {
    /// Held from now on, having waited for none but perhaps come after these commits.
    Granted(Vec<Observed>),
    /// Wait until the request says that it is granted.
    Queued(Arc<Request<W>>),
}

struct Granted {
    owner: Xid,
    mode: LockMode,
}

struct Queue<W> {
    // Strong modes held.
    granted: Vec<Granted>,
    // First come first.
    waiting: VecDeque<Arc<Request<W>>>,
    // Largest commit per log whose transaction released while the flag was up.
    released: Vec<Observed>,
}

/// Who stands in the way of a request: transactions known by name, and instances with weak
/// holders that the slots' lists must name.
#[derive(Default, Debug)]
pub(in crate::txn) struct Blockers {
    /// Strong holders, and conflicting waiters ahead.
    pub named: Vec<Xid>,
    /// Instances on which a conflicting weak mode is held, with those modes.
    pub weak: Vec<(InstanceId, ModeSet)>,
}

/// A table's lock.
pub(in crate::txn) struct TableLock<W> {
    stripes: Box<[Stripe]>,
    strong: AtomicU32,
    queue: Mutex<Queue<W>>,
}

impl<W: Wake> TableLock<W> {
    /// For a database with this many instances.
    pub fn new(instances: usize) -> TableLock<W> {
        TableLock {
            stripes: (0..instances).map(|_| Stripe::default()).collect(),
            strong: AtomicU32::new(0),
            queue: Mutex::new(Queue {
                granted: Vec::new(),
                waiting: VecDeque::new(),
                released: Vec::new(),
            }),
        }
    }

    fn count(&self, owner: Xid, mode: LockMode) -> &AtomicU32 {
        &self.stripes[owner.instance().0 as usize].counts[mode.index()]
    }

    /// Takes a weak mode if nobody holds or wants a strong one. False: nothing is held, and
    /// [`TableLock::request`] must follow (it also wakes whom the attempt may have held up).
    #[inline]
    pub fn try_weak(&self, owner: Xid, mode: LockMode) -> bool {
        debug_assert!(mode.is_weak());
        let count = self.count(owner, mode);
        count.fetch_add(1, Ordering::Relaxed);
        point("txn-weak-lock-enlisted");
        // Partner: the fence in `request` of a strong mode.
        if !mutant("txn-weak-lock-without-fence") {
            fence(Ordering::SeqCst);
        }
        // Acquire: pairs with the Release of a strong holder's release.
        if self.strong.load(Ordering::Acquire) == 0 || mutant("txn-stripe-without-second-look") {
            return true;
        }
        count.fetch_sub(1, Ordering::Release);
        point("txn-weak-lock-taken-out");
        false
    }

    /// Asks for a lock through the queue: grants it at once or queues it.
    pub fn request(&self, asker: Asker, mode: LockMode, waker: W) -> Asked<W> {
        let mut woken = Woken::default();
        let mut queue = self.queue.lock().expect("no panic while it is held");
        if mode.is_weak() {
            // Strong waiters may have counted the attempt that was taken out again.
            if !mutant("txn-weak-lock-wakes-nobody") {
                woken = self.grant(&mut queue);
            }
        } else {
            self.strong.fetch_add(1, Ordering::Relaxed);
            // Partner: the fences in `try_weak` and `release`.
            fence(Ordering::SeqCst);
        }
        if self.is_free(asker, mode, &queue, queue.waiting.len()) {
            self.hold(&mut queue, asker.owner, mode);
            return Asked::Granted(queue.released.clone());
        }
        let request = Arc::new(Request {
            asker,
            mode,
            state: AtomicU32::new(WAITING),
            observed: Mutex::new(Vec::new()),
            waker,
        });
        queue.waiting.push_back(Arc::clone(&request));
        drop(queue);
        drop(woken);
        Asked::Queued(request)
    }

    /// Gives back one mode. `seen` is the holder's commit, if it wrote a record.
    #[inline]
    pub fn release(&self, owner: Xid, mode: LockMode, seen: Option<Observed>) {
        if mode.is_weak() {
            self.count(owner, mode).fetch_sub(1, Ordering::Release);
            point("txn-weak-lock-released");
            // Partner: the fence in `request` of a strong mode.
            fence(Ordering::SeqCst);
            if self.strong.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
        let mut woken = Woken::default();
        let mut queue = self.queue.lock().expect("no panic while it is held");
        if !mode.is_weak() {
            let held = |held: &Granted| held.owner == owner && held.mode == mode;
            let index = queue.granted.iter().position(held).expect("released only if held");
            queue.granted.swap_remove(index);
            self.strong.fetch_sub(1, Ordering::Release);
        }
        if let Some(seen) = seen {
            match queue.released.iter_mut().find(|known| known.home == seen.home) {
                Some(known) => known.cts = known.cts.max(seen.cts),
                None => queue.released.push(seen),
            }
        }
        if !mutant("txn-release-wakes-nobody") {
            woken = self.grant(&mut queue);
        }
        self.forget_releases(&mut queue);
        drop(queue);
        drop(woken);
    }

    /// Ends a request that is not wanted any more. If it was granted meanwhile, gives it back.
    pub fn withdraw(&self, request: &Request<W>) {
        {
            let mut queue = self.queue.lock().expect("no panic while it is held");
            if request.state.load(Ordering::Relaxed) == WAITING {
                request.state.store(WITHDRAWN, Ordering::Release);
                queue.waiting.retain(|other| !std::ptr::eq(&**other, request));
                if !request.mode.is_weak() {
                    self.strong.fetch_sub(1, Ordering::Release);
                }
                let woken = self.grant(&mut queue);
                self.forget_releases(&mut queue);
                drop(queue);
                drop(woken);
                return;
            }
        }
        if request.is_granted() {
            self.release(request.asker.owner, request.mode, None);
        }
    }

    /// Who holds up a request of `asker` for `mode`. For deadlock detectors.
    pub fn blockers(&self, asker: Asker, mode: LockMode) -> Blockers {
        let queue = self.queue.lock().expect("no panic while it is held");
        let mut blockers = Blockers::default();
        for held in &queue.granted {
            if held.owner != asker.owner && held.mode.conflicts_with(mode) {
                blockers.named.push(held.owner);
            }
        }
        let mine = |other: &Arc<Request<W>>| other.asker.owner == asker.owner;
        let ahead = queue.waiting.iter().position(mine).unwrap_or(queue.waiting.len());
        for other in queue.waiting.iter().take(ahead) {
            if holds_up(other, asker, mode) {
                blockers.named.push(other.asker.owner);
            }
        }
        for (instance, stripe) in self.stripes.iter().enumerate() {
            let mut modes = ModeSet::NONE;
            for weak in LockMode::WEAK {
                let held = stripe.counts[weak.index()].load(Ordering::Acquire) != 0;
                if held && weak.conflicts_with(mode) {
                    modes = modes.with(weak);
                }
            }
            if !modes.is_empty() {
                blockers.weak.push((InstanceId(instance as u16), modes));
            }
        }
        blockers
    }

    /// Whether nobody holds or waits for anything.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        let weak =
            |stripe: &Stripe| stripe.counts.iter().any(|count| count.load(Ordering::Acquire) != 0);
        self.strong.load(Ordering::Acquire) == 0 && !self.stripes.iter().any(weak)
    }

    fn is_free(&self, asker: Asker, mode: LockMode, queue: &Queue<W>, ahead: usize) -> bool {
        let granted = |held: &Granted| held.owner != asker.owner && held.mode.conflicts_with(mode);
        if queue.granted.iter().any(granted) {
            return false;
        }
        for weak in LockMode::WEAK {
            if weak.conflicts_with(mode) {
                let own = asker.held.has(weak) as u32;
                let count = |stripe: &Stripe| stripe.counts[weak.index()].load(Ordering::Acquire);
                if self.stripes.iter().map(count).sum::<u32>() > own {
                    return false;
                }
            }
        }
        !queue.waiting.iter().take(ahead).any(|other| holds_up(other, asker, mode))
    }

    fn hold(&self, queue: &mut Queue<W>, owner: Xid, mode: LockMode) {
        if mode.is_weak() {
            self.count(owner, mode).fetch_add(1, Ordering::Relaxed);
        } else {
            queue.granted.push(Granted { owner, mode });
        }
    }

    /// Grants whatever can be granted, in order of arrival. The caller unlocks the queue, then
    /// drops what this answers, which wakes them.
    fn grant(&self, queue: &mut Queue<W>) -> Woken<W> {
        let mut woken = Woken::default();
        let mut index = 0;
        while index < queue.waiting.len() {
            let request = Arc::clone(&queue.waiting[index]);
            if !self.is_free(request.asker, request.mode, queue, index) {
                index += 1;
                continue;
            }
            queue.waiting.remove(index);
            self.hold(queue, request.asker.owner, request.mode);
            let mut observed = request.observed.lock().expect("no panic while it is held");
            observed.clone_from(&queue.released);
            drop(observed);
            request.state.store(GRANTED, Ordering::Release);
            woken.0.push(request);
        }
        woken
    }

    // Whoever comes after the flag went down waited for nobody.
    fn forget_releases(&self, queue: &mut Queue<W>) {
        if self.strong.load(Ordering::Relaxed) == 0 {
            debug_assert!(queue.waiting.is_empty(), "nobody waits while the flag is down");
            queue.released.clear();
        }
    }
}

/// Whether the waiter `other` goes before `asker`: it conflicts, and does not itself wait for a
/// lock that the asker holds.
fn holds_up<W>(other: &Request<W>, asker: Asker, mode: LockMode) -> bool {
    other.asker.owner != asker.owner
        && other.mode.conflicts_with(mode)
        && !other.mode.conflicts().meets(asker.held)
}

#[cfg(all(test, not(loom)))]
#[path = "tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "models.rs"]
mod models;
