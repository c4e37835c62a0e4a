//! Binding of queries: SELECT with its clauses, VALUES, set operations, WITH.
//!
//! Invariants: a query's outputs have types other than UNKNOWN, unless its caller asked to keep
//! them and converts them itself. Blocks are pushed and popped in pairs, errors included.

use super::bound::{Body, Bound, BoundKind, From, Output, Query, Select, SortKey};
use super::scope::Block;
use super::{Binder, error_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{CastContext, Comparison, default_order};
use crate::parse::ast::{self, At, Expr, ExprKind, OrderBy, Target};
use crate::relations::Source;
use crate::types::{Type, TypeOid};
use std::sync::Arc;

/// What becomes of outputs that are bare literals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknowns {
    /// They become text.
    Resolve,
    /// They stay UNKNOWN: the caller knows the type.
    Keep,
}

impl<'a> Binder<'a> {
    /// Binds a query in a block of its own.
    pub(super) fn query(&mut self, query: &'a ast::Query, unknowns: Unknowns) -> SqlResult<Query> {
        self.blocks.push(Block::new());
        let bound = self.query_inside(query, unknowns);
        self.blocks.pop();
        bound
    }

    fn query_inside(&mut self, query: &'a ast::Query, unknowns: Unknowns) -> SqlResult<Query> {
        self.with(&query.with)?;
        let mut bound = match &query.body {
            ast::Body::Select(select) => self.select(select, query, unknowns)?,
            ast::Body::Values(rows) => self.values(rows, query, unknowns)?,
            ast::Body::SetOperation { operation, all, left, right } => {
                self.set_operation(*operation, *all, (left, right), query)?
            }
        };
        self.block().items.clear();
        self.block().enter("LIMIT", false, false);
        bound.limit = self.row_count(query.limit.as_ref(), "LIMIT")?;
        bound.offset = self.row_count(query.offset.as_ref(), "OFFSET")?;
        Ok(bound)
    }

    fn row_count(
        &mut self,
        count: Option<&'a Expr>,
        clause: &'static str,
    ) -> SqlResult<Option<Box<Bound>>> {
        let Some(count) = count else { return Ok(None) };
        self.block().enter(clause, false, false);
        let bound = self.expr(count)?;
        let (from, at) = (bound.ty.oid, bound.at);
        match self.convert(bound, TypeOid::INT8, CastContext::Assignment)? {
            Some(bound) => Ok(Some(Box::new(bound))),
            None => Err(error_at(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {clause} must be type bigint, not type {from}"),
                at,
            )),
        }
    }

    fn select(
        &mut self,
        select: &'a ast::Select,
        query: &'a ast::Query,
        unknowns: Unknowns,
    ) -> SqlResult<Query> {
        let from = self.join_items(&select.from)?;
        self.block().enter("SELECT", true, true);
        let mut outputs = self.targets(&select.targets)?;
        let visible = outputs.len();
        self.block().enter("WHERE", false, false);
        let filter = self.optional_condition(select.filter.as_ref(), "WHERE")?;
        self.block().enter("HAVING", true, false);
        let having = self.optional_condition(select.having.as_ref(), "HAVING")?;
        if unknowns == Unknowns::Resolve {
            self.resolve_outputs(&mut outputs)?;
        }
        self.block().enter("ORDER BY", true, true);
        let mut order_by = Vec::with_capacity(query.order_by.len());
        for key in &query.order_by {
            order_by.push(self.sort_key(key, &mut outputs, visible)?);
        }
        self.block().enter("GROUP BY", false, false);
        let keys = self.group_keys(&select.group_by, &outputs[..visible])?;
        let mut bound = Select {
            from,
            filter,
            grouping: None,
            having,
            distinct: select.distinct.as_ref().is_some_and(Vec::is_empty),
            distinct_on: Vec::new(),
            has_sets: self.block().has_sets,
        };
        self.group(&mut bound, keys, &mut outputs)?;
        check_recursive(&bound, &outputs)?;
        if let Some(on) = select.distinct.as_ref().filter(|on| !on.is_empty()) {
            self.distinct_on(on, &mut bound, &mut outputs, visible, &mut order_by)?;
        }
        if bound.distinct {
            self.check_distinct(&outputs[..visible], &order_by, visible)?;
        }
        let locked = self.locked(query, &bound)?;
        let relation = self.new_relation();
        Ok(Query {
            relation,
            outputs,
            visible,
            body: Body::Select(Box::new(bound)),
            order_by,
            limit: None,
            offset: None,
            locked,
        })
    }

