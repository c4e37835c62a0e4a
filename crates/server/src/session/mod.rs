//! Client sessions: plain state machines on their instance's ring (kernel rule 2.2).
//!
//! Invariants: an idle session holds no stack and one small buffer; messages are answered by one
//! task at a time; a session never moves; a response leaves only after it has settled; whatever
//! goes wrong in one session ends that session only.

mod ahead;
mod conversation;
mod link;
mod newcomer;
mod sessions;
mod start;
#[cfg(test)]
mod tests;
mod wire;

pub use newcomer::Newcomer;
pub use sessions::{SessionOptions, Sessions};
