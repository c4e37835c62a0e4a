//! A directory of the real file system.
//!
//! Invariants: paths stay inside the directory; a file opened `Direct::Yes` goes around the page
//! cache where the file system allows it, and then every transfer is a multiple of 4096 at a
//! multiple of 4096; one process at a time holds the lock file. Blocking: for start-up,
//! manifests and recovery; transactions use the ring.

use std::fs;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::blocking::error_of;
use super::threads::Pool;
use super::uring::UringRing;
use super::{
    DirLock, Direct, Disk, File, FileRef, IO_ALIGN, IoBuffer, IoChoice, OpenHow, Ring, threads,
};
use crate::base::{Error, Result};

/// The lock file's name.
pub const LOCK_NAME: &str = "LOCK";

/// One real directory.
pub struct RealDisk {
    root: PathBuf,
    rings: RingMaker,
    access: Access,
}

/// What a disk is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// All that a database does.
    All,
    /// Files are opened to be read: it may be mounted so, or belong to somebody else.
    Reads,
}

/// Makes rings of the chosen form; shared by the disks that have real rings.
pub(super) struct RingMaker {
    choice: IoChoice,
    pool: Pool,
}

impl RingMaker {
    pub(super) fn new(choice: IoChoice) -> RingMaker {
        RingMaker { choice, pool: Pool::new() }
    }

    /// A ring for the calling thread; `Auto` falls back to threads (rule 2.7).
    pub(super) fn ring(&self) -> Result<Box<dyn Ring>> {
        match self.choice {
            IoChoice::Uring => Ok(Box::new(UringRing::new()?)),
            IoChoice::Threads => Ok(Box::new(threads::ThreadRing::new(&self.pool)?)),
            IoChoice::Auto => match UringRing::new() {
                Ok(ring) => Ok(Box::new(ring)),
                Err(_) => Ok(Box::new(threads::ThreadRing::new(&self.pool)?)),
            },
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self.choice {
            IoChoice::Threads => "threads",
            IoChoice::Uring => "io_uring",
            IoChoice::Auto if UringRing::new().is_ok() => "io_uring",
            IoChoice::Auto => "threads",
        }
    }
}

impl RealDisk {
    /// The directory `root`, made if it is not there (mode 0700).
    pub fn open(root: &Path, choice: IoChoice) -> Result<RealDisk> {
        use std::os::unix::fs::DirBuilderExt;
        let is_new = !root.is_dir();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(root);
        let failed = |e: &std::io::Error| io_error("make directory", &root.to_string_lossy(), e);
        made.map_err(|e| failed(&e))?;
        if let Some(parent) = std::path::absolute(root).ok().as_deref().and_then(Path::parent)
            && is_new
        {
            // Its name is to be as durable as what will be in it, if that can be had.
            match fs::File::open(parent) {
                Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {}
                opened => opened.and_then(|it| it.sync_all()).map_err(|e| failed(&e))?,
            }
        }
        let rings = RingMaker::new(choice);
        Ok(RealDisk { root: root.to_owned(), rings, access: Access::All })
    }

    /// The directory `root`, which is there, to read what is in it: who would change anything gets an error.
    pub fn to_read(root: &Path) -> RealDisk {
        let rings = RingMaker::new(IoChoice::Threads);
        RealDisk { root: root.to_owned(), rings, access: Access::Reads }
    }

    /// The directory `root`, which is there: unlike [`RealDisk::open`] this does not make it.
    pub fn existing(root: &Path) -> RealDisk {
        RealDisk { access: Access::All, ..RealDisk::to_read(root) }
    }

    /// Removes everything in the directory but its lock. Blocks. For what was begun and is not wanted.
    pub fn clear(&self) -> Result<()> {
        for name in self.list("")?.into_iter().filter(|name| name != LOCK_NAME) {
            let path = self.path_to_change(&name)?;
            let removed = match path.is_dir() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
            removed.map_err(|e| io_error("remove", &name, &e))?;
        }
        Ok(())
    }

