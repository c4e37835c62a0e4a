//! What the kernel's ledger counted while a run was measured, per transaction (kernel.md section
//! 12): for people, as JSON, and as the table of docs/scaling.md.
//!
//! Invariants: a figure of a type is divided by the transactions of that type, one of all (and
//! work of no transaction: flushes, collection, mail) by all transactions. *Shared* is what the
//! ledger measured: writes whose cache line moved between cores. A build without feature `ledger`
//! counts nothing, and has none of this.

mod known;
mod show;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use atoll_kernel::sync::ledger::{self, Ledger, What};
use serde_json::{Value, json};
use show::Total;

pub use known::{Class, Known, KnownSite, Unknown};

/// Sites that are met less often than once in so many transactions of every type are not on the
/// hot path: they are shown together.
pub const RARE: f64 = 0.001;

/// Counts from its making on.
pub struct Counting(Option<Ledger>);

impl Counting {
    /// From now on.
    pub fn begin() -> Counting {
        Counting(ledger::read())
    }

    /// Until now, of a workload with these kinds; none in a build that does not count. An error if
    /// transactions of other kinds ran meanwhile (the ledger is the process's).
    pub fn end(self, kinds: &'static [&'static str]) -> Result<Option<Costs>, String> {
        match (self.0, ledger::read()) {
            (Some(before), Some(after)) => Costs::new(kinds, &after.since(&before)).map(Some),
            _ => Ok(None),
        }
    }
}

/// One line for who asks for a ledger in a build that has none.
pub fn refuse() -> Result<(), String> {
    if cfg!(feature = "ledger") {
        return Ok(());
    }
    Err("this build counts nothing; build one that does with \
         `cargo build --release --features ledger --package atoll`"
        .to_owned())
}

/// A site and what is counted there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Site {
    /// What.
    pub what: What,
    /// Where: `file function: expression`.
    pub place: String,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.what.name(), self.place)
    }
}

/// How often, how often shared, and how many nanoseconds or bytes.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Cost {
    /// How often.
    pub times: f64,
    /// How often the line moved between cores.
    pub shared: f64,
    /// Nanoseconds or bytes, as [`What`] says.
    pub amount: f64,
}

impl Cost {
    fn add(&mut self, other: Cost) {
        self.times += other.times;
        self.shared += other.shared;
        self.amount += other.amount;
    }

    fn divided(self, by: u64) -> Cost {
        let by = by.max(1) as f64;
        Cost { times: self.times / by, shared: self.shared / by, amount: self.amount / by }
    }

    /// Nanoseconds or bytes of each.
    pub fn each(self) -> f64 {
        if self.times == 0.0 { 0.0 } else { self.amount / self.times }
    }
}

/// What a run cost.
#[derive(Clone, Debug)]
pub struct Costs {
    kinds: &'static [&'static str],
    // By label: work of no transaction, then the kinds.
    transactions: Vec<u64>,
    // By site, then label; sums, not yet divided.
    sites: BTreeMap<Site, Vec<Cost>>,
}

