//! From the bound tree to a plan.
//!
//! Invariants: a plan depends on the bound tree and the catalog it was bound against, never on
//! parameter values, so it can be cached; it holds no locks and waits for nothing. Planning
//! recurses as deep as the statement: run it on the thread's own stack, as binding.

mod access;
pub(crate) mod affinity;
mod compile;
mod cost;
pub mod explain;
mod extreme;

pub mod fast;
mod finish;
mod item;
mod join;
mod listed;
mod lookup;
mod modify;
pub mod node;
mod print;
mod push;
mod query;
mod semi;
mod slots;

use crate::bind::Binding;
use crate::bind::bound::{
    Body, Bound, BoundKind, BoundStatement, ColumnRef, Cte, CteSource, From, Output, Query,
    RelationId,
};
use crate::bind::walk;
use crate::error::SqlResult;
use crate::exec::program::{Program, Slot};
use crate::relations::CatalogView;
use crate::session::client::ColumnDescription;
use crate::types::TypeOid;
use atoll_kernel::api::{Cts, IndexEntry, Oid, TableEntry};
use node::{CtePlan, CteRows, Plan, Subplan};
use slots::Slots;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

pub use modify::{
    ConflictPlan, ConflictUpdatePlan, InsertPlan, Modification, ModifyPlan, NewRow, ReturningPlan,
};

/// What the session tells the planner: part of what a cached plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// `work_mem`.
    pub work_bytes: u64,
    /// `enable_hashjoin`: off means only where nothing else does it, as with all of these.
    pub hash_join: bool,
    /// `enable_mergejoin`.
    pub merge_join: bool,
    /// `enable_nestloop`.
    pub loop_join: bool,
    /// `enable_indexscan`.
    pub index_scan: bool,
    /// `enable_hashagg`.
    pub hash_groups: bool,
    /// Only indexes that are older: the snapshot of a transaction that has met a younger one.
    pub indexes_before: Option<Cts>,
}

impl Choices {
    /// The table's indexes that a scan may read.
    fn readable(self, table: &TableEntry) -> impl Iterator<Item = &Arc<IndexEntry>> {
        let is_old = move |index: &&Arc<IndexEntry>| {
            self.indexes_before.is_none_or(|snapshot| index.made() < snapshot)
        };
        table.indexes.iter().filter(is_old)
    }
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            work_bytes: 4 << 20,
            hash_join: true,
            merge_join: true,
            loop_join: true,
            index_scan: true,
            hash_groups: true,
            indexes_before: None,
        }
    }
}

/// How a statement uses a table: which lock it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableUse {
    /// Reads it.
    Read,
    /// Locks rows of it.
    LockRows,
    /// Changes it.
    Write,
}

/// What a plan does.
pub enum Action {
    /// Returns rows.
    Query {
        /// The rows.
        plan: Plan,
        /// The slots of the result's columns.
        outputs: Box<[Slot]>,
    },
    /// Changes rows.
    Modify(Box<ModifyPlan>),
}

/// A planned statement.
pub struct Planned {
    /// What it does.
    pub action: Action,
    /// The form without operators, where the statement is simple enough.
    pub fast: Option<fast::Fast>,
    /// Slots of its frame.
    pub frame: usize,
    /// Its subqueries.
    pub subplans: Vec<Subplan>,
    /// Its common table expressions.
    pub ctes: Vec<CtePlan>,
    /// Those of them that are data changes: each runs once, read or not.
    pub changes: Vec<u32>,
    /// How many working tables recursions have.
    pub working: usize,
    /// The types of its parameters.
    pub parameters: Vec<TypeOid>,
    /// The tables it uses.
    pub tables: Vec<(Oid, TableUse)>,
    /// Where the key of its transaction's affinity comes from.
    pub affinity: Option<affinity::AffinitySource>,
    /// The columns of its result, if it has one.
    pub columns: Option<Arc<[ColumnDescription]>>,
    /// It reads virtual relations.
    pub uses_virtual: bool,
    /// What each slot holds, if the plan was made to be explained.
    pub slot_names: Vec<String>,
}

impl Planned {
    /// Does it change rows, in WITH or otherwise?
    pub fn changes_rows(&self) -> bool {
        matches!(self.action, Action::Modify(_)) || !self.changes.is_empty()
    }
}

