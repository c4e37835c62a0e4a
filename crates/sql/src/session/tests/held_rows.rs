//! Rows that portals keep: of cursors WITH HOLD, and beyond the row limit of an Execute. Where they
//! are kept, and what the extended protocol makes of them.

use super::*;
use crate::exec::spill::Budget;
use crate::types::TypeOid;

/// Runs `work` with a session, and the memory that all statements have.
fn with_memory(work: impl FnOnce(&Context, Session, &Budget) + Send) {
    let mut options = Options { instances: Instances::Count(1), ..Options::default() };
    options.buffer_pool_bytes = 64 << 20;
    let database = Database::open_in_memory(options).unwrap();
    let engine = Engine::new(&database);
    let ran = database.run(Target::Any, |context| {
        let local = Local::new(&engine);
        let session = Session::new(&local, context.instance(), start()).unwrap();
        work(context, session, &engine.budget);
    });
    ran.unwrap();
    database.close().unwrap();
}

#[test]
fn held_rows_beyond_work_mem_are_on_disk() {
    with_memory(|context, mut session, budget| {
        let session_ref = &mut session;
        let say = |session: &mut Session, text: &str| say(context, session, text);
        // The sort takes all the memory there is; of that nothing stays.
        let text = "select g, repeat('x', 100) || g from generate_series(1, 20000) g order by 2, 1";
        say(session_ref, "set work_mem = '16MB'");
        let expect = say(session_ref, text);
        for (work_mem, words) in
            [("64kB", "scroll"), ("64kB", "no scroll"), ("16MB", "scroll"), ("16MB", "no scroll")]
        {
            say(session_ref, &format!("set work_mem = '{work_mem}'"));
            say(session_ref, &format!("begin; declare c {words} cursor with hold for {text}"));
            let first = say(session_ref, "fetch 100 from c");
            assert_eq!(say(session_ref, "commit"), ["COMMIT"]);
            let most = if work_mem == "64kB" { 256 << 10 } else { 8 << 20 };
            let held = budget.used_bytes();
            assert!(
                held <= most && (held > 0) == (work_mem == "16MB"),
                "{work_mem} {words}: {held}"
            );
            let rest = say(session_ref, "fetch all from c");
            assert_eq!(first[1..101], expect[1..101]);
            assert_eq!(rest[1..rest.len() - 1], expect[101..expect.len() - 1]);
            if words == "scroll" {
                for at in [20_000, 1, 63, 64, 65, 12_345] {
                    let said = say(session_ref, &format!("fetch absolute {at} from c"));
                    assert_eq!(said[1], expect[at]);
                }
                let back = say(session_ref, "move absolute 20000 in c; fetch backward 300 from c");
                let expect = expect[20_000 - 300..20_000].iter().rev();
                assert!(back[2..302].iter().eq(expect));
            }
            say(session_ref, "close c");
            assert_eq!(budget.used_bytes(), 0);
        }
        // What would exceed the limit of temporary files fails the commit.
        say(session_ref, "set work_mem = '64kB'; set temp_file_limit = '1MB'");
        let said = say(
            session_ref,
            "begin; declare c cursor with hold for select repeat('x', 100) from generate_series(1, 20000)",
        );
        assert_eq!(said, ["BEGIN", "DECLARE CURSOR"]);
        let limit = "ERROR 53400: temporary file size exceeds temp_file_limit (1024kB)";
        assert_eq!(say(session_ref, "commit"), [limit]);
        assert_eq!(budget.used_bytes(), 0);
        // The end of the session frees what is held.
        say(session_ref, "reset all");
        say(session_ref, &format!("declare c cursor with hold for {text}"));
        assert!(budget.used_bytes() > 0);
        session.end(context);
        assert_eq!(budget.used_bytes(), 0);
    });
}

fn bind_and_execute(
    context: &Context,
    session: &mut Session,
    statement: &str,
    parameters: &[&[u8]],
) -> Vec<String> {
    let mut client = Recorder::default();
    let request = BindRequest {
        portal: "",
        statement,
        parameter_formats: &[],
        parameters: &mut parameters.iter().map(|value| Some(*value)),
        result_formats: &[],
    };
    session.bind(context, request).unwrap();
    session.execute(context, "", 0, &mut client).unwrap();
    client.said
}

