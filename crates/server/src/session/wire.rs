//! The client as the SQL layer sees it: encodes what it says, reads COPY data.
//!
//! Invariants: what is encoded stays in `out` until `flush`, which the SQL layer calls only after
//! it has settled (kernel rule 7.6). A statement that fails takes back no message: what was
//! encoded before the error is sent before it, as PostgreSQL does.

use std::sync::Arc;

use atoll_kernel::runtime::{InstanceState, Parker, TaskContext};
use atoll_sql::error::ErrorFields;
use atoll_sql::functions::FunctionContext;
use atoll_sql::session::client::{
    Announce, Client, ColumnDescription, CopyInput, Format, Room, Severity, StatementDescription,
};
use atoll_sql::types::limits::{BUFFER_BYTES_MAX, cannot_enlarge};
use atoll_sql::types::{Datum, RowValues, binary, text, type_by_oid};
use atoll_sql::{SqlError, SqlResult, SqlState};

use crate::codec::{Decoded, ErrorSeverity, Field, Frontend, Limits, Out, decode};

use super::link::{Link, Receiving};

/// Encoded bytes after which the SQL layer is asked to settle and flush.
const OUT_BYTES_FULL: usize = 64 * 1024;

/// One conversation's view of its client.
pub(super) struct Wire<'c, S: InstanceState> {
    pub(super) context: &'c TaskContext<S>,
    pub(super) link: &'c Link,
    pub(super) limits: &'c Limits,
    pub(super) out: Out,
    // A message was refused without being read: where the next one begins is not known.
    pub(super) lost: bool,
    columns: Option<Arc<[ColumnDescription]>>,
    formats: Vec<Format>,
}

impl<'c, S: InstanceState> Wire<'c, S> {
    pub(super) fn new(
        context: &'c TaskContext<S>,
        link: &'c Link,
        limits: &'c Limits,
    ) -> Wire<'c, S> {
        let out = Out { bytes: link.buffer() };
        Wire { context, link, limits, out, lost: false, columns: None, formats: Vec::new() }
    }

    /// Hands what is encoded to the link; everything in it is settled. Does not wait.
    pub(super) fn hand_over(&mut self) {
        if !self.out.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.out.bytes);
            self.link.send(self.context.instance().ring(), bytes);
            self.out.bytes = self.link.buffer();
        }
    }

    /// Takes what is encoded: it is handed to the link later, when it has settled.
    pub(super) fn take_encoded(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out.bytes)
    }

    /// ErrorResponse.
    pub(super) fn error(&mut self, severity: ErrorSeverity, error: &SqlError) {
        write_error(&mut self.out, severity, error.fields());
    }

    /// ParameterDescription and RowDescription or NoData.
    pub(super) fn describe_statement(&mut self, description: &StatementDescription) {
        self.out.parameter_description(description.parameters.iter().map(|ty| ty.oid.0));
        match &description.columns {
            Some(columns) => describe(&mut self.out, columns, &[]),
            None => self.out.no_data(),
        }
    }

    /// RowDescription of a portal.
    pub(super) fn describe_columns(&mut self, columns: &[ColumnDescription], formats: &[Format]) {
        describe(&mut self.out, columns, formats);
    }

    fn room(&self) -> Room {
        if self.out.bytes.len() >= OUT_BYTES_FULL { Room::Full } else { Room::Enough }
    }

    /// Waits until the link has input that was not there before, or has ended.
    fn await_input(&mut self) -> SqlResult<()> {
        let before = self.link.input.borrow().unread().len();
        self.link.set_waiter(Some(self.context.unparker()));
        self.link.receive(self.context.instance().ring());
        while self.link.receiving() == Receiving::InFlight
            && self.link.input.borrow().unread().len() == before
        {
            self.context.park_aside(None);
        }
        self.link.set_waiter(None);
        if self.link.input.borrow().unread().len() == before {
            return Err(connection_lost());
        }
        Ok(())
    }
}

fn connection_lost() -> SqlError {
    SqlError::new(SqlState::CONNECTION_FAILURE, "connection to client lost")
}

fn format_of(formats: &[Format], index: usize) -> Format {
    match formats {
        [] => Format::Text,
        [all] => *all,
        each => each.get(index).copied().unwrap_or_default(),
    }
}

fn describe(out: &mut Out, columns: &[ColumnDescription], formats: &[Format]) {
    out.row_description(columns.iter().enumerate().map(|(index, column)| Field {
        name: &column.name,
        table: column.table,
        number: column.number,
        type_oid: column.ty.oid.0,
        type_bytes: type_by_oid(column.ty.oid).map_or(-1, |info| info.length),
        modifier: column.ty.typmod,
        format: i16::from(format_of(formats, index) == Format::Binary),
    }));
}

