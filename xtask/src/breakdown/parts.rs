//! From callgrind's counts to the parts of Atoll.
//!
//! Callgrind's file names a source file and line for every count, of inlined code too. What came
//! from the standard library's sources is put down to the function that it is in.

use std::collections::{BTreeMap, HashMap};

/// What instructions are for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    Procedure,
    Interface,
    Index,
    Ahead,
    Table,
    Versions,
    Rows,
    Redo,
    Transactions,
    Latches,
    Scheduler,
    Log,
    Library,
    Flush,
    Memory,
    System,
    Other,
}

/// The same in the words of PhoebeDB's evaluation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Group {
    Work,
    Index,
    Version,
    Log,
    Latch,
    Scheduler,
    Flush,
    Rest,
}

impl Group {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Group::Work => "useful work: procedures, statements, rows",
            Group::Index => "index",
            Group::Version => "version: undo, twins, snapshots, transactions",
            Group::Log => "log: redo, buffers",
            Group::Latch => "latch: latches, frames, reads that are checked",
            Group::Scheduler => "scheduler",
            Group::Flush => "flush: the system's part of making commits durable",
            Group::Rest => "libc, the system's memory, elsewhere",
        }
    }
}

impl Part {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Part::Procedure => "the procedure: inputs, values, numbers, what it shows",
            Part::Interface => "statements and cursors (api, catalog)",
            Part::Index => "indexes: keys, searches, entries, descents of all trees",
            Part::Ahead => "fetching ahead",
            Part::Table => "rows in pages (row leaves, table trees)",
            Part::Versions => "versions: undo, twins, what a snapshot sees",
            Part::Rows => "row operations: claim, change, check",
            Part::Redo => "redo",
            Part::Transactions => "transactions: slots, locks, snapshots",
            Part::Latches => "latches, frames, reading page bytes",
            Part::Scheduler => "scheduler",
            Part::Log => "log: buffers, flushes begun and ended",
            Part::Library => "libc: copies, memory",
            Part::Flush => "the operating system: writes and flushes of the log",
            Part::Memory => "the operating system: memory found and cleared",
            Part::System => "the operating system: the rest (timers, changing threads)",
            Part::Other => "elsewhere",
        }
    }

    /// Its part in the papers' breakdowns.
    pub fn group(self) -> Group {
        match self {
            Part::Procedure | Part::Interface | Part::Table | Part::Rows | Part::Ahead => {
                Group::Work
            }
            Part::Index => Group::Index,
            Part::Versions | Part::Transactions => Group::Version,
            Part::Redo | Part::Log => Group::Log,
            Part::Latches => Group::Latch,
            Part::Scheduler => Group::Scheduler,
            Part::Flush => Group::Flush,
            Part::Library | Part::Memory | Part::System | Part::Other => Group::Rest,
        }
    }
}

/// The first of these that a path (or a function's path, `::` as `/`) contains says whose it is.
const WHERE: [(&str, Part); 33] = [
    ("rows/ahead", Part::Ahead),
    ("index/ahead", Part::Ahead),
    ("table/ahead", Part::Ahead),
    ("prefetch", Part::Ahead),
    ("crates/bench", Part::Procedure),
    ("atoll_bench", Part::Procedure),
    ("crates/sql", Part::Procedure),
    ("atoll_sql", Part::Procedure),
    ("/txn/redo", Part::Redo),
    ("/txn/rows", Part::Rows),
    ("/txn/", Part::Transactions),
    ("/version/", Part::Versions),
    ("/tree/index", Part::Index),
    ("/tree/descent", Part::Index),
    ("/tree/key", Part::Index),
    ("/tree/hints", Part::Index),
    ("/page/keynode", Part::Index),
    ("/tree/table", Part::Table),
    ("/page/", Part::Table),
    ("/tree/overflow", Part::Table),
    ("/api/", Part::Interface),
    ("/catalog/", Part::Interface),
    ("/latch/", Part::Latches),
    ("/buffer/", Part::Latches),
    ("/runtime/", Part::Scheduler),
    ("/log/", Part::Log),
    ("/io/", Part::Log),
    ("__mem", Part::Library),
    ("malloc", Part::Library),
    ("free", Part::Library),
    ("realloc", Part::Library),
    ("raw_vec", Part::Library),
    ("alloc", Part::Library),
];

/// Whose a function is, by the file that its line is in, if that is known, or its path.
pub fn part_of(file: &str, function: &str) -> Part {
    let find = |text: &str| WHERE.iter().find(|(at, _)| text.contains(at)).map(|(_, part)| *part);
    let ours = file.contains("/crates/").then(|| find(file)).flatten();
    ours.or_else(|| find(&function.replace("::", "/"))).unwrap_or(Part::Other)
}

/// What the system's functions do, by what is in their names; the first of these that one of a call chain has.
const SYSTEM: [(&str, Part); 13] = [
    ("page_fault", Part::Memory),
    ("handle_mm", Part::Memory),
    ("io_write", Part::Flush),
    ("dio_", Part::Flush),
    ("fdatasync", Part::Flush),
    ("fsync", Part::Flush),
    ("sync_file", Part::Flush),
    ("submit_bio", Part::Flush),
    ("blk_", Part::Flush),
    ("virtblk", Part::Flush),
    ("virtqueue", Part::Flush),
    ("vring_interrupt", Part::Flush),
    ("nvme_", Part::Flush),
];

