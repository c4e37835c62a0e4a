//! The server as a process of its own: started from this very program, ended by its id alone.
//!
//! Invariants: a child is either stopped, killed, or (if the demonstration fails) killed on drop;
//! no other process is ever signalled. What it leaves beside its data goes with it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use atoll_bench::wire::Address;

/// A running server.
pub struct Server {
    child: Child,
    address: Address,
    ready: String,
    // Kept open so that the server may go on writing.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts `atoll serve` on `data` with a unix socket, and waits until it is ready. `more` are
    /// further arguments.
    pub fn start(data: &Path, more: &[&str]) -> Result<Server, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        // A socket's path may have 107 bytes at most, so it is not put under `data`.
        let sockets = std::env::temp_dir().join(format!("atoll-demo-{}", std::process::id()));
        let mut child = Command::new(program)
            .arg("serve")
            .arg("--data")
            .arg(data)
            .arg("--socket-dir")
            .arg(&sockets)
            .args(["--listen", "127.0.0.1:0", "--buffer-pool", "4GB", "--supervise", "off"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the server: {error}"))?;
        let mut output = BufReader::new(child.stdout.take().expect("the output is piped"));
        let mut ready = String::new();
        loop {
            let mut line = String::new();
            let bytes = output.read_line(&mut line).map_err(|error| error.to_string())?;
            if bytes == 0 {
                let status = child.wait().map_err(|error| error.to_string())?;
                return Err(format!("the server ended before it was ready: {status}"));
            }
            if line.contains("ready to accept connections") {
                ready.push_str(line.trim_end());
                break;
            }
            print!("  {line}");
        }
        let port = port_of(&ready).ok_or(format!("no port in \"{ready}\""))?;
        let address = Address::Socket(sockets, port);
        Ok(Server { child, address, ready, _output: output })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The line with which it said that it is ready.
    pub fn ready_line(&self) -> &str {
        &self.ready
    }

    /// SIGKILL, as a crash of the process.
    pub fn kill(mut self) -> Result<(), String> {
        self.child.kill().map_err(|error| format!("cannot kill the server: {error}"))?;
        self.child.wait().map_err(|error| error.to_string())?;
        Ok(())
    }

    /// SIGTERM, and waits for a clean end.
    pub fn stop(mut self) -> Result<(), String> {
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let id = id.ok_or("the server has no process id")?;
        rustix::process::kill_process(id, rustix::process::Signal::TERM)
            .map_err(|error| format!("cannot stop the server: {error}"))?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}")) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Nothing better can be done with a failure here; the error that led here is told.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // One that was killed leaves its socket. The folder goes with the last.
        if let Address::Socket(folder, port) = &self.address {
            let _ = std::fs::remove_file(folder.join(format!(".s.PGSQL.{port}")));
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// The port in "... on 127.0.0.1:40123 ...".
fn port_of(line: &str) -> Option<u16> {
    let after = line.split("127.0.0.1:").nth(1)?;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
