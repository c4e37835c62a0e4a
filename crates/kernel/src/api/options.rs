//! Settings of a database. Defaults suit a server on the machine at hand.

use std::path::PathBuf;
use std::str::FromStr;

use crate::backup;
use crate::base::Result;
use crate::io::{Disk, IoChoice};
use crate::runtime::{ClockChoice, Pin, RuntimeOptions};

/// How many instances run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Instances {
    /// One per core that this process may use.
    #[default]
    Auto,
    /// So many.
    Count(u16),
}

impl Instances {
    /// The number that this means here.
    pub fn count(self) -> u16 {
        match self {
            Instances::Count(count) => count.max(1),
            Instances::Auto => std::thread::available_parallelism()
                .map_or(1, |cores| cores.get().min(crate::base::INSTANCES_MAX) as u16),
        }
    }
}

/// What a database does when its log has failed (rule 7.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// Says why and ends the process; the next start recovers.
    #[default]
    EndProcess,
    /// Stands still and says so when asked ([`super::Database::failure`]): for the simulator,
    /// whose process holds many databases.
    StandStill,
}

/// What becomes of logs that no recovery needs any more while there is no archive directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum UnarchivedLogs {
    /// They are used again, or removed.
    #[default]
    Remove,
    /// They are kept for a later start, which has one, if logs of this database were ever archived or to be:
    /// for tools, which do not know where.
    Keep,
}

/// When the system is asked for the memory of the buffer pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Prefault {
    /// Shortly before it is used first, by a thread that does nothing else: a start is quick, what is never used is never taken (but for
    /// 2 to 16 MB an instance), and transactions seldom wait for the system to find and clear memory.
    #[default]
    Ahead,
    /// When it is used first, by whoever uses it.
    OnUse,
    /// When the database opens, each instance's part by its own thread: no transaction waits for the system to
    /// find and clear memory.
    AtStart,
}

impl FromStr for Prefault {
    type Err = String;

    /// As people write it: `on`, `ahead` or `off`.
    fn from_str(text: &str) -> std::result::Result<Prefault, String> {
        match text {
            "on" => Ok(Prefault::AtStart),
            "ahead" => Ok(Prefault::Ahead),
            "off" => Ok(Prefault::OnUse),
            _ => Err("on, ahead or off".to_owned()),
        }
    }
}

/// Settings of a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many instances run.
    pub instances: Instances,
    /// Memory for pages; a hard limit (rule 4.6).
    pub buffer_pool_bytes: u64,
    /// When the system is asked for that memory.
    pub prefault: Prefault,
    /// Memory for undo, all instances together (rule 6.9).
    pub undo_bytes: u64,
    /// Bytes of one log segment file.
    pub log_segment_bytes: u64,
    /// Bytes of one log buffer; a record has half of it at most.
    pub log_buffer_bytes: usize,
    /// Bytes of each log that recovery reads into memory at once; a larger commit is replayed in
    /// pieces of as many. 0: [`Options::recovery_round`].
    pub recovery_round_bytes: usize,
    /// A checkpoint begins so long after the last one, if anything was committed since; 0: never
    /// for that reason.
    pub checkpoint_interval_ms: u64,
    /// A checkpoint begins when the logs, all together, have grown by about so many bytes since the
    /// last one; 0: never for that reason.
    pub checkpoint_wal_bytes: u64,
    /// Bytes of page files that may be kept only for checkpoints that are read or copied; above, the
    /// oldest of these are given up whenever one is published. 0: as many as the data takes, and at
    /// least 1 GiB.
    pub checkpoint_pin_bytes: u64,
    /// Indexes that take no more bytes all together are copied by a checkpoint as fast as it can, behind nothing but the rows
    /// whose old versions it holds back; of others each leaf is copied when it is due.
    pub checkpoint_at_once_bytes: u64,
    /// Bytes by which page files grow and shrink.
    pub page_extent_bytes: u64,
    /// Where logs are copied before they are used again; none: nowhere. A directory that cannot be
    /// written holds nothing up but that. It is made if only the last part of its name is missing and no
    /// logs of this database were ever archived; else its disk may not be mounted.
    pub archive_directory: Option<PathBuf>,
    /// What becomes of logs without one.
    pub unarchived_logs: UnarchivedLogs,
    /// The clock that orders commits.
    pub clock: ClockChoice,
    /// How files and sockets are reached.
    pub rings: IoChoice,
    /// Whether instances are bound to processors.
    pub pin: Pin,
    /// How long a waiter waits before it looks for a deadlock, in milliseconds; before each further
    /// look twice as long, up to ten times as long.
    pub deadlock_timeout_ms: u64,
    /// Instances' executors.
    pub runtime: RuntimeOptions,
    /// What happens when the log has failed.
    pub on_failure: OnFailure,
    /// What the lock file says about how to reach the holder.
    pub lock_note: String,
}

