//! The kinds of statements that load generators send (go-tpc, sysbench), as they send them:
//! prepared, with no types declared or with their own, with hints and without aliases' AS.
//!
//! A regression here means that the program itself does not run any more.

use super::extended::extended;
use super::*;

/// Runs texts with parameters (`NULL` for NULL) and compares the last lines of what is said.
#[track_caller]
fn check_all(
    setup: &'static [&'static str],
    script: &'static [(&'static str, &'static [&'static str], &'static str)],
) {
    with_session(move |context, session| {
        for text in setup {
            let said = say(context, session, text);
            assert!(!said.iter().any(|line| line.starts_with("ERROR")), "{text}: {said:?}");
        }
        let mut wrong = Vec::new();
        for (text, parameters, expect) in script {
            let values: Vec<Option<&str>> =
                parameters.iter().map(|value| (*value != "NULL").then_some(*value)).collect();
            // The whole statement twice: the second time its plan is there already.
            say(context, session, "begin");
            let first = in_block(context, session, text, &values);
            say(context, session, "rollback");
            let said = extended(context, session, text, &values, 0);
            if said[1..].join("\n") != *expect || first[1..] != said[1..] {
                wrong.push(format!(
                    "{text}\n  said: {said:?}\n  first: {first:?}\n  not:  {expect}"
                ));
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
    });
}

fn in_block(
    context: &Context,
    session: &mut Session,
    text: &str,
    values: &[Option<&str>],
) -> Vec<String> {
    extended(context, session, text, values, 0)
}

const TPCC: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS warehouse (w_id INT NOT NULL, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_tax DECIMAL(4, 4), w_ytd DECIMAL(12, 2), PRIMARY KEY (w_id))",
    "CREATE TABLE IF NOT EXISTS district (d_id INT NOT NULL, d_w_id INT NOT NULL, d_tax DECIMAL(4, 4), d_ytd DECIMAL(12, 2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id))",
    "CREATE TABLE IF NOT EXISTS customer (c_id INT NOT NULL, c_d_id INT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16), c_last VARCHAR(16), c_credit CHAR(2), c_discount DECIMAL(4, 4), c_balance DECIMAL(12, 2), c_ytd_payment DECIMAL(12, 2), c_payment_cnt INT, c_data VARCHAR(500), c_since TIMESTAMP, PRIMARY KEY (c_w_id, c_d_id, c_id))",
    "CREATE INDEX idx_customer ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE TABLE IF NOT EXISTS history (h_c_id INT NOT NULL, h_date TIMESTAMP, h_amount DECIMAL(6, 2), h_data VARCHAR(24), h_w_id INT, h_d_id INT)",
    "CREATE TABLE IF NOT EXISTS new_order (no_o_id INT NOT NULL, no_d_id INT NOT NULL, no_w_id INT NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id))",
    "CREATE TABLE IF NOT EXISTS orders (o_id INT NOT NULL, o_d_id INT NOT NULL, o_w_id INT NOT NULL, o_c_id INT, o_entry_d TIMESTAMP, o_carrier_id INT, o_ol_cnt INT, PRIMARY KEY (o_w_id, o_d_id, o_id))",
    "CREATE TABLE IF NOT EXISTS order_line (ol_o_id INT NOT NULL, ol_d_id INT NOT NULL, ol_w_id INT NOT NULL, ol_number INT NOT NULL, ol_i_id INT NOT NULL, ol_delivery_d TIMESTAMP, ol_quantity INT, ol_amount DECIMAL(6, 2), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
    "CREATE TABLE IF NOT EXISTS stock (s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity INT, s_data VARCHAR(50), s_dist_01 CHAR(24), s_ytd INT, PRIMARY KEY (s_w_id, s_i_id))",
    "CREATE TABLE IF NOT EXISTS item (i_id INT NOT NULL, i_name VARCHAR(24), i_price DECIMAL(5, 2), i_data VARCHAR(50), PRIMARY KEY (i_id))",
    "INSERT INTO warehouse (w_id, w_name, w_tax, w_ytd) VALUES (1, 'one', 0.1, 300000)",
    "INSERT INTO district (d_id, d_w_id, d_tax, d_ytd, d_next_o_id) SELECT g, 1, 0.05, 30000, 4 FROM generate_series(1, 10) g",
    "INSERT INTO customer SELECT c, d, 1, 'f' || c, CASE WHEN c % 2 = 0 THEN 'BAR' ELSE 'OUGHT' END, 'GC', 0.1, -10, 10, 1, 'data', '2020-01-01' FROM generate_series(1, 5) c, generate_series(1, 10) d",
    "INSERT INTO orders SELECT o, d, 1, o, '2020-01-01', NULL, 2 FROM generate_series(1, 3) o, generate_series(1, 10) d",
    "INSERT INTO new_order SELECT o, d, 1 FROM generate_series(2, 3) o, generate_series(1, 10) d",
    "INSERT INTO order_line SELECT o, d, 1, n, n, NULL, 5, 1.5 FROM generate_series(1, 3) o, generate_series(1, 10) d, generate_series(1, 2) n",
    "INSERT INTO stock SELECT i, 1, 8 + i, 'ORIGINAL', 'dist', 0 FROM generate_series(1, 4) i",
    "INSERT INTO item SELECT i, 'item' || i, i + 0.5, 'x' FROM generate_series(1, 4) i",
];

type Script = &'static [(&'static str, &'static [&'static str], &'static str)];