    fn optional_condition(
        &mut self,
        condition: Option<&'a Expr>,
        clause: &str,
    ) -> SqlResult<Option<Bound>> {
        match condition {
            Some(condition) => {
                let bound = self.expr(condition)?;
                self.condition(bound, clause).map(Some)
            }
            None => Ok(None),
        }
    }

    /// A target list with its stars expanded.
    pub(super) fn targets(&mut self, targets: &'a [Target]) -> SqlResult<Vec<Output>> {
        let mut outputs = Vec::with_capacity(targets.len());
        for target in targets {
            if let ExprKind::Column { parts, star: true } = &target.expr.kind {
                for column in self.star(parts, target.expr.at)? {
                    outputs.push(Output {
                        name: column.name,
                        ty: column.value.ty,
                        value: Some(column.value),
                        origin: column.origin,
                    });
                }
                continue;
            }
            let value = self.expr(&target.expr)?;
            let name: Arc<str> = match &target.alias {
                Some(alias) => alias.as_str().into(),
                None => super::column_name::column_name(&target.expr).into(),
            };
            let origin = self.origin(&value);
            outputs.push(Output { name, ty: value.ty, value: Some(value), origin });
        }
        Ok(outputs)
    }

    fn origin(&self, value: &Bound) -> Option<(u32, i16)> {
        let BoundKind::Column(column) = &value.kind else { return None };
        let items = self.blocks.iter().rev().flat_map(|block| &block.items);
        let item = items.into_iter().find(|item| item.relation == Some(column.relation))?;
        item.columns.get(column.column as usize)?.origin
    }

    fn resolve_outputs(&mut self, outputs: &mut [Output]) -> SqlResult<()> {
        for output in outputs {
            if output.ty.oid == TypeOid::UNKNOWN
                && let Some(value) = output.value.take()
            {
                let value = self.resolve_unknown(value)?;
                output.ty = value.ty;
                output.value = Some(value);
            }
        }
        Ok(())
    }

    /// A key of ORDER BY: an output's name, an ordinal, or an expression.
    fn sort_key(
        &mut self,
        key: &'a OrderBy,
        outputs: &mut Vec<Output>,
        visible: usize,
    ) -> SqlResult<SortKey> {
        let output = match self.named_output(&key.expr, &outputs[..visible], "ORDER BY")? {
            Some(output) => output,
            None => {
                let value = self.expr(&key.expr)?;
                let value = self.resolve_unknown(value)?;
                match outputs.iter().position(|o| o.value.as_ref().is_some_and(|v| same(v, &value)))
                {
                    Some(found) => found,
                    None => {
                        let ty = value.ty;
                        outputs.push(Output {
                            name: "".into(),
                            value: Some(value),
                            ty,
                            origin: None,
                        });
                        outputs.len() - 1
                    }
                }
            }
        };
        self.check_orderable(outputs[output].ty.oid, key.expr.at)?;
        Ok(SortKey {
            output: output as u16,
            descending: key.descending,
            nulls_first: key.nulls_first,
        })
    }

