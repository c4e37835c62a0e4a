//! Which sessions change places: a search for an arrangement in which messages come together.
//!
//! A client's thread with several sessions does best if one instance has them all: it is woken once for several answers
//! and sends its next messages at once, so the instance is woken once, too, and commits share flushes. Nobody tells which
//! sessions are one thread's. But an instance sees how many messages come *together*, in one turn, and which session's come
//! with the fewest others. So the search lets a session of each of two instances change places, and back again if fewer
//! come together then: first those with the fewest others. Of two threads' sessions, mixed by halves, every second such
//! exchange is better, and when one is astray on either instance, it is the first that is tried.
//!
//! ```text
//!   Rests --> Before --as they are, for a window--> Moves --both there--> After --for a window, better--> Rests
//!     ^          | nothing to look for                | never              | no better
//!     |<---------+<------- back again ----------------+<-------------------+
//! ```
//!
//! Invariants: one exchange at a time, of one session each way: an instance has as many as before. After each that was no
//! better the next is tried later, up to [`Terms::rest_max_ns`], until another session comes: where there is nothing to
//! find the search costs next to nothing. Pure: what it asks and orders others carry out (`exchange`).

use atoll_kernel::base::InstanceId;

use super::company::TOLD_APART_MAX;
use super::moving::Origin;

/// After an exchange a window with too few messages is followed by another, so often.
const WINDOWS_MAX: u32 = 8;
/// Between two looks whether both are there, and how often it is looked.
const MOVING_NS: u64 = 5_000_000;
const MOVING_LOOKS_MAX: u32 = 10;
/// What comes together does not at once when they are there.
const SETTLING_NS: u64 = 15_000_000;
/// If a smaller part than that of those that could comes together something is likely to be better, as where a session
/// stands out.
const POOR: f64 = 0.65;
/// As how many an exchange counts that was no better though it was likely, and else.
const LIKELY_FAILURE: u32 = 1;
const UNLIKELY_FAILURE: u32 = 3;
/// Between exchanges at first, doubled with every second that was no better.
const REST_NS: u64 = 20_000_000;
const FAILURES_OF_A_REST: u32 = 2;
/// Of how many pairs of instances each is looked at within [`Terms::later_ns`].
const PAIRS_A_LATER: u64 = 50;

/// What an exchange must bring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// How long messages are counted in an arrangement, and how many there must be at least.
    window_ns: u64,
    heard_min: u64,
    /// If so large a part of those that could comes together nothing is tried.
    good: f64,
    /// By how much more must come together for an exchange to stay.
    better: f64,
    /// Between exchanges at most; and if there are too few sessions, or too many.
    rest_max_ns: u64,
    later_ns: u64,
}

impl Terms {
    /// That more comes together.
    pub(super) const CAREFUL: Terms = Terms {
        window_ns: 25_000_000,
        heard_min: 100,
        good: 0.85,
        better: 1.05,
        rest_max_ns: 4_000_000_000,
        later_ns: 500_000_000,
    };
    /// Nothing: two change places after two, as soon as each has said something.
    pub(super) const RESTLESS: Terms = Terms {
        window_ns: 5_000_000,
        heard_min: 1,
        good: f64::INFINITY,
        better: 0.0,
        rest_max_ns: REST_NS,
        later_ns: 10_000_000,
    };
}

/// What an instance has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Times that a session's messages arrived.
    pub messages: u64,
    /// Turns in which some did.
    pub turns: u64,
}

/// What an instance is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// Which of its sessions it is to name: so many come with fewer others; from the first again after the last.
    pub nth: usize,
    /// Whether it is to note from now on who comes with whom.
    pub listens: bool,
    /// A session that may have come there.
    pub expected: Option<Origin>,
}

/// What it answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub heard: Heard,
    /// Sessions that said something since it was asked before, and that no reason keeps; more than are told apart if
    /// there are: then enough comes together however they lie.
    pub sessions: usize,
    /// The one of them that was asked for.
    pub named: Option<Origin>,
    /// Whether the expected one is there.
    pub is_there: bool,
    /// Whether one comes with clearly fewer others than the rest of them.
    pub stands_out: bool,
    /// Whether a session is among them that never was before.
    pub is_new: bool,
}

