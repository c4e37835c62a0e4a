//! The recorded load: a real server on a recorded disk, and clients of its unix socket.
//!
//! `main` has accounts that all clients move money between, `journal` one row for each transaction
//! that was a block, `marks` 1 to 4 rows for each of those, with the transaction whose row it
//! overwrote. `own` has rows of one client each, which it inserts, updates, deletes and gives other
//! keys: alone (one statement, several in one Query, a pipeline up to one Sync), or in a block.
//! Half of all messages are simple queries, half run prepared statements.
//!
//! Invariants: the server is the one of `atoll serve` (sessions, codec, link, SQL), on real threads
//! with real files and a real socket; clients reach the database through the socket alone. A
//! client's transactions come one after the other, and after every answer it knows exactly which
//! rows of `own` it has. Texts follow from the rest of their rows, so that half a row shows.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_kernel::api::{Database, Instances, Options};
use atoll_kernel::io::{Disk, IoChoice, RealDisk, RecordingDisk, Seeded, Trace};
use atoll_server::listen::Listeners;
use atoll_server::session::SessionOptions;
use atoll_server::{SqlBackend, serve};
use atoll_sql::session::Engine;

use super::Setting;
use super::note::{Change, Journal, Note, Traffic};
use super::wire::{Call, Form, Reply, Value, Wire};
use crate::history::TransactionId;

/// Rows of `main`.
pub const ACCOUNTS: i64 = 60;
/// What each begins with.
pub const BALANCE_FIRST: i64 = 1000;
/// Clients for each instance.
const CLIENTS: u64 = 6;
/// A client's transactions have numbers from this times its number on.
const TRANSACTIONS_PER_CLIENT: u64 = 1_000_000;
/// A client's rows have keys from this times its number on.
const KEYS_PER_CLIENT: i64 = 1000;
/// Rows that a client keeps, about.
const ROWS_USUAL: usize = 30;

/// Memory for pages of the recorded server.
const POOL_BYTES: u64 = 3 << 20;
/// A table that comes and goes.
const BULK: &str = "
    create table bulk (id bigint primary key, text text not null);
    insert into bulk select g, repeat('bulk ', 600) from generate_series(1, 400) g";
const BULK_CHANGES: &str = "update bulk set text = text || 'changed' where id % 3 = 0";
const BULK_READ: &str = "select sum(length(text)) from bulk";
const BULK_GOES: &str = "drop table bulk";
/// How long it is gone, and between two looks at what the server counts.
const BULK_PAUSE: Duration = Duration::from_millis(100);
const LOOK_PAUSE: Duration = Duration::from_millis(2);

const BEGIN: &str = "begin";
const BEGIN_REPEATABLE: &str = "begin isolation level repeatable read";
const COMMIT: &str = "commit";
const ROLLBACK: &str = "rollback";
const SEE: &str = "select writer from main where id = $1";
const HOLD: &str = "select writer from main where id = $1 for update";
const PAY: &str = "update main set balance = balance + $1, writer = $2, pad = $3 where id = $4";
const MARK: &str = "insert into marks values ($1, $2, $3)";
const JOURNAL: &str = "insert into journal values ($1, $2, $3)";
const INSERT: &str = "insert into own values ($1, $2, $3, $4)";
const INSERT_TWO: &str = "insert into own values ($1, $2, $3, $4), ($5, $6, $7, $8)";
const CHANGE: &str = "update own set key = $1, writer = $2, tag = $3 where key = $4";
const DELETE: &str = "delete from own where key = $1";
const DELETE_ABOVE: &str = "delete from own where client = $1 and key >= $2";

/// What every client prepares.
const STATEMENTS: [&str; 14] = [
    BEGIN,
    BEGIN_REPEATABLE,
    COMMIT,
    ROLLBACK,
    SEE,
    HOLD,
    PAY,
    MARK,
    JOURNAL,
    INSERT,
    INSERT_TWO,
    CHANGE,
    DELETE,
    DELETE_ABOVE,
];

