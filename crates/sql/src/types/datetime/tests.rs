//! Literals and their answers as PostgreSQL 15 gave them (tests.tsv), and the zones.

use super::*;
use crate::functions::ConstantContext;
use crate::types::{Type, TypeOid, text};

fn check(ty: TypeOid, input: &str, expect: &str, wrong: &mut Vec<String>) {
    let got = match text::input(Type::new(ty), input, &ConstantContext) {
        Ok(value) => text::output_string(ty, &value, &ConstantContext).to_string(),
        Err(error) => error.sqlstate().to_string(),
    };
    if got != expect {
        wrong.push(format!("{ty:?} {input:?}: {got}, not {expect}"));
    }
}

#[test]
fn literals_read_as_in_postgresql() {
    let mut wrong = Vec::new();
    for line in include_str!("tests.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let ty = match fields[0] {
            "date" => TypeOid::DATE,
            "time" => TypeOid::TIME,
            "timestamp" => TypeOid::TIMESTAMP,
            "timestamptz" => TypeOid::TIMESTAMPTZ,
            "interval" => TypeOid::INTERVAL,
            other => panic!("no type {other}"),
        };
        check(ty, fields[1], fields[2], &mut wrong);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn calendar_is_its_own_inverse() {
    for days in (-2_451_545..4_000_000).step_by(997) {
        let (year, month, day) = civil_from_days(days);
        assert_eq!(days_from_civil(year, month, day), days);
    }
    assert_eq!(weekday(0), 6, "2000-01-01 was a Saturday");
}

#[test]
fn zones_change_their_offset() {
    let berlin = TimeZone::named("europe/berlin").expect("in the database");
    assert_eq!(berlin.name(), "Europe/Berlin");
    let at = |text: &str| parse_timestamp(text, &ConstantContext).expect("a timestamp");
    assert_eq!(berlin.offset_of_local(at("2020-07-01 00:00")), 7200);
    assert_eq!(berlin.offset_of_local(at("2020-01-01 00:00")), 3600);
    assert_eq!(berlin.offset_of_local(at("2020-03-29 02:30")), 3600, "gap: before");
    assert_eq!(berlin.offset_of_local(at("2020-10-25 02:30")), 3600, "fold: after");
    assert_eq!(berlin.offset_of_utc(at("200000-07-01 00:00")), 3600 + 3600 * i32::from(false));
    assert_eq!(TimeZone::named("+02").map(|zone| zone.name().to_owned()), Some("<+02>-02".into()));
    assert_eq!(TimeZone::named("UTC+3").map(|zone| zone.offset_of_utc(0)), Some(-10_800));
    assert!(TimeZone::named("Nowhere/City").is_none());
}
