//! Planted faults: each row of docs/testing.md's table names a fault and the test that must fail
//! with it. A fault that nothing catches is a failure; so is one whose test fails without it, too, for that
//! shows nothing.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::count::{Count, counted};
use crate::run::{Result, cargo, side_target};
use crate::watch::end_started_by;

const TABLE: &str = "docs/testing.md";
const ROTATING: usize = 4;
/// A fault is caught by then: one that loses a wake-up shows as a run that never ends.
const CAUGHT_WITHIN: Duration = Duration::from_secs(120);
/// What passes without a fault has done so by then.
const PASSED_WITHIN: Duration = Duration::from_secs(600);

/// A planted fault.
struct Mutant {
    name: String,
    /// `test FILTER`, `loom FILTER`, `sim ARGS` or `images ARGS`: what must catch it.
    catcher: String,
}

/// Runs the named mutants, or all.
pub fn mutants(root: &Path, names: &[String]) -> Result<()> {
    let all = read(root)?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|it| it.name == **name)) {
        return Err(format!("no mutant is called \"{unknown}\" in {TABLE}"));
    }
    let chosen = || all.iter().filter(|it| names.is_empty() || names.contains(&it.name));
    let mut count = run(root, chosen())?;
    count.add(run_without(root, chosen())?);
    println!("{} passed, {} failed", count.passed, count.failed);
    if count.failed == 0 {
        Ok(())
    } else {
        Err("not every fault was caught by what passes without it".to_owned())
    }
}

/// A few that change with the day, and the count of those caught. What catches them passes without them: other stages
/// run it.
pub fn rotating(root: &Path) -> Result<Count> {
    let all = read(root)?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let start = (since.as_secs() / 86_400) as usize * ROTATING;
    run(root, (0..ROTATING).map(|at| &all[(start + at) % all.len()]))
}

fn run<'a>(root: &Path, chosen: impl Iterator<Item = &'a Mutant>) -> Result<Count> {
    let mut count = Count::default();
    for mutant in chosen {
        let began = Instant::now();
        let caught = is_caught(root, mutant)?;
        let seconds = began.elapsed().as_secs_f64();
        let verdict = if caught { "caught" } else { "NOT CAUGHT" };
        println!("{:<36} {:<40} {verdict} in {seconds:.1} s", mutant.name, mutant.catcher);
        let failed = || Count::failed(format!("{} was not caught", mutant.name));
        count.add(if caught { Count::passed() } else { failed() });
    }
    Ok(count)
}

/// Runs each catcher once without a fault: one that fails then, too, shows nothing.
fn run_without<'a>(root: &Path, chosen: impl Iterator<Item = &'a Mutant>) -> Result<Count> {
    let (mut count, mut seen) = (Count::default(), HashSet::new());
    for mutant in chosen.filter(|mutant| seen.insert(&mutant.catcher)) {
        let passes = run_catcher(root, mutant, Fault::None)?.0 == Some(true);
        let verdict = if passes { "passes" } else { "FAILS WITHOUT A FAULT" };
        println!("{:<36} {:<40} {verdict}", "without a fault", mutant.catcher);
        let failed = || Count::failed(format!("{} fails without a fault", mutant.catcher));
        count.add(if passes { Count::passed() } else { failed() });
    }
    Ok(count)
}

fn is_caught(root: &Path, mutant: &Mutant) -> Result<bool> {
    let (succeeded, text) = run_catcher(root, mutant, Fault::Planted)?;
    match mutant.catcher.split_once(' ') {
        // The images must catch it; a recording that fails shows nothing.
        Some(("images", _)) if succeeded.is_some() => {
            Ok(counted(&text, true).is_ok_and(|count| count.failed > 0))
        }
        _ => Ok(succeeded != Some(true)),
    }
}

/// Whether a catcher is run with the fault that it is to catch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Planted,
    None,
}

