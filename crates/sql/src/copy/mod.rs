//! COPY's file formats: text, CSV and binary, read and written as PostgreSQL does.
//!
//! Invariants: sans-I/O; a decoder takes any split of the input into pieces and gives the same
//! rows; a row's fields lie in one reused buffer, so a row costs no allocation. After an error
//! (22P04 and its kin) [`Decoder::line`] and [`Decoder::line_text`] tell where it was. What a
//! format cannot express was refused when the options were read.

mod binary;
mod csv;
mod options;
mod text;
#[cfg(test)]
mod tests;

pub use options::{Columns, CopyFormat, Form, Header};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::limits::{self, BUFFER_BYTES_MAX as ROW_BYTES_MAX};

/// One row's fields, or the columns' names.
#[derive(Default, Debug)]
pub struct Fields {
    bytes: Vec<u8>,
    // Where each field ends, and whether it is NULL.
    ends: Vec<(usize, bool)>,
    // The column at which reading failed, where the format knows.
    failed: Option<usize>,
}

impl Fields {
    /// No fields.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The `at`-th field's bytes; none if it is NULL.
    pub fn bytes(&self, at: usize) -> Option<&[u8]> {
        let (end, is_null) = self.ends[at];
        let start = if at == 0 { 0 } else { self.ends[at - 1].0 };
        (!is_null).then(|| &self.bytes[start..end])
    }

    /// The `at`-th field; none if it is NULL. Error 22021 if it is not UTF-8.
    pub fn get(&self, at: usize) -> SqlResult<Option<&str>> {
        self.bytes(at).map(utf8).transpose()
    }

    /// The column at which reading failed, where the format knows.
    pub fn failed(&self) -> Option<usize> {
        self.failed
    }

    fn clear(&mut self) {
        self.failed = None;
        self.bytes.clear();
        self.ends.clear();
    }

    fn end_field(&mut self, is_null: bool) {
        if is_null {
            let start = self.ends.last().map_or(0, |(end, _)| *end);
            self.bytes.truncate(start);
        }
        self.ends.push((self.bytes.len(), is_null));
    }
}

/// What a decoder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A row; ask again.
    Row,
    /// Nothing until more input comes.
    NeedsMore,
    /// The end marker `\.`; what follows is ignored.
    End,
}

/// Reads rows out of a stream of bytes.
pub struct Decoder {
    format: CopyFormat,
    // The columns that are copied, and what FORCE_NULL and FORCE_NOT_NULL say of each.
    names: Vec<String>,
    force: Force,
    input: Vec<u8>,
    at: usize,
    finished: bool,
    line: u64,
    // Where the last line lies in the input, until more is appended.
    last: std::ops::Range<usize>,
    // The header is still to come.
    header_due: bool,
    // A row was begun that is not all there: how far it was read, in text and in CSV.
    begun: bool,
    searched: usize,
    place: csv::Place,
}

/// What options say of the columns' NULLs.
pub(crate) struct Force {
    null: Vec<bool>,
    not_null: Vec<bool>,
}

impl Decoder {
    /// At the beginning of the data of these columns.
    pub fn new(format: &CopyFormat, names: &[String]) -> Decoder {
        Decoder {
            names: names.to_vec(),
            force: Force {
                null: format.force_null.mask(names),
                not_null: format.force_not_null.mask(names),
            },
            format: format.clone(),
            input: Vec::new(),
            at: 0,
            finished: false,
            line: 0,
            last: 0..0,
            header_due: format.header != Header::None || format.form == Form::Binary,
            begun: false,
            searched: 0,
            place: csv::Place::START,
        }
    }

    /// Where more input is to be appended.
    pub fn input(&mut self) -> &mut Vec<u8> {
        self.input.drain(..self.at);
        self.at = 0;
        self.last = 0..0;
        &mut self.input
    }

    /// The input is over: what is left is the last row.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Is there input that was not read?
    pub fn has_rest(&self) -> bool {
        self.at < self.input.len()
    }

    /// The line that the last row ended in, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The last line itself, without its end; none in binary format, or if it is not UTF-8.
    pub fn line_text(&self) -> Option<&str> {
        let line = &self.input[self.last.clone()];
        std::str::from_utf8(line).ok().filter(|_| self.format.form != Form::Binary)
    }

