//! Plans: what the executor runs.
//!
//! Invariants: immutable once made, shared by executions. All operators of a statement work on
//! one frame of slots: a scan writes its columns' slots, an expression reads slots, an operator
//! that keeps rows copies the slots that its input writes and puts them back. So a join copies
//! nothing, and a correlated subquery reads the outer row where it is.

use crate::bind::bound::{ColumnRef, RelationId};
use crate::exec::program::{Program, Slot};
use crate::functions::{AggregateFn, OperatorRow, SetFn, Strictness};
use crate::parse::ast::{Quantifier, SetOperation};
use crate::relations::VirtualRelation;
use crate::types::{Type, TypeOid};
use atoll_kernel::api::{ColumnId, IndexEntry, SequenceEntry, TableEntry};
use std::sync::Arc;

/// Which columns of a table a scan reads, and where to.
#[derive(Clone, Debug, Default)]
pub struct ScanColumns {
    /// The columns, ascending.
    pub ids: Vec<ColumnId>,
    /// Their types.
    pub types: Vec<TypeOid>,
    /// Their slots.
    pub slots: Vec<Slot>,
    /// Where the row's identifier goes, if it is wanted.
    pub row_id: Option<Slot>,
}

/// A value of an index key, and the type it is stored as.
#[derive(Clone, Debug)]
pub struct KeyValue {
    /// Computes it.
    pub program: Program,
    /// The index column's type.
    pub ty: Type,
}

/// One end of a range of an index column.
#[derive(Clone, Debug)]
pub struct RangeEnd {
    /// The value.
    pub value: KeyValue,
    /// `<=` or `>=`.
    pub inclusive: bool,
}

/// The keys of a list, whole ones or leading columns: as many columns each.
#[derive(Clone)]
pub enum KeyList {
    /// Each as it is written.
    Written(Vec<Vec<KeyValue>>),
    /// One for each element of an array, which is computed when a scan begins.
    Elements {
        /// The columns before the one that has an element's value.
        prefix: Vec<KeyValue>,
        /// The array, and the type of that column.
        array: KeyValue,
        /// About how many elements there are.
        about: f64,
    },
}

impl KeyList {
    /// How many columns a key has.
    pub fn width(&self) -> usize {
        match self {
            KeyList::Written(keys) => keys.first().map_or(0, Vec::len),
            KeyList::Elements { prefix, .. } => prefix.len() + 1,
        }
    }

    /// About how many keys there are.
    pub fn about(&self) -> f64 {
        match self {
            KeyList::Written(keys) => keys.len() as f64,
            KeyList::Elements { about, .. } => *about,
        }
    }
}

/// Forwards or backwards through an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the index's order.
    Forward,
    /// Against it.
    Backward,
}

/// How a scan finds its rows.
#[derive(Clone)]
pub enum Access {
    /// All rows of the table.
    All,
    /// The one row with this whole key of a unique index.
    Point(Arc<IndexEntry>, Vec<KeyValue>),
    /// The rows with any of these whole or leading keys.
    Points(Arc<IndexEntry>, KeyList),
    /// The rows whose key begins with these values and goes on within the ends.
    Range {
        /// The index.
        index: Arc<IndexEntry>,
        /// Equal leading columns.
        prefix: Vec<KeyValue>,
        /// Lower end of the next column.
        low: Option<RangeEnd>,
        /// Upper end of the next column.
        high: Option<RangeEnd>,
        /// In which order.
        order: Order,
    },
}

/// A scan of a kernel table.
#[derive(Clone)]
pub struct TableScan {
    /// The relation in the statement.
    pub relation: RelationId,
    /// The table.
    pub table: Arc<TableEntry>,
    /// What is read.
    pub columns: ScanColumns,
    /// How.
    pub access: Access,
    /// What the access does not guarantee.
    pub filter: Option<Program>,
    /// About how many rows it gives.
    pub rows: f64,
}

impl TableScan {
    /// Whether it looks rows up in the table by whole keys of a unique index.
    pub fn is_whole_points(&self) -> bool {
        match &self.access {
            Access::Points(index, keys) => {
                index.def.kind.is_unique()
                    && keys.width() == index.def.columns.len()
                    && !self.is_index_only()
            }
            Access::All | Access::Point(..) | Access::Range { .. } => false,
        }
    }

