//! A file of acknowledged transactions: a line for each, to be looked for after the server has died.
//!
//! Invariants: a line is one write(2) to a file opened for appending, after the acknowledgement and
//! before the client's next transaction, so lines of several clients do not mix, and what is in the
//! file outlives the server (it is not synced: it does not outlive the machine). A file is of one
//! run, and begins with a line that says of which workload.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::Result;

/// A file that is being written.
pub struct Record {
    file: File,
    path: PathBuf,
}

impl Record {
    /// A new file.
    pub fn create(path: &Path, workload: &str) -> Result<Record> {
        let file = File::options().create_new(true).append(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => format!("{}: it is there already", path.display()),
            _ => format!("{}: {error}", path.display()),
        })?;
        let record = Record { file, path: path.to_owned() };
        record.add(&title(workload))?;
        Ok(record)
    }

    /// Puts a line down.
    pub fn add(&self, line: &str) -> Result<()> {
        let written = (&self.file).write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// The lines of a file of this workload, with their places as "FILE:7".
    pub fn read(path: &Path, workload: &str) -> Result<Vec<(String, String)>> {
        let failed = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        let Some(whole) = text.strip_suffix('\n') else {
            return Err(failed(&"its last line has no end"));
        };
        let mut lines = whole.split('\n');
        if lines.next() != Some(title(workload).as_str()) {
            return Err(failed(&format!("it is no record of {workload}'s transactions")));
        }
        let place = |number: usize| format!("{}:{number}", path.display());
        Ok(lines.zip(2..).map(|(line, number)| (place(number), line.to_owned())).collect())
    }
}

/// The first line; a change of what follows changes the number.
fn title(workload: &str) -> String {
    format!("# transactions of {workload} that were acknowledged, form 1")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let record = Record::create(&path, "tpcc").unwrap();
        assert_eq!(Record::read(&path, "tpcc"), Ok(Vec::new()));
        record.add("one").unwrap();
        record.add("two").unwrap();
        let read = Record::read(&path, "tpcc").unwrap();
        assert_eq!((read.len(), read[1].1.as_str()), (2, "two"));
        assert!(read[1].0.ends_with("record:3"), "{read:?}");
        assert!(Record::create(&path, "tpcc").is_err_and(|it| it.contains("there already")));
        assert!(Record::read(&path, "ycsb").is_err_and(|it| it.contains("no record of ycsb")));
        (&record.file).write_all(b"thr").unwrap();
        assert!(Record::read(&path, "tpcc").is_err_and(|it| it.contains("has no end")));
    }
}
