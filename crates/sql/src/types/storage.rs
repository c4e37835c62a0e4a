//! Storage encoding: datums to and from the bytes of the kernel's physical columns.
//!
//! Invariants: for columns of one type, comparing stored bytes as the physical type says (all but
//! the trailer of `Ordered`) is the type's default order, so that index keys need no knowledge of
//! SQL. The forms are part of the disk format (docs/format.md): numbers little-endian, oids
//! widened to int8, float4 to float8; char(n) without its blanks, their number in a trailer of
//! four bytes; intervals as a biased big-endian span with their parts in a trailer; numeric(p, s)
//! of few digits as a scaled word, any other as ordered bytes. What a column's modifier asks for
//! is settled when the column is made: from then on its physical type, with the value, says which
//! form is written, and the bytes themselves say which is read.

use super::numeric::is_scaled;
use super::order::unpadded;
use super::typmod::numeric_parts;
use super::{Array, Datum, Dimension, Interval, Numeric, Text, Type, TypeOid, type_by_oid};
use crate::error::{SqlError, SqlResult, SqlState};
use atoll_kernel::page::ColumnType;
use std::sync::Arc;

const BPCHAR_TRAILER: usize = 4;
/// Bytes up to which a char(n) is padded on the stack.
const BPCHAR_SHORT: usize = 256;
const INTERVAL_TRAILER: usize = 16;

/// The physical type of a new column; 0A000 for types that no column may have.
pub fn column_type(ty: Type) -> SqlResult<ColumnType> {
    Ok(match ty.oid {
        TypeOid::BOOL => ColumnType::Bool,
        TypeOid::INT2 => ColumnType::Int2,
        TypeOid::INT4 | TypeOid::DATE => ColumnType::Int4,
        TypeOid::INT8
        | TypeOid::TIMESTAMP
        | TypeOid::TIMESTAMPTZ
        | TypeOid::TIME
        | TypeOid::OID
        | TypeOid::XID
        | TypeOid::CID
        | TypeOid::XID8 => ColumnType::Int8,
        TypeOid::FLOAT4 | TypeOid::FLOAT8 => ColumnType::Float8,
        TypeOid::NUMERIC => match numeric_parts(ty.typmod) {
            (precision, scale) if ty.typmod >= 4 && is_scaled(precision, scale) => ColumnType::Int8,
            _ => ColumnType::Ordered { trailer: super::numeric::TRAILER as u8 },
        },
        TypeOid::BPCHAR => ColumnType::Ordered { trailer: BPCHAR_TRAILER as u8 },
        TypeOid::INTERVAL => ColumnType::Ordered { trailer: INTERVAL_TRAILER as u8 },
        TypeOid::TEXT
        | TypeOid::VARCHAR
        | TypeOid::NAME
        | TypeOid::CHAR
        | TypeOid::BYTEA
        | TypeOid::UUID
        | TypeOid::PG_NODE_TREE
        | TypeOid::ACLITEM => ColumnType::Bytes,
        other if super::reg::is_reg_type(other) => ColumnType::Int8,
        other if is_storable_array(other) => ColumnType::Bytes,
        other => return Err(SqlError::not_supported(format!("a column of type {other}"))),
    })
}

/// Does the stored form compare as the type does? Indexes need it; arrays do not have it yet.
pub fn is_ordered(ty: TypeOid) -> bool {
    column_type(ty.into()).is_ok() && !is_storable_array(ty) && ty != TypeOid::PG_NODE_TREE
}

fn is_storable_array(ty: TypeOid) -> bool {
    let vector = matches!(ty, TypeOid::INT2VECTOR | TypeOid::OIDVECTOR);
    let element =
        ty.element_type().filter(|_| vector || type_by_oid(ty).is_some_and(|row| row.is_array()));
    element.is_some_and(|it| it.element_type().is_none() && column_type(it.into()).is_ok())
}

#[cold]
fn damaged(ty: TypeOid) -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, format!("a stored value is no valid {ty}"))
}

