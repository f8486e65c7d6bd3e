//! Statements of a support desk and its neighbours on the tables of a [shop](super::shop): look-ups, search boxes,
//! histories with windows, checks for fraud, recommendations, dashboards, stock, carts and clean-ups.

use super::draw::Draw::{
    Again, Buyer, Category, Cents, Counter, Country, Email, Fresh, Later, Moment, More, NamePattern, Number, OneOf,
    Order, Product, Sku, Times, User, UserCreated,
};
use super::statement::{Statement, change, commit, read, text};

const STATUSES: &[&str] = &["new", "paid", "cancelled", "shipped", "done"];
const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;

/// What a support desk looks up: one customer, one order, one product, and what belongs to it.
pub(super) const DESK_LOOKUPS: &[Statement] = &[
    read(
        "log-in check",
        "SELECT id, name, balance < 0 AS is_in_debt, coalesce(city, country) AS place FROM users WHERE email = ? AND \
         created <= ?",
        &[Email, Moment(0)],
    ),
    read(
        "head of a ticket",
        "SELECT o.id, o.status, u.name, u.email, (SELECT count(*) FROM orders x WHERE x.user_id = u.id) AS \
         orders_count, (SELECT max(e.moment) FROM events e WHERE e.user_id = u.id AND e.kind = 'login') AS seen FROM \
         orders o JOIN users u ON u.id = o.user_id WHERE o.id = ?",
        &[Order],
    ),
    read(
        "tile of an account",
        "SELECT (SELECT count(*) FROM orders WHERE user_id = ? AND status IN ('new', 'paid', 'shipped')), (SELECT \
         coalesce(sum(quantity), 0) FROM carts WHERE user_id = ?), EXISTS (SELECT 1 FROM events WHERE user_id = ? AND \
         kind = 'rate')",
        &[Buyer, Again(0), Again(0)],
    ),
    read(
        "mark of the stock",
        "SELECT id, price, CASE WHEN stock = 0 THEN 'sold out' WHEN stock < 10 THEN 'few left' ELSE 'in stock' END AS \
         mark FROM products WHERE sku = ?",
        &[Sku],
    ),
    read(
        "orders by number or still open",
        "SELECT id, status, amount FROM orders WHERE id IN (?*3) OR (user_id = ? AND status IN ('new', 'paid')) ORDER \
         BY id",
        &[Times(3, &Order), Buyer],
    ),
    read(
        "products by sku or number",
        "SELECT id, sku, stock FROM products WHERE sku IN (?*3) OR id IN (?*3) ORDER BY id",
        &[Times(3, &Sku), Times(3, &Product)],
    ),
    read(
        "time on sale",
        "SELECT min(created), max(created), extract(epoch FROM max(created) - min(created)) FROM orders WHERE \
         product_id = ?",
        &[Product],
    )
    .sqlite(
        "SELECT min(created), max(created), (max(created) - min(created)) / 1000000.0 FROM orders WHERE product_id = \
         ?",
    ),
    read(
        "order just before another",
        "SELECT id, user_id, created FROM orders WHERE created < (SELECT created FROM orders WHERE id = ?) ORDER BY \
         created DESC, id DESC LIMIT 1",
        &[Order],
    ),
    read(
        "next dearer of a category",
        "SELECT id, name, price FROM products WHERE category = ? AND (price, id) > (?, ?) ORDER BY price, id LIMIT 5",
        &[Category, Cents(1_000, 90_000), Product],
    ),
    read(
        "counters from a name",
        "SELECT name, value FROM counters WHERE name >= ? AND name < 'counter-00990' AND value % 2 = 0 ORDER BY name \
         LIMIT 8",
        &[Counter],
    ),
    read(
        "cart of an e-mail",
        "SELECT c.product_id, c.quantity, p.name, c.quantity * p.price AS total FROM users u JOIN carts c ON \
         c.user_id = u.id JOIN products p ON p.id = c.product_id WHERE u.email = ? ORDER BY c.product_id",
        &[Email],
    ),
    read(
        "numbers without a user",
        "SELECT v.id FROM (SELECT CAST(? AS BIGINT) AS id UNION ALL SELECT CAST(? AS BIGINT) UNION ALL SELECT CAST(? \
         AS BIGINT)) AS v LEFT JOIN users u ON u.id = v.id WHERE u.id IS NULL",
        &[User, Fresh, User],
    ),
    read(
        "neighbours in a city",
        "SELECT b.id, b.name FROM users a JOIN users b ON b.country = a.country AND b.city = a.city AND b.id <> a.id \
         WHERE a.id = ? ORDER BY b.created DESC LIMIT 5",
        &[User],
    ),
    read(
        "same city or both unknown",
        "SELECT id, name FROM users WHERE id BETWEEN ? AND ? AND city IS NOT DISTINCT FROM (SELECT city FROM users \
         WHERE id = ?)",
        &[User, More(60), User],
    ),
    read(
        "product of the latest order",
        "SELECT name, price, stock FROM products WHERE id = (SELECT product_id FROM orders WHERE user_id = ? ORDER BY \
         created DESC LIMIT 1)",
        &[Buyer],
    ),
    read(
        "two before and three from",
        "SELECT id, name FROM (SELECT id, name FROM users WHERE id < ? ORDER BY id DESC LIMIT 2) AS before UNION ALL \
         SELECT id, name FROM (SELECT id, name FROM users WHERE id >= ? ORDER BY id LIMIT 3) AS rest ORDER BY id",
        &[User, Again(0)],
    ),
    read(
        "masked address",
        "SELECT substr(name, 1, 1) || substr(name, instr(name, ' ') + 1, 1) AS initials, substr(email, 1, 2) || '***' \
         || substr(email, instr(email, '@')) AS masked FROM users WHERE id = ?",
        &[User],
    ),
    read(
        "number within a sku",
        "SELECT CAST(substr(sku, 5) AS INTEGER) + 1, ltrim(sku, 'SKU-0'), upper(substr(category, 1, 3)) FROM products \
         WHERE sku = ?",
        &[Sku],
    ),
    read(
        "of age at the first order",
        "SELECT u.id, extract(year FROM min(o.created)) - extract(year FROM u.born) FROM users u JOIN orders o ON \
         o.user_id = u.id WHERE u.id = ? GROUP BY u.id, u.born",
        &[Buyer],
    )
    .sqlite(
        "SELECT u.id, CAST(strftime('%Y', min(o.created) / 1000000, 'unixepoch') AS INTEGER) - CAST(strftime('%Y', \
         u.born) AS INTEGER) FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = ? GROUP BY u.id, u.born",
    ),
    text(
        "head of a customer, unprepared",
        "SELECT u.name, count(o.id), coalesce(sum(o.amount), 0) FROM users u LEFT JOIN orders o ON o.user_id = u.id \
         AND o.status <> 'cancelled' WHERE u.email = ? GROUP BY u.id, u.name",
        &[Email],
    ),
    text(
        "two unprepared conditions by or",
        "SELECT id, sku, price FROM products WHERE sku = ? OR (category = ? AND price < 20) ORDER BY id LIMIT 5",
        &[Sku, Category],
    )
    .sqlite("SELECT id, sku, price FROM products WHERE sku = ? OR (category = ? AND price < 2000) ORDER BY id LIMIT 5"),
];

