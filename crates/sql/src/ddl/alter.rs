//! ALTER TABLE and RENAME.
//!
//! Invariants: each command sees what the ones before it did; rows are looked at before NOT NULL
//! is promised (23502).

use super::create::{add_key, default_text, exists, options};
use super::{Definer, identity};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::Name;
use crate::parse::statement::{AlterTable, KeyConstraint, RenameKind};
use crate::plan::affinity::{AFFINITY, affinity_column};
use crate::relations::view::{Found, undefined_relation};
use crate::types::{Type, TypeOid};
use atoll_kernel::api::{
    ColumnId, Context, Error, IndexEntry, IndexKind, Oid, Parker, RowBuffer, TableDef, TableEntry,
    TableLockMode,
};
use std::sync::Arc;

fn find(
    definer: &mut Definer<'_, '_>,
    name: &Name,
    if_exists: bool,
) -> SqlResult<Option<Arc<TableEntry>>> {
    match definer.now().find(name) {
        None if if_exists => {
            definer.notice(format!("relation \"{}\" does not exist, skipping", name.name));
            Ok(None)
        }
        _ => Ok(definer.now().table(name)?.table().cloned()),
    }
}

/// ALTER TABLE.
pub(super) fn table(
    definer: &mut Definer<'_, '_>,
    context: &Context,
    name: &Name,
    if_exists: bool,
    commands: &[AlterTable],
) -> SqlResult<()> {
    let Some(found) = find(definer, name, if_exists)? else { return Ok(()) };
    let oid = found.def.oid;
    super::lock(definer.statement, oid, TableLockMode::AccessExclusive)?;
    for command in commands {
        let table = definer.statement.table(oid)?;
        command_on(definer, context, &table, command)?;
    }
    Ok(())
}

fn command_on(
    definer: &mut Definer<'_, '_>,
    context: &Context,
    table: &Arc<TableEntry>,
    command: &AlterTable,
) -> SqlResult<()> {
    let mut def = table.def.clone();
    match command {
        AlterTable::AddKey(key) => add_key_to(definer, context, table, key),
        AlterTable::DropConstraint(name, if_exists) => {
            drop_constraint(definer, table, name, *if_exists)
        }
        AlterTable::NotNull(column, not_null) => {
            let at = column_of(&def, column)?;
            if *not_null && !def.columns[at.index()].not_null {
                refuse_nulls(definer, context, table, at)?;
            }
            let in_key = |index: &Arc<IndexEntry>| {
                index.def.kind == IndexKind::Primary
                    && index.def.columns.iter().any(|part| part.column == at)
            };
            if !*not_null && def.columns[at.index()].identity.is_some() {
                return Err(identity::is_one(table, at));
            }
            if !*not_null && table.indexes.iter().any(in_key) {
                return Err(SqlError::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("column \"{column}\" is in a primary key"),
                ));
            }
            def.columns[at.index()].not_null = *not_null;
            Ok(definer.statement.alter_table(def)?)
        }
        AlterTable::Default(column, default) => {
            let at = column_of(&def, column)?;
            let own = &mut def.columns[at.index()];
            if own.identity.is_some() {
                return Err(identity::is_one(table, at));
            }
            let ty = Type::with(TypeOid(own.type_oid), own.type_modifier);
            own.default = match default {
                Some(expr) => default_text(&definer.now(), context, expr, ty, column)?,
                None => None,
            };
            Ok(definer.statement.alter_table(def)?)
        }
        AlterTable::AddIdentity(column, ..)
        | AlterTable::SetIdentity(column, ..)
        | AlterTable::DropIdentity(column, _) => {
            identity::alter(definer, table, column_of(&def, column)?, command)
        }
        AlterTable::Options(list) => {
            for (name, value) in list {
                def.options.retain(|option| !option.starts_with(&format!("{name}=")));
                if let Some(value) = value {
                    let one = [(name.clone(), value.clone())];
                    def.options.extend(options(&one, &def.columns, &def.name)?);
                }
            }
            Ok(definer.statement.alter_table(def)?)
        }
    }
}

