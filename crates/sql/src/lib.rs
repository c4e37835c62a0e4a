//! SQL: names, types, functions, planning and execution over the kernel's interface.

pub mod bind;
pub mod copy;
mod ddl;
pub mod error;
pub mod exec;
pub mod functions;
pub mod parse;
pub mod pg_catalog;
pub mod plan;
pub mod relations;
pub mod session;
pub mod statistics;
pub mod types;

pub use error::{SqlError, SqlResult, SqlState};
