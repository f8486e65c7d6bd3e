//! Statements of services on the tables of a [shop](super::shop): feeds, queues, search forms, imports and reports.

use super::draw::Draw::{
    Again, Buyer, Category, Cents, Counter, Country, Email, Fresh, FreshBlock, FreshEmail, Later, Moment, More, Name,
    Number, OneOf, Order, Product, Sku, Times, User, UserCreated,
};
use super::statement::{Statement, change, commit, read, text};

const DAY_S: i64 = 86_400;

/// Search forms, whose conditions may be absent.
pub(super) const SERVICE_SEARCHES: &[Statement] = &[
    read(
        "absent conditions",
        "SELECT id, name FROM users WHERE country = ? AND (? IS NULL OR age = ?) AND (? IS NULL OR city = ?) ORDER BY \
         created LIMIT 10",
        &[Country, Number(18, 90), Again(1), OneOf(&["City 7"]), Again(3)],
    ),
    read(
        "coalesce of a parameter",
        "SELECT id, amount FROM orders WHERE user_id = ? AND status = coalesce(?, status)",
        &[Buyer, OneOf(&["done", "paid"])],
    ),
    read(
        "two ranges of an index",
        "SELECT count(*) FROM orders WHERE (created BETWEEN ? AND ?) OR (created BETWEEN ? AND ?)",
        &[Moment(2 * DAY_S), Later(600), Moment(2 * DAY_S), Later(600)],
    ),
    read(
        "not equal in a range",
        "SELECT id, status FROM orders WHERE created >= ? AND created < ? AND status <> 'done' ORDER BY created",
        &[Moment(DAY_S), Later(1_200)],
    ),
    read(
        "not between",
        "SELECT id, amount FROM orders WHERE user_id = ? AND amount NOT BETWEEN ? AND ?",
        &[Buyer, Cents(10_000, 20_000), Cents(20_000, 40_000)],
    ),
    read(
        "is distinct from",
        "SELECT id FROM users WHERE id BETWEEN ? AND ? AND city IS DISTINCT FROM 'City 7'",
        &[User, More(30)],
    ),
    read(
        "nulls first",
        "SELECT id, city FROM users WHERE id BETWEEN ? AND ? ORDER BY city NULLS FIRST, id LIMIT 10",
        &[User, More(30)],
    ),
    read(
        "prefix of an email",
        "SELECT id, email FROM users WHERE email LIKE 'maria.bar%' ORDER BY email LIMIT 10",
        &[],
    ),
    read(
        "prefix and another condition",
        "SELECT id, name FROM users WHERE name LIKE 'Anna%' AND country = 'DE' LIMIT 10",
        &[],
    ),
    read("two prefixes", "SELECT count(*) FROM users WHERE name LIKE 'Anna Bar%' OR name LIKE 'Olga Pre%'", &[]),
    read(
        "prefix by substr",
        "SELECT count(*) FROM users WHERE id BETWEEN ? AND ? AND substr(name, 1, 2) = 'Ma'",
        &[User, More(200)],
    ),
    read("name within a country", "SELECT id FROM users WHERE country = ? AND name = ?", &[Country, Name]),
    read(
        "age range of a country",
        "SELECT id, age FROM users WHERE country = ? AND age BETWEEN ? AND ? ORDER BY age, id LIMIT 10",
        &[Country, Number(18, 80), More(3)],
    ),
    read(
        "in a list and a range",
        "SELECT id, user_id FROM orders WHERE status IN ('new', 'cancelled') AND created >= ? AND created < ? ORDER \
         BY created",
        &[Moment(DAY_S), Later(7_200)],
    ),
    read(
        "any of five products",
        "SELECT id, status FROM orders WHERE product_id IN (?*5) AND status = 'new'",
        &[Times(5, &Product)],
    ),
    read("price of skus", "SELECT sku, price FROM products WHERE sku IN (?*10)", &[Times(10, &Sku)]),
    read(
        "cheapest of each of three",
        "SELECT category, min(price), max(rating) FROM products WHERE category IN (?*3) GROUP BY category ORDER BY \
         category",
        &[Times(3, &Category)],
    ),
    read(
        "products above the average",
        "SELECT id, price FROM products WHERE category = ? AND price > (SELECT avg(price) FROM products WHERE \
         category = ?) ORDER BY price DESC LIMIT 5",
        &[Category, Again(0)],
    ),
    read(
        "similar products",
        "SELECT b.id, b.name FROM products a JOIN products b ON b.category = a.category AND b.price BETWEEN a.price \
         AND a.price + a.price WHERE a.id = ? ORDER BY b.price, b.id LIMIT 5",
        &[Product],
    ),
    read(
        "born on a day",
        "SELECT count(*) FROM users WHERE id BETWEEN ? AND ? AND born >= '1980-01-01' AND born < '1990-01-01'",
        &[User, More(200)],
    ),
    read(
        "literal list in other order",
        "SELECT id, status FROM orders WHERE user_id = ? ORDER BY status DESC, created DESC LIMIT 5",
        &[Buyer],
    ),
    read(
        "three conditions by or",
        "SELECT id FROM orders WHERE id = ? OR (user_id = ? AND status = 'done') OR (product_id = ? AND status = \
         'new')",
        &[Order, Buyer, Product],
    ),
];

