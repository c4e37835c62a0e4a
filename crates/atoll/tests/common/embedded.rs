//! The real server within the test's process, for faults that no client can provoke: a disk that
//! fails, a statement that panics. Nothing of it is in the program that ships.

use std::sync::Arc;

use atoll_kernel::api::{
    Context, Core, Database, Instance, InstanceId, Instances, Interrupt, Options,
};
use atoll_kernel::io::Disk;
use atoll_server::backend::{Backend, BindNames, ClientStart, PortalDescription};
use atoll_server::listen::Listeners;
use atoll_server::session::SessionOptions;
use atoll_server::{SqlBackend, serve};
use atoll_sql::SqlResult;
use atoll_sql::error::ErrorFields;
use atoll_sql::functions::FunctionContext;
use atoll_sql::session::Engine;
use atoll_sql::session::client::{
    Announce, Client, ColumnDescription, CopyInput, Format, Room, Severity, StatementDescription,
    TransactionStatus,
};
use atoll_sql::types::RowValues;

/// A database of two instances, served on a free port.
pub struct Embedded {
    pub database: Database,
    pub port: u16,
}

impl Embedded {
    /// Opens what is on `disk` and serves it.
    pub fn serve<B>(disk: Arc<dyn Disk>) -> Embedded
    where
        B: Backend<Core, Shared = Arc<Engine>>,
    {
        Embedded::serve_with::<B>(disk, 32 << 20)
    }

    /// As [`Embedded::serve`], with so much memory for undo.
    pub fn serve_with<B>(disk: Arc<dyn Disk>, undo_bytes: u64) -> Embedded
    where
        B: Backend<Core, Shared = Arc<Engine>>,
    {
        Embedded::serve_changed::<B>(disk, |options| options.undo_bytes = undo_bytes)
    }

    /// As [`Embedded::serve`], with options that `change` changes.
    pub fn serve_changed<B>(disk: Arc<dyn Disk>, change: impl FnOnce(&mut Options)) -> Embedded
    where
        B: Backend<Core, Shared = Arc<Engine>>,
    {
        let mut options = Options {
            instances: Instances::Count(2),
            buffer_pool_bytes: 64 << 20,
            undo_bytes: 32 << 20,
            log_segment_bytes: 1 << 20,
            log_buffer_bytes: 256 << 10,
            ..Options::default()
        };
        change(&mut options);
        let database = Database::open_on(disk, options, &mut |_| ()).unwrap();
        let listeners = Listeners::bind(&["127.0.0.1:0".to_owned()], None).unwrap();
        let engine = Engine::new(&database);
        let sessions = SessionOptions::default();
        let addresses = serve::<Core, B>(database.hub(), listeners, engine, sessions).unwrap();
        let port = addresses[0].rsplit(':').next().unwrap().parse().unwrap();
        Embedded { database, port }
    }

    /// A connection through the Rust driver.
    pub fn connect(&self) -> postgres::Client {
        let config = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port);
        postgres::Client::connect(&config, postgres::NoTls).unwrap()
    }

    /// Ends all sessions and the database.
    pub fn close(self) {
        self.database.close().unwrap();
    }
}

/// The SQL backend, of which a query with `panic at row N` panics when it delivers that row: in
/// the executor, within its scans and transactions.
pub struct Fragile(SqlBackend);

impl Backend<Core> for Fragile {
    type Shared = <SqlBackend as Backend<Core>>::Shared;
    type Local = <SqlBackend as Backend<Core>>::Local;
    type Moving = <SqlBackend as Backend<Core>>::Moving;

    fn local(instance: &Instance, shared: &Self::Shared) -> Self::Local {
        SqlBackend::local(instance, shared)
    }

    fn open(instance: &Instance, local: &Self::Local, start: ClientStart) -> SqlResult<Self> {
        SqlBackend::open(instance, local, start).map(Fragile)
    }

    fn wanted(&self) -> Option<InstanceId> {
        self.0.wanted()
    }

    fn goes_anywhere(&self) -> bool {
        self.0.goes_anywhere()
    }

