//! Input and output of single types, answers recorded from PostgreSQL 15.

use super::*;
use crate::functions::ConstantContext;

#[track_caller]
fn check(ty: TypeOid, input_text: &str, expect: &str) {
    let got = match input(Type::new(ty), input_text, &ConstantContext) {
        Ok(value) => output_string(ty, &value, &ConstantContext).to_string(),
        Err(error) => error.sqlstate().to_string(),
    };
    assert_eq!(got, expect, "{ty} {input_text:?}");
}

#[test]
fn values_read_and_print_as_in_postgresql() {
    for line in include_str!("tests.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let ty = crate::types::type_by_name(fields[0]).expect("a type").oid;
        check(ty, fields[1], fields[2]);
    }
}

#[test]
fn messages_are_postgresqls() {
    let message = |ty: TypeOid, text: &str| {
        let error = input(Type::new(ty), text, &ConstantContext).expect_err("refused");
        format!("{} {}", error.sqlstate(), error.message())
    };
    assert_eq!(message(TypeOid::INT4, "x"), "22P02 invalid input syntax for type integer: \"x\"");
    let range = "22003 value \"99999999999\" is out of range for type integer";
    assert_eq!(message(TypeOid::INT4, "99999999999"), range);
    assert_eq!(
        message(TypeOid::BOOL, "maybe"),
        "22P02 invalid input syntax for type boolean: \"maybe\""
    );
    assert_eq!(message(TypeOid::REGCLASS, "nope"), "42P01 relation \"nope\" does not exist");
    assert_eq!(message(TypeOid::REGTYPE, "nope"), "42704 type \"nope\" does not exist");
}

#[test]
fn rows_print_with_quotes_where_needed() {
    let record = crate::types::Record {
        types: vec![TypeOid::INT4, TypeOid::TEXT, TypeOid::TEXT, TypeOid::TEXT],
        fields: vec![Datum::Int4(1), Datum::text("a b"), Datum::Null, Datum::text("q\"\\")],
    };
    let value = Datum::Record(Arc::new(record));
    let printed = output_string(TypeOid::RECORD, &value, &ConstantContext);
    assert_eq!(printed, "(1,\"a b\",,\"q\"\"\\\\\")");
}

#[test]
fn a_bare_number_counts_the_least_field_of_an_interval() {
    let [month, year, day] = [1 << 1, 1 << 2, 1 << 3];
    let [hour, minute, second] = [1 << 10, 1 << 11, 1 << 12];
    for (fields, text, expect) in [
        (year, "5", "5 years"),
        (month, "5", "5 mons"),
        (day, "5", "5 days"),
        (hour, "5", "05:00:00"),
        (minute, "5", "00:05:00"),
        (second, "5", "00:00:05"),
        (year | month, "1-2", "1 year 2 mons"),
        (year | month, "5", "5 mons"),
        (day | hour, "1 2", "1 day 02:00:00"),
        (day | hour | minute, "5", "00:05:00"),
        (minute | second, "1:02", "00:01:02"),
        (hour | minute, "1:02", "01:02:00"),
        (minute, "1.5", "00:01:00"),
        (day | hour | minute | second, "90", "00:01:30"),
        (hour, "1 day 5", "1 day 05:00:00"),
    ] {
        let ty = Type::with(TypeOid::INTERVAL, fields << 16 | 0xffff);
        let value = input(ty, text, &ConstantContext).expect("an interval");
        let printed = output_string(TypeOid::INTERVAL, &value, &ConstantContext);
        assert_eq!(printed, expect, "{text} of {fields}");
    }
}