/// One transaction: all tables and their rows, or none.
const TABLES: &str = "
    create table main (id bigint primary key, balance bigint not null, writer bigint not null, pad text not null);
    create index main_writer on main (writer);
    create table journal (id bigint primary key, client bigint not null, note text not null);
    create table marks (id bigint primary key, writer bigint not null, over bigint not null);
    create table own (key bigint primary key, client bigint not null, writer bigint not null, tag text not null);
    create unique index own_tag on own (tag);
    create index own_client on own (client);
    insert into main values ";

type Result<T> = std::result::Result<T, String>;

/// The client that a transaction belongs to.
pub fn client_of(id: TransactionId) -> u64 {
    id.0 / TRANSACTIONS_PER_CLIENT
}

/// The client that a row of `own` belongs to.
pub fn client_of_key(key: i64) -> u64 {
    (key / KEYS_PER_CLIENT).cast_unsigned()
}

/// The text of a row of `main` or `own`. No two versions have the same; most are short.
pub fn text_of(key: i64, writer: TransactionId) -> String {
    let mix = writer.0.wrapping_mul(31).wrapping_add(key.cast_unsigned());
    let mix = mix.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let length = if mix & 7 == 0 { mix % 700 } else { mix % 60 };
    let letter = char::from(b'a' + (mix % 26) as u8);
    format!("{key}/{}/{}", writer.0, letter.to_string().repeat(length as usize))
}

/// The text of a row of `main`: as [`text_of`], but once in a while so long that it has pages of its
/// own.
pub fn pad_of(account: i64, writer: TransactionId) -> String {
    let text = text_of(account, writer);
    let mix = writer.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let more = if mix.is_multiple_of(12) { 10_000 + mix % 50_000 } else { 0 };
    text + &"0123456789".repeat(more as usize / 10)
}

/// The text of a row of `journal`: so long that page files grow while the load runs.
pub fn note_of(id: TransactionId) -> String {
    text_of(0, id) + &"abcdefghij".repeat(250 + (id.0 % 100) as usize)
}

/// How many rows a block leaves in `marks`.
pub fn mark_count(id: TransactionId) -> i64 {
    1 + (id.0 % 4) as i64
}

