//! Clients that are tasks of instances, each of one: what the kernel does without the way there.
//!
//! Invariants: a client that waits for an arrival is a task that waits: its instance serves others
//! or sleeps. Until its transaction is settled, a client waits without a stack.

use std::sync::{Arc, mpsc};

use atoll_kernel::api::{Context, Database, InstanceId, Parker, Result, Session, Settling, Target};
use atoll_kernel::sync::ledger::{self, Label};

use super::Native;
use super::client::{Client, Done, Letter};
use super::drive::Course;
use crate::arrivals::Arrivals;
use crate::setting::Setting;

/// Starts the clients.
pub(super) fn start<W: Native>(
    database: &Database,
    (workload, tables): (&W, &W::Tables),
    setting: &Setting,
    (course, arrivals): (&Course, &Arc<Arrivals>),
    sender: &mpsc::Sender<Letter<W::Mark>>,
) {
    for number in 0..setting.clients {
        let (workload, tables) = (workload.clone(), tables.clone());
        let (setting, course, sender) = (setting.clone(), course.clone(), sender.clone());
        let arrivals = arrivals.clone();
        let instance = InstanceId(workload.home(number, database.instances()) as u16);
        database.spawn(Target::Instance(instance), move |context| {
            let client =
                Client::new((workload, tables), (&setting, number), (course, arrivals), sender);
            let session = client.procedure.session(context);
            let client = Box::new(Task { session, client, done: None });
            client.run(context);
        });
    }
}

struct Task<W: Native> {
    session: Session,
    client: Client<W>,
    // What it has done and is not known to be settled.
    done: Option<Done<W>>,
}

impl<W: Native> Task<W> {
    /// Goes on until the end, or until it rests.
    fn run(mut self: Box<Self>, context: &Context) {
        loop {
            if let Some(done) = self.done.take() {
                // The ledger has it in the transaction's account.
                ledger::switch(Label::of(W::kind(&done.input)));
                if self.session.settle_soon(context) == Settling::Later {
                    self.done = Some(done);
                    return context.rest(move |context| self.run(context));
                }
                ledger::switch(Label::default());
                self.client.settled(done);
            }
            if context.should_yield() {
                context.yield_now();
            }
            match self.next(context) {
                Ok(Some(done)) => self.done = Some(done),
                Ok(None) => return self.client.account.end(None),
                Err(error) => return self.client.account.end(Some(error)),
            }
        }
    }

    /// Waits for the next transaction's arrival and does it, up to its commit; none at the end.
    fn next(&mut self, context: &Context) -> Result<Option<Done<W>>> {
        // Who waits for an arrival keeps nobody out (rule 2.4): it has no transaction.
        let arrival = || self.client.arrival(context);
        let Some(arrived) = context.uncounted(arrival) else { return Ok(None) };
        let input = self.client.draw(arrived);
        ledger::begin(Label::of(W::kind(&input)));
        let Client { procedure, account, .. } = &mut self.client;
        let aborts = &mut account.untold.aborts;
        let ended = procedure.until_done(&mut self.session, context, &input, aborts)?;
        Ok(Some(Done { input, arrived, ended }))
    }
}
