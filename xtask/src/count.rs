//! What runners wrote: how many tests passed and failed, and which failed and why.
//!
//! Invariants: a run without a closing line, or with no test, is an error; a run that failed without
//! counting a failure counts as one. What names a failure is kept, so that whoever sees no more than
//! the end of a long output knows what to run again.

use crate::run::Result;

/// Lines kept of one run's failures, and characters of one of them.
const KEPT: usize = 20;
const LINE_MAX: usize = 300;
/// Lines kept of a run that failed and names no failure.
const LAST_LINES: usize = 6;

/// Tests counted by one stage.
#[derive(Clone, Default)]
pub struct Count {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// The lines that tell of failures.
    pub failures: Vec<String>,
}

impl Count {
    /// One test, which passed.
    pub fn passed() -> Self {
        Count { passed: 1, ..Count::default() }
    }

    /// One test, which failed as the message says.
    pub fn failed(message: String) -> Self {
        Count { passed: 0, failed: 1, failures: vec![message] }
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
    }
}

/// Sums the closing lines of test runners: `test result: ok. 3 passed; 0 failed; ...` and plain
/// `3 passed, 0 failed`. A run without any such line, or with no test, is an error.
pub fn counted(text: &str, succeeded: bool) -> Result<Count> {
    let mut count = Count::default();
    for line in text.lines() {
        let plain = line.ends_with(" failed") && line.contains(" passed, ");
        if line.starts_with("test result: ") || plain {
            count.passed += number_before(line, " passed");
            count.failed += number_before(line, " failed");
        }
    }
    if count.passed + count.failed == 0 {
        return Err("ran no test".to_owned());
    }
    if !succeeded && count.failed == 0 {
        count.failed = 1;
    }
    if count.failed > 0 {
        count.failures = failures(text);
        if count.failures.is_empty() {
            count.failures = last_lines(text);
        }
    }
    Ok(count)
}

/// How a run ended that names no failure.
fn last_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(|line| cut(line));
    std::iter::once("it names no failure; its last lines:".to_owned()).chain(last).collect()
}

fn cut(line: &str) -> String {
    line.chars().take(LINE_MAX).collect()
}

fn number_before(line: &str, word: &str) -> u64 {
    let before = line.split(word).next().unwrap_or("");
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
    digits.parse().unwrap_or(0)
}

/// Names of tests that failed, panics with their messages, seeds and images with a complaint, rare
/// states never met.
fn failures(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let named = ["seed ", "image ", "never met: "].iter().any(|it| line.starts_with(it));
        let panicked = line.starts_with("thread '") && line.contains(" panicked at ");
        if line.ends_with("... FAILED") || named || panicked {
            found.push(cut(line));
        }
        if panicked && let Some(message) = lines.peek() {
            found.push(format!("  {}", cut(message)));
        }
    }
    found.truncate(KEPT);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_summed() {
        let text =
            "test result: ok. 3 passed; 1 failed; 0 ignored; 0 measured\n12 passed, 0 failed\n";
        let count = counted(text, false).expect("two closing lines");
        assert_eq!((count.passed, count.failed), (15, 1));
        assert!(counted("nothing\n", true).is_err());
        let count = counted("2 passed, 0 failed\nerror: it was killed\n", false).expect("one line");
        assert_eq!((count.failed, count.failures.len()), (1, 3));
        assert_eq!(count.failures[2], "error: it was killed");
    }

    #[test]
    fn what_failed_is_kept_with_its_reason() {
        let text = "test a::b ... ok\ntest a::c ... FAILED\nthread 'a::c' (17) panicked at x.rs:1:2:\n\
                    left is not right\nseed 17: a row is gone\n  replay: ...\n2 passed, 2 failed\n";
        let count = counted(text, false).expect("a closing line");
        let expected = [
            "test a::c ... FAILED",
            "thread 'a::c' (17) panicked at x.rs:1:2:",
            "  left is not right",
            "seed 17: a row is gone",
        ];
        assert_eq!(count.failures, expected);
        assert!(
            counted("seed 1 ran\n2 passed, 0 failed\n", true)
                .expect("it passed")
                .failures
                .is_empty()
        );
    }
}
