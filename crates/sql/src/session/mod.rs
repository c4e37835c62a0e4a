//! A client's SQL session: the interface that the server and embedding programs use.
//!
//! Invariants: a session lives on one instance, on that instance's tasks only (it is not Send),
//! until it is taken apart to go on on another one (`moving`).
//! Its methods run inside a task and may wait. What they tell the client goes through
//! [`client::Client`], in protocol order. When a method answers an error, the session has already
//! drawn the consequences (the implicit transaction is rolled back, an explicit one has failed):
//! the caller sends ErrorResponse, and in the extended protocol skips to Sync. Before anything
//! that a method produced leaves the process, [`Session::settle`] must have returned.

mod affinity;
mod cache;
pub mod client;
mod context;
mod copy;
mod cursor;
mod execute;
mod explain;
mod extended;
mod held;
mod literals;
mod moving;
mod portals;
mod savepoint;
mod settings;
mod simple;
mod transaction;
mod utility;
mod variables;
mod walk;

use crate::SqlError;
use crate::error::SqlResult;
use crate::exec::spill::{Budget, MemorySettings};
use crate::exec::{Allowed, ScratchPool};
use crate::plan::Choices;
use crate::relations::{CatalogView, Registry};
use crate::statistics::Shelf;
use affinity::{Affinity, Routing};
use atoll_kernel::api::{
    AffinityKey, CheckpointWatch, Context, Cts, Database, Instance, Interrupt, Isolation,
    Transaction, Unsettled,
};
use atoll_kernel::sync::prefetch_value;
use cache::{Cache, CachedStatement};
use client::{Client, Severity, TransactionStatus};
use context::SessionContext;
use portals::Portals;
use rustc_hash::FxHashMap;
use savepoint::Savepoint;
use settings::{READ_FROM, ReadFrom, Settings};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

pub use affinity::RoutingCounts;
pub use client::Format;
pub use extended::BindRequest;
pub use moving::MovingSession;
pub use settings::SERVER_VERSION;

/// What all sessions of a database share.
pub struct Engine {
    registry: Arc<Registry>,
    pub(crate) statistics: Shelf,
    budget: Arc<Budget>,
    routing: Arc<Routing>,
}

impl Engine {
    /// With everything that this crate has.
    pub fn new(database: &Database) -> Arc<Engine> {
        Engine::with_memory(database, QUERY_MEMORY_BYTES)
    }

    /// The same, with so much memory for the rows that all statements together keep.
    pub fn with_memory(database: &Database, bytes_max: u64) -> Arc<Engine> {
        Arc::new(Engine {
            registry: Arc::new(Registry::standard()),
            statistics: Shelf::default(),
            budget: Budget::new(bytes_max),
            routing: Arc::new(Routing::new(database.instances())),
        })
    }

    /// What sessions have counted of their transactions' affinity, and their moves, by instance.
    pub fn routing(&self) -> Vec<RoutingCounts> {
        self.routing.counts()
    }

    /// Bytes that running statements keep, as far as they count them.
    pub fn memory_used_bytes(&self) -> u64 {
        self.budget.used_bytes()
    }
}

/// What all statements together may keep by default.
pub const QUERY_MEMORY_BYTES: u64 = 1 << 30;

/// What the sessions of one instance share: cached plans and scratch memory.
pub struct Local {
    pub(crate) engine: Arc<Engine>,
    pub(crate) scratch: ScratchPool,
    cache: Cache,
}

impl Local {
    /// For one instance.
    pub fn new(engine: &Arc<Engine>) -> Rc<Local> {
        Rc::new(Local {
            engine: engine.clone(),
            scratch: ScratchPool::default(),
            cache: Cache::default(),
        })
    }
}

/// How a session begins.
#[derive(Clone, Debug, Default)]
pub struct SessionStart {
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Settings of the startup packet, `options` taken apart.
    pub settings: Vec<(String, String)>,
    /// The process id told to the client.
    pub process_id: i32,
    /// The client's address, none on a unix socket.
    pub client_address: Option<String>,
}

/// Where a session stands between transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No transaction.
    Idle,
    /// The implicit transaction of a simple query, or of extended messages before Sync.
    Implicit,
    /// A transaction block.
    Block,
    /// A transaction block in which a statement failed; the kernel's transaction is gone, or at its
    /// newest savepoint if there is one.
    Failed,
}

/// Settings that every statement and transaction asks for, read once.
struct Defaults {
    timeout_ns: Option<u64>,
    isolation: SqlResult<Isolation>,
    read_only: bool,
    read_from: ReadFrom,
}

