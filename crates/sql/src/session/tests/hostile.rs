//! Texts that nobody would send, to a session with tables: an answer or an error, never a panic,
//! and the session goes on. What is supported (docs/sql.md) is where mutations begin.
//!
//! `ATOLL_SEED` replays a run; `ATOLL_FUZZ_SECONDS` says how long (`cargo xtask fuzz`).

use super::*;
use crate::error::SqlState;
use atoll_kernel::api::{Parker, Reason};
use atoll_kernel::sync::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Words that fit nearly everywhere, and values at which something ends.
const PIECES: &[&str] = &[
    "select",
    "from",
    "where",
    "group by",
    "having",
    "order by",
    "limit",
    "offset",
    "distinct",
    "join",
    "left join",
    "on",
    "using (a)",
    "union all",
    "except",
    "intersect",
    "values",
    "with x as (",
    "insert into",
    "update",
    "delete from",
    "set",
    "returning",
    "as",
    "case when",
    "then",
    "else",
    "end",
    "in",
    "between",
    "and",
    "or",
    "not",
    "is null",
    "exists",
    "any",
    "all",
    "array[",
    "]",
    "(",
    ")",
    ",",
    ";",
    "*",
    "+",
    "-",
    "/",
    "%",
    "||",
    "::",
    "=",
    "<>",
    "<",
    ">=",
    "~",
    "like",
    "null",
    "true",
    "$1",
    "$2",
    "$0",
    "'",
    "\"",
    "''",
    "'x'",
    "'1'",
    "E'\\x'",
    "$$",
    "--",
    "/*",
    "*/",
    "0",
    "1",
    "-1",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "1e400",
    "0.000001",
    "a",
    "b",
    "c",
    "d",
    "t",
    "u",
    "t.a",
    "t.*",
    "public.t",
    "nowhere",
    "count(*)",
    "sum(a)",
    "max(b)",
    "min(c)",
    "avg(d)",
    "string_agg(b, ',')",
    "generate_series(1, 3)",
    "coalesce(",
    "length(b)",
    "substr(b, -1, 2)",
    "abs(a)",
    "now()",
    "int4",
    "text",
    "numeric(1000, -1000)",
    "timestamp",
    "interval",
    "'1 day'",
    "'infinity'",
    "regclass",
    "'t'::regclass",
    "'{1,2}'::int[]",
    "create table v (",
    "drop table",
    "truncate",
    "begin",
    "commit",
    "rollback",
    "for update",
    "explain",
    "prepare p as",
    "execute p",
    "é",
    "\u{0}",
    "\u{feff}",
    "\t",
];

