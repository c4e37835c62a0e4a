//! The redo payload of a transaction: logical row changes in order (rule 7.1).
//!
//! | bytes | content |
//! | --- | --- |
//! | 1 | kind (bits 0-1: 0 note, 1 insert, 2 update, 3 delete); bit 2: tree as in the last change; 8: long value |
//! | varint | tree, unless as before; then the row (not in a note or long value) |
//! | insert | count, then each column's value |
//! | update | count, then (column, value) each |
//! | note | length, bytes |
//! | long value | bytes of the value, its blocks (`page::overflow`), its CRC-32C (4) |
//!
//! A value is a varint, and bytes: 0 for null, length + 2 before its bytes, or 1 before a varint
//! that numbers one of the payload's long values, from 0 on. Varints are LEB128. Long values come
//! right before the one change that names them, so that they can be logged a block at a time (rule
//! 7.3), and a payload read in pieces.
//!
//! Invariants: encoding allocates only while its buffer grows; a decoder checks everything before
//! it gives a change out, accepts any bytes, and answers `Corrupt` for what no encoder writes.

use crate::base::{Error, Result, RowId, TreeId};
use crate::page::COLUMNS_MAX;
use crate::page::overflow::{self, StoredLong};

const NOTE: u8 = 0;
const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;
const SAME_TREE: u8 = 4;
const LONG: u8 = 8;

const VALUE_NULL: u64 = 0;
const VALUE_LONG: u64 = 1;
const VALUE_INLINE: u64 = 2;

/// Collects a transaction's redo.
#[derive(Default, Debug)]
pub struct RedoBuffer {
    bytes: Vec<u8>,
    /// Bytes before these, in chunks that the log has already.
    spilled: u64,
    tree: Option<TreeId>,
    /// Long values so far.
    longs: u64,
}

/// A position in a [`RedoBuffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RedoMark {
    len: u64,
    tree: Option<TreeId>,
    longs: u64,
}

impl RedoMark {
    /// Before anything.
    pub(crate) const START: RedoMark = RedoMark { len: 0, tree: None, longs: 0 };
}

impl RedoBuffer {
    /// What was collected and not spilled.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that come before [`RedoBuffer::bytes`], in spilled chunks.
    pub fn spilled_bytes(&self) -> u64 {
        self.spilled
    }

    /// The first `bytes` are in a chunk now: drops them here.
    pub fn spill(&mut self, bytes: usize) {
        self.bytes.drain(..bytes);
        self.spilled += bytes as u64;
        if self.bytes.is_empty() {
            // What follows can be read without what was spilled.
            self.tree = None;
        }
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spilled = 0;
        self.tree = None;
        self.longs = 0;
    }

    pub(crate) fn mark(&self) -> RedoMark {
        let len = self.spilled + self.bytes.len() as u64;
        RedoMark { len, tree: self.tree, longs: self.longs }
    }

    /// Discards what came after `to`, of spilled chunks too.
    pub(crate) fn truncate(&mut self, to: RedoMark) {
        self.longs = to.longs;
        match to.len.checked_sub(self.spilled) {
            Some(len) if len > 0 => {
                self.bytes.truncate(len as usize);
                self.tree = to.tree;
            }
            _ => {
                self.bytes.clear();
                self.spilled = to.len;
                self.tree = None;
            }
        }
    }

    fn head(&mut self, kind: u8, tree: TreeId, row: RowId) {
        if self.tree == Some(tree) {
            self.bytes.push(kind | SAME_TREE);
        } else {
            self.bytes.push(kind);
            put_varint(&mut self.bytes, tree.0 as u64);
            self.tree = Some(tree);
        }
        put_varint(&mut self.bytes, row.0);
    }

    /// A row was inserted, with these columns.
    pub fn insert(&mut self, tree: TreeId, row: RowId, values: &[Option<&[u8]>]) {
        self.insert_with(tree, row, values, |_| None);
    }

