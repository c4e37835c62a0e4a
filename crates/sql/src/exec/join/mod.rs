//! Joins: nested loops, by hashing, by merging sorted sides.
//!
//! Invariants: the kinds mean the same in every method. A semi join gives each outer row that
//! joins at all once, an anti join each that joins nothing; the inner side's slots are then of no
//! use to who reads.

mod hash_join;
mod loop_join;
mod merge_join;

pub(super) use hash_join::HashJoin;
pub(super) use loop_join::Loop;
pub(super) use merge_join::MergeJoin;

use super::program::{Program, Slot};
use super::{BoxedOperator, Cx};
use crate::error::SqlResult;
use crate::plan::node::JoinType;
use crate::types::{Datum, TypeOid};

/// The equalities of a join: outer side, inner side, type.
pub(super) type Keys<'p> = &'p [(Program, Program, TypeOid)];

/// A side of a join and the slots that it writes.
pub(super) struct Input<'p> {
    pub operator: BoxedOperator<'p>,
    pub slots: &'p [Slot],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Outer,
    Inner,
}

/// What a join does besides finding rows with equal keys.
#[derive(Clone, Copy)]
pub(super) struct JoinPlan<'p> {
    pub kind: JoinType,
    pub keys: Keys<'p>,
    pub condition: Option<&'p Program>,
}

impl JoinPlan<'_> {
    /// Does the pair of rows in the frame satisfy what is no key?
    fn joins(&self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        self.condition.map_or(Ok(true), |condition| condition.test(cx))
    }

    /// Are outer rows given that join nothing?
    fn keeps_outer(&self) -> bool {
        matches!(self.kind, JoinType::Left | JoinType::Full | JoinType::Anti)
    }

    /// The keys of the row in the frame.
    fn keys_of(&self, side: Side, cx: &mut Cx<'_, '_>) -> SqlResult<Vec<Datum>> {
        let mut values = Vec::with_capacity(self.keys.len());
        for (outer, inner, _) in self.keys {
            let program = if side == Side::Outer { outer } else { inner };
            values.push(program.eval(cx)?);
        }
        Ok(values)
    }
}
