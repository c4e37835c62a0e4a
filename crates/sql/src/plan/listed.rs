//! Conditions that columns equal one of several values, as an index sees them: IN, `= ANY (array)`, and equalities of one
//! column joined by OR.
//!
//! Invariants: a list has every value that satisfies its condition and no other, so an access by it guarantees the
//! condition. Its values can be computed before the scan starts.

use super::Planner;
use super::access::{plain_column, same_order};
use super::node::{KeyList, KeyValue};
use crate::bind::bound::{Bound, BoundKind, RelationId};
use crate::error::SqlResult;
use crate::functions::Comparison;
use crate::parse::ast::Quantifier;
use crate::relations::RelationInfo;
use crate::types::Datum;
use std::collections::HashSet;

/// How many elements an array has whose length is not known before it is computed; PostgreSQL's guess, too.
const ELEMENTS: f64 = 10.0;

/// The columns that equal those of a list.
pub(super) enum Listed<'b> {
    /// Rows as they are written, as wide as there are columns.
    Rows { columns: Vec<u16>, rows: Vec<Vec<&'b Bound>> },
    /// An array's elements, of one column.
    Elements { column: u16, array: &'b Bound },
}

impl Listed<'_> {
    /// Which columns.
    pub(super) fn columns(&self) -> &[u16] {
        match self {
            Listed::Rows { columns, .. } => columns,
            Listed::Elements { column, .. } => std::slice::from_ref(column),
        }
    }

    /// About how long the list is.
    pub(super) fn about(&self) -> f64 {
        match self {
            Listed::Rows { rows, .. } => rows.len() as f64,
            Listed::Elements { array, .. } => match &array.kind {
                BoundKind::Array(_, elements) => elements.len() as f64,
                BoundKind::Constant(Datum::Array(array)) => array.elements.len() as f64,
                _ => ELEMENTS,
            },
        }
    }
}

impl Planner<'_> {
    /// The list that a condition on the relation is, if it is one.
    pub(super) fn listed<'b>(
        &self,
        relation: RelationId,
        bound: &'b Bound,
        available: &HashSet<RelationId>,
    ) -> Option<Listed<'b>> {
        match &bound.kind {
            BoundKind::In { left, rows } => {
                let mut columns = Vec::with_capacity(left.len());
                for (position, side) in left.iter().enumerate() {
                    let (own, column, ty) = plain_column(side)?;
                    let fits = rows.iter().all(|row| {
                        row[position].0.comparison == Some(Comparison::Equal)
                            && same_order(ty, row[position].1.ty.oid)
                            && self.computable(&row[position].1, relation, available)
                    });
                    if own != relation || !fits {
                        return None;
                    }
                    columns.push(column);
                }
                let rows = rows.iter().map(|row| row.iter().map(|(_, v)| v).collect()).collect();
                Some(Listed::Rows { columns, rows })
            }
            BoundKind::Quantified { operator, quantifier: Quantifier::Any, left, array } => {
                let (own, column, ty) = plain_column(left)?;
                let fits = own == relation
                    && operator.comparison == Some(Comparison::Equal)
                    && same_order(ty, array.ty.oid.element_type()?)
                    && self.computable(array, relation, available);
                fits.then_some(Listed::Elements { column, array })
            }
            BoundKind::Or(either) => {
                let (mut of, mut rows) = (None, Vec::with_capacity(either.len()));
                for one in either {
                    let (column, values) = self.one_of(relation, one, available)?;
                    if *of.get_or_insert(column) != column {
                        return None;
                    }
                    rows.extend(values);
                }
                Some(Listed::Rows { columns: vec![of?], rows })
            }
            _ => None,
        }
    }

    /// The column that one side of an OR compares, and with what.
    fn one_of<'b>(
        &self,
        relation: RelationId,
        bound: &'b Bound,
        available: &HashSet<RelationId>,
    ) -> Option<(u16, Vec<Vec<&'b Bound>>)> {
        if let BoundKind::Operator(..) = &bound.kind {
            let (column, comparison, value) = self.compared(relation, bound, available)?;
            return (comparison == Comparison::Equal).then(|| (column, vec![vec![value]]));
        }
        match self.listed(relation, bound, available)? {
            Listed::Rows { columns, rows } => match columns.as_slice() {
                [column] => Some((*column, rows)),
                _ => None,
            },
            // Its elements are not known one by one.
            Listed::Elements { .. } => None,
        }
    }

    /// The keys of a list behind a prefix: of these of its columns, in this order.
    pub(super) fn key_list(
        &mut self,
        listed: &Listed<'_>,
        info: &RelationInfo,
        prefix: &[KeyValue],
        wanted: &[u16],
    ) -> SqlResult<KeyList> {
        let (columns, rows) = match listed {
            Listed::Rows { columns, rows } => (columns, rows),
            Listed::Elements { column, array } => {
                let array = self.key_value(array, info.columns[*column as usize].ty)?;
                let prefix = prefix.to_vec();
                return Ok(KeyList::Elements { prefix, array, about: listed.about() });
            }
        };
        let mut keys = Vec::with_capacity(rows.len());
        for row in rows {
            let mut key = prefix.to_vec();
            for column in wanted {
                let position = columns.iter().position(|own| own == column).unwrap_or(0);
                key.push(self.key_value(row[position], info.columns[*column as usize].ty)?);
            }
            keys.push(key);
        }
        Ok(KeyList::Written(keys))
    }
}
