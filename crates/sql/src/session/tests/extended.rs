//! The extended protocol, and COPY.

use super::*;

pub(super) fn extended(
    context: &Context,
    session: &mut Session,
    text: &str,
    parameters: &[Option<&str>],
    rows_max: u32,
) -> Vec<String> {
    let mut client = Recorder::default();
    let result = (|| {
        session.parse(context, "", text, &[])?;
        let description = session.describe_statement(context, "")?;
        let types: Vec<String> = description.parameters.iter().map(|ty| ty.to_string()).collect();
        client.said.push(format!("({})", types.join(", ")));
        let mut values = parameters.iter().map(|value| value.map(str::as_bytes));
        session.bind(
            context,
            BindRequest {
                portal: "",
                statement: "",
                parameter_formats: &[],
                parameters: &mut values,
                result_formats: &[],
            },
        )?;
        loop {
            session.execute(context, "", rows_max, &mut client)?;
            if client.said.last().is_none_or(|line| line != "(suspended)") {
                break;
            }
        }
        Ok(())
    })();
    if let Err(error) = result {
        let error: SqlError = error;
        client.said.push(format!("ERROR {}: {}", error.sqlstate(), error.message()));
    }
    if let Err(error) = session.sync(context, &mut client) {
        client.said.push(format!("ERROR {}: {}", error.sqlstate(), error.message()));
    }
    client.said
}

/// Runs texts with parameters and row limits in one session, and compares what was said.
#[track_caller]
fn check_all(
    setup: &'static str,
    script: &'static [(&'static str, &'static [Option<&'static str>], u32, &'static str)],
) {
    with_session(move |context, session| {
        say(context, session, setup);
        for (text, parameters, rows, expect) in script {
            assert_eq!(
                extended(context, session, text, parameters, *rows).join("\n"),
                *expect,
                "{text}"
            );
        }
    });
}

#[test]
fn prepared_statements_infer_types_and_suspend() {
    check_all(
        "",
        &[
            (
                "create table t (a int primary key, b varchar(5), c timestamp)",
                &[],
                0,
                "()\nCREATE TABLE",
            ),
            (
                "insert into t values ($1, $2, $3)",
                &[Some("1"), Some("x"), None],
                0,
                "(integer, character varying, timestamp without time zone)\nINSERT 0 1",
            ),
            ("insert into t (a) values ($1), ($1 + 1)", &[Some("5")], 0, "(integer)\nINSERT 0 2"),
            (
                "select a from t where a > $1 order by a",
                &[Some("0")],
                2,
                "(integer)\n1\n5\n(suspended)\n6\nSELECT 1",
            ),
            (
                "select $1 + 1, $2 || 'x', $3::int8",
                &[Some("1"), Some("y"), Some("7")],
                0,
                "(integer, text, bigint)\n2|yx|7\nSELECT 1",
            ),
            (
                "update t set b = $1 where a = $2",
                &[Some("new"), Some("1")],
                0,
                "(character varying, integer)\nUPDATE 1",
            ),
            (
                "select b from t where (a, b) in (($1, $2))",
                &[Some("1"), Some("new")],
                0,
                "(integer, text)\nnew\nSELECT 1",
            ),
            (
                "select count(*) from t where a = any($1)",
                &[Some("{1,5,9}")],
                0,
                "(integer[])\n2\nSELECT 1",
            ),
            ("select a from t limit $1", &[Some("1")], 0, "(bigint)\n1\nSELECT 1"),
        ],
    );
}

/// Runs a prepared statement with one parameter.
fn run_named(context: &Context, session: &mut Session, name: &str, value: &str) -> String {
    let mut client = Recorder::default();
    let mut values = [Some(value.as_bytes())].into_iter();
    let (portal, parameter_formats, result_formats) = ("", &[][..], &[][..]);
    let parameters = &mut values;
    let bind =
        BindRequest { portal, statement: name, parameter_formats, parameters, result_formats };
    let bound = session.bind(context, bind);
    let ran = bound.and_then(|()| session.execute(context, "", 0, &mut client));
    if let Err(error) = ran {
        client.said.push(format!("ERROR {}: {}", error.sqlstate(), error.message()));
    }
    session.sync(context, &mut client).unwrap();
    client.said.join("\n")
}

/// A client reads values by the types that it was told of at Parse: R `RevalidateCachedQuery`.
#[test]
fn what_was_told_of_a_prepared_statement_stays_true() {
    const CHANGED: &str = "ERROR 0A000: cached plan must not change result type";
    with_sessions(|context, first, second| {
        say(
            context,
            first,
            "create table t (a int primary key, b int); insert into t values (1, 2)",
        );
        let mut client = Recorder::default();
        let all = "select * from t where b = $1";
        first.parse(context, "all", all, &[]).unwrap();
        first.parse(context, "some", "select a from t where b = $1", &[]).unwrap();
        first.parse(context, "gone", "delete from t where b = $1", &[]).unwrap();
        first.sync(context, &mut client).unwrap();
        say(context, first, "prepare p (int) as select * from t where b = $1");
        assert_eq!(run_named(context, first, "all", "2"), "1|2\nSELECT 1");
        // Another table of that name: a column more, and one of another type.
        say(context, second, "drop table t; create table t (a int primary key, b bigint, c text)");
        say(context, second, "insert into t values (1, 2, 'c'), (2, 5000000000, 'd')");
        assert_eq!(run_named(context, first, "all", "2"), CHANGED);
        assert_eq!(say(context, first, "execute p (2)"), [CHANGED]);
        assert!(first.describe_statement(context, "all").is_err());
        first.sync(context, &mut client).unwrap();
        assert_eq!(
            run_named(context, first, "some", "2"),
            "1\nSELECT 1",
            "its columns are the same"
        );
        let told = first.describe_statement(context, "gone").unwrap();
        assert_eq!(told.parameters[0].to_string(), "integer", "as it was told");
        first.sync(context, &mut client).unwrap();
        let wrong = run_named(context, first, "gone", "5000000000");
        assert!(wrong.starts_with("ERROR 22003"), "{wrong}");
        // Who comes now is told what is now, of the same texts; and who knew them before, still not.
        for (name, text) in [("all", all), ("gone", "delete from t where b = $1")] {
            second.parse(context, name, text, &[]).unwrap();
        }
        second.sync(context, &mut client).unwrap();
        assert_eq!(run_named(context, second, "all", "5000000000"), "2|5000000000|d\nSELECT 1");
        assert_eq!(run_named(context, first, "all", "2"), CHANGED);
        first.parse(context, "again", all, &[]).unwrap();
        first.sync(context, &mut client).unwrap();
        assert_eq!(run_named(context, first, "again", "2"), "1|2|c\nSELECT 1");
        assert_eq!(run_named(context, second, "gone", "5000000000"), "DELETE 1");
        // What comes back is what was promised.
        say(context, second, "drop table t; create table t (a int primary key, b int)");
        assert_eq!(run_named(context, first, "all", "2"), "SELECT 0");
        assert_eq!(run_named(context, second, "all", "2"), CHANGED);
    });
}

