//! Functions that ask the session or the catalog: system information, settings, privileges.
//!
//! Invariants: all go through [`FunctionContext`]; oids without an object answer NULL, as
//! PostgreSQL's functions do, and never fail.

use super::{FunctionContext, ObjectClass, SettingScope, SizeOf};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::Qualified;
use crate::types::{Array, Datum, Type, TypeOid, format_type, reg, storage, type_by_oid};

type Context<'a> = &'a dyn FunctionContext;

pub(in crate::functions) fn version(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Text(context.version()))
}

pub(in crate::functions) fn current_database(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Text(context.current_database()))
}

pub(in crate::functions) fn current_user(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Text(context.current_user()))
}

pub(in crate::functions) fn session_user(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Text(context.session_user()))
}

pub(in crate::functions) fn current_schema(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(context.search_path(false).into_iter().next().map_or(Datum::Null, Datum::Text))
}

pub(in crate::functions) fn current_schemas(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let schemas = context.search_path(args[0].as_bool());
    Ok(Array::of(TypeOid::NAME, schemas.into_iter().map(Datum::Text).collect()).into())
}

pub(in crate::functions) fn backend_pid(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Int4(context.backend_pid()))
}

/// `atoll_instance()`: where the session is.
pub(in crate::functions) fn instance(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Int4(context.instance()))
}

pub(in crate::functions) fn transaction_id(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Int8(context.transaction_id() as i64))
}

pub(in crate::functions) fn server_start(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Timestamptz(context.server_start()))
}

/// Facts that hold for every Atoll server: not in recovery, no replay paused.
pub(in crate::functions) fn always_false(_: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Bool(false))
}

/// Objects of classes that have nothing but built-in members, all visible.
pub(in crate::functions) fn always_true(_: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Bool(true))
}

/// What Atoll has no notion of, and PostgreSQL answers NULL without it.
pub(in crate::functions) fn always_null(_: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Null)
}

pub(in crate::functions) fn user_by_oid(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let oid = args[0].as_oid();
    Ok(match context.object_name(ObjectClass::Role, oid) {
        Some(found) => Datum::Text(found.name),
        None => format!("unknown (OID={oid})").into(),
    })
}

/// `format_type(oid, typmod)`.
pub(in crate::functions) fn format_type_name(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let Datum::Oid(oid) = args[0] else { return Ok(Datum::Null) };
    let oid = TypeOid(oid);
    if oid == TypeOid::INVALID {
        return Ok("-".into());
    }
    // With a modifier of -1 (not NULL), character means bpchar.
    if oid == TypeOid::BPCHAR && matches!(args[1], Datum::Int4(-1)) {
        return Ok("bpchar".into());
    }
    let typmod = if args[1].is_null() { -1 } else { args[1].as_i32() };
    if type_by_oid(oid).is_some() {
        return Ok(format_type(Type::with(oid, typmod)).into());
    }
    Ok(context.type_name(oid).map_or("???".into(), Datum::Text))
}

fn is_visible(class: ObjectClass, oid: u32, context: Context) -> Datum {
    context.object_name(class, oid).map(|found| found.visible).into()
}

pub(in crate::functions) fn table_is_visible(args: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(is_visible(ObjectClass::Relation, args[0].as_oid(), context))
}

pub(in crate::functions) fn type_is_visible(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let oid = args[0].as_oid();
    if type_by_oid(TypeOid(oid)).is_some() {
        return Ok(Datum::Bool(true));
    }
    Ok(is_visible(ObjectClass::Type, oid, context))
}

pub(in crate::functions) fn function_is_visible(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    let oid = args[0].as_oid();
    if super::function_by_oid(oid).is_some() {
        return Ok(Datum::Bool(true));
    }
    Ok(is_visible(ObjectClass::Function, oid, context))
}

pub(in crate::functions) fn expression(args: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(context.expression_text(args[0].as_str(), args[1].as_oid()).into())
}

pub(in crate::functions) fn index_definition(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let column = args.get(1).map_or(0, Datum::as_i32);
    let pretty = args.get(2).is_some_and(Datum::is_true);
    let qualified = if pretty { Qualified::IfNeeded } else { Qualified::Always };
    Ok(context.index_definition(args[0].as_oid(), column, qualified).into())
}

