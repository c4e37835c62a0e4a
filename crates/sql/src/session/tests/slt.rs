//! sqllogictest files: our own in `tests/sql`, and the shared corpus where its folder is there.
//!
//! Understood: `statement ok|error [SQLSTATE]|count N`, `query TYPES [sort]`, `query error`, `skipif`,
//! `onlyif`, `halt`, `control sortmode`. Each file has a database of its own. Values are compared as
//! the common runners do: blanks between them are all the same, NULL is `NULL`, an empty text
//! `(empty)`.

use super::*;
use std::path::{Path, PathBuf};

/// One record of a file.
#[derive(Debug, Default)]
struct Record {
    line: usize,
    /// The first line, in words.
    head: Vec<String>,
    sql: String,
    expect: Vec<String>,
    skip: bool,
}

fn records(text: &str) -> Vec<Record> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    let mut skip = false;
    while let Some((number, line)) = lines.next() {
        let head: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match head.first().map(String::as_str) {
            None => continue,
            Some(word) if word.starts_with('#') => continue,
            Some("halt") => break,
            Some("skipif") => skip |= head[1] == "postgres" || head[1] == "atoll",
            Some("onlyif") => skip |= head[1] != "postgres" && head[1] != "atoll",
            Some("statement" | "query") => {
                let mut record = Record { line: number + 1, head, skip, ..Record::default() };
                skip = false;
                let mut results = false;
                for (_, line) in lines.by_ref() {
                    match line.trim_end() {
                        "" => break,
                        "----" => results = true,
                        line if results => record.expect.push(line.to_owned()),
                        line => {
                            record.sql.push_str(line);
                            record.sql.push('\n');
                        }
                    }
                }
                found.push(record);
            }
            Some(_) => found.push(Record { line: number + 1, head, ..Record::default() }),
        }
    }
    found
}

/// What became of the records of a file.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    refused: usize,
    wrong: Vec<String>,
}

fn normal(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn sorted(mut rows: Vec<String>, mode: &str) -> Vec<String> {
    match mode {
        "rowsort" => rows.sort(),
        "valuesort" => {
            rows = rows.iter().flat_map(|row| row.split(' ')).map(str::to_owned).collect();
            rows.sort();
        }
        _ => {}
    }
    rows
}

/// The rows of a query's answer, their values parted by blanks.
fn rows_of(said: &[String]) -> Vec<String> {
    let value =
        |value: &str| if value.is_empty() { "(empty)".to_owned() } else { value.to_owned() };
    let rows = said[1..said.len().max(2) - 1].iter();
    rows.map(|row| normal(&row.split('|').map(value).collect::<Vec<_>>().join(" "))).collect()
}

fn run(context: &Context, session: &mut Session, text: &str) -> Tally {
    let (mut tally, mut mode) = (Tally::default(), "nosort".to_owned());
    for record in records(text) {
        let head: Vec<&str> = record.head.iter().map(String::as_str).collect();
        if let ["control", "sortmode", wanted] = head[..] {
            mode = wanted.to_owned();
        }
        if record.skip || !matches!(head[0], "statement" | "query") {
            continue;
        }
        let sql = record.sql.trim().trim_end_matches(';');
        let said = say(context, session, sql);
        let error = said.iter().find(|line| line.starts_with("ERROR"));
        let fits = match (head[0], head.get(1).copied(), error) {
            (_, Some("error"), error) => {
                let is_code = |word: &&&str| word.len() == 5 && word.ends_with(char::is_numeric);
                let code = head.get(2).filter(is_code).map(|code| format!("ERROR {code}"));
                error.is_some_and(|error| code.is_none_or(|code| error.starts_with(&code)))
            }
            (_, _, Some(error)) if error.starts_with("ERROR 0A000") => {
                tally.refused += 1;
                continue;
            }
            (_, _, Some(_)) => false,
            ("statement", Some("count"), None) => {
                said.last().and_then(|tag| tag.split(' ').next_back()) == head.get(2).copied()
            }
            ("statement", _, None) => true,
            _ => {
                let own = head.get(2).copied().filter(|word| word.ends_with("sort"));
                let mode = own.unwrap_or(&mode);
                let expect = record.expect.iter().map(|line| normal(line)).collect();
                let (said, expect) = (sorted(rows_of(&said), mode), sorted(expect, mode));
                said == expect || said.join(" ") == expect.join(" ")
            }
        };
        if fits {
            tally.passed += 1;
        } else {
            tally.wrong.push(format!("line {}: {sql}\n  said: {said:?}", record.line));
        }
    }
    tally
}

fn run_file(text: String) -> Tally {
    let (sender, receiver) = std::sync::mpsc::channel();
    with_session(move |context, session| sender.send(run(context, session, &text)).unwrap());
    receiver.recv().unwrap()
}

/// The tree that is being tested, whichever clone of it this is.
fn root() -> PathBuf {
    let crate_ = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    Path::new(&crate_).ancestors().nth(2).unwrap().to_owned()
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
}

#[test]
fn our_own_files_pass() {
    let mut own = Vec::new();
    files(&root().join("tests/sql"), ".slt", &mut own);
    assert!(!own.is_empty());
    for path in own {
        let tally = run_file(std::fs::read_to_string(&path).unwrap());
        assert!(tally.wrong.is_empty(), "{}\n{}", path.display(), tally.wrong.join("\n"));
        assert!(tally.refused == 0 && tally.passed > 0, "{}: {tally:?}", path.display());
    }
}

/// Records of the shared corpus that pass; may only grow.
const CORPUS_PASSES: usize = 2628;

#[test]
fn the_shared_corpus_passes_as_far_as_it_did() {
    let places = ["../shared/data/slt", "../../shared/data/slt"];
    let Some(folder) = places.iter().map(|it| root().join(it)).find(|it| it.is_dir()) else {
        return;
    };
    let mut corpus = Vec::new();
    files(&folder, ".test.gz", &mut corpus);
    let (mut passed, mut refused, mut wrong) = (0, 0, Vec::new());
    for path in corpus {
        let unpacked = std::process::Command::new("gzip").arg("-dc").arg(&path).output().unwrap();
        let tally = run_file(String::from_utf8(unpacked.stdout).unwrap());
        passed += tally.passed;
        refused += tally.refused;
        // What follows a refused definition fails with it.
        if tally.refused == 0 && !tally.wrong.is_empty() {
            wrong.push(format!("{}\n{}", path.display(), tally.wrong.join("\n")));
        }
    }
    let told = wrong.join("\n\n");
    println!("{passed} passed, {refused} were refused\n{told}");
    assert!(passed >= CORPUS_PASSES, "{passed} passed, {refused} were refused\n{told}");
}
