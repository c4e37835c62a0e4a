//! EXPLAIN: a plan as a tree of named nodes, with estimates and, if it was run, with what happened;
//! as text or as JSON.
//!
//! Invariants: shows the very plan that would run (or has run), the forms without operators
//! included; reads it, changes nothing.

use super::cost::estimate;
use super::fast::Fast;
use super::node::{
    Access, CteRows, FunctionSource, GroupMethod, JoinMethod, JoinType, KeyList, KeyValue, Order,
    Plan, RangeEnd, SortBy, TableScan,
};
use super::print::row;
use super::{Action, InsertPlan, Modification, ModifyPlan, Planned};
use crate::error::SqlResult;
use crate::exec::program::{Program, Slot};
use crate::exec::too_deep;
use crate::exec::watch::{Counts, Watch};
use crate::parse::ast::SetOperation;
use atoll_kernel::api::{Context, Parker};
use std::cell::Cell;
use std::fmt::Write;

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// ANALYZE.
    pub analyze: bool,
    /// COSTS.
    pub costs: bool,
    /// VERBOSE.
    pub verbose: bool,
    /// TIMING.
    pub timing: bool,
}

/// A value of a property.
enum Value {
    Text(String),
    List(Vec<String>),
    Number(f64, usize),
    Flag(bool),
}

/// One node.
struct Node {
    name: String,
    properties: Vec<(&'static str, Value)>,
    estimate: Option<super::cost::Estimate>,
    actual: Option<(f64, f64, f64, u64)>,
    ran: bool,
    children: Vec<(String, Node)>,
}

/// A node of which only the name is known.
fn named(name: impl Into<String>) -> Node {
    Node {
        name: name.into(),
        properties: Vec::new(),
        estimate: None,
        actual: None,
        ran: false,
        children: Vec::new(),
    }
}

/// The makers of nodes.
struct Teller<'p> {
    planned: &'p Planned,
    watch: Option<&'p Watch>,
    shown: Shown,
    context: &'p Context,
    /// The plan is deeper than the stack has room for: what was told of it is not all.
    is_too_deep: Cell<bool>,
}

/// Stack that telling a node leaves: its estimate goes down to the leaves of the plan.
const STACK_LEFT_MIN: usize = 128 * 1024;
/// Plans in one another that have room there. More cannot be run, either.
const HEIGHT_MAX: usize = 250;

/// The plan as lines of text.
pub fn lines(
    (context, planned): (&Context, &Planned),
    watch: Option<&Watch>,
    shown: Shown,
) -> SqlResult<Vec<String>> {
    let mut out = Vec::new();
    write_text(&root(context, planned, watch, shown)?, shown, (0, ""), &mut out);
    Ok(out)
}

/// The plan as JSON, with numbers of milliseconds behind it.
pub fn json(
    (context, planned): (&Context, &Planned),
    watch: Option<&Watch>,
    shown: Shown,
    times: &[(&str, f64)],
) -> SqlResult<String> {
    let root = root(context, planned, watch, shown)?;
    let mut out = String::from("[\n  {\n    \"Plan\": ");
    write_json(&root, None, shown, 4, &mut out);
    for (name, value) in times {
        let _ = write!(out, ",\n    \"{name}\": {value:.3}");
    }
    out.push_str("\n  }\n]");
    Ok(out)
}

/// The nodes of a plan; `STATEMENT_TOO_COMPLEX` if it is too deep for the stack.
fn root(
    context: &Context,
    planned: &Planned,
    watch: Option<&Watch>,
    shown: Shown,
) -> SqlResult<Node> {
    let is_too_deep = Cell::new(false);
    let teller = Teller { planned, watch, shown, context, is_too_deep };
    let root = teller.root();
    if teller.is_too_deep.get() { Err(too_deep()) } else { Ok(root) }
}

