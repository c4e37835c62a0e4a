//! Overflow pages: long values outside their rows (rule 5.8), and the reference that a row keeps.
//!
//! ```text
//! 0   common header (page::header)
//! 32  u64 PID of the value's next page, 0 in the last
//! 40  u64 owner: PID of the value's first page
//! 48  u32 ordinal of this page in its value
//! 52  u16 bytes of content            54  10 zero bytes
//! 64  content
//! ```
//!
//! A long value is stored as *blocks*: each holds [`BLOCK_BYTES`] of the value (the last one the
//! rest) behind a word that says how many bytes follow and whether they are compressed. Blocks
//! follow each other without gaps over the pages of a chain, so a value is written, logged, read
//! and decompressed a block at a time, whatever its size.
//!
//! Invariants: pure functions over bytes. A page that a row refers to never changes until it is
//! freed. Decoding survives any bytes and never makes more of a block than it should have.

use super::header::{HEADER_BYTES, put_u16, put_u32, put_u64};
use crate::base::{Error, PAGE_BYTES, Pid, Result};
use crate::latch::PageBytes;

/// Bytes of a value that one block holds.
pub const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of the longest value: one gibibyte, as in PostgreSQL.
pub const VALUE_BYTES_MAX: usize = 1 << 30;
/// Bytes of a reference in a row's leaf.
pub const REFERENCE_BYTES: usize = 24;
/// Bytes of the word in front of a block.
pub const BLOCK_HEAD_BYTES: usize = 4;

const AT_NEXT: usize = HEADER_BYTES;
const AT_OWNER: usize = 40;
const AT_ORDINAL: usize = 48;
const AT_CONTENT_BYTES: usize = 52;
const AT_CONTENT: usize = 64;
const COMPRESSED: u32 = 1 << 31;

/// Content of one page.
pub const CONTENT_BYTES: usize = PAGE_BYTES - AT_CONTENT;

const _: () = {
    assert!(AT_OWNER == AT_NEXT + 8 && AT_ORDINAL == AT_OWNER + 8);
    assert!(AT_CONTENT_BYTES == AT_ORDINAL + 4 && CONTENT_BYTES <= u16::MAX as usize);
    assert!(VALUE_BYTES_MAX + (VALUE_BYTES_MAX / BLOCK_BYTES + 1) * 4 < COMPRESSED as usize);
};

/// Whether a value's bytes in a leaf (or an undo image, or a row buffer) are the value itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// They are.
    Inline,
    /// They are a [`LongRef`].
    Long,
}

/// What a row keeps of a long value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LongRef {
    /// The first page.
    pub first: Pid,
    /// Bytes of the value.
    pub raw_bytes: u32,
    /// Bytes of its blocks.
    pub stored_bytes: u32,
    /// Pages.
    pub pages: u32,
    /// CRC-32C of the value.
    pub checksum: u32,
}

