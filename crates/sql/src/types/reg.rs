//! regclass, regtype and their kin: oids that print as names.
//!
//! Invariants: 0 prints as `-`; an oid without an object prints as its number; names are quoted
//! where they need it and qualified where the search path does not find them.

use super::{Type, TypeOid, format_type, type_by_name, type_by_oid};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{
    FunctionContext, ObjectClass, function_by_oid, functions, operator_by_oid, quote_identifier,
};

/// Is it one of the reg* types?
pub(crate) const fn is_reg_type(oid: TypeOid) -> bool {
    class(oid).is_some()
}

const fn class(oid: TypeOid) -> Option<ObjectClass> {
    Some(match oid {
        TypeOid::REGCLASS => ObjectClass::Relation,
        TypeOid::REGTYPE => ObjectClass::Type,
        TypeOid::REGNAMESPACE => ObjectClass::Namespace,
        TypeOid::REGROLE => ObjectClass::Role,
        TypeOid::REGPROC | TypeOid::REGPROCEDURE => ObjectClass::Function,
        TypeOid::REGOPER | TypeOid::REGOPERATOR => ObjectClass::Operator,
        TypeOid::REGCOLLATION => ObjectClass::Collation,
        _ => return None,
    })
}

/// Appends the name of the object.
pub(super) fn write(ty: TypeOid, oid: u32, context: &dyn FunctionContext, out: &mut Vec<u8>) {
    if oid == 0 {
        return out.push(b'-');
    }
    let Some(class) = class(ty) else { return super::text::write_integer(out, i64::from(oid)) };
    let built_in = match ty {
        TypeOid::REGTYPE => type_by_oid(TypeOid(oid)).map(|_| format_type(Type::new(TypeOid(oid)))),
        TypeOid::REGPROC => function_by_oid(oid).map(|row| row.name.to_owned()),
        TypeOid::REGPROCEDURE => function_by_oid(oid).map(|row| {
            let args: Vec<String> = row.args.iter().map(|arg| arg.sql_name()).collect();
            format!("{}({})", row.name, args.join(","))
        }),
        TypeOid::REGOPER => operator_by_oid(oid).map(|row| row.name.to_owned()),
        TypeOid::REGOPERATOR => operator_by_oid(oid)
            .map(|row| format!("{}({},{})", row.name, row.left.sql_name(), row.right.sql_name())),
        _ => None,
    };
    if let Some(name) = built_in {
        return out.extend_from_slice(name.as_bytes());
    }
    match context.object_name(class, oid) {
        Some(found) => {
            if let Some(schema) = found.schema.filter(|_| !found.visible) {
                out.extend_from_slice(quote_identifier(&schema).as_bytes());
                out.push(b'.');
            }
            out.extend_from_slice(quote_identifier(&found.name).as_bytes());
        }
        None => super::text::write_integer(out, i64::from(oid)),
    }
}

/// Reads a name or a number (42P01, 42704, 42883, 42602).
pub(super) fn read(ty: TypeOid, text: &str, context: &dyn FunctionContext) -> SqlResult<u32> {
    let trimmed = text.trim_ascii();
    if trimmed == "-" {
        return Ok(0);
    }
    if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
        return super::text::integer(trimmed, "oid");
    }
    lookup(ty, trimmed, context)?.ok_or_else(|| missing(ty, trimmed))
}

/// The oid of a name; None if there is no such object (`to_regclass` and its kin).
pub(crate) fn lookup(
    ty: TypeOid,
    text: &str,
    context: &dyn FunctionContext,
) -> SqlResult<Option<u32>> {
    if ty == TypeOid::REGTYPE
        && let Some(found) = parse_type_name(text)
    {
        return Ok(Some(found.oid.0));
    }
    if ty == TypeOid::REGPROCEDURE {
        return lookup_procedure(text);
    }
    let parts = split_name(text)?;
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name.as_str()),
        [schema, name] => (Some(schema.as_str()), name.as_str()),
        [_, schema, name] => (Some(schema.as_str()), name.as_str()),
        _ => return Err(invalid_name(text)),
    };
    if ty == TypeOid::REGPROC && schema.is_none_or(|schema| schema == "pg_catalog") {
        let mut found = functions().filter(|row| row.name == name);
        if let Some(first) = found.next() {
            if found.next().is_some() {
                return Err(SqlError::new(
                    SqlState::AMBIGUOUS_FUNCTION,
                    format!("more than one function named \"{name}\""),
                ));
            }
            return Ok(Some(first.oid));
        }
    }
    if ty == TypeOid::REGTYPE
        && schema == Some("pg_catalog")
        && let Some(row) = type_by_name(name)
    {
        return Ok(Some(row.oid.0));
    }
    let class = class(ty).ok_or_else(|| SqlError::internal("not a reg type"))?;
    Ok(context.object_oid(class, schema, name))
}

