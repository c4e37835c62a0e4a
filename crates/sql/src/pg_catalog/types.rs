//! pg_type, and the operator classes of indexes: pg_opclass, pg_opfamily, pg_amop.
//!
//! Invariants: the rows are those of `types::TYPES` and `functions::operators()`; oids are
//! PostgreSQL's. Input and output are not SQL functions here, so only arrays name theirs (clients
//! recognise arrays by it).

use super::class::INDEX_METHOD;
use super::shared::PG_CATALOG_OID;
use super::value::{NULL, bool, int, letter, oid, small, text};
use super::{OWNER_OID, Rows, SystemRelation, Wanted, table_columns};
use crate::functions::{Comparison, operators};
use crate::relations::CatalogView;
use crate::types::{
    Datum, Preferred, TYPES, TypeInfo, TypeKind, TypeOid, type_by_name, type_by_oid,
};

const OID: usize = 0;
const TYPNAME: usize = 1;

/// pg_type and its companions.
pub(super) static RELATIONS: &[SystemRelation] = &[
    SystemRelation::table(1247, "pg_type", table_columns::PG_TYPE)
        .rows(type_rows)
        .lookups(&[OID, TYPNAME]),
    SystemRelation::table(2616, "pg_opclass", table_columns::PG_OPCLASS).rows(class_rows),
    SystemRelation::table(2753, "pg_opfamily", table_columns::PG_OPFAMILY).rows(family_rows),
    SystemRelation::table(2602, "pg_amop", table_columns::PG_AMOP).rows(operator_rows),
];

fn type_rows<'a>(_: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    if let Some(oid) = wanted.object(OID) {
        return Box::new(type_by_oid(TypeOid(oid.0)).into_iter().map(type_row));
    }
    if let Some(name) = wanted.name(TYPNAME) {
        return Box::new(type_by_name(name).into_iter().map(type_row));
    }
    Box::new(TYPES.iter().map(type_row))
}

fn type_row(info: &'static TypeInfo) -> Vec<Datum> {
    // array_subscript_handler, array_in, array_out, array_recv, array_send, array_typanalyze.
    let array = |function: u32| oid(if info.is_array() { function } else { 0 });
    let kind = match info.kind {
        TypeKind::Base => b'b',
        // Not a pseudo-type's letter, but what PostgreSQL calls arrays of record as well.
        TypeKind::Pseudo => b'p',
    };
    let kind = if info.oid == TypeOid::RECORD_ARRAY { b'p' } else { kind };
    vec![
        oid(info.oid.0),
        text(info.name),
        oid(PG_CATALOG_OID),
        oid(OWNER_OID),
        small(info.length),
        bool(info.layout[0] == b't'),
        letter(kind),
        letter(info.category_letter()),
        bool(info.preferred == Preferred::Yes),
        bool(true), // typisdefined
        letter(b','),
        oid(0), // typrelid
        array(6179),
        oid(info.element.0),
        oid(info.array.0),
        array(750),
        array(751),
        array(2400),
        array(2401),
        oid(0), // typmodin
        oid(0), // typmodout
        array(3816),
        letter(info.layout[1]),
        letter(info.layout[2]),
        bool(false), // typnotnull
        oid(0),      // typbasetype
        int(-1),     // typtypmod
        int(0),      // typndims
        oid(info.collation),
        NULL, // typdefaultbin
        NULL, // typdefault
        NULL, // typacl
    ]
}

/// An operator class: oid, name, family, type, and whether it is the type's own.
struct OperatorClass {
    oid: u32,
    name: &'static str,
    family: u32,
    input: TypeOid,
    own: bool,
}

const fn operator_class_row(
    oid: u32,
    name: &'static str,
    family: u32,
    input: TypeOid,
) -> OperatorClass {
    OperatorClass { oid, name, family, input, own: true }
}

const FAMILIES: &[(u32, &str)] = &[
    (397, "array_ops"),
    (424, "bool_ops"),
    (426, "bpchar_ops"),
    (428, "bytea_ops"),
    (429, "char_ops"),
    (434, "datetime_ops"),
    (1970, "float_ops"),
    (1976, "integer_ops"),
    (1982, "interval_ops"),
    (1988, "numeric_ops"),
    (1989, "oid_ops"),
    (1991, "oidvector_ops"),
    (1994, "text_ops"),
    (1996, "time_ops"),
    (2968, "uuid_ops"),
];

