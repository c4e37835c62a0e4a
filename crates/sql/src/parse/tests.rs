//! Tests of parsing: what converts, what is refused, where errors stand, and depth.

use super::*;
use crate::error::SqlState;

fn one(text: &str) -> SqlResult<Statement> {
    let mut parsed = parse(text)?;
    assert_eq!(parsed.len(), 1, "{text}");
    parsed.remove(0).statement
}

#[track_caller]
fn fails(text: &str, state: SqlState, message: &str, position: Option<u32>) {
    let error = one(text).expect_err(text);
    assert_eq!(error.sqlstate(), state, "{error}");
    assert_eq!(error.message(), message);
    assert_eq!(error.fields().position, position, "{text}");
}

#[test]
fn statements_that_clients_send_convert() {
    for text in [
        "select 1",
        "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
        "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
        "INSERT INTO h (tid, bid) VALUES ($1, $2), (1, default)",
        "drop table if exists a, b, c, d",
        "create table t(a int primary key, b char(84) not null default '') with (fillfactor=100)",
        "truncate table a, b, c, d",
        "copy pgbench_accounts from stdin with (freeze on)",
        "vacuum analyze pgbench_branches",
        "alter table pgbench_branches add primary key (bid)",
        "begin read write",
        "start transaction isolation level repeatable read, read only",
        "end",
        "set extra_float_digits = 3",
        "set time zone 'UTC'",
        "show transaction_isolation",
        "select * from a natural left join b cross join lateral generate_series(1, a.x) with ordinality g(i, n)",
        "select (a, b) in (($1, $2), (3, 4)), count(distinct (x)), array(select 1), x[1][2], x[1:2]",
        "select c.oid from c where c.relname operator(pg_catalog.~) '^(x)$' collate pg_catalog.default",
        "select 'd' = any(k), extract(year from now()), current_timestamp(3), case when a then b else c end",
        "with x(a) as (select 1), y as (values (1), (2)) select * from x union all select * from y order by 1 limit 3 offset 1",
        "select a from t order by a limit 1 for update",
        "prepare p (int, text) as select $1, $2",
        "execute p(1, 'x')",
        "deallocate all",
        "discard all",
        "delete from t using u where t.a = u.a returning t.*",
        "update t set (a, b) = (1, 2) where c is not distinct from 3",
        "create unique index if not exists i on t (a desc nulls last, b)",
        "alter table t rename column a to b",
        "lock table t in access exclusive mode",
    ] {
        one(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn syntax_errors_have_positions_in_characters() {
    fails("select 1 +", SqlState::SYNTAX_ERROR, "syntax error at end of input", Some(11));
    fails("selec 1", SqlState::SYNTAX_ERROR, "syntax error at or near \"selec\"", Some(1));
    fails("select 'é', from", SqlState::SYNTAX_ERROR, "syntax error at or near \"from\"", Some(13));
    fails(
        "select 'abc",
        SqlState::SYNTAX_ERROR,
        "unterminated quoted string at or near \"'abc\"",
        Some(8),
    );
    fails(
        "select E'\\xff'",
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        "invalid byte sequence for encoding \"UTF8\": 0xff",
        None,
    );
    fails(
        "select '\0'",
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        "invalid byte sequence for encoding \"UTF8\": 0x00",
        None,
    );
}

#[test]
fn what_is_missing_is_refused_by_name() {
    let refused = SqlState::FEATURE_NOT_SUPPORTED;
    for (text, name, position) in [
        ("explain (buffers) select 1", "EXPLAIN (BUFFERS)", Some(10)),
        ("create view v as select 1", "CREATE VIEW", None),
        ("select 1 for share", "FOR SHARE", None),
        ("select 1 from t for update skip locked", "SKIP LOCKED", None),
        ("select sum(a) over () from t", "a window function", Some(8)),
        ("create table t (a int references u)", "a FOREIGN KEY constraint", Some(23)),
        ("create table t (a int check (a > 0))", "a CHECK constraint", Some(23)),
        ("create temp table t (a int)", "a temporary table", Some(19)),
        (
            "insert into t values (1) on conflict (a) where a > 1 do nothing",
            "WHERE in the target of ON CONFLICT",
            Some(38),
        ),
        (
            "with recursive x(a) as (select 1) search depth first by a set o select 1",
            "SEARCH in WITH RECURSIVE",
            Some(16),
        ),
        (
            "with recursive x(a) as (select 1) cycle a set c using p select 1",
            "CYCLE in WITH RECURSIVE",
            Some(16),
        ),
        ("select 1 group by rollup (1)", "GROUPING SETS, ROLLUP and CUBE", Some(19)),
        ("merge into t using u on true when matched then delete", "MERGE", None),
    ] {
        fails(text, refused, &format!("{name} is not supported"), position);
    }
}

#[test]
fn a_refused_statement_does_not_stop_the_others() {
    let parsed = parse("select 1; listen x; commit").unwrap();
    assert_eq!(parsed.len(), 3);
    assert!(parsed[0].statement.is_ok() && parsed[1].statement.is_err());
    assert!(parsed[2].is_transaction_exit && !parsed[0].is_transaction_exit);
    assert!(parse("").unwrap().is_empty() && parse(" ; ;; -- x").unwrap().is_empty());
}

#[test]
fn depth_is_bounded() {
    let deep = format!("select {}1{}", "abs(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(one(&deep).unwrap_err().sqlstate(), SqlState::STATEMENT_TOO_COMPLEX);
    let deeper = format!("select {}1{}", "(".repeat(50_000), ")".repeat(50_000));
    assert_eq!(one(&deeper).unwrap_err().sqlstate(), SqlState::STATEMENT_TOO_COMPLEX);
    let fine = format!("select {}1{}", "abs(".repeat(500), ")".repeat(500));
    one(&fine).unwrap();
    let flat = format!("select 1 where {}", vec!["1 = 1"; 5_000].join(" or "));
    one(&flat).unwrap();
}

#[test]
fn threads_parse_independently() {
    let threads: Vec<_> = (0..4)
        .map(|n| {
            std::thread::spawn(move || {
                for i in 0..200 {
                    assert!(one(&format!("select {i}, {n}")).is_ok());
                    assert!(one(&format!("select {i}, {n},")).is_err());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