/// The function of this name with these argument types, `lower(text)`.
fn lookup_procedure(text: &str) -> SqlResult<Option<u32>> {
    let expected = |what: &str| {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("expected a {what}"))
    };
    let (name, rest) = text.split_once('(').ok_or_else(|| expected("left parenthesis"))?;
    let arguments =
        rest.trim_end().strip_suffix(')').ok_or_else(|| expected("right parenthesis"))?;
    let mut types = Vec::new();
    for argument in arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
        match parse_type_name(argument) {
            Some(found) => types.push(found.oid),
            None => return Err(missing(TypeOid::REGTYPE, argument)),
        }
    }
    let parts = split_name(name)?;
    let name = match parts.as_slice() {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return Ok(None),
    };
    Ok(functions().find(|row| row.name == name && row.args == types).map(|row| row.oid))
}

fn missing(ty: TypeOid, name: &str) -> SqlError {
    let (state, message) = match ty {
        TypeOid::REGCLASS => {
            (SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
        }
        TypeOid::REGTYPE => (SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist")),
        TypeOid::REGNAMESPACE => {
            (SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
        }
        TypeOid::REGROLE => (SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")),
        TypeOid::REGPROC | TypeOid::REGPROCEDURE => {
            (SqlState::UNDEFINED_FUNCTION, format!("function \"{name}\" does not exist"))
        }
        TypeOid::REGCOLLATION => (
            SqlState::UNDEFINED_OBJECT,
            format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
        ),
        _ => (SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {name}")),
    };
    SqlError::new(state, message)
}

fn invalid_name(text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_NAME, format!("invalid name syntax: \"{text}\""))
}

/// Splits `a."B c".d` into folded parts (42602).
pub(crate) fn split_name(text: &str) -> SqlResult<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_ascii();
    loop {
        let part;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut chars = quoted.char_indices().peekable();
            let end = loop {
                match chars.next() {
                    None => return Err(invalid_name(text)),
                    Some((_, '"')) if chars.peek().is_some_and(|(_, c)| *c == '"') => {
                        chars.next();
                        name.push('"');
                    }
                    Some((at, '"')) => break at + 1,
                    Some((_, c)) => name.push(c),
                }
            };
            part = name;
            rest = quoted[end..].trim_start();
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            part = rest[..end].trim_ascii().to_lowercase();
            rest = &rest[end..];
        }
        if part.is_empty() {
            return Err(invalid_name(text));
        }
        parts.push(part);
        match rest.strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(invalid_name(text)),
        }
    }
}

/// Reads a type name with SQL's spellings: `integer`, `character varying(10)`, `int4[]`.
pub fn parse_type_name(text: &str) -> Option<Type> {
    let lower = text.trim_ascii().to_lowercase();
    // However many dimensions are written, it is the one array type.
    let element = lower.trim_end_matches("[]");
    if element.len() < lower.len() {
        let element = parse_type_name(element)?;
        return Some(Type::with(element.oid.array_type()?, element.typmod));
    }
    let quoted = lower.starts_with('"');
    let (name, args) = match lower.split_once('(') {
        Some((name, rest)) if !quoted => {
            let (inside, after) = rest.split_once(')')?;
            let name = format!("{} {}", name.trim_ascii(), after.trim_ascii());
            (name.trim_ascii().to_owned(), parse_args(inside)?)
        }
        _ => (lower.clone(), Vec::new()),
    };
    let name = name.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    let internal = match name {
        "integer" | "int" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "boolean" => "bool",
        "real" => "float4",
        "double precision" | "float" => "float8",
        "decimal" | "dec" => "numeric",
        "character varying" | "char varying" => "varchar",
        "character" => "bpchar",
        "char" => "bpchar",
        "\"char\"" => "char",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        "time without time zone" => "time",
        other => other.trim_matches('"'),
    };
    let row = type_by_name(internal)?;
    let args = if matches!(name, "character" | "char") && args.is_empty() { vec![1] } else { args };
    if args.is_empty() {
        return Some(Type::new(row.oid));
    }
    Some(Type::with(row.oid, super::typmod::type_modifier(row.oid, &args).ok()?))
}

fn parse_args(inside: &str) -> Option<Vec<i32>> {
    inside.split(',').map(|part| part.trim_ascii().parse().ok()).collect()
}
