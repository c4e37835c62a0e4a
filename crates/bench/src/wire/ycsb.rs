//! YCSB over the wire, as single prepared statements.
//!
//! Invariants: a read, update, insert or scan alone commits by itself; a read-modify-write, or
//! several operations, go between BEGIN and COMMIT. A record that is not there is an error.

use postgres::types::ToSql;
use postgres::{Client, Statement};

use super::{Failed, Shape, Sql, Wire};
use crate::workload::Ended;
use crate::ycsb::{Change, FIELDS, KeyForm, Operation, Ycsb, fields, text_key};

/// A connection's.
pub struct Statements {
    form: KeyForm,
    read: Statement,
    updates: Vec<Statement>,
    insert: Statement,
    scan: Statement,
}

/// A record's key, as a parameter.
enum Key {
    Number(i64),
    Text(String),
}

impl Key {
    fn new(form: KeyForm, record: u64) -> Key {
        match form {
            KeyForm::Number => Key::Number(record.cast_signed()),
            KeyForm::Text => {
                let mut text = String::new();
                text_key(record, &mut text);
                Key::Text(text)
            }
        }
    }

    fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Key::Number(number) => number,
            Key::Text(text) => text,
        }
    }
}

impl Wire for Ycsb {
    type Statements = Statements;

    fn prepare(&self, client: &mut Client) -> Sql<Statements> {
        let update = |field| format!("update usertable set field{field} = $1 where ycsb_key = $2");
        let places: Vec<String> = (1..=FIELDS + 1).map(|place| format!("${place}")).collect();
        let updates: Result<Vec<Statement>, postgres::Error> =
            (0..FIELDS).map(|field| client.prepare(&update(field))).collect();
        Ok(Statements {
            form: self.settings().key,
            read: client.prepare("select * from usertable where ycsb_key = $1")?,
            updates: updates?,
            insert: client
                .prepare(&format!("insert into usertable values ({})", places.join(", ")))?,
            scan: client.prepare(
                "select * from usertable where ycsb_key >= $1 order by ycsb_key limit $2",
            )?,
        })
    }

    fn shape(input: &Vec<Operation>) -> Shape {
        match input.as_slice() {
            [Operation::ReadModifyWrite(..)] => Shape::Block,
            [_] => Shape::Statement,
            _ => Shape::Block,
        }
    }

    fn execute(
        client: &mut Client,
        statements: &mut Statements,
        input: &Vec<Operation>,
    ) -> Sql<Ended<u64>> {
        let mut added = 0;
        for operation in input {
            operate(client, statements, operation)?;
            added += u64::from(matches!(operation, Operation::Insert(..)));
        }
        Ok(Ended::Commit((added > 0).then_some(added)))
    }
}

fn operate(client: &mut Client, statements: &Statements, operation: &Operation) -> Sql<()> {
    let key = |record: &u64| Key::new(statements.form, *record);
    let one = |rows: u64, record: &u64| match rows {
        1 => Ok(()),
        _ => Err(Failed::Answer(format!("{rows} rows have the key of record {record}"))),
    };
    let read = |client: &mut Client, record: &u64| {
        let rows = client.query(&statements.read, &[key(record).parameter()])?;
        one(rows.len() as u64, record)
    };
    let update = |client: &mut Client, record: &u64, change: &Change| {
        let update = &statements.updates[change.field];
        one(client.execute(update, &[&change.value, key(record).parameter()])?, record)
    };
    match operation {
        Operation::Read(record) => read(client, record),
        Operation::Update(record, change) => update(client, record, change),
        Operation::Insert(record, row) => {
            let (key, fields): (Key, Vec<&str>) = (key(record), fields(row).collect());
            let mut values = vec![key.parameter()];
            values.extend(fields.iter().map(|field| field as &(dyn ToSql + Sync)));
            one(client.execute(&statements.insert, &values)?, record)
        }
        Operation::Scan(record, count) => {
            let rows = client.query(&statements.scan, &[key(record).parameter(), count])?;
            match rows.len() {
                0 => one(0, record),
                _ => Ok(()),
            }
        }
        Operation::ReadModifyWrite(record, change) => {
            read(client, record)?;
            update(client, record, change)
        }
    }
}
