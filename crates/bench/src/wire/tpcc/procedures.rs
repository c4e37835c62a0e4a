//! The five transactions through a server's SQL, a statement at a time.
//!
//! Invariants: the statements are those of the native procedures' commands. An error leaves the
//! connection in a failed transaction, which the caller rolls back.

use postgres::{Client, Row};

use super::super::Sql;
use super::statements::Statements;
use super::trace::{Delivered, Entered, Paid, Trace};
use super::{Prepared, Traces};
use crate::tpcc::{
    DISTRICTS, Delivery, Input, NewOrder, OrderKey, OrderStatus, Payment, StockLevel, Who,
};

type Ended = crate::workload::Ended<OrderKey>;

/// Does what `input` says, up to the commit.
pub fn run(client: &mut Client, prepared: &mut Prepared, input: &Input) -> Sql<Ended> {
    let Prepared { statements, traces } = prepared;
    if let Some(traces) = traces {
        traces.last = None;
    }
    let mut terminal = Terminal { client, statements, traces: traces.as_mut() };
    match input {
        Input::NewOrder(input) => terminal.new_order(input),
        Input::Payment(input) => terminal.payment(input),
        Input::OrderStatus(input) => terminal.order_status(input),
        Input::Delivery(input) => terminal.delivery(input),
        Input::StockLevel(input) => terminal.stock_level(input),
    }
}

/// A connection with its statements.
struct Terminal<'a> {
    client: &'a mut Client,
    statements: &'a Statements,
    traces: Option<&'a mut Traces>,
}

