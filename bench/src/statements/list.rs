//! Ordinary statements of applications on the tables of a [shop](super::shop).

use super::back_office_list::{BACK_OFFICE_CHANGES, BACK_OFFICE_FIGURES, BACK_OFFICE_LISTS, BACK_OFFICE_SCREENS};
use super::desk_list::{DESK_CHANGES, DESK_HISTORIES, DESK_LOOKUPS, DESK_RELATIONS, DESK_REPORTS, DESK_SEARCHES};
use super::draw::Draw::{
    Again, Buyer, Category, Cents, Counter, Country, Email, Fresh, FreshBlock, FreshEmail, Later, Moment, More, Name,
    NamePattern, Number, OneOf, Order, OrderCreated, Product, SameOrder, Sku, Times, User, UserCreated,
};
use super::framework_list::{FRAMEWORK_CHANGES, FRAMEWORK_FIGURES, FRAMEWORK_PAGES, FRAMEWORK_RELATIONS};
use super::service_list::{SERVICE_CHANGES, SERVICE_FEEDS, SERVICE_REPORTS, SERVICE_SEARCHES};
use super::statement::{Statement, change, commit, read, text};

const STATUSES: &[&str] = &["new", "paid", "cancelled", "shipped", "done"];
const RARE_STATUSES: &[&str] = &["new", "paid"];
const KINDS: &[&str] = &["view", "search", "login", "buy"];
const DAY_S: i64 = 86_400;

/// The statements, grouped by the feature that they test.
pub static SHOP: &[(&str, &[Statement])] = &[
    ("constants", CONSTANTS),
    ("points", POINTS),
    ("lists", LISTS),
    ("min, max, counts", COUNTS),
    ("pages", PAGES),
    ("subqueries", SUBQUERIES),
    ("joins", JOINS),
    ("groups", GROUPS),
    ("functions", FUNCTIONS),
    ("windows", WINDOWS),
    ("sets and WITH", SETS),
    ("insert", INSERTS),
    ("update", UPDATES),
    ("delete", DELETES),
    ("frameworks: pages", FRAMEWORK_PAGES),
    ("frameworks: relations", FRAMEWORK_RELATIONS),
    ("frameworks: figures", FRAMEWORK_FIGURES),
    ("frameworks: changes", FRAMEWORK_CHANGES),
    ("back office: figures", BACK_OFFICE_FIGURES),
    ("back office: lists", BACK_OFFICE_LISTS),
    ("back office: screens", BACK_OFFICE_SCREENS),
    ("back office: changes", BACK_OFFICE_CHANGES),
    ("services: searches", SERVICE_SEARCHES),
    ("services: feeds", SERVICE_FEEDS),
    ("services: reports", SERVICE_REPORTS),
    ("services: changes", SERVICE_CHANGES),
    ("desk: lookups", DESK_LOOKUPS),
    ("desk: searches", DESK_SEARCHES),
    ("desk: histories", DESK_HISTORIES),
    ("desk: reports", DESK_REPORTS),
    ("desk: relations", DESK_RELATIONS),
    ("desk: changes", DESK_CHANGES),
];

const CONSTANTS: &[Statement] = &[
    read("select 1", "SELECT 1", &[]),
    text("select 1, unprepared", "SELECT 1", &[]),
    read("parameters", "SELECT ? + 1, upper('abc')", &[Number(1, 1_000)]),
    text("point, unprepared", "SELECT name, email FROM users WHERE id = ?", &[User]),
    text(
        "orders of a user, unprepared",
        "SELECT id, status, amount FROM orders WHERE user_id = ? ORDER BY created DESC LIMIT 10",
        &[Buyer],
    ),
];

