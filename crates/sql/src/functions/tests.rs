//! Answers of PostgreSQL 15, recorded (tests.tsv): calls resolved, coerced and run as the binder
//! and the executor do it. Lines: function|operator|cast, name, arguments as type:value, then
//! the result's type and value, or the SQLSTATE.

use super::*;
use crate::error::SqlResult;
use crate::types::{Array, Datum, Record, Type, TypeOid, format_type, parse_type_name, text};
use std::sync::Arc;

struct Fixed;

impl FunctionContext for Fixed {
    fn transaction_timestamp(&self) -> i64 {
        631_108_800_000_000
    }

    fn statement_timestamp(&self) -> i64 {
        631_108_800_000_000
    }

    fn clock_timestamp(&self) -> i64 {
        631_108_800_000_000
    }

    fn random_u64(&self) -> u64 {
        0
    }

    fn time_zone(&self) -> crate::types::datetime::TimeZone {
        crate::types::datetime::TimeZone::named("America/New_York").expect("in the database")
    }
}

fn argument(field: &str) -> SqlResult<(TypeOid, Datum)> {
    let (ty, value) = field.split_once(':').expect("type:value");
    let oid = match ty {
        "unknown" => TypeOid::UNKNOWN,
        name => parse_type_name(name).expect("a type").oid,
    };
    if value == "\\N" {
        return Ok((oid, Datum::Null));
    }
    Ok((oid, text::input(Type::new(oid), value, &Fixed)?))
}

fn coerced(from: TypeOid, value: &Datum, to: TypeOid) -> SqlResult<Datum> {
    find_coercion(from, to, CastContext::Implicit).expect("resolved").apply(value, &Fixed)
}

fn call(name: &str, args: &[(TypeOid, Datum)]) -> SqlResult<(TypeOid, Vec<Datum>)> {
    let types: Vec<TypeOid> = args.iter().map(|(ty, _)| *ty).collect();
    let call = match resolve_function(name, &types, VariadicCall::Spread)? {
        ResolvedCall::Function(call) => call,
        ResolvedCall::Cast(target) => {
            let way = find_coercion(types[0], target, CastContext::Explicit).expect("resolved");
            return Ok((target, vec![way.apply(&args[0].1, &Fixed)?]));
        }
    };
    let mut values = Vec::new();
    for ((from, value), to) in args.iter().zip(&call.args) {
        values.push(coerced(*from, value, *to)?);
    }
    if let Some((first, element)) = call.gather {
        let rest = values.split_off(first);
        values.push(if element == TypeOid::ANY {
            let types = types[first..].to_vec();
            Datum::Record(Arc::new(Record { types, fields: rest }))
        } else {
            Array::of(element, rest).into()
        });
    }
    values.extend(call.defaults.iter().map(|default| default.datum()));
    let strict = call.function.strictness == Strictness::Strict;
    if strict && values.iter().any(Datum::is_null) {
        return Ok((call.result, vec![Datum::Null]));
    }
    let rows = match call.function.kind {
        FunctionKind::Scalar(function) => vec![function(&values, &Fixed)?],
        FunctionKind::Set(function) => function(&values, &Fixed)?.collect::<SqlResult<_>>()?,
        _ => panic!("{name} is no plain function"),
    };
    Ok((call.result, rows))
}

fn operate(name: &str, args: &[(TypeOid, Datum)]) -> SqlResult<(TypeOid, Vec<Datum>)> {
    let (left, right) = match args {
        [right] => (None, right),
        [left, right] => (Some(left), right),
        _ => panic!("one or two operands"),
    };
    let found = resolve_operator(name, left.map(|left| left.0), right.0)?;
    let mut values = Vec::new();
    if let Some((ty, value)) = left {
        values.push(coerced(*ty, value, found.left)?);
    }
    values.push(coerced(right.0, &right.1, found.right)?);
    if found.operator.strictness == Strictness::Strict && values.iter().any(Datum::is_null) {
        return Ok((found.result, vec![Datum::Null]));
    }
    let answer = (found.operator.function)(&values, &Fixed)?;
    if let Some(fast) = found.operator.fast {
        let same = fast.apply(&values[0], &values[1])?;
        assert_eq!(format!("{same:?}"), format!("{answer:?}"), "the fast form of {name}");
    }
    Ok((found.result, vec![answer]))
}

fn cast(target: &str, args: &[(TypeOid, Datum)]) -> SqlResult<(TypeOid, Vec<Datum>)> {
    let target = parse_type_name(target).expect("a type");
    let (from, value) = &args[0];
    let way = find_coercion(*from, target.oid, CastContext::Explicit).ok_or_else(|| {
        crate::error::SqlError::new(crate::error::SqlState::CANNOT_COERCE, "cannot cast type")
    })?;
    let value = way.apply(value, &Fixed)?;
    Ok((target.oid, vec![apply_typmod(value, target, CastContext::Explicit)?]))
}

fn run(fields: &[&str]) -> SqlResult<String> {
    let args: SqlResult<Vec<(TypeOid, Datum)>> =
        fields[2..].iter().map(|field| argument(field)).collect();
    let args = args?;
    let (ty, rows) = match fields[0] {
        "function" => call(fields[1], &args)?,
        "operator" => operate(fields[1], &args)?,
        _ => cast(fields[1], &args)?,
    };
    let print = |value: &Datum| match value {
        Datum::Null => "\\N".to_owned(),
        value => text::output_string(ty, value, &Fixed).to_string(),
    };
    let printed: Vec<String> = rows.iter().map(print).collect();
    Ok(format!("{}\t{}", format_type(Type::new(ty)), printed.join("|")))
}

