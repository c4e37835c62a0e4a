//! `cargo xtask breakdown --time`: of what the microseconds of a TPC-C transaction are.
//!
//! The release build runs one kind of transaction alone, one instance confined with its I/O and its clients to one core,
//! and perf looks some thousand times a second what that core does. A look counts for the part of Atoll whose
//! symbol it fell into; what is inlined counts for what it is inlined into. What a transaction takes of
//! the core in all is what the benchmark says. Commits, flushes, the scheduler and collection are in it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::parts::{Part, part_of};
use crate::run::{self, Result, cargo, must};
use crate::server::Server;

/// The mixes that run one kind alone, and the standard's.
const MIXES: [&str; 3] = ["new-order", "payment", "standard"];
/// How long is looked, within what is measured.
const LOOKED_SECONDS: &str = "15";
const MEASURED_SECONDS: &str = "22";
const WARM_UP_SECONDS: &str = "5";
/// Looks a second.
const LOOKS: &str = "5000";
/// Fewer looks than that tell little.
const LOOKS_MIN: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(120);

/// New-Order and Payment by default, some forty seconds each.
pub fn clock(root: &Path, rest: &[String]) -> Result<()> {
    let chosen: Vec<&str> = match rest {
        [] => vec!["new-order", "payment"],
        some => some.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = chosen.iter().find(|it| !MIXES.contains(it)) {
        return Err(format!("no mix is called \"{unknown}\"; {}", MIXES.join(", ")));
    }
    for (program, package) in [("perf", "linux-perf"), ("taskset", "util-linux")] {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null());
        must(command).map_err(|_| format!("{program} is missing: `apt-get install {package}`"))?;
    }
    must(cargo(root, &["build", "--release", "--package", "atoll"]))?;
    let atoll = run::target(root).join("release").join("atoll");
    let folder = run::side_target(root, "breakdown");
    for mix in chosen {
        let _ = fs::remove_dir_all(&folder);
        let made = fs::create_dir_all(&folder);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        let looked = look(&atoll, &folder, mix)?;
        print(mix, &looked)?;
    }
    let _ = fs::remove_dir_all(&folder);
    Ok(())
}

/// What came of one mix.
struct Looked {
    parts: BTreeMap<Part, u64>,
    /// Processor time of a transaction.
    us: f64,
    per_second: f64,
}

fn look(atoll: &Path, folder: &Path, mix: &str) -> Result<Looked> {
    let (log, out) = (folder.join("log"), folder.join("report"));
    let create =
        |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut command = Command::new("taskset");
    command.current_dir(folder).stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&log)?);
    command.args(["-c", "0"]).arg(atoll);
    command
        .args("bench tpcc --warehouses 1 --instances 1 --clients 64 --json --data data".split(' '));
    command.args(["--mix", mix, "--warmup", WARM_UP_SECONDS, "--seconds", MEASURED_SECONDS]);
    let mut benchmark = Server::start(command)?;
    let runs = || fs::read_to_string(&log).is_ok_and(|text| text.contains("* running for"));
    benchmark.waits("run TPC-C", PATIENCE, runs)?;
    let mut perf = Command::new("perf");
    perf.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    perf.args(["record", "-q", "-e", "cpu-clock", "-F", LOOKS, "-o", "looks", "-p"]);
    perf.arg(benchmark.id().to_string()).args(["--", "sleep", LOOKED_SECONDS]);
    must(perf)?;
    benchmark.ends(PATIENCE)?;
    let mut script = Command::new("perf");
    script.current_dir(folder).stderr(Stdio::null());
    script.args(["script", "-i", "looks", "-F", "ip,sym,dso"]);
    let told = script.output().map_err(|error| format!("perf script: {error}"))?;
    let report = fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let report: serde_json::Value =
        serde_json::from_str(&report).map_err(|error| format!("the report: {error}"))?;
    let number =
        |name: &str| report[name].as_f64().ok_or_else(|| format!("the report does not say {name}"));
    Ok(Looked {
        parts: parts_of(&String::from_utf8_lossy(&told.stdout)),
        us: number("cpu_us_per_txn")?,
        per_second: number("tps")?,
    })
}

/// Looks by part; a line is an address, a symbol, and the file that it is in, in brackets.
fn parts_of(text: &str) -> BTreeMap<Part, u64> {
    let mut parts = BTreeMap::new();
    for line in text.lines() {
        let Some((_, named)) = line.trim().split_once(' ') else { continue };
        let Some((symbol, file)) = named.rsplit_once(" (") else { continue };
        let is_system = file.starts_with("[kernel") || file.starts_with("[guest");
        let is_libc = file.contains("libc.so") || file.contains("[vdso]");
        let part = match (is_system, is_libc) {
            (true, _) => Part::System,
            (_, true) => Part::Library,
            _ => part_of("", symbol),
        };
        *parts.entry(part).or_default() += 1;
    }
    parts
}

fn print(mix: &str, looked: &Looked) -> Result<()> {
    let all: u64 = looked.parts.values().sum();
    if all < LOOKS_MIN {
        return Err(format!("perf has looked {all} times only: is the machine busy?"));
    }
    println!(
        "\n{mix}: {:.1} us a transaction, {:.0} a second ({all} looks)",
        looked.us, looked.per_second
    );
    let mut parts: Vec<(Part, u64)> =
        looked.parts.iter().map(|(part, its)| (*part, *its)).collect();
    parts.sort_by_key(|(_, looks)| std::cmp::Reverse(*looks));
    for (part, looks) in parts {
        let share = looks as f64 / all as f64;
        println!("  {:>6.2} us  {:>5.1} %  {}", share * looked.us, share * 100.0, part.name());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_go_to_the_part_of_their_symbol() {
        let text = "\
     55d1c0a0 atoll_kernel::tree::index::change::<impl atoll_kernel::tree::index::IndexTree>::insert (/x/atoll)
  7fc10df370e1 __memmove_avx_unaligned_erms (/usr/lib/x86_64-linux-gnu/libc.so.6)
 ffffffff815e1640 do_syscall_64 ([kernel.kallsyms])
     55d1c0a4 atoll_kernel::version::twin::Table::find (/x/atoll)

            7f00 [unknown] ([unknown])
";
        let expected = [
            (Part::Index, 1),
            (Part::Library, 1),
            (Part::System, 1),
            (Part::Versions, 1),
            (Part::Other, 1),
        ];
        assert_eq!(parts_of(text), BTreeMap::from(expected));
    }
}
