//! Makes the tables by SQL and fills them through the kernel, each warehouse on its instance.
//!
//! Invariants: warehouses are loaded by the instance that will run their transactions; items by
//! the first. Ordinary inserts with their index entries, committed every few thousand rows, so a
//! load of any size needs little undo. The last commit is settled before loading is said done.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use atoll_kernel::api::{
    Access, Context, Database, Error, InstanceId, Isolation, Parker, Result, Session, TableEntry,
    TableLockMode, Target as Place, Transaction,
};
use atoll_sql::session::client::{
    Announce, Client, ColumnDescription, CopyInput, Format, Room, Severity,
};
use atoll_sql::session::{Engine, Local, Session as SqlSession, SessionStart};
use atoll_sql::{SqlError, SqlResult};

use super::rows::{self, Sink, Target};
use super::schema::{INDEXES, TABLES, Tables};
use super::stored::Stored;
use super::{Size, instance_of};

/// Rows of one transaction.
const BATCH: u32 = 2000;
/// A loader tells its progress after so many rows.
const TELL: u64 = 20_000;

/// What loading did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// Rows written.
    pub rows: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Makes and fills the tables; `progress` gets rows loaded and rows expected, now and then.
pub fn load(
    database: &Database,
    size: Size,
    warehouses: i32,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> std::result::Result<Loaded, String> {
    let began = Instant::now();
    run_sql(database, TABLES)?;
    run_sql(database, INDEXES)?;
    let tables = Tables::find(&database.catalog())?;
    let expected = rows::expected(&size, warehouses);
    let (sender, receiver) = mpsc::channel();
    for number in 0..database.instances() {
        let (tables, sender) = (tables.clone(), sender.clone());
        let instances = database.instances();
        database.spawn(Place::Instance(InstanceId(number as u16)), move |context| {
            let mut loader = Loader::new(context, tables, sender.clone());
            let own = (1..=warehouses).filter(|w| instance_of(*w, instances).0 as usize == number);
            let loaded = loader.load(&size, seed, number == 0, own);
            let _ = sender.send(loaded.map(|()| Told::Done));
        });
    }
    drop(sender);
    let (mut rows, mut done) = (0, 0);
    for told in receiver {
        match told.map_err(|error| error.to_string())? {
            Told::Rows(more) => {
                rows += more;
                progress(rows, expected);
            }
            Told::Done => done += 1,
        }
    }
    if done != database.instances() {
        return Err("not every instance finished loading".to_owned());
    }
    Ok(Loaded { rows, elapsed: began.elapsed() })
}

enum Told {
    Rows(u64),
    Done,
}

struct Loader<'a> {
    context: &'a Context,
    tables: Tables,
    session: Session,
    transaction: Option<Transaction>,
    row: Stored,
    in_batch: u32,
    untold: u64,
    sender: mpsc::Sender<Result<Told>>,
}

impl<'a> Loader<'a> {
    fn new(context: &'a Context, tables: Tables, sender: mpsc::Sender<Result<Told>>) -> Loader<'a> {
        let session = Session::new(context.instance());
        let row = Stored::default();
        let transaction = None;
        Loader { context, tables, session, transaction, row, in_batch: 0, untold: 0, sender }
    }

    fn load(
        &mut self,
        size: &Size,
        seed: u64,
        with_items: bool,
        warehouses: impl Iterator<Item = i32>,
    ) -> Result<()> {
        if with_items {
            rows::items(size, seed, self)?;
        }
        for warehouse in warehouses {
            rows::warehouse(size, seed, warehouse, self)?;
        }
        self.commit()?;
        self.tell();
        self.session.settle(self.context)
    }

    fn begin(&mut self) -> Result<Transaction> {
        let session = &mut self.session;
        let mut transaction =
            session.begin(self.context, Isolation::ReadCommitted, Access::ReadWrite)?;
        let mut statement = transaction.statement(session, self.context)?;
        for table in all(&self.tables) {
            statement.lock_table(table.def.oid, TableLockMode::RowExclusive)?;
        }
        drop(statement);
        Ok(transaction)
    }

    fn commit(&mut self) -> Result<()> {
        if let Some(transaction) = self.transaction.take() {
            transaction.commit(&mut self.session, self.context)?;
        }
        self.in_batch = 0;
        Ok(())
    }

    fn tell(&mut self) {
        // Whoever started the load waits for all of it.
        let _ = self.sender.send(Ok(Told::Rows(std::mem::take(&mut self.untold))));
    }
}

fn all(tables: &Tables) -> [&TableEntry; 9] {
    let Tables {
        warehouse,
        district,
        customer,
        history,
        new_order,
        orders,
        order_line,
        item,
        stock,
    } = tables;
    [item, warehouse, district, customer, history, orders, order_line, new_order, stock]
        .map(AsRef::as_ref)
}

impl Sink for Loader<'_> {
    type Error = Error;

