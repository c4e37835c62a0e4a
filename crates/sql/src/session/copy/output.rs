//! COPY TO STDOUT: rows of a query as CopyData.
//!
//! Invariants: stands between the executor and the client; what is no row passes through. In
//! binary format the header goes in one message with the first row, or with the trailer if there
//! is none, as PostgreSQL sends it: drivers expect that.

use super::wire_format;
use crate::copy::{CopyFormat, Encoder, Form, Header};
use crate::error::{ErrorFields, SqlError, SqlResult};
use crate::functions::FunctionContext;
use crate::session::client::{
    Announce, Client, ColumnDescription, CopyInput, Format, Room, Severity,
};
use crate::types::limits::{BUFFER_BYTES_MAX, cannot_enlarge};
use crate::types::{Datum, RowValues, Text, binary, text as text_form};
use std::sync::Arc;

/// A longer line's memory is given back.
const LINE_BYTES_KEPT: usize = 1 << 20;

/// The client of a query whose rows are copied out.
pub(super) struct CopyOut<'c> {
    client: &'c mut dyn Client,
    options: &'c CopyFormat,
    // The error for a column named in an option that is none.
    missing: &'c dyn Fn(&str) -> Option<SqlError>,
    encoder: Encoder,
    wrong: Option<SqlError>,
    columns: Arc<[ColumnDescription]>,
    line: Vec<u8>,
    shown: Vec<Option<Text>>,
    rows: u64,
}

impl<'c> CopyOut<'c> {
    pub(super) fn new(
        client: &'c mut dyn Client,
        options: &'c CopyFormat,
        missing: &'c dyn Fn(&str) -> Option<SqlError>,
    ) -> CopyOut<'c> {
        CopyOut {
            client,
            options,
            missing,
            encoder: Encoder::new(options, &[]),
            wrong: None,
            columns: Arc::from([]),
            line: Vec::new(),
            shown: Vec::new(),
            rows: 0,
        }
    }

    /// Ends the copy; answers how many rows there were.
    pub(super) fn finish(mut self) -> SqlResult<u64> {
        if let Some(error) = self.wrong {
            return Err(error);
        }
        if self.options.form == Form::Binary {
            self.encoder.end_binary(&mut self.line);
            // A full buffer is flushed with CommandComplete.
            let _: Room = self.client.copy_data(&self.line)?;
        }
        self.client.end_copy_out();
        Ok(self.rows)
    }

    fn binary_row(&mut self, values: RowValues<'_>) -> SqlResult<()> {
        self.line.extend_from_slice(&(values.len() as i16).to_be_bytes());
        for (value, column) in values.iter().zip(self.columns.iter()) {
            binary::send_field(column.ty.oid, value, &mut self.line)?;
        }
        Ok(())
    }

    fn text_row(&mut self, values: RowValues<'_>, context: &dyn FunctionContext) {
        self.shown.clear();
        for (value, column) in values.iter().zip(self.columns.iter()) {
            self.shown.push(match value {
                Datum::Null => None,
                value => Some(text_form::output_string(column.ty.oid, value, context)),
            });
        }
        let shown = self.shown.iter().map(|value| value.as_deref());
        self.encoder.row(shown, &mut self.line);
    }
}

impl Client for CopyOut<'_> {
    fn begin_rows(&mut self, columns: &Arc<[ColumnDescription]>, _: &[Format], _: Announce) {
        self.columns = columns.clone();
        let names: Vec<String> = columns.iter().map(|column| column.name.to_string()).collect();
        self.encoder = Encoder::new(self.options, &names);
        // Said before CopyOutResponse: the statement fails at its first row or its end.
        self.wrong = self.options.resolve(&names, self.missing).err();
        if self.wrong.is_some() {
            return;
        }
        self.client.begin_copy_out(columns.len(), wire_format(self.options));
        self.line.clear();
        if self.options.form == Form::Binary {
            self.encoder.begin_binary(&mut self.line);
        } else if self.options.header == Header::Line {
            self.encoder.header(columns.iter().map(|column| &*column.name), &mut self.line);
            // A full buffer is flushed with the first row.
            let _ = self.client.copy_data(&self.line);
            self.line.clear();
        }
    }

    fn row(&mut self, values: RowValues<'_>, context: &dyn FunctionContext) -> SqlResult<Room> {
        if let Some(error) = self.wrong.take() {
            return Err(error);
        }
        match self.options.form {
            Form::Binary => self.binary_row(values)?,
            Form::Text | Form::Csv => self.text_row(values, context),
        }
        if self.line.len() > BUFFER_BYTES_MAX {
            let more = self.line.len() - BUFFER_BYTES_MAX;
            return Err(cannot_enlarge(BUFFER_BYTES_MAX, more));
        }
        self.rows += 1;
        let room = self.client.copy_data(&self.line);
        self.line.clear();
        self.line.shrink_to(LINE_BYTES_KEPT);
        room
    }

    fn flush(&mut self) -> SqlResult<()> {
        self.client.flush()
    }

    fn complete(&mut self, tag: &str) {
        self.client.complete(tag);
    }

    fn empty_query(&mut self) {
        self.client.empty_query();
    }

    fn suspended(&mut self) {
        self.client.suspended();
    }

    fn notice(&mut self, severity: Severity, notice: &ErrorFields) {
        self.client.notice(severity, notice);
    }

    fn parameter_status(&mut self, name: &str, value: &str) {
        self.client.parameter_status(name, value);
    }

    fn begin_copy_in(&mut self, columns: usize, format: Format) -> SqlResult<()> {
        self.client.begin_copy_in(columns, format)
    }

    fn read_copy(&mut self, buffer: &mut Vec<u8>) -> SqlResult<CopyInput> {
        self.client.read_copy(buffer)
    }

    fn begin_copy_out(&mut self, columns: usize, format: Format) {
        self.client.begin_copy_out(columns, format);
    }

    fn copy_data(&mut self, data: &[u8]) -> SqlResult<Room> {
        self.client.copy_data(data)
    }

    fn end_copy_out(&mut self) {
        self.client.end_copy_out();
    }
}
