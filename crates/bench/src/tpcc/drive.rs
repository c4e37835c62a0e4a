//! The clients: each a task on its home warehouse's instance, one transaction after the other.
//!
//! Invariants: no think times and no keying times. A transaction counts when it is settled (its
//! commit survives a crash, unless durability is relaxed). A conflict (40001, 40P01) is counted
//! and retried with the same input; the latency is that of all tries together. What a client
//! acknowledges to the outside, it acknowledges after it has settled. Clients keep no histograms,
//! which would take the caches from the kernel: they send their latencies to who started them.

use std::rc::Rc;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use atoll_kernel::api::{
    Access, Context, Database, Error, Isolation, Parker, Result, Session, Target,
};

use super::inputs::{Input, Kind};
use super::native::{Commands, Ended, OrderKey, Terminal};
use super::random::Random;
use super::schema::Tables;
use super::{Durability, Setting, instance_of};
use crate::latency::Latencies;

/// How often a client tells what it has done.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What clients did.
#[derive(Default)]
pub struct Driven {
    /// Of all transactions, and of each kind.
    pub latencies: Latencies,
    /// Of each kind, as [`Kind::ALL`].
    pub by_kind: [Latencies; 5],
    /// What was counted.
    pub counts: Counts,
    /// How long it took.
    pub elapsed: Duration,
}

/// What clients count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that came to their end, those rolled back on purpose included.
    pub transactions: u64,
    /// New-Orders among them.
    pub new_orders: u64,
    /// New-Orders rolled back on purpose.
    pub rollbacks: u64,
    /// Tries that ended with a conflict and were tried again.
    pub aborts: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.transactions += other.transactions;
        self.new_orders += other.new_orders;
        self.rollbacks += other.rollbacks;
        self.aborts += other.aborts;
    }
}

/// What clients tell while they run.
pub enum Told {
    /// So much more was done.
    Progress(Counts),
    /// These orders were entered and are stable.
    Entered(Vec<OrderKey>),
}

/// Until when clients run, and whom they tell.
#[derive(Clone)]
pub struct Course {
    /// How long.
    pub duration: Duration,
    /// Ends them earlier.
    pub stop: Arc<OnceLock<()>>,
    /// Whether entered orders are told, too.
    pub acknowledge: Acknowledge,
}

/// Whether orders are acknowledged one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledge {
    /// They are.
    Orders,
    /// They are only counted.
    Nothing,
}

enum Letter {
    Told(Told),
    Latencies(Vec<Latency>),
    Done(Option<Error>),
}

/// One transaction's latency, small while it waits to be told.
#[derive(Clone, Copy)]
struct Latency {
    kind: Kind,
    micros: u32,
}

