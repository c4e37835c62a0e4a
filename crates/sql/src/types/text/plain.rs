//! Numbers as clients mostly send them: a sign, digits, at most one point.
//!
//! Invariants: what is read here, [`super::input`] reads to the same value; what is not, it reads or
//! refuses. Nothing is allocated.

use crate::types::{Datum, Numeric, TypeOid};

/// Digits that an int8 surely has room for.
const DIGITS_MAX: usize = 18;

/// The value of a plain number as `oid`, one of int2, int4, int8 and numeric (without modifier).
pub fn plain_number(oid: TypeOid, text: &[u8]) -> Option<Datum> {
    match oid {
        TypeOid::INT2 => i16::try_from(whole(text)?).ok().map(Datum::Int2),
        TypeOid::INT4 => i32::try_from(whole(text)?).ok().map(Datum::Int4),
        TypeOid::INT8 => whole(text).map(Datum::Int8),
        TypeOid::NUMERIC => {
            let (mantissa, scale) = decimal(text)?;
            Some(Datum::Numeric(Numeric::small(mantissa, scale)))
        }
        _ => None,
    }
}

fn whole(text: &[u8]) -> Option<i64> {
    match decimal(text)? {
        (value, 0) if text.last() != Some(&b'.') => Some(value),
        _ => None,
    }
}

/// The digits as one number, and how many of them are behind the point.
fn decimal(text: &[u8]) -> Option<(i64, u16)> {
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        all => (false, all),
    };
    if unsigned.len() > DIGITS_MAX {
        return None;
    }
    let (mut value, mut digits, mut point) = (0i64, 0u16, None);
    for byte in unsigned {
        match byte.wrapping_sub(b'0') {
            digit @ 0..=9 => {
                value = value * 10 + i64::from(digit);
                digits += 1;
            }
            _ if *byte == b'.' && point.is_none() => point = Some(digits),
            _ => return None,
        }
    }
    if digits == 0 {
        return None;
    }
    let scale = point.map_or(0, |point| digits - point);
    Some((if negative { -value } else { value }, scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::ConstantContext;
    use crate::types::{Type, text};

    const TYPES: [TypeOid; 4] = [TypeOid::INT2, TypeOid::INT4, TypeOid::INT8, TypeOid::NUMERIC];

    #[test]
    fn what_is_read_plainly_is_what_the_input_function_reads() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let alphabet = b"0123456789012345678901234567890123456789-+. eE_\n";
        let mut read = 0;
        for _ in 0..20_000 {
            let length = random.usize(..22);
            let bytes: Vec<u8> =
                (0..length).map(|_| alphabet[random.usize(..alphabet.len())]).collect();
            for oid in TYPES {
                let Some(value) = plain_number(oid, &bytes) else { continue };
                read += 1;
                let shown = String::from_utf8_lossy(&bytes).into_owned();
                let expected = text::input(Type::new(oid), &shown, &ConstantContext)
                    .unwrap_or_else(|error| panic!("seed {seed}: {shown:?}: {error}"));
                let form = |value: &Datum| {
                    let mut out = Vec::new();
                    text::output(oid, value, &ConstantContext, &mut out);
                    String::from_utf8(out).unwrap()
                };
                assert_eq!(form(&value), form(&expected), "seed {seed}: {shown:?} as {oid:?}");
            }
        }
        assert!(read > 1_000, "seed {seed}: only {read} were read");
    }

    #[test]
    fn limits_and_what_is_no_plain_number() {
        let read = |oid, text: &str| plain_number(oid, text.as_bytes()).is_some();
        assert!(read(TypeOid::INT2, "-32768") && !read(TypeOid::INT2, "32768"));
        assert!(read(TypeOid::INT4, "2147483647") && !read(TypeOid::INT4, "-2147483649"));
        assert!(read(TypeOid::INT8, "-999999999999999999"));
        assert!(!read(TypeOid::INT8, "9223372036854775807"), "left to the input function");
        assert!(read(TypeOid::NUMERIC, "-.5") && read(TypeOid::NUMERIC, "5."));
        for text in ["", "-", ".", "-.", "1.2.3", "1e3", "+1", " 1", "1 ", "0x1", "NaN", "--1"] {
            assert!(TYPES.iter().all(|oid| !read(*oid, text)), "{text:?}");
        }
        assert!(!read(TypeOid::INT4, "1.") && !read(TypeOid::INT4, "1.0"));
    }
}
