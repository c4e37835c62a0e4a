//! Serial and identity columns: a sequence that the column owns gives its default.
//!
//! Invariants: an identity column is NOT NULL, and its default is nothing but the next value of the
//! one sequence that it owns; a serial column is an ordinary one once it is made.

use super::{Definer, sequence};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::statement::{AlterTable, ColumnDefinition, Generated, SequenceOption};
use crate::relations::default_from;
use crate::types::TypeOid;
use atoll_kernel::api::{
    ColumnDef, ColumnId, Identity, Oid, SequenceDef, SequenceEntry, TableEntry,
};
use std::sync::Arc;

fn identity_of(generated: Generated) -> Identity {
    match generated {
        Generated::Always => Identity::Always,
        Generated::ByDefault => Identity::ByDefault,
    }
}

fn check_type(ty: TypeOid) -> SqlResult<()> {
    if matches!(ty, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8) {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        "identity column type must be smallint, integer, or bigint",
    ))
}

/// Makes the sequences of a new table's columns, and their defaults; [`give_all`] must follow.
pub(super) fn make_all(
    definer: &mut Definer<'_, '_>,
    namespace: Oid,
    table: &str,
    definitions: &[ColumnDefinition],
    columns: &mut [ColumnDef],
) -> SqlResult<Vec<(ColumnId, SequenceDef)>> {
    let mut made = Vec::new();
    for (at, (definition, column)) in definitions.iter().zip(columns).enumerate() {
        let ty = TypeOid(column.type_oid);
        let options: &[SequenceOption] = match (&definition.identity, definition.serial) {
            (Some((generated, options)), _) => {
                check_type(ty)?;
                column.identity = Some(identity_of(*generated));
                options
            }
            (None, Some(_)) => &[],
            (None, None) => continue,
        };
        let names = (table, column.name.as_str());
        let def = sequence::of_column(definer, namespace, names, ty, options)?;
        column.default = Some(default_from(def.oid));
        column.not_null = true;
        made.push((ColumnId(at as u16), def));
    }
    Ok(made)
}

/// Gives the sequences to the columns of the table that was made.
pub(super) fn give_all(
    definer: &mut Definer<'_, '_>,
    table: Oid,
    made: Vec<(ColumnId, SequenceDef)>,
) -> SqlResult<()> {
    for (column, def) in made {
        sequence::give(definer, &def, Some((table, column)))?;
    }
    Ok(())
}

fn named(table: &TableEntry, at: ColumnId) -> (&str, &str) {
    (&table.def.columns[at.index()].name, &table.def.name)
}

/// An identity column's default and NOT NULL are its own (42601).
pub(super) fn is_one(table: &TableEntry, at: ColumnId) -> SqlError {
    let (column, table) = named(table, at);
    SqlError::new(
        SqlState::SYNTAX_ERROR,
        format!("column \"{column}\" of relation \"{table}\" is an identity column"),
    )
}

/// What ALTER COLUMN asks of identity columns.
pub(super) fn alter(
    definer: &mut Definer<'_, '_>,
    table: &TableEntry,
    at: ColumnId,
    command: &AlterTable,
) -> SqlResult<()> {
    match command {
        AlterTable::AddIdentity(_, generated, options) => {
            add(definer, table, at, *generated, options)
        }
        AlterTable::SetIdentity(_, generated, options) => {
            set(definer, table, at, *generated, options)
        }
        AlterTable::DropIdentity(_, if_exists) => drop(definer, table, at, *if_exists),
        _ => Err(SqlError::internal("nothing about identity columns")),
    }
}

fn not_identity(table: &TableEntry, at: ColumnId) -> SqlError {
    let (column, table) = named(table, at);
    SqlError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("column \"{column}\" of relation \"{table}\" is not an identity column"),
    )
}

/// ALTER COLUMN ADD GENERATED .. AS IDENTITY.
fn add(
    definer: &mut Definer<'_, '_>,
    table: &TableEntry,
    at: ColumnId,
    generated: Generated,
    options: &[SequenceOption],
) -> SqlResult<()> {
    let mut def = table.def.clone();
    let own = &mut def.columns[at.index()];
    let (column, relation) = named(table, at);
    let refused = match (own.not_null, own.identity, &own.default) {
        (false, ..) => Some("must be declared NOT NULL before identity can be added"),
        (_, Some(_), _) => Some("is already an identity column"),
        (_, None, Some(_)) => Some("already has a default value"),
        _ => None,
    };
    if let Some(why) = refused {
        return Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("column \"{column}\" of relation \"{relation}\" {why}"),
        ));
    }
    let ty = TypeOid(own.type_oid);
    check_type(ty)?;
    let made = sequence::of_column(definer, def.namespace, (relation, column), ty, options)?;
    own.identity = Some(identity_of(generated));
    own.default = Some(default_from(made.oid));
    definer.statement.alter_table(def)?;
    sequence::give(definer, &made, Some((table.def.oid, at)))
}

fn own_sequence(
    definer: &Definer<'_, '_>,
    table: &TableEntry,
    at: ColumnId,
) -> SqlResult<Arc<SequenceEntry>> {
    let owned = definer.now().catalog.sequences_of(table.def.oid);
    let found = owned.into_iter().find(|it| it.def.owner == Some((table.def.oid, at)));
    found.ok_or_else(|| SqlError::internal("an identity column without a sequence"))
}

/// ALTER COLUMN SET GENERATED, and SET or RESTART of its sequence.
fn set(
    definer: &mut Definer<'_, '_>,
    table: &TableEntry,
    at: ColumnId,
    generated: Option<Generated>,
    options: &[SequenceOption],
) -> SqlResult<()> {
    let mut def = table.def.clone();
    let own = &mut def.columns[at.index()];
    if own.identity.is_none() {
        return Err(not_identity(table, at));
    }
    if let Some(generated) = generated {
        own.identity = Some(identity_of(generated));
        definer.statement.alter_table(def)?;
    }
    if options.is_empty() {
        return Ok(());
    }
    let found = own_sequence(definer, table, at)?;
    sequence::change(definer, &found, options)
}

/// ALTER COLUMN DROP IDENTITY.
fn drop(
    definer: &mut Definer<'_, '_>,
    table: &TableEntry,
    at: ColumnId,
    if_exists: bool,
) -> SqlResult<()> {
    let mut def = table.def.clone();
    let own = &mut def.columns[at.index()];
    if own.identity.is_none() {
        if if_exists {
            let (column, table) = named(table, at);
            definer.notice(format!(
                "column \"{column}\" of relation \"{table}\" is not an identity column, skipping"
            ));
            return Ok(());
        }
        return Err(not_identity(table, at));
    }
    own.identity = None;
    own.default = None;
    let found = own_sequence(definer, table, at)?;
    definer.statement.alter_table(def)?;
    Ok(definer.statement.drop_sequence(found.def.oid)?)
}
