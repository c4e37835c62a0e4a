//! What is told of checkpoints: how each attempt ended, and sums.
//!
//! Invariants: counts are of this process; an attempt is counted once, when it has ended.

use std::sync::mpsc::Sender;

use crate::base::{Cts, Error, Result, Unread};

/// Why the checkpoint of an earlier term is not published.
pub(super) const OVERTAKEN: &str = "the checkpoint took so long that another was begun";

/// Why a checkpoint was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckpointCause {
    /// Somebody asked for it.
    #[default]
    Request,
    /// `checkpoint_interval_ms` had passed.
    Interval,
    /// The logs had grown by `checkpoint_wal_bytes`.
    Log,
}

/// How an attempt to make a checkpoint ended, or to archive logs behind one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointEvent {
    /// It was published.
    Published(CheckpointReport),
    /// It came to nothing, for this reason.
    Abandoned(String),
    /// Logs could not be archived, for this reason; told of every attempt.
    ArchivingFailed(String),
    /// Logs are archived again, all that were kept meanwhile, too.
    ArchivingAgain,
    /// Besides: what was freed since the last attempt was told of could not all be read.
    Unread {
        /// How much.
        count: u64,
        /// Why the first of it could not.
        why: String,
    },
}

/// Who is told how attempts end.
pub(super) struct Listener {
    events: Sender<CheckpointEvent>,
    /// How much that could not be read has been told of.
    unread: u64,
}

impl Listener {
    /// Told by `events` from now on, when so much could not be read that was told of otherwise.
    pub fn new(events: Sender<CheckpointEvent>, unread: u64) -> Listener {
        Listener { events, unread }
    }

    /// An attempt ended so, or something else came up; `unread` is what could not be read since the start, if
    /// that is to be told of.
    pub fn tell(&mut self, event: CheckpointEvent, unread: Option<&Unread>) {
        // Nobody may be listening any more.
        let _ = self.events.send(event);
        let Some(unread) = unread else { return };
        let (count, told) = (unread.count() - self.unread, self.unread as usize);
        self.unread = unread.count();
        if count > 0 {
            let why = unread.why().get(told).or(unread.why().last());
            let why = why.map_or_else(String::new, ToString::to_string);
            let _ = self.events.send(CheckpointEvent::Unread { count, why });
        }
    }
}

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Its number.
    pub number: u64,
    /// S.
    pub timestamp: Cts,
    /// Pages written.
    pub pages: u64,
    /// Leaves among them that lay on disk as they are, and were moved from the end of a file.
    pub moved: u64,
    /// Pages by which files were made shorter.
    pub returned: u64,
    /// Trees that it has.
    pub trees: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// How much of that the page files were synced, in nanoseconds.
    pub sync_ns: u64,
    /// Why it was made.
    pub cause: CheckpointCause,
}

/// Counts over the life of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointCounters {
    /// The number of the newest one, also of one that an earlier process published; 0: there is none.
    pub newest: u64,
    /// Checkpoints published.
    pub published: u64,
    /// Those of them that the interval brought about.
    pub by_interval: u64,
    /// Those of them that the logs' growth brought about.
    pub by_log: u64,
    /// How long published ones took, in nanoseconds.
    pub elapsed_ns: u64,
    /// How much of that the page files were synced, in nanoseconds.
    pub sync_ns: u64,
    /// Checkpoints that came to nothing.
    pub abandoned: u64,
    /// Those of them whose role somebody else had taken over.
    pub overtaken: u64,
    /// Pages that published ones wrote.
    pub pages: u64,
    /// Leaves among them that lay on disk as they are, and were moved from the end of a file.
    pub moved: u64,
    /// Pages by which files were made shorter.
    pub returned: u64,
    /// The last one published by this process.
    pub last: Option<CheckpointReport>,
    /// Why the last one that came to nothing did.
    pub failure: Option<String>,
}

impl CheckpointCounters {
    /// Adds an attempt; answers how it ended.
    pub(super) fn add(&mut self, made: &Result<CheckpointReport>) -> CheckpointEvent {
        match made {
            Ok(report) => {
                self.newest = report.number;
                self.published += 1;
                self.by_interval += u64::from(report.cause == CheckpointCause::Interval);
                self.by_log += u64::from(report.cause == CheckpointCause::Log);
                self.elapsed_ns += report.elapsed_ns;
                self.sync_ns += report.sync_ns;
                self.pages += report.pages;
                self.moved += report.moved;
                self.returned += report.returned;
                self.last = Some(*report);
                CheckpointEvent::Published(*report)
            }
            Err(error) => {
                self.abandoned += 1;
                let overtaken = matches!(error, Error::Internal { detail } if detail == OVERTAKEN);
                self.overtaken += u64::from(overtaken);
                self.failure = Some(error.to_string());
                CheckpointEvent::Abandoned(error.to_string())
            }
        }
    }
}
