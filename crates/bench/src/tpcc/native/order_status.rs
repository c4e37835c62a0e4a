//! Order-Status (clause 2.6): a customer's last order and its lines.

use atoll_kernel::api::Result;

use super::super::inputs::OrderStatus;
use super::super::schema::{Tables, customer, order_line, orders};
use super::{Commands, Ended, ScanDirection, Terminal, int, lock, missing};

impl Terminal {
    // By itself in profiles (`cargo xtask breakdown`).
    #[inline(never)]
    pub(super) fn order_status(
        &mut self,
        tables: &Tables,
        commands: &mut Commands<'_>,
        input: &OrderStatus,
    ) -> Result<Ended> {
        let mut statement = commands.next()?;
        lock(&mut statement, &[&tables.customer, &tables.orders, &tables.order_line], &[])?;
        let (w, d) = (input.warehouse, input.district);
        let columns = [
            customer::C_ID,
            customer::C_FIRST,
            customer::C_MIDDLE,
            customer::C_LAST,
            customer::C_BALANCE,
        ];
        self.customer(tables, &mut statement, (w, d), &input.who, &columns)?;
        let c = int(&self.row, 0)?;
        self.show(1);

        let columns = [orders::O_ID, orders::O_ENTRY_D, orders::O_CARRIER_ID];
        let index = (&*tables.orders, tables.orders_by_customer());
        let key = [w, d, c];
        let mut cursor = self.prefix(&statement, index, &key, ScanDirection::Backward, &columns);
        if cursor.next(&mut statement, &mut self.row)?.is_none() {
            return Err(missing(&tables.orders, &key));
        }
        let order = int(&self.row, 0)?;
        self.show(1);

        let columns = [
            order_line::OL_I_ID,
            order_line::OL_SUPPLY_W_ID,
            order_line::OL_QUANTITY,
            order_line::OL_AMOUNT,
            order_line::OL_DELIVERY_D,
        ];
        let index = (&*tables.order_line, &*tables.order_line.indexes[0]);
        let key = [w, d, order];
        let mut cursor = self.prefix(&statement, index, &key, ScanDirection::Forward, &columns);
        while cursor.next(&mut statement, &mut self.row)?.is_some() {
            self.show(0);
        }
        Ok(Ended::Commit(None))
    }
}
