//! Reads of page bytes that a writer may be changing (rule 4.2).
//!
//! Invariants: every read is a volatile copy of a machine word; an offset or length that does not
//! fit the page (it may itself have been read racily) yields zeros or nothing, never a fault;
//! nothing that comes out of a [`RacyPage`] is believed before the page's latch version validates.
//! This is the only place of the kernel where bytes are read without holding anything.
//!
//! Search code is generic over [`PageBytes`], so the same code runs on a racy page and on one
//! that is held or owned ([`OwnedPage`]). On an owned page an offset out of range is damage or a
//! mistake of ours: it reads as zeros too, and the page's `check` finds it.

use std::cmp::Ordering;
use std::mem::MaybeUninit;

use crate::base::PAGE_BYTES;
use crate::sync::{LINE_BYTES, prefetch_line};

/// Read access to the bytes of one page, little-endian, bounds-checked, never faulting.
pub trait PageBytes: Copy {
    /// The byte at `at`, or 0 out of range.
    fn u8(&self, at: usize) -> u8;
    /// The 16-bit number at `at`, or 0 out of range.
    fn u16(&self, at: usize) -> u16;
    /// The 32-bit number at `at`, or 0 out of range.
    fn u32(&self, at: usize) -> u32;
    /// The 64-bit number at `at`, or 0 out of range.
    fn u64(&self, at: usize) -> u64;
    /// Copies `out.len()` bytes from `at`; zeros if the range does not fit the page.
    fn copy(&self, at: usize, out: &mut [u8]);
    /// Appends `len` bytes from `at`; nothing if the range does not fit the page.
    fn append(&self, at: usize, len: usize, out: &mut Vec<u8>);
    /// Compares the `len` bytes at `at` with `other`, as byte strings; an unfitting range is empty.
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Ordering;
    /// How many of the sixteen numbers from `at` on, 32 bits each, are below `bound`; any number if
    /// they do not fit the page.
    #[inline]
    fn count_below(&self, at: usize, bound: u32) -> usize {
        (0..16).map(|number| usize::from(self.u32(at + 4 * number) < bound)).sum()
    }
    /// Asks for the cache lines of `len` bytes from `at`, all at once: a search that hops through
    /// them would wait for one after the other.
    #[inline(always)]
    fn prefetch(&self, at: usize, len: usize) {
        let _ = (at, len);
    }
}

/// A page in a frame whose latch the reader does not hold (or holds shared).
#[derive(Clone, Copy)]
pub struct RacyPage {
    base: *const u8,
}

#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Unaligned<T: Copy>(T);

impl RacyPage {
    /// A racy view of the page at `base`.
    ///
    /// # Safety
    /// `PAGE_BYTES` bytes from `base` stay mapped for as long as the view is used. Frames are
    /// never unmapped while their pool exists (rule 4.3).
    #[inline]
    pub unsafe fn new(base: *const u8) -> RacyPage {
        RacyPage { base }
    }

    #[inline(always)]
    fn word<T: Copy>(&self, at: usize) -> Option<T> {
        if at > PAGE_BYTES - size_of::<T>() {
            return None;
        }
        // SAFETY: the range is inside the page, which stays mapped (`new`); a packed type needs
        // no alignment; the read is volatile because a writer may be storing: the value is then
        // arbitrary and will not be believed. T is a plain integer (private callers).
        let word = unsafe { self.base.add(at).cast::<Unaligned<T>>().read_volatile() };
        Some(word.0)
    }

    /// As [`PageBytes::append`], of any length.
    #[inline(never)]
    fn append_long(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        if at > PAGE_BYTES || len > PAGE_BYTES - at {
            return;
        }
        let old = out.len();
        // Sixteen bytes at a time, the last ones too: what these have too much is cut off. Values are
        // short, so a loop over their last bytes costs more than the rest.
        let chunks = len.div_ceil(16).min((PAGE_BYTES - at) / 16);
        out.reserve(len + 16);
        let (spare, _) = out.spare_capacity_mut().as_chunks_mut::<16>();
        for (chunk, to) in spare[..chunks].iter_mut().enumerate() {
            let bytes = u128::from_le(self.word(at + 16 * chunk).unwrap_or(0)).to_le_bytes();
            *to = bytes.map(MaybeUninit::new);
        }
        // SAFETY: `chunks` times sixteen bytes behind the old length have just been written.
        unsafe { out.set_len(old + 16 * chunks) };
        for byte in 16 * chunks..len {
            out.push(self.u8(at + byte));
        }
        out.truncate(old + len);
    }
}