impl Default for Defaults {
    fn default() -> Defaults {
        let isolation = Ok(Isolation::ReadCommitted);
        let read_from = ReadFrom::Current;
        Defaults { timeout_ns: None, isolation, read_only: false, read_from }
    }
}

/// A client's session.
pub struct Session {
    pub(crate) local: Rc<Local>,
    pub(crate) kernel: atoll_kernel::api::Session,
    pub(crate) transaction: Option<Transaction>,
    phase: Phase,
    pub(crate) context: Rc<SessionContext>,
    path: Arc<[Arc<str>]>,
    path_version: u64,
    /// The version of the settings that everything derived from them is of.
    settings_version: Option<u64>,
    choices: Choices,
    /// The transaction has met an index younger than its snapshot, which this is: it plans without such ones.
    indexes_before: Option<Cts>,
    defaults: Defaults,
    prepared: FxHashMap<String, Rc<CachedStatement>>,
    portals: Portals,
    /// Of the transaction block, the oldest first.
    savepoints: Vec<Savepoint>,
    /// Portals and savepoints made so far: orders the ones among the others.
    births: u64,
    pub(crate) allowed: Allowed,
    /// Has the transaction run a query? Then its isolation stands.
    pub(crate) queried: bool,
    affinity: Affinity,
}

impl Session {
    /// Begins a session on `instance`; wrong settings are errors (22023, 42704).
    pub fn new(local: &Rc<Local>, instance: &Instance, start: SessionStart) -> SqlResult<Session> {
        let mut settings = Settings::default();
        settings.set_fixed("session_authorization", &start.user);
        let runtime = instance.hub().options();
        settings.set_at_start("admission_max", runtime.admission_max);
        let checkpoints = CheckpointWatch::new(instance);
        let archive = checkpoints.archive_directory().unwrap_or(Path::new(""));
        settings.set_at_start("archive_directory", archive.display());
        settings.set_at_start("checkpoint_interval", checkpoints.interval_ms());
        settings.set_at_start("checkpoint_pin_limit", checkpoints.pin_bytes() / 1024);
        settings.set_at_start("checkpoint_wal", checkpoints.wal_bytes() / 1024);
        for (name, value) in &start.settings {
            settings.set_default(name, value)?;
        }
        let kernel = atoll_kernel::api::Session::new(instance);
        let mut session = Session::build(local, instance, kernel, settings, &start);
        session.affinity.begin_session();
        Ok(session)
    }

    fn build(
        local: &Rc<Local>,
        instance: &Instance,
        mut kernel: atoll_kernel::api::Session,
        settings: Settings,
        start: &SessionStart,
    ) -> Session {
        let path = path_of(&settings, &start.user);
        let view = CatalogView {
            catalog: (*kernel.catalog()).clone(),
            registry: local.engine.registry.clone(),
            path: path.clone(),
            statistics: local.engine.statistics.newest(),
        };
        let path_version = settings.path_version;
        let context = SessionContext::new(settings, view, start, instance);
        *context.routing.borrow_mut() = Some(local.engine.routing.clone());
        let mut session = Session {
            local: local.clone(),
            kernel,
            transaction: None,
            phase: Phase::Idle,
            context: Rc::new(context),
            path,
            path_version,
            settings_version: None,
            choices: Choices::default(),
            indexes_before: None,
            defaults: Defaults::default(),
            prepared: FxHashMap::default(),
            portals: Portals::default(),
            savepoints: Vec::new(),
            births: 0,
            allowed: Allowed::default(),
            queried: false,
            affinity: Affinity::new(instance.id(), instance.hub().instances()),
        };
        session.apply_settings();
        session
    }

    /// Settings that are reported by ParameterStatus, with their values: sent at the start.
    pub fn reported_settings(&self) -> Vec<(&'static str, String)> {
        self.context.settings.borrow().reported()
    }

    /// ReadyForQuery's status.
    pub fn status(&self) -> TransactionStatus {
        match self.phase {
            Phase::Idle | Phase::Implicit => TransactionStatus::Idle,
            Phase::Block => TransactionStatus::InBlock,
            Phase::Failed => TransactionStatus::Failed,
        }
    }

    /// Ends this session's waits from outside (cancel requests): any thread may use it.
    pub fn interrupt(&self) -> &Arc<Interrupt> {
        self.kernel.interrupt()
    }

    /// Waits until everything that this session has told its client may be told. Its statements are
    /// over: what its client does next may take for ever.
    pub fn settle(&mut self, context: &Context) -> SqlResult<()> {
        if let Some(transaction) = &mut self.transaction {
            transaction.end_command();
            transaction.settle(&self.kernel, context);
        }
        Ok(self.kernel.settle(context)?)
    }

