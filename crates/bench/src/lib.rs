//! Benchmarks: against the kernel in process, and over the wire against any PostgreSQL-compatible
//! server.
//!
//! A workload (`tpcc`, `ycsb`, ...) says what its tables, inputs and checks are (`workload`), and
//! how its transactions run natively (`native`) and over the wire (`wire`); these two drive all
//! of them. `tpcb` and `insert` drive the kernel by themselves, `connections` drives a server by
//! thousands of connections. `compare` sets Atoll beside other servers, `restart` kills servers and times
//! their next start, `sweep` sets intervals between checkpoints, or numbers of clients, beside each other,
//! `aims` measures what Atoll has set itself, `recovery` recovers what a run has left. `arrivals` says when clients begin transactions, wherever they run; `sync` measures bare
//! durable writes beside them.
//!
//! Invariants: every figure says what was measured (clients, instances, durability) and what CPU
//! it cost; nothing here asserts a time. Random choices come from a seed that is printed.

pub mod aims;
pub mod arrivals;
pub mod choice;
pub mod compare;
pub mod connections;
pub mod cpu;
mod growth;
pub mod insert;
pub mod latency;
pub mod ledger;
pub mod memory;
pub mod native;
pub mod orders;
pub mod picture;
pub mod random;
pub mod recovery;
pub mod report;
pub mod restart;
pub mod setting;
pub mod smallbank;
pub mod space;
pub mod sql;
mod stored;
pub mod sweep;
pub mod sync;
pub mod tatp;
#[cfg(test)]
mod testing;
pub mod ticker;
pub mod tpcb;
pub mod tpcc;
pub mod wire;
pub mod workload;
pub mod ycsb;