impl<'p> Teller<'p> {
    fn root(&self) -> Node {
        let mut root = match &self.planned.action {
            Action::Query { plan, .. } => self.top(plan),
            Action::Modify(modify) => self.modification(modify),
        };
        for cte in &self.planned.ctes {
            let node = match &cte.rows {
                CteRows::Query(plan, _) => self.top(plan),
                CteRows::Change(modify) => self.modification(modify),
            };
            root.children.push((format!("CTE {}", cte.name), node));
        }
        for (index, subplan) in self.planned.subplans.iter().enumerate() {
            let kind = if subplan.correlated { "SubPlan" } else { "InitPlan" };
            root.children.push((format!("{kind} {}", index + 1), self.top(&subplan.plan)));
        }
        if let Some(fast) = self.planned.fast {
            let name = match fast {
                Fast::Select => "select",
                Fast::Update => "update",
                Fast::Delete => "delete",
                Fast::Insert => "insert",
            };
            root.properties.push(("Fast Path", Value::Text(name.to_owned())));
        }
        root
    }

    fn modification(&self, modify: &ModifyPlan) -> Node {
        let info = &modify.info;
        let (word, input) = match &modify.modification {
            Modification::Insert { source, .. } => match source {
                InsertPlan::Query(plan, _) => ("Insert", Some(plan)),
                InsertPlan::Values(_) => ("Insert", None),
            },
            Modification::Update { plan, .. } => ("Update", Some(plan)),
            Modification::Delete { plan, .. } => ("Delete", Some(plan)),
        };
        let mut node = named(format!("{word} on {}.{}", info.schema, info.name));
        if let Modification::Insert { conflict: Some(conflict), .. } = &modify.modification {
            let action = if conflict.update.is_some() { "UPDATE" } else { "NOTHING" };
            node.properties.push(("Conflict Resolution", Value::Text(action.to_owned())));
            let names = conflict.arbiters.iter().map(|index| index.def.name.clone()).collect();
            node.properties.push(("Conflict Arbiter Indexes", Value::List(names)));
        }
        if let Modification::Insert { source: InsertPlan::Values(rows), .. } = &modify.modification
        {
            node.properties.push(("Rows", Value::Number(rows.len() as f64, 0)));
        }
        if let Some(input) = input {
            let input = self.top(input);
            node.estimate = input.estimate;
            node.children.push((String::new(), input));
        }
        node
    }

    fn slot(&self, slot: Slot) -> String {
        self.planned.slot_names.get(slot as usize).cloned().unwrap_or_default()
    }

    /// A whole plan.
    fn top(&self, plan: &Plan) -> Node {
        if plan.height() > HEIGHT_MAX {
            self.is_too_deep.set(true);
            return named("");
        }
        self.node(plan)
    }

    /// A node with what has been counted of it. Operators that only compute are told with what is
    /// below them.
    fn node(&self, plan: &Plan) -> Node {
        if self.context.stack_left_bytes() < STACK_LEFT_MIN {
            self.is_too_deep.set(true);
            return named("");
        }
        let mut node = self.kind(plan);
        node.estimate = Some(estimate(plan));
        if let Some(watch) = self.watch {
            let counts = watch.of(plan);
            self.count(&mut node, &counts);
            if let Plan::Table(scan) = plan
                && scan.is_index_only()
            {
                let fetches = counts.heap_fetches.get() as f64;
                node.properties.push(("Heap Fetches", Value::Number(fetches, 0)));
            }
        }
        node
    }

    fn count(&self, node: &mut Node, counts: &Counts) {
        let loops = counts.loops.get();
        node.ran = loops > 0;
        if loops > 0 {
            let milliseconds = |ns: u64| ns as f64 / 1e6 / loops as f64;
            let rows = counts.rows.get() as f64 / loops as f64;
            let first = counts.first_ns.get() as f64 / 1e6;
            let total = milliseconds(counts.total_ns.get());
            node.actual = Some((first.min(total), total, rows, loops));
        }
        if counts.on_disk.get() {
            node.properties.push(("Temporary Files", Value::Flag(true)));
        }
    }

    fn filter(node: &mut Node, name: &'static str, program: Option<&Program>) {
        if let Some(text) = program.and_then(|program| program.text.as_ref()) {
            node.properties.push((name, Value::Text(text.to_string())));
        }
    }

    fn over(&self, name: &str, input: &Plan) -> Node {
        let mut node = named(name);
        node.children.push((String::new(), self.node(input)));
        node
    }

