//! Numeric to and from integers and floats.

use super::scale::divide_rounded;
use super::{Form, Numeric, NumericClass, ten_to};
use crate::error::{SqlError, SqlResult, SqlState};
use num_bigint::BigInt;

impl From<i64> for Numeric {
    fn from(value: i64) -> Numeric {
        Numeric::small(value, 0)
    }
}

impl From<i128> for Numeric {
    fn from(value: i128) -> Numeric {
        Numeric::from_i128(value, 0).expect("39 digits fit")
    }
}

impl Numeric {
    /// mantissa / 10^scale of a 128-bit mantissa.
    pub fn scaled(mantissa: i128, scale: u16) -> Numeric {
        Numeric::from_i128(mantissa, i64::from(scale)).expect("39 digits fit")
    }

    /// The nearest integer within i64, half away from zero; `ty` is named in the error (22003,
    /// 0A000 for NaN and infinity).
    pub fn to_i64(&self, ty: &str) -> SqlResult<i64> {
        let refuse = |what: &str| {
            Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cannot convert {what} to {ty}"),
            ))
        };
        match self.class() {
            NumericClass::NaN => return refuse("NaN"),
            NumericClass::Finite => {}
            _ => return refuse("infinity"),
        }
        if let Some((mantissa, 0)) = self.small_parts() {
            return Ok(mantissa);
        }
        let (mantissa, scale) = self.parts();
        i64::try_from(&divide_rounded(&mantissa, &ten_to(scale as u32)))
            .map_err(|_| crate::functions::fast::out_of_range(ty))
    }

    /// The value as i128 at a scale, where it is finite, exact and fits.
    pub fn to_scaled_i128(&self, scale: u16) -> Option<i128> {
        let (mantissa, own) = self.small_parts()?;
        let shift = scale.checked_sub(own)?;
        i128::from(mantissa).checked_mul(*super::TEN_TO.get(usize::from(shift))?)
    }

    /// The nearest float8 (22003 when beyond).
    pub fn to_f64(&self) -> SqlResult<f64> {
        if let Some((mantissa, scale)) = self.small_parts() {
            // Both exact: one correctly rounded division.
            if scale <= 22 && mantissa.unsigned_abs() < 1 << 53 {
                return Ok(mantissa as f64 / 10f64.powi(i32::from(scale)));
            }
        }
        let value = self.to_f64_lossy();
        if value.is_infinite() && self.is_finite() {
            return Err(SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("\"{self}\" is out of range for type double precision"),
            ));
        }
        Ok(value)
    }

    /// The nearest float8, infinite when beyond.
    pub fn to_f64_lossy(&self) -> f64 {
        match self.0 {
            Form::NaN => f64::NAN,
            Form::Infinity => f64::INFINITY,
            Form::NegativeInfinity => f64::NEG_INFINITY,
            _ => self.to_string().parse().expect("a decimal number"),
        }
    }

    /// numeric(float8): 15 significant digits.
    pub fn from_f64(value: f64) -> SqlResult<Numeric> {
        Numeric::from_float(value, 15)
    }

    /// numeric(float4): 6 significant digits.
    pub fn from_f32(value: f32) -> SqlResult<Numeric> {
        Numeric::from_float(f64::from(value), 6)
    }

    fn from_float(value: f64, digits: usize) -> SqlResult<Numeric> {
        if value.is_nan() {
            return Ok(Numeric::NAN);
        }
        if value.is_infinite() {
            return Ok(if value > 0.0 { Numeric::INFINITY } else { Numeric::NEGATIVE_INFINITY });
        }
        let text = float_text(value, digits);
        Numeric::parse(&text)
    }

    /// mantissa / 10^scale (22003 beyond the format).
    pub fn from_big(mantissa: BigInt, scale: u16) -> SqlResult<Numeric> {
        Numeric::finite(mantissa, i64::from(scale))
    }
}

/// `%.{digits}g` in scientific form without zeros at the end of the fraction.
pub(crate) fn float_text(value: f64, digits: usize) -> String {
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').expect("LowerExp prints an exponent");
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    format!("{mantissa}e{exponent}")
}
