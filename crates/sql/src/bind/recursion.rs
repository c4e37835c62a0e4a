//! WITH RECURSIVE before anything is bound: which common table expressions refer to which, in what
//! order they can be bound, and where a recursive reference may stand.
//!
//! Invariants: works on the syntax tree alone, by names: an unqualified relation name means the
//! innermost WITH that has it. The rules are PostgreSQL's (`parse_cte.c`): one recursive reference,
//! in the right side of the topmost UNION, under nothing that would have to see all rows of an
//! iteration at once (42P19).

use super::error_at;
use crate::error::{SqlResult, SqlState};
use crate::parse::ast::{
    Body, Call, Cte, Expr, ExprKind, FromItem, JoinCondition, JoinKind, Name, Query, SetOperation,
    With,
};
use crate::parse::statement::{Assignment, Statement};

/// What a reference stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Where a recursive reference may be.
    Good,
    /// The left side of the UNION.
    First,
    /// A subquery of an expression, or WITH.
    Subquery,
    /// The side of an outer join that may be missing.
    OuterJoin,
    /// INTERSECT ALL.
    Intersect,
    /// EXCEPT.
    Except,
}

impl Place {
    fn words(self) -> &'static str {
        match self {
            Place::Good => "its recursive term",
            Place::First => "its non-recursive term",
            Place::Subquery => "a subquery",
            Place::OuterJoin => "an outer join",
            Place::Intersect => "INTERSECT",
            Place::Except => "EXCEPT",
        }
    }
}

/// The items of a WITH in an order in which each comes after those that it refers to, and whether
/// it refers to itself.
pub(super) fn order(with: &With) -> SqlResult<Vec<(&Cte, bool)>> {
    if !with.recursive {
        return Ok(with.ctes.iter().map(|cte| (cte, false)).collect());
    }
    let place = |name: &Name| with.ctes.iter().position(|cte| cte.name == name.name);
    let mut needs: Vec<Vec<usize>> = Vec::with_capacity(with.ctes.len());
    for cte in &with.ctes {
        let mut found = Vec::new();
        let mut note = |name: &Name, _| {
            found.extend(place(name));
            Ok(())
        };
        Walker { inner: Vec::new(), place: Place::Good, found: &mut note }
            .statement(&cte.statement)?;
        needs.push(found);
    }
    let mut ordered = Vec::with_capacity(needs.len());
    let mut left: Vec<usize> = (0..needs.len()).collect();
    while let Some(&first) = left.first() {
        let is_ready =
            |one: &&usize| needs[**one].iter().all(|it| it == *one || !left.contains(it));
        let Some(&next) = left.iter().find(is_ready) else {
            return Err(error_at(
                SqlState::FEATURE_NOT_SUPPORTED,
                "mutual recursion between WITH items is not implemented",
                with.ctes[first].at,
            ));
        };
        left.retain(|one| *one != next);
        ordered.push((&with.ctes[next], needs[next].contains(&next)));
    }
    for (cte, is_recursive) in &ordered {
        if *is_recursive {
            check(cte)?;
        }
    }
    Ok(ordered)
}

/// The sides of a recursive item's UNION, which [`order`] has checked, and whether it says ALL.
pub(super) fn sides(query: &Query) -> Option<(bool, &Query, &Query)> {
    match &query.body {
        Body::SetOperation { operation: SetOperation::Union, all, left, right } => {
            Some((*all, left, right))
        }
        _ => None,
    }
}

fn check(cte: &Cte) -> SqlResult<()> {
    let wrong = |what: &str| {
        let message = format!("recursive query \"{}\" {what}", cte.name);
        error_at(SqlState::INVALID_RECURSION, message, cte.at)
    };
    let Statement::Query(query) = &cte.statement else {
        return Err(wrong("must not contain data-modifying statements"));
    };
    let Some((_, first, recursive)) = sides(query) else {
        let form = "does not have the form non-recursive-term UNION [ALL] recursive-term";
        return Err(wrong(form));
    };
    let mut count = 0;
    let mut found = |name: &Name, place| {
        if name.name != cte.name {
            return Ok(());
        }
        count += usize::from(place == Place::Good);
        let message = match place {
            Place::Good if count == 1 => return Ok(()),
            Place::Good => {
                format!(
                    "recursive reference to query \"{}\" must not appear more than once",
                    cte.name
                )
            }
            place => format!(
                "recursive reference to query \"{}\" must not appear within {}",
                cte.name,
                place.words()
            ),
        };
        Err(error_at(SqlState::INVALID_RECURSION, message, name.at))
    };
    let mut walker = Walker { inner: Vec::new(), place: Place::First, found: &mut found };
    walker.query(first)?;
    walker.place = Place::Good;
    walker.query(recursive)?;
    walker.place = Place::Subquery;
    walker.with(&query.with)?;
    let refused = |what: &str, at| {
        let message = format!("{what} in a recursive query is not implemented");
        Err(error_at(SqlState::FEATURE_NOT_SUPPORTED, message, at))
    };
    if let Some(key) = query.order_by.first() {
        return refused("ORDER BY", key.expr.at);
    }
    if let Some(offset) = &query.offset {
        return refused("OFFSET", offset.at);
    }
    if let Some(limit) = &query.limit {
        return refused("LIMIT", limit.at);
    }
    match &query.for_update {
        Some(_) => refused("FOR UPDATE/SHARE", cte.at),
        None => Ok(()),
    }
}

