//! A task's own I/O: submit, park, take the completion.
//!
//! Invariants: the operation owns its buffer until its completion (rule 2.7), also when the task
//! that waited is unwound first: its entry is then left to the completion.

use std::cell::RefCell;

use crate::io::{Completion, Op};

use super::instance::{Instance, InstanceState, ServiceId};
use super::park::{Parker, UnparkClass, Unparker};
use super::task::TaskContext;

/// One operation of a task.
pub(super) enum IoWait {
    Waiting(Unparker),
    Done(Completion),
    Abandoned,
}

impl<S: InstanceState> Instance<S> {
    pub(super) fn io_wait(&self, op: Op, context: &TaskContext<S>) -> Completion {
        let index = {
            let mut waits = self.io_waits.borrow_mut();
            let free = waits.iter().position(Option::is_none).unwrap_or_else(|| {
                waits.push(None);
                waits.len() - 1
            });
            waits[free] = Some(IoWait::Waiting(context.unparker()));
            free
        };
        let entry = IoEntry { waits: &self.io_waits, index };
        self.ring().submit(op, ServiceId::TASKS.token(index as u64));
        loop {
            context.park(None);
            let mut waits = self.io_waits.borrow_mut();
            if let Some(IoWait::Done(_)) = &waits[index] {
                let Some(IoWait::Done(completion)) = waits[index].take() else {
                    unreachable!("just seen")
                };
                drop(waits);
                std::mem::forget(entry);
                return completion;
            }
        }
    }

    pub(super) fn io_done(&self, own: u64, completion: Completion) {
        let mut waits = self.io_waits.borrow_mut();
        let Some(place) = waits.get_mut(own as usize) else { return };
        match place.take() {
            Some(IoWait::Waiting(unparker)) => {
                *place = Some(IoWait::Done(completion));
                drop(waits);
                unparker.unpark(UnparkClass::Io);
            }
            Some(IoWait::Abandoned) | None => {}
            Some(done @ IoWait::Done(_)) => *place = Some(done),
        }
    }
}

/// A task unwound inside its I/O leaves its entry to the completion.
struct IoEntry<'a> {
    waits: &'a RefCell<Vec<Option<IoWait>>>,
    index: usize,
}

impl Drop for IoEntry<'_> {
    fn drop(&mut self) {
        self.waits.borrow_mut()[self.index] = Some(IoWait::Abandoned);
    }
}
