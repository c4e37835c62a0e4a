//! Binding of WITH: common table expressions, recursive ones and data changes included.
//!
//! Invariants: an item is bound once, where it is written, and read where it is named. It is bound
//! again at each place that names it, with the names in sight where it is written, if its rows
//! depend on something around it (columns of outer queries, the working table of a recursion), or
//! if it says NOT MATERIALIZED and may be evaluated as often as one likes. A data change stands at
//! the top of the statement only, so that it runs exactly once.

use super::bound::{
    Body, BoundStatement, Cte, CteSource, From, Output, Query, RelationId, Working,
};
use super::query::{Unknowns, plain};
use super::scope::{Block, CteScope, CteState, Item};
use super::{Binder, error_at, recursion, walk};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::{self, Alias, Materialized, Name, SetOperation};
use crate::parse::statement::Statement;
use crate::types::{Type, TypeOid};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A reference found: in which block, which item of it, what it is.
struct Found<'a> {
    block: usize,
    place: usize,
    ast: &'a ast::Cte,
    state: CteState,
}

impl<'a> Binder<'a> {
    /// The items of a WITH, into the present block.
    pub(super) fn with(&mut self, with: &'a ast::With) -> SqlResult<()> {
        for (index, cte) in with.ctes.iter().enumerate() {
            if with.ctes[..index].iter().any(|other| other.name == cte.name) {
                return Err(error_at(
                    SqlState::DUPLICATE_ALIAS,
                    format!("WITH query name \"{}\" specified more than once", cte.name),
                    cte.at,
                ));
            }
        }
        let ordered = recursion::order(with)?;
        self.block().unseen.extend(ordered.iter().map(|(cte, _)| cte.name.as_str()));
        for (cte, is_recursive) in ordered {
            let state = match &cte.statement {
                Statement::Query(_) => self.cte(cte, is_recursive)?,
                change => self.change(cte, change)?,
            };
            let block = self.block();
            block.unseen.retain(|name| *name != cte.name);
            block.ctes.push(CteScope { ast: cte, is_recursive, state });
        }
        Ok(())
    }

    fn new_cte(&mut self, cte: &ast::Cte, source: CteSource) -> Rc<Cte> {
        self.next_cte += 1;
        Rc::new(Cte {
            id: self.next_cte - 1,
            name: cte.name.as_str().into(),
            source,
            is_kept: cte.materialized == Materialized::Yes,
            references: Cell::new(0),
        })
    }

    /// A query of WITH.
    fn cte(&mut self, cte: &'a ast::Cte, is_recursive: bool) -> SqlResult<CteState> {
        let first = (self.next_relation, self.next_working, self.working_read.len());
        let query = self.cte_query(cte, is_recursive)?;
        check_columns(cte, query.visible)?;
        let mut columns = Vec::new();
        walk::in_query(&query, &mut |bound| walk::columns(bound, &mut columns));
        let depends = columns.iter().any(|column| column.relation.0 < first.0)
            || self.working_read[first.2..].iter().any(|working| *working < first.1);
        let freely = cte.materialized == Materialized::No && walk::may_repeat(&query);
        Ok(match depends || freely {
            true => CteState::Anew,
            false => CteState::Bound(self.new_cte(cte, CteSource::Query(query))),
        })
    }

    fn cte_query(&mut self, cte: &'a ast::Cte, is_recursive: bool) -> SqlResult<Query> {
        let Statement::Query(query) = &cte.statement else {
            return Err(SqlError::internal("a data change bound as a query"));
        };
        match recursion::sides(query) {
            Some((all, first, recursive)) if is_recursive => {
                self.blocks.push(Block::new());
                let bound = self.recursive(cte, query, all, (first, recursive));
                self.blocks.pop();
                bound
            }
            _ => self.query(query, Unknowns::Resolve),
        }
    }

