//! Many simulations: fixed seeds, then fresh ones until the time is up, one on each core.
//!
//! Invariants: a simulation stays on its thread, and threads share nothing but which seed is next;
//! what came of a campaign does not depend on who ran which. Every failing seed is named with the
//! command that replays it. A whole campaign, with fixed and fresh seeds, also fails if it never met
//! one of the rare states: it did not test what it should.

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use atoll_kernel::sync::{AtomicU64, Ordering};

use crate::counters::Counters;
use crate::history::Digest;
use crate::run::{Outcome, Setting, simulate};

/// Seeds that every campaign with fixed seeds runs.
pub const FIXED: std::ops::RangeInclusive<u64> = 1..=40;

/// What to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Of each simulation; the seed is replaced, but for `one`.
    pub setting: Setting,
    /// Which seeds.
    pub seeds: Seeds,
    /// Fresh seeds are begun until so much time has passed.
    pub time: Duration,
    /// Where fresh seeds begin.
    pub fresh_from: u64,
    /// Threads that simulate.
    pub jobs: usize,
}

/// Which seeds a campaign runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seeds {
    /// The setting's own.
    One,
    /// The fixed ones.
    Fixed,
    /// Fresh ones.
    Fresh,
    /// The fixed ones, then fresh ones.
    FixedThenFresh,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Simulations without a complaint.
    pub passed: u64,
    /// Simulations with one; and one more if rare states were never met.
    pub failed: u64,
    /// What all met together.
    pub counters: Counters,
    /// Tells the whole campaign from another.
    pub digest: Digest,
}

/// Runs it; `say` gets lines for people.
pub fn run(campaign: &Campaign, say: &mut dyn FnMut(&str)) -> Summary {
    let began = Instant::now();
    let mut summary = Summary::default();
    if campaign.seeds == Seeds::One {
        let outcome = simulate(&campaign.setting);
        tell(&campaign.setting, &outcome, say);
        summary.take(&outcome);
        summary.digest.word(outcome.digest.0);
        return summary;
    }
    if matches!(campaign.seeds, Seeds::Fixed | Seeds::FixedThenFresh) {
        let last = FIXED.end() - FIXED.start();
        many(campaign, *FIXED.start(), &|index| index <= last, &mut summary, say);
    }
    if matches!(campaign.seeds, Seeds::Fresh | Seeds::FixedThenFresh) {
        let from = campaign.fresh_from.wrapping_add(1);
        many(campaign, from, &|_| began.elapsed() < campaign.time, &mut summary, say);
    }
    if campaign.seeds == Seeds::FixedThenFresh {
        for missing in summary.counters.missing() {
            say(&format!("never met: {missing}"));
            summary.failed += 1;
        }
    }
    summary
}

/// What one simulation came to, and of which seed.
type Done = (Setting, Outcome);

/// Simulates the seeds from `from` on, while `goes_on` says so of their indexes.
fn many(
    campaign: &Campaign,
    from: u64,
    goes_on: &(dyn Fn(u64) -> bool + Sync),
    summary: &mut Summary,
    say: &mut dyn FnMut(&str),
) {
    let next = AtomicU64::new(0);
    let work = |done: Sender<Done>| {
        loop {
            // Relaxed: a number for each, nothing else is handed over.
            let index = next.fetch_add(1, Ordering::Relaxed);
            if !goes_on(index) {
                break;
            }
            let setting = Setting { seed: from.wrapping_add(index), ..campaign.setting };
            if done.send((setting, simulate(&setting))).is_err() {
                break;
            }
        }
    };
    let mut digests = Vec::new();
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..campaign.jobs.max(1) {
            let (sender, work) = (sender.clone(), &work);
            scope.spawn(move || work(sender));
        }
        drop(sender);
        for (setting, outcome) in receiver {
            tell(&setting, &outcome, say);
            summary.take(&outcome);
            digests.push((setting.seed.wrapping_sub(from), outcome.digest.0));
        }
    });
    digests.sort_unstable();
    digests.iter().for_each(|(_, digest)| summary.digest.word(*digest));
}

impl Summary {
    fn take(&mut self, outcome: &Outcome) {
        self.counters.merge(&outcome.counters);
        *if outcome.complaint.is_none() { &mut self.passed } else { &mut self.failed } += 1;
    }
}

fn tell(setting: &Setting, outcome: &Outcome, say: &mut dyn FnMut(&str)) {
    let Some(complaint) = &outcome.complaint else { return };
    let Setting { seed, steps, instances_max, crashes_max } = setting;
    say(&format!("seed {seed}: {complaint}"));
    let crashes = match *crashes_max {
        u64::MAX => String::new(),
        max => format!(" --crashes {max}"),
    };
    say(&format!(
        "  replay: cargo xtask sim --seed {seed} --steps {steps} --instances {instances_max}{crashes}"
    ));
}
