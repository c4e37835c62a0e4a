//! A really small file system for one test, gone with it however it ends.
//!
//! The test runs once more as a child in a mount namespace of its own, where root may make one, or
//! in a user namespace, too, where anybody may. There it mounts ext4 on a loop device or, if that
//! is not to be had, a tmpfs. What is mounted goes with the last process of the namespace, and the
//! image of the ext4 has no name by then: so neither a panic nor SIGKILL leaves anything.
//! Where there are no namespaces, as in most containers, /dev/shm is used, which is a small tmpfs
//! of the container's own there. Where there is not even that the test fails and says why:
//! `ATOLL_SMALL_DISK=none` is how somebody decides to go without it. `ext4`, `tmpfs` and `shm`
//! take no other.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Size of the file system.
const DISK_BYTES: u64 = 72 << 20;
/// What [`SmallDisk::give_back`] gives back at least.
const BALLAST_BYTES: u64 = 24 << 20;
/// A shared memory that is larger is not filled: it is the machine's.
const SHARED_BYTES_MAX: u64 = 1 << 30;
/// How long the child may take.
const CASE_TIME_MAX: Duration = Duration::from_secs(150);
/// Tells the child that it is one.
const CHILD: &str = "ATOLL_TEST_SMALL_DISK_CHILD";
const CHOICE: &str = "ATOLL_SMALL_DISK";

/// A file system with little room, part of which a ballast file takes.
pub struct SmallDisk {
    pub path: PathBuf,
    /// What is removed in the end if nothing was mounted.
    _folder: Option<tempfile::TempDir>,
    /// Lets the next test have shared memory.
    _turn: Option<File>,
}

impl SmallDisk {
    fn with_ballast(path: PathBuf) -> SmallDisk {
        std::fs::write(path.join("ballast"), vec![7; BALLAST_BYTES as usize]).unwrap();
        SmallDisk { path, _folder: None, _turn: None }
    }

    /// Takes what room there is.
    pub fn fill(&self) {
        self.take_all_but(0);
    }

    /// Takes what room there is but `bytes`.
    pub fn take_all_but(&self, bytes: u64) {
        let kept = self.path.join("kept");
        std::fs::write(&kept, vec![7; bytes as usize]).unwrap();
        File::open(&kept).unwrap().sync_all().unwrap();
        self.take();
        std::fs::remove_file(&kept).unwrap();
    }

    fn take(&self) {
        let mut file = File::create(self.path.join("filler")).unwrap();
        for piece in [1 << 20, 4 << 10, 512] {
            let bytes = vec![7; piece];
            while let Ok(()) = file.write_all(&bytes).and_then(|()| file.sync_data()) {}
        }
    }

    /// Nothing on it can be changed from now on; not so where nothing was mounted. Nobody has anything open.
    pub fn only_read(&self) {
        if self._folder.is_none() {
            let mounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.path).output();
            done(mounted).unwrap();
            assert!(File::create(self.path.join("any")).is_err());
        }
    }

    /// Space returns.
    pub fn give_back(&self) {
        for name in ["ballast", "filler"] {
            match std::fs::remove_file(self.path.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
                _ => {}
            }
        }
    }
}

