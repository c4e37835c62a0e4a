//! Cursors WITH HOLD. Texts and answers were compared with PostgreSQL 15.18; where it says
//! something else, the line says so.

use super::*;

const FORWARD_ONLY: &str = "ERROR 55000: cursor can only scan forward";

#[test]
fn outside_of_a_block_a_cursor_with_hold_stays() {
    check(&[
        ROWS,
        (
            "declare c cursor for select a from t order by a",
            "ERROR 25P01: DECLARE CURSOR can only be used in transaction blocks",
        ),
        ("declare c cursor with hold for select a from t order by a", "DECLARE CURSOR"),
        ("fetch 2 from c", "1\n2\nFETCH 2"),
        ("declare c cursor with hold for select 1", "ERROR 42P03: cursor \"c\" already exists"),
        ("delete from t where a = 3", "DELETE 1"),
        ("fetch c", "3\nFETCH 1"),
        ("fetch relative 0 from c", "3\nFETCH 1"),
        ("move 2 in c", "MOVE 2"),
        ("fetch forward all from c", "6\n7\n8\n9\n10\nFETCH 5"),
        ("fetch c", "FETCH 0"),
        ("fetch prior from c", "10\nFETCH 1"),
        ("close c", "CLOSE CURSOR"),
        ("fetch c", "ERROR 34000: cursor \"c\" does not exist"),
        ("close c", "ERROR 34000: cursor \"c\" does not exist"),
        // The statements of one text are one transaction, and a block for cursors.
        (
            "declare m cursor with hold for select a from t order by a; fetch 2 from m",
            "DECLARE CURSOR\n1\n2\nFETCH 2",
        ),
        ("fetch m", "4\nFETCH 1"),
        (
            "declare p cursor for select a from t order by a; fetch 2 from p",
            "DECLARE CURSOR\n1\n2\nFETCH 2",
        ),
        ("fetch p", "ERROR 34000: cursor \"p\" does not exist"),
        (
            "declare n cursor with hold for select a from t order by a; fetch n; select 1 / 0",
            "DECLARE CURSOR\n1\nFETCH 1\nERROR 22012: division by zero",
        ),
        ("fetch n", "ERROR 34000: cursor \"n\" does not exist"),
        (
            "begin; declare u cursor without hold for select 1; commit",
            "BEGIN\nDECLARE CURSOR\nCOMMIT",
        ),
        ("fetch u", "ERROR 34000: cursor \"u\" does not exist"),
        // No columns; NULLs and values of all shapes.
        ("declare z cursor with hold for select from generate_series(1, 3)", "DECLARE CURSOR"),
        ("fetch all from z", "\n\n\n\nFETCH 3"),
        (
            "declare v cursor with hold for select null::int, 'x'::text, array[1, null], 1.50::numeric, interval '1 day', 't'::regclass",
            "DECLARE CURSOR",
        ),
        ("fetch v", "NULL|x|{1,NULL}|1.50|1 day|t\nFETCH 1"),
        // A table that is gone, or was made by the transaction.
        (
            "begin; create table gone (x int); insert into gone values (1), (2); declare g cursor with hold for select x from gone; fetch g; commit",
            "BEGIN\nCREATE TABLE\nINSERT 0 2\nDECLARE CURSOR\n1\nFETCH 1\nCOMMIT",
        ),
        ("drop table gone", "DROP TABLE"),
        ("fetch g", "2\nFETCH 1"),
        // Its values' text is made when it is fetched.
        (
            "set timezone = 'Asia/Tokyo'; declare d cursor with hold for select timestamptz '2020-01-31 12:00+00'",
            "TimeZone = Asia/Tokyo\nSET\nDECLARE CURSOR",
        ),
        ("set timezone = 'UTC'", "TimeZone = UTC\nSET"),
        ("fetch d", "2020-01-31 12:00:00+00\nFETCH 1"),
    ]);
}

#[test]
fn a_held_cursor_with_scroll_goes_everywhere() {
    check(&[
        ROWS,
        (
            "begin; declare s scroll cursor with hold for select a, b from t order by a; fetch 3 from s; commit",
            "BEGIN\nDECLARE CURSOR\n1|r1\n2|r2\n3|r3\nFETCH 3\nCOMMIT",
        ),
        ("fetch relative 0 from s", "3|r3\nFETCH 1"),
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
        ("fetch relative -3 from s", "7|r7\nFETCH 1"),
        ("move 0 in s", "MOVE 1"),
        ("move backward all in s", "MOVE 6"),
        ("fetch next from s", "1|r1\nFETCH 1"),
        ("fetch absolute 0 from s", "FETCH 0"),
        ("fetch relative 0 from s", "FETCH 0"),
        ("fetch absolute -20 from s", "FETCH 0"),
        ("fetch next from s", "1|r1\nFETCH 1"),
        // At its end when it was held.
        (
            "begin; declare e scroll cursor with hold for select a from t order by a; move all in e; commit",
            "BEGIN\nDECLARE CURSOR\nMOVE 10\nCOMMIT",
        ),
        ("fetch e", "FETCH 0"),
        ("fetch prior from e", "10\nFETCH 1"),
    ]);
}

