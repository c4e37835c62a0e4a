//! Delivery (clause 2.7): delivers the oldest order of each district that has one.

use atoll_kernel::api::{Result, RowBuffer, Statement, WriteOutcome};

use super::super::inputs::{DISTRICTS, Delivery};
use super::super::random::now;
use super::super::schema::{customer, new_order, order_line, orders};
use super::super::stored::decimal;
use super::{Commands, Ended, ScanDirection, Terminal, int, lock};

impl Terminal {
    pub(super) fn delivery(
        &mut self,
        commands: &mut Commands<'_>,
        input: &Delivery,
    ) -> Result<Ended> {
        let tables = self.tables.clone();
        let mut statement = commands.next()?;
        let writes = [&*tables.new_order, &*tables.orders, &*tables.order_line, &*tables.customer];
        lock(&mut statement, &[], &writes)?;
        for district in 1..=DISTRICTS {
            let place = [input.warehouse, district];
            loop {
                match self.oldest(&mut statement, place)? {
                    Oldest::Taken(order) => {
                        self.deliver(&mut statement, place, order, input.carrier)?;
                    }
                    // A district without new orders is left out.
                    Oldest::None => {}
                    Oldest::Lost => {
                        // Somebody else delivered it; a new command has a new snapshot.
                        drop(statement);
                        statement = commands.next()?;
                        continue;
                    }
                }
                break;
            }
        }
        Ok(Ended::Commit(None))
    }

    /// Finds the district's oldest new order and takes it out of new_order.
    fn oldest(&mut self, statement: &mut Statement<'_>, place: [i32; 2]) -> Result<Oldest> {
        let tables = self.tables.clone();
        let index = (&*tables.new_order, &*tables.new_order.indexes[0]);
        let columns = [new_order::NO_O_ID];
        let mut cursor = self.prefix(statement, index, &place, ScanDirection::Forward, &columns);
        let Some(row) = cursor.next(statement, &mut self.row)? else { return Ok(Oldest::None) };
        let order = int(&self.row, 0)?;
        Ok(match statement.delete(&tables.new_order, row)? {
            WriteOutcome::Done => Oldest::Taken(order),
            _ => Oldest::Lost,
        })
    }

    fn deliver(
        &mut self,
        statement: &mut Statement<'_>,
        [w, d]: [i32; 2],
        order: i32,
        carrier: i32,
    ) -> Result<()> {
        let tables = self.tables.clone();
        let columns = [orders::O_C_ID];
        let row = self.get(statement, &tables.orders, &[w, d, order], &columns)?;
        let c = int(&self.row, 0)?;
        let (at, changed) = ((&*tables.orders, row), [orders::O_CARRIER_ID]);
        self.must_change(statement, at, &columns, &changed, |_, stored| {
            stored.int(carrier);
            Ok(())
        })?;

        let (mut amount, time) = (0, now());
        let index = (&*tables.order_line, &*tables.order_line.indexes[0]);
        let columns = [order_line::OL_AMOUNT];
        let key = [w, d, order];
        let mut cursor = self.prefix(statement, index, &key, ScanDirection::Forward, &columns);
        let mut line = RowBuffer::new();
        while let Some(row) = cursor.next(statement, &mut line)? {
            amount += decimal(&line, 0, 2)?;
            let (at, changed) = ((&*tables.order_line, row), [order_line::OL_DELIVERY_D]);
            self.must_change(statement, at, &columns, &changed, |_, stored| {
                stored.time(time);
                Ok(())
            })?;
        }

        let columns = [customer::C_BALANCE, customer::C_DELIVERY_CNT];
        let row = self.get(statement, &tables.customer, &[w, d, c], &columns)?;
        self.must_change(statement, (&tables.customer, row), &columns, &columns, |row, stored| {
            stored.decimal(decimal(row, 0, 2)? + amount, 2);
            stored.int(int(row, 1)? + 1);
            Ok(())
        })
    }
}

/// What became of a district's oldest new order.
enum Oldest {
    /// It is this transaction's to deliver.
    Taken(i32),
    /// There is none.
    None,
    /// Another transaction has taken it meanwhile.
    Lost,
}
