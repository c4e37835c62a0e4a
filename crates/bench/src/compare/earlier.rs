//! Workloads that an earlier comparison has measured: taken from its JSON instead of being run again,
//! so that hours of it may be made in parts.
//!
//! Invariants: what is taken was measured under the conditions of this plan: on the same machine, the same
//! builds of the same servers with the same settings, as long, as often, on tables of the same sizes, with the same
//! numbers of clients. Anything else is refused, and named. A workload is taken whole.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::Result;
use super::clients::Sample;
use super::machine;
use super::parse::{Latency, Told};
use super::rounds::{Measured, Plan, Series};
use super::workload::Workload;
use crate::cpu::Machine;

/// What `--json` has written.
pub struct Earlier {
    path: PathBuf,
    report: Value,
}

impl Earlier {
    /// Reads it, and refuses what was measured otherwise than is planned.
    pub fn read(path: &Path, plan: &Plan, machine: &str) -> Result<Earlier> {
        let named = |what: String| format!("{}: {what}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        let report: Value =
            serde_json::from_str(&text).map_err(|error| named(format!("no JSON: {error}")))?;
        let planned = plan.conditions();
        for (name, planned) in planned.as_object().into_iter().flatten() {
            let found = &report[name];
            if found != planned {
                return Err(named(format!("\"{name}\" is {found}, here {planned}")));
            }
        }
        let measured_on = report["machine"].as_str().unwrap_or_default();
        if !machine::is_same(measured_on, machine) {
            return Err(named(format!("measured on another machine ({measured_on})")));
        }
        Ok(Earlier { path: path.to_owned(), report })
    }

    /// Where it stands.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it has of the workload, if anything.
    pub fn take(&self, plan: &Plan, workload: &Workload) -> Result<Option<Measured>> {
        let results = self.report["results"].as_array();
        let found = results.into_iter().flatten().find(|it| it["workload"] == workload.name);
        let Some(found) = found else { return Ok(None) };
        let named = |what: &str| format!("{}: {}: {what}", self.path.display(), workload.name);
        let mut series: Vec<Series> = plan.series(workload);
        let stored = found["series"].as_array().map_or(&[][..], Vec::as_slice);
        let is_its = |(series, stored): (&Series, &Value)| {
            stored["clients"] == series.clients
                && stored["server"] == plan.contenders[series.contender].version.as_str()
        };
        if stored.len() != series.len() || !series.iter().zip(stored).all(is_its) {
            return Err(named("other servers, or other numbers of clients"));
        }
        for (series, stored) in series.iter_mut().zip(stored) {
            let rounds = stored["rounds"].as_array().into_iter().flatten();
            let samples: Option<Vec<Sample>> = rounds.map(sample).collect();
            let whole = samples.filter(|it| it.len() as u64 == plan.runs.rounds);
            series.samples = whole.ok_or_else(|| named("its rounds are not all there"))?;
        }
        let date = found["date"].as_str().ok_or_else(|| named("it has no date"))?.to_owned();
        Ok(Some(Measured { workload: *workload, date, series }))
    }
}

/// One round as JSON.
pub fn sample_json(sample: &Sample) -> Value {
    let Latency { mean, p50, p95, p99 } = sample.told.latency;
    json!({
        "tps": sample.told.per_second,
        "transactions": sample.told.transactions,
        "tpmc": sample.told.new_orders_per_minute,
        "failed": sample.told.failed,
        "unserved": sample.told.unserved,
        "latency_us": {"mean": mean, "p50": p50, "p95": p95, "p99": p99},
        "client_cpu_seconds": sample.client.as_secs_f64(),
        "server_cpu_seconds": sample.server.as_secs_f64(),
        "machine_seconds": sample.machine.json(),
    })
}

/// One round from its JSON; none if anything is missing.
fn sample(stored: &Value) -> Option<Sample> {
    let number = |pointer: &str| stored.pointer(pointer)?.as_f64();
    let count = |pointer: &str| stored.pointer(pointer)?.as_u64();
    let time = |pointer: &str| Duration::try_from_secs_f64(number(pointer)?).ok();
    Some(Sample {
        told: Told {
            transactions: count("/transactions")?,
            per_second: number("/tps")?,
            failed: count("/failed")?,
            // Older comparisons did not tell.
            unserved: match &stored["unserved"] {
                Value::Null => 0,
                told => told.as_u64()?,
            },
            latency: Latency {
                mean: number("/latency_us/mean")?,
                p50: number("/latency_us/p50")?,
                p95: number("/latency_us/p95")?,
                p99: number("/latency_us/p99")?,
            },
            // Older comparisons did not tell.
            new_orders_per_minute: match &stored["tpmc"] {
                Value::Null => None,
                told => Some(told.as_f64()?),
            },
        },
        client: time("/client_cpu_seconds")?,
        server: time("/server_cpu_seconds")?,
        machine: Machine {
            busy: time("/machine_seconds/busy")?,
            idle: time("/machine_seconds/idle")?,
            stolen: time("/machine_seconds/stolen")?,
        },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::compare::report::{Pictures, tests::comparison};
    use crate::compare::workload::ALL;

    /// What is read of the comparison's report when this was done to it.
    fn read(change: impl FnOnce(&mut Value)) -> Result<Option<Measured>> {
        let comparison = comparison();
        let mut report = comparison.json();
        change(&mut report);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.json");
        std::fs::write(&path, format!("{report:#}")).unwrap();
        Earlier::read(&path, &comparison.plan, "a machine; busier today")?
            .take(&comparison.plan, &ALL[0])
    }

    #[test]
    fn what_was_measured_before_is_taken_as_it_was() {
        let mut comparison = comparison();
        let (report, text) = (comparison.json(), comparison.markdown(Pictures::None));
        let taken = read(|_| {}).unwrap().unwrap();
        assert_eq!(taken.date, "2026-11-21");
        comparison.measured = vec![taken];
        assert_eq!(comparison.json(), report);
        assert_eq!(comparison.markdown(Pictures::None), text);
        let other = read(|it| it["results"][0]["workload"] = "tpcc".into());
        assert!(other.unwrap().is_none(), "it is not there, and is measured");
    }

    /// The repository's own, of which there may be older ones: they told no tpmC and nothing of arrivals that were not served.
    #[test]
    fn documented_comparisons_are_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compare.json");
        let text = std::fs::read_to_string(path).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        let mut rounds = 0;
        for result in report["results"].as_array().unwrap() {
            for series in result["series"].as_array().unwrap() {
                for round in series["rounds"].as_array().unwrap() {
                    let mut older = round.clone();
                    for later in ["tpmc", "unserved"] {
                        older.as_object_mut().unwrap().remove(later);
                    }
                    let taken = sample(&older).unwrap();
                    assert_eq!((taken.told.new_orders_per_minute, taken.told.unserved), (None, 0));
                    assert_eq!(sample_json(&taken)["tps"], round["tps"]);
                    assert!(sample(round).is_some());
                    rounds += 1;
                }
            }
        }
        assert!(rounds > 0);
        let mut wrong = report["results"][0]["series"][0]["rounds"][0].clone();
        wrong["tpmc"] = "many".into();
        assert!(sample(&wrong).is_none());
    }

    #[test]
    fn what_was_measured_otherwise_is_refused() {
        let refused = |change: fn(&mut Value), why: &str| {
            let said = read(change).err().unwrap();
            assert!(said.contains("all.json: ") && said.contains(why), "{said}");
        };
        refused(|it| it["seconds"] = 5.into(), "\"seconds\" is 5, here 60");
        refused(|it| it["rate"] = 7.5.into(), "\"rate\" is 7.5, here null");
        refused(|it| it["servers"][1]["settings"] = json!([]), "\"servers\" is ");
        refused(|it| it["servers"][0]["build"] = "00000000".into(), "\"build\":\"00000000\"");
        refused(|it| it["machine"] = "another; idle".into(), "another machine (another; idle)");
        refused(|it| it["results"][0]["series"][2]["clients"] = 16.into(), "numbers of clients");
        refused(|it| drop(it["results"][0]["series"][1]["rounds"][0].take()), "not all there");
        refused(|it| drop(it["results"][0]["date"].take()), "it has no date");
    }

    #[test]
    fn what_is_no_report_is_refused() {
        let comparison = comparison();
        let read = |path: &Path| Earlier::read(path, &comparison.plan, "a machine").err().unwrap();
        assert!(read(Path::new("/nonexistent/all.json")).contains("No such file"));
        assert!(read(Path::new("/proc/cpuinfo")).contains("no JSON"));
    }
}
