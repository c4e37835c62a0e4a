//! An instance's tasks: who exists, what each is doing, where it goes on.
//!
//! Invariants: a key names one use of one place (generation above, place below); a task is ready
//! (in exactly one queue), running (its coroutine is taken out), parked or resting. Only the instance's
//! own thread touches this, and never across a resumption.

use std::sync::Arc;

use corosensei::Coroutine;
use corosensei::stack::DefaultStack;

use super::instance::{Instance, InstanceState};
use super::park::{ParkCell, Parked};
use super::schedule::TaskKey;
use super::sleep::Door;
use super::task::{Class, LocalWork, Suspend, TaskEnd};
use crate::sync::ledger::{Label, share};

/// A task's coroutine.
pub(super) type Body = Coroutine<Parked, Suspend, TaskEnd, DefaultStack>;

/// Called on the instance's own stack when the task has ended.
pub(super) type OnEnd<S> = Box<dyn FnOnce(&Instance<S>, TaskEnd)>;

/// What an ended task leaves: who is told, and what it would have gone on with.
pub(super) type Left<S> = (Option<OnEnd<S>>, Option<LocalWork<S>>);

/// Where a task is.
pub(super) enum Stage<S: InstanceState> {
    /// Not started: it has no stack yet.
    Fresh(LocalWork<S>),
    /// Ready to go on; `resume_with` is what its wait answers.
    Ready(Body, Parked),
    /// Waiting; ended by its cell or its timer.
    Parked(Body),
    /// Waiting without a stack, for its cell alone; begins this when it is woken.
    Resting(LocalWork<S>),
    /// On the processor.
    Running,
}

/// One task.
pub(super) struct Task<S: InstanceState> {
    pub(super) cell: Arc<ParkCell>,
    pub(super) stage: Stage<S>,
    pub(super) class: Class,
    pub(super) birth: u64,
    // Counts the waits, so that a timer knows whether it is this wait's.
    pub(super) waits: u64,
    // What it runs, for the ledger: it goes with the coroutine.
    pub(super) label: Label,
    // What it goes on with when its present part has returned and it is woken.
    pub(super) next: Option<LocalWork<S>>,
    pub(super) on_end: Option<OnEnd<S>>,
}

struct Place<S: InstanceState> {
    generation: u32,
    task: Option<Task<S>>,
}

/// The table.
pub(super) struct Tasks<S: InstanceState> {
    places: Vec<Place<S>>,
    free: Vec<u32>,
    births: u64,
    live: usize,
    // Cells of ended tasks that nobody else refers to.
    cells: Vec<Arc<ParkCell>>,
}

/// Cells kept for reuse.
const CELLS_KEPT_MAX: usize = 256;

impl<S: InstanceState> Tasks<S> {
    pub(super) fn new() -> Tasks<S> {
        Tasks { places: Vec::new(), free: Vec::new(), births: 0, live: 0, cells: Vec::new() }
    }

    /// Tasks that exist.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Enters a task that has not started; answers its key and birth.
    pub(super) fn insert(
        &mut self,
        door: &Arc<Door>,
        class: Class,
        work: LocalWork<S>,
        on_end: Option<OnEnd<S>>,
    ) -> (TaskKey, u64) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, task: None });
            u32::try_from(self.places.len() - 1).expect("fewer tasks than 2^32")
        });
        let place = &mut self.places[index as usize];
        let key = TaskKey(u64::from(place.generation) << 32 | u64::from(index));
        let fresh = ParkCell::for_task(share(door), key.0);
        let cell = match self.cells.pop() {
            Some(mut cell) => {
                *Arc::get_mut(&mut cell).expect("only unshared cells are kept") = fresh;
                cell
            }
            None => Arc::new(fresh),
        };
        self.births += 1;
        self.live += 1;
        let (stage, birth, label) = (Stage::Fresh(work), self.births, Label::default());
        place.task = Some(Task { cell, stage, class, birth, waits: 0, label, next: None, on_end });
        (key, birth)
    }

    /// The task, unless it has ended.
    pub(super) fn get(&self, key: TaskKey) -> Option<&Task<S>> {
        let place = self.places.get(key.0 as u32 as usize)?;
        if u64::from(place.generation) == key.0 >> 32 { place.task.as_ref() } else { None }
    }

    /// The task, unless it has ended.
    pub(super) fn get_mut(&mut self, key: TaskKey) -> Option<&mut Task<S>> {
        let place = self.places.get_mut(key.0 as u32 as usize)?;
        if u64::from(place.generation) == key.0 >> 32 { place.task.as_mut() } else { None }
    }

    /// Takes an ended task out.
    pub(super) fn remove(&mut self, key: TaskKey) -> Option<Left<S>> {
        self.get(key)?;
        let place = &mut self.places[key.0 as u32 as usize];
        let mut task = place.task.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.0 as u32);
        self.live -= 1;
        if self.cells.len() < CELLS_KEPT_MAX && Arc::get_mut(&mut task.cell).is_some() {
            self.cells.push(task.cell);
        }
        Some((task.on_end, task.next))
    }

    /// The keys of all tasks.
    pub(super) fn keys(&self) -> Vec<TaskKey> {
        let key = |(index, place): (usize, &Place<S>)| {
            place.task.as_ref()?;
            Some(TaskKey(u64::from(place.generation) << 32 | index as u64))
        };
        self.places.iter().enumerate().filter_map(key).collect()
    }
}
