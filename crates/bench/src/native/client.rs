//! What a client has, wherever it runs: the procedure that does a transaction, and the account of
//! what it has done.
//!
//! Invariants: a conflict (40001, 40P01) is counted and tried again with the same input. Clients
//! keep no histograms, which would take the caches from the kernel: they send their latencies to
//! who started them, now and then.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use atoll_kernel::api::{Context, Error, Isolation, Parker, Result, Session};

use super::drive::Course;
use super::{Commands, Native};
use crate::arrivals::Arrivals;
use crate::setting::{Durability, Setting};
use crate::workload::{Acknowledge, Counts, Ended};

/// How often a client tells what it has done.
const TELL_EVERY: Duration = Duration::from_millis(20);

/// What clients tell while they run.
pub enum Told<M> {
    /// So much more was done.
    Progress(Counts),
    /// These were committed and are stable.
    Committed(Vec<M>),
}

/// What a client sends to who started it.
pub(super) enum Letter<M> {
    Told(Told<M>),
    Latencies(Vec<Latency>),
    Done(Option<Error>),
}

/// One transaction's latency, small while it waits to be told.
#[derive(Clone, Copy)]
pub(super) struct Latency {
    pub kind: u8,
    pub micros: u32,
}

/// A transaction that its client has done.
pub(super) struct Done<W: Native> {
    pub input: W::Input,
    pub arrived: Instant,
    pub ended: Ended<W::Mark>,
}

/// A client, wherever it runs.
pub(super) struct Client<W: Native> {
    pub procedure: Procedure<W>,
    workload: W,
    pub account: Account<W::Mark>,
    source: W::Source,
    course: Course,
    arrivals: Arc<Arrivals>,
}

impl<W: Native> Client<W> {
    /// The client of this number.
    pub fn new(
        (workload, tables): (W, W::Tables),
        (setting, number): (&Setting, u64),
        (course, arrivals): (Course, Arc<Arrivals>),
        sender: Sender<Letter<W::Mark>>,
    ) -> Client<W> {
        Client {
            procedure: Procedure::new(&workload, tables, setting),
            source: workload.source(number, setting.seed),
            account: Account::new(course.acknowledge, sender),
            workload,
            course,
            arrivals,
        }
    }

    /// Waits for the next transaction's arrival; none at the end.
    pub fn arrival(&self, parker: &impl Parker) -> Option<Instant> {
        self.arrivals.next(parker, || self.course.stop.get().is_some())
    }

    /// What has arrived; what was done before is told, if it was not lately.
    pub fn draw(&mut self, arrived: Instant) -> W::Input {
        self.account.tell_in_time(arrived);
        self.workload.draw(&mut self.source)
    }

    /// What was done has settled, and counts.
    pub fn settled(&mut self, done: Done<W>) {
        self.account.settled(&self.workload, done);
    }
}

/// A client's way to do what inputs ask. It may go from thread to thread between two of them.
pub(super) struct Procedure<W: Native> {
    terminal: W::Terminal,
    isolation: Isolation,
    durability: Durability,
}

impl<W: Native> Procedure<W> {
    pub fn new(workload: &W, tables: W::Tables, setting: &Setting) -> Procedure<W> {
        Procedure {
            terminal: workload.terminal(tables),
            isolation: setting.isolation.into(),
            durability: setting.durability,
        }
    }

    /// A session on the task's instance.
    pub fn session(&self, context: &Context) -> Session {
        let mut session = Session::new(context.instance());
        if self.durability == Durability::Relaxed {
            session.set_durability(atoll_kernel::api::Durability::Relaxed);
        }
        session
    }

    /// Tries until there is no conflict, and counts those that there were.
    pub fn until_done(
        &mut self,
        session: &mut Session,
        context: &Context,
        input: &W::Input,
        aborts: &mut u64,
    ) -> Result<Ended<W::Mark>> {
        loop {
            match self.attempt(session, context, input) {
                Err(Error::Deadlock { .. } | Error::SerializationFailure { .. }) => {
                    *aborts += 1;
                    context.yield_now();
                }
                other => return other,
            }
        }
    }

    fn attempt(
        &mut self,
        session: &mut Session,
        context: &Context,
        input: &W::Input,
    ) -> Result<Ended<W::Mark>> {
        let mut transaction = session.begin(context, self.isolation, W::access(input))?;
        let mut commands = Commands { transaction: &mut transaction, session, context };
        match W::run(&mut self.terminal, &mut commands, input) {
            Ok(Ended::Commit(mark)) => {
                transaction.commit(session, context)?;
                Ok(Ended::Commit(mark))
            }
            Ok(Ended::Rollback) => {
                transaction.rollback(session, context);
                Ok(Ended::Rollback)
            }
            Err(error) => {
                transaction.rollback(session, context);
                Err(error)
            }
        }
    }
}

/// What a client has done and not told yet.
pub(super) struct Account<M> {
    /// What was counted.
    pub untold: Counts,
    latencies: Vec<Latency>,
    committed: Vec<M>,
    acknowledge: Acknowledge,
    told: Instant,
    sender: Sender<Letter<M>>,
}

impl<M> Account<M> {
    pub fn new(acknowledge: Acknowledge, sender: Sender<Letter<M>>) -> Account<M> {
        Account {
            untold: Counts::default(),
            latencies: Vec::new(),
            committed: Vec::new(),
            acknowledge,
            told: Instant::now(),
            sender,
        }
    }

    fn settled<W: Native<Mark = M>>(&mut self, workload: &W, done: Done<W>) {
        let Done { input, arrived, ended } = done;
        let micros = u32::try_from(arrived.elapsed().as_micros()).unwrap_or(u32::MAX);
        workload.settled(&input);
        let kind = W::kind(&input);
        self.latencies.push(Latency { kind: kind as u8, micros });
        self.untold.count(kind, &ended);
        if let Ended::Commit(Some(mark)) = ended
            && self.acknowledge == Acknowledge::Each
        {
            self.committed.push(mark);
        }
    }

    /// Tells what it has done, if it did not lately.
    pub fn tell_in_time(&mut self, now: Instant) {
        if now.saturating_duration_since(self.told) >= TELL_EVERY {
            self.tell(now);
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
        if !self.committed.is_empty() {
            let committed = std::mem::take(&mut self.committed);
            let _ = self.sender.send(Letter::Told(Told::Committed(committed)));
        }
    }

    /// Tells the rest.
    pub fn end(&mut self, error: Option<Error>) {
        self.tell(Instant::now());
        let _ = self.sender.send(Letter::Done(error));
    }
}
