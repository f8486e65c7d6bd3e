//! The questions that analysts ask while TPC-C's clients work: the 22 of TPC-H, put to the tables of TPC-C in the way
//! that CH-benCHmark proposes (Cole et al., DBTest 2011). The texts are our own.
//!
//! TPC-C lacks three tables, which [`super::suppliers`] makes. Its stock has no supplier, so we derive it from the
//! product of warehouse and item. Its customers have no nation, so we derive it from the first character of their
//! state. Parts have no brand, type or size, so we use data, image and price of items instead. Everything is loaded
//! with the same timestamp, so conditions on dates select more rows than in TPC-H. Every question must have an order
//! that leaves no ties, except between equal rows.

/// A question in the manner of TPC-H.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// A short description.
    pub about: &'static str,
    /// The statement.
    pub sql: &'static str,
}

/// The number of questions.
pub const QUESTIONS: usize = 22;

/// The supplier of the stock of an item.
macro_rules! supplier_of_stock {
    () => {
        "s_w_id * s_i_id % 10000"
    };
}

/// The nation of a customer.
macro_rules! nation_of_customer {
    () => {
        "ascii(substr(c_state, 1, 1))"
    };
}

/// Orders and their customers.
macro_rules! customer_of_order {
    () => {
        "c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id"
    };
}

/// Orders and their lines.
macro_rules! line_of_order {
    () => {
        "ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id"
    };
}

/// Lines and the stock that they take from.
macro_rules! stock_of_line {
    () => {
        "s_w_id = ol_supply_w_id AND s_i_id = ol_i_id"
    };
}

macro_rules! question {
    ($about:literal, $($part:expr),+ $(,)?) => {
        Question { about: $about, sql: concat!($($part),+) }
    };
}

