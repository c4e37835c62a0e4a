//! A set of page numbers as a bitmap that grows.
//!
//! Invariants: numbers beyond the end are not in the set.

/// A set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Whether the number is in the set.
    pub fn has(&self, number: u64) -> bool {
        let word = self.words.get((number / 64) as usize);
        word.is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// Puts a number in.
    pub fn set(&mut self, number: u64) {
        let word = (number / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (number % 64);
    }

    /// Takes a number out.
    pub fn clear(&mut self, number: u64) {
        if let Some(word) = self.words.get_mut((number / 64) as usize) {
            *word &= !(1 << (number % 64));
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(at as u64 * 64 + u64::from(bit))
            })
        })
    }

    /// The set's 64 numbers from `64 * at` on.
    pub fn word(&self, at: u64) -> u64 {
        self.words.get(at as usize).copied().unwrap_or(0)
    }

    /// The set whose 64 numbers from `64 * at` on are those of the word `at`.
    pub fn from_words(words: Vec<u64>) -> Bits {
        Bits { words }
    }

    /// The numbers that `other` has, too.
    pub fn intersection(&self, other: &Bits) -> Bits {
        let words = self.words.iter().zip(0..).map(|(word, at)| word & other.word(at));
        Bits { words: words.collect() }
    }

    /// Puts the numbers in that `other` has.
    pub fn add(&mut self, other: &Bits) {
        self.words.resize(self.words.len().max(other.words.len()), 0);
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
    }

    /// The set's words, and zeros up to so many.
    pub fn words(&self, count: usize) -> impl Iterator<Item = u64> {
        self.words.iter().copied().chain(std::iter::repeat(0)).take(count)
    }

    /// The numbers that `other` has not.
    pub fn difference(&self, other: &Bits) -> Bits {
        let words = self.words.iter().zip(0..).map(|(word, at)| word & !other.word(at));
        Bits { words: words.collect() }
    }

    /// Behind the last number, or 0 if there is none.
    pub fn end(&self) -> u64 {
        let last = self.words.iter().rposition(|word| *word != 0);
        last.map_or(0, |at| at as u64 * 64 + 64 - u64::from(self.words[at].leading_zeros()))
    }

    /// The first number from `from` on that is in the set.
    pub fn first_set(&self, from: u64) -> Option<u64> {
        let first = (from / 64) as usize;
        let mut mask = u64::MAX << (from % 64);
        for (at, word) in self.words.iter().enumerate().skip(first) {
            let found = word & mask;
            if found != 0 {
                return Some(at as u64 * 64 + u64::from(found.trailing_zeros()));
            }
            mask = u64::MAX;
        }
        None
    }

    /// The first number from `from` on and below `end` that is not in the set.
    pub fn first_free(&self, from: u64, end: u64) -> Option<u64> {
        let mut at = from;
        while at < end {
            let word = self.words.get((at / 64) as usize).copied().unwrap_or(0);
            let free = !word >> (at % 64);
            if free != 0 {
                let found = at + u64::from(free.trailing_zeros());
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in() {
        let mut bits = Bits::default();
        for number in [0, 63, 64, 200] {
            assert!(!bits.has(number));
            bits.set(number);
            assert!(bits.has(number));
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 200]);
        assert_eq!(bits.count(), 4);
        assert_eq!((bits.end(), Bits::default().end()), (201, 0));
        assert_eq!((bits.word(0), bits.word(3), bits.word(9)), (1 | 1 << 63, 1 << 8, 0));
        let next = [0, 1, 63, 64, 65, 201, 9999].map(|from| bits.first_set(from));
        assert_eq!(next, [Some(0), Some(63), Some(63), Some(64), Some(200), None, None]);
        let both = Bits::from_words(vec![1 << 63, 0, 0, 0, 0, 0, 2]);
        assert_eq!(bits.intersection(&both).iter().collect::<Vec<_>>(), [63]);
        let union = |one: &Bits, other: &Bits| {
            let mut one = one.clone();
            one.add(other);
            one
        };
        assert_eq!(union(&bits, &both).iter().collect::<Vec<_>>(), [0, 63, 64, 200, 385]);
        assert_eq!(union(&both, &bits), union(&bits, &both));
        let mut more = Bits::from_words(vec![2]);
        more.add(&both);
        assert_eq!(more.iter().collect::<Vec<_>>(), [1, 63, 385]);
        assert_eq!(more.words(8).collect::<Vec<_>>(), [2 | 1 << 63, 0, 0, 0, 0, 0, 2, 0]);
        assert_eq!(more.words(1).count(), 1);
        assert_eq!(both.difference(&bits).iter().collect::<Vec<_>>(), [385]);
        bits.clear(63);
        assert_eq!(bits.first_free(0, 300), Some(1));
        assert_eq!(bits.first_free(63, 300), Some(63));
        bits.set(63);
        assert_eq!(bits.first_free(63, 300), Some(65));
        assert_eq!(bits.first_free(63, 65), None);
        assert_eq!(bits.first_free(1000, 1001), Some(1000));
    }
}
