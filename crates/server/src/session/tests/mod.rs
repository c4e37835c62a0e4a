//! Sessions over real sockets and a backend that understands a handful of words.

mod ends;
mod exchange;
mod fake;
mod moves;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_kernel::io::{Disk, IoChoice, MemoryDisk, RealTime};
use atoll_kernel::runtime::{Clock, ClockChoice, Hub, Runtime, RuntimeOptions};
use atoll_kernel::sync::Ordering;

use self::fake::{Counts, Fake, Nothing};
use crate::listen::Listeners;
use crate::serve;
use crate::session::{Exchanges, SessionOptions};

struct Served {
    runtime: Runtime<Nothing>,
    address: String,
    counts: Arc<Counts>,
}

fn served() -> Served {
    served_by(IoChoice::Auto)
}

fn served_by(io: IoChoice) -> Served {
    // Tests count who goes where.
    served_with(io, SessionOptions { exchanges: Exchanges::Off, ..SessionOptions::default() })
}

fn served_with(io: IoChoice, sessions: SessionOptions) -> Served {
    let options = RuntimeOptions { instances: 2, ..RuntimeOptions::default() };
    let clock = Clock::choose(ClockChoice::Counter).unwrap();
    let hub = Hub::new(options, Arc::new(RealTime::default()), clock);
    let runtime = Runtime::start(
        hub,
        Arc::new(move |_| MemoryDisk::new(io).ring()),
        Arc::new(|_| Ok(Nothing)),
    )
    .unwrap();
    let counts = Arc::new(Counts::default());
    let listeners = Listeners::bind(&["127.0.0.1:0".to_owned()], None).unwrap();
    let addresses =
        serve::<Nothing, Fake>(runtime.hub(), listeners, counts.clone(), sessions).unwrap();
    Served { runtime, address: addresses[0].clone(), counts }
}

impl Served {
    /// Has `client` wait, and waits until it does: a request to cancel that comes before is in vain.
    fn begin_wait(&self, client: &mut Raw) {
        let before = self.counts.waits.load(Ordering::SeqCst);
        client.send(&query("wait"));
        eventually("a wait", || self.counts.waits.load(Ordering::SeqCst) > before);
    }
}

fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn query(text: &str) -> Vec<u8> {
    framed(b'Q', format!("{text}\0").as_bytes())
}

/// A client that speaks bytes.
struct Raw {
    stream: TcpStream,
    key: Vec<u8>,
}

impl Raw {
    fn connect(address: &str) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        Raw { stream, key: Vec::new() }
    }

    fn start(address: &str) -> Raw {
        let mut raw = Raw::connect(address);
        raw.startup("postgres");
        let (tags, bodies) = raw.until_ready();
        assert_eq!(tags, "RSKZ");
        raw.key = bodies[2].clone();
        raw
    }

    fn startup(&mut self, user: &str) {
        let pairs = format!("user\0{user}\0\0");
        let mut bytes = (pairs.len() as u32 + 8).to_be_bytes().to_vec();
        bytes.extend_from_slice(&196_608u32.to_be_bytes());
        bytes.extend_from_slice(pairs.as_bytes());
        self.send(&bytes);
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next message; `None` at the connection's end.
    fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        if self.stream.read_exact(&mut head).is_err() {
            return None;
        }
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).unwrap();
        Some((head[0], body))
    }

    /// Messages' tags and bodies up to ReadyForQuery or the end.
    fn until_ready(&mut self) -> (String, Vec<Vec<u8>>) {
        let (mut tags, mut bodies) = (String::new(), Vec::new());
        while let Some((tag, body)) = self.message() {
            tags.push(tag as char);
            bodies.push(body);
            if tag == b'Z' {
                break;
            }
        }
        (tags, bodies)
    }

    fn says(&mut self, bytes: &[u8]) -> String {
        self.send(bytes);
        self.until_ready().0
    }
}

