//! Memory of sessions, asked for before their turn: with thousands of them each is cold.
//!
//! Invariants: nothing is changed; sessions that run are left alone.

use atoll_kernel::io::{Completion, Returned};
use atoll_kernel::runtime::{InstanceState, ServiceId};
use atoll_kernel::sync::prefetch_value;

use crate::backend::Backend;

use super::moving::Place;
use super::sessions::{KIND_SEND, Sessions};

/// What a request mostly has at most.
const REQUEST_BYTES: usize = 192;

impl<S: InstanceState, B: Backend<S>> Sessions<S, B> {
    /// Asks for what the sessions of these completions will touch: first all connections and what
    /// they received, then all backends, then what these refer to.
    pub(super) fn ask_ahead(&self, completions: &[Completion]) {
        let connections = self.connections.borrow();
        let own = || {
            completions.iter().filter_map(|completion| {
                let (service, own) = ServiceId::split(completion.token);
                let number = (own & (KIND_SEND - 1)) as usize;
                let is_own = service == self.id.get();
                let Place::Here(connection) = connections.get(number).filter(|_| is_own)? else {
                    return None;
                };
                Some((connection, completion, own & KIND_SEND == 0))
            })
        };
        for (connection, completion, _) in own() {
            prefetch_value(&**connection);
            if let Returned::Bytes(bytes) = &completion.buffer {
                prefetch_value(&bytes[..bytes.len().min(REQUEST_BYTES)]);
            }
        }
        let to_run =
            || own().filter(|(connection, _, is_recv)| *is_recv && !connection.running.get());
        for (connection, ..) in to_run() {
            if let Some(backend) = &*connection.backend.borrow() {
                prefetch_value(&**backend);
            }
        }
        for (connection, ..) in to_run() {
            if let Some(backend) = &*connection.backend.borrow() {
                backend.prefetch();
            }
        }
    }
}
