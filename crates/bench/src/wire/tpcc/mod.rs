//! TPC-C over the wire, against any PostgreSQL-compatible server: the inputs of `tpcc`, sent as
//! single prepared statements.
//!
//! Invariants: the statements are the same whether traces are kept or not, but that a payment's
//! row then answers its time. The check reads the tables in one snapshot and judges as the native one does.

mod check;
mod procedures;
mod statements;
mod trace;
mod verify;

use postgres::{Client, Statement};

use super::{Near, Result, Shape, Sql, ToldBy, Wire, routing};
use crate::tpcc::{Affinity, Input, OrderKey, Tpcc};
use crate::workload::{Checked, Ended, Loaded};
use statements::Statements;
use trace::Trace;

pub use check::{check, orders};
pub use verify::{Found, verify};

/// What a connection has: statements, and what its last transaction has left.
pub struct Prepared {
    statements: Statements,
    traces: Option<Traces>,
}

/// Kept only if they are asked for.
struct Traces {
    /// Puts a payment down, as `Statements::insert_history`, and answers its time.
    insert_history: Statement,
    last: Option<Trace>,
}

impl Wire for Tpcc {
    type Statements = Prepared;

    fn prepare(&self, client: &mut Client) -> Sql<Prepared> {
        Ok(Prepared { statements: Statements::prepare(client)?, traces: None })
    }

    fn shape(_: &Input) -> Shape {
        Shape::Block
    }

    fn execute(
        client: &mut Client,
        prepared: &mut Prepared,
        input: &Input,
    ) -> Sql<Ended<OrderKey>> {
        procedures::run(client, prepared, input)
    }

    fn near(&self, client: u64) -> Option<Near> {
        let told_by = match self.affinity {
            Affinity::Home | Affinity::None => return None,
            Affinity::Table => ToldBy::Tables,
            Affinity::Hint => ToldBy::Client,
        };
        Some(Near { key: self.home(client).into(), told_by })
    }

    fn check_tables(&self, client: &mut Client) -> Result<()> {
        routing::check_tables(client, self)
    }

    fn keep_traces(client: &mut Client, prepared: &mut Prepared) -> Sql<()> {
        let text = format!(
            "{} returning (extract(epoch from h_date) * 1000000)::int8",
            statements::INSERT_HISTORY
        );
        prepared.traces = Some(Traces { insert_history: client.prepare(&text)?, last: None });
        Ok(())
    }

    fn take_trace(prepared: &mut Prepared) -> Option<String> {
        let trace = prepared.traces.as_mut()?.last.take()?;
        Some(trace.to_string())
    }

    fn look_remotely(&self, client: &mut Client, loaded: &Loaded) -> Result<()> {
        // What was loaded just now is judged at the end.
        if loaded.rows > 0 { Ok(()) } else { self.verify_remotely(client, &(), &()).map(drop) }
    }

    fn verify_remotely(&self, client: &mut Client, (): &(), (): &()) -> Result<Checked> {
        self.checked(&check(client, self.size, self.warehouses)?)
    }
}
