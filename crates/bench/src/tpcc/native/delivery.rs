//! Delivery (clause 2.7): delivers the oldest order of each district that has one.

use atoll_kernel::api::{
    ColumnId, Result, RowBuffer, RowId, RowView, Statement, TableEntry, WriteOutcome,
};

use super::super::inputs::{DISTRICTS, Delivery};
use super::super::random::now;
use super::super::schema::{Tables, customer, new_order, order_line, orders};
use super::super::stored::{Stored, decimal};
use super::{Commands, Ended, ScanDirection, Terminal, int, lock, no_row, points_ahead};

const ORDERS: [ColumnId; 1] = [orders::O_C_ID];
/// What is read and changed of a new order that is delivered, and of an order's lines.
const NEW_ORDER: [ColumnId; 3] = [new_order::NO_O_ID, new_order::NO_D_ID, new_order::NO_W_ID];
const LINES: [ColumnId; 2] = [order_line::OL_AMOUNT, order_line::OL_DELIVERY_D];
const CUSTOMER: [ColumnId; 2] = [customer::C_BALANCE, customer::C_DELIVERY_CNT];

impl Terminal {
    // By itself in profiles (`cargo xtask breakdown`).
    #[inline(never)]
    pub(super) fn delivery(
        &mut self,
        tables: &Tables,
        commands: &mut Commands<'_>,
        input: &Delivery,
    ) -> Result<Ended> {
        let mut statement = commands.next()?;
        let writes = [&*tables.new_order, &*tables.orders, &*tables.order_line, &*tables.customer];
        lock(&mut statement, &[], &writes)?;
        let mut taken = std::mem::take(&mut self.taken);
        taken.clear();
        let mut left: Vec<i32> = (1..=DISTRICTS).collect();
        loop {
            self.take_oldest(tables, &mut statement, input.warehouse, (&mut left, &mut taken))?;
            if left.is_empty() {
                break;
            }
            // Somebody else delivered their oldest; a new command has a new snapshot.
            drop(statement);
            statement = commands.next()?;
        }
        let w = input.warehouse;
        self.carry(tables, &mut statement, (w, &mut taken), input.carrier)?;
        self.date_lines(tables, &mut statement, w, &mut taken)?;
        self.charge(tables, &mut statement, w, &taken)?;
        self.taken = taken;
        Ok(Ended::Commit(None))
    }

    /// Finds the oldest new orders of the districts that are left and takes them out of new_order. Those
    /// districts are left then of which another transaction has taken it meanwhile. A district
    /// without new orders is left out.
    fn take_oldest(
        &mut self,
        tables: &Tables,
        statement: &mut Statement<'_>,
        w: i32,
        (left, taken): (&mut Vec<i32>, &mut Vec<Taken>),
    ) -> Result<()> {
        let table = &*tables.new_order;
        let mut keys = std::mem::take(&mut self.keys);
        let wanted = (&mut keys, left.iter().map(|district| [w, *district]));
        points_ahead(statement, table, wanted, &NEW_ORDER);
        self.keys = keys;
        let mut oldest = Vec::with_capacity(left.len());
        for district in left.drain(..) {
            let (index, key) = ((table, &*table.indexes[0]), [w, district]);
            let columns = [new_order::NO_O_ID];
            let mut cursor = self.prefix(statement, index, &key, ScanDirection::Forward, &columns);
            if let Some(row) = cursor.next(statement, &mut self.row)? {
                oldest.push((row, Taken::new(district, int(&self.row, 0)?)));
            }
        }
        for (row, order) in oldest {
            match statement.delete(table, row)? {
                WriteOutcome::Done => taken.push(order),
                _ => left.push(order.district),
            }
        }
        Ok(())
    }