/// A session is to go there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub session: Origin,
    pub to: InstanceId,
}

/// Two sessions that change places: each is to go to where the other was.
type Exchanged = [Origin; 2];

#[derive(Clone, Copy, Debug)]
enum Stage {
    Rests,
    Before { since: [Heard; 2] },
    Moves { before: f64, sessions: Exchanged },
    After { before: f64, sessions: Exchanged, since: Option<[Heard; 2]> },
}

/// The search of one server.
pub(super) struct Search {
    instances: usize,
    terms: Terms,
    stage: Stage,
    due_ns: u64,
    /// Whether the pair was asked and has not answered.
    asked: bool,
    /// How often it was looked in this stage.
    looks: u32,
    /// How many sessions each of the pair had.
    sessions: [usize; 2],
    /// The exchange that is tried, or comes next; and how many have failed since the last one that was better.
    number: usize,
    failed: usize,
    /// As how many one counts that is no better.
    failure: u32,
    /// Exchanges that were no better since a session came, less by half with each that was.
    failures: u32,
}

impl Search {
    /// Among so many instances, at least two.
    pub fn new(instances: usize, terms: Terms) -> Search {
        let (stage, due_ns) = (Stage::Rests, 0);
        let (asked, looks, sessions, number) = (false, 0, [0; 2], 0);
        Search {
            instances,
            terms,
            stage,
            due_ns,
            asked,
            looks,
            sessions,
            number,
            failed: 0,
            failure: 0,
            failures: 0,
        }
    }

    /// Whether nothing is tried.
    pub fn rests(&self) -> bool {
        matches!(self.stage, Stage::Rests) && !self.asked
    }

    /// The two instances whose turn it is.
    pub fn pair(&self) -> [InstanceId; 2] {
        let pairs = self.pairs();
        let (mut first, mut left) = (0, self.number % pairs);
        while left >= self.instances - first - 1 {
            left -= self.instances - first - 1;
            first += 1;
        }
        [first, first + 1 + left].map(|id| InstanceId(id as u16))
    }

    fn pairs(&self) -> usize {
        self.instances * (self.instances - 1) / 2
    }

    /// What to ask the pair now, if it is time.
    pub fn ask(&mut self, now_ns: u64) -> Option<[Question; 2]> {
        if self.asked || now_ns < self.due_ns {
            return None;
        }
        self.asked = true;
        let round = self.failed / self.pairs();
        let nth = [round, round / self.sessions[0].max(1)];
        let expected = match self.stage {
            Stage::Moves { sessions: [first, second], .. } => [Some(second), Some(first)],
            _ => [None; 2],
        };
        let listens = matches!(self.stage, Stage::Rests);
        Some([0, 1].map(|it| Question { nth: nth[it], listens, expected: expected[it] }))
    }