impl LongRef {
    /// As it stands in a leaf.
    pub fn encode(&self) -> [u8; REFERENCE_BYTES] {
        let mut out = [0; REFERENCE_BYTES];
        out[..8].copy_from_slice(&self.first.0.to_le_bytes());
        let words = [self.raw_bytes, self.stored_bytes, self.pages, self.checksum];
        for (place, word) in out[8..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads a reference; none if there are not as many bytes as one has.
    pub fn decode(bytes: &[u8]) -> Option<LongRef> {
        let bytes: &[u8; REFERENCE_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Some(LongRef {
            first: Pid(u64::from(word(0)) | u64::from(word(4)) << 32),
            raw_bytes: word(8),
            stored_bytes: word(12),
            pages: word(16),
            checksum: word(20),
        })
    }
}

/// A long value as its blocks stand in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredLong<'a> {
    /// Bytes of the value.
    pub raw_bytes: u32,
    /// CRC-32C of the value.
    pub checksum: u32,
    /// The blocks, one behind the other.
    pub blocks: &'a [u8],
}

/// Appends a block for `raw` (at most [`BLOCK_BYTES`]) to `out`, compressed if that is smaller.
pub fn encode_block(raw: &[u8], out: &mut Vec<u8>) {
    debug_assert!(!raw.is_empty() && raw.len() <= BLOCK_BYTES);
    let start = out.len();
    out.resize(start + BLOCK_HEAD_BYTES + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
    let place = &mut out[start + BLOCK_HEAD_BYTES..];
    let compressed = lz4_flex::block::compress_into(raw, place).ok();
    let head = match compressed.filter(|len| *len < raw.len()) {
        Some(len) => {
            out.truncate(start + BLOCK_HEAD_BYTES + len);
            len as u32 | COMPRESSED
        }
        None => {
            out.truncate(start + BLOCK_HEAD_BYTES);
            out.extend_from_slice(raw);
            raw.len() as u32
        }
    };
    out[start..start + BLOCK_HEAD_BYTES].copy_from_slice(&head.to_le_bytes());
}

/// Bytes of the block that begins with `bytes`, its head included; none if even that is not there
/// or says what no block says.
pub fn block_len(bytes: &[u8]) -> Option<usize> {
    let head = u32::from_le_bytes(*bytes.first_chunk()?);
    let len = (head & !COMPRESSED) as usize;
    (len <= BLOCK_BYTES && len > 0).then_some(BLOCK_HEAD_BYTES + len)
}

/// Appends what `block` (head included) holds, which must be `raw_bytes`.
pub fn decode_block(block: &[u8], raw_bytes: usize, out: &mut Vec<u8>) -> Result<()> {
    let damaged = |what: &str| Error::Corrupt { page: None, detail: format!("long value: {what}") };
    let head = block.first_chunk().ok_or_else(|| damaged("a block without a head"))?;
    let (head, content) = (u32::from_le_bytes(*head), &block[BLOCK_HEAD_BYTES..]);
    if head & COMPRESSED == 0 {
        if content.len() != raw_bytes {
            return Err(damaged("a block of the wrong size"));
        }
        out.extend_from_slice(content);
        return Ok(());
    }
    let start = out.len();
    out.resize(start + raw_bytes, 0);
    match lz4_flex::block::decompress_into(content, &mut out[start..]) {
        Ok(len) if len == raw_bytes => Ok(()),
        _ => Err(damaged("a block that does not decompress")),
    }
}

/// How long the blocks are that begin `bytes` and hold a value of `raw_bytes`; none if they do not
/// all lie there.
pub fn blocks_len(bytes: &[u8], raw_bytes: usize) -> Option<usize> {
    let mut len = 0;
    for _ in 0..raw_bytes.div_ceil(BLOCK_BYTES) {
        len += block_len(bytes.get(len..)?)?;
    }
    (len <= bytes.len()).then_some(len)
}

/// What an overflow page says of itself, read from any bytes.
#[derive(Clone, Copy, Debug)]
pub struct OverflowPage {
    /// The next page of the value, PID 0 after the last.
    pub next: Pid,
    /// The value's first page.
    pub owner: Pid,
    /// Which page of the value this is.
    pub ordinal: u32,
    /// Bytes of content.
    pub content_bytes: usize,
}

impl OverflowPage {
    /// Reads the page's own part of the header.
    pub fn read(page: impl PageBytes) -> OverflowPage {
        OverflowPage {
            next: Pid(page.u64(AT_NEXT)),
            owner: Pid(page.u64(AT_OWNER)),
            ordinal: page.u32(AT_ORDINAL),
            content_bytes: usize::from(page.u16(AT_CONTENT_BYTES)),
        }
    }
}

/// Makes a page, whose common header is there, page `ordinal` of `owner`'s value, still empty.
pub fn format(page: &mut [u8; PAGE_BYTES], owner: Pid, ordinal: u32) {
    put_u64(page, AT_NEXT, 0);
    put_u64(page, AT_OWNER, owner.0);
    put_u32(page, AT_ORDINAL, ordinal);
    put_u16(page, AT_CONTENT_BYTES, 0);
}

/// Names the page that follows.
pub fn set_next(page: &mut [u8; PAGE_BYTES], next: Pid) {
    put_u64(page, AT_NEXT, next.0);
}

/// Adds as much of `bytes` as fits the page; answers how much that is.
pub fn fill(page: &mut [u8; PAGE_BYTES], bytes: &[u8]) -> usize {
    let used = OverflowPage::read(crate::latch::OwnedPage(page)).content_bytes;
    let taken = bytes.len().min(CONTENT_BYTES - used);
    let at = AT_CONTENT + used;
    page[at..at + taken].copy_from_slice(&bytes[..taken]);
    put_u16(page, AT_CONTENT_BYTES, (used + taken) as u16);
    taken
}

/// Appends the page's content to `out`.
pub fn append_content(page: impl PageBytes, content_bytes: usize, out: &mut Vec<u8>) {
    page.append(AT_CONTENT, content_bytes, out);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn blocks_read_back_and_are_no_larger_than_they_must() {
        let mut random = fastrand::Rng::with_seed(3);
        for len in [1, 2, 100, 4000, BLOCK_BYTES - 1, BLOCK_BYTES] {
            let noise: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            let plain = vec![b'a'; len];
            for raw in [&noise, &plain] {
                let mut stored = vec![9; 3];
                encode_block(raw, &mut stored);
                assert!(stored.len() - 3 <= BLOCK_HEAD_BYTES + len);
                assert_eq!(block_len(&stored[3..]), Some(stored.len() - 3));
                assert_eq!(blocks_len(&stored[3..], len), Some(stored.len() - 3));
                let mut back = Vec::new();
                decode_block(&stored[3..], len, &mut back).unwrap();
                assert_eq!(&back, raw);
            }
            if len >= 4000 {
                let mut stored = Vec::new();
                encode_block(&plain, &mut stored);
                assert!(stored.len() < len / 20, "{len} bytes became {}", stored.len());
            }
        }
    }

    #[test]
    fn damaged_blocks_are_refused_or_have_the_right_size() {
        let mut random = fastrand::Rng::with_seed(5);
        let raw: Vec<u8> = (0..3000_u32).map(|i| (i / 7) as u8).collect();
        for _ in 0..2000 {
            let mut stored = Vec::new();
            encode_block(&raw, &mut stored);
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..stored.len());
                stored[at] = random.u8(..);
            }
            stored.truncate(random.usize(..=stored.len()));
            let mut out = Vec::new();
            if decode_block(&stored, raw.len(), &mut out).is_ok() {
                assert_eq!(out.len(), raw.len());
            }
            if let Some(len) = blocks_len(&stored, random.usize(0..1 << 20)) {
                assert!(len <= stored.len());
            }
        }
    }

    #[test]
    fn a_reference_reads_back() {
        let reference = LongRef {
            first: Pid(7 << 48 | 12345),
            raw_bytes: 1 << 30,
            stored_bytes: 77,
            pages: 5,
            checksum: u32::MAX,
        };
        assert_eq!(LongRef::decode(&reference.encode()), Some(reference));
        assert_eq!(LongRef::decode(&[0; 23]), None);
    }
}
