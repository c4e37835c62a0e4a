//! Type oids, PostgreSQL's own, and a type with its modifier.

/// The oid of a type, as in `pg_type.oid`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TypeOid(pub u32);

/// A type and its modifier, as `varchar(10)`: oid and `atttypmod` (-1 = none).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    /// The type.
    pub oid: TypeOid,
    /// The modifier in PostgreSQL's encoding: length + 4, or ((p << 16) | s) + 4, or -1.
    pub typmod: i32,
}

impl Type {
    /// The type without a modifier.
    pub const fn new(oid: TypeOid) -> Type {
        Type { oid, typmod: -1 }
    }

    /// The type with a modifier.
    pub const fn with(oid: TypeOid, typmod: i32) -> Type {
        Type { oid, typmod }
    }
}

impl From<TypeOid> for Type {
    fn from(oid: TypeOid) -> Type {
        Type::new(oid)
    }
}

macro_rules! oids {
    ($($name:ident = $oid:literal;)*) => {
        impl TypeOid {
            $(#[doc = concat!("`", stringify!($name), "`, oid ", stringify!($oid), ".")]
            pub const $name: TypeOid = TypeOid($oid);)*
        }

        impl std::fmt::Debug for TypeOid {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.0 {
                    $($oid => f.write_str(stringify!($name)),)*
                    other => write!(f, "TypeOid({other})"),
                }
            }
        }
    };
}

oids! {
    INVALID = 0;
    BOOL = 16;
    BYTEA = 17;
    CHAR = 18;
    NAME = 19;
    INT8 = 20;
    INT2 = 21;
    INT2VECTOR = 22;
    INT4 = 23;
    REGPROC = 24;
    TEXT = 25;
    OID = 26;
    TID = 27;
    XID = 28;
    CID = 29;
    OIDVECTOR = 30;
    PG_NODE_TREE = 194;
    FLOAT4 = 700;
    FLOAT8 = 701;
    UNKNOWN = 705;
    BOOL_ARRAY = 1000;
    BYTEA_ARRAY = 1001;
    CHAR_ARRAY = 1002;
    NAME_ARRAY = 1003;
    INT2_ARRAY = 1005;
    INT2VECTOR_ARRAY = 1006;
    INT4_ARRAY = 1007;
    REGPROC_ARRAY = 1008;
    TEXT_ARRAY = 1009;
    TID_ARRAY = 1010;
    XID_ARRAY = 1011;
    CID_ARRAY = 1012;
    OIDVECTOR_ARRAY = 1013;
    BPCHAR_ARRAY = 1014;
    VARCHAR_ARRAY = 1015;
    INT8_ARRAY = 1016;
    FLOAT4_ARRAY = 1021;
    FLOAT8_ARRAY = 1022;
    OID_ARRAY = 1028;
    ACLITEM = 1033;
    ACLITEM_ARRAY = 1034;
    BPCHAR = 1042;
    VARCHAR = 1043;
    DATE = 1082;
    TIME = 1083;
    TIMESTAMP = 1114;
    TIMESTAMP_ARRAY = 1115;
    DATE_ARRAY = 1182;
    TIME_ARRAY = 1183;
    TIMESTAMPTZ = 1184;
    TIMESTAMPTZ_ARRAY = 1185;
    INTERVAL = 1186;
    INTERVAL_ARRAY = 1187;
    NUMERIC_ARRAY = 1231;
    CSTRING_ARRAY = 1263;
    NUMERIC = 1700;
    REGPROCEDURE = 2202;
    REGOPER = 2203;
    REGOPERATOR = 2204;
    REGCLASS = 2205;
    REGTYPE = 2206;
    REGPROCEDURE_ARRAY = 2207;
    REGCLASS_ARRAY = 2210;
    REGTYPE_ARRAY = 2211;
    RECORD = 2249;
    CSTRING = 2275;
    ANY = 2276;
    ANYARRAY = 2277;
    VOID = 2278;
    TRIGGER = 2279;
    INTERNAL = 2281;
    ANYELEMENT = 2283;
    RECORD_ARRAY = 2287;
    ANYNONARRAY = 2776;
    UUID = 2950;
    UUID_ARRAY = 2951;
    ANYENUM = 3500;
    REGNAMESPACE = 4089;
    REGNAMESPACE_ARRAY = 4090;
    REGROLE = 4096;
    REGROLE_ARRAY = 4097;
    REGCOLLATION = 4191;
    REGCOLLATION_ARRAY = 4192;
    XID8 = 5069;
    ANYCOMPATIBLE = 5077;
    ANYCOMPATIBLEARRAY = 5078;
    ANYCOMPATIBLENONARRAY = 5079;
}
