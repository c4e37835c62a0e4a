//! A whole run over the wire: load, warm up, measure, check.
//!
//! Invariants: each client is a thread with its connection; `arrivals` says when its transactions
//! begin, and from when their latencies count. Processor times are of clients that are connected and ready. Conflicts (40001, 40P01) are counted and retried
//! with the same input. A server that goes away ends the run with an error. If there is a record, a
//! transaction is put down by its own client between its acknowledgement and the client's next.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use atoll_kernel::runtime::ThreadParker;
use atoll_kernel::sync::{AtomicBool, Ordering};
use postgres::Client;

use super::routing::{self, Place, Sessions};
use super::{
    Record, Result, Shape, Sql, Wire, allow_connections, connect_to, copy, message, start,
};
use crate::arrivals::Arrivals;
use crate::cpu::{self, Machine, MachineClock};
use crate::memory::Series;
use crate::report::{Driven, Report, Side};
use crate::setting::{Durability, Isolation, Server, Setting};
use crate::sql::number;
use crate::ticker::Ticker;
use crate::workload::{Acknowledge, Counts, Ended, Loaded};

/// Files that a driver's connection has open: its socket, and three of its runtime's to wait for that.
const FILES_A_CLIENT: u64 = 4;
/// How often a client tells what it has done.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Loads the tables if they are not there, runs, checks. Errors are one line.
pub fn run<W: Wire>(
    workload: &W,
    setting: &Setting,
    server: &Server,
    say: &mut dyn FnMut(&str),
) -> Result<Report> {
    run_recorded(workload, setting, server, None, say)
}

/// The same; every acknowledged transaction that changed something is put down in `record`.
pub fn run_recorded<W: Wire>(
    workload: &W,
    setting: &Setting,
    server: &Server,
    record: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<Report> {
    workload.validate()?;
    setting.validate_timed()?;
    if record.is_some() && setting.durability == Durability::Relaxed {
        return Err("a relaxed commit promises nothing that could be put down".to_owned());
    }
    allow_connections(setting.clients, FILES_A_CLIENT)?;
    let mut client = connect_to(&server.url)?;
    routing::check_server(&mut client, workload)?;
    let record = record.map(|path| Record::create(path, W::NAME)).transpose()?;
    let target = Target { server, record: record.as_ref() };
    let names: Vec<String> = W::TABLES.iter().map(|name| format!("'{name}'")).collect();
    let there = format!(
        "select count(*) from pg_class where relkind = 'r' and relname in ({})",
        names.join(", ")
    );
    let loaded = if number(&mut client, &there)? == 0 {
        say(&format!("loading about {} rows", workload.rows()));
        copy::load(&mut client, workload, setting, &server.url, say)?
    } else {
        workload.check_tables(&mut client)?;
        Loaded::default()
    };
    let before = workload.look_remotely(&mut client, &loaded);
    let before = before.map_err(|what| format!("the tables are there but not whole: {what}"))?;
    let mut tally = W::Tally::default();
    if setting.warmup_seconds > 0 {
        say("warming up");
        let warmup = Setting { seconds: setting.warmup_seconds, ..setting.clone() };
        drive(workload, &warmup, &target, &mut tally, say)?;
    }
    say(&format!("running for {} s", setting.seconds));
    let counted = workload.near(0).map(|_| Sessions::counted(&mut client)).transpose()?;
    let (driven, took) = drive(workload, setting, &target, &mut tally, say)?;
    let sessions = match counted {
        Some(before) => Some(Sessions::counted(&mut client)?.since(&before, took.at_home)),
        None => None,
    };
    say("checking");
    let began = Instant::now();
    let checked = workload.verify_remotely(&mut client, &before, &tally)?;
    say(&checked.what);
    let Took { server_cpu, client_cpu, machine, memory, .. } = took;
    let side = Side::Wire { server_cpu, client_cpu, machine, memory, sessions };
    Ok(Report::of(workload, setting, driven, side, loaded, (checked, began.elapsed())))
}

/// What clients and their server took of the machine.
struct Took {
    server_cpu: Option<Duration>,
    client_cpu: Duration,
    machine: Machine,
    /// Of the server.
    memory: Series,
    /// Clients whose sessions were where their data is.
    at_home: u64,
}

/// Where the clocks of processors stand.
struct Meter {
    server_pid: Option<u32>,
    server_cpu: Option<Duration>,
    client_cpu: Duration,
    machine: MachineClock,
}

impl Meter {
    /// From now on.
    fn begin(server_pid: Option<u32>) -> Meter {
        Meter {
            server_pid,
            server_cpu: server_pid.and_then(cpu::of_tree),
            client_cpu: cpu::own(),
            machine: MachineClock::now(),
        }
    }

    /// Until now.
    fn end(&self, memory: Series) -> Took {
        let machine = self.machine.elapsed();
        let client_cpu = cpu::own().saturating_sub(self.client_cpu);
        let server_cpu = self.server_pid.and_then(cpu::of_tree).zip(self.server_cpu);
        let server_cpu = server_cpu.map(|(after, before)| after.saturating_sub(before));
        Took { server_cpu, client_cpu, machine, memory, at_home: 0 }
    }
}

/// Where transactions go, and where they are put down.
struct Target<'a> {
    server: &'a Server,
    record: Option<&'a Record>,
}

