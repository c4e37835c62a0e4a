//! New-Order (clause 2.4): enters an order of five to fifteen lines.

use atoll_kernel::api::{ColumnId, Frozen, KeyBytes, PointAhead, Result, RowView, Statement};

use super::super::inputs::{Line, NewOrder};
use super::super::random::now;
use super::super::schema::{Tables, customer, district, item, stock, warehouse};
use super::super::stored::decimal;
use super::{Commands, Ended, Terminal, bytes, int, lock, no_row, point, set_key};
use crate::stored::Stored;

const CUSTOMER: [ColumnId; 3] = [customer::C_DISCOUNT, customer::C_LAST, customer::C_CREDIT];
const ITEM: [ColumnId; 3] = [item::I_PRICE, item::I_DATA, item::I_NAME];
/// What of a stock row is read besides the district's text.
const STOCK: [ColumnId; 5] =
    [stock::S_QUANTITY, stock::S_YTD, stock::S_ORDER_CNT, stock::S_REMOTE_CNT, stock::S_DATA];
const STOCK_CHANGED: [ColumnId; 4] =
    [stock::S_QUANTITY, stock::S_YTD, stock::S_ORDER_CNT, stock::S_REMOTE_CNT];
/// Columns of the table order_line.
const ORDER_LINE_COLUMNS: usize = 10;

impl Terminal {
    // By itself in profiles (`cargo xtask breakdown`).
    #[inline(never)]
    pub(super) fn new_order(
        &mut self,
        tables: &Tables,
        commands: &mut Commands<'_>,
        input: &NewOrder,
    ) -> Result<Ended> {
        let mut statement = commands.next()?;
        lock(
            &mut statement,
            &[&tables.warehouse, &tables.customer, &tables.item],
            &[
                &tables.district,
                &tables.orders,
                &tables.new_order,
                &tables.stock,
                &tables.order_line,
            ],
        )?;
        let mut keys = std::mem::take(&mut self.keys);
        let stock_columns = stock_columns(input.district);
        let points = order_points(tables, &mut keys, input, &stock_columns);
        statement.prefetch_points(&points);
        let (customer, rest) = points.split_first().expect("a customer, and what he orders");
        let (items, stocks) = rest.split_at(input.lines().len());
        let (order, charge) = self.order_head(tables, &mut statement, input, customer)?;
        self.lines.clear();
        let (mut total, mut ended, mut first) = (0, None, 0);
        // An item that comes twice: the second time sees what the first has done.
        let together = if input.repeats() { 1 } else { input.lines().len() };
        for (items, stocks) in items.chunks(together).zip(stocks.chunks(together)) {
            if first > 0 {
                drop(statement);
                statement = commands.next()?;
            }
            let found =
                self.order_lines(tables, &mut statement, input, (order, first), (items, stocks))?;
            total += found.amount;
            first += found.lines;
            // The last one, which there is not: what was entered is entered in vain.
            ended = (found.lines < items.len()).then_some(Ended::Rollback);
        }
        drop(points);
        self.keys = keys;
        let Terminal { lines, rows, .. } = self;
        lines.rows(ORDER_LINE_COLUMNS, |lines| {
            statement.insert_rows(&tables.order_line, (lines, Frozen::No), rows)
        })?;
        if let Some(ended) = ended {
            return Ok(ended);
        }
        // Cents, of (1 - c_discount) * (1 + w_tax + d_tax) in 1/10^8.
        let total = (i128::from(total) * i128::from(charge) / 100_000_000) as i64;
        self.shown.extend_from_slice(&total.to_le_bytes());
        Ok(Ended::Commit(Some((input.warehouse, input.district, order))))
    }

    /// Customer, warehouse, district; the rows of orders and new_order. Answers the order's number
    /// and what of the sum is to be paid, times 10^8.
    fn order_head(
        &mut self,
        tables: &Tables,
        statement: &mut Statement<'_>,
        input: &NewOrder,
        customer: &PointAhead<'_>,
    ) -> Result<(i32, i64)> {
        let NewOrder { warehouse: w, district: d, customer: c, .. } = *input;
        let columns = [warehouse::W_TAX];
        self.get(statement, &tables.warehouse, &[w], &columns)?;
        let tax = decimal(&self.row, 0, 4)?;
        self.get_ahead(statement, &tables.customer, customer)?;
        let discount = decimal(&self.row, 0, 4)?;
        self.show(1);

        let columns = [district::D_NEXT_O_ID, district::D_TAX];
        let row = self.get(statement, &tables.district, &[w, d], &columns)?;
        let mut order = 0;
        let changed = &columns[..1];
        self.must_change(statement, (&tables.district, row), &columns, changed, |row, stored| {
            order = int(row, 0)?;
            stored.int(order + 1);
            Ok(())
        })?;
        let charge = (10_000 - discount) * (10_000 + tax + decimal(&self.row, 1, 4)?);

        self.stored.clear();
        for key in [order, d, w, c] {
            self.stored.int(key);
        }
        self.stored.time(now());
        self.stored.null();
        self.stored.int(input.lines().len() as i32);
        self.stored.int(i32::from(input.is_local()));
        self.insert(statement, &tables.orders)?;
        self.stored.clear();
        for key in [order, d, w] {
            self.stored.int(key);
        }
        self.insert(statement, &tables.new_order)?;
        Ok((order, charge))
    }