/// Writes ErrorResponse or NoticeResponse.
pub(super) fn write_error(out: &mut Out, severity: ErrorSeverity, fields: &ErrorFields) {
    let position = fields.position.map(|position| position.to_string());
    let optional = [
        (b'D', &fields.detail),
        (b'H', &fields.hint),
        (b'P', &position),
        (b'W', &fields.context),
        (b's', &fields.schema),
        (b't', &fields.table),
        (b'c', &fields.column),
        (b'd', &fields.datatype),
        (b'n', &fields.constraint),
    ];
    let always = [(b'C', fields.sqlstate.as_str()), (b'M', fields.message.as_str())];
    let told = optional.into_iter().filter_map(|(letter, value)| Some((letter, value.as_deref()?)));
    out.error(severity, always.into_iter().chain(told));
}

impl<S: InstanceState> Drop for Wire<'_, S> {
    fn drop(&mut self) {
        self.link.give_back(std::mem::take(&mut self.out.bytes));
    }
}

impl<S: InstanceState> Client for Wire<'_, S> {
    fn begin_rows(
        &mut self,
        columns: &Arc<[ColumnDescription]>,
        formats: &[Format],
        announce: Announce,
    ) {
        if announce == Announce::Yes {
            describe(&mut self.out, columns, formats);
        }
        self.columns = Some(columns.clone());
        self.formats.clear();
        self.formats.extend_from_slice(formats);
    }

    fn row(&mut self, values: RowValues<'_>, context: &dyn FunctionContext) -> SqlResult<Room> {
        let columns = self.columns.as_deref().unwrap_or_default();
        let mut row = self.out.data_row(values.len());
        for (index, (value, column)) in values.iter().zip(columns).enumerate() {
            if matches!(value, Datum::Null) {
                row.null();
                continue;
            }
            row.value(|bytes| match format_of(&self.formats, index) {
                Format::Binary => binary::send(column.ty.oid, value, bytes),
                Format::Text => {
                    text::output(column.ty.oid, value, context, bytes);
                    Ok(())
                }
            })?;
            if row.bytes() > BUFFER_BYTES_MAX {
                return Err(cannot_enlarge(BUFFER_BYTES_MAX, row.bytes() - BUFFER_BYTES_MAX));
            }
        }
        row.finish();
        Ok(self.room())
    }

    fn flush(&mut self) -> SqlResult<()> {
        self.hand_over();
        self.link.set_waiter(Some(self.context.unparker()));
        while !self.link.all_sent() {
            self.context.park_aside(None);
        }
        self.link.set_waiter(None);
        if self.link.is_broken() { Err(connection_lost()) } else { Ok(()) }
    }

    fn complete(&mut self, tag: &str) {
        self.out.command_complete(tag);
    }

    fn empty_query(&mut self) {
        self.out.empty_query();
    }

    fn suspended(&mut self) {
        self.out.portal_suspended();
    }

    fn notice(&mut self, severity: Severity, notice: &ErrorFields) {
        write_error(&mut self.out, ErrorSeverity::Notice(severity.as_str()), notice);
    }

    fn parameter_status(&mut self, name: &str, value: &str) {
        self.out.parameter_status(name, value);
    }

    fn begin_copy_in(&mut self, columns: usize, format: Format) -> SqlResult<()> {
        self.out.copy_response(b'G', columns, u8::from(format == Format::Binary));
        Ok(())
    }

    fn read_copy(&mut self, buffer: &mut Vec<u8>) -> SqlResult<CopyInput> {
        loop {
            let link = self.link;
            let input = link.input.borrow();
            let decoded = decode(input.unread(), self.limits)
                .map_err(|bad| SqlError::new(SqlState::PROTOCOL_VIOLATION, bad.0))?;
            let (answer, taken) = match decoded {
                Decoded::Incomplete(_) => {
                    drop(input);
                    self.flush()?;
                    self.await_input()?;
                    continue;
                }
                Decoded::Bad { why, .. } => {
                    return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, why.0));
                }
                Decoded::Message(Frontend::CopyData(data), taken) => {
                    buffer.extend_from_slice(data);
                    (Some(CopyInput::Data), taken)
                }
                Decoded::Message(Frontend::CopyDone, taken) => (Some(CopyInput::Done), taken),
                Decoded::Message(Frontend::CopyFail(why), taken) => {
                    (Some(CopyInput::Fail(String::from_utf8_lossy(why).into_owned())), taken)
                }
                Decoded::Message(Frontend::Sync | Frontend::Flush, taken) => (None, taken),
                Decoded::Message(..) => {
                    self.lost = true;
                    let kind = input.unread().first().copied().unwrap_or(0);
                    return Err(SqlError::new(
                        SqlState::PROTOCOL_VIOLATION,
                        format!("unexpected message type 0x{kind:02X} during COPY from stdin"),
                    ));
                }
            };
            drop(input);
            link.input.borrow_mut().consume(taken);
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }

    fn begin_copy_out(&mut self, columns: usize, format: Format) {
        self.out.copy_response(b'H', columns, u8::from(format == Format::Binary));
    }

    fn copy_data(&mut self, data: &[u8]) -> SqlResult<Room> {
        self.out.copy_data(data);
        Ok(self.room())
    }

    fn end_copy_out(&mut self) {
        self.out.copy_done();
    }
}
