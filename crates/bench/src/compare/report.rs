//! What a comparison says: Markdown for people, JSON for programs, a plot for every workload.
//!
//! Invariants: every figure stands with what it was measured on: machine, settings, lengths,
//! rounds, command. The subject's row comes first; ratios stand in the rows of the others.

use std::fmt::Write;

use serde_json::{Value, json};

use super::earlier::sample_json;
use super::figures::{Against, Figures, Spread};
use super::plot::{self, Line};
use super::rounds::{Measured, Plan, Series};
use super::workload::Tool;
use crate::arrivals;
use crate::picture::number;

/// What the host takes away is told from so much on.
const STOLEN_PERCENT_TOLD: f64 = 2.0;

/// Everything that is reported.
pub struct Comparison {
    /// What was compared, and how.
    pub plan: Plan,
    /// What came of it.
    pub measured: Vec<Measured>,
    /// The command line.
    pub command: String,
    /// The machine, in a line.
    pub machine: String,
    /// When, as 2026-11-22.
    pub date: String,
}

/// Where pictures are, seen from the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pictures<'a> {
    /// In this folder.
    In(&'a str),
    /// Nowhere.
    None,
}

impl Comparison {
    /// The name of a workload's picture.
    pub fn picture(measured: &Measured) -> String {
        format!("compare-{}.svg", measured.workload.name)
    }

    /// Whether clients ran through, so that what they say of latencies, and its picture, tell something.
    pub fn tells_latencies(&self) -> bool {
        self.plan.runs.pace.slice().is_none()
    }

    /// A workload's picture.
    pub fn svg(&self, measured: &Measured) -> String {
        let all: Vec<(&Series, Figures)> =
            measured.series.iter().map(|it| (it, Figures::of(&it.samples))).collect();
        let place =
            |series: &Series| self.plan.runs.clients.iter().position(|it| *it == series.clients);
        let contenders = self.plan.contenders.iter().enumerate();
        let lines = contenders.filter_map(|(at, contender)| {
            let its = all.iter().filter(|(series, _)| series.contender == at);
            let points: Vec<(usize, &Figures)> =
                its.filter_map(|(series, figures)| Some((place(series)?, figures))).collect();
            (!points.is_empty()).then(|| Line { name: &contender.version, points })
        });
        let lines: Vec<Line<'_>> = lines.collect();
        plot::svg(measured.workload.name, &self.plan.runs.clients, &lines)
    }

    /// The section of a document.
    pub fn markdown(&self, pictures: Pictures<'_>) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write_head(&mut out);
        for measured in &self.measured {
            let _ = self.write_workload(&mut out, measured, pictures);
        }
        out
    }

    fn write_head(&self, out: &mut String) -> std::fmt::Result {
        let (plan, length) = (&self.plan, self.plan.runs.length);
        let versions: Vec<&str> = plan.contenders.iter().map(|it| it.version.as_str()).collect();
        let Some((subject, others)) = versions.split_first() else { return Ok(()) };
        let text = format!(
            "## {subject} beside {}\n\n`{}`, {}, on {}.\n\n\
             Runs of {} s after {} s of warm-up, over unix sockets, {}; rounds: {}. {} Every workload begins \
             with new servers and newly loaded tables: {}. Medians of the rounds, the least and the \
             most in parentheses.\n\n\
             Processor times are microseconds a transaction. *Client* is the client program's, \
             *server* that of the server's processes (with its io_uring workers), *with kernel* that \
             of the whole machine without the client's, so with the kernel's threads and interrupts \
             (*CPU ratio* is of that); *busy* is the share of the processors in use. *Ceiling* is \
             (c + s) / c, c being {subject}'s client and s the other's server with kernel: what the ratio would be if {subject} cost \
             nothing and all processors were busy.\n",
            others.join(" and "),
            self.command,
            self.date,
            self.machine,
            length.seconds,
            length.warmup_seconds,
            self.how_begun(),
            plan.runs.rounds,
            self.how_in_turns(),
            self.sizes(),
        );
        writeln!(out, "{}", wrapped(&text))?;
        writeln!(out, "| server | settings |\n| --- | --- |")?;
        for contender in &plan.contenders {
            let settings = contender.engine.settings(&plan.tuning).join(", ");
            writeln!(out, "| {} | `{settings}` |", contender.version)?;
        }
        Ok(())
    }

