//! COPY TO STDOUT: rows of a query as CopyData.
//!
//! Invariants: stands between the executor and the client; what is no row passes through.

use crate::copy::{CopyFormat, Header, encode};
use crate::error::{ErrorFields, SqlResult};
use crate::functions::FunctionContext;
use crate::session::client::{
    Announce, Client, ColumnDescription, CopyInput, Format, Room, Severity,
};
use crate::types::{Datum, Text, text as text_form};
use std::sync::Arc;

/// The client of a query whose rows are copied out.
pub(super) struct CopyOut<'c> {
    client: &'c mut dyn Client,
    options: &'c CopyFormat,
    columns: Arc<[ColumnDescription]>,
    line: Vec<u8>,
    shown: Vec<Option<Text>>,
    rows: u64,
}

impl<'c> CopyOut<'c> {
    pub(super) fn new(client: &'c mut dyn Client, options: &'c CopyFormat) -> CopyOut<'c> {
        CopyOut {
            client,
            options,
            columns: Arc::from([]),
            line: Vec::new(),
            shown: Vec::new(),
            rows: 0,
        }
    }

    /// Ends the copy; answers how many rows there were.
    pub(super) fn finish(self) -> u64 {
        self.client.end_copy_out();
        self.rows
    }
}

impl Client for CopyOut<'_> {
    fn begin_rows(&mut self, columns: &Arc<[ColumnDescription]>, _: &[Format], _: Announce) {
        self.columns = columns.clone();
        self.client.begin_copy_out(columns.len(), Format::Text);
        if self.options.header == Header::Line {
            self.line.clear();
            let names = columns.iter().map(|column| Some(&*column.name));
            encode(self.options, names, &mut self.line);
            // A full buffer is flushed with the first row.
            let _ = self.client.copy_data(&self.line);
        }
    }

    fn row(&mut self, values: &[Datum], context: &dyn FunctionContext) -> SqlResult<Room> {
        self.line.clear();
        self.shown.clear();
        for (value, column) in values.iter().zip(self.columns.iter()) {
            self.shown.push(match value {
                Datum::Null => None,
                value => Some(text_form::output_string(column.ty.oid, value, context)),
            });
        }
        let shown = self.shown.iter().map(|value| value.as_deref());
        encode(self.options, shown, &mut self.line);
        self.rows += 1;
        self.client.copy_data(&self.line)
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
