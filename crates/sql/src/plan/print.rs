//! Expressions as EXPLAIN shows them.
//!
//! Invariants: made only for plans that are to be explained; the text is for people, it is never
//! parsed. Columns have their relation's alias in front.

use super::Planner;
use crate::bind::Binding;
use crate::bind::bound::{
    Aggregate, Bound, BoundKind, ColumnRef, ROW_ID, RelationId, SubqueryKind,
};
use crate::functions::ConstantContext;
use crate::parse::ast::{Extreme, Quantifier, Test};
use crate::types::Datum;
use crate::types::text::output_string;
use std::collections::HashMap;
use std::sync::Arc;

/// What relations, columns and computed values are called.
#[derive(Default)]
pub(super) struct Names {
    relations: HashMap<RelationId, crate::bind::RelationNames>,
    values: HashMap<ColumnRef, String>,
}

impl Names {
    /// Those of a statement.
    pub(super) fn of(binding: &Binding) -> Names {
        Names { relations: binding.names.iter().cloned().collect(), values: HashMap::new() }
    }

    /// A relation's alias.
    fn column(&self, column: ColumnRef) -> String {
        if let Some(value) = self.values.get(&column) {
            return value.clone();
        }
        match self.relations.get(&column.relation) {
            Some((alias, columns)) => match columns.get(column.column as usize) {
                Some(name) if alias.is_empty() => name.to_string(),
                Some(name) => format!("{alias}.{name}"),
                None if column.column == ROW_ID => format!("{alias}.row"),
                None => alias.clone(),
            },
            None => "?column?".to_owned(),
        }
    }

    fn list(&self, items: &[Bound]) -> String {
        items.iter().map(|item| self.text(item)).collect::<Vec<_>>().join(", ")
    }

    /// An expression's text.
    fn text(&self, bound: &Bound) -> String {
        let text = |bound: &Bound| self.text(bound);
        let joined = |items: &[Bound], word: &str| {
            format!("({})", items.iter().map(text).collect::<Vec<_>>().join(word))
        };
        match &bound.kind {
            BoundKind::Constant(value) => constant(value, bound),
            BoundKind::Parameter(index) => format!("${}", index + 1),
            BoundKind::Column(column)
            | BoundKind::GroupKey(column)
            | BoundKind::Aggregate(column) => self.column(*column),
            BoundKind::Call(call) => format!("{}({})", call.name, self.list(&call.arguments)),
            BoundKind::Operator(row, Some(left), right) => {
                format!("({} {} {})", text(left), row.name, text(right))
            }
            BoundKind::Operator(row, None, right) => format!("({} {})", row.name, text(right)),
            BoundKind::Coerce(_, inner) | BoundKind::Typmod(_, inner) => {
                format!("({})::{}", text(inner), bound.ty)
            }
            BoundKind::And(items) => joined(items, " AND "),
            BoundKind::Or(items) => joined(items, " OR "),
            BoundKind::Not(inner) => format!("(NOT {})", text(inner)),
            BoundKind::Is(test, inner) => format!("({} {})", text(inner), test_words(*test)),
            BoundKind::Distinct { negated, sides, .. } => {
                let not = if *negated { "NOT " } else { "" };
                format!("({} IS {not}DISTINCT FROM {})", text(&sides.0), text(&sides.1))
            }
            BoundKind::NullIf(_, sides) => {
                format!("NULLIF({}, {})", text(&sides.0), text(&sides.1))
            }
            BoundKind::In { left, rows } => {
                let rows = rows.iter().map(|own| row(own.iter().map(|(_, it)| text(it))));
                let rows: Vec<String> = rows.collect();
                format!("({} IN ({}))", row(left.iter().map(text)), rows.join(", "))
            }
            _ => self.special(bound),
        }
    }

