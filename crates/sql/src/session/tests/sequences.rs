//! Sequences, serial and identity columns, as PostgreSQL answers them.

use super::*;

#[test]
fn values_are_taken_set_and_remembered() {
    check(&[
        ("create sequence s", "CREATE SEQUENCE"),
        (
            "select currval('s')",
            "ERROR 55000: currval of sequence \"s\" is not yet defined in this session",
        ),
        ("select lastval()", "ERROR 55000: lastval is not yet defined in this session"),
        ("select nextval('s'), nextval('s'), currval('s'), lastval()", "1|2|2|2\nSELECT 1"),
        ("begin; select nextval('s'); rollback", "BEGIN\n3\nSELECT 1\nROLLBACK"),
        ("select nextval('public.s'::regclass)", "4\nSELECT 1"),
        ("select setval('s', 10), setval('s', 20, false), currval('s')", "10|20|10\nSELECT 1"),
        ("select nextval('s') from generate_series(1, 3)", "20\n21\n22\nSELECT 3"),
        (
            "select setval('s', 0)",
            "ERROR 22003: setval: value 0 is out of bounds for sequence \"s\" (1..9223372036854775807)",
        ),
        ("select nextval(null), setval('s', null)", "NULL|NULL\nSELECT 1"),
        ("create table t (a int primary key)", "CREATE TABLE"),
        ("select nextval('t')", "ERROR 42809: \"t\" is not a sequence"),
        ("select nextval('nowhere')", "ERROR 42P01: relation \"nowhere\" does not exist"),
        ("select * from s", "22|30|t\nSELECT 1"),
        (
            "begin read only; select nextval('s')",
            "BEGIN\nERROR 25006: cannot execute nextval() in a read-only transaction",
        ),
        (
            "rollback; discard sequences; select lastval()",
            "ROLLBACK\nDISCARD SEQUENCES\nERROR 55000: lastval is not yet defined in this session",
        ),
        ("create sequence s", "ERROR 42P07: relation \"s\" already exists"),
        (
            "create sequence if not exists s",
            "NOTICE 42P07: relation \"s\" already exists, skipping\nCREATE SEQUENCE",
        ),
        ("drop table s", "ERROR 42809: \"s\" is not a table"),
        ("drop sequence t", "ERROR 42809: \"t\" is not a sequence"),
        ("drop sequence s", "DROP SEQUENCE"),
        ("drop sequence s", "ERROR 42P01: sequence \"s\" does not exist"),
        (
            "drop sequence if exists s",
            "NOTICE 00000: sequence \"s\" does not exist, skipping\nDROP SEQUENCE",
        ),
    ]);
}

#[test]
fn options_are_checked_and_kept() {
    check(&[
        ("create sequence a increment 0", "ERROR 22023: INCREMENT must not be zero"),
        (
            "create sequence a minvalue 5 maxvalue 5",
            "ERROR 22023: MINVALUE (5) must be less than MAXVALUE (5)",
        ),
        (
            "create sequence a start 0",
            "ERROR 22023: START value (0) cannot be less than MINVALUE (1)",
        ),
        (
            "create sequence a as smallint maxvalue 40000",
            "ERROR 22023: MAXVALUE (40000) is out of range for sequence data type smallint",
        ),
        (
            "create sequence a as text",
            "ERROR 22023: sequence type must be smallint, integer, or bigint",
        ),
        ("create sequence a cache 0", "ERROR 22023: CACHE (0) must be greater than zero"),
        ("create sequence a cycle no cycle", "ERROR 42601: conflicting or redundant options @25"),
        (
            "create sequence a increment 2 minvalue 1 maxvalue 5 start 3 cache 1 cycle",
            "CREATE SEQUENCE",
        ),
        ("select nextval('a') from generate_series(1, 4)", "3\n5\n1\n3\nSELECT 4"),
        ("alter sequence a no cycle", "ALTER SEQUENCE"),
        ("select nextval('a')", "5\nSELECT 1"),
        (
            "select nextval('a')",
            "ERROR 2200H: nextval: reached maximum value of sequence \"a\" (5)",
        ),
        ("alter sequence a restart", "ALTER SEQUENCE"),
        ("select nextval('a')", "3\nSELECT 1"),
        ("alter sequence a restart with 1 increment by -1", "ALTER SEQUENCE"),
        ("select nextval('a')", "1\nSELECT 1"),
        (
            "select nextval('a')",
            "ERROR 2200H: nextval: reached minimum value of sequence \"a\" (1)",
        ),
        (
            "begin; alter sequence a restart with 4; select nextval('a'); rollback",
            "BEGIN\nALTER SEQUENCE\n4\nSELECT 1\nROLLBACK",
        ),
        (
            "select nextval('a')",
            "ERROR 2200H: nextval: reached minimum value of sequence \"a\" (1)",
        ),
        ("alter sequence a rename to b", "ALTER SEQUENCE"),
        (
            "select last_value, increment_by, cache_size, cycle from pg_sequences",
            "1|-1|1|f\nSELECT 1",
        ),
        ("create sequence down increment -5", "CREATE SEQUENCE"),
        ("select nextval('down') from generate_series(1, 2)", "-1\n-6\nSELECT 2"),
        (
            "select sequence_name, data_type, start_value, maximum_value, increment from information_schema.sequences order by 1",
            "b|bigint|3|5|-1\ndown|bigint|-1|-1|-5\nSELECT 2",
        ),
        (
            "begin; savepoint p; create sequence c; select nextval('c'); rollback to p",
            "BEGIN\nSAVEPOINT\nCREATE SEQUENCE\n1\nSELECT 1\nROLLBACK",
        ),
        ("select nextval('c')", "ERROR 42P01: relation \"c\" does not exist"),
        ("rollback", "ROLLBACK"),
    ]);
}

