//! YCSB: Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010. One table of
//! records with ten fields, and operations on records that are chosen by their popularity.
//!
//! Invariants: a record is known by its number; its key is the number itself, or YCSB's own form,
//! `user` and a hash of it. Updates write one field, reads read all. Records that a run adds
//! follow those that are there without a gap, so that every record below their number exists.
//! A transaction has `operations` of them, each a command of its own.

mod mix;
mod native;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::choice::{Choice, Chooser, fnv};
use crate::growth::Growth;
use crate::random::Random;
use crate::sql::{Ask, number, numbers};
use crate::workload::{Checked, Counts, Fields, Sink, Workload, part_of};
pub use mix::{Kind, Mix};

/// Fields of a record.
pub const FIELDS: usize = 10;
/// Characters of a field.
pub const FIELD_BYTES: usize = 100;
/// Records that a scan reads at most; as many are as likely as fewer.
const SCAN_MAX: i64 = 100;
/// Records of one part of loading.
const PART: u64 = 10_000;

/// What keys look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// int8: the record's number.
    Number,
    /// varchar: `user` and a hash of the number.
    Text,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Records that are loaded.
    pub records: u64,
    /// What their keys look like.
    pub key: KeyForm,
    /// The shares of operations.
    pub mix: Mix,
    /// How records are chosen.
    pub choice: Choice,
    /// Operations of a transaction.
    pub operations: u32,
}

/// The workload; its clones share what was added.
#[derive(Clone, Debug)]
pub struct Ycsb {
    settings: Settings,
    chooser: Arc<Chooser>,
    growth: Arc<Growth>,
}

/// What is done to a record.
#[derive(Debug)]
pub enum Operation {
    /// Reads all its fields.
    Read(u64),
    /// Writes a field.
    Update(u64, Change),
    /// Makes it: all its fields, one after the other.
    Insert(u64, String),
    /// Reads so many from it on.
    Scan(u64, i64),
    /// Reads all fields, and writes one.
    ReadModifyWrite(u64, Change),
}

/// A new value of a field.
#[derive(Debug)]
pub struct Change {
    /// Which, from 0 on.
    pub field: usize,
    /// What it becomes.
    pub value: String,
}

impl Operation {
    /// Whether it writes.
    pub fn writes(&self) -> bool {
        !matches!(self, Operation::Read(_) | Operation::Scan(..))
    }

    /// Whose, or the first one's.
    pub fn record(&self) -> u64 {
        match self {
            Operation::Read(record)
            | Operation::Update(record, _)
            | Operation::Insert(record, _)
            | Operation::Scan(record, _)
            | Operation::ReadModifyWrite(record, _) => *record,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Operation::Read(_) => Kind::Read,
            Operation::Update(..) => Kind::Update,
            Operation::Insert(..) => Kind::Insert,
            Operation::Scan(..) => Kind::Scan,
            Operation::ReadModifyWrite(..) => Kind::ReadModifyWrite,
        }
    }
}

/// A record's fields out of what [`Operation::Insert`] has.
pub fn fields(row: &str) -> impl Iterator<Item = &str> {
    (0..FIELDS).map(|field| &row[field * FIELD_BYTES..(field + 1) * FIELD_BYTES])
}

/// The text key of a record.
pub fn text_key(record: u64, out: &mut String) {
    out.clear();
    // Writing to memory does not fail.
    let _ = write!(out, "user{}", fnv(record));
}

impl Ycsb {
    /// With these settings; an error is one line.
    pub fn new(settings: Settings) -> Result<Ycsb, String> {
        if settings.records == 0 || settings.operations == 0 {
            return Err("records and operations must be at least 1".to_owned());
        }
        let chooser = Arc::new(Chooser::new(settings.choice, settings.records));
        Ok(Ycsb { settings, chooser, growth: Arc::default() })
    }

    /// What is run.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn operation(&self, random: &mut Random) -> Operation {
        let letters = |random: &mut Random, count| {
            let mut text = String::with_capacity(count);
            random.letters(count, count, &mut text);
            text
        };
        let kind = self.settings.mix.draw(random);
        if kind == Kind::Insert {
            return Operation::Insert(self.growth.take(), letters(random, FIELDS * FIELD_BYTES));
        }
        let record = self.chooser.draw(random, self.growth.settled());
        let change = |random: &mut Random| Change {
            field: random.inner().usize(0..FIELDS),
            value: letters(random, FIELD_BYTES),
        };
        match kind {
            Kind::Read | Kind::Insert => Operation::Read(record),
            Kind::Update => Operation::Update(record, change(random)),
            Kind::Scan => Operation::Scan(record, random.long(1, SCAN_MAX)),
            Kind::ReadModifyWrite => Operation::ReadModifyWrite(record, change(random)),
        }
    }

    /// Whether the last of `count` records is there, and none after it.
    fn ends_at(&self, ask: &mut dyn Ask, count: u64) -> Result<bool, String> {
        let there = |record: u64| {
            let mut key = record.to_string();
            if self.settings.key == KeyForm::Text {
                text_key(record, &mut key);
            }
            format!("(select count(*) from usertable where ycsb_key = '{key}')")
        };
        let both = format!("select {}, {}", there(count - 1), there(count));
        Ok(numbers(ask, &both)? == [1, 0])
    }
}