    /// What [`Session::settle`] would wait for, between transactions; see the kernel's.
    pub fn unsettled(&mut self) -> Unsettled {
        match self.transaction {
            Some(_) => Unsettled::Others,
            None => self.kernel.unsettled(),
        }
    }

    /// A statement is about to come: asks for the memory that it will need.
    pub fn prefetch(&self) {
        prefetch_value(&*self.context);
        prefetch_value(&**self.kernel.interrupt());
    }

    /// Would [`Session::settle`] return at once? Only asked between transactions.
    pub fn is_settled(&self) -> bool {
        self.transaction.is_none() && self.kernel.is_settled()
    }

    /// The session ends: an open transaction is rolled back.
    pub fn end(mut self, context: &Context) {
        self.portals.clear();
        if let Some(transaction) = self.transaction.take() {
            transaction.rollback(&mut self.kernel, context);
        }
    }

    /// What functions and text output ask of this session.
    pub fn functions(&self) -> &dyn crate::functions::FunctionContext {
        &*self.context
    }

    /// What the next statement sees of the catalog.
    pub(crate) fn view(&mut self) -> CatalogView {
        let catalog = match &self.transaction {
            Some(transaction) => transaction.catalog(&mut self.kernel),
            None => self.kernel.catalog(),
        };
        CatalogView {
            catalog: (*catalog).clone(),
            registry: self.local.engine.registry.clone(),
            path: self.path.clone(),
            statistics: self.local.engine.statistics.newest(),
        }
    }

    /// Brings what is derived from the settings up to date.
    fn apply_settings(&mut self) {
        let settings = self.context.settings.borrow();
        if self.settings_version == Some(settings.version) {
            return;
        }
        self.settings_version = Some(settings.version);
        drop(settings);
        self.context.refresh();
        let settings = self.context.settings.borrow();
        self.choices = settings.choices();
        self.defaults = Defaults {
            timeout_ns: u64::try_from(settings.integer("statement_timeout"))
                .ok()
                .filter(|timeout_ms| *timeout_ms > 0)
                .map(|timeout_ms| timeout_ms * 1_000_000),
            isolation: transaction::isolation_of(&settings.known("default_transaction_isolation")),
            read_only: settings.boolean("default_transaction_read_only"),
            read_from: ReadFrom::parse(&settings.known(READ_FROM)).unwrap_or_default(),
        };
        let kilobytes = |name| u64::try_from(settings.integer(name)).ok().map(|kb| kb * 1024);
        self.allowed.memory = Some(Rc::new(MemorySettings {
            work_bytes: kilobytes("work_mem").unwrap_or(0) as usize,
            temp_bytes_max: kilobytes("temp_file_limit"),
            budget: self.local.engine.budget.clone(),
        }));
        let hint = settings.known("atoll.affinity");
        self.affinity.hint = (!hint.is_empty()).then(|| AffinityKey::from(hint.as_str()));
        let relaxed = settings.known("synchronous_commit") == "off";
        self.kernel.set_durability(if relaxed {
            atoll_kernel::api::Durability::Relaxed
        } else {
            atoll_kernel::api::Durability::Commit
        });
        if settings.path_version != self.path_version {
            self.path_version = settings.path_version;
            self.path = path_of(&settings, &self.context.user());
        }
    }

    /// Tells the client of reported settings that changed.
    fn report_settings(&mut self, client: &mut dyn Client) {
        let changed = self.context.settings.borrow_mut().take_changed();
        for (name, value) in changed {
            client.parameter_status(name, &value);
        }
    }

    /// Sends a notice if client_min_messages lets it through.
    pub(crate) fn notice(&self, client: &mut dyn Client, severity: Severity, notice: &SqlError) {
        let wanted = self.context.settings.borrow().known("client_min_messages");
        let quiet = match severity {
            Severity::Info => false,
            Severity::Notice => matches!(wanted.as_str(), "warning" | "error"),
            Severity::Warning => wanted == "error",
        };
        if !quiet {
            client.notice(severity, notice.fields());
        }
    }
}

/// The schemas of search_path, `$user` replaced.
fn path_of(settings: &Settings, user: &str) -> Arc<[Arc<str>]> {
    let path = settings.search_path().into_iter();
    path.map(|part| if part == "$user" { user.into() } else { part.as_str().into() }).collect()
}

#[cfg(test)]
pub(crate) mod tests;
