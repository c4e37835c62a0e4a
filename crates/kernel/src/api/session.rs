//! Sessions and transactions.
//!
//! Invariants: a session carries what its client may know (rule 7.4); a transaction has a slot
//! from begin to end and no stack between statements; one that is dropped without an end is rolled
//! back in the instance's next turn. Both stay on their instance.

use std::rc::Rc;
use std::sync::Arc;

use super::catalog_changes::CatalogChanges;
use super::checkpoint::{PinnedCheckpoint, WhichCheckpoint};
use super::core::{Context, CoreInner, Instance};
use super::environment::KernelEnvironment;
use super::savepoint::{self, By, Position, Savepoints};
use super::statement::Statement;
use crate::base::{Cts, Error, Result, Xid};
use crate::catalog::CatalogRef;
use crate::runtime::Class;
use crate::sync::mutant;
use crate::txn::{
    Committed, HeldSnapshot, Interrupt, Isolation, Settling, Synchronous, TxnHandle, Unsettled,
    Waiter,
};

/// When a commit's answer may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is stable: no crash can undo it.
    #[default]
    Commit,
    /// At once; a crash may take the session's last commits, whole.
    Relaxed,
}

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Access {
    /// Read and write.
    #[default]
    ReadWrite,
    /// Read only; whoever runs statements refuses changes (25006).
    ReadOnly,
}

/// One client of the database.
pub struct Session {
    core: Rc<CoreInner>,
    pub(super) inner: crate::txn::Session,
    interrupt: Arc<Interrupt>,
    /// When the present statement's time is up, on the database's clock.
    pub deadline_ns: Option<u64>,
}

impl Session {
    /// A client that knows nothing yet, on `instance`.
    pub fn new(instance: &Instance) -> Session {
        Session {
            core: instance.state().inner.clone(),
            inner: crate::txn::Session::new(Synchronous::On),
            interrupt: Arc::new(Interrupt::new()),
            deadline_ns: None,
        }
    }

    /// Takes the session apart, to go on on another instance (rule 2.10). It has no transaction;
    /// what its client may know goes with it (rule 7.4), whether stable or not.
    pub fn depart(self) -> MovingSession {
        MovingSession { inner: self.inner, interrupt: self.interrupt }
    }

    /// Goes on, on `instance`, as the client that `moving` was.
    pub fn arrive(instance: &Instance, moving: MovingSession) -> Session {
        let MovingSession { inner, interrupt } = moving;
        Session { core: instance.state().inner.clone(), inner, interrupt, deadline_ns: None }
    }

    /// Sets when answers may leave.
    pub fn set_durability(&mut self, durability: Durability) {
        self.inner.synchronous = match durability {
            Durability::Commit => Synchronous::On,
            Durability::Relaxed => Synchronous::Off,
        };
    }

    /// What ends this session's waits from outside (cancel requests, closing); any thread may use
    /// it.
    pub fn interrupt(&self) -> &Arc<Interrupt> {
        &self.interrupt
    }

    /// An error if the present statement is to end; executors ask it where they yield.
    pub fn check(&self, context: &Context) -> Result<()> {
        self.waiter(context).check()
    }

    pub(super) fn waiter<'a>(&'a self, context: &'a Context) -> Waiter<'a> {
        Waiter { parker: context, interrupt: &self.interrupt, deadline_ns: self.deadline_ns }
    }

    /// The newest committed catalog. Using it is an observation, which the session carries.
    pub fn catalog(&mut self) -> CatalogRef {
        let catalog = self.core.catalog.get(&self.core.shared.published);
        if let Some(seen) = catalog.committed().filter(|seen| !self.core.shared.is_stable(*seen)) {
            self.inner.observe(seen);
        }
        catalog
    }

    /// Begins a transaction. `Limit` if the instance has no slot left.
    pub fn begin(
        &mut self,
        context: &Context,
        isolation: Isolation,
        access: Access,
    ) -> Result<Transaction> {
        let core = context.instance().state().inner.clone();
        debug_assert!(Rc::ptr_eq(&core, &self.core), "a session stays on its instance");
        let handle = core.txn.begin(&self.inner, isolation)?;
        let catalog = CatalogChanges::default();
        let savepoints = Savepoints::default();
        let (handle, checkpoint) = (Some(handle), None);
        Ok(Transaction { core, handle, catalog, savepoints, access, checkpoint })
    }

    /// Keeps a published checkpoint as it is, to be read by transactions of any session. `NotFound`
    /// if there is none (yet), not this one any more, or the database is in memory.
    pub fn pin_checkpoint(&self, which: WhichCheckpoint) -> Result<PinnedCheckpoint> {
        self.core.shared.pin_checkpoint(which)
    }

    /// Waits until everything this session has been told, and has committed, is stable. Call it
    /// before anything leaves the process (rule 7.6).
    pub fn settle(&mut self, context: &Context) -> Result<()> {
        self.core.txn.settle(&mut self.inner, context);
        Ok(())
    }

