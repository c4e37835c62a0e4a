//! Where a simulated instance stops, and which work in the background is left standing.
//!
//! Invariants: all choices come from the seed and the steps. What stands goes on at the latest when the
//! life calms down, so that in peace everything must come to its end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use atoll_kernel::io::Seeded;
use atoll_kernel::sync::Decider;

use crate::counters::Counters;
use crate::history::Digest;

/// Whoever has the checkpoint role is replaced when nothing was heard of it for less than this.
const TAKEN_OVER_NS: u64 = 31_000_000_000;

/// Work in the background that may stand still, as the kernel names it: at which names, and what is
/// counted when it has begun, when it goes on, and when the machine goes off meanwhile.
const STANDING: [(&str, [&str; 3]); 4] = [
    (
        "role",
        [
            "checkpoint role stalled",
            "checkpoint role went on after a stall",
            "crash while the checkpoint role was stalled",
        ],
    ),
    (
        "share",
        [
            "checkpoint share stalled",
            "checkpoint share went on after a stall",
            "crash while a checkpoint share was stalled",
        ],
    ),
    (
        "eviction",
        [
            "page provider stalled",
            "page provider went on after a stall",
            "crash while the page provider was stalled",
        ],
    ),
    (
        "compaction",
        [
            "compaction stalled",
            "compaction went on after a stall",
            "crash while compaction was stalled",
        ],
    ),
];

/// Decides for all instances of a life.
pub struct Stops {
    random: RefCell<Seeded>,
    // Stop once in so many points; 0: never, and nothing stands.
    one_in: Cell<u64>,
    // Points whose name falls to this are stopped at more often.
    focus: u64,
    // Work in the background stands once in so many chances.
    stand_one_in: u64,
    // The instance that runs, and the steps of the life.
    now: Cell<(usize, u64)>,
    // What stands: on which instance, where, and until which step.
    standing: RefCell<BTreeMap<(usize, &'static str), u64>>,
    // When the clock is to jump, so that what stands is taken for lost.
    jump_at: Cell<Option<u64>>,
    // Work that goes on, by name.
    within: RefCell<BTreeMap<&'static str, u64>>,
    met: RefCell<Counters>,
}

/// What is counted of work at a place of this name.
fn counted(name: &str) -> Option<&'static [&'static str; 3]> {
    STANDING.iter().find(|(work, _)| name.starts_with(work)).map(|(_, counted)| counted)
}

impl Stops {
    /// For one life.
    pub fn new(random: &mut Seeded) -> Stops {
        Stops {
            random: RefCell::new(Seeded::new(random.next_u64())),
            one_in: Cell::new(0),
            focus: random.next_u64(),
            stand_one_in: [4, 20, 100, 1_000_000][random.below(4) as usize],
            now: Cell::new((0, 0)),
            standing: RefCell::default(),
            jump_at: Cell::new(None),
            within: RefCell::default(),
            met: RefCell::default(),
        }
    }

    /// From here on instances stop once in so many points; 0: never.
    pub fn stop_one_in(&self, one_in: u64) {
        self.one_in.set(one_in);
    }

    /// This instance goes on now, in this step.
    pub fn goes_on(&self, instance: usize, step: u64) {
        self.now.set((instance, step));
    }

    /// By how much the clock is to jump at this step.
    pub fn jump(&self, step: u64) -> u64 {
        match self.jump_at.get() {
            Some(at) if at <= step => {
                self.jump_at.set(None);
                TAKEN_OVER_NS
            }
            _ => 0,
        }
    }

    /// Adds what was met.
    pub fn count(&self, counters: &mut Counters) {
        counters.merge(&self.met.borrow());
    }

    /// The machine went off, or the process was killed: in the middle of what?
    pub fn crashed(&self) {
        for (_, name) in std::mem::take(&mut *self.standing.borrow_mut()).into_keys() {
            counted(name).into_iter().for_each(|names| self.met(names[2]));
        }
        for (name, _) in self.within.borrow().iter().filter(|(_, count)| **count > 0) {
            let name = match *name {
                "eviction" => "crash during eviction",
                "compaction" => "crash during compaction",
                _ => "crash during a checkpoint",
            };
            self.met(name);
        }
    }

    fn met(&self, name: &'static str) {
        self.met.borrow_mut().add(name, 1);
    }
}

impl Decider for Stops {
    fn stops(&self, name: &'static str) -> bool {
        if name == "spin" || name == "asleep" {
            return true;
        }
        let one_in = self.one_in.get();
        if one_in == 0 {
            return false;
        }
        let mut hash = Digest(self.focus);
        hash.text(name);
        let one_in = if hash.0 >> 32 & 3 == 0 { 3 } else { one_in };
        self.random.borrow_mut().one_in(one_in)
    }

    fn stays(&self, name: &'static str) -> bool {
        let Some([stands, goes_on, _]) = counted(name) else { return false };
        let (instance, step) = self.now.get();
        let mut standing = self.standing.borrow_mut();
        if let Some(until) = standing.get(&(instance, name)) {
            if step < *until && self.one_in.get() > 0 {
                return true;
            }
            standing.remove(&(instance, name));
            self.met(goes_on);
            return false;
        }
        let mut random = self.random.borrow_mut();
        if self.one_in.get() == 0 || !random.one_in(self.stand_one_in) {
            return false;
        }
        let most = [100, 1_000, 6_000][random.below(3) as usize];
        let steps = 1 + random.below(most);
        standing.insert((instance, name), step + steps);
        self.met(stands);
        if random.one_in(2) {
            // Meanwhile others find that it does not move.
            self.jump_at.set(Some(step + random.below(steps)));
        }
        true
    }

    fn enters(&self, name: &'static str) {
        *self.within.borrow_mut().entry(name).or_default() += 1;
    }

    fn leaves(&self, name: &'static str) {
        if let Some(count) = self.within.borrow_mut().get_mut(name) {
            *count = count.saturating_sub(1);
        }
    }
}
