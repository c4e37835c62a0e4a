//! The insert bench of Shore-MT: each client fills a table of its own, with an int8 primary key.
//!
//! Invariants: nothing logical is shared, so what does not scale is the kernel's. A row is 100
//! bytes of columns: the key, a number, and text. Keys ascend; a transaction has `commit_every`
//! rows and is settled before the client's next; there are never more rows than were said. Tables
//! are made by SQL. At the end every table is counted, and the sums of keys must be those of the
//! rows that were committed.

mod report;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use atoll_kernel::api::{
    Access, ColumnId, Context, Database, Error, InstanceId, Instances, Isolation, Options, Parker,
    Pin, Result, RowBuffer, Session, TableEntry, TableLockMode, Target,
};
use atoll_kernel::sync::ledger::{self, Label};

use crate::cpu;
use crate::ledger::Counting;
use crate::setting::Place;
use crate::space::{self, Advice, Each, Need};
use crate::sql::run_sql;

pub use report::Report;

/// Bytes of a row's text: with two numbers of 8 bytes a row has 100.
const TEXT_BYTES: usize = 84;
/// What a row and its index entry take, at most.
const ROW: Each = Each { pages: 180, log: 200 };
/// Bytes of pages that a table takes without rows, at most.
const TABLE: u64 = 1 << 20;
/// Rows that an instance may insert in a second.
const RATE: u64 = 1_500_000;
/// What a run needs less with.
const ADVICE: Advice = Advice {
    memory: "fewer seconds or a smaller --rows-max",
    disk: "fewer seconds, a smaller --rows-max, or another --data",
};

/// What to run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Clients, each a task with its table, spread over the instances.
    pub clients: u64,
    /// Instances.
    pub instances: Instances,
    /// How long is measured.
    pub seconds: u64,
    /// Rows of a transaction.
    pub commit_every: u64,
    /// Rows after which a run ends early; the pool must hold them all.
    pub rows_max: u64,
    /// Where the data goes; none: memory only, which says nothing about durability.
    pub data: Option<PathBuf>,
}

impl Setting {
    /// Rows that may be inserted, in all.
    fn rows(&self) -> u64 {
        let rate = RATE.saturating_mul(self.instances.count().into());
        self.seconds.saturating_mul(rate).min(self.rows_max)
    }

    /// One line for what cannot be run.
    fn validate(&self) -> std::result::Result<(), String> {
        if self.clients == 0 || self.seconds == 0 || self.commit_every == 0 {
            return Err("clients, seconds and rows of a transaction must be at least 1".to_owned());
        }
        let (least, rows) = (self.clients.saturating_mul(self.commit_every), self.rows());
        if rows < least {
            return Err(format!(
                "each client commits once at least, which is {least} rows, and there may be \
                 {rows}: fewer --clients, a smaller --commit-every, or a larger --rows-max"
            ));
        }
        Ok(())
    }

    /// What a run may need, at most.
    fn need(&self) -> Need {
        let rows = Need::of((self.rows(), ROW), (0, 0), ROW);
        let tables = self.clients.saturating_mul(TABLE);
        Need { pool_bytes: rows.pool_bytes.saturating_add(tables), ..rows }
    }
}

/// Makes the tables, fills them for the setting's seconds, counts. Errors are one line.
pub fn run(setting: &Setting, say: &mut dyn FnMut(&str)) -> std::result::Result<Report, String> {
    setting.validate()?;
    let need = setting.need();
    let place = Place { data: setting.data.clone(), ..Place::default() };
    space::refuse(&need, need.pool_bytes, &place, &ADVICE)?;
    let text = |error: Error| error.to_string();
    let options = Options {
        instances: setting.instances,
        buffer_pool_bytes: need.pool_bytes,
        pin: Pin::Auto,
        lock_note: "atoll bench insert".to_owned(),
        ..Options::default()
    };
    let database = match &setting.data {
        Some(directory) => Database::open(directory, options),
        None => Database::open_in_memory(options),
    };
    let database = database.map_err(text)?;
    say(&format!("making {} tables", setting.clients));
    let tables: Vec<String> = (0..setting.clients)
        .map(|it| format!("create table insert_{it} (id int8 primary key, n int8, filler text);"))
        .collect();
    run_sql(&database, &tables.concat())?;
    say(&format!("inserting for {} s", setting.seconds));
    let before = database.metrics().map_err(text)?;
    let counting = Counting::begin();
    let cpu_before = cpu::own();
    let (rows, elapsed) = drive(&database, setting, say)?;
    let cpu = cpu::own().saturating_sub(cpu_before);
    let ledger = counting.end(&["insert"])?;
    let after = database.metrics().map_err(text)?;
    say("counting");
    for (client, rows) in rows.iter().enumerate() {
        check(&database, client, *rows)?;
    }
    let instances = database.instances();
    database.close().map_err(text)?;
    let rows = rows.iter().sum();
    Ok(Report {
        setting: setting.clone(),
        instances,
        rows,
        elapsed,
        cpu,
        metrics: (before, after),
        ledger,
    })
}

/// What clients tell.
enum Told {
    /// A client's transaction has settled, of so many rows.
    Rows { client: usize, rows: u64 },
    /// A client has come to its end.
    Ended(Option<Error>),
}