#[test]
fn a_held_cursor_with_no_scroll_goes_forward_or_fails() {
    check(&[
        ROWS,
        (
            "begin; declare n no scroll cursor with hold for select a from t order by a; fetch 3 from n; commit",
            "BEGIN\nDECLARE CURSOR\n1\n2\n3\nFETCH 3\nCOMMIT",
        ),
        ("move relative 0 in n", "MOVE 1"),
        ("fetch n", "4\nFETCH 1"),
        ("fetch absolute 7 from n", "7\nFETCH 1"),
        ("fetch relative 1 from n", "8\nFETCH 1"),
        ("fetch relative 0 from n", FORWARD_ONLY),
        ("fetch n", "ERROR 55000: portal \"n\" cannot be run"),
        ("select name, is_scrollable from pg_cursors", "n|f\nSELECT 1"),
        ("close n", "CLOSE CURSOR"),
        ("declare n no scroll cursor with hold for select a from t order by a", "DECLARE CURSOR"),
        ("move backward all in n", "MOVE 0"),
        ("fetch first from n", "1\nFETCH 1"),
        ("move absolute 20 in n", "MOVE 0"),
        ("fetch absolute 20 from n", "FETCH 0"),
        ("fetch prior from n", FORWARD_ONLY),
        ("close n", "CLOSE CURSOR"),
        ("declare n no scroll cursor with hold for select a from t order by a", "DECLARE CURSOR"),
        ("fetch last from n", FORWARD_ONLY),
        ("close n", "CLOSE CURSOR"),
        (
            "begin; declare e no scroll cursor with hold for select a from t order by a; move all in e; commit",
            "BEGIN\nDECLARE CURSOR\nMOVE 10\nCOMMIT",
        ),
        ("fetch e", "FETCH 0"),
        ("fetch absolute 5 from e", FORWARD_ONLY),
    ]);
}

#[test]
fn a_rollback_takes_the_cursors_of_its_transaction_only() {
    check(&[
        ROWS,
        (
            "begin; declare c cursor with hold for select 1; rollback",
            "BEGIN\nDECLARE CURSOR\nROLLBACK",
        ),
        ("fetch c", "ERROR 34000: cursor \"c\" does not exist"),
        ("declare old cursor with hold for select a from t order by a", "DECLARE CURSOR"),
        (
            "begin; fetch old; declare c cursor with hold for select 1",
            "BEGIN\n1\nFETCH 1\nDECLARE CURSOR",
        ),
        ("fetch nothing", "ERROR 34000: cursor \"nothing\" does not exist"),
        (
            "fetch old",
            "ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block",
        ),
        ("commit", "ROLLBACK"),
        ("fetch old", "2\nFETCH 1"),
        ("fetch c", "ERROR 34000: cursor \"c\" does not exist"),
        (
            "begin; declare c1 cursor with hold for select a from t order by a; savepoint x; declare c2 cursor with hold for select 2; fetch c1; fetch old; rollback to x; fetch c1; fetch c2",
            "BEGIN\nDECLARE CURSOR\nSAVEPOINT\nDECLARE CURSOR\n1\nFETCH 1\n3\nFETCH 1\nROLLBACK\n2\nFETCH 1\nERROR 34000: cursor \"c2\" does not exist",
        ),
        ("rollback to x; fetch c1; release x; commit", "ROLLBACK\n3\nFETCH 1\nRELEASE\nCOMMIT"),
        ("fetch c1; fetch old", "4\nFETCH 1\n4\nFETCH 1"),
        (
            "begin; savepoint x; declare c3 cursor with hold for select 3; release x; commit; fetch c3",
            "BEGIN\nSAVEPOINT\nDECLARE CURSOR\nRELEASE\nCOMMIT\n3\nFETCH 1",
        ),
        // CLOSE is not undone.
        ("begin; close old; rollback", "BEGIN\nCLOSE CURSOR\nROLLBACK"),
        ("fetch old", "ERROR 34000: cursor \"old\" does not exist"),
        (
            "begin; declare c cursor with hold for select a from t order by a; fetch c; commit and chain; fetch c; rollback; fetch c",
            "BEGIN\nDECLARE CURSOR\n1\nFETCH 1\nCOMMIT\n2\nFETCH 1\nROLLBACK\n3\nFETCH 1",
        ),
        ("close all", "CLOSE CURSOR ALL"),
        ("select count(*) from pg_cursors", "0\nSELECT 1"),
    ]);
}

