//! The twelve consistency conditions (clause 3.3.2), judged on what the tables hold.
//!
//! Invariants: rows come in any order, from one snapshot, by whatever way they were read (native
//! cursors or a server's SQL); nothing is judged before all are there. Money is in cents.
//! Condition 11 counts, besides the orders that loading delivered, those that customers had
//! delivered since: the sum of c_delivery_cnt.

use super::Size;
use super::inputs::DISTRICTS;

/// Order numbers beyond this are damage.
const ORDER_MAX: i32 = 200_000_000;
/// So many breaches of one condition are described.
const DESCRIBED_MAX: usize = 3;

/// A broken condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// 1 to 12; 0 for a row that belongs nowhere.
    pub condition: u8,
    /// Where, and what was found.
    pub detail: String,
}

impl std::fmt::Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "consistency condition {}: {}", self.condition, self.detail)
    }
}

/// The verdict on a database.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What is broken; a few of each condition.
    pub breaches: Vec<Breach>,
    /// How many breaches there are of each condition; those of 0 first.
    pub counts: [u64; 13],
    /// Rows that were looked at.
    pub rows: u64,
}

impl Verdict {
    /// Whether all twelve conditions hold.
    pub fn is_good(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    fn add(&mut self, condition: u8, detail: impl FnOnce() -> String) {
        let count = &mut self.counts[usize::from(condition)];
        *count += 1;
        if *count <= DESCRIBED_MAX as u64 {
            self.breaches.push(Breach { condition, detail: detail() });
        }
    }

    fn equal<T: PartialEq + std::fmt::Display>(
        &mut self,
        condition: u8,
        (what, left): (&str, T),
        (other, right): (&str, T),
        place: impl FnOnce() -> String,
    ) {
        if left != right {
            self.add(condition, || format!("{}: {what} is {left}, {other} is {right}", place()));
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Order {
    customer: i32,
    line_count: i32,
    lines: i32,
    delivered_lines: i32,
    delivered_cents: i64,
    is_there: bool,
    is_new: bool,
    has_carrier: bool,
}

#[derive(Clone, Copy, Default)]
struct Customer {
    balance: i64,
    paid: i64,
    history: i64,
    delivered: i64,
    is_there: bool,
}

#[derive(Default)]
struct District {
    ytd: i64,
    next_order: i32,
    history: i64,
    new_orders: Vec<i32>,
    orders: Vec<Order>,
    customers: Vec<Customer>,
    deliveries: i64,
    is_there: bool,
}

#[derive(Default)]
struct Warehouse {
    ytd: i64,
    history: i64,
    is_there: bool,
}

/// What the tables hold, as far as the conditions ask.
pub struct Facts {
    size: Size,
    warehouses: Vec<Warehouse>,
    districts: Vec<District>,
    verdict: Verdict,
}

impl Facts {
    /// Of a database with so many warehouses.
    pub fn new(size: Size, warehouses: i32) -> Facts {
        let districts = (warehouses * DISTRICTS) as usize;
        let mut facts = Facts {
            size,
            warehouses: Vec::new(),
            districts: Vec::new(),
            verdict: Verdict::default(),
        };
        facts.warehouses.resize_with(warehouses as usize, Warehouse::default);
        facts.districts.resize_with(districts, District::default);
        for district in &mut facts.districts {
            district.customers = vec![Customer::default(); size.customers as usize];
        }
        facts
    }

    fn stray(&mut self, what: &str, key: &[i32]) {
        self.verdict.add(0, || format!("a row of {what} that should not be: {key:?}"));
    }

    fn district(&mut self, w: i32, d: i32) -> Option<&mut District> {
        self.verdict.rows += 1;
        if !(1..=DISTRICTS).contains(&d) || w < 1 {
            return None;
        }
        self.districts.get_mut(((w - 1) * DISTRICTS + d - 1) as usize)
    }

    fn order(&mut self, w: i32, d: i32, o: i32) -> Option<&mut Order> {
        if !(1..=ORDER_MAX).contains(&o) {
            return None;
        }
        let orders = &mut self.district(w, d)?.orders;
        if orders.len() < o as usize {
            orders.resize(o as usize, Order::default());
        }
        orders.get_mut(o as usize - 1)
    }

    fn customer(&mut self, w: i32, d: i32, c: i32) -> Option<&mut Customer> {
        let at = usize::try_from(c).ok()?.checked_sub(1)?;
        self.district(w, d)?.customers.get_mut(at)
    }

    /// A row of warehouse.
    pub fn add_warehouse(&mut self, w: i32, ytd: i64) {
        self.verdict.rows += 1;
        let at = usize::try_from(w).ok().and_then(|w| w.checked_sub(1));
        match at.and_then(|at| self.warehouses.get_mut(at)) {
            Some(it) => (it.ytd, it.is_there) = (ytd, true),
            None => self.stray("warehouse", &[w]),
        }
    }

    /// A row of district.
    pub fn add_district(&mut self, [w, d]: [i32; 2], ytd: i64, next_order: i32) {
        match self.district(w, d) {
            Some(it) => (it.ytd, it.next_order, it.is_there) = (ytd, next_order, true),
            None => self.stray("district", &[w, d]),
        }
    }

    /// A row of customer: balance, ytd_payment, delivery_cnt.
    pub fn add_customer(&mut self, [w, d, c]: [i32; 3], balance: i64, paid: i64, deliveries: i32) {
        match self.customer(w, d, c) {
            Some(it) => (it.balance, it.paid, it.is_there) = (balance, paid, true),
            None => return self.stray("customer", &[w, d, c]),
        }
        if let Some(district) = self.district(w, d) {
            district.deliveries += i64::from(deliveries);
        }
    }

    /// A row of history: whose (c_w_id, c_d_id, c_id), where (w_id, d_id), how much.
    pub fn add_history(&mut self, [cw, cd, c]: [i32; 3], [w, d]: [i32; 2], amount: i64) {
        match self.customer(cw, cd, c) {
            Some(it) => it.history += amount,
            None => self.stray("history", &[cw, cd, c]),
        }
        match self.district(w, d) {
            Some(it) => it.history += amount,
            None => return self.stray("history", &[w, d]),
        }
        self.warehouses[w as usize - 1].history += amount;
    }

    /// A row of orders.
    pub fn add_order(&mut self, [w, d, o]: [i32; 3], customer: i32, carrier: bool, lines: i32) {
        match self.order(w, d, o) {
            Some(it) => {
                (it.customer, it.has_carrier, it.line_count) = (customer, carrier, lines);
                it.is_there = true;
            }
            None => self.stray("orders", &[w, d, o]),
        }
    }

    /// A row of new_order.
    pub fn add_new_order(&mut self, [w, d, o]: [i32; 3]) {
        match self.order(w, d, o) {
            Some(it) => it.is_new = true,
            None => return self.stray("new_order", &[w, d, o]),
        }
        if let Some(district) = self.district(w, d) {
            district.new_orders.push(o);
        }
    }

    /// A row of order_line.
    pub fn add_order_line(&mut self, [w, d, o]: [i32; 3], amount: i64, delivered: bool) {
        match self.order(w, d, o) {
            Some(it) => {
                it.lines += 1;
                if delivered {
                    it.delivered_lines += 1;
                    it.delivered_cents += amount;
                }
            }
            None => self.stray("order_line", &[w, d, o]),
        }
    }

    /// Judges; everything has been added.
    pub fn judge(mut self) -> Verdict {
        let mut verdict = std::mem::take(&mut self.verdict);
        for at in 0..self.districts.len() {
            let place = (at as i32 / DISTRICTS + 1, at as i32 % DISTRICTS + 1);
            let district = &mut self.districts[at];
            if !district.is_there {
                verdict.add(0, || format!("district {place:?} is missing"));
            }
            judge_orders(&mut verdict, place, district);
            judge_district(&mut verdict, place, district, &self.size);
            judge_customers(&mut verdict, place, district);
        }
        for (at, warehouse) in self.warehouses.iter().enumerate() {
            let place = || format!("warehouse {}", at + 1);
            if !warehouse.is_there {
                verdict.add(0, || format!("{} is missing", place()));
            }
            let own = at * DISTRICTS as usize..(at + 1) * DISTRICTS as usize;
            let districts: i64 = self.districts[own].iter().map(|it| it.ytd).sum();
            let ytd = ("w_ytd", warehouse.ytd);
            verdict.equal(1, ytd, ("sum(d_ytd)", districts), place);
            verdict.equal(8, ytd, ("sum(h_amount)", warehouse.history), place);
        }
        verdict
    }
}

/// Conditions 5, 6 and 7, of every order.
fn judge_orders(verdict: &mut Verdict, (w, d): (i32, i32), district: &mut District) {
    for (order, o) in district.orders.iter().zip(1..) {
        let place = || format!("order {o} of district {w}/{d}");
        if !order.is_there {
            if order.is_new || order.lines > 0 {
                verdict.add(if order.is_new { 5 } else { 6 }, || format!("{} is missing", place()));
            }
            continue;
        }
        verdict.equal(
            5,
            ("o_carrier_id null", !order.has_carrier),
            ("a row in new_order", order.is_new),
            place,
        );
        verdict.equal(6, ("o_ol_cnt", order.line_count), ("count(order_line)", order.lines), place);
        let delivered = if order.has_carrier { order.lines } else { 0 };
        verdict.equal(
            7,
            ("lines with ol_delivery_d", order.delivered_lines),
            ("what o_carrier_id says", delivered),
            place,
        );
        let customer = usize::try_from(order.customer - 1).ok();
        match customer.and_then(|at| district.customers.get_mut(at)) {
            Some(customer) => customer.delivered += order.delivered_cents,
            None => verdict.add(0, || format!("{} has no customer {}", place(), order.customer)),
        }
    }
}

/// Conditions 2, 3, 4, 9 and 11.
fn judge_district(verdict: &mut Verdict, (w, d): (i32, i32), district: &District, size: &Size) {
    let place = || format!("district {w}/{d}");
    let orders = || district.orders.iter().filter(|order| order.is_there);
    let last = district.orders.iter().rposition(|it| it.is_there).map_or(0, |at| at as i32 + 1);
    verdict.equal(2, ("d_next_o_id - 1", district.next_order - 1), ("max(o_id)", last), place);
    let (new, count) = (&district.new_orders, district.new_orders.len() as i64);
    if let (Some(least), Some(most)) = (new.iter().min(), new.iter().max()) {
        verdict.equal(2, ("max(no_o_id)", *most), ("max(o_id)", last), place);
        let span = i64::from(most - least) + 1;
        verdict.equal(3, ("span of no_o_id", span), ("count(new_order)", count), place);
    }
    let promised: i64 = orders().map(|order| i64::from(order.line_count)).sum();
    let lines: i64 = district.orders.iter().map(|order| i64::from(order.lines)).sum();
    verdict.equal(4, ("sum(o_ol_cnt)", promised), ("count(order_line)", lines), place);
    verdict.equal(9, ("d_ytd", district.ytd), ("sum(h_amount)", district.history), place);
    let delivered = orders().count() as i64 - count;
    let expect = i64::from(size.customers - size.new_orders()) + district.deliveries;
    let left = ("count(orders) - count(new_order)", delivered);
    verdict.equal(11, left, ("loaded and since delivered", expect), place);
}

/// Conditions 10 and 12, of every customer.
fn judge_customers(verdict: &mut Verdict, (w, d): (i32, i32), district: &District) {
    for (customer, c) in district.customers.iter().zip(1..) {
        let place = || format!("customer {c} of district {w}/{d}");
        if !customer.is_there {
            verdict.add(0, || format!("{} is missing", place()));
            continue;
        }
        let owes = customer.delivered - customer.history;
        let balance = ("c_balance", customer.balance);
        verdict.equal(10, balance, ("delivered less history", owes), place);
        let both = ("c_balance + c_ytd_payment", customer.balance + customer.paid);
        verdict.equal(12, both, ("delivered", customer.delivered), place);
    }
}
