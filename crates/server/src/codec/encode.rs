//! Backend messages, appended to a buffer that is reused.
//!
//! Invariants: a message's length word is written last, from where the message began; a row that
//! is given up in the middle leaves no byte behind. Lengths fit their words: counts of columns
//! are bounded far below, and whoever writes a row bounds it ([`RowWriter::bytes`]).

use super::startup::Protocol;

/// How bad an ErrorResponse is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorSeverity {
    /// The statement fails.
    Error,
    /// The session ends.
    Fatal,
    /// NoticeResponse's own words.
    Notice(&'static str),
}

/// One column of RowDescription.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The column's name.
    pub name: &'a str,
    /// The table's oid, or 0.
    pub table: u32,
    /// The column's number, or 0.
    pub number: i16,
    /// The type's oid.
    pub type_oid: u32,
    /// The type's size in bytes; negative for variable ones.
    pub type_bytes: i16,
    /// The type's modifier, or -1.
    pub modifier: i32,
    /// 0 for text, 1 for binary.
    pub format: i16,
}

/// What is to be sent.
#[derive(Default, Debug)]
pub struct Out {
    /// The encoded messages.
    pub bytes: Vec<u8>,
}

impl Out {
    /// Begins a message; the answer goes to `end`.
    fn begin(&mut self, tag: u8) -> usize {
        self.bytes.push(tag);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        start
    }

    fn end(&mut self, start: usize) {
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn i16(&mut self, value: i16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    fn i32(&mut self, value: i32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    fn c_string(&mut self, text: &str) {
        // A zero byte would end the string early; what the server says never has one, what it
        // repeats of the client's might.
        self.bytes.extend(text.bytes().filter(|byte| *byte != 0));
        self.bytes.push(0);
    }

    fn simple(&mut self, tag: u8) {
        let start = self.begin(tag);
        self.end(start);
    }

    /// The one-byte answer to SSLRequest and GSSENCRequest: not here.
    pub fn no_encryption(&mut self) {
        self.bytes.push(b'N');
    }

    /// AuthenticationOk.
    pub fn authentication_ok(&mut self) {
        let start = self.begin(b'R');
        self.i32(0);
        self.end(start);
    }

    /// NegotiateProtocolVersion: the newest version, and the options that are not known.
    pub fn negotiate_protocol(&mut self, newest: Protocol, unknown: &[&[u8]]) {
        let start = self.begin(b'v');
        self.i32(i32::from(newest.major) << 16 | i32::from(newest.minor));
        self.i32(unknown.len() as i32);
        for name in unknown {
            self.bytes.extend_from_slice(name);
            self.bytes.push(0);
        }
        self.end(start);
    }

    /// BackendKeyData; the secret has 4 bytes in protocol 3.0, up to 256 in 3.2.
    pub fn backend_key(&mut self, process: u32, secret: &[u8]) {
        let start = self.begin(b'K');
        self.bytes.extend_from_slice(&process.to_be_bytes());
        self.bytes.extend_from_slice(secret);
        self.end(start);
    }

    /// ParameterStatus.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        let start = self.begin(b'S');
        self.c_string(name);
        self.c_string(value);
        self.end(start);
    }

    /// ReadyForQuery; `status` is `I`, `T` or `E`.
    pub fn ready_for_query(&mut self, status: u8) {
        let start = self.begin(b'Z');
        self.bytes.push(status);
        self.end(start);
    }

    /// ErrorResponse or NoticeResponse; `fields` are (letter, value) beside severity.
    pub fn error<'f>(
        &mut self,
        severity: ErrorSeverity,
        fields: impl IntoIterator<Item = (u8, &'f str)>,
    ) {
        let (tag, word) = match severity {
            ErrorSeverity::Error => (b'E', "ERROR"),
            ErrorSeverity::Fatal => (b'E', "FATAL"),
            ErrorSeverity::Notice(word) => (b'N', word),
        };
        let start = self.begin(tag);
        for letter in [b'S', b'V'] {
            self.bytes.push(letter);
            self.c_string(word);
        }
        for (letter, value) in fields {
            self.bytes.push(letter);
            self.c_string(value);
        }
        self.bytes.push(0);
        self.end(start);
    }

    /// ParseComplete.
    pub fn parse_complete(&mut self) {
        self.simple(b'1');
    }

    /// BindComplete.
    pub fn bind_complete(&mut self) {
        self.simple(b'2');
    }

    /// CloseComplete.
    pub fn close_complete(&mut self) {
        self.simple(b'3');
    }

    /// NoData.
    pub fn no_data(&mut self) {
        self.simple(b'n');
    }

    /// EmptyQueryResponse.
    pub fn empty_query(&mut self) {
        self.simple(b'I');
    }

    /// PortalSuspended.
    pub fn portal_suspended(&mut self) {
        self.simple(b's');
    }

    /// CommandComplete.
    pub fn command_complete(&mut self, tag: &str) {
        let start = self.begin(b'C');
        self.c_string(tag);
        self.end(start);
    }

    /// ParameterDescription.
    pub fn parameter_description(&mut self, types: impl ExactSizeIterator<Item = u32>) {
        let start = self.begin(b't');
        self.bytes.extend_from_slice(&(types.len() as u16).to_be_bytes());
        for oid in types {
            self.bytes.extend_from_slice(&oid.to_be_bytes());
        }
        self.end(start);
    }

    /// RowDescription.
    pub fn row_description<'f>(&mut self, fields: impl ExactSizeIterator<Item = Field<'f>>) {
        let start = self.begin(b'T');
        self.i16(fields.len() as i16);
        for field in fields {
            self.c_string(field.name);
            self.bytes.extend_from_slice(&field.table.to_be_bytes());
            self.i16(field.number);
            self.bytes.extend_from_slice(&field.type_oid.to_be_bytes());
            self.i16(field.type_bytes);
            self.i32(field.modifier);
            self.i16(field.format);
        }
        self.end(start);
    }

    /// DataRow, value by value.
    pub fn data_row(&mut self, columns: usize) -> RowWriter<'_> {
        let start = self.begin(b'D');
        self.i16(columns as i16);
        RowWriter { out: self, start, left: columns }
    }

