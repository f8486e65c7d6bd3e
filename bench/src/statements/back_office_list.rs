//! Statements of back offices and reports, on the tables of a [shop](super::shop).
//!
//! They are figures of whole tables, searches without an index, lists of groups, and changes of several rows.

use super::draw::Draw::{
    Again, Buyer, Category, Cents, Country, Fresh, Later, Moment, More, Number, OneOf, Order, Product, Times, User,
    UserCreated,
};
use super::statement::{Statement, change, read};

const STATUSES: &[&str] = &["new", "paid", "cancelled", "shipped", "done"];
const DAY_S: i64 = 86_400;

/// Figures of whole tables.
pub(super) const BACK_OFFICE_FIGURES: &[Statement] = &[
    read("orders of each status", "SELECT status, count(*) FROM orders GROUP BY status ORDER BY status", &[]),
    read("statuses", "SELECT DISTINCT status FROM orders ORDER BY status", &[]),
    read("countries", "SELECT DISTINCT country FROM users ORDER BY country DESC", &[]),
    read("number of countries", "SELECT count(DISTINCT country) FROM users", &[]),
    read(
        "countries with the most users",
        "SELECT country, count(*) AS n FROM users GROUP BY country ORDER BY n DESC, country LIMIT 5",
        &[],
    ),
    read(
        "newest user of each country",
        "SELECT country, max(created) FROM users GROUP BY country ORDER BY country",
        &[],
    ),
    read("first and last order", "SELECT min(created), max(created), count(*) FROM orders", &[]),
    read("price of each category", "SELECT category, min(price), max(price), count(*) FROM products GROUP BY 1", &[]),
    read("average price of a category", "SELECT avg(rating), sum(stock) FROM products WHERE category = ?", &[Category]),
    read(
        "dear products",
        "SELECT count(*) FROM products WHERE category = ? AND price > ?",
        &[Category, Cents(1_000, 90_000)],
    ),
    read("users of a product", "SELECT count(DISTINCT user_id) FROM orders WHERE product_id = ?", &[Product]),
    read(
        "orders by an age",
        "SELECT count(*) FROM users u JOIN orders o ON o.user_id = u.id WHERE u.age = ? AND u.id < 2000",
        &[Number(18, 80)],
    ),
    read("any new order", "SELECT EXISTS (SELECT 1 FROM orders WHERE created > ?)", &[Moment(DAY_S)]),
    read("sum of all", "SELECT sum(amount), count(note) FROM orders", &[]),
    read("count without an index", "SELECT count(*) FROM users WHERE age = ?", &[Number(18, 80)]),
    read(
        "search without an index",
        "SELECT id, name FROM users WHERE city = ? ORDER BY id LIMIT 20",
        &[OneOf(&["Paris", "Nowhere"])],
    ),
    read("part of a name", "SELECT count(*) FROM users WHERE name LIKE '%son%'", &[]),
    read("lower case", "SELECT id FROM users WHERE lower(email) = ?", &[OneOf(&["nobody@example.org"])]),
    read("richest users", "SELECT id, name, balance FROM users ORDER BY balance DESC, id LIMIT 10", &[]),
    read("groups without an index", "SELECT age, count(*) FROM users WHERE age > 0 GROUP BY age ORDER BY age", &[]),
    read(
        "sums of a month",
        "SELECT status, sum(amount) FROM orders WHERE created >= ? AND created < ? GROUP BY status ORDER BY status",
        &[Moment(30 * DAY_S), Later(30 * DAY_S)],
    ),
    read(
        "best customers of a week",
        "SELECT user_id, sum(amount) AS total FROM orders WHERE created >= ? AND created < ? GROUP BY user_id \
         ORDER BY total DESC, user_id LIMIT 10",
        &[Moment(7 * DAY_S), Later(7 * DAY_S)],
    ),
    read(
        "categories of a week",
        "SELECT p.category, count(*), sum(o.amount) FROM orders o JOIN products p ON p.id = o.product_id \
         WHERE o.created >= ? AND o.created < ? GROUP BY p.category ORDER BY p.category",
        &[Moment(7 * DAY_S), Later(7 * DAY_S)],
    ),
];

