//! Binding of ON CONFLICT: which unique indexes it is about, and what DO UPDATE does.
//!
//! Invariants: a target of columns means every unique index of exactly these columns, in any
//! order, and at least one (42P10); without a target every unique index counts, which only DO
//! NOTHING may say. DO UPDATE sees the table's row under the table's name and the refused row as
//! `excluded`.

use super::bound::{Conflict, ConflictUpdate};
use super::modify::undefined_column;
use super::scope::Item;
use super::{Binder, error_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::{Alias, At};
use crate::parse::statement::{ConflictTarget, OnConflict};
use crate::relations::RelationInfo;
use atoll_kernel::api::{IndexEntry, IndexKind};
use std::sync::Arc;

impl<'a> Binder<'a> {
    /// ON CONFLICT of an INSERT into `table`, which `item` shows.
    pub(super) fn conflict(
        &mut self,
        conflict: &'a OnConflict,
        table: &Arc<RelationInfo>,
        item: &Item,
    ) -> SqlResult<Conflict> {
        let arbiters = arbiters(conflict, table)?;
        let Some(update) = &conflict.update else {
            return Ok(Conflict { arbiters, update: None });
        };
        let excluded = self.new_relation();
        let alias = Alias { name: "excluded".to_owned(), columns: Vec::new() };
        let shown = Item::of_relation(excluded, table, Some(&alias), At::NONE)?;
        self.note_names(&shown);
        let shown = [shown];
        self.check_new_names(std::slice::from_ref(item), &shown, At::NONE)?;
        let [shown] = shown;
        let own = item.relation.ok_or_else(|| SqlError::internal("a table without a relation"))?;
        self.block().items = vec![item.clone(), shown];
        self.block().enter("ON CONFLICT DO UPDATE", false, false);
        let assignments = self.assignments(&update.assignments, table, own)?;
        let filter = self.filter(update.filter.as_ref())?;
        let update = Some(ConflictUpdate { excluded, assignments, filter });
        Ok(Conflict { arbiters, update })
    }
}

/// The positions of the unique indexes that the target means.
fn arbiters(conflict: &OnConflict, info: &RelationInfo) -> SqlResult<Vec<usize>> {
    let indexes = info.table().map_or(&[][..], |table| &table.indexes);
    let those = |test: &dyn Fn(&IndexEntry) -> bool| -> Vec<usize> {
        let positions = indexes.iter().enumerate();
        positions.filter(|(_, index)| test(index)).map(|(position, _)| position).collect()
    };
    match &conflict.target {
        ConflictTarget::Any if conflict.update.is_some() => Err(error_at(
            SqlState::SYNTAX_ERROR,
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            conflict.at,
        )
        .hint("For example, ON CONFLICT (column_name).")),
        ConflictTarget::Any => Ok(those(&|index| index.def.kind.is_unique())),
        ConflictTarget::Constraint(name) => {
            let found = those(&|index| {
                let kind = index.def.kind;
                matches!(kind, IndexKind::UniqueConstraint | IndexKind::Primary)
                    && index.def.name == *name
            });
            if found.is_empty() {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("constraint \"{name}\" for table \"{}\" does not exist", info.name),
                ));
            }
            Ok(found)
        }
        ConflictTarget::Columns(columns) => {
            let mut wanted = Vec::with_capacity(columns.len());
            for (name, at) in columns {
                let found = info.column(name);
                wanted.push(found.ok_or_else(|| undefined_column(name, info, *at))?);
            }
            let found = those(&|index| {
                let parts = &index.def.columns;
                index.def.kind.is_unique()
                    && parts.iter().all(|part| wanted.contains(&part.column.index()))
                    && wanted.iter().all(|at| parts.iter().any(|part| part.column.index() == *at))
            });
            if found.is_empty() {
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                ));
            }
            Ok(found)
        }
    }
}
