//! Binding of FROM: relations, subqueries, functions, joins.
//!
//! Invariants: RIGHT JOIN becomes LEFT JOIN with the sides exchanged, which changes no name; a
//! column of USING stands for one side or both, by the kind of join; an item that is not LATERAL
//! does not see its neighbours.

use super::bound::{Bound, BoundKind, From, SetOrScalar};
use super::operator::Op;
use super::query::Unknowns;
use super::scope::{Item, ItemColumn, column_of};
use super::{Binder, error_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::{
    Alias, At, Expr, ExprKind, FromItem, JoinCondition, JoinKind, Name, Query,
};
use crate::types::{Type, TypeOid};
use std::sync::Arc;

impl<'a> Binder<'a> {
    /// All items of FROM, joined by cross join; their names are entered in the current block.
    pub(super) fn join_items(&mut self, items: &'a [FromItem]) -> SqlResult<Option<From>> {
        let mut joined: Option<From> = None;
        for item in items {
            let (from, names) = self.one_item(item)?;
            let block = self.blocks.last().expect("FROM is bound inside a block");
            self.check_new_names(&block.items, &names, item_at(item))?;
            self.block().items.extend(names);
            joined = Some(match joined {
                None => from,
                Some(left) => From::Join {
                    kind: JoinKind::Inner,
                    sides: Box::new((left, from)),
                    condition: None,
                },
            });
        }
        Ok(joined)
    }

    fn one_item(&mut self, item: &'a FromItem) -> SqlResult<(From, Vec<Item>)> {
        let bound = self.bind_item(item)?;
        bound.1.iter().for_each(|item| self.note_names(item));
        Ok(bound)
    }

    fn bind_item(&mut self, item: &'a FromItem) -> SqlResult<(From, Vec<Item>)> {
        match item {
            FromItem::Relation { name, alias } => self.named_item(name, alias.as_ref()),
            FromItem::Subquery { lateral, query, alias } => {
                self.subquery_item(*lateral, query, alias.as_ref())
            }
            FromItem::Function { call, ordinality, alias } => {
                self.function_item(call, *ordinality, alias.as_ref())
            }
            FromItem::Join { kind, condition, left, right, alias } => {
                self.join(*kind, condition, left, right, alias.as_ref())
            }
        }
    }

    fn named_item(
        &mut self,
        name: &'a Name,
        alias: Option<&Alias>,
    ) -> SqlResult<(From, Vec<Item>)> {
        if name.schema.is_none()
            && let Some(found) = self.cte_item(name, alias)?
        {
            return Ok(found);
        }
        let found = self.view.relation(name);
        let info = found.map_err(|error| self.explain_unseen(error, name))?;
        self.use_table(&info);
        let relation = self.new_relation();
        let item = Item::of_relation(relation, &info, alias, name.at)?;
        Ok((From::Relation(relation, info), vec![item]))
    }

    fn subquery_item(
        &mut self,
        lateral: bool,
        query: &'a Query,
        alias: Option<&Alias>,
    ) -> SqlResult<(From, Vec<Item>)> {
        let hidden = if lateral { Vec::new() } else { std::mem::take(&mut self.block().items) };
        let bound = self.query(query, Unknowns::Resolve);
        if !lateral {
            self.block().items = hidden;
        }
        let bound = bound?;
        let columns = bound.outputs[..bound.visible].iter().enumerate().map(|(index, output)| {
            let value = column_of(bound.relation, index, output.ty);
            ItemColumn { name: output.name.clone(), value, origin: output.origin }
        });
        let mut item = Item {
            name: None,
            schema: None,
            table: 0,
            relation: Some(bound.relation),
            columns: columns.collect(),
            relation_visible: alias.is_some(),
            columns_visible: true,
        };
        item.rename(alias, At::NONE)?;
        Ok((From::Subquery(Box::new(bound)), vec![item]))
    }

    fn function_item(
        &mut self,
        call: &'a Expr,
        ordinality: bool,
        alias: Option<&Alias>,
    ) -> SqlResult<(From, Vec<Item>)> {
        let before = (self.block().clause, self.block().aggregates_allowed);
        self.block().enter("functions in FROM", false, true);
        let had_sets = self.block().has_sets;
        let bound = self.expr(call);
        self.block().has_sets = had_sets;
        self.block().enter(before.0, before.1, false);
        let bound = bound?;
        let relation = self.new_relation();
        let function_name: Arc<str> = super::column_name::column_name(call).into();
        let ty = bound.ty;
        let mut columns: Vec<(Arc<str>, Type)> = Vec::new();
        let source = match bound.kind {
            BoundKind::Set(set) => {
                if set.columns.is_empty() {
                    // A scalar function's column is called as its alias is.
                    let name = alias.map_or(function_name.clone(), |a| a.name.as_str().into());
                    columns.push((name, ty));
                } else {
                    columns.extend(set.columns.iter().map(|(n, t)| (n.clone(), Type::new(*t))));
                }
                SetOrScalar::Set(set)
            }
            kind => {
                let name = alias.map_or(function_name.clone(), |alias| alias.name.as_str().into());
                columns.push((name, ty));
                SetOrScalar::Scalar(Box::new(Bound { kind, ty, at: call.at }))
            }
        };
        if ordinality {
            columns.push(("ordinality".into(), Type::new(TypeOid::INT8)));
        }
        let mut item = Item::computed(function_name.to_string(), relation, columns.into_iter());
        item.rename(alias, call.at)?;
        Ok((From::Function { relation, call: source, ordinality }, vec![item]))
    }

    fn join(
        &mut self,
        kind: JoinKind,
        condition: &'a JoinCondition,
        left: &'a FromItem,
        right: &'a FromItem,
        alias: Option<&Alias>,
    ) -> SqlResult<(From, Vec<Item>)> {
        let (left_from, left_items) = self.one_item(left)?;
        // The right side may refer to the left one laterally.
        let outer = self.block().items.len();
        self.block().items.extend(left_items);
        let right_bound = self.one_item(right);
        let left_items = self.block().items.split_off(outer);
        let (right_from, right_items) = right_bound?;
        self.check_new_names(&left_items, &right_items, item_at(right))?;
        let (condition, mut items) = match condition {
            JoinCondition::On(on) => {
                let mut items = left_items;
                items.extend(right_items);
                (self.join_on(on.as_ref(), &items)?, items)
            }
            JoinCondition::Using(columns) => {
                self.join_using(kind, columns, left_items, right_items)?
            }
            JoinCondition::Natural => {
                let shared = shared_columns(&left_items, &right_items);
                self.join_using(kind, &shared, left_items, right_items)?
            }
        };
        if let Some(alias) = alias {
            let visible = items.iter().filter(|item| item.columns_visible);
            let columns = visible.flat_map(|item| item.columns.iter().cloned()).collect();
            let mut item = Item {
                name: None,
                schema: None,
                table: 0,
                relation: None,
                columns,
                relation_visible: true,
                columns_visible: true,
            };
            item.rename(Some(alias), At::NONE)?;
            items = vec![item];
        }
        let (kind, sides) = match kind {
            JoinKind::Right => (JoinKind::Left, (right_from, left_from)),
            kind => (kind, (left_from, right_from)),
        };
        Ok((From::Join { kind, sides: Box::new(sides), condition }, items))
    }

    fn join_on(&mut self, on: Option<&'a Expr>, items: &[Item]) -> SqlResult<Option<Bound>> {
        let Some(on) = on else { return Ok(None) };
        // ON sees the two sides, and outer queries, but not the neighbours of the join.
        let neighbours = std::mem::replace(&mut self.block().items, items.to_vec());
        self.block().enter("JOIN conditions", false, false);
        let bound = self.expr(on);
        self.block().enter("FROM", false, false);
        self.block().items = neighbours;
        let bound = bound?;
        self.condition(bound, "JOIN/ON").map(Some)
    }

    fn join_using(
        &mut self,
        kind: JoinKind,
        names: &[String],
        mut left: Vec<Item>,
        mut right: Vec<Item>,
    ) -> SqlResult<(Option<Bound>, Vec<Item>)> {
        let mut merged = Vec::new();
        let mut tests = Vec::new();
        for name in names {
            let left_column = using_column(&left, name, "left")?;
            let right_column = using_column(&right, name, "right")?;
            let (l, r) = (left_column.value.clone(), right_column.value.clone());
            tests.push(self.operator(Op::of("="), Some(l.clone()), r.clone(), At::NONE)?);
            let value = match kind {
                JoinKind::Inner | JoinKind::Left if l.ty.oid == r.ty.oid => l,
                JoinKind::Right if l.ty.oid == r.ty.oid => r,
                _ => {
                    let (mut both, ty) = self.in_common_type(vec![l, r], "JOIN/USING")?;
                    match kind {
                        JoinKind::Inner | JoinKind::Left => both.swap_remove(0),
                        JoinKind::Right => both.swap_remove(1),
                        JoinKind::Full => Bound::new(BoundKind::Coalesce(both), ty, At::NONE),
                    }
                }
            };
            merged.push(ItemColumn {
                name: left_column.name.clone(),
                value,
                origin: left_column.origin,
            });
        }
        // The join's own columns: merged ones, then the rest of each side.
        let mut columns = merged;
        for item in left.iter().chain(&right).filter(|item| item.columns_visible) {
            let rest =
                item.columns.iter().filter(|column| !names.iter().any(|n| **n == *column.name));
            columns.extend(rest.cloned());
        }
        for item in left.iter_mut().chain(&mut right) {
            item.columns_visible = false;
        }
        left.extend(right);
        left.push(Item {
            name: None,
            schema: None,
            table: 0,
            relation: None,
            columns,
            relation_visible: false,
            columns_visible: true,
        });
        let condition = match tests.len() {
            0 => None,
            1 => tests.pop(),
            _ => Some(Bound::new(BoundKind::And(tests), TypeOid::BOOL, At::NONE)),
        };
        Ok((condition, left))
    }
}

fn shared_columns(left: &[Item], right: &[Item]) -> Vec<String> {
    let visible = |items: &[Item]| -> Vec<Arc<str>> {
        let items = items.iter().filter(|item| item.columns_visible);
        items.flat_map(|item| item.columns.iter().map(|column| column.name.clone())).collect()
    };
    let right = visible(right);
    visible(left).into_iter().filter(|name| right.contains(name)).map(|n| n.to_string()).collect()
}

fn using_column<'i>(items: &'i [Item], name: &str, side: &str) -> SqlResult<&'i ItemColumn> {
    let visible = items.iter().filter(|item| item.columns_visible);
    let mut found = visible.flat_map(|item| &item.columns).filter(|column| &*column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (Some(_), Some(_)) => Err(SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("common column name \"{name}\" appears more than once in {side} table"),
        )),
        _ => Err(SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
        )),
    }
}

fn item_at(item: &FromItem) -> At {
    match item {
        FromItem::Relation { name, .. } => name.at,
        FromItem::Function { call, .. } => call.at,
        FromItem::Subquery { .. } | FromItem::Join { .. } => At::NONE,
    }
}

/// Refuses what DISTINCT and grouping make impossible for FOR UPDATE.
pub(super) fn check_lockable(what: Option<&str>) -> SqlResult<()> {
    match what {
        Some(what) => Err(error_at(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("FOR UPDATE is not allowed with {what}"),
            At::NONE,
        )),
        None => Ok(()),
    }
}

/// Is the expression an integer constant, as an ordinal is?
pub(super) fn ordinal(expr: &Expr) -> Option<i32> {
    match &expr.kind {
        ExprKind::Literal(crate::parse::ast::Literal::Integer(value)) => Some(*value),
        _ => None,
    }
}
