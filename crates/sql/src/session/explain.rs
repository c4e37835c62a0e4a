//! EXPLAIN and EXPLAIN ANALYZE.
//!
//! Invariants: the statement is planned as it would be to run, and with ANALYZE it runs, its rows
//! thrown away; nothing of the plan cache is touched.

use super::Session;
use super::cache::PlanEntry;
use super::client::{Announce, Client, ColumnDescription, Room};
use super::execute::{ATTEMPTS_MAX, Answer, Done, Sending, command_word};
use crate::bind;
use crate::error::{SqlError, SqlResult};
use crate::exec::watch::Watch;
use crate::parse::statement::{Explain, ExplainOptions, Statement, Utility};
use crate::plan::explain::{self, Shown};
use crate::plan::{self, Planned};
use crate::types::{Datum, Type, TypeOid};
use atoll_kernel::api::{Context, Parker};
use std::rc::Rc;
use std::sync::Arc;

/// EXPLAIN's one column.
pub(super) fn columns() -> Arc<[ColumnDescription]> {
    let ty = Type::new(TypeOid::TEXT);
    [ColumnDescription { name: "QUERY PLAN".into(), ty, table: 0, number: 0 }].into()
}

impl Session {
    /// EXPLAIN.
    pub(super) fn explain(
        &mut self,
        context: &Context,
        explain: &Explain,
        sending: Sending<'_>,
        client: &mut dyn Client,
    ) -> SqlResult<Done> {
        self.ensure_transaction(context)?;
        self.queried = true;
        let (statement, declared, parameters) = self.explained(context, &explain.statement)?;
        let options = explain.options;
        let began = context.now_ns();
        let mut planning = 0;
        let mut ran: Option<(Rc<PlanEntry>, Option<Rc<Watch>>)> = None;
        for _ in 0..ATTEMPTS_MAX {
            let entry = self.plan_explained(context, &statement, &declared)?;
            planning = context.now_ns().saturating_sub(began);
            if !options.analyze {
                ran = Some((entry, None));
                break;
            }
            if entry.planned.changes_rows() {
                self.check_writable(command_word(&statement))?;
            }
            let watch = Rc::new(Watch::default());
            self.allowed.watch = Some(watch.clone());
            let answer = Answer::Discard;
            let silent = Sending { announce: Announce::No, formats: &[], rows_max: 0, answer };
            if entry.planned.uses_virtual {
                self.show_cursors();
            }
            let done = self.attempt(context, &entry, &parameters, silent, client)?;
            if done.is_some() {
                ran = Some((entry, Some(watch)));
                break;
            }
        }
        let Some((entry, watch)) = ran else {
            return Err(SqlError::internal(
                "the catalog changes faster than statements are planned",
            ));
        };
        let running = context.now_ns().saturating_sub(began + planning);
        let told = (&entry.planned, watch.as_deref());
        let lines = shown_lines(context, told, options, (planning, running))?;
        client.begin_rows(&columns(), sending.formats, sending.announce);
        for line in lines {
            if client.row((&[Datum::text(line)]).into(), &*self.context)? == Room::Full {
                self.settle(context)?;
                client.flush()?;
            }
        }
        Done::all("EXPLAIN")
    }

    /// The statement that is meant, the types of its parameters, and their values.
    fn explained(
        &mut self,
        context: &Context,
        statement: &Statement,
    ) -> SqlResult<(Statement, Vec<TypeOid>, Vec<Datum>)> {
        let Statement::Utility(utility) = statement else {
            return Ok((context.on_thread_stack(|| statement.clone()), Vec::new(), Vec::new()));
        };
        match &**utility {
            Utility::DeclareCursor(declare) => {
                let query = context.on_thread_stack(|| declare.query.clone());
                Ok((Statement::Query(query), Vec::new(), Vec::new()))
            }
            Utility::Execute { name, arguments } => {
                let cached = self.prepared_named(name)?;
                let statement = &cached.statement;
                let statement = context.on_thread_stack(|| statement.clone());
                let Some(statement) = statement.filter(|_| cached.is_planned()) else {
                    return Err(SqlError::not_supported("EXPLAIN of a utility statement"));
                };
                let values = self.arguments_of(context, name, &cached, arguments)?;
                let types = self.plan(context, &cached)?.planned.parameters.clone();
                Ok((statement, types, values))
            }
            _ => Err(SqlError::not_supported("EXPLAIN of a utility statement")),
        }
    }

    fn plan_explained(
        &mut self,
        context: &Context,
        statement: &Statement,
        declared: &[TypeOid],
    ) -> SqlResult<Rc<PlanEntry>> {
        let view = self.view();
        let choices = self.choices();
        let planned = context.on_thread_stack(|| {
            let binding = bind::bind_closed(&view, statement, declared)?;
            plan::plan_explained(&view, &binding, choices)
        })?;
        Ok(Rc::new(PlanEntry::alone(planned, view.catalog, self.path.clone(), choices)))
    }
}

/// The answer's lines; times are those of planning and running, in nanoseconds.
fn shown_lines(
    context: &Context,
    (planned, watch): (&Planned, Option<&Watch>),
    options: ExplainOptions,
    (planning, running): (u64, u64),
) -> SqlResult<Vec<String>> {
    let shown = Shown {
        analyze: options.analyze,
        costs: options.costs,
        verbose: options.verbose,
        timing: options.timing,
    };
    let milliseconds = |ns: u64| ns as f64 / 1e6;
    let mut times = Vec::new();
    if options.summary {
        times.push(("Planning Time", milliseconds(planning)));
        if options.analyze {
            times.push(("Execution Time", milliseconds(running)));
        }
    }
    let of = (context, planned);
    Ok(match options.json {
        true => vec![explain::json(of, watch, shown, &times)?],
        false => {
            let mut lines = explain::lines(of, watch, shown)?;
            let time = |(name, value): &(&str, f64)| format!("{name}: {value:.3} ms");
            lines.extend(times.iter().map(time));
            lines
        }
    })
}
