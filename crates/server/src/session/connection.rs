//! A connection as its instance knows it, from its first byte to its last.
//!
//! Invariants: its instance's thread alone has it. While a conversation runs (`running`), the conversation has the
//! backend and decides the verdict; else what has come is read when it comes. Phases go forward, but that
//! who was about to leave may stay.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use atoll_kernel::base::InstanceId;
use atoll_kernel::txn::Interrupt;

use super::conversation::{Progress, Verdict};
use super::link::Link;
use super::moving::{Origin, Secret};

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting,
    Open,
    Leaving(InstanceId),
    /// A cancel request that is at the instance where its session was accepted.
    Cancelling,
    Draining,
}

/// Whether there was room for a connection's session when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    Yes,
    No,
}

/// One connection.
pub(super) struct Connection<B> {
    pub(super) number: u32,
    pub(super) admitted: Admitted,
    // None if it is this instance.
    pub(super) origin: Option<Origin>,
    pub(super) secret: Cell<Secret>,
    pub(super) address: Option<String>,
    pub(super) link: Link,
    pub(super) phase: Cell<Phase>,
    pub(super) running: Cell<bool>,
    // Whether it was among those that might change places, and where it was ordered to go (`exchange`).
    pub(super) is_known: Cell<bool>,
    pub(super) ordered: Cell<Option<InstanceId>>,
    pub(super) verdict: Cell<Verdict>,
    pub(super) progress: Cell<Progress>,
    // Boxed: a conversation takes it and gives it back.
    pub(super) backend: RefCell<Option<Box<B>>>,
    // Encoded answers of a conversation that has ended and has not settled.
    pub(super) unsettled: RefCell<Vec<u8>>,
    pub(super) interrupt: RefCell<Option<Arc<Interrupt>>>,
}
