//! What a terminal enters: the inputs of the five transactions, drawn as clauses 2.4 to 2.8 say.
//!
//! Invariants: drawn once and kept through retries, so that a conflict does not change the mix.
//! The same for native procedures and for the wire.

use super::random::{Phase, Random, last_name};
use super::{Size, Tpcc};

/// Lines an order has at most.
pub const LINES_MAX: usize = 15;
/// Districts of a warehouse.
pub const DISTRICTS: i32 = 10;

/// The kinds of transactions, in the order in which reports list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Enters an order: 45 of 100.
    NewOrder,
    /// Pays: 43 of 100.
    Payment,
    /// Looks up a customer's last order: 4 of 100.
    OrderStatus,
    /// Delivers ten orders: 4 of 100.
    Delivery,
    /// Counts items that run low: 4 of 100.
    StockLevel,
}

impl Kind {
    /// All, in order.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// Their names in reports.
    pub const NAMES: [&str; 5] =
        ["new_order", "payment", "order_status", "delivery", "stock_level"];
}

/// Which transactions run, in which shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// The standard's: 45, 43, 4, 4, 4 of 100.
    Standard,
    /// Payments alone.
    Payment,
    /// New-Orders alone.
    NewOrder,
    /// New-Orders and Deliveries, half and half.
    NewOrderDelivery,
}

impl Mix {
    /// All, in order.
    pub const ALL: [Mix; 4] = [Mix::Standard, Mix::Payment, Mix::NewOrder, Mix::NewOrderDelivery];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Standard => "standard",
            Mix::Payment => "payment",
            Mix::NewOrder => "new-order",
            Mix::NewOrderDelivery => "new-order-delivery",
        }
    }

    fn draw(self, random: &mut Random) -> Kind {
        match self {
            Mix::Payment => Kind::Payment,
            Mix::NewOrder => Kind::NewOrder,
            Mix::NewOrderDelivery if random.chance(50) => Kind::NewOrder,
            Mix::NewOrderDelivery => Kind::Delivery,
            Mix::Standard => match random.number(0, 99) {
                0..45 => Kind::NewOrder,
                45..88 => Kind::Payment,
                88..92 => Kind::OrderStatus,
                92..96 => Kind::Delivery,
                _ => Kind::StockLevel,
            },
        }
    }
}

/// What one transaction is asked to do.
pub enum Input {
    /// Clause 2.4.
    NewOrder(NewOrder),
    /// Clause 2.5.
    Payment(Payment),
    /// Clause 2.6.
    OrderStatus(OrderStatus),
    /// Clause 2.7.
    Delivery(Delivery),
    /// Clause 2.8.
    StockLevel(StockLevel),
}

/// One line of an order to be entered.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Line {
    /// The item; one more than there are asks for a rollback.
    pub item: i32,
    /// The warehouse that supplies it.
    pub supply: i32,
    /// How many.
    pub quantity: i32,
}

/// Enter an order.
pub struct NewOrder {
    /// The terminal's warehouse.
    pub warehouse: i32,
    /// Its district.
    pub district: i32,
    /// Who orders.
    pub customer: i32,
    lines: [Line; LINES_MAX],
    count: usize,
}

impl NewOrder {
    /// What is ordered.
    pub fn lines(&self) -> &[Line] {
        &self.lines[..self.count]
    }

    /// Whether all is supplied by the own warehouse.
    pub fn is_local(&self) -> bool {
        self.lines().iter().all(|line| line.supply == self.warehouse)
    }

    /// Whether a line orders what an earlier one does, from the same warehouse.
    pub fn repeats(&self) -> bool {
        let same = |a: &Line, b: &Line| a.item == b.item && a.supply == b.supply;
        let lines = self.lines();
        lines.iter().enumerate().any(|(at, line)| lines[..at].iter().any(|it| same(it, line)))
    }
}

/// How a customer is chosen.
pub enum Who {
    /// By number: 40 of 100.
    Number(i32),
    /// By last name, the middle one of those that have it: 60 of 100.
    LastName(String),
}

/// Pay.
pub struct Payment {
    /// The terminal's warehouse.
    pub warehouse: i32,
    /// Its district.
    pub district: i32,
    /// The customer's warehouse: another one in 15 of 100.
    pub customer_warehouse: i32,
    /// The customer's district.
    pub customer_district: i32,
    /// Who pays.
    pub who: Who,
    /// How much, in cents.
    pub amount: i64,
}

/// Look at a customer's last order.
pub struct OrderStatus {
    /// The terminal's warehouse.
    pub warehouse: i32,
    /// The customer's district.
    pub district: i32,
    /// Who asks.
    pub who: Who,
}

/// Deliver the oldest order of each district.
pub struct Delivery {
    /// The terminal's warehouse.
    pub warehouse: i32,
    /// Who carries them.
    pub carrier: i32,
}

/// Count the items of the last twenty orders that run low.
pub struct StockLevel {
    /// The terminal's warehouse.
    pub warehouse: i32,
    /// The terminal's district.
    pub district: i32,
    /// Low is below this.
    pub threshold: i32,
}

impl Input {
    /// The terminal's warehouse.
    pub fn warehouse(&self) -> i32 {
        match self {
            Input::NewOrder(NewOrder { warehouse, .. })
            | Input::Payment(Payment { warehouse, .. })
            | Input::OrderStatus(OrderStatus { warehouse, .. })
            | Input::Delivery(Delivery { warehouse, .. })
            | Input::StockLevel(StockLevel { warehouse, .. }) => *warehouse,
        }
    }

