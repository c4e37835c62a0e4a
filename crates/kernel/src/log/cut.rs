//! The cut: the largest consistent state that the logs hold (rule 9.3).
//!
//! Given for every log its valid prefix, and for some of its records dependencies (j, c), a *cut*
//! is one prefix of every log. It is *consistent* if for every record within it and every
//! dependency (j, c) of that record, log j's prefix reaches c: its largest cts is c or more.
//!
//! `cut` starts from the whole valid prefixes and, while a record within its log's cut depends on
//! (j, c) beyond j's cut, cuts its log just before the first such record.
//!
//! **It ends.** Every step shortens a prefix by at least a record.
//!
//! **The result is consistent**, for it ends only when no record within violates.
//!
//! **It is the unique largest.** Let K be any consistent cut. Claim: after every step, every log's
//! prefix is at least as long as K's. It holds at the start, since K is made of valid prefixes.
//! Suppose a step cuts log i before record r because r depends on (j, c) and j's present prefix
//! ends below c. K's prefix of j is no longer than the present one, so it ends below c too (cts
//! grow along a log). If K held r, K would not be consistent; so K's prefix of i ends before r,
//! and the claim holds after the step. At the end the result contains every consistent cut and is
//! one itself: it is the largest, and there is only one. In particular the order in which
//! violations are taken does not matter.
//!
//! **It contains everything acknowledged.** Let A be, for each log, the prefix up to its last
//! *stable* commit at the moment of the crash. A stable commit is durable, with all before it in
//! its log, so A is made of valid prefixes. For every dependency (j, c) of a record in A, written
//! or left out by the writer, j was stable up to c: so A's prefix of j reaches c, and A is
//! consistent. Hence A lies within the cut; and nothing is acknowledged before it is stable (7.6).
//!
//! Dependencies that a writer left out do no harm. It leaves (j, c) out if j was stable up to c:
//! then every cut that contains A reaches c. Or if an earlier record of the same log carries
//! (j, c') with c' ≥ c: a consistent prefix that holds the later record holds the earlier one.
//! Dependencies on earlier incarnations are at or below the base that each summary starts from,
//! because their cuts were made durable before the present one wrote anything (9.4).
//!
//! Invariants: a pure function; called by `recover` and by tests only.

use std::collections::BTreeMap;

use super::manifest::Cut;
use crate::base::{Cts, HomeId, LogPosition, Observed};

/// What the cut needs to know of one log's valid prefix.
#[derive(Clone, Debug)]
pub struct LogSummary {
    /// The log.
    pub home: HomeId,
    /// One past its last valid byte.
    pub end: LogPosition,
    /// Its largest cts, over all incarnations.
    pub last_cts: Cts,
    /// Its records that depend on other logs, in log order.
    pub dependents: Vec<Dependent>,
}

/// One dependency of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// Where the record begins.
    pub position: LogPosition,
    /// The largest cts before it in its log: what is left if it is cut off.
    pub before: Cts,
    /// What it depends on.
    pub on: Observed,
}

/// The largest consistent cut; one entry for each summary, in the same order. Summaries are in
/// the order of their homes, from home 0 on, without gaps.
pub fn cut(logs: &[LogSummary]) -> Vec<Cut> {
    let whole = |log: &LogSummary| Cut { home: log.home, position: log.end, cts: log.last_cts };
    let mut cuts: Vec<Cut> = logs.iter().map(whole).collect();
    let needs = needs(logs);
    let mut shortened: Vec<HomeId> = logs.iter().map(|log| log.home).collect();
    // Logs that are not there at all reach nothing.
    let missing = needs.keys().map(|&(on, _)| on).filter(|on| usize::from(on.0) >= logs.len());
    shortened.extend(missing);
    while let Some(on) = shortened.pop() {
        let reach = cuts.get(usize::from(on.0)).map_or(Cts::ZERO, |cut| cut.cts);
        for (&(_, by), needs) in needs.range((on, HomeId(0))..=(on, HomeId(u16::MAX))) {
            // The first record of `by` that needs more than `on` has.
            let first = needs.partition_point(|need| need.largest <= reach);
            let cut = &mut cuts[usize::from(by.0)];
            if let Some(need) = needs.get(first)
                && need.position < cut.position
            {
                (cut.position, cut.cts) = (need.position, need.before);
                shortened.push(by);
            }
        }
    }
    cuts
}

/// What a record and all before it in its log need of one other log.
struct Need {
    position: LogPosition,
    before: Cts,
    largest: Cts,
}

