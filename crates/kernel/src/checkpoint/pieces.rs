//! Which keys of an index a checkpoint has copied: pieces, one behind the other, each copied by whichever instance takes it.
//!
//! A piece is what lies below one parent of leaves when it is taken. Invariants: pieces are claimed in order, each from
//! where the one before it ends; so they tile the keys, whatever is split or merged meanwhile. All have been copied
//! when the last one is claimed and none is open; who puts that one back gets all of them.
//!
//! One mutex an index, held for a look; nothing is waited for or latched under it.

use crate::base::Place;
use crate::sync::PlainMutex as Mutex;

/// A leaf's first key and place.
pub(super) type IndexLeaf = (Vec<u8>, Place);

/// Leaves of an index that follow each other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub leaves: Vec<IndexLeaf>,
    /// Whether the published checkpoint has every one of them where it lies.
    pub all_held: bool,
}

/// The pieces of one index.
pub(super) struct Pieces(Mutex<State>);

struct State {
    /// Where the next piece begins; none if all are claimed.
    next: Option<Vec<u8>>,
    /// Claimed, and not copied.
    open: usize,
    /// With the key that each begins with.
    copied: Vec<(Vec<u8>, Piece)>,
}

impl Default for Pieces {
    fn default() -> Pieces {
        let state = State { next: Some(Vec::new()), open: 0, copied: Vec::new() };
        Pieces(Mutex::new(state))
    }
}

impl Pieces {
    /// Where the next piece begins; none if there is no other.
    pub(super) fn next(&self) -> Option<Vec<u8>> {
        self.0.lock().expect("no holder panics").next.clone()
    }

    /// Claims the keys from `from` to below `until`, or to the end, if they are still the next ones.
    pub(super) fn claim(&self, from: &[u8], until: Option<&[u8]>) -> bool {
        let mut state = self.0.lock().expect("no holder panics");
        let is_next = state.next.as_deref() == Some(from);
        if is_next {
            state.next = until.map(<[u8]>::to_vec);
            state.open += 1;
        }
        is_next
    }

    /// The piece that was claimed from `from` on is copied. Answers all of them as one if it was the last.
    pub(super) fn put(&self, from: Vec<u8>, piece: Piece) -> Option<Piece> {
        let mut state = self.0.lock().expect("no holder panics");
        state.copied.push((from, piece));
        state.open -= 1;
        if state.open > 0 || state.next.is_some() {
            return None;
        }
        let mut pieces = std::mem::take(&mut state.copied);
        pieces.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let all_held = pieces.iter().all(|(_, piece)| piece.all_held);
        let leaves = pieces.into_iter().flat_map(|(_, piece)| piece.leaves).collect();
        Some(Piece { leaves, all_held })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn piece(keys: &[&[u8]], all_held: bool) -> Piece {
        let leaf = |key: &&[u8]| (key.to_vec(), Place(u64::from(key.last().copied().unwrap_or(0))));
        Piece { leaves: keys.iter().map(leaf).collect(), all_held }
    }

    #[test]
    fn pieces_are_claimed_in_order_and_put_together_in_order() {
        let pieces = Pieces::default();
        assert_eq!(pieces.next(), Some(Vec::new()));
        assert!(pieces.claim(b"", Some(b"d")));
        assert!(!pieces.claim(b"", Some(b"e")), "another has it");
        assert!(pieces.claim(b"d", Some(b"g")));
        assert_eq!(pieces.put(b"d".to_vec(), piece(&[b"d", b"f"], true)), None, "one is open");
        assert_eq!(pieces.put(Vec::new(), piece(&[b"", b"c"], true)), None, "keys are left");
        assert!(pieces.claim(b"g", None));
        assert_eq!(pieces.next(), None);
        assert!(!pieces.claim(b"g", None));
        let all = pieces.put(b"g".to_vec(), piece(&[b"g"], false));
        assert_eq!(all, Some(piece(&[b"", b"c", b"d", b"f", b"g"], false)));
    }
}
