//! The parent of a serving process: starts it, passes signals on, and starts it again after a
//! crash (rules 2.8, 3.1, 7.8).
//!
//! Invariants: the parent opens no database and no socket, so nothing that fells the server fells
//! it too. It ends when the server ends cleanly, refuses to start, or was asked to stop. A server
//! whose parent is killed is killed with it, so that one SIGKILL is a whole crash and nothing
//! keeps the directory. A crash is told on standard error with its cause; the pause before the
//! next start doubles while crashes follow each other. Addresses that were found at the first
//! start (port 0) stay the same at every later one.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atoll_kernel::api::EXIT_CLOCK_RAN_BACK;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The flag, hidden from users, by which a server knows its parent.
pub const CHILD_FLAG: &str = "--supervised-by";
/// The pause before the first start after a crash, and the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A server that ran so long starts the count of crashes again.
const GOOD_RUN: Duration = Duration::from_secs(60);
/// Crashes in a row before the server was ready even once, after which the parent gives up.
const CRASHES_BEFORE_READY_MAX: u32 = 5;
/// How long a server whose parent was killed may take to be gone.
const DYING_MAX: Duration = Duration::from_secs(10);

/// Runs this very program's `serve` as a child until it need not run any more.
pub fn supervise(data: &Path) -> Result<(), String> {
    wait_for_an_orphan(data);
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGCHLD])
        .map_err(|error| format!("cannot wait for signals: {error}"))?;
    let mut history = History::default();
    loop {
        let mut server = Server::start(&history)?;
        let ended = server.watch(&mut signals)?;
        match history.judge(&server, ended) {
            Verdict::Ended => return Ok(()),
            Verdict::Failed(code) => std::process::exit(code),
            Verdict::GivenUp(why) => return Err(why),
            Verdict::Again { pause, why } => {
                eprintln!("atoll: {why}; starting it again in {:.1} s", pause.as_secs_f64());
                if !sleep_unless_stopped(&mut signals, pause) {
                    return Ok(());
                }
            }
        }
    }
}

/// Makes this process end with its parent, or says that the parent is gone already.
pub fn follow_parent(parent: u32) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("cannot follow process {parent}: {error}"))?;
    let is_parent = rustix::process::getppid()
        .is_some_and(|id| id.as_raw_nonzero().get().cast_unsigned() == parent);
    if is_parent { Ok(()) } else { Err(format!("process {parent} has ended")) }
}

/// What the lock file says of a supervised server, and how it is found there again.
pub fn lock_note(parent: u32) -> String {
    format!("{NOTE}{parent}")
}

const NOTE: &str = "supervised by process ";

