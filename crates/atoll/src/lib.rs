//! Atoll as a library: one database, opened in this process, with as many doors as one likes.
//!
//! ```
//! use atoll::{Database, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::open_in_memory(Options::default())?;
//! database.query("create table visit (id int primary key, who text)")?;
//! database.query("insert into visit values (1, 'ann'), (2, 'bob')")?;
//!
//! // psql can look into the running program.
//! let address = database.serve("127.0.0.1:0")?.remove(0);
//! let (host, port) = address.rsplit_once(':').expect("an address has a port");
//! let config = format!("host={host} port={port} user=postgres dbname=postgres");
//! let mut client = postgres::Client::connect(&config, postgres::NoTls)?;
//! client.execute("update visit set who = 'eve' where id = $1", &[&2])?;
//! drop(client);
//!
//! let rows = database.query("select who from visit order by id")?;
//! assert_eq!(rows, [[Some("ann".to_owned())], [Some("eve".to_owned())]]);
//! database.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: clones share one database; whatever a call has answered is durable, as it is for a
//! client of the server; serving ends with the database. The kernel's own interface is behind
//! [`Database::kernel`], on the same open database.

mod collect;

use std::path::Path;
use std::sync::Arc;

pub use atoll_kernel::api::{Instances, Options};
pub use atoll_server::ServerError;
pub use atoll_sql::SqlError;

use atoll_kernel::api::Target;
use atoll_server::listen::Listeners;
use atoll_server::session::SessionOptions;
use atoll_server::{SqlBackend, serve};
use atoll_sql::session::{Engine, Local, Session, SessionStart};

/// A row as text, as PostgreSQL prints values; None is NULL.
pub type TextRow = Vec<Option<String>>;

/// An open database.
#[derive(Clone)]
pub struct Database {
    kernel: atoll_kernel::api::Database,
    engine: Arc<Engine>,
}

impl Database {
    /// Opens the database in `directory`, made if it is empty; recovers it if need be. Blocks until
    /// it can be used. Errors as [`atoll_kernel::api::Database::open`].
    pub fn open(directory: &Path, options: Options) -> Result<Database, ServerError> {
        Ok(Database::over(atoll_kernel::api::Database::open(directory, options)?))
    }

    /// An empty database that lives in memory and is gone when it closes.
    pub fn open_in_memory(options: Options) -> Result<Database, ServerError> {
        Ok(Database::over(atoll_kernel::api::Database::open_in_memory(options)?))
    }

    /// The SQL layer over a database of the kernel's that is open already.
    pub fn over(kernel: atoll_kernel::api::Database) -> Database {
        let engine = Engine::new(&kernel);
        Database { kernel, engine }
    }

    /// The kernel's interface to the same database.
    pub fn kernel(&self) -> &atoll_kernel::api::Database {
        &self.kernel
    }

    /// Runs the statements of `text` in a session of its own, as one simple query of a client, and
    /// answers all rows. Blocks the calling thread, which is no instance, until they are durable.
    pub fn query(&self, text: &str) -> Result<Vec<TextRow>, SqlError> {
        let engine = self.engine.clone();
        let ran = self.kernel.run(Target::Any, move |context| {
            let start = SessionStart {
                user: "postgres".to_owned(),
                database: "postgres".to_owned(),
                ..SessionStart::default()
            };
            let mut session = Session::new(&Local::new(&engine), context.instance(), start)?;
            let mut rows = collect::Collector::default();
            let done = session.simple_query(context, text, &mut rows);
            let settled = session.settle(context);
            session.end(context);
            done.and(settled).map(|()| rows.rows)
        });
        ran.map_err(SqlError::from)?
    }

    /// Serves this database to PostgreSQL's clients on `address` (`host:port`, loopback only; port
    /// 0 picks a free one), as often as one likes. Answers where; serving ends with the database.
    pub fn serve(&self, address: &str) -> Result<Vec<String>, ServerError> {
        let listeners = Listeners::bind(&[address.to_owned()], None)?;
        let hub = self.kernel.hub();
        serve::<_, SqlBackend>(hub, listeners, self.engine.clone(), SessionOptions::default())
    }

    /// Ends all sessions (57P01) and the database. Everything acknowledged is on disk either way.
    pub fn close(&self) -> Result<(), ServerError> {
        Ok(self.kernel.close()?)
    }
}
