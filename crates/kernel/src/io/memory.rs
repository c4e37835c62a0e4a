//! A directory in memory: for databases that live as long as their process.
//!
//! Invariants: nothing survives; sockets work, since its rings are real ones; any number of
//! locks, one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::real::RingMaker;
use super::{DirLock, Direct, Disk, File, FileRef, IoChoice, OpenHow, Ring};
use crate::base::{Error, Result};

/// One directory in memory.
pub struct MemoryDisk {
    names: Mutex<Names>,
    rings: RingMaker,
    locked: Arc<Mutex<Option<String>>>,
}

#[derive(Default)]
struct Names {
    files: BTreeMap<String, Arc<MemoryFile>>,
    folders: BTreeSet<String>,
}

impl MemoryDisk {
    /// An empty one, whose rings (for sockets) are of this form.
    pub fn new(choice: IoChoice) -> MemoryDisk {
        let names = Names::default();
        let rings = RingMaker::new(choice);
        MemoryDisk { names: Mutex::new(names), rings, locked: Arc::default() }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn missing(name: &str) -> Error {
    Error::NotFound { what: name.to_owned() }
}

impl Disk for MemoryDisk {
    fn open(&self, name: &str, how: OpenHow, _direct: Direct) -> Result<FileRef> {
        let mut names = self.names();
        match (names.files.get(name), how) {
            (Some(_), OpenHow::CreateNew) => Err(Error::AlreadyExists { name: name.to_owned() }),
            (Some(file), _) => Ok(file.clone()),
            (None, OpenHow::Existing) => Err(missing(name)),
            (None, _) => {
                let file = Arc::new(MemoryFile::default());
                names.files.insert(name.to_owned(), file.clone());
                Ok(file)
            }
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut names = self.names();
        let file = names.files.remove(from).ok_or_else(|| missing(from))?;
        names.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.names().files.remove(name).map(drop).ok_or_else(|| missing(name))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let names = self.names();
        let all = names.files.keys().chain(&names.folders);
        Ok(children(folder, all))
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        let mut names = self.names();
        for (end, _) in name.match_indices('/') {
            names.folders.insert(name[..end].to_owned());
        }
        names.folders.insert(name.to_owned());
        Ok(())
    }

    fn sync_dir(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let names = self.names();
        Ok(names.files.contains_key(name) || names.folders.contains(name))
    }

    fn lock(&self, note: &str) -> Result<DirLock> {
        lock_once(&self.locked, note)
    }

    fn ring(&self) -> Result<Box<dyn Ring>> {
        self.rings.ring()
    }

    fn kind(&self) -> &'static str {
        "memory"
    }
}

/// The names directly inside `folder`, sorted.
pub(super) fn children<'a>(folder: &str, all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let inside = all.filter_map(|path| {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        (parent == folder && !name.is_empty()).then(|| name.to_owned())
    });
    let sorted: BTreeSet<String> = inside.collect();
    sorted.into_iter().collect()
}

/// A lock within this process.
pub(super) fn lock_once(locked: &Arc<Mutex<Option<String>>>, note: &str) -> Result<DirLock> {
    let mut holder = locked.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(note) = holder.as_ref() {
        let detail = format!("the directory is in use by process {}; {note}", std::process::id());
        return Err(Error::Unusable { detail });
    }
    *holder = Some(note.to_owned());
    drop(holder);
    Ok(DirLock::new(Box::new(Unlock(locked.clone()))))
}

struct Unlock(Arc<Mutex<Option<String>>>);

impl Drop for Unlock {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// One file in memory.
#[derive(Default)]
struct MemoryFile {
    bytes: RwLock<Vec<u8>>,
}

impl File for MemoryFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let n = into.len().min(bytes.len() - start);
        into[..n].copy_from_slice(&bytes[start..start + n]);
        Ok(n)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> Result<()> {
        let start =
            usize::try_from(offset).map_err(|_| Error::OutOfMemory { what: "memory disk" })?;
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        let end = start + from.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(from);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        let wanted =
            usize::try_from(bytes).map_err(|_| Error::OutOfMemory { what: "memory disk" })?;
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() < wanted {
            bytes.resize(wanted, 0);
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.bytes.write().unwrap_or_else(PoisonError::into_inner).truncate(wanted);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn raw_fd(&self) -> Option<RawFd> {
        None
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
