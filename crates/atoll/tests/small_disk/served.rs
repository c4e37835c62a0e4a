//! A server whose end would be noticed, and clients that know what they were told.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::error::SqlState;

use crate::common::{Running, atoll};

#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whose rows are there; each is whole.
pub fn ids(client: &mut Client) -> BTreeSet<i32> {
    let odd =
        "select count(*) from t where v is distinct from repeat(md5(id::text), length(v) / 32)";
    assert_eq!(client.query_one(odd, &[]).unwrap().get::<_, i64>(0), 0);
    let rows = client.query("select id from t", &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// `atoll serve` without a parent that would start it again.
pub struct Served {
    data: PathBuf,
    settings: Vec<String>,
    server: Option<Running>,
}

impl Served {
    pub fn start(data: &Path, settings: &[&str]) -> Served {
        let settings = settings.iter().map(|it| (*it).to_owned()).collect();
        let mut served = Served { data: data.to_owned(), settings, server: None };
        served.start_again();
        served
    }

    fn start_again(&mut self) {
        let mut command = atoll(&self.data);
        command.args(["--listen", "127.0.0.1:0", "--supervise", "off", "--log-segment", "4MB"]);
        command.args(["--buffer-pool", "256MB"]);
        command.args(&self.settings);
        self.server = Some(Running::start(command));
    }

    pub fn url(&self) -> String {
        let port = self.server.as_ref().unwrap().port();
        format!("host=127.0.0.1 port={port} user=postgres dbname=postgres")
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.url(), postgres::NoTls).unwrap()
    }

    /// SIGKILL to a server that has run until now; what it said on standard error.
    pub fn kill(&mut self) -> String {
        let mut server = self.server.take().unwrap();
        let ended = server.child.try_wait().unwrap();
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let mut told = String::new();
        server.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(ended, None, "it went on without a restart: {told}");
        told
    }

    /// `atoll check` finds nothing.
    pub fn check(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
        command.arg("check").arg(&self.data).args(["--buffer-pool-mib", "256"]);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("nothing is wrong"), "{text}");
    }

    /// Everything acknowledged, and nothing else, is there; and so it is after SIGKILL and a start,
    /// between which nothing is wrong. Answers what the killed one said on standard error.
    pub fn kill_and_check(&mut self, writers: &Writers) -> String {
        assert_eq!(ids(&mut self.connect()), writers.acknowledged);
        let told = self.kill();
        self.check();
        self.start_again();
        assert_eq!(ids(&mut self.connect()), writers.acknowledged);
        told
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        // The test has failed: why may be among what the server said.
        let _ = server.child.kill();
        let mut told = String::new();
        let _ = server.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut told));
        println!("the server said: {told}");
    }
}

/// Sessions that insert into `t`, in turn.
pub struct Writers {
    clients: Vec<Client>,
    next: i32,
    /// Whose rows they were told of.
    pub acknowledged: BTreeSet<i32>,
}

impl Writers {
    pub fn connect(served: &Served, count: usize) -> Writers {
        let clients = (0..count).map(|_| served.connect()).collect();
        Writers { clients, next: 0, acknowledged: BTreeSet::new() }
    }

    pub fn client(&mut self) -> &mut Client {
        &mut self.clients[0]
    }

    /// Inserts a row of that many bytes, about; whether there was room.
    #[track_caller]
    pub fn write_one(&mut self, bytes: usize) -> bool {
        self.next += 1;
        let (id, count) = (self.next, self.clients.len());
        let insert = format!("insert into t values ({id}, repeat(md5('{id}'), {}))", bytes / 32);
        match self.clients[id as usize % count].batch_execute(&insert) {
            Ok(()) => self.acknowledged.insert(id),
            Err(error) => {
                assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");
                false
            }
        }
    }

    /// Fills the disk by rows of that size until each client was refused often. What was refused
    /// was never visible.
    pub fn write_until_full(&mut self, reader: &mut Client, bytes: usize) {
        let mut refused = vec![0; self.clients.len()];
        while refused.iter().any(|count| *count < 5) {
            if !self.write_one(bytes) {
                refused[self.next as usize % self.clients.len()] += 1;
                let there = "select count(*) from t where id = $1";
                let row = reader.query_one(there, &[&self.next]).unwrap();
                assert_eq!(row.get::<_, i64>(0), 0, "row {} was refused", self.next);
            }
            assert!(self.next < 20_000, "the disk is full at some time");
        }
        assert_eq!(ids(reader), self.acknowledged);
    }

    /// Writes rows of that size until something holds; false if it never does.
    pub fn fill(&mut self, mut holds: impl FnMut() -> bool, bytes: usize) -> bool {
        let until = self.next + 20_000;
        while self.next < until {
            if holds() {
                return true;
            }
            (0..20).for_each(|_| assert!(self.write_one(bytes)));
        }
        false
    }

    /// There is room again: at once or soon, for a log looks for room ten times a second.
    #[track_caller]
    pub fn go_on(&mut self, rows: usize) {
        (0..rows).for_each(|_| eventually("work goes on", || self.write_one(200)));
    }
}
