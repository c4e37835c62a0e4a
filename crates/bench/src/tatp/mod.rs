//! TATP: "Telecom Application Transaction Processing Benchmark Description", IBM and Nokia, 2009
//! (version 1.0). Subscribers of a mobile network with their access data, facilities and call
//! forwardings, and seven short transactions, of which a known share fails.
//!
//! Invariants: a transaction that finds no row, or whose new row cannot be, fails: it is rolled
//! back and counted, as the description has it. There are no foreign keys yet, so the clients look
//! whether a facility is there before they insert a forwarding for it (the description's own
//! statements do), and the check at the end looks for rows without those that they refer to.

mod inputs;
mod native;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::random::Random;
use crate::sql::{Ask, number, numbers};
use crate::workload::{Checked, Counts, Fields, Sink, Workload, part_of};

pub use inputs::{Input, Kind, sub_nbr};

/// The description's subscribers.
pub const SUBSCRIBERS: u32 = 100_000;
/// Subscribers of one part of loading.
const PART: u64 = 2000;
/// When forwardings begin.
const STARTS: [i16; 3] = [0, 8, 16];

/// How subscribers are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Some more often than others: the description's NURand.
    Uneven,
    /// Evenly.
    Uniform,
}

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct Tatp {
    subscribers: u32,
    choice: Choice,
}

impl Tatp {
    /// With so many subscribers, chosen so; an error is one line.
    pub fn new(subscribers: u32, choice: Choice) -> Result<Tatp, String> {
        if subscribers == 0 || i32::try_from(subscribers).is_err() {
            return Err("subscribers must be at least 1 and fit an int".to_owned());
        }
        Ok(Tatp { subscribers, choice })
    }

    /// Percent of each kind's transactions that were rolled back.
    fn failed(counts: &Counts) -> Map<String, Value> {
        let share = |(at, kind): (usize, &Kind)| {
            let percent = counts.failed[at] as f64 * 100.0 / counts.done[at].max(1) as f64;
            (kind.name().to_owned(), json!((percent * 100.0).round() / 100.0))
        };
        Kind::ALL.iter().enumerate().map(share).collect()
    }
}

/// What the tables hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Rows of access_info, special_facility and call_forwarding.
    rows: [i64; 3],
}

impl Workload for Tatp {
    const NAME: &'static str = "tatp";
    const KINDS: &'static [&'static str] = &Kind::NAMES;
    const TABLES: &'static [&'static str] =
        &["subscriber", "access_info", "special_facility", "call_forwarding"];

    type Input = Input;
    type Source = Random;
    /// Forwardings that came, or went if negative.
    type Mark = i64;
    type Tally = i64;
    type Before = Held;

    fn validate(&self) -> Result<(), String> {
        Ok(())
    }

    fn about(&self) -> Fields {
        let access = if self.choice == Choice::Uneven { "nurand" } else { "uniform" };
        let expected: Map<String, Value> =
            Kind::ALL.iter().map(|kind| (kind.name().to_owned(), json!(kind.fails()))).collect();
        vec![
            ("subscribers", json!(self.subscribers)),
            ("access", json!(access)),
            ("expected_failed_percent", json!(expected)),
        ]
    }

    fn results(&self, counts: &Counts, elapsed: Duration) -> Fields {
        let good = counts.transactions() - counts.rollbacks();
        vec![
            ("failed_percent", json!(Tatp::failed(counts))),
            ("successful_per_second", json!(good as f64 / elapsed.as_secs_f64())),
        ]
    }

    fn definitions(&self) -> String {
        let columns = |name: &str, ty: &str| -> String {
            (1..=10).map(|number| format!("{name}_{number} {ty}, ")).collect()
        };
        let (bits, hexes) = (columns("bit", "smallint"), columns("hex", "smallint"));
        let bytes = columns("byte2", "smallint");
        format!(
            "create table subscriber (s_id int primary key, sub_nbr varchar(15) not null, \
             {bits}{hexes}{bytes}msc_location int, vlr_location int);
             create unique index subscriber_by_number on subscriber (sub_nbr);
             create table access_info (s_id int not null, ai_type smallint not null, \
             data1 smallint, data2 smallint, data3 char(3), data4 char(5), \
             primary key (s_id, ai_type));
             create table special_facility (s_id int not null, sf_type smallint not null, \
             is_active smallint not null, error_cntrl smallint, data_a smallint, data_b char(5), \
             primary key (s_id, sf_type));
             create table call_forwarding (s_id int not null, sf_type smallint not null, \
             start_time smallint not null, end_time smallint, numberx varchar(15), \
             primary key (s_id, sf_type, start_time));"
        )
    }

    fn parts(&self) -> u64 {
        u64::from(self.subscribers).div_ceil(PART)
    }

    fn rows(&self) -> u64 {
        // One, 2.5 and 2.5, and of each facility 1.5 forwardings.
        u64::from(self.subscribers) * 39 / 4
    }

    fn fill<S: Sink>(&self, seed: u64, part: u64, sink: &mut S) -> Result<(), S::Error> {
        let mut random = Random::new(seed ^ part << 32);
        for subscriber in part_of(part, PART, self.subscribers.into()) {
            fill_subscriber(&mut random, subscriber as i32 + 1, sink)?;
        }
        Ok(())
    }

    fn source(&self, client: u64, seed: u64) -> Random {
        Random::of_client(seed, client)
    }

    fn draw(&self, random: &mut Random) -> Input {
        Input::draw(random, self)
    }

    fn kind(input: &Input) -> usize {
        input.kind() as usize
    }

    fn add(tally: &mut i64, forwardings: i64) {
        *tally += forwardings;
    }

    fn before(&self, ask: &mut dyn Ask) -> Result<Held, String> {
        let held = refer(ask)?;
        let subscribers = number(ask, "select count(*) from subscriber")?;
        if subscribers != i64::from(self.subscribers) {
            return Err(format!(
                "subscriber has {subscribers} rows, not {}: another --subscribers, or drop all \
                 four and load again",
                self.subscribers
            ));
        }
        // Every subscriber has at least one row of both.
        for table in ["access_info", "special_facility"] {
            let those = format!("select count(*) from (select distinct s_id from {table}) it");
            let those = number(ask, &those)?;
            if those != subscribers {
                return Err(format!(
                    "{table} has rows of {those} of {subscribers} subscribers: drop all four and \
                     load again"
                ));
            }
        }
        Ok(held)
    }

    fn judge(&self, ask: &mut dyn Ask, before: &Held, came: &i64) -> Result<Checked, String> {
        let Held { rows } = refer(ask)?;
        let expect = [before.rows[0], before.rows[1], before.rows[2] + came];
        if rows != expect {
            return Err(format!(
                "access_info, special_facility and call_forwarding have {rows:?} rows, not {expect:?}"
            ));
        }
        let what = "every row's subscriber and facility are there, and no row too many".to_owned();
        let rows = u64::from(self.subscribers) + rows.iter().sum::<i64>().cast_unsigned();
        Ok(Checked { what, rows })
    }
}

