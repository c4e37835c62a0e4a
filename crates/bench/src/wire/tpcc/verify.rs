//! Looks for every acknowledged transaction of records, in one snapshot.
//!
//! Invariants: each is found whole or is named. An order has its customer, its lines and their sum,
//! and is new or has a carrier; a delivered order has the carrier who took it, is not new, and all of
//! its lines have a date; a payment has a row of history of its own. What two acknowledged
//! transactions cannot both have done (an order of the same number, a delivery of the same order) is
//! named as well. Transactions that nobody was told of may be there; balances are the conditions' to judge.

use std::collections::HashMap;
use std::path::PathBuf;

use postgres::Client;

use super::super::{Record, Result, message};
use super::check::{begin, cents, int, ints, rows};
use super::trace::{Delivered, Entered, Paid, Trace};
use crate::tpcc::{OrderKey, Tpcc};
use crate::workload::Workload;

/// What was looked for, and what is not there.
#[derive(Debug, Default)]
pub struct Found {
    /// New-Orders, Payments and Deliveries that were looked for.
    pub acknowledged: [u64; 3],
    /// Those that are not there whole, each with its place in its file and what is wrong.
    pub lost: Vec<String>,
}

/// An order's rows.
#[derive(Default)]
struct Order {
    /// Customer, carrier and number of lines by its own row.
    row: Option<(i32, Option<i32>, i32)>,
    is_new: bool,
    lines: i32,
    lines_delivered: i32,
    cents: i64,
    /// Places of the transactions that say they entered it, and delivered it.
    entered: Option<String>,
    delivered: Option<String>,
}

type Orders = HashMap<OrderKey, Order>;

/// Looks for all transactions of these files.
pub fn verify(client: &mut Client, files: &[PathBuf]) -> Result<Found> {
    let mut traces = Vec::new();
    for file in files {
        for (place, line) in Record::read(file, Tpcc::NAME)? {
            let trace: Trace = line.parse().map_err(|error| format!("{place}: {error}"))?;
            traces.push((place, trace));
        }
    }
    let (mut orders, mut payments) = (Orders::new(), HashMap::new());
    for (_, trace) in &traces {
        match trace {
            Trace::NewOrder(entered) => orders.extend([(entered.key, Order::default())]),
            Trace::Delivery(it) => orders.extend(it.keys().map(|key| (key, Order::default()))),
            Trace::Payment(paid) => payments.extend([(*paid, 0)]),
        }
    }
    look(client, &mut orders, &mut payments)?;
    let mut found = Found::default();
    for (place, trace) in &traces {
        let (kind, wrong) = match trace {
            Trace::NewOrder(entered) => (0, of_entered(entered, &mut orders, place)),
            Trace::Payment(paid) => (1, of_paid(paid, &mut payments)),
            Trace::Delivery(delivered) => (2, of_delivered(delivered, &mut orders, place)),
        };
        found.acknowledged[kind] += 1;
        if let Some(wrong) = wrong {
            found.lost.push(format!("{place}: {trace}: {wrong}"));
        }
    }
    Ok(found)
}

/// Reads what the tables have of these orders and payments.
fn look(client: &mut Client, orders: &mut Orders, payments: &mut HashMap<Paid, u64>) -> Result<()> {
    let mut snapshot = begin(client)?;
    let columns = "orders (o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt)";
    rows(&mut snapshot, columns, |row| {
        let (customer, carrier, lines) = (int(row, 3)?, row.get(4)?, int(row, 5)?);
        let carrier = if *carrier == "\\N" { None } else { Some(carrier.parse().ok()?) };
        if let Some(order) = orders.get_mut(&key(row)?) {
            order.row = Some((customer, carrier, lines));
        }
        Some(())
    })?;
    rows(&mut snapshot, "new_order (no_w_id, no_d_id, no_o_id)", |row| {
        if let Some(order) = orders.get_mut(&key(row)?) {
            order.is_new = true;
        }
        Some(())
    })?;
    let columns = "order_line (ol_w_id, ol_d_id, ol_o_id, ol_amount, ol_delivery_d)";
    rows(&mut snapshot, columns, |row| {
        if let Some(order) = orders.get_mut(&key(row)?) {
            order.lines += 1;
            order.lines_delivered += i32::from(row.get(4)? != &"\\N");
            order.cents += cents(row, 3)?;
        }
        Some(())
    })?;
    let columns = "(select h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_amount, \
         (extract(epoch from h_date) * 1000000)::int8 from history)";
    rows(&mut snapshot, columns, |row| {
        let [w, d, cw, cd, c] = ints(row)?;
        let (cents, micros) = (cents(row, 5)?, row.get(6)?.parse().ok()?);
        let paid = Paid { place: [w, d], customer: [cw, cd, c], cents, micros };
        payments.entry(paid).and_modify(|rows| *rows += 1);
        Some(())
    })?;
    snapshot.rollback().map_err(|error| message(&error))
}

fn key(row: &[&str]) -> Option<OrderKey> {
    let [w, d, o] = ints(row)?;
    Some((w, d, o))
}

/// What is wrong with an order that was entered, if anything is.
fn of_entered(entered: &Entered, orders: &mut Orders, place: &str) -> Option<String> {
    let order = orders.entry(entered.key).or_default();
    if let Some(other) = order.entered.replace(place.to_owned()) {
        return Some(format!("{other} has entered that order, too"));
    }
    let Some((customer, carrier, lines)) = order.row else {
        return Some("there is no such order".to_owned());
    };
    let is = (customer, lines, order.cents);
    if is != (entered.customer, entered.lines, entered.cents) {
        let (customer, lines, cents) = is;
        return Some(format!("it is of customer {customer}, lines {lines}, cents {cents}"));
    }
    if order.lines != lines {
        return Some(format!("{} of its lines are there", order.lines));
    }
    (order.is_new == carrier.is_some())
        .then(|| "it is neither new nor delivered, or both".to_owned())
}

/// What is wrong with a payment, if anything is; takes its row.
fn of_paid(paid: &Paid, payments: &mut HashMap<Paid, u64>) -> Option<String> {
    let rows = payments.entry(*paid).or_default();
    match rows.checked_sub(1) {
        Some(left) => {
            *rows = left;
            None
        }
        None => Some("history has no such row".to_owned()),
    }
}

/// What is wrong with the first order of a delivery with which something is.
fn of_delivered(delivered: &Delivered, orders: &mut Orders, place: &str) -> Option<String> {
    delivered.keys().find_map(|key| {
        let order = orders.entry(key).or_default();
        let wrong = match (order.delivered.replace(place.to_owned()), order.row) {
            (Some(other), _) => format!("{other} has delivered it, too"),
            (None, None) => "it is not there".to_owned(),
            (None, Some((_, None, _))) => "nobody carries it".to_owned(),
            (None, Some((_, Some(carrier), _))) if carrier != delivered.carrier => {
                format!("carrier {carrier} has it")
            }
            (None, Some(_)) if order.is_new => "it is still new".to_owned(),
            (None, Some((_, _, lines))) if order.lines_delivered != lines => {
                format!("{} of its {lines} lines are delivered", order.lines_delivered)
            }
            (None, Some(_)) => return None,
        };
        Some(format!("order {} of district {}: {wrong}", key.2, key.1))
    })
}
