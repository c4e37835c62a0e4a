//! Asking every instance and waiting for the answers.
//!
//! Invariants: each instance answers once, or the database closes; who waits holds nothing.

use std::sync::{Arc, Mutex};

use super::super::core::{Context, Instance, Shared};
use super::{locked, pause};
use crate::base::{InstanceId, Result};
use crate::runtime::{Class, Parker, UnparkClass};

/// Runs `ask` once on every instance, between its tasks, and waits for the answers.
pub(super) fn ask_all<T: Send + 'static>(
    context: &Context,
    shared: &Shared,
    ask: impl Fn(&Instance) -> T + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let ask = Arc::new(ask);
    gather(context, shared, |id, answer| {
        let ask = ask.clone();
        let letter = move |instance: &Instance| answer(ask(instance));
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
            instance.spawn(Class::System, move |context| answer(work(context)));
        };
        context.instance().hub().send(id, Box::new(letter));
    })
}

type Answer<T> = Box<dyn FnOnce(T) + Send>;

/// Lets `send` ask every instance and waits until all have answered. `ShuttingDown`.
fn gather<T: Send + 'static>(
    context: &Context,
    shared: &Shared,
    send: impl Fn(InstanceId, Answer<T>),
) -> Result<Vec<T>> {
    let instances = context.instance().hub().instances();
    let answers = Arc::new(Mutex::new(Vec::with_capacity(instances)));
    for id in (0..instances).map(|id| InstanceId(id as u16)) {
        let (answers, unparker) = (answers.clone(), context.unparker());
        send(
            id,
            Box::new(move |answer| {
                locked(&answers).push(answer);
                unparker.unpark(UnparkClass::Io);
            }),
        );
    }
    while locked(&answers).len() < instances {
        pause(context, shared)?;
    }
    let answers = std::mem::take(&mut *locked(&answers));
    Ok(answers)
}
