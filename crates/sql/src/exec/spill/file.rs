//! Rows in a temporary file: written one after the other, read from any row on.
//!
//! Invariants: a row is its length and its values' bytes; rows are read only after `flush`. One
//! buffer for writing and one a reader, none larger than a sixteenth of `work_mem` (but a page at
//! least), counted as memory of whoever holds them.

use super::memory::{Memory, Reservation};
use super::{Row, codec};
use crate::error::{SqlError, SqlResult};
use crate::exec::Cx;
use crate::types::Datum;
use atoll_kernel::api::{Context, IoBuffer, TempFile};
use std::ops::Range;
use std::rc::Rc;

const BUFFER_MIN: usize = 4096;
const BUFFER_MAX: usize = 64 * 1024;

/// Memory beyond this that a long row took is given back once the row is written or read.
const BYTES_KEPT: usize = 1 << 20;

/// Bytes of a buffer of a reader or writer.
pub(super) fn buffer_bytes(memory: &Memory) -> usize {
    (memory.work_bytes() / 16).clamp(BUFFER_MIN, BUFFER_MAX)
}

/// A file of rows.
pub(super) struct SpillFile {
    file: TempFile,
    /// What is not written yet.
    pending: Vec<u8>,
    buffer: Option<IoBuffer>,
    memory: Rc<Memory>,
    rows: u64,
}

impl SpillFile {
    /// A new one.
    pub(super) fn create(cx: &mut Cx<'_, '_>) -> SqlResult<SpillFile> {
        let memory = cx.memory().clone();
        SpillFile::create_in(memory, cx.statement.context())
    }

    /// The same, without an execution.
    pub(super) fn create_in(memory: Rc<Memory>, context: &Context) -> SqlResult<SpillFile> {
        let file = TempFile::create(context)?;
        Ok(SpillFile { file, pending: Vec::new(), buffer: None, memory, rows: 0 })
    }

    /// The account that its buffers and bytes are of.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Rows in it.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Where the next row begins.
    pub(super) fn end(&self) -> u64 {
        self.file.len() + self.pending.len() as u64
    }

    /// Appends a row.
    pub(super) fn push(&mut self, row: &[Datum], cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.push_in(row, cx.statement.context())
    }

    /// The same, without an execution.
    pub(super) fn push_in(&mut self, row: &[Datum], context: &Context) -> SqlResult<()> {
        let start = self.pending.len();
        self.pending.extend_from_slice(&[0; 6]);
        row.iter().for_each(|value| codec::write(value, &mut self.pending));
        let bytes = u32::try_from(self.pending.len() - start - 6)
            .map_err(|_| SqlError::internal("a row of more than 4 GiB"))?;
        self.pending[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
        self.pending[start + 4..start + 6].copy_from_slice(&(row.len() as u16).to_le_bytes());
        self.rows += 1;
        let whole = self.pending.len() - self.pending.len() % buffer_bytes(&self.memory);
        self.write(whole, context)
    }

    /// Writes the first `bytes` of what is pending, a buffer at a time.
    fn write(&mut self, bytes: usize, context: &Context) -> SqlResult<()> {
        let mut written = 0;
        while written < bytes {
            let end = bytes.min(written + buffer_bytes(&self.memory));
            self.write_buffer(written..end, context)?;
            written = end;
        }
        // Once, not for each buffer: a row may be of a gigabyte.
        self.pending.drain(..bytes);
        self.pending.shrink_to(BYTES_KEPT);
        Ok(())
    }

    fn write_buffer(&mut self, range: Range<usize>, context: &Context) -> SqlResult<()> {
        let bytes = range.len();
        let mut buffer = match self.buffer.take() {
            Some(buffer) => buffer,
            None => IoBuffer::zeroed(buffer_bytes(&self.memory)),
        };
        buffer.set_len(bytes);
        buffer.copy_from_slice(&self.pending[range]);
        self.memory.add_temp(bytes as u64)?;
        self.buffer = Some(self.file.append(context, buffer)?);
        Ok(())
    }

    /// Writes what is pending; from here on everything pushed so far can be read.
    pub(super) fn flush(&mut self, context: &Context) -> SqlResult<()> {
        self.write(self.pending.len(), context)
    }

    /// No more is written: the buffer goes.
    pub(super) fn finish(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.flush(cx.statement.context())?;
        self.buffer = None;
        self.pending = Vec::new();
        Ok(())
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.memory.give_temp(self.file.len());
    }
}

/// Reads a file's rows in order.
#[derive(Default)]
pub(super) struct SpillReader {
    /// The bytes loaded, how many of them are taken, and where the file goes on.
    buffer: Option<IoBuffer>,
    at: usize,
    offset: u64,
    reserved: Reservation,
    record: Vec<u8>,
}

impl SpillReader {
    /// From the row that begins at `offset`.
    pub(super) fn at(offset: u64) -> SpillReader {
        SpillReader { offset, ..SpillReader::default() }
    }

    /// Goes to the row that begins at `offset`.
    pub(super) fn seek(&mut self, offset: u64) {
        self.at = self.buffer.as_ref().map_or(0, |buffer| buffer.len());
        self.offset = offset;
    }

    /// The next row; none at the end.
    pub(super) fn next(&mut self, file: &SpillFile, cx: &mut Cx<'_, '_>) -> SqlResult<Option<Row>> {
        self.next_in(file, cx.statement.context())
    }

    /// The same, for whoever reads without an execution.
    pub(super) fn next_in(
        &mut self,
        file: &SpillFile,
        context: &Context,
    ) -> SqlResult<Option<Row>> {
        let mut head = [0; 6];
        if !self.take(&mut head, file, context)? {
            return Ok(None);
        }
        let [a, b, c, d, e, f] = head;
        let mut record = std::mem::take(&mut self.record);
        record.resize(u32::from_le_bytes([a, b, c, d]) as usize, 0);
        if !record.is_empty() && !self.take(&mut record, file, context)? {
            return Err(SqlError::internal("a temporary file ends inside a row"));
        }
        let mut rest = record.as_slice();
        let row: SqlResult<Row> =
            (0..u16::from_le_bytes([e, f])).map(|_| codec::read(&mut rest)).collect();
        if record.capacity() <= BYTES_KEPT {
            self.record = record;
        }
        row.map(Some)
    }

    /// Fills `into`; false at the end of the file.
    fn take(&mut self, into: &mut [u8], file: &SpillFile, context: &Context) -> SqlResult<bool> {
        let mut filled = 0;
        while filled < into.len() {
            let there = self.buffer.as_ref().map_or(0, |buffer| buffer.len() - self.at);
            if there == 0 {
                if !self.load(file, context)? {
                    return Ok(false);
                }
                continue;
            }
            let bytes = there.min(into.len() - filled);
            if let Some(buffer) = &self.buffer {
                into[filled..filled + bytes].copy_from_slice(&buffer[self.at..self.at + bytes]);
            }
            self.at += bytes;
            filled += bytes;
        }
        Ok(true)
    }

    fn load(&mut self, file: &SpillFile, context: &Context) -> SqlResult<bool> {
        let bytes = buffer_bytes(&file.memory);
        let mut buffer = match self.buffer.take() {
            Some(buffer) => buffer,
            None => {
                self.reserved.grow(&file.memory, bytes)?;
                IoBuffer::zeroed(bytes)
            }
        };
        buffer.set_len(bytes);
        let buffer = file.file.read(context, self.offset, buffer)?;
        let loaded = buffer.len();
        self.offset += loaded as u64;
        self.at = 0;
        self.buffer = Some(buffer);
        Ok(loaded > 0)
    }
}
