//! Transactions on simulated instances in one thread, over a model of rows and logs.
#![allow(clippy::unwrap_used, reason = "a failed test says so by panicking")]

mod harness;
mod scenarios;
mod transfers;
mod world;