    /// The next input of a terminal of `home`, of the workload's mix.
    pub fn draw(random: &mut Random, workload: &Tpcc, home: i32) -> Input {
        let Tpcc { warehouses, size, mix, .. } = workload;
        match mix.draw(random) {
            Kind::NewOrder => Input::NewOrder(new_order(random, size, *warehouses, home)),
            Kind::Payment => Input::Payment(payment(random, size, *warehouses, home)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus {
                warehouse: home,
                district: random.number(1, DISTRICTS),
                who: who(random, size),
            }),
            Kind::Delivery => {
                Input::Delivery(Delivery { warehouse: home, carrier: random.number(1, 10) })
            }
            Kind::StockLevel => Input::StockLevel(StockLevel {
                warehouse: home,
                district: random.number(1, DISTRICTS),
                threshold: random.number(10, 20),
            }),
        }
    }

    /// Which kind it is.
    pub fn kind(&self) -> Kind {
        match self {
            Input::NewOrder(_) => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery(_) => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
        }
    }
}

/// Another warehouse than `home`, if there is one.
fn other(random: &mut Random, warehouses: i32, home: i32) -> i32 {
    if warehouses == 1 {
        return home;
    }
    let drawn = random.number(1, warehouses - 1);
    if drawn >= home { drawn + 1 } else { drawn }
}

fn new_order(random: &mut Random, size: &Size, warehouses: i32, home: i32) -> NewOrder {
    let count = random.number(5, LINES_MAX as i32) as usize;
    let mut lines = [Line::default(); LINES_MAX];
    for line in &mut lines[..count] {
        let remote = random.chance(1);
        *line = Line {
            item: random.item(size),
            supply: if remote { other(random, warehouses, home) } else { home },
            quantity: random.number(1, 10),
        };
    }
    if random.chance(1) {
        lines[count - 1].item = size.items + 1;
    }
    NewOrder {
        warehouse: home,
        district: random.number(1, DISTRICTS),
        customer: random.customer(size),
        lines,
        count,
    }
}

fn payment(random: &mut Random, size: &Size, warehouses: i32, home: i32) -> Payment {
    let district = random.number(1, DISTRICTS);
    let (customer_warehouse, customer_district) = if random.chance(85) {
        (home, district)
    } else {
        (other(random, warehouses, home), random.number(1, DISTRICTS))
    };
    Payment {
        warehouse: home,
        district,
        customer_warehouse,
        customer_district,
        who: who(random, size),
        amount: random.long(100, 500_000),
    }
}

fn who(random: &mut Random, size: &Size) -> Who {
    if random.chance(60) {
        let mut name = String::with_capacity(16);
        last_name(random.last_name(size, Phase::Run), &mut name);
        Who::LastName(name)
    } else {
        Who::Number(random.customer(size))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Affinity;
    use super::*;

    #[test]
    fn the_mix_and_the_remote_shares_are_the_standards() {
        let (mut random, size) = (Random::new(7), Size::STANDARD);
        let affinity = Affinity::Home;
        let workload = Tpcc { warehouses: 4, size, mix: Mix::Standard, affinity };
        let (mut kinds, mut lines, mut remote, mut rollbacks) = ([0_u32; 5], 0, 0, 0);
        let (mut payments, mut away, mut names) = (0, 0, 0);
        for _ in 0..100_000 {
            let input = Input::draw(&mut random, &workload, 2);
            kinds[input.kind() as usize] += 1;
            match input {
                Input::NewOrder(order) => {
                    lines += order.lines().len();
                    remote += order.lines().iter().filter(|line| line.supply != 2).count();
                    rollbacks += order.lines().iter().filter(|it| it.item > size.items).count();
                }
                Input::Payment(payment) => {
                    payments += 1;
                    away += u32::from(payment.customer_warehouse != 2);
                    names += u32::from(matches!(payment.who, Who::LastName(_)));
                }
                _ => {}
            }
        }
        let share = |count: f64, of: f64| 100.0 * count / of;
        for (kind, expect) in kinds.iter().zip([45.0, 43.0, 4.0, 4.0, 4.0]) {
            assert!((share(f64::from(*kind), 1e5) - expect).abs() < 0.8, "{kinds:?}");
        }
        assert!((share(remote as f64, lines as f64) - 1.0).abs() < 0.2, "{remote} of {lines}");
        assert!((share(rollbacks as f64, f64::from(kinds[0])) - 1.0).abs() < 0.3);
        assert!((share(f64::from(away), f64::from(payments)) - 15.0).abs() < 1.0);
        assert!((share(f64::from(names), f64::from(payments)) - 60.0).abs() < 1.5);
    }
    #[test]
    fn a_partial_mix_has_its_kinds_and_no_other() {
        let mut random = Random::new(7);
        for (mix, expect) in [
            (Mix::Payment, [0, 1000, 0, 0, 0]),
            (Mix::NewOrder, [1000, 0, 0, 0, 0]),
            (Mix::NewOrderDelivery, [500, 0, 0, 500, 0]),
        ] {
            let affinity = Affinity::Home;
            let workload = Tpcc { warehouses: 2, size: Size::TINY, mix, affinity };
            let mut kinds = [0_i32; 5];
            for _ in 0..1000 {
                kinds[Input::draw(&mut random, &workload, 1).kind() as usize] += 1;
            }
            let near = kinds
                .iter()
                .zip(expect)
                .all(|(is, expect)| is.abs_diff(expect) < 70 && (*is == 0) == (expect == 0));
            assert!(near, "{mix:?}: {kinds:?}");
        }
    }
}
