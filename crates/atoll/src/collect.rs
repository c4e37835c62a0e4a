//! A client that keeps rows as text, for queries from within the process.
//!
//! Invariants: never waits; COPY has nobody to talk to and is refused (0A000).

use std::sync::Arc;

use atoll_sql::error::ErrorFields;
use atoll_sql::functions::FunctionContext;
use atoll_sql::session::client::{
    Announce, Client, ColumnDescription, CopyInput, Format, Room, Severity,
};
use atoll_sql::types::{Datum, RowValues, text};
use atoll_sql::{SqlError, SqlResult};

use crate::TextRow;

/// Rows so far, and the columns of those that come.
#[derive(Default)]
pub(crate) struct Collector {
    pub(crate) rows: Vec<TextRow>,
    columns: Option<Arc<[ColumnDescription]>>,
}

fn no_copy() -> SqlError {
    SqlError::not_supported("COPY from within the process")
}

impl Client for Collector {
    fn begin_rows(
        &mut self,
        columns: &Arc<[ColumnDescription]>,
        _formats: &[Format],
        _announce: Announce,
    ) {
        self.columns = Some(columns.clone());
    }

    fn row(&mut self, values: RowValues<'_>, context: &dyn FunctionContext) -> SqlResult<Room> {
        let columns = self.columns.as_deref().unwrap_or_default();
        let print = |(value, column): (&Datum, &ColumnDescription)| match value {
            Datum::Null => None,
            value => Some(text::output_string(column.ty.oid, value, context).to_string()),
        };
        self.rows.push(values.iter().zip(columns).map(print).collect());
        Ok(Room::Enough)
    }

    fn flush(&mut self) -> SqlResult<()> {
        Ok(())
    }

    fn complete(&mut self, _tag: &str) {}

    fn empty_query(&mut self) {}

    fn suspended(&mut self) {}

    fn notice(&mut self, _severity: Severity, _notice: &ErrorFields) {}

    fn parameter_status(&mut self, _name: &str, _value: &str) {}

    fn begin_copy_in(&mut self, _columns: usize, _format: Format) -> SqlResult<()> {
        Err(no_copy())
    }

    fn read_copy(&mut self, _buffer: &mut Vec<u8>) -> SqlResult<CopyInput> {
        Err(no_copy())
    }

    fn begin_copy_out(&mut self, _columns: usize, _format: Format) {}

    fn copy_data(&mut self, _data: &[u8]) -> SqlResult<Room> {
        Err(no_copy())
    }

    fn end_copy_out(&mut self) {}
}
