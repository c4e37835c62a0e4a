//! Sizes: files up to 600 lines, functions up to 70, folders up to 20 files. What is longer is
//! listed in xtask/sizes.txt with its size, and may only shrink.

use std::collections::BTreeMap;
use std::path::Path;

use super::Finding;
use super::source::{Source, Tree};
use crate::run::Result;

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const FOLDER_FILES_MAX: usize = 20;
const LIST: &str = "xtask/sizes.txt";

/// Appends what is larger than allowed, or larger than listed, or listed but smaller by now.
pub fn check(root: &Path, tree: &Tree, findings: &mut Vec<Finding>) -> Result<()> {
    let listed = read(root)?;
    let found = measure(tree);
    for (name, (size, line)) in &found {
        let allowed = listed.get(name).copied().unwrap_or(0);
        if *size > allowed {
            findings.push(Finding {
                file: name.split('#').next().unwrap_or(name).to_owned(),
                line: *line,
                message: format!("{name} has {size} lines or files; listed: {allowed}"),
            });
        }
    }
    for name in listed.keys().filter(|name| !found.contains_key(*name)) {
        let message = format!("{name} is no longer too large: run `cargo xtask bless`");
        findings.push(Finding { file: LIST.to_owned(), line: 0, message });
    }
    Ok(())
}

/// Rewrites the list; refuses to let an entry grow or a new one in.
pub fn bless(root: &Path, tree: &Tree) -> Result<()> {
    let listed = read(root)?;
    let first = !root.join(LIST).exists();
    let mut text = String::from("# What is larger than it should be. Entries may only shrink.\n");
    for (name, (size, _)) in measure(tree) {
        let allowed = listed.get(&name).copied();
        if !first && allowed.is_none_or(|allowed| size > allowed) {
            return Err(format!("{name} has {size}: move walls first, the list only shrinks"));
        }
        text.push_str(&format!("{name} {size}\n"));
    }
    std::fs::write(root.join(LIST), text).map_err(|error| format!("{LIST}: {error}"))
}

fn read(root: &Path) -> Result<BTreeMap<String, usize>> {
    let Ok(text) = std::fs::read_to_string(root.join(LIST)) else { return Ok(BTreeMap::new()) };
    let mut listed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, size) = line.rsplit_once(' ').ok_or(format!("{LIST}: \"{line}\""))?;
        let size = size.parse().map_err(|_| format!("{LIST}: \"{line}\""))?;
        listed.insert(name.to_owned(), size);
    }
    Ok(listed)
}

fn measure(tree: &Tree) -> BTreeMap<String, (usize, usize)> {
    let mut found = BTreeMap::new();
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &tree.files {
        let lines = if file.is_test() { file.lines.len() } else { file.tests_from };
        if lines > FILE_LINES_MAX {
            found.insert(file.path.clone(), (lines, 1));
        }
        functions(file, &mut found);
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder).or_default() += 1;
    }
    for (folder, files) in folders {
        if files > FOLDER_FILES_MAX {
            found.insert(format!("{folder}/"), (files, 0));
        }
    }
    found
}

/// Functions are measured by indentation, which rustfmt makes reliable: from the line with `fn`
/// to the first `}` at the same depth.
fn functions(file: &Source, found: &mut BTreeMap<String, (usize, usize)>) {
    for at in 0..file.tests_from {
        let line = &file.lines[at];
        let code = line.trim_start();
        let depth = line.len() - code.len();
        let words: Vec<&str> = code.split([' ', '(', '<']).collect();
        let Some(fn_at) = words.iter().position(|word| *word == "fn") else { continue };
        let starts = ["pub", "fn", "unsafe", "const", "extern", "async"];
        if code.starts_with("//") || !starts.iter().any(|start| code.starts_with(start)) {
            continue;
        }
        // A trait's function without a body ends where it is declared.
        let ends = |line: &&String| line.ends_with(['{', ';', '}']);
        if file.lines[at..].iter().find(ends).is_some_and(|line| line.ends_with(';')) {
            continue;
        }
        let close = format!("{}}}", " ".repeat(depth));
        let end = file.lines[at..].iter().position(|line| *line == close);
        if let Some(lines) = end.map(|end| end + 1).filter(|lines| *lines > FUNCTION_LINES_MAX) {
            let name = words.get(fn_at + 1).unwrap_or(&"");
            found.insert(format!("{}#{name}", file.path), (lines, at + 1));
        }
    }
}