/// A client's connection and its prepared statements.
struct Terminal<W: Wire> {
    client: Client,
    statements: W::Statements,
}

impl<W: Wire> Terminal<W> {
    fn new(
        (workload, number): (&W, u64),
        setting: &Setting,
        target: &Target<'_>,
    ) -> Result<Terminal<W>> {
        let mut client = connect_to(&target.server.url)?;
        let failed = |error: postgres::Error| message(&error);
        let isolation = match setting.isolation {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
        };
        let settings = format!("set default_transaction_isolation = '{isolation}'");
        client.batch_execute(&settings).map_err(failed)?;
        if setting.durability == Durability::Relaxed {
            client.batch_execute("set synchronous_commit = off").map_err(failed)?;
        }
        routing::begin(&mut client, workload.near(number))?;
        let failed = |error| format!("preparing: {error}");
        let mut statements = workload.prepare(&mut client).map_err(failed)?;
        if target.record.is_some() {
            W::keep_traces(&mut client, &mut statements).map_err(failed)?;
        }
        Ok(Terminal { client, statements })
    }

    /// Where its session is, if there is a place where it had rather be.
    fn place(&mut self, workload: &W, number: u64) -> Result<Option<Place>> {
        let near = workload.near(number);
        near.map(|near| routing::place(&mut self.client, near)).transpose()
    }

    fn attempt(&mut self, input: &W::Input) -> Sql<Ended<W::Mark>> {
        let Terminal { client, statements } = self;
        if W::shape(input) == Shape::Statement {
            return W::execute(client, statements, input);
        }
        client.batch_execute("begin")?;
        let ended = W::execute(client, statements, input)?;
        match ended {
            Ended::Commit(_) => client.batch_execute("commit")?,
            Ended::Rollback => client.batch_execute("rollback")?,
        }
        Ok(ended)
    }

    /// Tries until there is no conflict.
    fn until_done(&mut self, input: &W::Input, counts: &mut Counts) -> Sql<Ended<W::Mark>> {
        loop {
            match self.attempt(input) {
                Err(error) if error.is_conflict() => {
                    counts.aborts += 1;
                    if W::shape(input) == Shape::Block {
                        self.client.batch_execute("rollback")?;
                    }
                }
                other => return other,
            }
        }
    }
}

/// What clients go on by: until the arrivals end, or one of them has failed, for then the work of the others is for
/// nothing, too.
struct Course {
    arrivals: Arrivals,
    failed: AtomicBool,
}

impl Course {
    fn new(arrivals: Arrivals) -> Course {
        Course { arrivals, failed: AtomicBool::new(false) }
    }

    /// As [`Arrivals::next`].
    fn next(&self, parker: &ThreadParker) -> Option<Instant> {
        self.arrivals.next(parker, || self.failed.load(Ordering::Relaxed))
    }

    /// What came of a client.
    fn heed<T>(&self, done: Result<T>) -> Result<T> {
        if done.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        done
    }
}

/// What a client tells: counts, and marks.
type News<W> = (Counts, Vec<<W as crate::workload::Workload>::Mark>);

