//! Batches of orders, as veDB's paper has them (Yang et al., "veDB: a cloud-native database for
//! ByteDance's applications"; its order processing): a transaction inserts rows of 2 KB and adds
//! their amounts to the balance of a merchant, who may be hot.
//!
//! Invariants: what a merchant has is the sum of its orders at every commit; the check compares
//! both for every merchant. Orders are numbered without a gap, over all clients and runs, but for
//! those that were in flight when a run broke off.

mod native;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::choice::{Choice, Chooser};
use crate::growth::Growth;
use crate::random::Random;
use crate::sql::{Ask, number, numbers};
use crate::workload::{Checked, Counts, Fields, Sink, Workload, part_of};

/// Characters of an order's text: with its numbers a row has 2 KB.
pub const TEXT_BYTES: usize = 2000;
/// What an order costs at most.
const AMOUNT_MAX: i64 = 10_000;
/// Orders of a batch at most: a statement over the wire has so many parameters.
pub const BATCH_MAX: u32 = 10_000;
/// Merchants of one part of loading.
const PART: u64 = 10_000;

/// The workload; its clones share the numbers of orders.
#[derive(Clone, Debug)]
pub struct Orders {
    merchants: u64,
    batch: u32,
    choice: Choice,
    chooser: Arc<Chooser>,
    growth: Arc<Growth>,
}

/// A batch of orders of one merchant.
#[derive(Debug)]
pub struct Batch {
    /// Whose.
    pub merchant: i64,
    /// Number and amount of each.
    pub orders: Vec<(i64, i64)>,
    /// The text of all of them.
    pub text: String,
}

impl Batch {
    /// What they cost together.
    pub fn amount(&self) -> i64 {
        self.orders.iter().map(|(_, amount)| amount).sum()
    }

    /// What is counted when it is committed.
    pub fn sums(&self) -> Sums {
        Sums { orders: self.orders.len() as i64, amount: self.amount() }
    }
}

/// Orders and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// How many.
    pub orders: i64,
    /// Together.
    pub amount: i64,
}

impl Orders {
    /// With so many merchants, chosen so, and batches of so many orders; an error is one line.
    pub fn new(merchants: u64, choice: Choice, batch: u32) -> Result<Orders, String> {
        if merchants == 0 || batch == 0 || batch > BATCH_MAX {
            return Err(format!("merchants from 1, and rows of a batch from 1 to {BATCH_MAX}"));
        }
        if choice == Choice::Latest {
            return Err("no merchant is newer than another: another --access".to_owned());
        }
        let chooser = Arc::new(Chooser::new(choice, merchants));
        Ok(Orders { merchants, batch, choice, chooser, growth: Arc::default() })
    }

    /// Orders of a batch.
    pub fn batch(&self) -> u32 {
        self.batch
    }
}

impl Workload for Orders {
    const NAME: &'static str = "orders";
    const KINDS: &'static [&'static str] = &["batch"];
    const TABLES: &'static [&'static str] = &["merchant", "merchant_order"];

    type Input = Batch;
    type Source = Random;
    type Mark = Sums;
    type Tally = Sums;
    type Before = Sums;

    fn validate(&self) -> Result<(), String> {
        Ok(())
    }

    fn about(&self) -> Fields {
        vec![
            ("merchants", json!(self.merchants)),
            ("access", json!(self.choice.to_string())),
            ("rows_per_transaction", json!(self.batch)),
        ]
    }

    fn results(&self, counts: &Counts, elapsed: Duration) -> Fields {
        let rows = counts.transactions() * u64::from(self.batch);
        vec![("rows_per_second", json!(rows as f64 / elapsed.as_secs_f64()))]
    }

    fn definitions(&self) -> String {
        format!(
            "create table merchant (merchant_id int8 primary key, orders int8 not null, \
             balance int8 not null);
             create table merchant_order (order_id int8 primary key, merchant_id int8 not null, \
             amount int8 not null, detail varchar({TEXT_BYTES}) not null);"
        )
    }

    fn parts(&self) -> u64 {
        self.merchants.div_ceil(PART)
    }

    fn rows(&self) -> u64 {
        self.merchants
    }

    fn fill<S: Sink>(&self, _: u64, part: u64, sink: &mut S) -> Result<(), S::Error> {
        for merchant in part_of(part, PART, self.merchants) {
            sink.long(merchant.cast_signed());
            sink.long(0);
            sink.long(0);
            sink.end(0_usize)?;
        }
        Ok(())
    }

    fn source(&self, client: u64, seed: u64) -> Random {
        Random::of_client(seed, client)
    }

    fn draw(&self, random: &mut Random) -> Batch {
        let merchant = self.chooser.draw(random, self.merchants).cast_signed();
        let order =
            |random: &mut Random| (self.growth.take().cast_signed(), random.long(1, AMOUNT_MAX));
        let orders = (0..self.batch).map(|_| order(random)).collect();
        let mut text = String::with_capacity(TEXT_BYTES);
        random.letters(TEXT_BYTES, TEXT_BYTES, &mut text);
        Batch { merchant, orders, text }
    }

    fn kind(_: &Batch) -> usize {
        0
    }

    fn add(tally: &mut Sums, mark: Sums) {
        tally.orders += mark.orders;
        tally.amount += mark.amount;
    }

    fn before(&self, ask: &mut dyn Ask) -> Result<Sums, String> {
        let merchants = number(ask, "select count(*) from merchant")?;
        if merchants.cast_unsigned() != self.merchants {
            return Err(format!(
                "merchant has {merchants} rows, not {}: another --merchants, or drop both tables \
                 and load again",
                self.merchants
            ));
        }
        let next = number(ask, "select coalesce(max(order_id) + 1, 0) from merchant_order")?;
        self.growth.start(next.cast_unsigned());
        agree(ask)
    }

    fn judge(&self, ask: &mut dyn Ask, before: &Sums, came: &Sums) -> Result<Checked, String> {
        let sums = agree(ask)?;
        let mut expect = *before;
        Self::add(&mut expect, *came);
        if sums != expect {
            return Err(format!("the tables have {sums:?}, clients know of {expect:?}"));
        }
        let what = "every merchant has what its orders cost".to_owned();
        Ok(Checked { what, rows: self.merchants + sums.orders.cast_unsigned() })
    }
}

/// Compares what every merchant has with its orders; answers all together.
fn agree(ask: &mut dyn Ask) -> Result<Sums, String> {
    let wrong = "select count(*) from merchant m left join (select merchant_id, count(*) as orders, \
         sum(amount) as amount from merchant_order group by merchant_id) o \
         on m.merchant_id = o.merchant_id \
         where m.orders <> coalesce(o.orders, 0) or m.balance <> coalesce(o.amount, 0)";
    let wrong = number(ask, wrong)?;
    if wrong != 0 {
        return Err(format!("{wrong} merchants have not what their orders cost"));
    }
    let [orders, amount] = numbers(ask, "select count(*), sum(amount) from merchant_order")?;
    let [counted, balance] = numbers(ask, "select sum(orders), sum(balance) from merchant")?;
    if (orders, amount) != (counted, balance) {
        return Err(format!(
            "{orders} orders cost {amount}, all merchants have {balance} for {counted}"
        ));
    }
    Ok(Sums { orders, amount })
}
