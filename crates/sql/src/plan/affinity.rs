//! The affinity key of a statement: the value that it asks a table's affinity column to equal, or
//! that its one new row has there (kernel rule 2.10).
//!
//! Invariants: what is found here never changes what a statement does or answers, only where its
//! session's transactions are counted. The key of a value is the same whatever integer or text
//! type it came in. Looked for: equalities in WHERE and ON, of the statement's own tables and those
//! of subqueries in FROM, the first as written; in an INSERT, VALUES with one row.

use super::access::plain_column;
use crate::bind::Binding;
use crate::bind::bound::{
    Body, Bound, BoundKind, BoundStatement, From, InsertSource, Query, RelationId,
};
use crate::functions::Comparison;
use crate::relations::RelationInfo;
use crate::types::{Datum, TypeOid, order};
use atoll_kernel::api::{AffinityHasher, AffinityKey, ColumnId, TableDef};

/// The storage parameter that names a table's affinity column.
pub(crate) const AFFINITY: &str = "affinity";

/// The table's affinity column.
pub(crate) fn affinity_column(def: &TableDef) -> Option<ColumnId> {
    let option = |option: &String| {
        let (name, column) = option.split_once('=')?;
        (name == AFFINITY).then(|| column.to_owned())
    };
    def.column(&def.options.iter().find_map(option)?)
}

/// Where a statement's affinity key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffinitySource {
    /// A constant.
    Key(AffinityKey),
    /// The value of this parameter, a column of this type.
    Parameter(u16, TypeOid),
}

impl AffinitySource {
    /// The key, for these parameters; none if it is NULL.
    pub fn key(self, parameters: &[Datum]) -> Option<AffinityKey> {
        match self {
            AffinitySource::Key(key) => Some(key),
            AffinitySource::Parameter(number, ty) => {
                key_of(ty, parameters.get(usize::from(number))?)
            }
        }
    }
}

/// The key of a value of this type.
fn key_of(ty: TypeOid, value: &Datum) -> Option<AffinityKey> {
    Some(match value {
        Datum::Null => return None,
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Oid(_) => {
            AffinityKey::from(value.as_i64())
        }
        Datum::Text(text) if ty == TypeOid::BPCHAR => AffinityKey::from(order::unpadded(text)),
        Datum::Text(text) => AffinityKey::from(text.as_str()),
        other => {
            let mut hasher = AffinityHasher::default();
            order::hash(ty, other, &mut hasher);
            hasher.key()
        }
    })
}

/// Types of which equal values have equal keys.
fn same_keys(left: TypeOid, right: TypeOid) -> bool {
    let integer = |oid| matches!(oid, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8);
    let text = |oid| matches!(oid, TypeOid::TEXT | TypeOid::VARCHAR | TypeOid::BPCHAR);
    left == right || (integer(left) && integer(right)) || (text(left) && text(right))
}

fn source(value: &Bound, ty: TypeOid) -> Option<AffinitySource> {
    match &value.kind {
        BoundKind::Constant(constant) => {
            let key = key_of(ty, constant).filter(|_| same_keys(value.ty.oid, ty));
            key.map(AffinitySource::Key)
        }
        BoundKind::Parameter(number) if same_keys(value.ty.oid, ty) => {
            Some(AffinitySource::Parameter(*number, ty))
        }
        BoundKind::Coerce(_, inner) | BoundKind::Typmod(_, inner)
            if same_keys(inner.ty.oid, ty) =>
        {
            source(inner, ty)
        }
        _ => None,
    }
}

/// The affinity columns of the relations of a FROM, with the conditions on them.
#[derive(Default)]
struct Found<'b> {
    columns: Vec<(RelationId, u16, TypeOid)>,
    conditions: Vec<&'b Bound>,
}

impl<'b> Found<'b> {
    fn relation(&mut self, relation: RelationId, info: &RelationInfo) {
        let Some(table) = info.table() else { return };
        if let Some(column) = affinity_column(&table.def) {
            let ty = TypeOid(table.def.columns[column.index()].type_oid);
            self.columns.push((relation, column.0, ty));
        }
    }

    fn from(&mut self, from: &'b From) {
        match from {
            From::Relation(relation, info) => self.relation(*relation, info),
            From::Subquery(query) => self.query(query),
            From::Join { sides, condition, .. } => {
                self.from(&sides.0);
                self.from(&sides.1);
                self.conditions.extend(condition);
            }
            From::Cte(..) | From::Working(..) | From::Function { .. } => {}
        }
    }

    fn query(&mut self, query: &'b Query) {
        if let Body::Select(select) = &query.body {
            select.from.iter().for_each(|from| self.from(from));
            self.conditions.extend(&select.filter);
        }
    }