#[test]
fn a_commit_that_cannot_read_its_cursors_fails() {
    check(&[
        ROWS,
        ("declare old cursor with hold for select a from t order by a", "DECLARE CURSOR"),
        (
            "begin; create table made (x int); declare good cursor with hold for select 1; declare bad cursor with hold for select 10 / (3 - a) from generate_series(1, 5) a; declare good2 cursor with hold for select 2; fetch bad",
            "BEGIN\nCREATE TABLE\nDECLARE CURSOR\nDECLARE CURSOR\nDECLARE CURSOR\n5\nFETCH 1",
        ),
        ("commit", "ERROR 22012: division by zero"),
        // No transaction is left, and what it did is undone. (In PostgreSQL "good" stays, if it was
        // read first.)
        ("begin; rollback", "BEGIN\nROLLBACK"),
        ("select * from made", "ERROR 42P01: relation \"made\" does not exist @15"),
        ("select name from pg_cursors", "old\nSELECT 1"),
        ("fetch old", "1\nFETCH 1"),
        (
            "begin; declare bad cursor with hold for select 10 / (3 - a) from generate_series(1, 5) a; commit and chain",
            "BEGIN\nDECLARE CURSOR\nERROR 22012: division by zero",
        ),
        ("rollback", "WARNING 25P01: there is no transaction in progress\nROLLBACK"),
        (
            "declare bad cursor with hold for select 10 / (3 - a) from generate_series(1, 5) a",
            "ERROR 22012: division by zero",
        ),
        ("fetch bad", "ERROR 34000: cursor \"bad\" does not exist"),
        // One in which a fetch failed is not held, and fails no commit.
        (
            "begin; declare bad cursor with hold for select 10 / (3 - a) from generate_series(1, 5) a; fetch 2 from bad; savepoint s; fetch bad",
            "BEGIN\nDECLARE CURSOR\n5\n10\nFETCH 2\nSAVEPOINT\nERROR 22012: division by zero",
        ),
        ("rollback to s; fetch bad", "ROLLBACK\nERROR 55000: portal \"bad\" cannot be run"),
        (
            "rollback to s; commit; fetch bad",
            "ROLLBACK\nCOMMIT\nERROR 34000: cursor \"bad\" does not exist",
        ),
        // As in PostgreSQL the time limit of statements is none of the commit.
        (
            "begin; declare slow cursor with hold for select count(*) from generate_series(1, 300000); set local statement_timeout = 1; commit",
            "BEGIN\nDECLARE CURSOR\nSET\nCOMMIT",
        ),
        ("fetch slow", "300000\nFETCH 1"),
        // MOVE counts.
        (
            "declare many cursor with hold for select g from generate_series(1, 300000) g",
            "DECLARE CURSOR",
        ),
        ("move all in many", "MOVE 300000"),
        ("move backward 10 in many", "MOVE 10"),
        ("fetch backward 1 from many", "299990\nFETCH 1"),
        ("move backward 299987 in many; fetch 0 from many", "MOVE 299987\n3\nFETCH 1"),
        ("move 299990 in many; fetch prior from many", "MOVE 299990\n299992\nFETCH 1"),
    ]);
}

#[test]
fn contradictions_are_refused() {
    check(&[
        ROWS,
        (
            "declare u cursor with hold for select a from t for update",
            "ERROR 0A000: DECLARE CURSOR WITH HOLD ... FOR UPDATE is not supported\nDETAIL Holdable cursors must be READ ONLY.",
        ),
        (
            "begin; declare u scroll cursor for select a from t for update",
            "BEGIN\nERROR 0A000: DECLARE SCROLL CURSOR ... FOR UPDATE is not supported\nDETAIL Scrollable cursors must be READ ONLY.",
        ),
        (
            "rollback; begin; declare u insensitive cursor for select a from t for update",
            "ROLLBACK\nBEGIN\nERROR 42P11: DECLARE INSENSITIVE CURSOR ... FOR UPDATE is not valid\nDETAIL Insensitive cursors must be READ ONLY.",
        ),
        (
            "rollback; declare u scroll no scroll cursor with hold for select a from t",
            "ROLLBACK\nERROR 42P11: cannot specify both SCROLL and NO SCROLL",
        ),
        (
            "declare u insensitive asensitive cursor with hold for select a from t",
            "ERROR 42P11: cannot specify both ASENSITIVE and INSENSITIVE",
        ),
        (
            "declare u cursor with hold for with x as (delete from t returning a) select a from x",
            "ERROR 0A000: DECLARE CURSOR must not contain data-modifying statements in WITH",
        ),
    ]);
}