/// For each pair (needed log, needing log): its records in log order. `largest` never falls.
fn needs(logs: &[LogSummary]) -> BTreeMap<(HomeId, HomeId), Vec<Need>> {
    let mut needs: BTreeMap<(HomeId, HomeId), Vec<Need>> = BTreeMap::new();
    for log in logs {
        for dependent in &log.dependents {
            let list = needs.entry((dependent.on.home, log.home)).or_default();
            let before = list.last().map_or(Cts::ZERO, |need| need.largest);
            let largest = dependent.on.cts.max(before);
            list.push(Need { position: dependent.position, before: dependent.before, largest });
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generated log: record n has position `10 * (n + 1)` and these cts and dependencies.
    type Generated = Vec<(Cts, Vec<Observed>)>;

    fn generate(random: &mut fastrand::Rng) -> Vec<Generated> {
        let homes = random.usize(1..5);
        let mut clock = 0;
        let mut logs: Vec<Generated> = vec![Vec::new(); homes];
        let mut written: Vec<Vec<u64>> = vec![Vec::new(); homes];
        for _ in 0..random.usize(0..16) {
            let home = random.usize(..homes);
            clock += random.u64(1..4);
            let mut dependencies = Vec::new();
            for _ in 0..random.usize(..3) {
                let on = random.usize(..homes);
                // On an earlier commit, as histories are; now and then on one that is lost.
                let cts = match random.choice(&written[on]) {
                    Some(&cts) if on != home => cts + 100 * u64::from(random.u8(..12) == 0),
                    _ => continue,
                };
                dependencies.push(Observed { home: HomeId(on as u16), cts: Cts(cts) });
            }
            written[home].push(clock);
            logs[home].push((Cts(clock), dependencies));
        }
        // The machine dies: each log keeps a prefix.
        for log in &mut logs {
            log.truncate(random.usize(..=log.len()));
        }
        logs
    }

    fn summary(home: usize, log: &Generated) -> LogSummary {
        let position = |n: usize| LogPosition(10 * (n as u64 + 1));
        let before = |n: usize| if n == 0 { Cts::ZERO } else { log[n - 1].0 };
        let dependents = log.iter().enumerate().flat_map(|(n, (_, on))| {
            on.iter().map(move |&on| Dependent { position: position(n), before: before(n), on })
        });
        LogSummary {
            home: HomeId(home as u16),
            end: position(log.len()),
            last_cts: before(log.len()),
            dependents: dependents.collect(),
        }
    }

    fn is_consistent(logs: &[Generated], lengths: &[usize]) -> bool {
        let reach =
            |home: usize| lengths[home].checked_sub(1).map_or(Cts::ZERO, |n| logs[home][n].0);
        logs.iter().zip(lengths).all(|(log, &length)| {
            let dependencies = log[..length].iter().flat_map(|(_, on)| on);
            dependencies.into_iter().all(|on| on.cts <= reach(usize::from(on.home.0)))
        })
    }

    /// Tries every cut; returns the longest prefix of each log over all consistent ones.
    fn brute_force(logs: &[Generated]) -> Vec<usize> {
        let mut best = vec![0; logs.len()];
        let mut lengths = vec![0; logs.len()];
        loop {
            if is_consistent(logs, &lengths) {
                for (best, &length) in best.iter_mut().zip(&lengths) {
                    *best = (*best).max(length);
                }
            }
            let Some(home) = (0..logs.len()).find(|&home| lengths[home] < logs[home].len()) else {
                return best;
            };
            lengths[..home].fill(0);
            lengths[home] += 1;
        }
    }

    #[test]
    fn the_cut_is_the_unique_largest_consistent_state() {
        let seed = std::env::var("ATOLL_SEED").ok().and_then(|s| s.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        println!("ATOLL_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut shortened = 0;
        for round in 0..3000 {
            let logs = generate(&mut random);
            let best = brute_force(&logs);
            assert!(is_consistent(&logs, &best), "seed {seed} round {round}: the largest is one");
            let summaries: Vec<_> = logs.iter().enumerate().map(|(h, l)| summary(h, l)).collect();
            let cuts = cut(&summaries);
            for (home, log) in logs.iter().enumerate() {
                let expected = LogPosition(10 * (best[home] as u64 + 1));
                assert_eq!(cuts[home].position, expected, "seed {seed} round {round} {logs:?}");
                let cts = best[home].checked_sub(1).map_or(Cts::ZERO, |n| log[n].0);
                assert_eq!(cuts[home].cts, cts, "seed {seed} round {round}");
                shortened += usize::from(best[home] < log.len());
            }
        }
        assert!(shortened > 100, "seed {seed}: only {shortened} logs were shortened by a cut");
    }

    #[test]
    fn cutting_one_log_cuts_those_that_depend_on_it() {
        let on = |home, cts| vec![Observed { home: HomeId(home), cts: Cts(cts) }];
        let logs: Vec<Generated> = vec![
            vec![(Cts(10), vec![]), (Cts(40), on(1, 30)), (Cts(41), vec![])],
            vec![(Cts(20), vec![]), (Cts(30), on(2, 25))],
            vec![(Cts(24), vec![])],
        ];
        let summaries: Vec<_> = logs.iter().enumerate().map(|(h, l)| summary(h, l)).collect();
        let reach: Vec<u64> = cut(&summaries).iter().map(|cut| cut.cts.0).collect();
        assert_eq!(reach, [10, 20, 24]);
    }
}
