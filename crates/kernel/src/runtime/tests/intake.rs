//! Completions on their way to services: in order, a few at a time, and never kept out for good.

use std::rc::Rc;

use super::*;

/// Starts a task for each completion, and notes what it saw.
#[derive(Default)]
struct Counting {
    expected: RefCell<Vec<u64>>,
    completed: RefCell<Vec<u64>>,
    tasks_max: Cell<usize>,
    waiter: RefCell<Option<Unparker>>,
}

impl Service<Notes> for Counting {
    fn expects(&self, completions: &[Completion]) {
        let numbers = completions.iter().map(|it| ServiceId::split(it.token).1);
        self.expected.borrow_mut().extend(numbers);
    }

    fn completed(&self, instance: &Instance<Notes>, completion: Completion) {
        self.completed.borrow_mut().push(ServiceId::split(completion.token).1);
        assert!(self.expected.borrow().starts_with(&self.completed.borrow()), "asked for before");
        instance.spawn(Class::New, |context| context.instance().state().add("ran"));
        self.tasks_max.set(self.tasks_max.get().max(instance.tasks()));
        if let Some(waiter) = self.waiter.take() {
            waiter.unpark(UnparkClass::Io);
        }
    }

    fn poll(&self, _instance: &Instance<Notes>) -> Poll {
        Poll::Idle
    }

    fn stop(&self, _instance: &Instance<Notes>) {}
}

fn complete(instance: &Instance<Notes>, service: ServiceId, count: u64) {
    for number in 0..count {
        instance.ring().submit(Op::Accept { listener: -1 }, service.token(number));
    }
}

#[test]
fn completions_reach_their_service_in_order_and_a_few_at_a_time() {
    let instance = stepped(RuntimeOptions::default(), HandClock::new());
    let counting = Rc::new(Counting::default());
    let service = instance.register(counting.clone());
    complete(&instance, service, 1000);
    instance.turn();
    assert!(instance.ready_tasks() > 900, "what waits counts as ready");
    settle(&instance);
    assert_eq!(*counting.completed.borrow(), (0..1000).collect::<Vec<_>>());
    assert_eq!(counting.expected.borrow().len(), 1000);
    assert_eq!(instance.state().taken().len(), 1000);
    // At most 16 together, while fewer than 16 were ready.
    assert!(counting.tasks_max.get() < 32, "{}", counting.tasks_max.get());
}

#[test]
fn tasks_that_use_up_their_slices_keep_no_completion_out() {
    let instance = stepped(RuntimeOptions::default(), HandClock::new());
    let counting = Rc::new(Counting::default());
    let service = instance.register(counting.clone());
    for _ in 0..40 {
        let counting = counting.clone();
        instance.spawn(Class::Run, move |context| {
            while counting.completed.borrow().len() < 50 {
                context.yield_now();
            }
        });
    }
    complete(&instance, service, 50);
    settle(&instance);
    assert_eq!(counting.completed.borrow().len(), 50);
    assert_eq!((instance.state().taken().len(), instance.tasks()), (50, 0));
}

/// Who holds admission up waits for a completion itself: new tasks before it do not keep it out.
#[test]
fn new_tasks_without_admission_keep_no_completion_out() {
    let options = RuntimeOptions { admission_max: 1, ..RuntimeOptions::default() };
    let instance = stepped(options, HandClock::new());
    let counting = Rc::new(Counting::default());
    let service = instance.register(counting.clone());
    let holder = counting.clone();
    instance.spawn(Class::New, move |context| {
        *holder.waiter.borrow_mut() = Some(context.unparker());
        while holder.completed.borrow().is_empty() {
            context.park(None);
        }
        context.instance().state().add("holder");
    });
    instance.turn();
    for _ in 0..100 {
        instance.spawn(Class::New, |context| context.instance().state().add("new"));
    }
    settle(&instance);
    assert_eq!(instance.state().taken(), Vec::<String>::new());
    complete(&instance, service, 1);
    settle(&instance);
    let log = instance.state().taken();
    assert_eq!((log[0].as_str(), log.len()), ("holder", 102));
}
