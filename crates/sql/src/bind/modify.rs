//! Binding of INSERT, UPDATE and DELETE.
//!
//! Invariants: every column of the table gets a value in an INSERT; every value is converted to
//! its column's type with the rules of assignment (42804 otherwise).

use super::bound::{
    Body, Bound, BoundKind, Delete, From, Insert, InsertSource, Output, Query, RelationId, Update,
};
use super::expression::no_subscripts;
use super::query::Unknowns;
use super::scope::{Block, Item, column_of};
use super::{Binder, bind_constant, error_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::{self, Alias, At, Expr, ExprKind, JoinKind, Name, Target};
use crate::parse::statement::{self, Overriding, Statement};
use crate::relations::{ColumnInfo, RelationInfo, Source, sequence_of_default};
use crate::types::{Datum, Type, TypeOid};
use atoll_kernel::api::Identity;
use std::sync::Arc;

impl<'a> Binder<'a> {
    /// INSERT.
    pub(super) fn insert(&mut self, insert: &'a statement::Insert) -> SqlResult<Insert> {
        self.blocks.push(Block::new());
        self.with(&insert.with)?;
        let table = self.changed(&insert.table)?;
        self.use_table(&table);
        let targets = target_columns(insert, &table)?;
        let source = match &insert.source {
            None => InsertSource::Values(vec![self.defaults(&table)?]),
            Some(query) => match &query.body {
                ast::Body::Values(rows) if is_bare_values(query) => {
                    self.insert_values(rows, &table, &targets, insert)?
                }
                _ => self.insert_query(query, &table, &targets, insert)?,
            },
        };
        let relation = self.new_relation();
        let alias = insert.alias.as_ref();
        let item = Item::of_relation(relation, &table, alias, insert.table.at)?;
        self.note_names(&item);
        let conflict = match &insert.conflict {
            Some(conflict) => Some(self.conflict(conflict, &table, &item)?),
            None => None,
        };
        self.block().items = vec![item];
        let returning = self.returning(&insert.returning)?;
        self.blocks.pop();
        Ok(Insert { table, relation, source, conflict, returning })
    }

    fn insert_values(
        &mut self,
        rows: &'a [Vec<Expr>],
        table: &Arc<RelationInfo>,
        targets: &[usize],
        insert: &'a statement::Insert,
    ) -> SqlResult<InsertSource> {
        self.block().enter("VALUES", false, false);
        let defaults = self.defaults(table)?;
        let mut bound = Vec::with_capacity(rows.len());
        for row in rows {
            if row.len() != rows[0].len() {
                let at = row.first().map_or(At::NONE, |first| first.at);
                return Err(error_at(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                    at,
                ));
            }
            let at = |index: usize| row.get(index).map_or(At::NONE, |value| value.at);
            check_width(row.len(), targets, insert, at)?;
            let mut values = defaults.clone();
            for (value, &target) in row.iter().zip(targets) {
                let given = !matches!(value.kind, ExprKind::Default);
                if given && takes_value(&table.columns[target], insert.overriding)? {
                    let value = self.expr(value)?;
                    values[target] = self.assign_column(value, &table.columns[target])?;
                }
            }
            bound.push(values);
        }
        Ok(InsertSource::Values(bound))
    }

    fn insert_query(
        &mut self,
        query: &'a ast::Query,
        table: &Arc<RelationInfo>,
        targets: &[usize],
        insert: &'a statement::Insert,
    ) -> SqlResult<InsertSource> {
        let mut bound = self.query(query, Unknowns::Keep)?;
        check_width(bound.visible, targets, insert, |_| At::NONE)?;
        let mut values = self.defaults(table)?;
        for (index, &target) in targets.iter().take(bound.visible).enumerate() {
            let column = &table.columns[target];
            if !takes_value(column, insert.overriding)? {
                continue;
            }
            self.settle_unknown(&mut bound, index, column)?;
            let value = column_of(bound.relation, index, bound.outputs[index].ty);
            values[target] = self.assign_column(value, column)?;
        }
        Ok(InsertSource::Query(Box::new(bound), values))
    }

    /// An output that is a bare literal takes the type of its column.
    fn settle_unknown(
        &mut self,
        query: &mut Query,
        index: usize,
        column: &ColumnInfo,
    ) -> SqlResult<()> {
        if query.outputs[index].ty.oid != TypeOid::UNKNOWN {
            return Ok(());
        }
        let ty = crate::types::Type::new(column.ty.oid);
        match &mut query.body {
            Body::Select(_) => {
                let value =
                    query.outputs[index].value.take().expect("a SELECT's output has a value");
                query.outputs[index].value = Some(self.implicit(value, ty.oid)?);
            }
            Body::Values(rows) => {
                for row in rows {
                    let value = std::mem::replace(&mut row[index], Self::null_of(ty));
                    row[index] = self.implicit(value, ty.oid)?;
                }
            }
            Body::SetOperation { .. } | Body::Recursive { .. } => {
                return Err(SqlError::internal("a set operation with an unknown output"));
            }
        }
        query.outputs[index].ty = ty;
        Ok(())
    }

    fn assign_column(&mut self, value: Bound, column: &ColumnInfo) -> SqlResult<Bound> {
        let (from, at) = (value.ty.oid, value.at);
        self.assign(value, column.ty)?.ok_or_else(|| {
            error_at(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "column \"{}\" is of type {} but expression is of type {from}",
                    column.name, column.ty.oid
                ),
                at,
            )
            .hint("You will need to rewrite or cast the expression.")
        })
    }

    /// The default of each column, NULL where there is none.
    fn defaults(&mut self, table: &RelationInfo) -> SqlResult<Vec<Bound>> {
        table.columns.iter().map(|column| self.default_of(column)).collect()
    }

    fn default_of(&mut self, column: &ColumnInfo) -> SqlResult<Bound> {
        let Some(text) = &column.default else { return Ok(Self::null_of(column.ty)) };
        if let Some(oid) = sequence_of_default(text) {
            // What serial and identity columns have: no text needs to be read.
            let sequence = Bound::constant(Datum::Oid(oid.0), TypeOid::REGCLASS);
            let value = self.call_by_name("nextval", vec![sequence], At::NONE)?;
            return self.assign_column(value, column);
        }
        let expr = parse_expression(text)?;
        let mut bound = bind_constant(self.view, &expr, column.ty, "DEFAULT")?;
        bound.at = At::NONE;
        Ok(bound)
    }

    fn returning(&mut self, targets: &'a [Target]) -> SqlResult<Vec<Output>> {
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        self.block().enter("RETURNING", false, false);
        let mut outputs = self.targets(targets)?;
        for output in &mut outputs {
            if output.ty.oid == TypeOid::UNKNOWN
                && let Some(value) = output.value.take()
            {
                let value = self.resolve_unknown(value)?;
                output.ty = value.ty;
                output.value = Some(value);
            }
        }
        Ok(outputs)
    }

    /// SET's columns and values, each column once, or each time another element of it. `relation`
    /// has the row as it is.
    pub(super) fn assignments(
        &mut self,
        written: &'a [statement::Assignment],
        table: &RelationInfo,
        relation: RelationId,
    ) -> SqlResult<Vec<(u16, Bound)>> {
        let mut assignments: Vec<(u16, Bound)> = Vec::with_capacity(written.len());
        for assignment in written {
            let Some(index) = table.column(&assignment.column) else {
                return Err(undefined_column(&assignment.column, table, assignment.at));
            };
            let before = assignments.iter().position(|(other, _)| *other as usize == index);
            let column = &table.columns[index];
            if !assignment.subscripts.is_empty()
                && before
                    .is_none_or(|at| matches!(assignments[at].1.kind, BoundKind::SetElement(_)))
            {
                let array = match before {
                    Some(at) => assignments.remove(at).1,
                    None => column_of(relation, index, column.ty),
                };
                let value = self.element(assignment, column, array)?;
                assignments.push((index as u16, value));
                continue;
            }
            if before.is_some() {
                return Err(error_at(
                    SqlState::SYNTAX_ERROR,
                    format!("multiple assignments to same column \"{}\"", assignment.column),
                    assignment.at,
                ));
            }
            let value = match &assignment.value.kind {
                ExprKind::Default => self.default_of(column)?,
                _ if column.identity == Some(Identity::Always) => {
                    let message =
                        format!("column \"{}\" can only be updated to DEFAULT", column.name);
                    return Err(generated_always(message, column));
                }
                _ => {
                    let value = self.expr(&assignment.value)?;
                    self.assign_column(value, column)?
                }
            };
            assignments.push((index as u16, value));
        }
        Ok(assignments)
    }

    /// `array` with one element set.
    fn element(
        &mut self,
        assignment: &'a statement::Assignment,
        column: &ColumnInfo,
        array: Bound,
    ) -> SqlResult<Bound> {
        if column.identity == Some(Identity::Always) {
            let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
            return Err(generated_always(message, column));
        }
        let Some(element) = column.ty.oid.element_type() else {
            return Err(no_subscripts(column.ty.oid, assignment.at));
        };
        if matches!(assignment.value.kind, ExprKind::Default) {
            return Err(error_at(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot set an array element to DEFAULT",
                assignment.at,
            ));
        }
        let mut subscripts = Vec::with_capacity(assignment.subscripts.len());
        for subscript in &assignment.subscripts {
            subscripts.push(self.array_index(subscript)?);
        }
        let value = self.expr(&assignment.value)?;
        let (from, at) = (value.ty.oid, value.at);
        let ty = Type::with(element, column.ty.typmod);
        let value = self.assign(value, ty)?.ok_or_else(|| {
            error_at(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "subscripted assignment to \"{}\" requires type {element} but expression is of type {from}",
                    column.name
                ),
                at,
            )
            .hint("You will need to rewrite or cast the expression.")
        })?;
        let parts = Box::new((array, subscripts, value));
        Ok(Bound::new(BoundKind::SetElement(parts), column.ty, assignment.at))
    }

    /// UPDATE.
    pub(super) fn update(&mut self, update: &'a statement::Update) -> SqlResult<Update> {
        self.blocks.push(Block::new());
        self.with(&update.with)?;
        let (table, relation, from) =
            self.target(&update.table, update.alias.as_ref(), &update.from)?;
        self.block().enter("UPDATE", false, false);
        let assignments = self.assignments(&update.assignments, &table, relation)?;
        let filter = self.filter(update.filter.as_ref())?;
        let returning = self.returning(&update.returning)?;
        self.blocks.pop();
        Ok(Update { table, relation, from, filter, assignments, returning })
    }

    /// DELETE.
    pub(super) fn delete(&mut self, delete: &'a statement::Delete) -> SqlResult<Delete> {
        self.blocks.push(Block::new());
        self.with(&delete.with)?;
        let (table, relation, from) =
            self.target(&delete.table, delete.alias.as_ref(), &delete.using)?;
        let filter = self.filter(delete.filter.as_ref())?;
        let returning = self.returning(&delete.returning)?;
        self.blocks.pop();
        Ok(Delete { table, relation, from, filter, returning })
    }

    /// The table that a statement changes; 42809 if it is a sequence.
    fn changed(&self, name: &Name) -> SqlResult<Arc<RelationInfo>> {
        let relation = self.view.relation(name)?;
        match &relation.source {
            Source::Sequence(_) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot change sequence \"{}\"", relation.name),
            )),
            _ => self.view.table(name),
        }
    }

    pub(super) fn filter(&mut self, filter: Option<&'a Expr>) -> SqlResult<Option<Bound>> {
        let Some(filter) = filter else { return Ok(None) };
        self.block().enter("WHERE", false, false);
        let bound = self.expr(filter)?;
        self.condition(bound, "WHERE").map(Some)
    }

    fn target(
        &mut self,
        name: &'a Name,
        alias: Option<&'a Alias>,
        others: &'a [ast::FromItem],
    ) -> SqlResult<(Arc<RelationInfo>, super::bound::RelationId, From)> {
        let table = self.changed(name)?;
        self.use_table(&table);
        let relation = self.new_relation();
        let item = Item::of_relation(relation, &table, alias, name.at)?;
        self.note_names(&item);
        self.block().items.push(item);
        let own = From::Relation(relation, table.clone());
        let from = match self.join_items(others)? {
            None => own,
            Some(other) => {
                From::Join { kind: JoinKind::Inner, sides: Box::new((own, other)), condition: None }
            }
        };
        Ok((table, relation, from))
    }
}