/// Records a server in `directory` while clients work.
pub fn record(setting: &Setting, directory: &Path, trace: &Arc<Trace>) -> Result<()> {
    let (data, sockets) = (directory.join("data"), directory.join("socket"));
    std::fs::create_dir(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    let real = RealDisk::open(&data, IoChoice::Auto).map_err(|error| error.to_string())?;
    let disk: Arc<dyn Disk> = Arc::new(RecordingDisk::new(Arc::new(real), trace.clone()));
    let options = Options {
        instances: Instances::Count(setting.instances),
        // Little, so that pages leave memory and come back.
        buffer_pool_bytes: POOL_BYTES,
        // Files become longer and shorter by little.
        page_extent_bytes: 256 << 10,
        checkpoint_at_once_bytes: 0,
        undo_bytes: 32 << 20,
        log_segment_bytes: 256 << 10,
        log_buffer_bytes: 64 << 10,
        // One after the other, by time and by log in turn.
        checkpoint_interval_ms: 40,
        checkpoint_wal_bytes: 128 << 10,
        deadlock_timeout_ms: 5,
        ..Options::default()
    };
    let database =
        Database::open_on(disk, options, &mut |_| ()).map_err(|error| error.to_string())?;
    let worked = serve_and_work(setting, &database, &sockets, trace);
    let closed = database.close().map_err(|error| error.to_string());
    worked.and(closed)
}

fn serve_and_work(
    setting: &Setting,
    database: &Database,
    sockets: &Path,
    trace: &Trace,
) -> Result<()> {
    let listeners = Listeners::bind(&[], Some(sockets)).map_err(|error| error.to_string())?;
    let (engine, sessions) = (Engine::new(database), SessionOptions::default());
    serve::<_, SqlBackend>(database.hub(), listeners, engine, sessions)
        .map_err(|error| error.to_string())?;
    make_tables(sockets)?;
    Note::Ready.write(trace);
    let mut seeds = Seeded::new(setting.seed);
    let numbers = 1..=CLIENTS * u64::from(setting.instances);
    let clients: Result<Vec<Client<'_>>> =
        numbers.map(|number| Client::connect(sockets, trace, number, seeds.next_u64())).collect();
    let until = Instant::now() + setting.time;
    std::thread::scope(|scope| {
        let mut threads: Vec<_> = clients?
            .into_iter()
            .map(|client| scope.spawn(move || client.work_until(until)))
            .collect();
        threads.push(scope.spawn(move || come_and_go(sockets, until)));
        threads.push(scope.spawn(move || note_traffic(database, trace, until)));
        let panicked = || Err("a client panicked".to_owned());
        threads.into_iter().try_for_each(|it| it.join().unwrap_or_else(|_| panicked()))
    })
}

/// Fills and drops a table again and again: its pages push others out of memory, and leave files
/// longer than they need be. Nobody judges its rows, but its pages and indexes are checked.
fn come_and_go(sockets: &Path, until: Instant) -> Result<()> {
    let mut wire = Wire::connect(sockets, &[])?;
    while Instant::now() < until {
        for text in [BULK, BULK_CHANGES, BULK_READ, BULK_GOES] {
            wire.query(text)?.done()?;
        }
        std::thread::sleep(BULK_PAUSE);
    }
    Ok(())
}

/// Notes between the events how many pages leave memory and come back.
fn note_traffic(database: &Database, trace: &Trace, until: Instant) -> Result<()> {
    while Instant::now() < until {
        let metrics = database.metrics().map_err(|error| error.to_string())?;
        Note::Traffic(Traffic {
            evicted: metrics.traffic.evictions,
            loaded: metrics.traffic.loads,
            moved: metrics.checkpoints.map_or(0, |counters| counters.moved),
        })
        .write(trace);
        std::thread::sleep(LOOK_PAUSE);
    }
    Ok(())
}

fn make_tables(sockets: &Path) -> Result<()> {
    let row = |id| format!("({id}, {BALANCE_FIRST}, 0, '{}')", pad_of(id, TransactionId(0)));
    let rows: Vec<String> = (0..ACCOUNTS).map(row).collect();
    let mut wire = Wire::connect(sockets, &[])?;
    wire.query(&format!("{TABLES}{}", rows.join(", ")))?.done().map(drop)
}

/// A statement on rows of `own`, what its answer must be, and what it does.
struct Step {
    call: Call,
    tag: &'static str,
    rows: usize,
    changes: Vec<Change>,
}

struct Client<'a> {
    wire: Wire,
    trace: &'a Trace,
    random: Seeded,
    number: u64,
    id: TransactionId,
    /// Keys of its rows in `own`.
    keys: BTreeSet<i64>,
}

/// What came of a block before its end.
enum Block {
    /// It may commit; its changes of `own`.
    Done(Vec<Change>),
    /// It failed because of what others did.
    GaveWay,
}

fn number(value: u64) -> Value {
    Value::Number(value.cast_signed())
}

fn call(text: &'static str, values: Vec<Value>) -> Call {
    Call { text, values }
}