/// Feeds, queues and inboxes.
pub(super) const SERVICE_FEEDS: &[Statement] = &[
    read("oldest waiting", "SELECT id, user_id FROM orders WHERE status = 'new' ORDER BY created, id LIMIT 1", &[]),
    read(
        "ten oldest waiting after",
        "SELECT id, user_id FROM orders WHERE status = 'paid' AND created > ? ORDER BY created LIMIT 10",
        &[Moment(2 * DAY_S)],
    ),
    read(
        "feed of ten users",
        "SELECT id, user_id, created FROM orders WHERE user_id IN (?*10) ORDER BY created DESC LIMIT 20",
        &[Times(10, &Buyer)],
    ),
    read(
        "feed by a subquery",
        "SELECT o.id, o.created FROM orders o WHERE o.user_id IN (SELECT user_id FROM carts WHERE product_id = ?) \
         ORDER BY o.created DESC LIMIT 10",
        &[Product],
    ),
    read(
        "next and previous",
        "SELECT (SELECT min(id) FROM orders WHERE user_id = ? AND id > ?), (SELECT max(id) FROM orders WHERE user_id \
         = ? AND id < ?)",
        &[Buyer, Order, Again(0), Again(1)],
    ),
    read(
        "unread count",
        "SELECT kind, count(*) FROM events WHERE user_id = ? AND moment > ? GROUP BY kind",
        &[User, Moment(DAY_S)],
    ),
    read(
        "latest of each kind",
        "SELECT kind, moment FROM (SELECT kind, moment, row_number() OVER (PARTITION BY kind ORDER BY moment DESC) AS \
         n FROM events WHERE user_id = ?) x WHERE n = 1",
        &[User],
    ),
    read(
        "latest of each, by a join",
        "SELECT e.id, e.kind FROM events e JOIN (SELECT kind, max(moment) AS m FROM events WHERE user_id = ? GROUP BY \
         kind) l ON l.kind = e.kind AND l.m = e.moment WHERE e.user_id = ?",
        &[User, Again(0)],
    ),
    read(
        "gaps between events",
        "SELECT id, id - lag(id) OVER (ORDER BY moment) FROM events WHERE user_id = ?",
        &[User],
    ),
    read(
        "a position among others",
        "SELECT count(*) + 1 FROM users WHERE country = ? AND created < ?",
        &[Country, UserCreated],
    ),
    read(
        "ranks of a page",
        "SELECT id, balance, dense_rank() OVER (ORDER BY balance DESC) FROM users WHERE id BETWEEN ? AND ?",
        &[User, More(50)],
    ),
    read("ntile", "SELECT id, ntile(4) OVER (ORDER BY amount, id) FROM orders WHERE user_id = ?", &[Buyer]),
    read(
        "share of a group",
        "SELECT status, count(*), sum(count(*)) OVER () FROM orders WHERE user_id = ? GROUP BY status",
        &[Buyer],
    ),
    read(
        "moving sum",
        "SELECT id, sum(amount) OVER (ORDER BY created ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM orders WHERE \
         user_id = ?",
        &[Buyer],
    ),
    read("last page", "SELECT id, name FROM users ORDER BY id DESC LIMIT 20", &[]),
    read(
        "events around a moment",
        "SELECT id, kind FROM events WHERE user_id = ? AND moment BETWEEN ? AND ? ORDER BY moment",
        &[User, Moment(30 * DAY_S), Later(20 * DAY_S)],
    ),
    read(
        "first order of each day",
        "SELECT min(id), count(*) FROM orders WHERE created >= ? AND created < ?",
        &[Moment(DAY_S), Later(3_600)],
    ),
    read(
        "page with a total",
        "SELECT id, name, count(*) OVER () FROM users WHERE country = ? AND created > ? ORDER BY created LIMIT 10",
        &[Country, UserCreated],
    ),
    read(
        "merged feeds",
        "SELECT id, created AS at FROM orders WHERE user_id = ? UNION ALL SELECT id, moment FROM events WHERE user_id \
         = ? ORDER BY 2 DESC LIMIT 10",
        &[Buyer, Again(0)],
    ),
];

