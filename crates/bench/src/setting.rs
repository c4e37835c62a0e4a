//! What every workload is told: how many clients for how long, and what they may see and expect.
//!
//! Invariants: the same words mean the same for every workload, natively and over the wire.

use std::path::PathBuf;

use atoll_kernel::api::{Instances, Options, Prefault};

use crate::arrivals::Rate;

/// How much transactions see of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// A snapshot for every command; changed rows are read again.
    ReadCommitted,
    /// One snapshot: snapshot isolation.
    RepeatableRead,
}

impl Isolation {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read-committed",
            Isolation::RepeatableRead => "repeatable-read",
        }
    }
}

impl From<Isolation> for atoll_kernel::api::Isolation {
    fn from(isolation: Isolation) -> Self {
        match isolation {
            Isolation::ReadCommitted => atoll_kernel::api::Isolation::ReadCommitted,
            Isolation::RepeatableRead => atoll_kernel::api::Isolation::RepeatableRead,
        }
    }
}

/// When a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is stable.
    Commit,
    /// At once.
    Relaxed,
}

impl Durability {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Commit => "commit",
            Durability::Relaxed => "relaxed",
        }
    }
}

/// Whence transactions are called, natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// From within: a client is a task of an instance.
    Inside,
    /// From outside: a client is a thread of the embedding program.
    Outside(Way),
}

/// Where a transaction runs that is called from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Where its key hashes to; elsewhere if that instance is overloaded.
    Routed,
    /// On whichever instance has time.
    Anywhere,
}

impl Calls {
    /// All of them.
    pub const ALL: [Calls; 3] =
        [Calls::Inside, Calls::Outside(Way::Routed), Calls::Outside(Way::Anywhere)];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Calls::Inside => "inside",
            Calls::Outside(Way::Routed) => "routed",
            Calls::Outside(Way::Anywhere) => "anywhere",
        }
    }
}

/// How clients run, whatever their workload.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Clients: natively each a task of an instance, or a thread if calls come from outside; over the wire
    /// each a connection.
    pub clients: u64,
    /// Natively: whence transactions are called.
    pub calls: Calls,
    /// How long is measured.
    pub seconds: u64,
    /// How long runs before that.
    pub warmup_seconds: u64,
    /// How much transactions see of others.
    pub isolation: Isolation,
    /// When a commit is answered.
    pub durability: Durability,
    /// Transactions that arrive a second (open loop); none: closed loop.
    pub rate: Option<Rate>,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Setting {
    /// One line for what cannot be run.
    pub fn validate(&self) -> Result<(), String> {
        if self.clients == 0 {
            return Err("clients must be at least 1".to_owned());
        }
        Ok(())
    }

    /// The same, measured: seconds must be said.
    pub fn validate_timed(&self) -> Result<(), String> {
        self.validate()?;
        if self.seconds == 0 {
            return Err("seconds must be at least 1".to_owned());
        }
        Ok(())
    }
}

/// Where and with how much a database of its own runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where the data goes; none: memory only, which says nothing about durability.
    pub data: Option<PathBuf>,
    /// Instances.
    pub instances: Instances,
    /// Memory for pages; none: what is expected to be needed.
    pub buffer_pool_bytes: Option<u64>,
    /// The kernel's option.
    pub prefault: Prefault,
    /// The kernel's option; 0: never for that reason.
    pub checkpoint_interval_ms: u64,
    /// The kernel's option; 0: never for that reason.
    pub checkpoint_wal_bytes: u64,
}

impl Place {
    /// Whether checkpoints are made at all.
    pub(crate) fn makes_checkpoints(&self) -> bool {
        self.data.is_some() && (self.checkpoint_interval_ms, self.checkpoint_wal_bytes) != (0, 0)
    }
}

impl Default for Place {
    /// In memory, with the kernel's defaults.
    fn default() -> Place {
        let options = Options::default();
        Place {
            data: None,
            instances: Instances::Auto,
            buffer_pool_bytes: None,
            prefault: options.prefault,
            checkpoint_interval_ms: options.checkpoint_interval_ms,
            checkpoint_wal_bytes: options.checkpoint_wal_bytes,
        }
    }
}

/// A server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where it is, as libpq's connection strings and URLs say it.
    pub url: String,
    /// The server's process, to count its processor time.
    pub pid: Option<u32>,
}