/// Runs the clients; `told` hears from them as they go on, and is called at least every second.
pub fn drive(
    database: &Database,
    tables: &Tables,
    setting: &Setting,
    course: &Course,
    told: &mut dyn FnMut(Option<Told>),
) -> std::result::Result<Driven, String> {
    let (sender, receiver) = mpsc::channel();
    let began = Instant::now();
    for number in 0..setting.clients {
        let home = (number % setting.warehouses as u64) as i32 + 1;
        let (tables, setting, sender) = (tables.clone(), setting.clone(), sender.clone());
        let course = course.clone();
        let instance = instance_of(home, database.instances());
        database.spawn(Target::Instance(instance), move |context| {
            let mut client = Client::new(context, tables, setting, course, (number, home), sender);
            let error = client.run().err();
            client.end(error);
        });
    }
    drop(sender);
    let (mut driven, mut ended) = (Driven::default(), 0);
    loop {
        match receiver.recv_timeout(Duration::from_millis(200)) {
            Ok(Letter::Told(it)) => {
                if let Told::Progress(counts) = &it {
                    driven.counts.add(counts);
                }
                told(Some(it));
            }
            Ok(Letter::Latencies(all)) => {
                for Latency { kind, micros } in all {
                    let latency = Duration::from_micros(micros.into());
                    driven.by_kind[kind as usize].record(latency);
                    driven.latencies.record(latency);
                }
            }
            Ok(Letter::Done(Some(error))) => {
                let _ = course.stop.set(());
                return Err(error.to_string());
            }
            Ok(Letter::Done(None)) => ended += 1,
            Err(mpsc::RecvTimeoutError::Timeout) => told(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    driven.elapsed = began.elapsed();
    if ended != setting.clients {
        return Err(format!("only {ended} of {} clients came to their end", setting.clients));
    }
    Ok(driven)
}

struct Client<'a> {
    context: &'a Context,
    session: Session,
    terminal: Terminal,
    setting: Setting,
    course: Course,
    isolation: Isolation,
    home: i32,
    random: Random,
    // What was not told yet.
    latencies: Vec<Latency>,
    untold: Counts,
    entered: Vec<OrderKey>,
    told: Instant,
    sender: mpsc::Sender<Letter>,
}

impl<'a> Client<'a> {
    fn new(
        context: &'a Context,
        tables: Tables,
        setting: Setting,
        course: Course,
        (number, home): (u64, i32),
        sender: mpsc::Sender<Letter>,
    ) -> Client<'a> {
        let mut session = Session::new(context.instance());
        if setting.durability == Durability::Relaxed {
            session.set_durability(atoll_kernel::api::Durability::Relaxed);
        }
        Client {
            context,
            session,
            terminal: Terminal::new(Rc::new(tables)),
            isolation: setting.isolation.into(),
            course,
            home,
            random: Random::new(setting.seed ^ (number + 1) << 40),
            setting,
            latencies: Vec::new(),
            untold: Counts::default(),
            entered: Vec::new(),
            told: Instant::now(),
            sender,
        }
    }

    fn run(&mut self) -> Result<()> {
        let end = Instant::now() + self.course.duration;
        loop {
            let start = Instant::now();
            if start >= end || self.course.stop.get().is_some() {
                return Ok(());
            }
            if start - self.told >= TELL_EVERY {
                self.tell(start);
            }
            let (size, warehouses) = (&self.setting.size, self.setting.warehouses);
            let input = Input::draw(&mut self.random, size, warehouses, self.home);
            let ended = self.until_done(&input)?;
            self.session.settle(self.context)?;
            let micros = u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX);
            self.latencies.push(Latency { kind: input.kind(), micros });
            self.count(input.kind(), ended);
            if self.context.should_yield() {
                self.context.yield_now();
            }
        }
    }

    fn count(&mut self, kind: Kind, ended: Ended) {
        self.untold.transactions += 1;
        self.untold.new_orders += u64::from(kind == Kind::NewOrder);
        match ended {
            Ended::Rollback => self.untold.rollbacks += 1,
            Ended::Commit(Some(order)) if self.course.acknowledge == Acknowledge::Orders => {
                self.entered.push(order);
            }
            Ended::Commit(_) => {}
        }
    }

    /// Tries until there is no conflict.
    fn until_done(&mut self, input: &Input) -> Result<Ended> {
        loop {
            match self.attempt(input) {
                Err(Error::Deadlock { .. } | Error::SerializationFailure { .. }) => {
                    self.untold.aborts += 1;
                    self.context.yield_now();
                }
                other => return other,
            }
        }
    }

    fn attempt(&mut self, input: &Input) -> Result<Ended> {
        let access = match input.kind() {
            Kind::OrderStatus | Kind::StockLevel => Access::ReadOnly,
            _ => Access::ReadWrite,
        };
        let mut transaction = self.session.begin(self.context, self.isolation, access)?;
        let mut commands = Commands {
            transaction: &mut transaction,
            session: &mut self.session,
            context: self.context,
        };
        match self.terminal.run(&mut commands, input) {
            Ok(Ended::Commit(order)) => {
                transaction.commit(&mut self.session, self.context)?;
                Ok(Ended::Commit(order))
            }
            Ok(Ended::Rollback) => {
                transaction.rollback(&mut self.session);
                Ok(Ended::Rollback)
            }
            Err(error) => {
                transaction.rollback(&mut self.session);
                Err(error)
            }
        }
    }

    fn tell(&mut self, now: Instant) {
        self.told = now;
        let untold = std::mem::take(&mut self.untold);
        // The receiver waits for every client.
        let _ = self.sender.send(Letter::Told(Told::Progress(untold)));
        let latencies = Vec::with_capacity(self.latencies.len() * 2);
        let latencies = std::mem::replace(&mut self.latencies, latencies);
        let _ = self.sender.send(Letter::Latencies(latencies));
        if !self.entered.is_empty() {
            let entered = std::mem::take(&mut self.entered);
            let _ = self.sender.send(Letter::Told(Told::Entered(entered)));
        }
    }

    fn end(mut self, error: Option<Error>) {
        self.tell(Instant::now());
        let _ = self.sender.send(Letter::Done(error));
    }
}