    /// The rarer forms.
    fn special(&self, bound: &Bound) -> String {
        let text = |bound: &Bound| self.text(bound);
        match &bound.kind {
            BoundKind::Quantified { operator, quantifier, left, array } => {
                format!("({} {} {} ({}))", text(left), operator.name, any(*quantifier), text(array))
            }
            BoundKind::RowCompare { columns, or_equal } => {
                let side = |items: Vec<String>| format!("ROW({})", items.join(", "));
                let left = side(columns.iter().map(|(_, _, left, _)| text(left)).collect());
                let right = side(columns.iter().map(|(_, _, _, right)| text(right)).collect());
                let strict = columns.first().map_or("<", |(row, ..)| row.name);
                format!("({left} {strict}{} {right})", if *or_equal { "=" } else { "" })
            }
            BoundKind::Case(branches, otherwise) => {
                let branches = branches
                    .iter()
                    .map(|(when, then)| format!("WHEN {} THEN {} ", text(when), text(then)));
                format!("CASE {}ELSE {} END", branches.collect::<String>(), text(otherwise))
            }
            BoundKind::Coalesce(items) => format!("COALESCE({})", self.list(items)),
            BoundKind::MinMax(extreme, _, items) => {
                let word = if *extreme == Extreme::Greatest { "GREATEST" } else { "LEAST" };
                format!("{word}({})", self.list(items))
            }
            BoundKind::Array(_, items) => format!("ARRAY[{}]", self.list(items)),
            BoundKind::Row(items) => format!("ROW({})", self.list(items)),
            BoundKind::Field(inner, field) => format!("({}).f{}", text(inner), field + 1),
            BoundKind::Subscript(array, indices) => {
                format!("({})[{}]", text(array), self.list(indices))
            }
            BoundKind::SetElement(parts) => {
                format!("{}[{}] := {}", text(&parts.0), self.list(&parts.1), text(&parts.2))
            }
            BoundKind::Slice(array, _, _) => format!("({})[:]", text(array)),
            BoundKind::Subquery(subquery) => match &subquery.kind {
                SubqueryKind::Exists => "EXISTS(SubPlan)".to_owned(),
                SubqueryKind::Quantified { quantifier, left } => {
                    let word = left.first().map_or("=", |(_, row)| row.name);
                    let left: Vec<String> = left.iter().map(|(it, _)| text(it)).collect();
                    format!("({} {word} {} (SubPlan))", left.join(", "), any(*quantifier))
                }
                _ => "(SubPlan)".to_owned(),
            },
            BoundKind::Set(set) => format!("{}({})", set.name, self.list(&set.arguments)),
            _ => String::new(),
        }
    }
}

fn any(quantifier: Quantifier) -> &'static str {
    match quantifier {
        Quantifier::Any => "ANY",
        Quantifier::All => "ALL",
    }
}

fn test_words(test: Test) -> &'static str {
    match test {
        Test::Null => "IS NULL",
        Test::NotNull => "IS NOT NULL",
        Test::True => "IS TRUE",
        Test::NotTrue => "IS NOT TRUE",
        Test::False => "IS FALSE",
        Test::NotFalse => "IS NOT FALSE",
        Test::Unknown => "IS UNKNOWN",
        Test::NotUnknown => "IS NOT UNKNOWN",
    }
}

/// One text as it is, several as a row.
pub(super) fn row(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.as_slice() {
        [one] => one.clone(),
        many => format!("({})", many.join(", ")),
    }
}

fn constant(value: &Datum, bound: &Bound) -> String {
    match value {
        Datum::Null => "NULL".to_owned(),
        Datum::Bool(value) => value.to_string(),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => value.as_i64().to_string(),
        Datum::Float8(value) => value.to_string(),
        Datum::Numeric(value) => {
            let mut text = Vec::new();
            value.write(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        }
        value => {
            // As a session with the settings that constants are folded by would print it.
            let text = output_string(bound.ty.oid, value, &ConstantContext);
            format!("'{}'::{}", text.replace('\'', "''"), bound.ty)
        }
    }
}

impl Planner<'_> {
    /// An expression as EXPLAIN shows it, if that is wanted.
    pub(super) fn shown(&self, bound: &Bound) -> Option<Arc<str>> {
        self.names.as_ref().map(|names| names.text(bound).into())
    }

    /// Remembers what a computed column holds.
    pub(super) fn note(&mut self, column: ColumnRef, value: &Bound) {
        if let Some(names) = &mut self.names {
            let text = names.text(value);
            names.values.insert(column, text);
        }
    }

    /// Remembers what an aggregate's column holds.
    pub(super) fn note_aggregate(&mut self, column: ColumnRef, aggregate: &Aggregate) {
        if let Some(names) = &mut self.names {
            let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
            let arguments = match aggregate.arguments.as_slice() {
                [] => "*".to_owned(),
                some => names.list(some),
            };
            let text = format!("{}({distinct}{arguments})", aggregate.name);
            names.values.insert(column, text);
        }
    }

    /// What each slot holds; nothing if nobody will ask.
    pub(super) fn slot_names(&self) -> Vec<String> {
        let Some(names) = &self.names else { return Vec::new() };
        let mut found = vec![String::new(); self.slots.count()];
        for (column, slot) in self.slots.all() {
            found[slot as usize] = names.column(column);
        }
        found
    }
}
