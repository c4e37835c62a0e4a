//! Running tasks: who is next, for how long, and what becomes of a task when its coroutine comes back.
//!
//! Invariants: those of `instance`; a task that runs is in no queue, and its coroutine in no table.
//! A task that *rests* has no stack: it has told what it goes on with, and begins that, admitted anew, on
//! whatever stack is free when it is woken ([`TaskContext::rest`]). So a thousand that wait for a flush
//! take the caches of one, which has the stack that was used last.

use super::instance::{Instance, InstanceState};
use super::options::Slice;
use super::park::Parked;
use super::schedule::{Admission, TaskKey};
use super::table::{Stage, Tasks};
use super::task::{Class, LocalWork, Suspend, TaskContext, TaskEnd};
use crate::sync::{ledger, mutant};

/// Tasks that one turn runs at most.
const TASKS_PER_TURN_MAX: u32 = 64;
/// While others are ready, one system task runs every so many turns (rule 2.3 e).
const SYSTEM_EVERY_TURNS: u64 = 8;

impl<S: InstanceState> Instance<S> {
    pub(super) fn run_tasks(&self) -> bool {
        self.pull_new_work();
        let (tasks_max, budget) = match self.hub.options().slice {
            Slice::TimeNs(ns) => (TASKS_PER_TURN_MAX, self.hub.cycles_of_ns(ns / 2)),
            Slice::Calls(_) => (1, 0),
        };
        // Where one ends the next begins: the counter is read once for both.
        let start = self.slice_cycles();
        let mut now = start;
        let mut ran = 0;
        while ran < tasks_max {
            let admission = self.admission();
            let Some(key) = self.ready.borrow_mut().pick(admission) else { break };
            self.resume(key, now);
            ran += 1;
            // Whom it has handed a row to comes next, not after all others: a queue at a hot row
            // is emptied at once, and they do not stand there when they come to it.
            self.take_wakes();
            now = self.slice_cycles();
            if budget != 0 && now.wrapping_sub(start) >= budget {
                break;
            }
        }
        if ran == 0 || self.turns.get().is_multiple_of(SYSTEM_EVERY_TURNS) {
            let system = self.ready.borrow_mut().pick_system();
            if let Some(key) = system {
                self.resume(key, now);
                ran += 1;
            }
        }
        ran > 0
    }

    /// Takes unstarted work from outside, if this instance has room for it (rule 2.5). If it has not, one
    /// piece every so many turns, to stand behind whoever waits here for admission: where that is never open
    /// when a turn begins, it would wait for ever outside.
    fn pull_new_work(&self) {
        let ready = self.ready.borrow();
        let busy = self.admission() == Admission::Closed
            || ready.any_but_system(Admission::Open)
            || ready.waiting_new() > 0;
        drop(ready);
        if busy && !self.turns.get().is_multiple_of(SYSTEM_EVERY_TURNS) {
            return;
        }
        let work = self.hub.pull(self.id(), busy);
        if let Some(work) = work {
            self.enter(Class::New, work, None);
        }
    }

    pub(super) fn admission(&self) -> Admission {
        let counted = self.stacks.live() - self.uncounted.get();
        if counted < self.hub.options().admission_max { Admission::Open } else { Admission::Closed }
    }

    pub(super) fn make_ready(&self, key: TaskKey, class: Class, answer: Parked) {
        let mut tasks = self.tasks.borrow_mut();
        let Some(task) = tasks.get_mut(key) else { return };
        let (stage, class) = match std::mem::replace(&mut task.stage, Stage::Running) {
            Stage::Parked(body) => (Stage::Ready(body, answer), class),
            Stage::Resting(work) => (Stage::Fresh(work), Class::New),
            other => {
                task.stage = other;
                return;
            }
        };
        task.stage = stage;
        let class = if task.class == Class::System { Class::System } else { class };
        self.ready.borrow_mut().push(class, task.birth, key);
    }

    pub(super) fn end_due_waits(&self) -> bool {
        if self.timers.borrow().next().is_none() {
            return false;
        }
        let now = self.time().now_ns();
        let mut active = false;
        loop {
            let due = self.timers.borrow_mut().pop_due(now);
            let Some((key, wait)) = due else { break };
            let ended = self.tasks.borrow().get(key).is_some_and(|task| {
                task.waits == wait && matches!(task.stage, Stage::Parked(_)) && task.cell.time_out()
            });
            if ended {
                active = true;
                self.make_ready(key, Class::Lock, Parked::TimedOut);
            }
        }
        active
    }