const TRANSACTIONS: Script = &[
    (";", &[], "(empty)"),
    (
        "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = $3",
        &["1", "2", "3"],
        "0.1000|OUGHT|GC|0.1000\nSELECT 1",
    ),
    (
        "SELECT d_next_o_id, d_tax FROM district WHERE d_id = $1 AND d_w_id = $2 FOR UPDATE",
        &["1", "1"],
        "4|0.0500\nSELECT 1",
    ),
    (
        "UPDATE district SET d_next_o_id = $1 + 1 WHERE d_id = $2 AND d_w_id = $3",
        &["4", "1", "1"],
        "UPDATE 1",
    ),
    (
        "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt) VALUES ($1, $2, $3, $4, $5, $6)",
        &["4", "1", "1", "3", "2020-02-02 01:02:03", "1"],
        "INSERT 0 1",
    ),
    (
        "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)",
        &["4", "1", "1"],
        "INSERT 0 1",
    ),
    (
        "SELECT i_price, i_name, i_data, i_id FROM item WHERE i_id IN ($1,$2,$3)",
        &["1", "3", "99"],
        "1.50|item1|x|1\n3.50|item3|x|3\nSELECT 2",
    ),
    (
        "SELECT s_i_id, s_quantity, s_data, s_dist_01 FROM stock WHERE (s_w_id, s_i_id) IN (($1,$2),($3,$4)) FOR UPDATE",
        &["1", "1", "1", "3"],
        "1|9|ORIGINAL|dist                    \n3|11|ORIGINAL|dist                    \nSELECT 2",
    ),
    (
        "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2 WHERE s_i_id = $3 AND s_w_id = $4",
        &["7", "2", "1", "1"],
        "UPDATE 1",
    ),
    (
        "INSERT into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_quantity, ol_amount) VALUES ($1,$2,$3,$4,$5,$6,$7),($8,$9,$10,$11,$12,$13,$14)",
        &["4", "1", "1", "1", "1", "5", "7.5", "4", "1", "1", "2", "3", "5", "17.5"],
        "INSERT 0 2",
    ),
    ("UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2", &["10.5", "1"], "UPDATE 1"),
    (
        "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first",
        &["1", "1", "OUGHT"],
        "1\n3\n5\nSELECT 3",
    ),
    (
        "SELECT c_first, c_balance, c_since FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE",
        &["1", "1", "1"],
        "f1|-10.00|2020-01-01 00:00:00\nSELECT 1",
    ),
    (
        "UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $2, c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5",
        &["1", "1", "1", "1", "1"],
        "UPDATE 1",
    ),
    (
        "INSERT INTO history (h_d_id, h_w_id, h_c_id, h_date, h_amount, h_data) VALUES ($1, $2, $3, $4, $5, $6)",
        &["1", "1", "1", "2020-02-02 01:02:03", "5", "one"],
        "INSERT 0 1",
    ),
    (
        "SELECT count(c_id) namecnt FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3",
        &["1", "1", "BAR"],
        "2\nSELECT 1",
    ),
    (
        "SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
        &["1", "1", "3"],
        "4|NULL|2020-02-02 01:02:03\nSELECT 1",
    ),
    (
        "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id ASC LIMIT 1 FOR UPDATE",
        &["1", "1"],
        "2\nSELECT 1",
    ),
    (
        "DELETE FROM new_order WHERE (no_w_id, no_d_id, no_o_id) IN (($1,$2,$3),($4,$5,$6))",
        &["1", "1", "2", "1", "2", "2"],
        "DELETE 2",
    ),
    (
        "UPDATE orders SET o_carrier_id = $1 WHERE (o_w_id, o_d_id, o_id) IN (($2,$3,$4),($5,$6,$7))",
        &["8", "1", "1", "2", "1", "2", "2"],
        "UPDATE 2",
    ),
    (
        "SELECT o_d_id, o_c_id FROM orders WHERE (o_w_id, o_d_id, o_id) IN (($1,$2,$3),($4,$5,$6))",
        &["1", "1", "2", "1", "2", "2"],
        "1|2\n2|2\nSELECT 2",
    ),
    (
        "SELECT ol_d_id, SUM(ol_amount) FROM order_line WHERE (ol_w_id, ol_d_id, ol_o_id) IN (($1,$2,$3),($4,$5,$6)) GROUP BY ol_d_id",
        &["1", "1", "2", "1", "2", "2"],
        "1|3.00\n2|3.00\nSELECT 2",
    ),
    (
        "SELECT COUNT(DISTINCT (s_i_id)) FROM order_line, stock WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 AND ol_o_id >= $3 - 20 AND s_w_id = $5 AND s_i_id = ol_i_id AND s_quantity < $4",
        &["1", "1", "5", "10", "1"],
        "1\nSELECT 1",
    ),
    (
        "SELECT /*+ INL_JOIN(stock) */ count(*) FROM order_line, stock WHERE ol_w_id = s_w_id AND ol_i_id = s_i_id",
        &[],
        "62\nSELECT 1",
    ),
];

