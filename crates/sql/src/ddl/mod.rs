//! Definitions: CREATE, DROP, ALTER, RENAME and TRUNCATE of tables, indexes and schemas.
//!
//! Invariants: everything here happens inside the client's transaction, through the kernel's
//! definitions, which lock what they change (kernel rule 6.10); names are looked up in the
//! transaction's own catalog, again after every change. What is not supported is refused by name
//! with 0A000. On an error the transaction has failed: the session rolls it back.

mod alter;
mod create;
mod drop;
mod names;
mod print;
#[cfg(test)]
mod tests;

pub use print::expression_text;

use crate::error::{ErrorFields, SqlError, SqlResult, SqlState};
use crate::parse::ast::Name;
use crate::parse::statement::Utility;
use crate::relations::{CatalogView, Registry, Source};
use atoll_kernel::api::{Error, Statement, TableEntry};
use std::sync::Arc;

/// How names are looked up: what does not change while a statement runs.
#[derive(Clone)]
pub struct Names {
    /// The virtual relations.
    pub registry: Arc<Registry>,
    /// The schemas of `search_path`, `$user` replaced.
    pub path: Arc<[Arc<str>]>,
}

/// A statement that changes definitions, and where its notices go.
pub struct Definer<'d, 't> {
    /// The kernel's statement.
    pub statement: &'d mut Statement<'t>,
    /// How names are looked up.
    pub names: &'d Names,
    /// NOTICEs for the client.
    pub notices: &'d mut Vec<ErrorFields>,
}

/// Runs a definition and answers its command tag. Statements that are none are `Internal`.
pub fn run(
    statement: &mut Statement<'_>,
    utility: &Utility,
    names: &Names,
    notices: &mut Vec<ErrorFields>,
) -> SqlResult<&'static str> {
    let mut definer = Definer { statement, names, notices };
    match utility {
        Utility::CreateTable(create) => definer.create_table(create),
        Utility::CreateIndex(create) => definer.create_index(create),
        Utility::CreateSchema { name, if_not_exists } => {
            definer.create_schema(name, *if_not_exists)
        }
        Utility::Drop { kind, names, if_exists, cascade } => {
            definer.drop(*kind, names, *if_exists, *cascade)
        }
        Utility::AlterTable { table, if_exists, commands } => {
            definer.alter_table(table, *if_exists, commands)
        }
        Utility::Rename { kind, relation, if_exists, to } => {
            definer.rename(kind, relation, *if_exists, to)
        }
        Utility::Truncate { tables } => definer.truncate(tables),
        _ => Err(SqlError::internal("not a definition")),
    }
}

impl Definer<'_, '_> {
    /// The catalog as it is now, own changes included.
    fn view(&self) -> CatalogView {
        CatalogView {
            catalog: Arc::clone(self.statement.catalog()),
            registry: self.names.registry.clone(),
            path: self.names.path.clone(),
        }
    }

    /// The table `name`; 42P01, 42809, 42501.
    fn table(&self, name: &Name) -> SqlResult<Arc<TableEntry>> {
        let relation = self.view().table(name)?;
        match &relation.source {
            Source::Table(table) => Ok(table.clone()),
            Source::Virtual(_) => Err(SqlError::internal("a virtual relation is no table")),
        }
    }

    fn notice(&mut self, sqlstate: SqlState, message: String) {
        self.notices.push(SqlError::new(sqlstate, message).fields().clone());
    }

    /// A kernel error, with the name where the kernel knows only a number.
    fn named(&self, error: Error, name: &str) -> SqlError {
        match error {
            Error::AlreadyExists { .. } => already_exists(name),
            other => other.into(),
        }
    }
}

fn already_exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

/// 23505 while a unique index is being built.
fn not_unique(index: &str) -> SqlError {
    let message = format!("could not create unique index \"{index}\"");
    SqlError::new(SqlState::UNIQUE_VIOLATION, message)
        .detail("Some rows have the same key.")
        .constraint(index)
}
