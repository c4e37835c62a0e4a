//! The SQL of the five transactions, prepared once a connection.
//!
//! Invariants: what every PostgreSQL-compatible server understands. Money goes as cents and rates
//! as ten-thousandths, both int8, so that no client needs decimal numbers. Rows that are read to
//! be changed are read FOR UPDATE.

use postgres::{Client, Error, Statement};

/// Puts a payment down: c, cd, cw, d, w, cents, text.
pub const INSERT_HISTORY: &str = "insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, \
    h_date, h_amount, h_data) values ($1, $2, $3, $4, $5, current_timestamp, \
    $6::int8::numeric / 100, $7)";

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: $text:expr;)*) => {
        /// All prepared statements of a connection.
        pub struct Statements {
            $($(#[$doc])* pub $name: Statement,)*
            /// What of a stock row an order needs; one for each district's text.
            pub stock: Vec<Statement>,
        }

        impl Statements {
            /// Prepares them.
            pub fn prepare(client: &mut Client) -> Result<Statements, Error> {
                let mut stock = Vec::new();
                for district in 1..=10 {
                    stock.push(client.prepare(&format!(
                        "select s_quantity, s_data, s_dist_{district:02} from stock \
                         where s_w_id = $1 and s_i_id = $2 for update"
                    ))?);
                }
                Ok(Statements { $($name: client.prepare($text)?,)* stock })
            }
        }
    };
}

statements! {
    /// A warehouse's tax.
    warehouse_tax: "select (w_tax * 10000)::int8 from warehouse where w_id = $1";
    /// Discount, name and credit of who orders.
    customer_discount: "select (c_discount * 10000)::int8, c_last, c_credit from customer \
        where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    /// The next order's number, and the district's tax.
    district_next: "select d_next_o_id, (d_tax * 10000)::int8 from district \
        where d_w_id = $1 and d_id = $2 for update";
    /// Takes the number.
    district_take: "update district set d_next_o_id = d_next_o_id + 1 \
        where d_w_id = $1 and d_id = $2";
    /// The order: o_id, d, w, c, lines, all local.
    insert_order: "insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, \
        o_all_local) values ($1, $2, $3, $4, current_timestamp, $5, $6)";
    /// It is new.
    insert_new_order: "insert into new_order (no_o_id, no_d_id, no_w_id) values ($1, $2, $3)";
    /// An item.
    item: "select (i_price * 100)::int8, i_name, i_data from item where i_id = $1";
    /// Takes from stock: new quantity, ordered, remote, w, i.
    stock_take: "update stock set s_quantity = $1, s_ytd = s_ytd + $2, \
        s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $3 \
        where s_w_id = $4 and s_i_id = $5";
    /// A line: o, d, w, number, item, supply, quantity, cents, text.
    insert_line: "insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, \
        ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) \
        values ($1, $2, $3, $4, $5, $6, $7, $8::int8::numeric / 100, $9)";
    /// A payment reaches the warehouse: cents, w.
    warehouse_pay: "update warehouse set w_ytd = w_ytd + $1::int8::numeric / 100 where w_id = $2";
    /// What the receipt says of it.
    warehouse_address: "select w_name, w_street_1, w_street_2, w_city, w_state, w_zip \
        from warehouse where w_id = $1";
    /// And the district: cents, w, d.
    district_pay: "update district set d_ytd = d_ytd + $1::int8::numeric / 100 \
        where d_w_id = $2 and d_id = $3";
    /// What the receipt says of it.
    district_address: "select d_name, d_street_1, d_street_2, d_city, d_state, d_zip \
        from district where d_w_id = $1 and d_id = $2";
    /// Customers of a last name, in order.
    customers_named: "select c_id from customer \
        where c_w_id = $1 and c_d_id = $2 and c_last = $3 order by c_first";
    /// A customer who pays.
    customer_paying: "select c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, \
        c_zip, c_phone, c_credit, (c_credit_lim * 100)::int8, (c_discount * 10000)::int8, \
        (c_balance * 100)::int8 from customer \
        where c_w_id = $1 and c_d_id = $2 and c_id = $3 for update";
    /// Pays: cents, w, d, c.
    customer_pay: "update customer set c_balance = c_balance - $1::int8::numeric / 100, \
        c_ytd_payment = c_ytd_payment + $1::int8::numeric / 100, \
        c_payment_cnt = c_payment_cnt + 1 where c_w_id = $2 and c_d_id = $3 and c_id = $4";
    /// What is known of a customer with bad credit.
    customer_data: "select c_data from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    /// Puts more down: data, w, d, c.
    customer_write: "update customer set c_data = $1 \
        where c_w_id = $2 and c_d_id = $3 and c_id = $4";
    /// Puts the payment down.
    insert_history: INSERT_HISTORY;
    /// A customer who asks.
    customer_asking: "select c_first, c_middle, c_last, (c_balance * 100)::int8 from customer \
        where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    /// Their last order.
    last_order: "select o_id, o_entry_d, o_carrier_id from orders \
        where o_w_id = $1 and o_d_id = $2 and o_c_id = $3 order by o_id desc limit 1";
    /// Its lines.
    lines: "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
        from order_line where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
    /// A district's oldest new order.
    oldest: "select no_o_id from new_order where no_w_id = $1 and no_d_id = $2 \
        order by no_o_id limit 1";
    /// Takes it, if it is still there.
    take: "delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = $3";
    /// Whose it is.
    order_customer: "select o_c_id from orders where o_w_id = $1 and o_d_id = $2 and o_id = $3";
    /// Who carries it: carrier, w, d, o.
    order_carry: "update orders set o_carrier_id = $1 \
        where o_w_id = $2 and o_d_id = $3 and o_id = $4";
    /// Delivers its lines.
    lines_deliver: "update order_line set ol_delivery_d = current_timestamp \
        where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
    /// What they cost.
    lines_sum: "select (sum(ol_amount) * 100)::int8 from order_line \
        where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
    /// The customer owes it: cents, w, d, c.
    customer_owe: "update customer set c_balance = c_balance + $1::int8::numeric / 100, \
        c_delivery_cnt = c_delivery_cnt + 1 where c_w_id = $2 and c_d_id = $3 and c_id = $4";
    /// The district's next order.
    district_order: "select d_next_o_id from district where d_w_id = $1 and d_id = $2";
    /// Items of the last orders that run low: w, d, from, to, threshold.
    low_stock: "select count(distinct s_i_id) from order_line join stock \
        on s_w_id = ol_w_id and s_i_id = ol_i_id \
        where ol_w_id = $1 and ol_d_id = $2 and ol_o_id >= $3 and ol_o_id < $4 \
        and s_w_id = $1 and s_quantity < $5";
}
