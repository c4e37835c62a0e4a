//! Binding of row values: comparisons, IN lists of rows, fields.
//!
//! Invariants: a row comparison is taken apart into comparisons of its columns; a row value
//! itself remains only where it is printed or passed on.

use super::bound::{Bound, BoundKind};
use super::expression::negate;
use super::operator::{Op, unequal_rows};
use super::{Binder, error_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::{At, Expr, ExprKind};
use crate::types::{Type, TypeOid};

impl<'a> Binder<'a> {
    /// The fields of ROW(..); a `t.*` among them is spread.
    pub(super) fn row_fields(&mut self, items: &'a [Expr]) -> SqlResult<Vec<Bound>> {
        let mut fields = Vec::with_capacity(items.len());
        for item in items {
            match &item.kind {
                ExprKind::Column { parts, star: true } => {
                    let columns = self.star(parts, item.at)?;
                    fields.extend(columns.into_iter().map(|column| column.value));
                }
                _ => fields.push(self.expr(item)?),
            }
        }
        Ok(fields)
    }

    /// `(a, b) op (c, d)`.
    pub(super) fn row_operator(
        &mut self,
        name: &str,
        left: &'a Expr,
        right: &'a Expr,
        at: At,
    ) -> SqlResult<Bound> {
        let (ExprKind::Row(left), ExprKind::Row(right)) = (&left.kind, &right.kind) else {
            return Err(SqlError::internal("a row comparison of something else"));
        };
        let left = self.row_fields(left)?;
        let right = self.row_fields(right)?;
        self.compare_rows(name, left, right, at)
    }

    /// Compares rows of bound fields.
    pub(super) fn compare_rows(
        &mut self,
        name: &str,
        left: Vec<Bound>,
        right: Vec<Bound>,
        at: At,
    ) -> SqlResult<Bound> {
        if left.len() != right.len() {
            return Err(unequal_rows(at));
        }
        if left.is_empty() {
            return Err(error_at(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot compare rows of zero length",
                at,
            ));
        }
        match name {
            "=" | "<>" | "!=" => {
                let mut tests = Vec::with_capacity(left.len());
                for (left, right) in left.into_iter().zip(right) {
                    tests.push(self.operator(Op::of("="), Some(left), right, at)?);
                }
                let equal = Bound::new(BoundKind::And(tests), TypeOid::BOOL, at);
                Ok(if name == "=" { equal } else { negate(equal) })
            }
            "<" | "<=" | ">" | ">=" => {
                let strict = &name[..1];
                let mut columns = Vec::with_capacity(left.len());
                for (left, right) in left.into_iter().zip(right) {
                    let less = self.resolve(Op::of(strict), Some(left.ty.oid), right.ty.oid, at)?;
                    let equal = self.resolve(Op::of("="), Some(left.ty.oid), right.ty.oid, at)?;
                    let left = self.implicit(left, less.left)?;
                    let right = self.implicit(right, less.right)?;
                    columns.push((less.operator, equal.operator, left, right));
                }
                let kind = BoundKind::RowCompare { or_equal: name.len() == 2, columns };
                Ok(Bound::new(kind, TypeOid::BOOL, at))
            }
            _ => Err(SqlError::not_supported(format!("the operator {name} on row values"))
                .at(at.position())),
        }
    }

    /// `(a, b) IN ((1, 2), (3, 4))`.
    pub(super) fn row_in_list(
        &mut self,
        left: &'a [Expr],
        list: &'a [Expr],
        at: At,
    ) -> SqlResult<Bound> {
        let mut left = self.row_fields(left)?;
        let mut fields: Vec<Vec<Bound>> = Vec::with_capacity(list.len());
        for item in list {
            let ExprKind::Row(items) = &item.kind else { return Err(unequal_rows(item.at)) };
            let row = self.row_fields(items)?;
            if row.len() != left.len() {
                return Err(unequal_rows(item.at));
            }
            fields.push(row);
        }
        let mut rows = Vec::with_capacity(fields.len());
        for row in fields {
            let mut tests = Vec::with_capacity(row.len());
            for (index, right) in row.into_iter().enumerate() {
                let resolved =
                    self.resolve(Op::of("="), Some(left[index].ty.oid), right.ty.oid, at)?;
                let right = self.implicit(right, resolved.right)?;
                let own = left[index].clone();
                if own.ty.oid != resolved.left {
                    left[index] = self.implicit(own, resolved.left)?;
                }
                tests.push((resolved.operator, right));
            }
            rows.push(tests);
        }
        Ok(Bound::new(BoundKind::In { left, rows }, TypeOid::BOOL, at))
    }

    /// `(value).field`, where value is a row of a function or of ROW().
    pub(super) fn field(
        &mut self,
        inner: &'a Expr,
        field: Option<&str>,
        at: At,
    ) -> SqlResult<Bound> {
        let Some(field) = field else {
            return Err(SqlError::not_supported("expanding a row value by .*").at(at.position()));
        };
        // `(t).a` is `t.a` where t is an item of FROM.
        if let ExprKind::Column { parts, star: false } = &inner.kind
            && let [table] = parts.as_slice()
            && self.item(None, table, at).is_ok()
        {
            return self.column(&[table.clone(), field.to_owned()], at);
        }
        let value = self.expr(inner)?;
        let columns = match &value.kind {
            BoundKind::Set(set) => set.columns.clone(),
            BoundKind::Call(call) => {
                let row = crate::functions::functions()
                    .find(|row| row.name == call.name && !row.columns.is_empty());
                row.map(|row| row.columns.iter().map(|(n, t)| ((*n).into(), *t)).collect())
                    .unwrap_or_default()
            }
            _ => Vec::new(),
        };
        match columns.iter().position(|(name, _): &(std::sync::Arc<str>, TypeOid)| &**name == field)
        {
            Some(index) => {
                let ty = Type::new(columns[index].1);
                Ok(Bound::new(BoundKind::Field(Box::new(value), index as u16), ty, at))
            }
            None => Err(error_at(
                SqlState::UNDEFINED_COLUMN,
                format!("could not identify column \"{field}\" in record data type"),
                at,
            )),
        }
    }
}
