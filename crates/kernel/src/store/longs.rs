//! The pages of long values that a checkpoint has in one home's file, as its manifest keeps them
//! (rule 5.8, docs/format/log.md).
//!
//! With them a start knows which places are in use without following every value. Rows refer to first pages,
//! and say how many follow; so what no row refers to (its transaction did not commit before S, or its
//! last version was to be collected) is what remains of the first pages, and only that is followed.
//!
//! Invariants: a value is there with all its pages or not at all, but for the beginning of one that was
//! being freed; each has one page in `heads`, the first of those that are there. All lie on disk.

use super::bits::Bits;

/// Pages of complete long values, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LongPlaces {
    pub(super) pages: Bits,
    pub(super) heads: Bits,
}

impl LongPlaces {
    /// How many pages there are.
    pub fn count(&self) -> u64 {
        self.pages.count()
    }

    /// Whether a value's first page is this one.
    pub fn is_head(&self, number: u64) -> bool {
        self.heads.has(number)
    }

    /// Whether this is one of the pages.
    pub fn has(&self, number: u64) -> bool {
        self.pages.has(number)
    }

    /// Appends it to a manifest: both sets as bitmaps, compressed.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let words = self.pages.end().max(self.heads.end()).div_ceil(64) as usize;
        let mut bitmaps = vec![0; 2 * words * size_of::<u64>()];
        let both = self.pages.words(words).chain(self.heads.words(words));
        let (places, _) = bitmaps.as_chunks_mut();
        places.iter_mut().zip(both).for_each(|(place, word)| *place = word.to_le_bytes());
        let packed = lz4_flex::block::compress(&bitmaps);
        let lengths = [words, packed.len()];
        for length in lengths {
            let length = u32::try_from(length).expect("a page file's bitmap is below 4 GiB");
            out.extend_from_slice(&length.to_le_bytes());
        }
        out.extend_from_slice(&packed);
    }

    /// Reads it from the front of `input`; none if it is not there.
    pub fn decode(input: &mut &[u8]) -> Option<LongPlaces> {
        let (head, rest) = input.split_at_checked(8)?;
        let length = |at: usize| head[at..at + 4].try_into().map(u32::from_le_bytes);
        let (words, packed) = (length(0).ok()? as usize, length(4).ok()? as usize);
        let (packed, rest) = rest.split_at_checked(packed)?;
        // No more than lz4 ever unpacks, whatever the bytes say.
        let bytes = words.checked_mul(16).filter(|bytes| bytes / 256 <= packed.len())?;
        let bitmaps = lz4_flex::block::decompress(packed, bytes).ok()?;
        if bitmaps.len() != bytes {
            return None;
        }
        let (bitmaps, _) = bitmaps.as_chunks();
        let mut both = bitmaps.iter().map(|word| u64::from_le_bytes(*word));
        let pages = Bits::from_words(both.by_ref().take(words).collect());
        let heads = Bits::from_words(both.collect());
        // The first page of a file is its header.
        if pages.has(0) || heads.difference(&pages).iter().next().is_some() {
            return None;
        }
        *input = rest;
        Some(LongPlaces { pages, heads })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn places(pages: &[u64], heads: &[u64]) -> LongPlaces {
        let mut places = LongPlaces::default();
        pages.iter().for_each(|page| places.pages.set(*page));
        heads.iter().for_each(|head| places.heads.set(*head));
        places
    }

    #[test]
    fn survives_encoding() {
        let all: Vec<u64> = (1..100_000).collect();
        let several = [
            LongPlaces::default(),
            places(&[3], &[3]),
            places(&[64, 65, 900], &[64, 900]),
            places(&all, &[1]),
        ];
        let mut bytes = Vec::new();
        several.iter().for_each(|places| places.encode(&mut bytes));
        assert!(bytes.len() < 2000, "{} bytes", bytes.len());
        let mut input = &*bytes;
        for places in &several {
            let read = LongPlaces::decode(&mut input).unwrap();
            assert_eq!(
                read.pages.iter().collect::<Vec<_>>(),
                places.pages.iter().collect::<Vec<_>>()
            );
            assert_eq!(
                read.heads.iter().collect::<Vec<_>>(),
                places.heads.iter().collect::<Vec<_>>()
            );
        }
        assert!(input.is_empty());
        for len in 0..bytes.len() {
            let mut input = &bytes[..len];
            while LongPlaces::decode(&mut input).is_some() {}
            assert!(input.len() < bytes.len());
        }
        // It says to be large.
        let mut huge = &[0xff, 0xff, 0xff, 0x0f, 1, 0, 0, 0, 0][..];
        assert_eq!(LongPlaces::decode(&mut huge), None);
    }
}