/// Search boxes, grids of an administration with filters that may be empty, and batches by key.
pub(super) const DESK_SEARCHES: &[Statement] = &[
    read(
        "grid with empty filters",
        "SELECT id, user_id, status, amount, created FROM orders WHERE (? = '' OR status = ?) AND (? = 0 OR \
         product_id = ?) AND created >= ? AND created < ? ORDER BY created DESC, id DESC LIMIT 25",
        &[OneOf(&["", "paid", "done"]), Again(0), Number(0, 0), Again(2), Moment(DAY_S), Later(DAY_S)],
    ),
    read(
        "total of a grid",
        "SELECT count(*) FROM orders WHERE (? = '' OR status = ?) AND (? = 0 OR product_id = ?) AND created >= ? AND \
         created < ?",
        &[OneOf(&["", "paid", "done"]), Again(0), Number(0, 0), Again(2), Moment(DAY_S), Later(DAY_S)],
    ),
    read(
        "total up to a limit",
        "SELECT count(*) FROM (SELECT id FROM orders WHERE status = ? AND created >= ? LIMIT 501) AS some",
        &[OneOf(STATUSES), Moment(DAY_S)],
    ),
    read(
        "search box over three columns",
        "SELECT id, name, email FROM users WHERE name LIKE ? OR email LIKE ? OR city = ? ORDER BY id LIMIT 10",
        &[NamePattern, OneOf(&["olga.bar%", "hugo.ese%"]), OneOf(&["City 7", "City 77"])],
    ),
    read(
        "search box of a country",
        "SELECT id, name FROM users WHERE country = ? AND lower(name) LIKE '%' || ? || '%' ORDER BY created DESC, id \
         LIMIT 10",
        &[Country, OneOf(&["antiought", "eseable", "pri"])],
    ),
    read(
        "word within names of products",
        "SELECT id, name, rating FROM products WHERE name LIKE '%number 12%' ORDER BY rating DESC, id LIMIT 12",
        &[],
    ),
    read(
        "products by four filters",
        "SELECT id, name, price, rating FROM products WHERE category IN (?, ?) AND price BETWEEN ? AND ? AND rating \
         >= 3.5 AND stock > 0 ORDER BY rating DESC, price, id LIMIT 24",
        &[Category, Category, Cents(1_000, 20_000), Cents(40_000, 90_000)],
    ),
    read(
        "numbers beside the filters",
        "SELECT category, count(*) AS n, min(price), max(price) FROM products WHERE rating >= 4 AND price < ? GROUP \
         BY category ORDER BY n DESC, category LIMIT 8",
        &[Cents(5_000, 60_000)],
    ),
    read(
        "steps of the price",
        "SELECT CASE WHEN price < ? THEN 'low' WHEN price < ? THEN 'middle' ELSE 'high' END AS step, count(*), \
         sum(stock) FROM products WHERE category = ? GROUP BY 1 ORDER BY step",
        &[Cents(1_000, 20_000), Cents(30_000, 60_000), Category],
    ),
    read(
        "number of products for each star",
        "SELECT floor(rating) AS stars, count(*) FROM products WHERE category IN (?*3) GROUP BY floor(rating) ORDER \
         BY stars DESC",
        &[Times(3, &Category)],
    )
    .sqlite(
        "SELECT CAST(rating AS INTEGER) AS stars, count(*) FROM products WHERE category IN (?*3) GROUP BY CAST(rating \
         AS INTEGER) ORDER BY stars DESC",
    ),
    read(
        "grid of a country after a row",
        "SELECT id, name, email, created FROM users WHERE country = ? AND (created, id) < (?, ?) ORDER BY created \
         DESC, id DESC LIMIT 25",
        &[Country, UserCreated, User],
    ),
    read(
        "orders after three columns",
        "SELECT id, status, created FROM orders WHERE (status, created, id) > (?, ?, ?) ORDER BY status, created, id \
         LIMIT 25",
        &[OneOf(STATUSES), Moment(0), Order],
    ),
    read(
        "lines after a key with skus",
        "SELECT i.order_id, i.line, p.sku FROM order_items i JOIN products p ON p.id = i.product_id WHERE \
         (i.order_id, i.line) > (?, ?) ORDER BY i.order_id, i.line LIMIT 25",
        &[Order, Number(1, 3)],
    ),
    read(
        "paid orders of a country by offset",
        "SELECT o.id, u.email, o.created FROM orders o JOIN users u ON u.id = o.user_id WHERE o.status = 'paid' AND \
         u.country = ? ORDER BY o.created DESC, o.id LIMIT 20 OFFSET ?",
        &[Country, Number(0, 60)],
    ),
    read(
        "products by the worth of the stock",
        "SELECT id, name, stock * price AS worth FROM products WHERE category = ? ORDER BY worth DESC, id LIMIT 10",
        &[Category],
    ),
    read(
        "third page by city",
        "SELECT id, name, city FROM users WHERE country = ? AND age < 30 ORDER BY city NULLS LAST, name, id LIMIT 20 \
         OFFSET 40",
        &[Country],
    ),
    read(
        "notes by a pattern with an escape",
        "SELECT id, note FROM orders WHERE user_id IN (?*5) AND note LIKE '%door _5' ESCAPE '!' AND note NOT LIKE \
         '%!%%' ESCAPE '!' ORDER BY id",
        &[Times(5, &Buyer)],
    ),
    read(
        "pages that some users have seen",
        "SELECT id, user_id, payload FROM events WHERE user_id IN (?*5) AND payload LIKE '%\"page\": \"a%' ORDER BY \
         moment DESC, id LIMIT 10",
        &[Times(5, &User)],
    ),
    read(
        "orders of both products",
        "SELECT order_id FROM order_items WHERE product_id IN (?, ?) GROUP BY order_id HAVING count(DISTINCT \
         product_id) = 2 ORDER BY order_id DESC LIMIT 20",
        &[Product, More(7)],
    ),
    read(
        "cheap products but those seen",
        "SELECT id, name, price FROM products WHERE category = ? AND price < ? AND id NOT IN (?*6) ORDER BY price \
         DESC, id LIMIT 8",
        &[Category, Cents(5_000, 90_000), Times(6, &Product)],
    ),
    read(
        "two ranges of prices",
        "SELECT id, price FROM products WHERE category = ? AND (price BETWEEN ? AND ? OR price > ?) ORDER BY price, \
         id LIMIT 15",
        &[Category, Cents(1_000, 2_000), Cents(3_000, 9_000), Cents(80_000, 95_000)],
    ),
    read(
        "bounds of the next batch",
        "SELECT min(id), max(id), count(*) FROM (SELECT id FROM orders WHERE id > ? ORDER BY id LIMIT 500) AS batch",
        &[Order],
    ),
    read(
        "next batch without a note",
        "SELECT id, user_id FROM orders WHERE id > ? AND status = 'done' AND note IS NULL ORDER BY id LIMIT 100",
        &[Order],
    ),
    read(
        "birthdays of a day",
        "SELECT id, name, born FROM users WHERE country = ? AND extract(month FROM born) = ? AND extract(day FROM \
         born) = 17 ORDER BY name, id LIMIT 20",
        &[Country, Number(1, 12)],
    )
    .sqlite(
        "SELECT id, name, born FROM users WHERE country = ? AND CAST(strftime('%m', born) AS INTEGER) = ? AND \
         CAST(strftime('%d', born) AS INTEGER) = 17 ORDER BY name, id LIMIT 20",
    ),
    read(
        "adults by a date",
        "SELECT count(*) FROM users WHERE id BETWEEN ? AND ? AND born + INTERVAL '18 years' <= TIMESTAMP '2022-01-01'",
        &[User, More(150)],
    )
    .sqlite("SELECT count(*) FROM users WHERE id BETWEEN ? AND ? AND date(born, '+18 years') <= '2022-01-01'"),
];

