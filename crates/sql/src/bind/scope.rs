//! What names mean: the stack of query blocks, their items of FROM and their columns.
//!
//! Invariants: the innermost block is searched first; within one block an unqualified name must
//! be found in one visible item only. A block's aggregates belong to it and no other.

use super::bound::{Aggregate, Bound, BoundKind, ColumnRef, Cte, Output, RelationId, Working};
use super::{Binder, error_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::{self, At};
use crate::relations::RelationInfo;
use crate::types::{Datum, Type, TypeOid};
use std::rc::Rc;
use std::sync::Arc;

/// A column that an item shows.
#[derive(Clone, Debug)]
pub(super) struct ItemColumn {
    pub name: Arc<str>,
    pub value: Bound,
    /// The table's oid and the column's number.
    pub origin: Option<(u32, i16)>,
}

/// An item of FROM as names see it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub name: Option<String>,
    pub schema: Option<Arc<str>>,
    /// The oid of the table, for `tableoid`.
    pub table: u32,
    pub relation: Option<RelationId>,
    pub columns: Vec<ItemColumn>,
    /// May its columns be named with its name in front?
    pub relation_visible: bool,
    /// May its columns be named alone?
    pub columns_visible: bool,
}

/// A common table expression in sight.
pub(super) struct CteScope<'a> {
    pub ast: &'a ast::Cte,
    /// It refers to itself.
    pub is_recursive: bool,
    pub state: CteState,
}

/// What a reference to a common table expression means.
#[derive(Clone)]
pub(super) enum CteState {
    /// It has been bound.
    Bound(Rc<Cte>),
    /// It is bound anew where it is named.
    Anew,
    /// Its recursive term is being bound: the working table with these columns.
    Working(Rc<Working>, Rc<[Output]>),
}

/// One query, while its parts are bound.
pub(super) struct Block<'a> {
    pub items: Vec<Item>,
    pub ctes: Vec<CteScope<'a>>,
    /// Names of its WITH that cannot be named yet.
    pub unseen: Vec<&'a str>,
    /// The clause that is being bound, for errors.
    pub clause: &'static str,
    /// May aggregates stand in this clause?
    pub aggregates_allowed: bool,
    /// Inside an aggregate's arguments.
    pub in_aggregate: bool,
    pub aggregates: Vec<Aggregate>,
    /// The relation of keys and aggregates.
    pub grouping: Option<RelationId>,
    /// May set-returning functions stand here?
    pub sets_allowed: bool,
    pub has_sets: bool,
}

impl Block<'_> {
    pub(super) fn new() -> Self {
        Block {
            items: Vec::new(),
            ctes: Vec::new(),
            unseen: Vec::new(),
            clause: "FROM",
            aggregates_allowed: false,
            in_aggregate: false,
            aggregates: Vec::new(),
            grouping: None,
            sets_allowed: false,
            has_sets: false,
        }
    }

    pub(super) fn without_columns(clause: &'static str) -> Self {
        Block { clause, ..Block::new() }
    }

    /// Says which clause is bound next.
    pub(super) fn enter(&mut self, clause: &'static str, aggregates: bool, sets: bool) {
        self.clause = clause;
        self.aggregates_allowed = aggregates;
        self.sets_allowed = sets;
    }
}

impl Item {
    /// An item whose columns are computed: a function, or what WITH calls by a name.
    pub(super) fn computed(
        name: String,
        relation: RelationId,
        columns: impl Iterator<Item = (Arc<str>, Type)>,
    ) -> Item {
        let columns = columns.enumerate().map(|(index, (name, ty))| ItemColumn {
            name,
            value: column_of(relation, index, ty),
            origin: None,
        });
        Item {
            name: Some(name),
            schema: None,
            table: 0,
            relation: Some(relation),
            columns: columns.collect(),
            relation_visible: true,
            columns_visible: true,
        }
    }