impl PageBytes for RacyPage {
    #[inline(always)]
    fn u8(&self, at: usize) -> u8 {
        self.word::<u8>(at).unwrap_or(0)
    }

    #[inline(always)]
    fn u16(&self, at: usize) -> u16 {
        u16::from_le(self.word(at).unwrap_or(0))
    }

    #[inline(always)]
    fn u32(&self, at: usize) -> u32 {
        u32::from_le(self.word(at).unwrap_or(0))
    }

    #[inline(always)]
    fn u64(&self, at: usize) -> u64 {
        u64::from_le(self.word(at).unwrap_or(0))
    }

    #[inline]
    fn copy(&self, at: usize, out: &mut [u8]) {
        if at > PAGE_BYTES || out.len() > PAGE_BYTES - at {
            out.fill(0);
            return;
        }
        let mut from = at;
        let mut words = out.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.u64(from).to_le_bytes());
            from += 8;
        }
        for byte in words.into_remainder() {
            *byte = self.u8(from);
            from += 1;
        }
    }

    #[inline]
    fn append(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        if len > 16 || at > PAGE_BYTES - 16 {
            return self.append_long(at, len, out);
        }
        // Most values: two words, whatever they have too much.
        let old = out.len();
        out.reserve(16);
        if let ([first, second, ..], _) = out.spare_capacity_mut().as_chunks_mut::<8>() {
            *first = self.u64(at).to_le_bytes().map(MaybeUninit::new);
            let more = if len > 8 { self.u64(at + 8) } else { 0 };
            *second = more.to_le_bytes().map(MaybeUninit::new);
        }
        // SAFETY: at most sixteen bytes behind the old length, which have just been written:
        // there is room for two chunks.
        unsafe { out.set_len(old + len) };
    }

    #[inline]
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Ordering {
        let len = if at > PAGE_BYTES || len > PAGE_BYTES - at { 0 } else { len };
        let common = len.min(other.len());
        // As big-endian numbers, eight bytes compare like byte strings.
        let eight = |from: usize| {
            let theirs = other[from..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            self.u64(at + from).swap_bytes().cmp(&theirs)
        };
        let mut done = 0;
        while done + 8 <= common {
            let ordering = eight(done);
            if ordering != Ordering::Equal {
                return ordering;
            }
            done += 8;
        }
        if done < common && common >= 8 {
            // The last eight, some of them once more. A writer may have changed those; then the
            // page does not validate.
            let ordering = eight(common - 8);
            if ordering != Ordering::Equal {
                return ordering;
            }
            done = common;
        }
        while done < common {
            let ordering = self.u8(at + done).cmp(&other[done]);
            if ordering != Ordering::Equal {
                return ordering;
            }
            done += 1;
        }
        len.cmp(&other.len())
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn count_below(&self, at: usize, bound: u32) -> usize {
        use std::arch::x86_64::{
            __m128i, _mm_add_epi32, _mm_cmpgt_epi32, _mm_cvtsi128_si32, _mm_loadu_si128,
            _mm_set1_epi32, _mm_setzero_si128, _mm_shuffle_epi32, _mm_xor_si128,
        };
        if at > PAGE_BYTES - 64 {
            return 0;
        }
        // SAFETY: the instructions are those of every x86-64; the 64 bytes read are inside the
        // page, which stays mapped (`new`), and need no alignment. What a writer stores meanwhile
        // makes the count any number, which will not be believed.
        let below = unsafe {
            // As signed numbers they order so if the highest bit is turned.
            let turn = _mm_set1_epi32(i32::MIN);
            let bound = _mm_xor_si128(_mm_set1_epi32(bound as i32), turn);
            let mut sum = _mm_setzero_si128();
            for four in 0..4 {
                let numbers = _mm_loadu_si128(self.base.add(at + 16 * four).cast::<__m128i>());
                // -1 where it is below.
                sum = _mm_add_epi32(sum, _mm_cmpgt_epi32(bound, _mm_xor_si128(numbers, turn)));
            }
            sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_00_11_10>(sum));
            sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum));
            _mm_cvtsi128_si32(sum)
        };
        below.unsigned_abs() as usize
    }

    #[inline(always)]
    fn prefetch(&self, at: usize, len: usize) {
        for line in 0..len.div_ceil(LINE_BYTES).min(PAGE_BYTES / LINE_BYTES) {
            prefetch_line(self.base.wrapping_add(at + line * LINE_BYTES));
        }
    }
}

