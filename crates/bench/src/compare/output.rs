//! Files that a comparison, or another measurement with a report, leaves: all of them, or none.
//!
//! Invariants: a file is written under another name beside its place, synced, and moved there whole.
//! Nothing is moved before everything has been written, and what stands beside goes in any case. Of a document only what stands between the
//! two marks is replaced.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::Result;

/// The lines between which a document has a report, by the section's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// It begins after this line.
    pub begin: &'static str,
    /// It ends before this one.
    pub end: &'static str,
}

impl Marks {
    /// Of a comparison.
    pub const COMPARE: Marks =
        Marks { begin: "<!-- compare:begin -->", end: "<!-- compare:end -->" };
    /// Of a sweep of intervals between checkpoints.
    pub const CHECKPOINTS: Marks =
        Marks { begin: "<!-- checkpoints:begin -->", end: "<!-- checkpoints:end -->" };
    /// Of the aims.
    pub const AIMS: Marks = Marks { begin: "<!-- aims:begin -->", end: "<!-- aims:end -->" };
}

/// A document with a place for the report: what stands before and after it.
pub struct Document {
    path: PathBuf,
    marks: Marks,
    before: String,
    after: String,
}

impl Document {
    /// Reads it. One that is not there begins empty, one without marks gets them at its end; marks
    /// that are not a pair are an error.
    pub fn read(path: &Path, marks: Marks) -> Result<Document> {
        let Marks { begin: begins, end: ends } = marks;
        let named = |what: &str| format!("{}: {what}", path.display());
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(named(&error.to_string())),
        };
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        if parent.is_some_and(|it| !it.is_dir()) {
            return Err(named("its folder is not there"));
        }
        let (before, after) = match (
            lines_of(&text, begins).as_slice(),
            lines_of(&text, ends).as_slice(),
        ) {
            ([], []) if text.is_empty() => (String::new(), "\n".to_owned()),
            ([], []) => (format!("{}\n\n", text.trim_end()), "\n".to_owned()),
            ([begin], [end]) if begin < end => {
                (text[..*begin].to_owned(), text[end + ends.len()..].to_owned())
            }
            ([_], [_]) => {
                return Err(named("the mark of the end stands before that of the begin"));
            }
            _ => {
                return Err(named(&format!(
                    "it must have {begins} and {ends} once each on lines of their own, or neither"
                )));
            }
        };
        Ok(Document { path: path.to_owned(), marks, before, after })
    }

    /// Its place.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole text, with this report.
    pub fn with(&self, report: &str) -> String {
        let (Marks { begin, end }, report) = (self.marks, report.trim_end());
        format!("{}{begin}\n{report}\n{end}{}", self.before, self.after)
    }
}

/// Where lines begin that are this mark; a text may speak of marks elsewhere.
fn lines_of(text: &str, mark: &str) -> Vec<usize> {
    let mut at = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        if line.trim_end() == mark {
            found.push(at);
        }
        at += line.len();
    }
    found
}

/// Files that are written, and not yet in their places.
#[derive(Default)]
pub struct Staged {
    files: Vec<(PathBuf, PathBuf)>,
}

impl Staged {
    /// Writes a file beside its place, where a file can go.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<()> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if path.is_dir() || path.file_name().is_none() {
            return Err(format!("{}: it is a folder", path.display()));
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".new-{}", std::process::id()));
        let beside = path.with_file_name(name);
        let mut file = std::fs::File::create(&beside).map_err(failed)?;
        self.files.push((beside, path.to_owned()));
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Moves all to their places, in the order in which they came.
    pub fn publish(mut self) -> Result<()> {
        let moved = self.files.iter().try_for_each(|(beside, path)| {
            std::fs::rename(beside, path).map_err(|error| format!("{}: {error}", path.display()))
        });
        if moved.is_ok() {
            self.files.clear();
        }
        moved
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for (beside, _) in &self.files {
            // What cannot be removed is no harm: nobody reads it.
            let _ = std::fs::remove_file(beside);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const BEGIN: &str = Marks::COMPARE.begin;
    const END: &str = Marks::COMPARE.end;

    fn document(text: &str) -> Result<Document> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doc.md");
        std::fs::write(&path, text).unwrap();
        Document::read(&path, Marks::COMPARE)
    }

    #[test]
    fn only_what_stands_between_the_marks_changes() {
        let first = document("# Head\n\ntext\n").unwrap().with("one\n");
        assert_eq!(first, format!("# Head\n\ntext\n\n{BEGIN}\none\n{END}\n"));
        let spoken = format!("between `{BEGIN}` and `{END}`");
        let between = format!("{spoken}\n{first}\n## After, {spoken}\n");
        let second = document(&between).unwrap().with("two\nlines");
        assert_eq!(second, between.replace("one", "two\nlines"));
        assert_eq!(document("").unwrap().with("one"), format!("{BEGIN}\none\n{END}\n"));
        let folder = tempfile::tempdir().unwrap();
        let fresh = Document::read(&folder.path().join("new.md"), Marks::COMPARE).unwrap();
        assert_eq!(fresh.with("one"), format!("{BEGIN}\none\n{END}\n"));
    }

    /// Two reports in a document: neither touches the other's place.
    #[test]
    fn each_report_has_its_own_marks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doc.md");
        let other = Marks { begin: "<!-- other:begin -->", end: "<!-- other:end -->" };
        std::fs::write(&path, document("# Head\n").unwrap().with("one")).unwrap();
        let both = Document::read(&path, other).unwrap().with("two");
        std::fs::write(&path, &both).unwrap();
        let again = Document::read(&path, Marks::COMPARE).unwrap().with("three");
        assert_eq!(again, both.replace("one", "three"));
        assert!(again.ends_with("<!-- other:begin -->\ntwo\n<!-- other:end -->\n"), "{again}");
    }

    #[test]
    fn broken_marks_are_refused() {
        let (begin, end) = (BEGIN, END);
        for text in [begin.to_owned(), end.to_owned(), format!("{begin}\n{begin}\n{end}")] {
            assert!(document(&text).err().unwrap().contains("once each"), "{text}");
        }
        assert!(document(&format!("{end}\n{begin}")).err().unwrap().contains("before that"));
        let nowhere = Document::read(Path::new("/nonexistent/doc.md"), Marks::COMPARE);
        assert!(nowhere.err().unwrap().contains("its folder is not there"));
    }

    #[test]
    fn all_files_come_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("b"), "old").unwrap();
        let mut staged = Staged::default();
        staged.add(&path("a"), "1").unwrap();
        staged.add(&path("b"), "2").unwrap();
        assert!(staged.add(&path("no/such"), "3").is_err());
        assert_eq!(std::fs::read_to_string(path("b")).unwrap(), "old");
        drop(staged);
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "b, as it was");
        let mut staged = Staged::default();
        staged.add(&path("a"), "1").unwrap();
        staged.add(&path("b"), "2").unwrap();
        staged.publish().unwrap();
        assert_eq!(std::fs::read_to_string(path("a")).unwrap(), "1");
        assert_eq!(std::fs::read_to_string(path("b")).unwrap(), "2");
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
    }
}
