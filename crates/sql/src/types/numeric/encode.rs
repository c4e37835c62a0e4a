//! Numeric as bytes: the ordered storage form and the wire's binary form.
//!
//! Ordered form: class byte; for finite values other than zero the exponent of 100 of the first
//! digit (one byte + 0x80 where it is -128..=127, which class + 1 says, else four bytes
//! big-endian + 2^31 with class or class + 2) and the base-100 digits, each + 1, without zeros at
//! the end. For negative values everything after the sign is complemented and 0xFF ends them.
//! Then the display scale as u16, little-endian, which does not take part in the order
//! (`ColumnType::Ordered{trailer: 2}`).

use super::{Form, Numeric, SCALE_MAX, ten_to};
use crate::error::{SqlError, SqlResult, SqlState};
use num_bigint::{BigInt, Sign};

const NEGATIVE_INFINITY: u8 = 0x10;
const NEGATIVE: u8 = 0x20;
const ZERO: u8 = 0x30;
const POSITIVE: u8 = 0x40;
const INFINITY: u8 = 0x50;
const NAN: u8 = 0x60;
/// Low nibbles of the class byte of a positive value: how its exponent is written.
const TINY: u8 = 0;
const USUAL: u8 = 1;
const HUGE: u8 = 2;

/// Bytes after the ordered ones.
pub(crate) const TRAILER: usize = 2;

impl Numeric {
    /// Appends the ordered form and the trailer.
    pub fn encode_ordered(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Form::NegativeInfinity => out.push(NEGATIVE_INFINITY),
            Form::Infinity => out.push(INFINITY),
            Form::NaN => out.push(NAN),
            _ if self.is_zero() => out.push(ZERO),
            Form::Small { mantissa, scale } => {
                let mut text = [0u8; 20];
                let text = small_digits(mantissa.unsigned_abs(), &mut text);
                encode_digits(*mantissa < 0, text, i64::from(*scale), out);
            }
            Form::Big(big) => {
                let text = big.mantissa.magnitude().to_radix_be(10);
                let negative = big.mantissa.sign() == Sign::Minus;
                encode_digits(negative, &text, i64::from(big.scale), out);
            }
        }
        out.extend_from_slice(&self.scale().to_le_bytes());
    }

    /// Reads what [`Numeric::encode_ordered`] wrote; None if it did not.
    pub fn decode_ordered(bytes: &[u8]) -> Option<Numeric> {
        let (body, trailer) = bytes.split_at_checked(bytes.len().checked_sub(TRAILER)?)?;
        let scale = i64::from(u16::from_le_bytes(trailer.try_into().ok()?));
        let (&class, rest) = body.split_first()?;
        let (negative, form) = match class {
            NEGATIVE_INFINITY => return Some(Numeric::NEGATIVE_INFINITY),
            INFINITY => return Some(Numeric::INFINITY),
            NAN => return Some(Numeric::NAN),
            ZERO if scale <= SCALE_MAX => return Some(Numeric::small(0, scale as u16)),
            NEGATIVE..=0x22 => (true, HUGE - (class & 0x0f)),
            POSITIVE..=0x42 => (false, class & 0x0f),
            _ => return None,
        };
        let flip = if negative { 0xff } else { 0 };
        let (exponent, pairs) = if form == USUAL {
            let (&head, pairs) = rest.split_first()?;
            (i64::from(head ^ flip) - 0x80, pairs)
        } else {
            let (head, pairs) = rest.split_at_checked(4)?;
            let head: [u8; 4] = head.try_into().ok()?;
            (i64::from(u32::from_be_bytes(head.map(|byte| byte ^ flip))) - (1 << 31), pairs)
        };
        let pairs = if negative { pairs.strip_suffix(&[0xff])? } else { pairs };
        if !(-9000..=70_000).contains(&exponent) || scale > SCALE_MAX {
            return None;
        }
        if let Some(value) = small_value(pairs, exponent, scale, flip) {
            return Some(Numeric::small(if negative { -value } else { value }, scale as u16));
        }
        // value = 0.d1 d2 .. (base 100) * 100^exponent: the last digit counts 100^(exponent - n).
        let mut mantissa = BigInt::ZERO;
        let mut small = 0i128;
        for &pair in pairs {
            let digit = (pair ^ flip).checked_sub(1).filter(|digit| *digit < 100)?;
            if pairs.len() <= 18 {
                small = small * 100 + i128::from(digit);
            } else {
                mantissa = mantissa * 100 + digit;
            }
        }
        if pairs.len() <= 18 {
            mantissa = BigInt::from(small);
        }
        let unit = 2 * (pairs.len() as i64 - exponent);
        let shift = scale - unit;
        let value = if shift >= 0 {
            mantissa * ten_to(shift as u32)
        } else {
            mantissa / ten_to(shift.unsigned_abs() as u32)
        };
        Numeric::finite(if negative { -value } else { value }, scale).ok()
    }

    /// Appends the wire's binary form (numeric_send).
    pub fn send(&self, out: &mut Vec<u8>) {
        let (mantissa, scale) = self.parts();
        let sign: u16 = match self.0 {
            Form::NaN => 0xc000,
            Form::Infinity => 0xd000,
            Form::NegativeInfinity => 0xf000,
            _ if mantissa.sign() == Sign::Minus => 0x4000,
            _ => 0,
        };
        // Whole base-10000 digits around the point.
        let padding = (4 - scale % 4) % 4;
        let shifted = &mantissa * ten_to(padding as u32);
        let mut groups: Vec<u16> = Vec::new();
        let text = shifted.magnitude().to_radix_be(10);
        let lead = (4 - text.len() % 4) % 4;
        let padded: Vec<u8> = std::iter::repeat_n(0, lead).chain(text).collect();
        for group in padded.chunks_exact(4) {
            groups.push(group.iter().fold(0, |value, digit| value * 10 + u16::from(*digit)));
        }
        let mut weight = groups.len() as i64 - 1 - (scale + padding) / 4;
        while groups.last() == Some(&0) {
            groups.pop();
        }
        let zeros = groups.iter().take_while(|group| **group == 0).count();
        groups.drain(..zeros);
        weight -= zeros as i64;
        if groups.is_empty() {
            weight = 0;
        }
        // PostgreSQL reads a scale of 32 out of an infinity's header, and sends it.
        let scale = if matches!(sign, 0xd000 | 0xf000) { 0x20 } else { self.scale() };
        for field in [groups.len() as u16, weight as i16 as u16, sign, scale] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        for group in groups {
            out.extend_from_slice(&group.to_be_bytes());
        }
    }

    /// Reads the wire's binary form (22P03, 08P01 by the caller's length check).
    pub fn receive(bytes: &[u8]) -> SqlResult<Numeric> {
        let bad = |what: &str| {
            SqlError::new(
                SqlState::INVALID_BINARY_REPRESENTATION,
                format!("invalid {what} in external \"numeric\" value"),
            )
        };
        let fields: Vec<u16> =
            bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        let [count, weight, sign, scale, groups @ ..] = fields.as_slice() else {
            return Err(bad("length"));
        };
        if groups.len() != usize::from(*count) || !bytes.len().is_multiple_of(2) {
            return Err(bad("length"));
        }
        match sign {
            0xc000 => return Ok(Numeric::NAN),
            0xd000 => return Ok(Numeric::INFINITY),
            0xf000 => return Ok(Numeric::NEGATIVE_INFINITY),
            0 | 0x4000 => {}
            _ => return Err(bad("sign")),
        }
        if i64::from(*scale) > SCALE_MAX {
            return Err(bad("scale"));
        }
        let mut mantissa = BigInt::ZERO;
        for group in groups {
            if *group > 9999 {
                return Err(bad("digit"));
            }
            mantissa = mantissa * 10_000 + *group;
        }
        let unit = 4 * (i64::from(*count) - 1 - i64::from(*weight as i16));
        let mantissa = if *sign == 0 { mantissa } else { -mantissa };
        let shift = i64::from(*scale) - unit;
        let mantissa = if shift >= 0 {
            mantissa * ten_to(shift as u32)
        } else {
            mantissa / ten_to(shift.unsigned_abs() as u32)
        };
        Numeric::finite(mantissa, i64::from(*scale))
    }
}

