//! How fast the machine is at this moment: what a virtual one does changes with its neighbours.
//!
//! Invariants: both probes are chains, each step of which needs the one before, so that they show latencies,
//! whatever the processor does side by side. A probe takes some hundredths of a second.

use std::hint::black_box;
use std::time::Instant;

use crate::random::Random;

/// Steps of the processor's probe.
const STEPS: u32 = 20_000_000;
/// Numbers of 4 bytes that the memory's probe goes through: 16 MiB, more than a second-level cache.
const PLACES: usize = 4 << 20;
/// Reads of the memory's probe.
const READS: u32 = 400_000;

/// What the probes took.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Nanoseconds of a multiplication and an addition.
    pub step_ns: f64,
    /// Nanoseconds of a read somewhere in [`PLACES`] numbers.
    pub read_ns: f64,
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

    /// Takes both probes.
    pub fn pace(&self) -> Pace {
        // Of known numbers the compiler makes one step of several.
        let (factor, term) = black_box((0x5851_F42D_4C95_7F2D, 0x1405_7B7E_F767_814F));
        let step = |value: u64| value.wrapping_mul(factor).wrapping_add(term);
        Pace {
            step_ns: each_ns(STEPS, 1, step),
            read_ns: each_ns(READS, 0, |at: u32| self.next[at as usize]),
        }
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
        let Pace { step_ns, read_ns } = probe.pace();
        assert!(step_ns > 0.0 && read_ns > 0.0);
    }
}