/// The statements of docs/sql.md, supported and refused.
fn examples() -> Vec<String> {
    let text = include_str!("../../../../../docs/sql.md");
    let blocks = text
        .split("```sql")
        .skip(1)
        .filter_map(|rest| rest.split_once('\n')?.1.split("```").next());
    blocks.flat_map(str::lines).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn mutated(random: &mut fastrand::Rng, examples: &[String]) -> String {
    let mut words: Vec<String> = match random.u8(..4) {
        0 => Vec::new(),
        _ => {
            let example = &examples[random.usize(..examples.len())];
            example.split_inclusive(' ').map(str::to_owned).collect()
        }
    };
    for _ in 0..random.usize(1..10) {
        let at = random.usize(..=words.len());
        match random.u8(..6) {
            0 if at < words.len() => drop(words.remove(at)),
            1 if at < words.len() => {
                let other = random.usize(..words.len());
                words.swap(at, other);
            }
            2 if at < words.len() => {
                let character =
                    if random.bool() { random.char(..) } else { char::from(random.u8(32..127)) };
                let position =
                    words[at].char_indices().nth(random.usize(..8)).map_or(0, |(at, _)| at);
                words[at].insert(position, character);
            }
            _ => words.insert(at, format!("{} ", PIECES[random.usize(..PIECES.len())])),
        }
    }
    let text = words.concat();
    // Deep, and long.
    match random.u8(..60) {
        0 => format!("select {}1{}", "(".repeat(3000), ")".repeat(3000)),
        1 => format!("select {} 1", "- ".repeat(random.usize(..5000))),
        2 => format!("select {} from t", vec!["a"; random.usize(1..1700)].join(", ")),
        3 => format!("select 1 where {}", vec!["1 = 1"; random.usize(1..2000)].join(" or ")),
        _ => text,
    }
}

/// Not what only takes long: the test has a second core's memory, not a machine's.
fn is_modest(text: &str) -> bool {
    !text.contains("generate_series")
        || !text.split(|c: char| !c.is_ascii_digit()).any(|run| run.len() > 4)
}

#[test]
fn fuzz_sql_text() {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("ATOLL_SEED={seed}");
    let seconds = std::env::var("ATOLL_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let duration = seconds.map_or(Duration::from_millis(1500), Duration::from_secs);
    with_session(move |context, session| {
        let mut random = fastrand::Rng::with_seed(seed);
        let examples = examples();
        assert!(examples.len() > 50, "docs/sql.md has its statements");
        let tables = "create table t (a int primary key, b text, c numeric, d float8);
            create table u (a int, e timestamp); insert into t select g, 'x' || g, g, g from generate_series(1, 20) g;
            insert into u select g, now() from generate_series(1, 5) g";
        assert_eq!(say(context, session, tables).last().map(String::as_str), Some("INSERT 0 5"));
        let done = Arc::new(AtomicBool::new(false));
        // A statement that takes long is ended.
        let (interrupt, stop) = (session.interrupt().clone(), done.clone());
        let watch = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(300));
                interrupt.interrupt(Reason::Cancel);
            }
        });
        let (mut answered, began) = (0, Instant::now());
        while began.elapsed() < duration {
            let text = mutated(&mut random, &examples);
            let said = if random.u8(..3) == 0 || !is_modest(&text) {
                prepared(context, session, &text)
            } else {
                // A panic of the session ends the test's task and names this text.
                let guard = Told(&text);
                let said = say(context, session, &text);
                std::mem::forget(guard);
                said
            };
            answered += usize::from(
                !said
                    .last()
                    .is_some_and(|line| line.starts_with("ERROR") || line.starts_with("DETAIL")),
            );
            say(context, session, "rollback");
            // In memory there is no checkpoint to read: all that follows would fail for that.
            say(context, session, "reset atoll.read_from");
        }
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap();
        assert!(answered > 5, "some of it means something: {answered}");
        let said = say(context, session, "select 41 + 1");
        assert!(
            said.iter().any(|line| line == "42") || said.iter().any(|line| line.contains("57014")),
            "{said:?}"
        );
    });
}

/// Parse and Describe only.
fn prepared(context: &Context, session: &mut Session, text: &str) -> Vec<String> {
    let guard = Told(text);
    let mut client = Recorder::default();
    let result = session
        .parse(context, "", text, &[])
        .and_then(|()| session.describe_statement(context, "").map(drop));
    if let Err(error) = &result {
        session.fail(context);
        client.said.push(format!("ERROR {}", error.sqlstate()));
    }
    let _ = session.sync(context, &mut client);
    std::mem::forget(guard);
    client.said
}

/// Says what text it was if the test unwinds.
struct Told<'t>(&'t str);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        eprintln!("the text: {:?}", self.0.chars().take(2000).collect::<String>());
    }
}

#[test]
fn a_cancel_ends_what_came_with_the_statement() {
    with_session(|context, session| {
        session.interrupt().interrupt(Reason::Cancel);
        let said = say(context, session, "select 1; select 2");
        assert!(said.iter().any(|line| line == "SELECT 1"), "{said:?}");
        assert!(said.iter().any(|line| line.contains("57014")), "{said:?}");
        assert!(!said.iter().any(|line| line == "2"), "{said:?}");
        assert_eq!(session.interrupt().reason(), None, "it was heard of");
        assert!(say(context, session, "select 3").iter().any(|line| line == "3"));
    });
}

