//! Which logs a restore goes on with from a backup, and how far (backup rules 7 and 9).
//!
//! Invariants: reads no logs; what is missing between points, or is of another history, is refused by
//! name. Whether the logs are there is seen when they are examined.

use std::collections::BTreeMap;

use super::Point;
use super::archive::{Archive, SegmentKey};
use super::begun::begun_name;
use super::points::Points;
use super::restore::Until;
use super::time::utc;
use crate::base::{Cts, Error, Result};
use crate::io::Disk;
use crate::log::CopiedPart;
use crate::log::manifest::{Incarnation, LogSpan};

/// What logs there are behind the backup's checkpoint.
pub(super) struct Line {
    pub incarnations: Vec<Incarnation>,
    /// One for each of them.
    pub parts: Vec<CopiedPart>,
    pub homes: u16,
    /// All commits below are there, and were committed by then.
    pub reach: Cts,
    pub wall_micros: i64,
}

impl Line {
    /// Behind the checkpoint of the backup `base`, with what the archive has, of which `points` are known.
    /// `Corrupt`, `Unusable`.
    pub fn behind(base: &Point, points: &Points) -> Result<Line> {
        let own = base.manifest.current();
        let alone = Line {
            incarnations: vec![own.clone()],
            parts: vec![CopiedPart::up_to(base.ends.clone())],
            homes: base.manifest.homes,
            reach: base.cts,
            wall_micros: base.wall_micros,
        };
        let Points { begun, reached, .. } = points;
        check_order(base, points)?;
        let own_reached = reached.get(&own.number).filter(|point| point.cts > base.cts);
        let Some((&last, last_begun)) = begun.last_key_value() else {
            return Ok(match own_reached {
                Some(point) => Line {
                    parts: vec![CopiedPart::up_to(point.ends.clone())],
                    reach: point.cts,
                    wall_micros: point.wall_micros,
                    ..alone
                },
                None => alone,
            });
        };
        check_chain(own.number, begun)?;
        let (mut incarnations, mut parts) = (Vec::new(), Vec::new());
        for number in own.number..last {
            let reached = match number == own.number {
                true => Some(own_reached.unwrap_or(base)),
                false => reached.get(&number),
            };
            let Some(logs) = ended(number, own, begun, reached)? else { continue };
            incarnations.push(Incarnation { number, logs });
            parts.push(part(begun.get(&number), reached));
        }
        let running = |span: &LogSpan| LogSpan { start: span.start, cut: None };
        let logs = last_begun.manifest.current().logs.iter().map(running).collect();
        incarnations.push(Incarnation { number: last, logs });
        let reached = reached.get(&last);
        // What was copied of it before all of its logs were does not count: a log alone is consistent
        // wherever it ends, several are where a copy says that all have what came before.
        let reach = match (reached, last_begun.manifest.homes) {
            (Some(point), _) => point.cts,
            (None, 1) => Cts::MAX,
            (None, _) => last_begun.found().next(),
        };
        let wall_micros = reached.unwrap_or(last_begun).wall_micros;
        parts.push(part(Some(last_begun), reached));
        let homes = last_begun.manifest.homes;
        Ok(Line { incarnations, parts, homes, reach, wall_micros })
    }

    /// Refuses what lies before the backup, or beyond what the logs hold.
    pub fn check(&self, until: Until, base: &Point, checkpoint: Cts) -> Result<()> {
        let (early, late, from, to) = match until {
            Until::End => return Ok(()),
            Until::Micros(wall) => (
                wall < base.from_micros,
                wall > self.wall_micros,
                utc(base.from_micros),
                utc(self.wall_micros),
            ),
            Until::Cts(cts) => (
                cts.0.saturating_add(1) < checkpoint.0,
                cts.0 >= self.reach.0,
                format!("cts {}", checkpoint.0 - 1),
                format!("cts {}", self.reach.0.saturating_sub(1)),
            ),
        };
        let detail = match (early, late) {
            (true, _) => format!("the backup cannot go back before {from}; take an older one"),
            (_, true) => format!("the logs are known to be complete up to {to} only"),
            _ => return Ok(()),
        };
        Err(Error::Unusable { detail })
    }

    /// Whether a segment is of what lies behind the checkpoint.
    pub fn needs(&self, (home, incarnation, start): SegmentKey) -> bool {
        let found = self.incarnations.iter().find(|it| it.number == incarnation);
        let span = found.and_then(|it| it.logs.get(usize::from(home.0)));
        span.is_some_and(|span| start >= span.start)
    }
}

