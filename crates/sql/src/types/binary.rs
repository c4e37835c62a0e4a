//! Binary wire input and output of every type (the *recv and *send functions).
//!
//! Invariants: every length is checked on the value's own bytes; numbers are big-endian as the
//! protocol has them. The caller has read the value's length and passes exactly its bytes.

use super::{Array, Datum, Dimension, Interval, Numeric, Record, Type, TypeOid, reg, typmod};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{CastContext, FunctionContext};
use std::sync::Arc;

/// Reads a binary parameter or COPY field (22P03, 22021); the modifier is applied as in
/// assignment.
pub fn receive(ty: Type, bytes: &[u8], context: &dyn FunctionContext) -> SqlResult<Datum> {
    let value = read(ty.oid, bytes, context)?;
    if ty.typmod < 0 && ty.oid != TypeOid::NAME {
        return Ok(value);
    }
    typmod::coerce(value, ty, CastContext::Assignment)
}

#[cold]
fn incorrect() -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}

fn fixed<const N: usize>(bytes: &[u8]) -> SqlResult<[u8; N]> {
    bytes.try_into().map_err(|_| incorrect())
}

/// Checks text that comes in (22021).
pub(crate) fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    let refuse = |at: usize| {
        let shown: Vec<String> =
            bytes[at..].iter().take(4).map(|byte| format!("0x{byte:02x}")).collect();
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
        )
    };
    if bytes.contains(&0) {
        return Err(SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    std::str::from_utf8(bytes).map_err(|error| refuse(error.valid_up_to()))
}

fn read(oid: TypeOid, bytes: &[u8], context: &dyn FunctionContext) -> SqlResult<Datum> {
    Ok(match oid {
        TypeOid::INT2 => Datum::Int2(i16::from_be_bytes(fixed(bytes)?)),
        TypeOid::INT4 => Datum::Int4(i32::from_be_bytes(fixed(bytes)?)),
        TypeOid::INT8 | TypeOid::XID8 => Datum::Int8(i64::from_be_bytes(fixed(bytes)?)),
        TypeOid::BOOL => Datum::Bool(fixed::<1>(bytes)?[0] != 0),
        TypeOid::CHAR => Datum::Char(fixed::<1>(bytes)?[0]),
        TypeOid::FLOAT4 => Datum::Float4(f32::from_be_bytes(fixed(bytes)?)),
        TypeOid::FLOAT8 => Datum::Float8(f64::from_be_bytes(fixed(bytes)?)),
        TypeOid::NUMERIC => Datum::Numeric(Numeric::receive(bytes)?),
        TypeOid::OID | TypeOid::XID | TypeOid::CID => Datum::Oid(u32::from_be_bytes(fixed(bytes)?)),
        TypeOid::TEXT
        | TypeOid::VARCHAR
        | TypeOid::BPCHAR
        | TypeOid::NAME
        | TypeOid::UNKNOWN
        | TypeOid::CSTRING => Datum::text(utf8(bytes)?),
        TypeOid::BYTEA => Datum::Bytea(Arc::from(bytes)),
        TypeOid::UUID => Datum::Uuid(Arc::new(fixed(bytes)?)),
        TypeOid::DATE => {
            let days = i32::from_be_bytes(fixed(bytes)?);
            let known = !super::datetime::is_finite_date(days)
                || super::datetime::check_date(i64::from(days)).is_some();
            known.then_some(Datum::Date(days)).ok_or_else(super::datetime::date_out_of_range)?
        }
        TypeOid::TIME => {
            let micros = i64::from_be_bytes(fixed(bytes)?);
            if !(0..=super::datetime::DAY).contains(&micros) {
                return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range"));
            }
            Datum::Time(micros)
        }
        TypeOid::TIMESTAMP => Datum::Timestamp(timestamp(bytes)?),
        TypeOid::TIMESTAMPTZ => Datum::Timestamptz(timestamp(bytes)?),
        TypeOid::INTERVAL => {
            let raw: [u8; 16] = fixed(bytes)?;
            let micros = i64::from_be_bytes(fixed(&raw[..8])?);
            let days = i32::from_be_bytes(fixed(&raw[8..12])?);
            Interval { months: i32::from_be_bytes(fixed(&raw[12..])?), days, micros }.into()
        }
        other if reg::is_reg_type(other) => Datum::Oid(u32::from_be_bytes(fixed(bytes)?)),
        other => match other.element_type() {
            Some(element) => array(other, element, bytes, context)?,
            None => {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("no binary input function available for type {other}"),
                ));
            }
        },
    })
}

