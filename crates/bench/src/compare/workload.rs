//! What is measured: names of workloads, which tool runs each, and how large their tables are.

use std::str::FromStr;

use super::Result;
use super::engine::Language;

/// A workload of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name, in reports and of its plot's file.
    pub name: &'static str,
    /// Who runs it.
    pub tool: Tool,
}

/// Who runs a workload, and what the tool calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// pgbench, with this script of its own.
    Pgbench(&'static str),
    /// sysbench, with this test of its own.
    Sysbench(&'static str),
    /// go-tpc's TPC-C.
    GoTpc,
    /// `atoll bench`, over the wire.
    Own(&'static str),
}

const fn workload(name: &'static str, tool: Tool) -> Workload {
    Workload { name, tool }
}

/// All there are, in the order in which they are run and reported.
pub const ALL: [Workload; 12] = [
    workload("pgbench-select-only", Tool::Pgbench("select-only")),
    workload("pgbench-simple-update", Tool::Pgbench("simple-update")),
    workload("pgbench-tpcb-like", Tool::Pgbench("tpcb-like")),
    workload("sysbench-point-select", Tool::Sysbench("oltp_point_select")),
    workload("sysbench-read-write", Tool::Sysbench("oltp_read_write")),
    workload("sysbench-write-only", Tool::Sysbench("oltp_write_only")),
    workload("go-tpc", Tool::GoTpc),
    workload("tpcc", Tool::Own("tpcc")),
    workload("ycsb", Tool::Own("ycsb")),
    workload("smallbank", Tool::Own("smallbank")),
    workload("tatp", Tool::Own("tatp")),
    workload("orders", Tool::Own("orders")),
];

impl Workload {
    /// Whether its clients speak a server's language.
    pub fn speaks(&self, language: Language) -> bool {
        matches!(self.tool, Tool::Sysbench(_)) || language == Language::Postgres
    }
}

/// A list of workloads: names and groups (`pgbench`, `sysbench`, `own`, `all`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen(pub Vec<Workload>);

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Chosen> {
        let words: Vec<&str> = text.split(',').collect();
        let is_in = |workload: &Workload, word: &str| match word {
            "all" => true,
            "pgbench" => matches!(workload.tool, Tool::Pgbench(_)),
            "sysbench" => matches!(workload.tool, Tool::Sysbench(_)),
            "own" => matches!(workload.tool, Tool::Own(_)),
            name => workload.name == name,
        };
        if let Some(unknown) = words.iter().find(|word| !ALL.iter().any(|it| is_in(it, word))) {
            let names: Vec<&str> = ALL.iter().map(|it| it.name).collect();
            return Err(format!(
                "\"{unknown}\" is none of all, pgbench, sysbench, own, {}",
                names.join(", ")
            ));
        }
        let chosen = ALL.into_iter().filter(|it| words.iter().any(|word| is_in(it, word)));
        Ok(Chosen(chosen.collect()))
    }
}

/// How large tables are.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// pgbench's scale: 100,000 accounts each.
    pub scale: u64,
    /// sysbench's tables.
    pub tables: u64,
    /// Rows of each of them.
    pub table_rows: u64,
    /// TPC-C's warehouses. The other workloads of ours have the sizes `atoll bench` gives them.
    pub warehouses: u64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_chosen_by_names_and_groups() {
        let names = |text: &str| -> Vec<&str> {
            text.parse::<Chosen>().unwrap().0.iter().map(|it| it.name).collect()
        };
        assert_eq!(names("tpcc,pgbench-select-only"), ["pgbench-select-only", "tpcc"]);
        assert_eq!(names("sysbench,sysbench-read-write").len(), 3);
        assert_eq!(names("own,go-tpc").len(), 6);
        assert_eq!(names("all").len(), ALL.len());
        for wrong in ["", "pgbench,", "select-only", "tpc-c"] {
            assert!(wrong.parse::<Chosen>().unwrap_err().contains("is none of"), "{wrong}");
        }
    }

    #[test]
    fn mariadb_is_measured_by_sysbench_alone() {
        let all = ALL.iter().filter(|it| it.speaks(Language::MySql));
        assert_eq!(all.count(), 3);
        assert!(ALL.iter().all(|it| it.speaks(Language::Postgres)));
    }
}
