//! pg_proc, pg_aggregate, pg_operator, pg_cast, pg_language: what `functions` has, as rows.
//!
//! Invariants: every row of the tables of functions, operators and casts is listed; the machine
//! code behind an operator, a cast or an aggregate is not an SQL function, and shows as 0.

use super::shared::PG_CATALOG_OID;
use super::value::{NULL, bool, int, letter, oid, oid_vector, small, text};
use super::{OWNER_OID, Rows, SystemRelation, Wanted, table_columns};
use crate::functions::{
    CastContext, CastMethod, Comparison, FunctionKind, FunctionRow, OperatorRow, Strictness,
    Volatility, casts, function_by_oid, functions, operator_by_oid, operators,
};
use crate::relations::CatalogView;
use crate::types::{Array, Datum, TypeOid};

const OID: usize = 0;
const NAME: usize = 1;
const INTERNAL_LANGUAGE: u32 = 12;

/// The catalogs of functions.
pub(super) static RELATIONS: &[SystemRelation] = &[
    SystemRelation::table(1255, "pg_proc", table_columns::PG_PROC)
        .rows(function_rows)
        .lookups(&[OID, NAME])
        .estimate(|_| 1000),
    SystemRelation::table(2600, "pg_aggregate", table_columns::PG_AGGREGATE)
        .rows(aggregate_rows)
        .lookups(&[OID]),
    SystemRelation::table(2617, "pg_operator", table_columns::PG_OPERATOR)
        .rows(operator_rows)
        .lookups(&[OID, NAME])
        .estimate(|_| 500),
    SystemRelation::table(2605, "pg_cast", table_columns::PG_CAST).rows(cast_rows),
    SystemRelation::table(2612, "pg_language", table_columns::PG_LANGUAGE).rows(language_rows),
];

fn function_rows<'a>(_: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    if let Some(oid) = wanted.object(OID) {
        return Box::new(function_by_oid(oid.0).into_iter().map(function_row));
    }
    if let Some(name) = wanted.name(NAME) {
        let named: Vec<_> = functions().filter(|row| row.name == name).map(function_row).collect();
        return Box::new(named.into_iter());
    }
    Box::new(functions().map(function_row))
}

fn function_row(row: &'static FunctionRow) -> Vec<Datum> {
    let kind = match row.kind {
        FunctionKind::Scalar(_) | FunctionKind::Set(_) => b'f',
        FunctionKind::Aggregate(_) => b'a',
        FunctionKind::Window => b'w',
    };
    let volatility = match row.volatility {
        Volatility::Immutable => b'i',
        Volatility::Stable => b's',
        Volatility::Volatile => b'v',
    };
    let [all, modes, names] = outputs(row);
    vec![
        oid(row.oid),
        text(row.name),
        oid(PG_CATALOG_OID),
        oid(OWNER_OID),
        oid(INTERNAL_LANGUAGE),
        Datum::Float4(1.0),
        Datum::Float4(if row.is_set() { 1000.0 } else { 0.0 }),
        oid(row.variadic.0),
        oid(0), // prosupport
        letter(kind),
        bool(false), // prosecdef
        bool(false), // proleakproof
        bool(row.strictness == Strictness::Strict),
        bool(row.is_set()),
        letter(volatility),
        letter(b's'), // proparallel
        small(row.args.len() as i16),
        small(row.defaults.len() as i16),
        oid(row.result.0),
        oid_vector(row.args.iter().map(|arg| arg.0)),
        all,
        modes,
        names,
        NULL, // proargdefaults
        NULL, // protrftypes
        text(row.name),
        NULL, // probin
        NULL, // prosqlbody
        NULL, // proconfig
        NULL, // proacl
    ]
}

