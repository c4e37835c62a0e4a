//! Client sessions: plain state machines on their instance's ring (kernel rule 2.2).
//!
//! Invariants: an idle session holds no stack and one small buffer; messages are answered by one
//! task at a time; a session moves to another instance only where it stands still (`moving`); a
//! response leaves only after it has settled; whatever goes wrong in one session ends that session
//! only.

mod ahead;
mod cancel;
mod company;
mod connection;
mod conversation;
mod exchange;
mod link;
mod moving;
mod newcomer;
mod search;
mod sessions;
mod start;
#[cfg(test)]
mod tests;
mod wire;

pub use exchange::Exchange;
pub use newcomer::Newcomer;
pub use sessions::{Exchanges, SessionOptions, Sessions};
