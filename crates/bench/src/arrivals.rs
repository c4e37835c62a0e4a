//! When transactions begin, natively and over the wire: as soon as a client is free, or when they
//! arrive at a fixed rate.
//!
//! Invariants. Closed loop: a client's next transaction begins when its last has ended. Open loop:
//! arrival n comes n intervals after the beginning, evenly, whatever became of those before;
//! clients take them in their order, each once, whoever is free; a transaction's latency counts
//! from its arrival, not from when a client came to it, so that what falls behind cannot hide it
//! (coordinated omission). What has arrived before the end is served until [`GRACE`] after it; what
//! nobody has taken by then is *unserved*, never forgotten.

use std::str::FromStr;
use std::time::{Duration, Instant};

use atoll_kernel::api::Parker;
use atoll_kernel::sync::{AtomicU64, Ordering};

/// How long clients serve what has arrived after the end.
pub const GRACE: Duration = Duration::from_secs(5);
/// Longer than anybody waits, and not so long that the clock could not say when it is over.
const LONGEST: Duration = Duration::from_secs(1 << 40);
/// How often one that waits for an arrival looks whether everything is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Transactions that arrive in a second, evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(f64);

impl Rate {
    /// The least: one in 1,000 seconds.
    const LEAST: f64 = 0.001;
    /// The most: one every 100 nanoseconds, more than anything here takes.
    const MOST: f64 = 10_000_000.0;

    /// So many; an error of one line for what is no rate.
    pub fn new(per_second: f64) -> Result<Rate, String> {
        if (Rate::LEAST..=Rate::MOST).contains(&per_second) {
            return Ok(Rate(per_second));
        }
        Err(format!("the rate must be from {} to {} a second", Rate::LEAST, Rate::MOST))
    }

    /// How many.
    pub fn per_second(self) -> f64 {
        self.0
    }
}

/// A number of arrivals a second.
impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        // What is no number at all is out of range, too.
        Rate::new(text.parse().unwrap_or(f64::NAN))
    }
}

/// Whether a loop is open or closed, in a word.
pub fn kind(rate: Option<Rate>) -> &'static str {
    if rate.is_some() { "open" } else { "closed" }
}

/// The same for people, with the rate.
pub fn told(rate: Option<Rate>) -> String {
    let open = |rate: Rate| format!("open loop of {} arrivals a second", rate.0);
    rate.map_or_else(|| "closed loop".to_owned(), open)
}

/// What people are told of arrivals that nobody took, if there are any.
pub fn unserved_line(unserved: u64) -> Option<String> {
    let told = || format!("{unserved} arrivals were not served: more than can be done");
    (unserved > 0).then(told)
}

/// What clients of one run share.
pub struct Arrivals {
    began: Instant,
    end: Instant,
    open: Option<Open>,
}

/// An open loop's.
struct Open {
    rate: Rate,
    /// How many arrive before the end.
    all: u64,
    /// The next one's number; every client takes from it, also beyond `all`.
    next: AtomicU64,
}

impl Open {
    fn after(&self, number: u64) -> Duration {
        Duration::from_secs_f64(number as f64 / self.rate.0)
    }
}

impl Arrivals {
    /// From now on, for so long; closed loop without a rate.
    pub fn new(duration: Duration, rate: Option<Rate>) -> Arrivals {
        Arrivals::from(Instant::now(), duration, rate)
    }

    fn from(began: Instant, duration: Duration, rate: Option<Rate>) -> Arrivals {
        let duration = duration.min(LONGEST);
        let open = rate.map(|rate| Open {
            rate,
            all: (duration.as_secs_f64() * rate.0).ceil() as u64,
            next: AtomicU64::new(0),
        });
        Arrivals { began, end: began + duration, open }
    }

    /// When all began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Takes the next transaction, waits for it, asleep, and answers when it has arrived: its
    /// latency counts from then. None at the end, and when `is_to_end` says so. Natively the task
    /// alone waits, by its instance's timers.
    pub fn next(&self, parker: &impl Parker, is_to_end: impl Fn() -> bool) -> Option<Instant> {
        let mut now = Instant::now();
        let arrival = self.take(now)?;
        while !is_to_end() {
            let early = arrival.saturating_duration_since(now);
            if early.is_zero() {
                return Some(arrival);
            }
            let deadline_ns = parker.now_ns() + early.min(LOOK_EVERY).as_nanos() as u64;
            parker.park(Some(deadline_ns));
            now = Instant::now();
        }
        None
    }

    /// Takes the next transaction at `now`; answers when it has arrived or will.
    fn take(&self, now: Instant) -> Option<Instant> {
        let Some(open) = &self.open else { return (now < self.end).then_some(now) };
        if now >= self.end + GRACE {
            return None;
        }
        // Only the numbers must differ.
        let number = open.next.fetch_add(1, Ordering::Relaxed);
        (number < open.all).then(|| self.began + open.after(number))
    }

