//! Latencies as a histogram: microseconds, three significant digits, up to a minute.

use std::time::Duration;

use hdrhistogram::Histogram;

const MICROS_MAX: u64 = 60_000_000;

/// Latencies of one kind of work; `add` merges those of several threads.
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(MICROS_MAX, 3);
        Latencies(histogram.expect("bounds and digits are in range"))
    }
}

impl Latencies {
    /// Records one; what exceeds a minute counts as a minute.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record((latency.as_micros() as u64).clamp(1, MICROS_MAX));
    }

    /// Merges another's.
    pub fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency below which `percent` of all lie, in microseconds.
    pub fn percentile_us(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// The largest, in microseconds.
    pub fn max_us(&self) -> u64 {
        self.0.max()
    }

    /// Percentiles as one JSON object.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "mean": self.mean_us(),
            "p50": self.percentile_us(50.0),
            "p95": self.percentile_us(95.0),
            "p99": self.percentile_us(99.0),
            "p999": self.percentile_us(99.9),
            "max": self.max_us(),
        })
    }

    /// The mean, in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.0.mean()
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |percent| self.percentile_us(percent);
        write!(
            f,
            "p50 {} us, p95 {} us, p99 {} us, p99.9 {} us, max {} us",
            at(50.0),
            at(95.0),
            at(99.0),
            at(99.9),
            self.max_us()
        )
    }
}
