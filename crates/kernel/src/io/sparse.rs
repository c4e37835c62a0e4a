//! The bytes of a simulated file, shared piece by piece with its copies.
//!
//! Invariants: as a `Vec<u8>` would behave; a piece that was never written is not there and reads as
//! zeros, and bytes of a piece behind the end are zeros. A copy costs a count for each piece: a
//! simulation copies its whole disk at every crash, and most of that did not change since the last.

use std::ops::Range;
use std::sync::Arc;

/// Bytes that are copied together when one of them changes.
const PIECE_BYTES: usize = 8 << 10;

type Piece = [u8; PIECE_BYTES];

/// A file's bytes.
#[derive(Clone, Default)]
pub struct Sparse {
    length: usize,
    pieces: Vec<Option<Arc<Piece>>>,
}

impl Sparse {
    /// These bytes.
    pub fn of(bytes: &[u8]) -> Sparse {
        let mut sparse = Sparse::default();
        sparse.resize(bytes.len());
        sparse.write(0, bytes);
        sparse
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Makes them so many: fewer, or more by zeros.
    pub fn resize(&mut self, length: usize) {
        self.pieces.resize(length.div_ceil(PIECE_BYTES), None);
        if length < self.length
            && let (at @ 1.., Some(Some(last))) = (length % PIECE_BYTES, self.pieces.last_mut())
        {
            Arc::make_mut(last)[at..].fill(0);
        }
        self.length = length;
    }

    /// Makes them at least so many.
    pub fn grow(&mut self, length: usize) {
        if self.length < length {
            self.resize(length);
        }
    }

    /// Makes them at most so many.
    pub fn truncate(&mut self, length: usize) {
        if self.length > length {
            self.resize(length);
        }
    }

    /// Copies from `start` on; the caller knows that there are so many.
    pub fn read(&self, start: usize, into: &mut [u8]) {
        assert!(start + into.len() <= self.length, "within the file");
        for (piece, inside, outside) in parts(start, into.len()) {
            match &self.pieces[piece] {
                Some(bytes) => into[outside].copy_from_slice(&bytes[inside]),
                None => into[outside].fill(0),
            }
        }
    }

    /// Writes from `start` on what lies within the file.
    pub fn write(&mut self, start: usize, from: &[u8]) {
        let length = from.len().min(self.length.saturating_sub(start));
        for (piece, inside, outside) in parts(start, length) {
            let bytes = self.pieces[piece].get_or_insert_with(|| Arc::new([0; PIECE_BYTES]));
            Arc::make_mut(bytes)[inside].copy_from_slice(&from[outside]);
        }
    }
}

/// The pieces that a range touches, with its part of each, and the same part within the range.
fn parts(start: usize, length: usize) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    let (mut at, end) = (start, start + length);
    std::iter::from_fn(move || {
        let inside = at % PIECE_BYTES;
        let count = (PIECE_BYTES - inside).min(end - at);
        let part = (at / PIECE_BYTES, inside..inside + count, at - start..at - start + count);
        at += count;
        (count > 0).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Seeded;

    #[test]
    fn it_behaves_as_a_vector_and_so_do_its_copies() {
        let mut random = Seeded::new(7);
        let mut all = vec![(Vec::new(), Sparse::default())];
        for _ in 0..3_000 {
            let at = random.below(all.len() as u64) as usize;
            let (plain, sparse) = &mut all[at];
            let length = random.below(5 * PIECE_BYTES as u64) as usize;
            match random.below(5) {
                0 => (plain.resize(length, 0), sparse.resize(length)).0,
                1 => (plain.truncate(length), sparse.truncate(length)).0,
                2..4 if length < plain.len() => {
                    let count = random.below((plain.len() - length) as u64 + 1) as usize;
                    let bytes = vec![random.next_u64() as u8; count];
                    plain[length..length + count].copy_from_slice(&bytes);
                    sparse.write(length, &bytes);
                }
                _ => {
                    let copy = (plain.clone(), sparse.clone());
                    let place = random.below(3) as usize;
                    all.truncate(place.max(1));
                    all.push(copy);
                }
            }
            for (plain, sparse) in &all {
                let start = random.below(plain.len() as u64 + 1) as usize;
                let mut read = vec![1; plain.len() - start];
                sparse.read(start, &mut read);
                assert!(plain.len() == sparse.len() && plain[start..] == read[..]);
            }
        }
        let mut short = Sparse::of(&[5; 10]);
        short.write(8, &[6; 10]);
        let mut read = [0; 10];
        short.read(0, &mut read);
        assert_eq!(read, [5, 5, 5, 5, 5, 5, 5, 5, 6, 6], "what lies behind the end is left out");
    }
}