/// Bytes of redo in a round of recovery: of each log at least, and of all together where a pool is large.
const ROUND_LEAST: usize = 8 << 20;
const ROUND_OF_ALL: u64 = 64 << 20;

impl Options {
    /// Bytes of each of `logs` logs that recovery reads into memory at once. Unless the option says: of all together
    /// 64 MB or the 32nd part of a smaller pool, of each 8 MB at least. The more a round has, the more changes of a
    /// leaf are made together.
    pub fn recovery_round(&self, logs: usize) -> usize {
        match self.recovery_round_bytes {
            0 => {
                let of_all = (self.buffer_pool_bytes / 32).min(ROUND_OF_ALL) as usize;
                (of_all / logs.max(1)).max(ROUND_LEAST)
            }
            bytes => bytes,
        }
    }

    /// What they say of so many instances' executors.
    pub(super) fn of_runtime(&self, instances: u16) -> RuntimeOptions {
        // With none admitted nothing would ever start.
        let admission_max = self.runtime.admission_max.max(1);
        RuntimeOptions { instances, pin: self.pin, admission_max, ..self.runtime.clone() }
    }

    /// What they and the directory `disk` say. `Io`.
    pub(super) fn old_logs(&self, disk: &dyn Disk) -> Result<OldLogs> {
        let is_wanted = self.archive_directory.is_some()
            || self.unarchived_logs == UnarchivedLogs::Keep && backup::is_archiving(disk)?;
        Ok(match (is_wanted, self.archive_directory.is_some()) {
            (false, _) => OldLogs::UsedAgain,
            (true, has_archive) if disk.exists(backup::BACKUP_NAME)? => match has_archive {
                true => OldLogs::NeverArchived,
                false => OldLogs::UsedAgain,
            },
            (true, _) => OldLogs::Kept,
        })
    }
}

/// What becomes of logs that no recovery needs any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldLogs {
    /// They are used again, or removed.
    UsedAgain,
    /// They are kept until they are archived, by this process or a later one.
    Kept,
    /// As if there were no archive directory, though there is one: [`NEVER_ARCHIVED`].
    NeverArchived,
}

/// Why logs of some databases are not archived, and so not kept either.
pub(super) const NEVER_ARCHIVED: &str = "this database is a backup that was started as it is, so its logs are \
     of another history than those in the archive: they are not archived, and used again; `atoll restore` makes a \
     database of a backup whose logs can be archived";

impl Default for Options {
    fn default() -> Options {
        Options {
            instances: Instances::Auto,
            buffer_pool_bytes: 1 << 30,
            prefault: Prefault::Ahead,
            undo_bytes: 1 << 30,
            log_segment_bytes: 32 << 20,
            log_buffer_bytes: 1 << 20,
            recovery_round_bytes: 0,
            checkpoint_interval_ms: 60_000,
            checkpoint_wal_bytes: 1 << 30,
            checkpoint_pin_bytes: 0,
            checkpoint_at_once_bytes: 128 << 20,
            page_extent_bytes: 4 << 20,
            archive_directory: None,
            unarchived_logs: UnarchivedLogs::default(),
            clock: ClockChoice::Auto,
            rings: IoChoice::Auto,
            pin: Pin::Auto,
            deadlock_timeout_ms: 100,
            runtime: RuntimeOptions::default(),
            on_failure: OnFailure::EndProcess,
            lock_note: String::from("an embedding program"),
        }
    }
}
