//! `atoll bench tpcc`: TPC-C natively, in this process; over the wire with `--url`.

use std::path::PathBuf;

use atoll_bench::setting::{Calls, Way};
use atoll_bench::tpcc::{Affinity, Mix, Size, Tpcc};
use atoll_bench::wire::{connect_to, tpcc::verify};

use super::common::Common;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Warehouses; each has about half a million rows.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    warehouses: i32,
    /// `standard`, or only some of the transactions: `payment`, `new-order`, or
    /// `new-order-delivery` in equal parts.
    #[arg(long, default_value = "standard",
        value_parser = ["standard", "payment", "new-order", "new-order-delivery"])]
    mix: String,
    /// Natively, unless --calls says it: `home` (the default), a terminal's transactions run on the instance of
    /// its home warehouse, or `none`, a warehouse's terminals are spread over all instances. Over the wire:
    /// `none` (the default), sessions are where they were accepted; on Atoll `table`, the tables are made WITH
    /// (affinity = their warehouse's number), and sessions go to their data; `hint`, they do as each client
    /// begins with SET atoll.affinity
    #[arg(long, value_parser = ["home", "none", "table", "hint"])]
    affinity: Option<String>,
    /// Over the wire: a new file to which each New-Order, Payment and Delivery is written once it is
    /// acknowledged, before its client's next; it outlives the server, for `--verify`.
    #[arg(long, value_name = "FILE", requires = "url")]
    acknowledged: Option<PathBuf>,
    /// Over the wire: run nothing, but look for every transaction of a file that `--acknowledged`
    /// wrote, and name each that is not there whole; may be given several times.
    #[arg(long, value_name = "FILE", requires = "url", conflicts_with_all = ["acknowledged",
        "warehouses", "mix", "affinity", "clients", "rounds", "seconds", "warmup", "isolation", "durability",
        "rate", "server_pid", "seed", "output", "json"])]
    verify: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Runs and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    if let (false, Some(url)) = (arguments.verify.is_empty(), arguments.common.url()) {
        return look_for(&arguments.verify, url);
    }
    let named = |mix: &Mix| mix.name() == arguments.mix;
    let workload = Tpcc {
        warehouses: arguments.warehouses,
        size: Size::STANDARD,
        mix: Mix::ALL.into_iter().find(named).unwrap_or(Mix::Standard),
        affinity: affinity(arguments)?,
    };
    arguments.common.run_recorded(&workload, arguments.acknowledged.as_deref())
}

/// Where transactions run: as `--affinity` says, or as they are called.
fn affinity(arguments: &Arguments) -> Result<Affinity, String> {
    let calls = arguments.common.calls();
    let (of_way, other): (&[Affinity], _) = match arguments.common.url() {
        Some(_) => (&Affinity::WIRE, "is of native runs, without --url"),
        None => (&Affinity::NATIVE, "is of runs over the wire, with --url"),
    };
    match (&arguments.affinity, calls) {
        (Some(name), Calls::Inside) => {
            let named = of_way.iter().copied().find(|it| it.name() == name);
            named.ok_or_else(|| format!("--affinity {name} {other}"))
        }
        (Some(_), Calls::Outside(_)) => Err(format!(
            "--calls {} says where transactions run: leave --affinity out",
            calls.name()
        )),
        (None, Calls::Outside(Way::Anywhere)) => Ok(Affinity::None),
        (None, _) => Ok(of_way[0]),
    }
}

/// Says of which acknowledged transactions something is lost; an error if there are any.
fn look_for(files: &[PathBuf], url: &str) -> Result<(), String> {
    let found = verify(&mut connect_to(url)?, files)?;
    for lost in &found.lost {
        println!("lost: {lost}");
    }
    let [orders, payments, deliveries] = found.acknowledged;
    let all = orders + payments + deliveries;
    if !found.lost.is_empty() {
        return Err(format!("{} of {all} acknowledged transactions are lost", found.lost.len()));
    }
    println!(
        "all {all} acknowledged transactions are there: {orders} New-Orders, {payments} Payments, \
         {deliveries} Deliveries"
    );
    Ok(())
}