/// Reports over several tables.
pub(super) const SERVICE_REPORTS: &[Statement] = &[
    read(
        "order with its lines",
        "SELECT o.id, o.status, i.line, i.quantity * i.price AS total FROM orders o JOIN \
         order_items i ON i.order_id = o.id WHERE o.id = ? ORDER BY i.line",
        &[Order],
    ),
    read(
        "totals of a user's orders",
        "SELECT o.id, sum(i.quantity * i.price) FROM orders o JOIN order_items i ON \
         i.order_id = o.id WHERE o.user_id = ? GROUP BY o.id ORDER BY o.id",
        &[Buyer],
    ),
    read(
        "total by a lateral subquery",
        "SELECT o.id, t.total FROM orders o JOIN (SELECT order_id, sum(quantity * \
         price) AS total FROM order_items GROUP BY order_id) t ON t.order_id = o.id WHERE o.user_id = ?",
        &[Buyer],
    ),
    read(
        "most bought product",
        "SELECT i.product_id, sum(i.quantity) AS n FROM orders o JOIN order_items i ON \
         i.order_id = o.id WHERE o.user_id = ? GROUP BY i.product_id ORDER BY n DESC, i.product_id LIMIT 3",
        &[Buyer],
    ),
    read(
        "categories of a user",
        "SELECT DISTINCT p.category FROM orders o JOIN products p ON p.id = o.product_id \
         WHERE o.user_id = ? ORDER BY p.category",
        &[Buyer],
    ),
    read(
        "also bought",
        "SELECT b.product_id, count(*) AS n FROM orders a JOIN orders b ON b.user_id = a.user_id AND \
         b.product_id <> a.product_id WHERE a.product_id = ? GROUP BY b.product_id ORDER BY n DESC, b.product_id LIMIT \
         5",
        &[Product],
    ),
    read(
        "users without events",
        "SELECT u.id FROM users u WHERE u.id BETWEEN ? AND ? AND NOT EXISTS (SELECT 1 FROM \
         events e WHERE e.user_id = u.id AND e.kind = 'buy')",
        &[User, More(40)],
    ),
    read(
        "counts of two tables",
        "SELECT u.id, (SELECT count(*) FROM orders o WHERE o.user_id = u.id), (SELECT \
         count(*) FROM events e WHERE e.user_id = u.id) FROM users u WHERE u.id IN (?*5)",
        &[Times(5, &User)],
    ),
    read(
        "left join of a group",
        "SELECT u.id, u.name, coalesce(t.n, 0) FROM users u LEFT JOIN (SELECT user_id, \
         count(*) AS n FROM orders WHERE status = 'done' GROUP BY user_id) t ON t.user_id = u.id WHERE u.id BETWEEN \
         ? AND ?",
        &[User, More(10)],
    ),
    read(
        "users of many orders",
        "SELECT user_id FROM orders WHERE user_id BETWEEN ? AND ? GROUP BY user_id HAVING \
         count(*) > 5 ORDER BY user_id",
        &[User, More(50)],
    ),
    read(
        "monthly sums",
        "SELECT date_trunc('month', created), sum(amount) FROM orders WHERE user_id = ? GROUP BY 1 \
         ORDER BY 1",
        &[Buyer],
    )
    .sqlite(
        "SELECT CAST(strftime('%s', created / 1000000, 'unixepoch', 'start of month') AS INTEGER) * 1000000, \
         sum(amount) FROM orders WHERE user_id = ? GROUP BY 1 ORDER BY 1",
    ),
    read(
        "two counts with a filter",
        "SELECT count(*) FILTER (WHERE status = 'done'), count(*) FILTER (WHERE status \
         <> 'done'), max(amount) FROM orders WHERE product_id = ?",
        &[Product],
    ),
    read(
        "sum by a case",
        "SELECT user_id, sum(CASE WHEN status = 'done' THEN amount ELSE 0 END) FROM orders WHERE \
         user_id IN (?*5) GROUP BY user_id",
        &[Times(5, &Buyer)],
    ),
    read(
        "an average of sums",
        "SELECT avg(s) FROM (SELECT sum(quantity) AS s FROM order_items WHERE order_id BETWEEN \
         ? AND ? GROUP BY order_id) x",
        &[Order, More(50)],
    ),
    read(
        "lines with all names",
        "SELECT u.name, p.name, i.quantity FROM orders o JOIN users u ON u.id = o.user_id JOIN \
         order_items i ON i.order_id = o.id JOIN products p ON p.id = i.product_id WHERE o.id BETWEEN ? AND ? ORDER BY \
         o.id, i.line",
        &[Order, More(5)],
    ),
    read(
        "right join",
        "SELECT o.id, u.name FROM orders o RIGHT JOIN users u ON u.id = o.user_id WHERE u.id = ?",
        &[User],
    ),
    read(
        "cross join of one row",
        "SELECT o.id, o.amount / t.total FROM orders o, (SELECT sum(amount) AS total FROM \
         orders WHERE user_id = ?) t WHERE o.user_id = ?",
        &[Buyer, Again(0)],
    )
    .sqlite(
        "SELECT o.id, o.amount * 1.0 / t.total FROM orders o, (SELECT sum(amount) AS total FROM orders WHERE \
         user_id = ?) t WHERE o.user_id = ?",
    ),
    read(
        "a CTE used twice",
        "WITH m AS (SELECT id, amount FROM orders WHERE user_id = ?) SELECT a.id, b.id FROM m a \
         JOIN m b ON b.amount > a.amount ORDER BY a.id, b.id LIMIT 5",
        &[Buyer],
    ),
    read(
        "parents by recursion",
        "WITH RECURSIVE up(id, depth) AS (SELECT CAST(? AS BIGINT), 0 UNION ALL SELECT id / \
         10, depth + 1 FROM up WHERE id > 9) SELECT u.id, u.name, up.depth FROM up JOIN users u ON u.id = up.id \
         ORDER BY up.depth",
        &[User],
    ),
    read(
        "values as a table",
        "SELECT u.id, v.b FROM (VALUES (?, 1), (?, 2), (?, 3)) AS v(a, b) JOIN users u ON u.id \
         = v.a",
        &[User, User, User],
    )
    .sqlite(
        "SELECT u.id, v.b FROM (SELECT ? AS a, 1 AS b UNION ALL SELECT ?, 2 UNION ALL SELECT ?, 3) AS v JOIN \
         users u ON u.id = v.a",
    ),
    read(
        "greatest order of each user",
        "SELECT o.user_id, o.id, o.amount FROM orders o WHERE o.user_id BETWEEN ? AND \
         ? AND o.amount = (SELECT max(x.amount) FROM orders x WHERE x.user_id = o.user_id)",
        &[User, More(10)],
    ),
    read(
        "orders of young users",
        "SELECT count(*), sum(o.amount) FROM orders o JOIN users u ON u.id = o.user_id \
         WHERE u.country = ? AND u.age < 20 AND o.created >= ? AND o.created < ?",
        &[Country, Moment(DAY_S), Later(DAY_S)],
    ),
    read(
        "buyers without a purchase event",
        "SELECT user_id FROM orders WHERE product_id = ? EXCEPT SELECT user_id FROM events WHERE kind = \
         'buy' AND user_id < 1000",
        &[Product],
    ),
    read(
        "standard text functions",
        "SELECT upper(name), length(email), instr(email, '@'), ltrim(name), substr(email, 3) FROM users WHERE id = ?",
        &[User],
    ),
    read(
        "minimum of two columns",
        "SELECT id, least(balance, 1000), greatest(age, 50) FROM users WHERE id BETWEEN ? \
         AND ?",
        &[User, More(20)],
    )
    .sqlite("SELECT id, min(balance, 1000), max(coalesce(age, 50), 50) FROM users WHERE id BETWEEN ? AND ?"),
    read(
        "concatenated columns in order",
        "SELECT name || ', ' || coalesce(city, '-') AS label FROM users WHERE \
         country = ? AND created > ? ORDER BY created LIMIT 10",
        &[Country, UserCreated],
    ),
    text(
        "join, unprepared",
        "SELECT o.id, u.name FROM orders o JOIN users u ON u.id = o.user_id WHERE o.id = ?",
        &[Order],
    ),
    text("group, unprepared", "SELECT status, count(*) FROM orders WHERE user_id = ? GROUP BY status", &[Buyer]),
];

