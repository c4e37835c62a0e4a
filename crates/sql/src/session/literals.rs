//! Literals of simple-protocol texts as parameters, so that texts which differ in them share a
//! plan and need no parser.
//!
//! Invariants: the scanner understands a part of SQL's lexical rules and gives up on the rest
//! (escape strings, dollar quotes, parameters, several statements): then the text is parsed. A
//! literal becomes a parameter only where the tree has it as an operand of a comparison or
//! arithmetic, in VALUES, IN, BETWEEN or SET: where a typed parameter means the same. Every other
//! literal must have the same value for a template to fit.

use crate::parse::ast::{At, Body, Expr, ExprKind, FromItem, JoinCondition, Literal, Query};
use crate::parse::statement::{Assignment, Statement};
use crate::types::{Datum, TypeOid};

/// A literal as scanned: where it begins, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Scanned {
    /// Its byte offset.
    pub start: u32,
    /// Its value, without a sign.
    pub value: Value,
}

/// A literal's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Integer(i64),
    /// A string.
    String(String),
    /// Any other number, as written.
    Number(String),
}

/// What a literal of a template is.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// This parameter; negated if a minus sign belongs to it.
    Parameter(u16, bool),
    /// Part of the statement: the same value is needed.
    Same(Value),
}

/// A text with its literals taken out.
#[derive(Debug, Default)]
pub struct Normalised {
    /// The text with marks in the place of literals.
    pub text: String,
    /// The literals.
    pub literals: Vec<Scanned>,
}

/// Texts with more literals are parsed: parameters have numbers of 16 bits, and a template that
/// large is not worth its memory.
const LITERALS_MAX: usize = 16_384;

/// Takes the literals out of a text; None if it has anything that is not understood here, or more
/// than 16,384 of them.
pub fn normalise(text: &str) -> Option<Normalised> {
    let bytes = text.as_bytes();
    let mut out = Normalised { text: String::with_capacity(text.len()), literals: Vec::new() };
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        if out.literals.len() > LITERALS_MAX {
            return None;
        }
        match bytes[at] {
            b'\'' => {
                let (value, end) = string(text, at)?;
                out.literals.push(Scanned { start: at as u32, value: Value::String(value) });
                out.text.push_str("\u{1}s");
                at = end;
            }
            b'"' => {
                at += 1 + text[at + 1..].find('"')? + 1;
                out.text.push_str(&text[start..at]);
            }
            b'-' if bytes.get(at + 1) == Some(&b'-') => return None,
            b'/' if bytes.get(at + 1) == Some(&b'*') => return None,
            b'$' | b'\\' | 0 => return None,
            b';' => {
                return text[at + 1..].trim().is_empty().then_some(out);
            }
            b'0'..=b'9' => {
                let (value, end) = number(text, at)?;
                out.text.push_str(match value {
                    Value::Integer(value) if i32::try_from(value).is_ok() => "\u{1}i",
                    Value::Integer(_) => "\u{1}l",
                    _ => "\u{1}n",
                });
                out.literals.push(Scanned { start: at as u32, value });
                at = end;
            }
            b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => return None,
            byte if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 => {
                while at < bytes.len()
                    && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_' || bytes[at] >= 0x80)
                {
                    at += 1;
                }
                // E'..', B'..', X'..', U&'..': not here.
                if matches!(bytes.get(at), Some(b'\'' | b'&' | b'$')) {
                    return None;
                }
                out.text.push_str(&text[start..at]);
            }
            _ => {
                at += 1;
                out.text.push_str(&text[start..at]);
            }
        }
    }
    Some(out)
}

fn string(text: &str, start: usize) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut at = start + 1;
    loop {
        let end = at + text[at..].find('\'')?;
        value.push_str(&text[at..end]);
        at = end + 1;
        if text.as_bytes().get(at) == Some(&b'\'') {
            value.push('\'');
            at += 1;
        } else {
            // A string on the next line would be part of this one.
            let rest = text[at..].trim_start();
            let joined = rest.starts_with('\'')
                && text[at..at + (text.len() - at - rest.len())].contains('\n');
            return (!joined).then_some((value, at));
        }
    }
}

