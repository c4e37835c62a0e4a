//! One row's queue, step by step.

use super::*;
use crate::base::{Cts, InstanceId};
use crate::txn::slot::{Count, FreeSlots};

const NAME: RowName = RowName { tree: TreeId(3), row: RowId(77) };

struct World {
    slots: SlotTable<Count>,
    free: FreeSlots,
    queues: RowQueues<Count>,
}

impl World {
    fn new() -> World {
        let free = FreeSlots::new(InstanceId(0));
        World { slots: SlotTable::new(1), free, queues: RowQueues::new() }
    }

    fn begin(&self) -> Xid {
        self.free.begin(&self.slots, Cts(1)).expect("slots are free")
    }

    /// Stands and sleeps, as the shell does.
    fn wait(&self, own: Xid, holder: Xid) -> Count {
        let bell = Count::default();
        self.queues.stand(NAME, (own, Wants::Newest), bell.clone());
        while self.queues.found(&self.slots, NAME, own, holder) == Next::Look {}
        bell
    }

    fn is_over(&self, own: Xid) -> bool {
        self.queues.is_over(&self.slots, NAME, own)
    }

    fn leave(&self, own: Xid, took: Took) {
        self.queues.leave(&self.slots, NAME, own, took);
    }

    fn enlisted(&self, holder: Xid) -> u64 {
        self.slots.get(holder).slot.enlisted()
    }
}

#[test]
fn a_row_goes_to_one_waiter_at_a_time_with_one_wake_up_each() {
    let world = World::new();
    let xids: Vec<Xid> = (0..5).map(|_| world.begin()).collect();
    let bells: Vec<Count> = (1..5).map(|at| world.wait(xids[at], xids[0])).collect();
    assert_eq!(world.enlisted(xids[0]), 1, "only the head is on the holder's list");
    for at in 0..4 {
        assert_eq!(world.queues.standing(NAME), xids[at + 1..]);
        world.slots.get(xids[at]).slot.end();
        assert!(world.is_over(xids[at + 1]));
        world.queues.woke(&world.slots, NAME, xids[at + 1]);
        world.leave(xids[at + 1], Took::TheRow);
        let counts: Vec<usize> = bells.iter().map(Count::times).collect();
        let expected: Vec<usize> = (0..4).map(|bell| usize::from(bell <= at)).collect();
        assert_eq!(counts, expected, "after {at}");
    }
    assert_eq!(world.queues.standing(NAME), []);
    assert_eq!(world.queues.in_front(NAME, xids[0]), None);
}

#[test]
fn who_gives_up_passes_the_turn_on_only_if_it_had_it() {
    let world = World::new();
    let [holder, head, middle, last] = std::array::from_fn(|_| world.begin());
    let (_, _, bell) =
        (world.wait(head, holder), world.wait(middle, holder), world.wait(last, holder));
    world.leave(middle, Took::Nothing);
    assert_eq!((bell.times(), world.is_over(last)), (0, false));
    world.leave(head, Took::Nothing);
    assert_eq!((bell.times(), world.is_over(last)), (1, true));
    assert_eq!(world.enlisted(holder), 0, "who left is on no list");
    assert_eq!(world.queues.found(&world.slots, NAME, last, holder), Next::Look);
    assert_eq!(world.queues.found(&world.slots, NAME, last, holder), Next::Sleep);
    assert_eq!(world.enlisted(holder), 1);
    world.leave(last, Took::Nothing);
    assert_eq!(world.enlisted(holder), 0);
}

#[test]
fn a_newcomer_goes_behind_who_stands_though_the_row_is_free() {
    let world = World::new();
    let [holder, head, newcomer] = std::array::from_fn(|_| world.begin());
    world.wait(head, holder);
    world.slots.get(holder).slot.end();
    assert_eq!(world.queues.in_front(NAME, newcomer), Some(head));
    assert_eq!(world.queues.in_front(NAME, head), None, "the head itself may take it");
    let elsewhere = RowName { row: RowId(78), ..NAME };
    assert_eq!(world.queues.in_front(elsewhere, newcomer), None);
}

