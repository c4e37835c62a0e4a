//! Stock-Level (clause 2.8): how many items of a district's last twenty orders run low.

use atoll_kernel::api::Result;

use super::super::inputs::StockLevel;
use super::super::schema::{Tables, district, order_line, stock};
use super::{Commands, Ended, ScanDirection, Terminal, between, int, lock, no_row, points_ahead};

/// Orders that are looked at.
const ORDERS: i32 = 20;
/// Rows of stock that are fetched from memory together.
const AHEAD: usize = 32;

impl Terminal {
    // By itself in profiles (`cargo xtask breakdown`).
    #[inline(never)]
    pub(super) fn stock_level(
        &mut self,
        tables: &Tables,
        commands: &mut Commands<'_>,
        input: &StockLevel,
    ) -> Result<Ended> {
        let mut statement = commands.next()?;
        lock(&mut statement, &[&tables.district, &tables.order_line, &tables.stock], &[])?;
        let (w, d) = (input.warehouse, input.district);
        self.get(&mut statement, &tables.district, &[w, d], &[district::D_NEXT_O_ID])?;
        let next = int(&self.row, 0)?;

        let index = &tables.order_line.indexes[0];
        let range = between(index, &[w, d, next - ORDERS], &[w, d, next - 1]);
        let (columns, direction) = ([order_line::OL_I_ID], ScanDirection::Forward);
        let table = &tables.order_line;
        let mut cursor = statement.index_scan(table, index, range, direction, &columns);
        let mut items = std::mem::take(&mut self.numbers);
        items.clear();
        while let Some((_, line)) = cursor.next_view(&mut statement, &mut self.row)? {
            items.push(int(line, 0)?);
        }
        items.sort_unstable();
        items.dedup();
        let mut low = 0_u32;
        let mut keys = std::mem::take(&mut self.keys);
        for some in items.chunks(AHEAD) {
            let wanted = (&mut keys, some.iter().map(|item| [w, *item]));
            let stocks = points_ahead(&statement, &tables.stock, wanted, &[stock::S_QUANTITY]);
            statement.index_points(&stocks, &mut self.found)?;
            for (at, stock) in stocks.iter().enumerate() {
                if self.found.row(at).is_none() {
                    return Err(no_row(stock, &tables.stock));
                }
                low += u32::from(int(self.found.view(at), 0)? < input.threshold);
            }
        }
        (self.numbers, self.keys) = (items, keys);
        self.shown.extend_from_slice(&low.to_le_bytes());
        Ok(Ended::Commit(None))
    }
}