fn number(text: &str, start: usize) -> Option<(Value, usize)> {
    let bytes = text.as_bytes();
    let mut at = start;
    let mut integer = true;
    while at < bytes.len() {
        match bytes[at] {
            b'0'..=b'9' => {}
            b'.' if integer => integer = false,
            _ => break,
        }
        at += 1;
    }
    // 1e5, 0x1F, 1_000: left to the parser.
    if bytes.get(at).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_') {
        return None;
    }
    let digits = &text[start..at];
    let value = match digits.parse::<i64>() {
        Ok(value) if integer => Value::Integer(value),
        _ => Value::Number(digits.to_owned()),
    };
    Some((value, at))
}

/// The values of a template's parameters for a text; None if the text does not fit it.
pub fn fit(places: &[Place], literals: &[Scanned], values: &mut Vec<Datum>) -> bool {
    values.clear();
    for (place, literal) in places.iter().zip(literals) {
        match place {
            Place::Same(value) if *value == literal.value => {}
            Place::Same(_) => return false,
            Place::Parameter(_, negated) => values.push(match &literal.value {
                Value::Integer(value) => {
                    let value = if *negated { -*value } else { *value };
                    match i32::try_from(value) {
                        Ok(small) => Datum::Int4(small),
                        Err(_) => Datum::Int8(value),
                    }
                }
                Value::String(text) | Value::Number(text) => Datum::text(text),
            }),
        }
    }
    true
}

/// Makes a template of a statement: its literals that may become parameters do. None if there are
/// none.
pub fn template(
    text: &str,
    statement: &Statement,
    literals: &[Scanned],
) -> Option<(Statement, Vec<TypeOid>, Vec<Place>)> {
    let mut statement = statement.clone();
    let mut rewriter = Rewriter {
        text,
        literals,
        places: literals.iter().map(|literal| Place::Same(literal.value.clone())).collect(),
        found: Vec::new(),
    };
    match &mut statement {
        Statement::Query(query) => rewriter.query(query),
        Statement::Insert(insert) => {
            if let Some(source) = &mut insert.source {
                match &mut source.body {
                    Body::Values(rows) => {
                        rows.iter_mut().flatten().for_each(|value| rewriter.operand(value));
                    }
                    _ => rewriter.query(source),
                }
            }
            if let Some(update) = insert.conflict.as_mut().and_then(|it| it.update.as_mut()) {
                rewriter.assignments(&mut update.assignments);
                rewriter.optional(&mut update.filter);
            }
        }
        Statement::Update(update) => {
            rewriter.assignments(&mut update.assignments);
            rewriter.optional(&mut update.filter);
        }
        Statement::Delete(delete) => rewriter.optional(&mut delete.filter),
        Statement::Utility(_) => return None,
    }
    rewriter.finish(statement)
}

struct Rewriter<'t> {
    text: &'t str,
    literals: &'t [Scanned],
    places: Vec<Place>,
    /// Literal's number and type, in the order met.
    found: Vec<(usize, TypeOid)>,
}