    /// What the pair has answered; what is to be ordered then.
    pub fn answered(&mut self, now_ns: u64, looks: [Look; 2]) -> Option<[Order; 2]> {
        self.asked = false;
        self.looks += 1;
        let heard = looks.map(|look| look.heard);
        match self.stage {
            Stage::Rests => {
                self.enter(Stage::Before { since: heard }, now_ns + self.terms.window_ns);
                None
            }
            Stage::Before { since } => {
                self.sessions = looks.map(|look| look.sessions);
                if looks.iter().any(|look| look.is_new) {
                    (self.failed, self.failures) = (0, 0);
                }
                let together = self.together(since, heard);
                match (together, looks[0].named, looks[1].named) {
                    (Some(before), Some(first), Some(second)) if self.may_find(before) => {
                        let sessions = [first, second];
                        let is_likely = looks.iter().any(|look| look.stands_out)
                            || before < self.possible() * POOR;
                        self.failure = if is_likely { LIKELY_FAILURE } else { UNLIKELY_FAILURE };
                        self.enter(Stage::Moves { before, sessions }, now_ns + MOVING_NS);
                        Some(self.orders(sessions, Way::There))
                    }
                    _ => {
                        let later_ns =
                            self.terms.later_ns / (self.pairs() as u64).min(PAIRS_A_LATER);
                        self.number += 1;
                        self.enter(Stage::Rests, now_ns + later_ns);
                        None
                    }
                }
            }
            Stage::Moves { before, sessions } => {
                if looks.iter().all(|look| look.is_there) {
                    let stage = Stage::After { before, sessions, since: None };
                    self.enter(stage, now_ns + SETTLING_NS);
                } else if self.looks < MOVING_LOOKS_MAX {
                    self.due_ns = now_ns + MOVING_NS;
                } else {
                    return Some(self.goes_back(sessions, now_ns));
                }
                None
            }
            Stage::After { before, sessions, since: None } => {
                let stage = Stage::After { before, sessions, since: Some(heard) };
                self.enter(stage, now_ns + self.terms.window_ns);
                None
            }
            Stage::After { before, sessions, since: Some(since) } => {
                match self.together(since, heard) {
                    Some(after) if after >= before * self.terms.better => {
                        self.failures /= 2;
                        self.failed = 0;
                        self.number += 1;
                        self.enter(Stage::Rests, now_ns);
                        None
                    }
                    None if self.looks < WINDOWS_MAX => {
                        self.due_ns = now_ns + self.terms.window_ns;
                        None
                    }
                    _ => Some(self.goes_back(sessions, now_ns)),
                }
            }
        }
    }

    /// Whether there may be something better than so many together: with few sessions, not nearly all.
    fn may_find(&self, together: f64) -> bool {
        let few = self.sessions.iter().all(|count| *count <= TOLD_APART_MAX);
        few && self.sessions.iter().sum::<usize>() > 2
            && together < self.possible() * self.terms.good
    }

    /// How many messages can come together at most.
    fn possible(&self) -> f64 {
        self.sessions.iter().sum::<usize>() as f64 / 2.0
    }

    /// How many messages came together; none if too few came to tell.
    fn together(&self, since: [Heard; 2], now: [Heard; 2]) -> Option<f64> {
        let sum = |of: fn(&Heard) -> u64| -> u64 {
            now.iter().map(of).sum::<u64>().saturating_sub(since.iter().map(of).sum())
        };
        let (messages, turns) = (sum(|it| it.messages), sum(|it| it.turns));
        (messages >= self.terms.heard_min).then(|| messages as f64 / turns.max(1) as f64)
    }

    fn enter(&mut self, stage: Stage, due_ns: u64) {
        (self.stage, self.due_ns, self.looks) = (stage, due_ns, 0);
    }

    fn goes_back(&mut self, sessions: Exchanged, now_ns: u64) -> [Order; 2] {
        let orders = self.orders(sessions, Way::Back);
        self.failures = self.failures.saturating_add(self.failure);
        self.failed += 1;
        self.number += 1;
        let doublings = (self.failures / FAILURES_OF_A_REST).min(16);
        let rest_ns = (REST_NS << doublings).min(self.terms.rest_max_ns);
        self.enter(Stage::Rests, now_ns + MOVING_NS + rest_ns);
        orders
    }

    fn orders(&self, sessions: Exchanged, way: Way) -> [Order; 2] {
        let [first, second] = self.pair();
        let to = match way {
            Way::There => [second, first],
            Way::Back => [first, second],
        };
        [0, 1].map(|it| Order { session: sessions[it], to: to[it] })
    }
}

#[derive(Clone, Copy)]
enum Way {
    There,
    Back,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions, each of a client's thread, on instances; how many messages come together goes by how many of an
    /// instance's sessions are of one thread.
    struct World {
        now_ns: u64,
        threads: Vec<usize>,
        places: Vec<u16>,
        heard: Vec<Heard>,
        random: fastrand::Rng,
        /// Whether more comes together where a thread's sessions are.
        threads_matter: bool,
        /// A session that does not go.
        stuck: Option<usize>,
        exchanges: usize,
    }

