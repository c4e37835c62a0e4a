//! The aims: what is asked for, and of which ways of running.
//!
//! Invariants: a share is of the same round's run. What is asked for of a latency is measured, too.

use std::str::FromStr;

use super::way::Way;
use super::{Measured, Run};
use crate::compare::figures::Spread;

/// Of a bare write's p99, so many times ...
const WRITES: f64 = 2.0;
/// ... and so many microseconds, a transaction may take at half load.
const BESIDE_US: f64 = 200.0;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aim {
    /// TPC-C on one core.
    Confined,
    /// On two.
    Two,
    /// On two with relaxed durability.
    Relaxed,
    /// Eight warehouses without affinity.
    Eight,
    /// A warehouse that two instances share.
    One,
    /// Hot records.
    Hot,
    /// Inserts.
    Insert,
    /// Latency at half load.
    Half,
}

/// What an aim asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Asked {
    /// So many a second, at least.
    Rate { of: Way, least: f64, unit: &'static str },
    /// So many times what another way does, at least.
    Share { of: Way, by: Way, least: f64 },
    /// A latency that follows from a bare write's, at most.
    Latency { of: Way },
}

/// What was asked for and what was measured, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) asked: f64,
    pub(super) measured: Spread,
    pub(super) is_met: bool,
}

impl Aim {
    /// All.
    pub const ALL: [Aim; 8] = [
        Aim::Confined,
        Aim::Two,
        Aim::Relaxed,
        Aim::Eight,
        Aim::One,
        Aim::Hot,
        Aim::Insert,
        Aim::Half,
    ];

    /// Its name, as it is chosen by.
    pub fn name(self) -> &'static str {
        match self {
            Aim::Confined => "confined",
            Aim::Two => "two",
            Aim::Relaxed => "relaxed",
            Aim::Eight => "eight",
            Aim::One => "one",
            Aim::Hot => "hot",
            Aim::Insert => "insert",
            Aim::Half => "half-load",
        }
    }

    /// What it is about, for people.
    pub(super) fn what(self) -> &'static str {
        match self {
            Aim::Confined => "TPC-C, one warehouse, one instance confined with its I/O to one core",
            Aim::Two => "TPC-C, two warehouses, two instances, beside that",
            Aim::Relaxed => "the same with relaxed durability, both",
            Aim::Eight => {
                "TPC-C, eight warehouses, two instances, without affinity, beside the confined"
            }
            Aim::One => {
                "TPC-C, one warehouse, two instances, both of which work on it, beside two warehouses"
            }
            Aim::Hot => "YCSB, 50/50, a hundredth of the records hot, beside all alike",
            Aim::Insert => "rows of 100 bytes, a commit every 1,000",
            Aim::Half => "TPC-B-like at half load: p99, beside twice a bare write's and 200 us",
        }
    }

    /// What it asks for.
    pub(super) fn asked(self) -> Asked {
        let share = |of, by, least| Asked::Share { of, by, least };
        match self {
            Aim::Confined => {
                Asked::Rate { of: Way::Confined, least: 50_000.0, unit: "transactions a second" }
            }
            Aim::Two => share(Way::Two, Way::Confined, 1.85),
            Aim::Relaxed => share(Way::TwoRelaxed, Way::ConfinedRelaxed, 1.95),
            Aim::Eight => share(Way::Eight, Way::Confined, 1.6),
            Aim::One => share(Way::One, Way::Two, 0.6),
            Aim::Hot => share(Way::Hot, Way::Uniform, 0.7),
            Aim::Insert => {
                Asked::Rate { of: Way::Insert, least: 1_000_000.0, unit: "rows a second" }
            }
            Aim::Half => Asked::Latency { of: Way::Half },
        }
    }

    /// The ways of running that it needs.
    pub(super) fn ways(self) -> Vec<Way> {
        match self.asked() {
            Asked::Rate { of, .. } | Asked::Latency { of } => vec![of],
            Asked::Share { of, by, .. } => vec![of, by],
        }
    }
}

impl FromStr for Aim {
    type Err = String;

    fn from_str(text: &str) -> Result<Aim, String> {
        let named = Aim::ALL.into_iter().find(|aim| aim.name() == text);
        named.ok_or_else(|| format!("one of {}", Aim::ALL.map(Aim::name).join(", ")))
    }
}

impl Measured {
    /// What came of an aim, if its ways were run.
    pub(super) fn judged(&self, aim: Aim) -> Option<Judged> {
        let runs = |way: Way| {
            let at = self.ways.iter().position(|it| *it == way)?;
            Some(&self.runs[at])
        };
        let rate = |run: &Run| run.per_second;
        let judged = match aim.asked() {
            Asked::Rate { of, least, .. } => {
                at_least(least, Spread::of(runs(of)?.iter().map(rate)))
            }
            Asked::Share { of, by, least } => {
                let pairs = runs(of)?.iter().zip(runs(by)?);
                at_least(least, Spread::of(pairs.map(|(of, by)| rate(of) / rate(by))))
            }
            Asked::Latency { of } => {
                let p99 = |it: fn(&Run) -> Option<f64>| {
                    runs(of).map(|runs| Spread::of(runs.iter().filter_map(it)))
                };
                let measured = p99(|run| run.p99_us)?;
                let write = p99(|run| Some(run.bare?.write_p99_us))?;
                let asked = WRITES * write.median + BESIDE_US;
                Judged { asked, measured, is_met: measured.median <= asked }
            }
        };
        Some(judged)
    }
}

fn at_least(asked: f64, measured: Spread) -> Judged {
    Judged { asked, measured, is_met: measured.median >= asked }
}
