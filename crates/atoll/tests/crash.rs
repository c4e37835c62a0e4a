//! SIGKILL in the middle of a load: everything acknowledged is there again, nothing by half.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::time::Duration;

use atoll_bench::wire::{self, Address, Run};
use common::Scratch;

#[test]
fn what_was_acknowledged_survives_a_kill_again_and_again() {
    let mut scratch = Scratch::new();
    let address = |scratch: &Scratch| Address::Tcp("127.0.0.1".to_owned(), scratch.port());
    let mut client = wire::connect(&address(&scratch)).unwrap();
    wire::load(&mut client, 1, &mut |_, _| ()).unwrap();
    drop(client);
    for round in 0..3_u64 {
        let run = Run {
            address: address(&scratch),
            clients: 8,
            scale: 1,
            seconds: 30,
            seed: round,
            first_number: round << 32,
        };
        let load = std::thread::spawn(move || wire::run_tpcb(&run, &mut |_, _| ()));
        std::thread::sleep(Duration::from_millis(400 + 300 * round));
        scratch.kill();
        let outcome = load.join().unwrap().unwrap();
        assert_eq!(outcome.disconnected, 8, "{:?}", outcome.error);
        assert!(outcome.transactions() > 0, "{:?}", outcome.error);
        scratch.start();
        let mut client = wire::connect(&address(&scratch)).unwrap();
        let verdict = wire::check(&mut client, &outcome.acknowledged).unwrap();
        assert!(verdict.is_good(), "{:?}: {:?} missing", verdict.sums, verdict.missing);
    }
    let data = scratch.data();
    scratch.kill();
    let check = std::process::Command::new(env!("CARGO_BIN_EXE_atoll"))
        .arg("check")
        .arg(&data)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(check.status.success(), "{text}{}", String::from_utf8_lossy(&check.stderr));
    assert!(text.contains("nothing is wrong"), "{text}");
}