/// Appends the form that a column of this physical type keeps. The value is not NULL and fits the
/// column's type and modifier.
pub fn encode(physical: ColumnType, value: &Datum, out: &mut Vec<u8>) -> SqlResult<()> {
    match value {
        Datum::Int4(value) | Datum::Date(value) => out.extend_from_slice(&value.to_le_bytes()),
        Datum::Int8(value)
        | Datum::Timestamp(value)
        | Datum::Timestamptz(value)
        | Datum::Time(value) => out.extend_from_slice(&value.to_le_bytes()),
        Datum::Int2(value) => out.extend_from_slice(&value.to_le_bytes()),
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Char(value) => out.push(*value),
        Datum::Oid(value) => out.extend_from_slice(&i64::from(*value).to_le_bytes()),
        Datum::Float4(_) | Datum::Float8(_) => {
            out.extend_from_slice(&value.as_f64().to_le_bytes());
        }
        Datum::Text(text) if matches!(physical, ColumnType::Ordered { .. }) => {
            let trimmed = unpadded(text);
            out.extend_from_slice(trimmed.as_bytes());
            out.extend_from_slice(&((text.len() - trimmed.len()) as u32).to_le_bytes());
        }
        Datum::Text(text) => out.extend_from_slice(text.as_bytes()),
        Datum::Numeric(number) if physical == ColumnType::Int8 => {
            let no_word = || SqlError::internal(format!("{number} was not fitted to its column"));
            number.encode_scaled(out).ok_or_else(no_word)?;
        }
        Datum::Numeric(number) => number.encode_ordered(out),
        Datum::Bytea(bytes) => out.extend_from_slice(bytes),
        Datum::Uuid(bytes) => out.extend_from_slice(bytes.as_slice()),
        Datum::Interval(interval) => encode_interval(interval, out),
        Datum::Array(array) => encode_array(array, out)?,
        Datum::Null | Datum::Record(_) => {
            return Err(SqlError::internal("no stored form for a null or a record"));
        }
    }
    Ok(())
}

fn encode_interval(interval: &Interval, out: &mut Vec<u8>) {
    let biased = (interval.span() as u128).wrapping_add(1 << 127);
    out.extend_from_slice(&biased.to_be_bytes());
    out.extend_from_slice(&interval.months.to_le_bytes());
    out.extend_from_slice(&interval.days.to_le_bytes());
    out.extend_from_slice(&interval.micros.to_le_bytes());
}