/// A server whose parent was killed is about to end: waits for that, so that whoever opens the
/// directory right after a SIGKILL finds it free.
pub fn wait_for_an_orphan(data: &Path) {
    let path = data.join(atoll_kernel::io::LOCK_NAME);
    let start = Instant::now();
    while start.elapsed() < DYING_MAX {
        let Ok(file) = File::open(&path) else { return };
        if !matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)) {
            return;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let parent = text.lines().find_map(|line| line.strip_prefix(NOTE)?.parse::<u32>().ok());
        if parent.is_none_or(|parent| Path::new(&format!("/proc/{parent}")).exists()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What is known from earlier lives of the server.
#[derive(Default)]
struct History {
    addresses: Option<String>,
    clock_ran_back: bool,
    crashes: u32,
    crashes_before_ready: u32,
}

/// What follows from a server's end.
enum Verdict {
    Ended,
    Failed(i32),
    GivenUp(String),
    Again { pause: Duration, why: String },
}

impl History {
    fn judge(&mut self, server: &Server, status: ExitStatus) -> Verdict {
        if status.success() {
            return Verdict::Ended;
        }
        let ready = server.addresses();
        let was_ready = ready.is_some();
        let refused = status.code() == Some(1);
        if server.stop_asked || (refused && !was_ready) {
            return Verdict::Failed(status.code().unwrap_or(1));
        }
        self.addresses = ready.or(self.addresses.take());
        self.clock_ran_back |= status.code() == Some(EXIT_CLOCK_RAN_BACK);
        let ran = server.started.elapsed();
        if ran >= GOOD_RUN {
            self.crashes = 0;
        }
        self.crashes += 1;
        self.crashes_before_ready = if was_ready { 0 } else { self.crashes_before_ready + 1 };
        let id = server.child.id();
        let cause = cause(status);
        let why = format!("the server (process {id}) {cause} after {:.1} s", ran.as_secs_f64());
        if self.crashes_before_ready >= CRASHES_BEFORE_READY_MAX {
            let times = self.crashes_before_ready;
            return Verdict::GivenUp(format!(
                "{why}, for the {times}th time before it was ready; giving up"
            ));
        }
        let doublings = (self.crashes - 1).min(16);
        let pause = (PAUSE_MIN * 2_u32.pow(doublings)).min(PAUSE_MAX);
        Verdict::Again { pause, why }
    }
}

fn cause(status: ExitStatus) -> String {
    if let Some(signal) = status.signal() {
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
        return format!("was ended by signal {signal} ({name})");
    }
    match status.code() {
        Some(EXIT_CLOCK_RAN_BACK) => "found that the processors' clocks disagree, goes on with \
                                      the shared counter, and ended"
            .to_owned(),
        Some(101) => "panicked".to_owned(),
        Some(code) => format!("ended with code {code}"),
        None => "ended".to_owned(),
    }
}

/// One life of the server.
struct Server {
    child: Child,
    started: Instant,
    stop_asked: bool,
    addresses: Arc<Mutex<Option<String>>>,
}

impl Server {
    fn start(history: &History) -> Result<Server, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1));
        if let Some(addresses) = &history.addresses {
            command.args(["--listen", addresses]);
        }
        if history.clock_ran_back {
            command.args(["--clock", "counter"]);
        }
        command.args([CHILD_FLAG, &std::process::id().to_string()]);
        // A group of its own: a terminal's Ctrl-C comes here only, and is passed on once.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child =
            command.spawn().map_err(|error| format!("cannot start the server: {error}"))?;
        let output = child.stdout.take().expect("the output is piped");
        let addresses = Arc::new(Mutex::new(None));
        let found = addresses.clone();
        std::thread::spawn(move || pass_on(output, &found));
        Ok(Server { child, started: Instant::now(), stop_asked: false, addresses })
    }

    /// Passes signals on until the child has ended.
    fn watch(&mut self, signals: &mut Signals) -> Result<ExitStatus, String> {
        loop {
            let ended = self.child.try_wait();
            if let Some(status) = ended.map_err(|error| error.to_string())? {
                return Ok(status);
            }
            for signal in signals.wait() {
                if signal != SIGCHLD {
                    self.stop_asked = true;
                    let id = Pid::from_child(&self.child);
                    // It may have ended meanwhile; the next look finds that.
                    let _ = rustix::process::kill_process(id, Signal::TERM);
                }
            }
        }
    }

    /// TCP addresses it was ready on, or none if it was not ready.
    fn addresses(&self) -> Option<String> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Passes the child's standard output on, and notes the addresses of its ready line.
fn pass_on(output: ChildStdout, addresses: &Mutex<Option<String>>) {
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { return };
        if let Some(listed) = line.strip_prefix(super::serve::READY) {
            let tcp: Vec<&str> =
                listed.split(", ").filter(|address| !address.starts_with('/')).collect();
            let tcp = if tcp.is_empty() { "none".to_owned() } else { tcp.join(",") };
            *addresses.lock().unwrap_or_else(PoisonError::into_inner) = Some(tcp);
        }
        println!("{line}");
    }
}

/// Whether nobody asked to stop meanwhile.
fn sleep_unless_stopped(signals: &mut Signals, pause: Duration) -> bool {
    let end = Instant::now() + pause;
    while Instant::now() < end {
        if signals.pending().any(|signal| signal != SIGCHLD) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20).min(pause));
    }
    true
}
