//! What psql 15 and pgbench send for their meta-commands: every statement means here what it
//! means in PostgreSQL 15, down to names and types of the columns.
//!
//! Invariants: `client_statements.txt` has each statement as logged from the client (oids of
//! users' objects are `{table}`), then `-- ` and the columns that PostgreSQL's \gdesc prints.

use super::tests::view;
use crate::bind::bind;
use crate::bind::bound::BoundStatement;
use crate::parse::parse;
use crate::relations::CatalogView;

/// Each statement with the columns that it is to have.
pub(super) fn statements() -> impl Iterator<Item = (String, &'static str)> {
    let all = include_str!("client_statements.txt").split("\n\n");
    all.filter(|part| !part.trim().is_empty()).map(|part| {
        let (text, columns) = part.rsplit_once("\n-- ").expect("columns after the statement");
        (text.trim().replace("{table}", "16384"), columns.trim())
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

#[test]
fn statements_of_clients_have_postgresqls_columns() {
    let view = view();
    let mut count = 0;
    let mut wrong = Vec::new();
    for (text, expect) in statements() {
        count += 1;
        let found = columns(&view, &text);
        if found != expect {
            wrong.push(format!("{text}\n  expected {expect}\n  found    {found}"));
        }
    }
    assert!(count >= 40, "only {count} statements are left");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n\n"));
}
