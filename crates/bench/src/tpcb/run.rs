//! The clients, each a task of one instance, and the check of the sums.

use std::rc::Rc;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use atoll_kernel::api::{
    Access, ColumnId, Context, Database, Error, InstanceId, Isolation, KeyBytes, Parker, Result,
    RowBuffer, Session, Statement, TableEntry, TableLockMode, Target, WriteOutcome,
};
use atoll_kernel::sync::ledger::{self, Label};

use super::load::Tables;
use super::{ACCOUNTS, Affinity, Setting, TELLERS};
use crate::arrivals::Arrivals;
use crate::latency::Latencies;
use crate::setting::Durability;

/// What all clients did together.
pub struct Driven {
    pub latencies: Latencies,
    pub aborts: u64,
    pub elapsed: Duration,
    /// Open loop: what arrived and nobody took.
    pub unserved: u64,
}

struct ClientDone {
    latencies: Latencies,
    aborts: u64,
    error: Option<Error>,
}

/// Runs the clients for the setting's seconds.
pub fn drive(
    database: &Database,
    tables: &Tables,
    setting: &Setting,
) -> std::result::Result<Driven, String> {
    let (sender, receiver) = mpsc::channel();
    let duration = Duration::from_secs(setting.seconds);
    let arrivals = Arc::new(Arrivals::new(duration, setting.rate));
    let stop = Arc::new(OnceLock::new());
    let instances = database.instances() as u64;
    for number in 0..setting.clients {
        let instance = InstanceId((number % instances) as u16);
        let (tables, setting, sender) = (tables.clone(), setting.clone(), sender.clone());
        let (arrivals, stop) = (arrivals.clone(), stop.clone());
        database.spawn(Target::Instance(instance), move |context| {
            let mut client = Client::new(context, tables, setting, number, instances);
            let error = client.run(context, &arrivals, &stop).err();
            let Client { latencies, aborts, .. } = client;
            // The receiver waits for every client.
            let _ = sender.send(ClientDone { latencies, aborts, error });
        });
    }
    drop(sender);
    let (mut latencies, mut aborts, mut ended) = (Latencies::default(), 0, 0);
    for done in receiver {
        if let Some(error) = done.error {
            // The database closes when the others have ended, too.
            let _ = stop.set(());
            return Err(error.to_string());
        }
        latencies.add(&done.latencies);
        aborts += done.aborts;
        ended += 1;
    }
    if ended != setting.clients {
        return Err(format!("only {ended} of {} clients came to their end", setting.clients));
    }
    let (elapsed, unserved) = (arrivals.began().elapsed(), arrivals.unserved());
    Ok(Driven { latencies, aborts, elapsed, unserved })
}

struct Client {
    tables: Rc<Tables>,
    setting: Setting,
    random: fastrand::Rng,
    // The branches this client uses: first, step, count.
    branches: (u64, u64, u64),
    latencies: Latencies,
    aborts: u64,
    key: KeyBytes,
    row: RowBuffer,
}

impl Client {
    fn new(
        context: &Context,
        tables: Tables,
        setting: Setting,
        number: u64,
        instances: u64,
    ) -> Client {
        let own = u64::from(context.instance().id().0);
        let branches = match setting.affinity {
            Affinity::Home if setting.scale >= instances => {
                (own, instances, (setting.scale - own).div_ceil(instances))
            }
            _ => (0, 1, setting.scale),
        };
        Client {
            tables: Rc::new(tables),
            random: fastrand::Rng::with_seed(setting.seed ^ number << 40),
            setting,
            branches,
            latencies: Latencies::default(),
            aborts: 0,
            key: KeyBytes::default(),
            row: RowBuffer::new(),
        }
    }

    fn run(&mut self, context: &Context, arrivals: &Arrivals, stop: &OnceLock<()>) -> Result<()> {
        let mut session = Session::new(context.instance());
        if self.setting.durability == Durability::Relaxed {
            session.set_durability(atoll_kernel::api::Durability::Relaxed);
        }
        loop {
            // Who waits for an arrival keeps nobody out (rule 2.4): it has no transaction.
            let next = || arrivals.next(context, || stop.get().is_some());
            let Some(arrived) = context.uncounted(next) else { return Ok(()) };
            ledger::begin(Label::of(0));
            let ended = self.transaction(&mut session, context);
            ledger::switch(Label::default());
            match ended {
                Ok(()) => self.latencies.record(arrived.elapsed()),
                Err(Error::Deadlock { .. } | Error::SerializationFailure { .. }) => {
                    self.aborts += 1;
                }
                Err(error) => return Err(error),
            }
            if context.should_yield() {
                context.yield_now();
            }
        }
    }

