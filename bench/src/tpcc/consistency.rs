//! The consistency conditions of clause 3.3.2, each as a statement that counts the rows that break it.
//!
//! Condition 11 is defined for the initial population. We subtract the orders that customers have received since then,
//! so that it must hold at any later time too. A district may run out of new orders; conditions 2 and 3 then do not
//! apply to it.

use rowmill_base::Result;

use super::client::Engine;
use super::scale::Scale;

/// Orders by district: their number, the last one, and the lines that they should have.
const ORDERS: &str = "SELECT o_w_id, o_d_id, COUNT(*) AS order_count, MAX(o_id) AS last_order, \
                      SUM(o_ol_cnt) AS line_count FROM orders GROUP BY o_w_id, o_d_id";
/// New orders by district.
const NEW_ORDERS: &str = "SELECT no_w_id, no_d_id, COUNT(*) AS order_count, MIN(no_o_id) AS first_order, \
                          MAX(no_o_id) AS last_order FROM new_order GROUP BY no_w_id, no_d_id";
/// The delivered amount of each customer.
const DELIVERED: &str = "SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS amount FROM orders \
                         JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
                         WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id";
/// The amount that each customer has paid.
const PAID: &str = "SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS amount FROM history \
                    GROUP BY h_c_w_id, h_c_d_id, h_c_id";

/// The twelve conditions, from 1 on: statements that return the number of rows that break them.
pub fn conditions(scale: &Scale) -> [String; 12] {
    let initially_delivered = scale.delivered();
    let count = |from: &str| format!("SELECT COUNT(*) FROM {from}");
    [
        count(
            "warehouse LEFT JOIN (SELECT d_w_id, SUM(d_ytd) AS ytd FROM district GROUP BY d_w_id) AS d \
             ON d_w_id = w_id WHERE ytd IS NULL OR w_ytd <> ytd",
        ),
        count(&format!(
            "district LEFT JOIN ({ORDERS}) AS o ON o_w_id = d_w_id AND o_d_id = d_id \
             LEFT JOIN ({NEW_ORDERS}) AS n ON no_w_id = d_w_id AND no_d_id = d_id \
             WHERE o.last_order IS NULL OR d_next_o_id - 1 <> o.last_order OR o.last_order <> n.last_order"
        )),
        count(&format!("({NEW_ORDERS}) AS n WHERE last_order - first_order + 1 <> order_count")),
        count(&format!(
            "({ORDERS}) AS o LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS found FROM order_line \
             GROUP BY ol_w_id, ol_d_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id \
             WHERE found IS NULL OR found <> line_count"
        )),
        count(
            "orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
             WHERE (o_carrier_id IS NULL AND no_o_id IS NULL) OR (o_carrier_id IS NOT NULL AND no_o_id IS NOT NULL)",
        ),
        count(
            "orders LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS found FROM order_line \
             GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
             WHERE found IS NULL OR found <> o_ol_cnt",
        ),
        count(
            "order_line LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
             WHERE o_id IS NULL OR (ol_delivery_d IS NULL AND o_carrier_id IS NOT NULL) \
             OR (ol_delivery_d IS NOT NULL AND o_carrier_id IS NULL)",
        ),
        count(
            "warehouse LEFT JOIN (SELECT h_w_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id) AS h \
             ON h_w_id = w_id WHERE paid IS NULL OR w_ytd <> paid",
        ),
        count(
            "district LEFT JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) \
             AS h \
             ON h_w_id = d_w_id AND h_d_id = d_id WHERE paid IS NULL OR d_ytd <> paid",
        ),
        count(&format!(
            "customer LEFT JOIN ({DELIVERED}) AS d ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
             LEFT JOIN ({PAID}) AS p ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
             WHERE c_balance <> COALESCE(d.amount, 0) - COALESCE(p.amount, 0)"
        )),
        count(&format!(
            "({ORDERS}) AS o LEFT JOIN ({NEW_ORDERS}) AS n ON no_w_id = o_w_id AND no_d_id = o_d_id \
             LEFT JOIN (SELECT c_w_id, c_d_id, SUM(c_delivery_cnt) AS received FROM customer GROUP BY c_w_id, c_d_id) \
             AS c \
             ON c_w_id = o_w_id AND c_d_id = o_d_id \
             WHERE received IS NULL OR o.order_count - COALESCE(n.order_count, 0) - received <> {initially_delivered}"
        )),
        count(&format!(
            "customer LEFT JOIN ({DELIVERED}) AS d ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
             WHERE c_balance + c_ytd_payment <> COALESCE(d.amount, 0)"
        )),
    ]
}

/// Returns the number of rows that break each condition. After a run all twelve numbers must be zero.
pub fn check<E: Engine>(engine: &E, scale: &Scale) -> Result<[i64; 12]> {
    let mut broken = [0; 12];
    for (number, (found, sql)) in (1..).zip(broken.iter_mut().zip(conditions(scale))) {
        *found = engine.number(&sql).map_err(|error| error.context(format_args!("consistency condition {number}")))?;
    }
    Ok(broken)
}
