//! Load over the wire, through any PostgreSQL-compatible server's own SQL.
//!
//! Used by `atoll demo` and by the wire benchmarks. Each client is a thread with its connection;
//! what was acknowledged is remembered on the client's side, which outlives the server.

mod check;
mod client;
mod load;
mod tpcb;
pub mod tpcc;

pub use check::{Verdict, check};
pub use client::{Address, connect};
pub use load::load;
pub use tpcb::{Acknowledged, Outcome, Run, run};

/// What went wrong, as one line for a person.
pub type Result<T> = std::result::Result<T, String>;

/// A driver's error as one line: the server's message and code where there are any.
pub fn message(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
    }
}
