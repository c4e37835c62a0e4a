//! The one tool of the tree: `cargo xtask ci | tidy | bless | sim | fuzz | bench | ledger | guided |
//! breakdown`.
//!
//! It runs other programs and reads sources as text; no crate of Atoll is linked into it, so that
//! it builds in a second and can judge a tree that does not compile.

mod breakdown;
mod ci;
mod count;
mod dependencies;
mod guided;
mod mutants;
mod run;
mod server;
mod tidy;
mod watch;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  ci [--only STAGE[,STAGE...]]  all that CI runs, with the time of each stage
  tidy                          order of crates and modules, headers, sizes, banned names
  bless                         format, and let the size list shrink to what is there
  sim [ARGS...]                 the simulator (atoll sim), built with its interleaving points
  mutants [NAME...]             run what must catch each planted fault; all of them by default
  fuzz [--seconds N]            seeded random input for pages, log records, messages, types, SQL
  bench [ARGS...]               benchmarks (atoll bench), built for speed
  ledger                        write the measured figures into docs/scaling.md
  guided                        the release build, guided by a profile of itself
  breakdown [TRANSACTION...]    of what the instructions of a TPC-C transaction are (callgrind)
  breakdown --time [MIX...]     of what its microseconds are (perf): new-order, payment, standard
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let root = run::root();
    let result = match command.as_str() {
        "ci" => ci::ci(&root, &rest),
        "tidy" => tidy::tidy(&root),
        "bless" => tidy::bless(&root),
        "sim" => run::sim(&root, &rest),
        "mutants" => mutants::mutants(&root, &rest),
        "fuzz" => run::fuzz(&root, &rest),
        "bench" => run::bench(&root, &rest),
        "ledger" => run::write_ledger(&root),
        "guided" => guided::guided(&root),
        "breakdown" => breakdown::breakdown(&root, &rest),
        "" | "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("unknown command \"{other}\"\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