    fn kind(&self, plan: &Plan) -> Node {
        match plan {
            Plan::One => named("Result"),
            Plan::Nothing => named("Result (no rows)"),
            Plan::Table(scan) => self.scan(scan),
            Plan::Virtual { relation, filter, key, .. } => {
                let mut node = named(format!("Catalog Scan on {}", relation.name()));
                if let Some((_, key)) = key {
                    Self::filter(&mut node, "Key", Some(&key.program));
                }
                Self::filter(&mut node, "Filter", filter.as_ref());
                node
            }
            Plan::Sequence { sequence, filter, .. } => {
                let mut node = named(format!("Seq Scan on {}", sequence.def.name));
                Self::filter(&mut node, "Filter", filter.as_ref());
                node
            }
            Plan::Values { .. } => named("Values Scan"),
            Plan::Function { call, .. } => match call {
                FunctionSource::Set(_) | FunctionSource::Scalar(_) => named("Function Scan"),
            },
            Plan::Cte { .. } | Plan::Working { .. } | Plan::Recursive { .. } => self.with(plan),
            Plan::Filter(input, condition) => {
                let mut node = self.over("Filter", input);
                Self::filter(&mut node, "Filter", Some(condition));
                node
            }
            Plan::Project(input, outputs) => {
                let mut node = self.over("Result", input);
                if self.shown.verbose {
                    let names = outputs.iter().map(|(_, slot)| self.slot(*slot)).collect();
                    node.properties.push(("Output", Value::List(names)));
                }
                node
            }
            Plan::ProjectSet(input, _) => self.over("ProjectSet", input),
            Plan::Keep { input, .. } => self.over("Materialize", input),
            Plan::Loop { .. } | Plan::Hash { .. } => self.join(plan),
            Plan::Aggregate { input, keys, method, .. } => {
                let name = match method {
                    _ if keys.is_empty() => "Aggregate",
                    GroupMethod::Hash => "HashAggregate",
                    GroupMethod::Sort => "GroupAggregate",
                };
                let mut node = self.over(name, input);
                if !keys.is_empty() {
                    let names = keys.iter().map(|(_, _, slot)| self.slot(*slot)).collect();
                    node.properties.push(("Group Key", Value::List(names)));
                }
                node
            }
            Plan::Sort { input, keys, limit, repeated, .. } => {
                let mut node = self.over(repeated.sort_name(), input);
                node.properties.push(("Sort Key", Value::List(self.sort_keys(keys))));
                if limit.is_some() {
                    node.properties.push(("Sort Method", Value::Text("top-N".to_owned())));
                }
                node
            }
            Plan::Distinct(input, _) => self.over("HashAggregate (distinct)", input),
            Plan::First(input, _) => self.over("Unique", input),
            Plan::SetOperation { operation, sides, .. } => self.set_operation(*operation, sides),
            Plan::Limit(input, ..) => self.over("Limit", input),
            Plan::Lock { input, .. } => self.over("LockRows", input),
        }
    }

    /// What WITH makes.
    fn with(&self, plan: &Plan) -> Node {
        match plan {
            Plan::Cte { index, .. } => {
                let cte = self.planned.ctes.get(*index as usize);
                named(format!("CTE Scan on {}", cte.map_or("", |cte| &cte.name)))
            }
            Plan::Working { name, .. } => named(format!("WorkTable Scan on {name}")),
            Plan::Recursive { sides, .. } => {
                let mut node = named("Recursive Union");
                node.children.push((String::new(), self.node(&sides.0)));
                node.children.push((String::new(), self.node(&sides.1)));
                node
            }
            _ => named("WITH"),
        }
    }

    fn set_operation(&self, operation: Option<(SetOperation, bool)>, sides: &(Plan, Plan)) -> Node {
        let mut node = named(match operation {
            None => "Append".to_owned(),
            Some((kind, all)) => {
                let kind = match kind {
                    SetOperation::Intersect => "Intersect",
                    _ => "Except",
                };
                format!("SetOp {kind}{}", if all { " All" } else { "" })
            }
        });
        node.children.push((String::new(), self.node(&sides.0)));
        node.children.push((String::new(), self.node(&sides.1)));
        node
    }

    fn sort_keys(&self, keys: &[SortBy]) -> Vec<String> {
        let key = |key: &SortBy| {
            let nulls = match (key.descending, key.nulls_first) {
                (false, true) => " NULLS FIRST",
                (true, false) => " NULLS LAST",
                _ => "",
            };
            format!("{}{}{nulls}", self.slot(key.slot), if key.descending { " DESC" } else { "" })
        };
        keys.iter().map(key).collect()
    }

