//! What can be set about instances. Defaults suit a server; the simulator sets [`Slice::Calls`] and the processor.

use super::processor::Processor;

/// Whether instance threads are bound to processors (rule 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// One processor each, if there are at least as many as instances and the system allows it.
    Auto,
    /// Never.
    No,
}

/// How long a task runs before `should_yield` says so (rule 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// Nanoseconds, measured by the cycle counter.
    TimeNs(u64),
    /// Every so many calls, and one task a turn: the simulator's form, independent of any clock.
    Calls(u32),
}

/// Settings of all instances of one database.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// How many instances there are.
    pub instances: u16,
    /// Bytes of a task's stack; touched lazily, a guard page below.
    pub stack_bytes: usize,
    /// Unused stacks that an instance keeps.
    pub stacks_kept_max: usize,
    /// New transactions start while fewer tasks than this have a stack (rule 2.4), those of the system and
    /// those that wait for nothing of the transaction's left out. At least 1: with 0 nothing would ever start.
    pub admission_max: usize,
    /// The slice of a task.
    pub slice: Slice,
    /// How long an idle instance looks around before it sleeps, if processors are not short.
    pub spin_ns: u64,
    /// A routed task that has waited longer may be taken by an idle instance (rule 2.5).
    pub steal_after_ns: u64,
    /// How long a closing instance lets its tasks finish before it unwinds them.
    pub close_grace_ns: u64,
    /// Binding to processors.
    pub pin: Pin,
    /// What instances believe of processors until their threads have looked.
    pub processor: Processor,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        RuntimeOptions {
            instances: 1,
            stack_bytes: 256 * 1024,
            stacks_kept_max: 256,
            admission_max: 128,
            slice: Slice::TimeNs(100_000),
            spin_ns: 5_000,
            steal_after_ns: 1_000_000,
            close_grace_ns: 5_000_000_000,
            pin: Pin::Auto,
            processor: Processor::Enough,
        }
    }
}