/// Lists with conditions of several kinds.
pub(super) const BACK_OFFICE_LISTS: &[Statement] = &[
    read("or, two columns", "SELECT id, status FROM orders WHERE user_id = ? OR product_id = ?", &[Buyer, Product]),
    read("count of an or", "SELECT count(*) FROM orders WHERE user_id = ? OR product_id = ?", &[Buyer, Product]),
    read(
        "rows in a list",
        "SELECT user_id, product_id, quantity FROM carts WHERE (user_id, product_id) IN ((?, ?), (?, ?))",
        &[User, Product, User, Product],
    ),
    read(
        "rows in a query",
        "SELECT id, user_id FROM orders WHERE (user_id, created) IN (SELECT user_id, max(created) FROM orders \
         WHERE user_id IN (?*3) GROUP BY user_id)",
        &[Times(3, &Buyer)],
    ),
    read(
        "joined latest orders",
        "SELECT o.id, o.user_id, o.status FROM orders o JOIN (SELECT user_id, max(created) AS m FROM orders \
         WHERE user_id IN (?*5) GROUP BY user_id) x ON x.user_id = o.user_id AND x.m = o.created",
        &[Times(5, &Buyer)],
    ),
    read(
        "in a limited query",
        "SELECT order_id, line, price FROM order_items WHERE order_id IN (SELECT id FROM orders WHERE user_id = ? \
         ORDER BY created DESC LIMIT 2)",
        &[Buyer],
    ),
    read("latest moment", "SELECT id, status FROM orders WHERE created = (SELECT max(created) FROM orders)", &[]),
    read("greatest number of a user", "SELECT max(id) FROM orders WHERE user_id = ?", &[Buyer]),
    read(
        "rows after a number",
        "SELECT id, amount FROM orders WHERE user_id = ? AND id > ? ORDER BY id LIMIT 10",
        &[Buyer, Order],
    ),
    read(
        "page of a size",
        "SELECT id, name FROM users WHERE country = ? ORDER BY created LIMIT ? OFFSET ?",
        &[Country, Number(5, 20), Number(0, 40)],
    ),
    read(
        "order by a case",
        "SELECT id, status FROM orders WHERE user_id = ? ORDER BY CASE status WHEN 'new' THEN 0 WHEN 'paid' THEN 1 \
         ELSE 2 END, created DESC LIMIT 10",
        &[Buyer],
    ),
    read(
        "order by a function",
        "SELECT id, name FROM users WHERE id BETWEEN ? AND ? ORDER BY lower(name), id LIMIT 5",
        &[User, More(100)],
    ),
    read(
        "order by two columns",
        "SELECT id, status, amount FROM orders WHERE user_id = ? ORDER BY status, amount DESC",
        &[Buyer],
    ),
    read(
        "newest of a status and a user",
        "SELECT id FROM orders WHERE status = ? AND user_id = ? ORDER BY created DESC LIMIT 1",
        &[OneOf(STATUSES), Buyer],
    ),
    read(
        "orders of a status and a moment",
        "SELECT id, user_id FROM orders WHERE status = ? AND created >= ? ORDER BY created LIMIT 20",
        &[OneOf(STATUSES), Moment(DAY_S)],
    ),
    read(
        "newest of a product",
        "SELECT id, user_id, created FROM orders WHERE product_id = ? ORDER BY created DESC LIMIT 5",
        &[Product],
    ),
    read("not equal", "SELECT id, status FROM orders WHERE user_id = ? AND status <> 'done' ORDER BY id", &[Buyer]),
    read("distinct buyers", "SELECT DISTINCT user_id FROM orders WHERE product_id = ? ORDER BY user_id", &[Product]),
    read(
        "having a sum",
        "SELECT product_id, sum(amount) FROM orders WHERE user_id = ? GROUP BY product_id \
         HAVING sum(product_id) > 5000",
        &[Buyer],
    ),
    read(
        "joined with using",
        "SELECT c.product_id, o.id FROM carts c JOIN orders o USING (user_id) WHERE c.user_id = ?",
        &[User],
    ),
    read(
        "four tables",
        "SELECT u.name, o.id, i.line, p.name FROM users u JOIN orders o ON o.user_id = u.id JOIN order_items i \
         ON i.order_id = o.id JOIN products p ON p.id = i.product_id WHERE u.id = ? ORDER BY o.id, i.line",
        &[Buyer],
    ),
    read(
        "exists and not exists",
        "SELECT u.id FROM users u WHERE u.id BETWEEN ? AND ? AND EXISTS (SELECT 1 FROM orders o WHERE \
         o.user_id = u.id AND o.status = 'done') AND NOT EXISTS (SELECT 1 FROM carts c WHERE c.user_id = u.id)",
        &[User, More(30)],
    ),
    read(
        "latest order of a status",
        "SELECT u.id, u.name FROM users u WHERE u.id IN (?*5) AND (SELECT o.status FROM orders o \
         WHERE o.user_id = u.id ORDER BY o.created DESC LIMIT 1) = 'done'",
        &[Times(5, &Buyer)],
    ),
    read(
        "lines of an order and their sum",
        "SELECT o.id, o.amount, sum(i.quantity * i.price) FROM orders o JOIN order_items i ON i.order_id = o.id \
         WHERE o.id IN (?*5) GROUP BY o.id, o.amount",
        &[Times(5, &Order)],
    ),
    read("names in one text", "SELECT string_agg(status, ',') FROM orders WHERE user_id = ?", &[Buyer])
        .sqlite("SELECT group_concat(status, ',') FROM orders WHERE user_id = ?"),
    read(
        "share of the sum",
        "SELECT id, amount * 100 / sum(amount) OVER () FROM orders WHERE user_id = ? ORDER BY id",
        &[Buyer],
    )
    .sqlite("SELECT id, amount * 100.0 / sum(amount) OVER () FROM orders WHERE user_id = ? ORDER BY id"),
    read(
        "first and next",
        "SELECT id, first_value(amount) OVER w, lead(id) OVER w, count(*) OVER () FROM orders WHERE user_id = ? \
         WINDOW w AS (ORDER BY created)",
        &[Buyer],
    ),
    read(
        "numbered page",
        "SELECT id, name, row_number() OVER (ORDER BY id) FROM users WHERE country = ? ORDER BY id LIMIT 10",
        &[Country],
    ),
    read(
        "three lists",
        "SELECT id, created FROM orders WHERE user_id = ? UNION ALL SELECT id, moment FROM events WHERE user_id = ? \
         UNION ALL SELECT id, created FROM users WHERE id = ? ORDER BY 2 DESC, 1 LIMIT 10",
        &[Buyer, Again(0), Again(0)],
    ),
    read(
        "intersection",
        "SELECT user_id FROM orders WHERE product_id = ? INTERSECT SELECT user_id FROM carts WHERE product_id = ?",
        &[Product, Again(0)],
    ),
    read(
        "numbers and rows",
        "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?) \
         SELECT n.i, u.name FROM n LEFT JOIN users u ON u.id = n.i",
        &[User, More(10)],
    ),
];

