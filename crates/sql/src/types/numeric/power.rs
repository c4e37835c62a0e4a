//! sqrt, exp, ln, log, power: PostgreSQL's result scales, rounded correctly.
//!
//! Inner calculations are fixed-point on big integers with guard digits; a result's last digit
//! may differ from the exact rounding only where the guard digits are all the same.

use super::scale::{digits, divide_rounded, leading, leading_digits, round_big};
use super::{
    DISPLAY_SCALE_MAX, Numeric, NumericClass, RESULT_SCALE_MAX, SIGNIFICANT_DIGITS_MIN, overflow,
    ten_to,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::fast::division_by_zero;
use num_bigint::{BigInt, Sign};

use NumericClass::{Infinity, NaN, NegativeInfinity};

/// log10(e).
const LOG10_E: f64 = std::f64::consts::LOG10_E;

/// A fixed-point number: value / 10^places.
#[derive(Clone)]
struct Fixed {
    value: BigInt,
    places: u32,
}

impl Fixed {
    fn of(mantissa: &BigInt, scale: i64, places: u32) -> Fixed {
        Fixed { value: round_big(mantissa.clone(), scale, i64::from(places)).0, places }
    }

    fn one(places: u32) -> Fixed {
        Fixed { value: ten_to(places), places }
    }

    fn mul(&self, other: &Fixed) -> Fixed {
        let value = divide_rounded(&(&self.value * &other.value), &ten_to(other.places));
        Fixed { value, places: self.places }
    }

    fn div(&self, other: &Fixed) -> Fixed {
        let value = divide_rounded(&(&self.value * ten_to(other.places)), &other.value);
        Fixed { value, places: self.places }
    }

    fn sqrt(&self) -> Fixed {
        Fixed { value: (&self.value * ten_to(self.places)).sqrt(), places: self.places }
    }

    fn sub(&self, other: &Fixed) -> Fixed {
        Fixed { value: &self.value - &other.value, places: self.places }
    }

    fn add(&self, other: &Fixed) -> Fixed {
        Fixed { value: &self.value + &other.value, places: self.places }
    }
}

fn choose_scale(weight: i64, inputs: &[i64]) -> i64 {
    let least = inputs.iter().copied().max().unwrap_or(0);
    (SIGNIFICANT_DIGITS_MIN - weight).max(least).clamp(0, DISPLAY_SCALE_MAX)
}

fn negative_argument(what: &str) -> SqlError {
    let state = if what.starts_with("take log") {
        SqlState::INVALID_ARGUMENT_FOR_LOGARITHM
    } else {
        SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION
    };
    SqlError::new(state, format!("cannot {what}"))
}

/// ln(value) at this many places, for value > 0 given as mantissa and scale.
fn ln_fixed(mantissa: &BigInt, scale: i64, places: u32) -> BigInt {
    let work = places + 12;
    // value = m * 10^exponent with 1 <= m < 10.
    let exponent = digits(mantissa) - 1 - scale;
    let reduced = Fixed::of(mantissa, scale + exponent, work.max(digits(mantissa) as u32));
    let near_one = exponent == 0 || exponent == -1;
    let mut x = if near_one && exponent == -1 {
        Fixed::of(mantissa, scale, reduced.places)
    } else {
        reduced
    };
    let tens = if near_one { 0 } else { exponent };
    let mut result = ln_series(&mut x);
    if tens != 0 {
        let guard = work + digits(&BigInt::from(tens)) as u32;
        let ten = ln_series(&mut Fixed { value: ten_to(guard + 1), places: guard });
        let (shifted, _) =
            round_big(ten.value * tens, i64::from(ten.places), i64::from(result.places));
        result.value += shifted;
    }
    round_big(result.value, i64::from(result.places), i64::from(places)).0
}

/// ln by square roots towards 1 and 2 atanh((x-1)/(x+1)).
fn ln_series(x: &mut Fixed) -> Fixed {
    let one = Fixed::one(x.places);
    let (low, high) = (&one.value * 9 / 10, &one.value * 11 / 10);
    let mut factor = BigInt::from(2);
    // Each root halves the logarithm and so costs a third of a digit: widen first.
    let extra = 8;
    *x = Fixed { value: &x.value * ten_to(extra), places: x.places + extra };
    let one = Fixed::one(x.places);
    let (low, high) = (low * ten_to(extra), high * ten_to(extra));
    while x.value < low || x.value > high {
        *x = x.sqrt();
        factor *= 2;
    }
    let y = x.sub(&one).div(&x.add(&one));
    let square = y.mul(&y);
    let mut power = y.clone();
    let mut sum = y.value.clone();
    let mut n = 3u32;
    loop {
        power = power.mul(&square);
        let term = &power.value / n;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += term;
        n += 2;
    }
    Fixed { value: sum * factor, places: x.places }
}

/// exp(x) at this scale, x given as mantissa and scale.
fn exp_fixed(mantissa: &BigInt, scale: i64, places: i64) -> SqlResult<BigInt> {
    let estimate = Numeric::finite(mantissa.clone(), scale)?.to_f64_lossy();
    if estimate.abs() >= (RESULT_SCALE_MAX * 3) as f64 {
        return if estimate > 0.0 { Err(overflow()) } else { Ok(BigInt::ZERO) };
    }
    let tens = (estimate * LOG10_E).floor() as i64;
    let work = (places + tens + 16).max(16) as u32;
    let x = Fixed::of(mantissa, scale, work);
    let ten = ln_fixed(&BigInt::from(10), 0, work);
    // 0 <= rest < ln 10, halved eight times for a short series.
    let halvings = 8u32;
    let mut rest = Fixed { value: x.value - ten * tens, places: work };
    rest.value = (rest.value * ten_to(6)) >> halvings;
    rest.places += 6;
    let mut term = Fixed::one(rest.places);
    let mut sum = term.value.clone();
    let mut n = 1u32;
    loop {
        term = term.mul(&rest);
        term.value = divide_rounded(&term.value, &BigInt::from(n));
        if term.value.sign() == Sign::NoSign {
            break;
        }
        sum += &term.value;
        n += 1;
    }
    let mut result = Fixed { value: sum, places: rest.places };
    for _ in 0..halvings {
        result = result.mul(&result);
    }
    Ok(round_big(result.value, i64::from(result.places) - tens, places).0)
}

/// estimate_ln_dweight.
fn ln_weight(x: &Numeric) -> i64 {
    if x.signum() <= 0 {
        return 0;
    }
    let (mantissa, scale) = x.parts();
    if *x >= Numeric::small(9, 1) && *x <= Numeric::small(11, 1) {
        let rest = &mantissa - ten_to(scale as u32);
        if rest.sign() == Sign::NoSign {
            return 0;
        }
        let (weight, first) = leading(&rest, scale);
        return weight * 4 + (first as f64).log10() as i64;
    }
    let (weight, first) = leading(&mantissa, scale);
    let exact = (leading_digits(&mantissa, scale, weight, 2), weight * 4 - 4);
    let single = digits(&mantissa) - scale - weight * 4 > 0 && exact.0 == first * 10_000;
    let (value, exponent) = if single { (first, weight * 4) } else { exact };
    let ln = (value as f64).ln() + exponent as f64 * std::f64::consts::LN_10;
    ln.abs().log10() as i64
}

impl Numeric {
    /// sqrt(x) (2201F when negative).
    pub fn sqrt(&self) -> SqlResult<Numeric> {
        let negative = || negative_argument("take square root of a negative number");
        match self.class() {
            NaN | Infinity => return Ok(self.clone()),
            NegativeInfinity => return Err(negative()),
            NumericClass::Finite => {}
        }
        if self.signum() < 0 {
            return Err(negative());
        }
        let (mantissa, scale) = self.parts();
        let (weight, _) = leading(&mantissa, scale);
        self.sqrt_at(choose_scale(weight * 2 + 1, &[scale]))
    }

    /// sqrt(x) at a given scale; x finite, not negative.
    pub fn sqrt_at(&self, result_scale: i64) -> SqlResult<Numeric> {
        let (mantissa, scale) = self.parts();
        // One digit more decides the rounding, as no square root ends in exactly 5 otherwise.
        let (wide, _) = round_big(mantissa, scale, (2 * (result_scale + 1)).max(scale));
        let wide_scale = (2 * (result_scale + 1)).max(scale);
        let even = wide_scale + wide_scale % 2;
        let root = (wide * ten_to((even - wide_scale) as u32)).sqrt();
        let (root, scale) = round_big(root, even / 2, result_scale);
        Numeric::finite(root, scale)
    }

    /// exp(x) (22003).
    pub fn exp(&self) -> SqlResult<Numeric> {
        match self.class() {
            NaN | Infinity => return Ok(self.clone()),
            NegativeInfinity => return Ok(Numeric::ZERO),
            NumericClass::Finite => {}
        }
        let limit = RESULT_SCALE_MAX as f64;
        let weight = (self.to_f64_lossy() * LOG10_E).clamp(-limit, limit) as i64;
        let (mantissa, scale) = self.parts();
        let result_scale = choose_scale(weight, &[scale]);
        Numeric::finite(exp_fixed(&mantissa, scale, result_scale)?, result_scale)
    }

    fn check_logarithm(&self) -> SqlResult<()> {
        if self.is_zero() {
            return Err(negative_argument("take logarithm of zero"));
        }
        if self.signum() < 0 {
            return Err(negative_argument("take logarithm of a negative number"));
        }
        Ok(())
    }

    /// ln(x) (2201E).
    pub fn ln(&self) -> SqlResult<Numeric> {
        if self.is_nan() {
            return Ok(Numeric::NAN);
        }
        self.check_logarithm()?;
        if !self.is_finite() {
            return Ok(Numeric::INFINITY);
        }
        let (mantissa, scale) = self.parts();
        let result_scale = choose_scale(ln_weight(self), &[scale]);
        Numeric::finite(ln_fixed(&mantissa, scale, result_scale as u32), result_scale)
    }

    /// log(base, x) (2201E, 22012).
    pub fn log(&self, base: &Numeric) -> SqlResult<Numeric> {
        if self.is_nan() || base.is_nan() {
            return Ok(Numeric::NAN);
        }
        base.check_logarithm()?;
        self.check_logarithm()?;
        match (self.is_finite(), base.is_finite()) {
            (true, true) => {}
            (true, false) => return Ok(Numeric::ZERO),
            (false, true) => return Ok(Numeric::INFINITY),
            (false, false) => return Ok(Numeric::NAN),
        }
        if *base == Numeric::small(1, 0) {
            return Err(division_by_zero());
        }
        let weight = ln_weight(self) - ln_weight(base);
        let ((a, s), (b, t)) = (self.parts(), base.parts());
        let scale = choose_scale(weight, &[s, t]);
        let wanted = scale + 16;
        let places = |own: i64, other: i64| {
            (wanted - own.min(0) - other.min(0) + own.max(other).max(0)) as u32
        };
        let (weight_a, weight_b) = (ln_weight(self), ln_weight(base));
        let places = places(weight_a, weight_b);
        let top = ln_fixed(&a, s, places);
        let bottom = ln_fixed(&b, t, places);
        Numeric::finite(divide_rounded(&(top * ten_to(scale as u32)), &bottom), scale)
    }

    /// power(x, y) (2201F, 22003, 22012).
    pub fn power(&self, exponent: &Numeric) -> SqlResult<Numeric> {
        if let Some(special) = power_special(self, exponent)? {
            return Ok(special);
        }
        let whole = exponent.truncate(0)?;
        let integral = whole == *exponent;
        let small = whole.to_i64("integer").ok().and_then(|n| i32::try_from(n).ok());
        if let Some(n) = small.filter(|_| integral) {
            return power_integer(self, n);
        }
        if self.is_zero() {
            return Ok(Numeric::small(0, SIGNIFICANT_DIGITS_MIN as u16));
        }
        let negative = self.signum() < 0;
        if negative && !integral {
            return Err(SqlError::new(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "a negative number raised to a non-integer power yields a complex result",
            ));
        }
        let odd = negative && !whole.rem(&Numeric::small(2, 0))?.is_zero();
        let result = power_general(&self.abs(), exponent)?;
        Ok(if odd { result.neg() } else { result })
    }
}

fn power_general(base: &Numeric, exponent: &Numeric) -> SqlResult<Numeric> {
    let ((b, t), (e, u)) = (base.parts(), exponent.parts());
    let rough_places = (8 - ln_weight(base)).max(0) as u32;
    let rough = Numeric::finite(ln_fixed(&b, t, rough_places), i64::from(rough_places))?;
    let value = rough.to_f64_lossy() * exponent.to_f64_lossy();
    if value.abs() > RESULT_SCALE_MAX as f64 * 3.01 {
        return if value > 0.0 {
            Err(overflow())
        } else {
            Ok(Numeric::small(0, DISPLAY_SCALE_MAX as u16))
        };
    }
    let weight = (value * LOG10_E) as i64;
    let scale = choose_scale(weight, &[t, u]);
    let places = (scale + weight.max(0) + digits(&e) - u + 16).max(16) as u32;
    let product = ln_fixed(&b, t, places) * e;
    let result = exp_fixed(&product, i64::from(places) + u, scale)?;
    Numeric::finite(result, scale)
}

/// power_var_int.
fn power_integer(base: &Numeric, exponent: i32) -> SqlResult<Numeric> {
    let (mantissa, base_scale) = base.parts();
    let weight = if base.is_zero() {
        0.0
    } else {
        let log = (digits(&mantissa) - base_scale - 17) as f64;
        let shift = digits(&mantissa) - 17;
        let top = round_big(mantissa.clone(), shift, 0).0;
        let top = i64::try_from(&top).unwrap_or(i64::MAX).unsigned_abs();
        f64::from(exponent) * ((top as f64).log10() + log)
    };
    if weight > 131_072.0 {
        return Err(overflow());
    }
    let scale = choose_scale(0, &[base_scale]);
    if weight + 1.0 < -scale as f64 {
        return Ok(Numeric::small(0, scale as u16));
    }
    match exponent {
        0 => return Numeric::small(1, 0).round(scale as i32),
        1 => return base.round(scale as i32),
        _ if base.is_zero() && exponent < 0 => return Err(division_by_zero()),
        _ if base.is_zero() => return Ok(Numeric::small(0, scale as u16)),
        -1 => return Numeric::small(1, 0).div_at(base, scale),
        _ => {}
    }
    // Keep the significant digits that the result and the errors of each squaring need.
    let keep = scale + weight.abs() as i64 + 16 + i64::from(exponent.unsigned_abs().ilog2());
    let (mut result, mut result_scale) = (BigInt::from(1), 0i64);
    let (mut square, mut square_scale) = (mantissa, base_scale);
    let mut left = exponent.unsigned_abs();
    loop {
        if left & 1 == 1 {
            result *= &square;
            result_scale += square_scale;
            (result, result_scale) = cut(result, result_scale, keep);
        }
        left >>= 1;
        if left == 0 {
            break;
        }
        square = &square * &square;
        square_scale *= 2;
        (square, square_scale) = cut(square, square_scale, keep);
    }
    let (value, scale) = if exponent < 0 {
        let shift = (scale + result_scale).max(0);
        let wide = ten_to(shift as u32);
        round_big(divide_rounded(&wide, &result), shift - result_scale, scale)
    } else {
        round_big(result, result_scale, scale)
    };
    Numeric::finite(value, scale)
}

fn cut(value: BigInt, scale: i64, keep: i64) -> (BigInt, i64) {
    let extra = digits(&value) - keep;
    if extra > keep { round_big(value, scale, scale - extra) } else { (value, scale) }
}

fn power_special(base: &Numeric, exponent: &Numeric) -> SqlResult<Option<Numeric>> {
    let one = Numeric::small(1, 0);
    if base.is_finite() && exponent.is_finite() {
        if base.is_zero() && exponent.signum() < 0 {
            return Err(SqlError::new(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "zero raised to a negative power is undefined",
            ));
        }
        return Ok(None);
    }
    if base.is_nan() || exponent.is_nan() {
        let known = (base.is_nan() && exponent.is_zero()) || (exponent.is_nan() && *base == one);
        return Ok(Some(if known { one } else { Numeric::NAN }));
    }
    if !exponent.is_finite() {
        if *base == one || *base == one.neg() {
            return Ok(Some(one));
        }
        if base.is_zero() && exponent.signum() < 0 {
            return Err(SqlError::new(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "zero raised to a negative power is undefined",
            ));
        }
        let grows = (base.abs() > one) == (exponent.signum() > 0);
        return Ok(Some(if grows { Numeric::INFINITY } else { Numeric::ZERO }));
    }
    if exponent.is_zero() {
        return Ok(Some(one));
    }
    if exponent.signum() < 0 {
        return Ok(Some(Numeric::ZERO));
    }
    if base.signum() > 0 {
        return Ok(Some(Numeric::INFINITY));
    }
    let whole = exponent.truncate(0)?;
    if whole != *exponent {
        return Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    let odd = !whole.rem(&Numeric::small(2, 0))?.is_zero();
    Ok(Some(if odd { Numeric::NEGATIVE_INFINITY } else { Numeric::INFINITY }))
}
