//! The instances' threads: start, loop, end.
//!
//! Invariants: a thread opens its ring and its instance itself (rule 2.1: memory is first touched
//! where it is used), then turns until the hub closes and nothing is left to do. A panic outside a
//! task ends the process: nothing there may be left half done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;

use crate::base::{Error, InstanceId, Result};
use crate::io::Ring;
use crate::latch::held_latches;
use crate::sync::spin;

use super::hub::Hub;
use super::instance::{Instance, InstanceState, Turn};
use super::options::Pin;
use super::processor::{Pressure, Processor, allowed_processors, bind_to};
use super::task::end_process;

/// Opens an instance's ring, on its thread.
pub type OpenRing = Arc<dyn Fn(InstanceId) -> Result<Box<dyn Ring>> + Send + Sync>;

/// Makes an instance's state, on its thread.
pub type OpenState<S> = Arc<dyn Fn(&Instance<S>) -> Result<S> + Send + Sync>;

/// The running threads of one database.
pub struct Runtime<S: InstanceState> {
    hub: Arc<Hub<S>>,
    threads: Vec<JoinHandle<()>>,
}

impl<S: InstanceState> Runtime<S> {
    /// Starts a thread for each instance of `hub` and waits until all are open; the first error
    /// ends them all again.
    pub fn start(hub: Arc<Hub<S>>, ring: OpenRing, state: OpenState<S>) -> Result<Runtime<S>> {
        guard_latches_against_panics();
        let processors = allowed_processors();
        let pin = hub.options().pin == Pin::Auto && processors.len() >= hub.instances();
        let (opened, results) = channel();
        let mut runtime = Runtime { hub: hub.clone(), threads: Vec::new() };
        for number in 0..hub.instances() {
            let id = InstanceId(number as u16);
            let (hub, ring, state, opened) =
                (hub.clone(), ring.clone(), state.clone(), opened.clone());
            let processor = processors.get(number).copied().filter(|_| pin);
            let spawned = std::thread::Builder::new()
                .name(format!("atoll-{id}"))
                .stack_size(8 << 20)
                .spawn(move || main(hub, id, processor, &ring, &state, &opened));
            match spawned {
                Ok(thread) => runtime.threads.push(thread),
                Err(error) => {
                    let detail = format!("no thread for instance {id}: {error}");
                    return Err(Error::Unusable { detail });
                }
            }
        }
        drop(opened);
        for _ in 0..hub.instances() {
            results.recv().unwrap_or(Err(Error::ShuttingDown))?;
        }
        Ok(runtime)
    }

    /// The instances.
    pub fn hub(&self) -> &Arc<Hub<S>> {
        &self.hub
    }

    /// Closes: lets tasks finish, ends all instances, waits for their threads. Not called from an
    /// instance.
    pub fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.hub.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl<S: InstanceState> Drop for Runtime<S> {
    fn drop(&mut self) {
        self.end();
    }
}

fn main<S: InstanceState>(
    hub: Arc<Hub<S>>,
    id: InstanceId,
    processor: Option<usize>,
    ring: &OpenRing,
    state: &OpenState<S>,
    opened: &Sender<Result<()>>,
) {
    if let Some(processor) = processor {
        bind_to(processor);
    }
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let open = ring(id).and_then(|ring| Instance::open(hub.clone(), id, ring, |i| state(i)));
        match open {
            Ok(instance) => {
                // The starter may have given up; then the hub closes and the loop ends.
                let _ = opened.send(Ok(()));
                turn_until_closed(&instance);
                instance.leave();
            }
            Err(error) => {
                hub.mailbox(id).close();
                let _ = opened.send(Err(error));
            }
        }
    }));
    if ran.is_err() {
        end_process("outside any task");
    }
}

fn turn_until_closed<S: InstanceState>(instance: &Rc<Instance<S>>) {
    let options = instance.hub().options();
    let mut idle = Idle::new(options.spin_ns);
    let mut pressure = Pressure::of_this_thread(options.processor);
    let mut turns = 0_u64;
    let mut end_by = u64::MAX;
    loop {
        let turn = instance.turn();
        turns += 1;
        if turns.is_multiple_of(LOOK_TURNS) {
            instance.processor.set(pressure.look(instance.time().now_ns()));
        }
        if instance.must_notice_stop() {
            instance.begin_stop();
            end_by = instance.time().now_ns().saturating_add(options.close_grace_ns);
            continue;
        }
        if instance.is_stopping()
            && ((turn != Turn::Busy && instance.may_end()) || instance.time().now_ns() >= end_by)
        {
            return;
        }
        let Turn::Idle { until } = turn else {
            // A completed write is only half of a durable one: a kernel thread then has to flush
            // the disk's cache, and the system's scheduler lets it wait for this thread's whole
            // slice (0.2 to 0.3 ms were seen) unless this thread offers the processor.
            if instance.state().durable_write_in_flight(instance) {
                std::thread::yield_now();
            }
            idle.end(|| instance.time().now_ns());
            continue;
        };
        let now_ns = instance.time().now_ns();
        match idle.next(now_ns, instance.processor.get()) {
            Rest::Spin => spin(),
            Rest::Offer => std::thread::yield_now(),
            Rest::Sleep if instance.is_stopping() => {
                instance.sleep(Some(until.unwrap_or(u64::MAX).min(now_ns + STOP_LOOK_NS)));
            }
            Rest::Sleep => instance.sleep(until),
        }
    }
}

