//! CREATE TABLE, CREATE INDEX, CREATE SCHEMA.
//!
//! Invariants: a table and the indexes of its keys are made by one statement, or not at all.

use super::Definer;
use super::names::free_name;
use crate::bind;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::modify::key_too_long;
use crate::parse::ast::{At, Expr, ExprKind, Literal, Name};
use crate::parse::print;
use crate::parse::statement::{ColumnDefinition, CreateIndex, CreateTable, KeyConstraint};
use crate::plan::affinity::AFFINITY;
use crate::relations::view::Found;
use crate::relations::{CatalogView, default_from};
use crate::types::{Type, TypeOid, storage};
use atoll_kernel::api::{
    ColumnDef, ColumnId, Context, Direction, Error, IndexColumn, IndexKind, NewIndex, NewTable,
    Nulls, Oid, TableEntry,
};
use std::sync::Arc;

/// Storage parameters of tables that are kept, with their smallest and largest value.
const TABLE_OPTIONS: &[(&str, i64, i64)] = &[
    ("fillfactor", 10, 100),
    ("autovacuum_enabled", 0, 1),
    ("parallel_workers", 0, 1024),
    ("autovacuum_vacuum_threshold", 0, i32::MAX as i64),
    ("autovacuum_analyze_threshold", 0, i32::MAX as i64),
];

/// Checks storage parameters of a table with these columns and gives them as the catalog keeps
/// them.
pub(super) fn options(
    list: &[(String, String)],
    columns: &[ColumnDef],
    table: &str,
) -> SqlResult<Vec<String>> {
    let mut kept = Vec::with_capacity(list.len());
    for (name, value) in list {
        if list.iter().filter(|(other, _)| other == name).count() > 1 {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("parameter \"{name}\" specified more than once"),
            ));
        }
        if name == AFFINITY {
            if !columns.iter().any(|column| column.name == *value) {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{value}\" of relation \"{table}\" does not exist"),
                ));
            }
            kept.push(format!("{name}={value}"));
            continue;
        }
        let Some((_, least, most)) = TABLE_OPTIONS.iter().find(|(own, _, _)| own == name) else {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unrecognized parameter \"{name}\""),
            ));
        };
        let number = match value.as_str() {
            "true" | "on" => Some(1),
            "false" | "off" => Some(0),
            text => text.parse::<i64>().ok(),
        };
        match number {
            Some(number) if (*least..=*most).contains(&number) => {
                kept.push(format!("{name}={value}"));
            }
            Some(number) => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("value {number} out of bounds for option \"{name}\""),
                )
                .detail(format!("Valid values are between \"{least}\" and \"{most}\".")));
            }
            None => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid value for integer option \"{name}\": {value}"),
                ));
            }
        }
    }
    Ok(kept)
}

/// The schema that a new object goes to.
pub(super) fn target_schema(view: &CatalogView, name: &Name) -> SqlResult<(Oid, Arc<str>)> {
    let Some(schema) = &name.schema else { return view.creation_schema() };
    if view.registry.has_schema(schema) {
        return Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("permission denied to create \"{schema}.{}\"", name.name),
        )
        .detail("System catalog modifications are currently disallowed."));
    }
    match view.catalog.namespace(schema) {
        Some(namespace) => Ok((namespace.oid, schema.as_str().into())),
        None => Err(SqlError::new(
            SqlState::INVALID_SCHEMA_NAME,
            format!("schema \"{schema}\" does not exist"),
        )
        .at(name.at.position())),
    }
}

/// 42P07.
pub(super) fn exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

/// CREATE TABLE.
pub(super) fn table(
    definer: &mut Definer<'_, '_>,
    context: &Context,
    create: &CreateTable,
) -> SqlResult<()> {
    let (namespace, schema) = target_schema(definer.view, &create.name)?;
    let name = &create.name.name;
    if definer.view.catalog.relation(namespace, name).is_some() {
        if create.if_not_exists {
            definer.notice_exists(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists, skipping"),
            );
            return Ok(());
        }
        return Err(exists(name));
    }
    let mut columns: Vec<ColumnDef> = Vec::with_capacity(create.columns.len());
    for column in &create.columns {
        if columns.iter().any(|other| other.name == column.name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{}\" specified more than once", column.name),
            ));
        }
        columns.push(column_def(definer.view, context, column)?);
    }
    let primaries = create.keys.iter().filter(|key| key.primary).count();
    if primaries > 1 {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("multiple primary keys for table \"{name}\" are not allowed"),
        ));
    }
    for key in create.keys.iter().filter(|key| key.primary) {
        for column in &key.columns {
            let found = columns.iter_mut().find(|other| other.name == *column);
            found.ok_or_else(|| missing_key_column(column, key))?.not_null = true;
        }
    }
    let options = options(&create.options, &columns, name)?;
    let sequences =
        super::identity::make_all(definer, namespace, name, &create.columns, &mut columns)?;
    let new = NewTable { namespace, name: name.clone(), columns, options };
    let oid = definer.statement.create_table(new).map_err(|error| match error {
        Error::AlreadyExists { name } => exists(&name),
        other => other.into(),
    })?;
    super::identity::give_all(definer, oid, sequences)?;
    for key in &create.keys {
        let table = definer.statement.table(oid)?;
        add_key(definer, &table, &schema, key)?;
    }
    Ok(())
}