    fn scan(&self, scan: &TableScan) -> Node {
        let table = &scan.table.def.name;
        // A look-up of one row goes to the row.
        let only = if scan.is_index_only() { " Only" } else { "" };
        let mut node = match &scan.access {
            Access::All => named(format!("Seq Scan on {table}")),
            Access::Point(index, _) | Access::Points(index, _) => {
                named(format!("Index{only} Scan using {} on {table}", index.def.name))
            }
            Access::Range { index, order, .. } => {
                let back = if *order == Order::Backward { " Backward" } else { "" };
                named(format!("Index{only} Scan{back} using {} on {table}", index.def.name))
            }
        };
        let conditions = self.index_conditions(scan);
        let text = match conditions.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("({})", several.join(" AND "))),
        };
        node.properties.extend(text.map(|text| ("Index Cond", Value::Text(text))));
        Self::filter(&mut node, "Filter", scan.filter.as_ref());
        node
    }

    fn index_conditions(&self, scan: &TableScan) -> Vec<String> {
        let text = |program: &Program| program.text.as_deref().unwrap_or("?").to_owned();
        let name = |index: &atoll_kernel::api::IndexEntry, at: usize| {
            let column = index.def.columns[at].column;
            scan.table.def.columns[column.index()].name.clone()
        };
        let equal = |index: &atoll_kernel::api::IndexEntry, values: &[KeyValue]| {
            let values = values.iter().enumerate();
            let one = |(at, value): (usize, &KeyValue)| {
                format!("({} = {})", name(index, at), text(&value.program))
            };
            values.map(one).collect::<Vec<String>>()
        };
        match &scan.access {
            Access::All => Vec::new(),
            Access::Point(index, values) => equal(index, values),
            Access::Points(index, list @ KeyList::Written(keys)) => {
                let names = row((0..list.width()).map(|at| name(index, at)));
                let key = |key: &Vec<KeyValue>| row(key.iter().map(|it| text(&it.program)));
                let rows: Vec<String> = keys.iter().map(key).collect();
                vec![format!("({names} IN ({}))", rows.join(", "))]
            }
            Access::Points(index, KeyList::Elements { prefix, array, .. }) => {
                let mut found = equal(index, prefix);
                let array = text(&array.program);
                found.push(format!("({} = ANY ({array}))", name(index, prefix.len())));
                found
            }
            Access::Range { index, prefix, low, high, .. } => {
                let mut found = equal(index, prefix);
                let mut end = |end: &Option<RangeEnd>, sign: &str| {
                    if let Some(end) = end {
                        let equal = if end.inclusive { "=" } else { "" };
                        let value = text(&end.value.program);
                        found
                            .push(format!("({} {sign}{equal} {value})", name(index, prefix.len())));
                    }
                };
                end(low, ">");
                end(high, "<");
                found
            }
        }
    }

    fn join(&self, plan: &Plan) -> Node {
        let kind_word = |kind: JoinType| match kind {
            JoinType::Inner => "",
            JoinType::Left => " Left",
            JoinType::Full => " Full",
            JoinType::Semi => " Semi",
            JoinType::Anti => " Anti",
        };
        match plan {
            Plan::Loop { kind, outer, inner, condition, .. } => {
                let word = kind_word(*kind);
                let name = match word {
                    "" => "Nested Loop".to_owned(),
                    word => format!("Nested Loop{word} Join"),
                };
                let mut node = named(name);
                Self::filter(&mut node, "Join Filter", condition.as_ref());
                node.children.push((String::new(), self.node(outer)));
                node.children.push((String::new(), self.node(inner)));
                node
            }
            Plan::Hash { kind, outer, inner, keys, condition, method, .. } => {
                let (name, property) = match method {
                    JoinMethod::Hash => ("Hash", "Hash Cond"),
                    JoinMethod::Merge => ("Merge", "Merge Cond"),
                };
                let mut node = named(format!("{name}{} Join", kind_word(*kind)));
                let text = |program: &Program| program.text.as_deref().unwrap_or("?").to_owned();
                let equal = keys.iter().map(|(a, b, _)| format!("({} = {})", text(a), text(b)));
                let equal: Vec<String> = equal.collect();
                node.properties.push((property, Value::Text(equal.join(" AND "))));
                Self::filter(&mut node, "Join Filter", condition.as_ref());
                node.children.push((String::new(), self.node(outer)));
                node.children.push((String::new(), self.node(inner)));
                node
            }
            _ => named("Join"),
        }
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::List(items) => items.join(", "),
        Value::Number(number, digits) => format!("{number:.digits$}"),
        Value::Flag(flag) => flag.to_string(),
    }
}

