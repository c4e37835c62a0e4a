//! Statements simple enough to run without operators: one row by its whole key, or one new row.
//!
//! Invariants: the fast form does exactly what the general plan does; it is used in place of it,
//! and the general plan stays for what the fast form gives up on.

use super::node::{Access, Plan, Subplan};
use super::{Action, InsertPlan, Modification};

/// Which fast form applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fast {
    /// SELECT of one row by the whole key of a unique index.
    Select,
    /// UPDATE of one row by the whole key of a unique index.
    Update,
    /// DELETE of one row by the whole key of a unique index.
    Delete,
    /// INSERT of rows given by VALUES.
    Insert,
}

/// Which fast form a finished plan has, if any.
pub(super) fn recognise(action: &Action, subplans: &[Subplan]) -> Option<Fast> {
    if !subplans.is_empty() {
        return None;
    }
    match action {
        Action::Query { plan, .. } => {
            let plan = match plan {
                Plan::Project(input, _) => input,
                other => other,
            };
            is_point(plan).then_some(Fast::Select)
        }
        Action::Modify(modify) => match &modify.modification {
            Modification::Insert { source: InsertPlan::Values(_), conflict: None, .. } => {
                Some(Fast::Insert)
            }
            Modification::Update { plan, joined: false, .. } if is_point(plan) => {
                Some(Fast::Update)
            }
            Modification::Delete { plan, joined: false, .. } if is_point(plan) => {
                Some(Fast::Delete)
            }
            _ => None,
        },
    }
}

fn is_point(plan: &Plan) -> bool {
    matches!(plan, Plan::Table(scan) if matches!(scan.access, Access::Point(..)))
}