/// Questions of single screens, with several tables, orders and conditions.
pub(super) const BACK_OFFICE_SCREENS: &[Statement] = &[
    read("last row of a user", "SELECT * FROM orders WHERE user_id = ? ORDER BY id DESC LIMIT 1", &[Buyer]),
    read(
        "newest users with their last order",
        "SELECT u.id, u.name, (SELECT max(o.created) FROM orders o WHERE o.user_id = u.id) FROM users u \
         WHERE u.country = ? ORDER BY u.created DESC LIMIT 10",
        &[Country],
    ),
    read(
        "orders of a country",
        "SELECT o.id FROM orders o JOIN users u ON u.id = o.user_id WHERE u.country = ? \
         ORDER BY o.created DESC, o.id DESC LIMIT 10",
        &[Country],
    ),
    read(
        "orders of users in a query",
        "SELECT o.id FROM orders o WHERE o.user_id IN (SELECT id FROM users WHERE country = ?) \
         ORDER BY o.created DESC, o.id DESC LIMIT 10",
        &[Country],
    ),
    read(
        "users of a country with a new order",
        "SELECT count(*) FROM users u WHERE u.country = ? AND u.created > ? AND EXISTS (SELECT 1 FROM orders o \
         WHERE o.user_id = u.id AND o.status = 'new')",
        &[Country, UserCreated],
    ),
    read(
        "best of a category",
        "SELECT p.id, p.name, count(o.id) AS n FROM products p LEFT JOIN orders o ON o.product_id = p.id \
         WHERE p.category = ? AND p.price < ? GROUP BY p.id, p.name ORDER BY n DESC, p.id LIMIT 5",
        &[Category, Cents(1_000, 3_000)],
    ),
    read(
        "users with the most orders",
        "SELECT user_id, count(*) AS n FROM orders GROUP BY user_id ORDER BY n DESC, user_id LIMIT 10",
        &[],
    ),
    read(
        "products with the most lines",
        "SELECT product_id, sum(quantity) AS n FROM order_items GROUP BY product_id \
         ORDER BY n DESC, product_id LIMIT 10",
        &[],
    ),
    read(
        "users from a number",
        "SELECT id, name FROM users WHERE id > ? AND country = ? ORDER BY id LIMIT 20",
        &[User, Country],
    ),
    read(
        "some users of a country",
        "SELECT id, name FROM users WHERE created >= ? AND country = ? ORDER BY created LIMIT 5",
        &[UserCreated, Country],
    ),
    read(
        "first order of a user",
        "SELECT id, amount FROM orders WHERE user_id = ? \
         AND created = (SELECT min(created) FROM orders WHERE user_id = ?)",
        &[Buyer, Again(0)],
    ),
    read(
        "figures of a product",
        "SELECT count(*), count(DISTINCT status), min(amount), max(amount) FROM orders WHERE product_id = ?",
        &[Product],
    ),
    read(
        "dearer products of a category",
        "SELECT b.id, b.price FROM products a JOIN products b ON a.category = b.category AND a.price < b.price \
         WHERE a.id = ? ORDER BY b.price, b.id LIMIT 3",
        &[Product],
    ),
    read("names from a letter", "SELECT id, name FROM users WHERE name >= 'Mar' ORDER BY name, id LIMIT 10", &[]),
    read("names between letters", "SELECT count(*) FROM users WHERE name BETWEEN 'Ma' AND 'Mb'", &[]),
    read(
        "cities of two countries",
        "SELECT country, city, count(*) AS n FROM users WHERE country IN (?, ?) AND city IS NOT NULL \
         GROUP BY country, city ORDER BY n DESC, country, city LIMIT 10",
        &[Country, Country],
    ),
    read("cities of a country", "SELECT DISTINCT country, city FROM users WHERE country = ?", &[Country]),
    read("sum of a cart", "SELECT coalesce((SELECT sum(quantity) FROM carts WHERE user_id = ?), 0)", &[User]),
    read(
        "three dearest of a user",
        "SELECT id, amount FROM (SELECT id, amount, rank() OVER (ORDER BY amount DESC) AS r FROM orders \
         WHERE user_id = ?) x WHERE r <= 3",
        &[Buyer],
    ),
    read(
        "names of the best customers",
        "WITH t AS (SELECT user_id, sum(amount) AS s FROM orders WHERE created >= ? AND created < ? GROUP BY user_id) \
         SELECT u.name, t.s FROM t JOIN users u ON u.id = t.user_id ORDER BY t.s DESC, u.id LIMIT 10",
        &[Moment(DAY_S), Later(DAY_S)],
    ),
    read(
        "orders from a moment with names",
        "SELECT o.id, u.name FROM orders o, users u WHERE o.user_id = u.id AND o.created >= ? ORDER BY o.created, o.id \
         LIMIT 20",
        &[Moment(DAY_S)],
    ),
    read(
        "last orders of products",
        "SELECT p.category, max(o.created) FROM products p JOIN orders o ON o.product_id = p.id WHERE p.id IN (?*5) \
         GROUP BY p.category",
        &[Times(5, &Product)],
    ),
    read(
        "full carts",
        "SELECT user_id, count(*) FROM carts GROUP BY user_id HAVING count(*) > 1 ORDER BY user_id LIMIT 10",
        &[],
    ),
    read("dearest orders", "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 5", &[]),
    read(
        "orders per user",
        "SELECT max(n) FROM (SELECT count(*) AS n FROM orders WHERE user_id BETWEEN ? AND ? GROUP BY user_id) x",
        &[User, More(50)],
    ),
    read(
        "users by a remainder",
        "SELECT id, name FROM users WHERE id % 1000 = ? ORDER BY id LIMIT 5",
        &[Number(0, 999)],
    ),
    change("delete of old events", "DELETE FROM events WHERE user_id = ? AND moment < ?", &[User, Moment(DAY_S)]),
    change(
        "update of the last order",
        "UPDATE orders SET status = 'done' WHERE id = (SELECT max(id) FROM orders WHERE user_id = ?)",
        &[Buyer],
    ),
    change(
        "update by a limited query",
        "UPDATE orders SET note = status WHERE product_id IN (SELECT id FROM products WHERE category = ? \
         ORDER BY price, id LIMIT 1)",
        &[Category],
    ),
    change("delete of part of an order", "DELETE FROM order_items WHERE order_id = ? AND line > 1", &[Order]),
];

