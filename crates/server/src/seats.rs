//! Which instance a new connection is given to: one of those with the fewest, or the one that has its client's last
//! connection, if that has hardly more.
//!
//! A client's thread that serves several connections is woken once if their answers come together, sends its next messages
//! together, and its commits share flushes: but only if one instance has them all. pgbench's eight connections of two threads
//! in turn on two instances, two of each thread's on either, cost 1.4 times the processor (docs/where-the-time-goes.md).
//!
//! The system tells a client's process, or its host, not its thread. But a thread opens its connections one after the
//! other: so a connection *follows* the one of its client that has been open for the longest time and has not been followed,
//! if that was not long ago. It is a guess, right more often than not, and if it is wrong, little is lost: no instance gets
//! two connections before each has one, or three more than another, by it.
//!
//! Invariants: a connection has a [`Seat`] from accepting to its end, wherever it goes, and its instance counts it. The counts
//! are hints, each a word of its own that is written at a connection's beginning and end, and when it moves; nothing is ordered
//! by them.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};

use atoll_kernel::base::InstanceId;
use atoll_kernel::sync::{AtomicU64, AtomicUsize, Ordering};

/// For how long an open connection can be followed.
const FOLLOW_NS: u64 = 100_000_000;
/// So many connections more than others an instance may have when one more follows there.
const UNEVEN_MAX: usize = 1;
/// Connections that can be followed, at most.
const LATEST_MAX: usize = 256;

/// Who connects, as far as the system tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Client {
    /// A process on this machine, by its number.
    Process(NonZeroU32),
    /// Somebody at this address.
    Host(String),
}

/// Gives connections to instances; the listener's.
pub struct Seats {
    taken: Arc<[Taken]>,
    // Those that may be followed, in the order in which they came.
    latest: VecDeque<Latest>,
    // The instance whose turn it is if nothing else speaks for one.
    next: usize,
}

/// How many connections an instance has. A line of its own: others count theirs.
#[derive(Default)]
#[repr(align(128))]
struct Taken(AtomicUsize);

struct Latest {
    client: Client,
    instance: InstanceId,
    opened: Weak<AtomicU64>,
}

/// A connection's place in its instance's count.
pub struct Seat {
    taken: Arc<[Taken]>,
    instance: InstanceId,
    // When its session was open, in nanoseconds of the database's clock; 0 before.
    opened: Arc<AtomicU64>,
}

impl Seats {
    /// For so many instances, at least one.
    pub fn new(instances: usize) -> Seats {
        let taken = (0..instances.max(1)).map(|_| Taken::default()).collect();
        Seats { taken, latest: VecDeque::new(), next: 0 }
    }

    /// A seat for a connection that comes at `now_ns`.
    pub fn seat(&mut self, client: Option<Client>, now_ns: u64) -> Seat {
        let taken: Vec<usize> = self.taken.iter().map(Taken::count).collect();
        let fewest = taken.iter().copied().min().unwrap_or(0);
        let most = if fewest > 0 { fewest + UNEVEN_MAX } else { 0 };
        let followed = client.as_ref().and_then(|client| self.follow(client, now_ns));
        let follows = followed.map(|it| usize::from(it.0)).filter(|&it| taken[it] <= most);
        let in_turn = (self.next..taken.len()).chain(0..self.next).find(|&it| taken[it] == fewest);
        let at = follows.or(in_turn).unwrap_or(0);
        self.next = (at + 1) % taken.len();
        let seat = Seat::new(self.taken.clone(), InstanceId(at as u16));
        if let Some(client) = client {
            let opened = Arc::downgrade(&seat.opened);
            self.latest.push_back(Latest { client, instance: seat.instance, opened });
        }
        seat
    }

    /// Where the connection is that this client's next one follows.
    fn follow(&mut self, client: &Client, now_ns: u64) -> Option<InstanceId> {
        self.latest.retain(|it| it.may_be_followed(now_ns));
        while self.latest.len() >= LATEST_MAX {
            self.latest.pop_front();
        }
        let open = self.latest.iter().enumerate().filter(|(_, it)| it.client == *client);
        let open = open.filter_map(|(at, it)| Some((it.opened_ns().filter(|ns| *ns > 0)?, at)));
        let (_, first) = open.min()?;
        self.latest.remove(first).map(|it| it.instance)
    }
}

impl Taken {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Latest {
    /// 0 if its session is not open yet; none if it has ended.
    fn opened_ns(&self) -> Option<u64> {
        self.opened.upgrade().map(|opened| opened.load(Ordering::Relaxed))
    }

    fn may_be_followed(&self, now_ns: u64) -> bool {
        self.opened_ns().is_some_and(|ns| ns == 0 || now_ns.saturating_sub(ns) < FOLLOW_NS)
    }
}

impl Seat {
    fn new(taken: Arc<[Taken]>, instance: InstanceId) -> Seat {
        let seat = Seat { taken, instance, opened: Arc::default() };
        seat.count().0.fetch_add(1, Ordering::Relaxed);
        seat
    }