    pub(super) fn of_relation(
        relation: RelationId,
        info: &RelationInfo,
        alias: Option<&ast::Alias>,
        at: At,
    ) -> SqlResult<Item> {
        let is_table = info.oid != 0;
        let columns = info.columns.iter().enumerate().map(|(index, column)| ItemColumn {
            name: column.name.clone(),
            value: column_of(relation, index, column.ty),
            origin: is_table.then_some((info.oid, index as i16 + 1)),
        });
        let mut item = Item {
            name: Some(info.name.to_string()),
            schema: Some(info.schema.clone()),
            table: info.oid,
            relation: Some(relation),
            columns: columns.collect(),
            relation_visible: true,
            columns_visible: true,
        };
        item.rename(alias, at)?;
        Ok(item)
    }

    /// Applies `AS name (columns)`.
    pub(super) fn rename(&mut self, alias: Option<&ast::Alias>, at: At) -> SqlResult<()> {
        let Some(alias) = alias else { return Ok(()) };
        self.name = Some(alias.name.clone());
        self.schema = None;
        if alias.columns.len() > self.columns.len() {
            return Err(error_at(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!(
                    "table \"{}\" has {} columns available but {} columns specified",
                    alias.name,
                    self.columns.len(),
                    alias.columns.len()
                ),
                at,
            ));
        }
        for (column, name) in self.columns.iter_mut().zip(&alias.columns) {
            column.name = name.as_str().into();
        }
        Ok(())
    }
}

/// A reference to a column.
pub(super) fn column_of(relation: RelationId, index: usize, ty: Type) -> Bound {
    Bound::new(BoundKind::Column(ColumnRef { relation, column: index as u16 }), ty, At::NONE)
}

impl<'a> Binder<'a> {
    /// Two items of one FROM must not share a name (42712).
    pub(super) fn check_new_names(&self, old: &[Item], new: &[Item], at: At) -> SqlResult<()> {
        for item in new.iter().filter(|item| item.relation_visible) {
            let clash = |other: &&Item| {
                other.relation_visible
                    && other.name == item.name
                    && (other.schema.is_none()
                        || item.schema.is_none()
                        || other.schema == item.schema)
            };
            if item.name.is_some()
                && let Some(other) = old.iter().find(clash)
            {
                return Err(error_at(
                    SqlState::DUPLICATE_ALIAS,
                    format!(
                        "table name \"{}\" specified more than once",
                        other.name.as_deref().unwrap_or_default()
                    ),
                    at,
                ));
            }
        }
        Ok(())
    }

    /// What a column reference means.
    pub(super) fn column(&mut self, parts: &[String], at: At) -> SqlResult<Bound> {
        match parts {
            [column] => self.bare_column(column, at),
            [table, column] => self.qualified_column(None, table, column, at),
            [schema, table, column] => self.qualified_column(Some(schema), table, column, at),
            [_database, schema, table, column] => {
                self.qualified_column(Some(schema), table, column, at)
            }
            _ => Err(error_at(
                SqlState::SYNTAX_ERROR,
                format!("improper qualified name (too many dotted names): {}", parts.join(".")),
                at,
            )),
        }
    }

