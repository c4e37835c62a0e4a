//! Sessions over an in-memory database: statements in, what the client would see out.
//!
//! The whole dialect is tested by `tests/sql/*.slt`; here is what those cannot say: tags,
//! notices, errors' fields, the extended protocol, COPY, transactions of several sessions.

use super::client::*;
use super::*;
use crate::error::ErrorFields;
use crate::functions::FunctionContext;
use crate::types::{Datum, TypeOid, text};
use atoll_kernel::api::{Instances, Options, Target};
use std::collections::VecDeque;

/// A client that writes down what it is told.
#[derive(Default)]
pub(crate) struct Recorder {
    /// What was said, a line each.
    pub said: Vec<String>,
    columns: Option<Arc<[ColumnDescription]>>,
    /// What COPY FROM STDIN reads.
    pub input: VecDeque<String>,
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

    fn row(&mut self, values: &[Datum], context: &dyn FunctionContext) -> SqlResult<Room> {
        let columns = self.columns.clone().expect("begun");
        let values = values.iter().zip(columns.iter()).map(|(value, column)| match value {
            Datum::Null => "NULL".to_owned(),
            value => text::output_string(column.ty.oid, value, context).to_string(),
        });
        self.said.push(values.collect::<Vec<_>>().join("|"));
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

/// Runs pairs of text and expected answer (lines joined by newlines; the row description is left
/// out).
#[track_caller]
fn check(script: &'static [(&'static str, &'static str)]) {
    with_session(move |context, session| {
        for (text, expect) in script {
            let said: Vec<String> = say(context, session, text)
                .into_iter()
                .filter(|line| !is_description(line))
                .collect();
            assert_eq!(said.join("\n"), *expect, "\n{text}");
        }
    });
}

fn is_description(line: &str) -> bool {
    line.split('|').all(|part| part.split_once(':').is_some_and(|(name, ty)| {
        !name.contains(' ') && !ty.is_empty() && !ty.starts_with(' ') && !ty.starts_with(|c: char| c.is_ascii_digit())
    })) && !line.starts_with("ERROR") && !line.starts_with("DETAIL")
}

#[test]
fn rows_go_in_change_and_come_out() {
    check(&[
        ("create table t (a int primary key, b text not null default 'x', c numeric(6,2))", "CREATE TABLE"),
        ("insert into t values (1, 'one', 1.5), (2, default, null)", "INSERT 0 2"),
        ("insert into t (a) values (3)", "INSERT 0 1"),
        ("select * from t order by a", "1|one|1.50\n2|x|NULL\n3|x|NULL\nSELECT 3"),
        ("select b from t where a = 1", "one\nSELECT 1"),
        ("update t set c = coalesce(c, 0) + a, b = b || '!' where a >= 2", "UPDATE 2"),
        ("select a, b, c from t where c > 1 order by c desc", "3|x!|3.00\n2|x!|2.00\n1|one|1.50\nSELECT 3"),
        ("delete from t where a = 2", "DELETE 1"),
        ("select count(*), sum(a), min(b), max(c) from t", "2|4|one|3.00\nSELECT 1"),
        ("update t set a = 1 where a = 3", "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nDETAIL Key (a)=(1) already exists."),
        ("insert into t values (1, 'again')", "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nDETAIL Key (a)=(1) already exists."),
        ("insert into t values (9, null)", "ERROR 23502: null value in column \"b\" of relation \"t\" violates not-null constraint\nDETAIL Failing row contains (9, null, null)."),
        ("select a from t where a in (1, 3, 5) order by a desc", "3\n1\nSELECT 2"),
        ("insert into t values (10, 'r') returning a + 1, b", "11|r\nINSERT 0 1"),
        ("drop table t", "DROP TABLE"),
        ("select * from t", "ERROR 42P01: relation \"t\" does not exist @15"),
    ]);
}
