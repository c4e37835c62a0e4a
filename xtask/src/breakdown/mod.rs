//! `cargo xtask breakdown`: of what the instructions of a TPC-C transaction are.
//!
//! The release build runs TPC-C inside a server under callgrind, which counts the instructions
//! between the entry of a transaction's procedure and its end; the commit is behind it, so it is not
//! among them. Each is put down to the part of Atoll whose source line it came from, as
//! PhoebeDB's evaluation breaks its transactions down (docs/where-the-time-goes.md). Instructions
//! do not depend on what else the machine does; they say nothing of waiting for memory. `--time` asks the
//! clock instead (`clock`).

mod clock;
mod parts;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use self::parts::{Count, Part};
use crate::run::{self, Result, cargo, must};
use crate::server::Server;

/// The procedures that can be counted.
const TRANSACTIONS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];
/// Callgrind is some fifty times slower.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long it is counted.
const COUNTED: Duration = Duration::from_secs(15);
/// Fewer transactions than that tell little of the mix.
const CALLS_MIN: u64 = 30;

/// `cargo xtask breakdown [TRANSACTION...]`: New-Order and Payment by default. Some two minutes each.
pub fn breakdown(root: &Path, rest: &[String]) -> Result<()> {
    if let [flag, mixes @ ..] = rest
        && flag == "--time"
    {
        return clock::clock(root, mixes);
    }
    let chosen: Vec<&str> = match rest {
        [] => vec!["new_order", "payment"],
        some => some.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = chosen.iter().find(|it| !TRANSACTIONS.contains(it)) {
        return Err(format!("no transaction is called \"{unknown}\"; {}", TRANSACTIONS.join(", ")));
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.arg("--version").stdout(Stdio::null());
    must(valgrind).map_err(|_| "valgrind is missing: `apt-get install valgrind`".to_owned())?;
    must(cargo(root, &["build", "--release", "--package", "atoll"]))?;
    let atoll = run::target(root).join("release").join("atoll");
    let folder = run::side_target(root, "breakdown");
    for transaction in chosen {
        let _ = fs::remove_dir_all(&folder);
        let private = folder.join("sockets");
        let made = fs::create_dir_all(&private);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        owner_only(&private)?;
        let count = count(&atoll, &folder, transaction)?;
        if count.calls < CALLS_MIN {
            return Err(format!("only {} {transaction} were counted: try again", count.calls));
        }
        print(transaction, &count);
    }
    let _ = fs::remove_dir_all(&folder);
    Ok(())
}

/// Sockets lie in a folder that nobody else may enter.
fn owner_only(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(folder, mode).map_err(|error| format!("{}: {error}", folder.display()))
}

fn count(atoll: &Path, folder: &Path, transaction: &str) -> Result<Count> {
    let (log, out) = (folder.join("log"), folder.join("counts"));
    let text = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let mut command = Command::new("valgrind");
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(text);
    command.args(["--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=counts"]);
    command.arg(format!("--toggle-collect=*tpcc*native*::{transaction}")).arg(atoll);
    let serve = "serve --supervise off --io threads --clock counter --pin off --instances 1 \
                 --bench tpcc --bench-clients 2 --data data --listen none --socket-dir sockets";
    command.args(serve.split_whitespace());
    let mut server = Server::start(command)?;
    // Once a second the benchmark says how far it is.
    let runs = || fs::read_to_string(&log).is_ok_and(|text| text.contains("transactions a second"));
    server.waits("run TPC-C", PATIENCE, runs)?;
    instrument(&server, "on")?;
    std::thread::sleep(COUNTED);
    instrument(&server, "off")?;
    server.end(PATIENCE)?;
    let counts = fs::read(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    Ok(parts::count(&String::from_utf8_lossy(&counts), transaction))
}

fn instrument(server: &Server, how: &str) -> Result<()> {
    let mut command = Command::new("callgrind_control");
    command.args(["-i", how]).arg(server.id().to_string()).stdout(Stdio::null());
    must(command)
}

fn print(transaction: &str, count: &Count) {
    let all: u64 = count.parts.values().sum();
    let each = |instructions: u64| instructions / count.calls;
    println!("\n{transaction}: {} instructions ({} counted)", each(all), count.calls);
    let mut parts: Vec<(Part, u64)> = count.parts.iter().map(|(part, sum)| (*part, *sum)).collect();
    parts.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    for (part, sum) in parts {
        let percent = sum as f64 * 100.0 / all as f64;
        println!("  {:>8}  {percent:>5.1} %  {}", each(sum), part.name());
    }
}