    /// How many have arrived that nobody has taken; asked when all clients have ended.
    pub fn unserved(&self) -> u64 {
        let open = self.open.as_ref();
        open.map_or(0, |open| open.all.saturating_sub(open.next.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn open(seconds: u64, rate: f64) -> (Instant, Arrivals) {
        let began = Instant::now();
        let rate = Some(Rate::new(rate).unwrap());
        (began, Arrivals::from(began, SECOND * seconds as u32, rate))
    }

    #[test]
    fn rates_are_read_or_refused() {
        for (text, expect) in [("0.001", 0.001), ("70", 70.0), ("1e3", 1000.0), ("10000000", 1e7)] {
            assert_eq!(text.parse::<Rate>().unwrap().per_second(), expect);
        }
        for text in ["", "x", "0", "-1", "-0.0", "nan", "inf", "-inf", "1e-300", "10000001", "1 0"]
        {
            let error = text.parse::<Rate>().unwrap_err();
            assert_eq!(error, "the rate must be from 0.001 to 10000000 a second", "{text}");
        }
    }

    /// Arrivals are where the rate has them, however late somebody comes for them: who comes 350 ms
    /// late finds four of ten a second, the first of which has waited for 350 ms.
    #[test]
    fn latency_counts_from_the_arrival() {
        let (began, arrivals) = open(1, 10.0);
        let late = began + Duration::from_millis(350);
        for waited in [350, 250, 150, 50] {
            let arrived = arrivals.take(late).unwrap();
            assert_eq!((late - arrived).as_millis(), waited);
        }
        let next = arrivals.take(late).unwrap();
        assert_eq!((next - late).as_millis(), 50, "it is still to come");
    }

    #[test]
    fn what_nobody_has_taken_is_unserved() {
        let (began, arrivals) = open(2, 10.0);
        assert_eq!(arrivals.unserved(), 20);
        for taken in 0..8 {
            assert!(arrivals.take(began).is_some());
            assert_eq!(arrivals.unserved(), 19 - taken);
        }
        // What has arrived is served for a while after the end, and no longer.
        let end = began + 2 * SECOND;
        assert!(arrivals.take(end + GRACE - Duration::from_nanos(1)).is_some());
        assert_eq!(arrivals.take(end + GRACE), None);
        assert_eq!(arrivals.unserved(), 11);
    }

    #[test]
    fn no_more_arrive_than_the_rate_says() {
        for (seconds, rate, all) in [(1, 10.0, 10), (3, 0.5, 2), (1, 0.5, 1), (2, 0.75, 2)] {
            let (began, arrivals) = open(seconds, rate);
            let taken: Vec<Instant> = std::iter::from_fn(|| arrivals.take(began)).collect();
            assert_eq!(taken.len(), all, "{rate}");
            assert!(taken.iter().all(|it| *it < began + SECOND * seconds as u32));
            // Others, too, come for one when there is none.
            assert_eq!((arrivals.take(began), arrivals.unserved()), (None, 0));
        }
    }

    #[test]
    fn clients_at_the_same_time_take_each_arrival_once() {
        let (began, arrivals) = open(1, 40_000.0);
        let one = || std::iter::from_fn(|| arrivals.take(began)).collect::<Vec<Instant>>();
        let mut all: Vec<Instant> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            clients.into_iter().flat_map(|it| it.join().unwrap()).collect()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 40_000);
    }

    #[test]
    fn a_closed_loop_begins_at_once_until_the_end() {
        let began = Instant::now();
        let arrivals = Arrivals::from(began, SECOND, None);
        let last = began + SECOND - Duration::from_nanos(1);
        assert_eq!(arrivals.take(began), Some(began));
        assert_eq!(arrivals.take(last), Some(last));
        assert_eq!((arrivals.take(began + SECOND), arrivals.unserved()), (None, 0));
    }

    /// `atoll serve --bench-seconds` once took any number, and the largest ones panicked.
    #[test]
    fn what_lasts_for_ever_begins() {
        for rate in [None, Rate::new(0.001).ok(), Rate::new(10_000_000.0).ok()] {
            let began = Instant::now();
            let arrivals = Arrivals::from(began, Duration::MAX, rate);
            assert_eq!(arrivals.take(began), Some(began));
            assert!(arrivals.take(began + LONGEST / 2).is_some());
        }
    }

    #[test]
    fn a_client_waits_for_its_arrival_and_not_for_what_is_not_to_be() {
        let parker = atoll_kernel::runtime::ThreadParker::new();
        let arrivals = Arrivals::new(SECOND, Some(Rate::new(100.0).unwrap()));
        for number in 0..3 {
            let arrived = arrivals.next(&parker, || false).unwrap();
            assert_eq!((arrived - arrivals.began()).as_millis(), number * 10);
            assert!(Instant::now() >= arrived, "it has begun before");
        }
        // The second comes in 1,000 seconds.
        let rare = Arrivals::new(2000 * SECOND, Some(Rate::new(0.001).unwrap()));
        assert_eq!(rare.next(&parker, || false), Some(rare.began()));
        let ends = std::cell::Cell::new(3);
        let is_to_end = || ends.replace(ends.get() - 1) == 1;
        assert_eq!(rare.next(&parker, is_to_end), None);
    }
}