    fn check_orderable(&self, oid: TypeOid, at: At) -> SqlResult<()> {
        if oid == TypeOid::UNKNOWN {
            return Ok(());
        }
        match default_order(oid, Comparison::Less) {
            Ok(_) => Ok(()),
            Err(error) => Err(error
                .hint("Use an explicit ordering operator or modify the query.")
                .at(at.position())),
        }
    }

    /// The output that a bare name or an ordinal means.
    fn named_output(
        &self,
        expr: &Expr,
        outputs: &[Output],
        clause: &str,
    ) -> SqlResult<Option<usize>> {
        if let Some(ordinal) = super::from::ordinal(expr) {
            return match usize::try_from(ordinal) {
                Ok(number) if (1..=outputs.len()).contains(&number) => Ok(Some(number - 1)),
                _ => Err(error_at(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!("{clause} position {ordinal} is not in select list"),
                    expr.at,
                )),
            };
        }
        match &expr.kind {
            ExprKind::Literal(literal)
                if clause != "GROUP BY" || !matches!(literal, ast::Literal::Null) =>
            {
                Err(error_at(
                    SqlState::SYNTAX_ERROR,
                    format!("non-integer constant in {clause}"),
                    expr.at,
                ))
            }
            ExprKind::Column { parts, star: false } if parts.len() == 1 => {
                let mut found: Option<usize> = None;
                for (index, output) in outputs.iter().enumerate() {
                    if *output.name != *parts[0] {
                        continue;
                    }
                    let alike = found.is_none_or(|other| {
                        let values = (&outputs[other].value, &output.value);
                        matches!(values, (Some(a), Some(b)) if same(a, b))
                    });
                    if !alike {
                        return Err(error_at(
                            SqlState::AMBIGUOUS_COLUMN,
                            format!("{clause} \"{}\" is ambiguous", parts[0]),
                            expr.at,
                        ));
                    }
                    found = found.or(Some(index));
                }
                Ok(found)
            }
            _ => Ok(None),
        }
    }

    fn group_keys(&mut self, keys: &'a [Expr], outputs: &[Output]) -> SqlResult<Vec<Bound>> {
        let mut bound = Vec::with_capacity(keys.len());
        for key in keys {
            // In GROUP BY a column of FROM comes before an output's name.
            let bare = match &key.kind {
                ExprKind::Column { parts, star: false } if parts.len() == 1 => {
                    let block = self.blocks.last().expect("GROUP BY is bound inside a block");
                    let visible = block.items.iter().filter(|item| item.columns_visible);
                    visible.flat_map(|item| &item.columns).any(|c| *c.name == *parts[0])
                }
                _ => false,
            };
            let output = if bare { None } else { self.named_output(key, outputs, "GROUP BY")? };
            let value = match output {
                Some(output) => {
                    outputs[output].value.clone().expect("a SELECT's outputs have values")
                }
                None => {
                    let value = self.expr(key)?;
                    self.resolve_unknown(value)?
                }
            };
            if contains_aggregate(&value) {
                return Err(error_at(
                    SqlState::GROUPING_ERROR,
                    "aggregate functions are not allowed in GROUP BY",
                    key.at,
                ));
            }
            if !bound.iter().any(|other| same(other, &value)) {
                bound.push(value);
            }
        }
        Ok(bound)
    }

