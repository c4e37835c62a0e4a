//! What could not be read and was done without.
//!
//! Invariants: everything is counted, and why is kept of the first ones only, so that a file that is gone as a whole
//! takes no memory. Whoever does without something adds it here, and whoever owns the list tells people: damage is
//! never passed over silently.

use super::{Error, Result};

/// Of how many it is kept why.
const WHY_MAX: usize = 32;

/// Things that could not be read, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    count: u64,
    why: Vec<Error>,
}

impl Unread {
    /// Something could not be read, for this reason.
    pub fn add(&mut self, why: Error) {
        self.count += 1;
        if self.why.len() < WHY_MAX {
            self.why.push(why);
        }
    }

    /// Takes what `other` has.
    pub fn take(&mut self, other: Unread) {
        self.count += other.count;
        let room = WHY_MAX - self.why.len();
        self.why.extend(other.why.into_iter().take(room));
    }

    /// Adds the error if it is `Corrupt` or `Io`, and answers none then; another is passed on.
    pub fn note<T>(&mut self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(why) if why.is_unreadable() => {
                self.add(why);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Why the first ones could not be read.
    pub fn why(&self) -> &[Error] {
        &self.why
    }

    /// A line each for people: `what`, and why; a last one counts those that are not told of.
    pub fn lines(&self, what: &str) -> Vec<String> {
        let mut lines: Vec<String> = self.why.iter().map(|why| format!("{what}: {why}")).collect();
        let more = self.count - self.why.len() as u64;
        if more > 0 {
            lines.push(format!("{what}: {more} more"));
        }
        lines
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn damage(n: usize) -> Error {
        Error::Corrupt { page: None, detail: format!("page {n}") }
    }

    #[test]
    fn all_are_counted_and_some_told() {
        let mut unread = Unread::default();
        assert!(unread.is_empty() && unread.lines("x").is_empty());
        assert_eq!(unread.note(Ok(7)), Ok(Some(7)));
        assert_eq!(unread.note::<()>(Err(Error::Cancelled)), Err(Error::Cancelled));
        assert!(unread.is_empty());
        assert_eq!(unread.note::<()>(Err(damage(0))), Ok(None));
        (1..WHY_MAX - 1).for_each(|n| unread.add(damage(n)));
        let mut others = Unread::default();
        (0..3).for_each(|n| others.add(damage(n)));
        unread.take(others);
        assert_eq!((unread.count(), unread.why().len()), (WHY_MAX as u64 + 2, WHY_MAX));
        let lines = unread.lines("gone");
        assert_eq!(lines.len(), WHY_MAX + 1);
        assert!(lines[1].starts_with("gone: ") && lines[1].contains("page 1"), "{}", lines[1]);
        assert_eq!(lines[WHY_MAX], "gone: 2 more");
    }
}
