//! Clients that are threads of the embedding program: each calls its transactions on an instance and
//! waits for the answer, as programs do that use the library.
//!
//! Invariants: a call is a whole transaction with its retries, in a session of its own, and is
//! answered when it has settled. A routed one's first argument is its affinity key, and it counts as
//! *elsewhere* if another instance than that key's has run it.

use std::sync::{Arc, mpsc};

use atoll_kernel::api::{Context, Database, InstanceId, Parker, Result, Target};
use atoll_kernel::runtime::ThreadParker;
use atoll_kernel::sync::ledger::{self, Label};

use super::Native;
use super::client::{Client, Done, Letter, Procedure};
use super::drive::Course;
use crate::arrivals::Arrivals;
use crate::setting::{Setting, Way};
use crate::workload::Ended;

/// Starts the clients. An error of one line if the system has not so many threads; then none goes on.
pub(super) fn start<W: Native>(
    database: &Database,
    (workload, tables): (&W, &W::Tables),
    (setting, way): (&Setting, Way),
    (course, arrivals): (&Course, &Arc<Arrivals>),
    sender: &mpsc::Sender<Letter<W::Mark>>,
) -> std::result::Result<(), String> {
    for number in 0..setting.clients {
        let of_run = (course.clone(), arrivals.clone());
        let what = (workload.clone(), tables.clone());
        let client = Client::new(what, (setting, number), of_run, sender.clone());
        let caller = Caller { database: database.clone(), way, client };
        let thread = std::thread::Builder::new().name(format!("client {number}"));
        if let Err(error) = thread.spawn(move || caller.run()) {
            let _ = course.stop.set(());
            return Err(format!("no thread for client {}: {error}: fewer --clients", number + 1));
        }
    }
    Ok(())
}

struct Caller<W: Native> {
    database: Database,
    way: Way,
    client: Client<W>,
}

/// What a call answers.
struct Answer<M> {
    ended: Ended<M>,
    aborts: u64,
    ran_on: InstanceId,
}

impl<W: Native> Caller<W> {
    /// Goes on until the end.
    fn run(mut self) {
        let parker = ThreadParker::new();
        let error = loop {
            match self.next(&parker) {
                Ok(Some(done)) => self.client.settled(done),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        self.client.account.end(error);
    }

    /// Waits for the next transaction's arrival and has it done; none at the end.
    fn next(&mut self, parker: &impl Parker) -> Result<Option<Done<W>>> {
        let Some(arrived) = self.client.arrival(parker) else { return Ok(None) };
        let input = self.client.draw(arrived);
        let Answer { ended, aborts, ran_on } = self.call(&input)?;
        let untold = &mut self.client.account.untold;
        untold.aborts += aborts;
        let there = W::key(&input).instance(self.database.instances());
        untold.elsewhere += u64::from(self.way == Way::Routed && ran_on != there);
        Ok(Some(Done { input, arrived, ended }))
    }

    fn call(&mut self, input: &W::Input) -> Result<Answer<W::Mark>> {
        let procedure = &mut self.client.procedure;
        match self.way {
            Way::Routed => {
                self.database.run_routed(W::key(input), |context, _| procedure.call(context, input))
            }
            Way::Anywhere => {
                self.database.run(Target::Any, |context| procedure.call(context, input))
            }
        }?
    }
}

impl<W: Native> Procedure<W> {
    /// Does what an input asks, until it has settled; as a task of an instance.
    fn call(&mut self, context: &Context, input: &W::Input) -> Result<Answer<W::Mark>> {
        ledger::begin(Label::of(W::kind(input)));
        let (mut session, mut aborts) = (self.session(context), 0);
        let ended = self.until_done(&mut session, context, input, &mut aborts)?;
        // What has committed keeps nobody out (rule 2.4).
        context.uncounted(|| session.settle(context))?;
        ledger::switch(Label::default());
        Ok(Answer { ended, aborts, ran_on: context.instance().id() })
    }
}