    fn key(&self, condition: &Bound) -> Option<AffinitySource> {
        match &condition.kind {
            BoundKind::And(parts) => parts.iter().find_map(|part| self.key(part)),
            BoundKind::Operator(row, Some(left), right)
                if row.comparison == Some(Comparison::Equal) =>
            {
                self.equal(left, right).or_else(|| self.equal(right, left))
            }
            _ => None,
        }
    }

    fn equal(&self, side: &Bound, value: &Bound) -> Option<AffinitySource> {
        let (relation, column, _) = plain_column(side)?;
        let is_it = |own: &&(RelationId, u16, TypeOid)| (own.0, own.1) == (relation, column);
        source(value, self.columns.iter().find(is_it)?.2)
    }
}

/// Where the statement's affinity key comes from, if it has one.
pub(super) fn find(binding: &Binding) -> Option<AffinitySource> {
    let has_one = |info: &std::sync::Arc<RelationInfo>| {
        info.table().is_some_and(|table| affinity_column(&table.def).is_some())
    };
    if !binding.tables.iter().any(has_one) {
        return None;
    }
    let mut found = Found::default();
    match &binding.statement {
        BoundStatement::Query(query) => found.query(query),
        BoundStatement::Update(update) => {
            found.from(&update.from);
            found.conditions.extend(&update.filter);
        }
        BoundStatement::Delete(delete) => {
            found.from(&delete.from);
            found.conditions.extend(&delete.filter);
        }
        BoundStatement::Insert(insert) => {
            let InsertSource::Values(rows) = &insert.source else { return None };
            let ([row], Some(table)) = (rows.as_slice(), insert.table.table()) else {
                return None;
            };
            let column = affinity_column(&table.def)?;
            let ty = TypeOid(table.def.columns[column.index()].type_oid);
            return source(row.get(column.index())?, ty);
        }
    }
    found.conditions.iter().find_map(|condition| found.key(condition))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::bind;
    use crate::parse::parse;
    use crate::session::tests::{say, with_session};

    /// The key of `text` on a table `t (w int2, d int4, n char(4))`, declared near `column`.
    #[track_caller]
    fn check(column: &str, cases: &[(&str, Option<AffinitySource>)]) {
        with_session(|context, session| {
            let table =
                format!("create table t (w int2, d int4, n char(4)) with (affinity = {column})");
            say(context, session, &table);
            say(context, session, "create table u (a int)");
            for (text, expect) in cases {
                let statement = parse(text).unwrap().pop().unwrap().statement.unwrap();
                let view = session.view();
                let binding = bind(&view, &statement, &[]).unwrap();
                assert_eq!(find(&binding), *expect, "{text}");
            }
        });
    }

    #[test]
    fn equalities_and_single_rows_have_keys() {
        let key = |number: i64| Some(AffinitySource::Key(AffinityKey::from(number)));
        let parameter = |number| Some(AffinitySource::Parameter(number, TypeOid::INT2));
        check(
            "w",
            &[
                ("select * from t where w = 7", key(7)),
                ("select * from t where d = 3 and 7 = w", key(7)),
                ("select * from t where d = $1 and w = $2", parameter(1)),
                ("select * from t where w = $1::int8", parameter(0)),
                ("select * from t, u where u.a = d and w = 9", key(9)),
                ("select * from u join t on t.w = 9 and a = d", key(9)),
                ("select * from (select * from t where w = 5) as s", key(5)),
                ("update t set d = 1 where w = $1", parameter(0)),
                ("delete from t where w = 4 and d > 3", key(4)),
                ("insert into t values ($1, $2)", parameter(0)),
                ("insert into t (d, w) values (1, 8)", key(8)),
                ("insert into t values (1, 2), (2, 2)", None),
                ("insert into t select 1, 2", None),
                ("select * from t where w > 7", None),
                ("select * from t where w = 7 or d = 1", None),
                ("select * from t where w = d", None),
                ("select * from t where w = null", None),
                ("select * from u where a = 7", None),
                ("select 7", None),
            ],
        );
    }

    #[test]
    fn texts_have_keys_without_their_padding() {
        let key = |text: &str| Some(AffinitySource::Key(AffinityKey::from(text)));
        check(
            "n",
            &[
                ("select * from t where n = 'ab'", key("ab")),
                ("insert into t (n) values ('ab')", key("ab")),
                ("select * from t where n = '7'", key("7")),
            ],
        );
        let seven = AffinitySource::Parameter(0, TypeOid::BPCHAR);
        assert_eq!(seven.key(&[Datum::text("7   ")]), Some(AffinityKey::from(7_i64)));
        assert_eq!(seven.key(&[Datum::Null]), None);
        assert_eq!(seven.key(&[]), None);
    }
}