    /// A query that reads its own rows.
    fn recursive(
        &mut self,
        cte: &'a ast::Cte,
        query: &'a ast::Query,
        all: bool,
        (first, recursive): (&'a ast::Query, &'a ast::Query),
    ) -> SqlResult<Query> {
        self.with(&query.with)?;
        let left = self.query(first, Unknowns::Keep)?;
        check_columns(cte, left.visible)?;
        let id = self.next_working;
        self.next_working += 1;
        let mut outputs = left.outputs[..left.visible].to_vec();
        for output in &mut outputs {
            output.value = None;
            if output.ty.oid == TypeOid::UNKNOWN {
                output.ty = Type::new(TypeOid::TEXT);
            }
        }
        let working = Working { id, name: cte.name.as_str().into(), width: outputs.len() };
        let state = CteState::Working(Rc::new(working), outputs.clone().into());
        // Names of a WITH of its own come before its own name.
        self.block().ctes.insert(0, CteScope { ast: cte, is_recursive: true, state });
        let places: Vec<ast::At> = left
            .outputs
            .iter()
            .map(|it| it.value.as_ref().map_or(ast::At::NONE, |v| v.at))
            .collect();
        let right = self.query(recursive, Unknowns::Keep)?;
        let (types, sides) = self.matched(SetOperation::Union, all, (left, right))?;
        for (index, (output, ty)) in outputs.iter_mut().zip(&types).enumerate() {
            if output.ty != *ty {
                return Err(error_at(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "recursive query \"{}\" column {} has type {} in non-recursive term but type {ty} overall",
                        cte.name,
                        index + 1,
                        output.ty
                    ),
                    places[index],
                )
                .hint("Cast the output of the non-recursive term to the correct type."));
            }
            output.origin = None;
        }
        let relation = self.new_relation();
        let body = Body::Recursive { id, all, sides: Box::new(sides) };
        Ok(plain(relation, outputs, body, Vec::new()))
    }

    /// A data change of WITH.
    fn change(&mut self, cte: &'a ast::Cte, statement: &'a Statement) -> SqlResult<CteState> {
        if self.blocks.len() > 1 {
            return Err(error_at(
                SqlState::FEATURE_NOT_SUPPORTED,
                "WITH clause containing a data-modifying statement must be at the top level",
                cte.at,
            ));
        }
        let bound = match statement {
            Statement::Insert(insert) => BoundStatement::Insert(self.insert(insert)?),
            Statement::Update(update) => BoundStatement::Update(self.update(update)?),
            Statement::Delete(delete) => BoundStatement::Delete(self.delete(delete)?),
            Statement::Query(_) | Statement::Utility(_) => {
                return Err(SqlError::internal("no data change"));
            }
        };
        check_columns(cte, bound.returning().len())?;
        let bound = self.new_cte(cte, CteSource::Change(Box::new(bound)));
        self.changes.push(bound.clone());
        Ok(CteState::Bound(bound))
    }

    fn find_cte(&self, name: &str) -> Option<Found<'a>> {
        for (block, own) in self.blocks.iter().enumerate().rev() {
            let found = own.ctes.iter().enumerate().rev().find(|(_, cte)| cte.ast.name == name);
            if let Some((place, cte)) = found {
                return Some(Found { block, place, ast: cte.ast, state: cte.state.clone() });
            }
        }
        None
    }

    /// The item of FROM that names an item of WITH; none if no WITH in sight has the name.
    pub(super) fn cte_item(
        &mut self,
        name: &'a Name,
        alias: Option<&Alias>,
    ) -> SqlResult<Option<(From, Vec<Item>)>> {
        let Some(found) = self.find_cte(&name.name) else { return Ok(None) };
        let cte = found.ast;
        let (from, relation, outputs) = match &found.state {
            CteState::Anew => {
                let query = self.bound_anew(&found)?;
                let (relation, outputs) = (query.relation, query.outputs[..query.visible].to_vec());
                (From::Subquery(Box::new(query)), relation, outputs)
            }
            CteState::Bound(bound) => {
                let outputs = bound.outputs().to_vec();
                if outputs.is_empty() && matches!(bound.source, CteSource::Change(_)) {
                    return Err(error_at(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        format!("WITH query \"{}\" does not have a RETURNING clause", cte.name),
                        name.at,
                    ));
                }
                bound.references.set(bound.references.get() + 1);
                let relation = self.new_relation();
                (From::Cte(relation, bound.clone()), relation, outputs)
            }
            CteState::Working(working, outputs) => {
                self.working_read.push(working.id);
                let relation = self.new_relation();
                (From::Working(relation, working.clone()), relation, outputs.to_vec())
            }
        };
        let mut item = item_of(name, relation, cte, &outputs);
        item.rename(alias, name.at)?;
        Ok(Some((from, vec![item])))
    }

    /// Binds an item again, as if where it is written.
    fn bound_anew(&mut self, found: &Found<'a>) -> SqlResult<Query> {
        let inner = self.blocks.split_off(found.block + 1);
        let block = self.block();
        let items = std::mem::take(&mut block.items);
        let later = block.ctes.split_off(found.place);
        let is_recursive = later.first().is_some_and(|cte| cte.is_recursive);
        let query = self.cte_query(found.ast, is_recursive);
        let block = self.block();
        block.ctes.extend(later);
        block.items = items;
        self.blocks.extend(inner);
        query
    }

    /// 42P01, with what helps if the name is that of a WITH item that is not in sight here.
    pub(super) fn explain_unseen(&self, error: SqlError, name: &Name) -> SqlError {
        let is_unseen = name.schema.is_none()
            && error.sqlstate() == SqlState::UNDEFINED_TABLE
            && self.blocks.iter().any(|block| block.unseen.contains(&name.name.as_str()));
        if !is_unseen {
            return error;
        }
        let detail = format!(
            "There is a WITH item named \"{}\", but it cannot be referenced from this part of the query.",
            name.name
        );
        let hint = "Use WITH RECURSIVE, or re-order the WITH items to remove forward references.";
        error.detail(detail).hint(hint)
    }
}

fn item_of(name: &Name, relation: RelationId, cte: &ast::Cte, outputs: &[Output]) -> Item {
    let columns = outputs.iter().enumerate().map(|(index, output)| {
        let given = cte.columns.get(index).map(|name| Arc::from(name.as_str()));
        (given.unwrap_or_else(|| output.name.clone()), output.ty)
    });
    Item::computed(name.name.clone(), relation, columns)
}

fn check_columns(cte: &ast::Cte, width: usize) -> SqlResult<()> {
    if cte.columns.len() <= width {
        return Ok(());
    }
    Err(error_at(
        SqlState::INVALID_COLUMN_REFERENCE,
        format!(
            "WITH query \"{}\" has {width} columns available but {} columns specified",
            cte.name,
            cte.columns.len()
        ),
        cte.at,
    ))
}
