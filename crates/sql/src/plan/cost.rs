//! What a plan is estimated to cost, and how many rows it gives.
//!
//! Invariants: pure functions of a finished plan; units are those of reading one row from a cached
//! page. Without histograms the selectivities are PostgreSQL's defaults.

use super::node::{Access, JoinType, Plan, Repeated, TableScan};

/// An estimate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// Before the first row.
    pub startup: f64,
    /// Until the last row.
    pub total: f64,
    /// Rows.
    pub rows: f64,
    /// Bytes of a row.
    pub width: u32,
}

const ROW: f64 = 0.01;
const TEST: f64 = 0.0025;
const LOOKUP: f64 = 0.15;

/// So many of them are left without the repeated ones.
fn told_apart(rows: f64) -> f64 {
    (rows * 0.5).max(1.0).round()
}

fn sorting(rows: f64) -> f64 {
    2.0 * TEST * rows * rows.max(2.0).log2()
}

fn scan(scan: &TableScan) -> Estimate {
    let width = 8 * scan.columns.slots.len() as u32;
    let all = scan.table.approximate_rows() as f64;
    let rows = scan.rows.max(1.0).round();
    let test = if scan.filter.is_some() { TEST } else { 0.0 };
    let (startup, total) = match &scan.access {
        Access::All => (0.0, all * (ROW + test)),
        Access::Point(..) => (LOOKUP, LOOKUP + ROW + test),
        Access::Points(_, keys) => (LOOKUP, LOOKUP * keys.about() + rows * (ROW + test)),
        Access::Range { .. } => (LOOKUP, LOOKUP + rows * (2.0 * ROW + test)),
    };
    Estimate { startup, total, rows, width }
}

/// The estimate of a plan without inputs.
fn leaf(plan: &Plan) -> Estimate {
    let one = Estimate { startup: 0.0, total: ROW, rows: 1.0, width: 0 };
    match plan {
        Plan::Nothing => Estimate { rows: 0.0, total: 0.0, ..one },
        Plan::Table(own) => scan(own),
        Plan::Virtual { columns, key, .. } => {
            let rows = if key.is_some() { 1.0 } else { 100.0 };
            Estimate { rows, total: rows * ROW, width: 8 * columns.len() as u32, ..one }
        }
        Plan::Values { rows, slots } => {
            let count = rows.len() as f64;
            Estimate { rows: count, total: count * ROW, width: 8 * slots.len() as u32, ..one }
        }
        Plan::Function { slots, .. } => {
            Estimate { rows: 1000.0, total: 10.0, width: 8 * slots.len() as u32, ..one }
        }
        Plan::Working { slots, .. } => {
            Estimate { rows: 10.0, total: 0.1, width: 8 * slots.len() as u32, ..one }
        }
        Plan::Cte { slots, .. } => {
            Estimate { rows: 1000.0, total: 10.0, width: 8 * slots.len() as u32, ..one }
        }
        _ => one,
    }
}

/// The estimate of a plan.
pub(super) fn estimate(plan: &Plan) -> Estimate {
    match plan {
        Plan::Filter(input, _) => {
            let input = estimate(input);
            let total = input.total + input.rows * TEST;
            Estimate { rows: (input.rows * 0.33).max(1.0).round(), total, ..input }
        }
        Plan::Project(input, outputs) => {
            let input = estimate(input);
            let total = input.total + input.rows * TEST * outputs.len() as f64;
            Estimate { total, width: input.width + 8 * outputs.len() as u32, ..input }
        }
        Plan::ProjectSet(input, outputs) => {
            let input = estimate(input);
            let rows = input.rows * 1000.0;
            let width = input.width + 8 * outputs.len() as u32;
            Estimate { rows, total: input.total + rows * ROW, width, ..input }
        }
        Plan::Keep { input, .. } => estimate(input),
        Plan::Recursive { sides, .. } => {
            // So many iterations, as PostgreSQL takes it.
            let (left, right) = (estimate(&sides.0), estimate(&sides.1));
            let total = left.total + 10.0 * right.total;
            let rows = left.rows + 10.0 * right.rows;
            Estimate { startup: left.startup, total, rows, width: left.width }
        }
        Plan::Loop { .. } | Plan::Hash { .. } => join(plan),
        Plan::Aggregate { input, keys, aggregates, .. } => {
            let input = estimate(input);
            let each = TEST * (keys.len() + aggregates.len()) as f64;
            let startup = input.total + input.rows * each;
            let rows =
                if keys.is_empty() { 1.0 } else { (input.rows * 0.1).clamp(1.0, 1e9).round() };
            let width = 8 * (keys.len() + aggregates.len()) as u32;
            Estimate { startup, total: startup + rows * ROW, rows, width }
        }
        Plan::Sort { input, repeated, .. } => {
            let input = estimate(input);
            let startup = input.total + sorting(input.rows);
            let rows = match repeated {
                Repeated::All => input.rows,
                Repeated::Once => told_apart(input.rows),
            };
            Estimate { startup, rows, total: startup + input.rows * TEST, ..input }
        }
        Plan::Distinct(input, _) | Plan::First(input, _) => {
            let input = estimate(input);
            let total = input.total + input.rows * TEST;
            Estimate { rows: told_apart(input.rows), total, ..input }
        }
        Plan::SetOperation { sides, operation, .. } => {
            let (left, right) = (estimate(&sides.0), estimate(&sides.1));
            let rows = if operation.is_some() { left.rows } else { left.rows + right.rows };
            let total = left.total + right.total + (left.rows + right.rows) * TEST;
            Estimate { startup: left.startup, total, rows, width: left.width.max(right.width) }
        }
        Plan::Limit(input, limit, _) => {
            let input = estimate(input);
            let rows = if limit.is_some() { input.rows.min(10.0) } else { input.rows };
            let part = rows / input.rows.max(1.0);
            let total = input.startup + (input.total - input.startup) * part;
            Estimate { rows, total, ..input }
        }
        Plan::Lock { input, .. } => {
            let input = estimate(input);
            Estimate { total: input.total + input.rows * LOOKUP, ..input }
        }
        _ => leaf(plan),
    }
}

fn join(plan: &Plan) -> Estimate {
    let (kind, outer, inner, total, startup) = match plan {
        Plan::Loop { kind, outer, inner, .. } => {
            let (outer, inner) = (estimate(outer), estimate(inner));
            let total = outer.total + outer.rows * inner.total;
            (*kind, outer, inner, total, outer.startup + inner.startup)
        }
        Plan::Hash { kind, outer, inner, method, .. } => {
            let (outer, inner) = (estimate(outer), estimate(inner));
            let own = match method {
                super::node::JoinMethod::Hash => (outer.rows + 2.0 * inner.rows) * TEST,
                super::node::JoinMethod::Merge => sorting(outer.rows) + sorting(inner.rows),
            };
            (*kind, outer, inner, outer.total + inner.total + own, inner.total)
        }
        _ => return estimate(plan),
    };
    let matched = match plan {
        Plan::Loop { .. } => outer.rows * inner.rows,
        _ => (outer.rows * inner.rows * 0.01).max(outer.rows.min(inner.rows)),
    };
    let rows = match kind {
        JoinType::Inner => matched,
        JoinType::Left => matched.max(outer.rows),
        JoinType::Full => matched.max(outer.rows).max(inner.rows),
        JoinType::Semi | JoinType::Anti => outer.rows * 0.5,
    };
    let width = match kind {
        JoinType::Semi | JoinType::Anti => outer.width,
        _ => outer.width + inner.width,
    };
    Estimate { startup, total, rows: rows.max(1.0).round(), width }
}