    /// Runs a task until it waits or ends; its slice begins at `now`, a reading of [`Self::slice_cycles`].
    fn resume(&self, key: TaskKey, now: u64) {
        let taken = self.tasks.borrow_mut().get_mut(key).map(|task| {
            let stage = std::mem::replace(&mut task.stage, Stage::Running);
            // Only a context that begins refers to the cell.
            let cell = matches!(stage, Stage::Fresh(_)).then(|| ledger::share(&task.cell));
            (stage, cell, task.label)
        });
        let (mut body, answer, label) = match taken {
            Some((Stage::Ready(body, answer), _, label)) => (body, answer, label),
            Some((Stage::Fresh(work), Some(cell), label)) => match self.stacks.take() {
                Ok(stack) => {
                    let me = self.me.upgrade().expect("the instance outlives its turn");
                    (TaskContext::start(me, cell, stack, work), Parked::Woken, label)
                }
                Err(error) => return self.end(key, TaskEnd::NotStarted(error)),
            },
            _ => return,
        };
        self.begin_slice(now);
        let own = ledger::switch(label);
        let result = body.resume(answer);
        let label = ledger::switch(own);
        match result {
            corosensei::CoroutineResult::Return(end) => {
                self.stacks.give(body.into_stack());
                if !self.rests(key, &end) {
                    self.end(key, end);
                }
            }
            corosensei::CoroutineResult::Yield(suspend) => {
                let mut tasks = self.tasks.borrow_mut();
                let task = tasks.get_mut(key).expect("a suspended task exists");
                task.label = label;
                match suspend {
                    Suspend::Yield => {
                        task.stage = Stage::Ready(body, Parked::Woken);
                        let class =
                            if task.class == Class::System { task.class } else { Class::Run };
                        self.ready.borrow_mut().push(class, task.birth, key);
                    }
                    Suspend::Park { deadline_ns } => {
                        task.stage = Stage::Parked(body);
                        task.waits += 1;
                        let wait = task.waits;
                        if let Some(deadline) = deadline_ns {
                            self.add_timer(&tasks, deadline, key, wait);
                        }
                    }
                }
            }
        }
    }

    /// Notes what a running task goes on with.
    pub(super) fn rests_with(&self, key: TaskKey, work: LocalWork<S>) {
        // Of a task that says so twice the last one counts; the first is dropped with nothing borrowed.
        let _before = {
            let mut tasks = self.tasks.borrow_mut();
            tasks.get_mut(key).expect("a running task exists").next.replace(work)
        };
    }

    /// Whether the task, whose part has ended, goes on with another when it is woken. It is ready
    /// again if it was woken already.
    fn rests(&self, key: TaskKey, end: &TaskEnd) -> bool {
        if *end != TaskEnd::Done {
            return false;
        }
        let mut tasks = self.tasks.borrow_mut();
        let Some(task) = tasks.get_mut(key) else { return false };
        let Some(work) = task.next.take() else { return false };
        task.stage = Stage::Resting(work);
        let waits = task.cell.begin_park() || mutant("rest-forgets-a-wake-up");
        drop(tasks);
        if !waits {
            self.make_ready(key, Class::New, Parked::Woken);
        }
        true
    }

    fn add_timer(&self, tasks: &Tasks<S>, deadline_ns: u64, key: TaskKey, wait: u64) {
        let mut timers = self.timers.borrow_mut();
        timers.add(deadline_ns, key, wait);
        timers.tidy(tasks.len(), |key, wait| {
            tasks
                .get(key)
                .is_some_and(|task| task.waits == wait && matches!(task.stage, Stage::Parked(_)))
        });
    }

    pub(super) fn end(&self, key: TaskKey, end: TaskEnd) {
        let removed = self.tasks.borrow_mut().remove(key);
        // What it would have gone on with is dropped here, too, with nothing borrowed.
        let (on_end, _next) = removed.unwrap_or_default();
        if let Some(on_end) = on_end {
            on_end(self, end);
        }
    }

    /// The cycle counter, if slices go by it: a simulator's moves when it is read.
    fn slice_cycles(&self) -> u64 {
        match self.hub.options().slice {
            Slice::TimeNs(_) => self.time().cycles(),
            Slice::Calls(_) => 0,
        }
    }

    fn begin_slice(&self, now: u64) {
        match self.hub.options().slice {
            Slice::TimeNs(ns) => self.slice_end.set(now.wrapping_add(self.hub.cycles_of_ns(ns))),
            Slice::Calls(calls) => self.slice_calls.set(calls),
        }
    }

    pub(super) fn slice_used_up(&self) -> bool {
        match self.hub.options().slice {
            Slice::TimeNs(_) => self.time().cycles() >= self.slice_end.get(),
            Slice::Calls(_) => {
                let left = self.slice_calls.get();
                self.slice_calls.set(left.saturating_sub(1));
                left == 0
            }
        }
    }
}