/// Runs the clients; answers how many rows each has committed.
fn drive(
    database: &Database,
    setting: &Setting,
    say: &mut dyn FnMut(&str),
) -> std::result::Result<(Vec<u64>, Duration), String> {
    let (sender, receiver) = mpsc::channel();
    let (began, stop) = (Instant::now(), Arc::new(OnceLock::new()));
    for number in 0..setting.clients {
        let (setting, sender, stop) = (setting.clone(), sender.clone(), stop.clone());
        let client = number as usize;
        let table = table(database, client)?;
        let instance = InstanceId((number % database.instances() as u64) as u16);
        database.spawn(Target::Instance(instance), move |context| {
            let committed = |rows| {
                // The receiver waits for every client.
                let _ = sender.send(Told::Rows { client, rows });
            };
            let error = fill(context, &table, &setting, &stop, &committed).err();
            let _ = sender.send(Told::Ended(error));
        });
    }
    drop(sender);
    let rows = hear(receiver, setting.clients, say);
    // After an error the database closes when the others have ended, too.
    let _ = stop.set(());
    Ok((rows?, began.elapsed()))
}

/// Hears the clients to their end; answers how many rows each has committed.
fn hear(
    receiver: mpsc::Receiver<Told>,
    clients: u64,
    say: &mut dyn FnMut(&str),
) -> std::result::Result<Vec<u64>, String> {
    let (mut committed, mut ended) = (vec![0; clients as usize], 0);
    let (mut said, mut since) = (Instant::now(), 0);
    for told in receiver {
        match told {
            Told::Rows { client, rows } => {
                committed[client] += rows;
                since += rows;
            }
            Told::Ended(None) => ended += 1,
            Told::Ended(Some(error)) => return Err(error.to_string()),
        }
        let seconds = said.elapsed().as_secs_f64();
        if seconds >= 1.0 {
            say(&format!("  {:.0} rows a second", since as f64 / seconds));
            (said, since) = (Instant::now(), 0);
        }
    }
    if ended != clients {
        return Err(format!("only {ended} of {clients} clients came to their end"));
    }
    Ok(committed)
}

fn table(database: &Database, client: usize) -> std::result::Result<Arc<TableEntry>, String> {
    let (catalog, name) = (database.catalog(), format!("insert_{client}"));
    let found = catalog.table(atoll_kernel::api::PUBLIC_NAMESPACE, &name).cloned();
    found.ok_or_else(|| format!("there is no table {name}"))
}

/// One client: transactions of `commit_every` rows until the time is up, or another would be too
/// many.
fn fill(
    context: &Context,
    table: &TableEntry,
    setting: &Setting,
    stop: &OnceLock<()>,
    committed: &dyn Fn(u64),
) -> Result<()> {
    let mut session = Session::new(context.instance());
    let (began, lasts) = (Instant::now(), Duration::from_secs(setting.seconds));
    let mut key = 0_i64;
    let transactions = setting.rows() / setting.clients / setting.commit_every;
    for _ in 0..transactions {
        if began.elapsed() >= lasts || stop.get().is_some() {
            break;
        }
        ledger::begin(Label::of(0));
        let mut transaction =
            session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
        let mut statement = transaction.statement(&mut session, context)?;
        statement.lock_table(table.def.oid, TableLockMode::RowExclusive)?;
        for _ in 0..setting.commit_every {
            key += 1;
            let (id, number) = (key.to_le_bytes(), (key * 7).to_le_bytes());
            let values = [Some(&id[..]), Some(&number[..]), Some(&[b'x'; TEXT_BYTES][..])];
            statement.insert(table, &values)?;
            if context.should_yield() {
                context.yield_now();
            }
        }
        drop(statement);
        transaction.commit(&mut session, context)?;
        session.settle(context)?;
        ledger::switch(Label::default());
        committed(setting.commit_every);
    }
    Ok(())
}

/// The table must hold exactly the keys from 1 to `rows`.
fn check(database: &Database, client: usize, rows: u64) -> std::result::Result<(), String> {
    let table = table(database, client)?;
    let found = database.run(Target::Any, |context| -> Result<(u64, i128)> {
        let mut session = Session::new(context.instance());
        let mut transaction =
            session.begin(context, Isolation::RepeatableRead, Access::ReadOnly)?;
        let mut statement = transaction.statement(&mut session, context)?;
        statement.lock_table(table.def.oid, TableLockMode::AccessShare)?;
        let mut cursor = statement.scan(&table, &[ColumnId(0)]);
        let (mut row, mut count, mut sum) = (RowBuffer::new(), 0, 0);
        while cursor.next(&mut statement, &mut row)?.is_some() {
            let key = row.column(0).and_then(|bytes| bytes.try_into().ok());
            count += 1;
            sum += i128::from(key.map_or(0, i64::from_le_bytes));
            if context.should_yield() {
                context.yield_now();
            }
        }
        Ok((count, sum))
    });
    let (count, sum) = found.and_then(|it| it).map_err(|error| error.to_string())?;
    let expect = i128::from(rows) * i128::from(rows + 1) / 2;
    if (count, sum) != (rows, expect) {
        return Err(format!(
            "table insert_{client} has {count} rows with keys that sum to {sum}, not {rows} and {expect}"
        ));
    }
    Ok(())
}
