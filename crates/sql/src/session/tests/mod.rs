//! Sessions over an in-memory database: statements in, what the client would see out.
//!
//! The whole dialect is tested by `tests/sql/*.slt`; here is what those cannot say: tags,
//! notices, errors' fields, the extended protocol, COPY, transactions of several sessions.

mod changes;
mod checkpoints;
mod copy;
mod cursors;
mod explain;
mod extended;
mod held;
mod held_rows;
mod hostile;
mod maintenance;
mod memory;
mod numbers;
mod savepoints;
mod sequences;
mod slt;
mod statements;
mod together;
mod workloads;

use super::client::*;
use super::*;
use crate::error::ErrorFields;
use crate::functions::FunctionContext;
use crate::types::{Datum, RowValues, text};
use atoll_kernel::api::{Instances, Interrupt, Options, Reason, Target};
use std::collections::VecDeque;

/// A client that writes down what it is told.
#[derive(Default)]
pub(crate) struct Recorder {
    /// What was said, a line each.
    pub said: Vec<String>,
    columns: Option<Arc<[ColumnDescription]>>,
    /// What COPY FROM STDIN reads.
    pub input: VecDeque<String>,
    /// The same, as bytes; read first.
    pub raw_input: VecDeque<Vec<u8>>,
    /// What COPY TO STDOUT wrote.
    pub copied: Vec<u8>,
    /// Whom it cancels when it is told the next row.
    pub cancels: Option<Arc<Interrupt>>,
}

impl Client for Recorder {
    fn begin_rows(
        &mut self,
        columns: &Arc<[ColumnDescription]>,
        _formats: &[Format],
        announce: Announce,
    ) {
        if announce == Announce::Yes {
            let names: Vec<String> =
                columns.iter().map(|column| format!("{}:{}", column.name, column.ty)).collect();
            self.said.push(names.join("|"));
        }
        self.columns = Some(columns.clone());
    }

    fn row(&mut self, values: RowValues<'_>, context: &dyn FunctionContext) -> SqlResult<Room> {
        let columns = self.columns.clone().expect("begun");
        let values = values.iter().zip(columns.iter()).map(|(value, column)| match value {
            Datum::Null => "NULL".to_owned(),
            value => text::output_string(column.ty.oid, value, context).to_string(),
        });
        self.said.push(values.collect::<Vec<_>>().join("|"));
        if let Some(cancelled) = self.cancels.take() {
            cancelled.interrupt(Reason::Cancel);
        }
        Ok(Room::Full)
    }

    fn flush(&mut self) -> SqlResult<()> {
        Ok(())
    }

    fn complete(&mut self, tag: &str) {
        self.said.push(tag.to_owned());
    }

    fn empty_query(&mut self) {
        self.said.push("(empty)".to_owned());
    }

    fn suspended(&mut self) {
        self.said.push("(suspended)".to_owned());
    }

    fn notice(&mut self, severity: Severity, notice: &ErrorFields) {
        self.said.push(format!("{} {}: {}", severity.as_str(), notice.sqlstate, notice.message));
    }

    fn parameter_status(&mut self, name: &str, value: &str) {
        self.said.push(format!("{name} = {value}"));
    }

    fn begin_copy_in(&mut self, columns: usize, _format: Format) -> SqlResult<()> {
        self.said.push(format!("(copy in {columns})"));
        Ok(())
    }

    fn read_copy(&mut self, buffer: &mut Vec<u8>) -> SqlResult<CopyInput> {
        if let Some(bytes) = self.raw_input.pop_front() {
            buffer.extend_from_slice(&bytes);
            return Ok(CopyInput::Data);
        }
        Ok(match self.input.pop_front() {
            Some(text) if text.starts_with("fail:") => CopyInput::Fail(text),
            Some(text) => {
                buffer.extend_from_slice(text.as_bytes());
                CopyInput::Data
            }
            None => CopyInput::Done,
        })
    }

    fn begin_copy_out(&mut self, columns: usize, _format: Format) {
        self.said.push(format!("(copy out {columns})"));
    }

    fn copy_data(&mut self, data: &[u8]) -> SqlResult<Room> {
        self.copied.extend_from_slice(data);
        self.said.push(String::from_utf8_lossy(data).trim_end_matches('\n').to_owned());
        Ok(Room::Enough)
    }

    fn end_copy_out(&mut self) {
        self.said.push("(copy done)".to_owned());
    }
}

/// Runs `work` with an in-memory database's first session.
pub(crate) fn with_session(work: impl FnOnce(&Context, &mut Session) + Send) {
    let mut options = Options { instances: Instances::Count(1), ..Options::default() };
    options.buffer_pool_bytes = 64 << 20;
    options.undo_bytes = 16 << 20;
    let database = Database::open_in_memory(options).unwrap();
    let engine = Engine::new(&database);
    let ran = database.run(Target::Any, |context| {
        let local = Local::new(&engine);
        let mut session = Session::new(&local, context.instance(), start()).unwrap();
        work(context, &mut session);
        session.end(context);
    });
    ran.unwrap();
    database.close().unwrap();
}

/// Runs `work` with two sessions of one instance, which must not wait for each other.
fn with_sessions(work: impl FnOnce(&Context, &mut Session, &mut Session) + Send) {
    with_session(|context, first| {
        let local = first.local.clone();
        let mut second = Session::new(&local, context.instance(), start()).unwrap();
        work(context, first, &mut second);
        second.end(context);
    });
}

fn start() -> SessionStart {
    SessionStart { user: "postgres".into(), database: "postgres".into(), ..Default::default() }
}

/// Runs a text and answers what was said; an error is the last line.
pub(crate) fn say(context: &Context, session: &mut Session, text: &str) -> Vec<String> {
    let mut client = Recorder::default();
    if let Err(error) = session.simple_query(context, text, &mut client) {
        let position = error.fields().position.map(|at| format!(" @{at}")).unwrap_or_default();
        client.said.push(format!("ERROR {}: {}{position}", error.sqlstate(), error.message()));
        if let Some(detail) = &error.fields().detail {
            client.said.push(format!("DETAIL {detail}"));
        }
    }
    client.said
}

/// Ten rows for cursors.
const ROWS: (&str, &str) = (
    "create table t (a int primary key, b text); insert into t select g, 'r' || g from generate_series(1, 10) g",
    "CREATE TABLE\nINSERT 0 10",
);

/// Runs pairs of text and expected answer (lines joined by newlines; the row description is left
/// out).
#[track_caller]
fn check(script: &'static [(&'static str, &'static str)]) {
    with_session(move |context, session| {
        let mut wrong = Vec::new();
        for (text, expect) in script {
            let said: Vec<String> = say(context, session, text)
                .into_iter()
                .filter(|line| !is_description(line))
                .collect();
            let said = said.join("\n");
            if said != *expect {
                wrong.push(format!("{text}\n  said: {said}\n  not:  {expect}"));
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
    });
}

fn is_description(line: &str) -> bool {
    line.split('|').all(|part| {
        part.split_once(':').is_some_and(|(name, ty)| {
            !name.contains(' ')
                && !ty.is_empty()
                && !ty.starts_with(' ')
                && !ty.starts_with(|c: char| c.is_ascii_digit())
        })
    }) && !line.starts_with("ERROR")
        && !line.starts_with("DETAIL")
}
