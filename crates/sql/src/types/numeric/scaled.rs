//! Numeric in eight bytes: the storage form of `numeric(p, s)` of few digits.
//!
//! Invariants: the word is `mantissa << 8 | 0xE0 | scale`, little-endian, the mantissa with its
//! sign in 56 bits. Words of one scale order as signed integers (`ColumnType::Int8`) as their
//! numbers do; NaN, the largest mantissa with scale 0, is above them. The first byte tells a word
//! from the ordered form, which begins with its class (0x62 at most), so that readers need not
//! know which of the two a column has.

use super::{Form, Numeric, NumericClass};
use std::cmp::Ordering;

/// In the first byte, over the scale.
const TAG: u8 = 0xe0;
const SCALE_BITS: u8 = 0x1f;
/// Digits that fit for sure: 10^16 is less than 2^55.
const PRECISION_MAX: i32 = 16;
const NAN: i64 = (1 << 55) - 1;
const MANTISSA_MAX: i64 = NAN - 1;
const MANTISSA_MIN: i64 = -(1 << 55);

/// Where a number lies among those of a column that is stored scaled.
pub(crate) enum Among {
    /// It is one of them, in their form.
    One(Numeric),
    /// It equals none of them: this is the next lower one.
    After(Numeric),
    /// It is below all.
    Below,
}

/// Are values of numeric(precision, scale) stored as words?
pub(crate) fn is_scaled(precision: i32, scale: i32) -> bool {
    (1..=PRECISION_MAX).contains(&precision) && (0..=i32::from(SCALE_BITS)).contains(&scale)
}

impl Numeric {
    /// Appends the word; None, and nothing is appended, if the value has none.
    #[inline]
    pub fn encode_scaled(&self, out: &mut Vec<u8>) -> Option<()> {
        let (mantissa, scale) = match self.0 {
            Form::Small { mantissa, scale } if scale <= u16::from(SCALE_BITS) => {
                (mantissa, scale as u8)
            }
            Form::NaN => (NAN, 0),
            _ => return None,
        };
        let is_nan = matches!(self.0, Form::NaN);
        if !is_nan && !(MANTISSA_MIN..=MANTISSA_MAX).contains(&mantissa) {
            return None;
        }
        out.extend_from_slice(&(mantissa << 8 | i64::from(TAG | scale)).to_le_bytes());
        Some(())
    }

    /// Reads a stored value of either form; None if it is neither.
    #[inline]
    pub fn decode_stored(bytes: &[u8]) -> Option<Numeric> {
        if let Ok(word) = <[u8; 8]>::try_from(bytes)
            && word[0] >= TAG
        {
            let mantissa = i64::from_le_bytes(word) >> 8;
            return Some(match mantissa {
                NAN => Numeric::NAN,
                _ => Numeric::small(mantissa, u16::from(word[0] & SCALE_BITS)),
            });
        }
        Numeric::decode_ordered(bytes)
    }

    /// Where the value lies among the words of `scale`, which is one of [`is_scaled`].
    pub(crate) fn among_scaled(&self, scale: i32) -> Among {
        let largest = || Among::After(Numeric::small(MANTISSA_MAX, scale as u16));
        match self.class() {
            NumericClass::NaN => return Among::One(Numeric::NAN),
            NumericClass::NegativeInfinity => return Among::Below,
            NumericClass::Infinity => return largest(),
            NumericClass::Finite => {}
        }
        let too_large = || if *self < Numeric::ZERO { Among::Below } else { largest() };
        let Ok(cut) = self.truncate(scale) else { return too_large() };
        let Form::Small { mantissa, .. } = cut.0 else { return too_large() };
        let (mantissa, exact) = match cut.cmp(self) {
            Ordering::Equal => (mantissa, true),
            Ordering::Less => (mantissa, false),
            // Cut towards zero: below it is the next.
            Ordering::Greater => (mantissa - 1, false),
        };
        if !(MANTISSA_MIN..=MANTISSA_MAX).contains(&mantissa) {
            return too_large();
        }
        let number = Numeric::small(mantissa, scale as u16);
        if exact { Among::One(number) } else { Among::After(number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Numeric {
        Numeric::parse(text).expect("a number")
    }

    fn word(value: &Numeric) -> i64 {
        let mut bytes = Vec::new();
        value.encode_scaled(&mut bytes).expect("it has a word");
        i64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }

    #[test]
    fn words_come_back_and_order_as_numbers_do() {
        let all = ["-99999999999999.99", "-1.01", "-0.01", "0.00", "0.01", "1.00", "NaN"];
        let all = all.map(number);
        for pair in all.windows(2) {
            assert!(word(&pair[0]) < word(&pair[1]), "{} against {}", pair[0], pair[1]);
        }
        for value in &all {
            let back = Numeric::decode_stored(&word(value).to_le_bytes()).expect("a word");
            assert_eq!(back.to_string(), value.to_string());
        }
    }

    #[test]
    fn what_fits_no_word_has_none() {
        let largest = Numeric::small(MANTISSA_MAX, 31);
        assert_eq!(word(&largest) >> 8, MANTISSA_MAX);
        let more = Numeric::small(MANTISSA_MAX + 1, 0);
        let less = Numeric::small(MANTISSA_MIN - 1, 0);
        let finer = Numeric::small(1, 32);
        for none in [more, less, finer, Numeric::INFINITY, Numeric::NEGATIVE_INFINITY] {
            let mut bytes = vec![7];
            assert_eq!(none.encode_scaled(&mut bytes), None, "{none}");
            assert_eq!(bytes, [7]);
        }
    }

    #[test]
    fn no_ordered_form_looks_like_a_word() {
        let mut rng = fastrand::Rng::with_seed(8);
        for _ in 0..20_000 {
            let digits = rng.u32(0..18);
            let value = Numeric::small(rng.i64(..) / 10_i64.pow(digits), rng.u16(0..20));
            let mut bytes = Vec::new();
            value.encode_ordered(&mut bytes);
            assert!(bytes[0] < TAG);
            let back = Numeric::decode_stored(&bytes).expect("the ordered form");
            assert_eq!(back.to_string(), value.to_string());
        }
    }

    /// Between the number before and the one after, of two digits after the point.
    #[test]
    fn a_number_of_more_digits_lies_behind_the_next_lower_one() {
        let (max, min) = ("360287970189639.66", "-360287970189639.68");
        for (text, exact, lower) in [
            ("1.5", true, "1.50"),
            ("1.509", false, "1.50"),
            ("-1.509", false, "-1.51"),
            ("-0.001", false, "-0.01"),
            ("0.001", false, "0.00"),
            ("0", true, "0.00"),
            ("NaN", true, "NaN"),
            (max, true, max),
            ("360287970189639.67", false, max),
            ("1e15", false, max),
            ("1e100", false, max),
            ("Infinity", false, max),
            (min, true, min),
        ] {
            match number(text).among_scaled(2) {
                Among::One(one) => assert!(exact && one.to_string() == lower, "{text}: {one}"),
                Among::After(one) => assert!(!exact && one.to_string() == lower, "{text}: {one}"),
                Among::Below => panic!("{text} is not below all"),
            }
        }
        for text in ["-360287970189639.681", "-1e15", "-1e100", "-Infinity"] {
            assert!(matches!(number(text).among_scaled(2), Among::Below), "{text}");
        }
    }
}
