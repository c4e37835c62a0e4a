//! Texts of the simple protocol and what they answer.

use super::*;

#[test]
fn expressions_have_postgresqls_values() {
    check(&[
        ("select 1 + 2 * 3, 'a' || 'b', not true, null is null", "7|ab|f|t\nSELECT 1"),
        (
            "select case when 1 > 2 then 'x' else 'y' end, coalesce(null, 5), nullif(1, 1), greatest(1, 7, 3)",
            "y|5|NULL|7\nSELECT 1",
        ),
        (
            "select (1, 2) = (1, 2), (1, 2) < (1, 3), (1, null) = (1, 2), 3 in (1, 2), 3 not in (1, null)",
            "t|t|NULL|f|NULL\nSELECT 1",
        ),
        (
            "select 5 between 1 and 10, 5 between symmetric 10 and 1, 1 is distinct from null",
            "t|t|t\nSELECT 1",
        ),
        (
            "select 2 = any (array[1, 2]), 2 > all (array[1, 2]), (array[1, 2])[2], array[[1, 2], [3, 4]]",
            "t|f|2|{{1,2},{3,4}}\nSELECT 1",
        ),
        ("select 'x'::varchar(2), '12'::int + 1, 1.5::int, 'abc'::char(2)", "x|13|2|ab\nSELECT 1"),
    ]);
}

#[test]
fn queries_have_postgresqls_rows() {
    check(&[
        ("select * from generate_series(1, 3) g", "1\n2\n3\nSELECT 3"),
        (
            "select g, n from generate_series(5, 7) with ordinality as x(g, n) where n > 1",
            "6|2\n7|3\nSELECT 2",
        ),
        ("select generate_series(1, 2), 'x'", "1|x\n2|x\nSELECT 2"),
        ("values (1, 'a'), (2, null) order by 1 desc", "2|NULL\n1|a\nSELECT 2"),
        ("select 1 union select 2 union all select 2 order by 1", "1\n2\n2\nSELECT 3"),
        ("select a from (values (1), (2), (2)) v(a) intersect all select 2", "2\nSELECT 1"),
        ("select a from (values (1), (2), (2)) v(a) except select 1", "2\nSELECT 1"),
        (
            "with x(a) as (select 1), y as (select a + 1 as b from x) select x.a, y.b from x, y",
            "1|2\nSELECT 1",
        ),
        (
            "select array(select g from generate_series(1, 3) g), (select 5), exists (select 1 where false)",
            "{1,2,3}|5|f\nSELECT 1",
        ),
        ("select distinct a from (values (2), (1), (2)) v(a) order by a", "1\n2\nSELECT 2"),
        (
            "select distinct on (a) a, b from (values (1, 2), (1, 1), (2, 5)) v(a, b) order by a, b",
            "1|1\n2|5\nSELECT 2",
        ),
        (
            "select a, count(*), sum(b) filter (where b > 1), string_agg(b::text, ',' order by b desc) from (values (1, 2), (1, 1), (2, 5)) v(a, b) group by a having count(*) > 0 order by a",
            "1|2|2|2,1\n2|1|5|5\nSELECT 2",
        ),
        (
            "select count(distinct a), avg(a) from (values (1), (1), (2)) v(a)",
            "2|1.3333333333333333\nSELECT 1",
        ),
        (
            "select a + 1 as x from (values (1), (3)) v(a) group by a + 1 order by x desc limit 1 offset 1",
            "2\nSELECT 1",
        ),
        (
            "select * from (values (1, 'a')) l(i, x) full join (values (2, 'b')) r(i, y) using (i) order by i",
            "1|a|NULL\n2|NULL|b\nSELECT 2",
        ),
        (
            "select l.i, r.j from (values (1), (2)) l(i) left join lateral (select l.i * 10 as j where l.i > 1) r on true order by 1",
            "1|NULL\n2|20\nSELECT 2",
        ),
        ("select * from (values (1)) a(x) natural join (values (1)) b(x)", "1\nSELECT 1"),
        (
            "select a from (values (1), (2)) v(a) where a = (select max(b) from (values (1), (2)) w(b) where b <= a) order by a",
            "1\n2\nSELECT 2",
        ),
        ("select a from (values (1), (2), (null)) v(a) where a not in (select 1)", "2\nSELECT 1"),
        (
            "select current_user, current_database(), current_schema",
            "postgres|postgres|public\nSELECT 1",
        ),
    ]);
}

