//! `atoll bench` as a program that runs to its end.

use std::process::{Command, Output};

/// Runs it.
pub fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.arg("bench").args(arguments).output().unwrap()
}

/// It fails, with one line that says what the matter is.
pub fn fails(arguments: &[&str], expect: &str) {
    let output = bench(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {text}");
    let said: Vec<&str> = text.lines().filter(|line| !line.starts_with('*')).collect();
    assert!(matches!(&said[..], [line] if line.contains(expect)), "{arguments:?}: {text}");
}