    /// When clients begin transactions.
    fn how_begun(&self) -> String {
        let rate = self.plan.runs.pace.rate();
        let told = arrivals::told(rate);
        match rate {
            None => told,
            Some(_) => {
                format!("{told} (pgbench's by Poisson's law, ours even) from which latencies count")
            }
        }
    }

    /// How servers follow each other.
    fn how_in_turns(&self) -> String {
        match self.plan.runs.pace.slice() {
            None => "In a round the servers take turns, who begins changes, and those who wait are paused."
                .to_owned(),
            Some(slice) => format!(
                "In a round all are under way at once, in slices of about {} ms in which all but one are stopped with \
                 their clients; who begins changes. Figures are of a server's own slices; latencies are not told, for \
                 clients were stopped within transactions.",
                slice.as_millis()
            ),
        }
    }

    /// How large the tables of what was run are.
    fn sizes(&self) -> String {
        let sizes = self.plan.sizes;
        let runs = |is: fn(&Tool) -> bool| self.plan.runs.workloads.iter().any(|it| is(&it.tool));
        let mut told = Vec::new();
        if runs(|it| matches!(it, Tool::Pgbench(_))) {
            told.push(format!("pgbench's scale {}", sizes.scale));
        }
        if runs(|it| matches!(it, Tool::Sysbench(_))) {
            let rows = number(sizes.table_rows as f64);
            told.push(format!("sysbench's {} tables of {rows} rows", sizes.tables));
        }
        if runs(|it| matches!(it, Tool::GoTpc | Tool::Own("tpcc"))) {
            told.push(format!("{} warehouses", sizes.warehouses));
        }
        if runs(|it| matches!(it, Tool::Own(name) if *name != "tpcc")) {
            told.push("what `atoll bench` loads by default".to_owned());
        }
        told.join(", ")
    }

    fn write_workload(
        &self,
        out: &mut String,
        measured: &Measured,
        pictures: Pictures<'_>,
    ) -> std::fmt::Result {
        let name = measured.workload.name;
        writeln!(out, "\n### {name}\n")?;
        let all: Vec<Figures> =
            measured.series.iter().map(|series| Figures::of(&series.samples)).collect();
        let is_tpcc = all.iter().any(|it| it.new_orders_per_minute.is_some());
        writeln!(
            out,
            "| clients | server | per second |{} ratio | ceiling | p50, p95, p99 (us) | client | server \
             | with kernel | CPU ratio | busy |",
            if is_tpcc { " tpmC |" } else { "" }
        )?;
        writeln!(out, "|{}", " --- |".repeat(11 + usize::from(is_tpcc)))?;
        for (series, figures) in measured.series.iter().zip(&all) {
            let against = against(measured, series);
            let faster = against.map_or_else(String::new, |it| ratio(it.ratio));
            let ceiling = against.and_then(|it| it.ceiling);
            let cpu_ratio = against.map_or_else(String::new, |it| ratio(it.cpu_ratio));
            let [_, p50, p95, p99] = figures.latency.map(number);
            let latencies =
                if self.tells_latencies() { format!("{p50}, {p95}, {p99}") } else { String::new() };
            writeln!(
                out,
                "| {} | {} | {} |{} {faster} | {} | {latencies} | {:.1} | {:.1} | {:.1} | \
                 {cpu_ratio} | {:.0} % |",
                series.clients,
                self.plan.contenders[series.contender].version,
                spread(figures.per_second),
                match figures.new_orders_per_minute {
                    Some(a_minute) => format!(" {} |", spread(a_minute)),
                    None if is_tpcc => "  |".to_owned(),
                    None => String::new(),
                },
                ceiling.map_or_else(String::new, |it| format!("{it:.1}")),
                figures.client_us,
                figures.server_us.median,
                figures.server_and_kernel_us.median,
                figures.busy_percent,
            )?;
        }
        let remarks = self.remarks(measured);
        if !remarks.is_empty() {
            write!(out, "\n{}", wrapped(&remarks.join(" ")))?;
        }
        if let Pictures::In(folder) = pictures {
            writeln!(out, "\n![{name}]({folder}/{})", Self::picture(measured))?;
        }
        Ok(())
    }

