//! `atoll bench compare`: Atoll beside other servers, with the same clients on the same machine.
//!
//! `contender` finds (`install` installs) the servers, `engine` knows how each kind is started,
//! `server` keeps one running, `clients` runs pgbench, sysbench, go-tpc (`go_tpc`) and our own drivers and `parse`
//! reads what they print, `runs` says what is run, `rounds` lets the servers take turns (`slices` by fifths of a second), `earlier` takes what was measured before,
//! `figures` draws medians and ratios from it, `report`, `plot` and `output` write them down. `process` is
//! how all programs are run.
//!
//! Invariants: no document is written before everything has been measured; JSON is, whole, after each
//! workload. Every error is one line; no process that was started here outlives the comparison, and no other
//! is signalled.

pub mod clients;
pub mod contender;
pub mod earlier;
pub mod engine;
pub mod figures;
pub mod go_tpc;
pub mod install;
pub mod machine;
pub mod output;
pub mod own;
pub mod parse;
pub mod plot;
pub mod process;
pub mod report;
pub mod rounds;
pub mod runs;
pub mod server;
pub mod slices;
pub mod workload;

use std::path::{Path, PathBuf};

use earlier::Earlier;
use output::{Document, Marks, Staged};
use process::Watch;
use report::{Comparison, Pictures};
use rounds::{Measured, Plan};

use serde_json::Value;

use crate::cpu;

/// What went wrong, as one line for a person.
pub type Result<T> = std::result::Result<T, String>;

/// A picture's name, and its SVG.
pub type Picture = (String, String);

/// The folder of pictures, beside the document.
pub(crate) const PICTURES: &str = "plots";

/// Where a comparison is written.
#[derive(Default)]
pub struct Targets {
    /// A document with a section for it; pictures go to `plots` beside it.
    pub document: Option<PathBuf>,
    /// A file for JSON.
    pub json: Option<PathBuf>,
}

impl Targets {
    /// The document, with the place between these marks; an error if one of the two cannot be written.
    pub fn check(&self, marks: Marks) -> Result<Option<Document>> {
        let read = |path: &Path| Document::read(path, marks);
        let document = self.document.as_deref().map(read).transpose()?;
        let mut trial = Staged::default();
        for path in self.json.iter().chain(&self.document) {
            trial.add(path, "")?;
        }
        Ok(document)
    }

    /// Writes everything beside its place, and then moves it there: the JSON, and a document with its report and
    /// pictures.
    pub fn publish(
        &self,
        json: &Value,
        document: Option<(Document, &str, &[Picture])>,
    ) -> Result<()> {
        let mut staged = Staged::default();
        if let Some(path) = &self.json {
            staged.add(path, &format!("{json:#}\n"))?;
        }
        if let Some((document, report, pictures)) = document {
            let folder = document.path().with_file_name(PICTURES);
            if !pictures.is_empty() {
                std::fs::create_dir_all(&folder)
                    .map_err(|error| format!("{}: {error}", folder.display()))?;
            }
            for (name, svg) in pictures {
                staged.add(&folder.join(name), svg)?;
            }
            staged.add(document.path(), &document.with(report))?;
        }
        staged.publish()
    }
}

/// Compares, and writes what came of it; workloads that are in the JSON of an earlier comparison are taken
/// from there. No document is written if anything fails. The report is also answered, as Markdown.
pub fn run(
    plan: Plan,
    command: String,
    (earlier, targets): (&[PathBuf], &Targets),
    watch: &Watch<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<String> {
    // Before hours go by: a document that cannot take the report is refused now.
    let document = targets.check(Marks::COMPARE)?;
    let within = plan.folder.parent().unwrap_or(Path::new("/"));
    let machine = machine::describe(within)?;
    let names: Vec<&str> = plan.contenders.iter().map(|it| it.version.as_str()).collect();
    say(&format!("comparing {}", names.join(", ")));
    let taken = take(earlier, &plan, &machine, say)?;
    let left = plan.runs.workloads.iter().zip(&taken).filter(|(_, taken)| taken.is_none());
    let minutes = left.map(|(it, _)| plan.seconds(it)).sum::<u64>() / 60;
    say(&format!("clients will run for {minutes} minutes, and loading comes to that"));
    let workloads = plan.runs.workloads.clone();
    let (measured, date) = (Vec::new(), machine::today());
    let mut comparison = Comparison { plan, measured, command, machine, date };
    for (workload, taken) in workloads.iter().zip(taken) {
        let measured = match taken {
            Some(taken) => taken,
            None => comparison.plan.run(workload, watch, say)?,
        };
        comparison.measured.push(measured);
        watch.check()?;
        // What has been measured so far.
        targets.publish(&comparison.json(), None)?;
    }
    write(&comparison, document, targets)
}

/// What of the plan has been measured before, by workload.
fn take(
    earlier: &[PathBuf],
    plan: &Plan,
    machine: &str,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Option<Measured>>> {
    let read = |path: &PathBuf| Earlier::read(path, plan, machine);
    let earlier: Vec<Earlier> = earlier.iter().map(read).collect::<Result<_>>()?;
    let mut all = Vec::new();
    for workload in &plan.runs.workloads {
        let mut taken = None;
        for earlier in &earlier {
            if taken.is_none()
                && let Some(found) = earlier.take(plan, workload)?
            {
                say(&format!("{}: taken from {}", workload.name, earlier.path().display()));
                taken = Some(found);
            }
        }
        all.push(taken);
    }
    Ok(all)
}

/// Writes everything beside its place, and then moves it there.
fn write(comparison: &Comparison, document: Option<Document>, targets: &Targets) -> Result<String> {
    let draws = comparison.tells_latencies();
    let report = comparison.markdown(match document {
        Some(_) if draws => Pictures::In(PICTURES),
        _ => Pictures::None,
    });
    let drawn = |measured| (Comparison::picture(measured), comparison.svg(measured));
    let pictures: Vec<_> = comparison.measured.iter().filter(|_| draws).map(drawn).collect();
    targets.publish(&comparison.json(), document.map(|it| (it, report.as_str(), &*pictures)))?;
    Ok(report)
}
