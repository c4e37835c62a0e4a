//! Benchmarks: against the kernel in process (`tpcb`, `tpcc`, `insert`), and over the wire against
//! any PostgreSQL-compatible server (`wire`).
//!
//! Invariants: every figure says what was measured (clients, instances, durability) and what CPU
//! it cost; nothing here asserts a time. Random choices come from a seed that is printed.

pub mod cpu;
pub mod insert;
pub mod latency;
pub mod tpcb;
pub mod tpcc;
pub mod wire;