    /// As [`Session::settle`], but it does not wait. `Later`: the task is woken when it should ask again;
    /// until then it may wait without a stack ([`crate::runtime::TaskContext::rest`]), so that the
    /// instance's next transaction has the one that is in the caches.
    ///
    /// ```
    /// use atoll_kernel::api::{Context, Session, Settling};
    ///
    /// fn answer(mut session: Session, context: &Context) {
    ///     match session.settle_soon(context) {
    ///         Settling::Later => context.rest(|context| answer(session, context)),
    ///         Settling::Done => println!("committed, and will be after a power cut"),
    ///     }
    /// }
    /// ```
    pub fn settle_soon(&mut self, context: &Context) -> Settling {
        self.core.txn.settle_soon(&mut self.inner, context)
    }

    /// What [`Session::settle`] would wait for now. Who hears `Nothing` has settled; who hears
    /// `OwnLog` may ask again after the instance's next polls instead of waiting.
    pub fn unsettled(&mut self) -> Unsettled {
        self.core.txn.unsettled(&mut self.inner)
    }

    /// Whether [`Session::settle`] would return at once.
    pub fn is_settled(&self) -> bool {
        self.core.txn.is_settled(&self.inner)
    }
}

/// A client between two instances.
pub struct MovingSession {
    inner: crate::txn::Session,
    interrupt: Arc<Interrupt>,
}

impl MovingSession {
    /// What ends its waits from outside: the same before, while and after it moves.
    pub fn interrupt(&self) -> &Arc<Interrupt> {
        &self.interrupt
    }
}

/// A running transaction.
pub struct Transaction {
    pub(super) core: Rc<CoreInner>,
    // None once it has ended.
    pub(super) handle: Option<TxnHandle<KernelEnvironment>>,
    pub(super) catalog: CatalogChanges,
    pub(super) savepoints: Savepoints,
    access: Access,
    // What it reads instead of the newest state.
    checkpoint: Option<PinnedCheckpoint>,
}

impl Transaction {
    /// Reads `checkpoint` from now on, and changes nothing: it holds no snapshot, waits for no lock,
    /// and keeps the checkpoint until it ends. Call it before the first command. Blocks when it is the
    /// first to read this checkpoint, for a page of each table and index. `Corrupt`, `Io`,
    /// `OutOfMemory`. Its statements fail with `CheckpointGivenUp` from when keeping the checkpoint takes
    /// more space than it may (`Options::checkpoint_pin_bytes`).
    pub fn read_checkpoint(
        &mut self,
        checkpoint: PinnedCheckpoint,
        context: &Context,
    ) -> Result<()> {
        let handle = self.handle.as_mut().ok_or_else(ended)?;
        let view = checkpoint.view(context, &self.core.shared)?;
        let given_up = checkpoint.given_up().clone();
        self.core.txn.read_checkpoint(handle, checkpoint.timestamp(), given_up);
        self.catalog.read(Rc::new(view.catalog().clone()));
        self.access = Access::ReadOnly;
        self.checkpoint = Some(checkpoint);
        Ok(())
    }

    /// The checkpoint that it reads, if it reads one.
    pub fn checkpoint(&self) -> Option<&PinnedCheckpoint> {
        self.checkpoint.as_ref()
    }