/// A page that nobody changes while the view exists: held exclusively, shared, or a copy.
#[derive(Clone, Copy)]
pub struct OwnedPage<'a>(pub &'a [u8; PAGE_BYTES]);

macro_rules! number {
    ($name:ident, $type:ty) => {
        #[inline(always)]
        fn $name(&self, at: usize) -> $type {
            match self.0.get(at..).and_then(|bytes| bytes.first_chunk()) {
                Some(bytes) => <$type>::from_le_bytes(*bytes),
                None => 0,
            }
        }
    };
}

impl PageBytes for OwnedPage<'_> {
    number!(u8, u8);
    number!(u16, u16);
    number!(u32, u32);
    number!(u64, u64);

    #[inline]
    fn copy(&self, at: usize, out: &mut [u8]) {
        match at.checked_add(out.len()).and_then(|end| self.0.get(at..end)) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => out.fill(0),
        }
    }

    #[inline]
    fn append(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        if let Some(bytes) = at.checked_add(len).and_then(|end| self.0.get(at..end)) {
            out.extend_from_slice(bytes);
        }
    }

    #[inline]
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Ordering {
        let bytes = at.checked_add(len).and_then(|end| self.0.get(at..end)).unwrap_or(&[]);
        bytes.cmp(other)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn same<A: PageBytes, B: PageBytes>(a: A, b: B, at: usize, len: usize, other: &[u8]) {
        assert_eq!(a.u8(at), b.u8(at));
        assert_eq!(a.u16(at), b.u16(at));
        assert_eq!(a.u32(at), b.u32(at));
        assert_eq!(a.u64(at), b.u64(at));
        let (mut x, mut y) = (vec![1; len], vec![2; len]);
        a.copy(at, &mut x);
        b.copy(at, &mut y);
        assert_eq!(x, y);
        let (mut x, mut y) = (vec![], vec![]);
        a.append(at, len, &mut x);
        b.append(at, len, &mut y);
        assert_eq!(x, y);
        assert_eq!(a.compare(at, len, other), b.compare(at, len, other));
        assert_eq!(x.as_slice().cmp(other), a.compare(at, len, other));
        if at <= PAGE_BYTES - 64 {
            for bound in [0, 1, a.u32(at + 20), a.u32(at + 60), u32::MAX / 2, 1 << 31, u32::MAX] {
                assert_eq!(a.count_below(at, bound), b.count_below(at, bound), "below {bound}");
            }
        }
    }

    #[test]
    fn racy_and_owned_read_alike_in_and_out_of_range() {
        let mut page = Box::new([0_u8; PAGE_BYTES]);
        for (i, byte) in page.iter_mut().enumerate() {
            *byte = (i * 7 + i / 251) as u8;
        }
        let owned = OwnedPage(&page);
        // SAFETY: `page` outlives the view.
        let racy = unsafe { RacyPage::new(page.as_ptr()) };
        let huge = [usize::MAX, usize::MAX - 7, PAGE_BYTES + 1, PAGE_BYTES];
        for at in (0..40).chain(PAGE_BYTES - 40..PAGE_BYTES).chain(huge) {
            for len in [0, 1, 7, 8, 9, 16, 17, 31, 32, 33] {
                let mut other = page[40..40 + len].to_vec();
                same(racy, owned, at, len, &other);
                if at < PAGE_BYTES && at + len <= PAGE_BYTES {
                    other = page[at..at + len].to_vec();
                    same(racy, owned, at, len, &other);
                    other.push(0);
                    same(racy, owned, at, len, &other);
                }
            }
        }
    }
}
