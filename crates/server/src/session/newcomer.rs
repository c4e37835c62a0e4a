//! A connection between accepting and its session: it may come to several instances.
//!
//! Invariants: it is sent as a letter and waits for nothing; each instance refuses it once at most.

use std::os::fd::OwnedFd;

use atoll_kernel::base::InstanceId;
use atoll_kernel::runtime::{Instance, InstanceState, ServiceId};

use crate::backend::Backend;

use super::sessions::Sessions;

/// A connection that was accepted and belongs to no instance yet.
pub struct Newcomer {
    /// The socket.
    pub socket: OwnedFd,
    /// The peer's address, for TCP.
    pub address: Option<String>,
    /// How many instances have had no room for it.
    pub refusals: usize,
}

impl Newcomer {
    /// Sends it to the service `sessions` of the instance `to`.
    pub fn send<S: InstanceState, B: Backend<S>>(
        self,
        from: &Instance<S>,
        to: InstanceId,
        sessions: ServiceId,
    ) {
        let adopt = move |instance: &Instance<S>| {
            if let Some(sessions) = instance.service::<Sessions<S, B>>(sessions) {
                sessions.adopt(instance, self);
            }
        };
        from.hub().send(to, Box::new(adopt));
    }
}
