//! Several sessions at once.

use super::*;

/// Runs the same work in several sessions at once, on two instances, and then a last question.
fn together(
    setup: &'static [&'static str],
    sessions: usize,
    work: impl Fn(&Context, &mut Session, usize) + Send + Sync + 'static,
    question: &str,
) -> Vec<String> {
    let mut options = Options { instances: Instances::Count(2), ..Options::default() };
    options.buffer_pool_bytes = 64 << 20;
    options.undo_bytes = 32 << 20;
    options.deadlock_timeout_ms = 20;
    let database = Database::open_in_memory(options).unwrap();
    let engine = Engine::new(&database);
    let work = Arc::new(work);
    let on = |number: usize| Target::Instance(atoll_kernel::api::InstanceId((number % 2) as u16));
    let run = |number: usize, body: &(dyn Fn(&Context, &mut Session) -> Vec<String> + Sync)| {
        let answer = database.run(on(number), |context| {
            let local = Local::new(&engine);
            let mut session = Session::new(&local, context.instance(), start()).unwrap();
            let said = body(context, &mut session);
            session.end(context);
            said
        });
        answer.unwrap()
    };
    run(0, &|context, session| setup.iter().flat_map(|text| say(context, session, text)).collect());
    std::thread::scope(|scope| {
        for number in 0..sessions {
            let (work, run) = (work.clone(), &run);
            scope.spawn(move || {
                run(number, &|context, session| {
                    work(context, session, number);
                    Vec::new()
                })
            });
        }
    });
    let said = run(1, &|context, session| say(context, session, question));
    database.close().unwrap();
    said
}

#[test]
fn concurrent_updates_of_one_row_all_count() {
    let said = together(
        &["create table t (a int primary key, b int); insert into t values (1, 0), (2, 0)"],
        6,
        |context, session, _| {
            for _ in 0..50 {
                assert_eq!(
                    say(context, session, "update t set b = b + 1 where a = 1"),
                    ["UPDATE 1"]
                );
                assert_eq!(
                    say(context, session, "update t set b = b + 1 where b >= 0 and a > 1"),
                    ["UPDATE 1"]
                );
            }
        },
        "select a, b from t order by a",
    );
    assert_eq!(said[1..], ["1|300", "2|300", "SELECT 2"]);
}

#[test]
fn transfers_keep_the_sum_and_deadlocks_end() {
    let said = together(
        &[
            "create table t (a int primary key, b int)",
            "insert into t select g, 100 from generate_series(1, 5) g",
            "create table done (s int, n int)",
        ],
        4,
        |context, session, number| {
            let mut committed = 0;
            for round in 0..40 {
                let (from, to) = (1 + (round + number) % 5, 1 + (round * 3 + number * 2) % 5);
                let mut said = say(context, session, "begin");
                said.extend(say(
                    context,
                    session,
                    &format!("select b from t where a = {from} for update"),
                ));
                said.extend(say(
                    context,
                    session,
                    &format!("update t set b = b - 1 where a = {from}"),
                ));
                said.extend(say(
                    context,
                    session,
                    &format!("update t set b = b + 1 where a = {to}"),
                ));
                said.extend(say(context, session, "commit"));
                for line in said.iter().filter(|line| line.starts_with("ERROR")) {
                    assert!(line.contains("40P01") || line.contains("25P02"), "{line}");
                }
                committed += usize::from(said.last().is_some_and(|line| line == "COMMIT"));
            }
            assert!(committed > 0);
            say(context, session, &format!("insert into done values ({number}, {committed})"));
        },
        "select sum(b), (select count(*) from done) from t",
    );
    assert_eq!(said[1..], ["500|4", "SELECT 1"]);
}

#[test]
fn a_definition_waits_for_those_who_use_the_table() {
    let said = together(
        &["create table t (a int primary key)", "insert into t values (0)"],
        4,
        |context, session, number| {
            for round in 0..20 {
                if number == 0 {
                    let said = say(
                        context,
                        session,
                        &format!("alter table t alter column a set default {round}"),
                    );
                    assert_eq!(said, ["ALTER TABLE"]);
                } else {
                    let value = 1 + number * 100 + round;
                    let said = say(context, session, &format!("insert into t values ({value})"));
                    assert_eq!(said, ["INSERT 0 1"]);
                    let said =
                        say(context, session, &format!("select count(*) from t where a = {value}"));
                    assert_eq!(said[1..], ["1", "SELECT 1"]);
                }
            }
        },
        "select count(*) from t",
    );
    assert_eq!(said[1..], ["61", "SELECT 1"]);
}

#[test]
fn concurrent_upserts_insert_once_and_then_update() {
    let said = together(
        &["create table t (a int primary key, b int); create table u (a int unique, b int)"],
        6,
        |context, session, number| {
            for round in 0..60 {
                let key = round / 2;
                let upsert = format!(
                    "insert into t values ({key}, 1) on conflict (a) do update set b = t.b + excluded.b"
                );
                assert_eq!(say(context, session, &upsert), ["INSERT 0 1"]);
                // Rows that come and go under the ones who look.
                let text =
                    format!("insert into u values ({}, {number}) on conflict do nothing", key % 3);
                let said = say(context, session, &text);
                assert!(said == ["INSERT 0 1"] || said == ["INSERT 0 0"], "{said:?}");
                let text = format!(
                    "insert into u values ({}, 0) on conflict (a) do update set b = 1, a = u.a + 3 where u.a < 3",
                    key % 3
                );
                let said = say(context, session, &text);
                let moved = said[0].starts_with("ERROR 23505");
                assert!(moved || said[0].starts_with("INSERT 0 "), "{said:?}");
                say(context, session, &format!("delete from u where a = {}", key % 3 + 3));
            }
        },
        "select count(*), min(b), max(b), (select count(*) = count(distinct a) from u) from t",
    );
    assert_eq!(said[1..], ["30|12|12|t", "SELECT 1"]);
}

