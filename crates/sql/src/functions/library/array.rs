//! Array functions and operators.
//!
//! Invariants: element types are those the binder resolved; elements are compared by their
//! type's default order.

use super::FunctionContext;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::limits;
use crate::types::order::{Comparator, comparator, compare};
use crate::types::{Array, Datum, Dimension, TypeOid, text as io};
use std::cmp::Ordering;

type Context<'a> = &'a dyn FunctionContext;

fn order_of(element: TypeOid) -> Comparator {
    comparator(element).unwrap_or(compare)
}

/// Equal, NULL being equal to NULL.
fn same(order: Comparator, left: &Datum, right: &Datum) -> bool {
    match (left.is_null(), right.is_null()) {
        (false, false) => order(left, right) == Ordering::Equal,
        (left, right) => left == right,
    }
}

fn dimension(args: &[Datum]) -> Option<Dimension> {
    let n = usize::try_from(args[1].as_i32()).ok()?.checked_sub(1)?;
    args[0].as_array().dimensions.get(n).copied()
}

pub(in crate::functions) fn upper(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(dimension(args).map(|found| found.lower + found.length - 1).into())
}

pub(in crate::functions) fn lower(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(dimension(args).map(|found| found.lower).into())
}

pub(in crate::functions) fn length(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(dimension(args).map(|found| found.length).into())
}

pub(in crate::functions) fn dimensions(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let count = args[0].as_array().dimensions.len() as i32;
    Ok((count > 0).then_some(count).into())
}

pub(in crate::functions) fn dimensions_text(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let bounds = |d: &Dimension| format!("[{}:{}]", d.lower, d.lower + d.length - 1);
    let text: String = args[0].as_array().dimensions.iter().map(bounds).collect();
    Ok(if text.is_empty() { Datum::Null } else { text.into() })
}

pub(in crate::functions) fn cardinality(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Int4(args[0].as_array().elements.len() as i32))
}

fn one_dimension(array: &Array, what: &str) -> SqlResult<()> {
    if array.dimensions.len() <= 1 {
        return Ok(());
    }
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what))
}

/// `array_append(array, element)`, `array || element`.
pub(in crate::functions) fn append(args: &[Datum], _: Context) -> SqlResult<Datum> {
    extend(&args[0], &args[1], End::Last)
}

/// `array_prepend(element, array)`, `element || array`.
pub(in crate::functions) fn prepend(args: &[Datum], _: Context) -> SqlResult<Datum> {
    extend(&args[1], &args[0], End::First)
}

#[derive(PartialEq)]
enum End {
    First,
    Last,
}

fn extend(array: &Datum, element: &Datum, end: End) -> SqlResult<Datum> {
    let (element_type, mut elements, lower) = match array {
        Datum::Null => (type_of(element), Vec::new(), 1),
        other => {
            let array = other.as_array();
            if array.dimensions.len() > 1 {
                return Err(SqlError::new(
                    SqlState::DATA_EXCEPTION,
                    "argument must be empty or one-dimensional array",
                ));
            }
            let lower = array.dimensions.first().map_or(1, |dimension| dimension.lower);
            (array.element, array.elements.clone(), lower)
        }
    };
    if end == End::First {
        elements.insert(0, element.clone());
    } else {
        elements.push(element.clone());
    }
    let dimensions = vec![Dimension { length: elements.len() as i32, lower }];
    Ok(Array { element: element_type, dimensions, elements }.into())
}

/// The type of a lone value: only its form is known, which suffices for printing (a reg* value
/// prints as its number).
pub(in crate::functions) fn type_of(value: &Datum) -> TypeOid {
    match value {
        Datum::Bool(_) => TypeOid::BOOL,
        Datum::Char(_) => TypeOid::CHAR,
        Datum::Int2(_) => TypeOid::INT2,
        Datum::Int4(_) => TypeOid::INT4,
        Datum::Int8(_) => TypeOid::INT8,
        Datum::Float4(_) => TypeOid::FLOAT4,
        Datum::Float8(_) => TypeOid::FLOAT8,
        Datum::Oid(_) => TypeOid::OID,
        Datum::Date(_) => TypeOid::DATE,
        Datum::Time(_) => TypeOid::TIME,
        Datum::Timestamp(_) => TypeOid::TIMESTAMP,
        Datum::Timestamptz(_) => TypeOid::TIMESTAMPTZ,
        Datum::Interval(_) => TypeOid::INTERVAL,
        Datum::Numeric(_) => TypeOid::NUMERIC,
        Datum::Bytea(_) => TypeOid::BYTEA,
        Datum::Uuid(_) => TypeOid::UUID,
        Datum::Record(_) => TypeOid::RECORD,
        Datum::Null | Datum::Text(_) | Datum::Array(_) => TypeOid::TEXT,
    }
}

