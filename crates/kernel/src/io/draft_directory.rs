// From the lead: a draft to use or drop (it compiles against the traits in io/mod.rs on main).
//! A real directory: files with direct I/O where the file system can, and a lock file.
//!
//! Invariants: every error carries what was done to which path; ENOSPC and EDQUOT are `DiskFull`,
//! all else `Io`. The lock is an OS lock on the file LOCK, so it ends with its process; what the
//! file says is for people.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Direct, DirLock, Disk, File, FileRef, OpenHow, Ring};
use crate::base::{Error, Result};

/// Which kind of ring a directory's instances use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RingChoice {
    /// io_uring where the kernel allows it, else threads.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// A pool of threads with `pread` and `pwrite`.
    Threads,
}

/// A directory of the operating system.
pub struct Directory {
    root: PathBuf,
    rings: RingChoice,
}

impl Directory {
    /// The directory `root`, which is made if it is not there.
    pub fn new(root: &Path, rings: RingChoice) -> Result<Directory> {
        fs::create_dir_all(root).map_err(|error| failed("create", root, &error))?;
        Ok(Directory { root: root.to_owned(), rings })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// Turns an operating system's error into the kernel's.
pub fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    let errno = error.raw_os_error().unwrap_or(0);
    if errno == libc::ENOSPC || errno == libc::EDQUOT {
        return Error::DiskFull { path: path.display().to_string() };
    }
    Error::Io { what: format!("{what} \"{}\": {error}", path.display()), errno }
}

impl Disk for Directory {
    fn open(&self, name: &str, how: OpenHow, direct: Direct) -> Result<FileRef> {
        let path = self.path(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match how {
            OpenHow::CreateNew => options.create_new(true),
            OpenHow::CreateOrOpen => options.create(true).truncate(false),
            OpenHow::Existing => &mut options,
        };
        if direct == Direct::Yes {
            options.custom_flags(libc::O_DIRECT);
            match options.open(&path) {
                // tmpfs and some others refuse O_DIRECT; durable writes are synced all the same.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                opened => return real_file(opened, path),
            }
            if how == OpenHow::CreateNew {
                // The refused open may have left an empty file.
                let _ = fs::remove_file(&path);
            }
            options.custom_flags(0);
        }
        real_file(options.open(&path), path)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let path = self.path(from);
        fs::rename(&path, self.path(to)).map_err(|error| failed("rename", &path, &error))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.path(folder);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| failed("list", &path, &error))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed("list", &path, &error))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        fs::create_dir_all(&path).map_err(|error| failed("create", &path, &error))
    }

    fn sync_dir(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        fs::File::open(&path)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| failed("sync", &path, &error))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let path = self.path(name);
        path.try_exists().map_err(|error| failed("look for", &path, &error))
    }

    fn lock(&self, note: &str) -> Result<DirLock> {
        let path = self.path("LOCK");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| failed("open", &path, &error))?;
        if file.try_lock().is_err() {
            let mut holder = String::new();
            // What it says is a courtesy; without it the message is shorter.
            let _ = file.read_to_string(&mut holder);
            return Err(Error::Unusable {
                detail: format!(
                    "{} is in use by another process: {}",
                    self.root.display(),
                    holder.trim().replace('\n', "; ")
                ),
            });
        }
        let text = format!("process {}\n{note}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(|error| failed("write", &path, &error))?;
        Ok(DirLock::new(Box::new(file)))
    }

    fn ring(&self) -> Result<Box<dyn Ring>> {
        super::uring::open(self.rings)
    }

    fn kind(&self) -> &'static str {
        "directory"
    }
}

/// One open file of a [`Directory`].
pub struct RealFile {
    file: fs::File,
    path: PathBuf,
}

fn real_file(opened: std::io::Result<fs::File>, path: PathBuf) -> Result<FileRef> {
    let file = opened.map_err(|error| failed("open", &path, &error))?;
    Ok(Arc::new(RealFile { file, path }))
}

impl File for RealFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.file.read_at(&mut into[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read", &self.path, &error)),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(from, offset);
        written.map_err(|error| failed("write", &self.path, &error))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| failed("sync", &self.path, &error))
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        let length = i64::try_from(bytes).map_err(|_| Error::Limit { what: "file size" })?;
        // SAFETY: the descriptor is open for as long as `self`.
        let answer = unsafe { libc::posix_fallocate(self.file.as_raw_fd(), 0, length) };
        match answer {
            0 => Ok(()),
            errno => {
                let error = std::io::Error::from_raw_os_error(errno);
                Err(failed("extend", &self.path, &error))
            }
        }
    }

    fn len(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        metadata.map(|it| it.len()).map_err(|error| failed("measure", &self.path, &error))
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.file.as_raw_fd())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
