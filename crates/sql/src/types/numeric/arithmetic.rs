//! + - * / % and their relatives, with PostgreSQL's result scales.

use super::scale::{align, divide_rounded, leading};
use super::{
    DISPLAY_SCALE_MAX, Form, Numeric, NumericClass, SIGNIFICANT_DIGITS_MIN, TEN_TO, ten_to,
};
use crate::error::SqlResult;
use crate::functions::fast::division_by_zero;
use num_bigint::BigInt;

use NumericClass::{Finite, Infinity, NaN, NegativeInfinity};

impl Numeric {
    /// x + y: the larger scale.
    pub fn add(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let (Some((a, s)), Some((b, t))) = (self.small_parts(), other.small_parts()) {
            if let Some(sum) = a.checked_add(b).filter(|_| s == t) {
                return Ok(Numeric::small(sum, s));
            }
            let shift = usize::from(s.abs_diff(t));
            if shift <= 18 {
                let (a, b) = (i128::from(a), i128::from(b));
                let factor = TEN_TO[shift];
                let sum = if s < t { a * factor + b } else { a + b * factor };
                return Numeric::from_i128(sum, i64::from(s.max(t)));
            }
        }
        match (self.class(), other.class()) {
            (NaN, _) | (_, NaN) => Ok(Numeric::NAN),
            (Finite, Finite) => {
                let ((a, s), (b, t)) = (self.parts(), other.parts());
                let (a, b, scale) = align(a, s, b, t);
                Numeric::finite(a + b, scale)
            }
            (Infinity, NegativeInfinity) | (NegativeInfinity, Infinity) => Ok(Numeric::NAN),
            (Finite, _) => Ok(other.clone()),
            _ => Ok(self.clone()),
        }
    }

    /// x - y: the larger scale.
    pub fn sub(&self, other: &Numeric) -> SqlResult<Numeric> {
        self.add(&other.neg())
    }

    /// -x.
    pub fn neg(&self) -> Numeric {
        match &self.0 {
            Form::Small { mantissa, scale } => match mantissa.checked_neg() {
                Some(mantissa) => Numeric::small(mantissa, *scale),
                None => Numeric::finite(-BigInt::from(*mantissa), i64::from(*scale))
                    .expect("19 digits fit"),
            },
            Form::Big(big) => Numeric::finite(-big.mantissa.clone(), i64::from(big.scale))
                .expect("as many digits as before"),
            Form::NaN => Numeric::NAN,
            Form::Infinity => Numeric::NEGATIVE_INFINITY,
            Form::NegativeInfinity => Numeric::INFINITY,
        }
    }

    /// |x|.
    pub fn abs(&self) -> Numeric {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// x * y: the scales added.
    pub fn mul(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let (Some((a, s)), Some((b, t))) = (self.small_parts(), other.small_parts()) {
            return Numeric::from_i128(i128::from(a) * i128::from(b), i64::from(s) + i64::from(t));
        }
        match (self.class(), other.class()) {
            (NaN, _) | (_, NaN) => Ok(Numeric::NAN),
            (Finite, Finite) => {
                let ((a, s), (b, t)) = (self.parts(), other.parts());
                Numeric::finite(a * b, s + t)
            }
            _ => Ok(match self.signum() * other.signum() {
                0 => Numeric::NAN,
                1 => Numeric::INFINITY,
                _ => Numeric::NEGATIVE_INFINITY,
            }),
        }
    }

    /// x / y: at least 16 significant digits, at least either scale (22012).
    pub fn div(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let Some(special) = self.div_special(other)? {
            return Ok(special);
        }
        let ((a, s), (b, t)) = (self.parts(), other.parts());
        let scale = quotient_scale(&a, s, &b, t);
        Numeric::finite(quotient(a, s, b, t, scale), scale)
    }

    /// x / y at a given scale; both finite, y not zero.
    pub(super) fn div_at(&self, other: &Numeric, scale: i64) -> SqlResult<Numeric> {
        let ((a, s), (b, t)) = (self.parts(), other.parts());
        Numeric::finite(quotient(a, s, b, t, scale), scale)
    }

    /// `div(x, y)`: the quotient cut to an integer.
    pub fn div_trunc(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let Some(special) = self.div_special(other)? {
            return Ok(special);
        }
        let ((a, s), (b, t)) = (self.parts(), other.parts());
        let (a, b, _) = align(a, s, b, t);
        Numeric::finite(a / b, 0)
    }

    /// The answer where an operand is no number; None for two numbers.
    fn div_special(&self, other: &Numeric) -> SqlResult<Option<Numeric>> {
        Ok(Some(match (self.class(), other.class()) {
            (NaN, _) | (_, NaN) => Numeric::NAN,
            (_, Finite) if other.is_zero() => return Err(division_by_zero()),
            (Finite, Finite) => return Ok(None),
            (Finite, _) => Numeric::ZERO,
            (_, Finite) if self.signum() * other.signum() > 0 => Numeric::INFINITY,
            (_, Finite) => Numeric::NEGATIVE_INFINITY,
            _ => Numeric::NAN,
        }))
    }

    /// x % y: the sign of x, the larger scale (22012).
    pub fn rem(&self, other: &Numeric) -> SqlResult<Numeric> {
        match (self.class(), other.class()) {
            (NaN, _) | (_, NaN) => return Ok(Numeric::NAN),
            (_, Finite) if other.is_zero() => return Err(division_by_zero()),
            (Finite, Finite) => {}
            (Finite, _) => return Ok(self.clone()),
            _ => return Ok(Numeric::NAN),
        }
        let ((a, s), (b, t)) = (self.parts(), other.parts());
        let (a, b, scale) = align(a, s, b, t);
        Numeric::finite(a % b, scale)
    }
}

fn quotient(a: BigInt, s: i64, b: BigInt, t: i64, scale: i64) -> BigInt {
    let shift = scale + t - s;
    if shift >= 0 {
        divide_rounded(&(a * ten_to(shift as u32)), &b)
    } else {
        divide_rounded(&a, &(b * ten_to(shift.unsigned_abs() as u32)))
    }
}

/// select_div_scale.
fn quotient_scale(a: &BigInt, s: i64, b: &BigInt, t: i64) -> i64 {
    let ((weight1, first1), (weight2, first2)) = (leading(a, s), leading(b, t));
    let weight = weight1 - weight2 - i64::from(first1 <= first2);
    (SIGNIFICANT_DIGITS_MIN - weight * 4).max(s).max(t).clamp(0, DISPLAY_SCALE_MAX)
}
