//! numeric: decimal numbers with PostgreSQL's scale and rounding rules.
//!
//! Invariants: a finite value is mantissa / 10^scale, scale being the display scale
//! (0..=16383); it is `Small` exactly when the mantissa fits 64 bits, so equal values of equal
//! scale have equal forms. Big mantissas are num-bigint's; `rust_decimal` (28 digits) and
//! `bigdecimal` (no display scale, other rounding) were looked at and do not give PostgreSQL's
//! answers. Every rounding is half away from zero.

mod arithmetic;
mod convert;
mod encode;
mod power;
mod scale;
mod scaled;

use crate::error::{SqlError, SqlResult, SqlState};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;
use std::sync::Arc;

pub(crate) use convert::float_text;
pub(crate) use encode::TRAILER;
pub(crate) use scaled::{Among, is_scaled};

/// The largest display scale a value may have.
pub(crate) const SCALE_MAX: i64 = 16_383;
/// Digits before the point that a value may have: (32767 + 1) * 4.
const INTEGER_DIGITS_MAX: i64 = 131_072;
/// The largest precision and scale of a modifier, and display scale of a quotient.
pub(crate) const DISPLAY_SCALE_MAX: i64 = 1000;
const RESULT_SCALE_MAX: i64 = 2000;
const SIGNIFICANT_DIGITS_MIN: i64 = 16;

/// A numeric value.
#[derive(Clone, Debug)]
pub struct Numeric(Form);

#[derive(Clone, Debug)]
enum Form {
    Small { mantissa: i64, scale: u16 },
    Big(Arc<Big>),
    NaN,
    Infinity,
    NegativeInfinity,
}

#[derive(Debug)]
struct Big {
    mantissa: BigInt,
    scale: u16,
}

/// What kind of value a numeric is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumericClass {
    /// A number.
    Finite,
    /// Not a number.
    NaN,
    /// Above every number.
    Infinity,
    /// Below every number.
    NegativeInfinity,
}

/// `value overflows numeric format` (22003).
#[cold]
fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

/// 10^n.
fn ten_to(n: u32) -> BigInt {
    BigInt::from(10u8).pow(n)
}

const fn powers_of_ten() -> [i128; 39] {
    let mut table = [1i128; 39];
    let mut index = 1;
    while index < 39 {
        table[index] = table[index - 1] * 10;
        index += 1;
    }
    table
}

/// 10^0 to 10^38.
static TEN_TO: [i128; 39] = powers_of_ten();

impl Numeric {
    /// Zero without digits after the point.
    pub const ZERO: Numeric = Numeric(Form::Small { mantissa: 0, scale: 0 });
    /// Not a number: equal to itself, above everything.
    pub const NAN: Numeric = Numeric(Form::NaN);
    /// Above every number.
    pub const INFINITY: Numeric = Numeric(Form::Infinity);
    /// Below every number.
    pub const NEGATIVE_INFINITY: Numeric = Numeric(Form::NegativeInfinity);

    /// mantissa / 10^scale.
    pub const fn small(mantissa: i64, scale: u16) -> Numeric {
        Numeric(Form::Small { mantissa, scale })
    }

    /// mantissa / 10^scale, with no bound on the size (22003 beyond the format).
    fn finite(mantissa: BigInt, scale: i64) -> SqlResult<Numeric> {
        if scale < 0 {
            let mantissa = mantissa * ten_to(scale.unsigned_abs() as u32);
            return Numeric::finite(mantissa, 0);
        }
        if scale > SCALE_MAX {
            let (mantissa, scale) = scale::round_big(mantissa, scale, SCALE_MAX);
            return Numeric::finite(mantissa, scale);
        }
        match i64::try_from(&mantissa) {
            Ok(mantissa) => Ok(Numeric::small(mantissa, scale as u16)),
            Err(_) => {
                // Three bits hold less than one digit: below this bound no count is needed.
                let bits = mantissa.bits() as i64;
                if bits > 3 * INTEGER_DIGITS_MAX
                    && scale::digits(&mantissa) - scale > INTEGER_DIGITS_MAX
                {
                    return Err(overflow());
                }
                Ok(Numeric(Form::Big(Arc::new(Big { mantissa, scale: scale as u16 }))))
            }
        }
    }

