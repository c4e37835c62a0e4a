//! The ledger as text: totals by type of transaction, then the sites.
//!
//! Invariants: every figure is per transaction, but those of one line over the run; sites that are rarer than [`super::RARE`] are told
//! in one line. Columns are the types, work of no transaction (`none`), and all together.

use std::fmt;

use atoll_kernel::sync::ledger::What;

use super::{Cost, Costs, RARE, Site};

/// A total of the entries of these kinds.
macro_rules! of {
    ($name:expr, $what:pat, $shows:expr) => {
        Total {
            name: $name,
            counts: |what| matches!(what, $what) as u64,
            has_amount: |what| matches!(what, $what),
            shows: $shows,
        }
    };
}

/// What a total says of a kind of entries.
type Of<T> = fn(What) -> T;

/// A line of totals.
pub(super) struct Total {
    /// Its name.
    pub name: &'static str,
    /// How many of them an entry of a kind is.
    pub counts: Of<u64>,
    /// Whether an entry's amount is part of its amount.
    pub has_amount: Of<bool>,
    shows: Shows,
}

/// What is shown of a total besides how often.
enum Shows {
    /// Nothing.
    Nothing,
    /// How often shared.
    Shared,
    /// The amount, in this unit, and that of each.
    Amount(&'static str),
}

/// Every lock, taken or tried, and the time of all of them: what [`What::is_lock`] and
/// [`What::is_lock_time`] say.
pub(super) const ALL_LOCKS: Total = Total {
    name: "all locks",
    counts: |what| u64::from(what.is_lock()),
    has_amount: What::is_lock_time,
    shows: Shows::Amount("ns"),
};
/// Writes handed to the operating system.
pub(super) const WRITE_CALLS: Total = of!("write calls", What::Write, Shows::Amount("bytes"));
/// Syncs.
pub(super) const SYNCS: Total = of!("syncs", What::Sync, Shows::Nothing);

/// The totals, in order.
pub(super) const TOTALS: [Total; 12] = [
    Total {
        name: "read-modify-writes",
        counts: What::changes,
        has_amount: |_| false,
        shows: Shows::Shared,
    },
    of!("stores", What::Store, Shows::Shared),
    of!("latches", What::Latch, Shows::Nothing),
    of!("mutexes", What::Mutex, Shows::Nothing),
    of!("latch waits", What::LatchWait | What::MutexWait, Shows::Amount("ns")),
    of!("retries", What::Retry, Shows::Amount("ns")),
    of!("row locks", What::RowClaim, Shows::Amount("ns")),
    of!("row waits", What::RowWait, Shows::Amount("ns")),
    of!("table locks", What::TableLock, Shows::Amount("ns")),
    ALL_LOCKS,
    WRITE_CALLS,
    SYNCS,
];

const NAME: usize = 26;
const COLUMN: usize = 13;

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ledger, per transaction (shared: the cache line moved between cores)")?;
        write!(f, "  {:NAME$}", "")?;
        for name in self.names().chain(["all"]) {
            write!(f, " {:>COLUMN$}", name.replace('_', " "))?;
        }
        write!(f, "\n  {:NAME$}", "transactions")?;
        for count in &self.transactions {
            write!(f, " {count:>COLUMN$}")?;
        }
        writeln!(f, " {:>COLUMN$}", self.transactions())?;
        for total in &TOTALS {
            self.total(f, total)?;
        }
        writeln!(f, "  {}", self.over_run_line())?;
        self.by_site(f)
    }
}

impl Costs {
    fn total(&self, f: &mut fmt::Formatter<'_>, total: &Total) -> fmt::Result {
        let sums = self.sum(total);
        line(f, total.name, &sums, |cost| cost.times)?;
        match total.shows {
            Shows::Nothing => Ok(()),
            Shows::Shared => line(f, "  of which shared", &sums, |cost| cost.shared),
            Shows::Amount(unit) => {
                line(f, &format!("  {unit}"), &sums, |cost| cost.amount)?;
                line(f, &format!("  {unit} each"), &sums, |cost| cost.each())
            }
        }
    }

