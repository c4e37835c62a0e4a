//! The names of columns without AS.
//!
//! Invariants: PostgreSQL's (FigureColname), down to `?column?`.

use crate::parse::ast::{self, Expr, ExprKind, Target};

/// The name of a column without AS, as PostgreSQL's FigureColname has it.
pub(super) fn column_name(expr: &Expr) -> String {
    figure(expr).0.unwrap_or_else(|| "?column?".to_owned())
}

/// The name and how much it is worth: 2 for a real one, 1 for one by the kind of expression.
fn figure(expr: &Expr) -> (Option<String>, u8) {
    let named = |name: &str, strength| (Some(name.to_owned()), strength);
    match &expr.kind {
        ExprKind::Column { parts, star: false } => (parts.last().cloned(), 2),
        ExprKind::Call(call) => (Some(call.name.name.clone()), 2),
        ExprKind::NullIf(..) => named("nullif", 2),
        ExprKind::Cast(inner, ty) => match figure(inner) {
            (Some(name), 2) => (Some(name), 2),
            _ => named(&ty.name.name, 1),
        },
        ExprKind::Collate(inner, _) | ExprKind::Slice(inner, ..) => figure(inner),
        ExprKind::Subscript(inner, _) => figure(inner),
        ExprKind::Field(_, Some(field)) => named(field, 2),
        ExprKind::Case { otherwise, .. } => match otherwise.as_deref().map(figure) {
            Some((Some(name), 2)) => (Some(name), 2),
            _ => named("case", 1),
        },
        ExprKind::Array(_) | ExprKind::ArrayQuery(_) => named("array", 2),
        ExprKind::Row(_) => named("row", 2),
        ExprKind::Coalesce(_) => named("coalesce", 2),
        ExprKind::MinMax(ast::Extreme::Greatest, _) => named("greatest", 2),
        ExprKind::MinMax(ast::Extreme::Least, _) => named("least", 2),
        ExprKind::Exists(_) => named("exists", 2),
        ExprKind::SqlValue(word, _) => named(word, 2),
        ExprKind::Subquery(query) => match &query.body {
            ast::Body::Select(select) => match select.targets.first() {
                Some(Target { alias: Some(alias), .. }) => named(alias, 2),
                Some(target) => figure(&target.expr),
                None => (None, 0),
            },
            ast::Body::Values(_) => named("column1", 2),
            ast::Body::SetOperation { .. } => (None, 0),
        },
        _ => (None, 0),
    }
}