    fn transaction(&mut self, session: &mut Session, context: &Context) -> Result<()> {
        let (first, step, count) = self.branches;
        let branch = first + step * self.random.u64(0..count);
        let teller = branch * TELLERS + self.random.u64(0..TELLERS);
        let near = self.setting.affinity == Affinity::Home && self.random.u32(0..100) < 85;
        let account = if near {
            branch * ACCOUNTS + self.random.u64(0..ACCOUNTS)
        } else {
            self.random.u64(0..self.setting.scale * ACCOUNTS)
        };
        let delta = self.random.i32(-999_999..=999_999);
        let mut transaction =
            session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
        let result = self.statements(
            &mut transaction,
            session,
            context,
            [account + 1, teller + 1, branch + 1].map(|key| key as i32),
            delta,
        );
        match result {
            Ok(()) => {
                transaction.commit(session, context)?;
                session.settle(context)
            }
            Err(error) => {
                transaction.rollback(session, context);
                Err(error)
            }
        }
    }

    fn statements(
        &mut self,
        transaction: &mut atoll_kernel::api::Transaction,
        session: &mut Session,
        context: &Context,
        [account, teller, branch]: [i32; 3],
        delta: i32,
    ) -> Result<()> {
        let tables = self.tables.clone();
        let Tables { accounts, tellers, branches, history } = &*tables;
        for (table, key, column) in
            [(accounts, account, 2), (tellers, teller, 2), (branches, branch, 1)]
        {
            let mut statement = transaction.statement(session, context)?;
            statement.lock_table(table.def.oid, TableLockMode::RowExclusive)?;
            self.add(&mut statement, table, key, ColumnId(column), delta)?;
            if column == 2 && key == account {
                drop(statement);
                let mut statement = transaction.statement(session, context)?;
                statement.lock_table(table.def.oid, TableLockMode::AccessShare)?;
                self.key.set(&table.indexes[0], &[Some(&key.to_le_bytes())]);
                let (index, columns) = (&table.indexes[0], [ColumnId(column)]);
                statement.index_point(table, index, &self.key, &columns, &mut self.row)?;
            }
        }
        let mut statement = transaction.statement(session, context)?;
        statement.lock_table(history.def.oid, TableLockMode::RowExclusive)?;
        let numbers = [teller, branch, account, delta].map(i32::to_le_bytes);
        let time = context.now_ns().to_le_bytes();
        let values = [
            Some(&numbers[0][..]),
            Some(&numbers[1][..]),
            Some(&numbers[2][..]),
            Some(&numbers[3][..]),
            Some(&time[..]),
            Some(&[b' '; 22][..]),
        ];
        statement.insert(history, &values).map(drop)
    }

    /// Adds to a balance of the row with this key, as an UPDATE in READ COMMITTED does.
    fn add(
        &mut self,
        statement: &mut Statement<'_>,
        table: &Arc<TableEntry>,
        key: i32,
        column: ColumnId,
        delta: i32,
    ) -> Result<()> {
        let index = &table.indexes[0];
        self.key.set(index, &[Some(&key.to_le_bytes())]);
        let found = statement.index_point(table, index, &self.key, &[column], &mut self.row)?;
        let detail = || Error::Internal { detail: format!("no row {key} in {}", table.def.name) };
        let row = found.ok_or_else(detail)?;
        loop {
            let balance = number(&self.row).wrapping_add(delta).to_le_bytes();
            match statement.update(table, row, &[(column, Some(&balance))])? {
                WriteOutcome::Done => return Ok(()),
                WriteOutcome::Changed => {
                    statement.get_newest(table, row, &[column], &mut self.row)?;
                }
                WriteOutcome::Gone | WriteOutcome::DoneByThisCommand => return Err(detail()),
            }
        }
    }
}

fn number(row: &RowBuffer) -> i32 {
    let bytes = row.column(0).and_then(|bytes| bytes.try_into().ok());
    i32::from_le_bytes(bytes.unwrap_or_default())
}

/// The sums of all balances and of history's deltas must be equal.
pub fn check_sums(database: &Database, tables: &Tables) -> std::result::Result<(), String> {
    let tables = tables.clone();
    let sums = database.run(Target::Any, move |context| -> Result<[i32; 4]> {
        let mut session = Session::new(context.instance());
        let mut transaction =
            session.begin(context, Isolation::RepeatableRead, Access::ReadOnly)?;
        let mut statement = transaction.statement(&mut session, context)?;
        let mut sums = [0; 4];
        let columns = [
            (&tables.accounts, 2),
            (&tables.tellers, 2),
            (&tables.branches, 1),
            (&tables.history, 3),
        ];
        for (sum, (table, column)) in sums.iter_mut().zip(columns) {
            statement.lock_table(table.def.oid, TableLockMode::AccessShare)?;
            let mut cursor = statement.scan(table, &[ColumnId(column)]);
            let mut row = RowBuffer::new();
            while cursor.next(&mut statement, &mut row)?.is_some() {
                *sum = i32::wrapping_add(*sum, number(&row));
                if context.should_yield() {
                    context.yield_now();
                }
            }
        }
        Ok(sums)
    });
    let sums = sums.and_then(|sums| sums).map_err(|error| error.to_string())?;
    if sums.iter().all(|sum| *sum == sums[0]) {
        return Ok(());
    }
    Err(format!("the sums do not agree: accounts, tellers, branches, history: {sums:?}"))
}
