//! Aggregates: the state of one group.
//!
//! Invariants: `finish` may be called between `add`s (window frames do) and changes nothing;
//! aggregates over no rows are NULL, counts 0. Integer sums are exact in 128 bits; numeric sums
//! are exact; float sums are taken in the order of the rows.

use super::FunctionContext;
use super::fast::out_of_range;
use crate::error::SqlResult;
use crate::types::limits;
use crate::types::order::{Comparator, comparator, compare};
use crate::types::{Array, Datum, Dimension, Interval, Numeric, TypeOid};
use std::cmp::Ordering;

/// The state of one group of one aggregate call.
pub trait Accumulator {
    /// Adds one row's arguments. NULLs are the accumulator's to skip or to count.
    fn add(&mut self, args: &[Datum], context: &dyn FunctionContext) -> SqlResult<()>;

    /// The aggregate's value so far.
    fn finish(&self, context: &dyn FunctionContext) -> SqlResult<Datum>;

    /// Bytes on the heap, roughly, for the memory budget.
    fn heap_bytes(&self) -> usize {
        0
    }
}

type Context<'a> = &'a dyn FunctionContext;
type State = Box<dyn Accumulator>;

struct CountAll(i64);

impl Accumulator for CountAll {
    fn add(&mut self, _: &[Datum], _: Context) -> SqlResult<()> {
        self.0 += 1;
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        Ok(Datum::Int8(self.0))
    }
}

/// `count(*)`.
pub(super) fn count_all(_: &[TypeOid]) -> State {
    Box::new(CountAll(0))
}

struct Count(i64);

impl Accumulator for Count {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        self.0 += i64::from(!args[0].is_null());
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        Ok(Datum::Int8(self.0))
    }
}

/// `count(x)`.
pub(super) fn count(_: &[TypeOid]) -> State {
    Box::new(Count(0))
}

#[derive(Clone, Copy, PartialEq)]
enum Answer {
    SumInt8,
    SumNumeric,
    Average,
}

struct Integers {
    sum: i128,
    count: i64,
    answer: Answer,
}

impl Accumulator for Integers {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        if !args[0].is_null() {
            self.sum += i128::from(args[0].as_i64());
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        Ok(match self.answer {
            Answer::SumInt8 => {
                Datum::Int8(i64::try_from(self.sum).map_err(|_| out_of_range("bigint"))?)
            }
            Answer::SumNumeric => Numeric::from(self.sum).into(),
            Answer::Average => Numeric::from(self.sum).div(&Numeric::from(self.count))?.into(),
        })
    }
}

/// `sum` of int2 and int4: int8.
pub(super) fn sum_integer(_: &[TypeOid]) -> State {
    Box::new(Integers { sum: 0, count: 0, answer: Answer::SumInt8 })
}

/// `sum` of int8: numeric.
pub(super) fn sum_int8(_: &[TypeOid]) -> State {
    Box::new(Integers { sum: 0, count: 0, answer: Answer::SumNumeric })
}

/// `avg` of integers: numeric.
pub(super) fn average_integer(_: &[TypeOid]) -> State {
    Box::new(Integers { sum: 0, count: 0, answer: Answer::Average })
}

struct Numerics {
    sum: Numeric,
    count: i64,
    average: bool,
}

impl Accumulator for Numerics {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        if !args[0].is_null() {
            self.sum = self.sum.add(args[0].as_numeric())?;
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        if self.average {
            return Ok(self.sum.div(&Numeric::from(self.count))?.into());
        }
        Ok(self.sum.clone().into())
    }
}

/// `sum` of numeric.
pub(super) fn sum_numeric(_: &[TypeOid]) -> State {
    Box::new(Numerics { sum: Numeric::ZERO, count: 0, average: false })
}

/// `avg` of numeric.
pub(super) fn average_numeric(_: &[TypeOid]) -> State {
    Box::new(Numerics { sum: Numeric::ZERO, count: 0, average: true })
}

