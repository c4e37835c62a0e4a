//! ALTER TABLE and RENAME.

use super::create::storage_options;
use super::{Definer, already_exists};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::{Expr, Name};
use crate::parse::statement::{AlterTable, RenameKind};
use crate::relations::view::Found;
use crate::types::{Type, TypeOid};
use atoll_kernel::api::{ColumnId, Error, IndexEntry, IndexKind, Oid, Parker, RowBuffer, TableDef};
use std::sync::Arc;

impl Definer<'_, '_> {
    pub(super) fn alter_table(
        &mut self,
        name: &Name,
        if_exists: bool,
        commands: &[AlterTable],
    ) -> SqlResult<&'static str> {
        const TAG: &str = "ALTER TABLE";
        if self.view().find(name).is_none() {
            self.missing("relation", name, if_exists, SqlState::UNDEFINED_TABLE)?;
            return Ok(TAG);
        }
        let oid = self.table(name)?.def.oid;
        for command in commands {
            match command {
                AlterTable::AddKey(key) => self.add_key(oid, key)?,
                AlterTable::DropConstraint(constraint, if_exists) => {
                    self.drop_constraint(oid, constraint, *if_exists)?;
                }
                AlterTable::NotNull(column, true) => {
                    let column = self.column_of(oid, column)?;
                    self.set_not_null(oid, &[column])?;
                }
                AlterTable::NotNull(column, false) => self.drop_not_null(oid, column)?,
                AlterTable::Default(column, default) => {
                    self.set_default(oid, column, default.as_ref())?;
                }
                AlterTable::Options(options) => self.set_options(oid, options)?,
            }
        }
        Ok(TAG)
    }

    fn column_of(&self, table: Oid, column: &str) -> SqlResult<ColumnId> {
        let table = self.statement.table(table)?;
        table.def.column(column).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" of relation \"{}\" does not exist", table.def.name),
            )
        })
    }

    fn change(&mut self, table: Oid, change: impl FnOnce(&mut TableDef)) -> SqlResult<()> {
        let mut def = self.statement.table(table)?.def.clone();
        change(&mut def);
        let name = def.name.clone();
        self.statement.alter_table(def).map_err(|error| self.named(error, &name))
    }

    /// Refuses NULL in these columns from now on; 23502 if a row has one.
    pub(super) fn set_not_null(&mut self, table: Oid, columns: &[ColumnId]) -> SqlResult<()> {
        // The definition first: it takes the lock under which the rows are then read.
        self.change(table, |def| {
            columns.iter().for_each(|column| def.columns[column.index()].not_null = true);
        })?;
        let entry = self.statement.table(table)?;
        let mut cursor = self.statement.scan(&entry, columns);
        let mut row = RowBuffer::new();
        while cursor.next(self.statement, &mut row)?.is_some() {
            if let Some(at) = (0..columns.len()).find(|at| row.column(*at).is_none()) {
                let column = &entry.def.columns[columns[at].index()].name;
                return Err(SqlError::new(
                    SqlState::NOT_NULL_VIOLATION,
                    format!(
                        "column \"{column}\" of relation \"{}\" contains null values",
                        entry.def.name
                    ),
                )
                .column(column.as_str()));
            }
            let context = self.statement.context();
            if context.should_yield() {
                self.statement.session().check(context)?;
                context.yield_now();
            }
        }
        Ok(())
    }

    fn drop_not_null(&mut self, table: Oid, column: &str) -> SqlResult<()> {
        let id = self.column_of(table, column)?;
        let entry = self.statement.table(table)?;
        let in_primary_key = |index: &&Arc<IndexEntry>| {
            index.def.kind == IndexKind::Primary
                && index.def.columns.iter().any(|it| it.column == id)
        };
        if entry.indexes.iter().any(|index| in_primary_key(&index)) {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("column \"{column}\" is in a primary key"),
            ));
        }
        self.change(table, |def| def.columns[id.index()].not_null = false)
    }

    fn set_default(&mut self, table: Oid, column: &str, default: Option<&Expr>) -> SqlResult<()> {
        let id = self.column_of(table, column)?;
        let entry = self.statement.table(table)?;
        let def = &entry.def.columns[id.index()];
        let ty = Type::with(TypeOid(def.type_oid), def.type_modifier);
        let text = match default {
            Some(expr) => self.default(column, expr, ty)?,
            None => None,
        };
        self.change(table, |def| def.columns[id.index()].default = text)
    }

    fn set_options(&mut self, table: Oid, options: &[(String, Option<String>)]) -> SqlResult<()> {
        let mut set = Vec::new();
        for (name, value) in options {
            if let Some(value) = value {
                set.push((name.clone(), value.clone()));
            }
        }
        let set = storage_options(&set)?;
        self.change(table, |def| {
            def.options.retain(|option| {
                let name = option.split('=').next().unwrap_or("");
                !options.iter().any(|(changed, _)| changed == name)
            });
            def.options.extend(set);
        })
    }

    fn drop_constraint(&mut self, table: Oid, constraint: &str, if_exists: bool) -> SqlResult<()> {
        let entry = self.statement.table(table)?;
        match constraint_of(&entry.indexes, constraint) {
            Some(index) => Ok(self.statement.drop_index(index.def.oid)?),
            None => {
                let message = format!(
                    "constraint \"{constraint}\" of relation \"{}\" does not exist",
                    entry.def.name
                );
                if if_exists {
                    self.notice(SqlState(*b"00000"), format!("{message}, skipping"));
                    return Ok(());
                }
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
        }
    }

    pub(super) fn rename(
        &mut self,
        kind: &RenameKind,
        relation: &Name,
        if_exists: bool,
        to: &str,
    ) -> SqlResult<&'static str> {
        let tag = if *kind == RenameKind::Index { "ALTER INDEX" } else { "ALTER TABLE" };
        let Some(found) = self.view().find(relation) else {
            self.missing("relation", relation, if_exists, SqlState::UNDEFINED_TABLE)?;
            return Ok(tag);
        };
        match (kind, found) {
            (RenameKind::Index | RenameKind::Table, Found::Index(index)) => {
                self.rename_index(index.def.oid, to)?;
            }
            (RenameKind::Index, Found::Relation(_)) => {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not an index", relation.name),
                ));
            }
            (RenameKind::Table, Found::Relation(_)) => {
                let oid = self.table(relation)?.def.oid;
                let mut def = self.statement.table(oid)?.def.clone();
                to.clone_into(&mut def.name);
                self.statement.alter_table(def).map_err(|error| self.named(error, to))?;
            }
            (RenameKind::Column(column), _) => {
                let oid = self.table(relation)?.def.oid;
                self.rename_column(oid, column, to)?;
            }
            (RenameKind::Constraint(constraint), _) => {
                let table = self.table(relation)?;
                let index = constraint_of(&table.indexes, constraint).ok_or_else(|| {
                    SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!(
                            "constraint \"{constraint}\" for table \"{}\" does not exist",
                            table.def.name
                        ),
                    )
                })?;
                self.rename_index(index.def.oid, to)?;
            }
        }
        Ok(tag)
    }

    fn rename_index(&mut self, index: Oid, to: &str) -> SqlResult<()> {
        match self.statement.rename_index(index, to) {
            Err(Error::AlreadyExists { .. }) => Err(already_exists(to)),
            other => Ok(other?),
        }
    }

    fn rename_column(&mut self, table: Oid, column: &str, to: &str) -> SqlResult<()> {
        let id = self.column_of(table, column)?;
        let entry = self.statement.table(table)?;
        if entry.def.column(to).is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{to}\" of relation \"{}\" already exists", entry.def.name),
            ));
        }
        self.change(table, |def| to.clone_into(&mut def.columns[id.index()].name))
    }
}

fn constraint_of<'i>(indexes: &'i [Arc<IndexEntry>], name: &str) -> Option<&'i Arc<IndexEntry>> {
    let is_constraint = |index: &&Arc<IndexEntry>| {
        matches!(index.def.kind, IndexKind::Primary | IndexKind::UniqueConstraint)
    };
    indexes.iter().filter(is_constraint).find(|index| index.def.name == name)
}