/// Windows and steps over the rows of one customer, one product or one day.
pub(super) const DESK_HISTORIES: &[Statement] = &[
    read(
        "seconds since the order before",
        "SELECT id, created, extract(epoch FROM created - lag(created) OVER (ORDER BY created)) FROM orders WHERE \
         user_id = ? ORDER BY created",
        &[Buyer],
    )
    .sqlite(
        "SELECT id, created, (created - lag(created) OVER (ORDER BY created)) / 1000000.0 FROM orders WHERE user_id = \
         ? ORDER BY created",
    ),
    read(
        "first and last amount",
        "SELECT id, first_value(amount) OVER w, last_value(amount) OVER w, nth_value(id, 2) OVER w FROM orders WHERE \
         user_id = ? WINDOW w AS (ORDER BY created ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) ORDER BY \
         id",
        &[Buyer],
    ),
    read(
        "quarter and share of a place",
        "SELECT id, ntile(4) OVER w, percent_rank() OVER w, cume_dist() OVER w FROM orders WHERE product_id = ? \
         WINDOW w AS (ORDER BY amount, id) ORDER BY id",
        &[Product],
    ),
    read(
        "average of five orders",
        "SELECT id, avg(amount) OVER (ORDER BY created ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) FROM orders WHERE \
         product_id = ? ORDER BY created",
        &[Product],
    )
    .sqlite(
        "SELECT id, avg(amount) OVER (ORDER BY created ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) / 100 FROM orders \
         WHERE product_id = ? ORDER BY created",
    ),
    read(
        "orders of thirty days before each",
        "SELECT id, count(*) OVER (ORDER BY created RANGE BETWEEN INTERVAL '30 days' PRECEDING AND CURRENT ROW) FROM \
         orders WHERE user_id = ? ORDER BY created",
        &[Buyer],
    )
    .sqlite(
        "SELECT id, count(*) OVER (ORDER BY created RANGE BETWEEN 2592000000000 PRECEDING AND CURRENT ROW) FROM \
         orders WHERE user_id = ? ORDER BY created",
    ),
    read(
        "sum of a group and the one before",
        "SELECT id, sum(amount) OVER (ORDER BY status GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders WHERE \
         user_id = ? ORDER BY id",
        &[Buyer],
    ),
    read(
        "greatest of the others",
        "SELECT id, max(amount) OVER (ORDER BY created ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING \
         EXCLUDE CURRENT ROW) FROM orders WHERE user_id = ? ORDER BY id",
        &[Buyer],
    ),
    read(
        "runs of the same status",
        "SELECT status, min(id), count(*) FROM (SELECT id, status, row_number() OVER (ORDER BY created) - \
         row_number() OVER (PARTITION BY status ORDER BY created) AS run FROM orders WHERE user_id = ?) AS numbered \
         GROUP BY status, run ORDER BY min(id)",
        &[Buyer],
    ),
    read(
        "visits of a user",
        "SELECT visit, count(*), min(moment), max(moment) FROM (SELECT moment, sum(starts) OVER (ORDER BY moment, id) \
         AS visit FROM (SELECT id, moment, CASE WHEN lag(moment) OVER (ORDER BY moment, id) >= moment - INTERVAL '60 \
         days' THEN 0 ELSE 1 END AS starts FROM events WHERE user_id = ?) AS marked) AS numbered GROUP BY visit ORDER \
         BY visit",
        &[User],
    )
    .sqlite(
        "SELECT visit, count(*), min(moment), max(moment) FROM (SELECT moment, sum(starts) OVER (ORDER BY moment, id) \
         AS visit FROM (SELECT id, moment, CASE WHEN lag(moment) OVER (ORDER BY moment, id) >= moment - 5184000000000 \
         THEN 0 ELSE 1 END AS starts FROM events WHERE user_id = ?) AS marked) AS numbered GROUP BY visit ORDER BY \
         visit",
    ),
    read(
        "three dearest of each category",
        "SELECT category, id, price FROM (SELECT category, id, price, rank() OVER (PARTITION BY category ORDER BY \
         price DESC, id) AS place FROM products WHERE category IN (?*3)) AS ranked WHERE place <= 3 ORDER BY \
         category, place",
        &[Times(3, &Category)],
    ),
    read(
        "places of a leaderboard",
        "WITH ranked AS (SELECT id, name, balance, row_number() OVER (ORDER BY balance DESC, id) AS place FROM users \
         WHERE country = ?) SELECT place, id, name, balance FROM ranked WHERE place BETWEEN ? AND ? ORDER BY place",
        &[Country, Number(1, 500), More(9)],
    ),
    read(
        "place of a user",
        "SELECT count(*) + 1 FROM users WHERE country = (SELECT country FROM users WHERE id = ?) AND balance > \
         (SELECT balance FROM users WHERE id = ?)",
        &[User, Again(0)],
    ),
    read(
        "share of the stock so far",
        "SELECT id, stock, sum(stock) OVER (ORDER BY stock DESC, id) * 100 / sum(stock) OVER () AS share FROM \
         products WHERE category = ? AND stock > 0 ORDER BY stock DESC, id LIMIT 20",
        &[Category],
    ),
    read(
        "orders since the last cancelled",
        "SELECT id, status, created FROM orders WHERE user_id = ? AND id > coalesce((SELECT max(id) FROM orders WHERE \
         user_id = ? AND status = 'cancelled'), 0) ORDER BY id",
        &[Buyer, Again(0)],
    ),
    read(
        "changes of the status",
        "SELECT id, before, status FROM (SELECT id, status, created, lag(status, 1, 'none') OVER (ORDER BY created) \
         AS before FROM orders WHERE user_id = ?) AS steps WHERE before <> status ORDER BY created",
        &[Buyer],
    ),
    read(
        "sums of months so far",
        "SELECT to_char(created, 'YYYY-MM') AS month, sum(amount), sum(sum(amount)) OVER (ORDER BY to_char(created, \
         'YYYY-MM')) FROM orders WHERE product_id = ? GROUP BY to_char(created, 'YYYY-MM') ORDER BY month",
        &[Product],
    )
    .sqlite(
        "SELECT strftime('%Y-%m', created / 1000000, 'unixepoch') AS month, sum(amount), sum(sum(amount)) OVER (ORDER \
         BY strftime('%Y-%m', created / 1000000, 'unixepoch')) FROM orders WHERE product_id = ? GROUP BY month ORDER \
         BY month",
    ),
    read(
        "lines of an invoice",
        "SELECT i.line, p.sku, i.quantity, i.quantity * i.price AS total, sum(i.quantity * i.price) OVER (ORDER BY \
         i.line), count(*) OVER () FROM order_items i JOIN products p ON p.id = i.product_id WHERE i.order_id = ? \
         ORDER BY i.line",
        &[Order],
    ),
    read(
        "first and last of each of five",
        "SELECT user_id, id, created FROM (SELECT user_id, id, created, row_number() OVER (PARTITION BY user_id ORDER \
         BY created) AS up, row_number() OVER (PARTITION BY user_id ORDER BY created DESC) AS down FROM orders WHERE \
         user_id IN (?*5)) AS n WHERE up = 1 OR down = 1 ORDER BY user_id, created",
        &[Times(5, &Buyer)],
    ),
    read(
        "share of done orders so far",
        "SELECT id, count(*) FILTER (WHERE status = 'done') OVER (ORDER BY created), count(*) OVER (ORDER BY created) \
         FROM orders WHERE user_id = ? ORDER BY created",
        &[Buyer],
    ),
    read(
        "one window from another",
        "SELECT user_id, id, sum(amount) OVER (w ORDER BY created), dense_rank() OVER (w ORDER BY status) FROM orders \
         WHERE user_id IN (?*4) WINDOW w AS (PARTITION BY user_id) ORDER BY user_id, created",
        &[Times(4, &Buyer)],
    ),
    read(
        "orders above the usual",
        "SELECT user_id, id, amount FROM (SELECT user_id, id, amount, avg(amount) OVER (PARTITION BY user_id) AS \
         usual FROM orders WHERE user_id BETWEEN ? AND ?) AS compared WHERE amount > usual ORDER BY user_id, id",
        &[User, More(8)],
    ),
    read(
        "orders and events in one line of time",
        "SELECT row_number() OVER (ORDER BY at, id), what, id FROM (SELECT created AS at, 'order' AS what, id FROM \
         orders WHERE user_id = ? UNION ALL SELECT moment, kind, id FROM events WHERE user_id = ?) AS t ORDER BY at \
         DESC, id LIMIT 12",
        &[Buyer, Again(0)],
    ),
    read(
        "middle amount of a product",
        "SELECT max(amount) FROM (SELECT amount, row_number() OVER (ORDER BY amount, id) AS n, count(*) OVER () AS \
         total FROM orders WHERE product_id = ?) AS sorted WHERE n IN ((total + 1) / 2, (total + 2) / 2)",
        &[Product],
    ),
    read(
        "weeks of a product",
        "SELECT date_trunc('week', created) AS week, count(*), count(DISTINCT user_id) FROM orders WHERE product_id = \
         ? GROUP BY 1 ORDER BY week",
        &[Product],
    )
    .sqlite(
        "SELECT created - (created - 345600000000) % 604800000000 AS week, count(*), count(DISTINCT user_id) FROM \
         orders WHERE product_id = ? GROUP BY 1 ORDER BY week",
    ),
];

