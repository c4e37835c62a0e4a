//! A server process for whole-program tests: its own directory, a free port, ended with the test.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "every test program uses its own part")]

pub mod bench;
pub mod churn;
pub mod embedded;
pub mod faulty;
pub mod raw;
pub mod refusal;
pub mod stranger;
pub mod victim;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// `atoll serve` on `data`, small and with two instances.
pub fn atoll(data: &Path) -> Command {
    atoll_with_pool(data, "64MB")
}

/// As [`atoll`], with another buffer pool.
pub fn atoll_with_pool(data: &Path, pool: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.arg("serve").arg("--data").arg(data);
    command.args(["--buffer-pool", pool, "--instances", "2"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server that ends with the test.
pub struct Running {
    pub child: Child,
    ready: String,
}

impl Running {
    /// Starts it and waits until it is ready.
    pub fn start(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        lines.read_line(&mut ready).unwrap();
        if ready.is_empty() {
            let mut told = String::new();
            std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut told).unwrap();
            panic!("the server did not start: {told}");
        }
        assert!(ready.starts_with("atoll: ready to accept connections on 127.0.0.1:"), "{ready}");
        Running { child, ready }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        let after = self.ready.split("127.0.0.1:").nth(1).unwrap();
        after.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    }

    /// SIGTERM; it must end cleanly.
    pub fn terminate(mut self) {
        let id = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already waited for if the test has passed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server on a directory that goes with it.
pub struct Scratch {
    pub folder: tempfile::TempDir,
    pub server: Option<Running>,
}

impl Scratch {
    /// A new database, served.
    pub fn new() -> Scratch {
        let mut scratch = Scratch::without_server();
        scratch.start();
        scratch
    }

    /// An empty folder.
    pub fn without_server() -> Scratch {
        Scratch { folder: tempfile::tempdir().unwrap(), server: None }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts the server on what is there.
    pub fn start(&mut self) {
        let mut command = atoll(&self.data());
        command.args(["--listen", "127.0.0.1:0"]);
        self.start_with(command);
    }

    /// Starts a server by a command of the test's own.
    pub fn start_with(&mut self, command: Command) {
        self.server = Some(Running::start(command));
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }

    pub fn port(&self) -> u16 {
        self.server.as_ref().unwrap().port()
    }

    /// A connection through the Rust driver.
    pub fn connect(&self) -> postgres::Client {
        let config = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port());
        postgres::Client::connect(&config, postgres::NoTls).unwrap()
    }

    /// A program of PostgreSQL's, pointed at this server. A missing one is a failure: .ci/setup
    /// installs them.
    pub fn client(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).env("PGHOST", "127.0.0.1").env("PGPORT", self.port().to_string());
        command.env("PGUSER", "postgres").env("PGDATABASE", "postgres").stdin(Stdio::null());
        command.env("PGCONNECT_TIMEOUT", "10").env("LC_ALL", "C");
        command.output().unwrap_or_else(|error| panic!("{program}: {error}; run .ci/setup"))
    }

    /// As `client`; it must succeed. Answers what it printed, both streams.
    pub fn succeeds(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.client(program, arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {text}");
        text
    }
}
