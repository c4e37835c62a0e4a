//! SIGKILL under the load of programs that users run: `atoll bench tpcc --url` and `pgbench`, on a
//! pool that the data does not fit, while checkpoints are made. Each of them puts down what was
//! acknowledged, and outlives the server: afterwards every single transaction is looked for and is
//! there whole, of every life, and at most one a client besides; TPC-C's conditions hold.
//!
//! A few rounds in every run of the tests; `ATOLL_CRASH_ROUNDS=50` makes it the long form:
//! `ATOLL_CRASH_ROUNDS=50 cargo test --profile quick -p atoll --test crash_programs -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod journal;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, atoll};
use journal::{Journal, judge};

/// Clients of each program.
const CLIENTS: &str = "4";
/// A load that has not begun by then will not.
const PATIENCE: Duration = Duration::from_secs(90);

fn serve(data: &Path) -> Command {
    let mut command = atoll(data);
    command.args(["--listen", "127.0.0.1:0", "--log-segment", "4MB"]);
    command.args(["--checkpoint-interval", "300ms", "--checkpoint-wal", "8MB"]);
    command
}

/// TPC-C's runs, each with its file of acknowledged transactions.
struct Tpcc {
    folder: PathBuf,
    files: Vec<PathBuf>,
}

impl Tpcc {
    fn new(scratch: &Scratch) -> Tpcc {
        let folder = scratch.folder.path().join("tpcc");
        std::fs::create_dir(&folder).unwrap();
        Tpcc { folder, files: Vec::new() }
    }

