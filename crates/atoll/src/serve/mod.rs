//! `atoll serve`: the server in the foreground.
//!
//! Invariants: prints one line on standard output when it accepts connections, and nothing else
//! there; what goes wrong is on standard error. SIGTERM and SIGINT end it cleanly; a second one
//! ends it at once, which loses nothing that was acknowledged. Unless told otherwise it runs as the
//! child of a supervising parent, which starts it again after a crash.

mod bench;
mod checkpoints;

use std::path::PathBuf;

use atoll_kernel::api::Database;
use atoll_server::config::Config;
use atoll_server::listen::Listeners;
use atoll_server::{ServerError, SqlBackend, serve};
use atoll_sql::session::Engine;
use clap::Args;

use crate::supervise;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Serve a data directory to PostgreSQL's clients. Settings come from these flags, then from
/// ATOLL_* variables, then from atoll.toml in the data directory.
#[derive(Args, Debug)]
#[command(args_override_self = true)]
pub struct Arguments {
    /// The data directory; created on first start.
    #[arg(long, value_name = "DIR", env = "ATOLL_DATA")]
    data: PathBuf,
    /// Loopback addresses to listen on, separated by commas; port 0 picks a free one; "none" for
    /// no address [default: 127.0.0.1:5432]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Folder (made with mode 0700) of the unix socket [default: no socket]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<String>,
    /// Instances; auto is one per core [default: auto]
    #[arg(long, value_name = "auto|N")]
    instances: Option<String>,
    /// Memory for pages, as 512MB or 4GB; a hard limit [default: 1GB]
    #[arg(long, value_name = "SIZE")]
    buffer_pool: Option<String>,
    /// When the system is asked for that memory: all of it at the start (on), shortly before it is used (ahead), or
    /// when it is used (off) [default: ahead]
    #[arg(long, value_name = "on|ahead|off")]
    prefault: Option<String>,
    /// Memory for before-images of changed rows [default: 1GB]
    #[arg(long, value_name = "SIZE")]
    undo_memory: Option<String>,
    /// Size of a log segment file, when it is made [default: 32MB]
    #[arg(long, value_name = "SIZE")]
    log_segment: Option<String>,
    /// Time from a checkpoint to the next, as 60s or 5min; 0: never for that reason [default: 60s]
    #[arg(long, value_name = "TIME")]
    checkpoint_interval: Option<String>,
    /// Growth of the logs, as 1GB, after which a checkpoint is made; 0: never for that reason
    /// [default: 1GB]
    #[arg(long, value_name = "SIZE")]
    checkpoint_wal: Option<String>,
    /// Size of pages that may be kept only for checkpoints that are read or copied, as 10GB; above, the
    /// oldest such checkpoint is given up; 0: as much as the data takes, at least 1GB [default: 0]
    #[arg(long, value_name = "SIZE")]
    checkpoint_pin_limit: Option<String>,
    /// Absolute directory where logs are copied before they are used again, for restores to any time
    /// [default: none]
    #[arg(long, value_name = "DIR")]
    archive_directory: Option<String>,
    /// The clock that orders commits [default: auto]
    #[arg(long, value_name = "auto|tsc|counter")]
    clock: Option<String>,
    /// How files and sockets are reached [default: auto]
    #[arg(long, value_name = "auto|uring|threads")]
    io: Option<String>,
    /// Whether instances are bound to processors [default: auto]
    #[arg(long, value_name = "auto|off")]
    pin: Option<String>,
    /// Milliseconds after which a waiter looks for a deadlock [default: 100]
    #[arg(long, value_name = "MS")]
    deadlock_timeout_ms: Option<String>,
    /// Sessions of one instance at most [default: 10000]
    #[arg(long, value_name = "N")]
    sessions_max: Option<String>,
    /// Whether sessions of two instances change places where that makes messages come together; always: without end,
    /// also where it does not (to test) [default: on]
    #[arg(long, value_name = "on|off|always")]
    exchange_sessions: Option<String>,
    /// Transactions that one instance runs at once at most; those that begin above it wait their turn,
    /// first come first served [default: 128]
    #[arg(long, value_name = "N")]
    admission_max: Option<String>,
    /// Milliseconds in which a client must have started its session [default: 60000]
    #[arg(long, value_name = "MS")]
    authentication_timeout_ms: Option<String>,
    /// Whether a parent process starts the server again after a crash
    #[arg(long, value_name = "on|off", env = "ATOLL_SUPERVISE", default_value = "on")]
    supervise: Supervise,
    // The parent's process id; set by the parent alone.
    #[arg(long, hide = true)]
    supervised_by: Option<u32>,
    #[command(flatten)]
    bench: bench::Arguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Supervise {
    On,
    Off,
}

/// What the ready line begins with.
pub const READY: &str = "atoll: ready to accept connections on ";

impl Arguments {
    fn flags(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("listen", &self.listen),
            ("socket_dir", &self.socket_dir),
            ("instances", &self.instances),
            ("buffer_pool", &self.buffer_pool),
            ("prefault", &self.prefault),
            ("undo_memory", &self.undo_memory),
            ("log_segment", &self.log_segment),
            ("checkpoint_interval", &self.checkpoint_interval),
            ("checkpoint_wal", &self.checkpoint_wal),
            ("checkpoint_pin_limit", &self.checkpoint_pin_limit),
            ("archive_directory", &self.archive_directory),
            ("clock", &self.clock),
            ("io", &self.io),
            ("pin", &self.pin),
            ("deadlock_timeout_ms", &self.deadlock_timeout_ms),
            ("sessions_max", &self.sessions_max),
            ("exchange_sessions", &self.exchange_sessions),
            ("admission_max", &self.admission_max),
            ("authentication_timeout_ms", &self.authentication_timeout_ms),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// Serves until a signal comes.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match arguments.supervised_by {
        Some(parent) => supervise::follow_parent(parent)?,
        None if arguments.supervise == Supervise::On => {
            return supervise::supervise(&arguments.data);
        }
        None => {}
    }
    serve_until_signal(arguments).map_err(|error| error.to_string())
}

fn serve_until_signal(arguments: &Arguments) -> Result<(), ServerError> {
    let system = |what| move |source| ServerError::System { what, source };
    let variable = |name: &str| std::env::var(name).ok();
    let config = Config::gather(&arguments.data, variable, &arguments.flags())?;
    // Before anything is begun, so that no signal finds the system's own answer to it.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(system("wait for signals"))?;
    std::fs::create_dir_all(&config.data).map_err(system("make the data directory"))?;
    let listeners = Listeners::bind(&config.listen, config.socket_dir.as_deref())?;
    let mut options = config.options;
    options.lock_note = format!("connect to {}", listeners.addresses().join(" or "));
    if let Some(parent) = arguments.supervised_by {
        options.lock_note.push('\n');
        options.lock_note.push_str(&supervise::lock_note(parent));
    }
    let database = Database::open_telling(&config.data, options, &mut |line| {
        eprintln!("atoll: {line}");
    })?;
    checkpoints::tell(&database);
    let engine = Engine::new(&database);
    let addresses = serve::<_, SqlBackend>(database.hub(), listeners, engine, config.sessions)?;
    println!("{READY}{}", addresses.join(", "));
    let bench = bench::Running::start(&arguments.bench, &database);
    signals.forever().next();
    std::thread::spawn(move || {
        signals.forever().next();
        std::process::exit(1);
    });
    if let Some(bench) = bench {
        bench.end();
    }
    database.close()?;
    Ok(())
}