    /// Whether rows are told by the index's entries alone, where the index answers for its rows:
    /// the kernel does so if the index has all columns that are read.
    pub fn is_index_only(&self) -> bool {
        match &self.access {
            Access::All | Access::Point(..) => false,
            Access::Points(index, _) | Access::Range { index, .. } => {
                index.covers(&self.columns.ids)
            }
        }
    }
}

/// A key of a sort.
#[derive(Clone, Copy, Debug)]
pub struct SortBy {
    /// The value.
    pub slot: Slot,
    /// Its type.
    pub ty: TypeOid,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// Kinds of join that the executor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinType {
    /// Inner.
    Inner,
    /// Left outer.
    Left,
    /// Full outer (by hashing or merging only).
    Full,
    /// Outer rows that join something, once each.
    Semi,
    /// Outer rows that join nothing.
    Anti,
}

/// How rows with equal keys are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinMethod {
    /// By a hash table of the inner side; sorted if it does not fit.
    Hash,
    /// By sorting both sides.
    Merge,
}

/// What the inner side of a join gives when the join begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerRows {
    /// The same rows: it reads nothing that changes.
    Same,
    /// Perhaps others: it reads rows of a query around, or a working table.
    Others,
}

/// How rows of one group are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupMethod {
    /// By a hash table of groups; what does not fit is sorted.
    Hash,
    /// By sorting the rows.
    Sort,
}

/// What becomes of sorted rows with equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// All are given.
    All,
    /// The first is (DISTINCT).
    Once,
}

impl Repeated {
    /// What EXPLAIN calls the sort.
    pub fn sort_name(self) -> &'static str {
        match self {
            Repeated::All => "Sort",
            Repeated::Once => "Sort (distinct)",
        }
    }
}

/// One aggregate of a plan.
#[derive(Clone)]
pub struct AggregatePlan {
    /// Makes its state.
    pub function: AggregateFn,
    /// NULL handling.
    pub strictness: Strictness,
    /// The arguments.
    pub arguments: Vec<Program>,
    /// Their types.
    pub types: Vec<TypeOid>,
    /// DISTINCT.
    pub distinct: bool,
    /// ORDER BY within: program, type, descending, nulls first.
    pub order_by: Vec<(Program, TypeOid, bool, bool)>,
    /// FILTER.
    pub filter: Option<Program>,
    /// Where the result goes.
    pub slot: Slot,
}

impl AggregatePlan {
    /// Must its rows be kept until the group is complete?
    pub fn keeps_rows(&self) -> bool {
        self.distinct || !self.order_by.is_empty()
    }
}

/// A set-returning function of a plan.
#[derive(Clone)]
pub struct SetPlan {
    /// The function.
    pub function: SetFn,
    /// NULL handling.
    pub strictness: Strictness,
    /// Its arguments.
    pub arguments: Vec<Program>,
}

