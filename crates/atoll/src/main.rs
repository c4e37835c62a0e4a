//! The `atoll` program: one command line over the server, the checker, the simulator and the
//! benchmarks. Only this crate's main and the server's configuration read flags and environment.

mod backup;
mod bench;
mod check;
mod crash_images;
mod demo;
mod restore;
mod serve;
mod sim;
mod supervise;
mod usage;

use std::process::ExitCode;

use atoll_kernel::sync::Reusing;
use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Reusing = Reusing::new(&MiMalloc);

/// Atoll: a relational database for many-core machines that speaks PostgreSQL's language.
#[derive(Parser, Debug)]
#[command(name = "atoll", version, about, propagate_version = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Copy a running database, consistently, to a directory of the server's.
    Backup(backup::Arguments),
    /// Run a benchmark and print its figures.
    Bench(Box<bench::Arguments>),
    /// Verify a data directory offline.
    Check(check::Arguments),
    /// Record a database under load and judge what power cuts would have left of it.
    CrashImages(crash_images::Arguments),
    /// Load, crash, recover and check, through the server's own SQL.
    Demo(demo::Arguments),
    /// Make a data directory from a backup and archived logs, up to any time between.
    Restore(restore::Arguments),
    /// Simulate many instances, crashes and recoveries, and judge every read and commit.
    Sim(sim::Arguments),
    /// Serve a data directory.
    Serve(Box<serve::Arguments>),
}

/// Every session is an open file, and every segment of the logs that a start, a check or a restore reads: as many as the
/// system lets this process have.
fn raise_file_limit() {
    let mut limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limits.current = limits.maximum;
    // If it may not, fewer sessions fit, and accepting pauses until one ends; who reads logs says which file it could not open.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limits);
}

fn main() -> ExitCode {
    let program: Program = match usage::parse() {
        Ok(program) => program,
        Err(ended) => return ended,
    };
    raise_file_limit();
    let result = match program.command {
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::CrashImages(arguments) => crash_images::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("atoll: {message}");
            ExitCode::FAILURE
        }
    }
}