impl<'a> Client<'a> {
    fn connect(sockets: &Path, trace: &'a Trace, number: u64, seed: u64) -> Result<Client<'a>> {
        Ok(Client {
            wire: Wire::connect(sockets, &STATEMENTS)?,
            trace,
            random: Seeded::new(seed),
            number,
            id: TransactionId(number * TRANSACTIONS_PER_CLIENT),
            keys: BTreeSet::new(),
        })
    }

    fn work_until(mut self, until: Instant) -> Result<()> {
        while Instant::now() < until {
            self.id.0 += 1;
            match self.random.below(8) {
                0 => self.look()?,
                1..=3 => self.alone()?,
                _ => self.block()?,
            }
            // So that a recording of some seconds can be recovered a thousand times in a minute.
            std::thread::sleep(Duration::from_micros(1000 + self.random.below(10_000)));
        }
        Ok(())
    }

    fn run(&mut self, calls: &[Call]) -> Result<Reply> {
        let form = if self.random.one_in(2) { Form::Simple } else { Form::Prepared };
        self.wire.run(form, calls)
    }

    fn say(&self, note: &Note) {
        note.write(self.trace);
    }

    /// Reads a row: what it rests on can never be lost from then on.
    fn look(&mut self) -> Result<()> {
        let account = self.random.below(ACCOUNTS as u64);
        let reply = self.run(&[call(SEE, vec![number(account)])])?.done()?;
        self.seen(&reply).map(drop)
    }

    fn seen(&self, reply: &Reply) -> Result<TransactionId> {
        let [row] = reply.rows.as_slice() else {
            return Err(format!("{} rows for one account", reply.rows.len()));
        };
        let writer = TransactionId(row.parse().map_err(|_| format!("\"{row}\" is no writer"))?);
        if writer.0 != 0 && writer != self.id {
            self.say(&Note::Seen(writer));
        }
        Ok(writer)
    }

    /// One statement, or several in one message, that commit by themselves.
    fn alone(&mut self) -> Result<()> {
        let count = if self.random.one_in(2) { 1 } else { 2 + self.random.below(4) };
        let mut keys = self.keys.clone();
        let steps: Vec<Step> = (0..count).map(|_| self.step(&mut keys)).collect();
        let changes = steps.iter().flat_map(|step| step.changes.clone()).collect();
        self.say(&Note::Asked { id: self.id, journal: Journal::None, changes });
        let calls: Vec<Call> = steps.iter().map(|step| step.call.clone()).collect();
        let reply = self.run(&calls)?.done()?;
        self.say(&Note::Acknowledged(self.id));
        self.keys = keys;
        steps.iter().zip(&reply.tags).try_for_each(|(step, tag)| step.expect(tag))
    }

    /// BEGIN, some statements, COMMIT or ROLLBACK.
    fn block(&mut self) -> Result<()> {
        let begin = if self.random.one_in(2) { BEGIN } else { BEGIN_REPEATABLE };
        self.run(&[call(begin, Vec::new())])?.done()?;
        let mut keys = self.keys.clone();
        let changes = match self.work(&mut keys)? {
            Block::Done(changes) if !self.random.one_in(10) => changes,
            Block::Done(_) | Block::GaveWay => {
                return self.run(&[call(ROLLBACK, Vec::new())])?.done().map(drop);
            }
        };
        let note = Value::Text(note_of(self.id));
        let journal = call(JOURNAL, vec![number(self.id.0), number(self.number), note]);
        let mut last = vec![call(COMMIT, Vec::new())];
        if self.random.one_in(2) {
            self.run(&[journal])?.done()?;
        } else {
            last.insert(0, journal);
        }
        self.say(&Note::Asked { id: self.id, journal: Journal::Kept, changes });
        let reply = self.run(&last)?.done()?;
        if reply.tags.last().is_none_or(|tag| tag != "COMMIT") {
            return Err(format!("COMMIT was answered by {:?}", reply.tags));
        }
        self.say(&Note::Acknowledged(self.id));
        self.keys = keys;
        Ok(())
    }

    /// What a block does: a transfer, or not; marks; changes of own rows.
    fn work(&mut self, keys: &mut BTreeSet<i64>) -> Result<Block> {
        let mut overwritten = TransactionId(0);
        if !self.random.one_in(4) {
            let amount = self.random.below(50) as i64;
            let from = self.random.below(ACCOUNTS as u64) as i64;
            let to = (from + 1 + self.random.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
            for (account, amount) in [(from, -amount), (to, amount)] {
                match self.pay(account, amount)? {
                    Some(writer) => overwritten = writer,
                    None => return Ok(Block::GaveWay),
                }
            }
        }
        for at in 0..mark_count(self.id) {
            let key = Value::Number(self.id.0.cast_signed() * 8 + at);
            let values = vec![key, number(self.id.0), number(overwritten.0)];
            self.run(&[call(MARK, values)])?.done()?;
        }
        let mut changes = Vec::new();
        for _ in 0..self.random.below(4) {
            let step = self.step(keys);
            let reply = self.run(std::slice::from_ref(&step.call))?.done()?;
            step.expect(reply.tags.first().map_or("", String::as_str))?;
            changes.extend(step.changes);
        }
        Ok(Block::Done(changes))
    }

    /// Adds to an account; answers whose version it replaced, or none if others were first.
    fn pay(&mut self, account: i64, amount: i64) -> Result<Option<TransactionId>> {
        let reply = self.run(&[call(HOLD, vec![Value::Number(account)])])?;
        if reply.gave_way() {
            return Ok(None);
        }
        let writer = self.seen(&reply.done()?)?;
        let text = Value::Text(pad_of(account, self.id));
        let values = vec![Value::Number(amount), number(self.id.0), text, Value::Number(account)];
        let reply = self.run(&[call(PAY, values)])?.done()?;
        match reply.tags.as_slice() {
            [tag] if tag == "UPDATE 1" => Ok(Some(writer)),
            tags => Err(format!("a payment was answered by {tags:?}")),
        }
    }

    /// Plans a statement on own rows, and does it to `keys`.
    fn step(&mut self, keys: &mut BTreeSet<i64>) -> Step {
        let grows = keys.len() < 3 || self.random.below(ROWS_USUAL as u64 * 2) > keys.len() as u64;
        let nth = self.random.below(keys.len().max(1) as u64) as usize;
        let old = keys.iter().nth(nth).copied();
        let step = match (old, self.random.below(8)) {
            (Some(_), 0) if keys.len() > ROWS_USUAL / 2 => self.delete_above(keys),
            (Some(key), 1 | 2) => self.change(key, key),
            (Some(key), 3 | 4) => {
                let new = self.free_key(keys);
                self.change(key, new)
            }
            (Some(key), _) if !grows => Step {
                call: call(DELETE, vec![Value::Number(key)]),
                tag: "DELETE",
                rows: 1,
                changes: vec![Change { old: Some(key), new: None }],
            },
            _ => self.insert(keys),
        };
        for change in &step.changes {
            change.old.map(|key| keys.remove(&key));
            keys.extend(change.new);
        }
        step
    }

    fn free_key(&mut self, keys: &BTreeSet<i64>) -> i64 {
        let first = self.number.cast_signed() * KEYS_PER_CLIENT;
        loop {
            let key = first + self.random.below(KEYS_PER_CLIENT as u64) as i64;
            if !keys.contains(&key) {
                return key;
            }
        }
    }

    fn row(&self, key: i64) -> [Value; 4] {
        let text = Value::Text(text_of(key, self.id));
        [Value::Number(key), number(self.number), number(self.id.0), text]
    }

    fn insert(&mut self, keys: &BTreeSet<i64>) -> Step {
        let (one, two) = (self.free_key(keys), self.free_key(keys));
        let new: &[i64] = if one == two || self.random.one_in(2) { &[one] } else { &[one, two] };
        Step {
            call: call(
                if new.len() == 1 { INSERT } else { INSERT_TWO },
                new.iter().flat_map(|key| self.row(*key)).collect(),
            ),
            tag: "INSERT 0",
            rows: new.len(),
            changes: new.iter().map(|key| Change { old: None, new: Some(*key) }).collect(),
        }
    }

    fn change(&self, old: i64, new: i64) -> Step {
        let text = Value::Text(text_of(new, self.id));
        let values = vec![Value::Number(new), number(self.id.0), text, Value::Number(old)];
        Step {
            call: call(CHANGE, values),
            tag: "UPDATE",
            rows: 1,
            changes: vec![Change { old: Some(old), new: Some(new) }],
        }
    }

    fn delete_above(&mut self, keys: &BTreeSet<i64>) -> Step {
        let nth = keys.len() / 2 + self.random.below(keys.len() as u64 / 2) as usize;
        let from = keys.iter().nth(nth).copied().unwrap_or_default();
        let gone: Vec<i64> = keys.range(from..).copied().collect();
        Step {
            call: call(DELETE_ABOVE, vec![number(self.number), Value::Number(from)]),
            tag: "DELETE",
            rows: gone.len(),
            changes: gone.iter().map(|key| Change { old: Some(*key), new: None }).collect(),
        }
    }
}

impl Step {
    /// The server must have found the rows that the client knows of.
    fn expect(&self, tag: &str) -> Result<()> {
        if tag == format!("{} {}", self.tag, self.rows) {
            return Ok(());
        }
        let Step { call, rows, .. } = self;
        Err(format!("\"{}\" with {:?} was answered by {tag}, not {rows}", call.text, call.values))
    }
}