const CLASSES: &[OperatorClass] = &[
    operator_class_row(1978, "int4_ops", 1976, TypeOid::INT4),
    operator_class_row(1979, "int2_ops", 1976, TypeOid::INT2),
    operator_class_row(1981, "oid_ops", 1989, TypeOid::OID),
    operator_class_row(3122, "date_ops", 434, TypeOid::DATE),
    operator_class_row(3123, "float8_ops", 1970, TypeOid::FLOAT8),
    operator_class_row(3124, "int8_ops", 1976, TypeOid::INT8),
    operator_class_row(3125, "numeric_ops", 1988, TypeOid::NUMERIC),
    operator_class_row(3126, "text_ops", 1994, TypeOid::TEXT),
    operator_class_row(3127, "timestamptz_ops", 434, TypeOid::TIMESTAMPTZ),
    operator_class_row(3128, "timestamp_ops", 434, TypeOid::TIMESTAMP),
    operator_class_row(10000, "array_ops", 397, TypeOid::ANYARRAY),
    operator_class_row(10003, "bool_ops", 424, TypeOid::BOOL),
    operator_class_row(10004, "bpchar_ops", 426, TypeOid::BPCHAR),
    operator_class_row(10006, "bytea_ops", 428, TypeOid::BYTEA),
    operator_class_row(10007, "char_ops", 429, TypeOid::CHAR),
    operator_class_row(10012, "float4_ops", 1970, TypeOid::FLOAT4),
    operator_class_row(10022, "interval_ops", 1982, TypeOid::INTERVAL),
    operator_class_row(10028, "name_ops", 1994, TypeOid::NAME),
    operator_class_row(10032, "oidvector_ops", 1991, TypeOid::OIDVECTOR),
    operator_class_row(10038, "time_ops", 1996, TypeOid::TIME),
    OperatorClass {
        oid: 10044,
        name: "varchar_ops",
        family: 1994,
        input: TypeOid::TEXT,
        own: false,
    },
    operator_class_row(10065, "uuid_ops", 2968, TypeOid::UUID),
];

/// The operator class of an index column of this type, 0 if there is none.
pub(super) fn operator_class(ty: TypeOid) -> u32 {
    let input = match ty {
        TypeOid::VARCHAR => TypeOid::TEXT,
        other if type_by_oid(other).is_some_and(TypeInfo::is_array) => TypeOid::ANYARRAY,
        other => other,
    };
    CLASSES.iter().find(|class| class.own && class.input == input).map_or(0, |class| class.oid)
}

fn class_rows<'a>(_: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(CLASSES.iter().map(|class| {
        vec![
            oid(class.oid),
            oid(INDEX_METHOD),
            text(class.name),
            oid(PG_CATALOG_OID),
            oid(OWNER_OID),
            oid(class.family),
            oid(class.input.0),
            bool(class.own),
            oid(0), // opckeytype
        ]
    }))
}

fn family_rows<'a>(_: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(FAMILIES.iter().map(|(family, name)| {
        vec![oid(*family), oid(INDEX_METHOD), text(name), oid(PG_CATALOG_OID), oid(OWNER_OID)]
    }))
}

/// The strategy number of a comparison in a btree.
fn strategy(comparison: Comparison) -> Option<i16> {
    Some(match comparison {
        Comparison::Less => 1,
        Comparison::LessEqual => 2,
        Comparison::Equal => 3,
        Comparison::GreaterEqual => 4,
        Comparison::Greater => 5,
        Comparison::NotEqual => return None,
    })
}

fn family_of(ty: TypeOid) -> Option<u32> {
    CLASSES.iter().find(|class| class.own && class.input == ty).map(|class| class.family)
}

fn operator_rows<'a>(_: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    let inside = operators().filter_map(|operator| {
        let family = family_of(operator.left)?;
        (family_of(operator.right)? == family).then_some(())?;
        Some((operator, family, strategy(operator.comparison?)?))
    });
    Box::new(inside.enumerate().map(|(at, (operator, family, strategy))| {
        vec![
            oid(10_500 + at as u32),
            oid(family),
            oid(operator.left.0),
            oid(operator.right.0),
            small(strategy),
            letter(b's'),
            oid(operator.oid),
            oid(INDEX_METHOD),
            oid(0), // amopsortfamily
        ]
    }))
}
