//! Functions about functions: their results, arguments and definitions as SQL text; and sets
//! about partitions, of which there are none.
//!
//! Invariants: the texts are PostgreSQL's for the same row of pg_proc; an oid without a function
//! answers NULL.

use super::{
    Default, FunctionContext, FunctionRow, SetValues, Strictness, Volatility, function_by_oid,
    quote_identifier,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, TypeOid};

type Context<'a> = &'a dyn FunctionContext;

/// Are defaults printed?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// For CREATE FUNCTION and for people.
    Full,
    /// What identifies the function.
    Identity,
}

fn with_row(args: &[Datum], print: impl Fn(&FunctionRow) -> String) -> SqlResult<Datum> {
    Ok(function_by_oid(args[0].as_oid()).map(print).into())
}

/// `pg_get_function_result(oid)`.
pub(super) fn result(args: &[Datum], _: Context) -> SqlResult<Datum> {
    with_row(args, result_text)
}

/// `pg_get_function_arguments(oid)`.
pub(super) fn arguments(args: &[Datum], _: Context) -> SqlResult<Datum> {
    with_row(args, |row| arguments_text(row, Form::Full))
}

/// `pg_get_function_identity_arguments(oid)`.
pub(super) fn identity_arguments(args: &[Datum], _: Context) -> SqlResult<Datum> {
    with_row(args, |row| arguments_text(row, Form::Identity))
}

/// `pg_get_functiondef(oid)`.
pub(super) fn definition(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let Some(row) = function_by_oid(args[0].as_oid()) else { return Ok(Datum::Null) };
    if row.is_aggregate() {
        let message = format!("\"{}\" is an aggregate function", row.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let mut traits = Vec::new();
    if row.scalar().is_none() && !row.is_set() {
        traits.push("WINDOW");
    }
    match row.volatility {
        Volatility::Immutable => traits.push("IMMUTABLE"),
        Volatility::Stable => traits.push("STABLE"),
        Volatility::Volatile => {}
    }
    traits.push("PARALLEL SAFE");
    if row.strictness == Strictness::Strict {
        traits.push("STRICT");
    }
    let name = quote_identifier(row.name);
    let (arguments, result) = (arguments_text(row, Form::Full), result_text(row));
    let traits = traits.join(" ");
    Ok(format!(
        "CREATE OR REPLACE FUNCTION pg_catalog.{name}({arguments})\n RETURNS {result}\n \
         LANGUAGE internal\n {traits}\nAS $function${}$function$\n",
        row.name
    )
    .into())
}

fn result_text(row: &FunctionRow) -> String {
    let set = if row.is_set() { "SETOF " } else { "" };
    format!("{set}{}", row.result.sql_name())
}

fn arguments_text(row: &FunctionRow, form: Form) -> String {
    let last = row.args.len();
    let first_default = last - row.defaults.len();
    let input = |(at, ty): (usize, &TypeOid)| {
        let mode =
            if row.variadic != TypeOid::INVALID && at + 1 == last { "VARIADIC " } else { "" };
        let default = match at.checked_sub(first_default) {
            Some(at) if form == Form::Full => {
                format!(" DEFAULT {}", default_text(row.defaults[at]))
            }
            _ => String::new(),
        };
        format!("{mode}{}{default}", ty.sql_name())
    };
    let inputs = row.args.iter().enumerate().map(input);
    let outputs = row
        .columns
        .iter()
        .map(|(name, ty)| format!("OUT {} {}", quote_identifier(name), ty.sql_name()));
    inputs.chain(outputs).collect::<Vec<_>>().join(", ")
}

fn default_text(default: Default) -> String {
    match default {
        Default::Null => "NULL".to_owned(),
        Default::Bool(value) => value.to_string(),
        Default::Int4(value) => value.to_string(),
        Default::Float8(value) => format!("{value:?}"),
    }
}

/// `pg_partition_ancestors(relation)`: none is a partition.
pub(super) fn no_ancestors(_: &[Datum], _: Context) -> SqlResult<SetValues> {
    Ok(Box::new(std::iter::empty()))
}

#[cfg(test)]
mod tests {
    use super::super::ConstantContext;
    use super::*;

    #[track_caller]
    fn check(oid: u32, expect: [&str; 3]) {
        let args = [Datum::Oid(oid)];
        let functions = [result, arguments, identity_arguments];
        let found = functions.map(|function| match function(&args, &ConstantContext) {
            Ok(Datum::Text(text)) => text.to_string(),
            other => format!("{other:?}"),
        });
        assert_eq!(found, expect);
    }

    #[test]
    fn signatures_print_as_in_postgresql() {
        check(870, ["text", "text", "text"]);
        check(2803, ["bigint", "", ""]);
        check(2147, ["bigint", "\"any\"", "\"any\""]);
        check(1067, ["SETOF integer", "integer, integer", "integer, integer"]);
        check(3059, ["text", "text, VARIADIC \"any\"", "text, VARIADIC \"any\""]);
        check(1, ["Ok(Null)"; 3]);
        let error = definition(&[Datum::Oid(2803)], &ConstantContext).expect_err("an aggregate");
        assert_eq!(error.message(), "\"count\" is an aggregate function");
        let text = definition(&[Datum::Oid(870)], &ConstantContext).expect("lower");
        assert_eq!(
            text.as_str(),
            "CREATE OR REPLACE FUNCTION pg_catalog.lower(text)\n RETURNS text\n \
             LANGUAGE internal\n IMMUTABLE PARALLEL SAFE STRICT\nAS $function$lower$function$\n"
        );
    }
}
