//! The built-in types as data: what pg_type says of them.
//!
//! Invariants: sorted by oid; every `array` and `element` named here is itself in the table.

use super::{Type, TypeOid};

/// `pg_type.typcategory`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Category {
    /// A
    Array,
    /// B
    Boolean,
    /// D
    DateTime,
    /// N
    Numeric,
    /// P
    Pseudo,
    /// S
    String,
    /// T
    Timespan,
    /// U
    User,
    /// X
    Unknown,
    /// Z
    Internal,
}

/// `pg_type.typtype`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeKind {
    /// b
    Base,
    /// p
    Pseudo,
}

/// `pg_type.typispreferred`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preferred {
    /// Other types of the category convert to it by preference.
    Yes,
    /// Not the preferred one.
    No,
}

/// One row of pg_type.
#[derive(Debug)]
pub struct TypeInfo {
    /// `oid`.
    pub oid: TypeOid,
    /// `typname`.
    pub name: &'static str,
    /// What `format_type(oid, NULL)` says.
    pub sql_name: &'static str,
    /// `typlen`: bytes, -1 = varlena, -2 = C string.
    pub length: i16,
    /// `typtype`.
    pub kind: TypeKind,
    /// `typcategory`.
    pub category: Category,
    /// `typispreferred`.
    pub preferred: Preferred,
    /// `typelem`, INVALID if none.
    pub element: TypeOid,
    /// `typarray`, INVALID if none.
    pub array: TypeOid,
    /// `typbyval`, `typalign`, `typstorage` as their letters.
    pub layout: &'static [u8; 3],
    /// `typcollation`.
    pub collation: u32,
}

impl TypeInfo {
    /// Is it a real array type (not int2vector or oidvector)?
    pub fn is_array(&self) -> bool {
        self.element != TypeOid::INVALID && self.length == -1 && self.name.starts_with('_')
    }

    /// The letter of `typcategory`.
    pub const fn category_letter(&self) -> u8 {
        match self.category {
            Category::Array => b'A',
            Category::Boolean => b'B',
            Category::DateTime => b'D',
            Category::Numeric => b'N',
            Category::Pseudo => b'P',
            Category::String => b'S',
            Category::Timespan => b'T',
            Category::User => b'U',
            Category::Unknown => b'X',
            Category::Internal => b'Z',
        }
    }
}

/// The row of a built-in type.
pub fn type_by_oid(oid: TypeOid) -> Option<&'static TypeInfo> {
    TYPES.binary_search_by_key(&oid, |row| row.oid).ok().map(|index| &TYPES[index])
}

/// The row of a built-in type by `typname` (`int4`, `_text`; the grammar turns `integer` into
/// `int4` itself).
pub fn type_by_name(name: &str) -> Option<&'static TypeInfo> {
    TYPES.iter().find(|row| row.name == name)
}

impl TypeOid {
    /// The array type over this type, where there is one.
    pub fn array_type(self) -> Option<TypeOid> {
        type_by_oid(self).map(|row| row.array).filter(|oid| *oid != TypeOid::INVALID)
    }

    /// The element type, where this is an array type (or int2vector, oidvector).
    pub fn element_type(self) -> Option<TypeOid> {
        let row = type_by_oid(self)?;
        (row.category == Category::Array && row.element != TypeOid::INVALID).then_some(row.element)
    }

    /// The category; unknown oids count as user types.
    pub fn category(self) -> Category {
        type_by_oid(self).map_or(Category::User, |row| row.category)
    }

    /// Is it its category's preferred type?
    pub fn is_preferred(self) -> bool {
        type_by_oid(self).is_some_and(|row| row.preferred == Preferred::Yes)
    }

    /// anyelement and its like.
    pub const fn is_polymorphic(self) -> bool {
        matches!(
            self,
            TypeOid::ANYELEMENT
                | TypeOid::ANYARRAY
                | TypeOid::ANYNONARRAY
                | TypeOid::ANYENUM
                | TypeOid::ANYCOMPATIBLE
                | TypeOid::ANYCOMPATIBLEARRAY
                | TypeOid::ANYCOMPATIBLENONARRAY
        )
    }

    /// The name as error messages have it.
    pub fn sql_name(self) -> String {
        format_type(Type::new(self))
    }
}

impl std::fmt::Display for TypeOid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sql_name())
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&format_type(*self))
    }
}