fn add_key_to(
    definer: &mut Definer<'_, '_>,
    context: &Context,
    table: &Arc<TableEntry>,
    key: &KeyConstraint,
) -> SqlResult<()> {
    let mut def = table.def.clone();
    if key.primary {
        if table.indexes.iter().any(|index| index.def.kind == IndexKind::Primary) {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("multiple primary keys for table \"{}\" are not allowed", def.name),
            ));
        }
        for column in &key.columns {
            let at = column_of(&def, column)?;
            if !def.columns[at.index()].not_null {
                refuse_nulls(definer, context, table, at)?;
                def.columns[at.index()].not_null = true;
            }
        }
        if def != table.def {
            definer.statement.alter_table(def)?;
        }
    }
    let table = definer.statement.table(table.def.oid)?;
    add_key(definer, &table, "", key)
}

fn column_of(def: &TableDef, column: &str) -> SqlResult<ColumnId> {
    def.column(column).ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{column}\" of relation \"{}\" does not exist", def.name),
        )
    })
}

/// 23502 if any row has NULL in the column.
fn refuse_nulls(
    definer: &mut Definer<'_, '_>,
    context: &Context,
    table: &TableEntry,
    column: ColumnId,
) -> SqlResult<()> {
    let mut cursor = definer.statement.scan(table, &[column]);
    let mut row = RowBuffer::new();
    while cursor.next(definer.statement, &mut row)?.is_some() {
        if row.column(0).is_none() {
            let def = &table.def;
            let name = &def.columns[column.index()].name;
            return Err(SqlError::new(
                SqlState::NOT_NULL_VIOLATION,
                format!("column \"{name}\" of relation \"{}\" contains null values", def.name),
            )
            .table(definer.view.namespace_name(def.namespace), def.name.as_str())
            .column(name.as_str()));
        }
        if context.should_yield() {
            definer.statement.session().check(context)?;
            context.yield_now();
        }
    }
    Ok(())
}

fn drop_constraint(
    definer: &mut Definer<'_, '_>,
    table: &TableEntry,
    name: &str,
    if_exists: bool,
) -> SqlResult<()> {
    let is_it = |index: &&Arc<IndexEntry>| {
        index.def.name == name
            && matches!(index.def.kind, IndexKind::Primary | IndexKind::UniqueConstraint)
    };
    match table.indexes.iter().find(is_it) {
        Some(index) => Ok(definer.statement.drop_index(index.def.oid)?),
        None if if_exists => {
            let own = &table.def.name;
            definer.notice(format!(
                "constraint \"{name}\" of relation \"{own}\" does not exist, skipping"
            ));
            Ok(())
        }
        None => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("constraint \"{name}\" of relation \"{}\" does not exist", table.def.name),
        )),
    }
}