    fn from_i128(mantissa: i128, scale: i64) -> SqlResult<Numeric> {
        match i64::try_from(mantissa) {
            Ok(small) if scale <= SCALE_MAX => Ok(Numeric::small(small, scale as u16)),
            _ => Numeric::finite(BigInt::from(mantissa), scale),
        }
    }

    /// The kind of value.
    pub fn class(&self) -> NumericClass {
        match self.0 {
            Form::Small { .. } | Form::Big(_) => NumericClass::Finite,
            Form::NaN => NumericClass::NaN,
            Form::Infinity => NumericClass::Infinity,
            Form::NegativeInfinity => NumericClass::NegativeInfinity,
        }
    }

    /// Is it NaN?
    pub fn is_nan(&self) -> bool {
        matches!(self.0, Form::NaN)
    }

    /// Is it a number?
    pub fn is_finite(&self) -> bool {
        self.class() == NumericClass::Finite
    }

    /// Is it zero?
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Form::Small { mantissa: 0, .. })
    }

    /// -1, 0 or 1; NaN counts as positive.
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Form::Small { mantissa, .. } => mantissa.signum() as i32,
            Form::Big(big) if big.mantissa.sign() == Sign::Minus => -1,
            Form::NegativeInfinity => -1,
            _ => 1,
        }
    }

    /// The display scale: digits printed after the point.
    pub fn scale(&self) -> u16 {
        match &self.0 {
            Form::Small { scale, .. } => *scale,
            Form::Big(big) => big.scale,
            _ => 0,
        }
    }

    /// Mantissa and scale of a finite value; zero for the others.
    fn parts(&self) -> (BigInt, i64) {
        match &self.0 {
            Form::Small { mantissa, scale } => (BigInt::from(*mantissa), i64::from(*scale)),
            Form::Big(big) => (big.mantissa.clone(), i64::from(big.scale)),
            _ => (BigInt::ZERO, 0),
        }
    }

    /// Mantissa and scale where the mantissa has 64 bits.
    #[inline]
    fn small_parts(&self) -> Option<(i64, u16)> {
        match self.0 {
            Form::Small { mantissa, scale } => Some((mantissa, scale)),
            _ => None,
        }
    }

    /// Reads numeric's text form: digits, point, exponent, NaN, Infinity (22P02, 22003).
    pub fn parse(text: &str) -> SqlResult<Numeric> {
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
        let bad = || {
            SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for type numeric: \"{text}\""),
            )
        };
        let (negative, unsigned) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        match unsigned.to_ascii_lowercase().as_str() {
            "nan" if unsigned.len() == trimmed.len() => return Ok(Numeric::NAN),
            "infinity" | "inf" if negative => return Ok(Numeric::NEGATIVE_INFINITY),
            "infinity" | "inf" => return Ok(Numeric::INFINITY),
            _ => {}
        }
        let (number, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], parse_exponent(&unsigned[at + 1..]).ok_or_else(bad)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return Err(bad());
        }
        if !(-20_000..=140_000).contains(&exponent) {
            return Err(overflow());
        }
        let scale = fraction.len() as i64 - exponent;
        let significant = whole.trim_start_matches('0').len() as i64;
        if scale > SCALE_MAX || (significant > 0 && significant + exponent > INTEGER_DIGITS_MAX) {
            // Told before the digits are read, which takes long for many.
            return Err(overflow());
        }
        if whole.len() + fraction.len() <= 18 {
            let magnitude = fold_digits(fold_digits(0, whole), fraction);
            let mantissa = if negative { -magnitude } else { magnitude };
            if (0..=SCALE_MAX).contains(&scale) {
                return Ok(Numeric::small(mantissa, scale as u16));
            }
            return Numeric::finite(BigInt::from(mantissa), scale);
        }
        let digits = [whole.as_bytes(), fraction.as_bytes()].concat();
        let mantissa = BigInt::parse_bytes(&digits, 10).ok_or_else(bad)?;
        Numeric::finite(if negative { -mantissa } else { mantissa }, scale)
    }

    /// Appends the text form, with exactly `scale` digits after the point.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut small = [0; U64_DIGITS_MAX];
        let large;
        let (negative, digits, scale) = match &self.0 {
            Form::Small { mantissa, scale } => {
                let digits = write_digits(mantissa.unsigned_abs(), &mut small);
                (*mantissa < 0, digits, usize::from(*scale))
            }
            Form::Big(big) => {
                large = big.mantissa.magnitude().to_str_radix(10);
                (big.mantissa.sign() == Sign::Minus, large.as_bytes(), usize::from(big.scale))
            }
            Form::NaN => return out.extend_from_slice(b"NaN"),
            Form::Infinity => return out.extend_from_slice(b"Infinity"),
            Form::NegativeInfinity => return out.extend_from_slice(b"-Infinity"),
        };
        if negative {
            out.push(b'-');
        }
        if digits.len() > scale {
            out.extend_from_slice(&digits[..digits.len() - scale]);
        } else {
            out.push(b'0');
        }
        if scale > 0 {
            out.push(b'.');
            out.resize(out.len() + scale.saturating_sub(digits.len()), b'0');
            out.extend_from_slice(&digits[digits.len().saturating_sub(scale)..]);
        }
    }

    /// The value without zeros at the end of its fraction (`trim_scale`).
    pub fn trim_scale(&self) -> Numeric {
        match &self.0 {
            Form::Small { mantissa, scale } => {
                let (mut mantissa, mut scale) = (*mantissa, *scale);
                if mantissa == 0 {
                    scale = 0;
                }
                while scale > 0 && mantissa % 10 == 0 {
                    mantissa /= 10;
                    scale -= 1;
                }
                Numeric::small(mantissa, scale)
            }
            Form::Big(big) => {
                let text = big.mantissa.magnitude().to_str_radix(10);
                let zeros = text.len() - text.trim_end_matches('0').len();
                let drop = zeros.min(usize::from(big.scale));
                let mantissa = &big.mantissa / ten_to(drop as u32);
                Numeric::finite(mantissa, i64::from(big.scale) - drop as i64)
                    .expect("fewer digits than a value that fitted")
            }
            _ => self.clone(),
        }
    }

    fn rank(&self) -> u8 {
        match self.0 {
            Form::NegativeInfinity => 0,
            Form::Small { .. } | Form::Big(_) => 1,
            Form::Infinity => 2,
            Form::NaN => 3,
        }
    }
}