    /// As [`RedoBuffer::insert`]; `long` says which values are which of the long ones.
    pub fn insert_with(
        &mut self,
        tree: TreeId,
        row: RowId,
        values: &[Option<&[u8]>],
        long: impl Fn(usize) -> Option<u64>,
    ) {
        self.head(INSERT, tree, row);
        put_varint(&mut self.bytes, values.len() as u64);
        for (at, value) in values.iter().enumerate() {
            put_value(&mut self.bytes, *value, long(at));
        }
    }

    /// Columns of a row were changed.
    pub fn update(&mut self, tree: TreeId, row: RowId, changes: &[(u16, Option<&[u8]>)]) {
        self.update_with(tree, row, changes, |_| None);
    }

    /// As [`RedoBuffer::update`]; `long` says which values are which of the long ones.
    pub fn update_with(
        &mut self,
        tree: TreeId,
        row: RowId,
        changes: &[(u16, Option<&[u8]>)],
        long: impl Fn(usize) -> Option<u64>,
    ) {
        self.head(UPDATE, tree, row);
        put_varint(&mut self.bytes, changes.len() as u64);
        for (at, (column, value)) in changes.iter().enumerate() {
            put_varint(&mut self.bytes, *column as u64);
            put_value(&mut self.bytes, *value, long(at));
        }
    }

    /// As [`RedoBuffer::update`], none of the values long.
    #[inline]
    pub fn update_columns<'v>(
        &mut self,
        tree: TreeId,
        row: RowId,
        changes: impl ExactSizeIterator<Item = (u16, Option<&'v [u8]>)>,
    ) {
        self.head(UPDATE, tree, row);
        put_varint(&mut self.bytes, changes.len() as u64);
        for (column, value) in changes {
            put_varint(&mut self.bytes, column.into());
            put_value(&mut self.bytes, value, None);
        }
    }

    /// A long value of `raw_bytes` begins; answers its number. Its blocks and its end follow
    /// before anything else.
    pub fn begin_long(&mut self, raw_bytes: u32) -> u64 {
        self.bytes.push(LONG);
        put_varint(&mut self.bytes, raw_bytes.into());
        self.longs += 1;
        self.longs - 1
    }

    /// The next block of the long value.
    pub fn long_block(&mut self, block: &[u8]) {
        self.bytes.extend_from_slice(block);
    }

    /// The end of the long value.
    pub fn end_long(&mut self, checksum: u32) {
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
    }

    /// A row was deleted.
    pub fn delete(&mut self, tree: TreeId, row: RowId) {
        self.head(DELETE, tree, row);
    }

