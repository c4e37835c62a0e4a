//! DROP and TRUNCATE.

use super::Definer;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::Name;
use crate::parse::statement::DropKind;
use crate::relations::Source;
use crate::relations::view::Found;
use atoll_kernel::api::IndexKind;

impl Definer<'_, '_> {
    pub(super) fn drop(
        &mut self,
        kind: DropKind,
        names: &[Name],
        if_exists: bool,
        cascade: bool,
    ) -> SqlResult<&'static str> {
        for name in names {
            match kind {
                DropKind::Table => self.drop_table(name, if_exists)?,
                DropKind::Index => self.drop_index(name, if_exists)?,
                DropKind::Schema => self.drop_schema(name, if_exists, cascade)?,
                DropKind::Other(word) => self.drop_other(word, name, if_exists)?,
            }
        }
        Ok(match kind {
            DropKind::Table => "DROP TABLE",
            DropKind::Index => "DROP INDEX",
            DropKind::Schema => "DROP SCHEMA",
            DropKind::Other(word) => other_tag(word),
        })
    }

    fn drop_table(&mut self, name: &Name, if_exists: bool) -> SqlResult<()> {
        match self.view().find(name) {
            Some(Found::Relation(relation)) => match &relation.source {
                Source::Table(table) => Ok(self.statement.drop_table(table.def.oid)?),
                Source::Virtual(_) => Err(SqlError::new(
                    SqlState::INSUFFICIENT_PRIVILEGE,
                    format!("permission denied: \"{}\" is a system catalog", name.name),
                )),
            },
            Some(Found::Index(_)) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a table", name.name),
            )
            .hint("Use DROP INDEX to remove an index.")),
            None => self.missing("table", name, if_exists, SqlState::UNDEFINED_TABLE),
        }
    }

    fn drop_index(&mut self, name: &Name, if_exists: bool) -> SqlResult<()> {
        match self.view().find(name) {
            Some(Found::Index(index)) => {
                if matches!(index.def.kind, IndexKind::Primary | IndexKind::UniqueConstraint) {
                    let table = self.statement.table(index.def.table)?;
                    let (index, table) = (&index.def.name, &table.def.name);
                    return Err(SqlError::new(
                        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                        format!(
                            "cannot drop index {index} because constraint {index} on table \
                             {table} requires it"
                        ),
                    )
                    .hint(format!("You can drop constraint {index} on table {table} instead.")));
                }
                Ok(self.statement.drop_index(index.def.oid)?)
            }
            Some(Found::Relation(_)) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not an index", name.name),
            )),
            None => self.missing("index", name, if_exists, SqlState::UNDEFINED_OBJECT),
        }
    }

    fn drop_schema(&mut self, name: &Name, if_exists: bool, cascade: bool) -> SqlResult<()> {
        let catalog = self.statement.catalog().clone();
        let Some(namespace) = catalog.namespace(&name.name) else {
            if self.names.registry.has_schema(&name.name) {
                return Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop schema {} because it is required by the database system",
                        name.name
                    ),
                ));
            }
            return self.missing("schema", name, if_exists, SqlState::INVALID_SCHEMA_NAME);
        };
        let inside: Vec<_> =
            catalog.tables().filter(|table| table.def.namespace == namespace.oid).collect();
        if let Some(table) = inside.first().filter(|_| !cascade) {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop schema {} because other objects depend on it", name.name),
            )
            .detail(format!(
                "table {}.{} depends on schema {}",
                name.name, table.def.name, name.name
            ))
            .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for table in inside {
            self.statement.drop_table(table.def.oid)?;
        }
        Ok(self.statement.drop_namespace(namespace.oid)?)
    }

    /// A kind of object that this database never has.
    fn drop_other(&mut self, word: &'static str, name: &Name, if_exists: bool) -> SqlResult<()> {
        if if_exists {
            return self.missing(word, name, true, SqlState::UNDEFINED_OBJECT);
        }
        Err(SqlError::not_supported(format_args!("DROP {}", word.to_uppercase())))
    }

    pub(super) fn missing(
        &mut self,
        what: &str,
        name: &Name,
        if_exists: bool,
        sqlstate: SqlState,
    ) -> SqlResult<()> {
        if if_exists {
            let message = format!("{what} \"{}\" does not exist, skipping", name.name);
            self.notice(SqlState(*b"00000"), message);
            return Ok(());
        }
        let message = format!("{what} \"{name}\" does not exist");
        Err(SqlError::new(sqlstate, message))
    }

    pub(super) fn truncate(&mut self, names: &[Name]) -> SqlResult<&'static str> {
        let mut tables = Vec::with_capacity(names.len());
        for name in names {
            let oid = self.table(name)?.def.oid;
            if !tables.contains(&oid) {
                tables.push(oid);
            }
        }
        self.statement.truncate(&tables)?;
        Ok("TRUNCATE TABLE")
    }
}

fn other_tag(word: &str) -> &'static str {
    match word {
        "view" => "DROP VIEW",
        "materialized view" => "DROP MATERIALIZED VIEW",
        "sequence" => "DROP SEQUENCE",
        "type" => "DROP TYPE",
        "function" => "DROP FUNCTION",
        "procedure" => "DROP PROCEDURE",
        "trigger" => "DROP TRIGGER",
        "extension" => "DROP EXTENSION",
        _ => "DROP",
    }
}
