//! Payment (clause 2.5): a customer pays; warehouse and district count it.

use std::io::Write;

use atoll_kernel::api::{ColumnId, Result, RowBuffer, Statement, TableEntry};

use super::super::inputs::Payment;
use super::super::random::now;
use super::super::schema::{Tables, customer, district, warehouse};
use super::super::stored::{Stored, decimal};
use super::{Commands, Ended, Terminal, bytes, int, lock};

/// Characters that c_data has at most.
const DATA_MAX: usize = 500;

const CUSTOMER: [ColumnId; 17] = [
    customer::C_BALANCE,
    customer::C_YTD_PAYMENT,
    customer::C_PAYMENT_CNT,
    customer::C_CREDIT,
    customer::C_ID,
    customer::C_FIRST,
    customer::C_MIDDLE,
    customer::C_LAST,
    customer::C_STREET_1,
    customer::C_STREET_2,
    customer::C_CITY,
    customer::C_STATE,
    customer::C_ZIP,
    customer::C_PHONE,
    customer::C_SINCE,
    customer::C_CREDIT_LIM,
    customer::C_DISCOUNT,
];

impl Terminal {
    // By itself in profiles (`cargo xtask breakdown`).
    #[inline(never)]
    pub(super) fn payment(
        &mut self,
        tables: &Tables,
        commands: &mut Commands<'_>,
        input: &Payment,
    ) -> Result<Ended> {
        let mut statement = commands.next()?;
        lock(
            &mut statement,
            &[],
            &[&tables.warehouse, &tables.district, &tables.customer, &tables.history],
        )?;
        let (w, d) = (input.warehouse, input.district);
        let columns = [
            warehouse::W_YTD,
            warehouse::W_NAME,
            warehouse::W_STREET_1,
            warehouse::W_STREET_2,
            warehouse::W_CITY,
            warehouse::W_STATE,
            warehouse::W_ZIP,
        ];
        // h_data is both names with four blanks between them.
        let mut names = Vec::with_capacity(24);
        self.pay(&mut statement, &tables.warehouse, &[w], &columns, input.amount)?;
        names.extend_from_slice(bytes(&self.row, 1)?);
        names.extend_from_slice(b"    ");
        let columns = [
            district::D_YTD,
            district::D_NAME,
            district::D_STREET_1,
            district::D_STREET_2,
            district::D_CITY,
            district::D_STATE,
            district::D_ZIP,
        ];
        self.pay(&mut statement, &tables.district, &[w, d], &columns, input.amount)?;
        names.extend_from_slice(bytes(&self.row, 1)?);
        let customer = self.pay_customer(tables, &mut statement, input)?;

        self.stored.clear();
        for key in [customer, input.customer_district, input.customer_warehouse, d, w] {
            self.stored.int(key);
        }
        self.stored.time(now());
        self.stored.decimal(input.amount, 2);
        self.stored.raw(&names);
        self.insert(&mut statement, &tables.history)?;
        Ok(Ended::Commit(None))
    }

    /// Adds to the first of `columns`, a sum for the year, and shows the others.
    fn pay(
        &mut self,
        statement: &mut Statement<'_>,
        table: &TableEntry,
        key: &[i32],
        columns: &[ColumnId],
        amount: i64,
    ) -> Result<()> {
        let row = self.get(statement, table, key, columns)?;
        self.must_change(statement, (table, row), columns, &columns[..1], |row, stored| {
            stored.decimal(decimal(row, 0, 2)? + amount, 2);
            Ok(())
        })?;
        self.show(1);
        Ok(())
    }

    fn pay_customer(
        &mut self,
        tables: &Tables,
        statement: &mut Statement<'_>,
        input: &Payment,
    ) -> Result<i32> {
        let place = (input.customer_warehouse, input.customer_district);
        let row = self.customer(tables, statement, place, &input.who, &CUSTOMER)?;
        let number = int(&self.row, 4)?;
        self.show(5);
        let at = (&*tables.customer, row);
        if bytes(&self.row, 3)?.starts_with(b"BC") {
            // Bad credit: who paid what and where is put before what c_data says.
            let mut columns = [ColumnId(0); 5];
            columns[..4].copy_from_slice(&CUSTOMER[..4]);
            columns[4] = customer::C_DATA;
            statement.get(&tables.customer, row, &columns, &mut self.row)?;
            let changed = [columns[0], columns[1], columns[2], columns[4]];
            self.must_change(statement, at, &columns, &changed, |row, stored| {
                balance(row, stored, input.amount)?;
                stored.raw(&new_data(row, input, number)?);
                Ok(())
            })?;
        } else {
            let changed = &CUSTOMER[..3];
            self.must_change(statement, at, &CUSTOMER, changed, |row, stored| {
                balance(row, stored, input.amount)
            })?;
        }
        Ok(number)
    }
}

/// c_balance, c_ytd_payment and c_payment_cnt after a payment.
fn balance(row: &RowBuffer, stored: &mut Stored, amount: i64) -> Result<()> {
    stored.decimal(decimal(row, 0, 2)? - amount, 2);
    stored.decimal(decimal(row, 1, 2)? + amount, 2);
    stored.int(int(row, 2)? + 1);
    Ok(())
}

fn new_data(row: &RowBuffer, input: &Payment, number: i32) -> Result<Vec<u8>> {
    let mut data = Vec::with_capacity(DATA_MAX + 64);
    let Payment { customer_district, customer_warehouse, district, warehouse, .. } = input;
    let (whole, cents) = (input.amount / 100, input.amount % 100);
    // Writing to memory does not fail.
    let _ = write!(
        data,
        "{number} {customer_district} {customer_warehouse} {district} {warehouse} \
         {whole}.{cents:02} | "
    );
    data.extend_from_slice(bytes(row, 4)?);
    data.truncate(DATA_MAX);
    Ok(data)
}
