//! Names and texts of definitions. What needs a database is tested through the session.

use super::names::object_name;
use super::print::expression_text;
use crate::parse;
use crate::parse::ast::{Body, Expr};
use crate::parse::statement::Statement;

fn expression(text: &str) -> Expr {
    let parsed = parse::parse(&format!("SELECT {text}")).unwrap();
    let Some(Ok(Statement::Query(query))) = parsed.into_iter().next().map(|it| it.statement) else {
        panic!("{text} is a query");
    };
    let Body::Select(select) = query.body else { panic!("{text} is a SELECT") };
    select.targets.into_iter().next().unwrap().expr
}

#[test]
fn made_up_names_are_cut_as_postgresql_cuts_them() {
    assert_eq!(object_name("t", "", "pkey"), "t_pkey");
    assert_eq!(object_name("t", "a_b", "key"), "t_a_b_key");
    let long = object_name(&"x".repeat(60), &"y".repeat(60), "idx");
    assert_eq!(long.len(), 63);
    assert!(long.ends_with("_idx"));
    assert!(object_name(&"ä".repeat(40), "", "pkey").len() <= 63);
}

#[test]
fn defaults_read_back_as_what_they_were() {
    for text in [
        "0",
        "'it''s'",
        "'a\\b'",
        "-5",
        "1 + 2 * 3",
        "now()",
        "'x'::varchar(3)",
        "(1 + 2)::bigint",
        "coalesce(NULL, 4)",
        "greatest(1, 2)",
        "NOT true AND false",
        "true IS NOT FALSE",
    ] {
        let first = expression_text(&expression(text)).unwrap();
        let again = expression_text(&expression(&first)).unwrap();
        assert_eq!(first, again, "{text}");
    }
    assert!(expression_text(&expression("(SELECT 1)")).is_err());
}
