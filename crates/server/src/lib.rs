//! Atoll's server: sessions, the wire, configuration.
//!
//! Talks to clients through [`codec`] and to the database through [`backend`]; it reads data
//! nowhere else. Everything of one session happens on one instance.

pub mod backend;
pub mod codec;
pub mod config;
mod error;
pub mod fuzz;
pub mod listen;
mod server;
pub mod session;
mod sql_backend;

pub use error::{Result, ServerError};
pub use server::serve;
pub use sql_backend::SqlBackend;
