//! The form of an undo record in its chunk's words.
//!
//! Invariants: a record is six header words and a before-image, all in one chunk. Except for the
//! writer word (set to the cts when its transaction is stamped) and the number of rows that an
//! insert stands for (which grows, under the exclusive latch of the leaf that gets the row) nothing
//! of a published record changes until it is reclaimed. Decoding survives any content: a racing
//! reader may decode an overwritten record before it learns so.
//!
//! | word | content |
//! | --- | --- |
//! | 0 | writer: xid, or cts once stamped |
//! | 1 | next older record of the row |
//! | 2 | row id; of an insert of several rows the first |
//! | 3 | tree (low 32), command (high 32) |
//! | 4 | kind 8, flags 8, words 16, columns (of an insert: rows) 16, reserved bytes 16 |
//! | 5 | position of the same transaction's previous record, 0 for the first |
//!
//! The before-image is a run of (column u16 with a *context* bit, length u16 with a *long* bit or
//! NULL, bytes), padded with zeros to a word. A long value's bytes are its reference (rule 5.8).

use super::space::UndoRef;
use crate::base::{CommandId, RowId, Stamp, TreeId};
use crate::page::overflow::Form;
use crate::sync::{AtomicU64, Ordering};

pub(super) const WRITER: usize = 0;
pub(super) const SHAPE: usize = 4;
/// Words of the header.
pub(super) const HEADER_WORDS: usize = 6;

const IMAGE_NULL: u16 = u16::MAX;
/// The column was not changed: it is there because an index key needs it.
const CONTEXT: u16 = 1 << 15;
/// The value's bytes are a reference. Values in rows are shorter than this.
const LONG: u16 = 1 << 15;

/// What a record undoes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The row was inserted, or a run of rows with consecutive ids (rule 6.2): before, they were
    /// not.
    Insert = 1,
    /// Columns were changed: before, they were as in the image.
    Update = 2,
    /// The row was marked deleted; its columns are still in the page.
    Delete = 3,
    /// The row was locked; no change.
    Lock = 4,
}

impl Kind {
    fn from_raw(raw: u8) -> Option<Kind> {
        Some(match raw {
            1 => Kind::Insert,
            2 => Kind::Update,
            3 => Kind::Delete,
            4 => Kind::Lock,
            _ => return None,
        })
    }
}

/// What collection has to do for a record before it goes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Flags(pub(super) u8);

impl Flags {
    /// None.
    pub(crate) const NONE: Flags = Flags(0);
    /// An index key of the row changed; the image holds the whole old keys' columns.
    pub(crate) const KEY: Flags = Flags(1);
    /// A long value was replaced: its pages go with the record.
    pub(crate) const LONG: Flags = Flags(2);

