//! An expression of a definition back as text: what pg_get_expr shows and what is bound again when
//! the default is used.
//!
//! Invariants: what is printed parses to the same tree. Forms that make no sense in a default
//! (columns, queries, aggregates) were refused when it was bound; the rest that this does not know
//! is refused by name.

use crate::error::{SqlError, SqlResult};
use crate::parse::ast::{Expr, ExprKind, Extreme, Literal, Test, TypeName};

/// The text of `expr`. 0A000 for forms that cannot be kept.
pub fn expression_text(expr: &Expr) -> SqlResult<String> {
    let mut out = String::new();
    write(expr, &mut out)?;
    Ok(out)
}

fn write(expr: &Expr, out: &mut String) -> SqlResult<()> {
    match &expr.kind {
        ExprKind::Literal(literal) => write_literal(literal, out),
        ExprKind::Operator { schema: None, name, left, right } => {
            out.push('(');
            if let Some(left) = left {
                write(left, out)?;
                out.push(' ');
            }
            out.push_str(name);
            out.push(' ');
            write(right, out)?;
            out.push(')');
        }
        ExprKind::And(parts) => list(parts, " AND ", out)?,
        ExprKind::Or(parts) => list(parts, " OR ", out)?,
        ExprKind::Not(inner) => {
            out.push_str("(NOT ");
            write(inner, out)?;
            out.push(')');
        }
        ExprKind::Call(call)
            if !call.star && !call.distinct && !call.variadic && call.filter.is_none() =>
        {
            if let Some(schema) = call.name.schema.as_deref().filter(|it| *it != "pg_catalog") {
                write_name(schema, out);
                out.push('.');
            }
            write_name(&call.name.name, out);
            list(&call.arguments, ", ", out)?;
        }
        ExprKind::Cast(inner, name) => {
            let simple = matches!(inner.kind, ExprKind::Literal(_) | ExprKind::Call(_));
            if !simple {
                out.push('(');
            }
            write(inner, out)?;
            if !simple {
                out.push(')');
            }
            out.push_str("::");
            write_type(name, out);
        }
        ExprKind::Coalesce(parts) => call("COALESCE", parts, out)?,
        ExprKind::MinMax(Extreme::Greatest, parts) => call("GREATEST", parts, out)?,
        ExprKind::MinMax(Extreme::Least, parts) => call("LEAST", parts, out)?,
        ExprKind::Array(parts) => {
            out.push_str("ARRAY[");
            separated(parts, ", ", out)?;
            out.push(']');
        }
        ExprKind::Is(test, inner) => {
            out.push('(');
            write(inner, out)?;
            out.push_str(test_text(*test));
            out.push(')');
        }
        ExprKind::SqlValue(function, precision) => write_sql_value(function, *precision, out),
        _ => {
            return Err(
                SqlError::not_supported("this form of DEFAULT expression").at(expr.at.position())
            );
        }
    }
    Ok(())
}

fn call(name: &str, parts: &[Expr], out: &mut String) -> SqlResult<()> {
    out.push_str(name);
    list(parts, ", ", out)
}

fn list(parts: &[Expr], between: &str, out: &mut String) -> SqlResult<()> {
    out.push('(');
    separated(parts, between, out)?;
    out.push(')');
    Ok(())
}

fn separated(parts: &[Expr], between: &str, out: &mut String) -> SqlResult<()> {
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            out.push_str(between);
        }
        write(part, out)?;
    }
    Ok(())
}

fn write_literal(literal: &Literal, out: &mut String) {
    match literal {
        Literal::Null => out.push_str("NULL"),
        Literal::Boolean(true) => out.push_str("true"),
        Literal::Boolean(false) => out.push_str("false"),
        Literal::Integer(value) if *value < 0 => {
            out.push_str(&format!("'{value}'::integer"));
        }
        Literal::Integer(value) => out.push_str(&value.to_string()),
        Literal::Number(text) => out.push_str(text),
        Literal::String(text) => {
            if text.contains('\\') {
                out.push('E');
            }
            out.push('\'');
            out.push_str(&text.replace('\\', "\\\\").replace('\'', "''"));
            out.push('\'');
        }
    }
}

/// A name, in quotes if it needs them.
fn write_name(name: &str, out: &mut String) {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain {
        out.push_str(name);
    } else {
        out.push('"');
        out.push_str(&name.replace('"', "\"\""));
        out.push('"');
    }
}

/// A type by its SQL name, as PostgreSQL prints it.
fn write_type(name: &TypeName, out: &mut String) {
    if let Ok(ty) = crate::bind::type_of(name) {
        out.push_str(&ty.to_string());
        return;
    }
    if let Some(schema) = &name.name.schema {
        write_name(schema, out);
        out.push('.');
    }
    write_name(&name.name.name, out);
    if !name.modifiers.is_empty() {
        let texts: Vec<String> = name.modifiers.iter().map(ToString::to_string).collect();
        out.push_str(&format!("({})", texts.join(",")));
    }
    for _ in 0..name.array_dimensions {
        out.push_str("[]");
    }
}

fn test_text(test: Test) -> &'static str {
    match test {
        Test::Null => " IS NULL",
        Test::NotNull => " IS NOT NULL",
        Test::True => " IS TRUE",
        Test::NotTrue => " IS NOT TRUE",
        Test::False => " IS FALSE",
        Test::NotFalse => " IS NOT FALSE",
        Test::Unknown => " IS UNKNOWN",
        Test::NotUnknown => " IS NOT UNKNOWN",
    }
}

/// `CURRENT_TIMESTAMP` and its kin, by the function that means the same.
fn write_sql_value(function: &str, precision: Option<i32>, out: &mut String) {
    let word = match function {
        "now" => "CURRENT_TIMESTAMP",
        other => other,
    };
    out.push_str(&word.to_uppercase());
    if let Some(digits) = precision {
        out.push_str(&format!("({digits})"));
    }
}
