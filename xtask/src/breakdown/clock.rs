//! `cargo xtask breakdown --time`: of what the microseconds of a TPC-C transaction are.
//!
//! The release build runs one kind of transaction alone, one instance confined with its I/O and its clients to one core:
//! the one that takes the disk's interrupts. perf looks some thousand times a second what that core does, whoever does
//! it. A look counts for the part of Atoll whose symbol it fell into, what is inlined for what it is inlined into;
//! one into the system by its call chain. What a transaction takes is what the core was busy for, by transactions.
//! Commits, flushes, the kernel's threads, the scheduler and collection are in it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::parts::{Group, Part, part_of, system_part};
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
    looks: Looks,
    per_second: f64,
}

/// Looks by part.
#[derive(Debug, Default, PartialEq)]
struct Looks {
    parts: BTreeMap<Part, u64>,
    /// When the core had nothing to do.
    idle: u64,
}

/// The core that takes the disk's interrupts, so that nobody else helps; the first one if nothing says which.
fn core_of_the_disk(interrupts: &str) -> usize {
    let cores = interrupts.lines().next().map_or(0, |line| line.split_whitespace().count());
    let mut counts = vec![0_u64; cores];
    let is_disk = |line: &&str| {
        let of_virtio = line.contains("virtio") && line.contains("-req");
        of_virtio || ["nvme", "ahci", "blkif", "scsi"].iter().any(|it| line.contains(it))
    };
    for line in interrupts.lines().skip(1).filter(is_disk) {
        let its = line.split_whitespace().skip(1).map_while(|it| it.parse::<u64>().ok());
        counts.iter_mut().zip(its).for_each(|(count, its)| *count += its);
    }
    let most = counts.iter().enumerate().rev().max_by_key(|(_, count)| **count);
    most.map_or(0, |(core, _)| core)
}

fn look(atoll: &Path, folder: &Path, mix: &str) -> Result<Looked> {
    let (log, out) = (folder.join("log"), folder.join("report"));
    let create =
        |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let interrupts = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let core = core_of_the_disk(&interrupts).to_string();
    let mut command = Command::new("taskset");
    command.current_dir(folder).stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&log)?);
    command.args(["-c", &core]).arg(atoll);
    command
        .args("bench tpcc --warehouses 1 --instances 1 --clients 64 --json --data data".split(' '));
    command.args(["--mix", mix, "--warmup", WARM_UP_SECONDS, "--seconds", MEASURED_SECONDS]);
    let mut benchmark = Server::start(command)?;
    let runs = || fs::read_to_string(&log).is_ok_and(|text| text.contains("* running for"));
    benchmark.waits("run TPC-C", PATIENCE, runs)?;
    let mut perf = Command::new("perf");
    perf.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    perf.args(["record", "-q", "-g", "-e", "cpu-clock", "-F", LOOKS, "-o", "looks", "-C", &core]);
    perf.args(["--", "sleep", LOOKED_SECONDS]);
    must(perf).map_err(|error| {
        format!("{error} (looking at a core takes root, or kernel.perf_event_paranoid=-1)")
    })?;
    benchmark.ends(PATIENCE)?;
    let mut script = Command::new("perf");
    script.current_dir(folder).stderr(Stdio::null());
    script.args(["script", "-i", "looks", "-F", "comm,ip,sym,dso"]);
    let told = script.output().map_err(|error| format!("perf script: {error}"))?;
    let report = fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let report: serde_json::Value =
        serde_json::from_str(&report).map_err(|error| format!("the report: {error}"))?;
    let number =
        |name: &str| report[name].as_f64().ok_or_else(|| format!("the report does not say {name}"));
    Ok(Looked {
        looks: looks_of(&String::from_utf8_lossy(&told.stdout)),
        per_second: number("tps")?,
    })
}