/// Element oid, number of dimensions, (length, lower) each, then length-prefixed elements;
/// u32::MAX marks NULL.
fn encode_array(array: &Array, out: &mut Vec<u8>) -> SqlResult<()> {
    let physical = column_type(array.element.into())?;
    out.extend_from_slice(&array.element.0.to_le_bytes());
    out.push(array.dimensions.len() as u8);
    for dimension in &array.dimensions {
        out.extend_from_slice(&dimension.length.to_le_bytes());
        out.extend_from_slice(&dimension.lower.to_le_bytes());
    }
    for element in &array.elements {
        if element.is_null() {
            out.extend_from_slice(&u32::MAX.to_le_bytes());
            continue;
        }
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        encode(physical, element, out)?;
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

/// Reads the stored form (XX001 if it is none).
#[inline]
pub fn decode(ty: TypeOid, bytes: &[u8]) -> SqlResult<Datum> {
    let value = match ty {
        TypeOid::INT4 => bytes.try_into().ok().map(|raw| Datum::Int4(i32::from_le_bytes(raw))),
        TypeOid::INT8 => long(bytes).map(Datum::Int8),
        TypeOid::TEXT | TypeOid::VARCHAR => text(bytes),
        _ => decode_other(ty, bytes),
    };
    value.ok_or_else(|| damaged(ty))
}

fn long(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_le_bytes(bytes.try_into().ok()?))
}

fn text(bytes: &[u8]) -> Option<Datum> {
    Some(Datum::Text(Text::new(std::str::from_utf8(bytes).ok()?)))
}

fn decode_other(ty: TypeOid, bytes: &[u8]) -> Option<Datum> {
    Some(match ty {
        TypeOid::BOOL => match bytes {
            [0] => Datum::Bool(false),
            [1] => Datum::Bool(true),
            _ => return None,
        },
        TypeOid::CHAR => match bytes {
            [byte] => Datum::Char(*byte),
            _ => return None,
        },
        TypeOid::INT2 => Datum::Int2(i16::from_le_bytes(bytes.try_into().ok()?)),
        TypeOid::DATE => Datum::Date(i32::from_le_bytes(bytes.try_into().ok()?)),
        TypeOid::TIMESTAMP => Datum::Timestamp(long(bytes)?),
        TypeOid::TIMESTAMPTZ => Datum::Timestamptz(long(bytes)?),
        TypeOid::TIME => Datum::Time(long(bytes)?),
        TypeOid::XID8 => Datum::Int8(long(bytes)?),
        TypeOid::FLOAT8 => Datum::Float8(f64::from_le_bytes(bytes.try_into().ok()?)),
        TypeOid::FLOAT4 => Datum::Float4(f64::from_le_bytes(bytes.try_into().ok()?) as f32),
        TypeOid::NUMERIC => Datum::Numeric(Numeric::decode_stored(bytes)?),
        TypeOid::BPCHAR => bpchar(bytes)?,
        TypeOid::INTERVAL => interval(bytes)?,
        TypeOid::BYTEA => Datum::Bytea(Arc::from(bytes)),
        TypeOid::UUID => Datum::Uuid(Arc::new(bytes.try_into().ok()?)),
        TypeOid::NAME | TypeOid::PG_NODE_TREE | TypeOid::ACLITEM => text(bytes)?,
        TypeOid::OID | TypeOid::XID | TypeOid::CID => Datum::Oid(u32::try_from(long(bytes)?).ok()?),
        other if super::reg::is_reg_type(other) => Datum::Oid(u32::try_from(long(bytes)?).ok()?),
        _ => array(bytes)?,
    })
}

fn bpchar(bytes: &[u8]) -> Option<Datum> {
    let (body, trailer) = bytes.split_at_checked(bytes.len().checked_sub(BPCHAR_TRAILER)?)?;
    let blanks = u32::from_le_bytes(trailer.try_into().ok()?) as usize;
    if blanks == 0 {
        return text(body);
    }
    if blanks > 10_485_760 {
        return None;
    }
    let len = body.len() + blanks;
    if len <= BPCHAR_SHORT {
        // Most are: made here, and put into memory of their own once.
        let mut short = [b' '; BPCHAR_SHORT];
        short[..body.len()].copy_from_slice(body);
        return text(&short[..len]);
    }
    let mut padded = String::with_capacity(len);
    padded.push_str(std::str::from_utf8(body).ok()?);
    padded.extend(std::iter::repeat_n(' ', blanks));
    Some(Datum::Text(Text::from(padded)))
}

fn interval(bytes: &[u8]) -> Option<Datum> {
    let parts = bytes.get(16..).filter(|parts| parts.len() == INTERVAL_TRAILER)?;
    let months = i32::from_le_bytes(parts[..4].try_into().ok()?);
    let days = i32::from_le_bytes(parts[4..8].try_into().ok()?);
    Some(Interval { months, days, micros: long(&parts[8..])? }.into())
}

fn array(bytes: &[u8]) -> Option<Datum> {
    let mut rest = bytes;
    let word = |rest: &mut &[u8]| -> Option<[u8; 4]> {
        let (head, tail) = rest.split_first_chunk::<4>()?;
        *rest = tail;
        Some(*head)
    };
    let element = TypeOid(u32::from_le_bytes(word(&mut rest)?));
    let (&count, tail) = rest.split_first()?;
    rest = tail;
    let mut dimensions = Vec::new();
    let mut total = usize::from(count > 0);
    for _ in 0..count {
        let length = i32::from_le_bytes(word(&mut rest)?);
        let lower = i32::from_le_bytes(word(&mut rest)?);
        total = total.checked_mul(usize::try_from(length).ok()?)?;
        dimensions.push(Dimension { length, lower });
    }
    if total > bytes.len() {
        return None;
    }
    let mut elements = Vec::with_capacity(total);
    for _ in 0..total {
        let length = u32::from_le_bytes(word(&mut rest)?);
        if length == u32::MAX {
            elements.push(Datum::Null);
            continue;
        }
        let (value, tail) = rest.split_at_checked(length as usize)?;
        rest = tail;
        elements.push(decode(element, value).ok()?);
    }
    rest.is_empty().then(|| Array { element, dimensions, elements }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::ConstantContext;
    use crate::types::{Type, order, text as io};

    fn stored(ty: Type, input: &str) -> (Datum, Vec<u8>) {
        let value = io::input(ty, input, &ConstantContext).expect("valid input");
        let mut bytes = Vec::new();
        let physical = column_type(ty).expect("a column type");
        encode(physical, &value, &mut bytes).expect("storable");
        (value, bytes)
    }

    /// The values ascend; stored bytes must come back the same and ascend, too.
    #[track_caller]
    fn check(ty: impl Into<Type>, ascending: &[&str]) {
        let ty = ty.into();
        let physical = column_type(ty).expect("a column type");
        let rows: Vec<(Datum, Vec<u8>)> = ascending.iter().map(|text| stored(ty, text)).collect();
        for ((value, bytes), text) in rows.iter().zip(ascending) {
            let back = decode(ty.oid, bytes).expect("what was stored");
            let printed = io::output_string(ty.oid, &back, &ConstantContext);
            assert_eq!(printed, io::output_string(ty.oid, value, &ConstantContext), "{text}");
            if let Some(width) = physical.fixed_bytes() {
                assert_eq!(bytes.len(), width);
            }
        }
        let trailer = match physical {
            ColumnType::Ordered { trailer } => usize::from(trailer),
            ColumnType::Bytes if is_ordered(ty.oid) => 0,
            _ => return,
        };
        for pair in rows.windows(2) {
            let key = |bytes: &[u8]| bytes[..bytes.len() - trailer].to_vec();
            let expect = order::comparator(ty.oid).expect("ordered")(&pair[0].0, &pair[1].0);
            assert_eq!(key(&pair[0].1).cmp(&key(&pair[1].1)), expect);
        }
    }

    #[test]
    fn stored_values_come_back_in_order() {
        check(TypeOid::BOOL, &["f", "t"]);
        check(TypeOid::INT2, &["-32768", "0", "32767"]);
        check(TypeOid::INT4, &["-2147483648", "0", "2147483647"]);
        check(TypeOid::INT8, &["-9223372036854775808", "5"]);
        check(TypeOid::FLOAT8, &["-Infinity", "-0", "0.1", "NaN"]);
        check(TypeOid::FLOAT4, &["-1.5", "0.1", "3.4028235e+38"]);
        check(TypeOid::NUMERIC, &["-100.50", "-1", "0.00", "0.0", "1.0", "1.00", "99.9"]);
        let money = Type::with(TypeOid::NUMERIC, (16 << 16 | 2) + 4);
        assert_eq!(column_type(money).expect("a column type"), ColumnType::Int8);
        check(money, &["-99999999999999.99", "-0.01", "0", "7.5", "99999999999999.99", "NaN"]);
        for (precision, scale) in [(17, 2), (12, -2)] {
            let typmod = (precision << 16 | (scale & 0x7ff)) + 4;
            let wide = Type::with(TypeOid::NUMERIC, typmod);
            let physical = column_type(wide).expect("a column type");
            assert_eq!(physical, ColumnType::Ordered { trailer: 2 });
        }
        check(TypeOid::TEXT, &["", "a", "ab", "b", "ä"]);
        check(TypeOid::VARCHAR, &["", "a a", "a b"]);
        check(TypeOid::BPCHAR, &["", "   ", "a", "a  ", "a\u{1}", "ab "]);
        check(TypeOid::NAME, &["a", "b"]);
        check(TypeOid::CHAR, &["a", "b"]);
        check(TypeOid::OID, &["0", "4294967295"]);
        check(TypeOid::REGCLASS, &["0", "4294967295"]);
        check(TypeOid::DATE, &["-infinity", "1999-12-31", "infinity"]);
        check(TypeOid::TIMESTAMP, &["-infinity", "1999-12-31 01:02:03.4", "infinity"]);
        check(TypeOid::TIMESTAMPTZ, &["1999-12-31 01:02:03.4+00"]);
        check(
            TypeOid::INTERVAL,
            &["-1 mon", "-1 day", "0", "1 day", "24:00:00", "1 mon", "1 year"],
        );
        check(TypeOid::BYTEA, &["\\x", "\\x00", "\\x0001", "\\xff"]);
        check(TypeOid::UUID, &["00000000-0000-0000-0000-000000000001"]);
        check(TypeOid::TEXT_ARRAY, &["{}", "{a,NULL,\"b c\"}", "[0:1]={x,y}", "{{a,b},{c,d}}"]);
        check(TypeOid::INT2VECTOR, &["1 2 3"]);
        assert!(column_type(TypeOid::RECORD.into()).is_err());
        assert!(!is_ordered(TypeOid::INT4_ARRAY));
    }

    #[test]
    fn damaged_values_are_named() {
        for ty in
            [TypeOid::INT4, TypeOid::BOOL, TypeOid::NUMERIC, TypeOid::BPCHAR, TypeOid::TEXT_ARRAY]
        {
            let error = decode(ty, &[9, 9, 9]).expect_err("three bytes are none of these");
            assert_eq!(error.sqlstate(), SqlState::DATA_CORRUPTED);
        }
        assert!(decode(TypeOid::TEXT, &[0xff]).is_err());
    }
}
