//! `atoll-sql`'s session as the server's backend.
//!
//! Invariants: hands every call on; knows the protocol's forms only to turn them into SQL's.

use std::rc::Rc;
use std::sync::Arc;

use atoll_kernel::api::{Context, Core, Instance, InstanceId, Interrupt, Unsettled};
use atoll_sql::session::client::{Client, Format, StatementDescription, TransactionStatus};
use atoll_sql::session::{BindRequest, Engine, Local, MovingSession, Session, SessionStart};
use atoll_sql::types::TypeOid;
use atoll_sql::{SqlError, SqlResult, SqlState};
use smallvec::SmallVec;

use crate::backend::{Backend, BindNames, ClientStart, PortalDescription};
use crate::codec::Codes;

/// Parameters and columns that a Bind handles without allocating.
const INLINE: usize = 16;

/// The one role and the one database, until the security issue makes more.
const ROLE: &str = "postgres";
const DATABASE: &str = "postgres";

/// One client's session.
pub struct SqlBackend(Session);

fn formats(codes: Codes<'_>) -> SmallVec<[Format; INLINE]> {
    let format = |code| if code == 1 { Format::Binary } else { Format::Text };
    codes.iter().map(format).collect()
}

impl Backend<Core> for SqlBackend {
    type Shared = Arc<Engine>;
    type Local = Rc<Local>;
    type Moving = MovingSession;

    fn local(_instance: &Instance, shared: &Arc<Engine>) -> Rc<Local> {
        Local::new(shared)
    }

    fn open(instance: &Instance, local: &Rc<Local>, start: ClientStart) -> SqlResult<Self> {
        if start.user != ROLE {
            let message = format!("role \"{}\" does not exist", start.user);
            return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message));
        }
        if start.database != DATABASE {
            let message = format!("database \"{}\" does not exist", start.database);
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
        }
        let start = SessionStart {
            user: start.user,
            database: start.database,
            settings: start.settings,
            process_id: start.process.cast_signed(),
            client_address: start.address,
        };
        Session::new(local, instance, start).map(SqlBackend)
    }

    fn wanted(&self) -> Option<InstanceId> {
        self.0.wanted_instance()
    }

    fn goes_anywhere(&self) -> bool {
        self.0.goes_anywhere()
    }

    fn depart(self) -> Result<MovingSession, SqlBackend> {
        self.0.depart().map_err(SqlBackend)
    }

    fn arrive(instance: &Instance, local: &Rc<Local>, moving: MovingSession) -> Self {
        SqlBackend(Session::arrive(local, instance, moving))
    }

    fn reported_settings(&self) -> Vec<(String, String)> {
        let settings = self.0.reported_settings();
        settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn interrupt(&self) -> Arc<Interrupt> {
        self.0.interrupt().clone()
    }

    fn simple_query(
        &mut self,
        context: &Context,
        text: &str,
        client: &mut dyn Client,
    ) -> SqlResult<()> {
        self.0.simple_query(context, text, client)
    }

    fn parse(&mut self, context: &Context, name: &str, text: &str, types: &[u32]) -> SqlResult<()> {
        let types: SmallVec<[TypeOid; INLINE]> = types.iter().copied().map(TypeOid).collect();
        self.0.parse(context, name, text, &types)
    }

    fn describe_statement(
        &mut self,
        context: &Context,
        name: &str,
    ) -> SqlResult<StatementDescription> {
        self.0.describe_statement(context, name)
    }

    fn bind(&mut self, context: &Context, bind: &BindNames<'_>) -> SqlResult<()> {
        self.0.bind(
            context,
            BindRequest {
                portal: bind.portal,
                statement: bind.statement,
                parameter_formats: &formats(bind.formats),
                parameters: &mut bind.parameters.iter(),
                result_formats: &formats(bind.results),
            },
        )
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
        self.0.execute(context, portal, u32::try_from(rows_max).unwrap_or(0), client)
    }

    fn close_statement(&mut self, _context: &Context, name: &str) {
        self.0.close_statement(name);
    }

    fn close_portal(&mut self, _context: &Context, name: &str) {
        self.0.close_portal(name);
    }

    fn sync(&mut self, context: &Context, client: &mut dyn Client) -> SqlResult<()> {
        self.0.sync(context, client)
    }

    fn fail(&mut self, context: &Context) {
        self.0.fail(context);
    }

    fn unsettled(&mut self) -> Unsettled {
        self.0.unsettled()
    }

    fn prefetch(&self) {
        self.0.prefetch();
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