#[test]
fn errors_have_states_and_positions() {
    check(&[
        ("select a from nowhere", "ERROR 42P01: relation \"nowhere\" does not exist @15"),
        ("select b from (values (1)) v(a)", "ERROR 42703: column \"b\" does not exist @8"),
        ("select v.b from (values (1)) v(a)", "ERROR 42703: column v.b does not exist @8"),
        (
            "select w.a from (values (1)) v(a)",
            "ERROR 42P01: missing FROM-clause entry for table \"w\" @8",
        ),
        ("select nosuch(1)", "ERROR 42883: function nosuch(integer) does not exist @8"),
        ("select 1 + true", "ERROR 42883: operator does not exist: integer + boolean @10"),
        (
            "select a, count(*) from (values (1)) v(a)",
            "ERROR 42803: column \"v.a\" must appear in the GROUP BY clause or be used in an aggregate function @8",
        ),
        (
            "select 1 where 1",
            "ERROR 42804: argument of WHERE must be type boolean, not type integer @16",
        ),
        (
            "select sum(1) where sum(1) > 0",
            "ERROR 42803: aggregate functions are not allowed in WHERE @21",
        ),
        ("select 'x'::int", "ERROR 22P02: invalid input syntax for type integer: \"x\" @8"),
        ("select 1/0", "ERROR 22012: division by zero"),
        ("select case when true then 1 else 1/0 end", "1\nSELECT 1"),
        (
            "select (select g from generate_series(1, 2) g)",
            "ERROR 21000: more than one row returned by a subquery used as an expression",
        ),
        ("select 1 order by 2", "ERROR 42P10: ORDER BY position 2 is not in select list @19"),
        (
            "select a from (values (1)) v(a), (values (1)) w(a)",
            "ERROR 42702: column reference \"a\" is ambiguous @8",
        ),
        ("select $1", "ERROR 42P02: there is no parameter $1 @8"),
        ("select 1 limit -1", "ERROR 2201W: LIMIT must not be negative"),
    ]);
}

#[test]
fn rows_go_in_change_and_come_out() {
    check(&[
        (
            "create table t (a int primary key, b text not null default 'x', c numeric(6,2))",
            "CREATE TABLE",
        ),
        ("insert into t values (1, 'one', 1.5), (2, default, null)", "INSERT 0 2"),
        ("insert into t (a) values (3)", "INSERT 0 1"),
        ("select * from t order by a", "1|one|1.50\n2|x|NULL\n3|x|NULL\nSELECT 3"),
        ("select b from t where a = 1", "one\nSELECT 1"),
        ("update t set c = coalesce(c, 0) + a, b = b || '!' where a >= 2", "UPDATE 2"),
        (
            "select a, b, c from t where c > 1 order by c desc",
            "3|x!|3.00\n2|x!|2.00\n1|one|1.50\nSELECT 3",
        ),
        ("delete from t where a = 2", "DELETE 1"),
        ("select count(*), sum(a), min(b), max(c) from t", "2|4|one|3.00\nSELECT 1"),
        (
            "update t set a = 1 where a = 3",
            "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nDETAIL Key (a)=(1) already exists.",
        ),
        (
            "insert into t values (1, 'again')",
            "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nDETAIL Key (a)=(1) already exists.",
        ),
        (
            "insert into t values (9, null)",
            "ERROR 23502: null value in column \"b\" of relation \"t\" violates not-null constraint\nDETAIL Failing row contains (9, null, null).",
        ),
        ("select a from t where a in (1, 3, 5) order by a desc", "3\n1\nSELECT 2"),
        ("insert into t values (10, 'r') returning a + 1, b", "11|r\nINSERT 0 1"),
        ("drop table t", "DROP TABLE"),
        ("select * from t", "ERROR 42P01: relation \"t\" does not exist @15"),
    ]);
}

