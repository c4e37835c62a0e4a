//! INSERT .. ON CONFLICT, RETURNING, and changes that read other tables.

use super::*;

const PREPARED: &str = "create table t (a int primary key, b int, c text, constraint t_c unique (c), constraint t_bc unique (b, c))";

#[test]
fn on_conflict_do_nothing_leaves_rows_out() {
    check(&[
        (PREPARED, "CREATE TABLE"),
        ("insert into t values (1, 10, 'x'), (2, 20, 'y')", "INSERT 0 2"),
        ("insert into t values (1, 0, 'n'), (3, 30, 'z') on conflict do nothing", "INSERT 0 1"),
        (
            "insert into t values (4, 0, 'x'), (4, 0, 'q'), (4, 1, 'r') on conflict do nothing returning a, c",
            "4|q\nINSERT 0 1",
        ),
        (
            "insert into t values (9, 0, 'x') on conflict (a) do nothing",
            "ERROR 23505: duplicate key value violates unique constraint \"t_c\"\nDETAIL Key (c)=(x) already exists.",
        ),
        ("insert into t values (9, 0, 'x') on conflict on constraint t_c do nothing", "INSERT 0 0"),
        // NULLs conflict with nothing.
        (
            "insert into t values (7, 1, null), (8, 1, null) on conflict (c) do nothing",
            "INSERT 0 2",
        ),
        (
            "insert into t select g, g, 'g' || g from generate_series(1, 6) g on conflict (a) do nothing",
            "INSERT 0 2",
        ),
        ("select count(*), sum(a) from t", "8|36\nSELECT 1"),
    ]);
}

#[test]
fn on_conflict_do_update_changes_what_is_there() {
    check(&[
        (PREPARED, "CREATE TABLE"),
        ("insert into t values (1, 10, 'x'), (2, 20, 'y')", "INSERT 0 2"),
        (
            "insert into t values (1, 5, 'n') on conflict (a) do update set b = t.b + excluded.b, c = excluded.c || t.c returning *, a + b",
            "1|15|nx|16\nINSERT 0 1",
        ),
        (
            "insert into t as old (a, b) values (2, 1), (3, 1) on conflict (a) do update set b = old.b + 1 where old.b < 20 returning a, b",
            "3|1\nINSERT 0 1",
        ),
        (
            "insert into t (a, b) values (2, 1) on conflict on constraint t_pkey do update set b = default returning b",
            "NULL\nINSERT 0 1",
        ),
        (
            "insert into t values (5, 7, 'w'), (5, 8, 'v') on conflict (a) do update set b = excluded.b",
            "ERROR 21000: ON CONFLICT DO UPDATE command cannot affect row a second time",
        ),
        (
            "insert into t values (1, 7, 'w'), (1, 8, 'v') on conflict (a) do update set b = excluded.b",
            "ERROR 21000: ON CONFLICT DO UPDATE command cannot affect row a second time",
        ),
        (
            "insert into t values (1, 100, 'p') on conflict (c, b) do update set a = 0",
            "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nDETAIL Key (a)=(1) already exists.",
        ),
        (
            "insert into t values (1, null, 'p') on conflict (a) do update set (b, c) = (1, 'row')",
            "INSERT 0 1",
        ),
        (
            "insert into t values (1, 0, 'q') on conflict (a) do update set c = (select c from t where a = 3), b = (select count(*) from t)",
            "INSERT 0 1",
        ),
        ("select * from t order by a", "1|3|NULL\n2|NULL|y\n3|1|NULL\nSELECT 3"),
    ]);
}

#[test]
fn on_conflict_says_what_is_wrong() {
    check(&[
        (PREPARED, "CREATE TABLE"),
        (
            "insert into t values (1) on conflict (b) do nothing",
            "ERROR 42P10: there is no unique or exclusion constraint matching the ON CONFLICT specification",
        ),
        (
            "insert into t values (1) on conflict (x) do nothing",
            "ERROR 42703: column \"x\" of relation \"t\" does not exist @38",
        ),
        (
            "insert into t values (1) on conflict do update set b = 1",
            "ERROR 42601: ON CONFLICT DO UPDATE requires inference specification or constraint name @26",
        ),
        (
            "insert into t values (1) on conflict on constraint nope do nothing",
            "ERROR 42704: constraint \"nope\" for table \"t\" does not exist",
        ),
        (
            "insert into t values (1) on conflict (a) do update set b = b + 1",
            "ERROR 42702: column reference \"b\" is ambiguous @60",
        ),
        (
            "insert into t values (1) on conflict (a) do update set b = excluded.z",
            "ERROR 42703: column excluded.z does not exist @60",
        ),
        (
            "insert into t values (1) on conflict (a) do update set b = 1 returning excluded.a",
            "ERROR 42P01: missing FROM-clause entry for table \"excluded\" @72",
        ),
        (
            "insert into t values (1) on conflict (a) where a > 1 do nothing",
            "ERROR 0A000: WHERE in the target of ON CONFLICT is not supported @38",
        ),
    ]);
}

