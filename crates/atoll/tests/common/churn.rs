//! A client that changes long values and makes and drops tables until its server dies, and knows
//! what must be there then.
//!
//! Invariants: one statement at a time, each a transaction; so at most the last one is in doubt.

use std::collections::BTreeMap;

use postgres::Client;

/// Rows that it keeps, about.
const ROWS: usize = 40;

/// What it knows.
pub struct Churn {
    random: fastrand::Rng,
    rows: BTreeMap<i32, String>,
    tables: u32,
    /// The change that was not answered.
    open: Option<Change>,
    next: i32,
    acknowledged: u64,
}

#[derive(Clone)]
enum Change {
    Put(i32, String),
    Delete(i32),
    /// Another table, with a row.
    Make,
    /// The last table goes.
    Drop,
    Checkpoint,
}

impl Churn {
    /// Makes its table.
    pub fn new(client: &mut Client) -> Churn {
        let table = "create table churn (id int primary key, text text)";
        client.batch_execute(table).unwrap();
        Churn {
            random: fastrand::Rng::new(),
            rows: BTreeMap::new(),
            tables: 0,
            open: None,
            next: 0,
            acknowledged: 0,
        }
    }

    /// Works until the connection ends.
    pub fn run(&mut self, mut client: Client) {
        loop {
            let change = self.choose();
            self.open = Some(change.clone());
            let done = match &change {
                Change::Put(id, text) => client.execute(
                    "insert into churn values ($1, $2) on conflict (id) do update set text = $2",
                    &[id, text],
                ),
                Change::Delete(id) => client.execute("delete from churn where id = $1", &[id]),
                Change::Make => client
                    .batch_execute(&format!(
                        "create table side_{0} (x int primary key); insert into side_{0} values (7)",
                        self.tables
                    ))
                    .map(|()| 1),
                Change::Drop => {
                    let drop = format!("drop table side_{}", self.tables - 1);
                    client.batch_execute(&drop).map(|()| 1)
                }
                Change::Checkpoint => client.batch_execute("checkpoint").map(|()| 1),
            };
            match done {
                Ok(count) => assert_eq!(count, 1),
                Err(error) => {
                    let ended = error.code().is_none_or(|code| code.code().starts_with("57P"));
                    assert!(ended, "{error:?}");
                    return;
                }
            }
            self.open = None;
            self.apply(change);
            self.acknowledged += 1;
        }
    }

    fn choose(&mut self) -> Change {
        let nth = self.random.usize(..self.rows.len().max(1));
        let old = self.rows.keys().nth(nth).copied();
        match (self.random.u8(..20), old) {
            (0, _) => Change::Make,
            (1, _) if self.tables > 0 => Change::Drop,
            (2, _) => Change::Checkpoint,
            (_, Some(id)) if self.rows.len() > self.random.usize(..2 * ROWS) => Change::Delete(id),
            (3..=9, Some(id)) => Change::Put(id, self.text()),
            _ => {
                self.next += 1;
                Change::Put(self.next, self.text())
            }
        }
    }

    /// Half of them so long that they have pages of their own.
    fn text(&mut self) -> String {
        let longest = if self.random.bool() { 50_000 } else { 200 };
        (0..self.random.usize(..longest)).map(|_| self.random.alphanumeric()).collect()
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Put(id, text) => drop(self.rows.insert(id, text)),
            Change::Delete(id) => drop(self.rows.remove(&id)),
            Change::Make => self.tables += 1,
            Change::Drop => self.tables -= 1,
            Change::Checkpoint => {}
        }
    }

    /// Everything acknowledged is there, what is in doubt whole or not at all, and nothing else.
    /// Answers how many changes were acknowledged since the last time.
    pub fn verify(&mut self, client: &mut Client) -> u64 {
        let rows = client.query("select id, text from churn", &[]).unwrap();
        let rows: BTreeMap<i32, String> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let tables = client
            .query("select relname from pg_class where relname ~ '^side_[0-9]+$'", &[])
            .unwrap()
            .len() as u32;
        let is_so = |churn: &Churn| churn.rows == rows && churn.tables == tables;
        if !is_so(self) {
            let open = self.open.take().expect("what was acknowledged is there, and nothing else");
            self.apply(open);
            let (known, found) = (self.rows.len(), rows.len());
            assert!(is_so(self), "{known} rows, {} tables; {found}, {tables}", self.tables);
        }
        self.open = None;
        for number in 0..self.tables {
            let row = client.query_one(&format!("select x from side_{number}"), &[]).unwrap();
            assert_eq!(row.get::<_, i32>(0), 7);
        }
        std::mem::take(&mut self.acknowledged)
    }
}
