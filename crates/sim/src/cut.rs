//! An independent judge of the cut (rule 9.3): the largest consistent state, found in the plainest
//! way, against what the kernel wrote into its manifest.
//!
//! Invariants: shares no code with the kernel's cut; from each log it takes the end of its valid
//! prefix and its dependencies, nothing else.

use std::sync::Arc;

use atoll_kernel::base::{Cts, LogPosition, Result};
use atoll_kernel::io::{Disk, SimDisk};
use atoll_kernel::log::manifest::Manifest;
use atoll_kernel::log::{LogSummary, summaries};

use crate::checker::Complaint;

/// What a disk should be cut to.
pub struct Expected {
    incarnation: u32,
    cuts: Vec<(LogPosition, Cts)>,
    starts: Vec<LogPosition>,
}

impl Expected {
    /// How many homes the database has.
    pub fn homes(&self) -> u64 {
        self.cuts.len() as u64
    }
}

/// Reads the logs that `disk` holds. None if it holds no database.
pub fn expected(disk: &SimDisk) -> Result<Option<Expected>> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let Some(manifest) = Manifest::read(&*disk)? else { return Ok(None) };
    let logs = summaries(&disk, &manifest)?;
    let starts = manifest.current().logs.iter().map(|span| span.start).collect();
    Ok(Some(Expected { incarnation: manifest.current().number, cuts: largest(&logs), starts }))
}

/// Takes away the first record that depends on what is not there, until there is none.
fn largest(logs: &[LogSummary]) -> Vec<(LogPosition, Cts)> {
    let mut cuts: Vec<_> = logs.iter().map(|log| (log.end, log.last_cts)).collect();
    loop {
        let mut changed = false;
        for (at, log) in logs.iter().enumerate() {
            let broken = log.dependents.iter().find(|it| {
                let reach = cuts.get(usize::from(it.on.home.0)).map_or(Cts::ZERO, |cut| cut.1);
                it.position < cuts[at].0 && it.on.cts > reach
            });
            if let Some(record) = broken {
                cuts[at] = (record.position, record.before);
                changed = true;
            }
        }
        if !changed {
            return cuts;
        }
    }
}

/// Compares with what recovery has written down.
pub fn check(disk: &SimDisk, expected: &Expected) -> std::result::Result<(), Complaint> {
    let manifest = match Manifest::read(disk) {
        Ok(Some(manifest)) => manifest,
        // Reading is a moment at which the machine may go off, too.
        _ if disk.is_off() => return Ok(()),
        other => return Err(format!("after recovery the manifest is {other:?}")),
    };
    let found = manifest.incarnations.iter().find(|it| it.number == expected.incarnation);
    for (home, (cut, start)) in expected.cuts.iter().zip(&expected.starts).enumerate() {
        let kept = found.and_then(|found| found.logs.get(home)?.cut);
        let kept = kept.map(|kept| (kept.position, kept.cts));
        let is_empty = found.is_none() && cut.0 <= *start;
        if kept != Some(*cut) && !is_empty {
            return Err(format!(
                "the log of home {home} was cut at {kept:?}; the largest consistent state ends \
                 at {cut:?}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_kernel::base::{HomeId, Observed};
    use atoll_kernel::log::Dependent;

    #[test]
    fn a_lost_record_takes_what_depends_on_it() {
        let log = |home: u16, end, last, dependents: &[(u64, u64, u16, u64)]| LogSummary {
            home: HomeId(home),
            end: LogPosition(end),
            last_cts: Cts(last),
            dependents: dependents
                .iter()
                .map(|(position, before, on, cts)| Dependent {
                    position: LogPosition(*position),
                    before: Cts(*before),
                    on: Observed { home: HomeId(*on), cts: Cts(*cts) },
                })
                .collect(),
        };
        // Home 1 lost its commit 7; home 0's second record needs it, home 2's only one needs that.
        let logs = [
            log(0, 200, 8, &[(100, 3, 1, 7)]),
            log(1, 50, 5, &[]),
            log(2, 90, 9, &[(10, 0, 0, 8)]),
        ];
        let cuts = largest(&logs);
        let expected = [(100, 3), (50, 5), (10, 0)];
        assert_eq!(cuts, expected.map(|(position, cts)| (LogPosition(position), Cts(cts))));
    }
}
