//! Batches of orders over the wire, as prepared statements: one INSERT of all rows, one UPDATE.

use postgres::types::ToSql;
use postgres::{Client, Statement};

use super::{Failed, Shape, Sql, Wire};
use crate::orders::{Batch, Orders, Sums};
use crate::workload::Ended;

/// A connection's.
pub struct Statements {
    insert: Statement,
    pay: Statement,
}

impl Wire for Orders {
    type Statements = Statements;

    fn prepare(&self, client: &mut Client) -> Sql<Statements> {
        // The merchant and the text are the same for all rows.
        let row = |at| format!("(${}, $1, ${}, $2)", at * 2 + 3, at * 2 + 4);
        let rows: Vec<String> = (0..self.batch()).map(row).collect();
        let insert = format!(
            "insert into merchant_order (order_id, merchant_id, amount, detail) values {}",
            rows.join(", ")
        );
        let pay = "update merchant set orders = orders + $1, balance = balance + $2 \
                   where merchant_id = $3";
        Ok(Statements { insert: client.prepare(&insert)?, pay: client.prepare(pay)? })
    }

    fn shape(_: &Batch) -> Shape {
        Shape::Block
    }

    fn execute(
        client: &mut Client,
        statements: &mut Statements,
        input: &Batch,
    ) -> Sql<Ended<Sums>> {
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&input.merchant, &input.text];
        for (order, amount) in &input.orders {
            values.push(order);
            values.push(amount);
        }
        client.execute(&statements.insert, &values)?;
        let sums = input.sums();
        match client.execute(&statements.pay, &[&sums.orders, &sums.amount, &input.merchant])? {
            1 => Ok(Ended::Commit(Some(sums))),
            rows => Err(Failed::Answer(format!("{rows} merchants {}", input.merchant))),
        }
    }
}