impl Rewriter<'_> {
    /// Parameters are numbered in the order of the text, as values are.
    fn finish(mut self, mut statement: Statement) -> Option<(Statement, Vec<TypeOid>, Vec<Place>)> {
        if self.found.is_empty() {
            return None;
        }
        let mut order: Vec<usize> = self.found.iter().map(|(literal, _)| *literal).collect();
        order.sort_unstable();
        let mut types = vec![TypeOid::UNKNOWN; order.len()];
        for (literal, ty) in &self.found {
            let number = order.binary_search(literal).ok()?;
            types[number] = *ty;
            if let Place::Parameter(parameter, _) = &mut self.places[*literal] {
                *parameter = number as u16;
            }
        }
        let renumber = |number: u16| -> u16 {
            let literal = self.found[number as usize - 1].0;
            order.binary_search(&literal).unwrap_or(0) as u16 + 1
        };
        for_each_parameter(&mut statement, &renumber);
        Some((statement, types, self.places))
    }

    fn assignments(&mut self, assignments: &mut [Assignment]) {
        assignments.iter_mut().for_each(|assignment| self.operand(&mut assignment.value));
    }

    fn optional(&mut self, expr: &mut Option<Expr>) {
        if let Some(expr) = expr {
            self.expr(expr);
        }
    }

    fn query(&mut self, query: &mut Query) {
        match &mut query.body {
            Body::Select(select) => {
                for item in &mut select.from {
                    self.from(item);
                }
                self.optional(&mut select.filter);
            }
            Body::SetOperation { left, right, .. } => {
                self.query(left);
                self.query(right);
            }
            Body::Values(_) => {}
        }
    }

    fn from(&mut self, item: &mut FromItem) {
        match item {
            FromItem::Join { condition, left, right, .. } => {
                self.from(left);
                self.from(right);
                if let JoinCondition::On(Some(on)) = &mut **condition {
                    self.expr(on);
                }
            }
            FromItem::Subquery { query, .. } => self.query(query),
            FromItem::Relation { .. } | FromItem::Function { .. } => {}
        }
    }

    /// A place where a literal may become a parameter.
    fn operand(&mut self, expr: &mut Expr) {
        let ExprKind::Literal(literal) = &expr.kind else { return self.expr(expr) };
        let Some((number, negated)) = self.find(expr.at) else { return };
        let ty = match (literal, &self.literals[number].value) {
            (Literal::Integer(value), Value::Integer(scanned))
                if i64::from(*value) == if negated { -*scanned } else { *scanned } =>
            {
                TypeOid::INT4
            }
            (Literal::String(value), Value::String(scanned)) if value == scanned && !negated => {
                TypeOid::UNKNOWN
            }
            _ => return,
        };
        self.places[number] = Place::Parameter(0, negated);
        self.found.push((number, ty));
        expr.kind = ExprKind::Parameter(self.found.len() as u16);
    }

    /// The scanned literal at a place of the tree; a minus sign may come before it.
    fn find(&self, at: At) -> Option<(usize, bool)> {
        let start = at.position()? - 1;
        // They come in the order of the text.
        let at = |start: u32| self.literals.binary_search_by_key(&start, |it| it.start).ok();
        if let Some(number) = at(start) {
            return Some((number, false));
        }
        let rest = self.text.get(start as usize..)?;
        let digits = rest.strip_prefix('-')?.trim_start();
        let start = (self.text.len() - digits.len()) as u32;
        Some((at(start)?, true))
    }

    fn expr(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Operator { left: Some(left), right, .. } => {
                self.operand(left);
                self.operand(right);
            }
            ExprKind::And(items) | ExprKind::Or(items) => {
                items.iter_mut().for_each(|item| self.expr(item));
            }
            ExprKind::Not(inner) => self.expr(inner),
            ExprKind::In { list, left, .. } => {
                self.expr(left);
                for item in list {
                    match &mut item.kind {
                        ExprKind::Row(fields) => {
                            fields.iter_mut().for_each(|field| self.operand(field));
                        }
                        _ => self.operand(item),
                    }
                }
            }
            ExprKind::Between { value, low, high, .. } => {
                self.expr(value);
                self.operand(low);
                self.operand(high);
            }
            ExprKind::Subquery(query) | ExprKind::Exists(query) => self.query(query),
            ExprKind::QuantifiedQuery { query, .. } => self.query(query),
            _ => {}
        }
    }
}

/// Calls `renumber` for every parameter that [`Rewriter`] made.
fn for_each_parameter(statement: &mut Statement, renumber: &dyn Fn(u16) -> u16) {
    match statement {
        Statement::Query(own) => renumber_query(own, renumber),
        Statement::Insert(insert) => {
            insert.source.iter_mut().for_each(|source| renumber_query(source, renumber));
            if let Some(update) = insert.conflict.as_mut().and_then(|it| it.update.as_mut()) {
                renumber_changes(&mut update.assignments, &mut update.filter, renumber);
            }
        }
        Statement::Update(update) => {
            renumber_changes(&mut update.assignments, &mut update.filter, renumber);
        }
        Statement::Delete(delete) => {
            delete.filter.iter_mut().for_each(|filter| renumber_expr(filter, renumber));
        }
        Statement::Utility(_) => {}
    }
}

fn renumber_changes(
    assignments: &mut [Assignment],
    filter: &mut Option<Expr>,
    renumber: &dyn Fn(u16) -> u16,
) {
    assignments.iter_mut().for_each(|own| renumber_expr(&mut own.value, renumber));
    filter.iter_mut().for_each(|filter| renumber_expr(filter, renumber));
}