/// `format_type(oid, typmod)` of a built-in type; `???` for oids that are none.
pub fn format_type(ty: Type) -> String {
    let Some(row) = type_by_oid(ty.oid) else {
        return if ty.oid == TypeOid::INVALID { "-".into() } else { "???".into() };
    };
    if row.is_array() {
        return format!("{}[]", format_type(Type::with(row.element, ty.typmod)));
    }
    if ty.typmod < 0 {
        // Without a modifier `character` would mean char(1): PostgreSQL says bpchar then.
        return if ty.oid == TypeOid::BPCHAR && ty.typmod != -1 {
            "bpchar".into()
        } else {
            row.sql_name.into()
        };
    }
    match ty.oid {
        TypeOid::BPCHAR => format!("character({})", ty.typmod - 4),
        TypeOid::VARCHAR => format!("character varying({})", ty.typmod - 4),
        TypeOid::NUMERIC => {
            let (precision, scale) = super::typmod::numeric_parts(ty.typmod);
            format!("numeric({precision},{scale})")
        }
        TypeOid::TIMESTAMP => format!("timestamp({}) without time zone", ty.typmod),
        TypeOid::TIMESTAMPTZ => format!("timestamp({}) with time zone", ty.typmod),
        TypeOid::TIME => format!("time({}) without time zone", ty.typmod),
        TypeOid::INTERVAL => super::typmod::format_interval(ty.typmod),
        _ => row.sql_name.into(),
    }
}

use Preferred::{No, Yes};

#[expect(clippy::too_many_arguments, reason = "a row of a table")]
const fn row(
    oid: u32,
    name: &'static str,
    sql_name: &'static str,
    length: i16,
    kind: char,
    category: char,
    preferred: Preferred,
    element: u32,
    array: u32,
    layout: &'static [u8; 3],
    collation: u32,
) -> TypeInfo {
    let category = match category {
        'A' => Category::Array,
        'B' => Category::Boolean,
        'D' => Category::DateTime,
        'N' => Category::Numeric,
        'P' => Category::Pseudo,
        'S' => Category::String,
        'T' => Category::Timespan,
        'U' => Category::User,
        'X' => Category::Unknown,
        _ => Category::Internal,
    };
    let kind = if kind == 'p' { TypeKind::Pseudo } else { TypeKind::Base };
    let (element, array) = (TypeOid(element), TypeOid(array));
    TypeInfo {
        oid: TypeOid(oid),
        name,
        sql_name,
        length,
        kind,
        category,
        preferred,
        element,
        array,
        layout,
        collation,
    }
}

