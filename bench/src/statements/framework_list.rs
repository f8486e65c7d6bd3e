//! Statements that web frameworks and their object mappers send, on the tables of a [shop](super::shop).
//!
//! They are pages of lists with filters, rows with their relations, prefetched children, forms that save whole rows,
//! and figures of a dashboard.

use super::draw::Draw::{
    Again, Buyer, Category, Cents, Counter, Country, Email, Fresh, FreshBlock, Later, Moment, More, NamePattern,
    Number, OneOf, Order, Product, Sku, Times, User, UserCreated,
};
use super::statement::{Statement, change, commit, read};

const STATUSES: &[&str] = &["new", "paid", "cancelled", "shipped", "done"];
const KINDS: &[&str] = &["view", "search", "login", "buy"];
const HOUR_S: i64 = 3_600;

/// Pages of lists.
pub(super) const FRAMEWORK_PAGES: &[Statement] = &[
    read("get or 404", "SELECT id, name, email, country, city, age FROM users WHERE id = ? LIMIT 21", &[User]),
    read("any order", "SELECT 1 AS a FROM orders WHERE user_id = ? LIMIT 1", &[Buyer]),
    read(
        "count of a filtered list",
        "SELECT count(*) FROM orders WHERE user_id = ? AND status IN ('paid', 'shipped')",
        &[Buyer],
    ),
    read(
        "page of two statuses",
        "SELECT id, user_id, amount FROM orders WHERE status IN ('new', 'paid') ORDER BY created DESC \
         LIMIT 25 OFFSET ?",
        &[Number(0, 200)],
    ),
    read(
        "page of a country",
        "SELECT id, name, email FROM users WHERE country = ? ORDER BY created DESC, id DESC LIMIT 25",
        &[Country],
    ),
    read(
        "next page of a country",
        "SELECT id, name, email FROM users WHERE country = ? AND created < ? ORDER BY created DESC LIMIT 25",
        &[Country, UserCreated],
    ),
    read(
        "page of a user's orders",
        "SELECT id, status, amount, created FROM orders WHERE user_id = ? ORDER BY created DESC LIMIT 10 OFFSET ?",
        &[Buyer, Number(0, 3)],
    ),
    read(
        "page of a deep offset",
        "SELECT id, kind, moment FROM events ORDER BY id LIMIT 50 OFFSET ?",
        &[Number(5_000, 20_000)],
    ),
    read("next row", "SELECT id, name FROM users WHERE id > ? ORDER BY id LIMIT 1", &[User]),
    read("previous record", "SELECT id, name FROM users WHERE id < ? ORDER BY id DESC LIMIT 1", &[User]),
    read(
        "page after two key columns",
        "SELECT order_id, line, quantity FROM order_items WHERE (order_id, line) > (?, ?) ORDER BY order_id, line \
         LIMIT 20",
        &[Order, Number(1, 3)],
    ),
    read(
        "optional filter",
        "SELECT id, status FROM orders WHERE user_id = ? AND (? = '' OR status = ?)",
        &[Buyer, OneOf(&["", "done"]), OneOf(STATUSES)],
    ),
    read(
        "search of a name",
        "SELECT id, name, email FROM users WHERE name LIKE ? ORDER BY name LIMIT 10",
        &[NamePattern],
    ),
    read(
        "products of a price",
        "SELECT id, name, price FROM products WHERE category = ? AND price BETWEEN ? AND ? ORDER BY price, id LIMIT 20",
        &[Category, Cents(1_000, 20_000), Cents(30_000, 60_000)],
    ),
    read(
        "orders between two moments",
        "SELECT id, amount FROM orders WHERE user_id = ? AND created BETWEEN ? AND ? ORDER BY created",
        &[Buyer, Moment(90 * 24 * HOUR_S), Later(90 * 24 * HOUR_S)],
    ),
];