    /// Something that only its writer understands.
    pub fn note(&mut self, bytes: &[u8]) {
        self.bytes.push(NOTE);
        put_varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>, long: Option<u64>) {
    // Most are numbers: their length and their bytes are one store each, with one look at the room.
    match value {
        Some(value) if value.len() == 4 && long.is_none() => put_short::<4, 5>(out, value),
        Some(value) if value.len() == 8 && long.is_none() => put_short::<8, 9>(out, value),
        _ => put_other(out, value, long),
    }
}

/// `N` bytes of an inline value; `M` is one more.
#[inline(always)]
fn put_short<const N: usize, const M: usize>(out: &mut Vec<u8>, value: &[u8]) {
    let mut both = [0; M];
    both[0] = N as u8 + VALUE_INLINE as u8;
    both[1..].copy_from_slice(value);
    out.extend_from_slice(&both);
}

fn put_other(out: &mut Vec<u8>, value: Option<&[u8]>, long: Option<u64>) {
    if let Some(number) = long {
        put_varint(out, VALUE_LONG);
        put_varint(out, number);
        return;
    }
    match value {
        None => put_varint(out, VALUE_NULL),
        Some(value) => {
            put_varint(out, value.len() as u64 + VALUE_INLINE);
            out.extend_from_slice(value);
        }
    }
}

/// One change of a payload.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// A row was inserted.
    Insert {
        /// The table tree.
        tree: TreeId,
        /// The new row.
        row: RowId,
        /// All its columns in order.
        values: Values<'a>,
    },
    /// Columns of a row were changed.
    Update {
        /// The table tree.
        tree: TreeId,
        /// The row.
        row: RowId,
        /// The changed columns.
        changes: Changes<'a>,
    },
    /// A row was deleted.
    Delete {
        /// The table tree.
        tree: TreeId,
        /// The row.
        row: RowId,
    },
    /// Something that only its writer understands.
    Note(&'a [u8]),
}

/// One value of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedoValue<'a> {
    /// Null.
    Null,
    /// These bytes.
    Inline(&'a [u8]),
    /// One of the payload's long values, by its number ([`RedoReader::longs`]).
    Long(u64),
}

/// The values of an inserted row, checked.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for Values<'a> {
    type Item = RedoValue<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        take_value(&mut self.rest)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Values<'_> {}

impl<'a> Values<'a> {
    /// The `count` values at the beginning of `bytes`, where a [`RedoReader`] has checked them.
    #[inline]
    pub fn at(bytes: &'a [u8], count: usize) -> Values<'a> {
        Values { rest: bytes, left: count }
    }
}

/// The changed columns of an update, checked.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Changes<'a> {
    /// The `count` changes at the beginning of `bytes`, where a [`RedoReader`] has checked them.
    #[inline]
    pub fn at(bytes: &'a [u8], count: usize) -> Changes<'a> {
        Changes { rest: bytes, left: count }
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = (u16, RedoValue<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let column = take_varint(&mut self.rest)? as u16;
        Some((column, take_value(&mut self.rest)?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Changes<'_> {}

#[inline]
fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    match rest.split_first() {
        Some((byte, after)) if *byte < 0x80 => {
            *rest = after;
            Some(u64::from(*byte))
        }
        _ => take_long_varint(rest),
    }
}

fn take_long_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        let bits = (*byte & 0x7f) as u64;
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[inline]
fn take_bytes<'a>(rest: &mut &'a [u8], len: u64) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = after;
    Some(bytes)
}

#[inline]
fn take_value<'a>(rest: &mut &'a [u8]) -> Option<RedoValue<'a>> {
    match take_varint(rest)? {
        VALUE_NULL => Some(RedoValue::Null),
        VALUE_LONG => take_varint(rest).map(RedoValue::Long),
        len => take_bytes(rest, len - VALUE_INLINE).map(RedoValue::Inline),
    }
}

fn take_long<'a>(rest: &mut &'a [u8]) -> Option<StoredLong<'a>> {
    let raw_bytes = u32::try_from(take_varint(rest)?).ok()?;
    let len = overflow::blocks_len(rest, raw_bytes as usize)?;
    let blocks = take_bytes(rest, len as u64)?;
    let checksum = take_bytes(rest, 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
    Some(StoredLong { raw_bytes, checksum, blocks })
}

/// Where in a payload a piece of it begins, behind a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedoPlace {
    tree: Option<TreeId>,
    longs: u64,
}

/// Whether a payload ends where the bytes given do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// A change that is not whole is an error.
    Here,
    /// A change that is not whole goes on in the next piece: reading ends before it.
    Later,
}

/// Whether a change has long values among its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamesLongs {
    /// One at least.
    Yes,
    /// None.
    No,
}

/// Reads a payload change by change; ends after the first error.
pub struct RedoReader<'a> {
    rest: &'a [u8],
    bytes: usize,
    ends: Ends,
    tree: Option<TreeId>,
    /// Long values of earlier pieces.
    longs_before: u64,
    longs: Vec<StoredLong<'a>>,
    /// Where the values of the last change given out begin, and whether it names long ones.
    values: (usize, NamesLongs),
    /// Bytes up to the end of the last change given out, and the place there.
    whole: (usize, RedoPlace),
}