    /// Looks up the rows of these primary keys, all together; `each` is given every one of them with its
    /// number, to put into `self.stored` what becomes of it.
    fn find(
        &mut self,
        statement: &mut Statement<'_>,
        (table, wanted): (&TableEntry, &[[i32; 3]]),
        columns: &[ColumnId],
        mut each: impl FnMut(usize, RowView<'_>, &mut Stored) -> Result<()>,
    ) -> Result<Vec<RowId>> {
        let mut keys = std::mem::take(&mut self.keys);
        let points = points_ahead(statement, table, (&mut keys, wanted.iter().copied()), columns);
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        self.stored.clear();
        statement.index_points(&points, &mut self.found)?;
        for (at, point) in points.iter().enumerate() {
            rows.push(self.found.row(at).ok_or_else(|| no_row(point, table))?);
            each(at, self.found.view(at), &mut self.access.stored)?;
        }
        drop(points);
        self.keys = keys;
        Ok(rows)
    }

    /// The orders have a carrier; for whom they are goes to `taken`.
    fn carry(
        &mut self,
        tables: &Tables,
        statement: &mut Statement<'_>,
        (w, taken): (i32, &mut [Taken]),
        carrier: i32,
    ) -> Result<()> {
        let keys: Vec<_> = taken.iter().map(|it| [w, it.district, it.order]).collect();
        let rows =
            self.find(statement, (&tables.orders, &keys), &ORDERS, |at, order, stored| {
                taken[at].customer = int(order, 0)?;
                stored.int(carrier);
                Ok(())
            })?;
        let (at, changed) = ((&*tables.orders, &rows[..]), [orders::O_CARRIER_ID]);
        self.must_change_rows(statement, at, &ORDERS, &changed, |_, _, stored| {
            stored.int(carrier);
            Ok(())
        })?;
        self.rows = rows;
        Ok(())
    }

    /// The orders' lines have a date; what they cost goes to `taken`.
    fn date_lines(
        &mut self,
        tables: &Tables,
        statement: &mut Statement<'_>,
        w: i32,
        taken: &mut [Taken],
    ) -> Result<()> {
        let time = now();
        let index = (&*tables.order_line, &*tables.order_line.indexes[0]);
        let columns = [order_line::OL_AMOUNT];
        let mut keys = std::mem::take(&mut self.keys);
        let wanted = (&mut keys, taken.iter().map(|it| [w, it.district, it.order]));
        points_ahead(statement, index.0, wanted, &LINES);
        self.keys = keys;
        let (mut rows, mut kept) = (std::mem::take(&mut self.rows), RowBuffer::new());
        rows.clear();
        self.stored.clear();
        for it in taken {
            let key = [w, it.district, it.order];
            let mut cursor = self.prefix(statement, index, &key, ScanDirection::Forward, &columns);
            while let Some((row, line)) = cursor.next_view(statement, &mut kept)? {
                it.amount += decimal(line, 0, 2)?;
                rows.push(row);
                self.stored.time(time);
            }
        }
        let (at, changed) = ((&*tables.order_line, &rows[..]), [order_line::OL_DELIVERY_D]);
        self.must_change_rows(statement, at, &columns, &changed, |_, _, stored| {
            stored.time(time);
            Ok(())
        })?;
        self.rows = rows;
        Ok(())
    }

    /// The customers, no two of which are the same, owe what the orders' lines cost.
    fn charge(
        &mut self,
        tables: &Tables,
        statement: &mut Statement<'_>,
        w: i32,
        taken: &[Taken],
    ) -> Result<()> {
        let keys: Vec<_> = taken.iter().map(|it| [w, it.district, it.customer]).collect();
        let at = (&*tables.customer, &keys[..]);
        let rows = self.find(statement, at, &CUSTOMER, |at, customer, stored| {
            taken[at].charge(customer, stored)
        })?;
        let at = (&*tables.customer, &rows[..]);
        self.must_change_rows(statement, at, &CUSTOMER, &CUSTOMER, |at, row, stored| {
            taken[at].charge(row.view(), stored)
        })?;
        self.rows = rows;
        Ok(())
    }
}

/// An order that is being delivered.
pub(super) struct Taken {
    district: i32,
    order: i32,
    customer: i32,
    /// Of its lines, in cents.
    amount: i64,
}

impl Taken {
    fn new(district: i32, order: i32) -> Taken {
        Taken { district, order, customer: 0, amount: 0 }
    }

    /// What becomes of the customer: c_balance and c_delivery_cnt.
    fn charge(&self, customer: RowView<'_>, stored: &mut Stored) -> Result<()> {
        stored.decimal(decimal(customer, 0, 2)? + self.amount, 2);
        stored.int(int(customer, 1)? + 1);
        Ok(())
    }
}
