//! Statements of TPC-C in the form that other harnesses use, over the tables of [`crate::tpcc`]: customers by last
//! name, orders by least and greatest number, stock with all district texts, and the join of Stock-Level.

use super::draw::Draw::{
    Again, Cents, Customer, Delivered, District, Fresh, Item, LastName, Moment, More, Number, Recent, Undelivered,
};
use super::statement::{Statement, change, commit, read};

/// The statements, grouped by transaction.
pub static TPCC: &[(&str, &[Statement])] = &[
    ("TPC-C New-Order", NEW_ORDER),
    ("TPC-C Payment", PAYMENT),
    ("TPC-C Order-Status", ORDER_STATUS),
    ("TPC-C Delivery", DELIVERY),
    ("TPC-C Stock-Level", STOCK_LEVEL),
];

const NEW_ORDER: &[Statement] = &[
    read(
        "customer and warehouse",
        "SELECT c.c_discount, c.c_last, c.c_credit, w.w_tax FROM customer AS c JOIN warehouse AS w \
         ON c.c_w_id = w.w_id AND w.w_id = 1 AND c.c_w_id = 1 AND c.c_d_id = ? AND c.c_id = ?",
        &[District, Customer],
    ),
    change(
        "next order",
        "UPDATE district SET d_next_o_id = ? + 1 WHERE d_id = ? AND d_w_id = 1",
        &[Number(3_001, 9_000), District],
    ),
    read("price of an item", "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?", &[Item]),
    read("tax and next order", "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = 1 AND d_id = ?", &[District]),
    change(
        "undelivered order",
        "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, 1)",
        &[Fresh, District],
    ),
    read(
        "stock with all texts",
        "SELECT s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, \
         s_dist_08, \
         s_dist_09, s_dist_10 FROM stock WHERE s_i_id = ? AND s_w_id = 1",
        &[Item],
    ),
    change(
        "new order",
        "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (?, ?, 1, ?, ?, \
         10, 1)",
        &[Fresh, District, Customer, Moment(0)],
    ),
    change(
        "order line",
        "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
         ol_amount, \
         ol_dist_info) VALUES (?, ?, 1, 1, ?, 1, 5, ?, 'a text of 24 letters')",
        &[Fresh, District, Item, Cents(1, 9_999)],
    ),
    change(
        "stock after a line",
        "UPDATE stock SET s_quantity = ? WHERE s_i_id = ? AND s_w_id = 1",
        &[Number(10, 100), Item],
    ),
];

const PAYMENT: &[Statement] = &[
    commit("payment of a warehouse", "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = 1", &[Cents(100, 500_000)]),
    read(
        "customers of a name, counted",
        "SELECT count(c_id) FROM customer WHERE c_w_id = 1 AND c_d_id = ? AND c_last = ?",
        &[District, LastName],
    ),
    read(
        "customers of a name",
        "SELECT c_id FROM customer WHERE c_w_id = 1 AND c_d_id = ? AND c_last = ? ORDER BY c_first",
        &[District, LastName],
    ),
    change(
        "payment of a district",
        "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = 1 AND d_id = ?",
        &[Cents(100, 500_000), District],
    ),
    read(
        "address of a district",
        "SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name FROM district WHERE d_w_id = 1 AND d_id = ?",
        &[District],
    ),
    read(
        "customer of a payment",
        "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, \
         c_credit_lim, c_discount, c_balance, c_since FROM customer WHERE c_w_id = 1 AND c_d_id = ? AND c_id = ?",
        &[District, Customer],
    ),
    read(
        "middle customer of a name",
        "SELECT c_id, c_balance FROM customer WHERE c_w_id = 1 AND c_d_id = ? AND c_last = ? ORDER BY c_first \
         LIMIT 1 OFFSET 1",
        &[District, LastName],
    ),
    change(
        "balance of a customer",
        "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
         c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = 1 AND c_d_id = ? AND c_id = ?",
        &[Cents(100, 500_000), Cents(100, 500_000), District, Customer],
    ),
    change(
        "balance and data of a customer",
        "UPDATE customer SET c_balance = ?, c_data = 'paid' WHERE c_w_id = 1 AND c_d_id = ? AND c_id = ?",
        &[Cents(100, 500_000), District, Customer],
    ),
];

