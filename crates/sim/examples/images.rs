//! `images COUNT SECONDS`: the power-loss test without the rest of the program, for quick builds
//! while working on it.

use std::time::{Duration, Instant};

use atoll_sim::images::{Setting, run};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|it| it.parse().expect("a number"));
    let (images, seconds) = (numbers.next().unwrap_or(100), numbers.next().unwrap_or(2));
    let time = Duration::from_secs(seconds);
    let directory = std::env::temp_dir().join(format!("atoll-images-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("the temporary directory can be written");
    let began = Instant::now();
    let setting = Setting { images, time, instances: 2, seed: 1 };
    let summary = run(&setting, &directory, &|line| println!("{line}"));
    std::fs::remove_dir_all(&directory).expect("it was just made");
    println!("{summary:?} in {:?}", began.elapsed());
}
