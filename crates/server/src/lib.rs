//! Atoll's server: sessions, the wire, configuration.
//!
//! Talks to clients through [`codec`] and to the database through [`backend`]; it reads data
//! nowhere else. Everything of one session happens on one instance.

pub mod backend;
pub mod codec;
pub mod fuzz;
pub mod session;