    fn origin(session: usize) -> Origin {
        Origin::new(InstanceId(0), session as u32)
    }

    impl World {
        fn new(threads: &[usize], places: &[u16], seed: u64) -> World {
            World {
                now_ns: 0,
                threads: threads.to_vec(),
                places: places.to_vec(),
                heard: vec![Heard::default(); 4],
                random: fastrand::Rng::with_seed(seed),
                threads_matter: true,
                stuck: None,
                exchanges: 0,
            }
        }

        fn on(&self, instance: u16) -> Vec<usize> {
            (0..self.places.len()).filter(|&it| self.places[it] == instance).collect()
        }

        fn together(&self, instance: u16) -> f64 {
            let sessions = self.on(instance);
            let of = |thread| sessions.iter().filter(|&&it| self.threads[it] == thread).count();
            let most = (0..8).map(of).max().unwrap_or(0);
            let factor = if self.threads_matter { most as f64 } else { 2.0 };
            factor * 0.9 * (1.0 + (self.random.clone().f64() - 0.5) * 0.04)
        }

        fn passes(&mut self, ns: u64) {
            self.now_ns += ns;
            self.random.u64(..);
            for instance in 0..4 {
                let messages = self.on(instance).len() as u64 * ns / 60_000;
                let together = self.together(instance).max(1.0);
                let heard = &mut self.heard[usize::from(instance)];
                heard.messages += messages;
                heard.turns += (messages as f64 / together) as u64;
            }
        }

        fn look(&self, instance: InstanceId, question: Question) -> Look {
            let sessions = self.on(instance.0);
            let there = |expected| sessions.iter().any(|&it| origin(it) == expected);
            let others = |it: &usize| {
                let of_thread = |other: &&usize| self.threads[**other] == self.threads[*it];
                sessions.iter().filter(of_thread).count()
            };
            let mut sessions = sessions.clone();
            sessions.sort_by_key(|it| (if self.threads_matter { others(it) } else { 0 }, *it));
            let at = question.nth.checked_rem(sessions.len());
            let company: Vec<usize> = sessions.iter().map(&others).collect();
            Look {
                stands_out: company.len() > 2 && company[0] < company[1],
                heard: self.heard[usize::from(instance.0)],
                sessions: sessions.len(),
                named: at.map(|at| origin(sessions[at])),
                is_there: question.expected.is_some_and(there),
                is_new: self.now_ns < 100_000_000,
            }
        }

        /// Lets the search go on for so long.
        fn run(&mut self, search: &mut Search, ns: u64) {
            let until = self.now_ns + ns;
            while self.now_ns < until {
                self.passes(1_000_000);
                let pair = search.pair();
                let Some(questions) = search.ask(self.now_ns) else { continue };
                assert!(search.ask(self.now_ns).is_none(), "it was asked");
                let looks = [0, 1].map(|it| self.look(pair[it], questions[it]));
                for order in search.answered(self.now_ns, looks).into_iter().flatten() {
                    let session = (0..self.places.len()).find(|it| origin(*it) == order.session);
                    let session = session.expect("who was named is ordered");
                    if self.stuck != Some(session) {
                        self.exchanges += 1;
                        self.places[session] = order.to.0;
                    }
                }
            }
        }

        fn is_apart(&self) -> bool {
            (0..4).all(|instance| {
                let sessions = self.on(instance);
                sessions.iter().all(|&it| self.threads[it] == self.threads[sessions[0]])
            })
        }
    }

    const MIXED: [usize; 8] = [0, 1, 0, 1, 0, 1, 0, 1];
    const IN_TURN: [u16; 8] = [0, 0, 0, 0, 1, 1, 1, 1];

