//! `simulate SEED [COUNT] [STEPS]`: the simulator without the rest of the program, for quick
//! builds while working on it. With a fourth argument the digest of every seed is printed.

use atoll_sim::campaign::FIXED;
use atoll_sim::counters::Counters;
use atoll_sim::run::{Setting, simulate};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|it| it.parse().expect("a number"));
    let seed = numbers.next().unwrap_or(*FIXED.start());
    let count = numbers.next().unwrap_or(1);
    let steps = numbers.next().unwrap_or(60_000);
    let every = numbers.next().is_some();
    let (mut counters, mut failed) = (Counters::default(), 0);
    for seed in seed..seed + count {
        let began = std::time::Instant::now();
        let outcome = simulate(&Setting { seed, steps, ..Setting::default() });
        let time = began.elapsed();
        counters.merge(&outcome.counters);
        if let Some(complaint) = &outcome.complaint {
            println!("seed {seed}: {complaint} ({time:?})");
            failed += 1;
        } else if count <= 10 || every {
            println!("seed {seed}: {:016x} ({time:?})", outcome.digest.0);
        }
    }
    counters.iter().for_each(|(name, count)| println!("  {name:<36} {count:>12}"));
    println!("never met: {:?}", counters.missing());
    println!("{} passed, {failed} failed", count - failed);
}