/// Tiles of dashboards, cohorts, audits and checks.
pub(super) const DESK_REPORTS: &[Statement] = &[
    read(
        "orders of each hour of a day",
        "SELECT extract(hour FROM created) AS hour, count(*), sum(amount) FROM orders WHERE created >= ? AND created \
         < ? GROUP BY extract(hour FROM created) ORDER BY hour",
        &[Moment(DAY_S), Later(DAY_S)],
    )
    .sqlite(
        "SELECT created / 3600000000 % 24 AS hour, count(*), sum(amount) FROM orders WHERE created >= ? AND created < \
         ? GROUP BY hour ORDER BY hour",
    ),
    read(
        "days of a week by status",
        "SELECT CAST(created AS DATE) AS day, count(*) FILTER (WHERE status = 'cancelled') AS cancelled, count(*) \
         FILTER (WHERE status IN ('shipped', 'done')) AS good, sum(amount) FROM orders WHERE created >= ? AND created \
         < ? GROUP BY CAST(created AS DATE) ORDER BY day",
        &[Moment(7 * DAY_S), Later(7 * DAY_S)],
    )
    .sqlite(
        "SELECT date(created / 1000000, 'unixepoch') AS day, count(*) FILTER (WHERE status = 'cancelled') AS \
         cancelled, count(*) FILTER (WHERE status IN ('shipped', 'done')) AS good, sum(amount) FROM orders WHERE \
         created >= ? AND created < ? GROUP BY day ORDER BY day",
    ),
    read(
        "new users who have ordered",
        "SELECT count(*), sum(CASE WHEN EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id AND o.created < ?) THEN \
         1 ELSE 0 END) FROM users u WHERE u.created >= ? AND u.created < ?",
        &[Moment(0), UserCreated, Later(DAY_S)],
    ),
    read(
        "new users by their number of orders",
        "SELECT n, count(*) FROM (SELECT u.id, count(o.id) AS n FROM users u LEFT JOIN orders o ON o.user_id = u.id \
         WHERE u.created >= ? AND u.created < ? GROUP BY u.id) AS counted GROUP BY n ORDER BY n",
        &[UserCreated, Later(DAY_S)],
    ),
    read(
        "categories sold in an hour",
        "SELECT p.category, sum(i.quantity) AS n, sum(i.quantity * i.price) FROM orders o JOIN order_items i ON \
         i.order_id = o.id JOIN products p ON p.id = i.product_id WHERE o.created >= ? AND o.created < ? GROUP BY \
         p.category ORDER BY n DESC, p.category LIMIT 5",
        &[Moment(HOUR_S), Later(HOUR_S)],
    ),
    read(
        "worth of the stock by category",
        "SELECT category, sum(stock * price) AS worth, sum(CASE WHEN stock = 0 THEN 1 ELSE 0 END) FROM products GROUP \
         BY category HAVING sum(stock) > 0 ORDER BY worth DESC, category",
        &[],
    ),
    read(
        "products without an order",
        "SELECT p.id, p.name FROM products p WHERE p.category = ? AND p.stock > 400 AND NOT EXISTS (SELECT 1 FROM \
         orders o WHERE o.product_id = p.id AND o.created >= ? AND o.created < ?) ORDER BY p.id LIMIT 20",
        &[Category, Moment(14 * DAY_S), Later(14 * DAY_S)],
    ),
    read(
        "carts that the stock does not cover",
        "SELECT p.id, p.stock, sum(c.quantity) AS wanted FROM carts c JOIN products p ON p.id = c.product_id WHERE \
         p.stock < 3 GROUP BY p.id, p.stock HAVING sum(c.quantity) > p.stock ORDER BY p.id LIMIT 20",
        &[],
    ),
    read(
        "carts that were left",
        "SELECT c.user_id, count(*), sum(c.quantity) FROM carts c WHERE c.user_id BETWEEN ? AND ? AND NOT EXISTS \
         (SELECT 1 FROM orders o WHERE o.user_id = c.user_id AND o.created >= ?) GROUP BY c.user_id ORDER BY \
         c.user_id",
        &[User, More(500), Moment(30 * DAY_S)],
    ),
    read(
        "ages of a product's buyers",
        "SELECT coalesce(u.age / 10 * 10, -1) AS band, count(*), count(DISTINCT u.id), min(u.country) FROM orders o \
         JOIN users u ON u.id = o.user_id WHERE o.product_id = ? GROUP BY coalesce(u.age / 10 * 10, -1) ORDER BY band",
        &[Product],
    ),
    read(
        "steps from view to purchase",
        "SELECT count(DISTINCT CASE WHEN kind = 'view' THEN user_id END), count(DISTINCT CASE WHEN kind = 'add' THEN \
         user_id END), count(DISTINCT CASE WHEN kind = 'buy' THEN user_id END) FROM events WHERE id BETWEEN ? AND ?",
        &[Number(1, 400_000), More(2_000)],
    ),
    read(
        "new and returning buyers of an hour",
        "SELECT who, count(*), sum(amount) FROM (SELECT o.amount, CASE WHEN EXISTS (SELECT 1 FROM orders x WHERE \
         x.user_id = o.user_id AND x.created < o.created) THEN 'returning' ELSE 'new' END AS who FROM orders o WHERE \
         o.created >= ? AND o.created < ?) AS marked GROUP BY who ORDER BY who",
        &[Moment(HOUR_S), Later(HOUR_S)],
    ),
    read(
        "the same name in a country",
        "SELECT name, count(*) AS n, min(id), max(id) FROM users WHERE country = ? GROUP BY name HAVING count(*) > 1 \
         ORDER BY n DESC, name LIMIT 10",
        &[Country],
    ),
    read(
        "two orders within a day",
        "SELECT a.id, b.id, a.user_id FROM orders a JOIN orders b ON b.user_id = a.user_id AND b.created > a.created \
         AND b.created < a.created + INTERVAL '1 day' WHERE a.created >= ? AND a.created < ? ORDER BY a.id, b.id",
        &[Moment(6 * HOUR_S), Later(6 * HOUR_S)],
    )
    .sqlite(
        "SELECT a.id, b.id, a.user_id FROM orders a JOIN orders b ON b.user_id = a.user_id AND b.created > a.created \
         AND b.created < a.created + 86400000000 WHERE a.created >= ? AND a.created < ? ORDER BY a.id, b.id",
    ),
    read(
        "orders of the month before an order",
        "SELECT o.id, (SELECT count(*) FROM orders x WHERE x.user_id = o.user_id AND x.created < o.created AND \
         x.created >= o.created - INTERVAL '30 days') AS recent, o.amount > 2 * (SELECT avg(x.amount) FROM orders x \
         WHERE x.user_id = o.user_id AND x.id < o.id) AS is_odd FROM orders o WHERE o.id = ?",
        &[Order],
    )
    .sqlite(
        "SELECT o.id, (SELECT count(*) FROM orders x WHERE x.user_id = o.user_id AND x.created < o.created AND \
         x.created >= o.created - 2592000000000) AS recent, o.amount > 2 * (SELECT avg(x.amount) FROM orders x WHERE \
         x.user_id = o.user_id AND x.id < o.id) AS is_odd FROM orders o WHERE o.id = ?",
    ),
    read(
        "users who often cancel",
        "SELECT user_id, count(*) AS n, sum(CASE status WHEN 'cancelled' THEN 1 ELSE 0 END) AS bad FROM orders WHERE \
         user_id BETWEEN ? AND ? GROUP BY user_id HAVING sum(CASE status WHEN 'cancelled' THEN 1 ELSE 0 END) * 4 > \
         count(*) ORDER BY bad DESC, user_id LIMIT 10",
        &[User, More(200)],
    ),
    read(
        "four tiles in rows",
        "SELECT 'orders' AS tile, count(*) AS n FROM orders WHERE created >= ? AND created < ? UNION ALL SELECT \
         'cancelled', count(*) FROM orders WHERE status = 'cancelled' AND created >= ? AND created < ? UNION ALL \
         SELECT 'waiting', count(*) FROM orders WHERE status = 'new' UNION ALL SELECT 'products', count(*) FROM \
         products WHERE category = ? ORDER BY tile",
        &[Moment(DAY_S), Later(DAY_S), Again(0), Again(1), Category],
    ),
    read(
        "orders whose lines do not add up",
        "SELECT o.id, o.amount, sum(i.price) FROM orders o JOIN order_items i ON i.order_id = o.id WHERE o.id BETWEEN \
         ? AND ? GROUP BY o.id, o.amount HAVING sum(i.price) <> o.amount ORDER BY o.id LIMIT 20",
        &[Order, More(100)],
    ),
    read(
        "today against yesterday",
        "WITH today AS (SELECT status, count(*) AS n, sum(amount) AS total FROM orders WHERE created >= ? AND created \
         < ? GROUP BY status), yesterday AS (SELECT status, count(*) AS n, sum(amount) AS total FROM orders WHERE \
         created >= ? AND created < ? GROUP BY status) SELECT t.status, t.n, coalesce(y.n, 0), t.total - \
         coalesce(y.total, 0) FROM today t LEFT JOIN yesterday y ON y.status = t.status ORDER BY t.status",
        &[Moment(DAY_S), Later(DAY_S), Moment(DAY_S), Later(DAY_S)],
    ),
    read(
        "seven days also without orders",
        "WITH RECURSIVE days(day) AS (SELECT CAST(? AS TIMESTAMP) UNION ALL SELECT day + INTERVAL '1 day' FROM days \
         WHERE day < CAST(? AS TIMESTAMP)) SELECT d.day, count(o.id), coalesce(sum(o.amount), 0) FROM days d LEFT \
         JOIN orders o ON o.product_id = ? AND o.created >= d.day AND o.created < d.day + INTERVAL '1 day' GROUP BY \
         d.day ORDER BY d.day",
        &[Moment(7 * DAY_S), Later(6 * DAY_S), Product],
    )
    .sqlite(
        "WITH RECURSIVE days(day) AS (SELECT ? UNION ALL SELECT day + 86400000000 FROM days WHERE day < ?) SELECT \
         d.day, count(o.id), coalesce(sum(o.amount), 0) FROM days d LEFT JOIN orders o ON o.product_id = ? AND \
         o.created >= d.day AND o.created < d.day + 86400000000 GROUP BY d.day ORDER BY d.day",
    ),
    read(
        "statuses step by step",
        "WITH RECURSIVE s(status) AS (SELECT min(status) FROM orders UNION ALL SELECT (SELECT min(o.status) FROM \
         orders o WHERE o.status > s.status) FROM s WHERE s.status IS NOT NULL) SELECT status FROM s WHERE status IS \
         NOT NULL ORDER BY status",
        &[],
    ),
    read(
        "instalments of an order",
        "WITH RECURSIVE parts(n, rest) AS (SELECT 1, amount FROM orders WHERE id = ? UNION ALL SELECT n + 1, rest - ? \
         FROM parts WHERE rest > ? AND n < 24) SELECT n, rest FROM parts ORDER BY n",
        &[Order, Cents(1_000, 5_000), Again(1)],
    ),
    read(
        "rows of an export",
        "SELECT 'user' AS part, id, name AS value FROM users WHERE id = ? UNION ALL SELECT 'order', id, status FROM \
         orders WHERE user_id = ? UNION ALL SELECT 'event', id, kind FROM events WHERE user_id = ? UNION ALL SELECT \
         'cart', product_id, CAST(quantity AS TEXT) FROM carts WHERE user_id = ? ORDER BY part, id",
        &[Buyer, Again(0), Again(0), Again(0)],
    ),
    read(
        "users by sign of the balance",
        "SELECT sign(balance) AS side, count(*), min(balance), max(balance) FROM users WHERE country = ? AND created \
         >= ? GROUP BY sign(balance) ORDER BY side",
        &[Country, UserCreated],
    )
    .sqlite(
        "SELECT CASE WHEN balance > 0 THEN 1 WHEN balance < 0 THEN -1 ELSE 0 END AS side, count(*), min(balance), \
         max(balance) FROM users WHERE country = ? AND created >= ? GROUP BY side ORDER BY side",
    ),
];