/// What is known of an incarnation from how it began, if it is one behind the backup's, and how far it is
/// archived.
fn part(begun: Option<&Point>, reached: Option<&Point>) -> CopiedPart {
    let known = CopiedPart::up_to(reached.map_or(Vec::new(), |point| point.ends.clone()));
    match begun {
        Some(point) => {
            CopiedPart { began_micros: point.wall_micros, above: point.found(), ..known }
        }
        None => known,
    }
}

fn another_history(what: &str) -> Error {
    let detail = format!(
        "the archive is of another history of this database than the backup: {what}; a copy of it \
         was started elsewhere, or it was set back to an earlier copy"
    );
    Error::Unusable { detail }
}

/// Refuses an archive that has nothing of the backup's database, or another beginning of the incarnation
/// that was backed up: who archives notes it in the backup, too.
pub(super) fn check_own(backup: &dyn Disk, base: &Point, archive: &Archive) -> Result<()> {
    if !archive.is_there()? {
        return Err(archive.nothing());
    }
    let own = base.incarnation();
    let name = begun_name(own);
    match archive.begun(own)? {
        Some(begun) if Point::read(backup, &name)?.as_ref() != Some(&begun) => {
            Err(another_history(&format!("each has a \"{name}\" of its own, or the backup none")))
        }
        _ => Ok(()),
    }
}

/// Refuses an archive in which a later point lacks a checkpoint that an earlier one, or the backup, has.
fn check_order(base: &Point, points: &Points) -> Result<()> {
    let mut latest = base;
    if let Some(reached) = points.reached.get(&base.incarnation())
        && !reached.may_precede(latest)
    {
        latest = after(latest, reached, "reached")?;
    }
    for (number, point) in &points.begun {
        latest = after(latest, point, "begun")?;
        if let Some(reached) = points.reached.get(number) {
            latest = after(latest, reached, "reached")?;
        }
    }
    Ok(())
}

/// A point that follows `latest` in one history.
fn after<'a>(latest: &Point, point: &'a Point, what: &str) -> Result<&'a Point> {
    match latest.may_precede(point) {
        true => Ok(point),
        false => {
            let (number, before) = (point.incarnation(), latest.incarnation());
            let detail = format!(
                "\"{number:010}.{what}\" lacks a checkpoint that incarnation {before} has made"
            );
            Err(another_history(&detail))
        }
    }
}

/// The logs of an incarnation that has ended, from where they are needed, with their cuts; none if
/// it left nothing. `Corrupt` if the archive does not say how far it came.
fn ended(
    number: u32,
    own: &Incarnation,
    begun: &BTreeMap<u32, Point>,
    reached: Option<&Point>,
) -> Result<Option<Vec<LogSpan>>> {
    let is_own = number == own.number;
    let Some((_, after)) = begun.range(number + 1..).next() else { return Ok(None) };
    let listed = after.manifest.incarnations.iter().find(|it| it.number == number);
    let mut logs = match (is_own, begun.get(&number), listed) {
        (true, _, _) => own.logs.clone(),
        (false, Some(point), _) => point.manifest.current().logs.clone(),
        (false, None, Some(listed)) => listed.logs.clone(),
        (false, None, None) => return Ok(None),
    };
    if let Some(listed) = listed {
        for (span, found) in logs.iter_mut().zip(&listed.logs) {
            span.cut = found.cut;
        }
        return Ok(Some(logs));
    }
    // A checkpoint had everything of it then, so the next manifest did not name it; or there was
    // nothing.
    let last = after.manifest.checkpoint.as_ref();
    if !is_own && last.is_none_or(|last| last.incarnation != number) {
        return Ok(None);
    }
    let known = reached.and_then(|point| point.manifest.checkpoint.as_ref());
    match (known, last) {
        (Some(known), Some(last)) if known.number >= last.number => {
            logs.iter_mut().for_each(|span| span.cut = None);
            Ok(Some(logs))
        }
        _ => {
            let detail = format!(
                "the archive does not say how far incarnation {number} came: its last checkpoint \
                 was not archived"
            );
            Err(Error::Corrupt { page: None, detail })
        }
    }
}

/// Each manifest must tell of everything since the one before it.
fn check_chain(own: u32, begun: &BTreeMap<u32, Point>) -> Result<()> {
    let mut before = own;
    for (&number, point) in begun {
        let since = point.manifest.checkpoint.as_ref().map_or(0, |it| it.incarnation);
        if since > before {
            let detail = format!(
                "the archive does not say how incarnation {since} began: \
                 \"{since:010}.begun\" is missing"
            );
            return Err(Error::Corrupt { page: None, detail });
        }
        before = number;
    }
    Ok(())
}
