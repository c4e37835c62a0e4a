//! Columns of numeric(p, s): what is stored as a word, and tables from before, which keep the
//! ordered form, answer the same.
//!
//! The oracle is the same question asked without indexes, whose conditions are computed, not
//! looked up.

use super::*;
use crate::types::{TypeOid, storage};
use atoll_kernel::api::{
    Access, ColumnDef, ColumnType, Isolation, NewTable, PUBLIC_NAMESPACE, Session as KernelSession,
};

const COMPARISONS: [&str; 5] = ["=", "<", "<=", ">", ">="];
/// With numeric(6, 2): stored numbers, such as lie between two, and such as lie beyond all.
const ENDS: [&str; 18] = [
    "0",
    "0.00",
    "1.5",
    "1.505",
    "1.5049",
    "-1.5",
    "-1.501",
    "-0.001",
    "0.001",
    "9999.99",
    "9999.991",
    "-9999.99",
    "1e30",
    "-1e30",
    "'NaN'",
    "'Infinity'",
    "'-Infinity'",
    "null",
];

/// Makes table `name` of a numeric(6, 2) column stored in the ordered form, as it was before there
/// were words.
fn make_as_before(context: &Context, name: &str) {
    let of = |name: &str, physical, oid: TypeOid, type_modifier| ColumnDef {
        type_oid: oid.0,
        type_modifier,
        ..ColumnDef::plain(name, physical)
    };
    let ordered = storage::column_type(TypeOid::NUMERIC.into()).expect("a column type");
    let columns = vec![
        of("k", ColumnType::Int4, TypeOid::INT4, -1),
        of("n", ordered, TypeOid::NUMERIC, (6 << 16 | 2) + 4),
    ];
    let mut session = KernelSession::new(context.instance());
    let mut transaction =
        session.begin(context, Isolation::ReadCommitted, Access::ReadWrite).expect("begun");
    let mut statement = transaction.statement(&mut session, context).expect("a statement");
    let name = name.to_owned();
    let new = NewTable { namespace: PUBLIC_NAMESPACE, name, columns, options: Vec::new() };
    statement.create_table(new).expect("a new name");
    drop(statement);
    transaction.commit(&mut session, context).expect("committed");
    session.settle(context).expect("settled");
}

/// Asks with and without indexes; answers what was said.
#[track_caller]
fn both(context: &Context, session: &mut Session, text: &str) -> Vec<String> {
    say(context, session, "set enable_indexscan = on");
    let looked_up = say(context, session, text);
    say(context, session, "set enable_indexscan = off");
    assert_eq!(looked_up, say(context, session, text), "{text}");
    looked_up
}

#[test]
fn looked_up_is_what_is_computed() {
    with_session(|context, session| {
        make_as_before(context, "before");
        say(context, session, "create table words (k int, n numeric(6, 2))");
        let mut answers = Vec::new();
        for table in ["before", "words"] {
            for text in [
                "insert into T select g % 3, g * 0.5 - 10 from generate_series(1, 60) g",
                "insert into T values (0, 9999.99), (1, -9999.99), (0, 'NaN'), (1, null), (0, 1.505)",
                "create index T_up on T (n)",
                "create index T_down on T (k, n desc)",
            ] {
                let said = say(context, session, &text.replace("T", table));
                assert!(!said[0].starts_with("ERROR"), "{said:?}");
            }
            say(context, session, "set enable_indexscan = on");
            let plan = format!("explain select k from {table} where n < 1.5");
            let said = say(context, session, &plan);
            assert!(said[1].contains(&format!("Scan using {table}_up")), "{said:?}");
            // Only of words do keys tell the values.
            let plan = format!("explain select k, n from {table} where k = 0 and n < 1.5");
            let said = say(context, session, &plan);
            let is_only = said[1].starts_with(&format!("Index Only Scan using {table}_down"));
            assert_eq!(is_only, table == "words", "{said:?}");
            let mut answer = Vec::new();
            for (comparison, end) in
                COMPARISONS.iter().flat_map(|comparison| ENDS.map(|end| (comparison, end)))
            {
                for condition in ["", "k = 0 and "] {
                    answer.extend(both(
                        context,
                        session,
                        &format!(
                            "select k, n from {table} where {condition}n {comparison} {end} order by n, k"
                        ),
                    ));
                }
            }
            for (low, high) in ENDS.iter().flat_map(|low| ENDS.map(|high| (low, high))) {
                answer.extend(both(
                    context,
                    session,
                    &format!("select count(*), min(n), max(n) from {table} where k = 1 and n > {low} and n <= {high}"),
                ));
            }
            for list in ["1.5, 1.505, 'NaN'", "0, 0.001, null"] {
                let text = format!("select k, n from {table} where n in ({list}) order by n, k");
                answer.extend(both(context, session, &text));
            }
            answers.push(answer);
        }
        assert!(answers[0].len() > 1000);
        assert_eq!(answers[0], answers[1]);
    });
}

