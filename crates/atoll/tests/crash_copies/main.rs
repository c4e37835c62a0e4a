//! SIGKILL while copies are made: of `atoll backup`, of the server while it copies and while it
//! archives logs, and of `atoll restore`. A half-made copy is no database and is refused as one;
//! what is restored from a backup and the archive is a prefix of what was committed, and in the
//! end everything (backup rules 1, 4 and 7).
//!
//! A few rounds in every run of the tests; `ATOLL_CRASH_ROUNDS=60` makes it the long form:
//! `ATOLL_CRASH_ROUNDS=60 cargo test --profile quick -p atoll --test crash_copies -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::refusal::{check, refused};
use common::{Scratch, atoll};
use postgres::Client;

/// So much beside the line that a copy takes a while.
const BALLAST: &str = "create table ballast (id int primary key, v text);
    insert into ballast select g, repeat(md5(g::text), 60) from generate_series(1, 12000) g";
const PATIENCE: Duration = Duration::from_secs(90);

/// Rows 1, 2, 3, ... each committed before the next is begun.
struct Line {
    acknowledged: i32,
}

impl Line {
    /// Goes on until the server is gone.
    fn grow(&mut self, client: &mut Client) {
        loop {
            let next = self.acknowledged + 1;
            match client.execute("insert into line values ($1, repeat('x', 500))", &[&next]) {
                Ok(_) => self.acknowledged = next,
                Err(error) => {
                    let ended = error.code().is_none_or(|code| code.code().starts_with("57P"));
                    assert!(ended, "{error:?}");
                    return;
                }
            }
        }
    }

    /// Answers how long the line is, of which nothing is missing, and the ballast is whole.
    fn length(client: &mut Client) -> i32 {
        let row = client.query_one("select count(*), coalesce(max(n), 0) from line", &[]).unwrap();
        let (count, last): (i64, i32) = (row.get(0), row.get(1));
        assert_eq!(count, i64::from(last), "the line has gaps");
        let whole = "select count(*) from ballast where v = repeat(md5(id::text), 60)";
        assert_eq!(client.query_one(whole, &[]).unwrap().get::<_, i64>(0), 12_000);
        last
    }

    /// Everything acknowledged is there, and at most what was not answered besides.
    fn verify(&mut self, client: &mut Client) {
        let length = Line::length(client);
        let known = self.acknowledged..=self.acknowledged + 1;
        assert!(known.contains(&length), "{length} of {}", self.acknowledged);
        self.acknowledged = length;
    }
}

/// A server with an archive, and a folder for copies.
struct Site {
    scratch: Scratch,
    line: Line,
}

impl Site {
    fn new() -> Site {
        let scratch = Scratch::without_server();
        let mut site = Site { scratch, line: Line { acknowledged: 0 } };
        site.serve();
        let mut client = site.scratch.connect();
        client.batch_execute(BALLAST).unwrap();
        client.batch_execute("create table line (n int primary key, v text)").unwrap();
        site
    }

    fn place(&self, name: &str) -> PathBuf {
        self.scratch.folder.path().join(name)
    }

    fn serve(&mut self) {
        let mut command = atoll(&self.scratch.data());
        command.args(["--listen", "127.0.0.1:0", "--log-segment", "4MB"]);
        command.args(["--checkpoint-interval", "100ms", "--checkpoint-wal", "1MB"]);
        command.arg("--archive-directory").arg(self.place("archive"));
        self.scratch.start_with(command);
    }

    fn backup(&self, to: &Path) -> Command {
        let url = format!("host=127.0.0.1 port={} user=postgres", self.scratch.port());
        let mut command = program(&["backup"]);
        command.arg(to).args(["--url", &(url + " dbname=postgres")]);
        command
    }

    fn restore(&self, to: &Path) -> Command {
        let mut command = program(&["restore"]);
        command.arg(self.place("first")).arg(to).arg("--archive").arg(self.place("archive"));
        command
    }