    /// What evaluations of other systems report, of the whole run.
    fn over_run_line(&self) -> String {
        let [locks, writes, syncs] = [&ALL_LOCKS, &WRITE_CALLS, &SYNCS].map(|it| self.over_run(it));
        format!(
            "over the run: {:.0} locks, {:.3} ms, {} ns each; {:.0} write calls, {:.0} bytes, \
             {} bytes each; {:.0} syncs",
            locks.times,
            locks.amount / 1e6,
            figure(locks.each()),
            writes.times,
            writes.amount,
            figure(writes.each()),
            syncs.times
        )
    }

    /// The totals as a table of Markdown.
    pub(super) fn totals(&self) -> String {
        let names: Vec<String> =
            self.names().chain(["all"]).map(|name| name.replace('_', " ")).collect();
        let mut text =
            format!("| | {} |\n|{}\n", names.join(" | "), " --- |".repeat(names.len() + 1));
        let mut line = |name: &str, of: &dyn Fn(Cost) -> f64, sums: &[Cost]| {
            let cells: Vec<String> = sums.iter().map(|cost| figure(of(*cost))).collect();
            text.push_str(&format!("| {name} | {} |\n", cells.join(" | ")));
        };
        for total in &TOTALS {
            let sums = self.sum(total);
            line(total.name, &|cost| cost.times, &sums);
            match total.shows {
                Shows::Nothing => {}
                Shows::Shared => {
                    line(&format!("{}, shared", total.name), &|cost| cost.shared, &sums);
                }
                Shows::Amount(unit) => {
                    line(&format!("{}, {unit}", total.name), &|cost| cost.amount, &sums);
                    line(&format!("{}, {unit} each", total.name), &|cost| cost.each(), &sums);
                }
            }
        }
        let run = self.over_run_line();
        text.push_str(&format!("\nO{}.\n", &run[1..]));
        text
    }

    fn by_site(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  by site: how often / how often shared (or ns, bytes)")?;
        let (mut shown, rare): (Vec<&Site>, Vec<&Site>) =
            self.sites().partition(|site| self.is_met(site, RARE));
        shown.sort_by(|a, b| {
            let (a, b) = (self.all(a), self.all(b));
            b.shared.total_cmp(&a.shared).then(b.times.total_cmp(&a.times))
        });
        for site in shown {
            write!(f, "  {:NAME$}", "")?;
            let mut costs = self.by_label(site);
            costs.push(self.all(site));
            for cost in costs {
                write!(f, " {:>COLUMN$}", pair(site.what, cost))?;
            }
            writeln!(f, "  {site}")?;
        }
        let mut sum = Cost::default();
        rare.iter().for_each(|site| sum.add(self.all(site)));
        write!(
            f,
            "  and {} sites met less than once in {:.0} transactions: {:.4} together, {:.4} shared",
            rare.len(),
            1.0 / RARE,
            sum.times,
            sum.shared
        )
    }
}

fn line(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    costs: &[Cost],
    of: impl Fn(Cost) -> f64,
) -> fmt::Result {
    write!(f, "  {name:NAME$}")?;
    for cost in costs {
        write!(f, " {:>COLUMN$}", figure(of(*cost)))?;
    }
    writeln!(f)
}

/// How often, and how often shared or how much.
pub(super) fn pair(what: What, cost: Cost) -> String {
    if cost.times == 0.0 {
        return "-".to_owned();
    }
    let second = if what.writes_a_word() { cost.shared } else { cost.amount };
    format!("{}/{}", figure(cost.times), figure(second))
}

/// Three figures that say something.
pub(super) fn figure(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value if value >= 0.001 => format!("{value:.3}"),
        _ => "<.001".to_owned(),
    }
}