#[test]
fn joins_find_their_rows_by_index_hash_and_loop() {
    check(&[
        (
            "create table a (id int primary key, x int); create table b (id int primary key, a_id int, y text); create index on b (a_id)",
            "CREATE TABLE\nCREATE TABLE\nCREATE INDEX",
        ),
        ("insert into a select g, g % 3 from generate_series(1, 20) g", "INSERT 0 20"),
        ("insert into b select g, g / 2, 'y' || g from generate_series(1, 20) g", "INSERT 0 20"),
        (
            "select a.id, b.y from a join b on b.a_id = a.id where a.id = 3 order by b.id",
            "3|y6\n3|y7\nSELECT 2",
        ),
        (
            "select a.id, b.y from a left join b on b.a_id = a.id and b.id > 15 where a.id in (8, 19) order by 1, 2",
            "8|y16\n8|y17\n19|NULL\nSELECT 3",
        ),
        ("select count(*) from a, b where a.x = b.id", "14\nSELECT 1"),
        ("select count(*) from a cross join b", "400\nSELECT 1"),
        (
            "select id from a where exists (select 1 from b where b.a_id = a.id and b.id = 9)",
            "4\nSELECT 1",
        ),
        (
            "select id from a where id in (select a_id from b where id >= 19) order by 1",
            "9\n10\nSELECT 2",
        ),
        ("select id from b order by id desc limit 2", "20\n19\nSELECT 2"),
        ("select id from b where id between 3 and 5 order by id", "3\n4\n5\nSELECT 3"),
        ("select id from b where id > 18 and a_id = 10", "20\nSELECT 1"),
        ("update b set y = a.x::text from a where a.id = b.a_id and b.id <= 4", "UPDATE 3"),
        ("select id, y from b where id < 5 order by id", "1|y1\n2|1\n3|1\n4|2\nSELECT 4"),
        ("delete from b using a where a.id = b.a_id and a.x = 0", "DELETE 6"),
        (
            "select (id, a_id) from b where (id, a_id) in ((1, 0), (4, 2), (9, 9)) order by id",
            "(1,0)\n(4,2)\nSELECT 2",
        ),
        (
            "select a.x, count(*) from a join b on a.id = b.a_id group by a.x order by a.x",
            "1|7\n2|6\nSELECT 2",
        ),
    ]);
}

#[test]
fn definitions_say_what_postgresql_says() {
    check(&[
        ("create table t (a int, b text)", "CREATE TABLE"),
        ("create table t (a int)", "ERROR 42P07: relation \"t\" already exists"),
        (
            "create table if not exists t (a int)",
            "NOTICE 42P07: relation \"t\" already exists, skipping\nCREATE TABLE",
        ),
        ("create table u (a nosuch)", "ERROR 42704: type \"nosuch\" does not exist @19"),
        ("insert into t values (1, 'x'), (1, 'y'), (null, 'z')", "INSERT 0 3"),
        (
            "alter table t add primary key (a)",
            "ERROR 23502: column \"a\" of relation \"t\" contains null values",
        ),
        ("delete from t where a is null", "DELETE 1"),
        (
            "create unique index t_a on t (a)",
            "ERROR 23505: could not create unique index \"t_a\"\nDETAIL The table has rows with equal keys.",
        ),
        ("delete from t where b = 'y'", "DELETE 1"),
        ("alter table t add primary key (a)", "ALTER TABLE"),
        (
            "alter table t alter column b set not null, alter column b set default 'd'",
            "ALTER TABLE",
        ),
        ("insert into t (a) values (2)", "INSERT 0 1"),
        (
            "insert into t (b) values ('q')",
            "ERROR 23502: null value in column \"a\" of relation \"t\" violates not-null constraint\nDETAIL Failing row contains (null, q).",
        ),
        ("select * from t order by a", "1|x\n2|d\nSELECT 2"),
        ("alter table t rename to v", "ALTER TABLE"),
        ("alter table v rename column b to c", "ALTER TABLE"),
        ("select c from v where a = 2", "d\nSELECT 1"),
        (
            "drop index t_pkey",
            "ERROR 2BP01: cannot drop index t_pkey because constraint t_pkey on table v requires it",
        ),
        ("alter table v drop constraint t_pkey", "ALTER TABLE"),
        ("create index v_c on v (c desc)", "CREATE INDEX"),
        ("drop index v_c", "DROP INDEX"),
        ("truncate v", "TRUNCATE TABLE"),
        ("select count(*) from v", "0\nSELECT 1"),
        (
            "drop table if exists t, v, w",
            "NOTICE 00000: table \"t\" does not exist, skipping\nNOTICE 00000: table \"w\" does not exist, skipping\nDROP TABLE",
        ),
        ("drop table v", "ERROR 42P01: table \"v\" does not exist"),
        (
            "create schema s; create table s.t (a int); set search_path = s; select * from t",
            "CREATE SCHEMA\nCREATE TABLE\nSET\nSELECT 0",
        ),
        (
            "drop schema s",
            "ERROR 2BP01: cannot drop schema s because other objects depend on it\nDETAIL table s.t depends on schema s",
        ),
        ("drop schema s cascade", "NOTICE 00000: drop cascades to table s.t\nDROP SCHEMA"),
        ("create table public.f (a int) with (fillfactor=70)", "CREATE TABLE"),
        (
            "create table public.g (a int) with (nonsense=70)",
            "ERROR 22023: unrecognized parameter \"nonsense\"",
        ),
        (
            "alter table public.f add column b int",
            "ERROR 0A000: ALTER TABLE ADD COLUMN is not supported",
        ),
        ("vacuum analyze public.f", "VACUUM"),
        ("analyze", "ANALYZE"),
    ]);
}

