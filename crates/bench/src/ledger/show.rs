//! The ledger as text: totals by type of transaction, then the sites.
//!
//! Invariants: every figure is per transaction; sites that are rarer than [`super::RARE`] are told
//! in one line. Columns are the types, work of no transaction (`none`), and all together.

use std::fmt;

use atoll_kernel::sync::ledger::What;

use super::{Cost, Costs, RARE, Site};

/// A line of totals.
pub(super) struct Total {
    /// Its name.
    pub name: &'static str,
    /// What it sums.
    pub of: fn(What) -> bool,
    /// What its amount is, if it is shown.
    unit: Option<&'static str>,
}

/// The totals, in order.
pub(super) const TOTALS: [Total; 9] = [
    Total { name: "read-modify-writes", of: |what| what.changes() > 0, unit: None },
    Total { name: "stores", of: |what| matches!(what, What::Store), unit: None },
    Total {
        name: "latch waits",
        of: |what| matches!(what, What::LatchWait | What::MutexWait),
        unit: Some("ns"),
    },
    Total { name: "retries", of: |what| matches!(what, What::Retry), unit: Some("ns") },
    Total { name: "row locks", of: |what| matches!(what, What::RowClaim), unit: Some("ns") },
    Total { name: "row waits", of: |what| matches!(what, What::RowWait), unit: Some("ns") },
    Total { name: "table locks", of: |what| matches!(what, What::TableLock), unit: Some("ns") },
    Total { name: "write calls", of: |what| matches!(what, What::Write), unit: Some("bytes") },
    Total { name: "syncs", of: |what| matches!(what, What::Sync), unit: None },
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
        self.by_site(f)
    }
}

impl Costs {
    fn total(&self, f: &mut fmt::Formatter<'_>, total: &Total) -> fmt::Result {
        let sums = self.sum(total.of);
        line(f, total.name, &sums, |cost| cost.times)?;
        if total.unit.is_none() && total.name != "syncs" {
            line(f, "  of which shared", &sums, |cost| cost.shared)?;
        }
        if let Some(unit) = total.unit {
            line(f, &format!("  {unit}"), &sums, |cost| cost.amount)?;
            line(f, &format!("  {unit} each"), &sums, |cost| cost.each())?;
        }
        Ok(())
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
            let sums = self.sum(total.of);
            line(total.name, &|cost| cost.times, &sums);
            match total.unit {
                Some(unit) => {
                    line(&format!("{}, {unit}", total.name), &|cost| cost.amount, &sums);
                    line(&format!("{}, {unit} each", total.name), &|cost| cost.each(), &sums);
                }
                None if total.name == "syncs" => {}
                None => line(&format!("{}, shared", total.name), &|cost| cost.shared, &sums),
            }
        }
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