/// Counts the rows; an error if some refer to what is not there.
fn refer(ask: &mut dyn Ask) -> Result<Held, String> {
    let rows = "select (select count(*) from access_info), \
                (select count(*) from special_facility), (select count(*) from call_forwarding)";
    let rows = numbers(ask, rows)?;
    for (table, other, same) in [
        ("access_info", "subscriber", "a.s_id = b.s_id"),
        ("special_facility", "subscriber", "a.s_id = b.s_id"),
        ("call_forwarding", "special_facility", "a.s_id = b.s_id and a.sf_type = b.sf_type"),
    ] {
        let astray = format!(
            "select count(*) from {table} a left join {other} b on {same} where b.s_id is null"
        );
        let astray = number(ask, &astray)?;
        if astray != 0 {
            return Err(format!("{astray} rows of {table} have no {other}"));
        }
    }
    Ok(Held { rows })
}

fn fill_subscriber<S: Sink>(random: &mut Random, id: i32, sink: &mut S) -> Result<(), S::Error> {
    let mut small = |sink: &mut S, most: i32| sink.small(random.number(0, most) as i16);
    sink.int(id);
    let mut text = String::new();
    sub_nbr(id, &mut text);
    sink.text(&text);
    (0..10).for_each(|_| small(sink, 1));
    (0..10).for_each(|_| small(sink, 15));
    (0..10).for_each(|_| small(sink, 255));
    sink.int(random.number(1, i32::MAX));
    sink.int(random.number(1, i32::MAX));
    sink.end(0_usize)?;
    for ai_type in some_of(random) {
        sink.int(id);
        sink.small(ai_type);
        sink.small(random.number(0, 255) as i16);
        sink.small(random.number(0, 255) as i16);
        capitals(random, 3, &mut text, sink);
        capitals(random, 5, &mut text, sink);
        sink.end(1_usize)?;
    }
    for sf_type in some_of(random) {
        sink.int(id);
        sink.small(sf_type);
        sink.small(i16::from(random.chance(85)));
        sink.small(random.number(0, 255) as i16);
        sink.small(random.number(0, 255) as i16);
        capitals(random, 5, &mut text, sink);
        sink.end(2_usize)?;
        let count = random.inner().usize(0..=STARTS.len());
        let mut starts = STARTS;
        random.inner().shuffle(&mut starts);
        for start in &starts[..count] {
            sink.int(id);
            sink.small(sf_type);
            sink.small(*start);
            sink.small(start + random.number(1, 8) as i16);
            text.clear();
            random.digits(15, &mut text);
            sink.text(&text);
            sink.end(3_usize)?;
        }
    }
    Ok(())
}

/// One to four of the types 1 to 4, each number of them as likely.
fn some_of(random: &mut Random) -> Vec<i16> {
    let mut types = vec![1, 2, 3, 4];
    random.inner().shuffle(&mut types);
    types.truncate(random.inner().usize(1..=4));
    types
}

fn capitals<S: Sink>(random: &mut Random, count: usize, text: &mut String, sink: &mut S) {
    text.clear();
    (0..count).for_each(|_| text.push(random.inner().uppercase()));
    sink.padded(text, count);
}
