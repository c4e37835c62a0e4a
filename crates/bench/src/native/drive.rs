//! The clients: each a task of an instance, one transaction after the other.
//!
//! Invariants: no think times; `arrivals` says when a client's next transaction begins, and from
//! when its latency counts. A client that waits for an arrival is a task that waits: its instance
//! serves others or sleeps. A transaction counts when it is settled (its commit survives a
//! crash, unless durability is relaxed); until it is, its client waits without a stack. A conflict
//! (40001, 40P01) is counted and retried with the same input; the latency is that of all tries together. What a client acknowledges to the
//! outside, it acknowledges after it has settled. Clients keep no histograms, which would take the
//! caches from the kernel: they send their latencies to who started them.

use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use atoll_kernel::api::{
    Context, Database, Error, InstanceId, Isolation, Parker, Result, Session, Settling, Target,
};
use atoll_kernel::sync::ledger::{self, Label};

use super::{Commands, Native};
use crate::arrivals::Arrivals;
use crate::report::Driven;
use crate::setting::{Durability, Setting};
use crate::workload::{Acknowledge, Counts, Ended};

/// How often a client tells what it has done.
const TELL_EVERY: Duration = Duration::from_millis(20);
/// How often what they tell is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What clients tell while they run.
pub enum Told<M> {
    /// So much more was done.
    Progress(Counts),
    /// These were committed and are stable.
    Committed(Vec<M>),
}

/// Until when clients run, and whom they tell.
#[derive(Clone)]
pub struct Course {
    /// How long.
    pub duration: Duration,
    /// Ends them earlier.
    pub stop: Arc<OnceLock<()>>,
    /// Whether what was committed is told, too.
    pub acknowledge: Acknowledge,
}

enum Letter<M> {
    Told(Told<M>),
    Latencies(Vec<Latency>),
    Done(Option<Error>),
}

/// One transaction's latency, small while it waits to be told.
#[derive(Clone, Copy)]
struct Latency {
    kind: u8,
    micros: u32,
}

/// Runs the clients; `told` hears from them as they go on, and is called at least every second.
pub fn drive<W: Native>(
    database: &Database,
    (workload, tables): (&W, &W::Tables),
    setting: &Setting,
    course: &Course,
    told: &mut dyn FnMut(Option<Told<W::Mark>>),
) -> std::result::Result<Driven, String> {
    let (sender, receiver) = mpsc::channel();
    let arrivals = Arc::new(Arrivals::new(course.duration, setting.rate));
    for number in 0..setting.clients {
        let (workload, tables) = (workload.clone(), tables.clone());
        let (setting, course, sender) = (setting.clone(), course.clone(), sender.clone());
        let arrivals = arrivals.clone();
        let instance = InstanceId(workload.home(number, database.instances()) as u16);
        database.spawn(Target::Instance(instance), move |context| {
            let (client, of_run) = ((&setting, number, sender), (course, arrivals));
            Client::new(context, (workload, tables), client, of_run).run(context);
        });
    }
    drop(sender);
    let (mut driven, mut ended) = (Driven::new(W::KINDS.len()), 0);
    loop {
        match receiver.try_recv() {
            Ok(Letter::Told(it)) => {
                if let Told::Progress(counts) = &it {
                    driven.counts.add(counts);
                }
                told(Some(it));
            }
            Ok(Letter::Latencies(all)) => {
                for Latency { kind, micros } in all {
                    driven.record(kind.into(), Duration::from_micros(micros.into()));
                }
            }
            Ok(Letter::Done(Some(error))) => {
                let _ = course.stop.set(());
                return Err(error.to_string());
            }
            Ok(Letter::Done(None)) => ended += 1,
            Err(mpsc::TryRecvError::Empty) => {
                told(None);
                // Who waited for letters would be woken by each, on a core that is measured.
                std::thread::sleep(LOOK_EVERY);
            }
            Err(mpsc::TryRecvError::Disconnected) => break,
        }
    }
    driven.elapsed = arrivals.began().elapsed();
    driven.unserved = arrivals.unserved();
    if ended != setting.clients {
        return Err(format!("only {ended} of {} clients came to their end", setting.clients));
    }
    Ok(driven)
}

struct Client<W: Native> {
    session: Session,
    workload: W,
    terminal: W::Terminal,
    source: W::Source,
    isolation: Isolation,
    course: Course,
    arrivals: Arc<Arrivals>,
    // What it has done and is not known to be settled.
    done: Option<Done<W>>,
    // What was not told yet.
    latencies: Vec<Latency>,
    untold: Counts,
    committed: Vec<W::Mark>,
    told: Instant,
    sender: mpsc::Sender<Letter<W::Mark>>,
}

