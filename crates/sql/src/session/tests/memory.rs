//! Little memory: the same answers by way of temporary files; every method of joining and
//! grouping gives the same rows; limits are kept.

use super::*;

/// 6,000 and 3,000 rows with NULLs, duplicates of few and of many, and long texts.
const TABLES: &[&str] = &[
    "create table a (id int primary key, k int, v text, n numeric)",
    "create table b (id int primary key, k int, w text)",
    "insert into a select g, case when g % 11 = 0 then null else g * 7 % 2500 end, 'value ' || g % 977 || repeat('x', 40), g % 13 / 4.0 from generate_series(1, 6000) g",
    "insert into b select g, case when g % 7 = 0 then null when g % 5 = 0 then 77 else g end, 'other ' || g from generate_series(1, 3000) g",
];

const SMALL: &str = "set work_mem = '64kB'";
const LARGE: &str = "set work_mem = '64MB'";

/// Queries whose work exceeds 64 kB; those with a last ORDER BY are compared in order.
const QUERIES: &[&str] = &[
    "select id, k, v from a order by v, id",
    "select k, v from a order by k desc nulls last, v limit 3000",
    "select n, id from a order by n, id desc offset 5990",
    "select distinct v from a",
    "select distinct k, n from a order by k, n",
    "select distinct v from a order by v desc",
    "select k, count(*), sum(n), max(v) from a group by k",
    "select v, count(distinct k), string_agg(id::text, ',' order by id desc) from a group by v order by v",
    "select count(distinct v), count(distinct id), array_length(array_agg(distinct k order by k), 1) from a",
    "select a.id, b.id from a join b on a.k = b.k and a.id % 3 <> b.id % 2",
    "select a.id, b.w from a left join b on a.k = b.k and b.id > 1000",
    "select a.v, b.id from a right join b on a.k = b.k",
    "select a.id, b.id from a full join b on a.k = b.k and a.id + b.id < 4000",
    "select a.id, b.id from (select * from a where id < 120) a full join (select * from b where id < 90) b on a.id < b.k",
    "select id from a where exists (select 1 from b where b.k = a.k and b.id <> a.id)",
    "select id from a where not exists (select * from b where b.k = a.k)",
    "select id, v from a where k in (select k from b where w like 'other 1%')",
    "select id from a where k not in (select k from b where k is not null)",
    "select v from a union select w from b",
    "select k from a except select k from b",
    "select k from a except all select k from b",
    "select k from a intersect select k from b",
    "select k from a intersect all select k from b",
    "with c as materialized (select id, v from a) select x.id, y.v from c x join c y on x.id = y.id + 1 order by x.id",
    "select count(*) from (select * from b order by w limit 300) x, (select id, w from b where id % 10 = 0) y where x.id > y.id",
    "select k, (select count(*) from b where b.k = a.k) from a where id < 50 order by id",
    "with recursive r(id, v, n) as (select id, v, 0 from a union all select id, v, n + 1 from r where n < 2) select id, n, v from r",
    "with recursive r(id, n) as (select id, id % 5 from a union select id, (n * 3 + 1) % 7 from r) select id, n from r",
    "with recursive r(id) as (select id from a where id % 2 = 0 union select (r.id * 5 + b.k) % 4001 from r join b on b.id = r.id % 700 + 1 where b.k is not null) select id from r",
];

fn rows(context: &Context, session: &mut Session, text: &str) -> Vec<String> {
    let mut said = say(context, session, text);
    assert!(!said.iter().any(|line| line.starts_with("ERROR")), "{text}: {said:?}");
    if !text.contains("order by") || text.contains("order by id desc) from") {
        said.sort();
    }
    said
}

#[test]
fn a_recursion_without_end_can_be_ended() {
    with_session(|context, session| {
        let endless = "with recursive t(n) as (select 1 union all select n + 1 from t)";
        let limited = format!("{endless} select sum(n) from (select n from t limit 1000) as x");
        assert_eq!(say(context, session, &limited)[1], "500500");
        say(context, session, "set statement_timeout = '50ms'");
        let said = say(context, session, &format!("{endless} select max(n) from t"));
        assert!(said.last().is_some_and(|line| line.starts_with("ERROR 57014")), "{said:?}");
        let idle = "with recursive t(n) as (select 1 union all select n from t) select n from t where n > 1";
        let said = say(context, session, idle);
        assert!(said.last().is_some_and(|line| line.starts_with("ERROR 57014")), "{said:?}");
        say(context, session, "reset statement_timeout");
        // What it keeps is bounded as well.
        say(context, session, "set work_mem = '64kB'; set temp_file_limit = '1MB'");
        let wide = "with recursive t(n) as (select g from generate_series(1, 2000) g union select n + 2000 from t) select count(*) from t";
        let said = say(context, session, wide);
        assert!(said.last().is_some_and(|line| line.starts_with("ERROR 53400")), "{said:?}");
    });
}

