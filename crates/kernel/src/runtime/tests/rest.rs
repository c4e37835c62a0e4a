//! Tasks that wait without a stack.

use std::cell::Cell;
use std::rc::Rc;

use super::*;

/// Given by a task that rests, to wake it.
type Given = Rc<RefCell<Vec<Unparker>>>;

#[test]
fn who_rests_has_no_stack_and_goes_on_once_when_woken() {
    let instance = stepped(RuntimeOptions::default(), HandClock::new());
    let given = Given::default();
    for name in ["a", "b", "c"] {
        let given = given.clone();
        instance.spawn(Class::New, move |context| {
            given.borrow_mut().push(context.unparker());
            context.instance().state().add(name);
            context.rest(move |context| context.instance().state().add(format!("{name} goes on")));
        });
    }
    settle(&instance);
    assert_eq!(instance.state().taken(), ["a", "b", "c"]);
    assert_eq!((instance.tasks(), instance.stacks.live()), (3, 0));
    for number in [1, 0, 2] {
        given.borrow()[number].unpark(UnparkClass::Io);
        given.borrow()[number].unpark(UnparkClass::Io);
    }
    settle(&instance);
    assert_eq!(instance.state().taken(), ["b goes on", "a goes on", "c goes on"]);
    assert_eq!(instance.tasks(), 0);
    // They are gone: this wakes nobody.
    given.borrow().iter().for_each(|unparker| unparker.unpark(UnparkClass::Io));
    settle(&instance);
    assert!(instance.state().taken().is_empty());
}

#[test]
fn a_wake_up_before_the_rest_is_kept() {
    let instance = stepped(RuntimeOptions::default(), HandClock::new());
    for is_before in [true, false] {
        instance.spawn(Class::New, move |context| {
            let unparker = context.unparker();
            if is_before {
                unparker.unpark(UnparkClass::Io);
            }
            context.rest(|context| context.instance().state().add("went on"));
            if !is_before {
                unparker.unpark(UnparkClass::Lock);
            }
        });
        settle(&instance);
        assert_eq!(instance.state().taken(), ["went on"]);
    }
    assert_eq!(instance.tasks(), 0);
}

/// What a continuation owns; it looks at the instance's tasks when it is dropped.
struct Looks {
    dropped: Rc<Cell<u32>>,
    instance: Rc<Instance<Notes>>,
}

impl Drop for Looks {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
        assert!(self.instance.tasks() <= 1, "nothing is borrowed");
    }
}

#[test]
fn the_last_part_is_the_end_and_a_panic_is_too() {
    let instance = stepped(RuntimeOptions::default(), HandClock::new());
    let end = |instance: &Instance<Notes>, end: TaskEnd| instance.state().add(format!("{end:?}"));
    for panics_in in ["no part", "the first", "the second"] {
        let dropped = Rc::new(Cell::new(0));
        let held = Looks { dropped: dropped.clone(), instance: instance.clone() };
        let first = move |context: &TaskContext<Notes>| {
            let unparker = context.unparker();
            context.rest(move |context| {
                let _held = held;
                context.instance().state().add("second");
                assert!(panics_in != "the second", "stop");
            });
            unparker.unpark(UnparkClass::Io);
            assert!(panics_in != "the first", "stop");
        };
        instance.spawn_watched(Class::New, first, end);
        settle(&instance);
        let expect: &[&str] = match panics_in {
            "no part" => &["second", "Done"],
            "the first" => &["Panicked(\"stop\")"],
            _ => &["second", "Panicked(\"stop\")"],
        };
        assert_eq!(instance.state().taken(), expect, "{panics_in}");
        assert_eq!((instance.tasks(), instance.stacks.live()), (0, 0));
        assert_eq!(dropped.get(), 1, "what it goes on with is dropped with it");
    }
}

#[test]
fn who_rests_when_its_instance_ends_is_abandoned() {
    let instance = stepped(RuntimeOptions::default(), HandClock::new());
    let owned = Rc::new(());
    let held = owned.clone();
    let rest = move |context: &TaskContext<Notes>| context.rest(move |_| drop(held));
    let end = |instance: &Instance<Notes>, end: TaskEnd| instance.state().add(format!("{end:?}"));
    instance.spawn_watched(Class::New, rest, end);
    settle(&instance);
    instance.leave();
    assert_eq!(instance.state().taken(), ["Abandoned"]);
    assert_eq!(Rc::strong_count(&owned), 1);
}

#[test]
fn a_part_may_wait_in_between_and_a_rest_keeps_nobody_out() {
    let time = HandClock::new();
    let options = RuntimeOptions { admission_max: 1, ..RuntimeOptions::default() };
    let instance = stepped(options, time.clone());
    let given = Given::default();
    let kept = given.clone();
    let parts = Rc::new(Cell::new(0));
    instance.spawn(Class::New, move |context| {
        kept.borrow_mut().push(context.unparker());
        let first = parts.clone();
        context.rest(move |context| {
            first.set(1);
            // Its timer is not that of an earlier wait.
            let parked = context.park(Some(context.now_ns() + 10));
            context.instance().state().add(format!("{parked:?}, {}", parts.get()));
        });
    });
    settle(&instance);
    instance.spawn(Class::New, |context| context.instance().state().add("let in"));
    settle(&instance);
    assert_eq!(instance.state().taken(), ["let in"]);
    // Woken, it is admitted as anybody else.
    let other = given.clone();
    instance.spawn(Class::New, move |context| {
        other.borrow_mut().push(context.unparker());
        context.park(None);
    });
    settle(&instance);
    given.borrow()[0].unpark(UnparkClass::Io);
    settle(&instance);
    time.advance(20);
    settle(&instance);
    assert!(instance.state().taken().is_empty(), "it has not begun");
    given.borrow()[1].unpark(UnparkClass::Io);
    settle(&instance);
    time.advance(10);
    settle(&instance);
    assert_eq!(instance.state().taken(), ["TimedOut, 1"]);
}
