//! `cargo xtask ci`: every stage in order, its time, and one line that sums all runners.
//!
//! Invariants: a stage that cannot run is a failure, never a silent skip, and one that does not end is
//! ended and fails; what failed is said again at the end; the last line is `N passed, N failed` alone;
//! the exit code is 0 only if every stage passed. Random tests take one known seed here, so that a red
//! run says something about the change it ran on; fresh seeds are for `cargo test`, `cargo xtask fuzz`
//! and the simulator's stage.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::count::{Count, counted};
use crate::dependencies;
use crate::mutants;
use crate::run::{self, Result, cargo, fuzzing, must, side_target, tee};
use crate::tidy;
use crate::watch::Watch;

/// What a stage may take; the longest takes some nine minutes with its build.
const STAGE_MAX: Duration = Duration::from_secs(25 * 60);

type Stage = (&'static str, fn(&Path) -> Result<Count>);

const STAGES: [Stage; 13] = [
    ("format", |root| one(must(cargo(root, &["fmt", "--all", "--", "--check"])))),
    ("tidy", |root| one(tidy::tidy(root))),
    ("dependencies", |root| one(dependencies::check(root))),
    ("lint", lint),
    ("build", |root| {
        one(must(cargo(root, &["build", "--profile", "quick", "--package", "atoll"])))
    }),
    ("tests", tests),
    ("fuzz", |root| {
        let mut command = fuzzing(root, "6");
        with_known_seed(&mut command);
        let (text, succeeded) = tee(command)?;
        counted(&text, succeeded)
    }),
    ("models", models),
    ("simulation", simulation),
    ("power loss", power_loss),
    ("ledger", ledger),
    ("mutants", |root| mutants::rotating(root)),
    ("benchmarks", benchmarks),
];

/// Runs all stages, or those named by `--only A,B`.
pub fn ci(root: &Path, arguments: &[String]) -> Result<()> {
    let only: Option<Vec<&str>> = match arguments {
        [] => None,
        [flag, names] if flag == "--only" => Some(names.split(',').collect()),
        _ => return Err("usage: cargo xtask ci [--only STAGE[,STAGE...]]".to_owned()),
    };
    if let Some(unknown) =
        only.iter().flatten().find(|name| !STAGES.iter().any(|(stage, _)| stage == *name))
    {
        return Err(format!("no stage is called \"{unknown}\""));
    }
    let started = Instant::now();
    let mut times = Vec::new();
    for (name, stage) in STAGES {
        if only.as_ref().is_some_and(|only| !only.contains(&name)) {
            continue;
        }
        println!("── {name}");
        let began = Instant::now();
        let _watch = Watch::begin(name, STAGE_MAX);
        let count = stage(root).unwrap_or_else(|message| {
            println!("{name}: {message}");
            Count::failed(message)
        });
        let verdict = if count.failed == 0 { "ok" } else { "FAILED" };
        times.push((name, began.elapsed(), verdict, count));
    }
    println!("\nstage          seconds  passed  failed");
    for (name, time, verdict, count) in &times {
        let (seconds, Count { passed, failed, .. }) = (time.as_secs_f64(), count);
        println!("{name:<14} {seconds:>7.1} {passed:>7} {failed:>7}  {verdict}");
    }
    println!("{:<14} {:>7.1}", "all", started.elapsed().as_secs_f64());
    let mut total = Count::default();
    for (name, _, _, count) in times {
        count.failures.iter().for_each(|failure| println!("{name}: {failure}"));
        total.add(count);
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 { Ok(()) } else { Err("not all passed".to_owned()) }
}

fn one(result: Result<()>) -> Result<Count> {
    result.map(|()| Count::passed())
}

fn lint(root: &Path) -> Result<Count> {
    let arguments =
        ["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    one(must(cargo(root, &arguments)))
}

fn tests(root: &Path) -> Result<Count> {
    let arguments = ["test", "--profile", "quick", "--workspace", "--no-fail-fast"];
    let mut command = cargo(root, &arguments);
    with_known_seed(&mut command);
    let (text, succeeded) = tee(command)?;
    counted(&text, succeeded)
}

/// Random tests take this seed unless the caller named one.
fn with_known_seed(command: &mut Command) {
    if std::env::var_os("ATOLL_SEED").is_none() {
        command.env("ATOLL_SEED", "20261121");
    }
}

/// What is counted, and that the program prints it.
fn ledger(root: &Path) -> Result<Count> {
    let (text, succeeded) = tee(run::ledger(root))?;
    counted(&text, succeeded)
}

fn models(root: &Path) -> Result<Count> {
    let arguments = ["test", "--profile", "quick", "--package", "atoll-kernel", "--lib", "loom_"];
    let mut command = cargo(root, &arguments);
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{flags} --cfg loom"));
    command.env("LOOM_MAX_PREEMPTIONS", "3");
    command.env("CARGO_TARGET_DIR", side_target(root, "loom"));
    let (text, succeeded) = tee(command)?;
    counted(&text, succeeded)
}

fn simulation(root: &Path) -> Result<Count> {
    let arguments = ["run", "--quiet", "--profile", "quick", "--package", "atoll"];
    let mut command = cargo(root, &arguments);
    command.args(["--features", "interleave"]);
    command.args(["--", "sim", "--seconds", "120", "--fixed", "--fresh"]);
    let (text, succeeded) = tee(command)?;
    counted(&text, succeeded)
}

fn power_loss(root: &Path) -> Result<Count> {
    let arguments = ["run", "--quiet", "--profile", "quick", "--package", "atoll", "--"];
    let mut command = cargo(root, &arguments);
    command.args(["crash-images", "--images", "1000", "--seconds", "5"]);
    let (text, succeeded) = tee(command)?;
    counted(&text, succeeded)
}

fn benchmarks(root: &Path) -> Result<Count> {
    let all: [&[&str]; 7] = [
        &["tpcb", "--scale", "1"],
        &["tpcc", "--warehouses", "2"],
        &["ycsb", "--records", "10000"],
        &["smallbank"],
        &["tatp", "--subscribers", "5000"],
        &["orders"],
        &["insert", "--rows-max", "200000"],
    ];
    let mut count = Count::default();
    for benchmark in all {
        let arguments = ["run", "--quiet", "--profile", "quick", "--package", "atoll", "--"];
        let mut command = cargo(root, &arguments);
        command.arg("bench").args(benchmark).args(["--seconds", "1", "--clients", "8"]);
        count.add(one(must(command))?);
    }
    Ok(count)
}
