//! Expressions back to SQL text, for defaults that the catalog keeps.
//!
//! Invariants: what is printed parses back to the same tree (a test checks it); what has no
//! place in a stored expression is refused (0A000).

use super::ast::{Expr, ExprKind, Extreme, Literal, Name, Quantifier, Test, TypeName};
use crate::error::{SqlError, SqlResult};

/// The expression as SQL.
pub fn print(expr: &Expr) -> SqlResult<String> {
    let mut out = String::new();
    write(expr, &mut out)?;
    Ok(out)
}

/// A name, quoted where it must be.
pub fn quote_name(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A string literal.
pub fn quote_literal(text: &str) -> String {
    if text.contains('\\') {
        return format!(" E'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    }
    format!("'{}'", text.replace('\'', "''"))
}

fn name(name: &Name) -> String {
    match &name.schema {
        Some(schema) if schema != "pg_catalog" => {
            format!("{}.{}", quote_name(schema), quote_name(&name.name))
        }
        _ => quote_name(&name.name),
    }
}

fn type_text(ty: &TypeName) -> String {
    let mut text = match &ty.name.schema {
        Some(schema) => format!("{}.{}", quote_name(schema), quote_name(&ty.name.name)),
        None => quote_name(&ty.name.name),
    };
    if !ty.modifiers.is_empty() {
        let modifiers: Vec<String> = ty.modifiers.iter().map(i32::to_string).collect();
        text.push_str(&format!("({})", modifiers.join(", ")));
    }
    (0..ty.array_dimensions).for_each(|_| text.push_str("[]"));
    text
}

fn list(items: &[Expr], separator: &str, out: &mut String) -> SqlResult<()> {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        write(item, out)?;
    }
    Ok(())
}

fn operand(expr: &Expr, out: &mut String) -> SqlResult<()> {
    let simple = matches!(
        expr.kind,
        ExprKind::Literal(_) | ExprKind::Call(_) | ExprKind::Column { .. } | ExprKind::SqlValue(..)
    );
    let negative = matches!(&expr.kind, ExprKind::Literal(Literal::Integer(i)) if *i < 0)
        || matches!(&expr.kind, ExprKind::Literal(Literal::Number(n)) if n.starts_with('-'));
    if simple && !negative {
        return write(expr, out);
    }
    out.push('(');
    write(expr, out)?;
    out.push(')');
    Ok(())
}

fn write(expr: &Expr, out: &mut String) -> SqlResult<()> {
    match &expr.kind {
        ExprKind::Literal(literal) => match literal {
            Literal::Null => out.push_str("NULL"),
            Literal::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
            Literal::Integer(value) => out.push_str(&value.to_string()),
            Literal::Number(text) => out.push_str(text),
            Literal::String(text) => out.push_str(quote_literal(text).trim_start()),
        },
        ExprKind::Operator { schema: None, name, left, right } => {
            if let Some(left) = left {
                operand(left, out)?;
                out.push(' ');
            }
            out.push_str(name);
            out.push(' ');
            operand(right, out)?;
        }
        ExprKind::Call(call)
            if !call.distinct
                && call.order_by.is_empty()
                && call.filter.is_none()
                && !call.variadic =>
        {
            out.push_str(&name(&call.name));
            out.push('(');
            list(&call.arguments, ", ", out)?;
            if call.star {
                out.push('*');
            }
            out.push(')');
        }
        ExprKind::Cast(inner, ty) => {
            operand(inner, out)?;
            out.push_str("::");
            out.push_str(&type_text(ty));
        }
        ExprKind::SqlValue(word, precision) => {
            out.push_str(&word.to_ascii_uppercase());
            if let Some(precision) = precision {
                out.push_str(&format!("({precision})"));
            }
        }
        _ => return write_rest(expr, out),
    }
    Ok(())
}

fn write_rest(expr: &Expr, out: &mut String) -> SqlResult<()> {
    match &expr.kind {
        ExprKind::And(items) | ExprKind::Or(items) => {
            let word = if matches!(expr.kind, ExprKind::And(_)) { " AND " } else { " OR " };
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(word);
                }
                operand(item, out)?;
            }
        }
        ExprKind::Not(inner) => {
            out.push_str("NOT ");
            operand(inner, out)?;
        }
        ExprKind::Is(test, inner) => {
            operand(inner, out)?;
            out.push_str(test_text(*test));
        }
        ExprKind::Coalesce(items) => {
            out.push_str("COALESCE(");
            list(items, ", ", out)?;
            out.push(')');
        }
        ExprKind::MinMax(which, items) => {
            out.push_str(if *which == Extreme::Greatest { "GREATEST(" } else { "LEAST(" });
            list(items, ", ", out)?;
            out.push(')');
        }
        ExprKind::NullIf(left, right) => {
            out.push_str("NULLIF(");
            write(left, out)?;
            out.push_str(", ");
            write(right, out)?;
            out.push(')');
        }
        ExprKind::Array(items) => {
            out.push_str("ARRAY[");
            list(items, ", ", out)?;
            out.push(']');
        }
        ExprKind::Quantified { name, quantifier, left, right } => {
            operand(left, out)?;
            let word = if *quantifier == Quantifier::Any { "ANY" } else { "ALL" };
            out.push_str(&format!(" {name} {word} ("));
            write(right, out)?;
            out.push(')');
        }
        ExprKind::Case { operand: subject, branches, otherwise } => {
            write_case(subject.as_deref(), branches, otherwise.as_deref(), out)?;
        }
        _ => {
            return Err(SqlError::not_supported("this kind of expression as a default")
                .at(expr.at.position()));
        }
    }
    Ok(())
}

fn write_case(
    subject: Option<&Expr>,
    branches: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    out: &mut String,
) -> SqlResult<()> {
    out.push_str("CASE");
    if let Some(subject) = subject {
        out.push(' ');
        operand(subject, out)?;
    }
    for (when, then) in branches {
        out.push_str(" WHEN ");
        write(when, out)?;
        out.push_str(" THEN ");
        write(then, out)?;
    }
    if let Some(otherwise) = otherwise {
        out.push_str(" ELSE ");
        write(otherwise, out)?;
    }
    out.push_str(" END");
    Ok(())
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

#[cfg(test)]
mod tests {
    use crate::bind::parse_expression;

    fn strip(text: &str) -> String {
        format!("{:?}", parse_expression(text).unwrap())
            .split("at: At(")
            .map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()))
            .collect()
    }

    #[test]
    fn printed_expressions_parse_back() {
        for text in [
            "1",
            "-5",
            "1.50",
            "'it''s'",
            "'a\\b'",
            "NULL",
            "true",
            "now()",
            "CURRENT_TIMESTAMP(3)",
            "1 + 2 * 3",
            "(1 + 2) * 3",
            "- (- 1)",
            "'x'::text",
            "(1 + 2)::int8",
            "'1'::varchar(10)",
            "COALESCE(1, 2)",
            "CASE WHEN true THEN 1 ELSE 2 END",
            "NOT (1 = 2 AND 3 = 4)",
            "ARRAY[1, 2]",
            "1 = ANY (ARRAY[1])",
            "lower('A') || 'b'",
            "NULLIF(1, 2) IS NULL",
        ] {
            let printed = super::print(&parse_expression(text).unwrap()).unwrap();
            assert_eq!(strip(&printed), strip(text), "{text} -> {printed}");
        }
    }
}
