//! A line on standard error for every checkpoint of a server, published or abandoned, and for damage that was met meanwhile and
//! stopped nobody.
//!
//! Invariants: a thread of its own writes them, so no instance waits for who reads standard error; it
//! ends with the database. A reason that repeats is said once a minute, with how often it was met.

use std::time::{Duration, Instant};

use atoll_kernel::api::{CheckpointCause, CheckpointEvent, CheckpointReport, Database};

/// How long a reason that repeats is only counted.
const REPEATED: Duration = Duration::from_secs(60);

/// Tells of the database's checkpoints from now on.
pub fn tell(database: &Database) {
    let Some(events) = database.checkpoint_events() else { return };
    std::thread::spawn(move || {
        let mut teller = Teller::default();
        for event in events {
            if let Some(line) = teller.line(event, Instant::now()) {
                eprintln!("atoll: {line}");
            }
        }
    });
}

/// What was said last.
#[derive(Default)]
struct Teller {
    /// The reason of the last abandoned one, and when it was said.
    last: Option<(String, Instant)>,
    /// How often it was met and not said.
    unsaid: u64,
}

impl Teller {
    /// The line for an event, if it is to be said.
    fn line(&mut self, event: CheckpointEvent, now: Instant) -> Option<String> {
        match event {
            CheckpointEvent::Published(report) => {
                self.last = None;
                self.unsaid = 0;
                Some(published(&report))
            }
            CheckpointEvent::Unread { count, why } => Some(format!(
                "damage that no row needs: {count} pages or more could not be read when they were freed, the first: {why}"
            )),
            CheckpointEvent::Abandoned(reason) => {
                if let Some((last, said)) = &self.last
                    && *last == reason
                    && now.duration_since(*said) < REPEATED
                {
                    self.unsaid += 1;
                    return None;
                }
                let again = match std::mem::take(&mut self.unsaid) {
                    0 => String::new(),
                    times => format!(" (after {times} more that were not told of)"),
                };
                let line = format!("checkpoint abandoned: {reason}{again}");
                self.last = Some((reason, now));
                Some(line)
            }
        }
    }
}

fn published(report: &CheckpointReport) -> String {
    let cause = match report.cause {
        CheckpointCause::Request => "asked for",
        CheckpointCause::Interval => "checkpoint_interval",
        CheckpointCause::Log => "checkpoint_wal",
    };
    let elapsed_ms = report.elapsed_ns / 1_000_000;
    let (number, pages) = (report.number, report.pages);
    format!("checkpoint {number} published: {pages} pages written in {elapsed_ms} ms ({cause})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_repeats_is_said_once_a_minute() {
        let mut teller = Teller::default();
        let begin = Instant::now();
        let mut at = |seconds: u64, reason: &str| {
            let event = CheckpointEvent::Abandoned(reason.to_owned());
            teller.line(event, begin + Duration::from_secs(seconds))
        };
        assert_eq!(at(0, "full").as_deref(), Some("checkpoint abandoned: full"));
        assert_eq!(at(1, "full"), None);
        assert_eq!(at(59, "full"), None);
        assert_eq!(
            at(60, "full").as_deref(),
            Some("checkpoint abandoned: full (after 2 more that were not told of)")
        );
        assert_eq!(at(61, "torn").as_deref(), Some("checkpoint abandoned: torn"));
        let report = CheckpointReport {
            number: 3,
            pages: 17,
            elapsed_ns: 4_999_999,
            cause: CheckpointCause::Log,
            ..CheckpointReport::default()
        };
        assert_eq!(
            teller.line(CheckpointEvent::Published(report), begin).as_deref(),
            Some("checkpoint 3 published: 17 pages written in 4 ms (checkpoint_wal)")
        );
        let again = CheckpointEvent::Abandoned("torn".to_owned());
        assert!(teller.line(again, begin + Duration::from_secs(62)).is_some());
    }
}