/// The modes of a BEGIN within a block hold as SET TRANSACTION's do; they were passed over.
#[test]
fn a_second_begin_sets_modes() {
    check(&[
        ("begin", "BEGIN"),
        (
            "begin isolation level repeatable read",
            "WARNING 25001: there is already a transaction in progress\nBEGIN",
        ),
        ("show transaction_isolation", "repeatable read\nSHOW"),
        ("select 1", "1\nSELECT 1"),
        (
            "begin isolation level read committed",
            "WARNING 25001: there is already a transaction in progress\n\
             ERROR 25001: SET TRANSACTION ISOLATION LEVEL must be called before any query",
        ),
        ("commit", "ROLLBACK"),
    ]);
}

#[test]
fn texts_without_a_statement_are_empty() {
    check(&[
        (";", "(empty)"),
        ("", "(empty)"),
        (" ;\t;\n", "(empty)"),
        ("; -- nothing\n;", "(empty)"),
        ("; select 1", "1\nSELECT 1"),
        ("begin; select 1/0", "BEGIN\nERROR 22012: division by zero"),
        ("; ", "(empty)"),
        ("commit", "ROLLBACK"),
    ]);
}

#[test]
fn a_relation_is_not_given_its_own_name() {
    check(&[
        ("create table t (a int primary key); create sequence s", "CREATE TABLE\nCREATE SEQUENCE"),
        ("alter table t rename to t", "ERROR 42P07: relation \"t\" already exists"),
        ("alter index t_pkey rename to t_pkey", "ERROR 42P07: relation \"t_pkey\" already exists"),
        (
            "alter table t rename constraint t_pkey to t_pkey",
            "ERROR 42P07: relation \"t_pkey\" already exists",
        ),
        ("alter sequence s rename to s", "ERROR 42P07: relation \"s\" already exists"),
    ]);
}