fn has_state(body: &[u8], state: &str) -> bool {
    body.windows(7).any(|window| window == format!("C{state}\0").as_bytes())
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn simple_queries_are_answered_and_errors_end_only_their_query() {
    let served = served();
    let mut client = Raw::start(&served.address);
    assert_eq!(client.says(&query("nulls 2")), "TDDCZ");
    assert_eq!(client.says(&query("")), "ICZ");
    client.send(&query("error"));
    let (tags, bodies) = client.until_ready();
    assert_eq!(tags, "EZ");
    assert!(has_state(&bodies[0], "42601"));
    assert!(bodies[0].windows(3).any(|window| window == b"P3\0"));
    client.send(&query("begin"));
    assert_eq!(client.until_ready().1[1], b"T");
    // Many messages in one write, answered in order; one message byte by byte.
    let many = [query("nulls 1"), query("error"), query("commit")].concat();
    client.send(&many);
    let tags: String = (0..3).map(|_| client.until_ready().0).collect();
    assert_eq!(tags, "TDCZEZCZ");
    for byte in query("nulls 1") {
        client.send(&[byte]);
    }
    assert_eq!(client.until_ready().0, "TDCZ");
    client.send(&framed(b'Q', b"null\xffs\0"));
    let (_, bodies) = client.until_ready();
    assert!(has_state(&bodies[0], "22021"));
    client.send(&framed(b'X', b""));
    assert!(client.message().is_none());
    eventually("the session's end", || served.counts.ended.load(Ordering::SeqCst) == 1);
    served.runtime.close();
}

#[test]
fn pipelines_skip_to_sync_after_an_error() {
    let served = served();
    let mut client = Raw::start(&served.address);
    let parse = |name: &str, text: &str| framed(b'P', format!("{name}\0{text}\0\0\0").as_bytes());
    let bind = |portal: &str, name: &str, value: &str| {
        let mut body = format!("{portal}\0{name}\0\0\0\0\x01").into_bytes();
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(value.as_bytes());
        body.extend_from_slice(b"\0\0");
        framed(b'B', &body)
    };
    let execute = |portal: &str| framed(b'E', format!("{portal}\0\0\0\0\0").as_bytes());
    let (sync, flush) = (framed(b'S', b""), framed(b'H', b""));
    let describe = framed(b'D', b"Ss\0");
    let batch = [
        parse("s", "nulls"),
        describe.clone(),
        bind("", "s", "2"),
        execute(""),
        sync.clone(),
        bind("", "unknown", "2"),
        execute(""),
        parse("t", "skipped"),
        sync.clone(),
        bind("", "s", "1"),
        execute(""),
        framed(b'C', b"Ss\0"),
        sync.clone(),
    ]
    .concat();
    client.send(&batch);
    let tags: Vec<_> = (0..3).map(|_| client.until_ready().0).collect();
    assert_eq!(tags, ["1tT2DDCZ", "EZ", "2DC3Z"]);
    // Flush answers without Sync.
    client.send(&[parse("u", "begin"), flush].concat());
    assert_eq!(client.message().unwrap().0, b'1');
    assert_eq!(client.says(&sync), "Z");
    served.runtime.close();
}

#[test]
fn large_results_and_slow_readers_are_bounded() {
    let served = served();
    let mut client = Raw::start(&served.address);
    client.send(&query("nulls 300000"));
    std::thread::sleep(Duration::from_millis(50));
    let (tags, _) = client.until_ready();
    assert_eq!(tags.len(), 300_003);
    // 11 bytes a row, about 64 KiB a flush.
    assert!(served.counts.settled.load(Ordering::SeqCst) > 40);
    served.runtime.close();
}

#[test]
fn copy_data_is_read_as_it_comes() {
    let served = served();
    let mut client = Raw::start(&served.address);
    client.send(&query("copy"));
    assert_eq!(client.message().unwrap().0, b'G');
    for _ in 0..3 {
        client.send(&framed(b'd', &[b'x'; 1000]));
        std::thread::sleep(Duration::from_millis(2));
    }
    client.send(&framed(b'H', b""));
    client.send(&framed(b'c', b""));
    let (tags, bodies) = client.until_ready();
    assert_eq!(tags, "CZ");
    assert_eq!(bodies[0], b"COPY 3000\0");
    let failed = [query("copy"), framed(b'd', b"x"), framed(b'f', b"no more\0")].concat();
    assert_eq!(client.says(&failed), "GEZ");
    // A client that goes away in the middle.
    client.send(&query("copy"));
    assert_eq!(client.message().unwrap().0, b'G');
    drop(client);
    eventually("the session's end", || served.counts.ended.load(Ordering::SeqCst) == 1);
    served.runtime.close();
}

#[test]
fn malformed_messages_and_panics_end_their_session_only() {
    let served = served();
    let mut other = Raw::start(&served.address);
    for (bytes, state) in [
        (b"!!!!!!!!!!".to_vec(), "08P01"),
        (framed(b'p', b"nobody asked\0"), "08P01"),
        (b"Q\xff\xff\xff\xff".to_vec(), "08P01"),
        ([query("nulls 1"), query("panic")].concat(), "XX000"),
    ] {
        let mut client = Raw::start(&served.address);
        client.send(&bytes);
        let last = std::iter::from_fn(|| client.message()).last().unwrap();
        assert_eq!(last.0, b'E');
        assert!(has_state(&last.1, state), "{state}: {:?}", String::from_utf8_lossy(&last.1));
        assert!(last.1.windows(6).any(|window| window == b"FATAL\0"));
        assert_eq!(other.says(&query("nulls 1")), "TDCZ");
    }
    let mut stranger = Raw::connect(&served.address);
    stranger.startup("eve");
    let (tag, body) = stranger.message().unwrap();
    assert!(tag == b'E' && has_state(&body, "28000"));
    assert!(stranger.message().is_none());
    served.runtime.close();
}

#[test]
fn a_message_with_a_wrong_body_is_an_error_and_no_more() {
    let served = served();
    let mut client = Raw::start(&served.address);
    let (tags, bodies) = {
        client.send(&framed(b'Q', b"no end"));
        client.until_ready()
    };
    assert_eq!(tags, "EZ");
    assert!(has_state(&bodies[0], "08P01"));
    // Everything up to Sync is skipped, and what is wrong with it not told.
    let wrong = [
        framed(b'D', b"Xname\0"),
        framed(b'B', b"\0\0\0\x01\0\x07\0\0\0\0"),
        query("nulls 1"),
        framed(b'S', b""),
    ];
    assert_eq!(client.says(&wrong.concat()), "EZ");
    assert_eq!(client.says(&query("nulls 1")), "TDCZ");
    served.runtime.close();
}

#[test]
fn a_cancel_that_comes_while_nothing_runs_is_for_nothing() {
    let served = served();
    let mut client = Raw::start(&served.address);
    let key = client.key.clone();
    let mut bytes = (key.len() as u32 + 8).to_be_bytes().to_vec();
    bytes.extend_from_slice(&80_877_102u32.to_be_bytes());
    bytes.extend_from_slice(&key);
    // Whichever instance takes the request: it is over when its connection is.
    for _ in 0..50 {
        let mut canceller = Raw::connect(&served.address);
        canceller.send(&bytes);
        assert!(canceller.message().is_none());
        assert_eq!(client.says(&query("interrupted")), "CZ");
    }
    served.runtime.close();
}

#[test]
fn a_statement_is_cancelled_by_key() {
    let served = served();
    let mut client = Raw::start(&served.address);
    served.begin_wait(&mut client);
    let cancel = |key: &[u8]| {
        let mut bytes = (key.len() as u32 + 8).to_be_bytes().to_vec();
        bytes.extend_from_slice(&80_877_102u32.to_be_bytes());
        bytes.extend_from_slice(key);
        let mut canceller = Raw::connect(&served.address);
        canceller.send(&bytes);
        assert!(canceller.message().is_none());
    };
    let mut wrong = client.key.clone();
    wrong[5] ^= 1;
    cancel(&wrong);
    client.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(client.message().is_none(), "a wrong key cancels nothing");
    client.stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    let key = client.key.clone();
    cancel(&key);
    let (tags, bodies) = client.until_ready();
    assert_eq!(tags, "EZ");
    assert!(has_state(&bodies[0], "57014"));
    assert_eq!(client.says(&query("nulls 1")), "TDCZ");
    served.runtime.close();
}

#[test]
fn closing_tells_every_session_and_ends_it() {
    let served = served();
    let mut idle: Vec<_> = (0..4).map(|_| Raw::start(&served.address)).collect();
    let mut busy = Raw::start(&served.address);
    served.begin_wait(&mut busy);
    let closer = {
        let runtime = served.runtime;
        std::thread::spawn(move || runtime.close())
    };
    for client in idle.iter_mut().chain([&mut busy]) {
        let (tag, body) = client.message().unwrap();
        assert!(tag == b'E' && has_state(&body, "57P01"));
        assert!(client.message().is_none());
    }
    drop((idle, busy));
    closer.join().unwrap();
    assert_eq!(served.counts.ended.load(Ordering::SeqCst), 5);
    assert!(TcpStream::connect(&served.address).is_err());
}

#[test]
fn many_sessions_take_turns() {
    take_turns(served());
    take_turns(served_by(IoChoice::Threads));
}

fn take_turns(served: Served) {
    let mut clients: Vec<_> = (0..100).map(|_| Raw::start(&served.address)).collect();
    for round in 0..3 {
        for client in &mut clients {
            client.send(&query("nulls 1"));
        }
        for client in &mut clients {
            assert_eq!(client.until_ready().0, "TDCZ", "round {round}");
        }
    }
    drop(clients);
    eventually("all sessions' end", || served.counts.ended.load(Ordering::SeqCst) == 100);
    served.runtime.close();
}

/// Random bytes and mutated conversations against a live server: nothing but the session suffers.
#[test]
fn a_live_server_survives_mutated_conversations() {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("ATOLL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let served = served();
    let example = [
        query("nulls 1"),
        framed(b'P', b"s\0nulls 1\0\0\0"),
        framed(b'D', b"Ss\0"),
        framed(b'B', b"\0s\0\0\0\0\0\0\0"),
        framed(b'E', b"\0\0\0\0\0"),
        framed(b'S', b""),
        framed(b'X', b""),
    ]
    .concat();
    for _ in 0..150 {
        let mut client = Raw::start(&served.address);
        let mut bytes = example.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..bytes.len());
            bytes[at] = random.u8(..);
        }
        if client.stream.write_all(&bytes).is_ok() {
            // Whatever a mutated length waits for does not come.
            let _ = client.stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = client.stream.read_to_end(&mut answer);
        }
    }
    assert_eq!(Raw::start(&served.address).says(&query("nulls 1")), "TDCZ");
    served.runtime.close();
}
