//! What a session says to its client, and hears from it: the border to the server and to
//! embedding programs.
//!
//! Invariants: a session calls [`Client`] only from inside one of its own methods, in the order
//! in which the protocol's messages are to be sent. The client encodes; it may buffer. It must
//! not let a byte leave the database before [`crate::session::Session::settle`] has returned
//! after the call that produced it (kernel rule 7.6); when its buffer is full in the middle of a
//! statement it answers [`Room::Full`], and the session settles and calls [`Client::flush`].

use crate::error::{ErrorFields, SqlResult};
use crate::functions::FunctionContext;
use crate::types::{RowValues, Type};
use std::sync::Arc;

/// Text or binary, as Bind asks for it column by column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// The type's text form.
    #[default]
    Text,
    /// The type's binary form.
    Binary,
}

/// One column of a result, as RowDescription has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDescription {
    /// Its name.
    pub name: Arc<str>,
    /// Its type and modifier.
    pub ty: Type,
    /// The table's oid, 0 if it is no plain column.
    pub table: u32,
    /// The column's number in the table, 0 if it is no plain column.
    pub number: i16,
}

/// What Describe of a statement answers.
#[derive(Clone, Debug)]
pub struct StatementDescription {
    /// The parameters' types, declared or inferred.
    pub parameters: Vec<Type>,
    /// The columns; `None` for a statement that returns no rows (NoData).
    pub columns: Option<Arc<[ColumnDescription]>>,
}

/// Are rows announced to the client by RowDescription? By Describe they have been already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// Simple query: send RowDescription now.
    Yes,
    /// Extended query: only remember how to encode.
    No,
}

/// Has the client's buffer room for more?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Go on.
    Enough,
    /// Settle, then flush.
    Full,
}

/// How loud a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// WARNING.
    Warning,
    /// NOTICE.
    Notice,
    /// INFO.
    Info,
}

impl Severity {
    /// The protocol's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
            Severity::Info => "INFO",
        }
    }
}

/// What COPY FROM STDIN gets from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyInput {
    /// CopyData was appended to the buffer.
    Data,
    /// CopyDone.
    Done,
    /// CopyFail, with its message.
    Fail(String),
}

/// The other end of a session.
pub trait Client {
    /// Rows with these columns follow; `formats` has none (all text), one (for all) or one a
    /// column. With [`Announce::Yes`] sends RowDescription.
    fn begin_rows(
        &mut self,
        columns: &Arc<[ColumnDescription]>,
        formats: &[Format],
        announce: Announce,
    );

    /// One row (DataRow); the values are of the columns' types. `context` is what
    /// `types::text::output` asks for zone and digits. An error of encoding ends the statement.
    fn row(&mut self, values: RowValues<'_>, context: &dyn FunctionContext) -> SqlResult<Room>;

    /// Sends what is buffered; everything in it is settled. May wait for the network.
    fn flush(&mut self) -> SqlResult<()>;

    /// CommandComplete with PostgreSQL's tag.
    fn complete(&mut self, tag: &str);

    /// EmptyQueryResponse.
    fn empty_query(&mut self);

    /// PortalSuspended.
    fn suspended(&mut self);

    /// NoticeResponse.
    fn notice(&mut self, severity: Severity, notice: &ErrorFields);

    /// ParameterStatus: a reported setting has a new value.
    fn parameter_status(&mut self, name: &str, value: &str);

    /// CopyInResponse: text format, this many columns.
    fn begin_copy_in(&mut self, columns: usize, format: Format) -> SqlResult<()>;

    /// Waits for the client's next COPY message and appends its data to `buffer`. Other messages
    /// than CopyData, CopyDone and CopyFail are the client's to handle (Flush and Sync are
    /// ignored, anything else is 08P01). Flushes before it waits.
    fn read_copy(&mut self, buffer: &mut Vec<u8>) -> SqlResult<CopyInput>;

    /// CopyOutResponse: text format, this many columns.
    fn begin_copy_out(&mut self, columns: usize, format: Format);

    /// CopyData.
    fn copy_data(&mut self, data: &[u8]) -> SqlResult<Room>;

    /// CopyDone.
    fn end_copy_out(&mut self);
}

/// ReadyForQuery's letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`: no transaction.
    Idle,
    /// `T`: in a transaction block.
    InBlock,
    /// `E`: in a failed transaction block.
    Failed,
}

impl TransactionStatus {
    /// The protocol's letter.
    pub fn letter(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InBlock => b'T',
            TransactionStatus::Failed => b'E',
        }
    }
}
