//! One life of a database: from a start to a crash, its instances interleaved by the seed.
//!
//! Invariants: one thread; which instance goes on, where it stops and how time passes come from
//! the seed alone. An instance that spins or sleeps is left at once, so others can end its wait.
//! After a panic outside a task nothing of the life is touched again: it is forgotten, not torn
//! down.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use atoll_kernel::api::{
    ClockChoice, Context, Core, Database, Instances, OnFailure, Options, Pin, Result,
    open_interleaved,
};
use atoll_kernel::io::{Seeded, SimDisk, SimEntropy, SimTime};
use atoll_kernel::runtime::{Class, Interleaved, Pause, RuntimeOptions, Slice, TaskEnd, Turn};
use atoll_kernel::sync::Decider;

use crate::counters::Counters;
use crate::history::Digest;
use crate::stops::Stops;

/// A task's work.
pub type Work = Box<dyn FnOnce(&Context)>;

/// A running database.
pub struct Life {
    /// The database.
    pub database: Database,
    instances: Vec<Interleaved<Core>>,
    random: Seeded,
    time: SimTime,
    stops: Rc<Stops>,
    // A new instance is chosen once in so many steps.
    switch_one_in: u64,
    current: usize,
    quiet: u64,
    // Until which step each instance is left where it stopped, though it could go on.
    held: Vec<u64>,
    // A step takes less than this.
    tick_ns: u64,
    /// Steps taken.
    pub steps: u64,
    /// What tells this life from any other.
    pub digest: Digest,
    panics: Rc<RefCell<Vec<String>>>,
}

/// The settings of a simulated database.
pub fn options(instances: u16) -> Options {
    Options {
        instances: Instances::Count(instances),
        buffer_pool_bytes: 8 << 20,
        undo_bytes: 16 << 20,
        log_segment_bytes: 128 << 10,
        log_buffer_bytes: 16 << 10,
        checkpoint_interval_ms: 0,
        checkpoint_wal_bytes: 0,
        clock: ClockChoice::Counter,
        pin: Pin::No,
        deadlock_timeout_ms: 1,
        runtime: RuntimeOptions { slice: Slice::Calls(40), ..RuntimeOptions::default() },
        on_failure: OnFailure::StandStill,
        lock_note: "a simulation".to_owned(),
        ..Options::default()
    }
}

impl Life {
    /// Opens what `disk` holds.
    pub fn open(disk: &SimDisk, time: &SimTime, options: Options, seed: u64) -> Result<Life> {
        let mut random = Seeded::new(seed);
        let stops = Rc::new(Stops::new(&mut random));
        let decider: Rc<dyn Decider> = stops.clone();
        let entropy = Arc::new(SimEntropy::new(random.next_u64()));
        let (disk, clock) = (Arc::new(disk.clone()), Arc::new(time.clone()));
        let (database, instances) = open_interleaved(disk, clock, entropy, options, &decider)?;
        let switch_one_in = [1, 2, 8, 64][random.below(4) as usize];
        let tick_ns = [200, 2_000, 20_000][random.below(3) as usize];
        Ok(Life {
            tick_ns,
            held: vec![0; instances.len()],
            database,
            instances,
            random,
            time: time.clone(),
            stops,
            switch_one_in,
            current: 0,
            quiet: 0,
            steps: 0,
            digest: Digest::default(),
            panics: Rc::default(),
        })
    }

    /// From here on instances stop at points, once in a number that the seed chooses.
    pub fn interleave(&mut self) {
        let one_in = [2, 4, 16, 64, 256][self.random.below(5) as usize];
        self.stops.stop_one_in(one_in);
    }

    /// From here on instances stop at the end of a turn, and where they spin.
    pub fn calm(&mut self) {
        self.stops.stop_one_in(0);
    }

    /// How many instances run.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// Starts a task on an instance.
    pub fn spawn(&self, instance: usize, work: Work) {
        let panics = self.panics.clone();
        let on_end = move |_: &_, end| {
            if let TaskEnd::Panicked(text) = end {
                panics.borrow_mut().push(text);
            }
        };
        self.instances[instance].instance().spawn_watched(Class::New, work, on_end);
    }