#[test]
fn transactions_commit_fail_and_roll_back() {
    check(&[
        ("create table t (a int primary key)", "CREATE TABLE"),
        ("begin", "BEGIN"),
        ("insert into t values (1)", "INSERT 0 1"),
        ("begin", "WARNING 25001: there is already a transaction in progress\nBEGIN"),
        (
            "insert into t values (1)",
            "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nDETAIL Key (a)=(1) already exists.",
        ),
        (
            "select 1",
            "ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block",
        ),
        ("commit", "ROLLBACK"),
        ("select count(*) from t", "0\nSELECT 1"),
        ("commit", "WARNING 25P01: there is no transaction in progress\nCOMMIT"),
        ("begin; insert into t values (2); end", "BEGIN\nINSERT 0 1\nCOMMIT"),
        ("insert into t values (3); select 1/0", "INSERT 0 1\nERROR 22012: division by zero"),
        ("select * from t", "2\nSELECT 1"),
        (
            "begin; create table u (a int); insert into u values (1); rollback",
            "BEGIN\nCREATE TABLE\nINSERT 0 1\nROLLBACK",
        ),
        ("select * from u", "ERROR 42P01: relation \"u\" does not exist @15"),
        ("start transaction isolation level repeatable read, read only", "START TRANSACTION"),
        ("show transaction_isolation", "repeatable read\nSHOW"),
        (
            "insert into t values (9)",
            "ERROR 25006: cannot execute INSERT in a read-only transaction",
        ),
        ("abort", "ROLLBACK"),
        (
            "begin isolation level serializable",
            "ERROR 0A000: the isolation level SERIALIZABLE is not supported",
        ),
        ("savepoint s", "ERROR 25P01: SAVEPOINT can only be used in transaction blocks"),
        ("lock table t", "ERROR 25P01: LOCK TABLE can only be used in transaction blocks"),
        ("lock table t; select 1", "LOCK TABLE\n1\nSELECT 1"),
        ("begin; vacuum", "BEGIN\nERROR 25001: VACUUM cannot run inside a transaction block"),
        ("rollback", "ROLLBACK"),
        (
            "begin; set local application_name = 'x'; show application_name; commit; show application_name",
            "BEGIN\napplication_name = x\nSET\nx\nSHOW\napplication_name = \nCOMMIT\n\nSHOW",
        ),
        ("prepare p (int) as select $1 + 1", "PREPARE"),
        ("execute p(41)", "42\nSELECT 1"),
        (
            "execute p",
            "ERROR 42601: wrong number of parameters for prepared statement \"p\"\nDETAIL Expected 1 parameters but got 0.",
        ),
        ("deallocate p", "DEALLOCATE"),
        ("execute p(1)", "ERROR 26000: prepared statement \"p\" does not exist"),
        ("set nonsense = 1", "ERROR 42704: unrecognized configuration parameter \"nonsense\""),
        ("show admission_max", "128\nSHOW"),
        (
            "select setting, unit, context, min_val, max_val, source from pg_settings where name = 'admission_max'",
            "128|NULL|postmaster|1|10000|default\nSELECT 1",
        ),
        (
            "set admission_max = 7",
            "ERROR 55P02: parameter \"admission_max\" cannot be changed without restarting the server",
        ),
        ("discard all", "DISCARD ALL"),
        ("select 1; selec", "ERROR 42601: syntax error at or near \"selec\" @11"),
        ("select a from t where a = 2 for update", "2\nSELECT 1"),
        ("select a from t for share", "ERROR 0A000: FOR SHARE is not supported"),
    ]);
}

#[test]
fn simple_texts_share_plans_with_their_own_values() {
    check(&[
        ("create table t (a int primary key, b int default 0)", "CREATE TABLE"),
        ("insert into t values (1, 10)", "INSERT 0 1"),
        ("insert into t values (2, -20)", "INSERT 0 1"),
        ("update t set b = b + -5 where a = 1", "UPDATE 1"),
        ("update t set b = b + 7 where a = 2", "UPDATE 1"),
        ("update t set b = b + -1 where a = 2", "UPDATE 1"),
        ("select b from t where a = 1", "5\nSELECT 1"),
        ("select b from t where a = 2", "-14\nSELECT 1"),
        ("select b from t where a = 3000000000", "SELECT 0"),
        (
            "select b from t where a = 'x'",
            "ERROR 22P02: invalid input syntax for type integer: \"x\" @27",
        ),
        ("select b from t where a = '2'", "-14\nSELECT 1"),
        ("alter table t rename column b to c", "ALTER TABLE"),
        ("select b from t where a = 2", "ERROR 42703: column \"b\" does not exist @8"),
        ("select a from t where a = 2 order by 1", "2\nSELECT 1"),
    ]);
}

#[test]
fn clients_questions_about_the_catalog_run() {
    with_session(|context, session| {
        say(
            context,
            session,
            "create table t (a int primary key, b text default 'x'); create index on t (b)",
        );
        let oid = say(context, session, "select 't'::regclass::oid")[1].clone();
        let all = include_str!("../../pg_catalog/client_statements.txt").split("\n\n");
        let mut wrong = Vec::new();
        for part in all.filter(|part| !part.trim().is_empty()) {
            let (text, _) = part.rsplit_once("\n-- ").unwrap();
            let said = say(context, session, &text.trim().replace("{table}", &oid));
            if let Some(error) = said.iter().find(|line| line.starts_with("ERROR")) {
                wrong.push(format!("{error}\n{text}"));
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n\n"));
        let said = say(
            context,
            session,
            "select relname, relkind from pg_class where relnamespace = 2200 order by 1",
        );
        assert_eq!(said[1..], ["t|r", "t_b_idx|i", "t_pkey|i", "SELECT 3"]);
        let said = say(
            context,
            session,
            "select attname, format_type(atttypid, atttypmod) from pg_attribute where attrelid = 't'::regclass and attnum > 0 order by attnum",
        );
        assert_eq!(said[1..], ["a|integer", "b|text", "SELECT 2"]);
    });
}