/// Plans a bound statement.
pub fn plan(view: &CatalogView, binding: &Binding, choices: Choices) -> SqlResult<Planned> {
    plan_with(Planner::new(view, choices), binding)
}

/// The same plan, with what EXPLAIN shows of it.
pub fn plan_explained(
    view: &CatalogView,
    binding: &Binding,
    choices: Choices,
) -> SqlResult<Planned> {
    let mut planner = Planner::new(view, choices);
    planner.names = Some(print::Names::of(binding));
    plan_with(planner, binding)
}

fn plan_with(mut planner: Planner<'_>, binding: &Binding) -> SqlResult<Planned> {
    let (mut action, columns) = match &binding.statement {
        BoundStatement::Query(query) => {
            let (plan, mut outputs) = planner.query(query)?;
            outputs.truncate(query.visible);
            let columns = describe(&query.outputs[..query.visible]);
            (Action::Query { plan, outputs: outputs.into() }, Some(columns))
        }
        other => {
            let (modify, columns) = planner.modification(other)?;
            (Action::Modify(Box::new(modify)), columns)
        }
    };
    let mut changes = Vec::with_capacity(binding.changes.len());
    for change in &binding.changes {
        changes.push(planner.cte_index(change)?);
    }
    planner.finish_all(&mut action);
    let tables = tables_of(binding);
    let fast = match changes.is_empty() {
        true => fast::recognise(&action, &planner.subplans),
        false => None,
    };
    let slot_names = planner.slot_names();
    Ok(Planned {
        action,
        fast,
        frame: planner.slots.count(),
        subplans: planner.subplans,
        ctes: planner.ctes,
        changes,
        working: planner.working,
        parameters: binding.parameters.clone(),
        tables,
        affinity: affinity::find(binding),
        columns,
        uses_virtual: planner.uses_virtual,
        slot_names,
    })
}

/// Plans an expression without columns: a plan for its subqueries, and its program.
pub fn plan_value(view: &CatalogView, bound: &Bound) -> SqlResult<(Planned, Program)> {
    let mut planner = Planner::new(view, Choices::default());
    let program = planner.compile(bound)?;
    let mut action = Action::Query { plan: Plan::One, outputs: Box::default() };
    planner.finish_all(&mut action);
    let planned = Planned {
        action,
        fast: None,
        frame: planner.slots.count(),
        subplans: planner.subplans,
        ctes: planner.ctes,
        changes: Vec::new(),
        working: planner.working,
        parameters: Vec::new(),
        tables: Vec::new(),
        affinity: None,
        columns: None,
        uses_virtual: true,
        slot_names: Vec::new(),
    };
    Ok((planned, program))
}

fn describe(outputs: &[Output]) -> Arc<[ColumnDescription]> {
    let column = |output: &Output| {
        let (table, number) = output.origin.unwrap_or((0, 0));
        ColumnDescription { name: output.name.clone(), ty: output.ty, table, number }
    };
    outputs.iter().map(column).collect()
}

fn tables_of(binding: &Binding) -> Vec<(Oid, TableUse)> {
    let changes = binding.changes.iter().filter_map(|cte| match &cte.source {
        CteSource::Change(change) => change.written(),
        CteSource::Query(_) => None,
    });
    let written: Vec<u32> =
        binding.statement.written().into_iter().chain(changes).map(|it| it.oid).collect();
    let locks = matches!(&binding.statement, BoundStatement::Query(query) if locks_rows(query));
    let mut tables: Vec<(Oid, TableUse)> = binding
        .tables
        .iter()
        .map(|table| {
            let table_use = match () {
                () if written.contains(&table.oid) => TableUse::Write,
                () if locks => TableUse::LockRows,
                () => TableUse::Read,
            };
            (Oid(table.oid), table_use)
        })
        .collect();
    // Always in one order, so that statements do not wait for each other crosswise.
    tables.sort_unstable();
    tables
}

fn locks_rows(query: &Query) -> bool {
    !query.locked.is_empty()
}

/// Does the query read columns of queries around it?
fn is_correlated(query: &Query) -> bool {
    let mut own = HashSet::new();
    defined(query, &mut own);
    let mut columns = Vec::new();
    walk::in_query(query, &mut |bound| inspect(bound, &mut own, &mut columns));
    columns.iter().any(|column| !own.contains(&column.relation))
}