#[test]
fn answers_do_not_depend_on_memory_or_method() {
    with_session(|context, session| {
        for text in TABLES {
            rows(context, session, text);
        }
        for query in QUERIES {
            say(context, session, LARGE);
            let expect = rows(context, session, query);
            for setting in [
                SMALL,
                "set enable_hashjoin = off",
                "set enable_hashagg = off",
                "set enable_nestloop = off",
                LARGE,
            ] {
                say(context, session, setting);
                let said = rows(context, session, query);
                assert!(
                    said == expect,
                    "{setting}; {query}: {} and {} lines",
                    said.len(),
                    expect.len()
                );
            }
            say(context, session, "reset all");
        }
    });
}

#[test]
fn sorted_rows_are_told_apart_as_groups_are() {
    with_session(|context, session| {
        for text in TABLES {
            rows(context, session, text);
        }
        // What is shown, how it is ordered, and how far: by all that is shown, for the groups' sake.
        for (shown, order, limit) in [
            ("v", "v", ""),
            ("k, n", "n desc nulls last, k", ""),
            ("k, n", "k nulls first, n", "limit 70 offset 30"),
            ("n, k", "n, k", "limit 3000"),
            ("v, n", "v desc, n", "limit 1"),
            ("k", "k", "limit 0"),
        ] {
            for setting in [LARGE, SMALL] {
                say(context, session, setting);
                let order = format!("order by {order} {limit}");
                let distinct = format!("select distinct {shown} from a {order}");
                let said = rows(context, session, &distinct);
                let grouped = format!("select {shown} from a group by {shown} {order}");
                assert_eq!(said, rows(context, session, &grouped), "{setting}; {distinct}");
            }
        }
        // Of columns that the order does not name, too; and few values need no file.
        say(context, session, "set temp_file_limit = 0");
        let few = "select distinct id % 2 as o, n from a order by o desc";
        let counts = format!("select count(*), count(distinct (o, n)), min(o) from ({few}) x");
        assert_eq!(rows(context, session, &counts)[1], "26|26|0");
        // Nor do the first ones of long rows, each key once or not.
        for distinct in ["", "distinct"] {
            let wide = format!("select {distinct} repeat('w', 3000 + id % 100) as w from a");
            let first = format!("select count(*) from ({wide} order by w limit 5) x");
            assert_eq!(rows(context, session, &first)[1], "5", "{first}");
        }
        say(context, session, "reset all");
    });
}

#[test]
fn what_exceeds_memory_goes_to_files_of_limited_size() {
    with_session(|context, session| {
        for text in TABLES {
            rows(context, session, text);
        }
        assert_eq!(say(context, session, "show temp_file_limit")[1], "-1");
        say(context, session, SMALL);
        say(context, session, "set temp_file_limit = 16");
        assert_eq!(say(context, session, "show work_mem")[1], "64kB");
        // Those that keep little do without files.
        let small = ["x, (select", "(select count(*) from b", "full join (select", "offset 5990"];
        for query in QUERIES.iter().filter(|query| !small.iter().any(|part| query.contains(part))) {
            let said = say(context, session, query);
            let last = said.last().map(String::as_str);
            let expect = "ERROR 53400: temporary file size exceeds temp_file_limit (16kB)";
            assert_eq!(last, Some(expect), "{query}");
        }
        say(context, session, "reset all");
        assert_eq!(say(context, session, "select count(*) from a")[1], "6000");
    });
}

#[test]
fn the_budget_of_the_server_ends_the_statement_that_exceeds_it() {
    let mut options = Options { instances: Instances::Count(1), ..Options::default() };
    options.buffer_pool_bytes = 64 << 20;
    let database = Database::open_in_memory(options).unwrap();
    let engine = Engine::with_memory(&database, 2 << 20);
    let ran = database.run(Target::Any, |context| {
        let local = Local::new(&engine);
        let mut session = Session::new(&local, context.instance(), start()).unwrap();
        say(context, &mut session, LARGE);
        let text = "select count(*) from (select distinct g, repeat('x', 50) from generate_series(1, 40000) g) x";
        let said = say(context, &mut session, text);
        assert_eq!(said[1], "ERROR 53200: out of memory", "{said:?}");
        // Less memory each, and it goes through.
        say(context, &mut session, "set work_mem = '256kB'");
        assert_eq!(say(context, &mut session, text)[1], "40000");
        session.end(context);
    });
    ran.unwrap();
    assert_eq!(engine.memory_used_bytes(), 0);
    database.close().unwrap();
}