/// Changes of several rows.
pub(super) const BACK_OFFICE_CHANGES: &[Statement] = &[
    change(
        "one more in a cart",
        "UPDATE carts SET quantity = quantity + 1 WHERE user_id = ? AND product_id = ?",
        &[User, Product],
    ),
    change(
        "update with a case",
        "UPDATE orders SET status = CASE status WHEN 'new' THEN 'paid' ELSE status END, amount = amount * 2 \
         WHERE user_id = ?",
        &[Buyer],
    ),
    change(
        "update in a query",
        "UPDATE products SET stock = stock + 1 WHERE id IN (SELECT product_id FROM orders WHERE user_id = ?)",
        &[Buyer],
    ),
    change(
        "update of old rows",
        "UPDATE orders SET status = 'cancelled' WHERE status = 'new' AND created < ?",
        &[Moment(365 * DAY_S)],
    ),
    change(
        "update of pairs",
        "UPDATE order_items SET quantity = 9 WHERE (order_id, line) IN ((?, 1), (?, 2))",
        &[Order, Order],
    ),
    change("update of a key", "UPDATE order_items SET line = line + 10 WHERE order_id = ?", &[Order]),
    change("delete of a few", "DELETE FROM events WHERE id BETWEEN ? AND ?", &[Order, More(20)]),
    change("delete of a product", "DELETE FROM carts WHERE product_id = ?", &[Product]),
    change("delete of an or", "DELETE FROM orders WHERE id = ? OR user_id = ?", &[Order, User]),
    change(
        "insert if there is none",
        "INSERT INTO carts (user_id, product_id, quantity) SELECT ?, ?, 1 WHERE NOT EXISTS (SELECT 1 FROM carts \
         WHERE user_id = ? AND product_id = ?)",
        &[User, Product, Again(0), Again(1)],
    ),
    change(
        "upsert with a condition",
        "INSERT INTO counters (name, value) VALUES ('total', ?) ON CONFLICT (name) DO UPDATE \
         SET value = excluded.value WHERE counters.value < excluded.value",
        &[Number(1, 1_000)],
    ),
    change(
        "insert of ten rows",
        "INSERT INTO order_items (order_id, line, product_id, quantity, price) \
         SELECT ?, i.line + 100, i.product_id, 1, i.price FROM order_items i \
         WHERE i.order_id BETWEEN ? AND ? AND i.line = 1",
        &[Fresh, Order, More(0)],
    ),
];
