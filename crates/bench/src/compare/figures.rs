//! From samples to figures: medians with their spread, ratios, and the ceiling of a ratio.
//!
//! A machine whose processors are all busy does a transaction each c + s of processor time, c being
//! the client's and s the server's. A server that costs nothing would be (c + s) / c times as fast
//! as one that costs s: no ratio can be above that ceiling, so one near it says more of the client
//! than of the server. Where processors idle (`busy_percent`), a ratio may be above it.

use std::time::Duration;

use super::clients::Sample;

/// Several rounds' values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Spread {
    /// Of these; zeros if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (values.first(), values.last()) else {
            return Spread { median: 0.0, least: 0.0, most: 0.0 };
        };
        let half = values.len() / 2;
        let upper = values[half];
        let lower = if values.len().is_multiple_of(2) { values[half - 1] } else { upper };
        Spread { median: f64::midpoint(lower, upper), least: *least, most: *most }
    }
}

/// What one server did in one workload with so many clients, over all rounds.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Transactions a second.
    pub per_second: Spread,
    /// TPC-C's New-Orders a minute, if all rounds know them.
    pub new_orders_per_minute: Option<Spread>,
    /// Medians of the rounds' latencies, in microseconds: mean, p50, p95, p99.
    pub latency: [f64; 4],
    /// Tries that failed, in all rounds.
    pub failed: u64,
    /// Arrivals that nobody has taken, in all rounds.
    pub unserved: u64,
    /// Processor time of the client, in microseconds a transaction.
    pub client_us: f64,
    /// That of the server's processes.
    pub server_us: Spread,
    /// That of all but the client: the server's processes, the kernel's threads and interrupts.
    pub server_and_kernel_us: Spread,
    /// How much of the processors was used, in percent of what was not stolen.
    pub busy_percent: f64,
    /// How much of them the host took away, in percent.
    pub stolen_percent: f64,
}

impl Figures {
    /// Of one server's rounds.
    pub fn of(samples: &[Sample]) -> Figures {
        let median = |of: &dyn Fn(&Sample) -> f64| Spread::of(samples.iter().map(of)).median;
        let share = |part: Duration, all: Duration| {
            part.as_secs_f64() * 100.0 / all.as_secs_f64().max(f64::MIN_POSITIVE)
        };
        let new_orders = samples.iter().map(|it| it.told.new_orders_per_minute);
        let new_orders: Option<Vec<f64>> = new_orders.collect();
        Figures {
            per_second: Spread::of(samples.iter().map(|it| it.told.per_second)),
            new_orders_per_minute: new_orders.filter(|it| !it.is_empty()).map(Spread::of),
            latency: [
                median(&|it| it.told.latency.mean),
                median(&|it| it.told.latency.p50),
                median(&|it| it.told.latency.p95),
                median(&|it| it.told.latency.p99),
            ],
            failed: samples.iter().map(|it| it.told.failed).sum(),
            unserved: samples.iter().map(|it| it.told.unserved).sum(),
            client_us: median(&|it| each(it, it.client)),
            server_us: Spread::of(samples.iter().map(|it| each(it, it.server))),
            server_and_kernel_us: Spread::of(samples.iter().map(server_and_kernel_us)),
            busy_percent: median(&|it| share(it.machine.busy, it.machine.busy + it.machine.idle)),
            stolen_percent: median(&|it| {
                let machine = it.machine;
                share(machine.stolen, machine.busy + machine.idle + machine.stolen)
            }),
        }
    }
}

/// Microseconds a transaction.
fn each(sample: &Sample, time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / sample.told.transactions.max(1) as f64
}

/// What the whole machine worked but for the client, in microseconds a transaction.
fn server_and_kernel_us(sample: &Sample) -> f64 {
    each(sample, sample.machine.busy.saturating_sub(sample.client))
}

/// The subject of a comparison beside one other server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Against {
    /// The subject's median of transactions a second by the other's; the least and the most are
    /// those of single rounds.
    pub ratio: Spread,
    /// The same of the server's processor time a transaction, the kernel's with it.
    pub cpu_ratio: Spread,
    /// What `ratio` would be if the subject cost nothing; none where no client's time was seen.
    pub ceiling: Option<f64>,
}

impl Against {
    /// Of rounds that were interleaved.
    pub fn of(subject: &[Sample], other: &[Sample]) -> Against {
        let (own, its) = (Figures::of(subject), Figures::of(other));
        let rounds = |of: fn(&Sample) -> f64| {
            Spread::of(subject.iter().zip(other).map(|(a, b)| of(a) / of(b)))
        };
        let median = own.per_second.median / its.per_second.median;
        let cpu_median = own.server_and_kernel_us.median / its.server_and_kernel_us.median;
        Against {
            ratio: Spread { median, ..rounds(|it| it.told.per_second) },
            cpu_ratio: Spread { median: cpu_median, ..rounds(server_and_kernel_us) },
            ceiling: ceiling(own.client_us, its.server_and_kernel_us.median),
        }
    }
}

