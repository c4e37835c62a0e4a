//! Several at once in slices: each runs for a fifth of a second or so while all others are stopped.
//!
//! Where a machine changes its speed from second to second, two runs one after the other tell little. In slices all
//! meet the same moods, and so few transactions are under way when a slice ends that it costs none of them much.
//!
//! Invariants: only the one whose slice it is runs, the others are stopped; a slice's length is drawn, so that it beats
//! with nothing that comes at intervals. A pair of server and client is measured over its own slices: what the machine
//! does in those of others is not its. What clients say of latencies holds the time in which they were stopped: it is not
//! told.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Result;
use super::clients::{Clients, Length, Sample};
use super::process::{LOOK_EVERY, Running, Watch};
use super::rounds::turns;
use super::server::{Folder, Server};
use super::workload::Workload;
use crate::cpu::{Machine, Watching};
use crate::random::Random;

/// One of those that run in slices.
pub trait Party {
    /// Lets it go on; the first time, starts it.
    fn go_on(&mut self) -> Result<()>;
    /// Stops it where it is.
    fn stop(&mut self);
    /// Whether it has ended; only asked while it goes on.
    fn has_ended(&mut self) -> Result<bool>;
    /// Takes what it leaves, once it has ended; an error if it has failed.
    fn finish(&mut self) -> Result<()>;
}

/// Lets all run to their ends, in this order again and again, each for about `slice`; no longer than `limit` in all.
pub fn run<P: Party>(
    parties: &mut [P],
    order: Vec<usize>,
    (slice, random): (Duration, &mut Random),
    (limit, watch): (Duration, &Watch<'_>),
) -> Result<()> {
    let (mut left, late) = (VecDeque::from(order), Instant::now() + limit);
    while let Some(turn) = left.pop_front() {
        let party = &mut parties[turn];
        party.go_on()?;
        let until = Instant::now() + slice.mul_f64(f64::from(random.number(75, 125)) / 100.0);
        if Instant::now() >= late {
            return Err(format!("runs in slices did not end within {} s", limit.as_secs()));
        }
        if ends_until(party, until, watch)? {
            party.finish()?;
        } else {
            party.stop();
            left.push_back(turn);
        }
    }
    Ok(())
}

/// Whether it has ended until then.
fn ends_until<P: Party>(party: &mut P, until: Instant, watch: &Watch<'_>) -> Result<bool> {
    loop {
        watch.check()?;
        if party.has_ended()? {
            return Ok(true);
        }
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Ok(false);
        }
        std::thread::sleep(rest.min(LOOK_EVERY));
    }
}

/// Runs of one workload with so many clients against all servers at once.
pub struct Sliced<'a> {
    /// How clients are run; their output goes to folders in its own.
    pub clients: &'a Clients<'a>,
    /// What is run.
    pub workload: &'a Workload,
    /// So many clients.
    pub count: u64,
    /// How long each server runs, the slices of others left out.
    pub length: Length,
    /// A slice, about.
    pub slice: Duration,
}

impl Sliced<'_> {
    /// Warms up, and measures; a sample for each server, in their order. Who begins is the round's.
    pub fn measure(&self, servers: &mut [(usize, Server)], round: u64) -> Result<Vec<Sample>> {
        let warmup = self.length.warmup_seconds;
        if warmup > 0 {
            self.run(servers, warmup, round)?;
        }
        // What has been written to the system's cache before is not to be paid by these runs.
        rustix::fs::sync();
        self.run(servers, self.length.seconds, round)
    }

    fn run(
        &self,
        servers: &mut [(usize, Server)],
        seconds: u64,
        round: u64,
    ) -> Result<Vec<Sample>> {
        let (count, clients) = (servers.len(), self.clients);
        // Clients count the time in which they are stopped.
        let length = Length { seconds: seconds * count as u64, warmup_seconds: 0 };
        let folder = |at: usize| Folder::new(clients.folder.join(format!("client-{at}")));
        let folders = (0..count).map(folder).collect::<Result<Vec<Folder>>>()?;
        let mut pairs = Vec::new();
        for ((_, server), folder) in servers.iter_mut().zip(&folders) {
            pairs.push(Pair::new(self, length, server, folder.path().to_owned())?);
        }
        let mut random = Random::new(round);
        run(
            &mut pairs,
            turns(count, round),
            (self.slice, &mut random),
            (length.limit(), clients.watch),
        )?;
        let samples = pairs.into_iter().map(|it| it.sample);
        samples.map(|it| it.ok_or_else(|| "a server was not measured".to_owned())).collect()
    }
}

/// A server with its client.
struct Pair<'a> {
    sliced: &'a Sliced<'a>,
    length: Length,
    server: &'a mut Server,
    folder: PathBuf,
    client: Option<Running>,
    /// Processor time that the server had used before.
    server_before: Duration,
    /// Since when its slice lasts.
    slice: (Instant, Watching),
    /// How long its slices were together, and what the machine did in them.
    ran: (Duration, Machine),
    sample: Option<Sample>,
}