/// What an instance without work does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    /// It looks again at once.
    Spin,
    /// It lets whoever stands in the queue for its processor run, and looks again.
    Offer,
    /// It sleeps until something comes.
    Sleep,
}

/// An instance's idle time, from the first turn without work to the next with some (rule 2.5). With processors enough it
/// first spins, but only while idle times were short lately, for spinning pays only while work comes back sooner than a
/// sleep and a wake-up take. Where they are short, spinning burns what those who would bring work stand in the queue for:
/// it offers its processor a few times instead. Then it sleeps.
struct Idle {
    spin_ns: u64,
    since_ns: Option<u64>,
    offers: u32,
    /// How long idle times were lately.
    mean_ns: u64,
}

/// Where processors are short, an instance without work offers its own so many times before it sleeps: whoever
/// stands in the queue for it may be about to send what would wake it at once.
const OFFERS_MAX: u32 = 3;

impl Idle {
    fn new(spin_ns: u64) -> Idle {
        Idle { spin_ns, since_ns: None, offers: 0, mean_ns: 0 }
    }

    /// After a turn without work, at `now_ns`.
    fn next(&mut self, now_ns: u64, processor: Processor) -> Rest {
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let spins =
            self.mean_ns < self.short_ns() && now_ns.saturating_sub(since_ns) < self.spin_ns;
        match processor {
            Processor::Enough if spins => Rest::Spin,
            Processor::Short if self.offers < OFFERS_MAX => {
                self.offers += 1;
                Rest::Offer
            }
            _ => Rest::Sleep,
        }
    }

    /// After a turn with work; the time is asked for only if there was an idle one before it.
    fn end(&mut self, now_ns: impl FnOnce() -> u64) {
        let Some(since_ns) = self.since_ns.take() else { return };
        self.offers = 0;
        // A long sleep says as much as one that is a little too long.
        let gap_ns = now_ns().saturating_sub(since_ns).min(4 * self.short_ns());
        self.mean_ns = (7 * self.mean_ns + gap_ns) / 8;
    }

    fn short_ns(&self) -> u64 {
        3 * self.spin_ns
    }
}

/// In how many turns the clock is read once to see whether it is time to look for processors.
const LOOK_TURNS: u64 = 16;

/// How often a stopping instance looks whether it may end.
const STOP_LOOK_NS: u64 = 1_000_000;

/// From now on a panic with a latch held ends the process before anything is unwound (rule 2.8):
/// guards' destructors would release the latch over a half-changed page.
fn guard_latches_against_panics() {
    static GUARDED: Once = Once::new();
    GUARDED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            if held_latches() > 0 {
                end_process("a latch is held");
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN_NS: u64 = 5_000;

    /// What an idle time of `gap_ns` from 0 on begins with; it is over after that.
    fn begins_with(idle: &mut Idle, gap_ns: u64) -> Rest {
        let rest = idle.next(0, Processor::Enough);
        idle.end(|| gap_ns);
        rest
    }

    #[test]
    fn spinning_stops_when_idle_times_get_long_and_comes_back() {
        let mut idle = Idle::new(SPIN_NS);
        assert_eq!(begins_with(&mut idle, 1_000_000), Rest::Spin);
        for _ in 0..4 {
            assert_eq!(
                begins_with(&mut idle, 10_000),
                Rest::Spin,
                "one long sleep decides nothing"
            );
        }
        (0..8).for_each(|_| _ = begins_with(&mut idle, 70_000));
        assert_eq!(begins_with(&mut idle, 8_000), Rest::Sleep);
        (0..16).for_each(|_| _ = begins_with(&mut idle, 8_000));
        assert_eq!(begins_with(&mut idle, 8_000), Rest::Spin);
    }

    #[test]
    fn where_processors_are_short_one_is_offered_at_once_then_it_sleeps() {
        let mut idle = Idle::new(SPIN_NS);
        for _ in 0..2 {
            let rests: Vec<Rest> = (0..5).map(|n| idle.next(n, Processor::Short)).collect();
            assert_eq!(rests, [Rest::Offer, Rest::Offer, Rest::Offer, Rest::Sleep, Rest::Sleep]);
            idle.end(|| 4);
        }
    }

    #[test]
    fn a_processor_that_nobody_wants_is_not_offered() {
        let mut idle = Idle::new(SPIN_NS);
        assert_eq!(idle.next(0, Processor::Enough), Rest::Spin);
        assert_eq!(idle.next(SPIN_NS, Processor::Enough), Rest::Sleep);
        assert_eq!(idle.next(SPIN_NS, Processor::Short), Rest::Offer, "it became short meanwhile");
    }
}