    /// One instance goes on until it stops. An error is a panic's text.
    pub fn step(&mut self) -> std::result::Result<(), String> {
        if self.random.one_in(self.switch_one_in) || self.held[self.current] > self.steps {
            self.choose();
        }
        let pause = self.go(self.current)?;
        self.steps += 1;
        self.digest.word(self.current as u64);
        let waits = match pause {
            Pause::Turn(Turn::Busy) => false,
            Pause::Turn(Turn::Idle { .. }) => true,
            Pause::Point(name) => {
                self.digest.text(name);
                if self.random.one_in(24) {
                    // The others get time to do much in this window.
                    self.held[self.current] = self.steps + self.random.below(400);
                }
                name == "spin" || name == "asleep"
            }
        };
        if waits {
            self.quiet += 1;
            self.choose();
        } else {
            self.quiet = 0;
        }
        let far = if self.quiet > 3 * self.instances.len() as u64 { 50_000 } else { self.tick_ns };
        self.time.advance(self.random.below(far) + self.stops.jump(self.steps));
        match self.panics.borrow_mut().pop() {
            None => Ok(()),
            Some(text) => Err(format!("a task panicked: {text}")),
        }
    }

    /// Chooses who goes on: one that is not held, if a few tries find one.
    fn choose(&mut self) {
        for _ in 0..4 {
            self.current = self.random.below(self.instances.len() as u64) as usize;
            if self.held[self.current] <= self.steps {
                break;
            }
        }
    }

    fn go(&mut self, at: usize) -> std::result::Result<Pause, String> {
        self.stops.goes_on(at, self.steps);
        let instance = &mut self.instances[at];
        catch_unwind(AssertUnwindSafe(|| instance.go())).map_err(|payload| {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|it| (*it).to_owned()));
            format!("an instance panicked: {}", text.unwrap_or_default())
        })
    }

    /// Runs one task to its end, whatever else runs meanwhile. None if it did not end within
    /// `steps_max`, or the machine went off, or the database stands still.
    pub fn run<T: 'static>(
        &mut self,
        disk: &SimDisk,
        steps_max: u64,
        work: impl FnOnce(&Context) -> T + 'static,
    ) -> std::result::Result<Option<T>, String> {
        let answer: Rc<RefCell<Option<T>>> = Rc::default();
        let place = answer.clone();
        let at = self.random.below(self.instances.len() as u64) as usize;
        self.spawn(at, Box::new(move |context| *place.borrow_mut() = Some(work(context))));
        for _ in 0..steps_max {
            self.step()?;
            if answer.borrow().is_some() || disk.is_off() || self.database.failure().is_some() {
                break;
            }
        }
        Ok(answer.take())
    }

    /// Lets every instance run to the end of its turn.
    pub fn finish_turns(&mut self) -> std::result::Result<(), String> {
        self.calm();
        for _ in 0..1_000_000 {
            let open = (0..self.instances.len())
                .filter(|at| !matches!(self.instances[*at].pause(), Pause::Turn(_)));
            let open: Vec<usize> = open.collect();
            if open.is_empty() {
                return Ok(());
            }
            for at in open {
                self.go(at)?;
            }
            self.time.advance(1000);
        }
        let stuck: Vec<Pause> = self.instances.iter().map(Interleaved::pause).collect();
        Err(format!("instances do not come to the end of their turns: {stuck:?}"))
    }

    /// The machine went off, or the process was killed.
    pub fn crashed(&self) {
        self.stops.crashed();
    }

    /// Adds what its instances counted.
    pub fn count(&self, counters: &mut Counters) {
        self.stops.count(counters);
        let traffic = self.database.traffic();
        counters.add("leaf loaded", traffic.loads);
        counters.add("leaf evicted", traffic.evictions);
        counters.add("inner node loaded", traffic.nodes_loaded);
        counters.add("inner node evicted", traffic.nodes_evicted);
        counters.add("leaf loaded by a blocked thread", traffic.blocking);
        counters.add("evicted by who wanted a frame", traffic.inline);
        if let Some(checkpoints) = self.database.checkpoint_counters() {
            counters.add("page moved down", checkpoints.moved);
            counters.add("page file made shorter", checkpoints.returned);
            counters.add("checkpoint role taken over", checkpoints.overtaken);
        }
        for instance in &self.instances {
            let (txn, log) = instance.instance().state().counters();
            counters.instance(&txn, &log);
        }
    }

    /// Ends it, between turns: what still runs is unwound.
    pub fn end(self) {
        self.instances.into_iter().for_each(Interleaved::end);
    }

    /// Leaves it as it is, for good: after a panic nothing of it may run again.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}