    /// Whose it is.
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// Its session is open, and its client will hear that in a moment.
    pub fn open(&self, now_ns: u64) {
        self.opened.store(now_ns.max(1), Ordering::Relaxed);
    }

    /// Its session is on this instance now.
    pub fn move_to(&mut self, instance: InstanceId) {
        self.count().0.fetch_sub(1, Ordering::Relaxed);
        self.instance = instance;
        self.count().0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> &Taken {
        &self.taken[usize::from(self.instance.0)]
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.count().0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(number: u32) -> Client {
        Client::Process(NonZeroU32::new(number).unwrap())
    }

    fn places(seats: &[Seat]) -> Vec<u16> {
        seats.iter().map(|seat| seat.instance().0).collect()
    }

    #[test]
    fn strangers_come_in_turn() {
        let mut seats = Seats::new(3);
        let taken: Vec<Seat> = (0..7).map(|n| seats.seat(None, n)).collect();
        assert_eq!(places(&taken), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn the_fewest_are_filled_first() {
        let mut seats = Seats::new(3);
        let mut taken: Vec<Seat> = (0..6).map(|n| seats.seat(None, n)).collect();
        taken.retain(|seat| seat.instance().0 != 1);
        taken.extend((0..3).map(|n| seats.seat(None, n)));
        assert_eq!(places(&taken[4..]), [1, 1, 2]);
        taken[6].move_to(InstanceId(0));
        assert_eq!(seats.seat(None, 9).instance().0, 1, "in turn");
        assert_eq!(seats.seat(None, 9).instance().0, 2, "one has gone from there");
    }

    /// Two threads of one process connect, each as soon as its last connection is open; which of them
    /// comes first is chance.
    fn of_two_threads(order: &[usize]) -> Vec<(usize, u16)> {
        let mut seats = Seats::new(2);
        let mut latest: [Option<usize>; 2] = [None; 2];
        let mut taken: Vec<Seat> = Vec::new();
        for (now_ns, &thread) in order.iter().enumerate() {
            if let Some(last) = latest[thread] {
                taken[last].open(now_ns as u64 * 1000);
            }
            latest[thread] = Some(taken.len());
            taken.push(seats.seat(Some(process(7)), now_ns as u64 * 1000));
        }
        order.iter().copied().zip(places(&taken)).collect()
    }

    #[test]
    fn a_threads_connections_come_together() {
        let orders = [
            [0, 1, 0, 1, 0, 1, 0, 1],
            [0, 1, 0, 1, 1, 0, 1, 0],
            [1, 0, 0, 1, 0, 1, 1, 0],
            [1, 0, 0, 0, 1, 0, 1, 1],
        ];
        for order in orders {
            let places = of_two_threads(&order);
            let first = places[0];
            for (thread, instance) in places {
                assert_eq!(thread == first.0, instance == first.1, "{order:?}");
            }
        }
    }

    #[test]
    fn one_threads_connections_are_spread_evenly() {
        let mut seats = Seats::new(4);
        let mut taken: Vec<Seat> = Vec::new();
        for n in 0..16 {
            taken.push(seats.seat(Some(process(7)), n));
            taken[n as usize].open(n);
            let counts = (0..4).map(|at| taken.iter().filter(|it| it.instance().0 == at).count());
            let counts: Vec<usize> = counts.collect();
            let (min, max) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*max <= 1 || (*min > 0 && max - min <= UNEVEN_MAX + 1), "{counts:?}");
        }
    }

    #[test]
    fn who_is_followed_is_open_of_the_same_client_and_not_long() {
        let place_of_fifth = |client: Client, open_ns: u64, now_ns: u64| {
            let mut seats = Seats::new(4);
            let taken: Vec<Seat> = (0..4).map(|n| seats.seat(Some(client.clone()), n)).collect();
            if open_ns > 0 {
                taken[2].open(open_ns);
            }
            seats.seat(Some(process(7)), now_ns).instance().0
        };
        assert_eq!(place_of_fifth(process(7), 5, 6), 2);
        assert_eq!(place_of_fifth(process(7), 0, 6), 0, "none is open");
        assert_eq!(place_of_fifth(process(8), 5, 6), 0, "another's");
        assert_eq!(place_of_fifth(Client::Host("::1".to_owned()), 5, 6), 0, "another's");
        assert_eq!(place_of_fifth(process(7), 5, 5 + FOLLOW_NS), 0, "long ago");
    }

    #[test]
    fn what_may_be_followed_is_bounded() {
        let mut seats = Seats::new(2);
        let taken: Vec<Seat> =
            (0..4 * LATEST_MAX as u64).map(|n| seats.seat(Some(process(7)), n)).collect();
        assert!(seats.latest.len() <= LATEST_MAX);
        drop(taken);
        assert!(seats.seat(Some(process(7)), 1).instance().0 < 2);
        assert_eq!(seats.latest.len(), 1, "those that have ended are forgotten");
    }
}
