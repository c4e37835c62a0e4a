//! TATP over the wire, as single prepared statements.
//!
//! Invariants: what the description says in one statement commits by itself. A row that is there
//! already (23505) makes an insert fail, which rolls it back.

use postgres::{Client, Statement};

use super::{Failed, Shape, Sql, Wire};
use crate::tatp::{Input, Kind, Tatp};
use crate::workload::Ended;

/// A connection's.
pub struct Statements {
    subscriber: Statement,
    destination: Statement,
    access: Statement,
    bit: Statement,
    data: Statement,
    location: Statement,
    number: Statement,
    facilities: Statement,
    insert: Statement,
    delete: Statement,
}

impl Wire for Tatp {
    type Statements = Statements;

    fn prepare(&self, client: &mut Client) -> Sql<Statements> {
        Ok(Statements {
            subscriber: client.prepare("select * from subscriber where s_id = $1")?,
            destination: client.prepare(
                "select cf.numberx from special_facility sf, call_forwarding cf \
                 where sf.s_id = $1 and sf.sf_type = $2 and sf.is_active = 1 \
                 and cf.s_id = sf.s_id and cf.sf_type = sf.sf_type \
                 and cf.start_time <= $3 and $4 < cf.end_time",
            )?,
            access: client.prepare(
                "select data1, data2, data3, data4 from access_info \
                 where s_id = $1 and ai_type = $2",
            )?,
            bit: client.prepare("update subscriber set bit_1 = $1 where s_id = $2")?,
            data: client.prepare(
                "update special_facility set data_a = $1 where s_id = $2 and sf_type = $3",
            )?,
            location: client
                .prepare("update subscriber set vlr_location = $1 where sub_nbr = $2")?,
            number: client.prepare("select s_id from subscriber where sub_nbr = $1")?,
            facilities: client.prepare("select sf_type from special_facility where s_id = $1")?,
            insert: client.prepare("insert into call_forwarding values ($1, $2, $3, $4, $5)")?,
            delete: client.prepare(
                "delete from call_forwarding where s_id = $1 and sf_type = $2 and start_time = $3",
            )?,
        })
    }

    fn shape(input: &Input) -> Shape {
        match input.kind() {
            Kind::GetSubscriberData
            | Kind::GetNewDestination
            | Kind::GetAccessData
            | Kind::UpdateLocation => Shape::Statement,
            _ => Shape::Block,
        }
    }

    fn execute(client: &mut Client, statements: &mut Statements, input: &Input) -> Sql<Ended<i64>> {
        let or_fail = |found: bool, mark| if found { Ended::Commit(mark) } else { Ended::Rollback };
        let one = |rows: u64| match rows {
            1 => Ok(()),
            _ => Err(Failed::Answer(format!("{rows} subscribers have a number"))),
        };
        match input {
            Input::GetSubscriberData { s_id } => {
                Ok(or_fail(!client.query(&statements.subscriber, &[s_id])?.is_empty(), None))
            }
            Input::GetNewDestination { s_id, sf_type, start_time, end_time } => {
                let found = client
                    .query(&statements.destination, &[s_id, sf_type, start_time, end_time])?;
                Ok(or_fail(!found.is_empty(), None))
            }
            Input::GetAccessData { s_id, ai_type } => {
                Ok(or_fail(!client.query(&statements.access, &[s_id, ai_type])?.is_empty(), None))
            }
            Input::UpdateSubscriberData { s_id, bit_1, sf_type, data_a } => {
                one(client.execute(&statements.bit, &[bit_1, s_id])?)?;
                let set = client.execute(&statements.data, &[data_a, s_id, sf_type])?;
                Ok(or_fail(set == 1, None))
            }
            Input::UpdateLocation { sub_nbr, vlr_location } => {
                one(client.execute(&statements.location, &[vlr_location, sub_nbr])?)?;
                Ok(Ended::Commit(None))
            }
            Input::InsertCallForwarding { sub_nbr, sf_type, start_time, end_time, numberx } => {
                let s_id: i32 = client.query_one(&statements.number, &[sub_nbr])?.get(0);
                let facilities = client.query(&statements.facilities, &[&s_id])?;
                if !facilities.iter().any(|row| row.get::<_, i16>(0) == *sf_type) {
                    return Ok(Ended::Rollback);
                }
                let row: [&(dyn postgres::types::ToSql + Sync); 5] =
                    [&s_id, sf_type, start_time, end_time, numberx];
                match client.execute(&statements.insert, &row).map_err(Failed::from) {
                    Ok(_) => Ok(Ended::Commit(Some(1))),
                    Err(error) if error.is("23505") => Ok(Ended::Rollback),
                    Err(error) => Err(error),
                }
            }
            Input::DeleteCallForwarding { sub_nbr, sf_type, start_time } => {
                let s_id: i32 = client.query_one(&statements.number, &[sub_nbr])?.get(0);
                let gone = client.execute(&statements.delete, &[&s_id, sf_type, start_time])?;
                Ok(or_fail(gone == 1, Some(-1)))
            }
        }
    }
}
