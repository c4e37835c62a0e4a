//! Queues of those who wait for a row (rule 6.5), or for a key of a unique index whose fate a
//! transaction's end decides (rule 5.6): a hot row or key goes to one waiter at a time. What is said
//! of rows holds of keys too; what is different comes below.
//!
//! A row's owner is in its twin entry and undo record; this has only who waits for it, by the
//! row's name. Nobody touches a queue but who finds a row in another's hands (and a claim looks at
//! one word of the shard), and a row that moves in a split or merge, or whose leaf loses its twin,
//! keeps its queue, since the name stays.
//!
//! - Who finds the row held **stands** at the end of the queue. Only the head *watches* the holder:
//!   it is on the list of the holder's slot (rule 6.6). All others sleep until the turn is theirs.
//! - The head **looks again** before it sleeps: it enlists, then tries its operation again.
//! - Who **leaves** passes the turn on, whatever made it leave. If it has taken the row, the next
//!   one watches it from now on and is not woken: it is put on the leaver's own list, which the
//!   leaver will look at when it ends or gives the row back. If not (it gave up, or the row was
//!   not to be had), the next one is woken and looks.
//! - If the row has **outrun** the leaver's snapshot (40001), it has those of all who stood while
//!   it was held and want it as their snapshots see it ([`Wants::AsSeen`]): they are let go at once,
//!   and stand no more. Handed to one after another it would fail each in its turn, while those who
//!   begin anew queue behind them and are outrun in their turn by the first who succeeds: a hot row
//!   under REPEATABLE READ then failed thirty for each commit, for ever.
//! - A **newcomer** that finds the row free while somebody stands there conflicts with the head, and
//!   goes behind ([`RowQueues::in_front`]). One that came to the page before the head stood may
//!   still be first; then the head finds it there and watches it.
//!
//! **Keys.** Who takes a key adds an entry for a row of its own; that row, in flight, is what is in
//! the way of the next one, so the turn passes as if the row had been taken. If the end that was
//! waited for was a commit, the key may be taken for good: then the head has *outrun* word for all
//! who stand, and lets them go. If it was a rollback (or the commit of a delete), one can win, and
//! one is woken. A look that finds the key free (ON CONFLICT) **keeps its turn** until its
//! transaction's next operation, or its command, has ended: it stands, awake, as if it still looked. A
//! newcomer goes behind those who stand, except the one whom they wait for, which it knows by a row
//! of its own that has the key in any version: it has the key's fate in its hands, and takes it
//! where it is. Keys are known by a hash; two of one hash share a queue, and its head may then be
//! in the way of who wants the other key: it waits longer, for whom its edge shows.
//!
//! **No turn is lost.** Whether somebody stands, is the head, and what the head watches change
//! under the shard's mutex only. A sleeper that is not the head has somebody in front, who leaves
//! under that mutex some time: by its operation's end (who keeps its turn: the next one's, or its
//! command's), or by its transaction's. Who is let go is woken after it stands no more, and stands
//! again, behind, if it still wants the row. A head that watches is on a slot's list, and
//! `slot::handshake` argues that it is woken. A head that does not watch is awake: it was woken
//! after the turn became its own, or has not slept since it stood.
//!
//! **No deadlock is hidden.** Who stands here waits for nothing else: an operation that meets
//! another row or key, or a table lock, leaves first. So all of a queue wait for the one that the
//! head watches, and that is everybody's edge ([`RowQueues::blocker`]). (An edge from the back to
//! the head adds no cycle that the head's own edge does not make, only members whose end would help
//! nobody.) While the head looks, it is itself who the others wait for.
//!
//! There is one strength yet, exclusive. Weaker ones (rule 6.5) would stand here with theirs, and
//! the turn would pass to all at the front that do not conflict.
//!
//! Who writes: any thread, under the shard's mutex; `standing` and `keys` too, and claims read them
//! without.
//! Lock order: a leaf's latch, then a shard's mutex, then a slot's list. Wake-ups come after the
//! mutex. `loom_row_queue_*` runs this code.

