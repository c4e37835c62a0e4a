//! SAVEPOINT, RELEASE and ROLLBACK TO, as PostgreSQL answers them.

use super::*;

#[test]
fn savepoints_nest_shadow_and_go() {
    check(&[
        ("create table t (a int primary key)", "CREATE TABLE"),
        ("begin; insert into t values (1); savepoint a", "BEGIN\nINSERT 0 1\nSAVEPOINT"),
        ("insert into t values (2); savepoint a", "INSERT 0 1\nSAVEPOINT"),
        ("insert into t values (3)", "INSERT 0 1"),
        ("rollback to a; select * from t order by 1", "ROLLBACK\n1\n2\nSELECT 2"),
        // The inner one stays; once it is released the outer one is seen again.
        ("insert into t values (4); rollback to savepoint a", "INSERT 0 1\nROLLBACK"),
        ("release a; select * from t order by 1", "RELEASE\n1\n2\nSELECT 2"),
        ("rollback to a; select * from t order by 1", "ROLLBACK\n1\nSELECT 1"),
        ("savepoint b; savepoint c; release savepoint b", "SAVEPOINT\nSAVEPOINT\nRELEASE"),
        ("rollback to c", "ERROR 3B001: savepoint \"c\" does not exist"),
        (
            "select 1",
            "ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block",
        ),
        ("rollback to a; insert into t values (5); commit", "ROLLBACK\nINSERT 0 1\nCOMMIT"),
        ("select * from t order by 1", "1\n5\nSELECT 2"),
        ("begin; rollback to a", "BEGIN\nERROR 3B001: savepoint \"a\" does not exist"),
        ("rollback to a", "ERROR 3B001: savepoint \"a\" does not exist"),
        ("commit", "ROLLBACK"),
    ]);
}

#[test]
fn outside_a_block_there_are_none() {
    check(&[
        ("savepoint a", "ERROR 25P01: SAVEPOINT can only be used in transaction blocks"),
        ("release a", "ERROR 25P01: RELEASE SAVEPOINT can only be used in transaction blocks"),
        (
            "rollback to a",
            "ERROR 25P01: ROLLBACK TO SAVEPOINT can only be used in transaction blocks",
        ),
        (
            "select 1; savepoint a",
            "1\nSELECT 1\nERROR 25P01: SAVEPOINT can only be used in transaction blocks",
        ),
        (
            "begin; savepoint a; commit; begin; release a",
            "BEGIN\nSAVEPOINT\nCOMMIT\nBEGIN\nERROR 3B001: savepoint \"a\" does not exist",
        ),
        (
            "savepoint b",
            "ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block",
        ),
        (
            "release b",
            "ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block",
        ),
        ("rollback", "ROLLBACK"),
    ]);
}

#[test]
fn an_error_is_survived_by_what_came_before_the_savepoint() {
    check(&[
        ("create table t (a int primary key, b int)", "CREATE TABLE"),
        ("insert into t values (1, 1), (2, 2)", "INSERT 0 2"),
        ("begin; update t set b = 10 where a = 1; savepoint s", "BEGIN\nUPDATE 1\nSAVEPOINT"),
        // Two rows are in before the third fails.
        (
            "insert into t values (7, 7), (8, 8), (2, 9)",
            "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nDETAIL Key (a)=(2) already exists.",
        ),
        ("rollback to s; select * from t order by a", "ROLLBACK\n1|10\n2|2\nSELECT 2"),
        ("insert into t values (7, 70)", "INSERT 0 1"),
        ("select 1/0", "ERROR 22012: division by zero"),
        ("rollback to savepoint s", "ROLLBACK"),
        ("insert into t values (7, 71); commit", "INSERT 0 1\nCOMMIT"),
        ("select * from t order by a", "1|10\n2|2\n7|71\nSELECT 3"),
        ("begin; savepoint s; delete from t", "BEGIN\nSAVEPOINT\nDELETE 3"),
        ("selec", "ERROR 42601: syntax error at or near \"selec\" @1"),
        ("commit", "ROLLBACK"),
        ("select count(*) from t", "3\nSELECT 1"),
    ]);
}

