//! A batch of orders as a native procedure.
//!
//! Invariants: an INSERT of all rows, then the UPDATE of the merchant, so that the hot row is held
//! for as short as can be: from its change to the commit.

use atoll_kernel::api::{Access, AffinityKey, Catalog, Result};

use super::{Batch, Orders, Sums, TEXT_BYTES};
use crate::native::{Commands, Native, Part, RowAccess, columns, tables};
use crate::setting::Setting;
use crate::space::{Each, Need, instance_seconds};
use crate::stored::long;
use crate::workload::Ended;

columns! {
    /// Columns of `merchant`.
    merchant { MERCHANT_ID ORDERS BALANCE }
    /// Columns of `merchant_order`.
    merchant_order { ORDER_ID MERCHANT_ID AMOUNT DETAIL }
}

/// Rows that an instance may insert in a second.
const RATE: u64 = 90_000;
/// Bytes of pages, and of log, that an order takes.
const ORDER: Each = Each { pages: TEXT_BYTES as u64 + 300, log: TEXT_BYTES as u64 + 400 };

tables! { merchant merchant_order }

/// One client's.
pub struct Terminal {
    tables: Tables,
    access: RowAccess,
}

impl Native for Orders {
    type Tables = Tables;
    type Terminal = Terminal;

    fn tables(catalog: &Catalog) -> std::result::Result<Tables, String> {
        Tables::find(catalog)
    }

    fn terminal(&self, tables: Tables) -> Terminal {
        Terminal { tables, access: RowAccess::default() }
    }

    fn need(&self, setting: &Setting, instances: u16) -> Need {
        let merchants = (self.merchants, Each { pages: 200, log: 200 });
        // The rate is that of rows, of which a batch has several.
        Need::of(merchants, (instance_seconds(setting, instances), RATE), ORDER)
    }

    fn access(_: &Batch) -> Access {
        Access::ReadWrite
    }

    fn key(input: &Batch) -> AffinityKey {
        input.merchant.into()
    }

    fn run(
        terminal: &mut Terminal,
        commands: &mut Commands<'_>,
        input: &Batch,
    ) -> Result<Ended<Sums>> {
        let Terminal { tables, access } = terminal;
        let mut statement = commands.write(&tables.merchant_order)?;
        for (order, amount) in &input.orders {
            access.stored.clear();
            access.stored.long(*order);
            access.stored.long(input.merchant);
            access.stored.long(*amount);
            access.stored.raw(input.text.as_bytes());
            access.insert(&mut statement, &tables.merchant_order)?;
        }
        drop(statement);
        let (sums, columns) = (input.sums(), [merchant::ORDERS, merchant::BALANCE]);
        let mut statement = commands.write(&tables.merchant)?;
        let key = [Part::Long(input.merchant)];
        let row = access.get(&mut statement, &tables.merchant, &key, &columns)?;
        let at = (&*tables.merchant, row);
        access.must_change(&mut statement, at, &columns, &columns, |row, stored| {
            stored.long(long(row, 0)? + sums.orders);
            stored.long(long(row, 1)? + sums.amount);
            Ok(())
        })?;
        Ok(Ended::Commit(Some(sums)))
    }
}
