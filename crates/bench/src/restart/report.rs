//! What was measured of starts: Markdown for people, JSON for programs.
//!
//! Invariants: every figure stands with what it was measured on: machine, settings, work, rounds, command.
//! The subject's row comes first; ratios are the subject's time by that of the row they stand in, so below
//! one the subject answers sooner.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Plan;
use super::start::{ASK_EVERY, PAUSE, QUESTION, Start};
use crate::compare::figures::Spread;
use crate::compare::report::{ratio, spread_json, wrapped};
use crate::picture::number;

/// What came of one server.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Transactions that were acknowledged since its checkpoint.
    pub transactions: u64,
    /// Seconds that they took.
    pub seconds: f64,
    /// Bytes of the files of its log that were written to since.
    pub log_bytes: u64,
    /// One a round.
    pub starts: Vec<Start>,
}

impl Measured {
    fn spread(&self, of: impl Fn(&Start) -> f64) -> Spread {
        Spread::of(self.starts.iter().map(of))
    }

    /// From the start of the program to the first answer.
    fn answer(&self) -> Spread {
        self.spread(|it| it.seconds)
    }

    /// Of replay; none where not every start told.
    fn replay(&self) -> Option<Spread> {
        let all: Option<Vec<f64>> = self.starts.iter().map(|it| it.replay).collect();
        all.filter(|it| !it.is_empty()).map(Spread::of)
    }

    /// The subject's time by this one's: of medians, the least and the most of single rounds.
    fn ratio_of(&self, subject: &Measured) -> Spread {
        let rounds = subject.starts.iter().zip(&self.starts);
        let rounds = Spread::of(rounds.map(|(a, b)| a.seconds / b.seconds));
        Spread { median: subject.answer().median / self.answer().median, ..rounds }
    }
}

/// Everything that is reported.
pub struct Report {
    /// What was measured, and how.
    pub plan: Plan,
    /// By contender.
    pub measured: Vec<Measured>,
    /// The command line.
    pub command: String,
    /// The machine, in a line.
    pub machine: String,
    /// When, as 2026-11-22.
    pub date: String,
}

impl Report {
    /// The section of a document.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let versions: Vec<&str> =
            self.plan.contenders.iter().map(|it| it.version.as_str()).collect();
        let Some((subject, others)) = versions.split_first() else { return Ok(()) };
        let title = format!("### Restart after SIGKILL: {subject} beside {}", others.join(" and "));
        writeln!(out, "{title}\n\n{}", wrapped(&self.how()))?;
        writeln!(out, "| server | settings |\n| --- | --- |")?;
        for contender in &self.plan.contenders {
            let settings = contender.engine.settings(&self.plan.tuning).join(", ");
            writeln!(out, "| {} | `{settings}` |", contender.version)?;
        }
        writeln!(
            out,
            "\n| server | log (MB) | first answer (s) | ratio | rounds (s) | of which replay (s) | processor time \
             (s) | the work took (s) |"
        )?;
        writeln!(out, "|{}", " --- |".repeat(8))?;
        for (at, measured) in self.measured.iter().enumerate() {
            let rounds = measured.starts.iter().map(|it| format!("{:.2}", it.seconds));
            let against = match at {
                0 => String::new(),
                _ => ratio(measured.ratio_of(&self.measured[0])),
            };
            writeln!(
                out,
                "| {} | {} | {} | {against} | {} | {} | {} | {:.0} |",
                versions[at],
                number(measured.log_bytes as f64 / 1e6),
                ratio(measured.answer()),
                rounds.collect::<Vec<_>>().join(", "),
                measured.replay().map_or_else(String::new, ratio),
                ratio(measured.spread(|it| it.cpu)),
                measured.seconds,
            )?;
        }
        self.write_told(out)
    }

    /// What was done, as prose.
    fn how(&self) -> String {
        let plan = &self.plan;
        let done = self.measured.first().map_or(0, |it| it.transactions);
        format!(
            "`{}`, {}, on {}.\n\n\
             {} transactions of pgbench's TPC-B-like (`pgbench -n -M prepared -c {} -j 2 -t {}`) after `pgbench -i -s {}` \
             and CHECKPOINT, and no checkpoint since; then SIGKILL to all processes of the server. In each of {} \
             rounds every server is started on a copy of what that left; who begins changes. Before a start the \
             copy is synced, {} MiB of memory are touched and freed, and {} seconds pass. *First answer*: from \
             the start of the program to the answer to `{QUESTION}`, asked for every {} ms. Each answer was the \
             sum of pgbench_history, which had a row for each acknowledged transaction and no other. *Log*: of \
             its files those that were written to after the checkpoint, each whole. *Ratio*: {}'s time by that \
             of the row. *Replay* is what servers say of it, *processor time* that of the server until the \
             answer. Medians of the rounds, the least and the most in parentheses.\n",
            self.command,
            self.date,
            self.machine,
            number(done as f64),
            plan.clients,
            plan.each(),
            plan.scale,
            plan.rounds,
            plan.touch_bytes >> 20,
            PAUSE.as_secs(),
            ASK_EVERY.as_millis(),
            plan.contenders.first().map_or("", |it| it.version.as_str()),
        )
    }

    /// The servers' own words of their last recovery.
    fn write_told(&self, out: &mut String) -> std::fmt::Result {
        let all = self.plan.contenders.iter().zip(&self.measured);
        let told = all.filter_map(|(contender, measured)| {
            let last = measured.starts.last().filter(|it| !it.told.is_empty())?;
            let lines = last.told.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>();
            Some(format!("{} in the last round: {}.", contender.version, lines.join(", ")))
        });
        let told: Vec<String> = told.collect();
        if told.is_empty() {
            return Ok(());
        }
        write!(out, "\n{}", wrapped(&told.join("\n\n")))
    }

    /// Everything, single rounds included.
    pub fn json(&self) -> Value {
        let plan = &self.plan;
        let all = plan.contenders.iter().zip(&self.measured).enumerate();
        let servers = all.map(|(at, (contender, measured))| {
            let rounds = measured.starts.iter().map(|it| {
                json!({
                    "first_answer_seconds": it.seconds,
                    "server_cpu_seconds": it.cpu,
                    "replay_seconds": it.replay,
                    "told": it.told,
                })
            });
            let ratio = (at > 0).then(|| spread_json(measured.ratio_of(&self.measured[0])));
            json!({
                "server": contender.version,
                "settings": contender.engine.settings(&plan.tuning),
                "transactions": measured.transactions,
                "transactions_seconds": measured.seconds,
                "log_bytes": measured.log_bytes,
                "first_answer_seconds": spread_json(measured.answer()),
                "replay_seconds": measured.replay().map(spread_json),
                "subject_against_this": ratio,
                "rounds": rounds.collect::<Vec<_>>(),
            })
        });
        json!({
            "benchmark": "restart",
            "command": self.command,
            "date": self.date,
            "machine": self.machine,
            "scale": plan.scale,
            "clients": plan.clients,
            "rounds": plan.rounds,
            "touched_bytes": plan.touch_bytes,
            "servers": servers.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
