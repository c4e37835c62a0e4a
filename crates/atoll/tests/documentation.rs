//! docs/sql.md says what is true: its `sql` blocks run, its `sql refused` blocks are refused.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

mod common;

use common::Scratch;
use postgres::error::SqlState;

const DOCUMENT: &str = include_str!("../../../docs/sql.md");

/// The statements of the document's blocks, and whether they are refused.
fn statements() -> Vec<(String, bool)> {
    let (mut found, mut inside) = (Vec::new(), None);
    for line in DOCUMENT.lines() {
        match line {
            "```sql" => inside = Some(false),
            "```sql refused" => inside = Some(true),
            "```" => inside = None,
            _ => {
                if let Some(refused) = inside {
                    found.push((line.to_owned(), refused));
                }
            }
        }
    }
    found
}

#[test]
fn what_the_documentation_says_is_so() {
    let scratch = Scratch::new();
    let mut client = scratch.connect();
    let (mut ran, mut refused, mut wrong) = (0, 0, Vec::new());
    for (statement, is_refused) in statements() {
        match (client.simple_query(&statement), is_refused) {
            (Ok(_), false) => ran += 1,
            (Err(error), true) if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) => {
                refused += 1;
                client.batch_execute("ROLLBACK").unwrap();
            }
            (result, _) => {
                wrong.push(format!("{statement}: {:?}", result.map(|rows| rows.len())));
                client.batch_execute("ROLLBACK").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 30 && refused > 10, "{ran} ran, {refused} were refused");
}
