//! With feature `ledger`: takes the crate's sources into the crate, so that the ledger can name a
//! site by its function and expression, which stay when lines move (`sync::ledger::names`).
//! Without it: nothing.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_LEDGER").is_none() {
        return;
    }
    println!("cargo:rerun-if-changed=src");
    let crate_dir = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&crate_dir.join("src"), &mut files);
    files.sort();
    let mut code = "pub(super) const SOURCES: &[(&str, &str)] = &[\n".to_owned();
    for file in files {
        let name = file.strip_prefix(&crate_dir).expect("the folder was read from there");
        writeln!(code, "    ({:?}, include_str!({file:?})),", name.display().to_string())
            .expect("a string takes everything");
    }
    code.push_str("];\n");
    let out = PathBuf::from(variable("OUT_DIR")).join("sources.rs");
    std::fs::write(&out, code).expect("cargo gives a folder to write to");
}

fn variable(name: &str) -> String {
    std::env::var(name).expect("cargo sets it")
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().expect("the crate has sources") {
        let path = entry.expect("a folder of the crate can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