#[test]
fn what_go_tpc_sends() {
    check_all(TPCC, TRANSACTIONS);
}

#[test]
fn what_go_tpc_checks() {
    check_all(
        TPCC,
        &[
            (
                "SELECT sum(w_ytd) - (SELECT sum(d_ytd) FROM district) FROM warehouse",
                &[],
                "0.00\nSELECT 1",
            ),
            (
                "SELECT COUNT(*) FROM (SELECT w_id, w_ytd, SUM(d_ytd) d_sum FROM warehouse, district WHERE w_id = d_w_id GROUP BY w_id, w_ytd) t WHERE w_ytd != d_sum",
                &[],
                "0\nSELECT 1",
            ),
            (
                "SELECT POWER((d_next_o_id -1 - mo), 2) + POWER((d_next_o_id -1 - mno), 2) diff FROM district dis, (SELECT o_d_id, max(o_id) mo FROM orders WHERE o_w_id = $1 GROUP BY o_d_id) q, (SELECT no_d_id, max(no_o_id) mno FROM new_order WHERE no_w_id = $1 GROUP BY no_d_id) no WHERE d_w_id = $1 AND q.o_d_id = dis.d_id AND no.no_d_id = dis.d_id AND dis.d_id < 3",
                &["1"],
                "0\n0\nSELECT 2",
            ),
            (
                "SELECT count(*) FROM (SELECT max(no_o_id) - min(no_o_id) + 1 - count(*) AS diff FROM new_order GROUP BY no_w_id, no_d_id) t WHERE diff <> 0",
                &[],
                "0\nSELECT 1",
            ),
            (
                "SELECT count(*) FROM (SELECT o_d_id, SUM(o_ol_cnt) AS sum1, (SELECT count(*) FROM order_line WHERE ol_d_id = o_d_id AND ol_w_id = o_w_id) AS sum2 FROM orders GROUP BY o_w_id, o_d_id) t WHERE sum1 <> sum2",
                &[],
                "0\nSELECT 1",
            ),
            (
                "SELECT count(*) FROM orders LEFT JOIN new_order ON (no_w_id = o_w_id AND o_d_id = no_d_id AND o_id = no_o_id) WHERE o_w_id = $1 AND ((o_carrier_id IS NULL and no_o_id IS NULL) OR (o_carrier_id IS NOT NULL and no_o_id IS NOT NULL))",
                &["1"],
                "10\nSELECT 1",
            ),
            (
                "SELECT COUNT(*) FROM (SELECT o_ol_cnt, order_line_count FROM orders LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) order_line_count FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id ORDER by ol_w_id, ol_d_id, ol_o_id) AS order_line ON orders.o_w_id = order_line.ol_w_id AND orders.o_d_id = order_line.ol_d_id AND orders.o_id = order_line.ol_o_id WHERE orders.o_w_id = $1) AS T WHERE T.o_ol_cnt != T.order_line_count",
                &["1"],
                "0\nSELECT 1",
            ),
            (
                "SELECT count(*) FROM customer c LEFT JOIN (SELECT h_c_id, h_d_id, sum(h_amount) paid FROM history GROUP BY h_c_id, h_d_id) h ON h.h_c_id = c.c_id AND h.h_d_id = c.c_d_id WHERE c.c_w_id = $1 AND c_balance + c_ytd_payment <> COALESCE(paid, 0)",
                &["1"],
                "0\nSELECT 1",
            ),
        ],
    );
}