impl Costs {
    /// Of what was counted for a workload with these kinds; an error if anything was counted for a
    /// kind that it does not have.
    pub fn new(kinds: &'static [&'static str], counted: &Ledger) -> Result<Costs, String> {
        let labels = kinds.len() + 1;
        let begun = counted.transactions.iter().enumerate().filter(|(_, count)| **count > 0);
        let met = counted.entries.iter().map(|entry| entry.label).chain(begun.map(|(at, _)| at));
        if let Some(label) = met.filter(|label| *label >= labels).max() {
            return Err(format!(
                "the ledger has a transaction of type number {label}, and this workload has {} \
                 types: another workload ran in this process meanwhile",
                kinds.len()
            ));
        }
        let mut transactions = counted.transactions.clone();
        transactions.resize(labels, 0);
        let mut sites: BTreeMap<Site, Vec<Cost>> = BTreeMap::new();
        for entry in &counted.entries {
            let site = Site { what: entry.what, place: entry.site.clone() };
            let costs = sites.entry(site).or_insert_with(|| vec![Cost::default(); labels]);
            costs[entry.label].add(Cost {
                times: entry.times as f64,
                shared: entry.moved as f64,
                amount: entry.amount as f64,
            });
        }
        Ok(Costs { kinds, transactions, sites })
    }

    /// Transactions of all types.
    pub fn transactions(&self) -> u64 {
        self.transactions.iter().sum()
    }

    /// What each label is divided by.
    fn divisor(&self, label: usize) -> u64 {
        if label == 0 { self.transactions() } else { self.transactions[label] }
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        ["none"].into_iter().chain(self.kinds.iter().copied())
    }

    /// The sites.
    pub fn sites(&self) -> impl Iterator<Item = &Site> {
        self.sites.keys()
    }

    /// A site's cost per transaction of all types.
    pub fn all(&self, site: &Site) -> Cost {
        let mut sum = Cost::default();
        self.sites.get(site).into_iter().flatten().for_each(|cost| sum.add(*cost));
        sum.divided(self.transactions())
    }

    /// A site's cost per transaction of each label: of no transaction first.
    pub fn by_label(&self, site: &Site) -> Vec<Cost> {
        let costs = self.sites.get(site).into_iter().flatten().enumerate();
        costs.map(|(label, cost)| cost.divided(self.divisor(label))).collect()
    }

    /// Whether a site is met once in so many transactions of some type, or of all.
    pub fn is_met(&self, site: &Site, times: f64) -> bool {
        self.by_label(site).iter().any(|cost| cost.times >= times)
    }

    /// A total by label, not divided.
    fn undivided(&self, total: &Total) -> Vec<Cost> {
        let mut sums = vec![Cost::default(); self.transactions.len()];
        for (site, costs) in &self.sites {
            let each = (total.counts)(site.what) as f64;
            let has_amount = (total.has_amount)(site.what);
            for (sum, cost) in sums.iter_mut().zip(costs) {
                sum.add(Cost {
                    times: cost.times * each,
                    shared: if each > 0.0 { cost.shared } else { 0.0 },
                    amount: if has_amount { cost.amount } else { 0.0 },
                });
            }
        }
        sums
    }

    /// A total of the whole run: how often, not how often in a transaction.
    fn over_run(&self, total: &Total) -> Cost {
        let mut all = Cost::default();
        self.undivided(total).iter().for_each(|cost| all.add(*cost));
        all
    }

    /// A total per transaction, by label; all types last.
    fn sum(&self, total: &Total) -> Vec<Cost> {
        let all = self.over_run(total);
        let sums = self.undivided(total);
        let labels = sums.iter().enumerate();
        let mut sums: Vec<Cost> =
            labels.map(|(label, cost)| cost.divided(self.divisor(label))).collect();
        sums.push(all.divided(self.transactions()));
        sums
    }

    /// As one JSON object.
    pub fn json(&self) -> Value {
        let object = |cost: &Cost| {
            json!({
                "times": cost.times,
                "shared": cost.shared,
                "amount": cost.amount,
                "each": cost.each(),
            })
        };
        let by_type = |costs: &[Cost]| -> Value {
            let named = self.names().chain(["all"]).zip(costs);
            named.map(|(name, cost)| (name.to_owned(), object(cost))).collect()
        };
        let totals: serde_json::Map<String, Value> = show::TOTALS
            .iter()
            .map(|total| (total.name.to_owned(), by_type(&self.sum(total))))
            .collect();
        let sites: Vec<Value> = self
            .sites()
            .map(|site| {
                let mut costs = self.by_label(site);
                costs.push(self.all(site));
                json!({
                    "what": site.what.name(),
                    "site": site.place,
                    "per_transaction": by_type(&costs),
                })
            })
            .collect();
        let transactions: Value = self
            .names()
            .zip(&self.transactions)
            .skip(1)
            .map(|(name, count)| (name.to_owned(), json!(count)))
            .collect();
        json!({
            "transactions": transactions,
            "totals": totals,
            "run": self.run_json(),
            "sites": sites,
        })
    }

    /// Locks, write calls and syncs of the whole run; numbers without fractions but the last of each.
    fn run_json(&self) -> Value {
        let [locks, writes, syncs] =
            [&show::ALL_LOCKS, &show::WRITE_CALLS, &show::SYNCS].map(|it| self.over_run(it));
        json!({
            "locks": locks.times as u64,
            "lock_ns": locks.amount as u64,
            "ns_per_lock": locks.each(),
            "write_calls": writes.times as u64,
            "write_bytes": writes.amount as u64,
            "bytes_per_write_call": writes.each(),
            "syncs": syncs.times as u64,
        })
    }
}
