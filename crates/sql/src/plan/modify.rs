//! Plans of INSERT, UPDATE and DELETE.
//!
//! Invariants: the rows to change are found by an ordinary plan that also gives their
//! identifiers; what is read again after a conflict is what the plan reads.

use super::join::{Set, flatten};
use super::node::{LockTarget, Plan, ScanColumns};
use super::{Planner, describe};
use crate::bind::bound::{
    Bound, BoundStatement, ColumnRef, Delete, From, Insert, InsertSource, Output, ROW_ID,
    RelationId, Update,
};
use crate::error::{SqlError, SqlResult};
use crate::exec::program::{Program, Slot};
use crate::relations::RelationInfo;
use crate::session::client::ColumnDescription;
use crate::types::Type;
use atoll_kernel::api::{ColumnId, IndexEntry, TableEntry};
use std::sync::Arc;

/// RETURNING.
#[derive(Clone, Default)]
pub struct ReturningPlan {
    /// The values.
    pub programs: Vec<Program>,
}

/// A new row of an INSERT: where its columns are put for RETURNING, those that are wanted.
#[derive(Clone, Default)]
pub struct NewRow {
    /// Column and slot.
    pub slots: Vec<(usize, Slot)>,
}

/// Where an INSERT's rows come from.
pub enum InsertPlan {
    /// VALUES.
    Values(Vec<Vec<Program>>),
    /// A query, and a value a column over its outputs.
    Query(Plan, Vec<Program>),
}

/// ON CONFLICT.
pub struct ConflictPlan {
    /// The unique indexes that it is about.
    pub arbiters: Vec<Arc<IndexEntry>>,
    /// DO UPDATE; `None` for DO NOTHING.
    pub update: Option<ConflictUpdatePlan>,
}

/// DO UPDATE.
pub struct ConflictUpdatePlan {
    /// Reading the row that is there.
    pub target: LockTarget,
    /// The row that was refused: its columns that are wanted.
    pub excluded: NewRow,
    /// SET: column and value.
    pub assignments: Vec<(ColumnId, Program)>,
    /// WHERE.
    pub filter: Option<Program>,
    /// For RETURNING: assigned columns that it reads, and their places.
    pub new_row: NewRow,
}

/// What is changed.
pub enum Modification {
    /// INSERT.
    Insert {
        /// The rows.
        source: InsertPlan,
        /// For RETURNING.
        new_row: NewRow,
        /// ON CONFLICT.
        conflict: Option<Box<ConflictPlan>>,
    },
    /// UPDATE.
    Update {
        /// The rows.
        plan: Plan,
        /// Reading a row again.
        target: LockTarget,
        /// SET: column and value.
        assignments: Vec<(ColumnId, Program)>,
        /// The condition, for rows that changed meanwhile.
        recheck: Option<Program>,
        /// A row may come more than once (a join): only its first change counts.
        joined: bool,
        /// For RETURNING: assigned columns that it reads, and their places.
        new_row: NewRow,
    },
    /// DELETE.
    Delete {
        /// The rows.
        plan: Plan,
        /// Reading a row again.
        target: LockTarget,
        /// The condition, for rows that changed meanwhile.
        recheck: Option<Program>,
        /// A row may come more than once (a join).
        joined: bool,
    },
}

/// A data change.
pub struct ModifyPlan {
    /// The table.
    pub info: Arc<RelationInfo>,
    /// The table.
    pub table: Arc<TableEntry>,
    /// The columns' types, by position.
    pub types: Vec<Type>,
    /// What is done.
    pub modification: Modification,
    /// RETURNING, if written.
    pub returning: Option<ReturningPlan>,
}

impl ModifyPlan {
    /// The plans that find rows.
    pub(super) fn plans(&mut self) -> Vec<&mut Plan> {
        match &mut self.modification {
            Modification::Insert { source: InsertPlan::Query(plan, _), .. } => vec![plan],
            Modification::Insert { .. } => Vec::new(),
            Modification::Update { plan, .. } | Modification::Delete { plan, .. } => vec![plan],
        }
    }

    /// What is read again.
    pub(super) fn target_mut(&mut self) -> Option<&mut LockTarget> {
        match &mut self.modification {
            Modification::Insert { conflict, .. } => {
                Some(&mut conflict.as_mut()?.update.as_mut()?.target)
            }
            Modification::Update { target, .. } | Modification::Delete { target, .. } => {
                Some(target)
            }
        }
    }
}

type Planned = (ModifyPlan, Option<Arc<[ColumnDescription]>>);

impl<'q> Planner<'_> {
    /// Plans a data change.
    pub(super) fn modification(&mut self, statement: &'q BoundStatement) -> SqlResult<Planned> {
        let (info, modification, returning) = match statement {
            BoundStatement::Insert(insert) => self.insert(insert)?,
            BoundStatement::Update(update) => self.update(update)?,
            BoundStatement::Delete(delete) => self.delete(delete)?,
            BoundStatement::Query(_) => return Err(SqlError::internal("a query changes nothing")),
        };
        let columns = (!returning.is_empty()).then(|| describe(returning));
        let programs = returning
            .iter()
            .filter_map(|output| output.value.as_ref())
            .map(|value| self.compile(value))
            .collect::<SqlResult<Vec<_>>>()?;
        let plan = ModifyPlan {
            table: table_of(info)?,
            types: info.columns.iter().map(|column| column.ty).collect(),
            info: info.clone(),
            modification: self.with_new_row(modification, statement),
            returning: columns.is_some().then_some(ReturningPlan { programs }),
        };
        Ok((plan, columns))
    }