fn drive<W: Wire>(
    workload: &W,
    setting: &Setting,
    target: &Target<'_>,
    tally: &mut W::Tally,
    say: &mut dyn FnMut(&str),
) -> Result<(Driven, Took)> {
    let mut terminals = Vec::new();
    for number in 0..setting.clients {
        terminals.push(Terminal::new((workload, number), setting, target)?);
    }
    let meter = Meter::begin(target.server.pid);
    let course = Course::new(Arrivals::new(Duration::from_secs(setting.seconds), setting.rate));
    let (sender, receiver) = mpsc::channel::<News<W>>();
    let (mut driven, mut memory) = (Driven::new(W::KINDS.len()), Series::default());
    let done: Vec<Result<(Driven, Option<Place>)>> = std::thread::scope(|scope| -> Result<_> {
        let mut threads = Vec::new();
        for (number, terminal) in (0_u64..).zip(terminals) {
            let (sender, course) = (sender.clone(), &course);
            let source = workload.source(number, setting.seed);
            let thread = start(scope, move || {
                let mut terminal = terminal;
                let own = (&mut terminal, target.record);
                let done = one_client(workload, own, source, course, &sender);
                course.heed(done.and_then(|done| Ok((done, terminal.place(workload, number)?))))
            });
            threads.push(course.heed(thread)?);
        }
        drop(sender);
        let mut ticker = Ticker::new();
        if let Some(pid) = target.server.pid {
            memory.look(pid, || None);
        }
        while let Ok((counts, marks)) = receiver.recv() {
            driven.counts.add(&counts);
            ticker.add(&counts);
            marks.into_iter().for_each(|mark| W::add(tally, mark));
            if let Some(pid) = target.server.pid {
                memory.look(pid, || None);
            }
            if let Some(line) = ticker.line() {
                say(&line);
            }
        }
        Ok(threads.into_iter().map(|it| it.join().expect("a client does not panic")).collect())
    })?;
    driven.elapsed = course.arrivals.began().elapsed();
    let mut took = meter.end(memory);
    driven.unserved = course.arrivals.unserved();
    for done in done {
        let (done, place) = done?;
        took.at_home += u64::from(place == Some(Place::Home));
        driven.latencies.add(&done.latencies);
        for (all, own) in driven.by_kind.iter_mut().zip(&done.by_kind) {
            all.add(own);
        }
    }
    Ok((driven, took))
}

/// Runs until the arrivals end, or a client has failed; answers latencies, the rest is told by the way.
fn one_client<W: Wire>(
    workload: &W,
    (terminal, record): (&mut Terminal<W>, Option<&Record>),
    mut source: W::Source,
    course: &Course,
    sender: &mpsc::Sender<News<W>>,
) -> Result<Driven> {
    let mut done = Driven::new(W::KINDS.len());
    let (mut untold, mut marks, mut told) = (Counts::default(), Vec::new(), Instant::now());
    let parker = ThreadParker::new();
    while let Some(arrived) = course.next(&parker) {
        let input = workload.draw(&mut source);
        let kind = W::kind(&input);
        let ended = terminal.until_done(&input, &mut untold);
        let ended = ended.map_err(|error| format!("{}: {error}", W::KINDS[kind]))?;
        done.record(kind, arrived.elapsed());
        if let (Ended::Commit(_), Some(record)) = (&ended, record)
            && let Some(trace) = W::take_trace(&mut terminal.statements)
        {
            record.add(&trace)?;
        }
        workload.settled(&input);
        untold.count(kind, &ended);
        if let Ended::Commit(Some(mark)) = ended
            && W::ACKNOWLEDGE == Acknowledge::Each
        {
            marks.push(mark);
        }
        if told.elapsed() > TELL_EVERY {
            told = Instant::now();
            // The receiver lives until all clients have ended.
            let _ = sender.send((std::mem::take(&mut untold), std::mem::take(&mut marks)));
        }
    }
    let _ = sender.send((untold, marks));
    Ok(done)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::arrivals::Rate;

    #[test]
    fn one_client_that_fails_ends_the_others() {
        let parker = ThreadParker::new();
        for rate in [None, Some(Rate::new(1000.0).unwrap())] {
            let course = Course::new(Arrivals::new(Duration::from_secs(3600), rate));
            assert!(course.heed(Ok(1)).is_ok() && course.next(&parker).is_some());
            assert!(course.heed::<()>(Err("gone".to_owned())).is_err());
            assert_eq!(course.next(&parker), None, "{rate:?}");
        }
    }
}