const POINTS: &[Statement] = &[
    read("point by key", "SELECT id, name, email, country, balance FROM users WHERE id = ?", &[User]),
    read("point, all columns", "SELECT * FROM users WHERE id = ?", &[User]),
    read("point by unique index", "SELECT id, name, score FROM users WHERE email = ?", &[Email]),
    read("point that is not there", "SELECT id FROM users WHERE email = ?", &[FreshEmail]),
    read(
        "point by two columns",
        "SELECT product_id, quantity, price FROM order_items WHERE order_id = ? AND line = 1",
        &[Order],
    ),
    read("first column of a key", "SELECT line, product_id, quantity FROM order_items WHERE order_id = ?", &[Order]),
    read("point by text key", "SELECT value FROM counters WHERE name = ?", &[Counter]),
    read("point with a condition", "SELECT id, status FROM orders WHERE id = ? AND user_id = ?", &[Order, Buyer]),
    read("by index", "SELECT id, status, amount, created FROM orders WHERE user_id = ?", &[Buyer]),
    read("by index and a condition", "SELECT id, amount FROM orders WHERE user_id = ? AND status = 'done'", &[Buyer]),
    read(
        "range of an index",
        "SELECT id, amount FROM orders WHERE user_id = ? AND created >= ? AND created < ?",
        &[Buyer, Moment(90 * DAY_S), Later(90 * DAY_S)],
    ),
    read("range of keys", "SELECT id, name, country FROM users WHERE id BETWEEN ? AND ?", &[User, More(50)]),
    read("is null", "SELECT id FROM orders WHERE user_id = ? AND note IS NULL", &[Buyer]),
];

const LISTS: &[Statement] = &[
    read("in, 2", "SELECT id, name FROM users WHERE id IN (?*2)", &[Times(2, &User)]),
    read("in, 10", "SELECT id, name, email FROM users WHERE id IN (?*10)", &[Times(10, &User)]),
    read("in, 100", "SELECT id, amount FROM orders WHERE id IN (?*100)", &[Times(100, &Order)]),
    read("in, of a unique index", "SELECT id, name FROM users WHERE email IN (?*3)", &[Times(3, &Email)]),
    read("in, of an index", "SELECT id, user_id, amount FROM orders WHERE user_id IN (?*5)", &[Times(5, &Buyer)]),
    read(
        "in, both columns of a key",
        "SELECT order_id, line, quantity FROM order_items WHERE order_id IN (?*3) AND line IN (1, 2)",
        &[Times(3, &Order)],
    ),
    read("or, one column", "SELECT id, name FROM users WHERE id = ? OR id = ?", &[User, User]),
    read("or, two indexes", "SELECT id, name FROM users WHERE id = ? OR email = ?", &[User, Email]),
    read("not in", "SELECT id, status FROM orders WHERE user_id = ? AND status NOT IN ('new', 'paid')", &[Buyer]),
];

const COUNTS: &[Statement] = &[
    read("max of a key", "SELECT max(id) FROM orders", &[]),
    read("min of a key", "SELECT min(id) FROM users", &[]),
    read("max of an index", "SELECT max(created) FROM orders", &[]),
    read("max by key", "SELECT max(created) FROM orders WHERE user_id = ?", &[Buyer]),
    read("min and max by key", "SELECT min(created), max(created) FROM orders WHERE user_id = ?", &[Buyer]),
    read("count of all", "SELECT count(*) FROM users", &[]),
    read("count by key", "SELECT count(*) FROM orders WHERE user_id = ?", &[Buyer]),
    read("count by status", "SELECT count(*) FROM orders WHERE status = ?", &[OneOf(&["new"])]),
    read(
        "count of a range",
        "SELECT count(*) FROM orders WHERE created >= ? AND created < ?",
        &[Moment(DAY_S), Later(DAY_S)],
    ),
    read(
        "count, sum and average",
        "SELECT count(*), sum(amount), avg(product_id) FROM orders WHERE user_id = ?",
        &[Buyer],
    ),
    read("count of distinct", "SELECT count(DISTINCT product_id) FROM orders WHERE user_id = ?", &[Buyer]),
    read(
        "count with a filter",
        "SELECT count(*) FILTER (WHERE status = 'done'), count(note) FROM orders WHERE user_id = ?",
        &[Buyer],
    ),
];