fn timestamp(bytes: &[u8]) -> SqlResult<i64> {
    let micros = i64::from_be_bytes(fixed(bytes)?);
    let known =
        !super::datetime::is_finite(micros) || super::datetime::check_timestamp(micros).is_some();
    known.then_some(micros).ok_or_else(super::datetime::timestamp_out_of_range)
}

fn word(rest: &mut &[u8]) -> SqlResult<i32> {
    let (head, tail) = rest.split_first_chunk::<4>().ok_or_else(incorrect)?;
    *rest = tail;
    Ok(i32::from_be_bytes(*head))
}

fn array(
    ty: TypeOid,
    element: TypeOid,
    bytes: &[u8],
    context: &dyn FunctionContext,
) -> SqlResult<Datum> {
    let mut rest = bytes;
    let count = word(&mut rest)?;
    let flags = word(&mut rest)?;
    let sent = TypeOid(word(&mut rest)? as u32);
    if !(0..=6).contains(&count) || !(0..=1).contains(&flags) {
        return Err(incorrect());
    }
    if sent != element {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "binary data has array element type {} ({sent}) instead of expected {} ({element})",
                sent.0, element.0
            ),
        ));
    }
    let mut dimensions = Vec::new();
    let mut total = usize::from(count > 0);
    for _ in 0..count {
        let (length, lower) = (word(&mut rest)?, word(&mut rest)?);
        let length_checked = usize::try_from(length).map_err(|_| incorrect())?;
        total = total.checked_mul(length_checked).ok_or_else(incorrect)?;
        let dimension = Dimension { length, lower };
        dimension.check()?;
        dimensions.push(dimension);
    }
    // Every element takes four bytes at least.
    if total > rest.len() / 4 {
        return Err(incorrect());
    }
    let mut elements = Vec::with_capacity(total);
    for _ in 0..total {
        let length = word(&mut rest)?;
        if length == -1 {
            elements.push(Datum::Null);
            continue;
        }
        let length = usize::try_from(length).map_err(|_| incorrect())?;
        let (value, tail) = rest.split_at_checked(length).ok_or_else(incorrect)?;
        rest = tail;
        elements.push(read(element, value, context)?);
    }
    if !rest.is_empty() {
        return Err(incorrect());
    }
    if total == 0 {
        dimensions.clear();
    }
    if matches!(ty, TypeOid::INT2VECTOR | TypeOid::OIDVECTOR) {
        return Ok(Array::vector(element, elements).into());
    }
    Ok(Array { element, dimensions, elements }.into())
}