    fn distinct_on(
        &mut self,
        on: &'a [Expr],
        select: &mut Select,
        outputs: &mut Vec<Output>,
        visible: usize,
        order_by: &mut Vec<SortKey>,
    ) -> SqlResult<()> {
        self.block().enter("DISTINCT ON", true, false);
        for key in on {
            let output = match self.named_output(key, &outputs[..visible], "DISTINCT ON")? {
                Some(output) => output,
                None => {
                    let value = self.expr(key)?;
                    let value = self.resolve_unknown(value)?;
                    let found = outputs
                        .iter()
                        .position(|o| o.value.as_ref().is_some_and(|v| same(v, &value)));
                    found.unwrap_or_else(|| {
                        let ty = value.ty;
                        outputs.push(Output {
                            name: "".into(),
                            value: Some(value),
                            ty,
                            origin: None,
                        });
                        outputs.len() - 1
                    })
                }
            };
            select.distinct_on.push(output as u16);
        }
        let leading = order_by.iter().take(on.len());
        if leading.clone().any(|key| !select.distinct_on.contains(&key.output)) {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
            ));
        }
        for output in &select.distinct_on {
            if !order_by.iter().any(|key| key.output == *output) {
                order_by.push(SortKey { output: *output, descending: false, nulls_first: false });
            }
        }
        Ok(())
    }

    fn check_distinct(
        &self,
        outputs: &[Output],
        order_by: &[SortKey],
        visible: usize,
    ) -> SqlResult<()> {
        if order_by.iter().any(|key| key.output as usize >= visible) {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
            ));
        }
        for output in outputs {
            if output.ty.oid != TypeOid::UNKNOWN {
                default_order(output.ty.oid, Comparison::Equal)?;
            }
        }
        Ok(())
    }

    fn locked(
        &mut self,
        query: &'a ast::Query,
        select: &Select,
    ) -> SqlResult<Vec<super::bound::RelationId>> {
        let Some(names) = &query.for_update else { return Ok(Vec::new()) };
        let what = match () {
            () if select.distinct || !select.distinct_on.is_empty() => Some("DISTINCT clause"),
            () if select.grouping.as_ref().is_some_and(|g| !g.keys.is_empty()) => {
                Some("GROUP BY clause")
            }
            () if select.having.is_some() => Some("HAVING clause"),
            () if select.grouping.is_some() => Some("aggregate functions"),
            () if select.has_sets => Some("set-returning functions in the target list"),
            () => None,
        };
        super::from::check_lockable(what)?;
        let mut tables = Vec::new();
        if let Some(from) = &select.from {
            lockable(from, &mut tables)?;
        }
        if names.is_empty() {
            return Ok(tables);
        }
        let mut locked = Vec::new();
        for name in names {
            let item = self.item(None, &name.name, name.at).map_err(|_| {
                error_at(
                    SqlState::UNDEFINED_TABLE,
                    format!(
                        "relation \"{}\" in FOR UPDATE clause not found in FROM clause",
                        name.name
                    ),
                    name.at,
                )
            })?;
            match item.relation {
                Some(relation) if tables.contains(&relation) => locked.push(relation),
                _ => {
                    return Err(SqlError::not_supported("FOR UPDATE of this item of FROM")
                        .at(name.at.position()));
                }
            }
        }
        Ok(locked)
    }

    fn values(
        &mut self,
        rows: &'a [Vec<Expr>],
        query: &'a ast::Query,
        unknowns: Unknowns,
    ) -> SqlResult<Query> {
        self.block().enter("VALUES", false, false);
        let width = rows[0].len();
        let mut bound: Vec<Vec<Bound>> = Vec::with_capacity(rows.len());
        for row in rows {
            if row.len() != width {
                let at = row.first().map_or(At::NONE, |first| first.at);
                return Err(error_at(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                    at,
                ));
            }
            bound.push(self.all(row)?);
        }
        let mut outputs = Vec::with_capacity(width);
        for column in 0..width {
            let values: Vec<Bound> = bound.iter().map(|row| row[column].clone()).collect();
            let all_unknown = values.iter().all(|value| value.ty.oid == TypeOid::UNKNOWN);
            let ty = if all_unknown && unknowns == Unknowns::Keep {
                Type::new(TypeOid::UNKNOWN)
            } else {
                let (values, ty) = self.in_common_type(values, "VALUES")?;
                for (row, value) in bound.iter_mut().zip(values) {
                    row[column] = value;
                }
                ty
            };
            let name = format!("column{}", column + 1);
            outputs.push(Output { name: name.into(), value: None, ty, origin: None });
        }
        let order_by = self.outer_order(query, &outputs)?;
        super::from::check_lockable(query.for_update.as_ref().map(|_| "VALUES"))?;
        let relation = self.new_relation();
        Ok(plain(relation, outputs, Body::Values(bound), order_by))
    }

    /// ORDER BY of VALUES and set operations: outputs only.
    pub(super) fn outer_order(
        &self,
        query: &'a ast::Query,
        outputs: &[Output],
    ) -> SqlResult<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(query.order_by.len());
        for key in &query.order_by {
            let Some(output) = self.named_output(&key.expr, outputs, "ORDER BY")? else {
                if let ExprKind::Column { parts, star: false } = &key.expr.kind
                    && let [name] = parts.as_slice()
                {
                    return Err(error_at(
                        SqlState::UNDEFINED_COLUMN,
                        format!("column \"{name}\" does not exist"),
                        key.expr.at,
                    ));
                }
                return Err(error_at(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                    key.expr.at,
                )
                .detail("Only result column names can be used, not expressions or functions.")
                .hint(
                    "Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
                ));
            };
            self.check_orderable(outputs[output].ty.oid, key.expr.at)?;
            let (descending, nulls_first) = (key.descending, key.nulls_first);
            keys.push(SortKey { output: output as u16, descending, nulls_first });
        }
        Ok(keys)
    }
}