#[test]
fn serial_columns_own_their_sequences() {
    check(&[
        (
            "create table t (a serial primary key, b text, c bigserial, d smallserial)",
            "CREATE TABLE",
        ),
        ("insert into t (b) values ('x'), ('y') returning *", "1|x|1|1\n2|y|2|2\nINSERT 0 2"),
        ("insert into t values (9, 'z', default, default) returning a, c", "9|3\nINSERT 0 1"),
        (
            "insert into t (a) values (null)",
            "ERROR 23502: null value in column \"a\" of relation \"t\" violates not-null constraint\nDETAIL Failing row contains (null, null, 4, 4).",
        ),
        ("insert into t default values returning a", "3\nINSERT 0 1"),
        (
            "select pg_get_serial_sequence('t', 'a'), pg_get_serial_sequence('public.t', 'b')",
            "public.t_a_seq|NULL\nSELECT 1",
        ),
        ("alter sequence t_a_seq rename to renamed", "ALTER SEQUENCE"),
        ("alter table t rename to u", "ALTER TABLE"),
        ("insert into u (b) values ('w') returning a", "4\nINSERT 0 1"),
        (
            "select column_name, column_default from information_schema.columns where table_name = 'u' order by ordinal_position",
            "a|nextval('renamed'::regclass)\nb|NULL\nc|nextval('t_c_seq'::regclass)\nd|nextval('t_d_seq'::regclass)\nSELECT 4",
        ),
        (
            "drop sequence renamed",
            "ERROR 2BP01: cannot drop sequence renamed because other objects depend on it\nDETAIL default value for column a of table u depends on sequence renamed",
        ),
        (
            "select data_type, max_value from pg_sequences where sequencename = 't_d_seq'",
            "smallint|32767\nSELECT 1",
        ),
        (
            "truncate u; insert into u (b) values ('v') returning a, c",
            "TRUNCATE TABLE\n5|7\nINSERT 0 1",
        ),
        (
            "truncate u restart identity; insert into u (b) values ('v') returning a, c",
            "TRUNCATE TABLE\n1|1\nINSERT 0 1",
        ),
        (
            "begin; truncate u restart identity; insert into u (b) values ('v') returning a; rollback",
            "BEGIN\nTRUNCATE TABLE\n1\nINSERT 0 1\nROLLBACK",
        ),
        ("insert into u (b) values ('v') returning a", "2\nINSERT 0 1"),
    ]);
}