impl Terminal<'_> {
    /// What the transaction leaves if it is acknowledged.
    fn leave(&mut self, trace: impl FnOnce() -> Trace) {
        if let Some(traces) = &mut self.traces {
            traces.last = Some(trace());
        }
    }

    fn new_order(&mut self, input: &NewOrder) -> Sql<Ended> {
        let Terminal { client, statements, .. } = self;
        let NewOrder { warehouse: w, district: d, customer: c, .. } = input;
        let tax: i64 = client.query_one(&statements.warehouse_tax, &[w])?.get(0);
        let row = client.query_one(&statements.customer_discount, &[w, d, c])?;
        let discount: i64 = row.get(0);
        let row = client.query_one(&statements.district_next, &[w, d])?;
        let (order, district_tax): (i32, i64) = (row.get(0), row.get(1));
        client.execute(&statements.district_take, &[w, d])?;
        let (count, local) = (input.lines().len() as i32, i32::from(input.is_local()));
        client.execute(&statements.insert_order, &[&order, d, w, c, &count, &local])?;
        client.execute(&statements.insert_new_order, &[&order, d, w])?;
        let mut total = 0;
        for (number, line) in (1_i32..).zip(input.lines()) {
            let Some(item) = client.query_opt(&statements.item, &[&line.item])? else {
                return Ok(Ended::Rollback);
            };
            let amount = item.get::<_, i64>(0) * i64::from(line.quantity);
            total += amount;
            let stock = &statements.stock[*d as usize - 1];
            let row = client.query_one(stock, &[&line.supply, &line.item])?;
            let left = row.get::<_, i32>(0) - line.quantity;
            let left = if left >= 10 { left } else { left + 91 };
            let remote = i32::from(line.supply != *w);
            client.execute(
                &statements.stock_take,
                &[&left, &line.quantity, &remote, &line.supply, &line.item],
            )?;
            let text: &str = row.get(2);
            client.execute(
                &statements.insert_line,
                &[&order, d, w, &number, &line.item, &line.supply, &line.quantity, &amount, &text],
            )?;
        }
        let charge = (10_000 - discount) * (10_000 + tax + district_tax);
        std::hint::black_box(i128::from(total) * i128::from(charge));
        let (key, customer, lines) = ((*w, *d, order), *c, count);
        self.leave(|| Trace::NewOrder(Entered { key, customer, lines, cents: total }));
        Ok(Ended::Commit(Some(key)))
    }

    /// The number of a customer: the middle one of those with a last name.
    fn customer(&mut self, place: (i32, i32), who: &Who) -> Sql<i32> {
        match who {
            Who::Number(number) => Ok(*number),
            Who::LastName(name) => {
                let statement = &self.statements.customers_named;
                let rows = self.client.query(statement, &[&place.0, &place.1, name])?;
                let middle = rows.len().div_ceil(2).saturating_sub(1);
                // Every last name that is drawn has a customer.
                Ok(rows.get(middle).map_or(0, |row: &Row| row.get(0)))
            }
        }
    }

    fn payment(&mut self, input: &Payment) -> Sql<Ended> {
        let Payment { warehouse: w, district: d, amount, .. } = input;
        let (cw, cd) = (input.customer_warehouse, input.customer_district);
        let Terminal { client, statements, .. } = self;
        client.execute(&statements.warehouse_pay, &[amount, w])?;
        let warehouse = client.query_one(&statements.warehouse_address, &[w])?;
        client.execute(&statements.district_pay, &[amount, w, d])?;
        let district = client.query_one(&statements.district_address, &[w, d])?;
        let c = self.customer((cw, cd), &input.who)?;
        let Terminal { client, statements, .. } = self;
        let customer = client.query_one(&statements.customer_paying, &[&cw, &cd, &c])?;
        client.execute(&statements.customer_pay, &[amount, &cw, &cd, &c])?;
        if customer.get::<_, &str>(9) == "BC" {
            let row = client.query_one(&statements.customer_data, &[&cw, &cd, &c])?;
            let (whole, cents, old) = (amount / 100, amount % 100, row.get::<_, &str>(0));
            let mut data = format!("{c} {cd} {cw} {d} {w} {whole}.{cents:02} | {old}");
            data.truncate(500);
            client.execute(&statements.customer_write, &[&data, &cw, &cd, &c])?;
        }
        let names = format!("{}    {}", warehouse.get::<_, &str>(0), district.get::<_, &str>(0));
        let values: [&(dyn postgres::types::ToSql + Sync); 7] =
            [&c, &cd, &cw, d, w, amount, &names];
        match &mut self.traces {
            None => drop(client.execute(&statements.insert_history, &values)?),
            Some(traces) => {
                let micros = client.query_one(&traces.insert_history, &values)?.get(0);
                let (place, customer, cents) = ([*w, *d], [cw, cd, c], *amount);
                traces.last = Some(Trace::Payment(Paid { place, customer, cents, micros }));
            }
        }
        Ok(Ended::Commit(None))
    }

    fn order_status(&mut self, input: &OrderStatus) -> Sql<Ended> {
        let OrderStatus { warehouse: w, district: d, who } = input;
        let c = self.customer((*w, *d), who)?;
        let Terminal { client, statements, .. } = self;
        client.query_one(&statements.customer_asking, &[w, d, &c])?;
        let order: i32 = client.query_one(&statements.last_order, &[w, d, &c])?.get(0);
        client.query(&statements.lines, &[w, d, &order])?;
        Ok(Ended::Commit(None))
    }

    fn delivery(&mut self, input: &Delivery) -> Sql<Ended> {
        let Delivery { warehouse: w, carrier } = input;
        let Terminal { client, statements, .. } = self;
        let mut orders = Vec::new();
        for d in 1..=DISTRICTS {
            // Another delivery may take it first: under READ COMMITTED that is no error.
            let order = loop {
                let Some(row) = client.query_opt(&statements.oldest, &[w, &d])? else {
                    break None;
                };
                let order: i32 = row.get(0);
                if client.execute(&statements.take, &[w, &d, &order])? == 1 {
                    break Some(order);
                }
            };
            let Some(order) = order else { continue };
            let c: i32 = client.query_one(&statements.order_customer, &[w, &d, &order])?.get(0);
            client.execute(&statements.order_carry, &[carrier, w, &d, &order])?;
            client.execute(&statements.lines_deliver, &[w, &d, &order])?;
            let cents: i64 = client.query_one(&statements.lines_sum, &[w, &d, &order])?.get(0);
            client.execute(&statements.customer_owe, &[&cents, w, &d, &c])?;
            orders.push((d, order));
        }
        if !orders.is_empty() {
            self.leave(|| Trace::Delivery(Delivered { warehouse: *w, carrier: *carrier, orders }));
        }
        Ok(Ended::Commit(None))
    }

    fn stock_level(&mut self, input: &StockLevel) -> Sql<Ended> {
        let StockLevel { warehouse: w, district: d, threshold } = input;
        let Terminal { client, statements, .. } = self;
        let next: i32 = client.query_one(&statements.district_order, &[w, d])?.get(0);
        let values: [&(dyn postgres::types::ToSql + Sync); 5] =
            [w, d, &(next - 20), &next, threshold];
        client.query_one(&statements.low_stock, &values)?;
        Ok(Ended::Commit(None))
    }
}