/// Recommendations, checks for fraud, and other questions over several tables.
pub(super) const DESK_RELATIONS: &[Statement] = &[
    read(
        "bought together",
        "SELECT b.product_id, count(*) AS n FROM order_items a JOIN order_items b ON b.order_id = a.order_id AND \
         b.line <> a.line WHERE a.product_id = ? GROUP BY b.product_id ORDER BY n DESC, b.product_id LIMIT 5",
        &[Product],
    ),
    read(
        "proposed by categories",
        "SELECT p.id, p.name, p.rating FROM products p WHERE p.category IN (SELECT q.category FROM orders o JOIN \
         products q ON q.id = o.product_id WHERE o.user_id = ?) AND p.stock > 0 AND NOT EXISTS (SELECT 1 FROM orders \
         o WHERE o.user_id = ? AND o.product_id = p.id) ORDER BY p.rating DESC, p.id LIMIT 6",
        &[Buyer, Again(0)],
    ),
    read(
        "risen since yesterday",
        "WITH a AS (SELECT product_id, count(*) AS n FROM orders WHERE created >= ? AND created < ? GROUP BY \
         product_id), b AS (SELECT product_id, count(*) AS n FROM orders WHERE created >= ? AND created < ? GROUP BY \
         product_id) SELECT p.name, a.n - coalesce(b.n, 0) AS more FROM a JOIN products p ON p.id = a.product_id LEFT \
         JOIN b ON b.product_id = a.product_id ORDER BY more DESC, p.id LIMIT 5",
        &[Moment(DAY_S), Later(DAY_S / 2), Moment(DAY_S), Later(DAY_S / 2)],
    ),
    read(
        "five tables of an order",
        "SELECT u.name, o.status, i.line, p.name, c.quantity FROM orders o JOIN users u ON u.id = o.user_id JOIN \
         order_items i ON i.order_id = o.id JOIN products p ON p.id = i.product_id LEFT JOIN carts c ON c.user_id = \
         u.id AND c.product_id = p.id WHERE o.id = ? ORDER BY i.line",
        &[Order],
    ),
    read(
        "from a sku to its buyers",
        "SELECT DISTINCT u.id, u.email FROM products p JOIN order_items i ON i.product_id = p.id JOIN orders o ON \
         o.id = i.order_id JOIN users u ON u.id = o.user_id WHERE p.sku = ? AND u.country = ? ORDER BY u.id LIMIT 20",
        &[Sku, Country],
    ),
    read(
        "three left joins of a user",
        "SELECT u.id, u.name, c.product_id, p.stock, o.status FROM users u LEFT JOIN carts c ON c.user_id = u.id LEFT \
         JOIN products p ON p.id = c.product_id LEFT JOIN orders o ON o.user_id = u.id AND o.product_id = \
         c.product_id WHERE u.id BETWEEN ? AND ? ORDER BY u.id, c.product_id NULLS FIRST, o.id NULLS FIRST",
        &[User, More(20)],
    ),
    read(
        "figures of two tables by joins",
        "SELECT u.id, coalesce(o.n, 0), coalesce(e.n, 0), e.latest FROM users u LEFT JOIN (SELECT user_id, count(*) \
         AS n FROM orders WHERE user_id BETWEEN ? AND ? GROUP BY user_id) AS o ON o.user_id = u.id LEFT JOIN (SELECT \
         user_id, count(*) AS n, max(moment) AS latest FROM events WHERE user_id BETWEEN ? AND ? GROUP BY user_id) AS \
         e ON e.user_id = u.id WHERE u.id BETWEEN ? AND ? ORDER BY u.id",
        &[User, More(15), Again(0), Again(1), Again(0), Again(1)],
    ),
    read(
        "bought one and not the other",
        "SELECT DISTINCT o.user_id FROM orders o JOIN order_items i ON i.order_id = o.id WHERE i.product_id = ? AND \
         NOT EXISTS (SELECT 1 FROM orders x JOIN order_items y ON y.order_id = x.id WHERE x.user_id = o.user_id AND \
         y.product_id = ?) ORDER BY o.user_id LIMIT 20",
        &[Product, More(7)],
    ),
    read(
        "bought both, by sets",
        "SELECT o.user_id FROM order_items i JOIN orders o ON o.id = i.order_id WHERE i.product_id = ? INTERSECT \
         SELECT o.user_id FROM order_items i JOIN orders o ON o.id = i.order_id WHERE i.product_id = ? ORDER BY 1",
        &[Product, More(14)],
    ),
    read(
        "orders of users with a full cart",
        "SELECT o.id, o.user_id FROM orders o WHERE o.status = 'new' AND EXISTS (SELECT 1 FROM carts c WHERE \
         c.user_id = o.user_id AND EXISTS (SELECT 1 FROM products p WHERE p.id = c.product_id AND p.stock >= \
         c.quantity)) ORDER BY o.created DESC, o.id LIMIT 10",
        &[],
    ),
    read(
        "cart items bought before",
        "SELECT c.product_id, max(o.created) AS latest, count(o.id) FROM carts c LEFT JOIN orders o ON o.user_id = \
         c.user_id AND o.product_id = c.product_id WHERE c.user_id BETWEEN ? AND ? GROUP BY c.user_id, c.product_id \
         ORDER BY c.user_id, c.product_id",
        &[User, More(100)],
    ),
    read(
        "users with their dearest order",
        "SELECT u.id, u.name, o.id, o.amount FROM users u JOIN orders o ON o.id = (SELECT x.id FROM orders x WHERE \
         x.user_id = u.id ORDER BY x.amount DESC, x.id LIMIT 1) WHERE u.id BETWEEN ? AND ? ORDER BY u.id",
        &[User, More(12)],
    ),
    read(
        "ordered by a subquery",
        "SELECT u.id, u.name FROM users u WHERE u.id IN (?*10) ORDER BY (SELECT count(*) FROM orders o WHERE \
         o.user_id = u.id) DESC, u.id LIMIT 3",
        &[Times(10, &User)],
    ),
    read(
        "the order that followed",
        "SELECT a.id, b.id, b.status FROM orders a LEFT JOIN orders b ON b.user_id = a.user_id AND b.created = \
         (SELECT min(x.created) FROM orders x WHERE x.user_id = a.user_id AND x.created > a.created) WHERE a.user_id \
         = ? ORDER BY a.id",
        &[Buyer],
    ),
    read(
        "twins by name and birthday",
        "SELECT a.id, b.id, a.name FROM users a JOIN users b ON b.name = a.name AND b.born = a.born AND b.id > a.id \
         WHERE a.id BETWEEN ? AND ? ORDER BY a.id, b.id",
        &[User, More(40)],
    ),
    read(
        "carts of some users side by side",
        "SELECT a.product_id, b.product_id, coalesce(a.quantity, 0) - coalesce(b.quantity, 0) FROM (SELECT \
         product_id, quantity FROM carts WHERE user_id BETWEEN ? AND ?) AS a FULL JOIN (SELECT product_id, quantity \
         FROM carts WHERE user_id BETWEEN ? AND ?) AS b ON b.product_id = a.product_id",
        &[User, More(9), User, More(9)],
    ),
    read(
        "events around an order",
        "SELECT e.id, e.kind, e.moment < o.created AS is_before FROM orders o JOIN events e ON e.user_id = o.user_id \
         AND e.moment BETWEEN o.created - INTERVAL '60 days' AND o.created + INTERVAL '60 days' WHERE o.id = ? ORDER \
         BY e.moment, e.id",
        &[Order],
    )
    .sqlite(
        "SELECT e.id, e.kind, e.moment < o.created AS is_before FROM orders o JOIN events e ON e.user_id = o.user_id \
         AND e.moment BETWEEN o.created - 5184000000000 AND o.created + 5184000000000 WHERE o.id = ? ORDER BY \
         e.moment, e.id",
    ),
    read(
        "in a query with a join",
        "SELECT id, name, email FROM users WHERE id IN (SELECT o.user_id FROM orders o JOIN products p ON p.id = \
         o.product_id WHERE p.category = ? AND o.status = 'new') AND country = ? ORDER BY id LIMIT 10",
        &[Category, Country],
    ),
    read(
        "products of one user and no other of some",
        "SELECT product_id FROM orders WHERE user_id = ? EXCEPT SELECT product_id FROM orders WHERE user_id IN (?*3) \
         UNION SELECT product_id FROM carts WHERE user_id = ? ORDER BY 1",
        &[Buyer, Times(3, &Buyer), Again(0)],
    ),
    read(
        "users close by in number and age",
        "SELECT a.id, b.id, b.age - a.age FROM users a JOIN users b ON b.id BETWEEN a.id + 1 AND a.id + 5 AND b.age = \
         a.age + 1 WHERE a.id BETWEEN ? AND ? ORDER BY a.id, b.id",
        &[User, More(30)],
    ),
    read(
        "waiting orders above all of a user",
        "SELECT id, amount FROM orders WHERE status = 'new' AND amount > (SELECT max(amount) FROM orders WHERE \
         user_id = ?) AND created >= ? ORDER BY amount DESC, id LIMIT 10",
        &[Buyer, Moment(30 * DAY_S)],
    ),
    read(
        "orders with each number of days",
        "SELECT o.id, d.days, o.amount * d.days FROM orders o CROSS JOIN (SELECT 7 AS days UNION ALL SELECT 14 UNION \
         ALL SELECT 30) AS d WHERE o.user_id = ? AND o.status = 'done' ORDER BY o.id, d.days",
        &[Buyer],
    ),
    read(
        "users of a country who rated",
        "SELECT u.id, max(e.moment) AS rated FROM users u JOIN events e ON e.user_id = u.id WHERE u.country = ? AND \
         u.created >= ? AND e.kind = 'rate' GROUP BY u.id ORDER BY rated DESC, u.id LIMIT 10",
        &[Country, UserCreated],
    ),
];

