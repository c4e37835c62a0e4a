//! `atoll backup DIR`: a copy of a running database, made by its server; or of one that nobody runs.
//!
//! Invariants: the server makes the copy, so DIR is a directory of its machine; SIGINT cancels it,
//! and what was copied is removed.

use std::path::{Path, PathBuf};

use atoll_kernel::api::{BackupReport, Database, Options, UnarchivedLogs};
use postgres::{Config, NoTls};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use crate::supervise;

/// What `atoll backup` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The directory to be made, on the server's machine; it is empty or not there.
    directory: PathBuf,
    /// Where the server is, as libpq's connection strings or URLs say it.
    #[arg(
        long,
        default_value = "host=127.0.0.1 port=5432 user=postgres dbname=postgres",
        conflicts_with = "data_dir"
    )]
    url: String,
    /// A data directory that nobody has open; it is recovered first.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Makes the backup and says what it is.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let directory = std::path::absolute(&arguments.directory)
        .map_err(|error| format!("{}: {error}", arguments.directory.display()))?;
    match &arguments.data_dir {
        Some(data) => of_directory(data, &directory),
        None => of_server(&arguments.url, &directory),
    }
}

fn of_server(url: &str, directory: &Path) -> Result<(), String> {
    let mut config: Config = url.parse().map_err(|error| format!("{url}: {error}"))?;
    config.notice_callback(|notice| eprintln!("atoll: {}", notice.message()));
    if config.get_application_name().is_none() {
        config.application_name("atoll backup");
    }
    let message = |error: postgres::Error| atoll_bench::wire::message(&error);
    let mut client = config.connect(NoTls).map_err(|error| {
        format!("cannot connect: {}; is the server running? (--url)", message(error))
    })?;
    let mut signals = Signals::new([SIGINT]).map_err(|error| error.to_string())?;
    let cancel = client.cancel_token();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            // If it does not arrive, the next may.
            let _ = cancel.cancel_query(NoTls);
        }
    });
    let text = directory.to_str().ok_or("the directory's name is not UTF-8")?.replace('\'', "''");
    let call = format!("call atoll_backup('{text}')");
    let row = client.query_one(&call, &[]).map_err(message)?;
    let number = |at: usize| row.get::<_, i64>(at).cast_unsigned();
    say(directory, (number(0), number(1)), (number(2), number(3)), row.get::<_, f64>(4) / 1e3);
    Ok(())
}

fn of_directory(data: &Path, directory: &Path) -> Result<(), String> {
    if !data.is_dir() {
        return Err(format!("{} is not a directory", data.display()));
    }
    supervise::wait_for_an_orphan(data);
    let named = |error: atoll_kernel::api::Error| format!("{}: {error}", data.display());
    // Whoever serves it may archive them.
    let options = Options { unarchived_logs: UnarchivedLogs::Keep, ..Options::default() };
    let database = Database::open_telling(data, options, &mut |line| eprintln!("atoll: {line}"));
    let database = database.map_err(named)?;
    let made = database.backup(directory, &mut |_, _| Ok(()));
    database.close().map_err(named)?;
    let BackupReport { checkpoint, below, pages, page_bytes, log_bytes, elapsed_ns } =
        made.map_err(named)?;
    let known = (checkpoint, below.0.saturating_sub(1));
    say(directory, known, (pages, page_bytes + log_bytes), elapsed_ns as f64 / 1e9);
    Ok(())
}

fn say(directory: &Path, (checkpoint, cts): (u64, u64), (pages, bytes): (u64, u64), seconds: f64) {
    println!(
        "{}: checkpoint {checkpoint} and the logs behind it, up to cts {cts}: {pages} pages, {:.1} \
         MB in {seconds:.2} s",
        directory.display(),
        bytes as f64 / 1e6
    );
}
