//! Transactions on simulated instances in one thread, over a model of rows and logs.
#![allow(clippy::unwrap_used, reason = "a failed test says so by panicking")]

mod harness;
mod hot_rows;
mod scenarios;
mod transfers;
mod world;