/// ALTER .. RENAME.
pub(super) fn rename(
    definer: &mut Definer<'_, '_>,
    kind: &RenameKind,
    name: &Name,
    if_exists: bool,
    to: &str,
) -> SqlResult<()> {
    match (kind, definer.now().find(name)) {
        (RenameKind::Table | RenameKind::Index, Some(Found::Index(index))) => {
            rename_index(definer, (index.def.oid, &index.def.name), to)
        }
        (
            RenameKind::Table | RenameKind::Index | RenameKind::Sequence,
            Some(Found::Sequence(_)),
        ) => super::sequence::rename(definer, name, to).map(|_| ()),
        (RenameKind::Sequence, Some(_)) => Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("\"{}\" is not a sequence", name.name),
        )),
        (_, None) if !if_exists => Err(undefined_relation(name)),
        _ => {
            let Some(table) = find(definer, name, if_exists)? else { return Ok(()) };
            let mut def = table.def.clone();
            match kind {
                RenameKind::Table | RenameKind::Index | RenameKind::Sequence => {
                    check_other_name(&def.name, to)?;
                    to.clone_into(&mut def.name);
                }
                RenameKind::Column(column) => {
                    let at = column_of(&def, column)?;
                    if def.column(to).is_some() {
                        return Err(SqlError::new(
                            SqlState::DUPLICATE_COLUMN,
                            format!("column \"{to}\" of relation \"{}\" already exists", def.name),
                        ));
                    }
                    let is_near = affinity_column(&def) == Some(at);
                    to.clone_into(&mut def.columns[at.index()].name);
                    if is_near {
                        let own = |option: &&mut String| option.starts_with("affinity=");
                        let kept = def.options.iter_mut().filter(own);
                        kept.for_each(|option| *option = format!("{AFFINITY}={to}"));
                    }
                }
                RenameKind::Constraint(constraint) => {
                    let index = table.indexes.iter().find(|index| index.def.name == *constraint);
                    let index = index.ok_or_else(|| {
                        SqlError::new(
                            SqlState::UNDEFINED_OBJECT,
                            format!(
                                "constraint \"{constraint}\" for table \"{}\" does not exist",
                                def.name
                            ),
                        )
                    })?;
                    return rename_index(definer, (index.def.oid, constraint), to);
                }
            }
            definer.statement.alter_table(def).map_err(|error| match error {
                Error::AlreadyExists { name } => exists(&name),
                other => other.into(),
            })
        }
    }
}

/// A relation cannot be given the name that it has (42P07), as no other's.
pub(super) fn check_other_name(from: &str, to: &str) -> SqlResult<()> {
    if from == to { Err(exists(to)) } else { Ok(()) }
}

fn rename_index(
    definer: &mut Definer<'_, '_>,
    (oid, from): (Oid, &str),
    to: &str,
) -> SqlResult<()> {
    check_other_name(from, to)?;
    definer.statement.rename_index(oid, to).map_err(|error| match error {
        Error::AlreadyExists { name } => exists(&name),
        other => other.into(),
    })
}

#[cfg(test)]
mod tests {
    use crate::session::tests::{say, with_session};

    #[test]
    fn a_tables_affinity_is_checked_kept_and_follows_its_column() {
        with_session(|context, session| {
            // Each statement, what it answers, and the table's options after it.
            for (text, answer, options) in [
                (
                    "create table t (w int, d int) with (fillfactor = 90, affinity = w)",
                    "CREATE TABLE",
                    "{fillfactor=90,affinity=w}",
                ),
                (
                    "create table u (a int) with (affinity = b)",
                    "ERROR 42703: column \"b\" of relation \"u\" does not exist",
                    "{fillfactor=90,affinity=w}",
                ),
                (
                    "create table u (a int) with (affinity = a, affinity = a)",
                    "ERROR 22023: parameter \"affinity\" specified more than once",
                    "{fillfactor=90,affinity=w}",
                ),
                (
                    "alter table t set (affinity = x)",
                    "ERROR 42703: column \"x\" of relation \"t\" does not exist",
                    "{fillfactor=90,affinity=w}",
                ),
                (
                    "alter table t rename column w to \"W id\"",
                    "ALTER TABLE",
                    "{fillfactor=90,\"affinity=W id\"}",
                ),
                ("alter table t set (affinity = d)", "ALTER TABLE", "{fillfactor=90,affinity=d}"),
                ("alter table t reset (affinity)", "ALTER TABLE", "{fillfactor=90}"),
                (
                    "alter table t set (affinity = \"W id\")",
                    "ALTER TABLE",
                    "{fillfactor=90,\"affinity=W id\"}",
                ),
            ] {
                assert_eq!(say(context, session, text), [answer], "{text}");
                let kept = "select reloptions from pg_class where relname = 't'";
                assert_eq!(say(context, session, kept)[1], options, "{text}");
            }
        });
    }
}