#[test]
fn what_the_analytical_mode_of_go_tpc_sends() {
    check_all(
        TPCC,
        &[
            (
                "select ol_number, sum(ol_quantity) as sum_qty, avg(ol_amount) as avg_amount, count(*) as count_order from order_line where ol_delivery_d is null group by ol_number order by ol_number",
                &[],
                "1|150|1.5000000000000000|30\n2|150|1.5000000000000000|30\nSELECT 2",
            ),
            (
                "select count(*) from orders where exists (select * from order_line where o_id = ol_o_id and o_w_id = ol_w_id and o_d_id = ol_d_id and ol_amount > 1) and o_id > 2",
                &[],
                "10\nSELECT 1",
            ),
            (
                "select c_id from customer where c_d_id = 1 and not exists (select * from orders where o_c_id = c_id and o_w_id = c_w_id and o_d_id = c_d_id) order by c_id",
                &[],
                "4\n5\nSELECT 2",
            ),
            (
                "select i_name, substr(i_data, 1, 3) as brand, count(distinct (mod((s_w_id * s_i_id), 10000))) as supplier_cnt from stock, item where i_id = s_i_id and i_data not like 'zz%' and (mod((s_w_id * s_i_id), 10000) not in (select s_i_id from stock where s_data like '%bad%')) group by i_name, substr(i_data, 1, 3), i_price order by supplier_cnt desc, i_name limit 2",
                &[],
                "item1|x|1\nitem2|x|1\nSELECT 2",
            ),
            (
                "select c_count, count(*) as custdist from (select c_id, count(o_id) from customer left outer join orders on (c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id and o_carrier_id > 8) group by c_id) as c_orders (c_id, c_count) group by c_count order by custdist desc, c_count desc",
                &[],
                "0|5\nSELECT 1",
            ),
            (
                "select s_i_id, sum(s_quantity) as ordercount from stock group by s_i_id having sum(s_quantity) > (select sum(s_quantity) * .26 from stock) order by ordercount desc",
                &[],
                "4|12\n3|11\nSELECT 2",
            ),
            (
                "select sum(case when ascii(substr(c_last, 1, 1)) = 66 then 1 else 0 end) as b, extract(year from o_entry_d) as y from orders, customer where c_id = o_c_id and c_d_id = o_d_id and c_w_id = o_w_id group by extract(year from o_entry_d)",
                &[],
                "10|2020\nSELECT 1",
            ),
            (
                "with revenue (supplier_no, total) as (select mod(s_w_id * s_i_id, 2), sum(ol_amount) from order_line, stock where ol_i_id = s_i_id group by mod(s_w_id * s_i_id, 2)) select supplier_no, total from revenue where total = (select max(total) from revenue) order by supplier_no",
                &[],
                "0|45.00\n1|45.00\nSELECT 2",
            ),
            (
                "select substr(c_first, 1, 1) as country, count(*) as numcust, sum(c_balance) as totacctbal from customer where substr(c_first, 1, 1) in ('f', 'g') and c_balance < (select avg(c_balance) + 1 from customer where c_balance < 0.00) and not exists (select * from orders where o_c_id = c_id and o_w_id = c_w_id and o_d_id = c_d_id) group by substr(c_first, 1, 1) order by 1",
                &[],
                "f|20|-200.00\nSELECT 1",
            ),
        ],
    );
}

