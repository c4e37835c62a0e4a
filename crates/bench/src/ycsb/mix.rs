//! Which operations run: the workloads A to F of the paper (table 2), or a mix of one's own.
//!
//! Invariants: shares are percent and sum to 100.

use std::str::FromStr;

use crate::random::Random;

/// What is done to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads all its fields.
    Read,
    /// Writes one field.
    Update,
    /// Makes a new one.
    Insert,
    /// Reads some, in the order of keys.
    Scan,
    /// Reads all fields and writes one, in one transaction.
    ReadModifyWrite,
}

impl Kind {
    /// All, in the order of [`Mix::shares`].
    pub const ALL: [Kind; 5] =
        [Kind::Read, Kind::Update, Kind::Insert, Kind::Scan, Kind::ReadModifyWrite];
}

/// The shares of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// What it is called.
    pub name: String,
    /// Percent of each of [`Kind::ALL`].
    pub shares: [u32; 5],
}

impl Mix {
    fn new(name: &str, shares: [u32; 5]) -> Mix {
        Mix { name: name.to_owned(), shares }
    }

    /// One of the paper's workloads, by its letter.
    pub fn of_letter(letter: char) -> Option<Mix> {
        let shares = match letter {
            'a' => [50, 50, 0, 0, 0],
            'b' => [95, 5, 0, 0, 0],
            'c' => [100, 0, 0, 0, 0],
            'd' => [95, 0, 5, 0, 0],
            'e' => [0, 0, 5, 95, 0],
            'f' => [50, 0, 0, 0, 50],
            _ => return None,
        };
        Some(Mix::new(&letter.to_string(), shares))
    }

    /// Percent of this kind.
    pub fn share(&self, kind: Kind) -> u32 {
        self.shares[kind as usize]
    }

    /// The kind of the next operation.
    pub fn draw(&self, random: &mut Random) -> Kind {
        Kind::ALL[random.share(&self.shares)]
    }
}

/// `95/5` (reads and updates), `read-modify-write` or `insert`.
impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let shares = match text {
            "read-modify-write" => Some([0, 0, 0, 0, 100]),
            "insert" => Some([0, 0, 100, 0, 0]),
            _ => text.split_once('/').and_then(|(reads, updates)| {
                let (reads, updates) = (reads.parse().ok()?, updates.parse().ok()?);
                (u32::checked_add(reads, updates) == Some(100)).then_some([reads, updates, 0, 0, 0])
            }),
        };
        let shares = shares.ok_or(
            "read and update percent that sum to 100 as `95/5`, or `read-modify-write`, or `insert`",
        )?;
        Ok(Mix::new(text, shares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_or_refused() {
        for (text, expect) in [
            ("95/5", Some([95, 5, 0, 0, 0])),
            ("20/80", Some([20, 80, 0, 0, 0])),
            ("read-modify-write", Some([0, 0, 0, 0, 100])),
            ("insert", Some([0, 0, 100, 0, 0])),
            ("95/6", None),
            ("4294967295/101", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Mix>().map(|it| it.shares).ok(), expect, "{text}");
        }
        for letter in 'a'..='f' {
            let shares = Mix::of_letter(letter).map(|mix| mix.shares.iter().sum::<u32>());
            assert_eq!(shares, Some(100), "{letter}");
        }
        assert_eq!(Mix::of_letter('g'), None);
    }

    #[test]
    fn operations_are_drawn_in_their_shares() {
        let mut random = Random::new(3);
        for letter in 'a'..='f' {
            let mix = Mix::of_letter(letter).expect("a workload of the paper");
            let mut counts = [0_u32; 5];
            for _ in 0..100_000 {
                counts[mix.draw(&mut random) as usize] += 1;
            }
            for (count, share) in counts.iter().zip(mix.shares) {
                assert!(count.abs_diff(share * 1000) < 700, "{letter}: {counts:?}");
                assert!(share > 0 || *count == 0, "{letter}: {counts:?}");
            }
        }
    }
}