/// As [`run_for`].
fn run_catcher(root: &Path, mutant: &Mutant, fault: Fault) -> Result<(Option<bool>, String)> {
    let (kind, rest) = mutant.catcher.split_once(' ').ok_or("a catcher is KIND and ARGUMENTS")?;
    let (program, what): (&str, &[&str]) = match kind {
        "test" | "loom" => {
            ("test", &["--package", "atoll-kernel", "--lib", "--features", "mutants"])
        }
        "sim" | "images" => ("run", &["--package", "atoll", "--features", "mutants,interleave"]),
        other => return Err(format!("{}: unknown kind of catcher \"{other}\"", mutant.name)),
    };
    let command = |program: &str| {
        let mut command = cargo(root, &[program, "--quiet", "--profile", "quick"]);
        command.args(what);
        if fault == Fault::Planted {
            command.env("ATOLL_MUTANT", &mutant.name);
        }
        if kind == "loom" {
            command.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", "3");
            command.env("CARGO_TARGET_DIR", side_target(root, "loom"));
        }
        command
    };
    // A build that fails must not count as a catch: build first.
    let mut build = command(if program == "run" { "build" } else { "test" });
    if program == "test" {
        build.arg("--no-run");
    }
    crate::run::must(build)?;
    let mut catcher = command(program);
    match kind {
        "sim" => catcher.args(["--", "sim"]),
        "images" => catcher.args(["--", "crash-images"]),
        _ => &mut catcher,
    };
    catcher.args(rest.split(' '));
    let within = if fault == Fault::Planted { CAUGHT_WITHIN } else { PASSED_WITHIN };
    run_for(within, catcher)
}

/// Whether it succeeded, if it ended in time, and what it wrote. What takes longer is ended with all that it has started.
fn run_for(time: Duration, mut command: Command) -> Result<(Option<bool>, String)> {
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |error| format!("a catcher: {error}");
    let mut child = command.spawn().map_err(failed)?;
    let mut output = child.stdout.take().expect("the output is piped");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        // What cannot be read is missed by whoever looks for the closing line.
        let _ = output.read_to_string(&mut text);
        text
    });
    let deadline = Instant::now() + time;
    let succeeded = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break Some(status.success());
        }
        if Instant::now() > deadline {
            // It is cargo; the test or the simulator is its child.
            end_started_by(child.id());
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = if succeeded.is_some() { reader.join().unwrap_or_default() } else { String::new() };
    Ok((succeeded, text))
}

/// The rows of the table: `| name | ... | catcher | ... |` below the heading "## Mutants"; the
/// first cell is the name and the third the catcher, both in backquotes.
fn read(root: &Path) -> Result<Vec<Mutant>> {
    let text = std::fs::read_to_string(root.join(TABLE)).map_err(|e| format!("{TABLE}: {e}"))?;
    let section = text.split("## Mutants").nth(1).ok_or(format!("{TABLE} has no mutants"))?;
    let mut mutants = Vec::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, name, _, catcher, ..] = cells.as_slice() else {
            return Err(format!("{TABLE}: \"{line}\" has too few cells"));
        };
        mutants.push(Mutant { name: (*name).to_owned(), catcher: (*catcher).to_owned() });
    }
    if mutants.is_empty() { Err(format!("{TABLE} has no mutants")) } else { Ok(mutants) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_leaves_nothing_running() {
        let _alone = crate::watch::ALONE.lock();
        let place = std::env::temp_dir().join(format!("atoll-mutants-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'echo $$ > \"$0\"; sleep 300; true' \"$0\"; true"]).arg(&place);
        let (succeeded, _) = run_for(Duration::from_secs(1), command).unwrap();
        assert_eq!(succeeded, None);
        let id: u32 = std::fs::read_to_string(&place).unwrap().trim().parse().unwrap();
        std::fs::remove_file(&place).unwrap();
        // It is gone, or nobody has asked yet how it ended. Who is killed ends when it next runs.
        let stat = || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let has_ended = |stat: &str| stat.is_empty() || stat.contains(") Z ");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !has_ended(&stat()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(has_ended(&stat()), "{}", stat());
    }
}
