//! The tree's Rust files, read once as text.

use std::path::Path;

use crate::run::Result;

/// One file.
pub struct Source {
    /// Path from the root, with `/`.
    pub path: String,
    /// Its lines.
    pub lines: Vec<String>,
    /// The first line that belongs to tests (`#[cfg(test)]`), or the number of lines.
    pub tests_from: usize,
}

/// All files.
pub struct Tree {
    /// In order of path.
    pub files: Vec<Source>,
}

impl Tree {
    /// Reads `crates`, `xtask` and `tests` under `root`.
    pub fn read(root: &Path) -> Result<Tree> {
        let mut files = Vec::new();
        for top in ["crates", "xtask", "tests"] {
            collect(root, &root.join(top), &mut files)?;
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<Source>) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(root, &path, files)?;
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let tests = lines.iter().position(|line| {
                let line = line.trim();
                line.starts_with("#[cfg(test)]")
                    || line.starts_with("#[cfg(all(test")
                    || line.starts_with("#[cfg(loom)]")
            });
            let relative = path.strip_prefix(root).expect("found under the root");
            files.push(Source {
                path: relative.to_string_lossy().replace('\\', "/"),
                tests_from: tests.unwrap_or(lines.len()),
                lines,
            });
        }
    }
    Ok(())
}

impl Source {
    /// The lines outside tests and comments, with their numbers from 1.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.lines[..self.tests_from].iter().enumerate();
        lines.filter_map(|(at, line)| {
            let code = line.split("//").next().unwrap_or("");
            (!code.trim().is_empty()).then_some((at + 1, code))
        })
    }

    /// Whether the whole file is tests.
    pub fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or("");
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.contains("/examples/")
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
            || name.starts_with("loom_")
            || name == "models.rs"
    }
}
