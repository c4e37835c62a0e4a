//! SmallBank over the wire, as single prepared statements.
//!
//! Invariants: a balance that is to be changed by what it is, is read FOR UPDATE, so that the sum
//! is right under READ COMMITTED, too.

use postgres::{Client, Statement};

use super::{Failed, Shape, Sql, Wire};
use crate::smallbank::{Input, SmallBank, check_amount, name};
use crate::workload::Ended;

/// A connection's.
pub struct Statements {
    customer: Statement,
    savings: Balance,
    checking: Balance,
}

/// The statements of one of both tables.
struct Balance {
    read: Statement,
    lock: Statement,
    add: Statement,
}

impl Balance {
    fn prepare(client: &mut Client, table: &str) -> Sql<Balance> {
        let read = format!("select balance from {table} where custid = $1");
        let add = format!("update {table} set balance = balance + $1 where custid = $2");
        Ok(Balance {
            read: client.prepare(&read)?,
            lock: client.prepare(&format!("{read} for update"))?,
            add: client.prepare(&add)?,
        })
    }
}

impl Wire for SmallBank {
    type Statements = Statements;

    fn prepare(&self, client: &mut Client) -> Sql<Statements> {
        Ok(Statements {
            customer: client.prepare("select custid from account where name = $1")?,
            savings: Balance::prepare(client, "savings")?,
            checking: Balance::prepare(client, "checking")?,
        })
    }

    fn shape(_: &Input) -> Shape {
        Shape::Block
    }

    fn execute(client: &mut Client, statements: &mut Statements, input: &Input) -> Sql<Ended<i64>> {
        let Statements { savings, checking, .. } = &*statements;
        let mut bank = Bank { client, customer: &statements.customer };
        match *input {
            Input::Balance(customer) => {
                let id = bank.customer(customer)?;
                std::hint::black_box(
                    bank.read(&savings.read, id)? + bank.read(&checking.read, id)?,
                );
                Ok(Ended::Commit(None))
            }
            Input::DepositChecking(customer, amount) => {
                let id = bank.customer(customer)?;
                bank.add(checking, id, amount)?;
                Ok(Ended::Commit(Some(amount)))
            }
            Input::TransactSavings(customer, amount) => {
                let id = bank.customer(customer)?;
                if bank.read(&savings.lock, id)? + amount < 0 {
                    return Ok(Ended::Rollback);
                }
                bank.add(savings, id, amount)?;
                Ok(Ended::Commit(Some(amount)))
            }
            Input::Amalgamate(from, to) => {
                let (from, to) = (bank.customer(from)?, bank.customer(to)?);
                let (saved, checked) =
                    (bank.read(&savings.lock, from)?, bank.read(&checking.lock, from)?);
                bank.add(savings, from, -saved)?;
                bank.add(checking, from, -checked)?;
                bank.add(checking, to, saved + checked)?;
                Ok(Ended::Commit(None))
            }
            Input::WriteCheck(customer, amount) => {
                let id = bank.customer(customer)?;
                let total = bank.read(&savings.read, id)? + bank.read(&checking.read, id)?;
                let taken = check_amount(total, amount);
                bank.add(checking, id, -taken)?;
                Ok(Ended::Commit(Some(-taken)))
            }
        }
    }
}

struct Bank<'a> {
    client: &'a mut Client,
    customer: &'a Statement,
}

impl Bank<'_> {
    /// The number of a customer, looked up by name.
    fn customer(&mut self, customer: u64) -> Sql<i64> {
        let mut text = String::new();
        name(customer, &mut text);
        Ok(self.client.query_one(self.customer, &[&text])?.get(0))
    }

    fn read(&mut self, statement: &Statement, id: i64) -> Sql<i64> {
        Ok(self.client.query_one(statement, &[&id])?.get(0))
    }

    fn add(&mut self, balance: &Balance, id: i64, amount: i64) -> Sql<()> {
        match self.client.execute(&balance.add, &[&amount, &id])? {
            1 => Ok(()),
            rows => Err(Failed::Answer(format!("{rows} rows have the number {id}"))),
        }
    }
}
