//! Threads that simulate one seed after another, and who tells which seed does not come to its end.
//!
//! Invariants: a simulation stays on its thread, and threads share nothing but which seed is next and
//! when each was begun. A panic is an outcome of its seed; its thread ends then, for what it left
//! behind in the thread is unknown. A seed that does not end cannot be stopped: its thread is given up,
//! and goes with the process.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atoll_kernel::sync::{AtomicU64, Ordering};

use crate::counters::Counters;
use crate::history::Digest;
use crate::run::{Outcome, Setting};

/// How often it is looked whether a seed takes too long.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What to simulate.
pub struct Work {
    /// Of each simulation; the seed is replaced.
    pub setting: Setting,
    /// The first seed.
    pub from: u64,
    /// Whether a simulation of this index is to be begun yet.
    pub goes_on: Box<dyn Fn(u64) -> bool + Send + Sync>,
    /// Simulates.
    pub simulate: fn(&Setting) -> Outcome,
    /// What a simulation may take: many times what any does.
    pub time_max: Duration,
}

/// What one simulation came to, and of which seed.
pub type Done = (Setting, Outcome);

/// Simulations of a campaign, under way.
pub struct Workers {
    shared: Arc<Shared>,
    told: Receiver<Told>,
    /// Threads that are neither through nor given up.
    threads: usize,
}

/// What a thread tells.
enum Told {
    Done(Box<Done>),
    /// It takes no more seeds.
    Through,
}

struct Shared {
    work: Work,
    next: AtomicU64,
    /// The seeds under way, and since when.
    begun: Mutex<BTreeMap<u64, Instant>>,
}

impl Workers {
    /// Begins on `threads` threads.
    pub fn begin(work: Work, threads: usize) -> Self {
        let shared = Arc::new(Shared { work, next: AtomicU64::new(0), begun: Mutex::default() });
        let (sender, told) = channel();
        let threads = threads.max(1);
        for _ in 0..threads {
            let (shared, sender) = (Arc::clone(&shared), sender.clone());
            std::thread::spawn(move || shared.run(&sender));
        }
        Workers { shared, told, threads }
    }
}

impl Iterator for Workers {
    type Item = Done;

    /// Waits for the next simulation that has ended, however; none when all have. One that takes too
    /// long is told as an outcome, once.
    fn next(&mut self) -> Option<Done> {
        while self.threads > 0 {
            match self.told.recv_timeout(LOOK_EVERY) {
                Ok(Told::Done(done)) => return Some(*done),
                Ok(Told::Through) => self.threads -= 1,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(seed) = self.shared.take_endless() {
                        self.threads -= 1;
                        let limit = self.shared.work.time_max.as_secs_f32();
                        let complaint = format!("does not end: {limit} s and more");
                        return Some((self.shared.setting(seed), failed(complaint)));
                    }
                }
            }
        }
        None
    }
}

impl Shared {
    fn setting(&self, seed: u64) -> Setting {
        Setting { seed, ..self.work.setting }
    }

    fn run(&self, tell: &Sender<Told>) {
        // Who was given up says nothing more; if nobody listens, nobody wants to know.
        if self.take_all(tell).is_some() {
            let _ = tell.send(Told::Through);
        }
    }

    /// Simulates until there is no more to do; none if the thread was given up meanwhile.
    fn take_all(&self, tell: &Sender<Told>) -> Option<()> {
        loop {
            // Relaxed: a number for each, nothing else is handed over.
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if !(self.work.goes_on)(index) {
                return Some(());
            }
            let setting = self.setting(self.work.from.wrapping_add(index));
            self.begun().insert(setting.seed, Instant::now());
            let outcome = catch_unwind(AssertUnwindSafe(|| (self.work.simulate)(&setting)));
            self.begun().remove(&setting.seed)?;
            let panicked = outcome.is_err();
            let outcome = outcome.unwrap_or_else(|panic| failed(message(&*panic)));
            if tell.send(Told::Done(Box::new((setting, outcome)))).is_err() || panicked {
                return Some(());
            }
        }
    }

    /// A seed that takes too long; it is one that is under way no more.
    fn take_endless(&self) -> Option<u64> {
        let mut begun = self.begun();
        let is_endless = |since: &Instant| since.elapsed() > self.work.time_max;
        let (seed, _) = begun.iter().find(|(_, since)| is_endless(since))?;
        let seed = *seed;
        begun.remove(&seed);
        Some(seed)
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(complaint: String) -> Outcome {
    let (counters, digest) = (Counters::default(), Digest::default());
    Outcome { counters, digest, complaint: Some(complaint) }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.as_deref().unwrap_or("for a reason that is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(complaint: Option<String>) -> Outcome {
        Outcome { complaint, ..failed(String::new()) }
    }

    /// Seeds: 1 panics, 2 does not end, the others do.
    fn simulate(setting: &Setting) -> Outcome {
        match setting.seed {
            // No backtrace is made, which can take longer than a seed may.
            1 => std::panic::resume_unwind(Box::new("on purpose")),
            2 => loop {
                std::thread::park();
            },
            _ => outcome(None),
        }
    }

    #[test]
    fn a_seed_that_panics_or_does_not_end_is_named() {
        let setting = Setting { seed: 0, steps: 1, instances_max: 1, crashes_max: 0 };
        let goes_on = Box::new(|index| index < 5);
        let time_max = Duration::from_secs(3);
        let workers = Workers::begin(Work { setting, from: 0, goes_on, simulate, time_max }, 3);
        let mut told = BTreeMap::new();
        for (setting, outcome) in workers {
            assert!(told.insert(setting.seed, outcome.complaint).is_none(), "told once");
        }
        assert_eq!(told.len(), 5);
        assert_eq!(told[&1].as_deref(), Some("panicked: on purpose"));
        assert_eq!(told[&2].as_deref(), Some("does not end: 3 s and more"));
        assert!([0, 3, 4].iter().all(|seed| told[seed].is_none()));
    }
}
