//! A client's SQL session: the interface that the server and embedding programs use.
//!
//! Invariants: a session lives on one instance, on that instance's tasks only (it is not Send).
//! Its methods run inside a task and may wait. What they tell the client goes through
//! [`client::Client`], in protocol order. When a method answers an error, the session has already
//! drawn the consequences (the implicit transaction is rolled back, an explicit one has failed):
//! the caller sends ErrorResponse, and in the extended protocol skips to Sync. Before anything
//! that a method produced leaves the process, [`Session::settle`] must have returned.

pub mod client;

use crate::error::SqlResult;
use crate::relations::Registry;
use crate::types::TypeOid;
use atoll_kernel::api::{Context, Database, Instance, Interrupt};
use client::{Client, ColumnDescription, Format, StatementDescription, TransactionStatus};
use std::rc::Rc;
use std::sync::Arc;

/// What all sessions of a database share.
pub struct Engine {
    registry: Arc<Registry>,
}

impl Engine {
    /// With everything that this crate has.
    pub fn new(_database: &Database) -> Arc<Engine> {
        Arc::new(Engine { registry: Arc::new(Registry::standard()) })
    }
}

/// What the sessions of one instance share: cached plans and scratch memory.
pub struct Local {
    engine: Arc<Engine>,
}

impl Local {
    /// For one instance.
    pub fn new(engine: &Arc<Engine>) -> Rc<Local> {
        Rc::new(Local { engine: engine.clone() })
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

/// The parts of a Bind message.
#[derive(Clone, Copy, Debug)]
pub struct BindRequest<'m> {
    /// The portal's name.
    pub portal: &'m str,
    /// The statement's name.
    pub statement: &'m str,
    /// None (all text), one (for all) or one a parameter.
    pub parameter_formats: &'m [Format],
    /// The parameters.
    pub parameters: &'m [Option<&'m [u8]>],
    /// None (all text), one (for all) or one a column.
    pub result_formats: &'m [Format],
}

/// A client's session.
pub struct Session {
    local: Rc<Local>,
    kernel: atoll_kernel::api::Session,
}

impl Session {
    /// Begins a session on `instance`; wrong settings are errors (22023, 42704).
    pub fn new(local: &Rc<Local>, instance: &Instance, _start: SessionStart) -> SqlResult<Session> {
        Ok(Session { local: local.clone(), kernel: atoll_kernel::api::Session::new(instance) })
    }

    /// Settings that are reported by ParameterStatus, with their values: sent at the start.
    pub fn reported_settings(&self) -> Vec<(&'static str, String)> {
        todo!()
    }

    /// ReadyForQuery's status.
    pub fn status(&self) -> TransactionStatus {
        todo!()
    }

    /// Ends this session's waits from outside (cancel requests): any thread may use it.
    pub fn interrupt(&self) -> &Arc<Interrupt> {
        self.kernel.interrupt()
    }

    /// Waits until everything that this session has told its client may be told.
    pub fn settle(&mut self, _context: &Context) -> SqlResult<()> {
        todo!()
    }

    /// Would [`Session::settle`] return at once?
    pub fn is_settled(&self) -> bool {
        todo!()
    }

    /// Query: any number of statements, in one implicit transaction unless they say otherwise.
    /// On an error the rest of the text is not run.
    pub fn simple_query(
        &mut self,
        _context: &Context,
        _text: &str,
        _client: &mut dyn Client,
    ) -> SqlResult<()> {
        todo!()
    }

    /// Parse: one statement or none. `types` are the declared parameter types (0 = infer).
    pub fn parse(
        &mut self,
        _context: &Context,
        _name: &str,
        _text: &str,
        _types: &[TypeOid],
    ) -> SqlResult<()> {
        todo!()
    }

    /// Bind.
    pub fn bind(&mut self, _context: &Context, _request: BindRequest<'_>) -> SqlResult<()> {
        todo!()
    }

    /// Describe of a statement.
    pub fn describe_statement(
        &mut self,
        _context: &Context,
        _name: &str,
    ) -> SqlResult<StatementDescription> {
        todo!()
    }

    /// Describe of a portal: its columns with their formats; `None` if it returns no rows.
    #[expect(clippy::type_complexity, reason = "columns and how they are sent")]
    pub fn describe_portal(
        &mut self,
        _name: &str,
    ) -> SqlResult<Option<(Arc<[ColumnDescription]>, Vec<Format>)>> {
        todo!()
    }

    /// Execute: at most `rows_max` rows (0 = all), then CommandComplete or PortalSuspended.
    pub fn execute(
        &mut self,
        _context: &Context,
        _portal: &str,
        _rows_max: u32,
        _client: &mut dyn Client,
    ) -> SqlResult<()> {
        todo!()
    }

    /// Close of a statement; one that is not there is no error.
    pub fn close_statement(&mut self, _name: &str) {
        todo!()
    }

    /// Close of a portal; one that is not there is no error.
    pub fn close_portal(&mut self, _name: &str) {
        todo!()
    }

    /// Sync: ends the implicit transaction (commits it unless something failed).
    pub fn sync(&mut self, _context: &Context) -> SqlResult<()> {
        todo!()
    }

    /// The session ends: an open transaction is rolled back.
    pub fn end(self, _context: &Context) {
        todo!()
    }
}