    #[test]
    fn a_threads_sessions_come_together() {
        for seed in 0..20 {
            let mut world = World::new(&MIXED, &IN_TURN, seed);
            let mut search = Search::new(2, Terms::CAREFUL);
            world.run(&mut search, 6_000_000_000);
            // An exchange may just be tried.
            while !search.rests() {
                world.run(&mut search, 5_000_000);
            }
            assert!(world.is_apart(), "seed {seed}: {:?}", world.places);
            assert_eq!(world.on(0).len(), 4);
            let before = world.exchanges;
            world.run(&mut search, 10_000_000_000);
            assert_eq!(world.exchanges, before, "there is nothing to look for");
        }
    }

    #[test]
    fn on_more_instances_too() {
        let threads = [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3];
        let places = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3];
        let mut world = World::new(&threads, &places, 1);
        let mut search = Search::new(4, Terms::CAREFUL);
        world.run(&mut search, 120_000_000_000);
        let sum: f64 = (0..4).map(|it| world.together(it)).sum();
        assert!(sum > 4.0 * 2.2, "{:?}", world.places);
        assert!((0..4).all(|it| world.on(it).len() == 3));
    }

    #[test]
    fn a_pair_where_nothing_is_to_be_found_keeps_no_other_waiting() {
        let threads = [0, 0, 0, 1, 1, 1, 2, 3, 2, 3, 2, 3];
        let places = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3];
        for seed in 0..10 {
            let mut world = World::new(&threads, &places, seed);
            let mut search = Search::new(4, Terms::CAREFUL);
            world.run(&mut search, 30_000_000_000);
            while !search.rests() {
                world.run(&mut search, 5_000_000);
            }
            assert!(world.is_apart(), "seed {seed}: {:?}", world.places);
        }
    }

    #[test]
    fn where_nothing_is_better_it_is_tried_ever_less() {
        let mut world = World::new(&MIXED, &IN_TURN, 3);
        world.threads_matter = false;
        let mut search = Search::new(2, Terms::CAREFUL);
        world.run(&mut search, 100_000_000_000);
        let before = world.exchanges;
        world.run(&mut search, 100_000_000_000);
        // Two sessions there, and mostly back.
        assert!(world.exchanges - before < 4 * 30, "{}", world.exchanges - before);
        let counts = [0, 1].map(|it| world.on(it).len());
        assert_eq!(counts.iter().sum::<usize>(), 8);
    }

    #[test]
    fn who_does_not_go_is_not_waited_for() {
        let mut world = World::new(&MIXED, &IN_TURN, 4);
        world.stuck = Some(0);
        let mut search = Search::new(2, Terms::CAREFUL);
        world.run(&mut search, 6_000_000_000);
        while !search.rests() {
            world.run(&mut search, 5_000_000);
        }
        assert_eq!((world.places[0], world.on(0).len()), (0, 4), "who went came back");
    }

    #[test]
    fn nothing_is_tried_with_too_many_sessions_or_too_few() {
        for count in [1, 2, 20] {
            let places: Vec<u16> = (0..count).map(|it| it % 2).collect();
            let threads: Vec<usize> = (0..usize::from(count)).map(|it| it % 3).collect();
            let mut world = World::new(&threads, &places, 5);
            let mut search = Search::new(2, Terms::CAREFUL);
            world.run(&mut search, 5_000_000_000);
            assert_eq!(world.exchanges, 0, "{count} sessions");
        }
    }

    #[test]
    fn whoever_is_restless_goes_on_where_nothing_is_better() {
        let mut world = World::new(&MIXED, &IN_TURN, 6);
        world.threads_matter = false;
        let mut search = Search::new(2, Terms::RESTLESS);
        world.run(&mut search, 10_000_000_000);
        assert!(world.exchanges > 300, "{}", world.exchanges);
    }

    #[test]
    fn every_pair_of_instances_comes_up() {
        let mut search = Search::new(4, Terms::CAREFUL);
        let mut pairs: Vec<_> = (0..6)
            .map(|number| {
                search.number = number;
                search.pair().map(|id| id.0)
            })
            .collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
    }
}
