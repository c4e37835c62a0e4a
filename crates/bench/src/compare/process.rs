//! Programs that a comparison starts: clients that run to their end, servers that are kept.
//!
//! Invariants: only processes started here are signalled, each by its own id, and none outlives
//! its [`Guarded`]. A program runs no longer than its limit, and ends soon after the watch says
//! that the person has asked for an end. What it printed goes to files, so that it never waits for
//! a reader.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::Result;
use crate::cpu;

/// Between two looks at a program that runs.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Asks whether to go on.
pub struct Watch<'a>(&'a dyn Fn() -> Wish);

/// What the person who started a comparison wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// That it goes on.
    GoOn,
    /// That it ends, with no document written.
    End,
}

impl<'a> Watch<'a> {
    /// Asks this.
    pub fn new(ask: &'a dyn Fn() -> Wish) -> Watch<'a> {
        Watch(ask)
    }

    /// An error when it is to end.
    pub fn check(&self) -> Result<()> {
        match (self.0)() {
            Wish::GoOn => Ok(()),
            Wish::End => Err("interrupted: no document was written".to_owned()),
        }
    }
}

/// A process that is killed, with its descendants, and waited for when this goes.
pub struct Guarded {
    child: Child,
}

impl Guarded {
    /// Starts it in a process group of its own: what a terminal sends reaches this program, which
    /// then ends it in order.
    pub fn start(mut command: Command) -> Result<Guarded> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.process_group(0).stdin(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
        Ok(Guarded { child })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal to it and its descendants, parents first.
    pub fn signal_tree(&self, signal: Signal) {
        for pid in cpu::tree(self.id()) {
            send(pid, signal);
        }
    }

    /// Kills it and its descendants at once, and waits until none of them runs any more.
    pub fn kill_tree(&mut self, limit: Duration) -> Result<()> {
        let (all, until) = (cpu::tree(self.id()), Instant::now() + limit);
        for pid in &all {
            send(*pid, Signal::KILL);
        }
        self.child.wait().map_err(|error| format!("waiting for process {}: {error}", self.id()))?;
        // Descendants are waited for by whoever has inherited them.
        while let Some(pid) = all.iter().find(|it| lives(**it)) {
            if Instant::now() >= until {
                return Err(format!("process {pid} did not end when it was killed"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Sends a signal to it alone, and waits for its end; no longer than `limit`.
    pub fn end_by(&mut self, signal: Signal, limit: Duration) {
        if self.ended().is_some() {
            return;
        }
        send(self.id(), signal);
        let until = Instant::now() + limit;
        while self.ended().is_none() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether it has ended; it is not forgotten by that, so that its id stays its own, and /proc still says what it
    /// used.
    fn has_ended(&self) -> Result<bool> {
        let pid = pid_of(self.id()).ok_or("a process without an id")?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(pid), options);
        let status =
            status.map_err(|error| format!("waiting for process {}: {error}", self.id()))?;
        Ok(status.is_some())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal_tree(Signal::KILL);
            // It has been killed: what is left to wait for is short, and its error says nothing.
            let _ = self.child.wait();
        }
    }
}

/// Whether a process runs: zombies, which wait for a parent that is slow, do not.
fn lives(pid: u32) -> bool {
    let stat = read(Path::new(&format!("/proc/{pid}/stat")));
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn pid_of(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

fn send(id: u32, signal: Signal) {
    if let Some(pid) = pid_of(id) {
        // One that has ended meanwhile needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// A program to be started, confined to a processor if one is named (by `taskset`, of util-linux).
pub fn on_core(program: &Path, core: Option<usize>) -> Command {
    let Some(core) = core else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

/// What a program that ran to its end leaves.
pub struct Finished {
    /// What it printed.
    pub stdout: String,
    /// Processor time of it and of its children.
    pub cpu: Duration,
}

/// A program that runs to its end.
pub struct Running {
    what: String,
    process: Guarded,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// Starts it. `what` names it in errors, which are one line, with the last thing it said; `folder` gets its output.
    pub fn start(what: &str, mut command: Command, folder: &Path) -> Result<Running> {
        let (out, err) = (folder.join("client.out"), folder.join("client.err"));
        command.stdout(create(&out)?).stderr(create(&err)?).env("LC_ALL", "C");
        let process = Guarded::start(command).map_err(|error| format!("{what}: {error}"))?;
        Ok(Running { what: what.to_owned(), process, out, err })
    }

    /// Stops it and its descendants where they are.
    pub fn pause(&self) {
        self.process.signal_tree(Signal::STOP);
    }

    /// Lets them go on.
    pub fn resume(&self) {
        self.process.signal_tree(Signal::CONT);
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> Result<bool> {
        self.process.has_ended()
    }

    /// What it leaves, once it has ended.
    pub fn finish(mut self) -> Result<Finished> {
        let cpu = cpu::of_process(self.process.id()).unwrap_or_default();
        let status =
            self.process.child.wait().map_err(|error| format!("{}: {error}", self.what))?;
        Ok(Finished { stdout: printed(&self.what, status, &self.out, &self.err)?, cpu })
    }
}

/// Runs a program to its end, as [`Running::start`] does, no longer than `limit`.
pub fn run(
    what: &str,
    command: Command,
    folder: &Path,
    limit: Duration,
    watch: &Watch<'_>,
) -> Result<Finished> {
    let (running, until) = (Running::start(what, command, folder)?, Instant::now() + limit);
    while !running.has_ended()? {
        watch.check()?;
        if Instant::now() >= until {
            return Err(format!("{what} did not end within {} s", limit.as_secs()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    running.finish()
}

/// What a program that has ended printed to `out`; if it failed, an error with the last thing it said.
fn printed(what: &str, status: ExitStatus, out: &Path, err: &Path) -> Result<String> {
    let stdout = read(out);
    if !status.success() {
        let said = last_words(&read(err)).or_else(|| last_words(&stdout));
        return Err(format!("{what} failed: {}", said.unwrap_or_else(|| status.to_string())));
    }
    Ok(stdout)
}

/// A file for what a program says.
pub fn create(path: &PathBuf) -> Result<File> {
    File::create(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What is in a file, as far as it is text; nothing if it is not there.
pub fn read(path: &Path) -> String {
    std::fs::read(path)
        .map_or_else(|_| String::new(), |it| String::from_utf8_lossy(&it).into_owned())
}

/// The line of an output that says what went wrong: the first that names an error, or the last.
pub fn last_words(text: &str) -> Option<String> {
    let marks = ["FATAL", "PANIC", "ERROR", "error:", "error ("];
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines().find(|line| marks.iter().any(|mark| line.contains(mark)));
    telling.or_else(|| lines().next_back()).map(str::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// It may run there alone: /proc says so.
    #[test]
    fn a_program_keeps_to_the_processor_that_is_named() {
        let status = |core| {
            let mut command = on_core(Path::new("grep"), core);
            let output = command.args(["Cpus_allowed_list", "/proc/self/status"]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let own = status(None);
        let first = own.split_ascii_whitespace().nth(1).unwrap();
        let first = first.split(['-', ',']).next().unwrap();
        let confined = status(Some(first.parse().unwrap()));
        assert_eq!(confined.split_ascii_whitespace().nth(1), Some(first), "{own}");
    }

    fn tried(script: &str, limit: Duration, wish: &dyn Fn() -> Wish) -> Result<Finished> {
        let folder = tempfile::tempdir().unwrap();
        run("the client", shell(script), folder.path(), limit, &Watch::new(wish))
    }

    #[test]
    fn a_program_tells_what_it_said_and_used() {
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done";
        let finished = tried(script, LONG, &|| Wish::GoOn).unwrap();
        assert_eq!(finished.stdout, "done\n");
        assert!(finished.cpu >= Duration::from_millis(20), "{:?}", finished.cpu);
    }

    #[test]
    fn what_goes_wrong_is_one_line() {
        let go_on = || Wish::GoOn;
        let failed = |script, limit| tried(script, limit, &go_on).err().unwrap();
        let script = "echo fine; echo 'x: error: no room' >&2; echo bye >&2; exit 3";
        assert_eq!(failed(script, LONG), "the client failed: x: error: no room");
        assert_eq!(failed("exit 3", LONG), "the client failed: exit status: 3");
        let began = Instant::now();
        let short = Duration::from_millis(200);
        assert!(failed("sleep 100 & wait", short).contains("did not end within 0 s"));
        assert!(tried("sleep 100", LONG, &|| Wish::End).err().unwrap().contains("interrupted"));
        assert!(began.elapsed() < Duration::from_secs(20));
        let nothing = run(
            "the client",
            Command::new("/nonexistent/program"),
            tempfile::tempdir().unwrap().path(),
            LONG,
            &Watch::new(&go_on),
        );
        assert!(nothing.err().unwrap().contains("cannot start /nonexistent/program"));
    }

    #[test]
    fn what_is_paused_takes_no_time_until_it_goes_on() {
        let guarded = Guarded::start(shell("(while :; do :; done) & wait")).unwrap();
        let used = || cpu::of_tree(guarded.id()).unwrap();
        let until = Instant::now() + LONG;
        let reaches = |time: Duration| {
            while used() < time && Instant::now() < until {
                std::thread::sleep(LOOK_EVERY);
            }
            used() >= time
        };
        assert!(reaches(Duration::from_millis(50)));
        guarded.signal_tree(Signal::STOP);
        std::thread::sleep(LOOK_EVERY);
        let paused_at = used();
        std::thread::sleep(Duration::from_millis(300));
        assert!(used() <= paused_at + Duration::from_millis(10), "{:?} {paused_at:?}", used());
        guarded.signal_tree(Signal::CONT);
        assert!(reaches(paused_at + Duration::from_millis(50)));
    }

    #[test]
    fn a_killed_tree_is_gone() {
        let mut guarded = Guarded::start(shell("sleep 100 & sleep 100 & wait")).unwrap();
        let until = Instant::now() + LONG;
        while cpu::tree(guarded.id()).len() < 3 && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        let all = cpu::tree(guarded.id());
        assert_eq!(all.len(), 3);
        guarded.kill_tree(LONG).unwrap();
        assert!(!all.iter().any(|pid| lives(*pid)));
        assert!(guarded.ended().is_some_and(|it| !it.success()));
    }

    #[test]
    fn nothing_outlives_its_guard() {
        let guarded = Guarded::start(shell("sleep 100 & wait")).unwrap();
        let until = Instant::now() + LONG;
        while cpu::tree(guarded.id()).len() < 2 && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        let all = cpu::tree(guarded.id());
        assert_eq!(all.len(), 2);
        // Also one that was paused.
        guarded.signal_tree(Signal::STOP);
        drop(guarded);
        while all.iter().any(|pid| lives(*pid)) && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        assert!(!all.iter().any(|pid| lives(*pid)));
    }
}
