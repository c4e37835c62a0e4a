//! SIGKILL in the middle of a load, while checkpoints are made: everything acknowledged is there
//! again, nothing by half, and what lies there is sound.
//!
//! A few rounds in every run of the tests; `ATOLL_CRASH_ROUNDS=50` makes it the long form:
//! `ATOLL_CRASH_ROUNDS=50 cargo test --profile quick -p atoll --test crash -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use atoll_bench::wire::{self, Address, Outcome, Run};
use common::churn::Churn;
use common::{Scratch, atoll};

/// Clients of the TPC-B-like load.
const CLIENTS: u64 = 8;

/// A server that makes checkpoints all the time.
fn serve(data: &Path) -> Command {
    let mut command = atoll(data);
    command.args(["--listen", "127.0.0.1:0", "--log-segment", "4MB"]);
    command.args(["--checkpoint-interval", "100ms", "--checkpoint-wal", "1MB"]);
    command
}

fn address(scratch: &Scratch) -> Address {
    Address::Tcp("127.0.0.1".to_owned(), scratch.port())
}

/// What `atoll check` says of a directory that nobody serves.
fn check(data: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    let output =
        command.arg("check").arg(data).args(["--buffer-pool-mib", "256"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("nothing is wrong"), "{text}");
}

/// When the last file of a folder was changed whose name begins so.
fn changed(folder: &Path, prefix: &str) -> SystemTime {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let of_name = entries.filter(|it| it.file_name().to_string_lossy().starts_with(prefix));
    of_name.map(|it| it.metadata().unwrap().modified().unwrap()).max().unwrap()
}

/// Checkpoints published since the database was made.
fn checkpoints(scratch: &Scratch) -> i64 {
    let row = scratch.connect().query_one("select coalesce(newest, 0) from atoll_checkpoints", &[]);
    row.unwrap().get(0)
}

/// One life: both loads, until the server is killed.
fn load_and_kill(scratch: &mut Scratch, round: u64, churn: &mut Churn) -> Outcome {
    let run = Run {
        address: address(scratch),
        clients: CLIENTS,
        scale: 1,
        seconds: 60,
        seed: round,
        first_number: round << 32,
    };
    let client = scratch.connect();
    std::thread::scope(|scope| {
        let load = scope.spawn(move || wire::run_tpcb(&run, &mut |_, _| ()));
        let churning = scope.spawn(move || churn.run(client));
        std::thread::sleep(Duration::from_millis(400 + fastrand::u64(..800)));
        scratch.kill();
        churning.join().unwrap();
        load.join().unwrap().unwrap()
    })
}

#[test]
fn what_was_acknowledged_survives_a_kill_again_and_again() {
    let rounds = std::env::var("ATOLL_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u64 = rounds.unwrap_or(4);
    let mut scratch = Scratch::without_server();
    scratch.start_with(serve(&scratch.data()));
    let mut client = wire::connect(&address(&scratch)).unwrap();
    wire::load(&mut client, 1, &mut |_, _| ()).unwrap();
    let mut churn = Churn::new(&mut client);
    drop(client);
    let (mut told, mut within, mut transactions, mut changes) = (Vec::new(), 0, 0, 0);
    let mut published = checkpoints(&scratch);
    let first = published;
    for round in 0..rounds {
        let outcome = load_and_kill(&mut scratch, round, &mut churn);
        assert_eq!(outcome.disconnected as u64, CLIENTS, "{:?}", outcome.error);
        assert!(outcome.transactions() > 0, "{:?}", outcome.error);
        transactions += outcome.transactions();
        told.extend(outcome.acknowledged);
        let data = scratch.data();
        // Pages were written after the last manifest.
        let is_within = changed(&data.join("pages"), "") > changed(&data, "MANIFEST.");
        within += u64::from(is_within);
        check(&data);
        let began = Instant::now();
        scratch.start_with(serve(&data));
        let restart = began.elapsed();
        let mut client = wire::connect(&address(&scratch)).unwrap();
        // All that was ever acknowledged, in every life.
        let verdict = wire::check(&mut client, &told).unwrap();
        assert!(verdict.is_good(), "{:?}: {:?} missing", verdict.sums, verdict.missing);
        changes += churn.verify(&mut client);
        let now = checkpoints(&scratch);
        assert!(now > published, "round {round}: no checkpoint was made");
        println!(
            "round {round}: {} checkpoints, killed {}, ready after {} ms, {} acknowledged in all",
            now - published,
            if is_within { "within one" } else { "between two" },
            restart.as_millis(),
            verdict.acknowledged,
        );
        published = now;
    }
    println!(
        "{rounds} kills, {within} of them within a checkpoint, {} checkpoints; {transactions} \
         transactions and {changes} other changes acknowledged, all there",
        published - first
    );
    assert!(changes > 0);
    assert!(rounds < 20 || within > 0, "no kill came within a checkpoint");
    scratch.kill();
    check(&scratch.data());
}
