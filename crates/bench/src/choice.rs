//! Which records a workload uses: evenly, by Zipf's law, the newest, or a hot set.
//!
//! Invariants: a record is a number from 0 on. All choices but `Latest` are among the records that
//! were loaded; `Latest` never chooses one whose insert has not settled (`growth`). Hot records lie apart in
//! the order of keys: popularity is scattered by a hash (as YCSB's), a hot set by even steps.

use std::str::FromStr;

use crate::random::Random;

/// Skew of the paper's Zipf distribution.
const THETA: f64 = 0.99;
/// Terms of zeta that are added one by one; what follows is an integral.
const EXACT: u64 = 1 << 20;

/// How a record is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// Evenly.
    Uniform,
    /// By Zipf's law, scattered over all records.
    Zipfian,
    /// By Zipf's law, the newest being the most popular.
    Latest,
    /// A share of operations goes to a share of the records, both evenly.
    Hotspot {
        /// The share of the records that is hot.
        keys: f64,
        /// The share of operations that goes there.
        operations: f64,
    },
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Choice::Uniform => f.write_str("uniform"),
            Choice::Zipfian => f.write_str("zipfian"),
            Choice::Latest => f.write_str("latest"),
            Choice::Hotspot { keys, operations } => write!(f, "hotspot:{keys}/{operations}"),
        }
    }
}

/// `uniform`, `zipfian`, `latest` or `hotspot:KEYS/OPS`.
impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let hotspot = |text: &str| {
            let (keys, operations) = text.strip_prefix("hotspot:")?.split_once('/')?;
            let (keys, operations): (f64, f64) = (keys.parse().ok()?, operations.parse().ok()?);
            let fits = keys > 0.0 && keys < 1.0 && (0.0..=1.0).contains(&operations);
            fits.then_some(Choice::Hotspot { keys, operations })
        };
        match text {
            "uniform" => Ok(Choice::Uniform),
            "zipfian" => Ok(Choice::Zipfian),
            "latest" => Ok(Choice::Latest),
            _ => hotspot(text).ok_or_else(|| {
                "`uniform`, `zipfian`, `latest`, or `hotspot:KEYS/OPS` with two shares between 0 \
                 and 1, as `hotspot:0.05/0.95`"
                    .to_owned()
            }),
        }
    }
}

/// FNV-1a of a number's eight bytes, without its sign: YCSB's hash of a record's number.
pub fn fnv(number: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
    let hash = number.to_le_bytes().into_iter().fold(0xCBF2_9CE4_8422_2325, step);
    hash.cast_signed().unsigned_abs()
}

/// Ranks from 0 on, by Zipf's law: Gray et al., "Quickly generating billion-record synthetic
/// databases", SIGMOD 1994, section 3.2.
#[derive(Debug)]
pub struct Zipf {
    count: u64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Over so many ranks, at least 1.
    pub fn new(count: u64) -> Zipf {
        let (zeta, two) = (zeta(count), zeta(2));
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - two / zeta);
        Zipf { count, zeta, eta }
    }

    /// The next rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let u = random.inner().f64();
        let of_zeta = u * self.zeta;
        if of_zeta < 1.0 {
            return 0;
        }
        if of_zeta < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        let share = (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        ((self.count as f64 * share) as u64).min(self.count - 1)
    }
}

/// The sum of 1 / i^theta for i from 1 to `count`.
fn zeta(count: u64) -> f64 {
    let power = |i: f64| i.powf(-THETA);
    let exact = count.min(EXACT);
    let sum: f64 = (1..=exact).rev().map(|i| power(i as f64)).sum();
    if count == exact {
        return sum;
    }
    // Euler and Maclaurin: an integral and half of the ends; the next term is below 10^-12.
    let (from, to) = (exact as f64, count as f64);
    let integral = (to.powf(1.0 - THETA) - from.powf(1.0 - THETA)) / (1.0 - THETA);
    sum + integral + (power(to) - power(from)) / 2.0
}

/// Chooses among records.
#[derive(Debug)]
pub struct Chooser {
    choice: Choice,
    records: u64,
    zipf: Option<Zipf>,
}

impl Chooser {
    /// Among so many, at least 1.
    pub fn new(choice: Choice, records: u64) -> Chooser {
        let zipf = matches!(choice, Choice::Zipfian | Choice::Latest).then(|| Zipf::new(records));
        Chooser { choice, records, zipf }
    }

