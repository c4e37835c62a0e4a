//! SmallBank: Alomari, Cahill, Fekete and Röhm, "The cost of serializability on platforms that use
//! snapshot isolation", ICDE 2008. Customers with a savings and a checking account each, and five
//! short transactions in equal parts.
//!
//! Invariants: money is whole numbers. What a committed transaction adds to all accounts together
//! is known to its client, so that the sum at the end can be compared. Savings never fall below
//! nothing; checking accounts may. The mix is not serializable under snapshot isolation (that is
//! what the paper is about); the sum and the savings are right all the same.

mod native;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::sync::Arc;

use serde_json::json;

use crate::choice::{Choice, Chooser};
use crate::random::Random;
use crate::sql::{Ask, number, numbers};
use crate::workload::{Checked, Fields, Sink, Workload, part_of};

/// The paper's hot spot: 1000 of 18,000 customers have 90 of 100 transactions.
pub const HOTSPOT: Choice = Choice::Hotspot { keys: 1.0 / 18.0, operations: 0.9 };
/// The paper's customers.
pub const CUSTOMERS: u64 = 18_000;
/// What accounts begin with.
const BALANCES: (i64, i64) = (10_000, 50_000);
/// What is paid in, taken out or written at most.
const AMOUNT_MAX: i64 = 100;
/// Customers of one part of loading.
const PART: u64 = 5000;

/// The workload.
#[derive(Clone, Debug)]
pub struct SmallBank {
    customers: u64,
    choice: Choice,
    chooser: Arc<Chooser>,
}

/// What a transaction is asked to do; customers by their numbers from 0 on.
#[derive(Debug)]
pub enum Input {
    /// What a customer has, in both accounts.
    Balance(u64),
    /// Pays so much into checking.
    DepositChecking(u64, i64),
    /// Pays so much into savings, or takes it out; rolled back if there is not enough.
    TransactSavings(u64, i64),
    /// All that the first customer has goes to the second one's checking.
    Amalgamate(u64, u64),
    /// Takes so much from checking, and one more if both accounts together have less.
    WriteCheck(u64, i64),
}

/// A customer's name.
pub fn name(customer: u64, out: &mut String) {
    out.clear();
    // Writing to memory does not fail.
    let _ = write!(out, "customer{customer:010}");
}

/// What a check takes from checking if both accounts together have `total`.
pub fn check_amount(total: i64, amount: i64) -> i64 {
    if total < amount { amount + 1 } else { amount }
}

impl SmallBank {
    /// With so many customers, chosen so; an error is one line.
    pub fn new(customers: u64, choice: Choice) -> Result<SmallBank, String> {
        if customers < 2 {
            return Err("customers must be at least 2".to_owned());
        }
        if choice == Choice::Latest {
            return Err("no customer is newer than another: another --access".to_owned());
        }
        Ok(SmallBank { customers, choice, chooser: Arc::new(Chooser::new(choice, customers)) })
    }

    fn customer(&self, random: &mut Random) -> u64 {
        self.chooser.draw(random, self.customers)
    }

    /// Another one than `first`.
    fn other(&self, random: &mut Random, first: u64) -> u64 {
        let other = self.customer(random);
        if other == first { (first + 1) % self.customers } else { other }
    }
}

impl Workload for SmallBank {
    const NAME: &'static str = "smallbank";
    const KINDS: &'static [&'static str] =
        &["balance", "deposit_checking", "transact_savings", "amalgamate", "write_check"];
    const TABLES: &'static [&'static str] = &["account", "savings", "checking"];

    type Input = Input;
    type Source = Random;
    /// What was added to all money.
    type Mark = i64;
    type Tally = i64;
    /// All money.
    type Before = i64;

    fn validate(&self) -> Result<(), String> {
        Ok(())
    }

    fn about(&self) -> Fields {
        let note = "the mix is not serializable under snapshot isolation";
        vec![
            ("customers", json!(self.customers)),
            ("access", json!(self.choice.to_string())),
            ("note", json!(note)),
        ]
    }

    fn definitions(&self) -> String {
        "create table account (name varchar(64) primary key, custid int8 not null);
         create table savings (custid int8 primary key, balance int8 not null);
         create table checking (custid int8 primary key, balance int8 not null);"
            .to_owned()
    }

    fn parts(&self) -> u64 {
        self.customers.div_ceil(PART)
    }

    fn rows(&self) -> u64 {
        self.customers * 3
    }

    fn fill<S: Sink>(&self, seed: u64, part: u64, sink: &mut S) -> Result<(), S::Error> {
        let mut random = Random::new(seed ^ part << 32);
        let mut text = String::new();
        for customer in part_of(part, PART, self.customers) {
            let id = customer.cast_signed();
            name(customer, &mut text);
            sink.text(&text);
            sink.long(id);
            sink.end(0_usize)?;
            for account in [1_usize, 2] {
                sink.long(id);
                sink.long(random.long(BALANCES.0, BALANCES.1));
                sink.end(account)?;
            }
        }
        Ok(())
    }

    fn source(&self, client: u64, seed: u64) -> Random {
        Random::of_client(seed, client)
    }

    fn draw(&self, random: &mut Random) -> Input {
        let customer = self.customer(random);
        let amount = random.long(1, AMOUNT_MAX);
        match random.number(0, 4) {
            0 => Input::Balance(customer),
            1 => Input::DepositChecking(customer, amount),
            2 if random.chance(50) => Input::TransactSavings(customer, -amount),
            2 => Input::TransactSavings(customer, amount),
            3 => Input::Amalgamate(customer, self.other(random, customer)),
            _ => Input::WriteCheck(customer, amount),
        }
    }

    fn kind(input: &Input) -> usize {
        match input {
            Input::Balance(_) => 0,
            Input::DepositChecking(..) => 1,
            Input::TransactSavings(..) => 2,
            Input::Amalgamate(..) => 3,
            Input::WriteCheck(..) => 4,
        }
    }

    fn add(tally: &mut i64, money: i64) {
        *tally += money;
    }

    fn before(&self, ask: &mut dyn Ask) -> Result<i64, String> {
        for table in Self::TABLES {
            let count = number(ask, &format!("select count(*) from {table}"))?;
            if count.cast_unsigned() != self.customers {
                let customers = self.customers;
                return Err(format!(
                    "{table} has {count} rows, not {customers}: another --customers, or drop all \
                     three and load again"
                ));
            }
        }
        money(ask)
    }

    fn judge(&self, ask: &mut dyn Ask, before: &i64, added: &i64) -> Result<Checked, String> {
        let money = money(ask)?;
        if money != before + added {
            return Err(format!(
                "there was {before}, {added} came, and all accounts together have {money}"
            ));
        }
        let negative = number(ask, "select count(*) from savings where balance < 0")?;
        if negative != 0 {
            return Err(format!("{negative} savings accounts have less than nothing"));
        }
        let what = format!("the sum of all money is right: {money}, {added} came since");
        Ok(Checked { what, rows: self.customers * 2 })
    }
}

/// The sum of all accounts.
fn money(ask: &mut dyn Ask) -> Result<i64, String> {
    let sums = "select (select sum(balance) from savings), (select sum(balance) from checking)";
    let [savings, checking] = numbers(ask, sums)?;
    Ok(savings + checking)
}
