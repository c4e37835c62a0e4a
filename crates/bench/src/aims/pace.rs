//! How fast the machine is at this moment: what a virtual one does changes with its neighbours.
//!
//! Invariants: all probes are chains, each step of which needs the one before, so that they show latencies,
//! whatever the processor does side by side. A probe takes some hundredths of a second.

use std::hint::{black_box, spin_loop};
use std::thread;
use std::time::{Duration, Instant};

use atoll_kernel::sync::{AtomicU64, Ordering};

use crate::random::Random;

/// Steps of the processor's probe.
const STEPS: u32 = 20_000_000;
/// Numbers of 4 bytes that the memory's probe goes through: 16 MiB, more than a second-level cache.
const PLACES: usize = 4 << 20;
/// Reads of the memory's probe.
const READS: u32 = 400_000;
/// How long two threads pass a number to each other.
const PASSING: Duration = Duration::from_millis(50);
/// The number that ends their passing: odd, so that it is the second thread's turn.
const END: u64 = u64::MAX;

/// What the probes took.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Nanoseconds of a multiplication and an addition.
    pub step_ns: f64,
    /// Nanoseconds of a read somewhere in [`PLACES`] numbers.
    pub read_ns: f64,
    /// Nanoseconds until a number that one thread has written is seen by another, which is what instances pay for what
    /// they share.
    pub pass_ns: f64,
}

/// The probes, with the memory that they go through.
pub struct Probe {
    /// Each place has the next one's number; all are one circle.
    next: Vec<u32>,
}

impl Probe {
    /// Makes the circle.
    pub fn new() -> Probe {
        let mut next: Vec<u32> = (0..PLACES as u32).collect();
        let mut random = Random::new(1);
        // Sattolo's shuffle: what it leaves is one circle.
        for at in (1..PLACES).rev() {
            let other = random.long(0, at as i64 - 1) as usize;
            next.swap(at, other);
        }
        Probe { next }
    }

    /// Takes all probes.
    pub fn pace(&self) -> Pace {
        // Of known numbers the compiler makes one step of several.
        let (factor, term) = black_box((0x5851_F42D_4C95_7F2D, 0x1405_7B7E_F767_814F));
        let step = |value: u64| value.wrapping_mul(factor).wrapping_add(term);
        Pace {
            step_ns: each_ns(STEPS, 1, step),
            read_ns: each_ns(READS, 0, |at: u32| self.next[at as usize]),
            pass_ns: pass_ns(),
        }
    }
}

/// Nanoseconds of a pass between two threads: each counts on when it is its turn.
fn pass_ns() -> f64 {
    let (number, began) = (AtomicU64::new(0), Instant::now());
    // Release: pairs with the acquire in `awaited`.
    let pass = |next| number.store(next, Ordering::Release);
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                match awaited(&number, 1) {
                    END => return,
                    at => pass(at + 1),
                }
            }
        });
        loop {
            let at = awaited(&number, 0);
            // Not each time: a look at the clock is a share of a pass.
            if at.is_multiple_of(64) && began.elapsed() >= PASSING {
                pass(END);
                return began.elapsed().as_secs_f64() * 1e9 / at.max(1) as f64;
            }
            pass(at + 1);
        }
    })
}

/// The number, once it is even or odd, as `turn` is.
fn awaited(number: &AtomicU64, turn: u64) -> u64 {
    loop {
        // Acquire: pairs with the release of the other's pass.
        let at = number.load(Ordering::Acquire);
        if at % 2 == turn {
            return at;
        }
        spin_loop();
    }
}

/// Nanoseconds of one of `count` steps, each of which begins with what the one before answered.
fn each_ns<T>(count: u32, first: T, step: impl Fn(T) -> T) -> f64 {
    let began = Instant::now();
    black_box((0..count).fold(black_box(first), |value, _| step(value)));
    began.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circle_goes_through_every_place() {
        let probe = Probe::new();
        let (mut at, mut steps) = (0, 0);
        loop {
            (at, steps) = (probe.next[at] as usize, steps + 1);
            if at == 0 || steps > PLACES {
                break;
            }
        }
        assert_eq!(steps, PLACES);
        let Pace { step_ns, read_ns, pass_ns } = probe.pace();
        assert!(step_ns > 0.0 && read_ns > 0.0 && pass_ns > 0.0);
    }
}
