//! Names, types and functions resolved by PostgreSQL's rules: from the syntax tree to the bound
//! tree (see [`bound`]).
//!
//! Invariants: binding reads one [`CatalogView`] and nothing else, waits for nothing and changes
//! nothing. It recurses as deep as the syntax tree: call it on the thread's own stack, as the
//! parser. Error positions are in bytes (`parse::in_characters` turns them). A parameter gets the
//! type of the first context that asks for one (42P18 if none does).

pub mod bound;
mod call;
pub use call::FIRST_AGGREGATE;
mod coerce;
mod column_name;
mod conflict;
mod cte;
mod expression;
mod fold;
mod from;
mod group;
mod modify;
mod operator;
mod query;
mod recursion;
mod row;
mod scope;
mod set_operation;
mod subquery;
pub mod walk;

use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::{At, Expr};
use crate::parse::statement::Statement;
use crate::relations::{CatalogView, RelationInfo};
use crate::types::{Type, TypeOid};
use bound::{Bound, BoundStatement, Cte, RelationId};
use scope::Block;
use std::rc::Rc;
use std::sync::Arc;

pub use coerce::type_of;
pub use modify::parse_expression;

/// A statement bound.
#[derive(Debug)]
pub struct Binding {
    /// The statement.
    pub statement: BoundStatement,
    /// The types of its parameters.
    pub parameters: Vec<TypeOid>,
    /// The kernel tables that it reads or writes, each once.
    pub tables: Vec<Arc<RelationInfo>>,
    /// The data changes of WITH, in the order in which they can be run.
    pub changes: Vec<Rc<Cte>>,
    /// How many relation numbers were given out.
    pub relations: u32,
    /// What relations and their columns are called, for EXPLAIN.
    pub names: Vec<(RelationId, RelationNames)>,
}

/// What a relation and its columns are called in a statement.
pub type RelationNames = (String, Vec<Arc<str>>);

/// Binds a query or a data change. `parameters` are the declared types (UNKNOWN where none).
pub fn bind(
    view: &CatalogView,
    statement: &Statement,
    parameters: &[TypeOid],
) -> SqlResult<Binding> {
    bind_with(Binder::new(view, parameters), statement)
}

/// As [`bind`], of a statement that has no other parameters than those declared (42P02): of a
/// simple query.
pub fn bind_closed(
    view: &CatalogView,
    statement: &Statement,
    parameters: &[TypeOid],
) -> SqlResult<Binding> {
    let mut binder = Binder::new(view, parameters);
    binder.no_parameters = true;
    bind_with(binder, statement)
}

fn bind_with<'a>(mut binder: Binder<'a>, statement: &'a Statement) -> SqlResult<Binding> {
    let bound = match statement {
        Statement::Query(query) => {
            BoundStatement::Query(binder.query(query, query::Unknowns::Resolve)?)
        }
        Statement::Insert(insert) => BoundStatement::Insert(binder.insert(insert)?),
        Statement::Update(update) => BoundStatement::Update(binder.update(update)?),
        Statement::Delete(delete) => BoundStatement::Delete(binder.delete(delete)?),
        Statement::Utility(_) => {
            return Err(SqlError::internal("a utility statement is not bound"));
        }
    };
    binder.finish(bound)
}

/// Binds an expression without columns, as a default or an argument of EXECUTE, and fits it to
/// `target` as an assignment does.
pub fn bind_constant(
    view: &CatalogView,
    expr: &Expr,
    target: Type,
    clause: &'static str,
) -> SqlResult<Bound> {
    let mut binder = Binder::new(view, &[]);
    binder.no_parameters = true;
    binder.blocks.push(Block::without_columns(clause));
    let bound = binder.expr(expr)?;
    let at = expr.at;
    let from = bound.ty.oid;
    binder.assign(bound, target)?.ok_or_else(|| {
        SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("{clause} is of type {} but expression is of type {from}", target),
        )
        .at(at.position())
    })
}

/// The state of binding one statement.
struct Binder<'a> {
    view: &'a CatalogView,
    parameters: Vec<TypeOid>,
    /// Parameters beyond those declared are errors.
    no_parameters: bool,
    next_relation: u32,
    next_cte: u32,
    next_working: u32,
    /// The working tables that were named, one entry each time.
    working_read: Vec<u32>,
    changes: Vec<Rc<Cte>>,
    tables: Vec<Arc<RelationInfo>>,
    blocks: Vec<Block<'a>>,
    names: Vec<(RelationId, RelationNames)>,
}

impl<'a> Binder<'a> {
    fn new(view: &'a CatalogView, parameters: &[TypeOid]) -> Binder<'a> {
        let unknown =
            |oid: &TypeOid| if *oid == TypeOid::INVALID { TypeOid::UNKNOWN } else { *oid };
        Binder {
            view,
            parameters: parameters.iter().map(unknown).collect(),
            no_parameters: false,
            next_relation: 0,
            next_cte: 0,
            next_working: 0,
            working_read: Vec::new(),
            changes: Vec::new(),
            tables: Vec::new(),
            blocks: Vec::new(),
            names: Vec::new(),
        }
    }

    fn finish(self, statement: BoundStatement) -> SqlResult<Binding> {
        for (index, oid) in self.parameters.iter().enumerate() {
            if *oid == TypeOid::UNKNOWN {
                return Err(SqlError::new(
                    SqlState::INDETERMINATE_DATATYPE,
                    format!("could not determine data type of parameter ${}", index + 1),
                ));
            }
        }
        Ok(Binding {
            statement,
            parameters: self.parameters,
            tables: self.tables,
            changes: self.changes,
            relations: self.next_relation,
            names: self.names,
        })
    }

    fn new_relation(&mut self) -> RelationId {
        self.next_relation += 1;
        RelationId(self.next_relation - 1)
    }

    fn block(&mut self) -> &mut Block<'a> {
        self.blocks.last_mut().expect("binding happens inside a block")
    }

    /// Remembers what a relation is called.
    fn note_names(&mut self, item: &scope::Item) {
        let Some(relation) = item.relation else { return };
        let columns = item.columns.iter().map(|column| column.name.clone()).collect();
        self.names.push((relation, (item.name.clone().unwrap_or_default(), columns)));
    }

    fn use_table(&mut self, relation: &Arc<RelationInfo>) {
        let known = self.tables.iter().any(|other| other.oid == relation.oid);
        if relation.table().is_some() && !known {
            self.tables.push(relation.clone());
        }
    }
}

/// An error with the position of what it is about.
fn error_at(state: SqlState, message: impl Into<String>, at: At) -> SqlError {
    SqlError::new(state, message).at(at.position())
}