/// What a float aggregate answers from count, sum and sum of squares.
#[derive(Clone, Copy, PartialEq)]
enum FloatAnswer {
    SumFloat4,
    Sum,
    Average,
    VariancePopulation,
    VarianceSample,
    DeviationPopulation,
    DeviationSample,
}

/// Youngs and Cramer, as PostgreSQL: the sum of squared differences is kept, not of squares.
struct Floats {
    count: f64,
    sum: f64,
    squares: f64,
    answer: FloatAnswer,
}

impl Accumulator for Floats {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        if args[0].is_null() {
            return Ok(());
        }
        let value = args[0].as_f64();
        let before = self.sum;
        self.count += 1.0;
        self.sum += value;
        if self.count > 1.0 {
            let difference = value * self.count - self.sum;
            self.squares += difference * difference / (self.count * (self.count - 1.0));
            if self.squares.is_infinite()
                && before.is_finite()
                && value.is_finite()
                && self.sum.is_finite()
                && self.answer as u8 >= FloatAnswer::VariancePopulation as u8
            {
                return Err(overflow());
            }
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        let single = self.answer == FloatAnswer::SumFloat4;
        let infinite =
            if single { (self.sum as f32).is_infinite() } else { self.sum.is_infinite() };
        if single {
            self.sum = f64::from(self.sum as f32);
        }
        if infinite && before.is_finite() && value.is_finite() {
            return Err(overflow());
        }
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        let sample =
            matches!(self.answer, FloatAnswer::VarianceSample | FloatAnswer::DeviationSample);
        if self.count < if sample { 2.0 } else { 1.0 } {
            return Ok(Datum::Null);
        }
        let variance = self.squares / if sample { self.count - 1.0 } else { self.count };
        Ok(match self.answer {
            FloatAnswer::SumFloat4 => Datum::Float4(self.sum as f32),
            FloatAnswer::Sum => Datum::Float8(self.sum),
            FloatAnswer::Average => Datum::Float8(self.sum / self.count),
            FloatAnswer::VariancePopulation | FloatAnswer::VarianceSample => {
                Datum::Float8(variance)
            }
            _ => Datum::Float8(variance.sqrt()),
        })
    }
}

fn overflow() -> crate::error::SqlError {
    crate::error::SqlError::new(
        crate::error::SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value out of range: overflow",
    )
}

