//! One of thousands of connections: a socket and as much of the protocol as the benchmark needs.
//!
//! Invariants: at most one request is under way; requests are a few hundred bytes, so that a socket
//! which is waited for by nobody takes them whole. Nobody is asked for a password. What the server
//! refuses ends the run, with the server's own words. A driver's client would need a runtime,
//! several descriptors and a thread; ten thousand of them would be measured instead of the server.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use postgres::config::Host;

use super::Work;

/// Where a server is, and who asks.
#[derive(Clone, Debug)]
pub(super) struct Target {
    host: Host,
    port: u16,
    user: String,
    database: String,
}

impl Target {
    /// From a URL or libpq's connection string.
    pub(super) fn parse(url: &str) -> Result<Target, String> {
        let config: postgres::Config =
            url.parse().map_err(|error| format!("{url}: {}", crate::wire::message(&error)))?;
        let host = config.get_hosts().first().cloned().ok_or_else(|| format!("{url}: no host"))?;
        let user = config.get_user().unwrap_or("postgres").to_owned();
        let database = config.get_dbname().unwrap_or(&user).to_owned();
        Ok(Target {
            host,
            port: config.get_ports().first().copied().unwrap_or(5432),
            user,
            database,
        })
    }
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn open(target: &Target) -> std::io::Result<Socket> {
        Ok(match &target.host {
            Host::Unix(folder) => {
                let path = folder.join(format!(".s.PGSQL.{}", target.port));
                Socket::Unix(UnixStream::connect(path)?)
            }
            Host::Tcp(host) => {
                let stream = TcpStream::connect((host.as_str(), target.port))?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
        })
    }

    fn set_nonblocking(&self) -> std::io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.set_nonblocking(true),
            Socket::Tcp(socket) => socket.set_nonblocking(true),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.read(bytes),
            Socket::Tcp(socket) => socket.read(bytes),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.write_all(bytes),
            Socket::Tcp(socket) => socket.write_all(bytes),
        }
    }
}

/// What has come in answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Not all of it.
    Part,
    /// All, ReadyForQuery included.
    Whole,
}

/// A session of the server's.
pub(super) struct Connection {
    socket: Socket,
    // Of a message that came in part.
    rest: Vec<u8>,
    // Tags of the commands that the request has ended, as `SELECT 1`: one is due.
    tag: [u8; 8],
    pub(super) asked: Instant,
}

impl Connection {
    /// Starts a session, which then prepares both statements and runs each once, and a simple query.
    pub(super) fn open(target: &Target) -> Result<Connection, String> {
        let cannot = |error: std::io::Error| format!("cannot connect: {error}");
        let socket = Socket::open(target).map_err(cannot)?;
        let mut connection =
            Connection { socket, rest: Vec::new(), tag: *b"        ", asked: Instant::now() };
        let mut bytes = Vec::new();
        startup(&mut bytes, target);
        connection.exchange(&bytes)?;
        bytes.clear();
        for work in [Work::Select, Work::Update] {
            prepare(&mut bytes, work);
        }
        message(&mut bytes, b'S', |_| ());
        connection.exchange(&bytes)?;
        bytes.clear();
        message(&mut bytes, b'Q', |body| body.extend_from_slice(b"select 1\0"));
        connection.exchange(&bytes)?;
        bytes.clear();
        request(&mut bytes, Work::Select, 1);
        connection.exchange(&bytes)?;
        connection.socket.set_nonblocking().map_err(cannot)?;
        Ok(connection)
    }

    /// What to wait for input on.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }

    /// Sends a request; its answer is not waited for.
    pub(super) fn ask(&mut self, request: &[u8]) -> Result<(), String> {
        self.asked = Instant::now();
        self.socket.write_all(request).map_err(|error| format!("sending: {error}"))
    }

