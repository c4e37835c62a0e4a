//! Where a server is, and how a client gets to it.

use std::path::PathBuf;
use std::time::Duration;

use postgres::{Client, Config, NoTls};

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