#[test]
fn changes_read_other_tables_and_return_rows() {
    check(&[
        (
            "create table t (a int primary key, b int); create table u (a int, b int)",
            "CREATE TABLE\nCREATE TABLE",
        ),
        (
            "insert into t select g, 0 from generate_series(1, 5) g returning a",
            "1\n2\n3\n4\n5\nINSERT 0 5",
        ),
        ("insert into u values (1, 10), (2, 20), (2, 21), (9, 90)", "INSERT 0 4"),
        (
            "update t set b = u.b from u where u.a = t.a and u.b < 21 returning t.a, t.b, u.b as from_u",
            "1|10|10\n2|20|20\nUPDATE 2",
        ),
        (
            "update t as x set b = x.b + y.b from t as y where y.a = x.a + 1 and x.a = 1 returning x.*",
            "1|30\nUPDATE 1",
        ),
        ("delete from t using u where u.a = t.a and u.b = 10 returning *", "1|30|1|10\nDELETE 1"),
        ("delete from t where a in (select a from u) returning a", "2\nDELETE 1"),
        (
            "with old as (select a from t where a > 3) delete from t where a in (select a from old) returning a",
            "4\n5\nDELETE 2",
        ),
        (
            "with new(x) as (values (7), (8)) insert into t select x, x from new returning *",
            "7|7\n8|8\nINSERT 0 2",
        ),
        (
            "with m as (select max(a) as a from t) update t set b = m.a from m where t.a = 7 returning t.b",
            "8\nUPDATE 1",
        ),
    ]);
}

#[test]
fn on_conflict_in_repeatable_read_sees_no_newer_rows() {
    with_sessions(|context, first, second| {
        say(context, first, PREPARED);
        say(context, first, "insert into t values (1, 1, 'old')");
        for (text, expect) in [
            (
                "insert into t values (1, 5) on conflict (a) do update set b = excluded.b",
                "INSERT 0 1",
            ),
            ("insert into t values (2, 5) on conflict (a) do nothing", "ERROR 40001"),
            ("insert into t values (2, 5) on conflict (a) do update set b = 9", "ERROR 40001"),
        ] {
            say(context, second, "begin isolation level repeatable read; select count(*) from t");
            say(
                context,
                first,
                "insert into t values (2, 2, 'new') on conflict (a) do update set b = t.b + 1",
            );
            let said = say(context, second, text);
            assert!(said[0].starts_with(expect), "{text}: {said:?}");
            // READ COMMITTED takes the newest row as it is.
            say(context, second, "rollback");
            let read_committed =
                ["INSERT 0 1", "INSERT 0 0"].contains(&say(context, second, text)[0].as_str());
            assert!(read_committed, "{text}");
            say(context, second, "delete from t where a = 2");
        }
        // Own rows are seen, whatever the snapshot.
        say(context, second, "begin isolation level repeatable read; insert into t values (3, 3)");
        let text =
            "insert into t values (3, 4), (4, 4), (4, 5) on conflict (a) do nothing returning a";
        assert_eq!(say(context, second, text)[1..], ["4", "INSERT 0 1"]);
        say(context, second, "rollback");
    });
}

/// Rows of one INSERT go to the kernel several at a time; who looks cannot tell.
#[test]
fn many_rows_fail_as_if_one_by_one() {
    check(&[
        ("create table g (a int primary key, b text not null, c int unique)", "CREATE TABLE"),
        ("insert into g select x, 'r', x from generate_series(1, 1000) x", "INSERT 0 1000"),
        (
            "insert into g values (2001, 'a', 1), (2002, null, 2)",
            "ERROR 23505: duplicate key value violates unique constraint \"g_c_key\"\nDETAIL Key (c)=(1) already exists.",
        ),
        (
            "insert into g values (2001, 'a', 5001), (2002, null, 2)",
            "ERROR 23502: null value in column \"b\" of relation \"g\" violates not-null constraint\nDETAIL Failing row contains (2002, null, 2).",
        ),
        (
            "insert into g values (2001, 'a', 5001), (2002, 'b', null), (7, 'b', 5003)",
            "ERROR 23505: duplicate key value violates unique constraint \"g_pkey\"\nDETAIL Key (a)=(7) already exists.",
        ),
        (
            "insert into g values (2001, 'a', 5001), (2002, 'b', 5002), (2001, 'b', 5003)",
            "ERROR 23505: duplicate key value violates unique constraint \"g_pkey\"\nDETAIL Key (a)=(2001) already exists.",
        ),
        (
            "insert into g select x, 'r', 100000 / (x - 1005) from generate_series(1000, 1010) x",
            "ERROR 23505: duplicate key value violates unique constraint \"g_pkey\"\nDETAIL Key (a)=(1000) already exists.",
        ),
        (
            "insert into g select x, 'r', 100000 / (x - 1005) from generate_series(1001, 1010) x",
            "ERROR 22012: division by zero",
        ),
        (
            "insert into g select x + 5000, 'r', x + 5000 from generate_series(1, 150) x where x <> 77",
            "INSERT 0 149",
        ),
        (
            "insert into g select x, repeat('long', 9000), x from generate_series(4990, 5003) x",
            "ERROR 23505: duplicate key value violates unique constraint \"g_pkey\"\nDETAIL Key (a)=(5001) already exists.",
        ),
        (
            "insert into g select x, repeat('long', 9000), x from generate_series(4990, 5000) x",
            "INSERT 0 11",
        ),
        (
            "select count(*), count(c), sum(length(b)), max(a) from g",
            "1160|1160|397149|5150\nSELECT 1",
        ),
    ]);
}
