//! SIGKILL under the load of programs that users run: `atoll bench tpcc --url` and `pgbench`, on a
//! pool that the data does not fit, while checkpoints are made. TPC-C's conditions hold again
//! afterwards, pgbench's sums agree, and every transaction that it was told of is there.
//!
//! A few rounds in every run of the tests; `ATOLL_CRASH_ROUNDS=50` makes it the long form:
//! `ATOLL_CRASH_ROUNDS=50 cargo test --profile quick -p atoll --test crash_programs -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Scratch, atoll};

/// Clients of each program.
const CLIENTS: &str = "4";

fn serve(data: &Path) -> Command {
    let mut command = atoll(data);
    command.args(["--listen", "127.0.0.1:0", "--log-segment", "4MB"]);
    command.args(["--checkpoint-interval", "300ms", "--checkpoint-wal", "8MB"]);
    command
}

fn tpcc(scratch: &Scratch, seconds: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", scratch.port());
    command.args(["bench", "tpcc", "--clients", CLIENTS, "--seconds", seconds, "--url", &url]);
    command.stdin(Stdio::null());
    command
}

/// Runs TPC-C for a moment, whose end judges all that is there.
fn tpcc_holds(scratch: &Scratch) {
    let output = tpcc(scratch, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{told}");
    assert!(text.contains("all twelve consistency conditions hold"), "{text}{told}");
}

fn pgbench(scratch: &Scratch, log: &Path) -> Child {
    let mut command = Command::new("pgbench");
    command.args(["-n", "-c", CLIENTS, "-j", "2", "-T", "600", "-l", "--log-prefix"]).arg(log);
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &scratch.port().to_string()]);
    command.arg("postgres").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("pgbench: {error}; run .ci/setup"))
}

/// Transactions that pgbench was told of, by its logs.
fn told_of(folder: &Path) -> i64 {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|file| std::fs::read_to_string(file).unwrap().lines().count() as i64).sum()
}

/// One life: both loads, until the server is killed. Their programs end by themselves then.
fn load_and_kill(scratch: &mut Scratch, logs: &Path, round: u64) {
    let mut loads = [
        pgbench(scratch, &logs.join(round.to_string())),
        tpcc(scratch, "600").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(),
    ];
    std::thread::sleep(Duration::from_millis(1000 + fastrand::u64(..1500)));
    scratch.kill();
    for load in &mut loads {
        assert!(!load.wait().unwrap().success(), "its server has gone");
    }
}

#[test]
fn programs_find_everything_again_after_a_kill_and_another() {
    let rounds = std::env::var("ATOLL_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u64 = rounds.unwrap_or(2);
    let mut scratch = Scratch::without_server();
    scratch.start_with(serve(&scratch.data()));
    scratch.succeeds("pgbench", &["-i", "-s", "1", "-q"]);
    tpcc_holds(&scratch);
    let logs = scratch.folder.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    // Found after the last kill, those among them whose answer did not come: none of them may go any more.
    let mut known = 0;
    for round in 0..rounds {
        let before = told_of(&logs);
        load_and_kill(&mut scratch, &logs, round);
        let told = told_of(&logs);
        assert!(told > before, "round {round}: pgbench was told of nothing");
        let data = scratch.data();
        let mut check = Command::new(env!("CARGO_BIN_EXE_atoll"));
        let checked = check.arg("check").arg(&data).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        scratch.start_with(serve(&data));
        tpcc_holds(&scratch);
        let mut client = scratch.connect();
        let row = client
            .query_one(
                "select (select count(*) from pgbench_history),
                    (select sum(delta)::bigint from pgbench_history),
                    (select sum(abalance)::bigint from pgbench_accounts),
                    (select sum(tbalance)::bigint from pgbench_tellers),
                    (select sum(bbalance)::bigint from pgbench_branches)",
                &[],
            )
            .unwrap();
        let sums: [i64; 4] = std::array::from_fn(|at| row.get(at + 1));
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        let there: i64 = row.get(0);
        // Each client of this life may have had one more whose answer did not reach it.
        let least = known + told - before;
        let unanswered = CLIENTS.parse::<i64>().unwrap();
        assert!((least..=least + unanswered).contains(&there), "{there}, told of {told}");
        known = there;
        println!("round {round}: {there} transactions of pgbench, it was told of {told}");
    }
}
