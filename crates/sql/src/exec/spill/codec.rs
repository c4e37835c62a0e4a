//! Values as bytes of temporary files.
//!
//! Invariants: reading gives back exactly what was written, display scales included; nobody but
//! the process that wrote them reads these bytes, so they have no version.

use crate::error::{SqlError, SqlResult};
use crate::types::{Array, Datum, Dimension, Interval, Numeric, Record, TypeOid};
use std::sync::Arc;

/// Appends a value.
pub(super) fn write(value: &Datum, out: &mut Vec<u8>) {
    match value {
        Datum::Null => out.push(0),
        Datum::Bool(value) => out.extend_from_slice(&[1, u8::from(*value)]),
        Datum::Char(value) => out.extend_from_slice(&[2, *value]),
        Datum::Int2(value) => fixed(3, &value.to_le_bytes(), out),
        Datum::Int4(value) => fixed(4, &value.to_le_bytes(), out),
        Datum::Int8(value) => fixed(5, &value.to_le_bytes(), out),
        Datum::Float4(value) => fixed(6, &value.to_le_bytes(), out),
        Datum::Float8(value) => fixed(7, &value.to_le_bytes(), out),
        Datum::Oid(value) => fixed(8, &value.to_le_bytes(), out),
        Datum::Date(value) => fixed(9, &value.to_le_bytes(), out),
        Datum::Time(value) => fixed(10, &value.to_le_bytes(), out),
        Datum::Timestamp(value) => fixed(11, &value.to_le_bytes(), out),
        Datum::Timestamptz(value) => fixed(12, &value.to_le_bytes(), out),
        Datum::Interval(value) => {
            fixed(13, &value.months.to_le_bytes(), out);
            out.extend_from_slice(&value.days.to_le_bytes());
            out.extend_from_slice(&value.micros.to_le_bytes());
        }
        Datum::Numeric(value) => {
            out.push(14);
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            value.encode_ordered(out);
            let length = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
        Datum::Text(value) => sized(15, value.as_bytes(), out),
        Datum::Bytea(value) => sized(16, value, out),
        Datum::Uuid(value) => fixed(17, &value[..], out),
        Datum::Array(array) => {
            fixed(18, &array.element.0.to_le_bytes(), out);
            number(array.dimensions.len(), out);
            for dimension in &array.dimensions {
                out.extend_from_slice(&dimension.length.to_le_bytes());
                out.extend_from_slice(&dimension.lower.to_le_bytes());
            }
            number(array.elements.len(), out);
            array.elements.iter().for_each(|element| write(element, out));
        }
        Datum::Record(record) => {
            out.push(19);
            number(record.fields.len(), out);
            for (field, ty) in record.fields.iter().zip(&record.types) {
                out.extend_from_slice(&ty.0.to_le_bytes());
                write(field, out);
            }
        }
    }
}

fn fixed(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

fn sized(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    number(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn number(value: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value as u32).to_le_bytes());
}

/// Reads a value and moves on behind it.
pub(super) fn read(from: &mut &[u8]) -> SqlResult<Datum> {
    Ok(match take(from)? {
        [0] => Datum::Null,
        [1] => Datum::Bool(take::<1>(from)?[0] != 0),
        [2] => Datum::Char(take::<1>(from)?[0]),
        [3] => Datum::Int2(i16::from_le_bytes(take(from)?)),
        [4] => Datum::Int4(i32::from_le_bytes(take(from)?)),
        [5] => Datum::Int8(i64::from_le_bytes(take(from)?)),
        [6] => Datum::Float4(f32::from_le_bytes(take(from)?)),
        [7] => Datum::Float8(f64::from_le_bytes(take(from)?)),
        [8] => Datum::Oid(u32::from_le_bytes(take(from)?)),
        [9] => Datum::Date(i32::from_le_bytes(take(from)?)),
        [10] => Datum::Time(i64::from_le_bytes(take(from)?)),
        [11] => Datum::Timestamp(i64::from_le_bytes(take(from)?)),
        [12] => Datum::Timestamptz(i64::from_le_bytes(take(from)?)),
        [13] => {
            let months = i32::from_le_bytes(take(from)?);
            let days = i32::from_le_bytes(take(from)?);
            let micros = i64::from_le_bytes(take(from)?);
            Datum::Interval(Arc::new(Interval { months, days, micros }))
        }
        [14] => Datum::Numeric(Numeric::decode_ordered(bytes(from)?).ok_or_else(damaged)?),
        [15] => Datum::text(std::str::from_utf8(bytes(from)?).map_err(|_| damaged())?),
        [16] => Datum::Bytea(bytes(from)?.into()),
        [17] => Datum::Uuid(Arc::new(take(from)?)),
        [18] => array(from)?,
        [19] => {
            let count = length(from)?;
            let (mut types, mut fields) = (Vec::new(), Vec::new());
            for _ in 0..count {
                types.push(TypeOid(u32::from_le_bytes(take(from)?)));
                fields.push(read(from)?);
            }
            Datum::Record(Arc::new(Record { types, fields }))
        }
        _ => return Err(damaged()),
    })
}

fn array(from: &mut &[u8]) -> SqlResult<Datum> {
    let element = TypeOid(u32::from_le_bytes(take(from)?));
    let mut dimensions = Vec::new();
    for _ in 0..length(from)? {
        let length = i32::from_le_bytes(take(from)?);
        let lower = i32::from_le_bytes(take(from)?);
        dimensions.push(Dimension { length, lower });
    }
    let mut elements = Vec::new();
    for _ in 0..length(from)? {
        elements.push(read(from)?);
    }
    Ok(Datum::Array(Arc::new(Array { element, dimensions, elements })))
}

fn take<const N: usize>(from: &mut &[u8]) -> SqlResult<[u8; N]> {
    let (taken, rest) = from.split_first_chunk::<N>().ok_or_else(damaged)?;
    *from = rest;
    Ok(*taken)
}

fn length(from: &mut &[u8]) -> SqlResult<usize> {
    Ok(u32::from_le_bytes(take(from)?) as usize)
}

fn bytes<'b>(from: &mut &'b [u8]) -> SqlResult<&'b [u8]> {
    let length = length(from)?;
    let (taken, rest) = from.split_at_checked(length).ok_or_else(damaged)?;
    *from = rest;
    Ok(taken)
}

