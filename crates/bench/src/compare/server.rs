//! A server of the comparison: made in a directory of its own, started, paused while others are
//! measured, ended by its own process id.
//!
//! Invariants: `start` answers when the server takes connections, or with one line that holds what
//! the server said last. A paused server takes no processor time: what it does in the background
//! (vacuum, checkpoints) it does in its own turns. Its directory goes with it.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::contender::Contender;
use super::engine::{Account, Door, Room, Tuning};
use super::process::{self, Guarded, Watch};
use super::{Result, cpu};
use crate::wire;

/// How long a server may take to make its directory, and to be ready.
const READY_LIMIT: Duration = Duration::from_secs(120);
/// How long it may take to end when it is asked to, before it is killed.
const END_LIMIT: Duration = Duration::from_secs(20);
/// Between two questions whether it is ready.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How long a socket may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A folder that goes with its owner.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one; its parent must be there.
    pub fn new(path: PathBuf) -> Result<Folder> {
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // A server under another account passes through it.
        let all_may_enter = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, all_may_enter)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left; it hides nothing.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server.
pub struct Server {
    /// Whose it is.
    pub contender: Rc<Contender>,
    /// Where clients find it.
    pub door: Door,
    process: Guarded,
    // After the process, which must have ended before its folder goes.
    room: (Room, Folder),
}

impl Server {
    /// Makes a new directory `folder`, starts the server on it, and waits until it is ready.
    pub fn start(
        contender: &Rc<Contender>,
        folder: PathBuf,
        tuning: &Tuning,
        watch: &Watch<'_>,
    ) -> Result<Server> {
        let (engine, name) = (&contender.engine, &contender.version);
        let (room, folder) = Server::lodging(contender, folder)?;
        let account = engine.account()?;
        if let Some(mut command) = engine.prepare(&room) {
            own(&room.data(), account)?;
            run_as(&mut command, account, &room);
            let what = format!("{name}: making its directory");
            process::run(&what, command, folder.path(), READY_LIMIT, watch)?;
        }
        let mut server = Server::spawn(contender, (room, folder), tuning)?;
        server.wait_until_ready(watch)?;
        Ok(server)
    }

    /// A new directory for a server, without data.
    pub fn lodging(contender: &Contender, folder: PathBuf) -> Result<(Room, Folder)> {
        let folder = Folder::new(folder)?;
        let room = Room(folder.path().to_owned());
        // Sockets get a folder that the server owns. Data too, where it is made beforehand: Atoll
        // makes its own.
        own(&room.sockets(), contender.engine.account()?)?;
        Ok((room, folder))
    }

    /// Starts the server on the data that is there, and does not wait for it.
    pub fn spawn(
        contender: &Rc<Contender>,
        (room, folder): (Room, Folder),
        tuning: &Tuning,
    ) -> Result<Server> {
        let (engine, name) = (&contender.engine, &contender.version);
        let mut command = engine.serve(&room, tuning);
        run_as(&mut command, engine.account()?, &room);
        let log = process::create(&room.log())?;
        let again = log.try_clone().map_err(|error| error.to_string())?;
        command.stdout(log).stderr(again);
        let process = Guarded::start(command).map_err(|error| format!("{name}: {error}"))?;
        let (contender, door) = (Rc::clone(contender), engine.door(&room));
        Ok(Server { contender, door, process, room: (room, folder) })
    }

    fn wait_until_ready(&mut self, watch: &Watch<'_>) -> Result<()> {
        let (name, until) = (self.contender.version.clone(), Instant::now() + READY_LIMIT);
        loop {
            self.check_starting()?;
            let said = || process::last_words(&process::read(&self.room.0.log()));
            match knock(&self.door) {
                Ok(()) => return Ok(()),
                Err(told) if Instant::now() >= until => {
                    let said = said().unwrap_or(told);
                    let limit = READY_LIMIT.as_secs();
                    return Err(format!("{name} was not ready after {limit} s: {said}"));
                }
                Err(_) => {}
            }
            watch.check()?;
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// An error with what it said last, if it has ended before it was ready.
    pub fn check_starting(&mut self) -> Result<()> {
        let Some(status) = self.process.ended() else { return Ok(()) };
        let said = process::last_words(&self.said()).unwrap_or_else(|| status.to_string());
        Err(format!("{} did not start: {said}", self.contender.version))
    }

    /// What it has said.
    pub fn said(&self) -> String {
        process::read(&self.room.0.log())
    }

    /// Where it has its things.
    pub fn room(&self) -> &Room {
        &self.room.0
    }

    /// SIGKILL to all its processes; its data stays until this goes.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill_tree(END_LIMIT)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Processor time of its processes, ended ones included.
    pub fn cpu(&self) -> Result<Duration> {
        let gone = || format!("{} has ended", self.contender.version);
        cpu::of_tree(self.id()).ok_or_else(gone)
    }

    /// Stops all its processes where they are.
    pub fn pause(&self) {
        self.process.signal_tree(Signal::STOP);
    }

    /// Lets them go on. An error when it has ended meanwhile.
    pub fn resume(&mut self) -> Result<()> {
        self.check()?;
        self.process.signal_tree(Signal::CONT);
        Ok(())
    }

    /// An error with what it said last, if it has ended.
    pub fn check(&mut self) -> Result<()> {
        let Some(status) = self.process.ended() else { return Ok(()) };
        let said = process::last_words(&process::read(&self.room.0.log()));
        let said = said.unwrap_or_else(|| "it said nothing".to_owned());
        Err(format!("{} ended ({status}): {said}", self.contender.version))
    }

    /// After its tables were loaded: what its manual advises before measuring.
    pub fn settle(&self) -> Result<()> {
        let Door::Postgres(address) = &self.door else { return Ok(()) };
        let mut client = wire::connect(address)?;
        for statement in self.contender.engine.after_load() {
            client.batch_execute(statement).map_err(|error| {
                format!("{}: {statement}: {}", self.contender.version, wire::message(&error))
            })?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process.ended().is_some() {
            // Its id may be somebody else's by now.
            return;
        }
        self.process.signal_tree(Signal::CONT);
        self.process.end_by(self.contender.engine.end(), END_LIMIT);
    }
}

/// Asks whether somebody answers: a session of PostgreSQL's, or MySQL's greeting.
fn knock(door: &Door) -> Result<()> {
    match door {
        Door::Postgres(address) => wire::connect(address).map(drop),
        Door::MySql(path) => {
            let greeted = || -> std::io::Result<()> {
                let mut stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(ANSWER_LIMIT))?;
                stream.read_exact(&mut [0; 5])
            };
            greeted().map_err(|error| format!("cannot connect: {error}"))
        }
    }
}

/// A folder of this account's own.
fn own(path: &Path, account: Option<Account>) -> Result<()> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    if let Some(Account { user, group }) = account {
        std::os::unix::fs::chown(path, Some(user), Some(group)).map_err(failed)?;
    }
    Ok(())
}

fn run_as(command: &mut Command, account: Option<Account>, room: &Room) {
    // Where it may be: this program's own directory may be closed to that account.
    command.current_dir(&room.0).env("LC_ALL", "C");
    if let Some(Account { user, group }) = account {
        command.uid(user).gid(group).env("HOME", &room.0);
    }
}
