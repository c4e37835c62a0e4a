//! PostgreSQL's wire protocol, versions 3.0 and 3.2, sans-I/O: bytes in, messages out, and back.
//!
//! Invariants: decoding borrows from the caller's buffer and copies nothing; every length is
//! checked against its own message's slice and every message against a limit before it is waited
//! for; no input panics. Encoding appends to a buffer that the caller reuses. Nothing here knows a
//! socket, a session or SQL.

mod decode;
mod encode;
mod reader;
mod startup;
#[cfg(test)]
mod tests;

pub use decode::{
    Bind, Decoded, DescribeTarget, Frontend, Limits, Parameters, Parse, ValueFormat, decode,
    is_incomplete,
};
pub use encode::{ErrorSeverity, Field, Out, RowWriter};
pub use reader::{Codes, Malformed, Oids};
pub use startup::{
    CancelRequest, FirstMessage, PROTOCOL_LATEST, Protocol, Startup, StartupDecoded, decode_startup,
};
