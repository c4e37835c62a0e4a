//! Conversion of CREATE and ALTER SEQUENCE, serial types and identity columns.
//!
//! Invariants: options keep PostgreSQL's names; each at most once (42601); numbers that do not fit
//! 64 bits are refused here.

use super::ast::{At, Name};
use super::names::{constant, name_of_parts, option_true, relation, strings, type_name};
use super::statement::{SequenceBound, SequenceOption, Serial, Utility};
use crate::error::{SqlError, SqlResult, SqlState};
use pg_raw_parse::list::NodeList;
use pg_raw_parse::{ConstValue, Node, nodes};

/// CREATE SEQUENCE.
pub(super) fn create(create: &nodes::CreateSeqStmt) -> SqlResult<Utility> {
    Ok(Utility::CreateSequence {
        name: relation(create.sequence())?,
        if_not_exists: create.if_not_exists,
        options: options(create.options())?,
    })
}

/// ALTER SEQUENCE.
pub(super) fn alter(alter: &nodes::AlterSeqStmt) -> SqlResult<Utility> {
    Ok(Utility::AlterSequence {
        name: relation(alter.sequence())?,
        if_exists: alter.missing_ok,
        options: options(alter.options())?,
    })
}

/// The type that a serial type stands for, if it is one.
pub(super) fn serial(name: &Name) -> Option<Serial> {
    if name.schema.is_some() {
        return None;
    }
    Some(match name.name.as_str() {
        "smallserial" | "serial2" => Serial::Small,
        "serial" | "serial4" => Serial::Plain,
        "bigserial" | "serial8" => Serial::Big,
        _ => return None,
    })
}

/// The options of a sequence.
pub(super) fn options(list: &NodeList) -> SqlResult<Vec<SequenceOption>> {
    let mut seen: Vec<&str> = Vec::new();
    let mut options = Vec::new();
    for option in list {
        let Node::DefElem(option) = option else { continue };
        let name = option.defname().unwrap_or_default();
        // SET GENERATED of an identity column comes in the same list.
        if name == "generated" {
            continue;
        }
        let at = At::from_offset(option.location);
        if seen.contains(&name) {
            let message = "conflicting or redundant options";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(at.position()));
        }
        seen.push(name);
        options.push(match name {
            "as" => match option.arg() {
                Node::TypeName(ty) => SequenceOption::Type(type_name(Some(ty))?),
                other => return Err(super::expression::refused(other)),
            },
            "increment" => SequenceOption::Increment(number(option)?),
            "start" => SequenceOption::Start(number(option)?),
            "cache" => SequenceOption::Cache(number(option)?),
            "restart" => SequenceOption::Restart(optional_number(option)?),
            "minvalue" => SequenceOption::Min(bound(option)?),
            "maxvalue" => SequenceOption::Max(bound(option)?),
            "cycle" => SequenceOption::Cycle(option_true(option)?),
            "owned_by" => SequenceOption::OwnedBy(owner(option, at)?),
            other => {
                let what = format!("the sequence option \"{other}\"");
                return Err(SqlError::not_supported(what).at(at.position()));
            }
        });
    }
    Ok(options)
}

fn bound(option: &nodes::DefElem) -> SqlResult<SequenceBound> {
    Ok(optional_number(option)?.map_or(SequenceBound::OfType, SequenceBound::At))
}

fn number(option: &nodes::DefElem) -> SqlResult<i64> {
    let name = option.defname().unwrap_or_default();
    optional_number(option)?.ok_or_else(|| {
        SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a numeric value"))
    })
}

fn optional_number(option: &nodes::DefElem) -> SqlResult<Option<i64>> {
    let name = option.defname().unwrap_or_default();
    match (option.arg(), constant(option.arg())) {
        (Node::None, _) => Ok(None),
        (_, Some(ConstValue::Integer(value))) => Ok(Some(i64::from(value))),
        (_, Some(ConstValue::Float(text))) => text.parse().map(Some).map_err(|_| {
            SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("value \"{text}\" is out of range for type bigint"),
            )
        }),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a numeric value"))),
    }
}

/// `table.column`; None for NONE.
fn owner(option: &nodes::DefElem, at: At) -> SqlResult<Option<(Name, String)>> {
    let mut parts = match option.arg() {
        Node::NodeList(list) => strings(list),
        other => return Err(super::expression::refused(other)),
    };
    let Some(column) = parts.pop() else { return Ok(None) };
    if parts.is_empty() {
        if column == "none" {
            return Ok(None);
        }
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
            .hint("Specify OWNED BY table.column or OWNED BY NONE.")
            .at(at.position()));
    }
    Ok(Some((name_of_parts(parts, at)?, column)))
}