/// An operator and its inputs.
#[derive(Clone)]
pub enum Plan {
    /// One row without columns.
    One,
    /// No rows.
    Nothing,
    /// A scan of a table.
    Table(Box<TableScan>),
    /// A scan of a virtual relation.
    Virtual {
        /// The relation in the statement.
        relation_id: RelationId,
        /// The relation.
        relation: &'static dyn VirtualRelation,
        /// Columns and their slots.
        columns: Vec<(usize, Slot)>,
        /// Look-up by equality with a column.
        key: Option<(usize, KeyValue)>,
        /// The filter.
        filter: Option<Program>,
    },
    /// Where a sequence stands, whatever any snapshot says.
    Sequence {
        /// The relation in the statement.
        relation: RelationId,
        /// The sequence.
        sequence: Arc<SequenceEntry>,
        /// Columns and their slots.
        columns: Vec<(usize, Slot)>,
        /// The filter.
        filter: Option<Program>,
    },
    /// VALUES.
    Values {
        /// The rows.
        rows: Vec<Vec<Program>>,
        /// Where they go.
        slots: Vec<Slot>,
    },
    /// A function in FROM.
    Function {
        /// The relation in the statement.
        relation: RelationId,
        /// Set-returning, or one value.
        call: FunctionSource,
        /// Where the columns go; of a scalar result one.
        slots: Vec<Slot>,
        /// Where the ordinality goes.
        ordinality: Option<Slot>,
    },
    /// A common table expression's rows, copied.
    Cte {
        /// Its place in the statement's list.
        index: u32,
        /// Where its columns go.
        slots: Vec<Slot>,
    },
    /// WITH RECURSIVE.
    Recursive {
        /// Which working table the right side reads.
        index: u32,
        /// Begins, and goes on from the working table.
        sides: Box<(Plan, Plan)>,
        /// Each side's output slots.
        from: (Vec<Slot>, Vec<Slot>),
        /// Where the rows go.
        slots: Vec<Slot>,
        /// UNION: the columns' types, to tell rows apart.
        distinct: Option<Vec<TypeOid>>,
    },
    /// The rows of a recursion's working table, copied.
    Working {
        /// Which one.
        index: u32,
        /// What it is called.
        name: Arc<str>,
        /// Where its columns go.
        slots: Vec<Slot>,
    },
    /// Rows that satisfy a condition.
    Filter(Box<Plan>, Program),
    /// Values computed into slots.
    Project(Box<Plan>, Vec<(Program, Slot)>),
    /// Set-returning functions in a target list, in step, the shorter ones padded by NULL.
    ProjectSet(Box<Plan>, Vec<(SetPlan, Slot)>),
    /// Nested loops: the inner side is restarted for each outer row.
    Loop {
        /// Which.
        kind: JoinType,
        /// The outer side.
        outer: Box<Plan>,
        /// The inner side, which may read the outer row.
        inner: Box<Plan>,
        /// What joins.
        condition: Option<Program>,
        /// The inner side's slots, which become NULL where nothing joins.
        inner_slots: Vec<Slot>,
    },
    /// A join that reads each side once.
    Hash {
        /// Which.
        kind: JoinType,
        /// The probing side.
        outer: Box<Plan>,
        /// The side in the table.
        inner: Box<Plan>,
        /// Equal values: outer, inner, type.
        keys: Vec<(Program, Program, TypeOid)>,
        /// What else joins.
        condition: Option<Program>,
        /// The outer side's slots.
        outer_slots: Vec<Slot>,
        /// The inner side's slots.
        inner_slots: Vec<Slot>,
        /// By hashing or merging.
        method: JoinMethod,
        /// Does the inner side give the same rows again?
        inner_rows: InnerRows,
    },
    /// The inner side of a loop kept, so that it is computed once for all rows of the outer side.
    Keep {
        /// The rows.
        input: Box<Plan>,
        /// Its slots.
        slots: Vec<Slot>,
        /// Are they the same when the loop begins again?
        rows: InnerRows,
    },
    /// Grouping.
    Aggregate {
        /// The rows.
        input: Box<Plan>,
        /// Keys: value, type, where it goes.
        keys: Vec<(Program, TypeOid, Slot)>,
        /// The aggregates.
        aggregates: Vec<AggregatePlan>,
        /// The input's slots.
        slots: Vec<Slot>,
        /// By hashing or sorting.
        method: GroupMethod,
    },
    /// Sorting; with a limit only the first rows are kept.
    Sort {
        /// The rows.
        input: Box<Plan>,
        /// The keys.
        keys: Vec<SortBy>,
        /// The input's slots.
        slots: Vec<Slot>,
        /// LIMIT and OFFSET above, if the first rows suffice.
        limit: Option<(Program, Option<Program>)>,
        /// What becomes of rows with equal keys.
        repeated: Repeated,
    },
    /// DISTINCT.
    Distinct(Box<Plan>, Vec<(Slot, TypeOid)>),
    /// DISTINCT ON, of sorted rows.
    First(Box<Plan>, Vec<(Slot, TypeOid)>),
    /// UNION ALL, INTERSECT or EXCEPT; without ALL, DISTINCT is above.
    SetOperation {
        /// Which; `None` for UNION ALL.
        operation: Option<(SetOperation, bool)>,
        /// The sides.
        sides: Box<(Plan, Plan)>,
        /// Each side's output slots.
        from: (Vec<Slot>, Vec<Slot>),
        /// Where the rows go.
        slots: Vec<Slot>,
        /// Their types.
        types: Vec<TypeOid>,
    },
    /// LIMIT and OFFSET.
    Limit(Box<Plan>, Option<Program>, Option<Program>),
    /// FOR UPDATE.
    Lock {
        /// The rows.
        input: Box<Plan>,
        /// The tables whose rows are locked: as scanned.
        targets: Vec<LockTarget>,
        /// The query's condition, for rows that changed meanwhile.
        recheck: Option<Program>,
    },
}

