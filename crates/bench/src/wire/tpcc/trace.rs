//! What an acknowledged transaction leaves to be found again, as a line of a record.
//!
//! Invariants: a line is read as what was written. What it names no other transaction has: an
//! order's number, an order's delivery, a payment's time beside its customer and its amount (equal
//! ones are counted). Those that only read leave nothing, and so does a Delivery that found no order.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use crate::tpcc::OrderKey;

/// A transaction's trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trace {
    /// An order was entered.
    NewOrder(Entered),
    /// A customer paid.
    Payment(Paid),
    /// Orders were delivered.
    Delivery(Delivered),
}

/// An order that was entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entered {
    /// The order.
    pub key: OrderKey,
    /// Who ordered.
    pub customer: i32,
    /// Its lines.
    pub lines: i32,
    /// The sum of their amounts.
    pub cents: i64,
}

/// A row of history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Paid {
    /// Where: warehouse, district.
    pub place: [i32; 2],
    /// Who: warehouse, district, number.
    pub customer: [i32; 3],
    /// How much.
    pub cents: i64,
    /// When, by the server's clock, in microseconds since 1970.
    pub micros: i64,
}

/// Orders that were delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// Their warehouse.
    pub warehouse: i32,
    /// Who carried them.
    pub carrier: i32,
    /// Districts and numbers, at least one.
    pub orders: Vec<(i32, i32)>,
}

impl Delivered {
    /// The orders.
    pub fn keys(&self) -> impl Iterator<Item = OrderKey> {
        self.orders.iter().map(|(district, order)| (self.warehouse, *district, *order))
    }
}

impl Display for Trace {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Trace::NewOrder(Entered { key: (w, d, o), customer, lines, cents }) => {
                write!(f, "new-order {w} {d} {o} customer {customer} lines {lines} cents {cents}")
            }
            Trace::Payment(Paid { place: [w, d], customer: [cw, cd, c], cents, micros }) => {
                write!(f, "payment {w} {d} customer {cw} {cd} {c} cents {cents} at {micros}")
            }
            Trace::Delivery(Delivered { warehouse, carrier, orders }) => {
                write!(f, "delivery {warehouse} carrier {carrier} orders")?;
                orders.iter().try_for_each(|(d, o)| write!(f, " {d} {o}"))
            }
        }
    }
}

impl FromStr for Trace {
    type Err = String;

    fn from_str(line: &str) -> Result<Trace, String> {
        let trace = read(line).filter(|trace| trace.to_string() == line);
        trace.ok_or_else(|| format!("\"{line}\" is no transaction's trace"))
    }
}

/// Takes words for granted: the caller compares.
fn read(line: &str) -> Option<Trace> {
    let numbers: Vec<i64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let int = |at: usize| i32::try_from(*numbers.get(at)?).ok();
    Some(match line.split(' ').next()? {
        "new-order" => Trace::NewOrder(Entered {
            key: (int(0)?, int(1)?, int(2)?),
            customer: int(3)?,
            lines: int(4)?,
            cents: *numbers.get(5)?,
        }),
        "payment" => Trace::Payment(Paid {
            place: [int(0)?, int(1)?],
            customer: [int(2)?, int(3)?, int(4)?],
            cents: *numbers.get(5)?,
            micros: *numbers.get(6)?,
        }),
        "delivery" => {
            let orders = (2..numbers.len()).step_by(2).map(|at| Some((int(at)?, int(at + 1)?)));
            let orders: Vec<(i32, i32)> = orders.collect::<Option<_>>()?;
            (!orders.is_empty()).then_some(())?;
            Trace::Delivery(Delivered { warehouse: int(0)?, carrier: int(1)?, orders })
        }
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        for line in [
            "new-order 1 3 3001 customer 17 lines 11 cents 45812",
            "payment 1 3 customer 2 5 17 cents 1234 at 1795592631123456",
            "delivery 1 carrier 7 orders 1 2101",
            "delivery 1 carrier 7 orders 1 2101 2 2099",
        ] {
            assert_eq!(line.parse::<Trace>().unwrap().to_string(), line);
        }
        for line in [
            "",
            "new-order 1 3 3001 customer 17 lines 11 cents",
            "new-order 1 3 3001 customer 17 lines 11 cents 45812 1",
            "new-order 1 3 3001 customer 17 lines 99999999999 cents 45812",
            "payment 1 3 customer 2 5 17 cents 1234 at",
            "payment 1 3 buyer 2 5 17 cents 1234 at 7",
            "delivery 1 carrier 7 orders",
            "delivery 1 carrier 7 orders 1",
            "order-status 1 2 3",
        ] {
            assert!(line.parse::<Trace>().is_err_and(|it| it.contains("is no trans")), "{line}");
        }
    }
}
