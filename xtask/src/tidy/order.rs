//! Who may use whom: crates by their manifests, kernel modules by the paths they name.

use std::path::Path;

use super::Finding;
use super::source::Tree;
use crate::run::Result;

/// A crate may depend only on crates before it.
const CRATES: [&str; 6] = ["kernel", "sql", "server", "sim", "bench", "atoll"];

/// A kernel module may use only modules before it.
pub const MODULES: [&str; 16] = [
    "base",
    "sync",
    "io",
    "latch",
    "page",
    "runtime",
    "buffer",
    "tree",
    "version",
    "log",
    "txn",
    "catalog",
    "checkpoint",
    "recovery",
    "backup",
    "api",
];

/// Appends what is out of order.
pub fn check(root: &Path, tree: &Tree, findings: &mut Vec<Finding>) -> Result<()> {
    for (at, name) in CRATES.iter().enumerate() {
        let file = format!("crates/{name}/Cargo.toml");
        let text = std::fs::read_to_string(root.join(&file)).map_err(|e| format!("{file}: {e}"))?;
        for (number, line) in text.lines().enumerate() {
            let Some(rest) = line.strip_prefix("atoll-") else { continue };
            let other: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
            if !CRATES[..at].contains(&other.as_str()) {
                findings.push(Finding {
                    file: file.clone(),
                    line: number + 1,
                    message: format!("`{name}` may not depend on `{other}`: it comes after it"),
                });
            }
        }
    }
    for file in &tree.files {
        let Some(inside) = file.path.strip_prefix("crates/kernel/src/") else { continue };
        let module = inside.split(['/', '.']).next().unwrap_or("");
        let Some(rank) = MODULES.iter().position(|name| *name == module) else { continue };
        if file.is_test() {
            continue;
        }
        for (number, code) in file.code() {
            for piece in code.split("crate::").skip(1) {
                let name: String =
                    piece.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                if MODULES.iter().position(|other| *other == name).is_some_and(|it| it > rank) {
                    findings.push(Finding {
                        file: file.path.clone(),
                        line: number,
                        message: format!("kernel module `{module}` may not use `{name}`"),
                    });
                }
            }
        }
    }
    Ok(())
}
