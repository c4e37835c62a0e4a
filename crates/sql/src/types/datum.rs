//! One SQL value.
//!
//! Invariants: 24 bytes, cheap to clone (no clone copies more than that). The form is physical:
//! text, varchar, bpchar (blank-padded), name, cstring and unknown are all `Text`; oid, xid and
//! the reg* types are all `Oid`. Send and Sync, so that cached plans can hold constants.

use super::{Array, Interval, Numeric, Record};
use std::sync::Arc;

/// A text value: up to 23 bytes inline, longer ones shared.
pub type Text = smol_str::SmolStr;

/// One SQL value or NULL. See the file's header for which SQL types share a form.
#[derive(Clone, Debug, Default)]
pub enum Datum {
    /// NULL of any type.
    #[default]
    Null,
    /// bool.
    Bool(bool),
    /// "char": one byte.
    Char(u8),
    /// int2.
    Int2(i16),
    /// int4.
    Int4(i32),
    /// int8.
    Int8(i64),
    /// float4.
    Float4(f32),
    /// float8.
    Float8(f64),
    /// oid, xid, cid, and every reg* type.
    Oid(u32),
    /// date: days since 2000-01-01.
    Date(i32),
    /// time without time zone: microseconds since midnight.
    Time(i64),
    /// timestamp: microseconds since 2000-01-01, local.
    Timestamp(i64),
    /// timestamptz: microseconds since 2000-01-01 UTC.
    Timestamptz(i64),
    /// interval.
    Interval(Arc<Interval>),
    /// numeric.
    Numeric(Numeric),
    /// text, varchar, bpchar, name, cstring, unknown, pg_node_tree, aclitem.
    Text(Text),
    /// bytea.
    Bytea(Arc<[u8]>),
    /// uuid.
    Uuid(Arc<[u8; 16]>),
    /// Any array type, int2vector and oidvector.
    Array(Arc<Array>),
    /// A row value.
    Record(Arc<Record>),
}

const _: () = assert!(size_of::<Datum>() == 24, "a datum is three words");

impl Datum {
    /// A text datum.
    pub fn text(value: impl AsRef<str>) -> Datum {
        Datum::Text(Text::new(value))
    }

    /// Is it NULL?
    #[inline]
    pub const fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// Is it true? NULL is not.
    #[inline]
    pub const fn is_true(&self) -> bool {
        matches!(self, Datum::Bool(true))
    }

    /// The boolean, where the binder has made sure that it is one and not NULL.
    #[inline]
    pub fn as_bool(&self) -> bool {
        match self {
            Datum::Bool(value) => *value,
            other => wrong("boolean", other),
        }
    }

    /// Any of int2, int4, int8 and oid as i64.
    #[inline]
    pub fn as_i64(&self) -> i64 {
        match self {
            Datum::Int2(value) => i64::from(*value),
            Datum::Int4(value) => i64::from(*value),
            Datum::Int8(value) => *value,
            Datum::Oid(value) => i64::from(*value),
            other => wrong("integer", other),
        }
    }

    /// An int4 (or int2).
    #[inline]
    pub fn as_i32(&self) -> i32 {
        match self {
            Datum::Int4(value) => *value,
            Datum::Int2(value) => i32::from(*value),
            other => wrong("int4", other),
        }
    }

    /// A float4 or float8 as f64.
    #[inline]
    pub fn as_f64(&self) -> f64 {
        match self {
            Datum::Float8(value) => *value,
            Datum::Float4(value) => f64::from(*value),
            other => wrong("float8", other),
        }
    }

    /// An oid.
    #[inline]
    pub fn as_oid(&self) -> u32 {
        match self {
            Datum::Oid(value) => *value,
            other => wrong("oid", other),
        }
    }

    /// A text.
    #[inline]
    pub fn as_str(&self) -> &str {
        match self {
            Datum::Text(value) => value,
            other => wrong("text", other),
        }
    }

    /// A numeric.
    #[inline]
    pub fn as_numeric(&self) -> &Numeric {
        match self {
            Datum::Numeric(value) => value,
            other => wrong("numeric", other),
        }
    }

    /// Microseconds of a timestamp, timestamptz or time.
    #[inline]
    pub fn as_micros(&self) -> i64 {
        match self {
            Datum::Timestamp(value) | Datum::Timestamptz(value) | Datum::Time(value) => *value,
            other => wrong("timestamp", other),
        }
    }

    /// Days of a date.
    #[inline]
    pub fn as_days(&self) -> i32 {
        match self {
            Datum::Date(value) => *value,
            other => wrong("date", other),
        }
    }

    /// An interval.
    #[inline]
    pub fn as_interval(&self) -> &Interval {
        match self {
            Datum::Interval(value) => value,
            other => wrong("interval", other),
        }
    }

    /// A bytea.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Datum::Bytea(value) => value,
            other => wrong("bytea", other),
        }
    }

    /// An array.
    #[inline]
    pub fn as_array(&self) -> &Arc<Array> {
        match self {
            Datum::Array(value) => value,
            other => wrong("array", other),
        }
    }

    /// A row value.
    #[inline]
    pub fn as_record(&self) -> &Arc<Record> {
        match self {
            Datum::Record(value) => value,
            other => wrong("record", other),
        }
    }
}

/// The binder resolved a function on other types than it got: a bug that ends the statement.
#[cold]
#[inline(never)]
fn wrong(expected: &str, found: &Datum) -> ! {
    panic!("the binder promised a value of form {expected}, found {found:?}")
}

impl From<bool> for Datum {
    fn from(value: bool) -> Datum {
        Datum::Bool(value)
    }
}

impl From<i32> for Datum {
    fn from(value: i32) -> Datum {
        Datum::Int4(value)
    }
}

impl From<i64> for Datum {
    fn from(value: i64) -> Datum {
        Datum::Int8(value)
    }
}

impl From<f64> for Datum {
    fn from(value: f64) -> Datum {
        Datum::Float8(value)
    }
}

impl From<&str> for Datum {
    fn from(value: &str) -> Datum {
        Datum::Text(Text::new(value))
    }
}

impl From<String> for Datum {
    fn from(value: String) -> Datum {
        Datum::Text(Text::from(value))
    }
}

impl From<Numeric> for Datum {
    fn from(value: Numeric) -> Datum {
        Datum::Numeric(value)
    }
}

impl From<Array> for Datum {
    fn from(value: Array) -> Datum {
        Datum::Array(Arc::new(value))
    }
}

impl From<Interval> for Datum {
    fn from(value: Interval) -> Datum {
        Datum::Interval(Arc::new(value))
    }
}

impl<T: Into<Datum>> From<Option<T>> for Datum {
    fn from(value: Option<T>) -> Datum {
        value.map_or(Datum::Null, Into::into)
    }
}