    /// Those of both.
    pub(crate) fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` are set.
    pub(crate) fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A record's header, copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// In flight or committed.
    pub(crate) writer: Stamp,
    /// The next older record of the row.
    pub(crate) next: UndoRef,
    pub(crate) row: RowId,
    /// From `row` on, how many rows it is about: one, unless it is an insert.
    pub(crate) rows: u16,
    pub(crate) tree: TreeId,
    pub(crate) command: CommandId,
    pub(crate) kind: Kind,
    pub(crate) flags: Flags,
    /// Columns in the image.
    pub(crate) columns: u16,
    /// Heap bytes that were reserved for the row before the change.
    pub(crate) reserved: u16,
    /// Position of the transaction's previous record.
    pub(crate) previous: u64,
    words: u16,
}

impl Header {
    /// Whether it is a record of `row`.
    #[inline]
    pub(crate) fn is_of(&self, row: RowId) -> bool {
        row.0.wrapping_sub(self.row.0) < u64::from(self.rows)
    }

    /// The record as that of its row of this number.
    pub(crate) fn nth(&self, number: u16) -> Header {
        Header { row: RowId(self.row.0 + u64::from(number)), ..*self }
    }

    /// Whether collection has to visit the row before the record goes.
    pub(crate) fn needs_visit(&self) -> bool {
        needs_visit(self.kind, self.flags)
    }
}

/// Whether collection has to visit the row of such a record.
pub(crate) fn needs_visit(kind: Kind, flags: Flags) -> bool {
    kind == Kind::Delete || flags != Flags::NONE
}

pub(super) fn shape(kind: Kind, flags: Flags, words: usize, columns: u16, reserved: u16) -> u64 {
    kind as u64
        | (flags.0 as u64) << 8
        | (words as u64) << 16
        | (columns as u64) << 32
        | (reserved as u64) << 48
}

/// The shape of an insert that stands for `rows` rows.
pub(super) fn with_rows(shape: u64, rows: u16) -> u64 {
    shape & !(0xffff << 32) | u64::from(rows) << 32
}

/// Decodes the header at the start of `words`; none if it cannot be one.
#[inline]
pub(super) fn header(words: &[AtomicU64]) -> Option<Header> {
    if words.len() < HEADER_WORDS {
        return None;
    }
    // Acquire: partner is the release store of the stamp; who sees the cts sees the commit.
    let writer = words[WRITER].load(Ordering::Acquire);
    let load = |word: usize| words[word].load(Ordering::Relaxed);
    let shape = load(SHAPE);
    let place = load(3);
    let count = (shape >> 16) as u16;
    if (count as usize) < HEADER_WORDS || count as usize > words.len() {
        return None;
    }
    let kind = Kind::from_raw(shape as u8)?;
    let number = (shape >> 32) as u16;
    let (columns, rows) = if kind == Kind::Insert { (0, number) } else { (number, 1) };
    Some(Header {
        writer: Stamp::from_raw(writer),
        next: UndoRef(load(1)),
        row: RowId(load(2)),
        rows,
        tree: TreeId(place as u32),
        command: CommandId((place >> 32) as u32),
        kind,
        flags: Flags((shape >> 8) as u8),
        columns,
        reserved: (shape >> 48) as u16,
        previous: load(5),
        words: count,
    })
}

/// Copies the before-image of the record at the start of `words` into `out` (cleared first).
#[inline]
pub(super) fn image(words: &[AtomicU64], header: &Header, out: &mut Vec<u8>) {
    out.clear();
    for word in &words[HEADER_WORDS..header.words as usize] {
        out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
    }
}

/// One column of a before-image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageColumn<'a> {
    pub(crate) column: u16,
    /// Whether the change touched it; else it is context for index keys.
    pub(crate) changed: bool,
    pub(crate) value: Option<&'a [u8]>,
    /// Whether the value's bytes are a reference.
    pub(crate) form: Form,
}

/// Reads the columns of an image; stops early at what cannot be one.
#[derive(Clone)]
pub(crate) struct ImageReader<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> ImageReader<'a> {
    pub(crate) fn new(image: &'a [u8], columns: u16) -> ImageReader<'a> {
        ImageReader { rest: image, left: columns }
    }
}

impl<'a> Iterator for ImageReader<'a> {
    type Item = ImageColumn<'a>;

    #[inline]
    fn next(&mut self) -> Option<ImageColumn<'a>> {
        if self.left == 0 {
            return None;
        }
        let (head, rest) = self.rest.split_first_chunk::<4>()?;
        let column = u16::from_le_bytes([head[0], head[1]]);
        let len = u16::from_le_bytes([head[2], head[3]]);
        let bytes = if len == IMAGE_NULL { 0 } else { (len & !LONG) as usize };
        let is_long = len != IMAGE_NULL && len & LONG != 0;
        let (value, rest) = rest.split_at_checked(bytes)?;
        self.rest = rest;
        self.left -= 1;
        Some(ImageColumn {
            column: column & !CONTEXT,
            changed: column & CONTEXT == 0,
            value: (len != IMAGE_NULL).then_some(value),
            form: if is_long { Form::Long } else { Form::Inline },
        })
    }
}

/// Collects a before-image; reused, so that the steady state allocates nothing.
#[derive(Default)]
pub(crate) struct ImageBuilder {
    pub(super) bytes: Vec<u8>,
    pub(super) columns: u16,
    /// Those of them that are references to long values.
    longs: u16,
}

impl ImageBuilder {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.columns = 0;
        self.longs = 0;
    }

    /// Adds a column whose value `fill` appends; a null if it answers none.
    #[inline]
    pub(crate) fn push(
        &mut self,
        column: u16,
        changed: bool,
        fill: impl FnOnce(&mut Vec<u8>) -> Option<Form>,
    ) {
        let head = self.bytes.len();
        let word = if changed { column } else { column | CONTEXT };
        self.bytes.extend_from_slice(&word.to_le_bytes());
        self.bytes.extend_from_slice(&IMAGE_NULL.to_le_bytes());
        if let Some(form) = fill(&mut self.bytes) {
            let len = (self.bytes.len() - head - 4) as u16;
            let len = if form == Form::Long {
                self.longs += 1;
                len | LONG
            } else {
                len
            };
            self.bytes[head + 2..head + 4].copy_from_slice(&len.to_le_bytes());
        } else {
            self.bytes.truncate(head + 4);
        }
        self.columns += 1;
    }

    /// Adds a changed column whose value has fixed width.
    #[inline]
    pub(crate) fn push_fixed(&mut self, column: u16, value: Option<&[u8]>) {
        let len = value.map_or(IMAGE_NULL, |value| value.len() as u16);
        let head = u32::from(column) | u32::from(len) << 16;
        self.bytes.extend_from_slice(&head.to_le_bytes());
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.columns += 1;
    }

    /// Whether any value is a reference to a long one.
    #[inline]
    pub(crate) fn has_long(&self) -> bool {
        self.longs != 0
    }

    /// Bytes collected.
    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// What was collected, as a reader.
    pub(crate) fn read(&self) -> ImageReader<'_> {
        ImageReader::new(&self.bytes, self.columns)
    }

    /// Words of a record with this image.
    pub(super) fn record_words(&self) -> usize {
        record_words(self.bytes.len())
    }
}

/// Words of a record with `image_bytes` of before-image.
pub(crate) const fn record_words(image_bytes: usize) -> usize {
    HEADER_WORDS + image_bytes.div_ceil(8)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_image_reads_back() {
        let mut image = ImageBuilder::default();
        let put = |bytes: &'static [u8]| {
            move |out: &mut Vec<u8>| {
                out.extend_from_slice(bytes);
                Some(if bytes.len() == 4 { Form::Long } else { Form::Inline })
            }
        };
        image.push(3, true, put(b"abcd"));
        image.push(9, false, |_| None);
        image.push(0, true, put(b""));
        let read: Vec<ImageColumn> = image.read().collect();
        assert_eq!(
            read,
            [
                ImageColumn { column: 3, changed: true, value: Some(b"abcd"), form: Form::Long },
                ImageColumn { column: 9, changed: false, value: None, form: Form::Inline },
                ImageColumn { column: 0, changed: true, value: Some(b""), form: Form::Inline },
            ]
        );
    }

    #[test]
    fn garbage_decodes_to_nothing_or_stops() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..10_000 {
            let words: Vec<AtomicU64> =
                (0..random.usize(0..20)).map(|_| AtomicU64::new(random.u64(..))).collect();
            if let Some(header) = header(&words) {
                let mut bytes = Vec::new();
                image(&words, &header, &mut bytes);
                let columns = ImageReader::new(&bytes, header.columns).count();
                assert!(columns <= bytes.len() / 4);
            }
        }
    }
}