    /// What a reader must know about single runs, a sentence each.
    fn remarks(&self, measured: &Measured) -> Vec<String> {
        let of = |say: &dyn Fn(&Figures) -> Option<String>| -> Vec<String> {
            let one = |series: &Series| {
                let who = &self.plan.contenders[series.contender].version;
                let told = say(&Figures::of(&series.samples))?;
                Some(format!("{who} with {} clients {told}", series.clients))
            };
            measured.series.iter().filter_map(one).collect()
        };
        let failed = of(&|it| (it.failed > 0).then(|| number(it.failed as f64)));
        let stolen = of(&|it| {
            let percent = it.stolen_percent;
            (percent >= STOLEN_PERCENT_TOLD).then(|| format!("{percent:.0} %"))
        });
        let unserved = of(&|it| (it.unserved > 0).then(|| number(it.unserved as f64)));
        let all = [
            ("Tries that failed", failed),
            ("Arrivals not served, more than can be done", unserved),
            ("Processors taken away by the host", stolen),
        ];
        let told = all.into_iter().filter(|it| !it.1.is_empty());
        let told = told.map(|(what, which)| format!("{what}: {}.", which.join("; ")));
        let date = (measured.date != self.date).then(|| format!("Measured {}.", measured.date));
        date.into_iter().chain(told).collect()
    }

    /// Everything, single rounds included.
    pub fn json(&self) -> Value {
        let results = self.measured.iter().map(|measured| {
            let series = measured.series.iter().map(|it| self.series_json(measured, it));
            json!({
                "workload": measured.workload.name,
                "date": measured.date,
                "series": series.collect::<Vec<_>>(),
            })
        });
        let mut report = self.plan.conditions();
        report["command"] = self.command.as_str().into();
        report["date"] = self.date.as_str().into();
        report["machine"] = self.machine.as_str().into();
        report["results"] = results.collect();
        report
    }

    fn series_json(&self, measured: &Measured, series: &Series) -> Value {
        let figures = Figures::of(&series.samples);
        let [mean, p50, p95, p99] = figures.latency;
        let latencies = json!({"mean": mean, "p50": p50, "p95": p95, "p99": p99});
        let against = against(measured, series).map(|it| {
            json!({
                "ratio": spread_json(it.ratio),
                "server_cpu_ratio": spread_json(it.cpu_ratio),
                "ceiling": it.ceiling,
            })
        });
        json!({
            "server": self.plan.contenders[series.contender].version,
            "clients": series.clients,
            "tps": spread_json(figures.per_second),
            "tpmc": figures.new_orders_per_minute.map(spread_json),
            "latency_us": self.tells_latencies().then_some(latencies),
            "failed": figures.failed,
            "unserved": figures.unserved,
            "client_cpu_us_per_txn": figures.client_us,
            "server_cpu_us_per_txn": spread_json(figures.server_us),
            "server_and_kernel_cpu_us_per_txn": spread_json(figures.server_and_kernel_us),
            "busy_percent": figures.busy_percent,
            "stolen_percent": figures.stolen_percent,
            "subject_against_this": against,
            "rounds": series.samples.iter().map(sample_json).collect::<Vec<_>>(),
        })
    }
}

/// The subject with as many clients beside this series, unless it is the subject's own.
fn against(measured: &Measured, series: &Series) -> Option<Against> {
    if series.contender == 0 {
        return None;
    }
    let mut all = measured.series.iter();
    let subject = all.find(|it| it.contender == 0 && it.clients == series.clients)?;
    Some(Against::of(&subject.samples, &series.samples))
}

fn spread(it: Spread) -> String {
    format!("{} ({} to {})", number(it.median), number(it.least), number(it.most))
}

/// A ratio with its spread, for people.
pub fn ratio(it: Spread) -> String {
    format!("{:.2} ({:.2} to {:.2})", it.median, it.least, it.most)
}

/// A spread as JSON.
pub fn spread_json(it: Spread) -> Value {
    json!({"median": it.median, "least": it.least, "most": it.most})
}

/// Lines of at most 120 characters, as documents have them; paragraphs stay apart.
pub fn wrapped(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut length = 0;
        for word in line.split(' ') {
            let width = word.chars().count();
            if length > 0 && length + 1 + width > 120 {
                out.push('\n');
                length = 0;
            } else if length > 0 {
                out.push(' ');
                length += 1;
            }
            out.push_str(word);
            length += width;
        }
        out.push('\n');
    }
    out.trim_end().to_owned() + "\n"
}

#[cfg(test)]
#[path = "report_tests.rs"]
pub(super) mod tests;
