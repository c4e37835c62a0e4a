//! TPC-C over the wire, against any PostgreSQL-compatible server: the inputs of `tpcc`, sent as
//! single prepared statements.
//!
//! Invariants: the check reads the tables in one snapshot and judges as the native one does.

mod check;
mod procedures;
mod statements;

use postgres::Client;

use super::{Result, Shape, Sql, Wire};
use crate::tpcc::{Input, OrderKey, Tpcc};
use crate::workload::{Checked, Ended, Loaded};
use statements::Statements;

pub use check::{check, orders};

impl Wire for Tpcc {
    type Statements = Statements;

    fn prepare(&self, client: &mut Client) -> Sql<Statements> {
        Ok(Statements::prepare(client)?)
    }

    fn shape(_: &Input) -> Shape {
        Shape::Block
    }

    fn execute(
        client: &mut Client,
        statements: &Statements,
        input: &Input,
    ) -> Sql<Ended<OrderKey>> {
        procedures::run(client, statements, input)
    }

    fn look_remotely(&self, client: &mut Client, loaded: &Loaded) -> Result<()> {
        // What was loaded just now is judged at the end.
        if loaded.rows > 0 { Ok(()) } else { self.verify_remotely(client, &(), &()).map(drop) }
    }

    fn verify_remotely(&self, client: &mut Client, (): &(), (): &()) -> Result<Checked> {
        self.checked(&check(client, self.size, self.warehouses)?)
    }
}
