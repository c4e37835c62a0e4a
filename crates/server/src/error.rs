//! Why a server does not start.
//!
//! Invariants: every variant says what was asked for and what to do; errors of running sessions
//! are `SqlError`s and never come here.

use std::path::PathBuf;

/// What a server's start may answer.
pub type Result<T> = std::result::Result<T, ServerError>;

/// Why a server does not start.
#[derive(Debug)]
pub enum ServerError {
    /// A setting is not known or has a value that it cannot have.
    Setting {
        /// Where it was set: a flag, a variable, a file.
        origin: String,
        /// What is wrong.
        problem: String,
    },
    /// An address that is not to be listened on, or cannot be.
    Listen {
        /// The address as it was given.
        address: String,
        /// Why not.
        problem: String,
    },
    /// The unix socket's folder or file.
    Socket {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Something that the operating system refused.
    System {
        /// What was tried.
        what: &'static str,
        /// Its error.
        source: std::io::Error,
    },
    /// The database does not open or does not close.
    Kernel(atoll_kernel::base::Error),
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerError::Setting { origin, problem } => write!(f, "{origin}: {problem}"),
            ServerError::Listen { address, problem } => {
                write!(f, "cannot listen on {address}: {problem}")
            }
            ServerError::Socket { path, problem } => {
                write!(f, "unix socket {}: {problem}", path.display())
            }
            ServerError::System { what, source } => write!(f, "cannot {what}: {source}"),
            ServerError::Kernel(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServerError {}

impl From<atoll_kernel::base::Error> for ServerError {
    fn from(error: atoll_kernel::base::Error) -> ServerError {
        ServerError::Kernel(error)
    }
}
