//! How far the pages of a file are to move down, so that its end can be given back
//! (docs/adr/2026-11-23-compaction-rides-on-checkpoints.md).
//!
//! Invariants: a pure function of counts. A file is left alone if it is not much longer than what its
//! pages and the next checkpoint need: else it would be cut after one checkpoint and grow in the next.
//! At most an eighth of the pages, or an extent, moves with one checkpoint, those at the file's end
//! first: so each one that is published gives something back, and none takes much longer than others.

use super::bits::Bits;

/// What a file is filled with.
pub(super) struct Fill {
    /// Pages that it has room for.
    pub pages: u64,
    /// Pages of the data in it ([`super::SpaceStats::live`]).
    pub live: u64,
    /// Places of pages' current contents.
    pub current: Bits,
    /// Most places that were used while the last checkpoint was made.
    pub peak: u64,
    /// Behind the last place that cannot be left: of a page that never moves, or a pinned checkpoint.
    pub stays: u64,
    /// Pages by which it grows and shrinks.
    pub extent: u64,
}

impl Fill {
    /// From where on places are to be left; none if the file is well filled, or its end stays anyway.
    pub fn boundary(&self) -> Option<u64> {
        let live = self.live;
        // What is changed between two checkpoints needs two places while the second is made.
        let copies = self.peak.saturating_sub(live).clamp(live / 4, live);
        let enough = (1 + live + copies + self.extent).max(self.stays);
        let most = live + (live * 3 / 4).max(2 * self.extent);
        if self.pages <= most || self.pages < enough + self.extent {
            return None;
        }
        Some(self.behind_last((live / 8).max(self.extent)).max(enough))
    }

    /// Behind all current places but the last `moves`.
    fn behind_last(&self, moves: u64) -> u64 {
        let mut left = moves;
        for at in (0..self.current.end().div_ceil(64)).rev() {
            let mut word = self.current.word(at);
            let count = u64::from(word.count_ones());
            if count <= left {
                left -= count;
                continue;
            }
            (0..left).for_each(|_| word &= !(1 << (63 - word.leading_zeros())));
            return at * 64 + 64 - u64::from(word.leading_zeros());
        }
        0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn fill(pages: u64, current: impl IntoIterator<Item = u64>) -> Fill {
        let mut bits = Bits::default();
        current.into_iter().for_each(|number| bits.set(number));
        Fill { pages, live: bits.count(), current: bits, peak: 0, stays: 0, extent: 10 }
    }

    #[test]
    fn a_file_that_is_well_filled_is_left_alone() {
        assert_eq!(fill(1751, 1..1001).boundary(), Some(1261));
        assert_eq!(fill(1750, 1..1001).boundary(), None);
        // A few pages need little, and a small file is not worth it.
        assert_eq!(fill(25, 1..5).boundary(), None);
        assert_eq!(fill(26, 1..5).boundary(), Some(16));
    }

    #[test]
    fn what_the_next_checkpoint_needs_is_left() {
        let peak = |peak| Fill { peak, ..fill(3000, 1..1001) };
        assert_eq!(peak(1400).boundary(), Some(1411));
        assert_eq!(peak(9999).boundary(), Some(2011));
        let steady = Fill { peak: 1900, ..fill(1920, 1..1001) };
        assert_eq!(steady.boundary(), None, "the next checkpoint needs it again");
        let stays = |stays| Fill { stays, ..fill(3000, 1..1001) };
        assert_eq!(stays(2990).boundary(), Some(2990));
        assert_eq!(stays(2991).boundary(), None, "its end stays");
    }

    #[test]
    fn the_last_pages_move_first_and_few_at_a_time() {
        // Every fifth place.
        let spread = || (1..=1000).map(|n| n * 5);
        assert_eq!(fill(5001, spread()).boundary(), Some(5 * 875 + 1));
        assert_eq!(fill(5001, spread()).behind_last(1000), 0);
        assert_eq!(fill(5001, spread()).behind_last(999), 6);
        assert_eq!(fill(5001, spread()).behind_last(0), 5001);
        let dense = (1..=950).chain(4000..4050);
        assert_eq!(fill(5001, dense).boundary(), Some(1261));
    }
}
