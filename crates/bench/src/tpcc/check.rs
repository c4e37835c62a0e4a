//! Reads the tables in one snapshot and has the twelve conditions judged.
//!
//! Invariants: reads by scans, not by the indexes that transactions use; changes nothing.

use atoll_kernel::api::{
    Access, ColumnId, Context, Database, Isolation, Parker, Result, RowBuffer, Session, Statement,
    TableEntry, TableLockMode, Target,
};

use super::Size;
use super::facts::{Facts, Verdict};
use super::schema::{
    Tables, customer, district, history, new_order, order_line, orders, warehouse,
};
use super::stored::{decimal, int};

/// Judges the database as it is now.
pub fn check(
    database: &Database,
    size: Size,
    warehouses: i32,
) -> std::result::Result<Verdict, String> {
    let tables = Tables::find(&database.catalog())?;
    let facts =
        database.run(Target::Any, move |context| gather(context, &tables, size, warehouses));
    let facts = facts.and_then(|facts| facts).map_err(|error| error.to_string())?;
    Ok(facts.judge())
}

fn gather(context: &Context, tables: &Tables, size: Size, warehouses: i32) -> Result<Facts> {
    let mut facts = Facts::new(size, warehouses);
    let mut session = Session::new(context.instance());
    let mut transaction = session.begin(context, Isolation::RepeatableRead, Access::ReadOnly)?;
    let mut statement = transaction.statement(&mut session, context)?;
    let statement = &mut statement;
    let columns = [warehouse::W_ID, warehouse::W_YTD];
    scan(statement, &tables.warehouse, &columns, |row| {
        facts.add_warehouse(int(row, 0)?, decimal(row, 1, 2)?);
        Ok(())
    })?;
    let columns = [district::D_W_ID, district::D_ID, district::D_YTD, district::D_NEXT_O_ID];
    scan(statement, &tables.district, &columns, |row| {
        facts.add_district(ints(row)?, decimal(row, 2, 2)?, int(row, 3)?);
        Ok(())
    })?;
    let columns = [
        customer::C_W_ID,
        customer::C_D_ID,
        customer::C_ID,
        customer::C_BALANCE,
        customer::C_YTD_PAYMENT,
        customer::C_DELIVERY_CNT,
    ];
    scan(statement, &tables.customer, &columns, |row| {
        facts.add_customer(ints(row)?, decimal(row, 3, 2)?, decimal(row, 4, 2)?, int(row, 5)?);
        Ok(())
    })?;
    let columns = [
        history::H_C_W_ID,
        history::H_C_D_ID,
        history::H_C_ID,
        history::H_W_ID,
        history::H_D_ID,
        history::H_AMOUNT,
    ];
    scan(statement, &tables.history, &columns, |row| {
        facts.add_history(ints(row)?, [int(row, 3)?, int(row, 4)?], decimal(row, 5, 2)?);
        Ok(())
    })?;
    gather_orders(statement, tables, &mut facts)?;
    Ok(facts)
}

fn gather_orders(statement: &mut Statement<'_>, tables: &Tables, facts: &mut Facts) -> Result<()> {
    let columns = [
        orders::O_W_ID,
        orders::O_D_ID,
        orders::O_ID,
        orders::O_C_ID,
        orders::O_CARRIER_ID,
        orders::O_OL_CNT,
    ];
    scan(statement, &tables.orders, &columns, |row| {
        facts.add_order(ints(row)?, int(row, 3)?, row.column(4).is_some(), int(row, 5)?);
        Ok(())
    })?;
    let columns = [new_order::NO_W_ID, new_order::NO_D_ID, new_order::NO_O_ID];
    scan(statement, &tables.new_order, &columns, |row| {
        facts.add_new_order(ints(row)?);
        Ok(())
    })?;
    let columns = [
        order_line::OL_W_ID,
        order_line::OL_D_ID,
        order_line::OL_O_ID,
        order_line::OL_AMOUNT,
        order_line::OL_DELIVERY_D,
    ];
    scan(statement, &tables.order_line, &columns, |row| {
        facts.add_order_line(ints(row)?, decimal(row, 3, 2)?, row.column(4).is_some());
        Ok(())
    })
}

fn scan(
    statement: &mut Statement<'_>,
    table: &TableEntry,
    columns: &[ColumnId],
    mut with: impl FnMut(&RowBuffer) -> Result<()>,
) -> Result<()> {
    statement.lock_table(table.def.oid, TableLockMode::AccessShare)?;
    let mut cursor = statement.scan(table, columns);
    let mut row = RowBuffer::new();
    while cursor.next(statement, &mut row)?.is_some() {
        with(&row)?;
        let context = statement.context();
        if context.should_yield() {
            context.yield_now();
        }
    }
    Ok(())
}

/// The first columns, all integers.
fn ints<const N: usize>(row: &RowBuffer) -> Result<[i32; N]> {
    let mut all = [0; N];
    for (at, one) in all.iter_mut().enumerate() {
        *one = int(row, at)?;
    }
    Ok(all)
}
