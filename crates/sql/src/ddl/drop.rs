//! DROP TABLE, DROP INDEX, DROP SCHEMA.
//!
//! Invariants: with IF EXISTS a missing object is a notice; an index of a constraint goes with
//! the constraint only (2BP01).

use super::Definer;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::{At, Name};
use crate::parse::statement::DropKind;
use crate::relations::view::Found;
use atoll_kernel::api::{IndexKind, Oid, SequenceEntry};

/// DROP.
pub(super) fn drop(
    definer: &mut Definer<'_, '_>,
    kind: DropKind,
    names: &[Name],
    if_exists: bool,
    cascade: bool,
) -> SqlResult<()> {
    for name in names {
        match kind {
            DropKind::Table => drop_table(definer, name, if_exists)?,
            DropKind::Index => drop_index(definer, name, if_exists)?,
            DropKind::Sequence => {
                if super::sequence::drop(definer, name, cascade)?.is_none() {
                    missing(definer, "sequence", name, if_exists)?;
                }
            }
            DropKind::Schema => drop_schema(definer, &name.name, if_exists, cascade)?,
            DropKind::Other(word) => missing(definer, word, name, if_exists)?,
        }
    }
    Ok(())
}

fn missing(
    definer: &mut Definer<'_, '_>,
    word: &str,
    name: &Name,
    if_exists: bool,
) -> SqlResult<()> {
    if let Some(schema) = &name.schema
        && !definer.view.schema_exists(schema)
    {
        if if_exists {
            definer.notice(format!("schema \"{schema}\" does not exist, skipping"));
            return Ok(());
        }
        return Err(SqlError::new(
            SqlState::INVALID_SCHEMA_NAME,
            format!("schema \"{schema}\" does not exist"),
        ));
    }
    if if_exists {
        definer.notice(format!("{word} \"{}\" does not exist, skipping", name.name));
        return Ok(());
    }
    let state = match word {
        "type" | "extension" | "index" => SqlState::UNDEFINED_OBJECT,
        _ => SqlState::UNDEFINED_TABLE,
    };
    Err(SqlError::new(state, format!("{word} \"{name}\" does not exist")))
}

fn wrong_kind(name: &Name, word: &str, command: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not {word}", name.name))
        .hint(format!("Use {command}."))
}

fn drop_table(definer: &mut Definer<'_, '_>, name: &Name, if_exists: bool) -> SqlResult<()> {
    match definer.now().find(name) {
        None => missing(definer, "table", name, if_exists),
        Some(Found::Index(_)) => Err(wrong_kind(name, "a table", "DROP INDEX to remove an index")),
        Some(Found::Sequence(_)) => {
            Err(wrong_kind(name, "a table", "DROP SEQUENCE to remove a sequence"))
        }
        Some(Found::Relation(info)) => match info.table() {
            Some(table) => Ok(definer.statement.drop_table(table.def.oid)?),
            None => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{}\" is a system catalog", name.name),
            )),
        },
    }
}

fn drop_index(definer: &mut Definer<'_, '_>, name: &Name, if_exists: bool) -> SqlResult<()> {
    let view = definer.now();
    match view.find(name) {
        None => missing(definer, "index", name, if_exists),
        Some(Found::Relation(_)) => {
            Err(wrong_kind(name, "an index", "DROP TABLE to remove a table"))
        }
        Some(Found::Sequence(_)) => {
            Err(wrong_kind(name, "an index", "DROP SEQUENCE to remove a sequence"))
        }
        Some(Found::Index(index)) => {
            if matches!(index.def.kind, IndexKind::Primary | IndexKind::UniqueConstraint) {
                let table = view.catalog.table_by_oid(index.def.table);
                let table = table.map_or("", |table| table.def.name.as_str());
                let own = &index.def.name;
                return Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!("cannot drop index {own} because constraint {own} on table {table} requires it"),
                )
                .hint(format!("You can drop constraint {own} on table {table} instead.")));
            }
            Ok(definer.statement.drop_index(index.def.oid)?)
        }
    }
}

fn drop_schema(
    definer: &mut Definer<'_, '_>,
    name: &str,
    if_exists: bool,
    cascade: bool,
) -> SqlResult<()> {
    let view = definer.now();
    if view.registry.has_schema(name) {
        return Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop schema {name} because it is required by the database system"),
        ));
    }
    let Some(namespace) = view.catalog.namespace(name).map(|namespace| namespace.oid) else {
        if if_exists {
            definer.notice(format!("schema \"{name}\" does not exist, skipping"));
            return Ok(());
        }
        return Err(SqlError::new(
            SqlState::INVALID_SCHEMA_NAME,
            format!("schema \"{name}\" does not exist"),
        ));
    };
    let inside: Vec<(Oid, String)> = view
        .catalog
        .tables()
        .filter(|table| table.def.namespace == namespace)
        .map(|table| (table.def.oid, table.def.name.clone()))
        .collect();
    let alone = |it: &&std::sync::Arc<SequenceEntry>| {
        it.def.namespace == namespace && it.def.owner.is_none()
    };
    let sequences: Vec<(Oid, String)> = view
        .catalog
        .sequences()
        .filter(alone)
        .map(|sequence| (sequence.def.oid, sequence.def.name.clone()))
        .collect();
    let first = inside.first().map(|(_, table)| format!("table {name}.{table}"));
    let first = first.or_else(|| Some(format!("sequence {name}.{}", sequences.first()?.1)));
    if let Some(first) = first
        && !cascade
    {
        return Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop schema {name} because other objects depend on it"),
        )
        .detail(format!("{first} depends on schema {name}"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    for (oid, table) in inside {
        definer.notice(format!("drop cascades to table {name}.{table}"));
        definer.statement.drop_table(oid)?;
    }
    for (_, sequence) in sequences {
        definer.notice(format!("drop cascades to sequence {name}.{sequence}"));
        let own = Name { schema: Some(name.to_owned()), name: sequence, at: At::NONE };
        super::sequence::drop(definer, &own, true)?;
    }
    Ok(definer.statement.drop_namespace(namespace)?)
}