    /// The path of what is to be made, changed or removed.
    fn path_to_change(&self, name: &str) -> Result<PathBuf> {
        match self.access {
            Access::All => self.path(name),
            Access::Reads => Err(error_of("change", name, libc::EROFS)),
        }
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        let inside = !name.starts_with('/') && name.split('/').all(|part| part != "..");
        if !inside {
            return Err(Error::Internal {
                detail: format!("path \"{name}\" leaves the directory"),
            });
        }
        Ok(if name.is_empty() { self.root.clone() } else { self.root.join(name) })
    }
}

/// Whether there is anything at `path`. `Io` if that cannot be found out, which is not the same as no.
pub fn look_for(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|e| io_error("look for", &path.to_string_lossy(), &e))
}

fn io_error(what: &str, path: &str, error: &std::io::Error) -> Error {
    error_of(what, path, error.raw_os_error().unwrap_or(0))
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

impl Disk for RealDisk {
    fn open(&self, name: &str, how: OpenHow, direct: Direct) -> Result<FileRef> {
        let path = match how {
            OpenHow::Existing => self.path(name)?,
            OpenHow::CreateNew | OpenHow::CreateOrOpen => self.path_to_change(name)?,
        };
        let c_path = std::ffi::CString::new(path.as_os_str().as_bytes())
            .map_err(|_| error_of("open", name, libc::EINVAL))?;
        let create = match how {
            OpenHow::CreateNew => libc::O_CREAT | libc::O_EXCL,
            OpenHow::CreateOrOpen => libc::O_CREAT,
            OpenHow::Existing => 0,
        };
        let access = match self.access {
            Access::All => libc::O_RDWR,
            Access::Reads => libc::O_RDONLY,
        };
        let open = |extra: i32| {
            let flags = access | libc::O_CLOEXEC | create | extra;
            // SAFETY: the path is a valid C string; the result is checked below.
            let fd = unsafe { libc::open(c_path.as_ptr(), flags, 0o600 as libc::c_uint) };
            // SAFETY: a descriptor that open(2) returned is ours.
            if fd < 0 { Err(last_errno()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
        };
        let opened = match direct {
            Direct::No => open(0).map(|fd| (fd, Direct::No)),
            Direct::Yes => match open(libc::O_DIRECT) {
                // The file system has no direct I/O (tmpfs): the page cache, then. A failed
                // O_DIRECT open may have made the file already.
                Err(libc::EINVAL) => {
                    let _ = (how == OpenHow::CreateNew).then(|| fs::remove_file(&path));
                    open(0).map(|fd| (fd, Direct::No))
                }
                other => other.map(|fd| (fd, Direct::Yes)),
            },
        };
        let (fd, direct) = opened.map_err(|errno| error_of("open", name, errno))?;
        Ok(Arc::new(RealFile { fd, direct, name: name.to_owned() }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (self.path_to_change(from)?, self.path_to_change(to)?);
        fs::rename(old, new).map_err(|e| io_error("rename", from, &e))
    }

    fn remove(&self, name: &str) -> Result<()> {
        fs::remove_file(self.path_to_change(name)?).map_err(|e| io_error("remove", name, &e))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let entries = match fs::read_dir(self.path(folder)?) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(io_error("list", folder, &e)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| io_error("list", folder, &e))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        fs::create_dir_all(self.path_to_change(name)?)
            .map_err(|e| io_error("make directory", name, &e))
    }

    fn sync_dir(&self, name: &str) -> Result<()> {
        let folder = fs::File::open(self.path(name)?);
        let synced = folder.and_then(|folder| folder.sync_all());
        synced.map_err(|e| io_error("sync directory", name, &e))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.path(name)?.try_exists().map_err(|e| io_error("look for", name, &e))
    }

    fn lock(&self, note: &str) -> Result<DirLock> {
        let path = self.path_to_change(LOCK_NAME)?;
        loop {
            if let Some(held) = HeldFile::take(&path, &self.root)? {
                let note = format!("process {}\n{note}\n", std::process::id());
                held.write(note.as_bytes()).map_err(|e| io_error("write", LOCK_NAME, &e))?;
                return Ok(DirLock::new(Box::new(held)));
            }
            // Whoever had it has just removed the file: look again.
        }
    }

    fn ring(&self) -> Result<Box<dyn Ring>> {
        self.rings.ring()
    }

    fn kind(&self) -> &'static str {
        self.rings.kind()
    }
}

/// The lock file, locked. Dropping it leaves the file as it was found, or none: who only looked, or
/// found that the directory is not to be used, changes nothing in it.
struct HeldFile {
    file: fs::File,
    path: PathBuf,
    before: Option<Vec<u8>>,
}

impl HeldFile {
    /// Locks the file at `path`, made if it is not there. `None` if it was removed meanwhile;
    /// `Unusable` names the holder.
    fn take(path: &Path, root: &Path) -> Result<Option<HeldFile>> {
        let problem = |e: std::io::Error| io_error("open", LOCK_NAME, &e);
        let found = fs::OpenOptions::new().read(true).write(true).open(path);
        let (mut file, existed) = match found {
            Ok(file) => (file, true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let made =
                    fs::OpenOptions::new().read(true).write(true).create_new(true).open(path);
                match made {
                    Ok(file) => (file, false),
                    Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Ok(None),
                    Err(e) => return Err(problem(e)),
                }
            }
            Err(error) => return Err(problem(error)),
        };
        // SAFETY: the descriptor is open for as long as `file` lives.
        let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        let errno = if locked == 0 { 0 } else { last_errno() };
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(problem)?;
        if errno == libc::EWOULDBLOCK {
            let holder = String::from_utf8_lossy(&text).trim().replace('\n', "; ");
            let detail = format!("the directory \"{}\" is in use by {holder}", root.display());
            return Err(Error::Unusable { detail });
        }
        if errno != 0 {
            return Err(error_of("lock", LOCK_NAME, errno));
        }
        let own = file.metadata().map_err(problem)?;
        let same =
            fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (own.dev(), own.ino()));
        let before = existed.then_some(text);
        Ok(same.then(|| HeldFile { file, path: path.to_owned(), before }))
    }

    fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(bytes, 0)
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        // While it is still locked; closing it lets go. A note that stays behind names a process
        // that is gone, and nobody reads it without finding the file locked.
        let _ = match &self.before {
            Some(before) => self.write(before),
            None => fs::remove_file(&self.path),
        };
    }
}

/// One open real file.
struct RealFile {
    fd: OwnedFd,
    /// Whether the descriptor goes around the page cache.
    direct: Direct,
    name: String,
}

impl RealFile {
    fn error(&self, what: &str) -> Error {
        error_of(what, &self.name, last_errno())
    }

    fn pread(&self, mut offset: u64, mut into: &mut [u8]) -> Result<usize> {
        let mut total = 0;
        while !into.is_empty() {
            let at =
                i64::try_from(offset).map_err(|_| error_of("read", &self.name, libc::EINVAL))?;
            // SAFETY: `into` is writable for its length.
            let n = unsafe {
                libc::pread(self.fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), at)
            };
            if n < 0 {
                if last_errno() == libc::EINTR {
                    continue;
                }
                return Err(self.error("read"));
            }
            let n = usize::try_from(n).expect("checked for negative");
            (total, offset) = (total + n, offset + n as u64);
            into = &mut into[n..];
            // The end of the file; a direct read must not go on at an odd place.
            if n == 0 || (self.direct == Direct::Yes && n % IO_ALIGN != 0) {
                break;
            }
        }
        Ok(total)
    }

    fn pwrite(&self, mut offset: u64, mut from: &[u8]) -> Result<()> {
        while !from.is_empty() {
            let at =
                i64::try_from(offset).map_err(|_| error_of("write", &self.name, libc::EINVAL))?;
            // SAFETY: `from` is readable for its length.
            let n =
                unsafe { libc::pwrite(self.fd.as_raw_fd(), from.as_ptr().cast(), from.len(), at) };
            match n {
                0 => return Err(error_of("write", &self.name, libc::EIO)),
                n if n < 0 && last_errno() == libc::EINTR => {}
                n if n < 0 => return Err(self.error("write")),
                n => {
                    let n = usize::try_from(n).expect("checked for negative");
                    offset += n as u64;
                    from = &from[n..];
                }
            }
        }
        Ok(())
    }

    fn needs_bounce(&self, address: *const u8) -> bool {
        self.direct == Direct::Yes && !(address as usize).is_multiple_of(IO_ALIGN)
    }
}

impl File for RealFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        if self.needs_bounce(into.as_ptr())
            || (self.direct == Direct::Yes && !into.len().is_multiple_of(IO_ALIGN))
        {
            let mut bounce = IoBuffer::zeroed(into.len().next_multiple_of(IO_ALIGN));
            let n = self.pread(offset, &mut bounce)?.min(into.len());
            into[..n].copy_from_slice(&bounce[..n]);
            return Ok(n);
        }
        self.pread(offset, into)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> Result<()> {
        if self.needs_bounce(from.as_ptr()) {
            let mut bounce = IoBuffer::zeroed(from.len());
            bounce.copy_from_slice(from);
            return self.pwrite(offset, &bounce);
        }
        self.pwrite(offset, from)
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: the descriptor is ours.
        let done = unsafe { libc::fdatasync(self.fd.as_raw_fd()) };
        if done == 0 { Ok(()) } else { Err(self.error("sync")) }
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        let bytes =
            i64::try_from(bytes).map_err(|_| error_of("allocate", &self.name, libc::EFBIG))?;
        let before = self.len()?;
        // SAFETY: the descriptor is ours.
        if unsafe { libc::fallocate(self.fd.as_raw_fd(), 0, 0, bytes) } == 0 {
            return Ok(());
        }
        match last_errno() {
            // ext4 keeps what it found before it found no more: that is the last room on the disk, without
            // which the next start could not even take its lock.
            libc::ENOSPC => {
                // SAFETY: the descriptor is ours. If it fails there is no harm but that.
                let _ = unsafe { libc::ftruncate(self.fd.as_raw_fd(), before.cast_signed()) };
                Err(error_of("allocate", &self.name, libc::ENOSPC))
            }
            // No such call on this file system: make it long; writing zeros will find the room.
            libc::EOPNOTSUPP | libc::ENOSYS => {
                let longer = self.len()? < bytes.unsigned_abs();
                // SAFETY: the descriptor is ours.
                if longer && unsafe { libc::ftruncate(self.fd.as_raw_fd(), bytes) } != 0 {
                    return Err(self.error("allocate"));
                }
                Ok(())
            }
            errno => Err(error_of("allocate", &self.name, errno)),
        }
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        if self.len()? <= bytes {
            return Ok(());
        }
        let bytes =
            i64::try_from(bytes).map_err(|_| error_of("truncate", &self.name, libc::EFBIG))?;
        // SAFETY: the descriptor is ours.
        let done = unsafe { libc::ftruncate(self.fd.as_raw_fd(), bytes) };
        if done == 0 { Ok(()) } else { Err(self.error("truncate")) }
    }

    fn len(&self) -> Result<u64> {
        // SAFETY: stat is plain data; zero is a valid value of it.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is ours and `stat` is writable.
        if unsafe { libc::fstat(self.fd.as_raw_fd(), &mut stat) } != 0 {
            return Err(self.error("stat"));
        }
        Ok(stat.st_size.unsigned_abs())
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
