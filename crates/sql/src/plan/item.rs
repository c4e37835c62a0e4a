//! The items of FROM: scans, subqueries, common table expressions, functions.
//!
//! Invariants: the conditions on one item alone are applied here: by the access path, in the scan,
//! or above the item.

use super::join::{Part, Set};
use super::node::{FunctionSource, Plan, ScanColumns, SetPlan, TableScan};
use super::{Planner, push};
use crate::bind::bound::{
    Bound, BoundSet, ColumnRef, Cte, CteSource, From, Query, RelationId, SetOrScalar, Working,
};
use crate::bind::walk;
use crate::error::SqlResult;
use crate::relations::{RelationInfo, Source};
use std::rc::Rc;

/// What an iteration of a recursion is taken to make.
pub(super) const WORKING_ROWS: f64 = 10.0;

/// The query of a common table expression that is planned where it is named, as if it stood there.
fn in_line(cte: &Cte) -> Option<&Query> {
    match &cte.source {
        CteSource::Query(query) if !cte.is_kept && cte.references.get() == 1 => {
            walk::may_repeat(query).then_some(query)
        }
        _ => None,
    }
}

impl<'q> Planner<'_> {
    /// Plans one item with the conditions on it alone.
    pub(super) fn unit(
        &mut self,
        from: &'q From,
        conditions: Vec<Bound>,
        outer: &Set,
    ) -> SqlResult<Part> {
        match from {
            From::Relation(relation, info) => self.scan(*relation, info, conditions, outer),
            From::Subquery(query) => self.subquery(query, query.relation, conditions),
            From::Cte(relation, cte) => match in_line(cte) {
                Some(query) => {
                    // The columns of the reference are those of the query.
                    for index in 0..query.visible as u16 {
                        let column = |relation| ColumnRef { relation, column: index };
                        self.slots.alias(column(*relation), column(query.relation));
                    }
                    self.subquery(query, *relation, conditions)
                }
                None => self.filtered(|planner| planner.cte(*relation, cte), conditions),
            },
            From::Working(relation, working) => {
                self.filtered(|planner| Ok(planner.working(*relation, working)), conditions)
            }
            From::Function { relation, call, ordinality } => {
                self.filtered(|planner| planner.function(*relation, call, *ordinality), conditions)
            }
            From::Join { kind, sides, condition } => {
                self.outer_join(*kind, sides, condition.as_ref(), conditions, outer)
            }
        }
    }

    fn filtered(
        &mut self,
        make: impl FnOnce(&mut Self) -> SqlResult<Part>,
        conditions: Vec<Bound>,
    ) -> SqlResult<Part> {
        let mut part = make(self)?;
        if let Some(filter) = self.compile_filter(&conditions)? {
            part.plan = Plan::Filter(Box::new(part.plan), filter);
            part.rows = (part.rows * 0.3f64.powi(conditions.len() as i32)).max(1.0);
        }
        Ok(part)
    }

    pub(super) fn scan(
        &mut self,
        relation: RelationId,
        info: &RelationInfo,
        conditions: Vec<Bound>,
        available: &Set,
    ) -> SqlResult<Part> {
        let relations = Set::from([relation]);
        match &info.source {
            Source::Table(table) => {
                let choice = self.access(relation, info, table, &conditions, available)?;
                let rest: Vec<Bound> = conditions
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| !choice.used.contains(index))
                    .map(|(_, condition)| condition.clone())
                    .collect();
                let filter = self.compile_filter(&rest)?;
                let scan = TableScan {
                    relation,
                    table: table.clone(),
                    columns: ScanColumns::default(),
                    access: choice.access,
                    filter,
                    rows: choice.rows,
                };
                Ok(Part { plan: Plan::Table(Box::new(scan)), relations, rows: choice.rows })
            }
            Source::Virtual(virtual_relation) => {
                self.uses_virtual = true;
                let key =
                    self.virtual_key(relation, info, *virtual_relation, &conditions, available)?;
                let rows = virtual_relation.estimated_rows(self.view) as f64;
                let rows = if key.is_some() { 5.0 } else { rows };
                let filter = self.compile_filter(&conditions)?;
                let plan = Plan::Virtual {
                    relation_id: relation,
                    relation: *virtual_relation,
                    columns: Vec::new(),
                    key,
                    filter,
                };
                Ok(Part { plan, relations, rows })
            }
            Source::Sequence(sequence) => {
                let filter = self.compile_filter(&conditions)?;
                let (sequence, columns) = (sequence.clone(), Vec::new());
                let plan = Plan::Sequence { relation, sequence, columns, filter };
                Ok(Part { plan, relations, rows: 1.0 })
            }
        }
    }

    /// A subquery whose outputs are columns of `relation`; conditions go inside if they can.
    fn subquery(
        &mut self,
        query: &'q Query,
        relation: RelationId,
        mut conditions: Vec<Bound>,
    ) -> SqlResult<Part> {
        let inside = push::take(query, relation, &mut conditions);
        let rows = (1000.0 * 0.3f64.powi(inside.len() as i32)).max(1.0);
        let make = |planner: &mut Self| {
            let (plan, _) = planner.query_where(query, inside)?;
            Ok(Part { plan, relations: Set::from([relation]), rows })
        };
        self.filtered(make, conditions)
    }

    fn cte(&mut self, relation: RelationId, cte: &'q Rc<Cte>) -> SqlResult<Part> {
        let index = self.cte_index(cte)?;
        let column = |index: usize| ColumnRef { relation, column: index as u16 };
        let slots = (0..cte.outputs().len()).map(|at| self.slots.of(column(at))).collect();
        let plan = Plan::Cte { index, slots };
        Ok(Part { plan, relations: Set::from([relation]), rows: 1000.0 })
    }

    fn working(&mut self, relation: RelationId, working: &Working) -> Part {
        self.working_scans += 1;
        let column = |index: usize| ColumnRef { relation, column: index as u16 };
        let slots = (0..working.width).map(|at| self.slots.of(column(at))).collect();
        let plan = Plan::Working { index: working.id, name: working.name.clone(), slots };
        Part { plan, relations: Set::from([relation]), rows: WORKING_ROWS }
    }

    fn function(
        &mut self,
        relation: RelationId,
        call: &'q SetOrScalar,
        ordinality: bool,
    ) -> SqlResult<Part> {
        let (call, width) = match call {
            SetOrScalar::Set(set) => {
                let width = set.columns.len().max(1);
                (FunctionSource::Set(self.set_plan(set)?), width)
            }
            SetOrScalar::Scalar(bound) => (FunctionSource::Scalar(self.compile(bound)?), 1),
        };
        let column = |index: usize| ColumnRef { relation, column: index as u16 };
        let slots = (0..width).map(|index| self.slots.of(column(index))).collect();
        let ordinality = ordinality.then(|| self.slots.of(column(width)));
        let plan = Plan::Function { relation, call, slots, ordinality };
        Ok(Part { plan, relations: Set::from([relation]), rows: 1000.0 })
    }

    /// A set-returning function's call compiled.
    pub(super) fn set_plan(&mut self, set: &BoundSet) -> SqlResult<SetPlan> {
        let arguments = self.compile_all(&set.arguments)?;
        Ok(SetPlan { function: set.function, strictness: set.strictness, arguments })
    }
}