/// Does the item of FROM, or a condition on it, read columns of anything else?
fn reads_outside(from: &From, conditions: &[Bound]) -> bool {
    let mut own = HashSet::new();
    defined_in(from, &mut own);
    let mut columns = Vec::new();
    walk::in_from(from, &mut |bound| inspect(bound, &mut own, &mut columns));
    conditions.iter().for_each(|bound| inspect(bound, &mut own, &mut columns));
    columns.iter().any(|column| !own.contains(&column.relation))
}

/// Notes the columns that an expression reads, and the relations that subqueries in it define.
fn inspect(bound: &Bound, own: &mut HashSet<RelationId>, columns: &mut Vec<ColumnRef>) {
    walk::columns(bound, columns);
    walk::deep(bound, &mut |part| {
        if let BoundKind::Subquery(subquery) = &part.kind {
            defined(&subquery.query, own);
        }
    });
}

/// The relations that an item of FROM defines.
fn defined_in(from: &From, out: &mut HashSet<RelationId>) {
    match from {
        From::Relation(relation, _)
        | From::Cte(relation, _)
        | From::Working(relation, ..)
        | From::Function { relation, .. } => {
            out.insert(*relation);
        }
        From::Subquery(query) => defined(query, out),
        From::Join { sides, .. } => {
            defined_in(&sides.0, out);
            defined_in(&sides.1, out);
        }
    }
}

/// The relations that a query defines, subqueries of FROM included.
fn defined(query: &Query, out: &mut HashSet<RelationId>) {
    out.insert(query.relation);
    match &query.body {
        Body::Select(select) => {
            if let Some(grouping) = &select.grouping {
                out.insert(grouping.relation);
            }
            if let Some(from) = &select.from {
                defined_in(from, out);
            }
        }
        Body::SetOperation { sides, .. } | Body::Recursive { sides, .. } => {
            defined(&sides.0, out);
            defined(&sides.1, out);
        }
        Body::Values(_) => {}
    }
}

fn both_integers(a: TypeOid, b: TypeOid) -> bool {
    let integer = |oid| matches!(oid, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8);
    integer(a) && integer(b)
}

/// The state of planning one statement.
struct Planner<'v> {
    view: &'v CatalogView,
    choices: Choices,
    slots: Slots,
    subplans: Vec<Subplan>,
    ctes: Vec<CtePlan>,
    cte_ids: Vec<u32>,
    /// Scans of working tables made so far.
    working_scans: u32,
    /// Working tables.
    working: usize,
    /// The relations of the FROM that is being planned.
    local: HashSet<RelationId>,
    /// Numbers for relations that the planner makes up, downwards.
    pseudo: u32,
    uses_virtual: bool,
    /// Queries that are being planned, one within the other.
    nested: u32,
    /// Names to show; only for EXPLAIN.
    names: Option<print::Names>,
}

impl<'v> Planner<'v> {
    fn new(view: &'v CatalogView, choices: Choices) -> Planner<'v> {
        Planner {
            view,
            choices,
            slots: Slots::default(),
            subplans: Vec::new(),
            ctes: Vec::new(),
            cte_ids: Vec::new(),
            working_scans: 0,
            working: 0,
            local: HashSet::new(),
            pseudo: u32::MAX,
            uses_virtual: false,
            nested: 0,
            names: None,
        }
    }
}

impl<'q> Planner<'_> {
    /// The place of a common table expression in the statement's list, planned on first use.
    fn cte_index(&mut self, cte: &'q Rc<Cte>) -> SqlResult<u32> {
        if let Some(index) = self.cte_ids.iter().position(|id| *id == cte.id) {
            return Ok(index as u32);
        }
        let rows = match &cte.source {
            CteSource::Query(query) => {
                let (plan, mut outputs) = self.query(query)?;
                outputs.truncate(query.visible);
                CteRows::Query(plan, outputs)
            }
            CteSource::Change(change) => CteRows::Change(Box::new(self.modification(change)?.0)),
        };
        let is_read = cte.references.get() > 0;
        self.ctes.push(CtePlan { name: cte.name.clone(), rows, is_read });
        self.cte_ids.push(cte.id);
        Ok(self.ctes.len() as u32 - 1)
    }

    fn pseudo_relation(&mut self) -> RelationId {
        self.pseudo -= 1;
        RelationId(self.pseudo)
    }
}