fn is_bare_values(query: &ast::Query) -> bool {
    query.with.ctes.is_empty()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.for_update.is_none()
}

pub(super) fn undefined_column(name: &str, table: &RelationInfo, at: At) -> SqlError {
    error_at(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
        at,
    )
}

/// The positions of the columns that an INSERT names, or all.
fn target_columns(insert: &statement::Insert, table: &RelationInfo) -> SqlResult<Vec<usize>> {
    if insert.columns.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let mut targets = Vec::with_capacity(insert.columns.len());
    for (name, at) in &insert.columns {
        let Some(index) = table.column(name) else {
            return Err(undefined_column(name, table, *at));
        };
        if targets.contains(&index) {
            return Err(error_at(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
                *at,
            ));
        }
        targets.push(index);
    }
    Ok(targets)
}

fn check_width(
    width: usize,
    targets: &[usize],
    insert: &statement::Insert,
    at: impl Fn(usize) -> At,
) -> SqlResult<()> {
    if width > targets.len() {
        return Err(error_at(
            SqlState::SYNTAX_ERROR,
            "INSERT has more expressions than target columns",
            at(targets.len()),
        ));
    }
    if width < targets.len() && !insert.columns.is_empty() {
        return Err(error_at(
            SqlState::SYNTAX_ERROR,
            "INSERT has more target columns than expressions",
            insert.columns[width].1,
        ));
    }
    Ok(())
}

