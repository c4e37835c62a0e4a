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
        let mut index = 0usize;
        for (dimension, subscript) in self.dimensions.iter().zip(subscripts) {
            let offset = i64::from(*subscript) - i64::from(dimension.lower);
            if offset < 0 || offset >= i64::from(dimension.length) {
                return Datum::Null;
            }
            index = index * dimension.length as usize + offset as usize;
        }
        self.elements[index].clone()
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