impl<'a> RedoReader<'a> {
    /// Over a commit record's payload.
    pub fn new(payload: &'a [u8]) -> RedoReader<'a> {
        RedoReader::piece(payload, RedoPlace::default(), Ends::Here)
    }

    /// Over a piece of a payload that begins at `place`.
    pub fn piece(piece: &'a [u8], place: RedoPlace, ends: Ends) -> RedoReader<'a> {
        RedoReader {
            rest: piece,
            bytes: piece.len(),
            ends,
            tree: place.tree,
            longs_before: place.longs,
            longs: Vec::new(),
            values: (0, NamesLongs::No),
            whole: (0, place),
        }
    }

    /// How many bytes the payload has, or this piece of it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where in the bytes given the values of the last change given out begin ([`Values::at`],
    /// [`Changes::at`]), and whether it names long ones.
    #[inline]
    pub fn values(&self) -> (usize, NamesLongs) {
        self.values
    }

    /// The bytes up to the end of the last change given out, and the place where the next piece
    /// begins then.
    pub fn whole(&self) -> (usize, RedoPlace) {
        self.whole
    }

    /// The long values met so far: all that the changes given out name, the first of them by the
    /// number [`RedoReader::longs_before`].
    pub fn longs(&self) -> &[StoredLong<'a>] {
        &self.longs
    }

    /// How many long values earlier pieces had.
    pub fn longs_before(&self) -> u64 {
        self.longs_before
    }

    /// Long values until the next change.
    fn skip_longs(&mut self) -> Option<()> {
        while let Some((&LONG, after)) = self.rest.split_first() {
            self.rest = after;
            let long = take_long(&mut self.rest)?;
            self.longs.push(long);
        }
        Some(())
    }

    fn change(&mut self) -> Option<Change<'a>> {
        let rest = &mut self.rest;
        let (head, after) = rest.split_first()?;
        *rest = after;
        let kind = head & 3;
        if *head > (SAME_TREE | 3) || *head == (SAME_TREE | NOTE) {
            return None;
        }
        if kind == NOTE {
            let len = take_varint(rest)?;
            return take_bytes(rest, len).map(Change::Note);
        }
        if head & SAME_TREE == 0 {
            self.tree = Some(TreeId(u32::try_from(take_varint(rest)?).ok()?));
        }
        let tree = self.tree?;
        let row = RowId(take_varint(rest)?);
        if kind == DELETE {
            self.values = (self.bytes - rest.len(), NamesLongs::No);
            return Some(Change::Delete { tree, row });
        }
        let left = usize::try_from(take_varint(rest)?).ok().filter(|n| *n <= COLUMNS_MAX)?;
        let start = *rest;
        self.values = (self.bytes - start.len(), NamesLongs::No);
        for _ in 0..left {
            if kind == UPDATE && take_varint(rest)? >= COLUMNS_MAX as u64 {
                return None;
            }
            if let RedoValue::Long(number) = take_value(rest)? {
                let longs = self.longs_before..self.longs_before + self.longs.len() as u64;
                self.values.1 = NamesLongs::Yes;
                if !longs.contains(&number) {
                    return None;
                }
            }
        }
        let start = &start[..start.len() - rest.len()];
        Some(if kind == INSERT {
            Change::Insert { tree, row, values: Values { rest: start, left } }
        } else {
            Change::Update { tree, row, changes: Changes { rest: start, left } }
        })
    }
}

impl<'a> Iterator for RedoReader<'a> {
    type Item = Result<Change<'a>>;