const PAGES: &[Statement] = &[
    read("page by offset", "SELECT id, name FROM users ORDER BY id LIMIT 20 OFFSET ?", &[Number(0, 1_000)]),
    read(
        "page by offset of an index",
        "SELECT id, name FROM users WHERE country = ? ORDER BY created DESC LIMIT 20 OFFSET ?",
        &[Country, Number(0, 200)],
    ),
    read("page by key", "SELECT id, name, email FROM users WHERE id > ? ORDER BY id LIMIT 20", &[User]),
    read(
        "page by two columns",
        "SELECT id, user_id, amount, created FROM orders WHERE (created, id) < (?, ?) ORDER BY created DESC, id DESC \
         LIMIT 20",
        &[OrderCreated, SameOrder],
    ),
    read(
        "page by a written out row",
        "SELECT id, amount FROM orders WHERE created < ? OR (created = ? AND id < ?) ORDER BY created DESC, id DESC \
         LIMIT 20",
        &[OrderCreated, Again(0), SameOrder],
    ),
    read("latest orders", "SELECT id, user_id, status, amount FROM orders ORDER BY created DESC LIMIT 20", &[]),
    read(
        "latest of a user",
        "SELECT id, status, amount, created FROM orders WHERE user_id = ? ORDER BY created DESC LIMIT 5",
        &[Buyer],
    ),
    read(
        "latest of a status",
        "SELECT id, user_id, amount FROM orders WHERE status = ? ORDER BY created DESC LIMIT 20",
        &[OneOf(STATUSES)],
    ),
    read(
        "sorted by another column",
        "SELECT id, amount FROM orders WHERE user_id = ? ORDER BY amount DESC, id LIMIT 3",
        &[Buyer],
    ),
    read(
        "cheapest of a category",
        "SELECT id, name, price FROM products WHERE category = ? ORDER BY price, id LIMIT 10",
        &[Category],
    ),
    read("last event", "SELECT id, kind, moment FROM events WHERE user_id = ? ORDER BY moment DESC LIMIT 1", &[User]),
];

const SUBQUERIES: &[Statement] = &[
    read(
        "exists",
        "SELECT id, name FROM users WHERE id = ? AND EXISTS (SELECT 1 FROM orders WHERE orders.user_id = users.id)",
        &[User],
    ),
    read("exists as a value", "SELECT EXISTS (SELECT 1 FROM orders WHERE user_id = ? AND status = 'new')", &[User]),
    read(
        "not exists",
        "SELECT id, name FROM users WHERE id BETWEEN ? AND ? \
         AND NOT EXISTS (SELECT 1 FROM orders WHERE orders.user_id = users.id)",
        &[User, More(100)],
    ),
    read(
        "in a query",
        "SELECT id, name, price FROM products WHERE id IN (SELECT product_id FROM orders WHERE user_id = ?)",
        &[Buyer],
    ),
    read(
        "not in a query",
        "SELECT id FROM products WHERE category = ? AND id NOT IN (SELECT product_id FROM orders WHERE user_id = ?)",
        &[Category, Buyer],
    ),
    read(
        "count of those in a query",
        "SELECT count(*) FROM orders WHERE user_id IN (SELECT id FROM users WHERE created >= ? AND created < ?)",
        &[UserCreated, Later(DAY_S)],
    ),
    read(
        "a count for each row",
        "SELECT id, name, (SELECT count(*) FROM orders WHERE orders.user_id = users.id) AS orders \
         FROM users WHERE id BETWEEN ? AND ?",
        &[User, More(10)],
    ),
    read(
        "the latest for each row",
        "SELECT id, (SELECT max(created) FROM orders WHERE orders.user_id = users.id) FROM users WHERE id IN (?*5)",
        &[Times(5, &User)],
    ),
    read(
        "equal to a subquery",
        "SELECT id, status, amount FROM orders WHERE id = (SELECT max(id) FROM orders WHERE user_id = ?)",
        &[Buyer],
    ),
    read(
        "greater than a subquery",
        "SELECT id, amount FROM orders WHERE user_id = ? \
         AND amount > (SELECT min(amount) FROM orders AS o WHERE o.user_id = orders.user_id)",
        &[Buyer],
    ),
];