    fn bench(scratch: &Scratch) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", scratch.port());
        command.args(["bench", "tpcc", "--url", &url]).stdin(Stdio::null());
        command
    }

    /// A run with other inputs than those before.
    fn run(&mut self, scratch: &Scratch, seconds: &str) -> Command {
        let number = self.files.len().to_string();
        let file = self.folder.join(&number);
        let mut command = Tpcc::bench(scratch);
        command.args(["--clients", CLIENTS, "--seconds", seconds, "--seed", &number]);
        command.arg("--acknowledged").arg(&file);
        self.files.push(file);
        command
    }

    /// Orders and payments that the last run was told of.
    fn told(&self) -> i64 {
        let text = std::fs::read_to_string(self.files.last().unwrap()).unwrap_or_default();
        let inserts = |line: &&str| line.starts_with("new-order") || line.starts_with("payment");
        text.lines().filter(inserts).count() as i64
    }

    /// Orders and payments that are there.
    fn there(scratch: &Scratch) -> i64 {
        let count = "select (select count(*) from orders) + (select count(*) from history)";
        scratch.connect().query_one(count, &[]).unwrap().get(0)
    }

    /// Looks for every transaction of all runs; answers what that says.
    fn verify(&self, scratch: &Scratch) -> String {
        let mut command = Tpcc::bench(scratch);
        command.args(self.files.iter().flat_map(|file| [Path::new("--verify"), file.as_path()]));
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Runs for a moment; its beginning and its end judge all that is there.
    fn holds(&mut self, scratch: &Scratch) {
        let output = self.run(scratch, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{told}");
        assert!(text.contains("all twelve consistency conditions hold"), "{text}{told}");
    }
}

/// One life: both loads, until the server is killed. Their programs end by themselves then.
fn load_and_kill(scratch: &mut Scratch, journal: &Journal, tpcc: &mut Tpcc, life: i32) {
    let mut run = tpcc.run(scratch, "600");
    let mut loads = [
        journal.load(scratch, life, ["-T", "600"]),
        run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(),
    ];
    // It judges what is there before it begins.
    let began = Instant::now();
    while tpcc.told() == 0 {
        assert!(began.elapsed() < PATIENCE, "TPC-C does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(fastrand::u64(200..1500)));
    scratch.kill();
    for load in &mut loads {
        assert!(!load.wait().unwrap().success(), "its server has gone");
    }
}

#[test]
fn programs_find_everything_again_after_a_kill_and_another() {
    let rounds = std::env::var("ATOLL_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: i32 = rounds.unwrap_or(2);
    let mut scratch = Scratch::without_server();
    scratch.start_with(serve(&scratch.data()));
    let (mut journal, mut tpcc) = (Journal::new(&scratch), Tpcc::new(&scratch));
    tpcc.holds(&scratch);
    let mut told = 0;
    for round in 0..rounds {
        let before = Tpcc::there(&scratch);
        load_and_kill(&mut scratch, &journal, &mut tpcc, round);
        let told_now: i32 = journal.told(round).values().sum();
        assert!(told_now > 0, "round {round}: pgbench was told of nothing");
        told += told_now;
        let data = scratch.data();
        let mut check = Command::new(env!("CARGO_BIN_EXE_atoll"));
        let checked = check.arg("check").arg(&data).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        scratch.start_with(serve(&data));
        let there = journal.verify(&mut scratch.connect(), round);
        let there = there.unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
        let found = tpcc.verify(&scratch);
        // Each client may have had one more whose answer did not reach it.
        let unanswered = Tpcc::there(&scratch) - before - tpcc.told();
        assert!((0..=CLIENTS.parse().unwrap()).contains(&unanswered), "{unanswered} more");
        println!("round {round}: pgbench: {there} there, told of {told}; TPC-C: {}", found.trim());
        tpcc.holds(&scratch);
    }
}

/// What the judges above are worth.
#[test]
fn a_transaction_of_pgbench_that_is_lost_or_halved_is_named() {
    let scratch = Scratch::new();
    let mut journal = Journal::new(&scratch);
    assert!(journal.load(&scratch, 0, ["-t", "20"]).wait().unwrap().success());
    let told = journal.told(0);
    assert!(told.values().all(|count| *count == 20), "{told:?}");
    let mut client = scratch.connect();
    assert_eq!(journal.verify(&mut client, 0), Ok(80));
    for (change, expect) in [
        (
            "delete from journal where client = 1 and sequence = 7",
            "lost [0/1/7], never asked for []",
        ),
        ("delete from journal where client = 3 and sequence = 20", "lost [0/3/20]"),
        ("insert into journal values (0, 2, 22, 1, 1, 1, 0)", "never asked for [0/2/22]"),
        ("insert into journal values (0, 2, 21, 1, 1, 1, 0)", "1 rows of the journal without one"),
        ("insert into pgbench_history values (1, 1, 1, 0, now())", "1 rows of history without one"),
        ("update pgbench_accounts set abalance = abalance + 1 where aid = 9", "1 accounts that"),
        ("update pgbench_tellers set tbalance = tbalance - 1 where tid = 2", "1 tellers that"),
        ("update pgbench_branches set bbalance = bbalance - 1", "1 branches that"),
        ("update latest set sequence = 19 where client = 0", "1 clients whose last"),
    ] {
        let mut broken = client.transaction().unwrap();
        assert_eq!(broken.execute(change, &[]).unwrap(), 1, "{change}");
        let said = journal.verify(&mut broken, 0).unwrap_err();
        assert!(said.contains(expect), "{change}: {said}");
        broken.rollback().unwrap();
    }
    assert_eq!(journal.verify(&mut client, 0), Ok(80));
}

#[test]
fn one_without_an_answer_may_be_there_and_must_stay() {
    let there = [((0, 0), 1), ((0, 0), 2), ((1, 0), 1)].into_iter().collect();
    let (none, told) = ([].into_iter().collect(), |told| [((0, 0), told)].into_iter().collect());
    let first = [((0, 0), 1), ((0, 0), 2)].into_iter().collect();
    for (count, is_good) in [(0, false), (1, true), (2, true), (3, false)] {
        let found = judge(&first, &none, &told(count));
        assert_eq!(found.as_ref().ok(), is_good.then(|| told(2)).as_ref(), "{count}: {found:?}");
    }
    let second = [((1, 0), 1)].into_iter().collect();
    assert_eq!(judge(&there, &told(2), &second).unwrap().len(), 2);
    assert!(judge(&there, &told(3), &second).unwrap_err().contains("lost [0/0/3]"));
    assert!(judge(&there, &told(1), &second).unwrap_err().contains("for [0/0/2]"));
}