/// Digits of the largest u64.
const U64_DIGITS_MAX: usize = 20;

fn write_digits(value: u64, buffer: &mut [u8; U64_DIGITS_MAX]) -> &[u8] {
    let (mut start, mut rest) = (buffer.len(), value);
    loop {
        start -= 1;
        buffer[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &buffer[start..];
        }
    }
}

fn fold_digits(start: i64, digits: &str) -> i64 {
    digits.bytes().fold(start, |value, byte| value * 10 + i64::from(byte - b'0'))
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse::<i64>().unwrap_or(i64::from(i32::MAX));
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        if let (Some((a, s)), Some((b, t))) = (self.small_parts(), other.small_parts()) {
            if s == t {
                return a.cmp(&b);
            }
            let shift = usize::from(s.abs_diff(t));
            if shift <= 19 {
                let (a, b) = (i128::from(a), i128::from(b));
                let factor = TEN_TO[shift];
                return if s < t { (a * factor).cmp(&b) } else { a.cmp(&(b * factor)) };
            }
        }
        if self.rank() != 1 || other.rank() != 1 {
            return self.rank().cmp(&other.rank());
        }
        let ((a, s), (b, t)) = (self.parts(), other.parts());
        if a.sign() != b.sign() || a.sign() == Sign::NoSign {
            return a.sign().cmp(&b.sign());
        }
        // Magnitudes far apart need no aligning.
        let weight =
            |m: &BigInt, scale: i64| m.bits() as f64 * std::f64::consts::LOG10_2 - scale as f64;
        let (high, low) = (weight(&a, s), weight(&b, t));
        if (high - low).abs() > 2.0 {
            return if (high > low) == (a.sign() == Sign::Plus) {
                Ordering::Greater
            } else {
                Ordering::Less
            };
        }
        let (a, b, _) = scale::align(a, s, b, t);
        a.cmp(&b)
    }
}

impl std::hash::Hash for Numeric {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let trimmed = self.trim_scale();
        trimmed.rank().hash(state);
        match &trimmed.0 {
            Form::Small { mantissa, scale } => (mantissa, scale).hash(state),
            Form::Big(big) => (&big.mantissa, big.scale).hash(state),
            _ => {}
        }
    }
}

impl std::fmt::Display for Numeric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = Vec::new();
        self.write(&mut out);
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

#[cfg(test)]
mod tests;