    fn next(&mut self) -> Option<Result<Change<'a>>> {
        let at = self.bytes - self.rest.len();
        let skipped = self.skip_longs();
        if skipped.is_some() && self.rest.is_empty() {
            return None;
        }
        let change = skipped.and_then(|()| self.change());
        if change.is_some() {
            let longs = self.longs_before + self.longs.len() as u64;
            self.whole = (self.bytes - self.rest.len(), RedoPlace { tree: self.tree, longs });
        } else {
            self.rest = &[];
            if self.ends == Ends::Later {
                return None;
            }
        }
        Some(change.ok_or_else(|| Error::Corrupt {
            page: None,
            detail: format!("no row change at byte {at} of a redo payload of {}", self.bytes),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(payload: &[u8]) -> Vec<String> {
        let text = |value: RedoValue<'_>| match value {
            RedoValue::Null => "null".to_owned(),
            RedoValue::Inline(value) => format!("{value:?}"),
            RedoValue::Long(number) => format!("long {number}"),
        };
        RedoReader::new(payload)
            .map(|change| match change {
                Err(error) => error.to_string(),
                Ok(Change::Note(bytes)) => format!("note {bytes:?}"),
                Ok(Change::Delete { tree, row }) => format!("delete {tree}/{row}"),
                Ok(Change::Insert { tree, row, values }) => {
                    format!(
                        "insert {tree}/{row} {}",
                        values.map(text).collect::<Vec<_>>().join(" ")
                    )
                }
                Ok(Change::Update { tree, row, changes }) => {
                    let each = changes.map(|(column, value)| format!("{column}={}", text(value)));
                    format!("update {tree}/{row} {}", each.collect::<Vec<_>>().join(" "))
                }
            })
            .collect()
    }

    #[test]
    fn changes_read_back() {
        let mut redo = RedoBuffer::default();
        redo.insert(TreeId(7), RowId(1), &[Some(&[1, 2]), None, Some(&[])]);
        redo.update(TreeId(7), RowId(300), &[(2, Some(&[9])), (1599, None)]);
        let mark = redo.mark();
        redo.delete(TreeId(u32::MAX), RowId(u64::MAX));
        redo.truncate(mark);
        redo.note(&[5]);
        redo.delete(TreeId(7), RowId(u64::MAX));
        redo.delete(TreeId(8), RowId(0));
        assert_eq!(
            texts(redo.bytes()),
            [
                "insert 7/1 [1, 2] null []",
                "update 7/300 2=[9] 1599=null",
                "note [5]",
                &format!("delete 7/{}", u64::MAX),
                "delete 8/0",
            ]
        );
        // Kind, tree, row, count, 3 + 1 + 1; then kind, row (2), count, 1 + 2, 2 + 1.
        assert_eq!(mark.len, 4 + 5 + 4 + 3 + 3);
    }

    #[test]
    fn spilled_redo_is_cut_by_a_rollback_into_it() {
        let mut redo = RedoBuffer::default();
        redo.delete(TreeId(7), RowId(1));
        let first = redo.mark();
        redo.delete(TreeId(7), RowId(2));
        let chunk = redo.bytes().to_vec();
        redo.spill(chunk.len());
        assert_eq!((redo.bytes(), redo.spilled_bytes()), (&[][..], chunk.len() as u64));
        let second = redo.mark();
        redo.delete(TreeId(7), RowId(3));
        redo.truncate(second);
        redo.delete(TreeId(7), RowId(4));
        assert_eq!(texts(redo.bytes()), ["delete 7/4"]);
        redo.truncate(first);
        assert_eq!(redo.spilled_bytes(), first.len);
        redo.delete(TreeId(7), RowId(5));
        let whole = [&chunk[..redo.spilled_bytes() as usize], redo.bytes()].concat();
        assert_eq!(texts(&whole), ["delete 7/1", "delete 7/5"]);
    }

    #[test]
    fn long_values_are_numbered_and_forgotten_by_a_rollback() {
        let mut redo = RedoBuffer::default();
        let long = |redo: &mut RedoBuffer, value: &[u8]| {
            let number = redo.begin_long(value.len() as u32);
            let mut block = Vec::new();
            overflow::encode_block(value, &mut block);
            redo.long_block(&block);
            redo.end_long(crc32c::crc32c(value));
            number
        };
        let first = long(&mut redo, &[5; 300]);
        let mark = redo.mark();
        assert_eq!(long(&mut redo, &[6; 10]), 1);
        redo.truncate(mark);
        let second = long(&mut redo, &[7; 3]);
        assert_eq!((first, second), (0, 1));
        let number = |at: usize| [Some(second), None, Some(first)][at];
        redo.insert_with(TreeId(3), RowId(4), &[None, Some(&[1]), None], number);
        redo.update_with(TreeId(3), RowId(4), &[(8, None)], |_| Some(first));
        assert_eq!(texts(redo.bytes()), ["insert 3/4 long 1 [1] long 0", "update 3/4 8=long 0"]);
        let mut reader = RedoReader::new(redo.bytes());
        assert_eq!(reader.by_ref().count(), 2);
        let longs = reader.longs();
        assert_eq!(longs.iter().map(|long| long.raw_bytes).collect::<Vec<_>>(), [300, 3]);
        let mut value = Vec::new();
        overflow::decode_block(longs[0].blocks, 300, &mut value).unwrap();
        assert_eq!((value, longs[0].checksum), (vec![5; 300], crc32c::crc32c(&[5; 300])));
    }

    #[test]
    fn a_payload_reads_the_same_in_any_pieces() {
        let mut redo = RedoBuffer::default();
        for row in 0..40 {
            let tree = TreeId(row / 7);
            if row % 3 == 0 {
                let number = redo.begin_long(5);
                let mut block = Vec::new();
                overflow::encode_block(&[row as u8; 5], &mut block);
                redo.long_block(&block);
                redo.end_long(row);
                redo.insert_with(tree, RowId(row.into()), &[Some(&[1]), None], |at| {
                    (at == 1).then_some(number)
                });
            }
            redo.update(tree, RowId(row.into()), &[(300, Some(&[7; 9])), (2, None)]);
            redo.note(&[row as u8]);
        }
        // What changes say, long values spelled out.
        fn read(reader: &mut RedoReader<'_>, out: &mut Vec<String>) {
            while let Some(change) = reader.next() {
                let change = change.unwrap();
                let longs = match &change {
                    Change::Insert { values, .. } => (*values).collect(),
                    _ => Vec::new(),
                };
                let checksum = |value: &RedoValue<'_>| match value {
                    RedoValue::Long(number) => {
                        Some(reader.longs()[(number - reader.longs_before()) as usize].checksum)
                    }
                    _ => None,
                };
                out.push(format!(
                    "{change:?} {:?}",
                    longs.iter().map(checksum).collect::<Vec<_>>()
                ));
            }
        }
        let mut expected = Vec::new();
        read(&mut RedoReader::new(redo.bytes()), &mut expected);
        for step in [1, 2, 13, 50, 333] {
            let (mut found, mut held, mut place) = (Vec::new(), Vec::new(), RedoPlace::default());
            let mut pieces = redo.bytes().chunks(step).peekable();
            while let Some(piece) = pieces.next() {
                held.extend_from_slice(piece);
                let ends = if pieces.peek().is_some() { Ends::Later } else { Ends::Here };
                let mut reader = RedoReader::piece(&held, place, ends);
                read(&mut reader, &mut found);
                let (bytes, next) = reader.whole();
                place = next;
                held.drain(..bytes);
            }
            assert!(found == expected, "in pieces of {step}");
        }
    }

    #[test]
    fn any_bytes_decode_without_a_fault() {
        let seed =
            std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut redo = RedoBuffer::default();
        redo.insert(TreeId(7), RowId(1), &[Some(&[1, 2]), None, Some(&[3; 200])]);
        redo.update(TreeId(9), RowId(1 << 40), &[(2, Some(&[9])), (3, None)]);
        redo.note(b"hello");
        for _ in 0..20_000 {
            let mut bytes = redo.bytes().to_vec();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..=bytes.len()));
            let changes = texts(&bytes);
            assert!(changes.len() <= bytes.len(), "seed {seed}");
        }
    }

    #[test]
    fn what_no_encoder_writes_is_corrupt() {
        for bytes in [
            &[INSERT | SAME_TREE, 1, 0][..],
            &[8],
            &[SAME_TREE, 0],
            &[DELETE, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            &[DELETE, 0xff, 0xff, 0xff, 0xff, 0x10, 1],
            &[INSERT, 1, 1, 2, 2],
            &[INSERT, 1, 1, 1, 1, 0],
            &[LONG, 1, 2],
            &[LONG, 1, 1, 0, 0, 0, 7],
            &[UPDATE, 1, 1, 1, 0xc0, 0x0c, 0],
            &[NOTE, 3, 1],
        ] {
            let last = RedoReader::new(bytes).last().expect("there are bytes");
            assert!(matches!(last, Err(Error::Corrupt { .. })), "{bytes:?}");
        }
    }
}