fn missing_key_column(column: &str, key: &KeyConstraint) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{column}\" named in key does not exist"),
    )
    .at(key.at.position())
}

fn column_def(
    view: &CatalogView,
    context: &Context,
    column: &ColumnDefinition,
) -> SqlResult<ColumnDef> {
    let mut ty = bind::type_of(&column.type_name)?;
    if column.collated && ty.oid.category() != crate::types::Category::String {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("collations are not supported by type {}", ty.oid),
        )
        .at(column.type_name.name.at.position()));
    }
    if ty.oid == TypeOid::BPCHAR && ty.typmod < 0 && column.type_name.name.name == "char" {
        ty.typmod = 1 + 4;
    }
    let physical =
        storage::column_type(ty).map_err(|error| error.at(column.type_name.name.at.position()))?;
    let default =
        column.default.as_ref().map(|expr| default_text(view, context, expr, ty, &column.name));
    Ok(ColumnDef {
        name: column.name.clone(),
        physical,
        type_oid: ty.oid.0,
        type_modifier: ty.typmod,
        not_null: column.not_null,
        default: default.transpose()?.flatten(),
        identity: None,
    })
}

/// A default as the catalog keeps it, checked against the column's type; DEFAULT NULL is none.
pub(super) fn default_text(
    view: &CatalogView,
    context: &Context,
    expr: &Expr,
    ty: Type,
    column: &str,
) -> SqlResult<Option<String>> {
    context.on_thread_stack(|| {
        let bound = bind::bind_constant(view, expr, ty, "DEFAULT").map_err(|error| {
            if error.sqlstate() != SqlState::DATATYPE_MISMATCH {
                return error;
            }
            let message =
                error.message().replace("DEFAULT is of", &format!("column \"{column}\" is of"));
            let message = message.replace("but expression", "but default expression");
            SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .hint("You will need to rewrite or cast the expression.")
                .at(error.fields().position)
        })?;
        if bound.is_null_constant() {
            return Ok(None);
        }
        if let Some(oid) = sequence_named(view, expr) {
            return Ok(Some(default_from(oid)));
        }
        // A literal is shown with the type it has, as PostgreSQL does.
        if let ExprKind::Literal(Literal::String(text)) = &expr.kind {
            let number = matches!(ty.oid, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8);
            let literal = print::quote_literal(text);
            let literal = literal.trim_start();
            return Ok(Some(match ty.oid {
                _ if number => text.trim().to_owned(),
                TypeOid::BPCHAR => format!("{literal}::bpchar"),
                oid => format!("{literal}::{oid}"),
            }));
        }
        print::print(expr).map(Some)
    })
}

/// The sequence of `nextval('name')`: a default keeps its oid.
fn sequence_named(view: &CatalogView, expr: &Expr) -> Option<Oid> {
    let ExprKind::Call(call) = &expr.kind else { return None };
    let [argument] = call.arguments.as_slice() else { return None };
    let literal = match &argument.kind {
        ExprKind::Cast(inner, ty) if ty.name.name == "regclass" => &inner.kind,
        other => other,
    };
    let ExprKind::Literal(Literal::String(text)) = literal else { return None };
    if call.name.name != "nextval" {
        return None;
    }
    if let Ok(oid) = text.parse() {
        return view.catalog.sequence_by_oid(Oid(oid)).map(|found| found.def.oid);
    }
    let mut parts = text.rsplitn(2, '.').map(|part| part.trim_matches('"').to_owned());
    let name = parts.next()?;
    match view.find(&Name { schema: parts.next(), name, at: At::NONE })? {
        Found::Sequence(sequence) => Some(sequence.def.oid),
        _ => None,
    }
}