#[test]
fn definitions_plans_and_settings_go_back() {
    check(&[
        (
            "create table t (a int primary key); insert into t values (1)",
            "CREATE TABLE\nINSERT 0 1",
        ),
        ("prepare p as select sum(x) from (select * from t) s(x)", "PREPARE"),
        ("begin; savepoint s", "BEGIN\nSAVEPOINT"),
        ("alter table t rename column a to b; select b from t", "ALTER TABLE\n1\nSELECT 1"),
        (
            "create table u (x int); insert into u values (5); select * from u",
            "CREATE TABLE\nINSERT 0 1\n5\nSELECT 1",
        ),
        (
            "create index on t (b); truncate t; insert into t values (3)",
            "CREATE INDEX\nTRUNCATE TABLE\nINSERT 0 1",
        ),
        ("execute p", "3\nSELECT 1"),
        ("set application_name = 'inner'", "application_name = inner\nSET"),
        ("set transaction read only", "SET"),
        ("rollback to s; select a from t", "application_name = \nROLLBACK\n1\nSELECT 1"),
        ("execute p", "1\nSELECT 1"),
        ("insert into t values (2)", "INSERT 0 1"),
        ("select * from u", "ERROR 42P01: relation \"u\" does not exist @15"),
        ("rollback to s", "ROLLBACK"),
        (
            "drop table t; savepoint d; create table t (c text); insert into t values ('x')",
            "DROP TABLE\nSAVEPOINT\nCREATE TABLE\nINSERT 0 1",
        ),
        (
            "rollback to d; select 1 from t",
            "ROLLBACK\nERROR 42P01: relation \"t\" does not exist @30",
        ),
        ("rollback to s; select * from t", "ROLLBACK\n1\nSELECT 1"),
        ("commit; select * from t; show application_name", "COMMIT\n1\nSELECT 1\n\nSHOW"),
        ("begin isolation level repeatable read; savepoint s", "BEGIN\nSAVEPOINT"),
        (
            "set transaction isolation level read committed",
            "ERROR 25001: SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction",
        ),
        ("rollback", "ROLLBACK"),
    ]);
}

#[test]
fn freezing_needs_a_table_of_this_subtransaction() {
    with_session(|context, session| {
        let refused = "ERROR 55000: cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction";
        let mut copy = |text: &str| {
            let mut client = Recorder::default();
            client.input.push_back("1\n2\n".to_owned());
            if let Err(error) = session.simple_query(context, text, &mut client) {
                client.said.push(format!("ERROR {}: {}", error.sqlstate(), error.message()));
            }
            client.said
        };
        copy("begin; create table t (a int); savepoint s");
        assert_eq!(copy("copy t from stdin (freeze)"), [refused]);
        assert_eq!(copy("rollback to s; truncate t; savepoint q; release q").len(), 4);
        assert_eq!(copy("copy t from stdin (freeze)"), ["(copy in 1)", "COPY 2"]);
        assert_eq!(
            copy("rollback to s; select count(*) from t")[1..],
            ["count:bigint", "0", "SELECT 1"]
        );
        assert_eq!(
            copy("release s; copy t from stdin (freeze)"),
            ["RELEASE", "(copy in 1)", "COPY 2"]
        );
        assert_eq!(copy("commit; select count(*) from t")[1..], ["count:bigint", "2", "SELECT 1"]);
    });
}

#[test]
fn portals_of_the_savepoint_die_and_others_live() {
    with_session(|context, session| {
        say(context, session, "create table t (a int); insert into t values (1), (2), (3)");
        say(context, session, "begin");
        let run = |session: &mut Session, portal: &str, statement: &str, rows: u32| {
            let mut client = Recorder::default();
            let mut go = |session: &mut Session| -> SqlResult<()> {
                if !statement.is_empty() {
                    session.close_statement(portal);
                    session.parse(context, portal, statement, &[])?;
                    session.bind(
                        context,
                        BindRequest {
                            portal,
                            statement: portal,
                            parameter_formats: &[],
                            parameters: &mut std::iter::empty(),
                            result_formats: &[],
                        },
                    )?;
                }
                session.execute(context, portal, rows, &mut client)
            };
            let result = go(session);
            if let Err(error) = result {
                client.said.push(format!("ERROR {}: {}", error.sqlstate(), error.message()));
            }
            client.said
        };
        assert_eq!(run(session, "outer", "select a from t order by a", 1), ["1", "(suspended)"]);
        assert_eq!(run(session, "", "savepoint s", 0), ["SAVEPOINT"]);
        assert_eq!(run(session, "inner", "select a from t order by a", 1), ["1", "(suspended)"]);
        assert_eq!(run(session, "", "rollback to s", 0), ["ROLLBACK"]);
        assert_eq!(run(session, "outer", "", 1), ["2", "(suspended)"]);
        assert_eq!(run(session, "inner", "", 1), ["ERROR 34000: portal \"inner\" does not exist"]);
        assert_eq!(run(session, "", "rollback to s", 0), ["ROLLBACK"]);
        assert_eq!(run(session, "outer", "", 0), ["3", "SELECT 1"]);
        assert_eq!(run(session, "", "commit", 0), ["COMMIT"]);
    });
}
