//! Estimates against columns whose distribution is known, and sampling against whole tables.

use super::estimate::selectivity;
use super::gather::describe;
use super::*;
use crate::functions::Comparison::{self, Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
use crate::types::{Type, TypeOid};

const INT4: Type = Type { oid: TypeOid::INT4, typmod: -1 };

fn column(values: impl Iterator<Item = Option<i32>>, rows: f64) -> TableStatistics {
    let datum = |value: Option<i32>| value.map_or((Datum::Null, 0), |v| (Datum::Int4(v), 4));
    let columns = vec![describe(values.map(datum).collect(), INT4, rows)];
    TableStatistics { rows, columns }
}

#[track_caller]
fn check(table: &TableStatistics, comparison: Comparison, value: Option<i32>, expect: f64) {
    let value = value.map(Datum::Int4);
    let got = selectivity(Some(table), 0, INT4, comparison, value.as_ref());
    assert!((got - expect).abs() < 0.02, "{comparison:?} {value:?}: {got}, not {expect}");
}

#[test]
fn few_values_are_all_common() {
    // 0 in nine of ten rows, 1 to 4 evenly, and a fifth of all NULL besides.
    let values = (0..10_000).map(|row| match row {
        0..2_000 => None,
        2_000..9_200 => Some(0),
        _ => Some(row % 4 + 1),
    });
    let table = column(values, 10_000.0);
    let found = &table.columns[0];
    assert_eq!(found.distinct, 5.0);
    assert!((found.null_fraction - 0.2).abs() < 1e-9);
    assert!(matches!(found.common[0], (Datum::Int4(0), share) if (share - 0.72).abs() < 1e-9));
    assert_eq!((found.common.len(), found.bounds.len()), (5, 0));
    check(&table, Equal, Some(0), 0.72);
    check(&table, Equal, Some(3), 0.02);
    check(&table, Equal, Some(77), 0.0);
    check(&table, Equal, None, 0.16);
    check(&table, NotEqual, Some(0), 0.08);
    check(&table, Less, Some(1), 0.72);
    check(&table, LessEqual, Some(2), 0.76);
    check(&table, Greater, Some(4), 0.0);
    check(&table, GreaterEqual, Some(0), 0.8);
}

#[test]
fn many_values_make_a_histogram() {
    let table = column((0..30_000).map(|row| Some(row * 7)), 3_000_000.0);
    let found = &table.columns[0];
    assert_eq!(found.distinct, 3_000_000.0, "each was seen once, so all are taken to differ");
    assert_eq!((found.common.len(), found.bounds.len()), (0, 101));
    assert!(matches!(found.bounds[0], Datum::Int4(0)));
    assert!(matches!(found.bounds[100], Datum::Int4(209_993)));
    check(&table, Less, Some(0), 0.0);
    check(&table, Less, Some(52_500), 0.25);
    check(&table, Greater, Some(52_500), 0.75);
    check(&table, LessEqual, Some(1_000_000), 1.0);
    check(&table, Greater, Some(1_000_000), 0.0);
    check(&table, Less, None, 1.0 / 3.0);
    let one = selectivity(Some(&table), 0, INT4, Equal, Some(&Datum::Int4(70)));
    assert!((one - 1.0 / 3_000_000.0).abs() < 1e-9, "{one}");
}

#[test]
fn common_values_stand_out_of_the_histogram() {
    let values = (0..20_000).map(|row| Some(if row % 2 == 0 { -5 } else { row }));
    let table = column(values, 20_000.0);
    let found = &table.columns[0];
    assert_eq!(found.common.len(), 1);
    assert_eq!(found.distinct, 10_001.0);
    check(&table, Equal, Some(-5), 0.5);
    check(&table, Less, Some(10_000), 0.75);
    check(&table, Less, Some(-5), 0.0);
}

#[test]
fn the_number_of_values_is_estimated_from_a_part() {
    // 1000 values, evenly: 30,000 of a million rows show them all.
    let mut word = 1u64;
    let mut random = move || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) as i32
    };
    let table = column((0..30_000).map(|_| Some(random() % 1000)), 1e6);
    assert!((table.columns[0].distinct - 1000.0).abs() < 20.0, "{}", table.columns[0].distinct);
    // 100,000 values: most of the sample is seen once.
    let table = column((0..30_000).map(|_| Some(random() % 100_000)), 1e6);
    let distinct = table.columns[0].distinct;
    assert!((50_000.0..200_000.0).contains(&distinct), "{distinct}");
}

#[test]
fn what_is_not_known_is_guessed() {
    let empty = column(std::iter::empty(), 0.0);
    for table in [None, Some(&empty), Some(&TableStatistics::default())] {
        let share = selectivity(table, 0, INT4, Equal, Some(&Datum::Int4(1)));
        assert_eq!(share, 0.005);
    }
    let nulls = column((0..100).map(|_| None), 100.0);
    assert_eq!(nulls.columns[0].null_fraction, 1.0);
    let null =
        selectivity(Some(&column((0..9).map(Some), 9.0)), 0, INT4, Equal, Some(&Datum::Null));
    assert_eq!(null, 0.0);
}