#[test]
fn answers_are_postgresqls() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("tests.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let at = fields.iter().position(|field| *field == "=>").expect("an answer");
        let expect = fields[at + 1..].join("\t");
        let got = match run(&fields[..at]) {
            Ok(answer) => answer,
            Err(error) => error.sqlstate().to_string(),
        };
        count += 1;
        if got != expect {
            wrong.push(format!("{:?}: {got}, not {expect}", &fields[..at]));
        }
    }
    assert!(count > 600, "the file has its rows");
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_tables_are_sound() {
    let mut seen = std::collections::HashSet::new();
    for row in functions() {
        assert!(seen.insert((row.name, row.args)), "{row:?} twice");
        assert!(row.defaults.len() <= row.args.len());
    }
    let mut oids: Vec<u32> = functions().map(|row| row.oid).collect();
    oids.sort_unstable();
    assert!(oids.windows(2).all(|pair| pair[0] != pair[1]), "an oid twice");
    let mut seen = std::collections::HashSet::new();
    for row in operators() {
        assert!(seen.insert((row.name, row.left, row.right)), "{row:?} twice");
        if let Some(negator) = operator_by_oid(row.negator) {
            assert_eq!((negator.left, negator.right), (row.left, row.right));
        }
        if let Some(commutator) = operator_by_oid(row.commutator) {
            assert_eq!((commutator.left, commutator.right), (row.right, row.left));
        }
    }
    let mut seen = std::collections::HashSet::new();
    assert!(casts().all(|row| seen.insert((row.source, row.target))));
}

#[track_caller]
fn check_error(name: &str, args: &[TypeOid], expect: &str) {
    let error = resolve_function(name, args, VariadicCall::Spread).expect_err("no such function");
    assert_eq!(format!("{} {}", error.sqlstate(), error.message()), expect);
}

#[test]
fn errors_name_the_call() {
    check_error("foo", &[], "42883 function foo() does not exist");
    let expect = "42883 function lower(integer, boolean) does not exist";
    check_error("lower", &[TypeOid::INT4, TypeOid::BOOL], expect);
    check_error("substr", &[TypeOid::UNKNOWN], "42883 function substr(unknown) does not exist");
    let error = resolve_operator("+", Some(TypeOid::INT4), TypeOid::TEXT).expect_err("none");
    assert_eq!(error.message(), "operator does not exist: integer + text");
    let error = resolve_operator("+", Some(TypeOid::UNKNOWN), TypeOid::UNKNOWN);
    let error = error.expect_err("many");
    assert_eq!(error.message(), "operator is not unique: unknown + unknown");
    let error = common_type(&[TypeOid::INT4, TypeOid::TEXT], "UNION").expect_err("apart");
    assert_eq!(error.message(), "UNION types integer and text cannot be matched");
}

#[track_caller]
fn check_aggregate(name: &str, ty: &str, rows: &[&str], expect: &str) {
    let rows: Vec<(TypeOid, Datum)> =
        rows.iter().map(|value| argument(&format!("{ty}:{value}")).expect("valid input")).collect();
    let element = parse_type_name(ty).expect("a type").oid;
    let args = if name == "string_agg" { vec![element, TypeOid::TEXT] } else { vec![element] };
    let resolved = resolve_function(name, &args, VariadicCall::Spread).expect("known");
    let ResolvedCall::Function(call) = resolved else { panic!("{name} is no cast") };
    let FunctionKind::Aggregate(make) = call.function.kind else { panic!("{name}: no aggregate") };
    let mut state = make(&call.args);
    let mut answer = || -> SqlResult<String> {
        for (from, value) in &rows {
            let value = coerced(*from, value, call.args[0])?;
            state.add(&[value, Datum::from(",")], &Fixed)?;
        }
        let value = state.finish(&Fixed)?;
        Ok(match value {
            Datum::Null => "\\N".to_owned(),
            value => text::output_string(call.result, &value, &Fixed).to_string(),
        })
    };
    let got = answer().unwrap_or_else(|error| error.sqlstate().to_string());
    assert_eq!(got, expect, "{name}({ty})");
}

#[test]
fn aggregates_answer_as_in_postgresql() {
    for line in include_str!("aggregate_tests.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let rows: Vec<&str> = fields[2].split(';').filter(|row| !row.is_empty()).collect();
        check_aggregate(fields[0], fields[1], &rows, fields[3]);
    }
}

#[test]
fn casts_say_whether_they_depend_on_the_session() {
    let check = |source: TypeOid, target: TypeOid, expect: Volatility| {
        let way = find_coercion(source, target, CastContext::Explicit).expect("a cast");
        assert_eq!(way.volatility(), expect, "{source:?} to {target:?}");
    };
    check(TypeOid::INT4, TypeOid::INT8, Volatility::Immutable);
    check(TypeOid::UNKNOWN, TypeOid::INT4, Volatility::Immutable);
    check(TypeOid::UNKNOWN, TypeOid::REGCLASS, Volatility::Stable);
    check(TypeOid::UNKNOWN, TypeOid::TIMESTAMPTZ, Volatility::Stable);
    check(TypeOid::DATE, TypeOid::TIMESTAMP, Volatility::Immutable);
    check(TypeOid::DATE, TypeOid::TIMESTAMPTZ, Volatility::Stable);
    check(TypeOid::TIMESTAMPTZ, TypeOid::TEXT, Volatility::Stable);
    check(TypeOid::INT4_ARRAY, TypeOid::INT8_ARRAY, Volatility::Immutable);
}