/// Runs `case`, which is all of the test named `test`, on a small file system.
pub fn on_small_disk(test: &str, case: impl FnOnce(&SmallDisk)) {
    let choice = std::env::var(CHOICE).unwrap_or_default();
    if let Some(folder) = std::env::var_os(CHILD) {
        return case(&mount(Path::new(&folder), &choice).unwrap_or_else(|why| panic!("{why}")));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut why = String::new();
    if matches!(choice.as_str(), "" | "ext4" | "tmpfs") {
        for flags in [["--mount"].as_slice(), &["--user", "--map-root-user", "--mount"]] {
            match can_mount(flags, folder.path()) {
                Ok(()) => return run_child(flags, folder.path(), test),
                Err(reason) => why += &format!("\nunshare {}: {reason}", flags.join(" ")),
            }
        }
    }
    if matches!(choice.as_str(), "" | "shm") {
        match shared_memory() {
            Ok(disk) => return case(&disk),
            Err(reason) => why += &format!("\n/dev/shm: {reason}"),
        }
    }
    assert_eq!(choice, "none", "there is no small file system to be had, see {}{why}", file!());
    // Past the harness, which keeps what a passing test prints.
    let _ = writeln!(std::io::stderr(), "{test}: NOT TESTED, for {CHOICE}=none says so");
}

fn done(output: std::io::Result<Output>) -> Result<(), String> {
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Whether a mount works in a namespace of its own.
fn can_mount(flags: &[&str], folder: &Path) -> Result<(), String> {
    let mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"];
    done(Command::new("unshare").args(flags).args(mount).arg(folder).output())
}

/// The same test in a namespace; it must pass.
fn run_child(flags: &[&str], folder: &Path, test: &str) {
    let mut command = Command::new("unshare");
    command.args(flags).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD, folder);
    let told = tempfile::tempfile().unwrap();
    command
        .stdin(Stdio::null())
        .stdout(told.try_clone().unwrap())
        .stderr(told.try_clone().unwrap());
    // So that its servers end with it.
    let mut child = command.process_group(0).spawn().unwrap();
    let group = rustix::process::Pid::from_child(&child);
    let deadline = Instant::now() + CASE_TIME_MAX;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => break None,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    if status.is_none() {
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
    }
    let mut text = String::new();
    let mut told = told;
    std::io::Seek::rewind(&mut told).unwrap();
    std::io::Read::read_to_string(&mut told, &mut text).unwrap();
    println!("{text}");
    let status = status.expect("the case comes to its end in time");
    assert!(status.success(), "{status}");
    // Or the name is not that of the test.
    assert!(text.contains("1 passed"));
}

/// In the namespace: something small at `folder`/disk.
fn mount(folder: &Path, choice: &str) -> Result<SmallDisk, String> {
    let (image, path) = (folder.join("image"), folder.join("disk"));
    std::fs::create_dir(&path).map_err(|error| error.to_string())?;
    let mut why = String::new();
    if choice != "tmpfs" {
        File::create(&image).and_then(|file| file.set_len(DISK_BYTES)).unwrap();
        let made =
            done(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image).output());
        let mounted = made.and_then(|()| {
            done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&path).output())
        });
        std::fs::remove_file(&image).unwrap();
        match mounted {
            Ok(()) => {
                println!("on ext4 on a loop device");
                return Ok(SmallDisk::with_ballast(path));
            }
            Err(reason) => why = format!("ext4 on a loop device: {reason}"),
        }
    }
    if choice == "ext4" {
        return Err(why);
    }
    println!("on a tmpfs, for {why}");
    let size = format!("size={DISK_BYTES}");
    done(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output())?;
    Ok(SmallDisk::with_ballast(path))
}

/// What is mounted at /dev/shm, filled so that as much is left as a small file system has.
fn shared_memory() -> Result<SmallDisk, String> {
    let shared = Path::new("/dev/shm");
    let space = || rustix::fs::statvfs(shared).map_err(|error| error.to_string());
    let bytes = space()?;
    if bytes.f_blocks * bytes.f_frsize > SHARED_BYTES_MAX {
        return Err("so large that it is the machine's".to_owned());
    }
    let turn = File::open(shared).map_err(|error| error.to_string())?;
    turn.lock().map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir_in(shared).map_err(|error| error.to_string())?;
    let space = space()?;
    let free = space.f_bavail * space.f_frsize;
    let needed = BALLAST_BYTES + (32 << 20);
    if free < needed {
        return Err(format!("{free} bytes are free, of which {needed} are needed"));
    }
    let rest = vec![7; free.saturating_sub(DISK_BYTES) as usize];
    std::fs::write(folder.path().join("rest"), rest).map_err(|error| error.to_string())?;
    println!("on /dev/shm");
    let disk = SmallDisk::with_ballast(folder.path().to_owned());
    Ok(SmallDisk { _folder: Some(folder), _turn: Some(turn), ..disk })
}
