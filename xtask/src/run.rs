//! Running other programs: always from the tree's root, output passed on, exit codes judged.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What went wrong, as one line for a person.
pub type Result<T> = std::result::Result<T, String>;

/// The root of the tree this tool was started for. Cargo says it at run time; what was true when
/// the tool was built may be another clone that shared the build cache.
pub fn root() -> PathBuf {
    let built_in = env!("CARGO_MANIFEST_DIR").to_owned();
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or(built_in));
    here.parent().expect("xtask lies in the tree").to_owned()
}

/// A `cargo` command in `root`.
pub fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(arguments).current_dir(root).stdin(Stdio::null());
    command
}

/// Runs to the end; an exit code other than 0 is an error that names the command.
pub fn must(mut command: Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

/// Runs to the end, passes the output on, and returns it.
pub fn tee(mut command: Command) -> Result<(String, bool)> {
    use std::io::{BufRead, BufReader};
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut text = String::new();
    let output = child.stdout.take().expect("the output is piped");
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("{command:?}: {error}"))?;
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    let status = child.wait().map_err(|error| format!("{command:?}: {error}"))?;
    Ok((text, status.success()))
}

/// `cargo xtask sim ARGS`.
pub fn sim(root: &Path, rest: &[String]) -> Result<()> {
    let mut command =
        cargo(root, &["run", "--quiet", "--profile", "quick", "--features", "interleave"]);
    command.args(["--package", "atoll", "--", "sim"]).args(rest);
    must(command)
}

/// `cargo xtask bench ARGS`: the release profile, as figures are measured.
pub fn bench(root: &Path, rest: &[String]) -> Result<()> {
    let mut command = cargo(root, &["run", "--quiet", "--release", "--package", "atoll", "--"]);
    command.arg("bench").args(rest);
    must(command)
}

/// The tests that count a small TPC-C and compare its sites with docs/scaling.md, and those that run
/// `atoll bench WORKLOAD --ledger` as a program.
pub fn ledger(root: &Path) -> Command {
    let arguments = ["test", "--profile", "quick", "--no-fail-fast", "--package", "atoll-bench"];
    let mut command = cargo(root, &arguments);
    command.args(["--package", "atoll", "--features", "atoll/ledger", "--test", "ledger"]);
    command
}

/// `cargo xtask ledger`: the first of these, but the figures go into docs/scaling.md.
pub fn write_ledger(root: &Path) -> Result<()> {
    let mut command = ledger(root);
    command.args(["--", "scaling_md"]).env("ATOLL_LEDGER_WRITE", "1");
    must(command)
}

/// `cargo xtask fuzz [--seconds N]`: the random-input tests, each for N seconds (default 30).
pub fn fuzz(root: &Path, rest: &[String]) -> Result<()> {
    let seconds = match rest {
        [] => "30",
        [flag, seconds] if flag == "--seconds" && seconds.parse::<u32>().is_ok() => seconds,
        _ => return Err("usage: cargo xtask fuzz [--seconds N]".to_owned()),
    };
    must(fuzzing(root, seconds))
}

/// Every `fuzz_*` test for so many seconds: a seeded loop within the test's process, on stable.
/// Those that test one crate run side by side. (Of the whole workspace: some packages alone would have
/// fewer features of what they depend on, and be built once more for it, in five minutes.)
pub fn fuzzing(root: &Path, seconds: &str) -> Command {
    let mut command = cargo(root, &["test", "--profile", "quick", "--workspace", "--lib"]);
    command.args(["--", "fuzz_"]).env("ATOLL_FUZZ_SECONDS", seconds);
    command
}

/// A target directory beside the usual one, for builds with other compiler flags. (Builds with
/// other features share the usual one: cargo keeps them apart, and what does not depend on the
/// features is built once.)
pub fn side_target(root: &Path, name: &str) -> PathBuf {
    target(root).join(name)
}

/// The usual target directory.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