pub(in crate::functions) fn constraint_definition(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    Ok(context.constraint_definition(args[0].as_oid()).into())
}

pub(in crate::functions) fn view_definition(args: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(match &args[0] {
        Datum::Oid(oid) => context.view_definition(*oid).into(),
        name => {
            let oid = reg::lookup(TypeOid::REGCLASS, name.as_str(), context)?;
            oid.and_then(|oid| context.view_definition(oid)).into()
        }
    })
}

fn class_of_catalog(name: &str) -> Option<ObjectClass> {
    Some(match name {
        "pg_class" => ObjectClass::Relation,
        "pg_namespace" => ObjectClass::Namespace,
        "pg_type" => ObjectClass::Type,
        "pg_authid" | "pg_roles" => ObjectClass::Role,
        "pg_database" => ObjectClass::Database,
        "pg_proc" => ObjectClass::Function,
        "pg_operator" => ObjectClass::Operator,
        "pg_collation" => ObjectClass::Collation,
        "pg_tablespace" => ObjectClass::Tablespace,
        "pg_constraint" => ObjectClass::Constraint,
        _ => return None,
    })
}

/// `obj_description(oid [, catalog])`, `shobj_description(oid, catalog)`.
pub(in crate::functions) fn object_comment(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let class = match args.get(1) {
        Some(name) => class_of_catalog(name.as_str()),
        None => Some(ObjectClass::Relation),
    };
    let comment = class.and_then(|class| context.comment(class, args[0].as_oid(), 0));
    Ok(comment.map_or(Datum::Null, Datum::Text))
}

/// `col_description(table, column)`.
pub(in crate::functions) fn column_comment(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let comment = context.comment(ObjectClass::Relation, args[0].as_oid(), args[1].as_i32());
    Ok(comment.map_or(Datum::Null, Datum::Text))
}

/// `pg_tablespace_location(oid)`: the built-in ones have no place of their own.
pub(in crate::functions) fn tablespace_location(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    let oid = args[0].as_oid();
    if oid == 0 || context.object_name(ObjectClass::Tablespace, oid).is_some() {
        return Ok("".into());
    }
    let message = format!("tablespace with OID {oid} does not exist");
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
}

/// `pg_encoding_to_char(encoding)`: only UTF8 exists here.
pub(in crate::functions) fn encoding_name(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(match args[0].as_i32() {
        0 => "SQL_ASCII",
        6 => "UTF8",
        8 => "LATIN1",
        _ => "",
    }
    .into())
}

/// `pg_char_to_encoding(name)`.
pub(in crate::functions) fn encoding_number(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let name = args[0].as_str().to_ascii_lowercase().replace(['-', '_'], "");
    Ok(Datum::Int4(match name.as_str() {
        "sqlascii" => 0,
        "utf8" | "unicode" => 6,
        "latin1" | "iso88591" => 8,
        _ => -1,
    }))
}

/// `pg_client_encoding()`, `getdatabaseencoding()`.
pub(in crate::functions) fn client_encoding(_: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok("UTF8".into())
}

/// `pg_size_pretty(bytes)`.
pub(in crate::functions) fn size_pretty(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let mut size = match &args[0] {
        Datum::Numeric(value) => value.to_i64("bigint")?,
        other => other.as_i64(),
    };
    let half_rounded = |value: i64| (value + value.signum()) / 2;
    if size.unsigned_abs() < 10 * 1024 {
        return Ok(format!("{size} bytes").into());
    }
    // One bit more is kept while dividing, for the rounding at the end.
    size /= 512;
    for unit in ["kB", "MB", "GB", "TB"] {
        if size.unsigned_abs() < 20 * 1024 - 1 {
            return Ok(format!("{} {unit}", half_rounded(size)).into());
        }
        size /= 1024;
    }
    Ok(format!("{} PB", half_rounded(size)).into())
}

fn size(args: &[Datum], what: SizeOf, context: Context) -> SqlResult<Datum> {
    Ok(context.relation_size(args[0].as_oid(), what).into())
}