/// What the system did, by the functions of a call chain; none if the processor had nothing to do.
pub fn system_part(chain: &[&str]) -> Option<Part> {
    let found = |at: &str| chain.iter().any(|function| function.contains(at));
    let part = SYSTEM.iter().find(|(at, _)| found(at)).map(|(_, part)| *part);
    // Interrupts that end the idling of a processor are work.
    let is_idle = ["idle", "halt"].iter().any(|at| chain.first().is_some_and(|it| it.contains(at)));
    match part {
        None if is_idle => None,
        part => Some(part.unwrap_or(Part::System)),
    }
}

/// Instructions of all counted transactions, by part.
pub struct Count {
    /// How many transactions.
    pub calls: u64,
    /// Their instructions.
    pub parts: BTreeMap<Part, u64>,
}

/// Reads a file of callgrind's; calls are those of the function with this name.
pub fn count(text: &str, name: &str) -> Count {
    let mut counted = Count { calls: 0, parts: BTreeMap::new() };
    let (mut files, mut functions) = (Names::default(), Names::default());
    let (mut file, mut function, mut callee) = (String::new(), String::new(), String::new());
    let mut is_call = false;
    let ending = format!("::{name}");
    for line in text.lines() {
        if let Some((key, value)) = line.split_once('=') {
            match key {
                "fl" | "fi" | "fe" => file = files.named(value),
                "fn" => function = functions.named(value),
                "cfn" => callee = functions.named(value),
                "cfi" | "cfl" => drop(files.named(value)),
                "calls" => {
                    is_call = true;
                    let calls = value.split(' ').next().and_then(|calls| calls.parse().ok());
                    if callee.ends_with(&ending) {
                        counted.calls += calls.unwrap_or(0);
                    }
                }
                _ => {}
            }
            continue;
        }
        // A position and a count; what follows a call is the callee's, counted there.
        let mut words = line.split(' ');
        let (Some(at), Some(cost), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let is_position = at.starts_with(['+', '-', '*']) || at.parse::<u64>().is_ok();
        let Ok(cost) = cost.parse::<u64>() else { continue };
        if is_position && !std::mem::take(&mut is_call) {
            *counted.parts.entry(part_of(&file, &function)).or_default() += cost;
        }
    }
    counted
}

/// Names are told once, `(7) name`, and then by their number, `(7)`.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn named(&mut self, text: &str) -> String {
        let (number, name) = text.split_once(' ').unwrap_or((text, ""));
        if !name.is_empty() {
            self.0.insert(number.to_owned(), name.to_owned());
        }
        self.0.get(number).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_to_the_part_whose_line_it_is() {
        let text = "\
events: Ir
fl=(1) /work/crates/bench/src/tpcc/native/mod.rs
fn=(1) atoll_bench::tpcc::native::Terminal::run
10 5
cfi=(2) /work/crates/bench/src/tpcc/native/new_order.rs
cfn=(2) atoll_bench::tpcc::native::new_order::new_order
calls=3 -1
* 900

fl=(2)
fn=(2)
20 30
fi=(3) /rustc/library/core/src/slice.rs
+1 7
fi=(4) /work/crates/kernel/src/page/keynode/search.rs
-2 11
fn=(3) atoll_kernel::version::twin::Table::find
fl=(3)
1 13
";
        let counted = count(text, "new_order");
        assert_eq!(counted.calls, 3);
        let expected = [(Part::Procedure, 5 + 30 + 7), (Part::Index, 11), (Part::Versions, 13)];
        assert_eq!(counted.parts, BTreeMap::from(expected));
    }

    #[test]
    fn every_part_is_somebodys() {
        assert_eq!(part_of("/x/crates/kernel/src/txn/rows/ahead.rs", ""), Part::Ahead);
        assert_eq!(part_of("/x/crates/kernel/src/txn/shell.rs", ""), Part::Transactions);
        assert_eq!(part_of("???", "__memcpy_avx_unaligned"), Part::Library);
        assert_eq!(part_of("/rustc/core.rs", "corosensei::start"), Part::Other);
        assert_eq!(part_of("", "atoll_kernel::log::writer::LogWriter::poll"), Part::Log);
    }

    #[test]
    fn the_system_is_known_by_its_call_chains() {
        for (chain, part) in [
            (
                &["_raw_spin_unlock_irqrestore", "virtio_queue_rq", "blk_mq_dispatch"][..],
                Some(Part::Flush),
            ),
            (
                &["clear_page_erms", "do_huge_pmd", "handle_mm_fault", "exc_page_fault"],
                Some(Part::Memory),
            ),
            (&["schedule", "io_cqring_wait", "__do_sys_io_uring_enter"], Some(Part::System)),
            (&["pv_native_safe_halt", "default_idle", "do_idle"], None),
            (&["finish_task_switch", "schedule_idle", "do_idle"], Some(Part::System)),
            (&["vring_interrupt", "common_interrupt", "pv_native_safe_halt"], Some(Part::Flush)),
        ] {
            assert_eq!(system_part(chain), part, "{chain:?}");
        }
    }
}