/// A table whose rows a statement locks or changes, read again when they changed.
#[derive(Clone)]
pub struct LockTarget {
    /// The relation in the statement.
    pub relation: RelationId,
    /// The table.
    pub table: Arc<TableEntry>,
    /// What the statement reads of it.
    pub columns: ScanColumns,
}

/// Where a function in FROM gets its rows.
#[derive(Clone)]
pub enum FunctionSource {
    /// Set-returning.
    Set(SetPlan),
    /// One value.
    Scalar(Program),
}

/// What is made of a subplan's rows.
#[derive(Clone)]
pub enum SubplanKind {
    /// Its one value.
    Scalar,
    /// Are there rows?
    Exists,
    /// An array.
    Array(TypeOid),
    /// `left op ANY|ALL (rows)`.
    Quantified {
        /// ANY or ALL.
        quantifier: Quantifier,
        /// Left side and operator, a column.
        left: Vec<(Program, &'static OperatorRow)>,
        /// The columns' types, where the answer can be had from a hash table (`= ANY` of an
        /// uncorrelated query).
        hashed: Option<Vec<TypeOid>>,
    },
}

/// A subquery of an expression.
#[derive(Clone)]
pub struct Subplan {
    /// Its rows.
    pub plan: Plan,
    /// Its outputs.
    pub outputs: Vec<Slot>,
    /// What is made of them.
    pub kind: SubplanKind,
    /// It reads columns of the query around it, so it is run for each row.
    pub correlated: bool,
}

/// A common table expression.
pub struct CtePlan {
    /// Its name.
    pub name: Arc<str>,
    /// Its rows.
    pub rows: CteRows,
    /// Does anything read it?
    pub is_read: bool,
}

/// What makes a common table expression's rows.
pub enum CteRows {
    /// A query, and its outputs.
    Query(Plan, Vec<Slot>),
    /// A data change, and what it returns.
    Change(Box<super::ModifyPlan>),
}

/// The columns of which relation a slot belongs to, kept for the final pass.
pub type SlotOwner = (ColumnRef, Slot);

impl Plan {
    /// The plans that it takes its rows from.
    fn inputs(&self) -> Vec<&Plan> {
        match self {
            Plan::One
            | Plan::Nothing
            | Plan::Table(_)
            | Plan::Virtual { .. }
            | Plan::Sequence { .. }
            | Plan::Values { .. }
            | Plan::Function { .. }
            | Plan::Cte { .. }
            | Plan::Working { .. } => Vec::new(),
            Plan::Recursive { sides, .. } | Plan::SetOperation { sides, .. } => {
                vec![&sides.0, &sides.1]
            }
            Plan::Loop { outer, inner, .. } | Plan::Hash { outer, inner, .. } => {
                vec![outer, inner]
            }
            Plan::Filter(input, ..)
            | Plan::Project(input, ..)
            | Plan::ProjectSet(input, ..)
            | Plan::Keep { input, .. }
            | Plan::Aggregate { input, .. }
            | Plan::Sort { input, .. }
            | Plan::Distinct(input, ..)
            | Plan::First(input, ..)
            | Plan::Limit(input, ..)
            | Plan::Lock { input, .. } => vec![input],
        }
    }

    /// How many plans lie in one another. Does not recurse: what does asks it first.
    pub(super) fn height(&self) -> usize {
        let (mut left, mut height) = (vec![(self, 1)], 0);
        while let Some((plan, depth)) = left.pop() {
            height = height.max(depth);
            left.extend(plan.inputs().into_iter().map(|input| (input, depth + 1)));
        }
        height
    }
}
