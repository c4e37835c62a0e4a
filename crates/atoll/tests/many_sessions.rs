//! Thousands of sessions at once: each works, idles and works again; what an idle one costs; and what
//! one too many hears.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use atoll_bench::connections::{Settings, Work, run};
use common::raw::{Raw, state};
use common::{Scratch, atoll};
use rustix::process::{Resource, getrlimit, setrlimit};

/// What an idle session may hold in the server, at most.
const IDLE_BYTES_MAX: f64 = 20.0 * 1024.0;

/// As many sessions as files may be open, of at least a thousand.
fn sessions_max() -> usize {
    let mut limits = getrlimit(Resource::Nofile);
    limits.current = limits.maximum;
    setrlimit(Resource::Nofile, limits).unwrap();
    let files = limits.maximum.unwrap_or(u64::MAX);
    assert!(files >= 1200, "1,200 open files are needed, and {files} allowed");
    (files - 200).min(3000) as usize
}

#[test]
fn thousands_of_sessions_work_and_idle_cheaply() {
    let scratch = Scratch::new();
    let sessions = sessions_max();
    let settings = Settings {
        url: format!("host=127.0.0.1 port={} user=postgres dbname=postgres", scratch.port()),
        server_pid: Some(scratch.server.as_ref().unwrap().child.id()),
        counts: vec![16, sessions],
        works: vec![Work::Select, Work::Update],
        seconds: 1,
        warmup_seconds: 0,
        rounds: 1,
        rows: 10_000,
        threads: 1,
        seed: 4,
    };
    // Every answer is looked at, and acknowledged updates are counted in the table.
    let report = run(&settings, &mut |line| println!("{line}")).unwrap();
    println!("{report}");
    assert!(report.updates_checked >= sessions as u64, "each has updated at least once");
    let idle = report.idle.unwrap();
    assert_eq!(idle.sessions, sessions);
    assert!(idle.bytes > 0.0 && idle.bytes < IDLE_BYTES_MAX, "{idle:?}");
    assert!(idle.bytes_after_work < IDLE_BYTES_MAX, "{idle:?}");
}

/// One transaction at a time on each instance, while one checkpoint follows the other: all the others wait
/// for their turn, and all get it.
#[test]
fn sessions_take_turns_where_one_transaction_is_admitted() {
    let mut scratch = Scratch::without_server();
    let mut command = atoll(&scratch.data());
    command.args(["--listen", "127.0.0.1:0", "--admission-max", "1"]);
    command.args(["--checkpoint-interval", "100ms"]);
    scratch.start_with(command);
    let settings = Settings {
        url: format!("host=127.0.0.1 port={} user=postgres dbname=postgres", scratch.port()),
        server_pid: None,
        counts: vec![64],
        works: vec![Work::Select, Work::Update],
        seconds: 2,
        warmup_seconds: 0,
        rounds: 1,
        rows: 1000,
        threads: 1,
        seed: 4,
    };
    let report = run(&settings, &mut |line| println!("{line}")).unwrap();
    assert!(report.updates_checked >= 64, "{report}");
    let mut client = scratch.connect();
    let shown: String = client.query_one("show admission_max", &[]).unwrap().get(0);
    assert_eq!(shown, "1");
    // Who is in a transaction and idles keeps nobody out, nor does who waits for its row.
    client.batch_execute("begin; update connections_rows set value = value where id = 1").unwrap();
    let waits: Vec<_> = (0..4)
        .map(|_| {
            let mut waiter = scratch.connect();
            let update = "update connections_rows set value = value where id = 1";
            std::thread::spawn(move || waiter.execute(update, &[]).unwrap())
        })
        .collect();
    for _ in 0..4 {
        let mut other = scratch.connect();
        other.execute("update connections_rows set value = value where id = 2", &[]).unwrap();
    }
    client.batch_execute("commit").unwrap();
    for waiter in waits {
        assert_eq!(waiter.join().unwrap(), 1);
    }
}

/// The state of the error that a new connection's startup is answered by; none if it is served.
fn refusal(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    let pairs = b"user\0postgres\0database\0postgres\0\0";
    let mut bytes = (pairs.len() as u32 + 8).to_be_bytes().to_vec();
    bytes.extend_from_slice(&196_608_u32.to_be_bytes());
    bytes.extend_from_slice(pairs);
    // It may be refused, and closed, before this is sent.
    let _ = stream.write_all(&bytes);
    let mut head = [0; 5];
    stream.read_exact(&mut head).unwrap();
    if head[0] != b'E' {
        return None;
    }
    let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
    stream.read_exact(&mut body).unwrap();
    assert!(body.starts_with(b"SFATAL\0"));
    assert!(String::from_utf8_lossy(&body).contains("sorry, too many clients already"));
    Some(state(&body))
}

/// The limit is of all instances together, whichever of them a connection comes to first.
#[test]
fn one_session_too_many_is_refused_and_the_next_that_fits_is_not() {
    let mut scratch = Scratch::without_server();
    let mut command = atoll(&scratch.data());
    command.args(["--listen", "127.0.0.1:0", "--sessions-max", "5"]);
    scratch.start_with(command);
    let port = scratch.port();
    let mut sessions: Vec<Raw> = (0..10).map(|_| Raw::start(port)).collect();
    for _ in 0..3 {
        assert_eq!(refusal(port).as_deref(), Some("53300"));
    }
    for session in &mut sessions {
        assert_eq!(session.says("select 1"), ("TDCZ".to_owned(), String::new()));
    }
    // Wherever one ends, one fits.
    for at in [3, 4, 6] {
        sessions.remove(at);
        let until = Instant::now() + Duration::from_secs(90);
        while let Some(state) = refusal(port) {
            assert_eq!(state, "53300");
            assert!(Instant::now() < until, "the ended session's place is not free");
        }
    }
    assert_eq!(sessions.len(), 7);
    for session in &mut sessions {
        assert_eq!(session.says("select 1"), ("TDCZ".to_owned(), String::new()));
    }
}