const JOINS: &[Statement] = &[
    read(
        "join, by the second key",
        "SELECT users.name, orders.amount FROM users JOIN orders ON orders.user_id = users.id WHERE orders.id = ?",
        &[Order],
    ),
    read(
        "join, by the first key",
        "SELECT orders.amount, users.name FROM orders JOIN users ON users.id = orders.user_id WHERE orders.id = ?",
        &[Order],
    ),
    read(
        "join, by user",
        "SELECT u.name, o.id, o.amount FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = ?",
        &[Buyer],
    ),
    read(
        "join, by e-mail",
        "SELECT o.id, o.status FROM users u JOIN orders o ON o.user_id = u.id WHERE u.email = ?",
        &[Email],
    ),
    read(
        "join with commas",
        "SELECT u.name, o.amount FROM users u, orders o WHERE u.id = o.user_id AND u.id = ? AND o.status = 'done'",
        &[Buyer],
    ),
    read(
        "left join",
        "SELECT u.id, u.name, o.id, o.amount FROM users u LEFT JOIN orders o ON o.user_id = u.id AND o.status = 'new' \
         WHERE u.id = ?",
        &[User],
    ),
    read(
        "left join, none",
        "SELECT u.id FROM users u LEFT JOIN orders o ON o.user_id = u.id WHERE u.id BETWEEN ? AND ? AND o.id IS NULL",
        &[User, More(50)],
    ),
    read(
        "three tables",
        "SELECT o.id, u.name, p.name, o.amount FROM orders o JOIN users u ON u.id = o.user_id \
         JOIN products p ON p.id = o.product_id WHERE o.id = ?",
        &[Order],
    ),
    read(
        "three tables, by user",
        "SELECT o.id, i.line, i.quantity, p.name FROM orders o JOIN order_items i ON i.order_id = o.id \
         JOIN products p ON p.id = i.product_id WHERE o.user_id = ?",
        &[Buyer],
    ),
    read(
        "page of a join",
        "SELECT o.id, o.created, u.name FROM orders o JOIN users u ON u.id = o.user_id ORDER BY o.created DESC LIMIT \
         20",
        &[],
    ),
    read(
        "latest of a join",
        "SELECT o.id, p.name, o.amount FROM orders o JOIN products p ON p.id = o.product_id \
         WHERE o.user_id = ? ORDER BY o.created DESC LIMIT 3",
        &[Buyer],
    ),
    read(
        "join with itself",
        "SELECT b.id, b.amount FROM orders a JOIN orders b ON b.user_id = a.user_id WHERE a.id = ? AND b.id <> a.id",
        &[Order],
    ),
    read(
        "who also bought",
        "SELECT DISTINCT o.user_id FROM order_items i JOIN orders o ON o.id = i.order_id WHERE i.product_id = ?",
        &[Product],
    ),
];

const GROUPS: &[Statement] = &[
    read("group", "SELECT status, count(*), sum(amount) FROM orders WHERE user_id = ? GROUP BY status", &[Buyer]),
    read(
        "group with having",
        "SELECT product_id, count(*) FROM orders WHERE user_id = ? GROUP BY product_id HAVING count(*) > 1",
        &[Buyer],
    ),
    read(
        "group, ordered",
        "SELECT kind, count(*) AS n FROM events WHERE user_id = ? GROUP BY kind ORDER BY n DESC, kind LIMIT 3",
        &[User],
    ),
    read("distinct", "SELECT DISTINCT status FROM orders WHERE user_id = ?", &[Buyer]),
    read(
        "group of a join",
        "SELECT p.category, sum(i.quantity) FROM order_items i JOIN products p ON p.id = i.product_id \
         WHERE i.order_id IN (?*10) GROUP BY p.category",
        &[Times(10, &Order)],
    ),
    read(
        "totals of a day",
        "SELECT status, count(*), max(amount) FROM orders WHERE created >= ? AND created < ? GROUP BY status",
        &[Moment(DAY_S), Later(DAY_S)],
    ),
];