/// Rows with their relations.
pub(super) const FRAMEWORK_RELATIONS: &[Statement] = &[
    read(
        "rows with two relations",
        "SELECT o.id, o.amount, u.id, u.name, u.email, p.id, p.name FROM orders o INNER JOIN users u \
         ON u.id = o.user_id LEFT OUTER JOIN products p ON p.id = o.product_id WHERE o.user_id = ? \
         ORDER BY o.created DESC LIMIT 20",
        &[Buyer],
    ),
    read(
        "prefetched children",
        "SELECT order_id, line, product_id, quantity, price FROM order_items WHERE order_id IN (?*20) \
         ORDER BY order_id, line",
        &[Times(20, &Order)],
    ),
    read("prefetched parents", "SELECT id, name, email FROM users WHERE id IN (?*50)", &[Times(50, &User)]),
    read(
        "orders of a list with users",
        "SELECT o.id, o.status, u.name FROM orders o JOIN users u ON u.id = o.user_id WHERE o.id IN (?*20)",
        &[Times(20, &Order)],
    ),
    read(
        "buyers of a product",
        "SELECT DISTINCT u.id, u.name FROM users u JOIN orders o ON o.user_id = u.id WHERE o.product_id = ? \
         ORDER BY u.id LIMIT 20",
        &[Product],
    ),
    read(
        "buyers in a query",
        "SELECT id, name FROM users WHERE id IN (SELECT user_id FROM orders WHERE product_id = ?) ORDER BY id LIMIT 20",
        &[Product],
    ),
    read(
        "users with a number of orders",
        "SELECT u.id, u.name, count(o.id) AS n FROM users u LEFT JOIN orders o ON o.user_id = u.id \
         WHERE u.id BETWEEN ? AND ? GROUP BY u.id, u.name ORDER BY n DESC, u.id LIMIT 10",
        &[User, More(30)],
    ),
    read(
        "users with a mark",
        "SELECT u.id, EXISTS (SELECT 1 FROM carts c WHERE c.user_id = u.id) FROM users u WHERE u.id BETWEEN ? AND ?",
        &[User, More(30)],
    ),
    read(
        "latest order of each user",
        "SELECT o.id, o.user_id, o.created FROM orders o WHERE o.user_id IN (?*5) \
         AND o.created = (SELECT max(x.created) FROM orders x WHERE x.user_id = o.user_id)",
        &[Times(5, &Buyer)],
    ),
    read(
        "two latest orders of each user",
        "SELECT id, user_id FROM (SELECT id, user_id, row_number() OVER (PARTITION BY user_id ORDER BY created DESC) \
         AS n FROM orders WHERE user_id IN (?*5)) AS numbered WHERE n <= 2",
        &[Times(5, &Buyer)],
    ),
    read(
        "total of a cart",
        "SELECT count(*), sum(c.quantity * p.price) FROM carts c JOIN products p ON p.id = c.product_id \
         WHERE c.user_id = ?",
        &[User],
    ),
    read(
        "best products of a user",
        "SELECT p.id, p.name, sum(i.quantity) AS n FROM order_items i JOIN products p ON p.id = i.product_id \
         JOIN orders o ON o.id = i.order_id WHERE o.user_id = ? GROUP BY p.id, p.name ORDER BY n DESC, p.id LIMIT 5",
        &[Buyer],
    ),
    read(
        "buyers of the same product",
        "SELECT count(DISTINCT b.user_id) FROM orders a JOIN orders b ON b.product_id = a.product_id WHERE a.id = ?",
        &[Order],
    ),
    read(
        "feed of two tables",
        "SELECT id, created FROM orders WHERE user_id = ? UNION ALL SELECT id, moment FROM events WHERE user_id = ? \
         ORDER BY 2 DESC, 1 LIMIT 10",
        &[Buyer, Again(0)],
    ),
    read(
        "users without a cart",
        "SELECT u.id, u.name FROM users u LEFT JOIN carts c ON c.user_id = u.id WHERE u.country = ? \
         AND c.user_id IS NULL ORDER BY u.created DESC LIMIT 20",
        &[Country],
    ),
];

/// Figures of a dashboard.
pub(super) const FRAMEWORK_FIGURES: &[Statement] = &[
    read(
        "sales of an hour",
        "SELECT count(*), sum(amount) FROM orders WHERE created >= ? AND created < ?",
        &[Moment(HOUR_S), Later(HOUR_S)],
    ),
    read(
        "sums by case",
        "SELECT sum(CASE WHEN status = 'done' THEN amount ELSE 0 END), \
         sum(CASE WHEN status = 'cancelled' THEN 1 ELSE 0 END) FROM orders WHERE user_id = ?",
        &[Buyer],
    ),
    read("count of distinct buyers", "SELECT count(DISTINCT user_id) FROM orders WHERE product_id = ?", &[Product]),
    read("products by category", "SELECT category, count(*) FROM products GROUP BY category ORDER BY category", &[]),
    read(
        "cheapest of three categories",
        "SELECT category, min(price) FROM products WHERE category IN (?*3) GROUP BY category",
        &[Times(3, &Category)],
    ),
    read(
        "least and greatest of a country",
        "SELECT min(created), max(created) FROM users WHERE country = ?",
        &[Country],
    ),
    read("latest event of each kind", "SELECT kind, max(moment) FROM events WHERE user_id = ? GROUP BY kind", &[User]),
    read(
        "orders of several lines",
        "SELECT order_id FROM order_items WHERE order_id BETWEEN ? AND ? GROUP BY order_id HAVING count(*) > 2",
        &[Order, More(50)],
    ),
    read(
        "lines of a range of orders",
        "SELECT count(*) FROM order_items WHERE order_id BETWEEN ? AND ?",
        &[Order, More(500)],
    ),
    read("low stock", "SELECT id, stock FROM products WHERE id IN (?*10) AND stock < 50", &[Times(10, &Product)]),
    read(
        "texts of a user",
        "SELECT id, coalesce(note, status), upper(substr(status, 1, 1)), length(note) FROM orders WHERE user_id = ? \
         ORDER BY id",
        &[Buyer],
    ),
];

