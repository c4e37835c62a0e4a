//! Many simulations: fixed seeds, then fresh ones until the time is up, one on each core.
//!
//! Invariants: what came of a campaign does not depend on which thread ran which seed. Every failing
//! seed is named with the command that replays it, one that panics or does not end too. A whole
//! campaign, with fixed and fresh seeds, also fails if it never met one of the rare states: it did not
//! test what it should.

use std::time::{Duration, Instant};

use crate::counters::Counters;
use crate::history::Digest;
use crate::run::{Outcome, Setting, simulate};
use crate::workers::{Work, Workers};

/// What a step of a simulation may take, on average; it takes some 5 us.
const STEP_MAX: Duration = Duration::from_millis(2);

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
        many(campaign, *FIXED.start(), Box::new(move |index| index <= last), &mut summary, say);
    }
    if matches!(campaign.seeds, Seeds::Fresh | Seeds::FixedThenFresh) {
        let from = campaign.fresh_from.wrapping_add(1);
        let time = campaign.time;
        many(campaign, from, Box::new(move |_| began.elapsed() < time), &mut summary, say);
    }
    if campaign.seeds == Seeds::FixedThenFresh {
        for missing in summary.counters.missing() {
            say(&format!("never met: {missing}"));
            summary.failed += 1;
        }
    }
    summary
}

/// Simulates the seeds from `from` on, while `goes_on` says so of their indexes.
fn many(
    campaign: &Campaign,
    from: u64,
    goes_on: Box<dyn Fn(u64) -> bool + Send + Sync>,
    summary: &mut Summary,
    say: &mut dyn FnMut(&str),
) {
    let setting = campaign.setting;
    let time_max = STEP_MAX.saturating_mul(u32::try_from(setting.steps).unwrap_or(u32::MAX));
    let work = Work { setting, from, goes_on, simulate, time_max };
    let mut digests = Vec::new();
    for (setting, outcome) in Workers::begin(work, campaign.jobs) {
        tell(&setting, &outcome, say);
        summary.take(&outcome);
        digests.push((setting.seed.wrapping_sub(from), outcome.digest.0));
    }
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
