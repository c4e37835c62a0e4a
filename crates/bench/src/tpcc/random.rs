//! Random choices of the standard (clauses 2.1.6, 4.3.2): NURand, and the names of customers.
//!
//! Invariants: the constants of NURand are fixed: the difference
//! between that of loading and that of running is one that clause 2.1.6.1 allows for last names.

use super::Size;
pub use crate::random::Random;

/// C for last names while loading.
const C_LAST_LOAD: u32 = 86;
/// C for last names while running: 71 more (65..=119 but 96 and 112 are allowed).
const C_LAST_RUN: u32 = 157;
/// C for customer numbers.
const C_CUSTOMER: u32 = 259;
/// C for item numbers.
const C_ITEM: u32 = 7911;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Which constant a last name is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Filling the tables.
    Load,
    /// Running transactions.
    Run,
}

impl Random {
    fn uneven(&mut self, a: u32, c: u32, low: i32, high: i32) -> i32 {
        let (low, high) = (low as u32, high as u32);
        let mixed = self.inner().u32(0..=a) | self.inner().u32(low..=high);
        ((mixed + c) % (high - low + 1) + low) as i32
    }

    /// A customer's number.
    pub fn customer(&mut self, size: &Size) -> i32 {
        self.uneven(1023, C_CUSTOMER, 1, size.customers)
    }

    /// An item's number.
    pub fn item(&mut self, size: &Size) -> i32 {
        self.uneven(8191, C_ITEM, 1, size.items)
    }

    /// The number of a last name: one that customers have.
    pub fn last_name(&mut self, size: &Size, phase: Phase) -> u32 {
        let c = if phase == Phase::Load { C_LAST_LOAD } else { C_LAST_RUN };
        self.uneven(255, c, 0, 999.min(size.customers - 1)) as u32
    }
}

/// The last name with this number, 0..=999, appended.
pub fn last_name(number: u32, out: &mut String) {
    for digit in [number / 100, number / 10 % 10, number % 10] {
        out.push_str(SYLLABLES[digit as usize]);
    }
}

/// Microseconds from 2000-01-01 to now, as a timestamp without zone has them.
pub fn now() -> i64 {
    /// Seconds from 1970 to 2000.
    const EPOCH_SECONDS: i64 = 946_684_800;
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |it| it.as_micros() as i64 - EPOCH_SECONDS * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_three_syllables() {
        let mut name = String::new();
        last_name(371, &mut name);
        assert_eq!(name, "PRICALLYOUGHT");
    }

    #[test]
    fn uneven_numbers_stay_in_range_and_prefer_some() {
        let (mut random, size) = (Random::new(1), Size::STANDARD);
        let mut counts = vec![0_u32; size.customers as usize + 1];
        for _ in 0..300_000 {
            counts[random.customer(&size) as usize] += 1;
            assert!((1..=size.items).contains(&random.item(&size)));
            assert!(random.last_name(&size, Phase::Run) <= 999);
        }
        assert_eq!(counts[0], 0);
        let most = counts.iter().max().copied().unwrap_or_default();
        assert!(most > 300, "an even draw would give about 100 each: {most}");
        let mut text = String::new();
        random.letters(300, 500, &mut text);
        assert!((300..=500).contains(&text.len()));
    }
}