/// Runs `body` with two sessions of one instance.
fn with_two(body: impl Fn(&Context, &mut Session, &mut Session) + Send + Sync + 'static) {
    let options = Options { instances: Instances::Count(1), ..Options::default() };
    let database = Database::open_in_memory(options).unwrap();
    let engine = Engine::new(&database);
    let run = move |context: &Context| {
        let local = Local::new(&engine);
        let mut first = Session::new(&local, context.instance(), start()).unwrap();
        let mut second = Session::new(&local, context.instance(), start()).unwrap();
        body(context, &mut first, &mut second);
        first.end(context);
        second.end(context);
    };
    database.run(Target::Any, run).unwrap();
    database.close().unwrap();
}

/// Rows 0 to 59 with `b = a % 7`, and of another table none.
const TABLES: &str = "create table t (a int primary key, b int); create table other (a int); \
    insert into t select g, g % 7 from generate_series(0, 59) g";

/// All that a query says but for the names of its columns.
fn rows(context: &Context, session: &mut Session, query: &str) -> Vec<String> {
    say(context, session, query).split_off(1)
}

/// Such an index has no entries for what only the snapshot sees (kernel rule 6.10). The planner chose
/// it all the same: a REPEATABLE READ transaction missed rows, and showed ones by keys that they did
/// not have.
#[test]
fn a_snapshot_does_not_read_an_index_that_is_younger() {
    with_two(|context, old, new| {
        say(context, new, TABLES);
        let by_key = "select a from t where b = 3 order by a";
        let by_row = "select a from t where b + 0 = 3 order by a";
        say(context, old, "prepare p as select a from t where b = 3 order by a");
        say(context, old, "begin isolation level repeatable read; select * from other");
        say(
            context,
            new,
            "update t set b = (b + 1) % 7 where a % 3 = 0; delete from t where a = 10 or b = 6",
        );
        say(context, new, "create index t_b on t (b)");
        // The plan that the instance has of it is of one who may read the index.
        let newest = rows(context, new, by_row);
        assert_eq!(rows(context, new, by_key), newest);

        let expected = rows(context, old, by_row);
        assert_eq!(expected.last().unwrap(), "SELECT 9");
        assert_ne!(expected, newest);
        assert_eq!(rows(context, old, by_key), expected);
        assert_eq!(rows(context, old, "execute p"), expected);
        let declare = format!("declare c cursor for {by_key}; fetch all from c");
        let fetched = say(context, old, &declare);
        assert_eq!(fetched[2..11], expected[..9], "{fetched:?}");
        let ordered = rows(context, old, "select b from t order by b limit 3");
        assert_eq!(ordered, ["0", "0", "0", "SELECT 3"]);
        assert_eq!(rows(context, old, "select max(b), min(b) from t"), ["6|0", "SELECT 1"]);
        assert_eq!(rows(context, new, "select max(b), min(b) from t"), ["5|0", "SELECT 1"]);
        let listed = rows(context, old, "select a from t where b = any (array[3, 9]) order by a");
        assert_eq!(listed, expected);
        let plan = rows(context, old, "explain (costs off) select a from t where b = 3");
        assert!(plan[0].contains("Seq Scan"), "{plan:?}");
        // A change meets the rows that were changed meanwhile, instead of passing them over.
        let said = say(context, old, "delete from t where b = 3");
        assert!(said[0].starts_with("ERROR 40001"), "{said:?}");

        say(context, old, "rollback; begin isolation level repeatable read");
        assert_eq!(rows(context, old, by_key), newest);
        let plan = rows(context, old, "explain (costs off) select a from t where b = 3");
        assert!(plan[0].contains("using t_b"), "{plan:?}");
        say(context, old, "commit");
    });
}

#[test]
fn a_repeatable_transaction_reads_the_indexes_of_a_table_that_it_made() {
    with_two(|context, session, _| {
        say(context, session, "begin isolation level repeatable read");
        say(context, session, TABLES);
        say(context, session, "create index t_b on t (b)");
        assert_eq!(
            rows(context, session, "select a from t where b = 3 and a < 9"),
            ["3", "SELECT 1"]
        );
        let plan = rows(context, session, "explain (costs off) select a from t where b = 3");
        assert!(plan[0].contains("using t_b"), "{plan:?}");
        say(context, session, "commit");
    });
}

#[test]
fn an_index_renamed_by_its_maker_is_as_old_as_its_commit() {
    with_two(|context, session, old| {
        say(context, session, TABLES);
        say(
            context,
            session,
            "begin; create index t_b on t (b); alter index t_b rename to t_c; commit",
        );
        say(context, old, "begin isolation level repeatable read; select a from t where b = 3");
        let plan = rows(context, old, "explain (costs off) select a from t where b = 3");
        assert!(plan[0].contains("using t_c"), "{plan:?}");
        say(context, old, "commit");
    });
}
