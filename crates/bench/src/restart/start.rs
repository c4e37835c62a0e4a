//! A start on a copy of what a killed server left, timed to its first answer.
//!
//! Invariants: time counts from before the program is started until the answer has come. An answer is wrong
//! unless it is the sum of the history's rows, and the history has exactly the acknowledged transactions.
//! The server ends, and its copy goes, before another is started.

use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use postgres::Client;

use super::Plan;
use super::killed::Killed;
use super::memory::touch;
use crate::compare::Result;
use crate::compare::engine::{Crash, Door};
use crate::compare::process::{self, Watch};
use crate::compare::server::Server;
use crate::wire::{self, Address};

/// What a server that has started is asked.
pub const QUESTION: &str = "select sum(bbalance) from pgbench_branches";
/// What it must agree with.
const HISTORY: &str = "select sum(delta), count(*) from pgbench_history";
/// Between a try and the next.
pub const ASK_EVERY: Duration = Duration::from_millis(20);
/// Between what came before and a start.
pub const PAUSE: Duration = Duration::from_secs(3);
/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(3600);
/// How long a copy may take.
const COPY_LIMIT: Duration = Duration::from_secs(3600);

/// One start.
#[derive(Clone, Debug)]
pub struct Start {
    /// From the start of the program to its first answer.
    pub seconds: f64,
    /// Processor time of the server until then, in seconds.
    pub cpu: f64,
    /// Seconds that replay took, as the server says; none where it does not.
    pub replay: Option<f64>,
    /// The lines in which it tells of its recovery.
    pub told: Vec<String>,
}

/// Copies, lets memory be backed, pauses, starts, asks.
pub fn on_a_copy(
    plan: &Plan,
    killed: &Killed,
    folder: &std::path::Path,
    watch: &Watch<'_>,
) -> Result<Start> {
    let contender = &killed.server.contender;
    let lodging = Server::lodging(contender, folder.join("copy"))?;
    let mut copy = Command::new("cp");
    copy.args(["-a", "--reflink=auto"]).arg(killed.server.room().data()).arg(lodging.0.data());
    let what = format!("copying what {} left", contender.version);
    process::run(&what, copy, folder, COPY_LIMIT, watch)?;
    // What was written to the system's cache is not to be paid by the start.
    rustix::fs::sync();
    touch(plan.touch_bytes, watch)?;
    pause(watch)?;
    let began = Instant::now();
    let mut server = Server::spawn(contender, lodging, &plan.tuning)?;
    let First { mut client, at, branches } = first_answer(&mut server, watch)?;
    let seconds = at.saturating_duration_since(began).as_secs_f64();
    let cpu = server.cpu()?.as_secs_f64();
    let name = &contender.version;
    let row = client.query_one(HISTORY, &[]);
    let row = row.map_err(|error| format!("{name}: {HISTORY}: {}", wire::message(&error)))?;
    let get =
        |at| row.try_get::<_, Option<i64>>(at).map_err(|it| format!("{name}: {HISTORY}: {it}"));
    judge(branches, (get(0)?, get(1)?), killed.transactions)
        .map_err(|wrong| format!("{name}: {wrong}"))?;
    let (told, replay) = told(&server.said(), &killed.crash);
    Ok(Start { seconds, cpu, replay, told })
}

/// Whether what a server answers after its start is what was acknowledged before.
fn judge(
    branches: Option<i64>,
    (deltas, rows): (Option<i64>, Option<i64>),
    transactions: u64,
) -> Result<()> {
    let rows = rows.and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
    if rows != transactions {
        return Err(format!(
            "{transactions} transactions were acknowledged, and after the start there are {rows}"
        ));
    }
    if branches.unwrap_or(0) != deltas.unwrap_or(0) {
        let [branches, deltas] = [branches, deltas].map(|it| it.unwrap_or(0));
        return Err(format!(
            "after the start the sum of pgbench_branches is {branches}, that of pgbench_history {deltas}"
        ));
    }
    Ok(())
}

/// The lines of its log that tell of recovery, and the seconds that they say of replay.
fn told(log: &str, crash: &Crash) -> (Vec<String>, Option<f64>) {
    let tells = |line: &&str| crash.told.iter().any(|it| line.contains(it));
    let lines: Vec<String> = log.lines().filter(tells).map(|it| it.trim().to_owned()).collect();
    let seconds = |line: &String| {
        let (_, rest) = line.split_once(crash.replay)?;
        let words = rest.trim_start_matches("in ").trim();
        words.split(' ').next()?.parse::<f64>().ok()
    };
    let replay = lines.iter().find_map(seconds);
    (lines, replay)
}

fn pause(watch: &Watch<'_>) -> Result<()> {
    let until = Instant::now() + PAUSE;
    while Instant::now() < until {
        watch.check()?;
        std::thread::sleep(ASK_EVERY);
    }
    Ok(())
}