/// What does least by what does most, each with its rounds, which took turns: of the medians, and the least
/// and the most of single rounds. None if there is nothing to compare.
pub fn least_by_most(all: &[Vec<f64>]) -> Option<Spread> {
    let ratio = |values: &[f64]| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        (values.len() > 1 && most > 0.0).then(|| least / most)
    };
    let medians: Vec<f64> = all.iter().map(|it| Spread::of(it.iter().copied()).median).collect();
    let rounds = all.iter().map(Vec::len).min()?;
    let round = |at: usize| ratio(&all.iter().map(|it| it[at]).collect::<Vec<f64>>());
    let single = Spread::of((0..rounds).filter_map(round));
    Some(Spread { median: ratio(&medians)?, ..single })
}

/// (c + s) / c.
fn ceiling(client_us: f64, server_us: f64) -> Option<f64> {
    (client_us > 0.0).then(|| (client_us + server_us) / client_us)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use super::*;
    use crate::compare::parse::{Latency, Told};
    use crate::cpu::Machine;

    /// A round of a second: transactions, and milliseconds of client, server, machine.
    pub fn sample(transactions: u64, client: u64, server: u64, busy: u64) -> Sample {
        let p50 = 1e6 / transactions as f64;
        let latency = Latency { mean: p50, p50, p95: p50 * 2.0, p99: p50 * 3.0 };
        let millis = Duration::from_millis;
        Sample {
            told: Told {
                transactions,
                per_second: transactions as f64,
                failed: 1,
                unserved: 0,
                latency,
                new_orders_per_minute: None,
            },
            client: millis(client),
            server: millis(server),
            machine: Machine { busy: millis(busy), idle: millis(2000 - busy), stolen: millis(500) },
        }
    }

    #[test]
    fn the_middle_is_the_median() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[3.0, 1.0, 9.0]), Spread { median: 3.0, least: 1.0, most: 9.0 });
        assert_eq!(spread(&[4.0, 1.0, 9.0, 2.0]), Spread { median: 3.0, least: 1.0, most: 9.0 });
        assert_eq!(spread(&[5.0]), Spread { median: 5.0, least: 5.0, most: 5.0 });
        assert_eq!(spread(&[]).median, 0.0);
    }

    #[test]
    fn processor_times_are_by_transaction() {
        let samples = [sample(1000, 100, 400, 1000), sample(2000, 100, 400, 1000)];
        let figures = Figures::of(&samples);
        assert_eq!(figures.per_second.median, 1500.0);
        assert_eq!(figures.client_us, 75.0);
        assert_eq!(figures.server_us, Spread { median: 300.0, least: 200.0, most: 400.0 });
        assert_eq!(figures.server_and_kernel_us.least, 450.0);
        assert_eq!((figures.busy_percent, figures.stolen_percent), (50.0, 20.0));
        assert_eq!(figures.failed, 2);
        assert_eq!(figures.latency[1], 750.0);
        assert_eq!(figures.new_orders_per_minute, None);
    }

    #[test]
    fn new_orders_are_told_if_every_round_knows_them() {
        let with = |a_minute| {
            let mut sample = sample(1000, 100, 400, 1000);
            sample.told.new_orders_per_minute = a_minute;
            sample
        };
        let of = |rounds: &[Sample]| Figures::of(rounds).new_orders_per_minute;
        let spread = Spread { median: 200.0, least: 100.0, most: 300.0 };
        assert_eq!(of(&[with(Some(300.0)), with(Some(100.0))]), Some(spread));
        assert_eq!(of(&[with(Some(300.0)), with(None)]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn the_least_is_set_beside_the_most_of_the_same_round() {
        let of = |all: &[&[f64]]| {
            least_by_most(&all.iter().map(|it| it.to_vec()).collect::<Vec<Vec<f64>>>())
        };
        // Medians 100, 80 and 90; rounds 60/100, 80/120 and 90/110.
        let spread = of(&[&[100.0, 120.0, 90.0], &[60.0, 80.0, 110.0], &[90.0, 90.0, 90.0]]);
        let spread = spread.unwrap();
        assert_eq!((spread.median, spread.least), (0.8, 0.6));
        assert!((spread.most - 9.0 / 11.0).abs() < 1e-9, "{spread:?}");
        assert_eq!(of(&[&[100.0, 120.0]]), None);
        assert_eq!(of(&[&[0.0], &[0.0]]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_ratio_has_its_ceiling() {
        // 50 us of client and 100 of server by the subject; 300 of server, with its kernel, there.
        let subject = [sample(10_000, 500, 1000, 1500), sample(12_000, 600, 1200, 1800)];
        let other = [sample(5_000, 400, 1400, 1900), sample(3_000, 100, 800, 1000)];
        let against = Against::of(&subject, &other);
        assert_eq!(against.ratio, Spread { median: 2.75, least: 2.0, most: 4.0 });
        // 100 by 300 each, of the rounds' medians; 100 by 300 in either round.
        let Spread { median, least, most } = against.cpu_ratio;
        for ratio in [median, least, most] {
            assert!((ratio - 1.0 / 3.0).abs() < 1e-9, "{against:?}");
        }
        assert_eq!(against.ceiling, Some(7.0));
        assert_eq!(ceiling(48.0, 63.0).map(|it| (it * 100.0).round()), Some(231.0));
        assert_eq!(ceiling(0.0, 63.0), None);
    }
}
