//! What is not to be served: serving and checking refuse it, and not a byte of it changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::atoll;

/// Every file in a folder and below with its bytes, and every folder.
pub fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
            found.insert(path, Vec::new());
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// `atoll check`.
pub fn check(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.arg("check").arg(data).args(["--buffer-pool-mib", "64"]);
    command
}

/// `atoll serve` on a free port.
pub fn serve(data: &Path) -> Command {
    let mut command = atoll(data);
    command.args(["--listen", "127.0.0.1:0", "--log-segment", "4MB"]);
    command
}

/// Serving and checking both refuse, with all of `words`, and leave everything as it is.
#[track_caller]
pub fn refused(data: &Path, words: &[&str]) {
    let before = content(data);
    for mut command in [serve(data), check(data)] {
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {told}");
        for word in words {
            assert!(told.contains(word), "{command:?} says no {word:?}: {told}");
        }
        let after = content(data);
        for (path, bytes) in &before {
            assert!(after.get(path) == Some(bytes), "{command:?} changed {}", path.display());
        }
        assert_eq!(after.len(), before.len(), "{command:?} made {:?}", after.keys());
    }
}

/// The manifests of a directory, by name.
pub fn manifests(data: &Path) -> Vec<PathBuf> {
    let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST.");
    content(data).into_keys().filter(is_manifest).collect()
}

/// CRC-32C, bit by bit.
pub fn checksum(bytes: &[u8]) -> u32 {
    let step =
        |sum: u32| (0..8).fold(sum, |sum, _| sum >> 1 ^ (0x82f6_3b78 & (sum & 1).wrapping_neg()));
    !bytes.iter().fold(!0, |sum, byte| step(sum ^ u32::from(*byte)))
}