/// `array_cat(a, b)`, `a || b`.
pub(in crate::functions) fn concatenate(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (left, right) = match (&args[0], &args[1]) {
        (Datum::Null, other) | (other, Datum::Null) => return Ok(other.clone()),
        (left, right) => (left.as_array(), right.as_array()),
    };
    if left.dimensions.is_empty() {
        return Ok(args[1].clone());
    }
    if right.dimensions.is_empty() {
        return Ok(args[0].clone());
    }
    let mismatch = |detail: &str| {
        Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "cannot concatenate incompatible arrays",
        )
        .detail(detail))
    };
    let lengths = |dimensions: &[Dimension]| -> Vec<i32> {
        dimensions.iter().map(|dimension| dimension.length).collect()
    };
    let (a, b) = (&left.dimensions, &right.dimensions);
    let mut dimensions;
    if a.len() == b.len() {
        if lengths(&a[1..]) != lengths(&b[1..]) {
            return mismatch(
                "Arrays with differing element dimensions are not compatible for concatenation.",
            );
        }
        dimensions = a.clone();
        dimensions[0].length += b[0].length;
    } else if a.len() == b.len() + 1 {
        if lengths(&a[1..]) != lengths(b) {
            return mismatch(
                "Arrays with differing dimensions are not compatible for concatenation.",
            );
        }
        dimensions = a.clone();
        dimensions[0].length += 1;
    } else if b.len() == a.len() + 1 {
        if lengths(&b[1..]) != lengths(a) {
            return mismatch(
                "Arrays with differing dimensions are not compatible for concatenation.",
            );
        }
        dimensions = b.clone();
        dimensions[0].length += 1;
    } else {
        let detail = format!(
            "Arrays of {} and {} dimensions are not compatible for concatenation.",
            a.len(),
            b.len()
        );
        return mismatch(&detail);
    }
    let elements = left.elements.iter().chain(&right.elements).cloned().collect();
    Ok(Array { element: left.element, dimensions, elements }.into())
}

/// `array_position(array, element [, from])`.
pub(in crate::functions) fn position(args: &[Datum], _: Context) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let array = args[0].as_array();
    one_dimension(array, "searching for elements in multidimensional arrays is not supported")?;
    let Some(lower) = array.dimensions.first().map(|dimension| i64::from(dimension.lower)) else {
        return Ok(Datum::Null);
    };
    let from = match args.get(2) {
        Some(Datum::Null) => {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "initial position must not be null",
            ));
        }
        Some(from) => i64::from(from.as_i32()),
        None => lower,
    };
    let order = order_of(array.element);
    let skip = (from - lower).max(0) as usize;
    let found = array.elements.iter().skip(skip).position(|element| same(order, element, &args[1]));
    Ok(found.map(|index| (lower + (skip + index) as i64) as i32).into())
}

/// `array_positions(array, element)`.
pub(in crate::functions) fn positions(args: &[Datum], _: Context) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let array = args[0].as_array();
    one_dimension(array, "searching for elements in multidimensional arrays is not supported")?;
    let order = order_of(array.element);
    let lower = array.dimensions.first().map_or(1, |dimension| dimension.lower);
    let found = array
        .elements
        .iter()
        .enumerate()
        .filter(|(_, element)| same(order, element, &args[1]))
        .map(|(index, _)| Datum::Int4(lower + index as i32));
    Ok(Array::of(TypeOid::INT4, found.collect()).into())
}

/// `array_remove(array, element)`.
pub(in crate::functions) fn remove(args: &[Datum], _: Context) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let array = args[0].as_array();
    one_dimension(array, "removing elements from multidimensional arrays is not supported")?;
    let order = order_of(array.element);
    let kept = array.elements.iter().filter(|element| !same(order, element, &args[1])).cloned();
    let mut left = Array::of(array.element, kept.collect());
    if let (Some(new), Some(old)) = (left.dimensions.first_mut(), array.dimensions.first()) {
        new.lower = old.lower;
    }
    Ok(left.into())
}