#[test]
fn cursors_by_the_extended_protocol_have_parameters_and_descriptions() {
    with_session(|context, session| {
        let mut client = Recorder::default();
        say(context, session, ROWS.0);
        let text =
            "declare c cursor with hold for select a, b from t where a > $1 and b <> $2 order by a";
        session.parse(context, "d", text, &[]).unwrap();
        let described = session.describe_statement(context, "d").unwrap();
        assert!(described.columns.is_none());
        let types: Vec<_> = described.parameters.iter().map(|ty| ty.oid).collect();
        assert_eq!(types, [TypeOid::INT4, TypeOid::TEXT]);
        session.parse(context, "f", "fetch 2 from c", &[]).unwrap();
        // The cursor is not there yet.
        assert!(session.describe_statement(context, "f").unwrap().columns.is_none());
        assert_eq!(bind_and_execute(context, session, "d", &[b"5", b"r7"]), ["DECLARE CURSOR"]);
        session.sync(context, &mut client).unwrap();
        // It stays beyond Sync.
        let columns = session.describe_statement(context, "f").unwrap().columns.unwrap();
        assert_eq!(columns.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["a", "b"]);
        let said = bind_and_execute(context, session, "f", &[]);
        assert_eq!(said, ["6|r6", "8|r8", "FETCH 2"]);
        session.sync(context, &mut client).unwrap();
        assert_eq!(session.describe_portal(context, "c").unwrap().unwrap().0.len(), 2);
        let said = bind_and_execute(context, session, "f", &[]);
        assert_eq!(said, ["9|r9", "10|r10", "FETCH 2"]);
        session.sync(context, &mut client).unwrap();
        // Once more with other values; names are checked by Parse.
        say(context, session, "close c");
        assert_eq!(bind_and_execute(context, session, "d", &[b"9", b""]), ["DECLARE CURSOR"]);
        session.sync(context, &mut client).unwrap();
        assert_eq!(say(context, session, "fetch all from c")[1..], ["10|r10", "FETCH 1"]);
        let wrong = "declare e cursor with hold for select nothing from t";
        let error = session.parse(context, "e", wrong, &[]).unwrap_err();
        assert_eq!((error.sqlstate().as_str(), error.fields().position), ("42703", Some(39)));
        // Sync commits, and fails if the rows cannot be read.
        let text = "declare e cursor with hold for select a / ($1 - a) from t order by a";
        session.parse(context, "e", text, &[]).unwrap();
        assert_eq!(bind_and_execute(context, session, "e", &[b"3"]), ["DECLARE CURSOR"]);
        let error = session.sync(context, &mut client).unwrap_err();
        assert_eq!(error.sqlstate().as_str(), "22012");
        let said = say(context, session, "fetch e");
        assert_eq!(said, ["ERROR 34000: cursor \"e\" does not exist"]);
        // A simple query has no parameters.
        let said = say(context, session, "declare e cursor with hold for select $1");
        assert_eq!(said, ["ERROR 42P02: there is no parameter $1 @39"]);
    });
}

/// Executes a portal of a statement until it is not suspended any more.
fn in_parts(context: &Context, session: &mut Session, text: &str, rows_max: u32) -> Vec<String> {
    let mut client = Recorder::default();
    session.parse(context, "", text, &[]).unwrap();
    let request = BindRequest {
        portal: "",
        statement: "",
        parameter_formats: &[],
        parameters: &mut std::iter::empty(),
        result_formats: &[],
    };
    session.bind(context, request).unwrap();
    loop {
        session.execute(context, "", rows_max, &mut client).unwrap();
        if client.said.last().is_some_and(|line| line != "(suspended)") {
            session.sync(context, &mut Recorder::default()).unwrap();
            return client.said;
        }
    }
}

#[test]
fn row_limits_hold_for_fetch_and_returning() {
    with_memory(|context, mut session, budget| {
        let session_ref = &mut session;
        say(context, session_ref, ROWS.0);
        say(
            context,
            session_ref,
            "declare h scroll cursor with hold for select a from t order by a",
        );
        // The cursor goes all the way at once; what is not sent waits.
        let fetch = in_parts(context, session_ref, "fetch 5 from h", 2);
        assert_eq!(fetch, ["1", "2", "(suspended)", "3", "4", "(suspended)", "5", "FETCH 5"]);
        let back = in_parts(context, session_ref, "fetch backward 2 from h", 2);
        assert_eq!(back, ["4", "3", "(suspended)", "FETCH 2"]);
        let few = in_parts(context, session_ref, "fetch 2 from h", 3);
        assert_eq!(few, ["4", "5", "FETCH 2"]);
        assert_eq!(in_parts(context, session_ref, "move 2 in h", 1), ["MOVE 2"]);
        say(context, session_ref, "begin; declare c cursor for select a from t order by a");
        let inside = in_parts(context, session_ref, "fetch 3 from c", 2);
        assert_eq!(inside, ["1", "2", "(suspended)", "3", "FETCH 3"]);
        assert_eq!(say(context, session_ref, "fetch c")[1..], ["4", "FETCH 1"]);
        let text = "delete from t where a > 7 returning a";
        let deleted = in_parts(context, session_ref, text, 2);
        assert_eq!(deleted, ["8", "9", "(suspended)", "10", "DELETE 3"]);
        say(context, session_ref, "rollback; close all");
        // They are on disk if they are many.
        say(context, session_ref, "set work_mem = '64kB'");
        let text = "declare h cursor with hold for select repeat('x', 100) || g from generate_series(1, 20000) g";
        say(context, session_ref, text);
        let mut expect = say(context, session_ref, "fetch all from h").split_off(1);
        say(context, session_ref, "move absolute 0 in h; set temp_file_limit = '4MB'");
        let mut said = in_parts(context, session_ref, "fetch all from h", 5000);
        said.retain(|line| line != "(suspended)");
        assert_eq!(said, expect);
        let text = "insert into t select 100 + g, repeat('x', 100) || g from generate_series(1, 20000) g returning b";
        let mut said = in_parts(context, session_ref, text, 5000);
        said.retain(|line| line != "(suspended)");
        assert_eq!(said.pop().unwrap(), "INSERT 0 20000");
        expect.pop();
        assert_eq!(said, expect);
        assert!(budget.used_bytes() < 1 << 20, "{}", budget.used_bytes());
        session.end(context);
        assert_eq!(budget.used_bytes(), 0);
    });
}
