//! Array and row values.
//!
//! Invariants: `elements.len()` is the product of the dimensions' lengths; an empty array has no
//! dimension; elements are in row-major order and of the array's element type, or NULL; a
//! dimension's upper bound is below the largest integer, so that bounds and lengths add up.

use super::{Datum, TypeOid};
use crate::error::{SqlError, SqlResult, SqlState};

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Elements along it.
    pub length: i32,
    /// The first subscript, usually 1.
    pub lower: i32,
}

impl Dimension {
    /// From its first to its last subscript; None if the length has no 32 bits.
    pub fn of_bounds(lower: i32, upper: i32) -> Option<Dimension> {
        let length = i32::try_from(i64::from(upper) - i64::from(lower) + 1).ok()?;
        Some(Dimension { length, lower })
    }

    /// Refuses subscripts up to the largest integer (54000).
    pub fn check(&self) -> SqlResult<()> {
        match self.lower.checked_add(self.length) {
            Some(_) => Ok(()),
            None => Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("array lower bound is too large: {}", self.lower),
            )),
        }
    }
}

/// An array value.
#[derive(Clone, Debug)]
pub struct Array {
    /// The type of the elements.
    pub element: TypeOid,
    /// The dimensions; none for the empty array.
    pub dimensions: Vec<Dimension>,
    /// The elements, row-major.
    pub elements: Vec<Datum>,
}

/// A row value.
#[derive(Clone, Debug)]
pub struct Record {
    /// The types of the fields.
    pub types: Vec<TypeOid>,
    /// The fields.
    pub fields: Vec<Datum>,
}

impl Array {
    /// A one-dimensional array with lower bound 1 (or the empty array).
    pub fn of(element: TypeOid, elements: Vec<Datum>) -> Array {
        let length = elements.len() as i32;
        let dimensions =
            if length == 0 { Vec::new() } else { vec![Dimension { length, lower: 1 }] };
        Array { element, dimensions, elements }
    }

    /// int2vector and oidvector: one dimension with lower bound 0.
    pub fn vector(element: TypeOid, elements: Vec<Datum>) -> Array {
        let length = elements.len() as i32;
        Array { element, dimensions: vec![Dimension { length, lower: 0 }], elements }
    }

    /// The element at these subscripts; NULL when out of bounds or of the wrong number.
    pub fn get(&self, subscripts: &[i32]) -> Datum {
        if subscripts.len() != self.dimensions.len() {
            return Datum::Null;
        }
        self.place(subscripts).map_or(Datum::Null, |place| self.elements[place].clone())
    }

    /// Where the element at these subscripts, one a dimension, is; none when out of bounds.
    fn place(&self, subscripts: &[i32]) -> Option<usize> {
        let mut index = 0usize;
        for (dimension, subscript) in self.dimensions.iter().zip(subscripts) {
            let offset = i64::from(*subscript) - i64::from(dimension.lower);
            if offset < 0 || offset >= i64::from(dimension.length) {
                return None;
            }
            index = index * dimension.length as usize + offset as usize;
        }
        Some(index)
    }

    /// The array with one element set, as `UPDATE .. SET a[i] = value` does it; NULL counts as an
    /// array without elements. An array of one dimension grows, with NULLs between; one without
    /// elements begins at the subscripts. 2202E, 22004 for NULL subscripts, 54000.
    pub fn with_element(
        array: Option<&Array>,
        element: TypeOid,
        subscripts: Option<&[i32]>,
        value: Datum,
    ) -> SqlResult<Array> {
        let Some(subscripts) = subscripts else {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "array subscript in assignment must not be null",
            ));
        };
        let wrong = |message: &str| Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        let Some(array) = array.filter(|array| !array.dimensions.is_empty()) else {
            let one = |lower: &i32| Dimension { length: 1, lower: *lower };
            let dimensions: Vec<Dimension> = subscripts.iter().map(one).collect();
            dimensions.iter().try_for_each(Dimension::check)?;
            return Ok(Array { element, dimensions, elements: vec![value] });
        };
        let mut changed = array.clone();
        match (subscripts, &mut changed.dimensions[..]) {
            ([at], [dimension]) => {
                changed.elements = grown(dimension, changed.elements, *at, value)?
            }
            (subscripts, dimensions) if subscripts.len() == dimensions.len() => {
                match array.place(subscripts) {
                    Some(place) => changed.elements[place] = value,
                    None => return wrong("array subscript out of range"),
                }
            }
            _ => return wrong("wrong number of array subscripts"),
        }
        Ok(changed)
    }

    /// The slice `lower..=upper` of each dimension (PostgreSQL's `a[l:u]`); bounds may be absent.
    pub fn slice(&self, bounds: &[(Option<i32>, Option<i32>)]) -> Array {
        let empty = Array { element: self.element, dimensions: Vec::new(), elements: Vec::new() };
        if bounds.len() > self.dimensions.len() {
            return empty;
        }
        let mut ranges = Vec::new();
        for (position, dimension) in self.dimensions.iter().enumerate() {
            let last = dimension.lower + dimension.length - 1;
            let (lower, upper) = bounds.get(position).copied().unwrap_or((None, None));
            let lower = lower.unwrap_or(dimension.lower).max(dimension.lower);
            let upper = upper.unwrap_or(last).min(last);
            if upper < lower {
                return empty;
            }
            ranges.push(((lower - dimension.lower) as usize, (upper - lower + 1) as usize));
        }
        let dimensions =
            ranges.iter().map(|(_, n)| Dimension { length: *n as i32, lower: 1 }).collect();
        let mut elements = Vec::new();
        self.copy_range(&ranges, 0, 0, &mut elements);
        Array { element: self.element, dimensions, elements }
    }

    fn copy_range(
        &self,
        ranges: &[(usize, usize)],
        depth: usize,
        base: usize,
        out: &mut Vec<Datum>,
    ) {
        if depth == ranges.len() {
            out.push(self.elements[base].clone());
            return;
        }
        let (start, count) = ranges[depth];
        for index in start..start + count {
            let next = base * self.dimensions[depth].length as usize + index;
            self.copy_range(ranges, depth + 1, next, out);
        }
    }
}

/// Elements that an array may have, as in PostgreSQL.
const ELEMENTS_MAX: i64 = 134_217_727;

/// The elements of one dimension with that at `at` set; the dimension grows to have it.
fn grown(
    dimension: &mut Dimension,
    mut elements: Vec<Datum>,
    at: i32,
    value: Datum,
) -> SqlResult<Vec<Datum>> {
    let offset = i64::from(at) - i64::from(dimension.lower);
    let length = i64::from(dimension.length);
    let needed = if offset < 0 { length - offset } else { length.max(offset + 1) };
    if needed > ELEMENTS_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})"),
        ));
    }
    if offset < 0 {
        let mut before = vec![Datum::Null; -offset as usize];
        before.append(&mut elements);
        elements = before;
        dimension.lower = at;
    } else {
        elements.resize(needed as usize, Datum::Null);
    }
    dimension.length = needed as i32;
    dimension.check()?;
    elements[offset.max(0) as usize] = value;
    Ok(elements)
}
