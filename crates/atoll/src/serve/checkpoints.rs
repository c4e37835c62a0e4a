//! A line on standard error for every checkpoint of a server, published or abandoned, for logs that are not
//! archived, and for damage that was met meanwhile and stopped nobody.
//!
//! Invariants: a thread of its own writes them, so no instance waits for who reads standard error; it
//! ends with the database. A reason that repeats is said once a minute, or of archiving, which is tried every
//! second for as long as it takes, once an hour, with how often it was met.

use std::time::{Duration, Instant};

use atoll_kernel::api::{CheckpointCause, CheckpointEvent, CheckpointReport, Database};

/// How long a reason that repeats is only counted.
const REPEATED: Duration = Duration::from_secs(60);
/// As above, of archiving.
const ARCHIVING_REPEATED: Duration = Duration::from_secs(3600);

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
    abandoned: Repeated,
    archiving: Repeated,
}

/// A reason for the same thing, again and again.
#[derive(Default)]
struct Repeated {
    /// The last one, and when it was said.
    last: Option<(String, Instant)>,
    /// How often it was met and not said.
    unsaid: u64,
}

impl Repeated {
    /// The reason, if it is to be said: when it is another one, or was not said for `quiet`.
    fn meet(&mut self, reason: String, now: Instant, quiet: Duration) -> Option<String> {
        if let Some((last, said)) = &self.last
            && *last == reason
            && now.duration_since(*said) < quiet
        {
            self.unsaid += 1;
            return None;
        }
        let again = match std::mem::take(&mut self.unsaid) {
            0 => String::new(),
            times => format!(" (after {times} more that were not told of)"),
        };
        let said = format!("{reason}{again}");
        self.last = Some((reason, now));
        Some(said)
    }
}

impl Teller {
    /// The line for an event, if it is to be said.
    fn line(&mut self, event: CheckpointEvent, now: Instant) -> Option<String> {
        match event {
            CheckpointEvent::Published(report) => {
                self.abandoned = Repeated::default();
                Some(published(&report))
            }
            CheckpointEvent::Unread { count, why } => Some(format!(
                "damage that no row needs: {count} pages or more could not be read when they were freed, the first: {why}"
            )),
            CheckpointEvent::Abandoned(reason) => {
                let said = self.abandoned.meet(reason, now, REPEATED)?;
                Some(format!("checkpoint abandoned: {said}"))
            }
            CheckpointEvent::ArchivingFailed(reason) => {
                let said = self.archiving.meet(reason, now, ARCHIVING_REPEATED)?;
                Some(format!("logs are not archived, and are kept: {said}"))
            }
            CheckpointEvent::ArchivingAgain => {
                self.archiving = Repeated::default();
                Some("logs are archived again".to_owned())
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

    #[test]
    fn archiving_that_fails_is_said_once_an_hour_and_when_it_works_again() {
        let mut teller = Teller::default();
        let begin = Instant::now();
        let mut at = |seconds: u64, event: CheckpointEvent| {
            teller.line(event, begin + Duration::from_secs(seconds))
        };
        let failed = |reason: &str| CheckpointEvent::ArchivingFailed(reason.to_owned());
        let away = "logs are not archived, and are kept: away";
        assert_eq!(at(0, failed("away")).as_deref(), Some(away));
        // A checkpoint says nothing of it.
        assert!(at(1, CheckpointEvent::Published(CheckpointReport::default())).is_some());
        assert_eq!(at(2, failed("away")), None);
        assert_eq!(at(3599, failed("away")), None);
        let more = format!("{away} (after 2 more that were not told of)");
        assert_eq!(at(3600, failed("away")), Some(more));
        assert_eq!(
            at(3601, CheckpointEvent::ArchivingAgain).as_deref(),
            Some("logs are archived again")
        );
        assert_eq!(at(3602, failed("away")).as_deref(), Some(away));
    }
}
