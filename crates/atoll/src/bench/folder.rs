//! Where a run's data goes: a directory that was given and stays, or a temporary one that goes with
//! the run.
//!
//! Invariants: a temporary directory is made here, or the run is refused; what somebody else made
//! is neither used nor removed. It goes when this is dropped, and when the run is interrupted.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use atoll_bench::sweep::clients::Plan;

use super::interrupt;

/// Where a run's data goes.
pub enum Folder {
    /// A directory that was given: it stays.
    Given(PathBuf),
    /// One that goes with the run.
    Temporary(PathBuf),
}

impl Folder {
    /// The directory that was given, which must be new or empty; else a temporary one.
    pub fn new(given: Option<&Path>) -> Result<Folder, String> {
        let Some(data) = given else { return Folder::within(&std::env::temp_dir()) };
        if data.exists() && data.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(format!("{} is not empty; give a new directory", data.display()));
        }
        interrupt::watch(None)?;
        Ok(Folder::Given(data.to_owned()))
    }

    /// A temporary one in this directory.
    pub fn within(place: &Path) -> Result<Folder, String> {
        let path = place.join(format!("atoll-bench-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        let folder = Folder::Temporary(path);
        interrupt::watch(Some(folder.path()))?;
        Ok(folder)
    }

    /// Runs something on data in it: one of several runs has a directory of its own in it, which goes with the run.
    pub fn run<T>(
        &self,
        plan: &Plan,
        one: impl FnOnce(PathBuf) -> Result<T, String>,
    ) -> Result<T, String> {
        if plan.one().is_some() {
            return one(self.path().to_owned());
        }
        let data = self.path().join("run");
        let done = one(data.clone())?;
        std::fs::remove_dir_all(&data)
            .map_err(|error| format!("cannot remove {}: {error}", data.display()))?;
        Ok(done)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        match self {
            Folder::Given(path) | Folder::Temporary(path) => path,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Folder::Temporary(path) = self {
            // A failure here hides nothing.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}