    /// Begins the next command: it sees what earlier ones did, and in READ COMMITTED everything
    /// committed by now.
    pub fn statement<'t>(
        &'t mut self,
        session: &'t mut Session,
        context: &'t Context,
    ) -> Result<Statement<'t>> {
        let handle = self.handle.as_mut().ok_or_else(ended)?;
        self.core.txn.begin_command(handle);
        Ok(Statement::new(&self.core, handle, &mut self.catalog, session, context))
    }

    /// Nobody reads by the present command's snapshot any more: in READ COMMITTED it is given back,
    /// so that a transaction that idles holds back no undo (rule 6.4). For whoever runs statements,
    /// before it waits for its client; a portal's snapshot was taken from the command and stays.
    pub fn end_command(&mut self) {
        if let Some(handle) = &mut self.handle
            && !mutant("snapshot-kept-between-commands")
        {
            self.core.txn.end_command(handle);
        }
    }

    /// Goes on with the present command: by the snapshot that was exchanged for its own (a portal
    /// between two fetches), else by its own, or if READ COMMITTED has given that back, a new one.
    pub fn resume<'t>(
        &'t mut self,
        session: &'t mut Session,
        context: &'t Context,
    ) -> Result<Statement<'t>> {
        let handle = self.handle.as_mut().ok_or_else(ended)?;
        self.core.txn.resume_command(handle);
        Ok(Statement::new(&self.core, handle, &mut self.catalog, session, context))
    }

    /// Keeps what the present command sees for a portal that is read on while later commands run.
    /// Call it right after [`Transaction::statement`] and its table locks.
    pub fn hold_snapshot(&mut self) -> Result<Snapshot> {
        let handle = self.handle.as_mut().ok_or_else(ended)?;
        let held = self.core.txn.hold_snapshot(handle);
        Ok(Snapshot { core: self.core.clone(), held })
    }

    /// Exchanges the present command's snapshot for a held one, and back when called again. In
    /// between only [`Transaction::resume`] may be called.
    pub fn exchange_snapshot(&mut self, snapshot: &mut Snapshot) -> Result<()> {
        let handle = self.handle.as_mut().ok_or_else(ended)?;
        self.core.txn.exchange_snapshot(handle, &mut snapshot.held);
        Ok(())
    }

    /// Makes everything visible to all later snapshots and lets go of all locks; returns then.
    /// It survives a crash once [`Session::settle`] has returned. On an error nothing was
    /// committed and everything is rolled back.
    pub fn commit(mut self, session: &mut Session, context: &Context) -> Result<Committed> {
        let mut handle = self.handle.take().ok_or_else(ended)?;
        let abandoned = self.catalog.prepare_commit(&self.core.shared, &mut handle);
        let waiter = Waiter {
            parker: context,
            interrupt: &session.interrupt,
            deadline_ns: session.deadline_ns,
        };
        let tables: &dyn crate::version::Tables = &*self.core.tables;
        let result = self.core.txn.commit(handle, &mut session.inner, &waiter, tables);
        match &result {
            Ok(_) => abandoned.drop_trees(&self.core, super::catalog_changes::Side::Old),
            Err(_) => {
                // The rows are back already.
                abandoned.restore(&self.core.shared, |_| ());
                abandoned.drop_trees(&self.core, super::catalog_changes::Side::New);
            }
        }
        result
    }

    /// Undoes everything. Cannot fail. Others run meanwhile if there is much of it.
    pub fn rollback(self, session: &mut Session, context: &Context) {
        self.roll_back_for(&mut session.inner, By::Task(context));
    }

    fn roll_back_for(mut self, session: &mut crate::txn::Session, by: By<'_>) {
        let Some(handle) = &mut self.handle else { return };
        savepoint::undo_to(&self.core, handle, &mut self.catalog, (&Position::start(), by));
        let tables: &dyn crate::version::Tables = &*self.core.tables;
        self.core.txn.abort(handle, session, tables);
        self.handle = None;
    }

    /// Its identity.
    pub fn xid(&self) -> Option<Xid> {
        self.handle.as_ref().map(TxnHandle::xid)
    }

    /// How much it sees of others.
    pub fn isolation(&self) -> Isolation {
        self.handle.as_ref().map_or(Isolation::ReadCommitted, TxnHandle::isolation)
    }

    /// What it may do.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Limits or widens what it may do.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// The catalog as this transaction sees it: the newest committed one with its own changes.
    pub fn catalog(&self, session: &mut Session) -> CatalogRef {
        self.catalog.own().unwrap_or_else(|| session.catalog())
    }

    /// Waits until everything that this transaction has seen is stable: for answers that leave
    /// before it ends.
    pub fn settle(&self, session: &Session, context: &Context) {
        if let Some(handle) = &self.handle {
            self.core.txn.settle_transaction(handle, &session.inner, context);
        }
    }

    /// The timestamp of its present or last snapshot.
    pub fn snapshot_timestamp(&self) -> Option<Cts> {
        self.handle.as_ref().map(|handle| handle.snapshot().timestamp)
    }
}

/// What a command saw, kept for a portal; let go of when dropped. Not `Send`: it belongs to its
/// transaction's instance.
pub struct Snapshot {
    core: Rc<CoreInner>,
    held: HeldSnapshot,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.core.txn.release_held(&mut self.held);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            let catalog = std::mem::take(&mut self.catalog);
            self.core.orphans.borrow_mut().push(Orphan { handle, catalog });
        }
    }
}

/// So many rows of an orphan are undone at once.
const ORPHAN_ROWS: usize = 128;

/// A transaction that nobody will end any more.
pub(super) struct Orphan {
    handle: TxnHandle<KernelEnvironment>,
    catalog: CatalogChanges,
}

impl Orphan {
    /// Undoes everything: what is little in this turn of the instance, else in a task.
    pub fn roll_back(self, instance: &Instance, core: &Rc<CoreInner>) {
        let is_little = !self.handle.changes().has_more_than(ORPHAN_ROWS);
        let transaction = Transaction {
            core: core.clone(),
            handle: Some(self.handle),
            catalog: self.catalog,
            savepoints: Savepoints::default(),
            access: Access::ReadWrite,
            checkpoint: None,
        };
        let carried = || crate::txn::Session::new(Synchronous::On);
        if is_little {
            transaction.roll_back_for(&mut carried(), By::Turn);
        } else {
            instance.spawn(Class::System, move |context| {
                transaction.roll_back_for(&mut carried(), By::Task(context));
            });
        }
    }
}

pub(super) fn ended() -> Error {
    Error::Internal { detail: "the transaction has ended".to_owned() }
}