/// Changes by services.
pub(super) const SERVICE_CHANGES: &[Statement] = &[
    change(
        "take the oldest",
        "UPDATE orders SET status = 'paid' WHERE id = (SELECT id FROM orders WHERE status = 'new' ORDER BY created \
         LIMIT 1) RETURNING id, user_id",
        &[],
    ),
    change(
        "take ten",
        "UPDATE orders SET status = 'paid' WHERE id IN (SELECT id FROM orders WHERE status = 'new' ORDER BY created \
         LIMIT 10)",
        &[],
    ),
    change(
        "move money",
        "UPDATE users SET balance = CASE id WHEN ? THEN balance - 100 WHEN ? THEN balance + 100 END WHERE id IN (?, ?)",
        &[User, User, Again(0), Again(1)],
    ),
    change(
        "insert and return",
        "INSERT INTO events (id, user_id, kind, moment, payload) VALUES (?, ?, 'view', ?, 'x') RETURNING id, moment",
        &[Fresh, User, Moment(0)],
    ),
    change(
        "insert ten events",
        "INSERT INTO events (id, user_id, kind, moment, payload) VALUES (?, ?, 'a', ?, ''), (?, ?, 'a', ?, ''), (?, \
         ?, 'a', ?, ''), (?, ?, 'a', ?, ''), (?, ?, 'a', ?, ''), (?, ?, 'a', ?, ''), (?, ?, 'a', ?, ''), (?, ?, 'a', \
         ?, ''), (?, ?, 'a', ?, ''), (?, ?, 'a', ?, '')",
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
        "copy an order",
        "INSERT INTO orders (id, user_id, product_id, status, created, amount) SELECT ?, user_id, product_id, 'new', \
         ?, amount FROM orders WHERE id = ?",
        &[Fresh, Moment(0), Order],
    ),
    change(
        "copy the lines of an order",
        "INSERT INTO order_items (order_id, line, product_id, quantity, price) SELECT ?, line, product_id, quantity, \
         price FROM order_items WHERE order_id = ?",
        &[Fresh, Order],
    ),
    change(
        "archive events",
        "INSERT INTO events (id, user_id, kind, moment, payload) SELECT id + ?, user_id, kind, moment, 'archived' \
         FROM events WHERE user_id = ?",
        &[FreshBlock, User],
    ),
    change(
        "upsert of three",
        "INSERT INTO counters (name, value) VALUES (?, 1), ('first', 1), ('second', 1) ON CONFLICT (name) \
         DO UPDATE SET value = counters.value + 1",
        &[Counter],
    ),
    change(
        "upsert of a greater value",
        "INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value \
         WHERE counters.value < excluded.value",
        &[Counter, Number(1, 5_000)],
    ),
    change(
        "upsert of a product",
        "INSERT INTO products (id, sku, name, category, price, rating, stock) VALUES (?, ?, 'new', 'art', 1.5, 3.0, \
         1) ON CONFLICT (sku) DO UPDATE SET stock = products.stock + 1",
        &[Fresh, Sku],
    ),
    change(
        "update of a range of an index",
        "UPDATE orders SET note = 'seen' WHERE created >= ? AND created < ?",
        &[Moment(DAY_S), Later(1_200)],
    ),
    change(
        "update through a join",
        "UPDATE order_items SET price = p.price FROM products p WHERE p.id = order_items.product_id AND \
         order_items.order_id = ?",
        &[Order],
    ),
    change("another name", "UPDATE users SET name = ? WHERE id = ?", &[Name, User]),
    change("another number", "UPDATE events SET id = ? WHERE id = ?", &[Fresh, Number(1, 400_000)]),
    change("update of nothing", "UPDATE users SET age = 5 WHERE id = ? AND name = 'No One'", &[User]),
    change("counter by returning", "UPDATE counters SET value = value + 1 WHERE name = ? RETURNING value", &[Counter]),
    change("nullable to null", "UPDATE users SET city = NULL, age = NULL WHERE id = ?", &[User]),
    change("computed text", "UPDATE users SET name = name || '!', email = ? WHERE id = ?", &[FreshEmail, User]),
    change("delete by two conditions", "DELETE FROM orders WHERE user_id = ? AND status = 'cancelled'", &[Buyer]),
    change(
        "all but the latest event",
        "DELETE FROM events WHERE user_id = ? AND id NOT IN (SELECT id FROM events WHERE user_id = ? ORDER BY moment \
         DESC LIMIT 1)",
        &[User, Again(0)],
    ),
    change("delete and return", "DELETE FROM carts WHERE user_id = ? RETURNING product_id", &[User]),
    change("delete by an email", "DELETE FROM users WHERE email = ?", &[Email]),
    change(
        "delete of a user's lines",
        "DELETE FROM order_items WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = order_items.order_id AND o.user_id \
         = ?)",
        &[Buyer],
    ),
    change("delete of nothing", "DELETE FROM users WHERE email = ?", &[FreshEmail]),
    commit("committed update", "UPDATE counters SET value = value + 1 WHERE name = ?", &[Counter]),
    commit("committed update of two", "UPDATE users SET balance = balance + 1 WHERE id IN (?, ?)", &[User, User]),
    commit("committed delete", "DELETE FROM events WHERE id = ?", &[Number(1, 400_000)]),
];
