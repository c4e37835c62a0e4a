//! A server that a command starts, and ends by its process id.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::run::{Result, must};

/// How often one looks whether something has happened.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A running server; killed if it is dropped before it has ended.
pub struct Server(Child);

impl Server {
    /// Starts it.
    pub fn start(mut command: Command) -> Result<Server> {
        command.spawn().map(Server).map_err(|error| format!("{command:?}: {error}"))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until there is a socket in the folder.
    pub fn listens(&mut self, sockets: &Path, patience: Duration) -> Result<()> {
        let listens = || fs::read_dir(sockets).is_ok_and(|mut there| there.next().is_some());
        self.waits("listen", patience, listens)
    }

    /// Waits until `is_done`, which the server is to bring about.
    pub fn waits(
        &mut self,
        what: &str,
        patience: Duration,
        is_done: impl Fn() -> bool,
    ) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if is_done() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.0.try_wait() {
                return Err(format!("the server ended with {status}; it was to {what}"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Err(format!("the server does not {what} within {} s", patience.as_secs()))
    }

    /// Waits for its end by itself, which must be a success.
    pub fn ends(mut self, patience: Duration) -> Result<()> {
        match self.ended(patience) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("it ended with {status}")),
            None => Err(format!("it does not end within {} s", patience.as_secs())),
        }
    }

    /// Ends it in order.
    pub fn end(mut self, patience: Duration) -> Result<()> {
        let mut command = Command::new("kill");
        command.arg("-TERM").arg(self.id().to_string());
        must(command)?;
        let ended = self.ended(patience);
        ended.map(drop).ok_or_else(|| "the server does not end".to_owned())
    }

    /// How it has ended, if it does within that time.
    fn ended(&mut self, patience: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Some(status);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