impl Workload for Ycsb {
    const NAME: &'static str = "ycsb";
    const KINDS: &'static [&'static str] =
        &["read", "update", "insert", "scan", "read_modify_write", "several_operations"];
    const TABLES: &'static [&'static str] = &["usertable"];

    type Input = Vec<Operation>;
    type Source = Random;
    /// Records that were added.
    type Mark = u64;
    type Tally = u64;
    /// Records that were there.
    type Before = u64;

    fn validate(&self) -> Result<(), String> {
        Ok(())
    }

    fn about(&self) -> Fields {
        let Settings { records, key, mix, choice, operations } = &self.settings;
        let shares: serde_json::Map<String, serde_json::Value> = Self::KINDS
            .iter()
            .zip(mix.shares)
            .map(|(it, share)| ((*it).into(), share.into()))
            .collect();
        vec![
            ("workload", json!(mix.name)),
            ("shares", json!(shares)),
            ("access", json!(choice.to_string())),
            ("records", json!(records)),
            ("key", json!(if *key == KeyForm::Number { "int8" } else { "varchar" })),
            ("operations_per_transaction", json!(operations)),
        ]
    }

    fn results(&self, counts: &Counts, elapsed: Duration) -> Fields {
        let operations = counts.transactions() * u64::from(self.settings.operations);
        vec![("operations_per_second", json!(operations as f64 / elapsed.as_secs_f64()))]
    }

    fn definitions(&self) -> String {
        let key = match self.settings.key {
            KeyForm::Number => "int8",
            KeyForm::Text => "varchar(64)",
        };
        let fields: Vec<String> =
            (0..FIELDS).map(|field| format!("field{field} varchar({FIELD_BYTES})")).collect();
        format!("create table usertable (ycsb_key {key} primary key, {});", fields.join(", "))
    }

    fn parts(&self) -> u64 {
        self.settings.records.div_ceil(PART)
    }

    fn rows(&self) -> u64 {
        self.settings.records
    }

    fn fill<S: Sink>(&self, seed: u64, part: u64, sink: &mut S) -> Result<(), S::Error> {
        let mut random = Random::new(seed ^ part << 32);
        let mut text = String::new();
        for record in part_of(part, PART, self.settings.records) {
            match self.settings.key {
                KeyForm::Number => sink.long(record.cast_signed()),
                KeyForm::Text => {
                    text_key(record, &mut text);
                    sink.text(&text);
                }
            }
            for _ in 0..FIELDS {
                text.clear();
                random.letters(FIELD_BYTES, FIELD_BYTES, &mut text);
                sink.text(&text);
            }
            sink.end(0_usize)?;
        }
        Ok(())
    }

    fn source(&self, client: u64, seed: u64) -> Random {
        Random::of_client(seed, client)
    }

    fn draw(&self, random: &mut Random) -> Vec<Operation> {
        (0..self.settings.operations).map(|_| self.operation(random)).collect()
    }

    fn kind(input: &Vec<Operation>) -> usize {
        match input.as_slice() {
            [operation] => operation.kind() as usize,
            _ => Kind::ALL.len(),
        }
    }

    fn settled(&self, input: &Vec<Operation>) {
        for operation in input {
            if let Operation::Insert(record, _) = operation {
                self.growth.settle(*record);
            }
        }
    }

    fn add(tally: &mut u64, added: u64) {
        *tally += added;
    }

    /// The table must have the records that settings say, or more, if runs have added some.
    fn before(&self, ask: &mut dyn Ask) -> Result<u64, String> {
        let (records, key) = (self.settings.records, self.settings.key);
        let count = number(ask, "select count(*) from usertable")?.cast_unsigned();
        if count < records {
            return Err(format!(
                "usertable has {count} of {records} records: fewer --records, or drop it and load again"
            ));
        }
        // A text key that is compared with a number would be an error of types.
        let form = ask.ask("select ycsb_key from usertable limit 1")?;
        let is_text = form.iter().flatten().flatten().any(|it| it.starts_with("user"));
        if is_text != (key == KeyForm::Text) {
            return Err("usertable has keys of the other form: another --key".to_owned());
        }
        if !self.ends_at(ask, count)? {
            return Err(format!(
                "usertable has {count} records, but not the first {count}: drop it and load again"
            ));
        }
        self.growth.start(count);
        Ok(count)
    }

    fn judge(&self, ask: &mut dyn Ask, before: &u64, added: &u64) -> Result<Checked, String> {
        let lengths: Vec<String> = (0..FIELDS).map(|it| format!("length(field{it})")).collect();
        let statement = format!("select count(*), sum({}) from usertable", lengths.join(" + "));
        let [count, characters] = numbers(ask, &statement)?.map(i64::cast_unsigned);
        if count != before + added {
            return Err(format!(
                "usertable had {before} records, {added} were added, and {count} are there"
            ));
        }
        if characters != count * (FIELDS * FIELD_BYTES) as u64 {
            return Err(format!("the fields of {count} records have {characters} characters"));
        }
        if !self.ends_at(ask, count)? {
            return Err(format!("there are {count} records, but not the first {count}"));
        }
        let what = format!("all {before} records are there, whole, and {added} that were added");
        Ok(Checked { what, rows: count })
    }
}