#[test]
fn an_owned_sequence_goes_with_its_table_and_a_used_one_stays() {
    check(&[
        ("create table u (a serial, c bigserial)", "CREATE TABLE"),
        ("alter sequence u_a_seq rename to renamed", "ALTER SEQUENCE"),
        ("create table t (a serial, b serial)", "CREATE TABLE"),
        (
            "select relname, relkind from pg_class where relkind = 'S' order by 1",
            "renamed|S\nt_a_seq|S\nt_b_seq|S\nu_c_seq|S\nSELECT 4",
        ),
        ("drop table u", "DROP TABLE"),
        ("select sequencename from pg_sequences order by 1", "t_a_seq\nt_b_seq\nSELECT 2"),
        (
            "drop sequence t_a_seq cascade",
            "NOTICE 00000: drop cascades to default value for column a of table t\nDROP SEQUENCE",
        ),
        (
            "insert into t (b) values (5)",
            "ERROR 23502: null value in column \"a\" of relation \"t\" violates not-null constraint\nDETAIL Failing row contains (null, 5).",
        ),
        (
            "create sequence free; create table v (a int default nextval('free'))",
            "CREATE SEQUENCE\nCREATE TABLE",
        ),
        (
            "alter sequence free rename to freed; insert into v default values returning a",
            "ALTER SEQUENCE\n1\nINSERT 0 1",
        ),
        (
            "alter sequence freed owned by v.a; drop table v; select nextval('freed')",
            "ALTER SEQUENCE\nDROP TABLE\nERROR 42P01: relation \"freed\" does not exist",
        ),
        (
            "create table w (a serial default 5)",
            "ERROR 42601: multiple default values specified for column \"a\" of table \"w\" @26",
        ),
    ]);
}

#[test]
fn identity_columns_generate_and_refuse() {
    check(&[
        ("create table t (a int generated always as identity, b int)", "CREATE TABLE"),
        ("insert into t (b) values (1), (2) returning a", "1\n2\nINSERT 0 2"),
        (
            "insert into t values (5, 5)",
            "ERROR 428C9: cannot insert a non-DEFAULT value into column \"a\"\nDETAIL Column \"a\" is an identity column defined as GENERATED ALWAYS.",
        ),
        (
            "insert into t select 5, 5",
            "ERROR 428C9: cannot insert a non-DEFAULT value into column \"a\"\nDETAIL Column \"a\" is an identity column defined as GENERATED ALWAYS.",
        ),
        ("insert into t values (default, 5) returning a", "3\nINSERT 0 1"),
        ("insert into t overriding system value values (50, 5) returning a", "50\nINSERT 0 1"),
        ("insert into t overriding user value values (60, 5) returning a", "4\nINSERT 0 1"),
        (
            "insert into t overriding user value select 70, g from generate_series(1, 2) g returning a",
            "5\n6\nINSERT 0 2",
        ),
        (
            "update t set a = 9",
            "ERROR 428C9: column \"a\" can only be updated to DEFAULT\nDETAIL Column \"a\" is an identity column defined as GENERATED ALWAYS.",
        ),
        ("update t set a = default where b = 1 returning a", "7\n8\nUPDATE 2"),
        (
            "alter table t alter a set generated by default set increment by 10 restart with 100",
            "ALTER TABLE",
        ),
        ("insert into t values (1000, 0) returning a", "1000\nINSERT 0 1"),
        ("insert into t (b) values (0), (0) returning a", "100\n110\nINSERT 0 2"),
        (
            "alter table t alter a set default 5",
            "ERROR 42601: column \"a\" of relation \"t\" is an identity column",
        ),
        (
            "alter table t alter a drop not null",
            "ERROR 42601: column \"a\" of relation \"t\" is an identity column",
        ),
        (
            "drop sequence t_a_seq",
            "ERROR 2BP01: cannot drop sequence t_a_seq because column a of table t requires it",
        ),
        (
            "select attidentity, atthasdef from pg_attribute where attrelid = 't'::regclass and attnum > 0 order by attnum",
            "d|f\n|f\nSELECT 2",
        ),
        (
            "select is_identity, identity_generation, identity_start, identity_increment, column_default from information_schema.columns where table_name = 't' and column_name = 'a'",
            "YES|BY DEFAULT|1|10|NULL\nSELECT 1",
        ),
        (
            "alter table t alter a drop identity; insert into t values (1, 1); select count(*) from pg_sequences",
            "ALTER TABLE\nINSERT 0 1\n0\nSELECT 1",
        ),
        ("alter table t alter a add generated always as identity (start 7)", "ALTER TABLE"),
        ("insert into t (b) values (1) returning a", "7\nINSERT 0 1"),
        (
            "create table u (a text generated always as identity)",
            "ERROR 22023: identity column type must be smallint, integer, or bigint",
        ),
        (
            "create table u (a int generated always as identity default 5)",
            "ERROR 42601: both default and identity specified for column \"a\" of table \"u\" @52",
        ),
    ]);
}