/// Appends the binary form. The value is not NULL. 42883 for types without one.
pub fn send(ty: TypeOid, value: &Datum, out: &mut Vec<u8>) -> SqlResult<()> {
    match value {
        Datum::Int4(value) | Datum::Date(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int8(value)
        | Datum::Time(value)
        | Datum::Timestamp(value)
        | Datum::Timestamptz(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Text(_) if matches!(ty, TypeOid::ACLITEM) => return Err(no_output(ty)),
        Datum::Text(value) => out.extend_from_slice(value.as_bytes()),
        Datum::Int2(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Char(value) => out.push(*value),
        Datum::Float4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Numeric(value) => value.send(out),
        Datum::Bytea(value) => out.extend_from_slice(value),
        Datum::Uuid(value) => out.extend_from_slice(value.as_slice()),
        Datum::Interval(value) => {
            out.extend_from_slice(&value.micros.to_be_bytes());
            out.extend_from_slice(&value.days.to_be_bytes());
            out.extend_from_slice(&value.months.to_be_bytes());
        }
        Datum::Array(value) => send_array(value, out)?,
        Datum::Record(value) => send_record(value, out)?,
        Datum::Null => return Err(SqlError::internal("NULL has no binary form")),
    }
    Ok(())
}

fn no_output(ty: TypeOid) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("no binary output function available for type {ty}"),
    )
}

/// Appends a value behind its length; -1 for NULL.
pub(crate) fn send_field(ty: TypeOid, value: &Datum, out: &mut Vec<u8>) -> SqlResult<()> {
    if value.is_null() {
        out.extend_from_slice(&(-1i32).to_be_bytes());
        return Ok(());
    }
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    send(ty, value, out)?;
    let length = (out.len() - at - 4) as i32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn send_array(array: &Array, out: &mut Vec<u8>) -> SqlResult<()> {
    let nulls = i32::from(array.elements.iter().any(Datum::is_null));
    out.extend_from_slice(&(array.dimensions.len() as i32).to_be_bytes());
    out.extend_from_slice(&nulls.to_be_bytes());
    out.extend_from_slice(&array.element.0.to_be_bytes());
    for dimension in &array.dimensions {
        out.extend_from_slice(&dimension.length.to_be_bytes());
        out.extend_from_slice(&dimension.lower.to_be_bytes());
    }
    array.elements.iter().try_for_each(|element| send_field(array.element, element, out))
}

fn send_record(record: &Record, out: &mut Vec<u8>) -> SqlResult<()> {
    out.extend_from_slice(&(record.fields.len() as i32).to_be_bytes());
    for (ty, field) in record.types.iter().zip(&record.fields) {
        out.extend_from_slice(&ty.0.to_be_bytes());
        send_field(*ty, field, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::ConstantContext;
    use crate::types::text;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// `expect` is what PostgreSQL's send function gives.
    #[track_caller]
    fn check(ty: TypeOid, input: &str, expect: &str) {
        let value = text::input(Type::new(ty), input, &ConstantContext).expect("valid input");
        let mut out = Vec::new();
        send(ty, &value, &mut out).expect("has a binary form");
        assert_eq!(hex(&out), expect, "{input}");
        let back = receive(Type::new(ty), &out, &ConstantContext).expect("what was sent");
        let printed = text::output_string(ty, &back, &ConstantContext);
        assert_eq!(printed, text::output_string(ty, &value, &ConstantContext));
    }

    #[test]
    fn values_are_sent_as_postgresql_sends_them() {
        for line in include_str!("binary_tests.tsv").lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let ty = crate::types::type_by_name(fields[0]).expect("a type").oid;
            check(ty, fields[1], fields[2]);
        }
    }

    #[test]
    fn malformed_values_are_refused() {
        let refuse = |ty: TypeOid, bytes: &[u8]| {
            let error = receive(Type::new(ty), bytes, &ConstantContext).expect_err("malformed");
            error.sqlstate().to_string()
        };
        assert_eq!(refuse(TypeOid::INT4, &[1, 2, 3]), "22P03");
        assert_eq!(refuse(TypeOid::NUMERIC, &[0, 1, 0, 0, 0, 0, 0, 0]), "22P03");
        assert_eq!(refuse(TypeOid::TEXT, &[0xff]), "22021");
        assert_eq!(refuse(TypeOid::TEXT, b"a\0b"), "22021");
        assert_eq!(
            refuse(
                TypeOid::INT4_ARRAY,
                &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]
            ),
            "54000"
        );
        let mut seed = fastrand::Rng::with_seed(7);
        for _ in 0..3000 {
            let bytes: Vec<u8> = (0..seed.usize(0..40)).map(|_| seed.u8(0..3)).collect();
            let _ = receive(Type::new(TypeOid::INT4_ARRAY), &bytes, &ConstantContext);
        }
    }
}