/// The first answer, and when it came.
struct First {
    client: Client,
    at: Instant,
    branches: Option<i64>,
}

/// What a try came to.
enum Try {
    /// It takes no sessions yet, and says so.
    NotYet(String),
    /// It does, and does not answer.
    Failed(String),
    /// It has answered.
    Answered(Box<First>),
}

/// Asks until it is answered. A connection that is taken and left waiting would keep whoever asks from hearing
/// the person's wish and the server's end: so another thread asks.
fn first_answer(server: &mut Server, watch: &Watch<'_>) -> Result<First> {
    let name = server.contender.version.clone();
    let Door::Postgres(address) = server.door.clone() else {
        return Err(format!("{name} does not speak PostgreSQL's protocol"));
    };
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            let tried = ask(&address);
            let goes_on = matches!(tried, Try::NotYet(_));
            // Nobody listens any more when the start was given up.
            if tell.send(tried).is_err() || !goes_on {
                return;
            }
            std::thread::sleep(ASK_EVERY);
        }
    });
    let (until, mut last) = (Instant::now() + ANSWER_LIMIT, "nothing".to_owned());
    loop {
        match told.recv_timeout(ASK_EVERY) {
            Ok(Try::Answered(first)) => return Ok(*first),
            Ok(Try::Failed(why)) => return Err(format!("{name}: {QUESTION}: {why}")),
            Ok(Try::NotYet(why)) => last = why,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(format!("{name}: nobody asks any more"));
            }
        }
        server.check_starting()?;
        watch.check()?;
        if Instant::now() >= until {
            let limit = ANSWER_LIMIT.as_secs();
            return Err(format!("{name} did not answer within {limit} s: {last}"));
        }
    }
}

fn ask(address: &Address) -> Try {
    let mut client = match wire::connect(address) {
        Ok(client) => client,
        Err(why) => return Try::NotYet(why),
    };
    match client.query_one(QUESTION, &[]) {
        Ok(row) => match row.try_get(0) {
            Ok(branches) => Try::Answered(Box::new(First { client, at: Instant::now(), branches })),
            Err(error) => Try::Failed(error.to_string()),
        },
        // Without a code the connection has gone: the server's end says more.
        Err(error) if error.code().is_none() => Try::NotYet(wire::message(&error)),
        Err(error) => Try::Failed(wire::message(&error)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::compare::engine::{Atoll, Engine, Postgres};

    #[test]
    fn only_what_was_acknowledged_is_right() {
        assert_eq!(judge(Some(-7), (Some(-7), Some(3)), 3), Ok(()));
        assert_eq!(judge(Some(0), (None, Some(0)), 0), Ok(()));
        let lost = judge(Some(-7), (Some(-7), Some(2)), 3).unwrap_err();
        assert_eq!(lost, "3 transactions were acknowledged, and after the start there are 2");
        assert!(judge(Some(-7), (Some(-7), Some(4)), 3).unwrap_err().ends_with("there are 4"));
        let torn = judge(Some(8), (Some(-7), Some(3)), 3).unwrap_err();
        assert!(torn.contains("pgbench_branches is 8, that of pgbench_history -7"), "{torn}");
    }

    #[test]
    fn servers_tell_of_their_recovery() {
        let said = "atoll: something\natoll: loaded checkpoint 1: 40123 pages in 0.412 s\n\
                    atoll: replayed 100 row changes, 50 a second\n\
                    atoll: replayed 1200 commits, 5400 row changes in 1.920 s\natoll: ready\n";
        let atoll = Atoll { program: "/a".into() }.crash().unwrap();
        let (lines, replay) = told(said, &atoll);
        assert_eq!((lines.len(), replay), (2, Some(1.92)));
        assert_eq!(lines[0], "atoll: loaded checkpoint 1: 40123 pages in 0.412 s");
        let said = "2026-11-25 LOG:  redo starts at 0/5C000028\n\
                    2026-11-25 LOG:  redo done at 0/6 system usage: CPU: user: 5.10 s, system: 1.20 s, \
                    elapsed: 7.31 s\n2026-11-25 LOG:  checkpoint starting: end-of-recovery\n";
        let postgres = Postgres { bin: "/p".into() }.crash().unwrap();
        let (lines, replay) = told(said, &postgres);
        assert_eq!((lines.len(), replay), (2, Some(7.31)));
        assert_eq!(told("nothing of it\n", &postgres), (Vec::new(), None));
    }

    #[test]
    fn who_is_not_there_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let tried = ask(&Address::Socket(folder.path().to_owned(), 5432));
        assert!(matches!(tried, Try::NotYet(why) if why.contains("cannot connect")));
    }
}