/// `array_replace(array, from, to)`.
pub(in crate::functions) fn replace(args: &[Datum], _: Context) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let array = args[0].as_array();
    let order = order_of(array.element);
    let swap = |element: &Datum| {
        if same(order, element, &args[1]) { args[2].clone() } else { element.clone() }
    };
    let elements = array.elements.iter().map(swap).collect();
    Ok(Array { element: array.element, dimensions: array.dimensions.clone(), elements }.into())
}

/// `array_to_string(array, separator [, null])`.
pub(in crate::functions) fn to_string(args: &[Datum], context: Context) -> SqlResult<Datum> {
    if args[0].is_null() || args[1].is_null() {
        return Ok(Datum::Null);
    }
    let array = args[0].as_array();
    let null = args.get(2).filter(|null| !null.is_null());
    let mut out = String::new();
    let mut first = true;
    for element in &array.elements {
        let text = match (element.is_null(), null) {
            (true, None) => continue,
            (true, Some(null)) => null.as_str().into(),
            (false, _) => io::output_string(array.element, element, context),
        };
        if !std::mem::take(&mut first) {
            limits::append(&mut out, args[1].as_str())?;
        }
        limits::append(&mut out, &text)?;
    }
    Ok(out.into())
}

/// `array_fill(element, lengths [, lower bounds])`.
pub(in crate::functions) fn fill(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let lengths = subscripts(&args[1])?;
    let lowers = args.get(2).map_or_else(|| Ok(vec![1; lengths.len()]), subscripts)?;
    if lengths.len() != lowers.len() {
        return Err(wrong_subscripts());
    }
    let count = lengths.iter().try_fold(1usize, |total, length| {
        usize::try_from(*length).ok().and_then(|length| total.checked_mul(length))
    });
    let count = count.filter(|count| *count <= 134_217_727).ok_or_else(|| {
        SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "array size exceeds the maximum allowed (134217727)",
        )
    })?;
    if let Some((lower, _)) =
        lowers.iter().zip(&lengths).find(|(lower, length)| lower.checked_add(**length).is_none())
    {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("array lower bound is too large: {lower}"),
        ));
    }
    let element = type_of(&args[0]);
    if count == 0 || lengths.is_empty() {
        return Ok(Array::of(element, Vec::new()).into());
    }
    let dimensions =
        lengths.iter().zip(lowers).map(|(&length, lower)| Dimension { length, lower }).collect();
    Ok(Array { element, dimensions, elements: vec![args[0].clone(); count] }.into())
}

fn wrong_subscripts() -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts")
}

/// Lengths or lower bounds, one for each dimension: none may be NULL.
fn subscripts(value: &Datum) -> SqlResult<Vec<i32>> {
    let refuse = |what: &str| SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, what);
    if value.is_null() {
        return Err(refuse("dimension array or low bound array cannot be null"));
    }
    let array = value.as_array();
    if array.dimensions.len() > 1 {
        return Err(wrong_subscripts().detail("Dimension array must be one dimensional."));
    }
    if array.elements.iter().any(Datum::is_null) {
        return Err(refuse("dimension values cannot be null"));
    }
    Ok(array.elements.iter().map(Datum::as_i32).collect())
}

/// `trim_array(array, count)`.
pub(in crate::functions) fn trim(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (array, count) = (args[0].as_array(), args[1].as_i32());
    let length = array.dimensions.first().map_or(0, |dimension| dimension.length);
    if count < 0 || count > length {
        return Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            format!("number of elements to trim must be between 0 and {length}"),
        ));
    }
    let lower = array.dimensions.first().map_or(1, |dimension| dimension.lower);
    Ok(array.slice(&[(None, Some(lower + length - count - 1))]).into())
}

fn all_in(inner: &Array, outer: &Array) -> bool {
    let order = order_of(outer.element);
    let found = |element: &Datum| {
        !element.is_null()
            && outer.elements.iter().any(|other| !other.is_null() && order(element, other).is_eq())
    };
    inner.elements.iter().all(found)
}

pub(in crate::functions) fn contains(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Bool(all_in(args[1].as_array(), args[0].as_array())))
}

pub(in crate::functions) fn contained(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Bool(all_in(args[0].as_array(), args[1].as_array())))
}

pub(in crate::functions) fn overlaps(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (left, right) = (args[0].as_array(), args[1].as_array());
    let order = order_of(left.element);
    let found = |element: &Datum| {
        !element.is_null()
            && right.elements.iter().any(|other| !other.is_null() && order(element, other).is_eq())
    };
    Ok(Datum::Bool(left.elements.iter().any(found)))
}