    /// RETURNING reads the new row: its slots are known once RETURNING is compiled.
    fn with_new_row(
        &mut self,
        modification: Modification,
        statement: &BoundStatement,
    ) -> Modification {
        match (modification, statement) {
            (Modification::Insert { source, mut conflict, .. }, BoundStatement::Insert(insert)) => {
                if let Some(update) = conflict.as_mut().and_then(|it| it.update.as_mut()) {
                    update.new_row = self.assigned(insert.relation, &update.assignments);
                }
                let new_row = self.columns_wanted(insert.relation);
                Modification::Insert { source, new_row, conflict }
            }
            (
                Modification::Update { plan, target, assignments, recheck, joined, .. },
                BoundStatement::Update(update),
            ) => {
                let new_row = self.assigned(update.relation, &assignments);
                Modification::Update { plan, target, assignments, recheck, joined, new_row }
            }
            (other, _) => other,
        }
    }

    /// The slots of a row's columns that anything reads, by column.
    fn columns_wanted(&self, relation: RelationId) -> NewRow {
        let used = self.slots.used(relation);
        NewRow { slots: used.into_iter().map(|(column, slot)| (column as usize, slot)).collect() }
    }

    /// The slots of assigned columns that anything reads, by place among the assignments.
    fn assigned(&self, relation: RelationId, assignments: &[(ColumnId, Program)]) -> NewRow {
        let place = |column: u16| assignments.iter().position(|(assigned, _)| assigned.0 == column);
        let used = self.slots.used(relation).into_iter();
        NewRow { slots: used.filter_map(|(column, slot)| Some((place(column)?, slot))).collect() }
    }

    fn conflict(&mut self, insert: &'q Insert) -> SqlResult<Option<Box<ConflictPlan>>> {
        let Some(conflict) = &insert.conflict else { return Ok(None) };
        let table = table_of(&insert.table)?;
        let arbiters = conflict.arbiters.iter().map(|at| table.indexes[*at].clone()).collect();
        let update = match &conflict.update {
            None => None,
            Some(update) => {
                let assignments = self.assignments(&update.assignments)?;
                let filter = update.filter.as_ref().map(|it| self.compile(it)).transpose()?;
                let relation = insert.relation;
                let excluded = self.columns_wanted(update.excluded);
                let target = LockTarget { relation, table, columns: ScanColumns::default() };
                let new_row = NewRow::default();
                Some(ConflictUpdatePlan { target, excluded, assignments, filter, new_row })
            }
        };
        Ok(Some(Box::new(ConflictPlan { arbiters, update })))
    }

    fn assignments(&mut self, bound: &[(u16, Bound)]) -> SqlResult<Vec<(ColumnId, Program)>> {
        bound.iter().map(|(column, value)| Ok((ColumnId(*column), self.compile(value)?))).collect()
    }

    fn insert(
        &mut self,
        insert: &'q Insert,
    ) -> SqlResult<(&'q Arc<RelationInfo>, Modification, &'q [Output])> {
        let source = match &insert.source {
            InsertSource::Values(rows) => InsertPlan::Values(
                rows.iter().map(|row| self.compile_all(row)).collect::<SqlResult<_>>()?,
            ),
            InsertSource::Query(query, values) => {
                let (plan, _) = self.query(query)?;
                InsertPlan::Query(plan, self.compile_all(values)?)
            }
        };
        let conflict = self.conflict(insert)?;
        let modification = Modification::Insert { source, new_row: NewRow::default(), conflict };
        Ok((&insert.table, modification, &insert.returning))
    }

    fn update(
        &mut self,
        update: &'q Update,
    ) -> SqlResult<(&'q Arc<RelationInfo>, Modification, &'q [Output])> {
        let (plan, target, recheck) =
            self.found(&update.table, update.relation, &update.from, update.filter.as_ref())?;
        let assignments = self.assignments(&update.assignments)?;
        let joined = matches!(update.from, From::Join { .. });
        let new_row = NewRow::default();
        let modification =
            Modification::Update { plan, target, assignments, recheck, joined, new_row };
        Ok((&update.table, modification, &update.returning))
    }

    fn delete(
        &mut self,
        delete: &'q Delete,
    ) -> SqlResult<(&'q Arc<RelationInfo>, Modification, &'q [Output])> {
        let (plan, target, recheck) =
            self.found(&delete.table, delete.relation, &delete.from, delete.filter.as_ref())?;
        let joined = matches!(delete.from, From::Join { .. });
        let modification = Modification::Delete { plan, target, recheck, joined };
        Ok((&delete.table, modification, &delete.returning))
    }

    fn found(
        &mut self,
        info: &RelationInfo,
        relation: RelationId,
        from: &'q From,
        filter: Option<&'q Bound>,
    ) -> SqlResult<(Plan, LockTarget, Option<Program>)> {
        self.slots.of(ColumnRef { relation, column: ROW_ID });
        let part = self.from(from, filter, &Set::new())?;
        let mut conditions = Vec::new();
        if let Some(filter) = filter {
            flatten(filter, &mut conditions);
        }
        let recheck = self.compile_filter(&conditions)?;
        let table = table_of(info)?;
        let target = LockTarget { relation, table, columns: ScanColumns::default() };
        Ok((part.plan, target, recheck))
    }
}

fn table_of(info: &RelationInfo) -> SqlResult<Arc<TableEntry>> {
    info.table().cloned().ok_or_else(|| SqlError::internal("a virtual relation is not changed"))
}