/// Forms, counters and queues.
pub(super) const FRAMEWORK_CHANGES: &[Statement] = &[
    change(
        "save of a whole row",
        "UPDATE orders SET user_id = ?, product_id = ?, status = ?, created = ?, amount = ?, note = 'saved' \
         WHERE id = ?",
        &[User, Product, OneOf(STATUSES), Moment(0), Cents(100, 50_000), Order],
    ),
    change("save of two columns", "UPDATE users SET city = 'Here', age = ? WHERE id = ?", &[Number(18, 90), User]),
    change(
        "save if unchanged",
        "UPDATE products SET price = ?, stock = ? WHERE id = ? AND stock = ?",
        &[Cents(100, 90_000), Number(0, 500), Product, Number(0, 500)],
    ),
    change(
        "take from the stock",
        "UPDATE products SET stock = stock - ? WHERE id = ? AND stock >= ?",
        &[Number(1, 3), Product, Again(0)],
    ),
    commit(
        "take from the stock, committed",
        "UPDATE products SET stock = stock - 1 WHERE sku = ? AND stock > 0",
        &[Sku],
    ),
    change("counter", "UPDATE counters SET value = value + 1 WHERE name = ?", &[Counter]),
    change("mark of a list", "UPDATE orders SET note = 'archived' WHERE id IN (?*10)", &[Times(10, &Order)]),
    change(
        "mark of a user's events",
        "UPDATE events SET payload = 'seen' WHERE user_id = ? AND kind <> 'buy'",
        &[User],
    ),
    change("last seen", "UPDATE users SET created = ? WHERE email = ?", &[Moment(0), Email]),
    change("delete of a pair", "DELETE FROM carts WHERE user_id = ? AND product_id = ?", &[User, Product]),
    change(
        "delete of the oldest",
        "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE user_id = ? ORDER BY moment LIMIT 1)",
        &[User],
    ),
    change("delete of a range", "DELETE FROM order_items WHERE order_id BETWEEN ? AND ?", &[Order, More(5)]),
    change(
        "insert, five rows",
        "INSERT INTO events (id, user_id, kind, moment, payload) VALUES (?, ?, 'view', ?, 'a'), \
         (?, ?, 'view', ?, 'b'), (?, ?, 'view', ?, 'c'), (?, ?, 'view', ?, 'd'), (?, ?, 'view', ?, 'e')",
        &[
            Fresh,
            User,
            Moment(0),
            Fresh,
            User,
            Moment(0),
            Fresh,
            User,
            Moment(0),
            Fresh,
            User,
            Moment(0),
            Fresh,
            User,
            Moment(0),
        ],
    ),
    change(
        "insert or ignore",
        "INSERT INTO carts (user_id, product_id, quantity) VALUES (?, ?, 1) ON CONFLICT DO NOTHING",
        &[User, Product],
    ),
    change(
        "upsert, returning",
        "INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value \
         RETURNING name, value",
        &[Counter, Number(1, 1_000)],
    ),
    change(
        "upsert of a whole row",
        "INSERT INTO products (id, sku, name, category, price, rating, stock) VALUES \
         (?, ?, 'Imported', 'toys', ?, 4.5, 7) \
         ON CONFLICT (sku) DO UPDATE SET name = excluded.name, price = excluded.price, stock = products.stock + 1",
        &[Fresh, Sku, Cents(100, 9_000)],
    ),
    change(
        "copy of an order",
        "INSERT INTO order_items (order_id, line, product_id, quantity, price) \
         SELECT order_id + ?, line, product_id, quantity, price FROM order_items WHERE order_id = ?",
        &[FreshBlock, Order],
    ),
    change(
        "log of an action",
        "INSERT INTO events (id, user_id, kind, moment, payload) VALUES (?, ?, ?, ?, ?)",
        &[Fresh, User, OneOf(KINDS), Moment(0), OneOf(&["{\"page\": \"/cart\"}", "{\"page\": \"/orders/list\"}"])],
    ),
];
