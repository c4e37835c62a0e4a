//! `buffer_pool` is a hard limit: what the process has in memory is the sum that docs/operations.md gives
//! ("What a server has in memory"), however much larger the data is and whatever is done to it.

use std::time::{Duration, Instant};

use atoll_kernel::sync::{AtomicBool, AtomicU64, Ordering};

use crate::common::{Scratch, atoll_with_pool};

const MIB: u64 = 1 << 20;
const POOL: u64 = 48 * MIB;
const UNDO: u64 = 16 * MIB;
const INSTANCES: u64 = 2;
/// As documented: of the process, and of each instance.
const PROCESS: u64 = 16 * MIB;
const INSTANCE: u64 = 16 * MIB;
const ROWS: i32 = 400_000;
const WORKERS: usize = 8;

/// Resident memory that is no file's, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// The most that is seen of it until `is_over`.
fn watch(pid: u32, is_over: &AtomicBool) -> u64 {
    let mut most = 0;
    while !is_over.load(Ordering::Relaxed) {
        most = most.max(resident(pid));
        std::thread::sleep(Duration::from_millis(20));
    }
    most
}

/// Changes, inserts, deletes and reads rows all over the table until the time has come.
fn work(scratch: &Scratch, seed: u64, until: Instant, done: &AtomicU64) {
    let mut client = scratch.connect();
    let mut random = fastrand::Rng::with_seed(seed);
    let update = client.prepare("update big set n = n + 1, text = $2 where id = $1").unwrap();
    let delete = client.prepare("delete from big where id = $1").unwrap();
    let insert = "insert into big values ($1, $1, $2) on conflict (id) do nothing";
    let insert = client.prepare(insert).unwrap();
    let sum = "select count(*), sum(n) from big where id between $1 and $1 + 20000";
    let sum = client.prepare(sum).unwrap();
    while Instant::now() < until {
        let id = random.i32(0..ROWS);
        let text = "x".repeat(random.usize(100..600));
        match random.u8(0..40) {
            0 => drop(client.query_one(&sum, &[&id]).unwrap()),
            1..5 => drop(client.execute(&delete, &[&id]).unwrap()),
            5..9 => drop(client.execute(&insert, &[&id, &text]).unwrap()),
            _ => drop(client.execute(&update, &[&id, &text]).unwrap()),
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn resident_memory_stays_within_what_is_documented() {
    let mut scratch = Scratch::without_server();
    let mut command = atoll_with_pool(&scratch.data(), &format!("{}MB", POOL / MIB));
    command.args(["--listen", "127.0.0.1:0", "--supervise", "off"]);
    command.args(["--checkpoint-interval", "1s", "--undo-memory", &format!("{}MB", UNDO / MIB)]);
    scratch.start_with(command);
    let pid = scratch.server.as_ref().unwrap().child.id();
    let limit = POOL + UNDO + PROCESS + INSTANCES * INSTANCE;
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let most = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(pid, &is_over));
        let mut client = scratch.connect();
        client.batch_execute("create table big (id int primary key, n int, text text)").unwrap();
        for first in (0..ROWS).step_by(5000) {
            let rows = format!(
                "insert into big select i, i, repeat('y', 400) from generate_series({first}, {first} + 4999) i"
            );
            client.batch_execute(&rows).unwrap();
        }
        client.batch_execute("create index on big (n)").unwrap();
        let until = Instant::now() + Duration::from_secs(4);
        let workers: Vec<_> = (0..WORKERS as u64)
            .map(|seed| {
                scope.spawn({
                    let (scratch, done) = (&scratch, &done);
                    move || work(scratch, seed, until, done)
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        client.query_one("select count(*), sum(length(text)) from big", &[]).unwrap();
        client.batch_execute("checkpoint").unwrap();
        is_over.store(true, Ordering::Relaxed);
        watching.join().unwrap()
    });
    let mut client = scratch.connect();
    let sum = "select sum(pages_evicted)::bigint from atoll_memory";
    let evicted: i64 = client.query_one(sum, &[]).unwrap().get(0);
    println!("{} MiB of {}, {evicted} pages left", most / MIB, limit / MIB);
    println!("{} statements", done.load(Ordering::Relaxed));
    assert!(evicted as u64 * 16 * 1024 > 2 * POOL, "the data was larger than the pool");
    assert!(most > POOL / 2, "somebody else was watched");
    assert!(most < limit, "{} MiB are resident, {} are allowed", most / MIB, limit / MIB);
}
