//! Instances: pinned threads that run tasks on pooled stacks, turn by turn, around one ring each
//! (section 2), and the clock that orders their commits (section 3).
//!
//! Invariants (README.md numbers the rules): a task never moves between threads; between two waits
//! it runs alone on its instance; nobody waits with a latch; nothing sent is refused and no
//! wake-up is lost. The same [`Instance::turn`] runs under threads ([`Runtime`]) and, called by
//! hand, under the simulator. Every module below may use this one. It knows no page, no
//! transaction and no session: those hang from the state `S` that [`crate::api`] composes.

mod affinity;
mod clock;
mod hub;
mod inbox;
mod intake;
mod instance;
mod io_wait;
#[cfg(not(loom))]
mod interleave;
mod options;
mod park;
mod processor;
mod promise;
mod run;
mod schedule;
mod sleep;
mod stack;
mod table;
mod task;
mod thread;
#[cfg(all(test, not(loom)))]
mod tests;

pub use affinity::{AffinityHasher, AffinityKey};
pub use clock::{Clock, ClockChoice, ClockForm};
pub use hub::{Hub, Message, Target};
pub use instance::{Instance, InstanceState, Poll, Service, ServiceId, Turn};
#[cfg(not(loom))]
pub use interleave::{Interleaved, Pause};
pub use options::{Pin, RuntimeOptions, Slice};
pub use park::{Parked, Parker, ThreadParker, UnparkClass, Unparker};
pub use processor::{Processor, numa_node, stand_back};
pub use promise::Promise;
pub use task::{Class, Critical, TaskContext, TaskEnd, Work};
pub use thread::{OpenRing, OpenState, Runtime};