const ORDER_STATUS: &[Statement] = &[
    read(
        "balances of a name",
        "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = 1 AND c_d_id = ? AND c_last = ? \
         ORDER BY c_first",
        &[District, LastName],
    ),
    read(
        "last order by the greatest",
        "SELECT o_id, o_entry_d, COALESCE(o_carrier_id, 0) FROM orders WHERE o_w_id = 1 AND o_d_id = ? AND o_c_id = ? \
         AND o_id = (SELECT MAX(o_id) FROM orders WHERE o_w_id = 1 AND o_d_id = ? AND o_c_id = ?)",
        &[District, Customer, Again(0), Again(1)],
    ),
    read(
        "last order by order",
        "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = 1 AND o_d_id = ? AND o_c_id = ? ORDER BY \
         o_id DESC LIMIT 1",
        &[District, Customer],
    ),
    read(
        "lines of an order",
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
         WHERE ol_w_id = 1 AND ol_d_id = ? AND ol_o_id = ?",
        &[District, Delivered],
    ),
];

const DELIVERY: &[Statement] = &[
    read(
        "oldest new order by the least",
        "SELECT COALESCE(MIN(no_o_id), 0) FROM new_order WHERE no_d_id = ? AND no_w_id = 1",
        &[District],
    ),
    read(
        "oldest new order by order",
        "SELECT no_o_id FROM new_order WHERE no_w_id = 1 AND no_d_id = ? ORDER BY no_o_id ASC LIMIT 1",
        &[District],
    ),
    change(
        "a new order is delivered",
        "DELETE FROM new_order WHERE no_o_id = ? AND no_d_id = ? AND no_w_id = 1",
        &[Undelivered, District],
    ),
    read(
        "whose order",
        "SELECT o_c_id FROM orders WHERE o_id = ? AND o_d_id = ? AND o_w_id = 1",
        &[Delivered, District],
    ),
    change(
        "carrier",
        "UPDATE orders SET o_carrier_id = ? WHERE o_id = ? AND o_d_id = ? AND o_w_id = 1",
        &[Number(1, 10), Undelivered, District],
    ),
    change(
        "lines are delivered",
        "UPDATE order_line SET ol_delivery_d = ? WHERE ol_o_id = ? AND ol_d_id = ? AND ol_w_id = 1",
        &[Moment(0), Undelivered, District],
    ),
    read(
        "amount of an order",
        "SELECT SUM(ol_amount) FROM order_line WHERE ol_o_id = ? AND ol_d_id = ? AND ol_w_id = 1",
        &[Undelivered, District],
    ),
    change(
        "a delivery is charged",
        "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
         WHERE c_id = ? AND c_d_id = ? AND c_w_id = 1",
        &[Cents(100, 90_000), Customer, District],
    ),
];

const STOCK_LEVEL: &[Statement] = &[
    read("next order of a district", "SELECT d_next_o_id FROM district WHERE d_id = ? AND d_w_id = 1", &[District]),
    read(
        "items of the last orders",
        "SELECT DISTINCT ol_i_id FROM order_line WHERE ol_w_id = 1 AND ol_d_id = ? AND ol_o_id < ? AND ol_o_id >= (? \
         - 20)",
        &[District, Recent, Again(1)],
    ),
    read(
        "stock of an item",
        "SELECT count(*) FROM stock WHERE s_w_id = 1 AND s_i_id = ? AND s_quantity < ?",
        &[Item, Number(10, 20)],
    ),
    read(
        "short items by join",
        "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
         WHERE ol_w_id = 1 AND ol_d_id = ? AND ol_o_id < ? AND ol_o_id >= (? - 20) AND s_quantity < ?",
        &[District, Recent, Again(1), Number(10, 20)],
    ),
    read(
        "short items by commas",
        "SELECT count(DISTINCT s_i_id) FROM stock, order_line WHERE ol_w_id = 1 AND ol_d_id = ? AND ol_o_id >= ? AND \
         ol_o_id < ? \
         AND s_w_id = 1 AND s_i_id = ol_i_id AND s_quantity < ?",
        &[District, Recent, More(20), Number(10, 20)],
    ),
];