    /// CopyInResponse (`G`) or CopyOutResponse (`H`); `format` 0 is text, 1 binary.
    pub fn copy_response(&mut self, tag: u8, columns: usize, format: u8) {
        let start = self.begin(tag);
        self.bytes.push(format);
        self.i16(columns as i16);
        for _ in 0..columns {
            self.i16(i16::from(format));
        }
        self.end(start);
    }

    /// CopyData.
    pub fn copy_data(&mut self, data: &[u8]) {
        let start = self.begin(b'd');
        self.bytes.extend_from_slice(data);
        self.end(start);
    }

    /// CopyDone.
    pub fn copy_done(&mut self) {
        self.simple(b'c');
    }
}

/// A DataRow that is being written; dropping it before [`RowWriter::finish`] takes it back.
pub struct RowWriter<'o> {
    out: &'o mut Out,
    start: usize,
    left: usize,
}

impl RowWriter<'_> {
    /// The next value is NULL.
    pub fn null(&mut self) {
        self.left = self.left.checked_sub(1).expect("no more values than columns");
        self.out.i32(-1);
    }

    /// The next value is what `write` appends.
    pub fn value<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        self.left = self.left.checked_sub(1).expect("no more values than columns");
        let at = self.out.bytes.len();
        self.out.i32(0);
        write(&mut self.out.bytes)?;
        let length = (self.out.bytes.len() - at - 4) as u32;
        self.out.bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Bytes so far.
    pub fn bytes(&self) -> usize {
        self.out.bytes.len() - self.start
    }

    /// Ends the row.
    pub fn finish(self) {
        assert_eq!(self.left, 0, "a row has a value for each column");
        self.out.end(self.start);
        std::mem::forget(self);
    }
}

impl Drop for RowWriter<'_> {
    fn drop(&mut self) {
        self.out.bytes.truncate(self.start - 1);
    }
}
