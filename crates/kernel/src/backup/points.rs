//! What an archive's points say of a database, in the order of its history.
//!
//! Invariants: only reads points. One that is damaged ends what is known: who needs what lies behind it is
//! refused, others are told of it (backup rule 7).

use std::collections::BTreeMap;

use super::Point;
use super::archive::Archive;
use super::begun::begun_name;
use super::restore::Until;
use crate::base::{Error, Result};

/// The points behind a backup, or behind another point.
#[derive(Default)]
pub(super) struct Points {
    /// How incarnations after the backup's began.
    pub begun: BTreeMap<u32, Point>,
    /// Up to where incarnations from the backup's on are archived, of which that is known.
    pub reached: BTreeMap<u32, Point>,
    /// The first point that is damaged, for people; those behind it were not looked at.
    pub damaged: Option<String>,
}

/// The two points that an incarnation may have.
#[derive(Clone, Copy)]
enum Which {
    Begun,
    Reached,
}

impl Points {
    /// Those that `archive` has behind `base`, as far as `until` needs them. `Corrupt` if one of these is damaged;
    /// `Unusable`, `NotFound`, `Io`.
    pub fn behind(base: &Point, archive: &Archive, until: Until) -> Result<Points> {
        let own = base.incarnation();
        let later = archive.incarnations()?.into_iter().filter(|it| *it > own);
        let both = later.flat_map(|number| [(number, Which::Begun), (number, Which::Reached)]);
        let mut points = Points::default();
        let mut is_enough = has_all(base, until);
        for (number, which) in std::iter::once((own, Which::Reached)).chain(both) {
            let read = match which {
                Which::Begun => archive.begun(number).and_then(|point| {
                    point.ok_or_else(|| Error::NotFound { what: begun_name(number) }).map(Some)
                }),
                Which::Reached => archive.reached(number),
            };
            let point = match read {
                Ok(Some(point)) => point,
                Ok(None) => continue,
                Err(Error::Corrupt { detail, .. }) if is_enough => {
                    points.damaged = Some(format!("the archive's {detail}"));
                    break;
                }
                Err(error) => return Err(error),
            };
            is_enough |= has_all(&point, until);
            match which {
                Which::Begun => points.begun.insert(number, point),
                Which::Reached => points.reached.insert(number, point),
            };
        }
        Ok(points)
    }
}

/// Whether the logs up to a point have all that was committed by then.
fn has_all(point: &Point, until: Until) -> bool {
    match until {
        Until::End => false,
        Until::Micros(micros) => point.wall_micros >= micros,
        Until::Cts(cts) => cts < point.cts || cts <= point.found(),
    }
}