#[test]
fn who_wants_the_row_as_it_was_goes_with_the_first_that_is_outrun() {
    let world = World::new();
    let [holder, head, patient, other] = std::array::from_fn(|_| world.begin());
    let bells = [head, other].map(|own| {
        let bell = Count::default();
        world.queues.stand(NAME, (own, Wants::AsSeen), bell.clone());
        while world.queues.found(&world.slots, NAME, own, holder) == Next::Look {}
        bell
    });
    let bell = world.wait(patient, holder);
    world.slots.get(holder).slot.end();
    assert_eq!((world.is_over(head), world.is_over(other)), (true, false));
    let woken_as = |watched, stands| Woken { watched, stands };
    let found = world.queues.woke(&world.slots, NAME, head);
    assert_eq!(found, woken_as(Some(holder), Stands::Still));
    world.leave(head, Took::Outrun);
    assert_eq!((bells[1].times(), bell.times()), (1, 1));
    assert!(world.is_over(other) && world.is_over(patient));
    let found = world.queues.woke(&world.slots, NAME, other);
    assert_eq!(found, woken_as(None, Stands::NoMore));
    assert_eq!(world.queues.standing(NAME), [patient]);
    // It would have to stand again.
    assert_eq!(world.queues.in_front(NAME, other), Some(patient));
    world.leave(other, Took::Nothing);
    world.leave(patient, Took::TheRow);
    assert_eq!(world.queues.standing(NAME), []);
    assert_eq!(world.queues.in_front(NAME, other), None, "nobody is counted any more");
}

#[test]
fn all_of_a_queue_wait_for_whom_the_head_watches() {
    let world = World::new();
    let [holder, head, behind, stranger] = std::array::from_fn(|_| world.begin());
    world.wait(head, holder);
    world.wait(behind, holder);
    let blocker = |own| world.queues.blocker(&world.slots, NAME, own);
    assert_eq!([head, behind].map(blocker), [Some(holder); 2]);
    assert_eq!(blocker(stranger), None);
    // It went back to a savepoint: the row is on its way.
    world.slots.get(holder).slot.give_back();
    assert_eq!([head, behind].map(blocker), [None; 2]);
    world.queues.woke(&world.slots, NAME, head);
    assert_eq!([head, behind].map(blocker), [None, Some(head)], "the head looks");
    world.leave(head, Took::TheRow);
    assert_eq!(blocker(behind), Some(head), "the head has it");
}

#[test]
fn a_head_that_finds_another_holder_changes_lists() {
    let world = World::new();
    let [first, second, head] = std::array::from_fn(|_| world.begin());
    world.wait(head, first);
    assert_eq!(world.queues.found(&world.slots, NAME, head, second), Next::Look);
    assert_eq!((world.enlisted(first), world.enlisted(second)), (0, 1));
    world.slots.get(second).slot.end();
    assert!(world.is_over(head));
    // An end that came before the head is on the list is seen at once.
    assert_eq!(world.queues.woke(&world.slots, NAME, head).watched, Some(second));
    assert_eq!(world.queues.found(&world.slots, NAME, head, second), Next::Look);
    assert!(world.is_over(head), "it watches nobody");
}

#[test]
fn a_key_goes_to_one_if_it_is_free_and_its_loss_is_told_to_all() {
    let world = World::new();
    let xids: [Xid; 4] = std::array::from_fn(|_| world.begin());
    let [holder, first, ..] = xids;
    let bells: Vec<Count> = xids[1..]
        .iter()
        .map(|own| {
            let bell = Count::default();
            world.queues.stand(NAME, (*own, Wants::Key), bell.clone());
            while world.queues.found(&world.slots, NAME, *own, holder) == Next::Look {}
            bell
        })
        .collect();
    let counts = || bells.iter().map(Count::times).collect::<Vec<usize>>();
    assert!(world.queues.are_keys_awaited());
    // Given back: the first one takes it, and the next one watches that.
    world.slots.get(holder).slot.end();
    world.queues.woke(&world.slots, NAME, first);
    world.leave(first, Took::TheRow);
    assert_eq!((counts(), world.enlisted(first)), (vec![1, 0, 0], 1));
    // Taken for good: the next one is woken, and what it is told holds for the last.
    world.slots.get(first).slot.end();
    world.queues.woke(&world.slots, NAME, xids[2]);
    world.leave(xids[2], Took::Outrun);
    assert_eq!(counts(), [1, 1, 1]);
    assert!(world.is_over(xids[3]));
    assert!(world.queues.is_idle());
}