    /// Lines of which no two have the same stock, from the line `first` on, into `self.lines`. Each
    /// step is done for all of them before the next.
    fn order_lines(
        &mut self,
        tables: &Tables,
        statement: &mut Statement<'_>,
        input: &NewOrder,
        (order, first): (i32, usize),
        (items, stocks): (&[PointAhead<'_>], &[PointAhead<'_>]),
    ) -> Result<Found> {
        let lines = &input.lines()[first..][..items.len()];
        let mut ordered = std::mem::take(&mut self.ordered);
        let mut rows = std::mem::take(&mut self.found);
        ordered.clear();
        statement.index_points(items, &mut rows)?;
        for (at, line) in lines.iter().enumerate() {
            if rows.row(at).is_none() {
                break;
            }
            let item = rows.view(at);
            let amount = decimal(item, 0, 2)? * i64::from(line.quantity);
            let is_original = contains_original(bytes(item, 1)?);
            self.shown.extend_from_slice(bytes(item, 2)?);
            ordered.push(Ordered { amount, is_original });
        }
        let found =
            Found { lines: ordered.len(), amount: ordered.iter().map(|line| line.amount).sum() };

        self.rows.clear();
        self.stored.clear();
        let columns = stock_columns(input.district);
        statement.index_points(&stocks[..found.lines], &mut rows)?;
        for (at, (it, stock)) in ordered.iter().zip(stocks).enumerate() {
            self.rows.push(rows.row(at).ok_or_else(|| no_row(stock, &tables.stock))?);
            let (stock, line) = (rows.view(at), &lines[at]);
            ordered_stock(stock, &mut self.stored, (input, line))?;
            let is_original = it.is_original && contains_original(bytes(stock, 4)?);
            self.shown.push(if is_original { b'B' } else { b'G' });

            let (texts, number) = (&mut self.lines, (first + at + 1) as i32);
            for key in [order, input.district, input.warehouse, number, line.item, line.supply] {
                texts.int(key);
            }
            texts.null();
            texts.int(line.quantity);
            texts.decimal(it.amount, 2);
            // As it is stored: both are char(24).
            texts.raw(bytes(stock, 5)?);
        }
        self.found = rows;
        self.ordered = ordered;
        self.change_stocks(tables, statement, input, &lines[..found.lines], &columns)?;
        Ok(found)
    }

    /// Writes what is in `self.stored` to the stocks in `self.rows`, which these lines take from.
    fn change_stocks(
        &mut self,
        tables: &Tables,
        statement: &mut Statement<'_>,
        input: &NewOrder,
        lines: &[Line],
        columns: &[ColumnId],
    ) -> Result<()> {
        let stock = &*tables.stock;
        let rows = std::mem::take(&mut self.rows);
        let access = &mut self.access;
        access.must_change_rows(
            statement,
            (stock, &rows),
            columns,
            &STOCK_CHANGED,
            |at, row, stored| ordered_stock(row.view(), stored, (input, &lines[at])),
        )?;
        self.rows = rows;
        Ok(())
    }
}

/// How far lines were entered.
struct Found {
    /// So many have an item.
    lines: usize,
    /// What these cost, in cents.
    amount: i64,
}

/// A line's item.
pub(super) struct Ordered {
    /// What the line costs, in cents.
    amount: i64,
    is_original: bool,
}

/// What becomes of a stock that a line takes from.
fn ordered_stock(
    row: RowView<'_>,
    stored: &mut Stored,
    (input, line): (&NewOrder, &Line),
) -> Result<()> {
    let left = int(row, 0)? - line.quantity;
    stored.int(if left >= 10 { left } else { left + 91 });
    stored.int(int(row, 1)? + line.quantity);
    stored.int(int(row, 2)? + 1);
    stored.int(int(row, 3)? + i32::from(line.supply != input.warehouse));
    Ok(())
}

/// What is looked up: the customer, then the items, then their stocks. They are anywhere.
fn order_points<'a>(
    tables: &'a Tables,
    keys: &'a mut Vec<KeyBytes>,
    input: &NewOrder,
    stock_columns: &'a [ColumnId],
) -> Vec<PointAhead<'a>> {
    let lines = input.lines();
    if keys.len() <= 2 * lines.len() {
        keys.resize_with(2 * lines.len() + 1, KeyBytes::default);
    }
    let (first, rest) = keys.split_at_mut(1);
    let (items, stocks) = rest[..2 * lines.len()].split_at_mut(lines.len());
    let key = [input.warehouse, input.district, input.customer];
    set_key(&mut first[0], &tables.customer.indexes[0], &key);
    for ((item, stock), line) in items.iter_mut().zip(&mut *stocks).zip(lines) {
        set_key(item, &tables.item.indexes[0], &[line.item]);
        set_key(stock, &tables.stock.indexes[0], &[line.supply, line.item]);
    }
    let mut points = Vec::with_capacity(2 * lines.len() + 1);
    points.push(point(&tables.customer, &first[0], &CUSTOMER));
    points.extend(items.iter().map(|key| point(&tables.item, key, &ITEM)));
    points.extend(stocks.iter().map(|key| point(&tables.stock, key, stock_columns)));
    points
}

fn stock_columns(district: i32) -> [ColumnId; 6] {
    let text = ColumnId(stock::S_DIST_01.0 + district as u16 - 1);
    [STOCK[0], STOCK[1], STOCK[2], STOCK[3], STOCK[4], text]
}

fn contains_original(text: &[u8]) -> bool {
    memchr::memchr_iter(b'O', text).any(|at| text[at..].starts_with(b"ORIGINAL"))
}