/// Finds the relation names of a statement that no WITH inside of it explains.
struct Walker<'a, 'f> {
    /// The names of the WITHs around the present place, inside of what is walked.
    inner: Vec<&'a str>,
    place: Place,
    found: &'f mut dyn FnMut(&'a Name, Place) -> SqlResult<()>,
}

impl<'a> Walker<'a, '_> {
    fn name(&mut self, name: &'a Name) -> SqlResult<()> {
        if name.schema.is_some() || self.inner.contains(&name.name.as_str()) {
            return Ok(());
        }
        (self.found)(name, self.place)
    }

    /// Walks as if at another place.
    fn at(&mut self, place: Place, walk: impl FnOnce(&mut Self) -> SqlResult<()>) -> SqlResult<()> {
        let before = std::mem::replace(&mut self.place, place);
        let result = walk(self);
        self.place = before;
        result
    }

    /// The items of a WITH; afterwards their names are known.
    fn with(&mut self, with: &'a With) -> SqlResult<()> {
        if with.recursive {
            self.inner.extend(with.ctes.iter().map(|cte| cte.name.as_str()));
        }
        for cte in &with.ctes {
            self.statement(&cte.statement)?;
            if !with.recursive {
                self.inner.push(&cte.name);
            }
        }
        Ok(())
    }

    fn statement(&mut self, statement: &'a Statement) -> SqlResult<()> {
        let depth = self.inner.len();
        match statement {
            Statement::Query(query) => self.query(query)?,
            Statement::Insert(insert) => {
                self.with(&insert.with)?;
                self.name(&insert.table)?;
                insert.source.iter().try_for_each(|source| self.query(source))?;
                if let Some(update) = insert.conflict.as_ref().and_then(|it| it.update.as_ref()) {
                    self.assignments(&update.assignments)?;
                    self.exprs(&update.filter)?;
                }
                insert.returning.iter().try_for_each(|target| self.expr(&target.expr))?;
            }
            Statement::Update(update) => {
                self.with(&update.with)?;
                self.name(&update.table)?;
                self.assignments(&update.assignments)?;
                update.from.iter().try_for_each(|item| self.item(item))?;
                self.exprs(&update.filter)?;
                update.returning.iter().try_for_each(|target| self.expr(&target.expr))?;
            }
            Statement::Delete(delete) => {
                self.with(&delete.with)?;
                self.name(&delete.table)?;
                delete.using.iter().try_for_each(|item| self.item(item))?;
                self.exprs(&delete.filter)?;
                delete.returning.iter().try_for_each(|target| self.expr(&target.expr))?;
            }
            Statement::Utility(_) => {}
        }
        self.inner.truncate(depth);
        Ok(())
    }

    fn assignments(&mut self, assignments: &'a [Assignment]) -> SqlResult<()> {
        assignments.iter().try_for_each(|assignment| {
            self.exprs(&assignment.subscripts)?;
            self.expr(&assignment.value)
        })
    }

    fn query(&mut self, query: &'a Query) -> SqlResult<()> {
        let depth = self.inner.len();
        self.with(&query.with)?;
        match &query.body {
            Body::Select(select) => {
                select.from.iter().try_for_each(|item| self.item(item))?;
                select.targets.iter().try_for_each(|target| self.expr(&target.expr))?;
                self.exprs(select.distinct.iter().flatten())?;
                self.exprs(&select.filter)?;
                self.exprs(&select.group_by)?;
                self.exprs(&select.having)?;
            }
            Body::Values(rows) => self.exprs(rows.iter().flatten())?,
            Body::SetOperation { operation, all, left, right } => {
                let (left_place, right_place) = match (self.place, operation) {
                    (Place::Good, SetOperation::Intersect) if *all => {
                        (Place::Intersect, Place::Intersect)
                    }
                    (Place::Good, SetOperation::Except) if *all => (Place::Except, Place::Except),
                    (Place::Good, SetOperation::Except) => (Place::Good, Place::Except),
                    (place, _) => (place, place),
                };
                self.at(left_place, |walker| walker.query(left))?;
                self.at(right_place, |walker| walker.query(right))?;
            }
        }
        query.order_by.iter().try_for_each(|key| self.expr(&key.expr))?;
        self.exprs(query.limit.iter().chain(&query.offset))?;
        self.inner.truncate(depth);
        Ok(())
    }

    fn item(&mut self, item: &'a FromItem) -> SqlResult<()> {
        match item {
            FromItem::Relation { name, .. } => self.name(name),
            FromItem::Subquery { query, .. } => self.query(query),
            FromItem::Function { call, .. } => self.expr(call),
            FromItem::Join { kind, condition, left, right, .. } => {
                let place = self.place;
                let outer = if place == Place::Good { Place::OuterJoin } else { place };
                let (of_left, of_right) = match kind {
                    JoinKind::Inner => (place, place),
                    JoinKind::Left => (place, outer),
                    JoinKind::Right => (outer, place),
                    JoinKind::Full => (outer, outer),
                };
                self.at(of_left, |walker| walker.item(left))?;
                self.at(of_right, |walker| walker.item(right))?;
                match &**condition {
                    JoinCondition::On(on) => self.exprs(on),
                    JoinCondition::Using(_) | JoinCondition::Natural => Ok(()),
                }
            }
        }
    }

    fn subquery(&mut self, query: &'a Query) -> SqlResult<()> {
        self.at(Place::Subquery, |walker| walker.query(query))
    }

    fn exprs(&mut self, exprs: impl IntoIterator<Item = &'a Expr>) -> SqlResult<()> {
        exprs.into_iter().try_for_each(|expr| self.expr(expr))
    }

    fn call(&mut self, call: &'a Call) -> SqlResult<()> {
        self.exprs(&call.arguments)?;
        self.exprs(call.order_by.iter().map(|key| &key.expr))?;
        self.exprs(&call.filter)
    }

    fn expr(&mut self, expr: &'a Expr) -> SqlResult<()> {
        match &expr.kind {
            ExprKind::Column { .. }
            | ExprKind::Literal(_)
            | ExprKind::Parameter(_)
            | ExprKind::Default
            | ExprKind::SqlValue(..) => Ok(()),
            ExprKind::Operator { left, right, .. } => {
                self.exprs(left.as_deref())?;
                self.expr(right)
            }
            ExprKind::Quantified { left, right, .. }
            | ExprKind::Distinct { left, right, .. }
            | ExprKind::NullIf(left, right) => {
                self.expr(left)?;
                self.expr(right)
            }
            ExprKind::In { left, list, .. } => {
                self.expr(left)?;
                self.exprs(list)
            }
            ExprKind::Between { value, low, high, .. } => self.exprs([&**value, low, high]),
            ExprKind::And(items)
            | ExprKind::Or(items)
            | ExprKind::Coalesce(items)
            | ExprKind::MinMax(_, items)
            | ExprKind::Row(items)
            | ExprKind::Array(items) => self.exprs(items),
            ExprKind::Not(inner)
            | ExprKind::Is(_, inner)
            | ExprKind::Cast(inner, _)
            | ExprKind::Collate(inner, _)
            | ExprKind::Field(inner, _) => self.expr(inner),
            ExprKind::Call(call) => self.call(call),
            ExprKind::Case { operand, branches, otherwise } => {
                self.exprs(operand.as_deref())?;
                self.exprs(branches.iter().flat_map(|(when, then)| [when, then]))?;
                self.exprs(otherwise.as_deref())
            }
            ExprKind::Exists(query) | ExprKind::Subquery(query) | ExprKind::ArrayQuery(query) => {
                self.subquery(query)
            }
            ExprKind::QuantifiedQuery { left, query, .. } => {
                self.subquery(query)?;
                self.expr(left)
            }
            ExprKind::Subscript(base, indices) => {
                self.expr(base)?;
                self.exprs(indices)
            }
            ExprKind::Slice(base, low, high) => {
                self.expr(base)?;
                self.exprs(low.as_deref())?;
                self.exprs(high.as_deref())
            }
        }
    }
}