/// The mantissa at `scale` of the digits in `pairs`, if it fits without a thought: what money and
/// counts are. None says nothing about the digits.
fn small_value(pairs: &[u8], exponent: i64, scale: i64, flip: u8) -> Option<i64> {
    /// Nine digits of base 100 fit 64 bits.
    const PAIRS_MAX: usize = 9;
    let mut value = 0_i64;
    for &pair in Some(pairs).filter(|pairs| pairs.len() <= PAIRS_MAX)? {
        let digit = (pair ^ flip).checked_sub(1).filter(|digit| *digit < 100)?;
        value = value * 100 + i64::from(digit);
    }
    // Digits after the point at the wanted scale less those that are there.
    let shift = scale - 2 * (pairs.len() as i64 - exponent);
    match shift {
        0..=18 => value.checked_mul(10_i64.pow(shift as u32)),
        // The last pair may end in a zero behind the scale's last digit.
        -1 if value % 10 == 0 => Some(value / 10),
        _ => None,
    }
}

fn small_digits(mut value: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut start = buffer.len();
    while value > 0 {
        start -= 1;
        buffer[start] = (value % 10) as u8;
        value /= 10;
    }
    &buffer[start..]
}

/// The digits (0..=9, first not zero) of mantissa / 10^scale.
fn encode_digits(negative: bool, text: &[u8], scale: i64, out: &mut Vec<u8>) {
    let flip = if negative { 0xff } else { 0 };
    let end = text.len() - text.iter().rev().take_while(|digit| **digit == 0).count();
    let before_point = text.len() as i64 - scale;
    // ceil(before_point / 2) base-100 digits stand before the point.
    let exponent = (before_point + 1).div_euclid(2);
    let form = match exponent {
        -128..=127 => USUAL,
        i64::MIN..=-129 => TINY,
        _ => HUGE,
    };
    out.push(if negative { NEGATIVE + HUGE - form } else { POSITIVE + form });
    if form == USUAL {
        out.push((exponent + 0x80) as u8 ^ flip);
    } else {
        let head = ((exponent + (1 << 31)) as u32).to_be_bytes();
        out.extend(head.map(|byte| byte ^ flip));
    }
    let odd = before_point.rem_euclid(2) == 1;
    let mut position = 0;
    if odd {
        out.push((text[0] + 1) ^ flip);
        position = 1;
    }
    while position < end {
        let low = if position + 1 < end { text[position + 1] } else { 0 };
        out.push((text[position] * 10 + low + 1) ^ flip);
        position += 2;
    }
    if negative {
        out.push(0xff);
    }
}
