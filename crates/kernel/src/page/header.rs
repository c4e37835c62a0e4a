//! The header that every page begins with, and its checksum.
//!
//! ```text
//! 0   u32 checksum: CRC-32C of bytes 4..PAGE_BYTES; 0 while in memory, set by `seal`
//! 4   u16 format version
//! 6   u8  kind
//! 7   u8  flags of the kind
//! 8   u64 PID
//! 16  u32 tree id
//! 20  u32 for the kind (key nodes: level and the like)
//! 24  u64 place on disk; 0 while in memory, set by `seal`
//! 32  the kind's own part
//! ```

use crate::base::{PAGE_BYTES, Pid, Place, TreeId};
use crate::latch::{OwnedPage, PageBytes};

/// Where the checksum is.
pub const AT_CHECKSUM: usize = 0;
/// Where the format version is.
pub const AT_FORMAT: usize = 4;
/// Where the kind is.
pub const AT_KIND: usize = 6;
/// Where the kind's flags are.
pub const AT_FLAGS: usize = 7;
/// Where the PID is.
pub const AT_PID: usize = 8;
/// Where the tree id is.
pub const AT_TREE: usize = 16;
/// Four bytes that belong to the kind.
pub const AT_KIND_WORD: usize = 20;
/// Where the place is.
pub const AT_PLACE: usize = 24;
/// Where the kind's own part begins.
pub const HEADER_BYTES: usize = 32;

/// The format version that this program writes.
pub const FORMAT_VERSION: u16 = 3;

const _: () = {
    assert!(AT_FORMAT == AT_CHECKSUM + 4 && AT_KIND == AT_FORMAT + 2 && AT_FLAGS == AT_KIND + 1);
    assert!(AT_PID == AT_FLAGS + 1 && AT_PID.is_multiple_of(8) && AT_TREE == AT_PID + 8);
    assert!(AT_KIND_WORD == AT_TREE + 4 && AT_PLACE == AT_KIND_WORD + 4);
    assert!(HEADER_BYTES == AT_PLACE + 8 && PAGE_BYTES <= u16::MAX as usize + 1);
};

/// What a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PageKind {
    /// In no tree.
    Free = 0,
    /// A leaf of a table tree, of rows in one piece each.
    TableLeaf = 1,
    /// An inner node of a table or index tree.
    Inner = 2,
    /// A leaf of an index tree.
    IndexLeaf = 3,
    /// Part of a long value.
    Overflow = 4,
}

impl PageKind {
    /// Decodes the byte in the header.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<PageKind> {
        Some(match byte {
            0 => PageKind::Free,
            1 => PageKind::TableLeaf,
            2 => PageKind::Inner,
            3 => PageKind::IndexLeaf,
            4 => PageKind::Overflow,
            _ => return None,
        })
    }
}

/// The kind of a page, `None` for an unknown byte.
#[inline]
pub fn kind(page: impl PageBytes) -> Option<PageKind> {
    PageKind::from_byte(page.u8(AT_KIND))
}

/// The PID that the page says it has.
#[inline]
pub fn pid(page: impl PageBytes) -> Pid {
    Pid(page.u64(AT_PID))
}

/// The tree that the page belongs to.
#[inline]
pub fn tree(page: impl PageBytes) -> TreeId {
    TreeId(page.u32(AT_TREE))
}

/// Makes the whole page zero but for a fresh header.
pub fn format(page: &mut [u8; PAGE_BYTES], kind: PageKind, pid: Pid, tree: TreeId) {
    page.fill(0);
    put_u16(page, AT_FORMAT, FORMAT_VERSION);
    page[AT_KIND] = kind as u8;
    put_u64(page, AT_PID, pid.0);
    put_u32(page, AT_TREE, tree.0);
}

/// Says where the page is about to be written, and sets the checksum; it must not change
/// afterwards until it is written out.
pub fn seal(page: &mut [u8; PAGE_BYTES], place: Place) {
    put_u64(page, AT_PLACE, place.0);
    let sum = crc32c::crc32c(&page[AT_FORMAT..]);
    put_u32(page, AT_CHECKSUM, sum);
}

/// Makes a page that came from disk one in memory.
pub fn unseal(page: &mut [u8; PAGE_BYTES], pid: Pid) {
    put_u64(page, AT_PLACE, 0);
    put_u64(page, AT_PID, pid.0);
    put_u32(page, AT_CHECKSUM, 0);
}

/// Says which tree the page belongs to.
pub fn set_tree(page: &mut [u8; PAGE_BYTES], tree: TreeId) {
    put_u32(page, AT_TREE, tree.0);
}

/// Checks a page that came from `place`: checksum, format version, place and kind. The error says
/// what is wrong.
pub fn verify(page: &[u8; PAGE_BYTES], place: Place) -> std::result::Result<PageKind, String> {
    let view = OwnedPage(page);
    let (stored, actual) = (view.u32(AT_CHECKSUM), crc32c::crc32c(&page[AT_FORMAT..]));
    if stored != actual {
        return Err(format!("checksum {stored:#x}, contents have {actual:#x}"));
    }
    if view.u16(AT_FORMAT) != FORMAT_VERSION {
        return Err(format!("page format version {}", view.u16(AT_FORMAT)));
    }
    let said = Place(view.u64(AT_PLACE));
    if said != place {
        let (home, number) = (said.home(), said.number());
        return Err(format!("it says that it is page {number} of home {home}"));
    }
    kind(view).ok_or_else(|| format!("unknown page kind {}", view.u8(AT_KIND)))
}

/// Stores a 16-bit number.
#[inline]
pub fn put_u16(page: &mut [u8; PAGE_BYTES], at: usize, value: u16) {
    page[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Stores a 32-bit number.
#[inline]
pub fn put_u32(page: &mut [u8; PAGE_BYTES], at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Stores a 64-bit number.
#[inline]
pub fn put_u64(page: &mut [u8; PAGE_BYTES], at: usize, value: u64) {
    page[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::HomeId;

    #[test]
    fn a_sealed_page_verifies_and_a_flipped_bit_does_not() {
        let mut page = Box::new([0_u8; PAGE_BYTES]);
        let pid = Pid::new(HomeId(2), 9);
        let place = Place::new(HomeId(1), 700);
        format(&mut page, PageKind::IndexLeaf, pid, TreeId(5));
        seal(&mut page, place);
        assert_eq!(verify(&page, place), Ok(PageKind::IndexLeaf));
        assert!(verify(&page, Place::new(HomeId(1), 701)).is_err());
        for at in [0, 5, 6, 8, 100, PAGE_BYTES - 1] {
            page[at] ^= 4;
            assert!(verify(&page, place).unwrap_err().contains("checksum"), "byte {at}");
            page[at] ^= 4;
        }
    }
}
