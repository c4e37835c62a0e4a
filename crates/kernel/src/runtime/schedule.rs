//! Which task runs next: the queues of rule 2.3, ageing, and the timers of parked tasks.
//!
//! Invariants: a task is in at most one ready queue, and only while it is neither running nor
//! parked. Class order is Lock, Io, Run, New; within Lock the oldest task (by birth) comes first,
//! because it has held its locks longest; each [`AGEING`]-th pick begins with the class whose turn it is,
//! so that none starves. System tasks are picked apart, by quota. Nothing here knows what a task is.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::task::Class;

/// A task's place in its instance's table, with the generation of that place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TaskKey(pub(super) u64);

/// First served first.
const ORDER: [Class; 4] = [Class::Lock, Class::Io, Class::Run, Class::New];
/// Each how-many-th pick begins with another class, each in its turn.
const AGEING: u32 = 16;

/// Whether a new transaction may start (rule 2.4).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Open,
    Closed,
}

/// The ready queues of one instance.
#[derive(Default)]
pub(super) struct Ready {
    io: VecDeque<TaskKey>,
    lock: BinaryHeap<Reverse<(u64, TaskKey)>>,
    run: VecDeque<TaskKey>,
    new: VecDeque<TaskKey>,
    system: VecDeque<TaskKey>,
    picks: u32,
}

impl Ready {
    /// Adds a task that is ready in `class`; `birth` orders the Lock class.
    pub(super) fn push(&mut self, class: Class, birth: u64, task: TaskKey) {
        match class {
            Class::Io => self.io.push_back(task),
            Class::Lock => self.lock.push(Reverse((birth, task))),
            Class::Run => self.run.push_back(task),
            Class::New => self.new.push_back(task),
            Class::System => self.system.push_back(task),
        }
    }

    /// The next task that is not system work.
    pub(super) fn pick(&mut self, admission: Admission) -> Option<TaskKey> {
        self.picks = self.picks.wrapping_add(1);
        let classes = ORDER.len();
        let is_due = self.picks.is_multiple_of(AGEING);
        let first = if is_due { (self.picks / AGEING) as usize % classes } else { 0 };
        (first..first + classes).find_map(|at| self.pop(ORDER[at % classes], admission))
    }

    fn pop(&mut self, class: Class, admission: Admission) -> Option<TaskKey> {
        match class {
            Class::Io => self.io.pop_front(),
            Class::Lock => self.lock.pop().map(|Reverse((_, task))| task),
            Class::Run => self.run.pop_front(),
            Class::New if admission == Admission::Closed => None,
            Class::New => self.new.pop_front(),
            Class::System => self.system.pop_front(),
        }
    }

    /// The next system task.
    pub(super) fn pick_system(&mut self) -> Option<TaskKey> {
        self.system.pop_front()
    }

    /// Whether anything could run now.
    pub(super) fn any(&self, admission: Admission) -> bool {
        !self.system.is_empty() || self.any_but_system(admission)
    }

    /// Whether anything but system work could run now.
    pub(super) fn any_but_system(&self, admission: Admission) -> bool {
        !(self.io.is_empty() && self.lock.is_empty() && self.run.is_empty())
            || (admission == Admission::Open && !self.new.is_empty())
    }

    /// How many tasks could run now, system work left out.
    pub(super) fn len(&self, admission: Admission) -> usize {
        let new = if admission == Admission::Open { self.new.len() } else { 0 };
        self.io.len() + self.lock.len() + self.run.len() + new
    }

    /// New transactions that wait for admission.
    pub(super) fn waiting_new(&self) -> usize {
        self.new.len()
    }
}

/// Deadlines of parked tasks. Entries whose wait has ended are left in and skipped later.
#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, TaskKey, u64)>>,
}

impl Timers {
    /// The wait number `wait` of `task` ends at `deadline_ns`.
    pub(super) fn add(&mut self, deadline_ns: u64, task: TaskKey, wait: u64) {
        self.heap.push(Reverse((deadline_ns, task, wait)));
    }

    /// The next deadline, possibly of a wait that has ended.
    pub(super) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((deadline, ..))| *deadline)
    }

    /// A wait whose deadline is at or before `now_ns`.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<(TaskKey, u64)> {
        if self.next()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((_, task, wait))| (task, wait))
    }

    /// Removes entries that `is_live` denies, if there are suspiciously many.
    pub(super) fn tidy(&mut self, live_max: usize, is_live: impl Fn(TaskKey, u64) -> bool) {
        if self.heap.len() > 256 && self.heap.len() > 8 * live_max {
            self.heap.retain(|Reverse((_, task, wait))| is_live(*task, *wait));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_served_in_order_and_locks_oldest_first() {
        let mut ready = Ready::default();
        for (class, birth, task) in [
            (Class::New, 1, 1),
            (Class::Run, 2, 2),
            (Class::Lock, 9, 3),
            (Class::Lock, 4, 4),
            (Class::Io, 5, 5),
            (Class::System, 6, 6),
        ] {
            ready.push(class, birth, TaskKey(task));
        }
        let order: Vec<_> =
            std::iter::from_fn(|| ready.pick(Admission::Open)).map(|key| key.0).collect();
        assert_eq!(order, [4, 3, 5, 2, 1]);
        assert_eq!(ready.pick_system(), Some(TaskKey(6)));
        assert!(!ready.any(Admission::Open));
    }

    #[test]
    fn new_work_waits_for_admission_and_is_not_starved_by_io() {
        let mut ready = Ready::default();
        ready.push(Class::New, 0, TaskKey(1));
        assert_eq!(ready.pick(Admission::Closed), None);
        assert!(!ready.any(Admission::Closed) && ready.any(Admission::Open));
        let picks = AGEING * ORDER.len() as u32;
        for number in 0..picks {
            ready.push(Class::Io, 0, TaskKey(100 + u64::from(number)));
        }
        let mut served = (0..picks).filter_map(|_| ready.pick(Admission::Open));
        assert!(served.any(|key| key == TaskKey(1)));
    }

    #[test]
    fn no_class_is_starved_by_the_one_before_it() {
        const BELOW: [Class; 3] = [Class::Io, Class::Run, Class::New];
        for class in BELOW {
            let mut ready = Ready::default();
            ready.push(class, 0, TaskKey(1));
            let picks = AGEING * ORDER.len() as u32;
            let served = (0..picks).any(|number| {
                for first in ORDER.iter().filter(|first| **first != class) {
                    ready.push(*first, 0, TaskKey(100 + u64::from(number)));
                }
                ready.pick(Admission::Open) == Some(TaskKey(1))
            });
            assert!(served, "{class:?}");
        }
    }

    #[test]
    fn timers_come_out_by_deadline_and_stale_ones_are_tidied() {
        let mut timers = Timers::default();
        for wait in 0..1000 {
            timers.add(1000 - wait, TaskKey(1), wait);
        }
        assert_eq!(timers.next(), Some(1));
        assert_eq!(timers.pop_due(0), None);
        timers.tidy(1, |_, wait| wait == 5);
        assert_eq!(timers.pop_due(2000), Some((TaskKey(1), 5)));
        assert_eq!(timers.pop_due(2000), None);
    }
}
