//! SQL in this process, without a wire: definitions, and the questions of checks.
//!
//! Invariants: a text runs in a session of its own and is settled before it is answered; answers
//! are texts, as a client would see them, so that `wire` can be asked the same.

use std::sync::Arc;

use atoll_kernel::api::{Database, Target};
use atoll_sql::functions::FunctionContext;
use atoll_sql::session::client::{
    Announce, Client, ColumnDescription, CopyInput, Format, Room, Severity,
};
use atoll_sql::session::{Engine, Local, Session, SessionStart};
use atoll_sql::types::{Datum, RowValues, text};
use atoll_sql::{SqlError, SqlResult};

/// The rows of an answer; NULL is none.
pub type Rows = Vec<Vec<Option<String>>>;

/// Who answers questions in SQL.
pub trait Ask {
    /// The rows that one statement answers.
    fn ask(&mut self, statement: &str) -> Result<Rows, String>;
}

/// The only value of the only row, a whole number.
pub fn number(ask: &mut dyn Ask, statement: &str) -> Result<i64, String> {
    let [number] = numbers(ask, statement)?;
    Ok(number)
}

/// The values of the only row, whole numbers; NULL counts as 0.
pub fn numbers<const N: usize>(ask: &mut dyn Ask, statement: &str) -> Result<[i64; N], String> {
    let rows = ask.ask(statement)?;
    let unexpected = || format!("not {N} whole numbers: {statement}");
    let [row] = rows.as_slice() else { return Err(unexpected()) };
    let parse = |value: &Option<String>| value.as_deref().unwrap_or("0").parse().ok();
    let numbers: Option<Vec<i64>> = row.iter().map(parse).collect();
    numbers.and_then(|it| it.try_into().ok()).ok_or_else(unexpected)
}

/// A database of this process answers.
impl Ask for &Database {
    fn ask(&mut self, statement: &str) -> Result<Rows, String> {
        run(self, statement)
    }
}

/// Runs SQL text in a session of its own.
pub fn run_sql(database: &Database, text: &str) -> Result<(), String> {
    run(database, text).map(drop)
}

fn run(database: &Database, text: &str) -> Result<Rows, String> {
    let engine = Engine::new(database);
    let ran = database.run(Target::Any, |context| -> SqlResult<Rows> {
        let local = Local::new(&engine);
        let start = SessionStart {
            user: "postgres".to_owned(),
            database: "postgres".to_owned(),
            ..SessionStart::default()
        };
        let mut session = Session::new(&local, context.instance(), start)?;
        let mut listener = Listener::default();
        let result = session.simple_query(context, text, &mut listener);
        let settled = session.settle(context);
        session.end(context);
        result.and(settled).map(|()| listener.rows)
    });
    match ran {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(error)) => Err(error.message().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A client that keeps rows and sends nothing.
#[derive(Default)]
struct Listener {
    columns: Option<Arc<[ColumnDescription]>>,
    rows: Rows,
}

impl Client for Listener {
    fn begin_rows(&mut self, columns: &Arc<[ColumnDescription]>, _: &[Format], _: Announce) {
        self.columns = Some(columns.clone());
    }

    fn row(&mut self, values: RowValues<'_>, context: &dyn FunctionContext) -> SqlResult<Room> {
        let columns = self.columns.iter().flat_map(|it| it.iter());
        let values = values.iter().zip(columns).map(|(value, column)| match value {
            Datum::Null => None,
            value => Some(text::output_string(column.ty.oid, value, context).to_string()),
        });
        self.rows.push(values.collect());
        Ok(Room::Enough)
    }

    fn flush(&mut self) -> SqlResult<()> {
        Ok(())
    }

    fn complete(&mut self, _: &str) {}

    fn empty_query(&mut self) {}

    fn suspended(&mut self) {}

    fn notice(&mut self, _: Severity, _: &atoll_sql::error::ErrorFields) {}

    fn parameter_status(&mut self, _: &str, _: &str) {}

    fn begin_copy_in(&mut self, _: usize, _: Format) -> SqlResult<()> {
        Err(SqlError::not_supported("COPY FROM STDIN without a client"))
    }

    fn read_copy(&mut self, _: &mut Vec<u8>) -> SqlResult<CopyInput> {
        Ok(CopyInput::Done)
    }

    fn begin_copy_out(&mut self, _: usize, _: Format) {}

    fn copy_data(&mut self, _: &[u8]) -> SqlResult<Room> {
        Ok(Room::Enough)
    }

    fn end_copy_out(&mut self) {}
}
