//! What the server needs of the SQL layer, and nothing else.
//!
//! `sql_backend` implements it over `atoll-sql`; the tests of the network side implement it over
//! nothing. Invariants: one backend belongs to one client session and stays on its instance, until
//! it is taken apart to go on on another; it is called by one task at a time; it answers through [`Client`] in the order of the protocol; a
//! method that fails has already done to its transaction what the failure means.

use std::sync::Arc;

use atoll_kernel::base::InstanceId;
use atoll_kernel::runtime::{Instance, InstanceState, TaskContext};
use atoll_kernel::txn::{Interrupt, Unsettled};
use atoll_sql::SqlResult;
use atoll_sql::session::client::{
    Client, ColumnDescription, Format, StatementDescription, TransactionStatus,
};

use crate::codec::{Codes, Parameters};

/// What a client said when it started its session.
#[derive(Clone, Debug, Default)]
pub struct ClientStart {
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Settings by name, in the client's order, `-c` options first.
    pub settings: Vec<(String, String)>,
    /// The session's number, as the protocol calls a process.
    pub process: u32,
    /// The peer's address; `None` on a unix socket.
    pub address: Option<String>,
}

/// What Describe of a portal answers: its columns and their formats, if it returns rows.
pub type PortalDescription = Option<(Arc<[ColumnDescription]>, Vec<Format>)>;

/// Bind, with names that are text.
#[derive(Clone, Copy, Debug)]
pub struct BindNames<'m> {
    /// The portal's name.
    pub portal: &'m str,
    /// The statement's name.
    pub statement: &'m str,
    /// The parameters' formats: none (all text), one (for all) or one a parameter.
    pub formats: Codes<'m>,
    /// The parameters.
    pub parameters: Parameters<'m>,
    /// The results' formats.
    pub results: Codes<'m>,
}

/// One client's SQL session.
pub trait Backend<S: InstanceState>: Sized + 'static {
    /// What all sessions of a server share.
    type Shared: Clone + Send + Sync + 'static;
    /// What the sessions of one instance share.
    type Local: 'static;
    /// A session between two instances.
    type Moving: Send + 'static;

    /// Makes what the sessions of `instance` share.
    fn local(instance: &Instance<S>, shared: &Self::Shared) -> Self::Local;

    /// Opens a session; an error refuses the client (FATAL).
    fn open(instance: &Instance<S>, local: &Self::Local, start: ClientStart) -> SqlResult<Self>;

    /// The instance that it had rather be on; asked between transactions.
    fn wanted(&self) -> Option<InstanceId>;

    /// Whether it has no wish where to be.
    fn goes_anywhere(&self) -> bool;

    /// Takes it apart, to go on elsewhere; gives it back if it holds what cannot move. Called
    /// between transactions, outside any task.
    fn depart(self) -> Result<Self::Moving, Self>;

    /// Goes on on `instance`. Called outside any task.
    fn arrive(instance: &Instance<S>, local: &Self::Local, moving: Self::Moving) -> Self;

    /// Names and values of the settings that are reported, for the start.
    fn reported_settings(&self) -> Vec<(String, String)>;

    /// How others end its statement.
    fn interrupt(&self) -> Arc<Interrupt>;

    /// Runs the statements of a simple query (implicit transaction included).
    fn simple_query(
        &mut self,
        context: &TaskContext<S>,
        text: &str,
        client: &mut dyn Client,
    ) -> SqlResult<()>;

    /// Parse.
    fn parse(
        &mut self,
        context: &TaskContext<S>,
        name: &str,
        text: &str,
        types: &[u32],
    ) -> SqlResult<()>;

    /// Describe of a statement.
    fn describe_statement(
        &mut self,
        context: &TaskContext<S>,
        name: &str,
    ) -> SqlResult<StatementDescription>;

    /// Bind.
    fn bind(&mut self, context: &TaskContext<S>, bind: &BindNames<'_>) -> SqlResult<()>;

    /// Describe of a portal.
    fn describe_portal(
        &mut self,
        context: &TaskContext<S>,
        name: &str,
    ) -> SqlResult<PortalDescription>;

    /// Execute; `rows_max` of 0 or less is no limit.
    fn execute(
        &mut self,
        context: &TaskContext<S>,
        portal: &str,
        rows_max: i32,
        client: &mut dyn Client,
    ) -> SqlResult<()>;

    /// Close of a statement; it need not exist.
    fn close_statement(&mut self, context: &TaskContext<S>, name: &str);

    /// Close of a portal; it need not exist.
    fn close_portal(&mut self, context: &TaskContext<S>, name: &str);

    /// Sync: ends an implicit transaction.
    fn sync(&mut self, context: &TaskContext<S>, client: &mut dyn Client) -> SqlResult<()>;

    /// A message of the extended protocol failed, here or before the backend was asked.
    fn fail(&mut self, context: &TaskContext<S>);

    /// What [`Backend::settle`] would wait for now. Asked between transactions only; whoever hears
    /// `OwnLog` may ask again in a later turn instead of calling `settle`, and is done when it hears
    /// `Nothing`.
    fn unsettled(&mut self) -> Unsettled {
        Unsettled::Others
    }

    /// It is about to be used: asks for the memory that this will need.
    fn prefetch(&self) {}

    /// Waits until everything said so far may leave the database (kernel rule 7.6).
    fn settle(&mut self, context: &TaskContext<S>) -> SqlResult<()>;

    /// Whether it is in a transaction block.
    fn status(&self) -> TransactionStatus;

    /// The client has gone or is to go: rolls back what is open.
    fn end(self, context: &TaskContext<S>);
}
