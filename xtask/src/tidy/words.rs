//! Headers that must be there and words that must not.

use super::Finding;
use super::source::{Source, Tree};

/// Places where `unsafe` is allowed (style rule 9).
const UNSAFE: [&str; 9] = [
    "crates/kernel/src/sync/",
    "crates/kernel/src/io/",
    "crates/kernel/src/latch/",
    "crates/kernel/src/page/",
    "crates/kernel/src/runtime/",
    "crates/kernel/src/buffer/",
    "crates/kernel/src/version/",
    "crates/sql/src/parse/",
    "xtask/",
];

/// A banned text, where it is allowed all the same, and what to do instead.
const BANNED: [(&str, &[&str], &str); 8] = [
    ("std::sync::atomic", &["crates/kernel/src/sync/"], "atomics come from `kernel::sync`"),
    ("static mut", &[], "no globals: state hangs from `Database`"),
    ("todo!(", &[], "finish it, or refuse clearly"),
    ("unimplemented!(", &[], "finish it, or refuse clearly"),
    ("to_ne_bytes", &[], "formats are little-endian"),
    ("from_ne_bytes", &[], "formats are little-endian"),
    ("println!(\"DEBUG", &[], "no debugging output"),
    ("FIXME", &[], "mend it or write an issue"),
];

/// Appends what is missing or banned.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in &tree.files {
        if file.path.starts_with("xtask/src/tidy/") {
            continue;
        }
        header(file, findings);
        banned(file, findings);
        ignored(file, findings);
    }
}

fn header(file: &Source, findings: &mut Vec<Finding>) {
    if !file.lines.first().is_some_and(|line| line.starts_with("//!")) {
        findings.push(Finding {
            file: file.path.clone(),
            line: 1,
            message: "begin with `//!`: what it is, its invariants, who may call it".to_owned(),
        });
    }
}

fn banned(file: &Source, findings: &mut Vec<Finding>) {
    for (line, code) in file.code() {
        for (text, allowed, instead) in BANNED {
            if code.contains(text) && !allowed.iter().any(|place| file.path.starts_with(place)) {
                let message = format!("`{text}`: {instead}");
                findings.push(Finding { file: file.path.clone(), line, message });
            }
        }
        let has_unsafe =
            code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == "unsafe");
        if has_unsafe
            && !code.contains("unsafe_op_in_unsafe_fn")
            && !UNSAFE.iter().any(|place| file.path.starts_with(place))
        {
            let message = "`unsafe` is not allowed in this place (style rule 9)".to_owned();
            findings.push(Finding { file: file.path.clone(), line, message });
        }
    }
}

fn ignored(file: &Source, findings: &mut Vec<Finding>) {
    for (at, line) in file.lines.iter().enumerate() {
        if line.trim_start().starts_with("#[ignore") {
            let message = "no test is switched off: mend it or delete it".to_owned();
            findings.push(Finding { file: file.path.clone(), line: at + 1, message });
        }
    }
}
