//! Completions on their way from the ring to whom they concern.
//!
//! The state's (its log's) and those of tasks are handed over at once. Those of services wait while
//! enough tasks are ready: what a session has received would be looked at now and again when its
//! task runs, long after, and with thousands of sessions both times from memory. So a session's
//! request is taken up when its turn is near, and its memory is asked for together with that of a
//! few others (`Service::expects`).
//!
//! Invariants: completions reach a service in the ring's order; while one waits the instance does
//! not sleep (`turn` answers busy), and each turn hands one over at least. No borrow is held while a service runs.

use std::collections::VecDeque;

use crate::io::Completion;

use super::instance::{Instance, InstanceState, ServiceId};

/// Services' completions are handed over while fewer tasks than this are ready.
const READY_ENOUGH: usize = 16;
/// How many are handed over together, whose memory is asked for together.
const TOGETHER: usize = 16;

/// What the ring has given and nobody has taken yet.
#[derive(Default)]
pub(super) struct Intake {
    waiting: VecDeque<Completion>,
    // Empty between turns; kept for their memory.
    reaped: Vec<Completion>,
    batch: Vec<Completion>,
}

impl Intake {
    /// Completions that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl<S: InstanceState> Instance<S> {
    /// Reaps, and hands over what is due; whether there was anything.
    pub(super) fn take_completions(&self) -> bool {
        let mut reaped = std::mem::take(&mut self.intake.borrow_mut().reaped);
        self.ring().reap(&mut reaped);
        let mut active = !reaped.is_empty();
        for completion in reaped.drain(..) {
            let (service, own) = ServiceId::split(completion.token);
            match service {
                ServiceId::STATE => self.state().completed(self, completion),
                ServiceId::TASKS => self.io_done(own, completion),
                _ => self.intake.borrow_mut().waiting.push_back(completion),
            }
        }
        self.intake.borrow_mut().reaped = reaped;
        // One in any case: tasks that use up one slice after the other keep nobody out.
        let count_max = if self.has_room() { TOGETHER } else { 1 };
        active |= self.hand_over(count_max);
        while self.has_room() && self.hand_over(TOGETHER) {}
        active
    }

    /// New tasks that wait for admission do not count: those that hold them up must be heard.
    fn has_room(&self) -> bool {
        self.ready.borrow().len(self.admission()) < READY_ENOUGH
    }

    /// Hands up to `count_max` completions to their services; false if there was none.
    fn hand_over(&self, count_max: usize) -> bool {
        let mut batch = {
            let intake = &mut *self.intake.borrow_mut();
            let count = intake.waiting.len().min(count_max);
            if count == 0 {
                return false;
            }
            intake.batch.extend(intake.waiting.drain(..count));
            std::mem::take(&mut intake.batch)
        };
        let count = self.services.borrow().len();
        for index in 0..count {
            let service = self.services.borrow()[index].clone();
            service.expects(&batch);
        }
        for completion in batch.drain(..) {
            let (ServiceId(number), _) = ServiceId::split(completion.token);
            let service = self.services.borrow().get(usize::from(number) - 1).cloned();
            if let Some(service) = service {
                service.completed(self, completion);
            }
        }
        self.intake.borrow_mut().batch = batch;
        true
    }
}