use std::collections::{HashMap, VecDeque};

use super::slot::{Enlisted, Slot, SlotTable, Wake};
use crate::base::{KeyHash, RowId, TreeId, Xid};
use crate::sync::{AtomicU64, Mutex, Ordering, mutant, point};

#[cfg(not(loom))]
const SHARDS: usize = 256;
#[cfg(loom)]
const SHARDS: usize = 1;

/// A row, or a key of a unique index, for as long as the table or index lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::txn) struct RowName {
    /// Its table's tree, or the index's; no table has an index's number.
    pub tree: TreeId,
    /// The row, or what stands for the key.
    pub row: RowId,
}

impl RowName {
    /// A key of an index.
    pub fn of_key(index: TreeId, key: KeyHash) -> RowName {
        RowName { tree: index, row: RowId(key.0) }
    }
}

/// Where slots are found.
pub(in crate::txn) trait Slots<W> {
    /// The slot that `xid` names, whichever use it is in.
    fn slot(&self, xid: Xid) -> &Slot<W>;
}

impl<W: Wake> Slots<W> for SlotTable<W> {
    fn slot(&self, xid: Xid) -> &Slot<W> {
        &self.get(xid).slot
    }
}

/// What who stands does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum Next {
    /// It is on the holder's list now, or the holder has ended: look at the row again.
    Look,
    /// Sleep until [`RowQueues::is_over`].
    Sleep,
    /// It was let go meanwhile, and stands no more: look at the row again.
    LetGo,
}

/// Whether who leaves has the row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum Took {
    /// It is in flight by the leaver.
    TheRow,
    /// It is not.
    Nothing,
    /// It is not, and it has a version that the leaver's snapshot does not see; or another row has
    /// the key for good.
    Outrun,
}

/// What a waiter can do with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum Wants {
    /// The row's newest version, whatever it is (rule 6.4).
    Newest,
    /// The one in its snapshot: a newer one fails it.
    AsSeen,
    /// The key while nobody has it (rule 5.6): a committed row that has it fails it.
    Key,
}

/// What a sleeper finds when it wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) struct Woken {
    /// Whom it watched, if it was the head.
    pub watched: Option<Xid>,
    /// Whether it stands here still.
    pub stands: Stands,
}

/// Whether somebody stands in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum Stands {
    /// It does.
    Still,
    /// It was let go.
    NoMore,
}

struct Standing<W> {
    owner: Xid,
    wants: Wants,
    waker: W,
}

/// On whose list the head is.
#[derive(Clone, Copy)]
struct Watched {
    holder: Xid,
    place: Enlisted,
}

struct Queue<W> {
    // Never empty while the queue is in its shard's map.
    standing: VecDeque<Standing<W>>,
    // None while the head is awake.
    watched: Option<Watched>,
}

impl<W> Queue<W> {
    fn head(&self) -> Xid {
        self.standing.front().expect("an empty queue goes at once").owner
    }

    fn has(&self, own: Xid) -> bool {
        self.standing.iter().any(|other| other.owner == own)
    }
}

/// Aligned so that two shards never share a line.
#[repr(align(128))]
struct Shard<W> {
    queues: Mutex<HashMap<RowName, Queue<W>>>,
}

/// All queues of a database.
pub(in crate::txn) struct RowQueues<W> {
    shards: Box<[Shard<W>]>,
    // How many stand in each shard. Written under its mutex, read by every claim without: close together,
    // so that they stay in the caches of those who never wait. Who waits takes a line from others
    // as often as if each had its own.
    standing: Box<[AtomicU64]>,
    keys: KeysAwaited,
}

/// A line of its own: whoever adds a unique entry reads it, hardly anybody writes it.
#[repr(align(128))]
struct KeysAwaited {
    // How many stand for keys. Written under a shard's mutex, read without.
    standing: AtomicU64,
}