fn write_text(node: &Node, shown: Shown, (depth, label): (usize, &str), out: &mut Vec<String>) {
    let indent = "      ".repeat(depth.saturating_sub(1));
    let (mut line, inner) = match depth {
        0 => (String::new(), "  ".to_owned()),
        _ => (format!("{indent}  ->  "), format!("{indent}        ")),
    };
    if !label.is_empty() {
        out.push(format!("{indent}  {label}"));
    }
    line.push_str(&node.name);
    if let Some(estimate) = node.estimate.filter(|_| shown.costs) {
        let _ = write!(
            line,
            "  (cost={:.2}..{:.2} rows={:.0} width={})",
            estimate.startup, estimate.total, estimate.rows, estimate.width
        );
    }
    if shown.analyze {
        match node.actual {
            Some((first, total, rows, loops)) if shown.timing => {
                let _ = write!(
                    line,
                    " (actual time={first:.3}..{total:.3} rows={rows:.2} loops={loops})"
                );
            }
            Some((_, _, rows, loops)) => {
                let _ = write!(line, " (actual rows={rows:.2} loops={loops})");
            }
            None if node.estimate.is_some() && !node.ran => line.push_str(" (never executed)"),
            None => {}
        }
    }
    out.push(line);
    for (name, value) in &node.properties {
        out.push(format!("{inner}{name}: {}", value_text(value)));
    }
    for (label, child) in &node.children {
        write_text(child, shown, (depth + 1, label), out);
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            letter if (letter as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

fn write_json(node: &Node, label: Option<&str>, shown: Shown, depth: usize, out: &mut String) {
    let indent = " ".repeat(depth + 2);
    let mut fields = vec![format!("\"Node Type\": {}", quoted(&node.name))];
    if let Some(label) = label.filter(|label| !label.is_empty()) {
        fields.push(format!("\"Subplan Name\": {}", quoted(label)));
    }
    if let Some(estimate) = node.estimate.filter(|_| shown.costs) {
        fields.push(format!("\"Startup Cost\": {:.2}", estimate.startup));
        fields.push(format!("\"Total Cost\": {:.2}", estimate.total));
        fields.push(format!("\"Plan Rows\": {:.0}", estimate.rows));
        fields.push(format!("\"Plan Width\": {}", estimate.width));
    }
    if let (true, Some((first, total, rows, loops))) = (shown.analyze, node.actual) {
        if shown.timing {
            fields.push(format!("\"Actual Startup Time\": {first:.3}"));
            fields.push(format!("\"Actual Total Time\": {total:.3}"));
        }
        fields.push(format!("\"Actual Rows\": {rows:.2}"));
        fields.push(format!("\"Actual Loops\": {loops}"));
    }
    for (name, value) in &node.properties {
        let value = match value {
            Value::Text(text) => quoted(text),
            Value::List(items) => {
                format!(
                    "[{}]",
                    items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", ")
                )
            }
            Value::Number(..) | Value::Flag(_) => value_text(value),
        };
        fields.push(format!("{}: {value}", quoted(name)));
    }
    out.push_str("{\n");
    for (index, field) in fields.iter().enumerate() {
        let comma = if index + 1 < fields.len() || !node.children.is_empty() { "," } else { "" };
        let _ = writeln!(out, "{indent}{field}{comma}");
    }
    if !node.children.is_empty() {
        let _ = write!(out, "{indent}\"Plans\": [");
        for (index, (label, child)) in node.children.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(out, "{comma}\n{indent}  ");
            write_json(child, Some(label), shown, depth + 4, out);
        }
        let _ = write!(out, "\n{indent}]\n");
    }
    let _ = write!(out, "{}}}", " ".repeat(depth));
}
