//! COPY's file formats: text and CSV, read and written as PostgreSQL does.
//!
//! Invariants: sans-I/O; a decoder takes any split of the input into pieces and gives the same
//! rows; a row's fields lie in one reused buffer, so a row costs no allocation. Errors carry the
//! line (22P04 and its kin). What a format cannot express was refused when the options were read.

mod csv;
mod options;
mod text;
#[cfg(test)]
mod tests;

pub use options::{CopyFormat, Form, Header};

use crate::error::{SqlError, SqlResult, SqlState};

/// One row's fields, or the columns' names.
#[derive(Default, Debug)]
pub struct Fields {
    bytes: Vec<u8>,
    // Where each field ends, and whether it is NULL.
    ends: Vec<(usize, bool)>,
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

    /// The `at`-th field; none if it is NULL. Error 22021 if it is not UTF-8.
    pub fn get(&self, at: usize) -> SqlResult<Option<&str>> {
        let (end, is_null) = self.ends[at];
        if is_null {
            return Ok(None);
        }
        let start = if at == 0 { 0 } else { self.ends[at - 1].0 };
        match std::str::from_utf8(&self.bytes[start..end]) {
            Ok(text) if !text.contains('\0') => Ok(Some(text)),
            _ => Err(SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"UTF8\"",
            )),
        }
    }

    fn clear(&mut self) {
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
    input: Vec<u8>,
    at: usize,
    finished: bool,
    line: u64,
    // The header is still to come.
    header_due: bool,
}

impl Decoder {
    /// At the beginning of the data.
    pub fn new(format: &CopyFormat) -> Decoder {
        Decoder {
            format: format.clone(),
            input: Vec::new(),
            at: 0,
            finished: false,
            line: 0,
            header_due: format.header != Header::None,
        }
    }

    /// Where more input is to be appended.
    pub fn input(&mut self) -> &mut Vec<u8> {
        self.input.drain(..self.at);
        self.at = 0;
        &mut self.input
    }

    /// The input is over: what is left is the last row.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The line that the last row began in, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next row, into `fields`. Errors: 22P04.
    pub fn next(&mut self, fields: &mut Fields) -> SqlResult<Decoded> {
        loop {
            fields.clear();
            let rest = &self.input[self.at..];
            if rest.is_empty() {
                return Ok(Decoded::NeedsMore);
            }
            let read = match self.format.form {
                Form::Text => text::read(&self.format, rest, self.finished, fields),
                Form::Csv => csv::read(&self.format, rest, self.finished, fields),
            };
            let (decoded, bytes, lines) =
                read.map_err(|error| error.context(format!("COPY, line {}", self.line + 1)))?;
            self.at += bytes;
            self.line += lines;
            if decoded == Decoded::Row && std::mem::take(&mut self.header_due) {
                continue;
            }
            return Ok(decoded);
        }
    }
}

/// Appends one row to `out`. `values` are the columns' text forms, none for NULL.
pub fn encode<'v>(
    format: &CopyFormat,
    values: impl Iterator<Item = Option<&'v str>>,
    out: &mut Vec<u8>,
) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(format.delimiter);
        }
        match (value, format.form) {
            (None, _) => out.extend_from_slice(format.null.as_bytes()),
            (Some(value), Form::Text) => text::write(format, value, out),
            (Some(value), Form::Csv) => csv::write(format, value, at == 0, out),
        }
    }
    out.push(b'\n');
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}
