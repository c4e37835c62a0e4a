//! Affinity keys: what a transaction's data is told apart by, and the instance that it hashes to
//! (rule 2.10).
//!
//! Invariants: equal keys hash to the same instance in every process with as many instances, so
//! sessions, routed procedures and embedding programs agree. Nothing is ever wrong on another
//! instance: affinity is a matter of speed. An integer is its own key, and a text that is an
//! integer has that integer's, so a hint `'7'` goes where the rows with 7 go.

use std::hash::Hasher;

use crate::base::InstanceId;

/// What a transaction's data is told apart by: a warehouse's number, a tenant's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AffinityKey(u64);

impl AffinityKey {
    /// Of any bytes.
    pub fn of_bytes(bytes: &[u8]) -> AffinityKey {
        let mut hasher = AffinityHasher::default();
        hasher.write(bytes);
        hasher.key()
    }

    /// The instance of `instances` (at least one) that it hashes to.
    pub fn instance(self, instances: usize) -> InstanceId {
        let hash = u128::from(self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        InstanceId(((hash * instances as u128) >> 64) as u16)
    }
}

impl From<u64> for AffinityKey {
    fn from(number: u64) -> AffinityKey {
        AffinityKey(number)
    }
}

impl From<i64> for AffinityKey {
    fn from(number: i64) -> AffinityKey {
        AffinityKey(number.cast_unsigned())
    }
}

impl From<&str> for AffinityKey {
    fn from(text: &str) -> AffinityKey {
        match text.parse::<i64>() {
            Ok(number) => AffinityKey::from(number),
            Err(_) => AffinityKey::of_bytes(text.as_bytes()),
        }
    }
}

/// Makes a key of several parts, the same one in every process (FNV-1a).
pub struct AffinityHasher(u64);

impl AffinityHasher {
    /// The key of what was written.
    pub fn key(&self) -> AffinityKey {
        AffinityKey(self.0)
    }
}

impl Default for AffinityHasher {
    fn default() -> AffinityHasher {
        AffinityHasher(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for AffinityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_integers_have_their_keys() {
        assert_eq!(AffinityKey::from("7"), AffinityKey::from(7_i64));
        assert_eq!(AffinityKey::from("-1"), AffinityKey::from(-1_i64));
        assert_ne!(AffinityKey::from("seven"), AffinityKey::from("eight"));
        assert_eq!(AffinityKey::from("seven"), AffinityKey::of_bytes(b"seven"));
    }

    #[test]
    fn small_numbers_and_names_are_spread_over_all_instances() {
        for instances in [1, 2, 3, 7, 64] {
            let mut of_numbers = vec![0; instances];
            let mut of_names = vec![0; instances];
            for number in 1..=100 * instances as i64 {
                of_numbers[usize::from(AffinityKey::from(number).instance(instances).0)] += 1;
                let name = AffinityKey::from(format!("tenant-{number}").as_str());
                of_names[usize::from(name.instance(instances).0)] += 1;
            }
            for counts in [of_numbers, of_names] {
                assert!(counts.iter().all(|count| (30..=300).contains(count)), "{counts:?}");
            }
        }
    }
}
