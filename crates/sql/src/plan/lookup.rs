//! How a virtual relation's rows are looked up instead of scanned.
//!
//! Invariants: a look-up may find too much, never too little, because the whole filter is applied
//! to what it finds. A pattern that only one text matches counts as equality with that text:
//! that is how psql names what it describes.

use super::Planner;
use super::join::Set;
use super::node::KeyValue;
use crate::bind::bound::{Bound, BoundKind, RelationId};
use crate::error::SqlResult;
use crate::functions::Comparison;
use crate::relations::{RelationInfo, VirtualRelation};
use crate::types::{Datum, TypeOid};

/// `name ~ text`, as in pg_operator.
const NAME_MATCHES: u32 = 639;

impl Planner<'_> {
    /// An equality with a column that the virtual relation can look up by, its value known from
    /// the relations of `available`.
    pub(super) fn virtual_key(
        &mut self,
        relation: RelationId,
        info: &RelationInfo,
        virtual_relation: &'static dyn VirtualRelation,
        conditions: &[Bound],
        available: &Set,
    ) -> SqlResult<Option<(usize, KeyValue)>> {
        for &lookup in virtual_relation.lookups() {
            for condition in conditions {
                let BoundKind::Operator(row, Some(left), right) = &condition.kind else { continue };
                let pattern = if row.oid == NAME_MATCHES { only_match_of(right) } else { None };
                let right = pattern.as_ref().unwrap_or(right);
                if row.comparison != Some(Comparison::Equal) && pattern.is_none() {
                    continue;
                }
                // A pattern stands on the right.
                let sides = if pattern.is_some() { 1 } else { 2 };
                for (column, value) in
                    [(left.as_ref(), right), (right, left)].into_iter().take(sides)
                {
                    let Some((own, position)) = looked_up(column) else { continue };
                    let fits = own == relation && position as usize == lookup;
                    if !fits || !self.known_before(value, relation, available) {
                        continue;
                    }
                    let program = self.compile(value)?;
                    let ty = info.columns[lookup].ty;
                    return Ok(Some((lookup, KeyValue { program, ty })));
                }
            }
        }
        Ok(None)
    }
}

fn looked_up(bound: &Bound) -> Option<(RelationId, u16)> {
    match &bound.kind {
        BoundKind::Column(column) => Some((column.relation, column.column)),
        BoundKind::Coerce(coercion, inner) if coercion.is_noop() => looked_up(inner),
        _ => None,
    }
}

/// The name that a constant pattern stands for, if it stands for one.
fn only_match_of(pattern: &Bound) -> Option<Bound> {
    let BoundKind::Constant(Datum::Text(text)) = &pattern.kind else { return None };
    let name = BoundKind::Constant(only_match(text)?.into());
    Some(Bound { kind: name, ty: TypeOid::NAME.into(), at: pattern.at })
}

/// The text that a regular expression matches, if it is anchored and has no other.
fn only_match(pattern: &str) -> Option<&str> {
    let inside = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let inside = match inside.strip_prefix('(') {
        Some(rest) => rest.strip_suffix(')')?,
        None => inside,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (!inside.is_empty() && inside.bytes().all(plain)).then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::only_match;

    #[test]
    fn only_anchored_words_match_themselves_alone() {
        assert_eq!(only_match("^(pg_class)$"), Some("pg_class"));
        assert_eq!(only_match("^t1$"), Some("t1"));
        for pattern in ["pg_class", "^(a|b)$", "^(a.c)$", "^(a*)$", "^()$", "^$", "^(a)", "^a\\d$"]
        {
            assert_eq!(only_match(pattern), None, "{pattern}");
        }
    }
}