pub(in crate::functions) fn relation_size(args: &[Datum], context: Context) -> SqlResult<Datum> {
    match args.get(1).map(Datum::as_str) {
        None | Some("main") => size(args, SizeOf::Main, context),
        Some("fsm" | "vm" | "init") => Ok(Datum::Int8(0)),
        Some(_) => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid fork name")
            .hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")),
    }
}

pub(in crate::functions) fn table_size(args: &[Datum], context: Context) -> SqlResult<Datum> {
    size(args, SizeOf::Table, context)
}

pub(in crate::functions) fn indexes_size(args: &[Datum], context: Context) -> SqlResult<Datum> {
    size(args, SizeOf::Indexes, context)
}

pub(in crate::functions) fn total_size(args: &[Datum], context: Context) -> SqlResult<Datum> {
    size(args, SizeOf::Total, context)
}

/// `pg_database_size(oid or name)`.
pub(in crate::functions) fn database_size(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(context.relation_size(0, SizeOf::Total).into())
}

fn to_reg(ty: TypeOid, args: &[Datum], context: Context) -> SqlResult<Datum> {
    // Unlike the cast, bad syntax apart, what does not exist is NULL.
    Ok(reg::lookup(ty, args[0].as_str(), context)?.map_or(Datum::Null, Datum::Oid))
}

pub(in crate::functions) fn to_regclass(args: &[Datum], context: Context) -> SqlResult<Datum> {
    to_reg(TypeOid::REGCLASS, args, context)
}

pub(in crate::functions) fn to_regtype(args: &[Datum], context: Context) -> SqlResult<Datum> {
    to_reg(TypeOid::REGTYPE, args, context)
}

pub(in crate::functions) fn to_regnamespace(args: &[Datum], context: Context) -> SqlResult<Datum> {
    to_reg(TypeOid::REGNAMESPACE, args, context)
}

pub(in crate::functions) fn to_regrole(args: &[Datum], context: Context) -> SqlResult<Datum> {
    to_reg(TypeOid::REGROLE, args, context)
}

pub(in crate::functions) fn to_regproc(args: &[Datum], context: Context) -> SqlResult<Datum> {
    to_reg(TypeOid::REGPROC, args, context)
}

/// text to regclass (an implicit cast).
pub(in crate::functions) fn text_to_regclass(args: &[Datum], context: Context) -> SqlResult<Datum> {
    crate::types::text::input(TypeOid::REGCLASS.into(), args[0].as_str(), context)
}

/// `current_setting(name [, missing_ok])`.
pub(in crate::functions) fn current_setting(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let name = args[0].as_str();
    match context.setting(name) {
        Some(value) => Ok(Datum::Text(value)),
        None if args.get(1).is_some_and(Datum::is_true) => Ok(Datum::Null),
        None => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        )),
    }
}

/// `set_config(name, value, is_local)`.
pub(in crate::functions) fn set_config(args: &[Datum], context: Context) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name"));
    }
    let value = if args[1].is_null() { "" } else { args[1].as_str() };
    let scope = if args[2].is_true() { SettingScope::Transaction } else { SettingScope::Session };
    context.set_setting(args[0].as_str(), value, scope).map(Datum::Text)
}

/// The object an oid or a name means, for the has_*_privilege functions.
fn object(class: ObjectClass, value: &Datum, context: Context) -> SqlResult<Option<u32>> {
    match value {
        Datum::Oid(oid) => Ok(Some(*oid)),
        name => {
            let ty = match class {
                ObjectClass::Relation => TypeOid::REGCLASS,
                ObjectClass::Namespace => TypeOid::REGNAMESPACE,
                ObjectClass::Type => TypeOid::REGTYPE,
                _ => {
                    let name = name.as_str();
                    return Ok(context.object_oid(class, None, name));
                }
            };
            crate::types::text::input(ty.into(), name.as_str(), context)
                .map(|oid| Some(oid.as_oid()))
        }
    }
}

