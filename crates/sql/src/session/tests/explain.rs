//! EXPLAIN and EXPLAIN ANALYZE.

use super::*;

const TABLES: &[&str] = &[
    "create table a (id int primary key, k int, v text); create index a_k on a (k)",
    "create table b (id int primary key, k int)",
    "insert into a select g, g % 100, 'v' || g from generate_series(1, 2000) g",
    "insert into b select g, g from generate_series(1, 1000) g",
];

fn plan(context: &Context, session: &mut Session, text: &str) -> String {
    let said = say(context, session, text);
    assert_eq!(said.last().map(String::as_str), Some("EXPLAIN"), "{text}: {said:?}");
    said[1..said.len() - 1].join("\n")
}

#[test]
fn plans_are_shown_as_they_run() {
    with_session(|context, session| {
        for text in TABLES {
            say(context, session, text);
        }
        for (text, expect) in [
            (
                "explain (costs off) select v from a where id = 5 and v <> 'x'",
                "Index Scan using a_pkey on a\n  Index Cond: (id = 5)\n  Filter: (a.v <> 'x'::text)\n  Fast Path: select",
            ),
            (
                "explain (costs off) select x.v, count(*) from a as x join b on x.k = b.k where b.id > 900 group by x.v order by 2 desc limit 3",
                "Limit\n  ->  Sort\n        Sort Key: count(*) DESC\n        Sort Method: top-N\n        ->  HashAggregate",
            ),
            (
                "explain (costs off) select distinct k, v from a order by v desc limit 3",
                "Limit\n  ->  Sort (distinct)\n        Sort Key: a.v DESC, a.k\n        Sort Method: top-N\n        ->  Seq Scan on a",
            ),
            (
                "explain (costs off) update a set k = k + 1 where id = 7",
                "Update on public.a\n  Fast Path: update\n  ->  Index Scan using a_pkey on a\n        Index Cond: (id = 7)",
            ),
            (
                "explain (costs off) insert into b values (1, 2) on conflict (id) do nothing",
                "Insert on public.b\n  Conflict Resolution: NOTHING\n  Conflict Arbiter Indexes: b_pkey",
            ),
            (
                "explain (costs off) select id from a where not exists (select 1 from b where b.k = a.id and b.id <> a.k)",
                "Hash Anti Join\n  Hash Cond: (a.id = b.k)\n  Join Filter: (b.id <> a.k)",
            ),
        ] {
            let said = plan(context, session, text);
            assert!(said.starts_with(expect), "{text}\n{said}");
        }
        say(context, session, "set enable_hashjoin = off");
        let said = plan(context, session, "explain select * from a full join b on a.id = b.k");
        assert!(said.contains("Merge Full Join  (cost="), "{said}");
        // Three columns leave less than two, though both guesses are below one row.
        say(
            context,
            session,
            "create table o (w int, d int, id int, c int, primary key (w, d, id))",
        );
        say(context, session, "create index o_by_c on o (w, d, c, id)");
        let said =
            plan(context, session, "explain select * from o where w = 1 and d = 2 and c = 3");
        assert!(said.starts_with("Index Only Scan using o_by_c on o"), "{said}");
        // Nothing has run.
        assert_eq!(say(context, session, "select k from a where id = 7")[1], "7");
    });
}

#[test]
fn an_index_has_extremes_at_its_ends() {
    with_session(|context, session| {
        for text in TABLES {
            say(context, session, text);
        }
        let last = "Limit\n        ->  Index Only Scan Backward using";
        for (text, expect) in [
            ("select max(id) from a", format!("Aggregate\n  ->  {last} a_pkey on a")),
            (
                "select max(k) from a",
                format!("Aggregate\n  ->  {last} a_k on a\n              Filter: (a.k IS NOT NULL)"),
            ),
            (
                "select max(k) from a where k < 5",
                format!("Aggregate\n  ->  {last} a_k on a\n              Index Cond: (k < 5)"),
            ),
            (
                "select min(id), max(id) from a",
                "Aggregate\n  ->  Append\n        ->  Limit\n              ->  Index Only Scan using a_pkey on a\n        ->  Limit\n              ->  Index Only Scan Backward using a_pkey on a".to_owned(),
            ),
            ("select max(id), max(k) from a", "Aggregate\n  ->  Seq Scan on a".to_owned()),
            ("select max(id), count(*) from a", "Aggregate\n  ->  Seq Scan on a".to_owned()),
            (
                "select max(id) from a where v > 'x'",
                "Aggregate\n  ->  Seq Scan on a\n        Filter: (a.v > 'x'::text)".to_owned(),
            ),
            ("select max(id + 1) from a", "Aggregate\n  ->  Seq Scan on a".to_owned()),
        ] {
            let said = plan(context, session, &format!("explain (costs off) {text}"));
            assert_eq!(said.trim_end(), expect, "{text}");
        }
        say(context, session, "set enable_indexscan = off");
        let said = plan(context, session, "explain (costs off) select max(id) from a");
        assert_eq!(said, "Aggregate\n  ->  Seq Scan on a");
    });
}