#[test]
fn prepared_statements_fail_with_their_transaction() {
    check_all(
        "create table t (a int primary key, b varchar(5), c timestamp); insert into t values (1), (5), (6); ",
        &[
            ("BEGIN", &[], 0, "()\nBEGIN"),
            ("delete from t where a = $1", &[Some("1")], 0, "(integer)\nDELETE 1"),
            ("select 1/0", &[], 0, "()\nERROR 22012: division by zero"),
            (
                "select 1",
                &[],
                0,
                "ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block",
            ),
            ("END", &[], 0, "()\nROLLBACK"),
            ("select count(*) from t", &[], 0, "()\n3\nSELECT 1"),
            ("", &[], 0, "()\n(empty)"),
            ("select $1 from t", &[Some("q")], 0, "(text)\nq\nq\nq\nSELECT 3"),
            ("select $1 is null", &[None], 0, "(text)\nt\nSELECT 1"),
            (
                "update t set b = 'toolong' where a = 1",
                &[],
                0,
                "()\nERROR 22001: value too long for type character varying(5)",
            ),
            ("show server_version", &[], 0, "()\n15.0\nSHOW"),
            (
                "select a from t where a = $1 and b = $1",
                &[None],
                0,
                "ERROR 42883: operator does not exist: character varying = integer",
            ),
        ],
    );
}

#[test]
fn copy_goes_in_and_out() {
    with_session(|context, session| {
        let mut run = |text: &str, input: &[&str]| {
            let mut client = Recorder {
                input: input.iter().map(|part| (*part).to_owned()).collect(),
                ..Recorder::default()
            };
            if let Err(error) = session.simple_query(context, text, &mut client) {
                client.said.push(format!("ERROR {}: {}", error.sqlstate(), error.message()));
                client.said.extend(error.fields().context.clone());
            }
            client.said.join("\n")
        };
        assert_eq!(
            run("create table t (a int primary key, b text, c char(3) default 'd')", &[]),
            "CREATE TABLE"
        );
        assert_eq!(
            run("copy t (a, b) from stdin", &["1\tx\\ty\n2\t\\N\n3", "\tz\n"]),
            "(copy in 2)\nCOPY 3"
        );
        assert_eq!(
            run("copy t to stdout", &[]),
            "(copy out 3)\n1\tx\\ty\td  \n2\t\\N\td  \n3\tz\td  \n(copy done)\nCOPY 3"
        );
        assert_eq!(
            run(
                "copy (select a, b from t where a < 3 order by a) to stdout with (format csv, header)",
                &[]
            ),
            "(copy out 2)\na,b\n1,x\ty\n2,\n(copy done)\nCOPY 2"
        );
        assert_eq!(
            run("copy t from stdin with (freeze on)", &["9\tx\ty\n"]),
            "ERROR 55000: cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction"
        );
        assert_eq!(
            run("begin; truncate t; copy t from stdin with (freeze on)", &["9\tx\ty\n"]),
            "BEGIN\nTRUNCATE TABLE\n(copy in 3)\nCOPY 1"
        );
        assert_eq!(run("commit", &[]), "COMMIT");
        assert_eq!(
            run("copy t from stdin csv", &["10,\"a\"\"b\",q\n", "x,,\n"]),
            "(copy in 3)\nERROR 22P02: invalid input syntax for type integer: \"x\"\nCOPY t, line 2, column a: \"x\""
        );
        assert_eq!(
            run("copy t from stdin", &["9\tx\ty\n"]),
            "(copy in 3)\nERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nCOPY t, line 1"
        );
        let mut many: Vec<String> = (100..200).map(|a| format!("{a}\tx\ty\n")).collect();
        many[89] = "150\tx\ty\n".to_owned();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(
            run("copy t from stdin", &many),
            "(copy in 3)\nERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nCOPY t, line 90"
        );
        assert_eq!(
            run("copy t from stdin", &[many[0], many[1], many[1], "x\ty\tz\n"]),
            "(copy in 3)\nERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nCOPY t, line 3"
        );
        assert_eq!(
            run("copy t from stdin", &["fail: no more"]),
            "(copy in 3)\nERROR 57014: COPY from stdin failed: fail: no more\nCOPY t, line 1"
        );
        assert_eq!(
            run("select a, b, c from t", &[]),
            "a:integer|b:text|c:character(3)\n9|x|y  \nSELECT 1"
        );
    });
}