/// Changes: deletions of a person's data, clean-ups, stock, carts, counters and batches.
pub(super) const DESK_CHANGES: &[Statement] = &[
    change(
        "anonymous user",
        "UPDATE users SET name = 'Deleted user', email = 'deleted-' || CAST(id AS TEXT) || '@example.invalid', city = \
         NULL, age = NULL, born = '1900-01-01', balance = 0 WHERE id = ?",
        &[User],
    ),
    change(
        "lines of an e-mail",
        "DELETE FROM order_items WHERE order_id IN (SELECT o.id FROM orders o JOIN users u ON u.id = o.user_id WHERE \
         u.email = ?) RETURNING order_id, line",
        &[Email],
    ),
    change(
        "next batch of old events",
        "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE id > ? AND kind = 'view' ORDER BY id LIMIT 50)",
        &[Number(1, 400_000)],
    ),
    change(
        "batch of orders by key",
        "UPDATE orders SET note = coalesce(note || '; ', '') || 'archived' WHERE id > ? AND id <= ? AND status = \
         'done'",
        &[Order, More(100)],
    ),
    change(
        "all but the newest of each kind",
        "DELETE FROM events WHERE user_id BETWEEN ? AND ? AND EXISTS (SELECT 1 FROM events x WHERE x.user_id = \
         events.user_id AND x.kind = events.kind AND x.id > events.id)",
        &[User, More(20)],
    ),
    change(
        "stock of an order by a subquery",
        "UPDATE products SET stock = stock - (SELECT sum(i.quantity) FROM order_items i WHERE i.order_id = ? AND \
         i.product_id = products.id) WHERE id IN (SELECT product_id FROM order_items WHERE order_id = ?)",
        &[Order, Again(0)],
    ),
    change(
        "stock of an order by a join",
        "UPDATE products SET stock = stock + s.n FROM (SELECT product_id, sum(quantity) AS n FROM order_items WHERE \
         order_id = ? GROUP BY product_id) AS s WHERE s.product_id = products.id RETURNING products.id, \
         products.stock",
        &[Order],
    ),
    change(
        "higher prices of a category",
        "UPDATE products SET price = price + ? WHERE category = ? AND stock < 20 AND rating >= 4.5",
        &[Cents(10, 500), Category],
    ),
    change(
        "amounts from the lines",
        "UPDATE orders SET amount = (SELECT sum(i.price) FROM order_items i WHERE i.order_id = orders.id) WHERE \
         user_id = ?",
        &[Buyer],
    ),
    change(
        "two columns at once",
        "UPDATE orders SET (status, note) = ('paid', 'paid at the desk') WHERE id = ? AND status IN ('new', 'done')",
        &[Order],
    ),
    change(
        "next status, returned",
        "UPDATE orders SET status = CASE status WHEN 'new' THEN 'paid' WHEN 'paid' THEN 'shipped' ELSE 'done' END \
         WHERE id = ? AND user_id > 0 RETURNING id, status, coalesce(upper(note), status)",
        &[Order],
    ),
    change(
        "lines of a user's open orders",
        "DELETE FROM order_items USING orders WHERE orders.id = order_items.order_id AND orders.user_id = ? AND \
         orders.status <> 'done'",
        &[Buyer],
    )
    .sqlite("DELETE FROM order_items WHERE order_id IN (SELECT id FROM orders WHERE user_id = ? AND status <> 'done')"),
    change(
        "merge of two carts",
        "INSERT INTO carts (user_id, product_id, quantity) SELECT ?, product_id, sum(quantity) FROM carts WHERE \
         user_id BETWEEN ? AND ? GROUP BY product_id ON CONFLICT (user_id, product_id) DO UPDATE SET quantity = \
         carts.quantity + excluded.quantity",
        &[User, User, More(9)],
    ),
    change(
        "order once more",
        "INSERT INTO carts (user_id, product_id, quantity) SELECT o.user_id, i.product_id, i.quantity FROM orders o \
         JOIN order_items i ON i.order_id = o.id WHERE o.id = ? ON CONFLICT (user_id, product_id) DO NOTHING",
        &[Order],
    ),
    change(
        "three counters, returned",
        "INSERT INTO counters (name, value) VALUES (?, 1), ('desk', 2), ('desk open', 3) ON CONFLICT (name) DO UPDATE \
         SET value = counters.value + excluded.value RETURNING name, value",
        &[Counter],
    ),
    change(
        "counters from groups",
        "INSERT INTO counters (name, value) SELECT 'status ' || status, count(*) FROM orders WHERE user_id = ? GROUP \
         BY status ON CONFLICT (name) DO UPDATE SET value = counters.value + excluded.value WHERE excluded.value > 0",
        &[Buyer],
    ),
    change(
        "trail of a change",
        "INSERT INTO events (id, user_id, kind, moment, payload) SELECT ?, user_id, 'audit', ?, 'order ' || CAST(id \
         AS TEXT) || CASE WHEN note IS NULL THEN '' ELSE ': ' || note END FROM orders WHERE id = ?",
        &[Fresh, Moment(0), Order],
    ),
    change(
        "lines of some products",
        "INSERT INTO order_items (order_id, line, product_id, quantity, price) SELECT ?, row_number() OVER (ORDER BY \
         p.id), p.id, 1, p.price FROM products p WHERE p.id IN (?*3)",
        &[Fresh, Times(3, &Product)],
    ),
    change(
        "order from a cart",
        "INSERT INTO orders (id, user_id, product_id, status, created, amount) SELECT ?, c.user_id, \
         min(c.product_id), 'new', ?, sum(c.quantity * p.price) FROM carts c JOIN products p ON p.id = c.product_id \
         WHERE c.user_id = (SELECT min(user_id) FROM carts WHERE user_id >= ?) GROUP BY c.user_id RETURNING id, amount",
        &[Fresh, Moment(0), User],
    ),
    change(
        "cart pairs of a user's orders",
        "DELETE FROM carts WHERE (user_id, product_id) IN (SELECT user_id, product_id FROM orders WHERE user_id = ?)",
        &[Buyer],
    ),
    change(
        "pay from the balance",
        "UPDATE users SET balance = balance - ?, score = score + 0.5 WHERE id = ? AND balance >= ? RETURNING id, \
         balance",
        &[Number(100, 50_000), User, Again(0)],
    ),
    change(
        "products without open orders",
        "DELETE FROM products WHERE category = ? AND stock < 25 AND NOT EXISTS (SELECT 1 FROM orders o WHERE \
         o.product_id = products.id AND o.status IN ('new', 'paid'))",
        &[Category],
    ),
    change(
        "orders to another account",
        "UPDATE orders SET user_id = ? WHERE user_id = ? AND status <> 'cancelled'",
        &[User, Buyer],
    ),
    change(
        "oldest events by WITH",
        "WITH old AS (SELECT id FROM events WHERE user_id = ? ORDER BY moment, id LIMIT 2) DELETE FROM events WHERE \
         id IN (SELECT id FROM old)",
        &[User],
    ),
    change(
        "numbered notes",
        "UPDATE orders SET note = 'order ' || CAST(r.n AS TEXT) FROM (SELECT id, row_number() OVER (ORDER BY created) \
         AS n FROM orders WHERE user_id = ?) AS r WHERE r.id = orders.id",
        &[Buyer],
    ),
    change(
        "score by activity",
        "UPDATE users SET score = (SELECT count(*) FROM events e WHERE e.user_id = users.id) * 0.1 + 1, age = \
         coalesce(age, 40) + 1 WHERE id BETWEEN ? AND ?",
        &[User, More(10)],
    ),
    change(
        "price of the lines of a sku",
        "UPDATE order_items SET price = p.price, quantity = quantity + 1 FROM products p, orders o WHERE p.id = \
         order_items.product_id AND o.id = order_items.order_id AND p.sku = ? AND o.status = 'new'",
        &[Sku],
    ),
    change(
        "newer name of a user",
        "INSERT INTO users (id, name, email, country, created, born, balance, score) VALUES (?, 'New Name', ?, 'DE', \
         ?, '1970-01-01', 5, 0) ON CONFLICT (email) DO UPDATE SET name = excluded.name, balance = users.balance + \
         excluded.balance WHERE users.name <> excluded.name RETURNING id, name, balance",
        &[Fresh, Email, Moment(0)],
    ),
    change(
        "balance from done orders",
        "UPDATE users SET balance = balance + t.n FROM (SELECT user_id, count(*) AS n FROM orders WHERE status = \
         'done' AND created >= ? AND created < ? GROUP BY user_id) AS t WHERE t.user_id = users.id",
        &[Moment(HOUR_S), Later(HOUR_S)],
    ),
    commit(
        "one more in a cart, committed",
        "INSERT INTO carts (user_id, product_id, quantity) VALUES (?, ?, 1) ON CONFLICT (user_id, product_id) DO \
         UPDATE SET quantity = carts.quantity + 1 WHERE carts.quantity < 99",
        &[User, Product],
    ),
    commit(
        "touch of a session, committed",
        "UPDATE users SET score = score + 0.25, city = coalesce(city, 'City 0') WHERE email = ? AND score < 1000",
        &[Email],
    ),
    commit(
        "three events, committed",
        "INSERT INTO events (id, user_id, kind, moment, payload) VALUES (?, ?, 'view', ?, '{}'), (?, ?, 'add', ?, \
         '{}'), (?, ?, 'buy', ?, '{}')",
        &[Fresh, User, Moment(0), Fresh, Again(1), Moment(0), Fresh, Again(1), Moment(0)],
    ),
    commit("emptied cart, committed", "DELETE FROM carts WHERE user_id = ? AND quantity < 5", &[User]),
];
