//! Random values that workloads draw: numbers, chances, letters.
//!
//! Invariants: everything comes from one seed.

/// 64 letters and digits: two come twice, so that six random bits choose one.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789Ea";

/// A source of random values.
pub struct Random(fastrand::Rng);

impl Random {
    /// The same seed gives the same values.
    pub fn new(seed: u64) -> Random {
        Random(fastrand::Rng::with_seed(seed))
    }

    /// That of the client with this number.
    pub fn of_client(seed: u64, client: u64) -> Random {
        Random::new(seed ^ (client + 1) << 40)
    }

    /// Evenly from `low..=high`.
    #[inline]
    pub fn number(&mut self, low: i32, high: i32) -> i32 {
        self.0.i32(low..=high)
    }

    /// Evenly from `low..=high`, 64 bits.
    pub fn long(&mut self, low: i64, high: i64) -> i64 {
        self.0.i64(low..=high)
    }

    /// With a probability of `percent`.
    #[inline]
    pub fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(0..100) < percent
    }

    /// A place in `shares`, each with its percentage; they sum to 100.
    pub fn share(&mut self, shares: &[u32]) -> usize {
        let mut drawn = self.0.u32(0..100);
        for (place, share) in shares.iter().enumerate() {
            match drawn.checked_sub(*share) {
                Some(left) => drawn = left,
                None => return place,
            }
        }
        shares.len().saturating_sub(1)
    }

    /// `low` to `high` letters and digits, appended.
    pub fn letters(&mut self, low: usize, high: usize, out: &mut String) {
        let mut left = self.0.usize(low..=high);
        while left > 0 {
            let mut bits = self.0.u64(..);
            for _ in 0..left.min(10) {
                out.push(char::from(LETTERS[(bits & 63) as usize]));
                bits >>= 6;
            }
            left -= left.min(10);
        }
    }

    /// `count` digits, appended.
    pub fn digits(&mut self, count: usize, out: &mut String) {
        for _ in 0..count {
            out.push(self.0.digit(10));
        }
    }

    /// A permutation of `1..=count`.
    pub fn permutation(&mut self, count: i32) -> Vec<i32> {
        let mut all: Vec<i32> = (1..=count).collect();
        self.0.shuffle(&mut all);
        all
    }

    /// The generator below, for choices of other shapes.
    pub fn inner(&mut self) -> &mut fastrand::Rng {
        &mut self.0
    }
}
