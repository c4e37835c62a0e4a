//! The initial rows (clause 4.3.3), written to any sink: native rows, or text for COPY.
//!
//! Invariants: rows of one warehouse depend on the seed and the warehouse only, not on who loads
//! it. Every warehouse satisfies the consistency conditions as it is loaded.

use super::Size;
use super::inputs::DISTRICTS;
use super::random::{Phase, Random, last_name, now};
use crate::workload::Sink;

/// Which table a row is for, and so in which order tables are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the tables of these names")]
pub enum Target {
    Item,
    Warehouse,
    District,
    Customer,
    History,
    Orders,
    OrderLine,
    NewOrder,
    Stock,
}

impl From<Target> for usize {
    fn from(target: Target) -> usize {
        target as usize
    }
}

/// Rows that loading `warehouses` makes, about (order lines are random).
pub fn expected(size: &Size, warehouses: i32) -> u64 {
    let district = i64::from(size.customers) * 13 + i64::from(size.new_orders()) + 1;
    let warehouse = 1 + i64::from(size.items) + i64::from(DISTRICTS) * district;
    (i64::from(size.items) + i64::from(warehouses) * warehouse) as u64
}

/// The items, which all warehouses share.
pub fn items<S: Sink>(size: &Size, seed: u64, sink: &mut S) -> Result<(), S::Error> {
    let mut random = Random::new(seed);
    let mut text = String::new();
    for id in 1..=size.items {
        sink.int(id);
        sink.int(random.number(1, 10_000));
        letters(&mut random, &mut text, 14, 24, sink);
        sink.decimal(random.long(100, 10_000), 2);
        data(&mut random, &mut text, sink);
        sink.end(Target::Item)?;
    }
    Ok(())
}

/// Everything of one warehouse.
pub fn warehouse<S: Sink>(size: &Size, seed: u64, w: i32, sink: &mut S) -> Result<(), S::Error> {
    let mut maker = Maker {
        size,
        random: Random::new(seed ^ (w as u64) << 32),
        text: String::new(),
        now: now(),
        w,
    };
    maker.warehouse(sink)?;
    maker.stock(sink)?;
    for d in 1..=DISTRICTS {
        maker.district(d, sink)?;
        maker.customers(d, sink)?;
        maker.orders(d, sink)?;
    }
    Ok(())
}

struct Maker<'a> {
    size: &'a Size,
    random: Random,
    text: String,
    now: i64,
    w: i32,
}

fn letters<S: Sink>(random: &mut Random, text: &mut String, low: usize, high: usize, sink: &mut S) {
    text.clear();
    random.letters(low, high, text);
    sink.text(text);
}

/// 26 to 50 letters; in 10 of 100 rows "ORIGINAL" stands among them.
fn data<S: Sink>(random: &mut Random, text: &mut String, sink: &mut S) {
    text.clear();
    random.letters(26, 50, text);
    if random.chance(10) {
        let at = random.number(0, text.len() as i32 - 8) as usize;
        text.replace_range(at..at + 8, "ORIGINAL");
    }
    sink.text(text);
}

