//! CREATE TABLE, CREATE INDEX, CREATE SCHEMA.

use super::names::object_name;
use super::{Definer, already_exists, expression_text, not_unique};
use crate::bind;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::Expr;
use crate::parse::statement::{ColumnDefinition, CreateIndex, CreateTable, KeyConstraint};
use crate::types::{Type, storage};
use atoll_kernel::api::{
    ColumnDef, ColumnId, Direction, Error, IndexColumn, IndexKind, NewIndex, NewTable, Nulls, Oid,
    TableDef,
};

/// Columns of an index's key at most, as in PostgreSQL.
const KEY_COLUMNS_MAX: usize = 32;

impl Definer<'_, '_> {
    pub(super) fn create_table(&mut self, create: &CreateTable) -> SqlResult<&'static str> {
        const TAG: &str = "CREATE TABLE";
        let namespace = self.creation_namespace(&create.name)?;
        let name = &create.name.name;
        if self.statement.catalog().relation(namespace, name).is_some() {
            if create.if_not_exists {
                let message = format!("relation \"{name}\" already exists, skipping");
                self.notice(SqlState::DUPLICATE_TABLE, message);
                return Ok(TAG);
            }
            return Err(already_exists(name));
        }
        let mut columns: Vec<ColumnDef> = Vec::with_capacity(create.columns.len());
        for column in &create.columns {
            if columns.iter().any(|other| other.name == column.name) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{}\" specified more than once", column.name),
                )
                .at(column.at.position()));
            }
            columns.push(self.column(column)?);
        }
        let mut primary = None;
        for key in &create.keys {
            for column in &key.columns {
                let found = columns.iter_mut().find(|it| it.name == *column);
                let found = found.ok_or_else(|| no_key_column(column, key))?;
                found.not_null |= key.primary;
            }
            if key.primary && primary.replace(key).is_some() {
                return Err(two_primary_keys(name, key));
            }
        }
        let options = storage_options(&create.options)?;
        let new = NewTable { namespace, name: name.clone(), columns, options };
        let table = self.statement.create_table(new).map_err(|error| self.named(error, name))?;
        // PostgreSQL makes the primary key first.
        let (first, rest): (Vec<_>, Vec<_>) = create.keys.iter().partition(|key| key.primary);
        for key in first.into_iter().chain(rest) {
            self.add_key(table, key)?;
        }
        Ok(TAG)
    }

    fn column(&self, column: &ColumnDefinition) -> SqlResult<ColumnDef> {
        let ty = bind::type_of(&column.type_name)?;
        let physical = storage::column_type(ty.oid)
            .map_err(|error| error.at(column.type_name.name.at.position()))?;
        let default = match &column.default {
            Some(expr) => self.default(&column.name, expr, ty)?,
            None => None,
        };
        Ok(ColumnDef {
            name: column.name.clone(),
            physical,
            type_oid: ty.oid.0,
            type_modifier: ty.typmod,
            not_null: column.not_null,
            default,
        })
    }

    /// A default as text, checked to fit the column; none for DEFAULT NULL.
    pub(super) fn default(&self, column: &str, expr: &Expr, ty: Type) -> SqlResult<Option<String>> {
        let view = self.view();
        bind::bind_constant(&view, expr, ty, "DEFAULT").map_err(|error| {
            if error.sqlstate() != SqlState::DATATYPE_MISMATCH {
                return error;
            }
            error.column(column)
        })?;
        expression_text(expr).map(|text| (text != "NULL").then_some(text))
    }

    /// Adds a primary key or a unique constraint to a table. 23505, 23502, 42P16.
    pub(super) fn add_key(&mut self, table: Oid, key: &KeyConstraint) -> SqlResult<()> {
        let entry = self.statement.table(table)?;
        let def = &entry.def;
        if key.primary && entry.indexes.iter().any(|it| it.def.kind == IndexKind::Primary) {
            return Err(two_primary_keys(&def.name, key));
        }
        let mut columns = Vec::with_capacity(key.columns.len());
        for name in &key.columns {
            let column = def.column(name).ok_or_else(|| no_key_column(name, key))?;
            if columns.iter().any(|other: &IndexColumn| other.column == column) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{name}\" appears twice in {} constraint", kind_of(key)),
                )
                .at(key.at.position()));
            }
            let (direction, nulls) = (Direction::Ascending, Nulls::Last);
            columns.push(IndexColumn { column, direction, nulls });
        }
        if key.primary {
            self.require_not_null(def, &columns)?;
        }
        let namespace = def.namespace;
        let name = match &key.name {
            Some(name) => name.clone(),
            None if key.primary => {
                self.free_name(namespace, &|label| object_name(&def.name, "", label), "pkey")
            }
            None => {
                let of = key.columns.join("_");
                self.free_name(namespace, &|label| object_name(&def.name, &of, label), "key")
            }
        };
        let kind = if key.primary { IndexKind::Primary } else { IndexKind::UniqueConstraint };
        self.build(NewIndex { table, name, columns, kind })
    }

    /// Makes the columns NOT NULL; 23502 if a row has a NULL there.
    fn require_not_null(&mut self, def: &TableDef, columns: &[IndexColumn]) -> SqlResult<()> {
        let missing = |column: &&IndexColumn| !def.columns[column.column.index()].not_null;
        let nullable: Vec<ColumnId> =
            columns.iter().filter(missing).map(|column| column.column).collect();
        if nullable.is_empty() {
            return Ok(());
        }
        self.set_not_null(def.oid, &nullable)
    }

    pub(super) fn create_index(&mut self, create: &CreateIndex) -> SqlResult<&'static str> {
        const TAG: &str = "CREATE INDEX";
        let table = self.table(&create.table)?;
        let def = &table.def;
        if create.columns.len() > KEY_COLUMNS_MAX {
            return Err(SqlError::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index"),
            ));
        }
        let mut columns = Vec::with_capacity(create.columns.len());
        for element in &create.columns {
            let column = def.column(&element.column).ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{}\" does not exist", element.column),
                )
            })?;
            columns.push(IndexColumn {
                column,
                direction: match element.descending {
                    true => Direction::Descending,
                    false => Direction::Ascending,
                },
                nulls: if element.nulls_first { Nulls::First } else { Nulls::Last },
            });
        }
        let name = match &create.name {
            Some(name) => name.clone(),
            None => {
                let names: Vec<&str> = create.columns.iter().map(|it| it.column.as_str()).collect();
                let of = names.join("_");
                self.free_name(def.namespace, &|label| object_name(&def.name, &of, label), "idx")
            }
        };
        if self.statement.catalog().relation(def.namespace, &name).is_some() {
            if create.if_not_exists {
                let message = format!("relation \"{name}\" already exists, skipping");
                self.notice(SqlState::DUPLICATE_TABLE, message);
                return Ok(TAG);
            }
            return Err(already_exists(&name));
        }
        let kind = if create.unique { IndexKind::Unique } else { IndexKind::Plain };
        self.build(NewIndex { table: def.oid, name, columns, kind })?;
        Ok(TAG)
    }

    fn build(&mut self, new: NewIndex) -> SqlResult<()> {
        let name = new.name.clone();
        match self.statement.create_index(new) {
            Ok(_) => Ok(()),
            Err(Error::UniqueViolation { .. }) => Err(not_unique(&name)),
            Err(error) => Err(self.named(error, &name)),
        }
    }

    pub(super) fn create_schema(
        &mut self,
        name: &str,
        if_not_exists: bool,
    ) -> SqlResult<&'static str> {
        const TAG: &str = "CREATE SCHEMA";
        if name.starts_with("pg_") {
            return Err(SqlError::new(
                SqlState::RESERVED_NAME,
                format!("unacceptable schema name \"{name}\""),
            )
            .detail("The prefix \"pg_\" is reserved for system schemas."));
        }
        if self.view().schema_exists(name) {
            let message = format!("schema \"{name}\" already exists");
            if if_not_exists {
                self.notice(SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping"));
                return Ok(TAG);
            }
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        self.statement.create_namespace(name)?;
        Ok(TAG)
    }
}

/// `name=value` of WITH (..); what has a meaning that is not kept is refused.
pub(super) fn storage_options(options: &[(String, String)]) -> SqlResult<Vec<String>> {
    let mut kept = Vec::new();
    for (name, value) in options {
        match name.as_str() {
            "fillfactor" => match value.parse() {
                Ok(10..=100) => kept.push(format!("{name}={value}")),
                _ => {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("value {value} out of bounds for option \"fillfactor\""),
                    )
                    .detail("Valid values are between \"10\" and \"100\"."));
                }
            },
            other => {
                return Err(SqlError::not_supported(format_args!("storage parameter \"{other}\"")));
            }
        }
    }
    Ok(kept)
}

fn kind_of(key: &KeyConstraint) -> &'static str {
    if key.primary { "primary key" } else { "unique" }
}

fn no_key_column(column: &str, key: &KeyConstraint) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{column}\" named in key does not exist"),
    )
    .at(key.at.position())
}

fn two_primary_keys(table: &str, key: &KeyConstraint) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TABLE_DEFINITION,
        format!("multiple primary keys for table \"{table}\" are not allowed"),
    )
    .at(key.at.position())
}
