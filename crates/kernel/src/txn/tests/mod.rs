//! Transactions on simulated instances in one thread, over a model of rows and logs.

mod harness;
mod scenarios;
mod transfers;
mod world;
