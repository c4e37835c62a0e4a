//! Makes the tables by SQL and fills them through the kernel, on all instances at once.
//!
//! Invariants: a part is loaded by the instance that the workload says. Ordinary inserts with
//! their index entries, committed every few thousand rows, so a load of any size needs little
//! undo. The last commit is settled before loading is said done.

use std::sync::{Arc, mpsc};

use atoll_kernel::api::{
    Access, Context, Database, Error, InstanceId, Isolation, Parker, Result, Session, TableEntry,
    TableLockMode, Target, Transaction,
};

use super::{Native, table};
use crate::sql::run_sql;
use crate::stored::Stored;
use crate::ticker::Loading;
use crate::workload::{Loaded, Sink, Workload};

/// Rows of one transaction.
const BATCH: u32 = 2000;
/// A loader tells its progress after so many rows.
const TELL: u64 = 20_000;

/// Makes and fills the tables; `say` gets progress for people.
pub fn load<W: Native>(
    database: &Database,
    workload: &W,
    seed: u64,
    say: &mut dyn FnMut(&str),
) -> std::result::Result<Loaded, String> {
    let mut loading = Loading::new(workload.rows());
    run_sql(database, &workload.definitions())?;
    let catalog = database.catalog();
    let tables: std::result::Result<Vec<_>, String> =
        W::TABLES.iter().map(|name| table(&catalog, name)).collect();
    let tables = tables?;
    let (sender, receiver) = mpsc::channel();
    let instances = database.instances();
    for number in 0..instances {
        let (tables, sender, workload) = (tables.clone(), sender.clone(), workload.clone());
        database.spawn(Target::Instance(InstanceId(number as u16)), move |context| {
            let mut loader = Loader::new(context, tables, sender.clone());
            let loaded = loader.load(&workload, seed, (number, instances));
            let _ = sender.send(loaded.map(|()| Told::Done));
        });
    }
    drop(sender);
    let mut done = 0;
    for told in receiver {
        match told.map_err(|error| error.to_string())? {
            Told::Rows(rows) => loading.add(rows, say),
            Told::Done => done += 1,
        }
    }
    if done != instances {
        return Err("not every instance finished loading".to_owned());
    }
    Ok(loading.end(say))
}

enum Told {
    Rows(u64),
    Done,
}

struct Loader<'a> {
    context: &'a Context,
    tables: Vec<Arc<TableEntry>>,
    session: Session,
    transaction: Option<Transaction>,
    row: Stored,
    in_batch: u32,
    untold: u64,
    sender: mpsc::Sender<Result<Told>>,
}

impl<'a> Loader<'a> {
    fn new(
        context: &'a Context,
        tables: Vec<Arc<TableEntry>>,
        sender: mpsc::Sender<Result<Told>>,
    ) -> Loader<'a> {
        let session = Session::new(context.instance());
        let row = Stored::default();
        let transaction = None;
        Loader { context, tables, session, transaction, row, in_batch: 0, untold: 0, sender }
    }

    fn load<W: Workload>(
        &mut self,
        workload: &W,
        seed: u64,
        (own, instances): (usize, usize),
    ) -> Result<()> {
        for part in 0..workload.parts() {
            if workload.loader(part, instances) == own {
                workload.fill(seed, part, self)?;
            }
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
        for table in &self.tables {
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

impl Sink for Loader<'_> {
    type Error = Error;

    fn int(&mut self, value: i32) {
        self.row.int(value);
    }

    fn small(&mut self, value: i16) {
        self.row.small(value);
    }

    fn long(&mut self, value: i64) {
        self.row.long(value);
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

    fn end<T: Into<usize>>(&mut self, table: T) -> Result<()> {
        let mut transaction = match self.transaction.take() {
            Some(transaction) => transaction,
            None => self.begin()?,
        };
        let mut statement = transaction.resume(&mut self.session, self.context)?;
        let table = &self.tables[table.into()];
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
