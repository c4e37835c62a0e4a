//! A server over running instances: registers sessions and listeners, and ends with the database.
//!
//! Invariants: the sockets are bound before anything is registered, so an address in use fails the
//! start; sessions are registered on every instance, under one number, before the first
//! connection is accepted. Closing the hub ends all sessions (57P01).

use std::sync::{Arc, Mutex};

use atoll_kernel::base::{Error, InstanceId};
use atoll_kernel::runtime::{Hub, Instance, InstanceState, ServiceId, Target};

use crate::backend::Backend;
use crate::error::{Result, ServerError};
use crate::listen::{Listener, Listeners};
use crate::session::{Exchange, SessionOptions, Sessions};

/// Serves the instances of `hub` on `listeners`. Answers the addresses; serving ends with the
/// instances.
pub fn serve<S: InstanceState, B: Backend<S>>(
    hub: &Hub<S>,
    listeners: Listeners,
    shared: B::Shared,
    options: SessionOptions,
) -> Result<Vec<String>> {
    let addresses = listeners.addresses();
    let registered: Arc<Mutex<Vec<std::io::Result<ServiceId>>>> = Arc::default();
    let results = registered.clone();
    for number in 0..hub.instances() {
        let to = InstanceId(number as u16);
        let (shared, results) = (shared.clone(), results.clone());
        let register = move |instance: &Instance<S>| {
            let id = Sessions::<S, B>::register(instance, &shared, options);
            results.lock().expect("nothing panics while it holds the results").push(id);
        };
        hub.send(to, Box::new(register));
        // Letters come in order: when this is answered, the service is registered.
        hub.run(Target::Instance(to), |_| ())?;
    }
    let mut ids = registered.lock().expect("nothing panics while it holds the results");
    let mut sessions = None;
    for id in ids.drain(..) {
        let id = id.map_err(|source| ServerError::System { what: "open /dev/urandom", source })?;
        if *sessions.get_or_insert(id) != id {
            let detail = "services were registered in different orders".to_owned();
            return Err(ServerError::Kernel(Error::Internal { detail }));
        }
    }
    let Some(sessions) = sessions else {
        return Err(ServerError::Kernel(Error::ShuttingDown));
    };
    let listen = move |instance: &Instance<S>| {
        Listener::<S, B>::register(instance, listeners, sessions);
        Exchange::<S, B>::register(instance, sessions, options.exchanges);
    };
    hub.send(InstanceId(0), Box::new(listen));
    Ok(addresses)
}