    fn int(&mut self, value: i32) {
        self.row.int(value);
    }

    fn decimal(&mut self, mantissa: i64, scale: u16) {
        self.row.decimal(mantissa, scale);
    }

    fn text(&mut self, value: &str) {
        self.row.raw(value.as_bytes());
    }

    fn padded(&mut self, value: &str, width: usize) {
        self.row.padded(value, width);
    }

    fn time(&mut self, micros: i64) {
        self.row.time(micros);
    }

    fn null(&mut self) {
        self.row.null();
    }

    fn end(&mut self, table: Target) -> Result<()> {
        let mut transaction = match self.transaction.take() {
            Some(transaction) => transaction,
            None => self.begin()?,
        };
        let mut statement = transaction.resume(&mut self.session, self.context)?;
        let table = all(&self.tables)[table as usize];
        self.row.values(|values| statement.insert(table, values))?;
        drop(statement);
        self.transaction = Some(transaction);
        self.row.clear();
        self.in_batch += 1;
        self.untold += 1;
        if self.in_batch == BATCH {
            self.commit()?;
        }
        if self.untold == TELL {
            self.tell();
        }
        if self.context.should_yield() {
            self.context.yield_now();
        }
        Ok(())
    }
}

/// Runs SQL text in a session of its own.
pub fn run_sql(database: &Database, text: &str) -> std::result::Result<(), String> {
    let engine = Engine::new(database);
    let ran = database.run(Place::Any, |context| -> SqlResult<()> {
        let local = Local::new(&engine);
        let start = SessionStart {
            user: "postgres".to_owned(),
            database: "postgres".to_owned(),
            ..SessionStart::default()
        };
        let mut session = SqlSession::new(&local, context.instance(), start)?;
        let result = session.simple_query(context, text, &mut Nobody);
        let settled = session.settle(context);
        session.end(context);
        result.and(settled)
    });
    match ran {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.message().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A client that is told nothing and sends nothing: for definitions.
struct Nobody;

impl Client for Nobody {
    fn begin_rows(&mut self, _: &std::sync::Arc<[ColumnDescription]>, _: &[Format], _: Announce) {}

    fn row(
        &mut self,
        _: &[atoll_sql::types::Datum],
        _: &dyn atoll_sql::functions::FunctionContext,
    ) -> SqlResult<Room> {
        Ok(Room::Enough)
    }

    fn flush(&mut self) -> SqlResult<()> {
        Ok(())
    }

    fn complete(&mut self, _: &str) {}

    fn empty_query(&mut self) {}

    fn suspended(&mut self) {}

    fn notice(&mut self, _: Severity, _: &atoll_sql::error::ErrorFields) {}

    fn parameter_status(&mut self, _: &str, _: &str) {}

    fn begin_copy_in(&mut self, _: usize, _: Format) -> SqlResult<()> {
        Err(SqlError::not_supported("COPY FROM STDIN without a client"))
    }

    fn read_copy(&mut self, _: &mut Vec<u8>) -> SqlResult<CopyInput> {
        Ok(CopyInput::Done)
    }

    fn begin_copy_out(&mut self, _: usize, _: Format) {}

    fn copy_data(&mut self, _: &[u8]) -> SqlResult<Room> {
        Ok(Room::Enough)
    }

    fn end_copy_out(&mut self) {}
}