/// Every built-in type, by oid.
#[rustfmt::skip]
pub static TYPES: &[TypeInfo] = &[
    row(16, "bool", "boolean", 1, 'b', 'B', Yes, 0, 1000, b"tcp", 0),
    row(17, "bytea", "bytea", -1, 'b', 'U', No, 0, 1001, b"fix", 0),
    row(18, "char", "\"char\"", 1, 'b', 'Z', No, 0, 1002, b"tcp", 0),
    row(19, "name", "name", 64, 'b', 'S', No, 18, 1003, b"fcp", 950),
    row(20, "int8", "bigint", 8, 'b', 'N', No, 0, 1016, b"tdp", 0),
    row(21, "int2", "smallint", 2, 'b', 'N', No, 0, 1005, b"tsp", 0),
    row(22, "int2vector", "int2vector", -1, 'b', 'A', No, 21, 1006, b"fip", 0),
    row(23, "int4", "integer", 4, 'b', 'N', No, 0, 1007, b"tip", 0),
    row(24, "regproc", "regproc", 4, 'b', 'N', No, 0, 1008, b"tip", 0),
    row(25, "text", "text", -1, 'b', 'S', Yes, 0, 1009, b"fix", 100),
    row(26, "oid", "oid", 4, 'b', 'N', Yes, 0, 1028, b"tip", 0),
    row(27, "tid", "tid", 6, 'b', 'U', No, 0, 1010, b"fsp", 0),
    row(28, "xid", "xid", 4, 'b', 'U', No, 0, 1011, b"tip", 0),
    row(29, "cid", "cid", 4, 'b', 'U', No, 0, 1012, b"tip", 0),
    row(30, "oidvector", "oidvector", -1, 'b', 'A', No, 26, 1013, b"fip", 0),
    row(194, "pg_node_tree", "pg_node_tree", -1, 'b', 'Z', No, 0, 0, b"fix", 100),
    row(271, "_xid8", "xid8[]", -1, 'b', 'A', No, 5069, 0, b"fdx", 0),
    row(700, "float4", "real", 4, 'b', 'N', No, 0, 1021, b"tip", 0),
    row(701, "float8", "double precision", 8, 'b', 'N', Yes, 0, 1022, b"tdp", 0),
    row(705, "unknown", "unknown", -2, 'p', 'X', No, 0, 0, b"fcp", 0),
    row(1000, "_bool", "boolean[]", -1, 'b', 'A', No, 16, 0, b"fix", 0),
    row(1001, "_bytea", "bytea[]", -1, 'b', 'A', No, 17, 0, b"fix", 0),
    row(1002, "_char", "\"char\"[]", -1, 'b', 'A', No, 18, 0, b"fix", 0),
    row(1003, "_name", "name[]", -1, 'b', 'A', No, 19, 0, b"fix", 950),
    row(1005, "_int2", "smallint[]", -1, 'b', 'A', No, 21, 0, b"fix", 0),
    row(1006, "_int2vector", "int2vector[]", -1, 'b', 'A', No, 22, 0, b"fix", 0),
    row(1007, "_int4", "integer[]", -1, 'b', 'A', No, 23, 0, b"fix", 0),
    row(1008, "_regproc", "regproc[]", -1, 'b', 'A', No, 24, 0, b"fix", 0),
    row(1009, "_text", "text[]", -1, 'b', 'A', No, 25, 0, b"fix", 100),
    row(1010, "_tid", "tid[]", -1, 'b', 'A', No, 27, 0, b"fix", 0),
    row(1011, "_xid", "xid[]", -1, 'b', 'A', No, 28, 0, b"fix", 0),
    row(1012, "_cid", "cid[]", -1, 'b', 'A', No, 29, 0, b"fix", 0),
    row(1013, "_oidvector", "oidvector[]", -1, 'b', 'A', No, 30, 0, b"fix", 0),
    row(1014, "_bpchar", "character[]", -1, 'b', 'A', No, 1042, 0, b"fix", 100),
    row(1015, "_varchar", "character varying[]", -1, 'b', 'A', No, 1043, 0, b"fix", 100),
    row(1016, "_int8", "bigint[]", -1, 'b', 'A', No, 20, 0, b"fdx", 0),
    row(1021, "_float4", "real[]", -1, 'b', 'A', No, 700, 0, b"fix", 0),
    row(1022, "_float8", "double precision[]", -1, 'b', 'A', No, 701, 0, b"fdx", 0),
    row(1028, "_oid", "oid[]", -1, 'b', 'A', No, 26, 0, b"fix", 0),
    row(1033, "aclitem", "aclitem", 12, 'b', 'U', No, 0, 1034, b"fip", 0),
    row(1034, "_aclitem", "aclitem[]", -1, 'b', 'A', No, 1033, 0, b"fix", 0),
    row(1042, "bpchar", "character", -1, 'b', 'S', No, 0, 1014, b"fix", 100),
    row(1043, "varchar", "character varying", -1, 'b', 'S', No, 0, 1015, b"fix", 100),
    row(1082, "date", "date", 4, 'b', 'D', No, 0, 1182, b"tip", 0),
    row(1083, "time", "time without time zone", 8, 'b', 'D', No, 0, 1183, b"tdp", 0),
    row(1114, "timestamp", "timestamp without time zone", 8, 'b', 'D', No, 0, 1115, b"tdp", 0),
    row(1115, "_timestamp", "timestamp without time zone[]", -1, 'b', 'A', No, 1114, 0, b"fdx", 0),
    row(1182, "_date", "date[]", -1, 'b', 'A', No, 1082, 0, b"fix", 0),
    row(1183, "_time", "time without time zone[]", -1, 'b', 'A', No, 1083, 0, b"fdx", 0),
    row(1184, "timestamptz", "timestamp with time zone", 8, 'b', 'D', Yes, 0, 1185, b"tdp", 0),
    row(1185, "_timestamptz", "timestamp with time zone[]", -1, 'b', 'A', No, 1184, 0, b"fdx", 0),
    row(1186, "interval", "interval", 16, 'b', 'T', Yes, 0, 1187, b"fdp", 0),
    row(1187, "_interval", "interval[]", -1, 'b', 'A', No, 1186, 0, b"fdx", 0),
    row(1231, "_numeric", "numeric[]", -1, 'b', 'A', No, 1700, 0, b"fix", 0),
    row(1263, "_cstring", "cstring[]", -1, 'b', 'A', No, 2275, 0, b"fix", 0),
    row(1700, "numeric", "numeric", -1, 'b', 'N', No, 0, 1231, b"fim", 0),
    row(2202, "regprocedure", "regprocedure", 4, 'b', 'N', No, 0, 2207, b"tip", 0),
    row(2203, "regoper", "regoper", 4, 'b', 'N', No, 0, 2208, b"tip", 0),
    row(2204, "regoperator", "regoperator", 4, 'b', 'N', No, 0, 2209, b"tip", 0),
    row(2205, "regclass", "regclass", 4, 'b', 'N', No, 0, 2210, b"tip", 0),
    row(2206, "regtype", "regtype", 4, 'b', 'N', No, 0, 2211, b"tip", 0),
    row(2207, "_regprocedure", "regprocedure[]", -1, 'b', 'A', No, 2202, 0, b"fix", 0),
    row(2208, "_regoper", "regoper[]", -1, 'b', 'A', No, 2203, 0, b"fix", 0),
    row(2209, "_regoperator", "regoperator[]", -1, 'b', 'A', No, 2204, 0, b"fix", 0),
    row(2210, "_regclass", "regclass[]", -1, 'b', 'A', No, 2205, 0, b"fix", 0),
    row(2211, "_regtype", "regtype[]", -1, 'b', 'A', No, 2206, 0, b"fix", 0),
    row(2249, "record", "record", -1, 'p', 'P', No, 0, 2287, b"fdx", 0),
    row(2275, "cstring", "cstring", -2, 'p', 'P', No, 0, 1263, b"fcp", 0),
    row(2276, "any", "\"any\"", 4, 'p', 'P', No, 0, 0, b"tip", 0),
    row(2277, "anyarray", "anyarray", -1, 'p', 'P', No, 0, 0, b"fdx", 0),
    row(2278, "void", "void", 4, 'p', 'P', No, 0, 0, b"tip", 0),
    row(2279, "trigger", "trigger", 4, 'p', 'P', No, 0, 0, b"tip", 0),
    row(2281, "internal", "internal", 8, 'p', 'P', No, 0, 0, b"tdp", 0),
    row(2283, "anyelement", "anyelement", 4, 'p', 'P', No, 0, 0, b"tip", 0),
    row(2287, "_record", "record[]", -1, 'p', 'P', No, 2249, 0, b"fdx", 0),
    row(2776, "anynonarray", "anynonarray", 4, 'p', 'P', No, 0, 0, b"tip", 0),
    row(2950, "uuid", "uuid", 16, 'b', 'U', No, 0, 2951, b"fcp", 0),
    row(2951, "_uuid", "uuid[]", -1, 'b', 'A', No, 2950, 0, b"fix", 0),
    row(4089, "regnamespace", "regnamespace", 4, 'b', 'N', No, 0, 4090, b"tip", 0),
    row(4090, "_regnamespace", "regnamespace[]", -1, 'b', 'A', No, 4089, 0, b"fix", 0),
    row(4096, "regrole", "regrole", 4, 'b', 'N', No, 0, 4097, b"tip", 0),
    row(4097, "_regrole", "regrole[]", -1, 'b', 'A', No, 4096, 0, b"fix", 0),
    row(4191, "regcollation", "regcollation", 4, 'b', 'N', No, 0, 4192, b"tip", 0),
    row(4192, "_regcollation", "regcollation[]", -1, 'b', 'A', No, 4191, 0, b"fix", 0),
    row(5069, "xid8", "xid8", 8, 'b', 'U', No, 0, 271, b"tdp", 0),
    row(5077, "anycompatible", "anycompatible", 4, 'p', 'P', No, 0, 0, b"tip", 0),
    row(5078, "anycompatiblearray", "anycompatiblearray", -1, 'p', 'P', No, 0, 0, b"fdx", 0),
    row(5079, "anycompatiblenonarray", "anycompatiblenonarray", 4, 'p', 'P', No, 0, 0, b"tip", 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(oid: TypeOid, typmod: i32, expect: &str) {
        assert_eq!(format_type(Type::with(oid, typmod)), expect);
    }

    #[test]
    fn types_print_as_in_postgresql() {
        check(TypeOid::INT4, -1, "integer");
        check(TypeOid::BPCHAR, 14, "character(10)");
        check(TypeOid::BPCHAR, -1, "character");
        check(TypeOid::VARCHAR, 14, "character varying(10)");
        check(TypeOid::VARCHAR_ARRAY, 14, "character varying(10)[]");
        check(TypeOid::NUMERIC, ((10 << 16) | 2) + 4, "numeric(10,2)");
        check(TypeOid::TIMESTAMP, 3, "timestamp(3) without time zone");
        check(TypeOid::CHAR, -1, "\"char\"");
        check(TypeOid(99_999), -1, "???");
        check(TypeOid(0), -1, "-");
    }

    #[test]
    fn the_table_is_sorted_and_closed() {
        assert!(TYPES.windows(2).all(|pair| pair[0].oid < pair[1].oid));
        for row in TYPES {
            for other in [row.element, row.array] {
                assert!(other == TypeOid::INVALID || type_by_oid(other).is_some(), "{}", row.name);
            }
            assert_eq!(type_by_name(row.name).map(|found| found.oid), Some(row.oid));
        }
    }
}
