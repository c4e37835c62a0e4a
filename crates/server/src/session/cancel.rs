//! Cancel requests: a connection of its own that names a session by process number and secret.
//!
//! A process number names the instance that accepted the session (`moving`), which has its interrupt,
//! wherever the session is. Invariant: the connection of a request that came here ends when the session has
//! been interrupted, not before, as in PostgreSQL: what that session is asked next is not meant.

use std::rc::Rc;

use atoll_kernel::base::InstanceId;
use atoll_kernel::runtime::{Instance, InstanceState};
use atoll_kernel::txn::Reason;

use crate::backend::Backend;

use super::connection::{Connection, Phase};
use super::moving::Place;
use super::sessions::{NUMBER_BITS, Sessions};

impl<S: InstanceState, B: Backend<S>> Sessions<S, B> {
    /// Has the session interrupted where it was accepted; then `connection` ends.
    pub(super) fn send_cancel(
        &self,
        instance: &Instance<S>,
        connection: &Rc<Connection<B>>,
        process: u32,
        secret: Vec<u8>,
    ) {
        let to = process >> NUMBER_BITS;
        let number = process & ((1 << NUMBER_BITS) - 1);
        let is_here = to == u32::from(instance.id().0);
        if is_here || to as usize >= instance.hub().instances() {
            if is_here {
                self.cancel(number, &secret);
            }
            return self.drain(instance, connection);
        }
        // Letters are lost only while all close: then it ends with the others, which are told.
        connection.phase.set(Phase::Cancelling);
        let (id, from, canceller) = (self.id.get(), instance.id(), connection.number);
        let cancel = move |instance: &Instance<S>| {
            if let Some(sessions) = instance.service::<Sessions<S, B>>(id) {
                sessions.cancel(number, &secret);
            }
            let done = move |instance: &Instance<S>| {
                if let Some(sessions) = instance.service::<Sessions<S, B>>(id) {
                    sessions.cancelled(instance, canceller);
                }
            };
            instance.hub().send(from, Box::new(done));
        };
        instance.hub().send(InstanceId(to as u16), Box::new(cancel));
    }

    /// What the connection has asked to cancel has been interrupted.
    fn cancelled(&self, instance: &Instance<S>, number: u32) {
        let canceller = self.connection(u64::from(number));
        if let Some(connection) = canceller.filter(|it| it.phase.get() == Phase::Cancelling) {
            self.drain(instance, &connection);
        }
    }

    /// Interrupts the session's statement, if the secret is right. Never answers.
    fn cancel(&self, number: u32, secret: &[u8]) {
        let (expected, interrupt) = match self.connections.borrow().get(number as usize) {
            Some(Place::Here(connection)) => {
                (connection.secret.get(), connection.interrupt.borrow().clone())
            }
            Some(Place::Away(secret, interrupt)) => (*secret, Some(interrupt.clone())),
            Some(Place::Free) | None => return,
        };
        if !expected.told().is_empty()
            && expected.told() == secret
            && let Some(interrupt) = interrupt
        {
            interrupt.interrupt(Reason::Cancel);
        }
    }
}
