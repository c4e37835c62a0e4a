//! Where a server is, and how a client gets to it.

use std::path::PathBuf;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use postgres::{Client, Config, NoTls};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::{Result, message};

/// A server's address.
#[derive(Clone, Debug)]
pub enum Address {
    /// A host and a port.
    Tcp(String, u16),
    /// The folder of a unix socket, and the port in its name.
    Socket(PathBuf, u16),
}

impl Address {
    /// As a connection string of libpq's.
    pub fn url(&self) -> String {
        let (host, port) = match self {
            Address::Tcp(host, port) => (host.clone(), port),
            Address::Socket(folder, port) => (folder.display().to_string(), port),
        };
        format!("host={host} port={port} user=postgres dbname=postgres")
    }

    /// What a person types to connect with psql.
    pub fn psql(&self) -> String {
        match self {
            Address::Tcp(host, port) => format!("psql -h {host} -p {port} -U postgres postgres"),
            Address::Socket(folder, port) => {
                format!("psql -h {} -p {port} -U postgres postgres", folder.display())
            }
        }
    }
}

/// One connection as `postgres` to the database `postgres`.
pub fn connect(address: &Address) -> Result<Client> {
    let mut config = Config::new();
    config.user("postgres").dbname("postgres").application_name("atoll bench");
    config.connect_timeout(Duration::from_secs(10));
    match address {
        Address::Tcp(host, port) => config.host(host).port(*port),
        Address::Socket(folder, port) => config.host_path(folder).port(*port),
    };
    config.connect(NoTls).map_err(|error| format!("cannot connect: {}", message(&error)))
}

/// A client's thread; an error where the system allows no more of them.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    client: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let started = Builder::new().spawn_scoped(scope, client);
    started.map_err(|error| format!("cannot start a client's thread: {error}"))
}

/// Descriptors for other things than connections.
const DESCRIPTORS_SPARE: u64 = 64;

/// Lets this process have as many files open as so many connections take, with `each` of them; an error if
/// the system does not.
pub(crate) fn allow_connections(count: u64, each: u64) -> Result<()> {
    let needed = count.saturating_mul(each).saturating_add(DESCRIPTORS_SPARE);
    let mut limits = getrlimit(Resource::Nofile);
    if limits.current.is_some_and(|limit| limit < needed) {
        limits.current = limits.maximum;
        setrlimit(Resource::Nofile, limits).map_err(|error| error.to_string())?;
    }
    match limits.current {
        Some(limit) if limit < needed => {
            Err(format!("{needed} open files are needed, and {limit} allowed (ulimit -n)"))
        }
        _ => Ok(()),
    }
}
