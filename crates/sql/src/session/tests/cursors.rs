//! Cursors, and portals that are read a part at a time.

use super::*;

#[test]
fn cursors_go_forward_and_with_scroll_everywhere() {
    check(&[
        ROWS,
        (
            "declare c cursor for select 1",
            "ERROR 25P01: DECLARE CURSOR can only be used in transaction blocks",
        ),
        ("begin", "BEGIN"),
        ("declare c cursor for select a from t order by a", "DECLARE CURSOR"),
        ("fetch c", "1\nFETCH 1"),
        ("fetch forward 3 from c", "2\n3\n4\nFETCH 3"),
        ("move 2 in c", "MOVE 2"),
        ("fetch relative 2 from c", "8\nFETCH 1"),
        ("fetch relative 0 from c", "8\nFETCH 1"),
        ("fetch all from c", "9\n10\nFETCH 2"),
        ("fetch next from c", "FETCH 0"),
        ("close c", "CLOSE CURSOR"),
        ("declare s scroll cursor for select a, b from t order by a", "DECLARE CURSOR"),
        ("fetch last from s", "10|r10\nFETCH 1"),
        ("fetch prior from s", "9|r9\nFETCH 1"),
        ("fetch backward 2 from s", "8|r8\n7|r7\nFETCH 2"),
        ("fetch absolute 3 from s", "3|r3\nFETCH 1"),
        ("fetch absolute -2 from s", "9|r9\nFETCH 1"),
        ("fetch first from s", "1|r1\nFETCH 1"),
        ("fetch backward all from s", "FETCH 0"),
        ("fetch 2 from s", "1|r1\n2|r2\nFETCH 2"),
        ("move absolute 20 in s", "MOVE 0"),
        ("fetch backward 1 from s", "10|r10\nFETCH 1"),
        ("close all", "CLOSE CURSOR ALL"),
        ("fetch s", "ERROR 34000: cursor \"s\" does not exist"),
        ("rollback", "ROLLBACK"),
        (
            "begin; declare c no scroll cursor for select a from t; fetch 2 from c",
            "BEGIN\nDECLARE CURSOR\n1\n2\nFETCH 2",
        ),
        ("fetch prior from c", "ERROR 55000: cursor can only scan forward"),
        (
            "rollback; begin; declare c cursor for select a from t; fetch absolute -2 from c",
            "ROLLBACK\nBEGIN\nDECLARE CURSOR\nERROR 55000: cursor can only scan forward",
        ),
        ("rollback", "ROLLBACK"),
    ]);
}

#[test]
fn a_cursor_sees_what_was_there_when_it_was_declared() {
    with_sessions(|context, first, second| {
        say(context, first, ROWS.0);
        say(
            context,
            first,
            "begin; insert into t values (11, 'own'); declare c cursor for select a from t where b <> 'x' order by a",
        );
        assert_eq!(say(context, first, "fetch 2 from c")[1..], ["1", "2", "FETCH 2"]);
        say(
            context,
            second,
            "delete from t where a between 3 and 5; insert into t values (20, 'new')",
        );
        say(
            context,
            first,
            "update t set b = 'x' where a = 6; insert into t values (30, 'later'); delete from t where a = 11",
        );
        let said = say(context, first, "fetch all from c");
        assert_eq!(said[1..], ["3", "4", "5", "6", "7", "8", "9", "10", "11", "FETCH 9"]);
        // Its transaction sees the rest meanwhile.
        let said = say(context, first, "select count(*) from t where b <> 'x'");
        assert_eq!(said[1..], ["8", "SELECT 1"]);
        assert_eq!(say(context, first, "commit"), ["COMMIT"]);
        assert_eq!(say(context, first, "fetch c")[0], "ERROR 34000: cursor \"c\" does not exist");
        // Nothing holds the past any more.
        say(
            context,
            first,
            "begin isolation level repeatable read; declare c cursor for select count(*) from t",
        );
        say(context, second, "delete from t");
        assert_eq!(say(context, first, "fetch c")[1..], ["9", "FETCH 1"]);
        say(context, first, "rollback");
        assert_eq!(say(context, first, "select count(*) from t")[1], "0");
    });
}

#[test]
fn operators_of_all_kinds_go_on_between_fetches() {
    with_session(|context, session| {
        say(context, session, ROWS.0);
        say(context, session, "set work_mem = '64kB'");
        for query in [
            "select x.a, y.a from t x join t y on x.a % 3 = y.a % 3 order by x.a, y.a",
            "select x.a, y.a from t x, t y where x.a < y.a",
            "select a % 4, count(*), string_agg(b, ',' order by a desc) from t group by a % 4",
            "with c as (select a from t) select c.a, (select count(*) from c d where d.a < c.a) from c",
            "select distinct g % 1500 from generate_series(1, 6000) g",
            "select a from t union all select a from t except select 4 order by a",
            "select generate_series(1, a) from t where exists (select 1 from t u where u.a = t.a + 1)",
            "select a from t where a >= 3 and a < 9 limit 4 offset 1",
            "select b from t order by b for update",
        ] {
            let expect = say(context, session, query);
            say(context, session, "begin");
            say(context, session, &format!("declare c cursor for {query}"));
            let mut said = vec![expect[0].clone()];
            loop {
                let part = say(context, session, "fetch 3 from c");
                say(context, session, "select count(*), max(b) from t where a = 5");
                said.extend_from_slice(&part[1..part.len() - 1]);
                if part.last().is_some_and(|tag| tag != "FETCH 3") {
                    break;
                }
            }
            assert_eq!(said[..], expect[..expect.len() - 1], "{query}");
            say(context, session, "commit");
        }
    });
}

fn bind(context: &Context, session: &mut Session, statement: &str) {
    let request = BindRequest {
        portal: "p",
        statement,
        parameter_formats: &[],
        parameters: &mut std::iter::empty(),
        result_formats: &[],
    };
    session.bind(context, request).unwrap();
}

#[test]
fn portals_with_row_limits_do_not_run_to_the_end() {
    with_session(|context, session| {
        let mut client = Recorder::default();
        let text = "select g, 10 / (4 - g) from generate_series(1, 1000000) g";
        session.parse(context, "s", text, &[]).unwrap();
        bind(context, session, "s");
        session.execute(context, "p", 2, &mut client).unwrap();
        session.execute(context, "p", 1, &mut client).unwrap();
        assert_eq!(client.said, ["1|3", "2|5", "(suspended)", "3|10", "(suspended)"]);
        // The row that fails is the fourth.
        let error = session.execute(context, "p", 1, &mut client).unwrap_err();
        assert_eq!(error.sqlstate().as_str(), "22012");
        session.sync(context, &mut client).unwrap();
        // Closing lets go of everything, and so does the end of the transaction.
        session.parse(context, "s2", "select 1 from generate_series(1, 10)", &[]).unwrap();
        let mut client = Recorder::default();
        bind(context, session, "s2");
        session.execute(context, "p", 10, &mut client).unwrap();
        assert_eq!(client.said.last().unwrap(), "(suspended)");
        session.execute(context, "p", 0, &mut client).unwrap();
        assert_eq!(client.said.last().unwrap(), "SELECT 0");
        session.sync(context, &mut client).unwrap();
        assert!(session.execute(context, "p", 0, &mut client).is_err());
        session.sync(context, &mut client).unwrap();
    });
}