impl<'a> Pair<'a> {
    /// Of a server that is paused.
    fn new(
        sliced: &'a Sliced<'a>,
        length: Length,
        server: &'a mut Server,
        folder: PathBuf,
    ) -> Result<Pair<'a>> {
        let (client, sample, ran) = (None, None, (Duration::ZERO, Machine::default()));
        let slice = (Instant::now(), Watching::now());
        let server_before = server.cpu()?;
        Ok(Pair { sliced, length, server, folder, client, server_before, slice, ran, sample })
    }

    /// Clients with a folder of this one's own.
    fn clients(&self) -> Clients<'_> {
        Clients { folder: &self.folder, ..*self.sliced.clients }
    }

    fn end_slice(&mut self) {
        let (began, watching) = &self.slice;
        // Its client has not been waited for yet.
        self.ran.1 += watching.elapsed(Duration::ZERO);
        self.ran.0 += began.elapsed();
    }
}

impl Party for Pair<'_> {
    fn go_on(&mut self) -> Result<()> {
        self.slice = (Instant::now(), Watching::now());
        self.server.resume()?;
        if let Some(client) = &self.client {
            client.resume();
            return Ok(());
        }
        let Sliced { workload, count, .. } = self.sliced;
        let clients = self.clients();
        let command = clients.command(workload, self.server, *count, self.length)?;
        let what = clients.what(workload, self.server, *count);
        self.client = Some(Running::start(&what, command, &self.folder)?);
        Ok(())
    }

    fn stop(&mut self) {
        self.client.iter().for_each(Running::pause);
        self.server.pause();
        self.end_slice();
    }

    fn has_ended(&mut self) -> Result<bool> {
        self.client.as_ref().map_or(Ok(true), Running::has_ended)
    }

    fn finish(&mut self) -> Result<()> {
        self.end_slice();
        // A server that has ended says why better than its client.
        self.server.check()?;
        let Some(client) = self.client.take() else { return Ok(()) };
        let finished = client.finish()?;
        let used = self.server.cpu()?.saturating_sub(self.server_before);
        self.server.pause();
        let Sliced { workload, count, .. } = self.sliced;
        let sample = self.clients().sample(workload, &finished, (used, self.ran.1));
        let named =
            |told| format!("{}: {told}", self.clients().what(workload, self.server, *count));
        self.sample = Some(in_its_time(sample.map_err(named)?, *count, self.ran.0));
        Ok(())
    }
}

/// A sample whose client has counted the slices of others, too, by the time that it ran.
fn in_its_time(mut sample: Sample, clients: u64, ran: Duration) -> Sample {
    let told = &mut sample.told;
    let per_second = told.transactions as f64 / ran.as_secs_f64().max(f64::MIN_POSITIVE);
    let longer = per_second / told.per_second;
    told.new_orders_per_minute = told.new_orders_per_minute.map(|it| it * longer);
    told.per_second = per_second;
    // A closed loop: its clients are always in a transaction.
    told.latency.mean = clients as f64 / per_second * 1e6;
    sample
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::compare::figures::tests::sample;
    use crate::compare::process::Wish;

    /// A party that ends in its slice of this number.
    struct Counted {
        name: char,
        left: u32,
        said: std::rc::Rc<std::cell::RefCell<String>>,
    }

    impl Counted {
        fn say(&self, what: &str) {
            self.said.borrow_mut().push_str(&format!("{}{what} ", self.name));
        }
    }

    impl Party for Counted {
        fn go_on(&mut self) -> Result<()> {
            self.left = self.left.checked_sub(1).ok_or("it goes on behind its end")?;
            self.say("+");
            Ok(())
        }

        fn stop(&mut self) {
            self.say("-");
        }

        fn has_ended(&mut self) -> Result<bool> {
            Ok(self.left == 0)
        }

        fn finish(&mut self) -> Result<()> {
            self.say(".");
            if self.name == 'x' { Err("x failed".to_owned()) } else { Ok(()) }
        }
    }

    fn said(names: [(char, u32); 3], order: [usize; 3]) -> (Result<()>, String) {
        let said = std::rc::Rc::default();
        let mut parties =
            names.map(|(name, left)| Counted { name, left, said: std::rc::Rc::clone(&said) });
        let slices = (Duration::from_millis(1), &mut Random::new(1));
        let go_on = || Wish::GoOn;
        let limits = (Duration::from_secs(60), &Watch::new(&go_on));
        let result = run(&mut parties, order.to_vec(), slices, limits);
        let text = said.borrow().trim_end().to_owned();
        (result, text)
    }

    #[test]
    fn one_runs_at_a_time_until_all_have_ended() {
        let (result, text) = said([('a', 2), ('b', 1), ('c', 3)], [2, 0, 1]);
        assert_eq!(result, Ok(()));
        assert_eq!(text, "c+ c- a+ a- b+ b. c+ c- a+ a. c+ c.");
    }

    #[test]
    fn the_first_failure_ends_all() {
        let (result, text) = said([('a', 9), ('x', 1), ('c', 9)], [0, 1, 2]);
        assert_eq!((result, text.as_str()), (Err("x failed".to_owned()), "a+ a- x+ x."));
    }

    #[test]
    fn a_run_is_counted_in_the_time_of_its_slices() {
        let mut told = sample(1000, 100, 400, 1000);
        // Its client counted two seconds, of which it ran for a half.
        told.told.per_second = 500.0;
        told.told.new_orders_per_minute = Some(300.0);
        let told = in_its_time(told, 8, Duration::from_secs(1)).told;
        assert_eq!((told.per_second, told.new_orders_per_minute), (1000.0, Some(600.0)));
        assert_eq!(told.latency.mean, 8000.0);
    }
}