/// Makes the index of PRIMARY KEY or UNIQUE.
pub(super) fn add_key(
    definer: &mut Definer<'_, '_>,
    table: &TableEntry,
    _schema: &str,
    key: &KeyConstraint,
) -> SqlResult<()> {
    let mut columns = Vec::with_capacity(key.columns.len());
    for column in &key.columns {
        let found = table.def.column(column).ok_or_else(|| missing_key_column(column, key))?;
        if columns.iter().any(|other: &IndexColumn| other.column == found) {
            let kind = if key.primary { "primary key" } else { "unique" };
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{column}\" appears twice in {kind} constraint"),
            )
            .at(key.at.position()));
        }
        check_indexable(table, found)?;
        columns.push(IndexColumn {
            column: found,
            direction: Direction::Ascending,
            nulls: Nulls::Last,
        });
    }
    let view = definer.now();
    let own = &table.def.name;
    let name = match &key.name {
        Some(name) => name.clone(),
        None if key.primary => free_name(&view, table.def.namespace, &[], (own, "", "pkey")),
        None => {
            let joined = key.columns.join("_");
            free_name(&view, table.def.namespace, &[], (own, &joined, "key"))
        }
    };
    let kind = if key.primary { IndexKind::Primary } else { IndexKind::UniqueConstraint };
    make_index(definer, table, NewIndex { table: table.def.oid, name, columns, kind })
}

fn check_indexable(table: &TableEntry, column: ColumnId) -> SqlResult<()> {
    let oid = TypeOid(table.def.columns[column.index()].type_oid);
    if storage::is_ordered(oid) {
        return Ok(());
    }
    Err(SqlError::not_supported(format!("an index on a column of type {oid}")))
}

pub(super) fn make_index(
    definer: &mut Definer<'_, '_>,
    table: &TableEntry,
    new: NewIndex,
) -> SqlResult<()> {
    let name = new.name.clone();
    let made = definer.statement.create_index(new);
    made.map(|_| ()).map_err(|error| match error {
        Error::AlreadyExists { name } => exists(&name),
        Error::UniqueViolation { .. } => SqlError::new(
            SqlState::UNIQUE_VIOLATION,
            format!("could not create unique index \"{name}\""),
        )
        .detail("The table has rows with equal keys.")
        .table(definer.view.namespace_name(table.def.namespace), table.def.name.as_str())
        .constraint(name.as_str()),
        Error::KeyTooLong { bytes, bytes_max, .. } => {
            let schema = definer.view.namespace_name(table.def.namespace);
            key_too_long(&name, (schema, table.def.name.as_str()), (bytes, bytes_max))
        }
        other => other.into(),
    })
}

/// CREATE INDEX.
pub(super) fn index(definer: &mut Definer<'_, '_>, create: &CreateIndex) -> SqlResult<()> {
    let info = definer.view.table(&create.table)?;
    let Some(table) = info.table() else { return Err(SqlError::internal("no table")) };
    let mut columns = Vec::with_capacity(create.columns.len());
    for element in &create.columns {
        let found = table.def.column(&element.column).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{}\" does not exist", element.column),
            )
        })?;
        check_indexable(table, found)?;
        columns.push(IndexColumn {
            column: found,
            direction: if element.descending {
                Direction::Descending
            } else {
                Direction::Ascending
            },
            nulls: if element.nulls_first { Nulls::First } else { Nulls::Last },
        });
    }
    let namespace = table.def.namespace;
    let name = match &create.name {
        Some(name) => name.clone(),
        None => {
            let parts: Vec<&str> = create.columns.iter().map(|c| c.column.as_str()).collect();
            let joined = parts.join("_");
            free_name(definer.view, namespace, &[], (&table.def.name, &joined, "idx"))
        }
    };
    let schema = definer.view.namespace_name(namespace).to_owned();
    if let Some(found) = definer.view.find_in(&schema, &name) {
        let _: Found = found;
        if create.if_not_exists {
            definer.notice_exists(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists, skipping"),
            );
            return Ok(());
        }
        return Err(exists(&name));
    }
    let kind = if create.unique { IndexKind::Unique } else { IndexKind::Plain };
    let table = table.clone();
    make_index(definer, &table, NewIndex { table: table.def.oid, name, columns, kind })
}

/// CREATE SCHEMA.
pub(super) fn schema(
    definer: &mut Definer<'_, '_>,
    name: &str,
    if_not_exists: bool,
) -> SqlResult<()> {
    if name.starts_with("pg_") {
        return Err(SqlError::new(
            SqlState::RESERVED_NAME,
            format!("unacceptable schema name \"{name}\""),
        )
        .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    if definer.view.schema_exists(name) {
        if if_not_exists {
            definer.notice_exists(
                SqlState::DUPLICATE_SCHEMA,
                format!("schema \"{name}\" already exists, skipping"),
            );
            return Ok(());
        }
        return Err(SqlError::new(
            SqlState::DUPLICATE_SCHEMA,
            format!("schema \"{name}\" already exists"),
        ));
    }
    definer.statement.create_namespace(name).map(|_| ()).map_err(|error| match error {
        Error::AlreadyExists { name } => {
            SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists"))
        }
        other => other.into(),
    })
}
