//! The last pass over a plan: which columns each scan reads, which slots each operator keeps.
//!
//! Invariants: run once, when every expression of the statement has been compiled, so that the
//! slots are complete; [`Planner::finish`] gives the slots that a plan writes.

use super::node::{CteRows, LockTarget, Plan, ScanColumns};
use super::{Action, ModifyPlan, Planner};
use crate::bind::bound::{ROW_ID, RelationId};
use crate::exec::program::Slot;
use crate::types::TypeOid;
use atoll_kernel::api::{ColumnId, TableEntry};

impl Planner<'_> {
    /// Finishes everything of the statement.
    pub(super) fn finish_all(&mut self, action: &mut Action) {
        match action {
            Action::Query { plan, .. } => {
                self.finish(plan);
            }
            Action::Modify(modify) => {
                self.finish_change(modify);
            }
        }
        let mut subplans = std::mem::take(&mut self.subplans);
        for subplan in &mut subplans {
            self.finish(&mut subplan.plan);
        }
        self.subplans = subplans;
        let mut ctes = std::mem::take(&mut self.ctes);
        for cte in &mut ctes {
            match &mut cte.rows {
                CteRows::Query(plan, _) => {
                    self.finish(plan);
                }
                CteRows::Change(modify) => self.finish_change(modify),
            }
        }
        self.ctes = ctes;
    }

    fn finish_change(&self, modify: &mut ModifyPlan) {
        for plan in modify.plans() {
            self.finish(plan);
        }
        if let Some(target) = modify.target_mut() {
            self.finish_target(target);
        }
    }

    fn finish_target(&self, target: &mut LockTarget) {
        target.columns = self.columns_of(target.relation, &target.table);
    }

    fn columns_of(&self, relation: RelationId, table: &TableEntry) -> ScanColumns {
        let mut columns = ScanColumns::default();
        for (column, slot) in self.slots.used(relation) {
            if column == ROW_ID {
                columns.row_id = Some(slot);
                continue;
            }
            columns.ids.push(ColumnId(column));
            columns.types.push(TypeOid(table.def.columns[column as usize].type_oid));
            columns.slots.push(slot);
        }
        columns
    }

    fn finish(&self, plan: &mut Plan) -> Vec<Slot> {
        match plan {
            Plan::One | Plan::Nothing => Vec::new(),
            Plan::Table(scan) => {
                scan.columns = self.columns_of(scan.relation, &scan.table);
                scan.columns.slots.iter().copied().chain(scan.columns.row_id).collect()
            }
            Plan::Virtual { relation_id: relation, columns, .. }
            | Plan::Sequence { relation, columns, .. } => {
                let used = self.slots.used(*relation).into_iter();
                *columns = used.map(|(column, slot)| (column as usize, slot)).collect();
                columns.iter().map(|(_, slot)| *slot).collect()
            }
            Plan::Values { slots, .. } => slots.clone(),
            Plan::Function { slots, ordinality, .. } => {
                slots.iter().copied().chain(*ordinality).collect()
            }
            Plan::Cte { slots, .. } | Plan::Working { slots, .. } => slots.clone(),
            Plan::Filter(input, _)
            | Plan::Limit(input, _, _)
            | Plan::Distinct(input, _)
            | Plan::First(input, _) => self.finish(input),
            Plan::Project(input, outputs) => {
                let own = outputs.iter().map(|(_, slot)| *slot);
                self.finish(input).into_iter().chain(own).collect()
            }
            Plan::ProjectSet(input, outputs) => {
                let own = outputs.iter().map(|(_, slot)| *slot);
                self.finish(input).into_iter().chain(own).collect()
            }
            Plan::Loop { outer, inner, inner_slots, .. } => {
                let mut slots = self.finish(outer);
                *inner_slots = self.finish(inner);
                slots.extend(inner_slots.iter());
                slots
            }
            Plan::Hash { outer, inner, outer_slots, inner_slots, .. } => {
                *outer_slots = self.finish(outer);
                *inner_slots = self.finish(inner);
                outer_slots.iter().chain(inner_slots.iter()).copied().collect()
            }
            Plan::Keep { input, slots, .. } => {
                *slots = self.finish(input);
                slots.clone()
            }
            Plan::Aggregate { input, keys, aggregates, slots, .. } => {
                *slots = self.finish(input);
                slots.sort_unstable();
                slots.dedup();
                let aggregates = aggregates.iter().map(|aggregate| aggregate.slot);
                keys.iter().map(|(_, _, slot)| *slot).chain(aggregates).collect()
            }
            Plan::Sort { input, slots, .. } => {
                let mut all = self.finish(input);
                all.sort_unstable();
                all.dedup();
                *slots = all;
                slots.clone()
            }
            Plan::SetOperation { sides, slots, .. } | Plan::Recursive { sides, slots, .. } => {
                self.finish(&mut sides.0);
                self.finish(&mut sides.1);
                slots.clone()
            }
            Plan::Lock { input, targets, .. } => {
                targets.iter_mut().for_each(|target| self.finish_target(target));
                self.finish(input)
            }
        }
    }
}
