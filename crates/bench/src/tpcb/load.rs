//! The four tables, loaded by frozen inserts and indexed afterwards, as pgbench does.

use std::sync::Arc;
use std::time::Instant;

use atoll_kernel::api::{
    Access, Catalog, ColumnDef, ColumnId, ColumnType, Context, Database, Direction, Error,
    IndexColumn, IndexKind, Isolation, NewIndex, NewTable, Nulls, Oid, PUBLIC_NAMESPACE, Result,
    Session, Statement, TableEntry, Target,
};

use super::{ACCOUNTS, TELLERS};
use crate::native::table as named;

/// The tables, as transactions use them.
#[derive(Clone)]
pub struct Tables {
    pub accounts: Arc<TableEntry>,
    pub tellers: Arc<TableEntry>,
    pub branches: Arc<TableEntry>,
    pub history: Arc<TableEntry>,
}

impl Tables {
    /// Looks them up; an error names what is not there, or is another's.
    pub fn find(catalog: &Catalog) -> std::result::Result<Tables, String> {
        let table = |name: &str, column: &str| {
            let found = named(catalog, name)?;
            match found.def.column(column) {
                Some(_) => Ok(found),
                None => Err(format!("table {name} has no column {column}")),
            }
        };
        Ok(Tables {
            accounts: table("accounts", "abalance")?,
            tellers: table("tellers", "tbalance")?,
            branches: table("branches", "bbalance")?,
            history: table("history", "delta")?,
        })
    }
}

/// Loads; answers the tables and rows a second.
pub fn load(database: &Database, scale: u64, say: &mut dyn FnMut(&str)) -> Result<(Tables, f64)> {
    say(&format!("loading {} accounts", scale * ACCOUNTS));
    let began = Instant::now();
    database.run(Target::Any, |context| load_on(context, scale))??;
    let rate = (scale * (ACCOUNTS + TELLERS + 1)) as f64 / began.elapsed().as_secs_f64();
    let tables = Tables::find(&database.catalog());
    Ok((tables.map_err(|detail| Error::Internal { detail })?, rate))
}

fn load_on(context: &Context, scale: u64) -> Result<()> {
    let mut session = Session::new(context.instance());
    let mut transaction = session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
    let mut statement = transaction.statement(&mut session, context)?;
    let numbers = |names: &[&str]| -> Vec<ColumnDef> {
        names.iter().map(|name| ColumnDef::plain(name, ColumnType::Int4)).collect()
    };
    let filled = |names: &[&str]| {
        let mut columns = numbers(names);
        columns.push(ColumnDef::plain("filler", ColumnType::Bytes));
        columns
    };
    let branches = table(&mut statement, "branches", filled(&["bid", "bbalance"]))?;
    fill(&mut statement, branches, 0..scale, |bid| [bid + 1, 0, 0], 2, &[b' '; 88])?;
    let tellers = table(&mut statement, "tellers", filled(&["tid", "bid", "tbalance"]))?;
    let teller = |tid| [tid + 1, tid / TELLERS + 1, 0];
    fill(&mut statement, tellers, 0..scale * TELLERS, teller, 3, &[b' '; 84])?;
    let accounts = table(&mut statement, "accounts", filled(&["aid", "bid", "abalance"]))?;
    let account = |aid| [aid + 1, aid / ACCOUNTS + 1, 0];
    fill(&mut statement, accounts, 0..scale * ACCOUNTS, account, 3, &[b' '; 84])?;
    let mut columns = numbers(&["tid", "bid", "aid", "delta"]);
    columns.push(ColumnDef::plain("mtime", ColumnType::Int8));
    columns.push(ColumnDef::plain("filler", ColumnType::Bytes));
    table(&mut statement, "history", columns)?;
    for (table, name) in
        [(branches, "branches_pkey"), (tellers, "tellers_pkey"), (accounts, "accounts_pkey")]
    {
        let column = IndexColumn {
            column: ColumnId(0),
            direction: Direction::Ascending,
            nulls: Nulls::Last,
        };
        let name = name.to_owned();
        let columns = vec![column];
        statement.create_index(NewIndex { table, name, columns, kind: IndexKind::Primary })?;
    }
    drop(statement);
    transaction.commit(&mut session, context)?;
    session.settle(context)
}

fn table(statement: &mut Statement<'_>, name: &str, columns: Vec<ColumnDef>) -> Result<Oid> {
    let name = name.to_owned();
    let new = NewTable { namespace: PUBLIC_NAMESPACE, name, columns, options: Vec::new() };
    statement.create_table(new)
}

fn fill(
    statement: &mut Statement<'_>,
    table: Oid,
    keys: std::ops::Range<u64>,
    row: impl Fn(u64) -> [u64; 3],
    numbers: usize,
    filler: &[u8],
) -> Result<()> {
    use atoll_kernel::api::Parker;
    let table = statement.table(table)?;
    for key in keys {
        let parts = row(key).map(|part| (part as i32).to_le_bytes());
        let mut values: Vec<Option<&[u8]>> =
            parts[..numbers].iter().map(|part| Some(&part[..])).collect();
        values.push(Some(filler));
        statement.insert_frozen(&table, &values)?;
        let context = statement.context();
        if context.should_yield() {
            context.yield_now();
        }
    }
    Ok(())
}