#[test]
fn lists_are_looked_up_in_an_index() {
    with_session(|context, session| {
        for text in TABLES {
            say(context, session, text);
        }
        for (condition, expect) in [
            ("id in (1, 2, 3)", "(id IN (1, 2, 3))"),
            ("id = any (array[1, 2])", "(id = ANY (ARRAY[1, 2]))"),
            // A literal is read once, when the statement is planned.
            ("id = any ('{1,2}')", "(id = ANY ('{1,2}'::integer[]))"),
            ("id = any (array(select k from b where id = 3))", "(id = ANY ("),
            ("id = 1 or id = 2 or 3 = id or id in (4, 5)", "(id IN (1, 2, 3, 4, 5))"),
        ] {
            let text = format!("explain (costs off) select v from a where {condition}");
            let said = plan(context, session, &text);
            let start = format!("Index Scan using a_pkey on a\n  Index Cond: {expect}");
            assert!(said.starts_with(&start) && !said.contains("Filter: (a."), "{text}\n{said}");
        }
        let text = "explain (costs off) delete from a where k = 3 and id = any (array[1, 2])";
        let said = plan(context, session, text);
        let expect = "Index Cond: (id = ANY (ARRAY[1, 2]))\n        Filter: (a.k = 3)";
        assert!(said.contains(expect), "{said}");
        say(context, session, "create index b_k on b (k, id)");
        let text = "explain (costs off) select k from b where k = 3 and id = any (array[1, 2])";
        say(context, session, "alter table b drop constraint b_pkey");
        let said = plan(context, session, text);
        let expect =
            "Index Only Scan using b_k on b\n  Index Cond: ((k = 3) AND (id = ANY (ARRAY[1, 2])))";
        assert_eq!(said, expect);
        for other in
            ["id = 1 or k = 2", "id = 1 or id > 7", "id = all (array[1])", "id <> any (array[1])"]
        {
            let said = plan(context, session, &format!("explain select v from a where {other}"));
            assert!(said.starts_with("Seq Scan on a"), "{other}\n{said}");
        }
    });
}

#[test]
fn conditions_go_into_with_and_subqueries() {
    with_session(|context, session| {
        for text in TABLES {
            say(context, session, text);
        }
        for (text, expect) in [
            (
                "explain (costs off) with x as (select id, v from a) select v from x where id = 5",
                "Index Scan using a_pkey on a\n  Index Cond: (id = 5)",
            ),
            (
                "explain (costs off) with x as materialized (select id, v from a) select v from x where id = 5",
                "Filter\n  Filter: (x.id = 5)\n  ->  CTE Scan on x\n  CTE x\n  ->  Seq Scan on a",
            ),
            (
                "explain (costs off) with x as (select id, v from a) select v from x where id in (select id from x where v < 'w')",
                "Hash Semi Join",
            ),
            (
                "explain (costs off) with x as not materialized (select id, v from a) select x.v, y.v from x, x as y where x.id = 5 and y.id = 6",
                "Nested Loop\n  ->  Index Scan using a_pkey on a\n        Index Cond: (id = 5)",
            ),
            (
                "explain (costs off) select * from (select k, count(*) as n from a group by k) as x where k = 5 and n > 1",
                "Filter\n  Filter: (count(*) > 1)\n  ->  HashAggregate\n        Group Key: a.k\n        ->  Index Only Scan using a_k on a\n              Index Cond: (k = 5)",
            ),
            (
                "explain (costs off) with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select n from r",
                "CTE Scan on r\n  CTE r\n  ->  Recursive Union\n        ->  Result\n              ->  Result\n        ->  Result\n              ->  Filter\n                    Filter: (r.n < 5)\n                    ->  WorkTable Scan on r",
            ),
            (
                "explain (costs off) with x as (delete from b returning id) select count(*) from x",
                "Aggregate\n  ->  CTE Scan on x\n  CTE x\n  ->  Delete on public.b\n        ->  Seq Scan on b",
            ),
        ] {
            let said = plan(context, session, text);
            assert!(said.starts_with(expect), "{text}\n{said}");
        }
    });
}