fn renumber_expr(item: &mut Expr, renumber: &dyn Fn(u16) -> u16) {
    match &mut item.kind {
        ExprKind::Parameter(number) => *number = renumber(*number),
        ExprKind::Operator { left, right, .. } => {
            if let Some(left) = left {
                renumber_expr(left, renumber);
            }
            renumber_expr(right, renumber);
        }
        ExprKind::And(items) | ExprKind::Or(items) | ExprKind::Row(items) => {
            items.iter_mut().for_each(|item| renumber_expr(item, renumber));
        }
        ExprKind::Not(inner) => renumber_expr(inner, renumber),
        ExprKind::In { left, list, .. } => {
            renumber_expr(left, renumber);
            list.iter_mut().for_each(|item| renumber_expr(item, renumber));
        }
        ExprKind::Between { value, low, high, .. } => {
            [value, low, high].into_iter().for_each(|part| renumber_expr(part, renumber));
        }
        ExprKind::Subquery(inner) | ExprKind::Exists(inner) => renumber_query(inner, renumber),
        ExprKind::QuantifiedQuery { query: inner, .. } => renumber_query(inner, renumber),
        _ => {}
    }
}
fn renumber_from(item: &mut FromItem, renumber: &dyn Fn(u16) -> u16) {
    match item {
        FromItem::Join { condition, left, right, .. } => {
            renumber_from(left, renumber);
            renumber_from(right, renumber);
            if let JoinCondition::On(Some(on)) = &mut **condition {
                renumber_expr(on, renumber);
            }
        }
        FromItem::Subquery { query: inner, .. } => renumber_query(inner, renumber),
        FromItem::Relation { .. } | FromItem::Function { .. } => {}
    }
}
fn renumber_query(own: &mut Query, renumber: &dyn Fn(u16) -> u16) {
    match &mut own.body {
        Body::Select(select) => {
            select.from.iter_mut().for_each(|item| renumber_from(item, renumber));
            select.filter.iter_mut().for_each(|filter| renumber_expr(filter, renumber));
        }
        Body::SetOperation { left, right, .. } => {
            renumber_query(left, renumber);
            renumber_query(right, renumber);
        }
        Body::Values(rows) => {
            rows.iter_mut().flatten().for_each(|value| renumber_expr(value, renumber));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters' values that `other` gives to the template of `text`.
    #[track_caller]
    fn check(text: &str, other: &str, expect: Option<&str>) {
        let normalised = normalise(text).expect("understood");
        let statement = crate::parse::parse(text).unwrap().remove(0).statement.unwrap();
        let made = template(text, &statement, &normalised.literals);
        let second = normalise(other).expect("understood");
        let mut values = Vec::new();
        let fits = made.is_some_and(|(_, _, places)| {
            normalised.text == second.text && fit(&places, &second.literals, &mut values)
        });
        assert_eq!(fits.then(|| format!("{values:?}")).as_deref(), expect, "{text} / {other}");
    }

    #[test]
    fn literals_become_parameters_where_that_means_the_same() {
        check("select a from t where b = 1;", "select a from t where b = 25", Some("[Int4(25)]"));
        check(
            "update t set a = a + -5 where b = 1",
            "update t set a = a + -77 where b = 2",
            Some("[Int4(-77), Int4(2)]"),
        );
        check(
            "insert into t values (1, 'x''y')",
            "insert into t values (2, 'z')",
            Some("[Int4(2), Text(\"z\")]"),
        );
        // The ordinal stays; a number that is no int4 makes another text.
        check(
            "select a from t where b = 1 order by 1",
            "select a from t where b = 2 order by 2",
            None,
        );
        check("select a from t where b = 1", "select a from t where b = 3000000000", None);
        check("select 1", "select 2", None);
    }

    #[test]
    fn what_is_not_understood_is_left_to_the_parser() {
        for text in [
            "select E'a'",
            "select $1",
            "select 1; select 2",
            "select 1 -- x",
            "select 1e5",
            "select $$a$$",
            "select 'a",
            "select .5",
            "select /* 1 */ 2",
            "select U&'a'",
        ] {
            assert!(normalise(text).is_none(), "{text}");
        }
    }
}