/// Looks by part. Of each a line says who ran, and one for each function of the call chain its address, its symbol, and
/// the file that it is in, in brackets; an empty line ends it.
fn looks_of(text: &str) -> Looks {
    let mut looks = Looks::default();
    for look in text.split("\n\n") {
        let function = |line: &'_ str| -> Option<(String, String)> {
            let (_, named) = line.trim().split_once(' ')?;
            let (symbol, file) = named.rsplit_once(" (")?;
            Some((symbol.to_owned(), file.to_owned()))
        };
        // Only functions are indented.
        let lines = look.lines().filter(|line| line.starts_with([' ', '\t']));
        let chain: Vec<(String, String)> = lines.filter_map(function).collect();
        let Some((symbol, file)) = chain.first() else { continue };
        let is_system = |file: &str| file.starts_with("[kernel") || file.starts_with("[guest");
        let part = if is_system(file) {
            let system = chain.iter().take_while(|(_, file)| is_system(file));
            system_part(&system.map(|(symbol, _)| symbol.as_str()).collect::<Vec<_>>())
        } else if file.contains("libc.so") || file.contains("[vdso]") {
            Some(Part::Library)
        } else {
            Some(part_of("", symbol))
        };
        match part {
            None => looks.idle += 1,
            Some(part) => *looks.parts.entry(part).or_default() += 1,
        }
    }
    looks
}

fn print(mix: &str, looked: &Looked) -> Result<()> {
    let Looks { parts, idle } = &looked.looks;
    let busy: u64 = parts.values().sum();
    if busy < LOOKS_MIN {
        return Err(format!("perf has seen the core busy {busy} times only: is it idle?"));
    }
    let busy_share = busy as f64 / (busy + idle) as f64;
    let us = busy_share * 1e6 / looked.per_second;
    println!(
        "\n{mix}: {us:.1} us a transaction, {:.0} a second, the core busy for {:.0} % ({busy} looks)",
        looked.per_second,
        busy_share * 100.0
    );
    let line = |looks: u64, name: &str| {
        let share = looks as f64 / busy as f64;
        println!("  {:>6.2} us  {:>5.1} %  {name}", share * us, share * 100.0);
    };
    let mut sorted: Vec<(Part, u64)> = parts.iter().map(|(part, its)| (*part, *its)).collect();
    sorted.sort_by_key(|(_, looks)| std::cmp::Reverse(*looks));
    for (part, looks) in &sorted {
        line(*looks, part.name());
    }
    println!("  as PhoebeDB's evaluation has it:");
    let mut groups: BTreeMap<Group, u64> = BTreeMap::new();
    for (part, looks) in sorted {
        *groups.entry(part.group()).or_default() += looks;
    }
    for (group, looks) in groups {
        line(looks, group.name());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_go_to_the_part_of_their_symbol_or_call_chain() {
        let text = "\
atoll-0
	    55d1c0a0 atoll_kernel::tree::index::change::<impl atoll_kernel::tree::index::IndexTree>::insert (/x/atoll)
	    55d1c0a8 atoll_bench::tpcc::native::new_order::new_order (/x/atoll)

atoll-0
	7fc10df370e1 __memmove_avx_unaligned_erms (/usr/lib/x86_64-linux-gnu/libc.so.6)

atoll-0
	ffffffff815e1640 iowrite16 ([kernel.kallsyms])
	ffffffff815e1641 virtqueue_notify ([kernel.kallsyms])
	ffffffff815e1642 do_syscall_64 ([kernel.kallsyms])
	7fc10df370e1 syscall (/usr/lib/x86_64-linux-gnu/libc.so.6)

swapper
	ffffffff815e1640 pv_native_safe_halt ([kernel.kallsyms])

atoll-0
	    55d1c0a4 atoll_kernel::version::twin::Table::find (/x/atoll)

perf
	           7f00 [unknown] ([unknown])
";
        let expected = [
            (Part::Index, 1),
            (Part::Library, 1),
            (Part::Flush, 1),
            (Part::Versions, 1),
            (Part::Other, 1),
        ];
        assert_eq!(looks_of(text), Looks { parts: BTreeMap::from(expected), idle: 1 });
    }

    #[test]
    fn the_disks_core_is_where_most_of_its_interrupts_went() {
        let text = "            CPU0       CPU1
 35:          0          1 PCI-MSIX-0000:00:02.0   0-edge      virtio1-config
 36:          7   17879608 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 41:       3491   99999999 PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx
LOC:   99999999          3 Local timer interrupts
";
        assert_eq!(core_of_the_disk(text), 1);
        assert_eq!(core_of_the_disk("            CPU0       CPU1\n"), 0);
        assert_eq!(core_of_the_disk(""), 0);
    }
}
