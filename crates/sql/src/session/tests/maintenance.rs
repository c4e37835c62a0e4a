//! VACUUM and ANALYZE: what they do, not only what they answer.

use super::*;
use crate::parse;
use crate::plan::Action;
use crate::plan::node::{Access, Plan};

/// The index that a query of one table goes through, after planning as a session does.
fn index_of(context: &Context, session: &mut Session, text: &str) -> String {
    let statement = parse::parse(text).unwrap().remove(0).statement.unwrap();
    let cached = CachedStatement::closed(statement, false, Vec::new());
    let entry = session.plan(context, &cached).unwrap();
    let Action::Query { plan, .. } = &entry.planned.action else { panic!("a query") };
    let Plan::Table(scan) = plan else { panic!("a scan of one table") };
    match &scan.access {
        Access::All => "none".to_owned(),
        Access::Point(index, _) | Access::Points(index, _) | Access::Range { index, .. } => {
            index.def.name.clone()
        }
    }
}

#[test]
fn analyze_tells_the_planner_which_index_is_better() {
    with_session(|context, session| {
        let setup = "create table t (few int, many int, note text);
            create index by_few on t (few); create index by_many on t (many);
            insert into t select g % 2, g, case when g % 4 = 0 then 'n' end from generate_series(1, 2000) g";
        say(context, session, setup);
        let both = "select * from t where few = 1 and many = 77";
        // Nothing tells them apart: the first that fits.
        assert_eq!(index_of(context, session, both), "by_few");
        let mut client = Recorder::default();
        session.parse(context, "kept", both, &[]).unwrap();
        session.sync(context, &mut client).unwrap();
        assert_eq!(say(context, session, "analyze t"), ["ANALYZE"]);
        assert_eq!(index_of(context, session, both), "by_many");
        // A range that leaves nearly everything is worse than the equality, and the other way.
        let range = "select * from t where few = 1 and many between 5 and 9";
        assert_eq!(index_of(context, session, range), "by_many");
        let wide = "select * from t where few = 1 and many > 10";
        assert_eq!(index_of(context, session, wide), "by_few");
        // What was prepared before is planned again, and right.
        say(context, session, "delete from t where many <> 77");
        let said = say(context, session, "select few, many from t where few = 1 and many = 77");
        assert!(said.contains(&"1|77".to_owned()), "{said:?}");
    });
}

#[test]
fn what_analyze_found_is_in_the_catalog() {
    check(&[
        (
            "create table t (few int, many int primary key, note text); create table other (a int)",
            "CREATE TABLE\nCREATE TABLE",
        ),
        (
            "insert into t select g % 2, g, case when g % 4 = 0 then 'n' end from generate_series(1, 2000) g",
            "INSERT 0 2000",
        ),
        ("select count(*) from pg_stats where schemaname = 'public'", "0\nSELECT 1"),
        ("analyze t", "ANALYZE"),
        (
            "select attname, null_frac, avg_width, n_distinct, most_common_vals, most_common_freqs from pg_stats where tablename = 't' order by 1",
            "few|0|4|2|{0,1}|{0.5,0.5}\nmany|0|4|-1|NULL|NULL\nnote|0.75|1|1|{n}|{0.25}\nSELECT 3",
        ),
        (
            "select array_length(histogram_bounds, 1), histogram_bounds[1], histogram_bounds[101] from pg_stats where attname = 'many'",
            "101|1|2000\nSELECT 1",
        ),
        (
            "select relname, analyze_count, last_analyze is not null, vacuum_count, last_vacuum is not null, n_live_tup from pg_stat_user_tables order by 1",
            "other|0|f|0|f|0\nt|1|t|0|f|2000\nSELECT 2",
        ),
        ("select reltuples from pg_class where relname = 't'", "2000\nSELECT 1"),
        ("vacuum analyze", "VACUUM"),
        (
            "select relname, analyze_count, vacuum_count from pg_stat_user_tables order by 1",
            "other|1|1\nt|2|1\nSELECT 2",
        ),
        // A table that is gone is forgotten, in a block too.
        ("drop table t; begin; analyze; commit", "DROP TABLE\nBEGIN\nANALYZE\nCOMMIT"),
        ("select count(*) from pg_stats where tablename = 't'", "0\nSELECT 1"),
        ("analyze nowhere", "ERROR 42P01: relation \"nowhere\" does not exist @9"),
    ]);
}

#[test]
fn vacuum_collects_what_nobody_needs() {
    with_session(|context, session| {
        say(
            context,
            session,
            "create table t (a int primary key, b int); insert into t select g, 0 from generate_series(1, 500) g",
        );
        let versions =
            |context: &Context, session: &Session| session.kernel.collect(context).unwrap();
        for _ in 0..5 {
            say(context, session, "update t set b = b + 1");
            session.settle(context).unwrap();
            assert_eq!(say(context, session, "vacuum t"), ["VACUUM"]);
            assert_eq!(versions(context, session), 0, "nothing was left to collect");
        }
        assert!(say(context, session, "select sum(b) from t").contains(&"2500".to_owned()));
    });
}
