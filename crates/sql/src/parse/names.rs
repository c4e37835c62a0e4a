//! Conversion of names, types, aliases and option values.
//!
//! Invariants: pure functions over borrowed nodes; what has no place in our tree is refused.

use super::ast::{Alias, At, Name, TypeName};
use crate::error::{SqlError, SqlResult, SqlState};
use pg_raw_parse::list::NodeList;
use pg_raw_parse::{ConstValue, Node, nodes};

/// The strings of a list, in order; anything else in it is left out.
pub(super) fn strings(list: &NodeList) -> Vec<String> {
    list.iter().filter_map(|node| node.as_str().map(str::to_owned)).collect()
}

/// A possibly qualified name from its parts; a database name in front must be refused elsewhere.
pub(super) fn name_of(parts: &NodeList, at: At) -> SqlResult<Name> {
    name_of_parts(strings(parts), at)
}

/// As [`name_of`], from strings.
pub(super) fn name_of_parts(mut parts: Vec<String>, at: At) -> SqlResult<Name> {
    let name = parts.pop().unwrap_or_default();
    let schema = parts.pop();
    if parts.len() > 1 {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "improper qualified name (too many dotted names)",
        )
        .at(at.position()));
    }
    Ok(Name { schema, name, at })
}

/// The name of a relation; persistence and inheritance marks are refused where they matter.
pub(super) fn relation(range: Option<&nodes::RangeVar>) -> SqlResult<Name> {
    let range = range.ok_or_else(|| SqlError::internal("a relation is missing in the tree"))?;
    let at = At::from_offset(range.location);
    if let Some(database) = range.catalogname()
        && database != "postgres"
    {
        return Err(SqlError::not_supported(format!(
            "a cross-database reference to \"{database}\""
        ))
        .at(at.position()));
    }
    if range.relpersistence == b't' as i8 as std::ffi::c_char {
        return Err(SqlError::not_supported("a temporary table").at(at.position()));
    }
    if range.relpersistence == b'u' as i8 as std::ffi::c_char {
        return Err(SqlError::not_supported("an unlogged table").at(at.position()));
    }
    Ok(Name {
        schema: range.schemaname().map(str::to_owned),
        name: range.relname().unwrap_or_default().to_owned(),
        at,
    })
}

/// An alias.
pub(super) fn alias(alias: Option<&nodes::Alias>) -> Option<Alias> {
    alias.map(|alias| Alias {
        name: alias.aliasname().unwrap_or_default().to_owned(),
        columns: strings(alias.colnames()),
    })
}

/// A type.
pub(super) fn type_name(name: Option<&nodes::TypeName>) -> SqlResult<TypeName> {
    let name = name.ok_or_else(|| SqlError::internal("a type is missing in the tree"))?;
    let at = At::from_offset(name.location);
    let parts = name.names().iter().filter_map(|part| part.sval().map(str::to_owned)).collect();
    let mut modifiers = Vec::new();
    for modifier in name.typmods() {
        match constant(modifier) {
            Some(ConstValue::Integer(value)) => modifiers.push(value),
            _ => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    "type modifiers must be simple constants or identifiers",
                )
                .at(at.position()));
            }
        }
    }
    let special = match (name.setof, name.pct_type) {
        (true, _) => Some("SETOF"),
        (_, true) => Some("%TYPE"),
        _ => None,
    };
    Ok(TypeName {
        name: name_of_parts(parts, at)?,
        modifiers,
        array_dimensions: u8::try_from(name.array_bounds().len()).unwrap_or(u8::MAX),
        special,
    })
}

/// The value of a constant node, if it is one and not NULL.
pub(super) fn constant<'a>(node: Node<'a>) -> Option<ConstValue<'a>> {
    match node {
        Node::A_Const(constant) => constant.val(),
        Node::Integer(value) => Some(ConstValue::Integer(value.ival)),
        Node::Float(value) => Some(ConstValue::Float(value.fval().unwrap_or_default())),
        Node::Boolean(value) => Some(ConstValue::Boolean(value.boolval)),
        Node::String(value) => Some(ConstValue::String(value.sval().unwrap_or_default())),
        _ => None,
    }
}

/// An option's value as text, as PostgreSQL's defGetString gives it.
pub(super) fn option_text(element: &nodes::DefElem) -> SqlResult<Option<String>> {
    match element.arg() {
        Node::None => Ok(None),
        Node::TypeName(name) => Ok(Some(type_name(Some(name))?.name.name)),
        Node::A_Star(_) => Ok(Some("*".to_owned())),
        node => match constant(node) {
            Some(value) => Ok(Some(value.to_string())),
            None => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("{} requires a parameter", element.defname().unwrap_or_default()),
            )
            .at(At::from_offset(element.location).position())),
        },
    }
}

/// An option's truth, as PostgreSQL's defGetBoolean gives it: absent means true.
pub(super) fn option_true(element: &nodes::DefElem) -> SqlResult<bool> {
    match option_text(element)?.map(|text| text.to_ascii_lowercase()).as_deref() {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        Some(_) => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("{} requires a Boolean value", element.defname().unwrap_or_default()),
        )),
    }
}
