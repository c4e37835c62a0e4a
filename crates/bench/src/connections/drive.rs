//! Connections that are all active: each has its next request under way when the last is answered.
//!
//! Invariants: a thread waits by epoll for those of its own; requests are counted while the phase
//! is *measured*, by when they are answered. At the end nothing is asked any more and everything
//! under way is awaited, so that updates acknowledged are exactly the updates made.

use std::time::{Duration, Instant};

use atoll_kernel::sync::{AtomicU32, Ordering};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::client::{Answer, Connection, request};
use super::{Settings, Work};
use crate::cpu;
use crate::latency::Latencies;
use crate::wire::start;

/// How long what is under way at the end may take.
const GRACE: Duration = Duration::from_secs(60);
/// Connections that one wait tells of.
const EVENTS_MAX: usize = 256;

/// What one run did.
#[derive(Default)]
pub(super) struct Driven {
    /// Requests answered while it was measured.
    pub(super) requests: u64,
    /// All that were answered.
    pub(super) answered: u64,
    pub(super) latencies: Latencies,
    pub(super) elapsed: Duration,
    pub(super) client_cpu: Duration,
    pub(super) server_cpu: Option<Duration>,
}

impl Driven {
    fn add(&mut self, other: &Driven) {
        self.requests += other.requests;
        self.answered += other.answered;
        self.latencies.add(&other.latencies);
    }

    /// Requests a second.
    pub(super) fn per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Microseconds of processor time a request.
    pub(super) fn each_us(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.requests.max(1) as f64
    }
}

/// Written by `drive`'s caller alone, read by the threads; a little late does not matter, so Relaxed.
struct Phase(AtomicU32);

const MEASURED: u32 = 1;
const OVER: u32 = 2;

impl Phase {
    fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u32) {
        self.0.store(phase, Ordering::Relaxed);
    }
}

/// Lets all connections work at once, and measures after the warm-up.
pub(super) fn drive(
    settings: &Settings,
    work: Work,
    connections: &mut [Connection],
    seed: u64,
) -> Result<Driven, String> {
    let phase = Phase(AtomicU32::new(0));
    let each = connections.len().div_ceil(settings.threads).max(1);
    let server_cpu = || settings.server_pid.and_then(cpu::of_tree);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, share) in (0_u64..).zip(connections.chunks_mut(each)) {
            let (phase, random) = (&phase, fastrand::Rng::with_seed(seed << 8 | number));
            let thread = start(scope, move || one_thread(settings, work, share, random, phase));
            threads.push(thread.inspect_err(|_| phase.set(OVER))?);
        }
        std::thread::sleep(Duration::from_secs(settings.warmup_seconds));
        let (own, server, began) = (cpu::own(), server_cpu(), Instant::now());
        phase.set(MEASURED);
        std::thread::sleep(Duration::from_secs(settings.seconds));
        phase.set(OVER);
        let elapsed = began.elapsed();
        let mut driven = Driven {
            elapsed,
            client_cpu: cpu::own().saturating_sub(own),
            server_cpu: server_cpu().zip(server).map(|(after, before)| after - before),
            ..Driven::default()
        };
        for thread in threads {
            driven.add(&thread.join().map_err(|_| "a client's thread panicked".to_owned())??);
        }
        Ok(driven)
    })
}

fn one_thread(
    settings: &Settings,
    work: Work,
    connections: &mut [Connection],
    mut random: fastrand::Rng,
    phase: &Phase,
) -> Result<Driven, String> {
    let system = |error: rustix::io::Errno| format!("epoll: {error}");
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
    let mut bytes = Vec::new();
    let mut ask = |connection: &mut Connection| {
        bytes.clear();
        request(&mut bytes, work, random.u64(1..=settings.rows));
        connection.ask(&bytes)
    };
    for (number, connection) in (0_u64..).zip(connections.iter()) {
        epoll::add(&epoll, connection.fd(), EventData::new_u64(number), EventFlags::IN)
            .map_err(system)?;
    }
    for connection in connections.iter_mut() {
        ask(connection)?;
    }
    let (mut done, mut under_way) = (Driven::default(), connections.len());
    let (mut events, mut buffer) = (Vec::with_capacity(EVENTS_MAX), vec![0; 16 * 1024]);
    let mut over_since: Option<Instant> = None;
    while under_way > 0 {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), Some(&second)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(system(error)),
        }
        for event in &events {
            let connection = &mut connections[event.data.u64() as usize];
            if connection.take(&mut buffer)? == Answer::Part {
                continue;
            }
            if !connection.was_one_row(work) {
                return Err(format!("{}: not one row was answered", work.name()));
            }
            done.answered += 1;
            let phase = phase.now();
            if phase == MEASURED {
                done.requests += 1;
                done.latencies.record(connection.asked.elapsed());
            }
            if phase == OVER {
                under_way -= 1;
            } else {
                ask(connection)?;
            }
        }
        if phase.now() == OVER && over_since.get_or_insert_with(Instant::now).elapsed() > GRACE {
            return Err(format!("{under_way} requests were not answered within {GRACE:?}"));
        }
    }
    Ok(done)
}