const FUNCTIONS: &[Statement] = &[
    read("lower and upper", "SELECT lower(name), upper(country) FROM users WHERE id = ?", &[User]),
    read("substr and length", "SELECT substr(email, 1, 5), length(email) FROM users WHERE id = ?", &[User]),
    read("concatenation", "SELECT name || ' <' || email || '>' FROM users WHERE id = ?", &[User]),
    read("trim and replace", "SELECT trim(name), replace(email, '@', ' at ') FROM users WHERE id = ?", &[User]),
    read("like a prefix", "SELECT id, name FROM users WHERE name LIKE 'Maria Bar%' ORDER BY id LIMIT 20", &[]),
    read("like a parameter", "SELECT count(*) FROM users WHERE name LIKE ?", &[NamePattern]),
    read("like within a user's rows", "SELECT id FROM orders WHERE user_id = ? AND note LIKE '%door 7%'", &[Buyer]),
    read("abs and round", "SELECT abs(balance), round(score, 1) FROM users WHERE id = ?", &[User]),
    read(
        "coalesce and nullif",
        "SELECT coalesce(city, 'none'), nullif(country, 'DE') FROM users WHERE id = ?",
        &[User],
    ),
    read(
        "case",
        "SELECT id, CASE WHEN amount < ? THEN 'small' WHEN amount < ? THEN 'middle' ELSE 'large' END FROM orders \
         WHERE user_id = ?",
        &[Cents(1_000, 5_000), Cents(10_000, 20_000), Buyer],
    ),
    read("arithmetic", "SELECT id, balance * 2 + age, balance / 100, balance % 100 FROM users WHERE id = ?", &[User]),
    read("cast", "SELECT CAST(balance AS TEXT), CAST(score AS INTEGER) FROM users WHERE id = ?", &[User])
        .sqlite("SELECT CAST(balance AS TEXT), CAST(round(score) AS INTEGER) FROM users WHERE id = ?"),
    read("year of a moment", "SELECT id, extract(year FROM created) FROM orders WHERE user_id = ?", &[Buyer]).sqlite(
        "SELECT id, CAST(strftime('%Y', created / 1000000, 'unixepoch') AS INTEGER) FROM orders WHERE user_id = ?",
    ),
    read(
        "day of a moment",
        "SELECT date_trunc('day', created), count(*) FROM orders WHERE user_id = ? GROUP BY 1",
        &[Buyer],
    )
    .sqlite("SELECT created - created % 86400000000, count(*) FROM orders WHERE user_id = ? GROUP BY 1"),
    read(
        "moment and interval",
        "SELECT id FROM orders WHERE user_id = ? AND created >= CAST(? AS TIMESTAMP) - INTERVAL '30 days'",
        &[Buyer, OrderCreated],
    )
    .sqlite("SELECT id FROM orders WHERE user_id = ? AND created >= ? - 2592000000000"),
    read("date", "SELECT id, born FROM users WHERE id = ? AND born < '1990-01-01'", &[User]),
];

const WINDOWS: &[Statement] = &[
    read("row numbers", "SELECT id, row_number() OVER (ORDER BY created) FROM orders WHERE user_id = ?", &[Buyer]),
    read(
        "running sum",
        "SELECT id, amount, sum(amount) OVER (ORDER BY created) FROM orders WHERE user_id = ? ORDER BY created",
        &[Buyer],
    ),
    read(
        "rank within a partition",
        "SELECT id, rank() OVER (PARTITION BY status ORDER BY amount DESC) FROM orders WHERE user_id = ?",
        &[Buyer],
    ),
    read(
        "previous row",
        "SELECT id, created, lag(created) OVER (ORDER BY created) FROM orders WHERE user_id = ?",
        &[Buyer],
    ),
    read(
        "latest of each status",
        "SELECT id, status FROM (SELECT id, status, row_number() OVER (PARTITION BY status ORDER BY created DESC) AS n \
         FROM orders WHERE user_id = ?) AS numbered WHERE n = 1",
        &[Buyer],
    ),
];

