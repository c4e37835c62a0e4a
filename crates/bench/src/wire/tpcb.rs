//! A TPC-B-like load through SQL: pgbench's default script, every transaction marked in
//! pgbench_history so that an acknowledged one can be found again after a crash.
//!
//! Invariants: a transaction's mark is `client:number`; `Acknowledged` holds exactly the numbers
//! whose COMMIT was answered. The transaction in flight when the server died is in neither list.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use postgres::Client;

use super::load::{ACCOUNTS, TELLERS};
use super::{Address, Result, connect, message};
use crate::latency::Latencies;

/// What to run.
pub struct Run {
    /// Where the server is.
    pub address: Address,
    /// How many connections, each on a thread.
    pub clients: u64,
    /// The scale that the tables were loaded with.
    pub scale: u64,
    /// For how long; a server that dies ends it earlier.
    pub seconds: u64,
    /// The seed of all random choices.
    pub seed: u64,
    /// Numbers of transactions begin here, so that two runs do not share marks.
    pub first_number: u64,
}

/// What one client was told.
pub struct Acknowledged {
    /// The client's number.
    pub client: u64,
    /// The numbers of its acknowledged transactions: all of this range...
    pub numbers: std::ops::Range<u64>,
    /// ... but those that failed and were rolled back.
    pub failed: Vec<u64>,
}

/// What came of a run.
pub struct Outcome {
    /// What each client was told.
    pub acknowledged: Vec<Acknowledged>,
    /// Latencies of acknowledged transactions.
    pub latencies: Latencies,
    /// From the first client's start to the last one's end.
    pub elapsed: Duration,
    /// How many clients ended because the server went away.
    pub disconnected: usize,
    /// The first failure that was not a disconnection, if any.
    pub error: Option<String>,
}

impl Outcome {
    /// Acknowledged transactions.
    pub fn transactions(&self) -> u64 {
        self.latencies.count()
    }

    /// Acknowledged transactions a second.
    pub fn per_second(&self) -> f64 {
        self.transactions() as f64 / self.elapsed.as_secs_f64()
    }
}

struct ClientResult {
    acknowledged: Acknowledged,
    latencies: Latencies,
    disconnected: bool,
    error: Option<String>,
}

/// Runs the load; `progress` gets the transactions acknowledged so far, about twice a second.
pub fn run(run: &Run, progress: &mut dyn FnMut(u64, Duration)) -> Result<Outcome> {
    let mut clients = Vec::new();
    for _ in 0..run.clients {
        clients.push(connect(&run.address)?);
    }
    let began = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let results: Vec<ClientResult> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, client) in clients.into_iter().enumerate() {
            let sender = sender.clone();
            threads
                .push(scope.spawn(move || one_client(run, number as u64, client, began, &sender)));
        }
        drop(sender);
        let (mut done, mut said) = (0, Instant::now());
        while let Ok(count) = receiver.recv() {
            done += count;
            if said.elapsed() > Duration::from_millis(500) {
                said = Instant::now();
                progress(done, began.elapsed());
            }
        }
        threads.into_iter().map(|it| it.join().expect("a client does not panic")).collect()
    });
    let mut outcome = Outcome {
        acknowledged: Vec::new(),
        latencies: Latencies::default(),
        elapsed: began.elapsed(),
        disconnected: 0,
        error: None,
    };
    for result in results {
        outcome.latencies.add(&result.latencies);
        outcome.acknowledged.push(result.acknowledged);
        outcome.disconnected += usize::from(result.disconnected);
        outcome.error = outcome.error.or(result.error);
    }
    Ok(outcome)
}

fn one_client(
    run: &Run,
    number: u64,
    mut client: Client,
    began: Instant,
    sender: &mpsc::Sender<u64>,
) -> ClientResult {
    let mut random = fastrand::Rng::with_seed(run.seed ^ (number << 32) ^ run.first_number);
    let first = run.first_number;
    let mut result = ClientResult {
        acknowledged: Acknowledged { client: number, numbers: first..first, failed: Vec::new() },
        latencies: Latencies::default(),
        disconnected: false,
        error: None,
    };
    let statements = match Statements::prepare(&mut client) {
        Ok(statements) => statements,
        Err(error) => {
            result.error = Some(message(&error));
            return result;
        }
    };
    let (end, mut unsaid, mut said) = (Duration::from_secs(run.seconds), 0, Instant::now());
    while began.elapsed() < end {
        let at = result.acknowledged.numbers.end;
        let mark = format!("{number}:{at}");
        let start = Instant::now();
        match statements.transaction(&mut client, &mut random, run.scale, &mark) {
            Ok(()) => {
                result.latencies.record(start.elapsed());
                unsaid += 1;
            }
            Err(error) if error.is_closed() || error.as_db_error().is_none() => {
                result.disconnected = true;
                break;
            }
            Err(error) if is_shutdown(&error) => {
                result.disconnected = true;
                break;
            }
            Err(error) => {
                result.error.get_or_insert(message(&error));
                result.acknowledged.failed.push(at);
                if client.batch_execute("rollback").is_err() {
                    break;
                }
            }
        }
        result.acknowledged.numbers.end += 1;
        if said.elapsed() > Duration::from_millis(100) {
            said = Instant::now();
            // The receiver lives until all clients have ended.
            let _ = sender.send(std::mem::take(&mut unsaid));
        }
    }
    let _ = sender.send(unsaid);
    result
}

fn is_shutdown(error: &postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("57P"))
}

struct Statements {
    account: postgres::Statement,
    balance: postgres::Statement,
    teller: postgres::Statement,
    branch: postgres::Statement,
    history: postgres::Statement,
}

impl Statements {
    fn prepare(client: &mut Client) -> std::result::Result<Statements, postgres::Error> {
        Ok(Statements {
            account: client
                .prepare("UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2")?,
            balance: client.prepare("SELECT abalance FROM pgbench_accounts WHERE aid = $1")?,
            teller: client
                .prepare("UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2")?,
            branch: client
                .prepare("UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2")?,
            history: client.prepare(
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime, filler) \
                 VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP, $5)",
            )?,
        })
    }

    fn transaction(
        &self,
        client: &mut Client,
        random: &mut fastrand::Rng,
        scale: u64,
        mark: &str,
    ) -> std::result::Result<(), postgres::Error> {
        let aid = random.u64(1..=scale * ACCOUNTS) as i32;
        let bid = random.u64(1..=scale) as i32;
        let tid = random.u64(1..=scale * TELLERS) as i32;
        let delta = random.i32(-5000..=5000);
        client.batch_execute("BEGIN")?;
        client.execute(&self.account, &[&delta, &aid])?;
        client.query(&self.balance, &[&aid])?;
        client.execute(&self.teller, &[&delta, &tid])?;
        client.execute(&self.branch, &[&delta, &bid])?;
        client.execute(&self.history, &[&tid, &bid, &aid, &delta, &mark])?;
        client.batch_execute("END")
    }
}