    /// The next row, into `fields`: the same ones until a row is whole. Errors: 22P04; 54000 for a
    /// row of a gigabyte that is not whole.
    pub fn next(&mut self, fields: &mut Fields) -> SqlResult<Decoded> {
        if self.format.form == Form::Binary && self.header_due {
            match binary::read_header(&self.input[self.at..], self.finished)? {
                Some(bytes) => self.at += bytes,
                None => return Ok(Decoded::NeedsMore),
            }
            self.header_due = false;
        }
        loop {
            if !std::mem::take(&mut self.begun) {
                fields.clear();
            }
            let (finished, rest) = (self.finished, &self.input[self.at..]);
            if rest.is_empty() {
                return Ok(Decoded::NeedsMore);
            }
            let read = match self.format.form {
                Form::Text => text::read(&self.format, rest, finished, &mut self.searched, fields),
                Form::Csv => {
                    let place = &mut self.place;
                    csv::read(&self.format, &self.force, rest, finished, place, fields)
                }
                Form::Binary => binary::read(rest, finished, self.names.len(), fields),
            };
            let read = match read {
                Ok((Decoded::NeedsMore, ..)) if rest.len() > ROW_BYTES_MAX => {
                    Err(limits::cannot_enlarge(ROW_BYTES_MAX, rest.len() - ROW_BYTES_MAX))
                }
                read => read,
            };
            let (decoded, bytes, lines) = read.inspect_err(|_| {
                let quoted = self.format.form == Form::Csv;
                let line = rest.iter().position(|byte| *byte == b'\n').filter(|_| !quoted);
                self.last = self.at..self.at + line.unwrap_or(rest.len());
                self.line += 1;
            })?;
            self.last = self.at..self.at + bytes;
            while self.last.end > self.at && matches!(self.input[self.last.end - 1], b'\n' | b'\r')
            {
                self.last.end -= 1;
            }
            self.at += bytes;
            self.line += lines;
            self.begun = decoded == Decoded::NeedsMore && self.format.form == Form::Csv;
            if decoded == Decoded::Row && std::mem::take(&mut self.header_due) {
                if self.format.header == Header::Match {
                    self.match_header(fields)?;
                }
                continue;
            }
            return Ok(decoded);
        }
    }

    fn match_header(&self, fields: &Fields) -> SqlResult<()> {
        let (found, expected) = (fields.len(), self.names.len());
        if found != expected {
            return Err(bad(format!(
                "wrong number of fields in header line: got {found}, expected {expected}"
            )));
        }
        for (at, expected) in self.names.iter().enumerate() {
            let found = match fields.get(at)? {
                Some(found) if found == expected => continue,
                Some(found) => format!("\"{found}\""),
                None => format!("null value (\"{}\")", self.format.null),
            };
            return Err(bad(format!(
                "column name mismatch in header line field {}: got {found}, expected \"{expected}\"",
                at + 1
            )));
        }
        Ok(())
    }
}

/// Writes rows in a format.
pub struct Encoder {
    format: CopyFormat,
    force_quote: Vec<bool>,
}

impl Encoder {
    /// For rows of these columns.
    pub fn new(format: &CopyFormat, names: &[String]) -> Encoder {
        Encoder { format: format.clone(), force_quote: format.force_quote.mask(names) }
    }

    /// Appends one row in text or CSV. `values` are the columns' text forms, none for NULL.
    pub fn row<'v>(&self, values: impl Iterator<Item = Option<&'v str>>, out: &mut Vec<u8>) {
        for (at, value) in values.enumerate() {
            if at > 0 {
                out.push(self.format.delimiter);
            }
            match value {
                None => out.extend_from_slice(self.format.null.as_bytes()),
                Some(value) => self.value(value, self.force_quote[at], out),
            }
        }
        out.push(b'\n');
    }

    /// Appends the header line; names are quoted where they must be.
    pub fn header<'v>(&self, names: impl Iterator<Item = &'v str>, out: &mut Vec<u8>) {
        for (at, name) in names.enumerate() {
            if at > 0 {
                out.push(self.format.delimiter);
            }
            self.value(name, false, out);
        }
        out.push(b'\n');
    }

    fn value(&self, value: &str, quote: bool, out: &mut Vec<u8>) {
        match self.format.form {
            Form::Csv => {
                let quote = quote || (self.force_quote.len() == 1 && value == "\\.");
                csv::write(&self.format, value, quote, out);
            }
            _ => text::write(&self.format, value, out),
        }
    }

    /// Appends what stands before the first row of the binary format.
    pub fn begin_binary(&self, out: &mut Vec<u8>) {
        binary::write_header(out);
    }

    /// Appends what stands behind the last row of the binary format.
    pub fn end_binary(&self, out: &mut Vec<u8>) {
        binary::write_trailer(out);
    }
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// The text of a field (22021, with the bytes that are wrong).
fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    crate::types::binary::utf8(bytes)
}