const SETS: &[Statement] = &[
    read(
        "union all of two points",
        "SELECT id, name FROM users WHERE id = ? UNION ALL SELECT id, name FROM users WHERE id = ?",
        &[User, User],
    ),
    read(
        "union",
        "SELECT product_id FROM orders WHERE user_id = ? UNION SELECT product_id FROM carts WHERE user_id = ?",
        &[Buyer, User],
    ),
    read(
        "except",
        "SELECT product_id FROM carts WHERE user_id = ? EXCEPT SELECT product_id FROM orders WHERE user_id = ?",
        &[User, Buyer],
    ),
    read(
        "with",
        "WITH recent AS (SELECT id, amount FROM orders WHERE user_id = ? ORDER BY created DESC LIMIT 5) \
         SELECT count(*), sum(amount) FROM recent",
        &[Buyer],
    ),
    read(
        "with, read twice",
        "WITH mine AS (SELECT id, amount FROM orders WHERE user_id = ?) \
         SELECT id FROM mine WHERE amount = (SELECT max(amount) FROM mine)",
        &[Buyer],
    ),
    read(
        "with recursive",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT sum(i) FROM n",
        &[],
    ),
    read(
        "table in FROM",
        "SELECT count(*), max(total) FROM (SELECT status, sum(amount) AS total FROM orders WHERE user_id = ? GROUP BY \
         status) AS s",
        &[Buyer],
    ),
];

const INSERTS: &[Statement] = &[
    commit(
        "insert, committed",
        "INSERT INTO events (id, user_id, kind, moment, payload) VALUES (?, ?, ?, ?, 'committed')",
        &[Fresh, User, OneOf(KINDS), Moment(0)],
    ),
    change(
        "insert",
        "INSERT INTO orders (id, user_id, product_id, status, created, amount) VALUES (?, ?, ?, 'new', ?, ?)",
        &[Fresh, User, Product, Moment(0), Cents(100, 50_000)],
    ),
    change(
        "insert, two rows",
        "INSERT INTO order_items (order_id, line, product_id, quantity, price) VALUES (?, 1, ?, 1, ?), (?, 1, ?, 2, ?)",
        &[Fresh, Product, Cents(100, 9_000), Fresh, Product, Cents(100, 9_000)],
    ),
    change(
        "insert, do nothing",
        "INSERT INTO users (id, name, email, country, created, born, balance, score) \
         VALUES (?, 'New User', ?, 'DE', ?, '1990-05-01', 0, 1.5) ON CONFLICT (email) DO NOTHING",
        &[Fresh, Email, Moment(0)],
    ),
    change(
        "upsert, update",
        "INSERT INTO counters (name, value) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = counters.value + \
         excluded.value",
        &[Counter],
    ),
    commit(
        "upsert, committed",
        "INSERT INTO counters (name, value) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = counters.value + \
         excluded.value",
        &[Counter],
    ),
    change(
        "upsert of two columns",
        "INSERT INTO carts (user_id, product_id, quantity) VALUES (?, ?, 1) \
         ON CONFLICT (user_id, product_id) DO UPDATE SET quantity = excluded.quantity + carts.quantity",
        &[User, Product],
    ),
    change(
        "insert, returning",
        "INSERT INTO orders (id, user_id, product_id, status, created, amount) VALUES (?, ?, ?, 'new', ?, ?) \
         RETURNING id, status, created",
        &[Fresh, User, Product, Moment(0), Cents(100, 50_000)],
    ),
    change(
        "insert, select",
        "INSERT INTO events (id, user_id, kind, moment, payload) \
         SELECT id + ?, user_id, status, created, 'copied' FROM orders WHERE user_id = ?",
        &[FreshBlock, Buyer],
    ),
];

