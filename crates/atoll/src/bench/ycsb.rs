//! `atoll bench ycsb`: YCSB's workloads natively, in this process; over the wire with `--url`.

use atoll_bench::choice::Choice;
use atoll_bench::ycsb::{KeyForm, Kind, Mix, Settings, Ycsb};

use super::common::Common;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// A workload of the paper: `a` (half reads, half updates), `b` (95 percent reads), `c` (reads),
    /// `d` (reads of the newest, 5 percent inserts), `e` (scans, 5 percent inserts), `f` (half
    /// reads, half read-modify-writes).
    #[arg(long, default_value_t = 'a', value_parser = parse_workload, conflicts_with = "mix")]
    workload: char,
    /// Another mix: percent of reads and updates as `95/5`, or `read-modify-write`, or `insert`.
    #[arg(long)]
    mix: Option<Mix>,
    /// How records are chosen: `uniform`, `zipfian`, `latest`, or `hotspot:KEYS/OPS` as
    /// `hotspot:0.05/0.95` [default: zipfian, for workload d latest]
    #[arg(long)]
    access: Option<Choice>,
    /// Records of 1000 bytes that are loaded.
    #[arg(long, default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    records: u64,
    /// The key: `int8`, or `varchar` as YCSB makes it.
    #[arg(long, default_value = "int8", value_parser = ["int8", "varchar"])]
    key: String,
    /// Operations of a transaction.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    operations_per_transaction: u32,
    #[command(flatten)]
    common: Common,
}

fn parse_workload(text: &str) -> Result<char, String> {
    let letter = text.parse().ok().filter(|letter| Mix::of_letter(*letter).is_some());
    letter.ok_or_else(|| "a letter from a to f".to_owned())
}

/// Runs and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let of_paper = Mix::of_letter(arguments.workload);
    let mix = arguments.mix.clone().or(of_paper).ok_or("there is no such workload")?;
    let chooses = Kind::ALL.into_iter().any(|it| it != Kind::Insert && mix.share(it) > 0);
    if arguments.access.is_some() && !chooses {
        return Err("who only inserts chooses no records: leave --access out".to_owned());
    }
    let newest = arguments.mix.is_none() && arguments.workload == 'd';
    let by_default = if newest { Choice::Latest } else { Choice::Zipfian };
    let ycsb = Ycsb::new(Settings {
        records: arguments.records,
        key: if arguments.key == "int8" { KeyForm::Number } else { KeyForm::Text },
        mix,
        choice: arguments.access.unwrap_or(by_default),
        operations: arguments.operations_per_transaction,
    })?;
    arguments.common.run(&ycsb)
}
