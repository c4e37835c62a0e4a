//! Many simulations: fixed seeds, then fresh ones until the time is up.
//!
//! Invariants: every failing seed is named with the command that replays it. A whole campaign, with
//! fixed and fresh seeds, also fails if it never met one of the rare states: it did not test what it
//! should.

use std::time::{Duration, Instant};

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
    let mut go = |seed: u64| {
        let setting = Setting { seed, ..campaign.setting };
        let outcome = simulate(&setting);
        tell(&setting, &outcome, say);
        summary.counters.merge(&outcome.counters);
        summary.digest.word(outcome.digest.0);
        *if outcome.complaint.is_none() { &mut summary.passed } else { &mut summary.failed } += 1;
    };
    if campaign.seeds == Seeds::One {
        go(campaign.setting.seed);
        return summary;
    }
    if matches!(campaign.seeds, Seeds::Fixed | Seeds::FixedThenFresh) {
        FIXED.for_each(&mut go);
    }
    if matches!(campaign.seeds, Seeds::Fresh | Seeds::FixedThenFresh) {
        let mut seed = campaign.fresh_from;
        while began.elapsed() < campaign.time {
            seed = seed.wrapping_add(1);
            go(seed);
        }
    }
    if campaign.seeds == Seeds::FixedThenFresh {
        for missing in summary.counters.missing() {
            say(&format!("never met: {missing}"));
            summary.failed += 1;
        }
    }
    summary
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