const UPDATES: &[Statement] = &[
    change("update by key", "UPDATE users SET balance = balance + ? WHERE id = ?", &[Number(1, 100), User]),
    commit("update, committed", "UPDATE users SET balance = balance + ? WHERE id = ?", &[Number(1, 100), User]),
    change("update of an indexed column", "UPDATE orders SET status = 'shipped' WHERE id = ?", &[Order]),
    change("update by unique index", "UPDATE users SET city = 'Moved', score = score + 0.5 WHERE email = ?", &[Email]),
    change("update of a list", "UPDATE orders SET status = 'paid' WHERE id IN (?*3)", &[Times(3, &Order)]),
    change("update by index", "UPDATE orders SET note = 'late' WHERE user_id = ? AND status = 'done'", &[Buyer]),
    change("update of a range", "UPDATE users SET balance = balance - 1 WHERE id BETWEEN ? AND ?", &[User, More(20)]),
    change(
        "update with a subquery",
        "UPDATE users SET balance = (SELECT count(*) FROM orders WHERE orders.user_id = users.id) WHERE id = ?",
        &[User],
    ),
    change(
        "update from",
        "UPDATE orders SET note = users.name FROM users WHERE users.id = orders.user_id AND users.email = ?",
        &[Email],
    ),
    change(
        "update with a function",
        "UPDATE users SET name = upper(name), city = coalesce(city, 'none') WHERE id = ?",
        &[User],
    ),
    change("update, returning", "UPDATE products SET stock = stock - 1 WHERE sku = ? RETURNING id, stock", &[Sku]),
];

const DELETES: &[Statement] = &[
    change("delete by key", "DELETE FROM orders WHERE id = ?", &[Order]),
    change("delete of a list", "DELETE FROM orders WHERE id IN (?*3)", &[Times(3, &Order)]),
    change("delete by index", "DELETE FROM events WHERE user_id = ?", &[User]),
    change("delete of part of a key", "DELETE FROM order_items WHERE order_id = ?", &[Order]),
    change(
        "delete in a query",
        "DELETE FROM order_items WHERE order_id IN (SELECT id FROM orders WHERE user_id = ?)",
        &[Buyer],
    ),
    change(
        "delete, exists",
        "DELETE FROM carts WHERE user_id = ? AND EXISTS (SELECT 1 FROM orders WHERE orders.user_id = carts.user_id)",
        &[Buyer],
    ),
    change("delete, returning", "DELETE FROM carts WHERE user_id = ? RETURNING product_id, quantity", &[User]),
    change("delete by name", "DELETE FROM users WHERE name = ? AND id > ?", &[Name, User]),
    change(
        "delete of old rows",
        "DELETE FROM orders WHERE status = ? AND created >= ? AND created < ?",
        &[OneOf(RARE_STATUSES), Moment(DAY_S / 4), Later(DAY_S / 4)],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::community::Community;
    use super::super::community_list::COMMUNITY;
    use super::super::draw::Drawing;
    use super::super::shop::Shop;
    use super::super::tpcc_list::TPCC;
    use super::*;
    use crate::tpcc::scale::Scale;

    #[test]
    fn every_parameter_is_drawn_and_every_name_is_unique() {
        let shop = Shop { users: 100, orders: 500, seed: 1 };
        let community = Community { members: 100, posts: 400, seed: 1 };
        let mut drawing = Drawing::new(shop, community, Scale::TINY, 1_000, 0);
        let mut names = HashSet::new();
        for statement in SHOP.iter().chain(TPCC).chain(COMMUNITY).flat_map(|(_, statements)| *statements) {
            let drawn = drawing.draw(statement.draws).len();
            for text in [statement.rowmill_text(), statement.sqlite_text()] {
                assert_eq!(text.matches('?').count(), drawn, "{text}");
            }
            assert!(names.insert(statement.name), "two statements are named {}", statement.name);
        }
        assert!(SHOP.iter().map(|(_, statements)| statements.len()).sum::<usize>() >= 100);
    }
}