/// All questions. Question 1 comes first.
pub const ALL: [Question; QUESTIONS] = [
    question!(
        "pricing summary",
        "SELECT ol_number, SUM(ol_quantity) AS quantity, SUM(ol_amount) AS amount, AVG(ol_quantity) AS \
         average_quantity, \
         AVG(ol_amount) AS average_amount, COUNT(*) AS line_count FROM order_line \
         WHERE ol_delivery_d > TIMESTAMP '2007-01-02 00:00:00' GROUP BY ol_number ORDER BY ol_number",
    ),
    question!(
        "minimum cost supplier",
        "SELECT su_suppkey, su_name, n_name, i_id, i_name, su_address, su_phone, su_comment \
         FROM item, stock, supplier, nation, region, \
         (SELECT s_i_id AS least_i_id, MIN(s_quantity) AS least FROM stock, supplier, nation, region WHERE ",
        supplier_of_stock!(),
        " = su_suppkey AND su_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE' \
         GROUP BY s_i_id) AS least_stock \
         WHERE i_id = s_i_id AND ",
        supplier_of_stock!(),
        " = su_suppkey AND su_nationkey = n_nationkey AND n_regionkey = r_regionkey AND i_id = least_i_id \
         AND s_quantity = least AND i_data LIKE '%b' AND r_name = 'EUROPE' \
         ORDER BY n_name, su_name, i_id LIMIT 100",
    ),
    question!(
        "shipping priority",
        "SELECT ol_o_id, ol_w_id, ol_d_id, SUM(ol_amount) AS revenue, o_entry_d \
         FROM customer, new_order, orders, order_line WHERE c_state LIKE 'A%' AND ",
        customer_of_order!(),
        " AND no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id AND ",
        line_of_order!(),
        " AND o_entry_d > TIMESTAMP '2007-01-02 00:00:00' GROUP BY ol_o_id, ol_w_id, ol_d_id, o_entry_d \
         ORDER BY revenue DESC, o_entry_d, ol_w_id, ol_d_id, ol_o_id LIMIT 10",
    ),
    question!(
        "order priority checking",
        "SELECT o_ol_cnt, COUNT(*) AS order_count FROM orders \
         WHERE o_entry_d >= TIMESTAMP '2007-01-02 00:00:00' AND EXISTS (SELECT * FROM order_line WHERE ",
        line_of_order!(),
        " AND ol_delivery_d >= o_entry_d) GROUP BY o_ol_cnt ORDER BY o_ol_cnt",
    ),
    question!(
        "local supplier volume",
        "SELECT n_name, SUM(ol_amount) AS revenue FROM customer, orders, order_line, stock, supplier, nation, region \
         WHERE ",
        customer_of_order!(),
        " AND ",
        line_of_order!(),
        " AND ",
        stock_of_line!(),
        " AND ",
        supplier_of_stock!(),
        " = su_suppkey AND ",
        nation_of_customer!(),
        " = su_nationkey AND su_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE' \
         AND o_entry_d >= TIMESTAMP '2007-01-02 00:00:00' GROUP BY n_name ORDER BY revenue DESC, n_name",
    ),
    question!(
        "forecasting revenue change",
        "SELECT SUM(ol_amount) AS revenue FROM order_line WHERE ol_delivery_d >= TIMESTAMP '2007-01-02 00:00:00' \
         AND ol_delivery_d < TIMESTAMP '2100-01-01 00:00:00' AND ol_quantity BETWEEN 2 AND 6",
    ),
    question!(
        "volume shipping",
        "SELECT su_nationkey, n2.n_nationkey AS customer_nation, EXTRACT(YEAR FROM o_entry_d) AS of_year, \
         SUM(ol_amount) AS revenue FROM supplier, stock, order_line, orders, customer, nation AS n1, nation AS n2 \
         WHERE ",
        stock_of_line!(),
        " AND ",
        supplier_of_stock!(),
        " = su_suppkey AND ",
        line_of_order!(),
        " AND ",
        customer_of_order!(),
        " AND su_nationkey = n1.n_nationkey AND ",
        nation_of_customer!(),
        " = n2.n_nationkey AND ((n1.n_name = 'Germany' AND n2.n_name = 'Cambodia') \
         OR (n1.n_name = 'Cambodia' AND n2.n_name = 'Germany')) \
         AND ol_delivery_d BETWEEN TIMESTAMP '2007-01-02 00:00:00' AND TIMESTAMP '2100-01-01 00:00:00' \
         GROUP BY su_nationkey, n2.n_nationkey, EXTRACT(YEAR FROM o_entry_d) \
         ORDER BY su_nationkey, customer_nation, of_year",
    ),
    question!(
        "national market share",
        "SELECT EXTRACT(YEAR FROM o_entry_d) AS of_year, \
         SUM(CASE WHEN n2.n_name = 'Germany' THEN ol_amount ELSE 0 END) / (1 + SUM(ol_amount)) AS share \
         FROM item, supplier, stock, order_line, orders, customer, nation AS n1, nation AS n2, region \
         WHERE i_id = s_i_id AND ",
        stock_of_line!(),
        " AND ",
        supplier_of_stock!(),
        " = su_suppkey AND ",
        line_of_order!(),
        " AND ",
        customer_of_order!(),
        " AND n1.n_nationkey = ",
        nation_of_customer!(),
        " AND n1.n_regionkey = r_regionkey AND r_name = 'EUROPE' AND su_nationkey = n2.n_nationkey AND i_data LIKE \
         '%b' \
         AND o_entry_d BETWEEN TIMESTAMP '2007-01-02 00:00:00' AND TIMESTAMP '2100-01-01 00:00:00' \
         GROUP BY EXTRACT(YEAR FROM o_entry_d) ORDER BY of_year",
    ),
    question!(
        "product type profit",
        "SELECT n_name, EXTRACT(YEAR FROM o_entry_d) AS of_year, SUM(ol_amount - i_price * ol_quantity) AS profit \
         FROM item, stock, supplier, order_line, orders, nation WHERE i_id = s_i_id AND ",
        stock_of_line!(),
        " AND ",
        supplier_of_stock!(),
        " = su_suppkey AND ",
        line_of_order!(),
        " AND su_nationkey = n_nationkey AND i_data LIKE '%BB%' \
         GROUP BY n_name, EXTRACT(YEAR FROM o_entry_d) ORDER BY n_name, of_year DESC",
    ),
    question!(
        "returned items",
        "SELECT c_w_id, c_d_id, c_id, c_last, SUM(ol_amount) AS revenue, c_city, c_phone, n_name \
         FROM customer, orders, order_line, nation WHERE ",
        customer_of_order!(),
        " AND ",
        line_of_order!(),
        " AND o_entry_d >= TIMESTAMP '2007-01-02 00:00:00' AND o_entry_d < ol_delivery_d AND n_nationkey = ",
        nation_of_customer!(),
        " GROUP BY c_w_id, c_d_id, c_id, c_last, c_city, c_phone, n_name \
         ORDER BY revenue DESC, c_w_id, c_d_id, c_id LIMIT 20",
    ),
    question!(
        "important stock",
        "SELECT s_i_id, SUM(s_order_cnt) AS order_count FROM stock, supplier, nation WHERE ",
        supplier_of_stock!(),
        " = su_suppkey AND su_nationkey = n_nationkey AND n_name = 'Germany' GROUP BY s_i_id \
         HAVING SUM(s_order_cnt) > (SELECT SUM(s_order_cnt) * 0.005 FROM stock, supplier, nation WHERE ",
        supplier_of_stock!(),
        " = su_suppkey AND su_nationkey = n_nationkey AND n_name = 'Germany') ORDER BY order_count DESC, s_i_id",
    ),
    question!(
        "shipping modes and order priority",
        "SELECT o_ol_cnt, SUM(CASE WHEN o_carrier_id IN (1, 2) THEN 1 ELSE 0 END) AS high_count, \
         SUM(CASE WHEN o_carrier_id NOT IN (1, 2) THEN 1 ELSE 0 END) AS low_count FROM orders, order_line WHERE ",
        line_of_order!(),
        " AND o_entry_d <= ol_delivery_d AND ol_delivery_d < TIMESTAMP '2100-01-01 00:00:00' \
         GROUP BY o_ol_cnt ORDER BY o_ol_cnt",
    ),
    question!(
        "customer distribution",
        "SELECT order_count, COUNT(*) AS customers FROM (SELECT c_w_id, c_d_id, c_id, COUNT(o_id) AS order_count \
         FROM customer LEFT JOIN orders ON ",
        customer_of_order!(),
        " AND o_carrier_id > 8 GROUP BY c_w_id, c_d_id, c_id) AS of_customer \
         GROUP BY order_count ORDER BY customers DESC, order_count DESC",
    ),
    question!(
        "promotion effect",
        "SELECT 100.00 * SUM(CASE WHEN i_data LIKE 'P%' THEN ol_amount ELSE 0 END) / (1 + SUM(ol_amount)) AS promotion \
         FROM order_line, item WHERE ol_i_id = i_id AND ol_delivery_d >= TIMESTAMP '2007-01-02 00:00:00' \
         AND ol_delivery_d < TIMESTAMP '2100-01-01 00:00:00'",
    ),
    question!(
        "top supplier",
        "WITH revenue AS (SELECT ",
        supplier_of_stock!(),
        " AS supplier_key, SUM(ol_amount) AS total FROM order_line, stock WHERE ",
        stock_of_line!(),
        " AND ol_delivery_d >= TIMESTAMP '2007-01-02 00:00:00' GROUP BY ",
        supplier_of_stock!(),
        ") SELECT su_suppkey, su_name, su_address, su_phone, total FROM supplier, revenue \
         WHERE su_suppkey = supplier_key AND total = (SELECT MAX(total) FROM revenue) ORDER BY su_suppkey",
    ),
    question!(
        "items and their suppliers",
        "SELECT substr(i_data, 1, 3) AS brand, i_price, COUNT(DISTINCT ",
        supplier_of_stock!(),
        ") AS suppliers FROM stock, item WHERE i_id = s_i_id AND i_data NOT LIKE 'zz%' \
         AND i_im_id % 50 IN (3, 9, 14, 19, 23, 36, 45, 49) AND ",
        supplier_of_stock!(),
        " NOT IN (SELECT su_suppkey FROM supplier WHERE su_comment LIKE '%Customer%Complaints%') \
         GROUP BY substr(i_data, 1, 3), i_price ORDER BY suppliers DESC, brand, i_price",
    ),
    question!(
        "small quantity orders",
        "SELECT SUM(ol_amount) / 2.0 AS yearly FROM order_line, item WHERE ol_i_id = i_id AND i_data LIKE '%b' \
         AND ol_quantity < (SELECT 0.7 * AVG(l.ol_quantity) FROM order_line AS l WHERE l.ol_i_id = i_id)",
    ),
    question!(
        "large volume customers",
        "SELECT c_last, c_w_id, c_d_id, c_id, o_id, o_entry_d, o_ol_cnt, SUM(ol_amount) AS amount \
         FROM customer, orders, order_line WHERE ",
        customer_of_order!(),
        " AND ",
        line_of_order!(),
        " GROUP BY c_last, c_w_id, c_d_id, c_id, o_id, o_entry_d, o_ol_cnt HAVING SUM(ol_amount) > 200 \
         ORDER BY amount DESC, o_entry_d, c_w_id, c_d_id, o_id LIMIT 100",
    ),
    question!(
        "discounted revenue",
        "SELECT SUM(ol_amount) AS revenue FROM order_line, item \
         WHERE (ol_i_id = i_id AND i_data LIKE '%a' AND ol_quantity BETWEEN 1 AND 5 AND i_price BETWEEN 1 AND 40 \
         AND ol_d_id IN (1, 2, 3)) \
         OR (ol_i_id = i_id AND i_data LIKE '%b' AND ol_quantity BETWEEN 3 AND 8 AND i_price BETWEEN 1 AND 50 \
         AND ol_d_id IN (1, 2, 4)) \
         OR (ol_i_id = i_id AND i_data LIKE '%c' AND ol_quantity BETWEEN 5 AND 10 AND i_price BETWEEN 1 AND 60 \
         AND ol_d_id IN (1, 5, 3))",
    ),
    question!(
        "potential promotion",
        "SELECT su_name, su_address FROM supplier, nation WHERE su_suppkey IN (SELECT ",
        supplier_of_stock!(),
        " FROM stock WHERE s_i_id IN (SELECT i_id FROM item WHERE i_data LIKE 'c%') \
         AND s_quantity > (SELECT 0.5 * SUM(ol_quantity) FROM order_line WHERE ",
        stock_of_line!(),
        " AND ol_delivery_d > TIMESTAMP '2007-01-02 00:00:00')) \
         AND su_nationkey = n_nationkey AND n_name = 'Germany' ORDER BY su_name",
    ),
    question!(
        "suppliers who kept orders waiting",
        "SELECT su_name, COUNT(*) AS waits FROM supplier, order_line AS l1, orders, stock, nation \
         WHERE l1.ol_w_id = o_w_id AND l1.ol_d_id = o_d_id AND l1.ol_o_id = o_id \
         AND s_w_id = l1.ol_supply_w_id AND s_i_id = l1.ol_i_id AND ",
        supplier_of_stock!(),
        " = su_suppkey AND l1.ol_delivery_d > o_entry_d AND NOT EXISTS (SELECT * FROM order_line AS l2 \
         WHERE l2.ol_w_id = l1.ol_w_id AND l2.ol_d_id = l1.ol_d_id AND l2.ol_o_id = l1.ol_o_id \
         AND l2.ol_delivery_d > l1.ol_delivery_d) AND su_nationkey = n_nationkey AND n_name = 'Germany' \
         GROUP BY su_name ORDER BY waits DESC, su_name LIMIT 100",
    ),
    question!(
        "global sales opportunity",
        "SELECT substr(c_state, 1, 1) AS country, COUNT(*) AS customers, SUM(c_balance) AS balance FROM customer \
         WHERE substr(c_phone, 1, 1) IN ('1', '2', '3', '4', '5', '6', '7') \
         AND c_balance > (SELECT AVG(c_balance) FROM customer WHERE c_balance > 0.00 \
         AND substr(c_phone, 1, 1) IN ('1', '2', '3', '4', '5', '6', '7')) \
         AND NOT EXISTS (SELECT * FROM orders WHERE ",
        customer_of_order!(),
        " AND o_carrier_id IS NULL) GROUP BY substr(c_state, 1, 1) ORDER BY country",
    ),
];