#[test]
fn pg_cursors_and_discard() {
    check(&[
        ROWS,
        ("DECLARE  h CURSOR WITH HOLD FOR SELECT 1 ;", "DECLARE CURSOR"),
        (
            "begin; declare b binary no scroll cursor for select 2; select name, statement, is_holdable, is_binary, is_scrollable, creation_time >= now() from pg_cursors order by name",
            "BEGIN\nDECLARE CURSOR\nb|begin; declare b binary no scroll cursor for select 2; select name, statement, is_holdable, is_binary, is_scrollable, creation_time >= now() from pg_cursors order by name|f|t|f|t\nh|DECLARE  h CURSOR WITH HOLD FOR SELECT 1 ;|t|f|t|f\nSELECT 2",
        ),
        ("declare x cursor with hold for select name from pg_cursors order by 1", "DECLARE CURSOR"),
        ("close b; commit; fetch all from x", "CLOSE CURSOR\nCOMMIT\nh\nFETCH 1"),
        (
            "begin; discard all",
            "BEGIN\nERROR 25001: DISCARD ALL cannot run inside a transaction block",
        ),
        ("rollback; select name from pg_cursors order by name", "ROLLBACK\nh\nx\nSELECT 2"),
        ("discard all", "DISCARD ALL"),
        ("select name from pg_cursors", "SELECT 0"),
        ("fetch h", "ERROR 34000: cursor \"h\" does not exist"),
    ]);
}

#[test]
fn held_rows_are_those_of_the_snapshot() {
    with_sessions(|context, first, second| {
        say(context, first, ROWS.0);
        for isolation in ["read committed", "repeatable read"] {
            say(context, first, &format!("begin isolation level {isolation}"));
            say(
                context,
                first,
                "insert into t values (11, 'own'); declare c cursor with hold for select a, b from t order by a",
            );
            assert_eq!(say(context, first, "fetch 2 from c")[1..], ["1|r1", "2|r2", "FETCH 2"]);
            // Neither others' changes nor its own later ones.
            say(
                context,
                second,
                "delete from t where a between 3 and 5; insert into t values (20, 'new')",
            );
            say(context, first, "update t set b = 'x' where a = 6; delete from t where a = 11");
            assert_eq!(say(context, first, "commit"), ["COMMIT"]);
            say(context, second, "update t set b = 'y'; vacuum t");
            say(context, first, "begin; delete from t where a = 1");
            let said = say(context, first, "fetch 5 from c");
            assert_eq!(said[1..], ["3|r3", "4|r4", "5|r5", "6|r6", "7|r7", "FETCH 5"]);
            say(context, first, "rollback");
            let said = say(context, first, "fetch all from c");
            assert_eq!(said[1..], ["8|r8", "9|r9", "10|r10", "11|own", "FETCH 4"]);
            say(context, first, "close c; delete from t");
            say(context, first, "insert into t select g, 'r' || g from generate_series(1, 10) g");
        }
        // Sequences go on when the commit reads: PostgreSQL reads the first row again then.
        say(context, first, "create sequence sq");
        say(
            context,
            first,
            "begin; declare v cursor with hold for select nextval('sq') from generate_series(1, 5); fetch v; commit",
        );
        assert_eq!(say(context, second, "select last_value from sq")[1], "5");
        assert_eq!(say(context, first, "fetch v")[1], "2");
    });
}

#[test]
fn a_fetch_from_a_held_cursor_has_a_time_limit() {
    with_session(|context, session| {
        say(
            context,
            session,
            "declare h cursor with hold for select g from generate_series(1, 300000) g",
        );
        say(context, session, "set statement_timeout = 1");
        let said = say(context, session, "fetch all from h");
        assert!(said.last().is_some_and(|line| line.starts_with("ERROR 57014")));
        say(context, session, "reset statement_timeout");
        let said = say(context, session, "fetch h");
        assert_eq!(said, ["ERROR 55000: portal \"h\" cannot be run"]);
    });
}