    /// SIGKILL to the server while the line grows, `after` so long; then all is well again.
    fn kill_while_growing(&mut self, after: Duration) {
        let mut client = self.scratch.connect();
        let Site { scratch, line } = self;
        std::thread::scope(|scope| {
            let growing = scope.spawn(|| line.grow(&mut client));
            std::thread::sleep(after);
            scratch.kill();
            growing.join().unwrap();
        });
        is_sound(&self.scratch.data());
    }

    fn serve_and_verify(&mut self) {
        self.serve();
        let mut client = self.scratch.connect();
        self.line.verify(&mut client);
    }

    /// How long the line is in what the first backup and the archive make; that is sound.
    fn restored(&self) -> i32 {
        let to = self.place("restored");
        succeeds(self.restore(&to));
        let length = length_in(&to);
        std::fs::remove_dir_all(&to).unwrap();
        length
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

#[track_caller]
fn succeeds(mut command: Command) {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {told}");
}

#[track_caller]
fn fails(mut command: Command, with: &str) {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains(with), "{command:?}: {told}");
}

#[track_caller]
fn is_sound(data: &Path) {
    let output = check(data).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts the server on a copy; how long is the line there?
fn length_in(data: &Path) -> i32 {
    is_sound(data);
    let mut scratch = Scratch::without_server();
    let mut command = atoll(data);
    command.args(["--listen", "127.0.0.1:0"]);
    scratch.start_with(command);
    let length = Line::length(&mut scratch.connect());
    scratch.kill();
    length
}

/// What a process that was killed has left of the directory it made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    Nothing,
    Half,
    Whole,
}

fn left(directory: &Path) -> Left {
    let Ok(entries) = std::fs::read_dir(directory) else { return Left::Nothing };
    // A lock that nobody holds is nothing.
    let names = entries.map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.filter(|name| name != "LOCK").collect();
    let is_manifest =
        |name: &str| name.strip_prefix("MANIFEST.").is_some_and(|it| it.parse::<u64>().is_ok());
    match names.iter().any(|name| is_manifest(&name.to_string_lossy())) {
        true => Left::Whole,
        false if names.is_empty() => Left::Nothing,
        false => Left::Half,
    }
}

/// Half a copy is refused as a database.
#[track_caller]
fn is_no_database(directory: &Path) {
    refused(directory, &["not an Atoll data directory"]);
}

fn kill_after(mut child: Child, after: Duration) {
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

fn random(most: Duration) -> Duration {
    Duration::from_micros(fastrand::u64(..most.as_micros() as u64))
}

fn rounds(usual: u64) -> u64 {
    let asked = std::env::var("ATOLL_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(usual)
}

/// How often a kill left what.
#[derive(Default, Debug)]
struct Tally {
    nothing: u64,
    half: u64,
    whole: u64,
}

impl Tally {
    fn count(&mut self, left: Left) {
        match left {
            Left::Nothing => self.nothing += 1,
            Left::Half => self.half += 1,
            Left::Whole => self.whole += 1,
        }
    }
}

#[test]
fn a_backup_whose_client_or_server_is_killed_is_whole_or_refused() {
    let mut site = Site::new();
    let began = Instant::now();
    succeeds(site.backup(&site.place("first")));
    let usual = began.elapsed();
    let (mut of_client, mut of_server) = (Tally::default(), Tally::default());
    for round in 0..rounds(4) {
        let to = site.place("backup");
        let began = site.backup(&to).stderr(Stdio::null()).spawn().unwrap();
        if round % 2 == 0 {
            // The client alone: the server ends or removes what it began, and goes on.
            kill_after(began, random(usual));
            let deadline = Instant::now() + PATIENCE;
            while left(&to) == Left::Half {
                assert!(Instant::now() < deadline, "half a backup stays");
                std::thread::sleep(Duration::from_millis(5));
            }
            of_client.count(left(&to));
            let mut client = site.scratch.connect();
            site.line.verify(&mut client);
        } else {
            site.kill_while_growing(random(usual / 2));
            kill_after(began, Duration::ZERO);
            of_server.count(left(&to));
            if left(&to) == Left::Half {
                is_no_database(&to);
                let mut restore = program(&["restore"]);
                restore.arg(&to).arg(site.place("never"));
                fails(restore, "backup");
                assert!(!site.place("never").exists());
            }
            site.serve_and_verify();
            if left(&to) == Left::Half {
                fails(site.backup(&to), "58P02");
            }
        }
        if left(&to) == Left::Whole {
            let restored = site.place("restored");
            let mut restore = program(&["restore"]);
            restore.arg(&to).arg(&restored);
            succeeds(restore);
            assert!(length_in(&restored) <= site.line.acknowledged);
            std::fs::remove_dir_all(&restored).unwrap();
        }
        // Somebody empties it, and the next one is made.
        if to.exists() {
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
    println!("a backup took {usual:?}; killed with it: client {of_client:?}, server {of_server:?}");
}

#[test]
fn an_archive_whose_server_is_killed_has_no_half_segment_that_counts() {
    let mut site = Site::new();
    succeeds(site.backup(&site.place("first")));
    let mut before = 0;
    let mut unfinished = 0;
    for round in 0..rounds(4) {
        site.kill_while_growing(Duration::from_millis(100) + random(Duration::from_millis(400)));
        let folders = std::fs::read_dir(site.place("archive")).unwrap();
        let names = folders.flat_map(|it| std::fs::read_dir(it.unwrap().path()).unwrap());
        let is_half = |name: &str| name.ends_with(".tmp");
        unfinished +=
            names.filter(|it| is_half(&it.as_ref().unwrap().file_name().to_string_lossy())).count();
        // As far as the archive goes, and never less far than before.
        let length = site.restored();
        let acknowledged = site.line.acknowledged;
        assert!((before..=acknowledged + 1).contains(&length), "{before} {length} {acknowledged}");
        println!("round {round}: {length} of {acknowledged} are in the archive");
        before = length;
        site.serve_and_verify();
    }
    // Brought up to date it has everything.
    let mut client = site.scratch.connect();
    client.batch_execute("checkpoint").unwrap();
    let deadline = Instant::now() + PATIENCE;
    let asked = "select newest = archived_checkpoint from atoll_checkpoints";
    while !client.query_one(asked, &[]).unwrap().get::<_, bool>(0) {
        assert!(Instant::now() < deadline, "the archive is brought up to date");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(client);
    site.scratch.kill();
    assert_eq!(site.restored(), site.line.acknowledged);
    println!("unfinished files were found {unfinished} times");
}

#[test]
fn a_restore_that_is_killed_is_whole_or_refused_and_can_be_made_again() {
    let mut site = Site::new();
    succeeds(site.backup(&site.place("first")));
    site.kill_while_growing(Duration::from_millis(600));
    let began = Instant::now();
    let to = site.place("restored");
    succeeds(site.restore(&to));
    let usual = began.elapsed();
    let whole = length_in(&to);
    std::fs::remove_dir_all(&to).unwrap();
    let mut tally = Tally::default();
    for _ in 0..rounds(6) {
        kill_after(site.restore(&to).stderr(Stdio::null()).spawn().unwrap(), random(usual));
        tally.count(left(&to));
        match left(&to) {
            Left::Nothing => {}
            Left::Half => {
                is_no_database(&to);
                fails(site.restore(&to), "exists but is not empty");
            }
            Left::Whole => assert_eq!(length_in(&to), whole),
        }
        if to.exists() {
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
    succeeds(site.restore(&to));
    assert_eq!(length_in(&to), whole);
    println!("a restore took {usual:?}; killed: {tally:?}");
    assert!(tally.half > 0 || rounds(6) < 20, "no kill came within a restore");
}