    fn depart(self) -> Result<Self::Moving, Self> {
        self.0.depart().map_err(Fragile)
    }

    fn arrive(instance: &Instance, local: &Self::Local, moving: Self::Moving) -> Self {
        Fragile(SqlBackend::arrive(instance, local, moving))
    }

    fn reported_settings(&self) -> Vec<(String, String)> {
        self.0.reported_settings()
    }

    fn interrupt(&self) -> Arc<Interrupt> {
        self.0.interrupt()
    }

    fn simple_query(
        &mut self,
        context: &Context,
        text: &str,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        let row = text.split_once("panic at row ").map(|(_, rest)| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        });
        match row {
            None => self.0.simple_query(context, text, client),
            Some(left) => self.0.simple_query(context, text, &mut Trap { client, left }),
        }
    }

    fn parse(&mut self, context: &Context, name: &str, text: &str, types: &[u32]) -> SqlResult<()> {
        self.0.parse(context, name, text, types)
    }

    fn describe_statement(
        &mut self,
        context: &Context,
        name: &str,
    ) -> SqlResult<StatementDescription> {
        self.0.describe_statement(context, name)
    }

    fn bind(&mut self, context: &Context, bind: &BindNames<'_>) -> SqlResult<()> {
        self.0.bind(context, bind)
    }

    fn describe_portal(&mut self, context: &Context, name: &str) -> SqlResult<PortalDescription> {
        self.0.describe_portal(context, name)
    }

    fn execute(
        &mut self,
        context: &Context,
        portal: &str,
        rows_max: i32,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        self.0.execute(context, portal, rows_max, client)
    }

    fn close_statement(&mut self, context: &Context, name: &str) {
        self.0.close_statement(context, name);
    }

    fn close_portal(&mut self, context: &Context, name: &str) {
        self.0.close_portal(context, name);
    }

    fn sync(&mut self, context: &Context, client: &mut dyn Client) -> SqlResult<()> {
        self.0.sync(context, client)
    }

    fn fail(&mut self, context: &Context) {
        self.0.fail(context);
    }

    fn settle(&mut self, context: &Context) -> SqlResult<()> {
        self.0.settle(context)
    }

    fn status(&self) -> TransactionStatus {
        self.0.status()
    }

    fn end(self, context: &Context) {
        self.0.end(context);
    }
}

/// A client that panics at a row.
struct Trap<'c> {
    client: &'c mut dyn Client,
    left: u32,
}

impl Client for Trap<'_> {
    fn begin_rows(
        &mut self,
        columns: &Arc<[ColumnDescription]>,
        formats: &[Format],
        announce: Announce,
    ) {
        self.client.begin_rows(columns, formats, announce);
    }

    fn row(&mut self, values: RowValues<'_>, context: &dyn FunctionContext) -> SqlResult<Room> {
        self.left -= 1;
        assert!(self.left > 0, "the test asked for a panic");
        self.client.row(values, context)
    }

    fn flush(&mut self) -> SqlResult<()> {
        self.client.flush()
    }

    fn complete(&mut self, tag: &str) {
        self.client.complete(tag);
    }

    fn empty_query(&mut self) {
        self.client.empty_query();
    }

    fn suspended(&mut self) {
        self.client.suspended();
    }

    fn notice(&mut self, severity: Severity, notice: &ErrorFields) {
        self.client.notice(severity, notice);
    }

    fn parameter_status(&mut self, name: &str, value: &str) {
        self.client.parameter_status(name, value);
    }

    fn begin_copy_in(&mut self, columns: usize, format: Format) -> SqlResult<()> {
        self.client.begin_copy_in(columns, format)
    }

    fn read_copy(&mut self, buffer: &mut Vec<u8>) -> SqlResult<CopyInput> {
        self.client.read_copy(buffer)
    }

    fn begin_copy_out(&mut self, columns: usize, format: Format) {
        self.client.begin_copy_out(columns, format);
    }

    fn copy_data(&mut self, data: &[u8]) -> SqlResult<Room> {
        self.client.copy_data(data)
    }

    fn end_copy_out(&mut self) {
        self.client.end_copy_out();
    }
}
