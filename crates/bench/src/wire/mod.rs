//! Load over the wire, through any PostgreSQL-compatible server's own SQL.
//!
//! Used by `atoll demo` and by the wire benchmarks. Each client is a thread with its connection;
//! what was acknowledged is remembered on the client's side, which outlives the server. Workloads
//! run by `run`: each is [`Wire`], and all share one loader and one driver. `tpcb` is pgbench's,
//! with marks, for crash tests.

mod check;
mod client;
mod copy;
mod drive;
mod load;
mod orders;
mod record;
mod routing;
mod tpcb;
pub mod tpcc;
mod smallbank;
mod tatp;
mod ycsb;

use std::time::Duration;

use postgres::{Client, SimpleQueryMessage};

use crate::sql::{Ask, Rows};
use crate::workload::{Checked, Ended, Loaded, Workload};

pub use check::{Verdict, check};
pub use client::{Address, connect};
pub(crate) use client::{allow_connections, start};
pub use drive::{run, run_recorded};
pub use load::load;
pub use record::Record;
pub use routing::{Near, Sessions, ToldBy};
pub use tpcb::{Acknowledged, Outcome, Run, run as run_tpcb};

/// What went wrong, as one line for a person.
pub type Result<T> = std::result::Result<T, String>;

/// What a statement of a transaction answers.
pub type Sql<T> = std::result::Result<T, Failed>;

/// Why a transaction did not come to its end.
#[derive(Debug)]
pub enum Failed {
    /// The server or the connection says so.
    Server(postgres::Error),
    /// It answered what cannot be.
    Answer(String),
}

impl From<postgres::Error> for Failed {
    fn from(error: postgres::Error) -> Failed {
        Failed::Server(error)
    }
}

impl Failed {
    /// Whether the server gave this SQLSTATE.
    pub fn is(&self, sqlstate: &str) -> bool {
        matches!(self, Failed::Server(error)
            if error.code().is_some_and(|code| code.code() == sqlstate))
    }

    /// Whether trying again helps.
    pub fn is_conflict(&self) -> bool {
        self.is("40001") || self.is("40P01")
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Server(error) => f.write_str(&message(error)),
            Failed::Answer(what) => f.write_str(what),
        }
    }
}

/// Whether a transaction is one statement or several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One, which commits by itself.
    Statement,
    /// Several, between BEGIN and COMMIT.
    Block,
}

/// A workload that runs over the wire.
pub trait Wire: Workload {
    /// A connection's prepared statements.
    type Statements: Send;

    /// Prepares them.
    fn prepare(&self, client: &mut Client) -> Sql<Self::Statements>;
    /// Whether an input needs a block.
    fn shape(input: &Self::Input) -> Shape;
    /// Does what an input asks; BEGIN and COMMIT are the driver's.
    fn execute(
        client: &mut Client,
        statements: &mut Self::Statements,
        input: &Self::Input,
    ) -> Sql<Ended<Self::Mark>>;
    /// What a client's transactions are near to, where sessions are to go to their data.
    fn near(&self, client: u64) -> Option<Near> {
        let _ = client;
        None
    }
    /// An error of one line if tables that are there tell the server something else of that than this run does.
    fn check_tables(&self, client: &mut Client) -> Result<()> {
        let _ = client;
        Ok(())
    }
    /// From now on a transaction leaves a trace, by which it can be found again.
    fn keep_traces(client: &mut Client, statements: &mut Self::Statements) -> Sql<()> {
        let _ = (client, statements);
        Err(Failed::Answer(format!("transactions of {} leave no traces", Self::NAME)))
    }
    /// The trace of what was executed last, as a line; none if nothing was changed.
    fn take_trace(statements: &mut Self::Statements) -> Option<String> {
        let _ = statements;
        None
    }
    /// Looks at the tables before clients run.
    fn look_remotely(&self, client: &mut Client, loaded: &Loaded) -> Result<Self::Before> {
        let _ = loaded;
        self.before(client)
    }
    /// Judges the tables at the end.
    fn verify_remotely(
        &self,
        client: &mut Client,
        before: &Self::Before,
        tally: &Self::Tally,
    ) -> Result<Checked> {
        self.judge(client, before, tally)
    }
}

impl Ask for Client {
    fn ask(&mut self, statement: &str) -> Result<Rows> {
        let answer = self.simple_query(statement).map_err(|error| message(&error))?;
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        };
        Ok(answer.into_iter().filter_map(row).collect())
    }
}

/// How long it may take until a socket is connected, unless the URL says otherwise (`connect_timeout`): a host that
/// drops packets does not answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects as a URL says.
pub fn connect_to(url: &str) -> Result<Client> {
    let mut config: postgres::Config =
        url.parse().map_err(|error| format!("{url}: {}", message(&error)))?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("atoll bench");
    }
    let client = config.connect(postgres::NoTls);
    client.map_err(|error| format!("cannot connect: {}", message(&error)))
}

/// A driver's error as one line: the server's message and code where there are any.
pub fn message(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
    }
}