    /// Takes what has come; `buffer` is anybody's.
    pub(super) fn take(&mut self, buffer: &mut [u8]) -> Result<Answer, String> {
        match self.socket.read(buffer) {
            Ok(0) => Err("the server has closed a connection".to_owned()),
            Ok(count) if self.rest.is_empty() => {
                let (answer, taken) = self.messages(&buffer[..count])?;
                self.rest.extend_from_slice(&buffer[taken..count]);
                Ok(answer)
            }
            Ok(count) => {
                let mut all = std::mem::take(&mut self.rest);
                all.extend_from_slice(&buffer[..count]);
                let (answer, taken) = self.messages(&all)?;
                all.drain(..taken);
                self.rest = all;
                Ok(answer)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(Answer::Part)
            }
            Err(error) => Err(format!("receiving: {error}")),
        }
    }

    /// Whether the last request had an effect on one row.
    pub(super) fn was_one_row(&self, work: Work) -> bool {
        self.tag == *work.tag()
    }

    /// Takes whole messages; answers how many bytes they had.
    fn messages(&mut self, bytes: &[u8]) -> Result<(Answer, usize), String> {
        let mut taken = 0;
        while let Some((&kind, rest)) = bytes[taken..].split_first() {
            let Some(length) = rest.first_chunk::<4>() else { break };
            let length = u32::from_be_bytes(*length) as usize;
            let Some(body) = rest.get(4..length) else { break };
            taken += 1 + length;
            match kind {
                b'Z' => return Ok((Answer::Whole, taken)),
                b'E' => return Err(error_text(body)),
                b'C' => {
                    for (to, from) in self.tag.iter_mut().zip(body) {
                        *to = *from;
                    }
                }
                b'R' if body.get(..4) != Some(&[0; 4]) => {
                    return Err(
                        "the server asks for a password; this benchmark has none".to_owned()
                    );
                }
                _ => {}
            }
        }
        Ok((Answer::Part, taken))
    }

    /// Sends and waits, while the socket still blocks.
    fn exchange(&mut self, request: &[u8]) -> Result<(), String> {
        self.ask(request)?;
        let mut buffer = [0; 4096];
        while self.take(&mut buffer)? == Answer::Part {}
        Ok(())
    }
}

/// The message and SQLSTATE of an ErrorResponse.
fn error_text(body: &[u8]) -> String {
    let field = |letter: u8| {
        let of = |field: &[u8]| field.strip_prefix(&[letter]).map(|it| it.to_vec());
        let text = body.split(|byte| *byte == 0).find_map(of).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    };
    format!("the server says: {} ({})", field(b'M'), field(b'C'))
}

fn message(bytes: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    bytes.push(kind);
    counted(bytes, body);
}

/// A length, which counts itself, and what it is of.
fn counted(bytes: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    body(bytes);
    let length = (bytes.len() - at) as u32;
    bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn startup(bytes: &mut Vec<u8>, target: &Target) {
    counted(bytes, |body| {
        body.extend_from_slice(&196_608_u32.to_be_bytes());
        let (user, database) = (target.user.as_str(), target.database.as_str());
        let pairs = ["user", user, "database", database, "application_name", "atoll bench"];
        for text in pairs {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        body.push(0);
    });
}

fn prepare(bytes: &mut Vec<u8>, work: Work) {
    message(bytes, b'P', |body| {
        for text in [work.name(), work.statement()] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        body.extend_from_slice(&[0; 2]);
    });
}

/// Appends Bind, Execute and Sync of a statement with the key `key`, in binary.
pub(super) fn request(bytes: &mut Vec<u8>, work: Work, key: u64) {
    message(bytes, b'B', |body| {
        body.push(0);
        body.extend_from_slice(work.name().as_bytes());
        body.extend_from_slice(&[0, 0, 1, 0, 1, 0, 1]);
        body.extend_from_slice(&8_u32.to_be_bytes());
        body.extend_from_slice(&key.to_be_bytes());
        body.extend_from_slice(&[0, 1, 0, 1]);
    });
    message(bytes, b'E', |body| body.extend_from_slice(&[0; 5]));
    message(bytes, b'S', |_| ());
}