    fn bare_column(&mut self, name: &str, at: At) -> SqlResult<Bound> {
        for block in self.blocks.iter().rev() {
            if let Some(found) = bare_in(&block.items, name, at)? {
                return Ok(Bound { at, ..found });
            }
        }
        // A relation's name alone is its whole row.
        let whole = self
            .blocks
            .iter()
            .rev()
            .flat_map(|block| &block.items)
            .find(|item| item.relation_visible && item.name.as_deref() == Some(name));
        match whole {
            Some(item) => Ok(whole_row(item, at)),
            None => Err(error_at(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" does not exist"),
                at,
            )),
        }
    }

    fn qualified_column(
        &mut self,
        schema: Option<&String>,
        table: &str,
        column: &str,
        at: At,
    ) -> SqlResult<Bound> {
        let item = self.item(schema, table, at)?;
        let mut found = item.columns.iter().filter(|candidate| &*candidate.name == column);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(ambiguous(column, at)),
            (Some(column), None) => Ok(Bound { at, ..column.value.clone() }),
            (None, _) => match system_column(item, column, at) {
                Some(value) => value,
                None => Err(error_at(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column {table}.{column} does not exist"),
                    at,
                )),
            },
        }
    }

    /// The item called `table`, innermost first; 42P01 if there is none.
    pub(super) fn item(&self, schema: Option<&String>, table: &str, at: At) -> SqlResult<&Item> {
        let fits = |item: &&Item| {
            item.relation_visible
                && item.name.as_deref() == Some(table)
                && schema.is_none_or(|schema| item.schema.as_deref() == Some(schema))
        };
        for block in self.blocks.iter().rev() {
            let mut found = block.items.iter().filter(fits);
            match (found.next(), found.next()) {
                (Some(_), Some(_)) => {
                    return Err(error_at(
                        SqlState::AMBIGUOUS_ALIAS,
                        format!("table reference \"{table}\" is ambiguous"),
                        at,
                    ));
                }
                (Some(item), None) => return Ok(item),
                _ => {}
            }
        }
        Err(error_at(
            SqlState::UNDEFINED_TABLE,
            format!("missing FROM-clause entry for table \"{table}\""),
            at,
        ))
    }

    /// The columns that `*` or `t.*` stands for.
    pub(super) fn star(&self, parts: &[String], at: At) -> SqlResult<Vec<ItemColumn>> {
        let columns: Vec<ItemColumn> = match parts {
            [] => {
                let block = self.blocks.last().expect("a star stands inside a block");
                let visible = block.items.iter().filter(|item| item.columns_visible);
                let columns: Vec<ItemColumn> =
                    visible.flat_map(|item| item.columns.iter().cloned()).collect();
                if block.items.is_empty() {
                    return Err(error_at(
                        SqlState::SYNTAX_ERROR,
                        "SELECT * with no tables specified is not valid",
                        at,
                    ));
                }
                columns
            }
            [table] => self.item(None, table, at)?.columns.clone(),
            [schema, table] | [_, schema, table] => {
                self.item(Some(schema), table, at)?.columns.clone()
            }
            _ => {
                return Err(error_at(
                    SqlState::SYNTAX_ERROR,
                    "improper qualified name (too many dotted names)",
                    at,
                ));
            }
        };
        Ok(columns)
    }
}

fn bare_in(items: &[Item], name: &str, at: At) -> SqlResult<Option<Bound>> {
    let visible = items.iter().filter(|item| item.columns_visible);
    let mut columns =
        visible.clone().flat_map(|item| item.columns.iter().filter(|c| &*c.name == name));
    match (columns.next(), columns.next()) {
        (Some(_), Some(_)) => Err(ambiguous(name, at)),
        (Some(column), None) => Ok(Some(column.value.clone())),
        _ => {
            for item in items.iter().filter(|item| item.relation_visible) {
                if let Some(value) = system_column(item, name, at) {
                    return value.map(Some);
                }
            }
            Ok(None)
        }
    }
}

fn ambiguous(name: &str, at: At) -> SqlError {
    error_at(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"), at)
}

fn system_column(item: &Item, name: &str, at: At) -> Option<SqlResult<Bound>> {
    if item.table == 0 {
        return None;
    }
    match name {
        "tableoid" => {
            let kind = BoundKind::Constant(Datum::Oid(item.table));
            Some(Ok(Bound::new(kind, TypeOid::OID, at)))
        }
        "ctid" | "xmin" | "xmax" | "cmin" | "cmax" => {
            let error = SqlError::not_supported(format!("the system column \"{name}\""));
            Some(Err(error.at(at.position())))
        }
        _ => None,
    }
}

fn whole_row(item: &Item, at: At) -> Bound {
    // A function with one scalar column is that value, not a row.
    if let [only] = item.columns.as_slice()
        && item.table == 0
        && item.relation.is_some()
        && item.schema.is_none()
        && item.name.as_deref() == Some(&only.name)
    {
        return Bound { at, ..only.value.clone() };
    }
    let fields = item.columns.iter().map(|column| column.value.clone()).collect();
    Bound::new(BoundKind::Row(fields), TypeOid::RECORD, at)
}