/// A query with nothing around its body but an order.
pub(super) fn plain(
    relation: super::bound::RelationId,
    outputs: Vec<Output>,
    body: Body,
    order_by: Vec<SortKey>,
) -> Query {
    let visible = outputs.len();
    let (limit, offset, locked) = (None, None, Vec::new());
    Query { relation, outputs, visible, body, order_by, limit, offset, locked }
}

fn lockable(from: &From, tables: &mut Vec<super::bound::RelationId>) -> SqlResult<()> {
    match from {
        From::Relation(relation, info) => match info.source {
            Source::Table(_) => tables.push(*relation),
            Source::Sequence(_) => {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot lock rows in sequence \"{}\"", info.name),
                ));
            }
            Source::Virtual(_) => {}
        },
        From::Join { sides, .. } => {
            lockable(&sides.0, tables)?;
            lockable(&sides.1, tables)?;
        }
        _ => {}
    }
    Ok(())
}

/// Are two bound expressions the same? Only what can be decided from the tree.
pub(super) fn same(a: &Bound, b: &Bound) -> bool {
    super::group::same(a, b)
}

fn contains_aggregate(bound: &Bound) -> bool {
    aggregate_at(bound).is_some()
}

/// Where the first aggregate in an expression stands.
fn aggregate_at(bound: &Bound) -> Option<At> {
    if matches!(bound.kind, BoundKind::Aggregate(_)) {
        return Some(bound.at);
    }
    let mut found = None;
    super::walk::children(bound, &mut |child| found = found.or_else(|| aggregate_at(child)));
    found
}

/// Aggregates would have to see all rows of an iteration of WITH RECURSIVE at once (42P19).
fn check_recursive(select: &Select, outputs: &[Output]) -> SqlResult<()> {
    let aggregates = select.grouping.as_ref().is_some_and(|it| !it.aggregates.is_empty());
    if !aggregates || !select.from.as_ref().is_some_and(reads_working) {
        return Ok(());
    }
    let values = outputs.iter().filter_map(|output| output.value.as_ref());
    let at = values.chain(&select.having).find_map(aggregate_at);
    Err(error_at(
        SqlState::INVALID_RECURSION,
        "aggregate functions are not allowed in a recursive query's recursive term",
        at.unwrap_or(At::NONE),
    ))
}

/// Is a working table one of the items?
fn reads_working(from: &From) -> bool {
    match from {
        From::Working(..) => true,
        From::Join { sides, .. } => reads_working(&sides.0) || reads_working(&sides.1),
        _ => false,
    }
}