/// proallargtypes, proargmodes and proargnames: NULL unless there are OUT arguments or VARIADIC.
fn outputs(row: &FunctionRow) -> [Datum; 3] {
    let variadic = row.variadic != TypeOid::INVALID;
    if row.columns.is_empty() && !variadic {
        return [NULL, NULL, NULL];
    }
    let inputs = row.args.iter().map(|arg| oid(arg.0));
    let types = inputs.chain(row.columns.iter().map(|(_, ty)| oid(ty.0)));
    let last = row.args.len();
    let input_mode = |at: usize| if variadic && at + 1 == last { b'v' } else { b'i' };
    let modes = (0..last).map(input_mode).chain(row.columns.iter().map(|_| b'o')).map(letter);
    let modes = Array::of(TypeOid::CHAR, modes.collect()).into();
    let names = (0..last).map(|_| "").chain(row.columns.iter().map(|(name, _)| *name)).map(text);
    let names = match row.columns.is_empty() {
        true => NULL,
        false => Array::of(TypeOid::TEXT, names.collect()).into(),
    };
    [Array::of(TypeOid::OID, types.collect()).into(), modes, names]
}

fn aggregate_rows<'a>(_: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    let asked = wanted.object(OID);
    let rows = functions().filter(move |row| asked.is_none_or(|oid| oid.0 == row.oid));
    Box::new(rows.filter(|row| row.is_aggregate()).map(|row| {
        vec![
            oid(row.oid),
            letter(b'n'),
            small(0),
            oid(0), // aggtransfn
            oid(0), // aggfinalfn
            oid(0), // aggcombinefn
            oid(0), // aggserialfn
            oid(0), // aggdeserialfn
            oid(0), // aggmtransfn
            oid(0), // aggminvtransfn
            oid(0), // aggmfinalfn
            bool(false),
            bool(false),
            letter(b'r'),
            letter(b'r'),
            oid(0), // aggsortop
            oid(TypeOid::INTERNAL.0),
            int(0),
            oid(0), // aggmtranstype
            int(0),
            NULL,
            NULL,
        ]
    }))
}

fn operator_rows<'a>(_: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    if let Some(oid) = wanted.object(OID) {
        return Box::new(operator_by_oid(oid.0).into_iter().map(operator_row));
    }
    if let Some(name) = wanted.name(NAME) {
        let named: Vec<_> = operators().filter(|row| row.name == name).map(operator_row).collect();
        return Box::new(named.into_iter());
    }
    Box::new(operators().map(operator_row))
}

fn operator_row(row: &'static OperatorRow) -> Vec<Datum> {
    let equal = row.comparison == Some(Comparison::Equal);
    vec![
        oid(row.oid),
        text(row.name),
        oid(PG_CATALOG_OID),
        oid(OWNER_OID),
        letter(if row.left == TypeOid::INVALID { b'l' } else { b'b' }),
        bool(equal), // oprcanmerge
        bool(equal), // oprcanhash
        oid(row.left.0),
        oid(row.right.0),
        oid(row.result.0),
        oid(row.commutator),
        oid(row.negator),
        oid(functions().find(|function| function.name == row.code).map_or(0, |it| it.oid)),
        oid(0), // oprrest
        oid(0), // oprjoin
    ]
}

fn cast_rows<'a>(_: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(casts().enumerate().map(|(at, row)| {
        let context = match row.context {
            CastContext::Implicit => b'i',
            CastContext::Assignment => b'a',
            CastContext::Explicit => b'e',
        };
        let method = match row.method {
            CastMethod::Relabel => b'b',
            CastMethod::Function(_) => b'f',
        };
        vec![
            oid(10_000 + at as u32),
            oid(row.source.0),
            oid(row.target.0),
            oid(0), // castfunc
            letter(context),
            letter(method),
        ]
    }))
}

fn language_rows<'a>(_: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    let internal = vec![
        oid(INTERNAL_LANGUAGE),
        text("internal"),
        oid(OWNER_OID),
        bool(false),
        bool(false),
        oid(0),
        oid(0),
        oid(0),
        NULL,
    ];
    Box::new(std::iter::once(internal))
}