/// Rows that were sorted, grouped or kept do not come from a scan, which would look.
#[test]
fn a_cancel_ends_what_gives_its_rows_at_last() {
    with_session(|context, session| {
        let numbers = "from generate_series(1, 100000) g";
        for query in [
            format!("select g {numbers} order by g desc"),
            format!("select g, count(*) {numbers} group by g"),
            format!("select g {numbers} union select 1"),
        ] {
            cancelled_at_its_first_row(context, session, &query);
            say(context, session, &format!("begin; declare c cursor for {query}"));
            cancelled_at_its_first_row(context, session, "fetch all from c");
            say(context, session, "rollback");
        }
    });
}

fn cancelled_at_its_first_row(context: &Context, session: &mut Session, text: &str) {
    let interrupt = session.interrupt().clone();
    let mut client = Recorder { cancels: Some(interrupt), ..Recorder::default() };
    let ended = session.simple_query(context, text, &mut client);
    let (said, error) = (client.said.len(), ended.err().map(|error| error.sqlstate()));
    assert_eq!(error, Some(SqlState::QUERY_CANCELED), "{text}: {said} lines");
    assert!(said < 100_000, "{text}: {said} lines");
}

#[test]
fn others_run_between_statements_that_came_together() {
    with_session(|context, session| {
        let turns = std::rc::Rc::new(std::cell::Cell::new(0));
        let (counted, ends) = (turns.clone(), std::rc::Rc::new(std::cell::Cell::new(false)));
        let stop = ends.clone();
        context.instance().spawn(atoll_kernel::runtime::Class::Run, move |context| {
            while !stop.get() {
                counted.set(counted.get() + 1);
                context.yield_now();
            }
        });
        let text = "select 1 + 1; ".repeat(3000);
        let before = turns.get();
        say(context, session, &text);
        ends.set(true);
        assert!(turns.get() >= before + 3, "{} turns", turns.get() - before);
    });
}

/// A join of so many rows.
fn join(tables: usize) -> String {
    let table = |number: usize| match number {
        0 => "(select 1 as a) t0".to_owned(),
        _ => format!("full join (select 1 as a) t{number} on t{number}.a = t{}.a", number - 1),
    };
    let from: Vec<String> = (0..tables).map(table).collect();
    format!("select count(*) from {}", from.join(" "))
}

/// A chain of common table expressions, each computed from the one before.
fn chain(length: usize) -> String {
    let cte = |number: usize| match number {
        0 => "c0 as materialized (select 1 as a)".to_owned(),
        _ => format!("c{number} as materialized (select a + 1 as a from c{})", number - 1),
    };
    let ctes: Vec<String> = (0..length).map(cte).collect();
    format!("with {} select a from c{}", ctes.join(", "), length - 1)
}

/// Subqueries in one another.
fn nested(depth: usize) -> String {
    format!("{}1{}", "select (".repeat(depth), ")".repeat(depth))
}

/// Their plans need more stack than a task has: they ended the process by a segmentation fault.
#[test]
fn what_is_too_deep_is_refused_and_the_session_goes_on() {
    with_session(|context, session| {
        let texts = [
            join(30),
            join(250),
            join(550),
            chain(50),
            chain(1500),
            nested(150),
            nested(550),
            format!("select 1{}", " except select 2".repeat(500)),
            format!("select 1{}", " union all select 2".repeat(500)),
            format!("select {}", vec!["abs(1)"; 550].join(" + ")),
        ];
        for text in &texts {
            for prefix in [
                "",
                "explain ",
                "explain analyze ",
                "prepare p as ",
                "declare c cursor with hold for ",
            ] {
                let said = say(context, session, &format!("{prefix}{text}"));
                let last = said.last().unwrap();
                let start: String = text.chars().take(60).collect();
                let is_refused = last.starts_with("ERROR 54001");
                assert!(is_refused || !last.starts_with("ERROR"), "{prefix}{start}: {last}");
                say(context, session, "explain execute p");
                say(context, session, "discard all");
            }
            assert_eq!(say(context, session, "select 1")[1..], ["1", "SELECT 1"]);
        }
        for text in [join(30), chain(50), nested(150)] {
            assert!(say(context, session, &text).last().unwrap().starts_with("SELECT"));
        }
    });
}
