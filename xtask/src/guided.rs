//! `cargo xtask guided`: the release build, guided by a profile of itself.
//!
//! Three steps: a build that counts where it goes, runs of all benchmarks with it (the kernel's own
//! and over the wire), and the build that puts together what belongs together. What is built is the
//! same program; it lies where the release build does.
//!
//! The benchmarks' own client says values in binary. Most others say them as text, which is other
//! code, and what was never counted is built as what hardly ever runs: hence pgbench, with scripts
//! of `xtask/guided` besides its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::run::{self, Result, must};
use crate::server::Server;

/// How long the server may take to listen, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The benchmarks that are counted, one line of arguments each.
const IN_PROCESS: [&str; 3] = [
    "bench tpcc --warehouses 1 --instances 1 --clients 64 --warmup 1 --seconds 15",
    "bench tpcb --scale 10 --instances 1 --clients 32 --seconds 5",
    "bench insert --instances 1 --seconds 3",
];

/// Those that are counted in the server: TPC-C as statements, short ranges, single rows.
const OVER_THE_WIRE: [&str; 3] = [
    "bench tpcc --warehouses 1 --clients 16 --warmup 1 --seconds 10",
    "bench ycsb --workload e --records 100000 --clients 16 --warmup 1 --seconds 5",
    "bench connections --counts 32 --rounds 1 --warmup 1 --seconds 3",
];

/// What is counted of pgbench: its own transactions, ranges, and TPC-C as text, on the tables of the
/// benchmark over the wire, each script with its weight.
const PGBENCH: [&str; 6] = [
    "--protocol prepared --client 8 --time 4 --builtin tpcb-like",
    "--protocol prepared --client 8 --time 3 --builtin simple-update",
    "--protocol prepared --client 8 --time 3 --builtin select-only",
    "--protocol simple --client 8 --time 3 --builtin simple-update",
    "--protocol prepared --client 8 --time 5 --file ranges.pgbench",
    "--protocol prepared --client 10 --time 15 --file new-order.pgbench@43 \
     --file payment.pgbench@43 --file order-status.pgbench@4 --file delivery.pgbench@20 \
     --file stock-level.pgbench@4",
];

/// Builds `target/release/atoll` guided by a profile. Takes a quarter of an hour.
pub fn guided(root: &Path) -> Result<()> {
    let merge = profile_tool()?;
    let target = run::side_target(root, "guided");
    // Cargo does not see that counts are others than last time: what they guided is built anew.
    let _ = fs::remove_dir_all(target.join(TARGET));
    let runs = target.join("runs");
    let counts = target.join("counts");
    for folder in [&runs, &counts] {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }

    println!("── a build that counts");
    // libpg_query leaves a function undefined that nobody calls; the linker drops its callers from
    // other builds, but not from one that counts.
    let link = ["--", "-Clink-arg=-Wl,--defsym=strlcpy=0"];
    let counting = format!("-Cprofile-generate={}", counts.display());
    let mut build = cargo(root, &target, "rustc", &counting);
    build.args(["--bin", "atoll"]).args(link);
    must(build)?;
    println!("── runs");
    let atoll = built(&target);
    for arguments in IN_PROCESS {
        must(counted(&atoll, &runs, arguments))?;
    }
    over_the_wire(root, &atoll, &runs)?;
    let _ = fs::remove_dir_all(&runs);

    println!("── the build");
    let merged = target.join("counts.profdata");
    let mut command = Command::new(merge);
    command.arg("merge").arg("-o").arg(&merged).arg(&counts);
    must(command)?;
    must(cargo(root, &target, "build", &format!("-Cprofile-use={}", merged.display())))?;
    let release = run::target(root).join("release");
    fs::create_dir_all(&release).map_err(|error| format!("{}: {error}", release.display()))?;
    let to = release.join("atoll");
    fs::copy(built(&target), &to).map_err(|error| format!("{}: {error}", to.display()))?;
    println!("{}", to.display());
    Ok(())
}

/// `cargo SUBCOMMAND` of the release build with compiler flags of its own, for this machine's
/// target by name: so the flags do not reach build scripts.
fn cargo(root: &Path, target: &Path, subcommand: &str, flags: &str) -> Command {
    let arguments = [subcommand, "--release", "--package", "atoll", "--target", TARGET];
    let mut command = run::cargo(root, &arguments);
    command.env("CARGO_TARGET_DIR", target).env("RUSTFLAGS", flags);
    command
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn built(target: &Path) -> PathBuf {
    target.join(TARGET).join("release").join("atoll")
}

/// `atoll ARGUMENTS`, in a folder for what it leaves; what it prints is of no interest.
fn counted(atoll: &Path, folder: &Path, arguments: &str) -> Command {
    println!("{arguments}");
    let mut command = Command::new(atoll);
    command.args(arguments.split(' ')).current_dir(folder).env("TMPDIR", folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Statements against a server: parser, planner, executor and protocol.
fn over_the_wire(root: &Path, atoll: &Path, folder: &Path) -> Result<()> {
    let sockets = folder.join("sockets");
    let serve = "serve --supervise off --listen none --data served --socket-dir sockets";
    let mut server = Server::start(counted(atoll, folder, serve))?;
    let done = server.listens(&sockets, PATIENCE).and_then(|()| {
        let url = format!("host={} user=postgres dbname=postgres", sockets.display());
        OVER_THE_WIRE.iter().try_for_each(|bench| {
            let mut command = counted(atoll, folder, bench);
            command.arg("--url").arg(&url);
            must(command)
        })?;
        as_text(&root.join("xtask").join("guided"), &sockets)
    });
    // Only in order: only then it writes its profile.
    let ended = server.end(PATIENCE);
    done.and(ended)
}

/// The same with values as text, by PostgreSQL's pgbench if it is there.
fn as_text(scripts: &Path, sockets: &Path) -> Result<()> {
    let pgbench = |arguments: &str| {
        println!("pgbench {arguments}");
        let mut command = Command::new("pgbench");
        command.args(arguments.split_whitespace()).current_dir(scripts);
        command.env("PGHOST", sockets).env("PGUSER", "postgres").env("PGDATABASE", "postgres");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    if Command::new("pgbench").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!(
            "pgbench is not there (Debian: postgresql-contrib): what clients say as text is not \
             counted, and will cost a little more"
        );
        return Ok(());
    }
    must(pgbench("--initialize --quiet --scale 5"))?;
    PGBENCH.iter().try_for_each(|run| must(pgbench(&format!("{run} --jobs 2 --no-vacuum"))))
}

/// The compiler's own tool that puts profiles together.
fn profile_tool() -> Result<PathBuf> {
    let mut command = Command::new("rustc");
    command.args(["--print", "sysroot"]);
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let tool = sysroot.join("lib/rustlib").join(TARGET).join("bin/llvm-profdata");
    if tool.exists() {
        return Ok(tool);
    }
    Err("llvm-profdata is missing: `rustup component add llvm-tools`".to_owned())
}
