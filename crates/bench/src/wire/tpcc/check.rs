//! Reads the tables over the wire, in one snapshot, and has the twelve conditions judged.
//!
//! Invariants: COPY in text form, so any server can be asked, also while transactions run.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};

use postgres::{Client, IsolationLevel, Transaction};

use super::super::{Result, message};
use crate::tpcc::{Facts, OrderKey, Size, Verdict};

/// Judges the tables.
pub fn check(client: &mut Client, size: Size, warehouses: i32) -> Result<Verdict> {
    let mut facts = Facts::new(size, warehouses);
    let mut snapshot = begin(client)?;
    let transaction = &mut snapshot;
    rows(transaction, "warehouse (w_id, w_ytd)", |row| {
        facts.add_warehouse(int(row, 0)?, cents(row, 1)?);
        Some(())
    })?;
    rows(transaction, "district (d_w_id, d_id, d_ytd, d_next_o_id)", |row| {
        facts.add_district(ints(row)?, cents(row, 2)?, int(row, 3)?);
        Some(())
    })?;
    let columns = "customer (c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, c_delivery_cnt)";
    rows(transaction, columns, |row| {
        facts.add_customer(ints(row)?, cents(row, 3)?, cents(row, 4)?, int(row, 5)?);
        Some(())
    })?;
    let columns = "history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_amount)";
    rows(transaction, columns, |row| {
        facts.add_history(ints(row)?, [int(row, 3)?, int(row, 4)?], cents(row, 5)?);
        Some(())
    })?;
    let columns = "orders (o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt)";
    rows(transaction, columns, |row| {
        facts.add_order(ints(row)?, int(row, 3)?, row.get(4)? != &"\\N", int(row, 5)?);
        Some(())
    })?;
    rows(transaction, "new_order (no_w_id, no_d_id, no_o_id)", |row| {
        facts.add_new_order(ints(row)?);
        Some(())
    })?;
    let columns = "order_line (ol_w_id, ol_d_id, ol_o_id, ol_amount, ol_delivery_d)";
    rows(transaction, columns, |row| {
        facts.add_order_line(ints(row)?, cents(row, 3)?, row.get(4)? != &"\\N");
        Some(())
    })?;
    snapshot.rollback().map_err(|error| message(&error))?;
    Ok(facts.judge())
}

/// All orders that are there.
pub fn orders(client: &mut Client) -> Result<HashSet<OrderKey>> {
    let mut found = HashSet::new();
    let mut snapshot = begin(client)?;
    rows(&mut snapshot, "orders (o_w_id, o_d_id, o_id)", |row| {
        let [w, d, o] = ints(row)?;
        found.insert((w, d, o));
        Some(())
    })?;
    snapshot.rollback().map_err(|error| message(&error))?;
    Ok(found)
}

/// A snapshot of all tables.
pub(super) fn begin(client: &mut Client) -> Result<Transaction<'_>> {
    let builder = client.build_transaction();
    let begun = builder.isolation_level(IsolationLevel::RepeatableRead).read_only(true).start();
    begun.map_err(|error| message(&error))
}

/// Calls `with` with the columns of every row of a table or query; it answers none for a row that it cannot read.
pub(super) fn rows(
    transaction: &mut Transaction<'_>,
    columns: &str,
    mut with: impl FnMut(&[&str]) -> Option<()>,
) -> Result<()> {
    let failed = |error: postgres::Error| format!("reading {columns}: {}", message(&error));
    let reader = transaction.copy_out(&format!("copy {columns} to stdout")).map_err(failed)?;
    for line in BufReader::with_capacity(1 << 16, reader).lines() {
        let line = line.map_err(|error| format!("reading {columns}: {error}"))?;
        let mut row = [""; 7];
        let mut count = 0;
        for (place, column) in row.iter_mut().zip(line.split('\t')) {
            *place = column;
            count += 1;
        }
        with(&row[..count]).ok_or_else(|| format!("reading {columns}: \"{line}\""))?;
    }
    Ok(())
}

/// The number in a column.
pub(super) fn int(row: &[&str], column: usize) -> Option<i32> {
    row.get(column)?.parse().ok()
}

/// The numbers in the first columns.
pub(super) fn ints<const N: usize>(row: &[&str]) -> Option<[i32; N]> {
    let mut all = [0; N];
    for (at, one) in all.iter_mut().enumerate() {
        *one = int(row, at)?;
    }
    Some(all)
}

/// "-12.30" as -1230.
pub(super) fn cents(row: &[&str], column: usize) -> Option<i64> {
    let text = row.get(column)?;
    let (whole, part) = text.split_once('.').unwrap_or((text, "00"));
    let (value, part): (i64, i64) = (whole.parse().ok()?, part.get(..2)?.parse().ok()?);
    Some(if text.starts_with('-') { value * 100 - part } else { value * 100 + part })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_to_the_cent() {
        let row = ["-10.00", "0.07", "-0.07", "300000", "x"];
        let read: Vec<Option<i64>> = (0..5).map(|column| cents(&row, column)).collect();
        assert_eq!(read, [Some(-1000), Some(7), Some(-7), Some(30_000_000), None]);
    }
}