#[test]
fn analyze_runs_the_statement_and_counts() {
    with_session(|context, session| {
        for text in TABLES {
            say(context, session, text);
        }
        let text = "explain (analyze, costs off, timing off, summary off) select x.id from a x join b on b.k = x.id where b.id <= 10 order by x.v";
        let said = plan(context, session, text);
        assert!(said.contains("(actual rows=10.00 loops=1)"), "{said}");
        let text = "explain (analyze, costs off) select v from a where id = 5";
        let said = plan(context, session, text);
        assert!(said.contains("rows=1.00 loops=1"), "{said}");
        assert!(said.contains("Planning Time: ") && said.contains("Execution Time: "), "{said}");
        say(context, session, "set work_mem = '64kB'");
        let text = "explain (analyze, costs off, timing off) select v, id from a order by v";
        let said = plan(context, session, text);
        assert!(said.contains("Temporary Files: true"), "{said}");
        let text = "explain analyze update a set k = -1 where id <= 3";
        plan(context, session, text);
        assert_eq!(say(context, session, "select count(*) from a where k = -1")[1], "3");
        say(context, session, "begin read only");
        let said = say(context, session, text);
        assert_eq!(said[0], "ERROR 25006: cannot execute UPDATE in a read-only transaction");
        say(context, session, "rollback; prepare p (int) as select v from a where id = $1");
        let said = plan(context, session, "explain (costs off) execute p (3)");
        assert!(said.contains("Index Cond: (id = $1)"), "{said}");
    });
}

#[test]
fn json_has_what_text_has() {
    with_session(|context, session| {
        for text in TABLES {
            say(context, session, text);
        }
        let text = "explain (analyze, format json) select count(*) from a where v like '%\"%'";
        let said = plan(context, session, text);
        assert!(
            said.starts_with("[\n  {\n    \"Plan\": {\n      \"Node Type\": \"Aggregate\","),
            "{said}"
        );
        for part in [
            "\"Plans\": [",
            "\"Total Cost\": ",
            "\"Actual Rows\": 1.00",
            "\\\"%",
            "\"Execution Time\": ",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let depth = said.matches(['{', '[']).count();
        assert_eq!(depth, said.matches(['}', ']']).count(), "{said}");
        assert_eq!(
            say(context, session, "explain (format yaml) select 1")[0],
            "ERROR 0A000: EXPLAIN (FORMAT YAML) is not supported @10"
        );
    });
}

#[test]
fn scans_of_indexed_columns_need_no_rows() {
    with_session(|context, session| {
        for text in [
            "create table t (id int primary key, k int, d text, n numeric, v text)",
            "create index t_kd on t (k, d desc); create index t_n on t (n, id)",
            "insert into t select g, g % 50, case when g % 3 > 0 then 'x' || g end, g, 'v' || g from generate_series(1, 3000) g",
        ] {
            say(context, session, text);
        }
        for (text, expect) in [
            ("select id from t where id between 10 and 20", "Index Only Scan using t_pkey on t"),
            (
                "select count(*) from t where k = 7",
                "Aggregate\n  ->  Index Only Scan using t_kd on t",
            ),
            ("select d, k from t where k = 7 and d > 'x2'", "Index Only Scan using t_kd on t"),
            ("select id from t where id in (1, 5, 7)", "Index Only Scan using t_pkey on t"),
            // A column that the index has not; a type that keys do not tell; one row by its key.
            ("select v from t where k = 7", "Index Scan using t_kd on t"),
            ("select k from t where k = 7 and v > 'v'", "Index Scan using t_kd on t"),
            ("select n from t where n between 3 and 5", "Index Scan using t_n on t"),
            ("select id from t where id = 5", "Index Scan using t_pkey on t"),
        ] {
            let said = plan(context, session, &format!("explain (costs off) {text}"));
            assert!(said.starts_with(expect), "{text}\n{said}");
        }
        say(context, session, "update t set k = 7, d = 'changed' where id = 50");
        let queries = [
            "select d, k from t where k = 7",
            "select k from t where k = 7 and d is null",
            "select count(*), min(id), max(id) from t where id between 40 and 2500",
            "select id from t where n between 45.0 and 55 order by id",
        ];
        let answers = |session: &mut Session| -> Vec<Vec<String>> {
            queries.map(|text| say(context, session, text)).to_vec()
        };
        let before = answers(session);
        assert_eq!(before[0].len(), 61 + 2, "{:?}", before[0]);
        // In a while no row is looked at any more.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            say(context, session, "vacuum");
            let text =
                "explain (analyze, costs off, timing off, summary off) select d from t where k = 7";
            let said = plan(context, session, text);
            assert!(said.contains("(actual rows=61.00 loops=1)"), "{said}");
            if said.contains("Heap Fetches: 0") {
                break;
            }
            assert!(std::time::Instant::now() < until, "{said}");
        }
        assert_eq!(answers(session), before);
        say(context, session, "begin; delete from t where id = 57");
        assert_eq!(answers(session)[0].len(), 60 + 2);
        say(context, session, "rollback");
        assert_eq!(answers(session), before);
    });
}
