//! After a crash: do the balances agree, and is every acknowledged transaction there?

use std::collections::HashSet;

use postgres::{Client, SimpleQueryMessage};

use super::{Acknowledged, Result, message};

/// What a check found.
pub struct Verdict {
    /// sum(abalance), sum(tbalance), sum(bbalance), sum(delta), as text; equal if all is well.
    pub sums: [String; 4],
    /// Rows of pgbench_history.
    pub history_rows: u64,
    /// How many acknowledged transactions were looked for.
    pub acknowledged: u64,
    /// Marks of acknowledged transactions that are missing.
    pub missing: Vec<String>,
    /// Marks that are there more than once.
    pub doubled: Vec<String>,
}

impl Verdict {
    /// Whether nothing is lost, halved or doubled.
    pub fn is_good(&self) -> bool {
        self.sums.iter().all(|sum| *sum == self.sums[0])
            && self.missing.is_empty()
            && self.doubled.is_empty()
    }
}

/// Compares the tables with what the clients were told.
pub fn check(client: &mut Client, told: &[Acknowledged]) -> Result<Verdict> {
    let failed = |error: postgres::Error| format!("checking: {}", message(&error));
    let mut sums: [String; 4] = Default::default();
    let columns = [
        ("abalance", "pgbench_accounts"),
        ("tbalance", "pgbench_tellers"),
        ("bbalance", "pgbench_branches"),
        ("delta", "pgbench_history"),
    ];
    for (sum, (column, table)) in sums.iter_mut().zip(columns) {
        let text = format!("select coalesce(sum({column}), 0) from {table}");
        *sum = texts(client.simple_query(&text).map_err(failed)?).pop().unwrap_or_default();
    }
    let rows = client.simple_query("select filler from pgbench_history").map_err(failed)?;
    let (mut seen, mut doubled) = (HashSet::new(), Vec::new());
    let mut history_rows = 0;
    for mark in texts(rows) {
        history_rows += 1;
        let mark = mark.trim_end().to_owned();
        if !mark.is_empty() && !seen.insert(mark.clone()) {
            doubled.push(mark);
        }
    }
    let (mut missing, mut acknowledged) = (Vec::new(), 0);
    for client in told {
        for number in client.numbers.clone().filter(|it| !client.failed.contains(it)) {
            acknowledged += 1;
            let mark = format!("{}:{number}", client.client);
            if !seen.contains(&mark) {
                missing.push(mark);
            }
        }
    }
    Ok(Verdict { sums, history_rows, acknowledged, missing, doubled })
}

/// The first column of every row.
fn texts(messages: Vec<SimpleQueryMessage>) -> Vec<String> {
    let first = |message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    messages.into_iter().filter_map(first).collect()
}