#[test]
fn words_hold_what_the_column_promises() {
    check(&[
        (
            "create table m (id int primary key, b numeric(12, 2) unique, s numeric(16, 0), f numeric(4, 4), w numeric(17, 2), r numeric(5, -2))",
            "CREATE TABLE",
        ),
        (
            "insert into m values (1, 1.005, 9999999999999999, -0.99994, 999999999999999.99, 1234567)",
            "INSERT 0 1",
        ),
        (
            "insert into m values (2, 'NaN', 'NaN', 'NaN', 'NaN', 'NaN'), (3, 0, -1, null, 0, 0)",
            "INSERT 0 2",
        ),
        (
            "select * from m order by b desc",
            "2|NaN|NaN|NaN|NaN|NaN\n1|1.01|9999999999999999|-0.9999|999999999999999.99|1234600\n3|0.00|-1|NULL|0.00|0\nSELECT 3",
        ),
        (
            "insert into m values (4, 10000000000)",
            "ERROR 22003: numeric field overflow\nDETAIL A field with precision 12, scale 2 must round to an absolute value less than 10^10.",
        ),
        (
            "insert into m values (4, 'Infinity')",
            "ERROR 22003: numeric field overflow\nDETAIL A field with precision 12, scale 2 cannot hold an infinite value.",
        ),
        (
            "insert into m values (4, 1.0099)",
            "ERROR 23505: duplicate key value violates unique constraint \"m_b_key\"\nDETAIL Key (b)=(1.01) already exists.",
        ),
        (
            "insert into m values (4, 1.0099) on conflict (b) do update set b = m.b * 3",
            "INSERT 0 1",
        ),
        ("insert into m values (5, 'NaN') on conflict do nothing", "INSERT 0 0"),
        (
            "update m set b = b / 3, s = s + 0.5 where id = 1",
            "ERROR 22003: numeric field overflow\nDETAIL A field with precision 16, scale 0 must round to an absolute value less than 10^16.",
        ),
        (
            "update m set b = b / 3, s = s - 0.5 where id = 1 returning b, s",
            "1.01|9999999999999999\nUPDATE 1",
        ),
        ("update m set b = b + 1e-2 where b = 1.010", "UPDATE 1"),
        (
            "select b, b = 1.02, b + 1, pg_typeof(b) from m where b = 1.0200",
            "1.02|t|2.02|numeric\nSELECT 1",
        ),
        ("select x.id, y.id from m x join m y on x.s = y.s order by 1", "1|1\n2|2\n3|3\nSELECT 3"),
        ("select count(*) from m where b < 1.02 or b in (1.02, 1.021)", "2\nSELECT 1"),
    ]);
}

#[test]
fn ends_beyond_all_values_leave_nulls_out() {
    with_session(|context, session| {
        for text in [
            "create table t (a int, b int)",
            "insert into t select g, g % 2 from generate_series(1, 20) g",
            "insert into t values (null, 0), (null, 1)",
            "create index t_a on t (a)",
            "create index t_b on t (b, a desc nulls last)",
        ] {
            say(context, session, text);
        }
        for condition in ["a > -10000000000", "a < 10000000000", "b = 1 and a > -10000000000"] {
            let text = format!("select a, b from t where {condition} order by a");
            let rows = both(context, session, &text).len() - 2;
            assert_eq!(rows, if condition.starts_with('b') { 10 } else { 20 }, "{condition}");
        }
    });
}
