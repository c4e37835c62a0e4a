//! Asking every instance and waiting for the answers.
//!
//! Invariants: each instance answers once, or the database closes; a task that panics has answered
//! that it failed, and what is dropped by an instance that has stopped, that the database closes. Who waits holds nothing.

use std::sync::{Arc, Mutex};

use super::super::core::{Context, Instance, Shared};
use super::{locked, pause};
use crate::base::{Error, InstanceId, Result};
use crate::runtime::{Class, Parker, UnparkClass, Unparker};

/// Runs `ask` once on every instance, between its tasks, and waits for the answers.
pub(super) fn ask_all<T: Send + 'static>(
    context: &Context,
    shared: &Shared,
    ask: impl Fn(&Instance) -> T + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let ask = Arc::new(ask);
    gather(context, shared, |id, answer| {
        let ask = ask.clone();
        let letter = move |instance: &Instance| answer.give(ask(instance));
        context.instance().hub().send(id, Box::new(letter));
    })
}

/// Runs `work` as a system task of every instance and waits for the answers.
pub(super) fn ask_all_tasks<T: Send + 'static>(
    context: &Context,
    shared: &Shared,
    work: impl Fn(&Context) -> T + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let work = Arc::new(work);
    gather(context, shared, |id, answer| {
        let work = work.clone();
        let letter = move |instance: &Instance| {
            instance.spawn(Class::System, move |context| answer.give(work(context)));
        };
        context.instance().hub().send(id, Box::new(letter));
    })
}

type Answers<T> = Arc<Mutex<Vec<Result<T>>>>;

/// One instance's answer: an error if it is dropped without.
struct Answer<T> {
    answers: Answers<T>,
    answer: Option<T>,
    unparker: Unparker,
}

impl<T> Answer<T> {
    fn give(mut self, answer: T) {
        self.answer = Some(answer);
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        let answer = self.answer.take().ok_or_else(|| match std::thread::panicking() {
            true => Error::Internal { detail: "a task of the checkpoint panicked".to_owned() },
            // The instance stopped before the task began, or in its middle.
            false => Error::ShuttingDown,
        });
        locked(&self.answers).push(answer);
        self.unparker.unpark(UnparkClass::Io);
    }
}

/// Lets `send` ask every instance and waits until all have answered. `ShuttingDown`; `Internal` if
/// a task panicked.
fn gather<T: Send + 'static>(
    context: &Context,
    shared: &Shared,
    send: impl Fn(InstanceId, Answer<T>),
) -> Result<Vec<T>> {
    let instances = context.instance().hub().instances();
    let answers: Answers<T> = Arc::new(Mutex::new(Vec::with_capacity(instances)));
    context.linger("role: before it asks");
    for id in (0..instances).map(|id| InstanceId(id as u16)) {
        let answers = answers.clone();
        send(id, Answer { answers, answer: None, unparker: context.unparker() });
    }
    while locked(&answers).len() < instances {
        pause(context, shared)?;
    }
    context.linger("role: answered");
    let answers = std::mem::take(&mut *locked(&answers));
    answers.into_iter().collect()
}