fn has_privilege(class: ObjectClass, args: &[Datum], context: Context) -> SqlResult<Datum> {
    let (role, rest) = match args {
        [role, rest @ ..] if rest.len() == 2 => (Some(role), rest),
        rest => (None, rest),
    };
    let role = match role {
        None => None,
        Some(Datum::Oid(oid)) => Some(*oid),
        Some(name) => {
            let name = name.as_str();
            let found = context.object_oid(ObjectClass::Role, None, name).ok_or_else(|| {
                SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
            })?;
            Some(found)
        }
    };
    let Some(oid) = object(class, &rest[0], context)? else { return Ok(Datum::Null) };
    if matches!(rest[0], Datum::Oid(_))
        && class == ObjectClass::Relation
        && context.object_name(class, oid).is_none()
    {
        return Ok(Datum::Null);
    }
    Ok(Datum::Bool(context.has_privilege(role, class, oid, rest[1].as_str())))
}

macro_rules! privileges {
    ($($name:ident = $class:ident;)*) => {
        $(pub(in crate::functions) fn $name(args: &[Datum], context: Context) -> SqlResult<Datum> {
            has_privilege(ObjectClass::$class, args, context)
        })*
    };
}

privileges! {
    has_table_privilege = Relation;
    has_schema_privilege = Namespace;
    has_database_privilege = Database;
    has_function_privilege = Function;
    has_type_privilege = Type;
    has_tablespace_privilege = Tablespace;
}

/// `has_column_privilege(..)`: as for the table.
pub(in crate::functions) fn has_column_privilege(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    let mut table = args.to_vec();
    table.remove(args.len() - 2);
    has_privilege(ObjectClass::Relation, &table, context)
}

/// `pg_has_role(..)`: everybody has every role until roles exist.
pub(in crate::functions) fn has_role(_: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Bool(true))
}

pub(in crate::functions) fn serial_sequence(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let table = crate::types::text::input(TypeOid::REGCLASS.into(), args[0].as_str(), context)?;
    let found = context.serial_sequence(table.as_oid(), args[1].as_str())?;
    Ok(found.map_or(Datum::Null, Datum::Text))
}

/// `nextval` and `setval` wait, so the executor runs them itself; here is where anybody else ends.
pub(in crate::functions) fn of_executor(_: &[Datum], _: Context) -> SqlResult<Datum> {
    Err(SqlError::not_supported("a sequence's value in this place"))
}

pub(in crate::functions) fn current_value(args: &[Datum], context: Context) -> SqlResult<Datum> {
    context.sequence_current(args[0].as_oid()).map(Datum::Int8)
}

pub(in crate::functions) fn last_value(_: &[Datum], context: Context) -> SqlResult<Datum> {
    context.sequence_last().map(Datum::Int8)
}

/// `pg_typeof(x)`: the argument comes gathered, with its type.
pub(in crate::functions) fn type_of(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(match &args[0] {
        Datum::Record(gathered) if gathered.types.len() == 1 => Datum::Oid(gathered.types[0].0),
        _ => Datum::Null,
    })
}

/// `pg_column_size(x)`: bytes of the stored form.
pub(in crate::functions) fn column_size(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let Datum::Record(gathered) = &args[0] else { return Ok(Datum::Null) };
    let (Some(ty), Some(value)) = (gathered.types.first(), gathered.fields.first()) else {
        return Ok(Datum::Null);
    };
    if value.is_null() {
        return Ok(Datum::Null);
    }
    let mut bytes = Vec::new();
    storage::encode(storage::column_type((*ty).into())?, value, &mut bytes)?;
    Ok(Datum::Int4(bytes.len() as i32))
}

/// `num_nulls(..)`.
pub(in crate::functions) fn number_of_nulls(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let nulls =
        super::string::gathered(&args[0]).iter().filter(|(_, value)| value.is_null()).count();
    Ok(Datum::Int4(nulls as i32))
}

/// `num_nonnulls(..)`.
pub(in crate::functions) fn number_of_non_nulls(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let values = super::string::gathered(&args[0]);
    Ok(Datum::Int4(values.iter().filter(|(_, value)| !value.is_null()).count() as i32))
}
