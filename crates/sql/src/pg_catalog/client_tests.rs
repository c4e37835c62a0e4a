//! What psql 15 and pgbench send for their meta-commands: every statement means here what it
//! means in PostgreSQL 15, down to names and types of the columns and the rows.
//!
//! Invariants: `client_statements.txt` has each statement as logged from the client (the oid of
//! table `t` is `{table}`), then `-- ` and the columns as PostgreSQL's \gdesc prints them, then
//! PostgreSQL's rows over [`SCHEMA`], each after `=> `, or `-- rows differ: ` and why.

use super::tests::view;
use crate::bind::bind;
use crate::bind::bound::BoundStatement;
use crate::parse::parse;
use crate::relations::CatalogView;
use crate::session::tests::{say, with_session};

/// What the rows are about.
const SCHEMA: &str = "create table t (id int primary key, a varchar(10) not null default 'x', \
    b numeric(10,2), c timestamp default now(), d char(3), unique (a, b)) with (fillfactor=70); \
    create index ti on t (b desc, c nulls first); \
    create unique index \"Tu\" on t (c desc nulls last, d); \
    create table s (x int)";

/// One statement of the file.
struct Case {
    text: String,
    columns: &'static str,
    /// None where they differ from PostgreSQL's.
    rows: Option<Vec<&'static str>>,
}

fn cases() -> impl Iterator<Item = Case> {
    let all = include_str!("client_statements.txt").split("\n\n");
    all.filter(|part| !part.trim().is_empty()).map(|part| {
        let (text, answer) = part.split_once("\n-- ").expect("columns after the statement");
        let mut lines = answer.trim_end().lines();
        let columns = lines.next().expect("the columns");
        let rows: Vec<&str> = lines.collect();
        let differ = rows.first().is_some_and(|row| row.starts_with("-- rows differ: "));
        let row = |line: &&'static str| line.strip_prefix("=> ").expect("a row");
        let rows = (!differ).then(|| rows.iter().map(row).collect());
        Case { text: text.trim().to_owned(), columns, rows }
    })
}

/// The columns of a query, as \gdesc prints them.
fn columns(view: &CatalogView, text: &str) -> String {
    let parsed = match parse(text) {
        Ok(parsed) => parsed,
        Err(error) => return format!("{} {}", error.sqlstate(), error.message()),
    };
    let statement = parsed.into_iter().next().expect("one statement").statement;
    match statement.and_then(|statement| bind(view, &statement, &[])) {
        Ok(binding) => match binding.statement {
            BoundStatement::Query(query) => {
                let visible = query.outputs.iter().take(query.visible);
                let shown = visible.map(|output| format!("{} {}", output.name, output.ty));
                shown.collect::<Vec<_>>().join("; ")
            }
            _ => "no query".to_owned(),
        },
        Err(error) => format!("{} {}", error.sqlstate(), error.message()),
    }
}

fn report(count: usize, wrong: &[String]) {
    assert!(count >= 40, "only {count} statements are left");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn statements_of_clients_have_postgresqls_columns() {
    let view = view();
    let (mut count, mut wrong) = (0, Vec::new());
    for case in cases() {
        count += 1;
        let text = case.text.replace("{table}", "16384");
        let found = columns(&view, &text);
        if found != case.columns {
            wrong.push(format!("{text}\n  expected {}\n  found    {found}", case.columns));
        }
    }
    report(count, &wrong);
}

#[test]
fn statements_of_clients_have_postgresqls_rows() {
    with_session(|context, session| {
        let made = say(context, session, SCHEMA);
        assert_eq!(made, ["CREATE TABLE", "CREATE INDEX", "CREATE INDEX", "CREATE TABLE"]);
        let oid = say(context, session, "select 't'::regclass::oid")[1].clone();
        let (mut count, mut wrong) = (0, Vec::new());
        for case in cases() {
            count += 1;
            let mut found = say(context, session, &case.text.replace("{table}", &oid));
            found.remove(0);
            let last = found.pop().unwrap_or_else(|| "nothing was said".to_owned());
            let expect = case.rows.map(|rows| {
                rows.iter().map(|row| row.replace("{table}", &oid)).collect::<Vec<_>>()
            });
            let rows_are_right = expect.as_ref().is_none_or(|expect| *expect == found);
            if !rows_are_right || !last.starts_with("SELECT ") {
                let text = &case.text;
                wrong.push(format!("{text}\n  expected {expect:#?}\n  found {found:#?} {last}"));
            }
        }
        report(count, &wrong);
    });
}

#[test]
fn relations_about_the_session_tell_of_it() {
    with_session(|context, session| {
        let mut check = |text: &str, expect: &[&str]| {
            assert_eq!(say(context, session, text)[1..], *expect, "{text}");
        };
        let work_mem = "select setting, unit, vartype, min_val, source from pg_settings \
                        where name = 'work_mem'";
        check(work_mem, &["4096|kB|integer|64|default", "SELECT 1"]);
        check("select set_config('work_mem', '8MB', false)", &["8MB", "SELECT 1"]);
        check(work_mem, &["8192|kB|integer|64|session", "SELECT 1"]);
        check(
            "select datname, usename, state, backend_type from pg_stat_activity \
             where pid = pg_backend_pid()",
            &["postgres|postgres|active|client backend", "SELECT 1"],
        );
    });
}
