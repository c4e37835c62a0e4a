//! Memory before a start, and after a kill.
//!
//! Where the machine is a virtual one, its host backs memory when it is touched first, which may take
//! seconds a gibibyte: that would fall on the server that comes first. And a server that was killed leaves
//! what its processes shared, which nobody else removes.
//!
//! Invariants: what is touched has gone back to the system when `touch` answers. Only what processes of the
//! killed server had mapped is removed, by its name or number.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::compare::Result;
use crate::compare::process::{self, Watch};
use crate::cpu;

/// What is touched between two looks at the watch; large enough that the allocator maps each by itself, and
/// gives it back when it is freed.
const PIECE_BYTES: u64 = 64 << 20;

/// What the names of PostgreSQL's begin with. Data may lie on the same file system, and be mapped as well.
const POSIX: &str = "/dev/shm/PostgreSQL.";

/// Writes to so much memory, and frees it.
pub fn touch(bytes: u64, watch: &Watch<'_>) -> Result<()> {
    let (mut pieces, mut left) = (Vec::new(), bytes);
    while left > 0 {
        let size = left.min(PIECE_BYTES);
        let mut piece: Vec<u8> = Vec::new();
        let room = usize::try_from(size).map_err(|error| error.to_string())?;
        piece.try_reserve_exact(room).map_err(|error| format!("touching memory: {error}"))?;
        piece.resize(room, 1);
        pieces.push(std::hint::black_box(piece));
        left -= size;
        watch.check()?;
    }
    Ok(())
}

/// Memory that processes of a server share.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// POSIX's, by the names of their files.
    files: Vec<PathBuf>,
    /// System V's, by their numbers.
    segments: Vec<u64>,
}

impl Shared {
    /// What a process and its descendants have mapped.
    pub fn of(pid: u32) -> Shared {
        let mut shared = Shared::default();
        for pid in cpu::tree(pid) {
            shared.add(&process::read(Path::new(&format!("/proc/{pid}/maps"))));
        }
        shared
    }

    /// /proc/PID/maps: `from-to rights offset device inode path`; System V's have their number for an inode.
    fn add(&mut self, maps: &str) {
        for line in maps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, rights, _, _, inode, path, rest @ ..] = words.as_slice() else { continue };
            let is_gone = rest == ["(deleted)"];
            if path.starts_with("/SYSV") {
                let number = inode.parse().ok().filter(|it| !self.segments.contains(it));
                self.segments.extend(number);
            } else if path.starts_with(POSIX) && rights.ends_with('s') && !is_gone {
                let file = PathBuf::from(path);
                if rest.is_empty() && !self.files.contains(&file) {
                    self.files.push(file);
                }
            }
        }
    }

    /// Removes it. What cannot be is left: it hides nothing.
    pub fn remove(self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
        for number in &self.segments {
            let mut remove = Command::new("ipcrm");
            remove.args(["-m", &number.to_string()]);
            let _ =
                remove.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::compare::process::Wish;

    #[test]
    fn what_is_shared_is_found_by_name_and_number() {
        let maps = "7f00-7f01 rw-s 00000000 00:01 32774 /SYSV0052e2c1 (deleted)\n\
                    7f02-7f03 rw-s 00000000 00:15 44 /dev/shm/PostgreSQL.123\n\
                    7f04-7f05 rw-s 00000000 00:15 45 /dev/shm/PostgreSQL.9 (deleted)\n\
                    7f06-7f07 r--p 00000000 00:15 46 /dev/shm/a/program\n\
                    7f06-7f07 rw-s 00000000 00:15 46 /dev/shm/a/data\n\
                    7f08-7f09 rw-s 00000000 00:01 1 /dev/zero (deleted)\n\
                    7f0a-7f0b rw-p 00000000 00:00 0\n7f0c-7f0d r-xp 0 08:01 7 /usr/lib/libc.so\n";
        let mut shared = Shared::default();
        shared.add(maps);
        shared.add(maps);
        let files = vec![PathBuf::from("/dev/shm/PostgreSQL.123")];
        assert_eq!(shared, Shared { files, segments: vec![32774] });
    }

    #[test]
    fn files_of_it_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let [its, other] = ["its", "other"].map(|name| folder.path().join(name));
        for file in [&its, &other] {
            std::fs::write(file, "").unwrap();
        }
        Shared { files: vec![its.clone()], segments: Vec::new() }.remove();
        assert!(!its.exists() && other.exists());
    }

    #[test]
    fn touching_ends_when_it_is_asked_to() {
        let more_than_a_piece = PIECE_BYTES + 1;
        assert_eq!(touch(more_than_a_piece, &Watch::new(&|| Wish::GoOn)), Ok(()));
        let asked = std::cell::Cell::new(0);
        let ends = || {
            asked.set(asked.get() + 1);
            Wish::End
        };
        let ended = touch(more_than_a_piece, &Watch::new(&ends)).unwrap_err();
        assert!(ended.contains("interrupted"), "{ended}");
        assert_eq!(asked.get(), 1, "after the first piece");
    }
}