#[test]
fn what_sysbench_sends() {
    check_all(
        &[
            "CREATE TABLE sbtest1(id INTEGER, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id))",
            "INSERT INTO sbtest1(id, k, c, pad) VALUES(1, 3, 'c1', 'p1'),(2, 2, 'c2', 'p2'),(3, 1, 'c1', 'p3'),(4, 0, 'c4', 'p4')",
            "CREATE INDEX k_1 ON sbtest1(k)",
        ],
        &[
            ("SELECT trim(c) FROM sbtest1 WHERE id=$1", &["2"], "c2\nSELECT 1"),
            ("SELECT id FROM sbtest1 WHERE id BETWEEN $1 AND $2", &["2", "3"], "2\n3\nSELECT 2"),
            ("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN $1 AND $2", &["1", "3"], "6\nSELECT 1"),
            (
                "SELECT trim(c) FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c",
                &["1", "3"],
                "c1\nc1\nc2\nSELECT 3",
            ),
            (
                "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c LIMIT 0",
                &["1", "3"],
                "SELECT 0",
            ),
            (
                "SELECT id, k FROM sbtest1 WHERE k IN ($1, $2, $3)",
                &["1", "3", "9"],
                "3|1\n1|3\nSELECT 2",
            ),
            ("UPDATE sbtest1 SET k=k+1 WHERE id=$1", &["1"], "UPDATE 1"),
            ("UPDATE sbtest1 SET c=$1 WHERE id=$2", &["new", "1"], "UPDATE 1"),
            ("DELETE FROM sbtest1 WHERE id=$1", &["1"], "DELETE 1"),
            (
                "INSERT INTO sbtest1 (id, k, c, pad) VALUES ($1, $2, $3, $4)",
                &["1", "5", "x", "y"],
                "INSERT 0 1",
            ),
        ],
    );
}

#[test]
fn blocks_as_drivers_begin_and_end_them() {
    with_session(|context, session| {
        for (text, expect) in [
            ("BEGIN READ WRITE", "BEGIN"),
            ("COMMIT", "COMMIT"),
            ("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE", "BEGIN"),
            ("END", "COMMIT"),
            ("START TRANSACTION READ ONLY", "START TRANSACTION"),
            ("ROLLBACK;", "ROLLBACK"),
            ("BEGIN READ WRITE", "BEGIN"),
            ("/* a comment */ SELECT /*+ TIDB_INLJ(t) */ 1 -- and more", "1"),
            ("COMMIT;", "COMMIT"),
        ] {
            assert_eq!(extended(context, session, text, &[], 0)[1], expect, "{text}");
        }
    });
}

/// More literals than a statement can have parameters: twice the same shape, once below the bound
/// of templates.
#[test]
fn every_value_of_a_large_insert_is_its_own() {
    with_session(|context, session| {
        say(context, session, "create table large (a int primary key, b text)");
        for (from, to) in [(0, 3000), (3000, 6000), (6000, 46_000), (46_000, 86_000)] {
            let rows: Vec<String> = (from..to).map(|a| format!("({a}, 'b{}')", a * 7)).collect();
            let text = format!("insert into large values {}", rows.join(", "));
            let tag = format!("INSERT 0 {}", to - from);
            assert_eq!(say(context, session, &text).last(), Some(&tag));
        }
        let query = "select count(*), count(distinct b), sum(a) from large where b = 'b' || a * 7";
        let sum: i64 = (0..86_000).sum();
        assert_eq!(say(context, session, query)[1], format!("86000|86000|{sum}"));
    });
}
