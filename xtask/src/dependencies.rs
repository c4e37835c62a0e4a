//! Rules about dependencies (deny.toml says them): licences, sources, duplicates, reasons.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::run::{Result, cargo};

/// Licences a dependency may be used under; one alternative of an expression is enough.
const LICENCES: [&str; 10] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "CC0-1.0",
    "PostgreSQL",
    "Unlicense",
];

/// Crates that may be there in more than one version, with the reason.
const DUPLICATES_ALLOWED: [(&str, &str); 3] = [
    ("shlex", "build scripts only: bindgen and cc have not agreed yet"),
    ("wasi", "another platform's; in no binary here"),
    ("winnow", "toml and its writer have not agreed yet; small"),
];

/// Checks what `cargo metadata` and the manifests say.
pub fn check(root: &Path) -> Result<()> {
    let mut command = cargo(root, &["metadata", "--format-version", "1", "--locked"]);
    let output = command.output().map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("metadata without packages")?;
    let mut findings = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or("?");
        let Some(source) = package["source"].as_str() else { continue };
        if !source.starts_with("registry+https://github.com/rust-lang/crates.io-index") {
            findings.push(format!("{name}: comes from {source}, not from crates.io"));
        }
        let licence = package["license"].as_str().unwrap_or("none");
        if !licence_is_allowed(licence) {
            findings.push(format!("{name}: licence \"{licence}\" is not on the list"));
        }
        versions.entry(name).or_default().push(package["version"].as_str().unwrap_or("?"));
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        if !is_build_only(name) && !DUPLICATES_ALLOWED.iter().any(|(allowed, _)| allowed == name) {
            findings.push(format!(
                "{name}: in {} versions: {}",
                versions.len(),
                versions.join(", ")
            ));
        }
    }
    reasons(root, &mut findings)?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("dependencies: {} packages, nothing to say", packages.len());
        return Ok(());
    }
    Err(format!("{} findings", findings.len()))
}

/// Crates that only build scripts, other platforms or tests bring in; they are in no binary.
fn is_build_only(name: &str) -> bool {
    name.starts_with("windows") || ["syn", "hashbrown", "getrandom", "itertools"].contains(&name)
}

fn licence_is_allowed(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    plain.split(" OR ").any(|alternative| {
        alternative.split(" AND ").all(|part| {
            let licence = part.split(" WITH ").next().unwrap_or("").trim();
            LICENCES.contains(&licence)
        })
    })
}

/// Every dependency has its reason on the line above it.
fn reasons(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let mut manifests = vec![root.join("xtask/Cargo.toml")];
    for entry in std::fs::read_dir(root.join("crates")).map_err(|error| error.to_string())? {
        manifests.push(entry.map_err(|error| error.to_string())?.path().join("Cargo.toml"));
    }
    for manifest in manifests {
        let text = std::fs::read_to_string(&manifest)
            .map_err(|error| format!("{}: {error}", manifest.display()))?;
        let (mut inside, mut before) = (false, "");
        for line in text.lines() {
            if line.starts_with('[') {
                inside = line.contains("dependencies");
            } else if inside
                && line.contains('=')
                && !line.starts_with(['#', ' '])
                && !line.starts_with("atoll")
                && !before.starts_with('#')
            {
                findings.push(format!("{}: no reason above \"{line}\"", manifest.display()));
            }
            before = line;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_allowed_alternative_is_enough() {
        assert!(licence_is_allowed("MIT OR Apache-2.0"));
        assert!(licence_is_allowed("(MIT OR GPL-3.0) "));
        assert!(licence_is_allowed("Apache-2.0 WITH LLVM-exception OR MIT"));
        assert!(licence_is_allowed("MIT AND BSD-3-Clause"));
        assert!(!licence_is_allowed("GPL-3.0"));
        assert!(!licence_is_allowed("MIT AND GPL-3.0"));
    }
}
