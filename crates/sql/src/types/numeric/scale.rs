//! Digits, scales and rounding of big mantissas.

use super::{Form, Numeric, NumericClass, RESULT_SCALE_MAX, TEN_TO, ten_to};
use crate::error::{SqlError, SqlResult, SqlState};
use num_bigint::{BigInt, BigUint, Sign};
use std::cmp::Ordering;

/// Decimal digits of a mantissa; 1 for zero.
pub(super) fn digits(mantissa: &BigInt) -> i64 {
    digits_of(mantissa.magnitude())
}

fn digits_of(magnitude: &BigUint) -> i64 {
    if let Ok(small) = u64::try_from(magnitude) {
        return small.checked_ilog10().map_or(1, |log| i64::from(log) + 1);
    }
    // log10(2) = 0.30102999566..: the estimate is off by one at most, which a compare settles.
    let estimate = (magnitude.bits() as f64 * std::f64::consts::LOG10_2) as u32;
    let below = BigUint::from(10u8).pow(estimate);
    match magnitude.cmp(&below) {
        Ordering::Less => i64::from(estimate),
        _ if *magnitude >= below * 10u8 => i64::from(estimate) + 2,
        _ => i64::from(estimate) + 1,
    }
}

/// Both mantissas at the larger of the two scales.
pub(super) fn align(a: BigInt, s: i64, b: BigInt, t: i64) -> (BigInt, BigInt, i64) {
    match s.cmp(&t) {
        Ordering::Less => (a * ten_to((t - s) as u32), b, t),
        Ordering::Greater => (a, b * ten_to((s - t) as u32), s),
        Ordering::Equal => (a, b, s),
    }
}

/// numerator / denominator, half away from zero.
pub(super) fn divide_rounded(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    let negative = (numerator.sign() == Sign::Minus) != (denominator.sign() == Sign::Minus);
    let (n, d) = (numerator.magnitude(), denominator.magnitude());
    let mut quotient = n / d;
    let remainder = n - &quotient * d;
    if remainder * 2u8 >= *d {
        quotient += 1u8;
    }
    let sign = if negative { Sign::Minus } else { Sign::Plus };
    BigInt::from_biguint(sign, quotient)
}

/// The mantissa at a scale, rounded if that has fewer digits. The scale may be negative.
pub(super) fn round_big(mantissa: BigInt, scale: i64, to: i64) -> (BigInt, i64) {
    match scale.cmp(&to) {
        Ordering::Greater => (divide_rounded(&mantissa, &ten_to((scale - to) as u32)), to),
        Ordering::Less => (mantissa * ten_to((to - scale) as u32), to),
        Ordering::Equal => (mantissa, to),
    }
}

/// Weight and value of the first base-10000 digit (both 0 for zero): what PostgreSQL chooses
/// result scales by.
pub(super) fn leading(mantissa: &BigInt, scale: i64) -> (i64, i64) {
    if mantissa.sign() == Sign::NoSign {
        return (0, 0);
    }
    let weight = (digits(mantissa) - 1 - scale).div_euclid(4);
    (weight, leading_digits(mantissa, scale, weight, 1))
}

/// The first `count` base-10000 digits, from the one of this weight on, as one number.
pub(super) fn leading_digits(mantissa: &BigInt, scale: i64, weight: i64, count: i64) -> i64 {
    let drop = scale + 4 * (weight - count + 1);
    let magnitude = BigInt::from(mantissa.magnitude().clone());
    let part = if drop >= 0 {
        magnitude / ten_to(drop as u32)
    } else {
        magnitude * ten_to(drop.unsigned_abs() as u32)
    };
    i64::try_from(&part).unwrap_or(i64::MAX)
}

impl Numeric {
    /// `round(x, digits)`: negative digits round before the point; the scale becomes
    /// max(digits, 0).
    pub fn round(&self, to: i32) -> SqlResult<Numeric> {
        self.rescale(to, divide_rounded)
    }

    /// `trunc(x, digits)`: towards zero.
    pub fn truncate(&self, to: i32) -> SqlResult<Numeric> {
        self.rescale(to, |n, d| n / d)
    }

    fn rescale(&self, to: i32, divide: impl Fn(&BigInt, &BigInt) -> BigInt) -> SqlResult<Numeric> {
        let to = i64::from(to).clamp(-RESULT_SCALE_MAX, RESULT_SCALE_MAX);
        if !self.is_finite() {
            return Ok(self.clone());
        }
        if let Some((mantissa, scale)) = self.small_parts() {
            if i64::from(scale) == to {
                return Ok(self.clone());
            }
            if to > i64::from(scale) && to - i64::from(scale) <= 19 {
                let factor = TEN_TO[(to - i64::from(scale)) as usize];
                return Numeric::from_i128(i128::from(mantissa) * factor, to);
            }
        }
        let (mantissa, scale) = self.parts();
        if to >= scale {
            let (mantissa, scale) = round_big(mantissa, scale, to);
            return Numeric::finite(mantissa, scale);
        }
        let drop = (scale - to) as u32;
        if i64::from(drop) > digits(&mantissa) + 1 {
            return Ok(Numeric::small(0, to.max(0) as u16));
        }
        Numeric::finite(divide(&mantissa, &ten_to(drop)), to)
    }

    /// `floor(x)`.
    pub fn floor(&self) -> SqlResult<Numeric> {
        let whole = self.truncate(0)?;
        if whole > *self { whole.sub(&Numeric::small(1, 0)) } else { Ok(whole) }
    }

    /// `ceil(x)`.
    pub fn ceil(&self) -> SqlResult<Numeric> {
        let whole = self.truncate(0)?;
        if whole < *self { whole.add(&Numeric::small(1, 0)) } else { Ok(whole) }
    }

    /// `min_scale(x)`: the digits after the point that are needed.
    pub fn min_scale(&self) -> u16 {
        self.trim_scale().scale()
    }

    /// Fits the value to numeric(precision, scale): rounds, then refuses what is too large.
    pub fn fit(&self, precision: i32, scale: i32) -> SqlResult<Numeric> {
        let field = |detail: String| {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
                .detail(detail)
        };
        match self.class() {
            NumericClass::NaN => return Ok(self.clone()),
            NumericClass::Finite => {}
            _ => {
                return Err(field(format!(
                    "A field with precision {precision}, scale {scale} cannot hold an infinite value."
                )));
            }
        }
        let rounded = self.round(scale)?;
        let allowed = i64::from(precision - scale);
        let fits = match &rounded.0 {
            Form::Small { mantissa: 0, .. } => true,
            Form::Small { mantissa, scale } => {
                let places = mantissa.unsigned_abs().ilog10() + 1;
                i64::from(places) - i64::from(*scale) <= allowed
            }
            _ => {
                let (mantissa, scale) = rounded.parts();
                digits(&mantissa) - scale <= allowed
            }
        };
        if fits {
            return Ok(rounded);
        }
        let bound = if allowed == 0 { "1".to_owned() } else { format!("10^{allowed}") };
        Err(field(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
        )))
    }
}
