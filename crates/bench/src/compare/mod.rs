//! `atoll bench compare`: Atoll beside other servers, with the same clients on the same machine.
//!
//! `contender` finds (`install` installs) the servers, `engine` knows how each kind is started,
//! `server` keeps one running, `clients` runs pgbench, sysbench and our own drivers and `parse`
//! reads what they print, `rounds` lets the servers take turns, `figures` draws medians and ratios
//! from it, `report`, `plot` and `output` write them down. `process` is how all programs are run.
//!
//! Invariants: nothing is written before everything has been measured; every error is one line;
//! no process that was started here outlives the comparison, and no other is signalled.

pub mod clients;
pub mod contender;
pub mod engine;
pub mod figures;
pub mod install;
pub mod machine;
pub mod output;
pub mod parse;
pub mod plot;
pub mod process;
pub mod report;
pub mod rounds;
pub mod server;
pub mod workload;

use std::path::{Path, PathBuf};

use output::{Document, Staged};
use process::Watch;
use report::{Comparison, Pictures};
use rounds::Plan;

use crate::cpu;

/// What went wrong, as one line for a person.
pub type Result<T> = std::result::Result<T, String>;

/// The folder of pictures, beside the document.
const PICTURES: &str = "plots";

/// Where a comparison is written.
#[derive(Default)]
pub struct Targets {
    /// A document with a section for it; pictures go to `plots` beside it.
    pub document: Option<PathBuf>,
    /// A file for JSON.
    pub json: Option<PathBuf>,
}

/// Compares, and writes what came of it. Nothing is written if anything fails. The report is also
/// answered, as Markdown.
pub fn run(
    plan: Plan,
    command: String,
    targets: &Targets,
    watch: &Watch<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<String> {
    plan.validate()?;
    // Before hours go by: a document that cannot take the report is refused now.
    let document = targets.document.as_deref().map(Document::read).transpose()?;
    if let Some(parent) = targets.json.as_deref().and_then(Path::parent)
        && !(parent.as_os_str().is_empty() || parent.is_dir())
    {
        return Err(format!("{}: there is no such folder", parent.display()));
    }
    let within = plan.folder.parent().unwrap_or(Path::new("/"));
    let machine = machine::describe(within)?;
    let names: Vec<&str> = plan.contenders.iter().map(|it| it.version.as_str()).collect();
    say(&format!("comparing {}", names.join(", ")));
    say(&format!(
        "clients will run for {} minutes, and loading comes to that",
        plan.seconds() / 60
    ));
    let measured = plan.run(watch, say)?;
    watch.check()?;
    let comparison = Comparison { plan, measured, command, machine, date: machine::today() };
    write(&comparison, document, targets)
}

/// Writes everything beside its place, and then moves it there.
fn write(comparison: &Comparison, document: Option<Document>, targets: &Targets) -> Result<String> {
    let mut staged = Staged::default();
    let Some(document) = document else {
        if let Some(path) = &targets.json {
            staged.add(path, &format!("{:#}\n", comparison.json()))?;
        }
        staged.publish()?;
        return Ok(comparison.markdown(Pictures::None));
    };
    let pictures = document.path().with_file_name(PICTURES);
    std::fs::create_dir_all(&pictures)
        .map_err(|error| format!("{}: {error}", pictures.display()))?;
    for measured in &comparison.measured {
        let path = pictures.join(Comparison::picture(measured));
        staged.add(&path, &comparison.svg(measured))?;
    }
    if let Some(path) = &targets.json {
        staged.add(path, &format!("{:#}\n", comparison.json()))?;
    }
    let report = comparison.markdown(Pictures::In(PICTURES));
    staged.add(document.path(), &document.with(&report))?;
    staged.publish()?;
    Ok(report)
}