    /// The next record; `settled` are there.
    pub fn draw(&self, random: &mut Random, settled: u64) -> u64 {
        let rank = |random: &mut Random| self.zipf.as_ref().map_or(0, |zipf| zipf.draw(random));
        match self.choice {
            Choice::Uniform => random.inner().u64(0..self.records),
            Choice::Zipfian => fnv(rank(random)) % self.records,
            Choice::Latest => settled - 1 - rank(random),
            Choice::Hotspot { keys, operations } => {
                let hot = ((self.records as f64 * keys) as u64).max(1);
                let is_hot = hot == self.records || random.inner().f64() < operations;
                let (low, high) = if is_hot { (0, hot) } else { (hot, self.records) };
                spread(random.inner().u64(low..high), hot, self.records)
            }
        }
    }
}

/// Where the record of this place lies if the first `hot` places are spread evenly over all.
fn spread(place: u64, hot: u64, records: u64) -> u64 {
    let step = records / hot;
    if place < hot {
        return place * step;
    }
    // The others fill what is between, step - 1 after each hot one, and the rest at the end.
    let (other, between) = (place - hot, step - 1);
    if other < hot * between { other / between * step + 1 + other % between } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_or_refused() {
        for text in ["uniform", "zipfian", "latest", "hotspot:0.05/0.95", "hotspot:0.01/0.99"] {
            let choice: Choice = text.parse().expect("it is a choice");
            assert_eq!(choice.to_string(), text);
        }
        for text in ["", "hotspot", "hotspot:0/1", "hotspot:1/1", "hotspot:0.1/2", "hotspot:x/1"] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
    }

    #[test]
    fn zeta_is_the_sum_also_where_it_is_an_integral() {
        let count = EXACT * 3;
        let exact: f64 = (1..=count).rev().map(|i| (i as f64).powf(-THETA)).sum();
        assert!((zeta(count) - exact).abs() < 1e-9, "{} {exact}", zeta(count));
        assert_eq!(zeta(1), 1.0);
        // YCSB's constant for its ten billion items.
        assert!((zeta(10_000_000_000) - 26.469_028_201_783_02).abs() < 1e-6);
    }

    #[test]
    fn ranks_have_the_shares_of_the_law() {
        let (count, draws) = (1000, 400_000);
        let (zipf, mut random, mut counts) = (Zipf::new(count), Random::new(9), vec![0_u32; 1000]);
        for _ in 0..draws {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        let zeta = zeta(count);
        let share = |rank: usize| f64::from(counts[rank]) / f64::from(draws);
        // The first two are exact; the others follow a curve that is near the law.
        for rank in [0, 1] {
            let expect = ((rank + 1) as f64).powf(-THETA) / zeta;
            assert!((share(rank) / expect - 1.0).abs() < 0.03, "{rank}: {} {expect}", share(rank));
        }
        let first = counts[..100].iter().sum::<u32>();
        let expect: f64 = (1..=100).map(|i| f64::from(i).powf(-THETA) / zeta).sum();
        assert!((f64::from(first) / f64::from(draws) - expect).abs() < 0.03, "{first} {expect}");
        assert!(counts[999] > 0 && counts[999] < counts[0] / 100);
    }

    #[test]
    fn a_hot_set_is_spread_over_all_records() {
        for (hot, records) in [(1, 1), (1, 2), (3, 10), (5, 100), (7, 100), (60, 100), (99, 100)] {
            let mut all: Vec<u64> = (0..records).map(|it| spread(it, hot, records)).collect();
            all.sort_unstable();
            assert!(all.iter().zip(0..).all(|(is, expect)| *is == expect), "{hot} of {records}");
        }
    }

    #[test]
    fn operations_go_where_the_choice_says() {
        let mut random = Random::new(4);
        let (records, draws) = (1000, 100_000);
        let mut counts = |choice| {
            let (chooser, mut counts) = (Chooser::new(choice, records), vec![0_u32; 1000]);
            for _ in 0..draws {
                counts[chooser.draw(&mut random, records) as usize] += 1;
            }
            counts
        };
        let uniform = counts(Choice::Uniform);
        assert!(uniform.iter().all(|it| (50..170).contains(it)), "{uniform:?}");
        for (keys, operations, hot) in [(0.05, 0.95, 50), (0.01, 0.99, 10)] {
            let counts = counts(Choice::Hotspot { keys, operations });
            let step = records as usize / hot;
            let there: u32 = counts.iter().step_by(step).take(hot).sum();
            let share = f64::from(there) / f64::from(draws);
            assert!((share - operations).abs() < 0.005, "{share} of {operations}");
        }
        let zipfian = counts(Choice::Zipfian);
        let most = (0..1000).max_by_key(|at| zipfian[*at]).unwrap_or_default();
        assert_eq!(most as u64, fnv(0) % records, "the most popular one is scattered");
        let latest = counts(Choice::Latest);
        assert!(latest[999] > latest[998] && latest[998] > latest[900], "{latest:?}");
    }
}