macro_rules! floats {
    ($($(#[$doc:meta])* $name:ident = $answer:ident;)*) => {
        $($(#[$doc])*
        pub(super) fn $name(_: &[TypeOid]) -> State {
            let answer = FloatAnswer::$answer;
            Box::new(Floats { count: 0.0, sum: 0.0, squares: 0.0, answer })
        })*
    };
}

floats! {
    /// `sum` of float4.
    sum_float4 = SumFloat4;
    /// `sum` of float8.
    sum_float8 = Sum;
    /// `avg` of floats.
    average_float = Average;
    /// `var_pop` of floats.
    float_var_pop = VariancePopulation;
    /// `var_samp` of floats.
    float_var_samp = VarianceSample;
    /// `stddev_pop` of floats.
    float_stddev_pop = DeviationPopulation;
    /// `stddev_samp` of floats.
    float_stddev_samp = DeviationSample;
}

/// Variance of integers and numerics: exact sums.
struct Variance {
    count: i64,
    sum: Numeric,
    squares: Numeric,
    sample: bool,
    root: bool,
}

impl Accumulator for Variance {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        let value = match &args[0] {
            Datum::Null => return Ok(()),
            Datum::Numeric(value) => value.clone(),
            other => Numeric::from(other.as_i64()),
        };
        self.count += 1;
        self.squares = self.squares.add(&value.mul(&value)?)?;
        self.sum = self.sum.add(&value)?;
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        if self.count < 1 + i64::from(self.sample) {
            return Ok(Datum::Null);
        }
        if !self.sum.is_finite() {
            return Ok(Numeric::NAN.into());
        }
        let count = Numeric::from(self.count);
        let top = count.mul(&self.squares)?.sub(&self.sum.mul(&self.sum)?)?;
        if top.signum() <= 0 {
            return Ok(Numeric::ZERO.into());
        }
        let bottom = count.mul(&Numeric::from(self.count - i64::from(self.sample)))?;
        let variance = top.div(&bottom)?;
        // The root has the digits of the variance, as in PostgreSQL.
        let scale = i64::from(variance.scale());
        Ok(if self.root { variance.sqrt_at(scale)? } else { variance }.into())
    }
}

macro_rules! variances {
    ($($(#[$doc:meta])* $name:ident = $sample:literal, $root:literal;)*) => {
        $($(#[$doc])*
        pub(super) fn $name(_: &[TypeOid]) -> State {
            let (sum, squares) = (Numeric::ZERO, Numeric::ZERO);
            Box::new(Variance { count: 0, sum, squares, sample: $sample, root: $root })
        })*
    };
}

variances! {
    /// `var_pop`.
    var_pop = false, false;
    /// `var_samp`, `variance`.
    var_samp = true, false;
    /// `stddev_pop`.
    stddev_pop = false, true;
    /// `stddev_samp`, `stddev`.
    stddev_samp = true, true;
}

struct Intervals {
    sum: Interval,
    count: i64,
    average: bool,
}

impl Accumulator for Intervals {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        if !args[0].is_null() {
            self.sum = self.sum.add(args[0].as_interval())?;
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        Ok(if self.average { self.sum.div(self.count as f64)? } else { self.sum }.into())
    }
}

/// `sum` of interval.
pub(super) fn sum_interval(_: &[TypeOid]) -> State {
    Box::new(Intervals { sum: Interval::default(), count: 0, average: false })
}

/// `avg` of interval.
pub(super) fn average_interval(_: &[TypeOid]) -> State {
    Box::new(Intervals { sum: Interval::default(), count: 0, average: true })
}

struct Extreme {
    best: Datum,
    order: Comparator,
    keep: Ordering,
    /// Of equal values the last one is kept, for all types but bpchar.
    ties: Ordering,
}

impl Accumulator for Extreme {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        if args[0].is_null() {
            return Ok(());
        }
        if !self.best.is_null() {
            let ordering = (self.order)(&args[0], &self.best);
            if ordering != self.keep && ordering != self.ties {
                return Ok(());
            }
        }
        self.best = args[0].clone();
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        Ok(self.best.clone())
    }
}

fn extreme(types: &[TypeOid], keep: Ordering) -> State {
    let order = types.first().and_then(|ty| comparator(*ty)).unwrap_or(compare);
    let ties = if types.first() == Some(&TypeOid::BPCHAR) { keep } else { Ordering::Equal };
    Box::new(Extreme { best: Datum::Null, order, keep, ties })
}

/// `min`.
pub(super) fn minimum(types: &[TypeOid]) -> State {
    extreme(types, Ordering::Less)
}

/// `max`.
pub(super) fn maximum(types: &[TypeOid]) -> State {
    extreme(types, Ordering::Greater)
}

struct Booleans {
    value: Option<bool>,
    /// The value that decides: false for bool_and, true for bool_or.
    decides: bool,
}

impl Accumulator for Booleans {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        if let Datum::Bool(value) = args[0] {
            self.value =
                Some(if value == self.decides { value } else { self.value.unwrap_or(value) });
        }
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        Ok(self.value.into())
    }
}

/// `bool_and`, `every`.
pub(super) fn bool_and(_: &[TypeOid]) -> State {
    Box::new(Booleans { value: None, decides: false })
}

/// `bool_or`.
pub(super) fn bool_or(_: &[TypeOid]) -> State {
    Box::new(Booleans { value: None, decides: true })
}

struct Bits {
    value: Option<i64>,
    combine: fn(i64, i64) -> i64,
    ty: TypeOid,
}

impl Accumulator for Bits {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        if !args[0].is_null() {
            let value = args[0].as_i64();
            self.value = Some(self.value.map_or(value, |old| (self.combine)(old, value)));
        }
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        Ok(self.value.map_or(Datum::Null, |value| match self.ty {
            TypeOid::INT2 => Datum::Int2(value as i16),
            TypeOid::INT4 => Datum::Int4(value as i32),
            _ => Datum::Int8(value),
        }))
    }
}

fn bits(types: &[TypeOid], combine: fn(i64, i64) -> i64) -> State {
    Box::new(Bits { value: None, combine, ty: types.first().copied().unwrap_or(TypeOid::INT8) })
}

/// `bit_and`.
pub(super) fn bit_and(types: &[TypeOid]) -> State {
    bits(types, |a, b| a & b)
}

/// `bit_or`.
pub(super) fn bit_or(types: &[TypeOid]) -> State {
    bits(types, |a, b| a | b)
}

/// `bit_xor`.
pub(super) fn bit_xor(types: &[TypeOid]) -> State {
    bits(types, |a, b| a ^ b)
}

#[derive(Default)]
struct Strings(Option<String>);

impl Accumulator for Strings {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        if args[0].is_null() {
            return Ok(());
        }
        match &mut self.0 {
            Some(text) => {
                if let Datum::Text(separator) = &args[1] {
                    limits::append(text, separator)?;
                }
                limits::append(text, args[0].as_str())?;
            }
            None => self.0 = Some(args[0].as_str().to_owned()),
        }
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        Ok(self.0.as_deref().into())
    }

    fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, String::capacity)
    }
}

