//! SmallBank's transactions as native procedures.
//!
//! Invariants: each statement of the paper's programs is a command; a balance that is to be
//! changed by what it is, is computed anew if it was changed meanwhile.

use atoll_kernel::api::{Access, AffinityKey, Catalog, Result, TableEntry};

use super::{Input, SmallBank, check_amount, name};
use crate::native::{Commands, Native, Part, RowAccess, columns, tables};
use crate::setting::Setting;
use crate::space::{Each, Need, instance_seconds};
use crate::stored::long;
use crate::workload::Ended;

columns! {
    /// Columns of `account`.
    account { NAME CUSTID }
    /// Columns of `savings` and of `checking`.
    balances { CUSTID BALANCE }
}

/// Transactions that an instance may do in a second.
const RATE: u64 = 150_000;

tables! { account savings checking }

/// One client's.
pub struct Terminal {
    tables: Tables,
    access: RowAccess,
    /// Scratch for names.
    name: String,
}

impl Terminal {
    /// The number of a customer, looked up by name.
    fn customer(&mut self, commands: &mut Commands<'_>, customer: u64) -> Result<i64> {
        name(customer, &mut self.name);
        let table = &self.tables.account;
        let key = [Part::Text(&self.name)];
        self.access.get(&mut commands.read(table)?, table, &key, &[account::CUSTID])?;
        long(&self.access.row, 0)
    }

    fn balance(&mut self, commands: &mut Commands<'_>, table: &TableEntry, id: i64) -> Result<i64> {
        let key = [Part::Long(id)];
        self.access.get(&mut commands.read(table)?, table, &key, &[balances::BALANCE])?;
        long(&self.access.row, 0)
    }

    /// Changes a balance to what `becomes` makes of it; answers what it was.
    fn change(
        &mut self,
        commands: &mut Commands<'_>,
        table: &TableEntry,
        id: i64,
        becomes: impl Fn(i64) -> i64,
    ) -> Result<i64> {
        let (key, columns) = ([Part::Long(id)], [balances::BALANCE]);
        let mut statement = commands.write(table)?;
        let row = self.access.get(&mut statement, table, &key, &columns)?;
        let (at, mut was) = ((table, row), 0);
        self.access.must_change(&mut statement, at, &columns, &columns, |row, stored| {
            was = long(row, 0)?;
            stored.long(becomes(was));
            Ok(())
        })?;
        Ok(was)
    }
}

impl Native for SmallBank {
    type Tables = Tables;
    type Terminal = Terminal;

    fn tables(catalog: &Catalog) -> std::result::Result<Tables, String> {
        Tables::find(catalog)
    }

    fn terminal(&self, tables: Tables) -> Terminal {
        Terminal { tables, access: RowAccess::default(), name: String::new() }
    }

    fn need(&self, setting: &Setting, instances: u16) -> Need {
        let customers = (self.customers, Each { pages: 400, log: 400 });
        let transaction = Each { pages: 0, log: 400 };
        Need::of(customers, (instance_seconds(setting, instances), RATE), transaction)
    }

    fn access(input: &Input) -> Access {
        match input {
            Input::Balance(_) => Access::ReadOnly,
            _ => Access::ReadWrite,
        }
    }

    fn key(input: &Input) -> AffinityKey {
        match *input {
            Input::Balance(customer)
            | Input::DepositChecking(customer, _)
            | Input::TransactSavings(customer, _)
            | Input::Amalgamate(customer, _)
            | Input::WriteCheck(customer, _) => customer.into(),
        }
    }

    fn run(
        terminal: &mut Terminal,
        commands: &mut Commands<'_>,
        input: &Input,
    ) -> Result<Ended<i64>> {
        let Tables { savings, checking, .. } = terminal.tables.clone();
        match *input {
            Input::Balance(customer) => {
                let id = terminal.customer(commands, customer)?;
                let saved = terminal.balance(commands, &savings, id)?;
                std::hint::black_box(saved + terminal.balance(commands, &checking, id)?);
                Ok(Ended::Commit(None))
            }
            Input::DepositChecking(customer, amount) => {
                let id = terminal.customer(commands, customer)?;
                terminal.change(commands, &checking, id, |it| it + amount)?;
                Ok(Ended::Commit(Some(amount)))
            }
            Input::TransactSavings(customer, amount) => {
                let id = terminal.customer(commands, customer)?;
                let was = terminal.change(commands, &savings, id, |it| it + amount)?;
                Ok(if was + amount < 0 { Ended::Rollback } else { Ended::Commit(Some(amount)) })
            }
            Input::Amalgamate(from, to) => {
                let from = terminal.customer(commands, from)?;
                let to = terminal.customer(commands, to)?;
                let saved = terminal.change(commands, &savings, from, |_| 0)?;
                let all = saved + terminal.change(commands, &checking, from, |_| 0)?;
                terminal.change(commands, &checking, to, |it| it + all)?;
                Ok(Ended::Commit(None))
            }
            Input::WriteCheck(customer, amount) => {
                let id = terminal.customer(commands, customer)?;
                let saved = terminal.balance(commands, &savings, id)?;
                let total = saved + terminal.balance(commands, &checking, id)?;
                let taken = check_amount(total, amount);
                terminal.change(commands, &checking, id, |it| it - taken)?;
                Ok(Ended::Commit(Some(-taken)))
            }
        }
    }
}