impl<W: Wake + Clone> RowQueues<W> {
    /// Nobody waits.
    pub fn new() -> RowQueues<W> {
        let shard = |_| Shard { queues: Mutex::new(HashMap::default()) };
        RowQueues {
            shards: (0..SHARDS).map(shard).collect(),
            standing: (0..SHARDS).map(|_| AtomicU64::new(0)).collect(),
            keys: KeysAwaited { standing: AtomicU64::new(0) },
        }
    }

    #[inline]
    fn shard(name: RowName) -> usize {
        let mixed = (name.row.0 ^ (name.tree.0 as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize % SHARDS
    }

    /// How many stand in the row's shard.
    #[inline]
    fn standing_by(&self, name: RowName) -> &AtomicU64 {
        &self.standing[RowQueues::<W>::shard(name)]
    }

    fn with<R>(&self, name: RowName, look: impl FnOnce(&mut HashMap<RowName, Queue<W>>) -> R) -> R {
        let shard = &self.shards[RowQueues::<W>::shard(name)];
        look(&mut shard.queues.lock().expect("no panic while it is held"))
    }

    /// `own` found the row in another's hands and stands at the end of its queue from now on. It
    /// stands nowhere else. `waker` ends its sleep.
    pub fn stand(&self, name: RowName, (own, wants): (Xid, Wants), waker: W) {
        self.with(name, |queues| {
            let new = || Queue { standing: VecDeque::new(), watched: None };
            let queue = queues.entry(name).or_insert_with(new);
            debug_assert!(!queue.has(own));
            queue.standing.push_back(Standing { owner: own, wants, waker });
            self.standing_by(name).fetch_add(1, Ordering::Relaxed);
            if wants == Wants::Key {
                self.keys.standing.fetch_add(1, Ordering::Relaxed);
            }
        });
        point("txn-row-stood");
    }

    /// `own`, who stands here, has found `holder` in the way.
    pub fn found(&self, slots: &impl Slots<W>, name: RowName, own: Xid, holder: Xid) -> Next {
        self.with(name, |queues| {
            let Some(queue) = queues.get_mut(&name) else { return Next::LetGo };
            if queue.head() != own {
                return if queue.has(own) { Next::Sleep } else { Next::LetGo };
            }
            match queue.watched {
                Some(watched) if watched.holder == holder => return Next::Sleep,
                Some(watched) => slots.slot(watched.holder).withdraw(watched.place.ticket),
                None => {}
            }
            let waker = queue.standing[0].waker.clone();
            let place = slots.slot(holder).enlist(holder.sequence(), waker);
            queue.watched = place.map(|place| Watched { holder, place });
            Next::Look
        })
    }

    /// Whether `own`, who sleeps here, is to look at the row again: it may have the turn, or it was
    /// let go.
    pub fn is_over(&self, slots: &impl Slots<W>, name: RowName, own: Xid) -> bool {
        self.with(name, |queues| {
            let Some(queue) = queues.get(&name) else { return true };
            if queue.head() != own {
                return !queue.has(own);
            }
            queue.watched.is_none_or(|Watched { holder, place }| {
                slots.slot(holder).has_moved(holder.sequence(), place)
            })
        })
    }

    /// `own` sleeps no more: if it was the head it is off the list that it was on.
    pub fn woke(&self, slots: &impl Slots<W>, name: RowName, own: Xid) -> Woken {
        self.with(name, |queues| {
            let gone = Woken { watched: None, stands: Stands::NoMore };
            let Some(queue) = queues.get_mut(&name) else { return gone };
            if queue.head() != own {
                return if queue.has(own) { Woken { stands: Stands::Still, ..gone } } else { gone };
            }
            let watched = queue.watched.take().map(|Watched { holder, place }| {
                slots.slot(holder).withdraw(place.ticket);
                holder
            });
            Woken { watched, stands: Stands::Still }
        })
    }

    /// `own` stands here no more, and passes its turn on if it has it.
    pub fn leave(&self, slots: &impl Slots<W>, name: RowName, own: Xid, took: Took) {
        let next = self.with(name, |queues| {
            let Some(queue) = queues.get_mut(&name) else { return Vec::new() };
            let Some(at) = queue.standing.iter().position(|other| other.owner == own) else {
                return Vec::new();
            };
            let (before, mut woken) = (queue.standing.len(), Vec::new());
            let is_key = queue.standing[at].wants == Wants::Key;
            queue.standing.remove(at);
            if at == 0 {
                if let Some(watched) = queue.watched.take() {
                    slots.slot(watched.holder).withdraw(watched.place.ticket);
                }
                if took == Took::Outrun && !mutant("row-outrun-one-by-one") {
                    let (outrun, rest) =
                        queue.standing.drain(..).partition(|other| other.wants != Wants::Newest);
                    queue.standing = rest;
                    woken.extend(VecDeque::into_iter(outrun).map(|other| other.waker));
                }
            }
            let left = before - queue.standing.len();
            self.standing_by(name).fetch_sub(left as u64, Ordering::Relaxed);
            if is_key {
                // A queue is a row's or a key's.
                self.keys.standing.fetch_sub(left as u64, Ordering::Relaxed);
            }
            let Some(next) = queue.standing.front() else {
                queues.remove(&name);
                return woken;
            };
            if at > 0 {
                return woken;
            }
            let waker = next.waker.clone();
            if took == Took::TheRow {
                // The leaver runs, so it has not ended.
                let place = slots.slot(own).enlist(own.sequence(), waker);
                queue.watched = place.map(|place| Watched { holder: own, place });
            } else {
                woken.push(waker);
            }
            woken
        });
        point("txn-row-left");
        if !mutant("row-turn-not-passed-on") {
            next.iter().for_each(Wake::wake);
        }
    }

    /// Whether somebody stands for a key. Relaxed: who stood before the key was given back did so
    /// before its holder's latch; who comes later has no right to be seen. Own ones are seen.
    #[inline]
    pub fn are_keys_awaited(&self) -> bool {
        self.keys.standing.load(Ordering::Relaxed) != 0
    }

    /// Who has the first right to the row, if that is another than `own`. Called under the leaf's
    /// latch by who found the row free: takes the mutex only if somebody stands in this shard.
    #[inline]
    pub fn in_front(&self, name: RowName, own: Xid) -> Option<Xid> {
        // Relaxed: who stood before the row was let go of did so before its holder's latch; one
        // who stands later has no right to be seen.
        if self.standing_by(name).load(Ordering::Relaxed) == 0 || mutant("row-queue-jumped") {
            return None;
        }
        self.with(name, |queues| queues.get(&name).map(Queue::head).filter(|head| *head != own))
    }

    /// Whom `own`, who stands here, waits for; for detectors.
    pub fn blocker(&self, slots: &impl Slots<W>, name: RowName, own: Xid) -> Option<Xid> {
        self.with(name, |queues| {
            let queue = queues.get(&name)?;
            if !queue.has(own) {
                return None;
            }
            match queue.watched {
                None => Some(queue.head()).filter(|head| *head != own),
                // Who has given rows back has ended this wait, for what a detector knows.
                Some(Watched { holder, place }) => {
                    let moved = slots.slot(holder).has_moved(holder.sequence(), place);
                    (!moved || mutant("txn-moved-edge-counts")).then_some(holder)
                }
            }
        })
    }

    /// Whether nobody waits for any row.
    #[cfg(all(test, not(loom)))]
    pub fn is_idle(&self) -> bool {
        let idle = |shard: &Shard<W>| shard.queues.lock().expect("no panic").is_empty();
        !self.are_keys_awaited()
            && self.shards.iter().all(idle)
            && self.standing.iter().all(|it| it.load(Ordering::Relaxed) == 0)
    }

    /// Who stands at the row, the head first.
    #[cfg(all(test, not(loom)))]
    pub fn standing(&self, name: RowName) -> Vec<Xid> {
        self.with(name, |queues| {
            let queue = queues.get(&name);
            queue.map_or(Vec::new(), |it| it.standing.iter().map(|other| other.owner).collect())
        })
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