impl Maker<'_> {
    fn address<S: Sink>(&mut self, sink: &mut S) {
        for _ in 0..3 {
            letters(&mut self.random, &mut self.text, 10, 20, sink);
        }
        self.padded_letters(2, sink);
        self.text.clear();
        self.random.digits(4, &mut self.text);
        self.text.push_str("11111");
        sink.padded(&self.text, 9);
    }

    fn padded_letters<S: Sink>(&mut self, width: usize, sink: &mut S) {
        self.text.clear();
        self.random.letters(width, width, &mut self.text);
        sink.padded(&self.text, width);
    }

    fn tax<S: Sink>(&mut self, sink: &mut S) {
        sink.decimal(self.random.long(0, 2000), 4);
    }

    fn warehouse<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        sink.int(self.w);
        letters(&mut self.random, &mut self.text, 6, 10, sink);
        self.address(sink);
        self.tax(sink);
        sink.decimal(1000 * i64::from(self.size.customers) * i64::from(DISTRICTS), 2);
        sink.end(Target::Warehouse)
    }

    fn stock<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        for item in 1..=self.size.items {
            sink.int(item);
            sink.int(self.w);
            sink.int(self.random.number(10, 100));
            for _ in 0..10 {
                self.padded_letters(24, sink);
            }
            for _ in 0..3 {
                sink.int(0);
            }
            data(&mut self.random, &mut self.text, sink);
            sink.end(Target::Stock)?;
        }
        Ok(())
    }

    fn district<S: Sink>(&mut self, d: i32, sink: &mut S) -> Result<(), S::Error> {
        sink.int(d);
        sink.int(self.w);
        letters(&mut self.random, &mut self.text, 6, 10, sink);
        self.address(sink);
        self.tax(sink);
        sink.decimal(1000 * i64::from(self.size.customers), 2);
        sink.int(self.size.customers + 1);
        sink.end(Target::District)
    }

    fn customers<S: Sink>(&mut self, d: i32, sink: &mut S) -> Result<(), S::Error> {
        for c in 1..=self.size.customers {
            for key in [c, d, self.w] {
                sink.int(key);
            }
            letters(&mut self.random, &mut self.text, 8, 16, sink);
            sink.padded("OE", 2);
            let name = match c {
                1..=1000 => c as u32 - 1,
                _ => self.random.last_name(self.size, Phase::Load),
            };
            self.text.clear();
            last_name(name, &mut self.text);
            sink.text(&self.text);
            self.address(sink);
            self.text.clear();
            self.random.digits(16, &mut self.text);
            sink.padded(&self.text, 16);
            sink.time(self.now);
            sink.padded(if self.random.chance(10) { "BC" } else { "GC" }, 2);
            sink.decimal(5_000_000, 2);
            sink.decimal(self.random.long(0, 5000), 4);
            sink.decimal(-1000, 2);
            sink.decimal(1000, 2);
            sink.int(1);
            sink.int(0);
            letters(&mut self.random, &mut self.text, 300, 500, sink);
            sink.end(Target::Customer)?;
            for key in [c, d, self.w, d, self.w] {
                sink.int(key);
            }
            sink.time(self.now);
            sink.decimal(1000, 2);
            letters(&mut self.random, &mut self.text, 12, 24, sink);
            sink.end(Target::History)?;
        }
        Ok(())
    }

    fn orders<S: Sink>(&mut self, d: i32, sink: &mut S) -> Result<(), S::Error> {
        let customers = self.random.permutation(self.size.customers);
        let first_new = self.size.customers - self.size.new_orders() + 1;
        for (o, customer) in (1..).zip(customers) {
            let (lines, delivered) = (self.random.number(5, 15), o < first_new);
            for key in [o, d, self.w, customer] {
                sink.int(key);
            }
            sink.time(self.now);
            if delivered {
                sink.int(self.random.number(1, 10))
            } else {
                sink.null()
            }
            sink.int(lines);
            sink.int(1);
            sink.end(Target::Orders)?;
            for line in 1..=lines {
                self.order_line([o, d, self.w, line], delivered, sink)?;
            }
            if !delivered {
                for key in [o, d, self.w] {
                    sink.int(key);
                }
                sink.end(Target::NewOrder)?;
            }
        }
        Ok(())
    }

    fn order_line<S: Sink>(
        &mut self,
        keys: [i32; 4],
        delivered: bool,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        for key in keys {
            sink.int(key);
        }
        sink.int(self.random.number(1, self.size.items));
        sink.int(self.w);
        if delivered {
            sink.time(self.now)
        } else {
            sink.null()
        }
        sink.int(5);
        sink.decimal(if delivered { 0 } else { self.random.long(1, 999_999) }, 2);
        self.padded_letters(24, sink);
        sink.end(Target::OrderLine)
    }
}
