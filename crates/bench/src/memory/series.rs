//! Memory by second while a workload runs, and its picture.
//!
//! Invariants: at most one sample a second, each with when it was taken: who is asked late has taken none for the
//! seconds between. A picture loses no peak: where seconds are more than points, a point is the most of its seconds.

use std::time::Instant;

use serde_json::{Value, json};

use super::{anonymous, resident};
use crate::picture::{COLOURS, Scale, WIDE, begin, legend, line, time_axes};

const MB: f64 = 1e6;
/// Points of a line in a picture; its panel is hardly wider.
const POINTS_MAX: usize = 690;

/// What a database says that it has taken, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Pages in the buffer pool.
    pub pages: u64,
    /// For old versions; it is used again and not given back.
    pub undo: u64,
}

/// One second.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Since the first one.
    seconds: f64,
    resident: u64,
    anonymous: u64,
    /// None of a server.
    taken: Option<Taken>,
}

/// A line of the picture: its name, and what it is of.
type Curve = (&'static str, fn(&Sample) -> Option<u64>);

const CURVES: [Curve; 4] = [
    ("resident", |it| Some(it.resident)),
    ("anonymous", |it| Some(it.anonymous)),
    ("pages in the pool", |it| Some(it.taken?.pages)),
    ("old versions", |it| Some(it.taken?.undo)),
];

/// Samples, a second apart.
#[derive(Clone, Debug, Default)]
pub struct Series {
    began: Option<Instant>,
    samples: Vec<Sample>,
}

impl Series {
    /// Takes a sample of the process and its descendants, if a second has gone since the last one. Nothing where /proc
    /// does not say.
    pub fn look(&mut self, pid: u32, taken: impl FnOnce() -> Option<Taken>) {
        let seconds = self.began.get_or_insert_with(Instant::now).elapsed().as_secs_f64();
        let is_due = |last: &Sample| seconds.floor() > last.seconds.floor();
        if !self.samples.last().is_none_or(is_due) {
            return;
        }
        if let (Some(resident), Some(anonymous)) = (resident(pid), anonymous(pid)) {
            self.samples.push(Sample { seconds, resident, anonymous, taken: taken() });
        }
    }

    /// Bytes that were resident in the end, and at most; none without a sample.
    pub fn resident(&self) -> Option<(u64, u64)> {
        let most = self.samples.iter().map(|it| it.resident).max()?;
        Some((self.samples.last()?.resident, most))
    }

    /// Every sample, by column; null without any.
    pub fn json(&self) -> Value {
        if self.samples.is_empty() {
            return Value::Null;
        }
        let column = |of: fn(&Sample) -> Option<u64>| -> Value {
            self.samples.iter().map(of).collect::<Option<Vec<u64>>>().into()
        };
        let millis = |it: &Sample| (it.seconds * 1000.0).round() / 1000.0;
        let [resident, anonymous, pages, undo] = CURVES.map(|(_, of)| column(of));
        json!({
            "seconds": self.samples.iter().map(millis).collect::<Vec<f64>>(),
            "resident_bytes": resident,
            "anonymous_bytes": anonymous,
            "pool_bytes": pages,
            "undo_bytes": undo,
        })
    }

    /// A picture of it. An error if there is too little to draw a line through.
    pub fn svg(&self, title: &str) -> Result<String, String> {
        let [_, .., last] = &*self.samples else {
            return Err("memory was not seen for two seconds: run for longer".to_owned());
        };
        let curves = CURVES.map(|(name, of)| (name, self.points(of)));
        let curves: Vec<_> = curves.into_iter().filter(|(_, points)| !points.is_empty()).collect();
        let most = curves.iter().flat_map(|(_, points)| points).map(|it| it.1).fold(0.0, f64::max);
        let scale = Scale::linear(most);
        let mut out = begin(title);
        legend(&mut out, curves.iter().map(|(name, _)| *name));
        let x = time_axes(&mut out, WIDE, last.seconds, &scale, "memory (MB)");
        for ((_, points), colour) in curves.iter().zip(COLOURS) {
            let points = points.iter().map(|(seconds, mb)| (x(*seconds), scale.y(*mb)));
            line(&mut out, points, colour);
        }
        out.push_str("</svg>\n");
        Ok(out)
    }

    /// Seconds, and megabytes of something; nothing if it is not known.
    fn points(&self, of: fn(&Sample) -> Option<u64>) -> Vec<(f64, f64)> {
        let each = self.samples.len().div_ceil(POINTS_MAX).max(1);
        let point = |part: &[Sample]| {
            let most = part.iter().filter_map(of).max()?;
            Some((part.last()?.seconds, most as f64 / MB))
        };
        self.samples.chunks(each).filter_map(point).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn series(seconds: u64, taken: Option<Taken>) -> Series {
        let sample = |second: u64| Sample {
            seconds: second as f64 + 0.0004,
            // A peak of one second.
            resident: if second == 1001 { 900_000_000 } else { 80_000_000 },
            anonymous: 60_000_000,
            taken,
        };
        Series { began: None, samples: (0..seconds).map(sample).collect() }
    }

    #[test]
    fn a_second_has_one_sample() {
        let mut series = Series::default();
        let own = std::process::id();
        let taken = Taken { pages: 1, undo: 2 };
        let began = Instant::now();
        while began.elapsed().as_millis() < 1200 {
            series.look(own, || Some(taken));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(series.samples.len(), 2, "{series:?}");
        assert!(series.samples[1].seconds >= 1.0 && series.samples[1].resident > 0);
        assert_eq!(series.samples[1].taken, Some(taken));
        let mut nobody = Series::default();
        nobody.look(u32::MAX, || None);
        assert_eq!((nobody.json(), nobody.resident()), (Value::Null, None));
        assert!(nobody.svg("").unwrap_err().contains("run for longer"));
    }

    #[test]
    fn an_hour_is_drawn_with_its_peak() {
        let taken = Taken { pages: 40_000_000, undo: 5_000_000 };
        let hour = series(3601, Some(taken));
        let text = hour.svg("an hour").unwrap();
        assert_eq!((text.matches("<polyline").count(), text.matches("<circle").count()), (4, 0));
        assert!(text.contains(">minutes</text>") && text.contains(">60</text>"), "{text}");
        assert!(text.contains(">old versions</text>") && text.contains(">1,000</text>"), "{text}");
        assert_eq!(hour.resident(), Some((80_000_000, 900_000_000)));
        let most = hour.points(CURVES[0].1).into_iter().map(|it| it.1).fold(0.0, f64::max);
        assert_eq!(most, 900.0);
        assert!(hour.points(CURVES[0].1).len() <= POINTS_MAX);
        assert!(text.ends_with("</svg>\n") && !text.contains("NaN") && text.len() < 60_000);
        assert_eq!(hour.json()["undo_bytes"][3600], 5_000_000);
        assert_eq!(hour.json()["seconds"][1], 1.0);
    }

    #[test]
    fn a_server_s_pool_is_not_known() {
        let short = series(30, None);
        let text = short.svg("a < b").unwrap();
        assert_eq!(text.matches("<polyline").count(), 2);
        assert!(text.contains(">seconds</text>") && text.contains("a &lt; b"), "{text}");
        let json = short.json();
        assert_eq!(
            (&json["pool_bytes"], &json["resident_bytes"][29]),
            (&Value::Null, &80_000_000.into())
        );
    }
}