fn damaged() -> SqlError {
    SqlError::internal("a temporary file has other bytes than were written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_went() {
        let long = "x".repeat(100);
        let numeric = |text: &str| Datum::Numeric(Numeric::parse(text).unwrap());
        let array = Array::of(TypeOid::INT4, vec![Datum::Int4(1), Datum::Null]);
        let values = [
            Datum::Null,
            Datum::Bool(true),
            Datum::Char(b'x'),
            Datum::Int2(-1),
            Datum::Int4(7),
            Datum::Int8(i64::MIN),
            Datum::Float4(1.5),
            Datum::Float8(-0.0),
            Datum::Oid(9),
            Datum::Date(-3),
            Datum::Time(1),
            Datum::Timestamp(2),
            Datum::Timestamptz(3),
            Interval { months: 1, days: -2, micros: 3 }.into(),
            numeric("0.00"),
            numeric("-12345678901234567890.1200"),
            numeric("NaN"),
            Datum::text(""),
            Datum::text(&long),
            Datum::Bytea([1, 2, 3][..].into()),
            Datum::Uuid(Arc::new([7; 16])),
            array.into(),
            Datum::Record(Arc::new(Record {
                types: vec![TypeOid::TEXT, TypeOid::INT8],
                fields: vec![Datum::text("a"), Datum::Null],
            })),
        ];
        let mut bytes = Vec::new();
        values.iter().for_each(|value| write(value, &mut bytes));
        let mut rest = bytes.as_slice();
        for value in &values {
            assert_eq!(format!("{:?}", read(&mut rest).unwrap()), format!("{value:?}"));
        }
        assert!(rest.is_empty());
        assert!(read(&mut rest).is_err());
        assert!(read(&mut &[15, 200, 0, 0, 0, b'x'][..]).is_err());
    }
}
