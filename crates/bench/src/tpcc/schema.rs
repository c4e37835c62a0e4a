//! The nine tables: their SQL, their columns' places, and how transactions hold them.
//!
//! Invariants: made by SQL, so that any client sees them; the order of columns here is that of the
//! SQL text (a test compares them); of each table's indexes the primary key comes first. Counts
//! that the standard calls numeric(4) or numeric(8) without digits after the point are integers.

use std::sync::Arc;

use atoll_kernel::api::{Catalog, IndexEntry, TableEntry};

use crate::native::{columns, table};

/// Makes the tables with their keys. For Atoll and for PostgreSQL alike.
pub const TABLES: &str = "
create table warehouse (
  w_id int not null, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20),
  w_city varchar(20), w_state char(2), w_zip char(9), w_tax numeric(4,4), w_ytd numeric(12,2),
  primary key (w_id));
create table district (
  d_id int not null, d_w_id int not null, d_name varchar(10), d_street_1 varchar(20),
  d_street_2 varchar(20), d_city varchar(20), d_state char(2), d_zip char(9),
  d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id int,
  primary key (d_w_id, d_id));
create table customer (
  c_id int not null, c_d_id int not null, c_w_id int not null, c_first varchar(16),
  c_middle char(2), c_last varchar(16), c_street_1 varchar(20), c_street_2 varchar(20),
  c_city varchar(20), c_state char(2), c_zip char(9), c_phone char(16), c_since timestamp,
  c_credit char(2), c_credit_lim numeric(12,2), c_discount numeric(4,4),
  c_balance numeric(12,2), c_ytd_payment numeric(12,2), c_payment_cnt int, c_delivery_cnt int,
  c_data varchar(500),
  primary key (c_w_id, c_d_id, c_id));
create table history (
  h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp,
  h_amount numeric(6,2), h_data varchar(24));
create table new_order (
  no_o_id int not null, no_d_id int not null, no_w_id int not null,
  primary key (no_w_id, no_d_id, no_o_id));
create table orders (
  o_id int not null, o_d_id int not null, o_w_id int not null, o_c_id int,
  o_entry_d timestamp, o_carrier_id int, o_ol_cnt int, o_all_local int,
  primary key (o_w_id, o_d_id, o_id));
create table order_line (
  ol_o_id int not null, ol_d_id int not null, ol_w_id int not null, ol_number int not null,
  ol_i_id int, ol_supply_w_id int, ol_delivery_d timestamp, ol_quantity int,
  ol_amount numeric(6,2), ol_dist_info char(24),
  primary key (ol_w_id, ol_d_id, ol_o_id, ol_number));
create table item (
  i_id int not null, i_im_id int, i_name varchar(24), i_price numeric(5,2), i_data varchar(50),
  primary key (i_id));
create table stock (
  s_i_id int not null, s_w_id int not null, s_quantity int, s_dist_01 char(24),
  s_dist_02 char(24), s_dist_03 char(24), s_dist_04 char(24), s_dist_05 char(24),
  s_dist_06 char(24), s_dist_07 char(24), s_dist_08 char(24), s_dist_09 char(24),
  s_dist_10 char(24), s_ytd int, s_order_cnt int, s_remote_cnt int, s_data varchar(50),
  primary key (s_w_id, s_i_id));
";

/// Makes the secondary indexes.
pub const INDEXES: &str = "
create index customer_by_name on customer (c_w_id, c_d_id, c_last, c_first);
create index orders_by_customer on orders (o_w_id, o_d_id, o_c_id, o_id);
";

/// Says, to Atoll, which rows of all tables belong to one warehouse: as CREATE TABLE ... WITH does.
pub const AFFINITY: &str = "
alter table warehouse set (affinity = w_id);
alter table district set (affinity = d_w_id);
alter table customer set (affinity = c_w_id);
alter table history set (affinity = h_w_id);
alter table new_order set (affinity = no_w_id);
alter table orders set (affinity = o_w_id);
alter table order_line set (affinity = ol_w_id);
alter table stock set (affinity = s_w_id);
";