/// Whether a column takes the value that an INSERT gives for it, or its own; 428C9 if it refuses.
fn takes_value(column: &ColumnInfo, overriding: Overriding) -> SqlResult<bool> {
    match (column.identity, overriding) {
        (None, _) | (Some(_), Overriding::System) => Ok(true),
        (Some(Identity::ByDefault), Overriding::No) => Ok(true),
        (Some(_), Overriding::User) => Ok(false),
        (Some(Identity::Always), Overriding::No) => {
            let message =
                format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
            Err(generated_always(message, column).hint("Use OVERRIDING SYSTEM VALUE to override."))
        }
    }
}

fn generated_always(message: String, column: &ColumnInfo) -> SqlError {
    SqlError::new(SqlState::GENERATED_ALWAYS, message).detail(format!(
        "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
        column.name
    ))
}

/// Parses a stored default.
pub fn parse_expression(text: &str) -> SqlResult<Expr> {
    let mut parsed = crate::parse::parse(&format!("SELECT {text}"))?;
    let damaged = || SqlError::internal(format!("a stored default is no expression: {text}"));
    let statement = parsed.pop().ok_or_else(damaged)?.statement?;
    match statement {
        Statement::Query(query) => match query.body {
            ast::Body::Select(select) if select.targets.len() == 1 => {
                Ok(select.targets.into_iter().next().ok_or_else(damaged)?.expr)
            }
            _ => Err(damaged()),
        },
        _ => Err(damaged()),
    }
}