/// A transaction that its client has done.
struct Done<W: Native> {
    input: W::Input,
    arrived: Instant,
    ended: Ended<W::Mark>,
}

impl<W: Native> Client<W> {
    fn new(
        context: &Context,
        (workload, tables): (W, W::Tables),
        (setting, number, sender): (&Setting, u64, mpsc::Sender<Letter<W::Mark>>),
        (course, arrivals): (Course, Arc<Arrivals>),
    ) -> Box<Client<W>> {
        let mut session = Session::new(context.instance());
        if setting.durability == Durability::Relaxed {
            session.set_durability(atoll_kernel::api::Durability::Relaxed);
        }
        Box::new(Client {
            session,
            terminal: workload.terminal(tables),
            source: workload.source(number, setting.seed),
            workload,
            isolation: setting.isolation.into(),
            course,
            arrivals,
            done: None,
            latencies: Vec::new(),
            untold: Counts::default(),
            committed: Vec::new(),
            told: Instant::now(),
            sender,
        })
    }

    /// Goes on until the end, or until it rests.
    fn run(mut self: Box<Self>, context: &Context) {
        loop {
            if let Some(done) = self.done.take() {
                // The ledger has it in the transaction's account.
                ledger::switch(Label::of(W::kind(&done.input)));
                if self.session.settle_soon(context) == Settling::Later {
                    self.done = Some(done);
                    return context.rest(move |context| self.run(context));
                }
                ledger::switch(Label::default());
                self.settled(done);
            }
            if context.should_yield() {
                context.yield_now();
            }
            match self.next(context) {
                Ok(Some(done)) => self.done = Some(done),
                Ok(None) => return self.end(None),
                Err(error) => return self.end(Some(error)),
            }
        }
    }

    /// Waits for the next transaction's arrival and does it, up to its commit; none at the end.
    fn next(&mut self, context: &Context) -> Result<Option<Done<W>>> {
        let is_to_end = || self.course.stop.get().is_some();
        // Who waits for an arrival keeps nobody out (rule 2.4): it has no transaction.
        let next = || self.arrivals.next(context, is_to_end);
        let Some(arrived) = context.uncounted(next) else { return Ok(None) };
        if arrived - self.told >= TELL_EVERY {
            self.tell(arrived);
        }
        let input = self.workload.draw(&mut self.source);
        ledger::begin(Label::of(W::kind(&input)));
        let ended = self.until_done(context, &input)?;
        Ok(Some(Done { input, arrived, ended }))
    }

    /// What it has done counts.
    fn settled(&mut self, Done { input, arrived, ended }: Done<W>) {
        let micros = u32::try_from(arrived.elapsed().as_micros()).unwrap_or(u32::MAX);
        self.workload.settled(&input);
        let kind = W::kind(&input);
        self.latencies.push(Latency { kind: kind as u8, micros });
        self.untold.count(kind, &ended);
        if let Ended::Commit(Some(mark)) = ended
            && self.course.acknowledge == Acknowledge::Each
        {
            self.committed.push(mark);
        }
    }

    /// Tries until there is no conflict.
    fn until_done(&mut self, context: &Context, input: &W::Input) -> Result<Ended<W::Mark>> {
        loop {
            match self.attempt(context, input) {
                Err(Error::Deadlock { .. } | Error::SerializationFailure { .. }) => {
                    self.untold.aborts += 1;
                    context.yield_now();
                }
                other => return other,
            }
        }
    }

    fn attempt(&mut self, context: &Context, input: &W::Input) -> Result<Ended<W::Mark>> {
        let mut transaction = self.session.begin(context, self.isolation, W::access(input))?;
        let mut commands =
            Commands { transaction: &mut transaction, session: &mut self.session, context };
        match W::run(&mut self.terminal, &mut commands, input) {
            Ok(Ended::Commit(mark)) => {
                transaction.commit(&mut self.session, context)?;
                Ok(Ended::Commit(mark))
            }
            Ok(Ended::Rollback) => {
                transaction.rollback(&mut self.session, context);
                Ok(Ended::Rollback)
            }
            Err(error) => {
                transaction.rollback(&mut self.session, context);
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
        if !self.committed.is_empty() {
            let committed = std::mem::take(&mut self.committed);
            let _ = self.sender.send(Letter::Told(Told::Committed(committed)));
        }
    }

    fn end(&mut self, error: Option<Error>) {
        self.tell(Instant::now());
        let _ = self.sender.send(Letter::Done(error));
    }
}