/// The tables' names, in the order in which they are loaded.
pub const NAMES: [&str; 9] = [
    "item",
    "warehouse",
    "district",
    "customer",
    "history",
    "orders",
    "order_line",
    "new_order",
    "stock",
];

columns! {
    /// Columns of `warehouse`.
    warehouse { W_ID W_NAME W_STREET_1 W_STREET_2 W_CITY W_STATE W_ZIP W_TAX W_YTD }
    /// Columns of `district`.
    district {
        D_ID D_W_ID D_NAME D_STREET_1 D_STREET_2 D_CITY D_STATE D_ZIP D_TAX D_YTD D_NEXT_O_ID
    }
    /// Columns of `customer`.
    customer {
        C_ID C_D_ID C_W_ID C_FIRST C_MIDDLE C_LAST C_STREET_1 C_STREET_2 C_CITY C_STATE C_ZIP
        C_PHONE C_SINCE C_CREDIT C_CREDIT_LIM C_DISCOUNT C_BALANCE C_YTD_PAYMENT C_PAYMENT_CNT
        C_DELIVERY_CNT C_DATA
    }
    /// Columns of `history`.
    history { H_C_ID H_C_D_ID H_C_W_ID H_D_ID H_W_ID H_DATE H_AMOUNT H_DATA }
    /// Columns of `new_order`.
    new_order { NO_O_ID NO_D_ID NO_W_ID }
    /// Columns of `orders`.
    orders { O_ID O_D_ID O_W_ID O_C_ID O_ENTRY_D O_CARRIER_ID O_OL_CNT O_ALL_LOCAL }
    /// Columns of `order_line`.
    order_line {
        OL_O_ID OL_D_ID OL_W_ID OL_NUMBER OL_I_ID OL_SUPPLY_W_ID OL_DELIVERY_D OL_QUANTITY
        OL_AMOUNT OL_DIST_INFO
    }
    /// Columns of `item`.
    item { I_ID I_IM_ID I_NAME I_PRICE I_DATA }
    /// Columns of `stock`.
    stock {
        S_I_ID S_W_ID S_QUANTITY S_DIST_01 S_DIST_02 S_DIST_03 S_DIST_04 S_DIST_05 S_DIST_06
        S_DIST_07 S_DIST_08 S_DIST_09 S_DIST_10 S_YTD S_ORDER_CNT S_REMOTE_CNT S_DATA
    }
}

/// The tables, as transactions use them.
#[derive(Clone)]
#[allow(missing_docs, reason = "the tables of these names")]
pub struct Tables {
    pub warehouse: Arc<TableEntry>,
    pub district: Arc<TableEntry>,
    pub customer: Arc<TableEntry>,
    pub history: Arc<TableEntry>,
    pub new_order: Arc<TableEntry>,
    pub orders: Arc<TableEntry>,
    pub order_line: Arc<TableEntry>,
    pub item: Arc<TableEntry>,
    pub stock: Arc<TableEntry>,
}

impl Tables {
    /// Looks them up; an error names the first that is not there.
    pub fn find(catalog: &Catalog) -> Result<Tables, String> {
        let table = |name| table(catalog, name);
        let tables = Tables {
            warehouse: table("warehouse")?,
            district: table("district")?,
            customer: table("customer")?,
            history: table("history")?,
            new_order: table("new_order")?,
            orders: table("orders")?,
            order_line: table("order_line")?,
            item: table("item")?,
            stock: table("stock")?,
        };
        for (table, indexes) in [(&tables.customer, 2), (&tables.orders, 2), (&tables.stock, 1)] {
            if table.indexes.len() != indexes {
                return Err(format!("table {} has not the indexes it should", table.def.name));
            }
        }
        Ok(tables)
    }

    /// customer by (c_w_id, c_d_id, c_last, c_first).
    pub fn customer_by_name(&self) -> &IndexEntry {
        &self.customer.indexes[1]
    }

    /// orders by (o_w_id, o_d_id, o_c_id, o_id).
    pub fn orders_by_customer(&self) -> &IndexEntry {
        &self.orders.indexes[1]
    }
}
