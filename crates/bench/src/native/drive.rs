//! The clients: one transaction after the other, each as a task of an instance (`inside`) or as a thread
//! that calls from outside (`outside`).
//!
//! Invariants: no think times; `arrivals` says when a client's next transaction begins, and from
//! when its latency counts. A transaction counts when it is settled (its commit survives a
//! crash, unless durability is relaxed); the latency is that of all its tries together. What a client
//! acknowledges to the outside, it acknowledges after it has settled.

use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use atoll_kernel::api::Database;

use super::client::{Latency, Letter, Told};
use super::{Native, inside, outside};
use crate::arrivals::Arrivals;
use crate::report::Driven;
use crate::setting::{Calls, Setting};
use crate::workload::Acknowledge;

/// How often what they tell is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Until when clients run, and whom they tell.
#[derive(Clone)]
pub struct Course {
    /// How long.
    pub duration: Duration,
    /// Ends them earlier.
    pub stop: Arc<OnceLock<()>>,
    /// Whether what was committed is told, too.
    pub acknowledge: Acknowledge,
}

/// Runs the clients; `told` hears from them as they go on, and is called at least every second.
pub fn drive<W: Native>(
    database: &Database,
    (workload, tables): (&W, &W::Tables),
    setting: &Setting,
    course: &Course,
    told: &mut dyn FnMut(Option<Told<W::Mark>>),
) -> std::result::Result<Driven, String> {
    let (sender, receiver) = mpsc::channel();
    let arrivals = Arc::new(Arrivals::new(course.duration, setting.rate));
    let (what, of_run) = ((workload, tables), (course, &arrivals));
    match setting.calls {
        Calls::Inside => inside::start(database, what, setting, of_run, &sender),
        Calls::Outside(way) => outside::start(database, what, (setting, way), of_run, &sender)?,
    }
    drop(sender);
    let (mut driven, mut ended) = (Driven::new(W::KINDS.len()), 0);
    loop {
        match receiver.try_recv() {
            Ok(Letter::Told(it)) => {
                if let Told::Progress(counts) = &it {
                    driven.counts.add(counts);
                }
                told(Some(it));
            }
            Ok(Letter::Latencies(all)) => {
                for Latency { kind, micros } in all {
                    driven.record(kind.into(), Duration::from_micros(micros.into()));
                }
            }
            Ok(Letter::Done(Some(error))) => {
                let _ = course.stop.set(());
                return Err(error.to_string());
            }
            Ok(Letter::Done(None)) => ended += 1,
            Err(mpsc::TryRecvError::Empty) => {
                told(None);
                // Who waited for letters would be woken by each, on a core that is measured.
                std::thread::sleep(LOOK_EVERY);
            }
            Err(mpsc::TryRecvError::Disconnected) => break,
        }
    }
    driven.elapsed = arrivals.began().elapsed();
    driven.unserved = arrivals.unserved();
    if ended != setting.clients {
        return Err(format!("only {ended} of {} clients came to their end", setting.clients));
    }
    Ok(driven)
}