/// `string_agg(text, separator)`.
pub(super) fn string_agg(_: &[TypeOid]) -> State {
    Box::new(Strings::default())
}

struct Elements {
    element: TypeOid,
    values: Vec<Datum>,
}

impl Accumulator for Elements {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        self.values.push(args[0].clone());
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        if self.values.is_empty() {
            return Ok(Datum::Null);
        }
        limits::check(Array::of(self.element, self.values.clone()).into())
    }

    fn heap_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Datum>()
    }
}

/// `array_agg(element)`.
pub(super) fn array_agg(types: &[TypeOid]) -> State {
    let element = types.first().copied().unwrap_or(TypeOid::TEXT);
    Box::new(Elements { element, values: Vec::new() })
}

struct Slices {
    element: TypeOid,
    dimensions: Vec<Dimension>,
    values: Vec<Datum>,
    count: i32,
}

impl Accumulator for Slices {
    fn add(&mut self, args: &[Datum], _: Context) -> SqlResult<()> {
        use crate::error::{SqlError, SqlState};
        let refuse = |message: &str| Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        if args[0].is_null() {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "cannot accumulate null arrays",
            ));
        }
        let array = args[0].as_array();
        if array.dimensions.is_empty() {
            return refuse("cannot accumulate empty arrays");
        }
        if self.count == 0 {
            self.dimensions = array.dimensions.clone();
        } else if self.dimensions != array.dimensions {
            return refuse("cannot accumulate arrays of different dimensionality");
        }
        self.values.extend(array.elements.iter().cloned());
        self.count += 1;
        Ok(())
    }

    fn finish(&self, _: Context) -> SqlResult<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        let outer = Dimension { length: self.count, lower: 1 };
        let dimensions = std::iter::once(outer).chain(self.dimensions.iter().copied()).collect();
        let elements = self.values.clone();
        limits::check(Array { element: self.element, dimensions, elements }.into())
    }

    fn heap_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Datum>()
    }
}

/// `array_agg(array)`.
pub(super) fn array_agg_array(types: &[TypeOid]) -> State {
    let element = types.first().and_then(|ty| ty.element_type()).unwrap_or(TypeOid::TEXT);
    Box::new(Slices { element, dimensions: Vec::new(), values: Vec::new(), count: 0 })
}
