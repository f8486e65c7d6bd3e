//! Prepared statements, which run as programs where possible, must answer as the batch engine does.

use rowmill::{Connection, Database, Row, Value};

const TABLES: &str = "
    CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT, age INTEGER, city VARCHAR(20),
        balance DECIMAL(10, 2) NOT NULL, score DOUBLE, created TIMESTAMP NOT NULL, active BOOLEAN NOT NULL);
    CREATE UNIQUE INDEX by_email ON users (email);
    CREATE INDEX by_name ON users (name);
    CREATE INDEX by_age ON users (age);
    CREATE INDEX by_created ON users (created, id);
    CREATE INDEX by_score ON users (score DESC);
    CREATE TABLE orders (id BIGINT PRIMARY KEY, user_id INTEGER, status TEXT NOT NULL, total DECIMAL(10, 2),
        created TIMESTAMP NOT NULL, note TEXT);
    CREATE INDEX by_user ON orders (user_id, created);
    CREATE INDEX by_status ON orders (status);
    CREATE TABLE lines (order_id BIGINT, line INTEGER, product_id INTEGER NOT NULL, quantity SMALLINT NOT NULL,
        price DECIMAL(8, 2) NOT NULL, PRIMARY KEY (order_id, line));
    CREATE INDEX by_product ON lines (product_id);
    CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, weight REAL);
    CREATE TABLE posts (forum INTEGER, created TIMESTAMP, id INTEGER, body TEXT,
        PRIMARY KEY (forum, created DESC, id DESC));
    INSERT INTO users SELECT n, CASE WHEN n % 5 = 0 THEN 'Ada' ELSE 'name' || (n % 40) END,
            CASE WHEN n % 7 <> 0 THEN 'u' || n || '@x.org' END, CASE WHEN n % 11 <> 0 THEN n % 60 END,
            CASE WHEN n % 3 <> 0 THEN 'city' || (n % 4) END, n * 1.25 - 100, CASE WHEN n % 13 <> 0 THEN n / 8.0 - 3 END,
            TIMESTAMP '2024-01-01 00:00:00' + (n % 50) * INTERVAL '1 hour', n % 2 = 0
        FROM generate_series(1, 300) AS s(n);
    INSERT INTO orders SELECT n, CASE WHEN n % 17 <> 0 THEN n * 7 % 320 END,
            CASE n % 3 WHEN 0 THEN 'paid' WHEN 1 THEN 'open' ELSE 'sent' END, CASE WHEN n % 9 <> 0 THEN n * 0.75 END,
            TIMESTAMP '2024-02-01 00:00:00' + (n % 90) * INTERVAL '1 minute',
            CASE WHEN n % 4 = 0 THEN 'n_' || n || '%' END
        FROM generate_series(1, 1200) AS s(n);
    INSERT INTO lines SELECT n, l, (n * 3 + l) % 25, (n + l) % 9, n * 0.1 + l
        FROM generate_series(1, 400) AS s(n), generate_series(1, 3) AS t(l);
    INSERT INTO products SELECT n, 'product ' || n, n * 0.5 FROM generate_series(0, 24) AS s(n);
    INSERT INTO posts SELECT n % 5, TIMESTAMP '2024-03-01 00:00:00' + (n % 20) * INTERVAL '1 day', n, 'post ' || n
        FROM generate_series(1, 200) AS s(n);
";

fn filled() -> Database {
    let database = Database::memory().unwrap();
    database.connect().unwrap().execute_batch(TABLES).unwrap();
    database
}

fn shown(row: &Row) -> String {
    (0..row.len()).map(|at| format!("{:?}", row.get::<Option<String>>(at))).collect::<Vec<_>>().join(" ")
}

/// Returns the rows as text, sorted unless the statement has an order; or the error.
fn answer(connection: &mut Connection, sql: &str, params: &[Value], prepared: bool) -> Vec<String> {
    let rows = match prepared {
        true => connection.prepare(sql).and_then(|statement| statement.query(connection, params)),
        false => connection.query_with(sql, params),
    };
    match rows.and_then(|rows| rows.rows()) {
        Err(error) => vec![format!("{} {error}", error.sqlstate())],
        Ok(rows) => {
            let mut rows: Vec<String> = rows.iter().map(shown).collect();
            if !is_ordered(sql) {
                rows.sort();
            }
            rows
        }
    }
}

/// Returns the rows of a query as text, sorted, or the code of the error. The engine runs the query, because no program
/// has a condition that changes from call to call.
fn answer_of_engine(connection: &mut Connection, sql: &str, params: &[Value]) -> Vec<String> {
    let sql = format!("SELECT * FROM ({sql}) AS q WHERE random() >= 0");
    let rows = connection.query_with(&sql, params).and_then(|rows| rows.rows());
    let mut rows = match rows {
        Err(error) => vec![error.sqlstate().to_string()],
        Ok(rows) => rows.iter().map(shown).collect(),
    };
    rows.sort();
    rows
}

/// An UPDATE or DELETE with a condition that changes from call to call, so that the engine runs it.
fn change_of_engine(sql: &str) -> Option<String> {
    let mut depth = 0;
    let at = sql.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth == 0 && sql[at..].starts_with(" WHERE ")).then_some(at)
    })?;
    let (before, condition) = (&sql[..at], &sql[at + " WHERE ".len()..]);
    let is_whole = !sql.starts_with("INSERT") && !condition.contains(" RETURNING ");
    is_whole.then(|| format!("{before} WHERE random() >= 0 AND ({condition})"))
}

/// Whether a query has an ORDER BY outside of all parentheses.
fn is_ordered(sql: &str) -> bool {
    let mut depth = 0;
    let outside = sql.chars().filter(|c| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0
    });
    outside.collect::<String>().contains("ORDER BY")
}

/// Parses parameter values. For example, `i5` is a BIGINT, `tabc` a TEXT, `f1.5` a DOUBLE and `n` NULL.
fn values(text: &str) -> Vec<Value> {
    let value = |text: &str| match text.split_at(1) {
        ("i", digits) => Value::Integer(digits.parse().unwrap()),
        ("t", text) => Value::Text(text.to_owned()),
        ("f", digits) => Value::Double(digits.parse().unwrap()),
        _ => Value::Null,
    };
    text.split_whitespace().map(value).collect()
}

/// Queries, each with the parameter values to run it with.
const QUERIES: &[(&str, &[&str])] = &[
    ("SELECT 1, $1 + 1, upper($2)", &["i4 tab", "i-9223372036854775808 tß"]),
    ("SELECT * FROM users WHERE id = $1", &["i5", "i0", "f5", "f5.5", "n", "i3000000000", "t5.0"]),
    (
        "SELECT abs(age), round(balance, 1), length(name), substr(name, 2, 2), city || '!' FROM users WHERE id = $1",
        &["i5", "i11", "i12"],
    ),
    ("SELECT name FROM users WHERE id IN ($1, $2, $3, 3)", &["i9 i5 i9", "i1 n i400", "i-1 i0 i500"]),
    ("SELECT name FROM users WHERE id = $1 OR id = $2 ORDER BY id DESC", &["i5 i9", "i9 i5", "i7 i7"]),
    ("SELECT id FROM users WHERE id = $1 OR email = $2", &["i5 tu9@x.org", "i400 tu400@x.org"]),
    (
        "SELECT id FROM users WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT 5 OFFSET $3",
        &["i5 i50 i0", "i5 i50 i3", "f4.5 f9.5 i1", "i9 i1 i0"],
    ),
    ("SELECT max(id), min(id) FROM users", &[""]),
    ("SELECT max(age) FROM users", &[""]),
    ("SELECT min(age) FROM users WHERE age > $1", &["i10", "i100"]),
    ("SELECT max(score), min(score), count(*) FROM users", &[""]),
    ("SELECT max(email) FROM users WHERE name = $1", &["tAda", "tnobody"]),
    ("SELECT max(created) FROM orders WHERE user_id = $1", &["i7", "i9999", "n"]),
    ("SELECT max(total) FROM orders WHERE user_id = $1 AND status = $2", &["i7 tpaid", "i7 topen"]),
    ("SELECT count(*) FROM users", &[""]),
    ("SELECT count(*), count(age), count(DISTINCT city) FROM users WHERE age > $1", &["i10", "i58", "f30.5"]),
    ("SELECT count(*) FROM users WHERE name LIKE $1", &["tname1%", "tAd_", "t%a", "t", "tname_%", "n", "tn\\a%"]),
    ("SELECT id FROM users WHERE name LIKE 'name1%' ORDER BY name, id", &[""]),
    ("SELECT id FROM users WHERE name NOT LIKE $1 AND id < 20", &["tname1%"]),
    ("SELECT id FROM users WHERE name ILIKE $1 AND id < 50", &["taDA", "tNAME1%"]),
    (
        "SELECT id, created FROM users WHERE (created, id) < ($1, $2) ORDER BY created DESC, id DESC LIMIT 20",
        &[
            "t2024-01-01T03:33:20 i200",
            "t2024-01-01T03:00:00 i150",
            "t1970-01-01T00:00:00 i1",
            "t2024-01-01T03:00:00 n",
        ],
    ),
    (
        "SELECT id, created FROM users WHERE (created, id) >= ($1, $2) ORDER BY created, id LIMIT 20",
        &["t2024-01-01T03:00:00 i150", "t2024-01-01T03:00:00 f150.5", "t2024-01-01T03:00:00 i9000000000"],
    ),
    (
        "SELECT created, id FROM posts WHERE forum = $1 AND (created, id) < ($2, $3) ORDER BY created DESC, id DESC \
         LIMIT 7",
        &["i1 t2024-03-09T16:00:00 i100", "i2 t2024-03-09T16:00:00 i9999"],
    ),
    (
        "SELECT created, id FROM posts WHERE forum = $1 AND (created, id) > ($2, $3) ORDER BY created, id LIMIT 7",
        &["i1 t2024-03-08T00:00:00 i100", "i2 t2024-03-08T00:00:00 i1"],
    ),
    ("SELECT created, id FROM posts WHERE forum = $1 ORDER BY created DESC, id DESC LIMIT 5", &["i1", "i77"]),
    (
        "SELECT id FROM orders WHERE status = $1 AND id > $2 ORDER BY id LIMIT 10",
        &["tpaid i100", "topen i1199", "tgone i1"],
    ),
    (
        "SELECT id FROM orders WHERE user_id IN ($1, $2) AND created > $3 ORDER BY id",
        &["i7 i14 t2024-02-01T00:00:00", "i7 i7 t1970-01-01T00:00:00"],
    ),
    ("SELECT price FROM lines WHERE (order_id, line) IN ((1, 2), (3, 1), (1, 2), (9999, 1))", &[""]),
    ("SELECT price FROM lines WHERE (order_id = $1 AND line = 1) OR (order_id = $2 AND line = 3)", &["i5 i6", "i5 i5"]),
    (
        "SELECT quantity FROM lines WHERE order_id IN ($1, $2) AND line IN (1, 3) ORDER BY order_id, line",
        &["i7 i3", "i3 i3"],
    ),
    ("SELECT u.name, o.total FROM users u JOIN orders o ON o.user_id = u.id WHERE o.id = $1", &["i10", "i17", "i9999"]),
    (
        "SELECT u.name, o.id FROM orders o JOIN users u ON o.user_id = u.id WHERE u.id = $1 ORDER BY o.created DESC, \
         o.id LIMIT 3",
        &["i7", "i14"],
    ),
    (
        "SELECT u.id, o.id FROM users u LEFT JOIN orders o ON o.user_id = u.id AND o.status = 'paid' WHERE u.id \
         BETWEEN $1 AND $2",
        &["i1 i9", "i290 i310"],
    ),
    (
        "SELECT u.id, o.id FROM users u LEFT JOIN orders o ON o.user_id = u.id WHERE u.id < $1 AND o.id IS NULL",
        &["i30", "i2"],
    ),
    (
        "SELECT p.name, l.quantity * l.price FROM lines l JOIN products p ON p.id = l.product_id JOIN orders o ON \
         o.id = l.order_id WHERE o.user_id = $1 ORDER BY 1, 2",
        &["i7", "i21"],
    ),
    (
        "SELECT u.name, (SELECT count(*) FROM orders o WHERE o.user_id = u.id) FROM users u WHERE u.id < $1",
        &["i12", "i1"],
    ),
    (
        "SELECT u.id, (SELECT sum(total) FROM orders o WHERE o.user_id = u.id) AS s FROM users u WHERE u.id < $1 \
         ORDER BY s DESC, 1",
        &["i12"],
    ),
    (
        "SELECT u.id, (SELECT max(o.created) FROM orders o WHERE o.user_id = u.id AND o.status = 'paid') FROM users u \
         WHERE u.id < $1",
        &["i12"],
    ),
    (
        "SELECT u.id, (SELECT o.id FROM orders o WHERE o.user_id = u.id ORDER BY o.created DESC, o.id LIMIT 1) FROM \
         users u WHERE u.id < $1 ORDER BY 1",
        &["i12"],
    ),
    ("SELECT o.id, (SELECT name FROM users u WHERE u.id = o.user_id) FROM orders o WHERE o.id < $1", &["i20"]),
    ("SELECT o.id, (SELECT name FROM users u WHERE u.age = o.user_id) FROM orders o WHERE o.id = $1", &["i5", "i60"]),
    (
        "SELECT id FROM users u WHERE u.id < $1 AND EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id AND o.total \
         > 400)",
        &["i100"],
    ),
    (
        "SELECT id FROM users u WHERE u.id < $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id)",
        &["i100"],
    ),
    (
        "SELECT id, EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id AND o.total > 400) FROM users u WHERE u.id \
         < $1",
        &["i20"],
    ),
    ("SELECT name FROM users WHERE id IN (SELECT user_id FROM orders WHERE id < $1)", &["i20", "i1"]),
    ("SELECT id FROM users WHERE id NOT IN (SELECT user_id FROM orders WHERE id < $1) AND id < 10", &["i5", "i20"]),
    ("SELECT id, id IN (SELECT user_id FROM orders WHERE id < $1) FROM users WHERE id < 10", &["i5", "i20"]),
    ("SELECT name FROM users WHERE id = (SELECT max(user_id) FROM orders WHERE status = $1)", &["tpaid", "tgone"]),
    ("SELECT id FROM users WHERE age IN (SELECT max(age) FROM users WHERE id < $1)", &["i5", "i0"]),
    (
        "SELECT status, count(*), sum(total), avg(total), min(note), max(created) FROM orders WHERE user_id = $1 \
         GROUP BY status",
        &["i7", "i14", "i9999"],
    ),
    (
        "SELECT status, count(*) AS n FROM orders WHERE user_id < $1 GROUP BY status HAVING count(*) > 2 ORDER BY n \
         DESC, status LIMIT 2 OFFSET 1",
        &["i40", "i2"],
    ),
    (
        "SELECT city, active, count(*) FROM users WHERE id < $1 GROUP BY city, active ORDER BY city NULLS FIRST, \
         active",
        &["i50"],
    ),
    ("SELECT DISTINCT city FROM users WHERE id < $1 ORDER BY city DESC", &["i50"]),
    (
        "SELECT count(*) FILTER (WHERE status = 'paid'), sum(total) FILTER (WHERE total > 100) FROM orders WHERE \
         user_id = $1",
        &["i7", "i9999"],
    ),
    (
        "SELECT u.city, count(*), sum(o.total) FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id BETWEEN $1 \
         AND $2 GROUP BY u.city",
        &["i1 i30"],
    ),
    (
        "SELECT u.id, u.name, count(o.id) FROM users u LEFT JOIN orders o ON o.user_id = u.id WHERE u.id BETWEEN $1 \
         AND $2 GROUP BY u.id, u.name ORDER BY u.id",
        &["i1 i30"],
    ),
    (
        "SELECT s.status, s.n FROM (SELECT status, count(*) AS n FROM orders WHERE user_id = $1 GROUP BY status) s \
         WHERE s.n > 1",
        &["i7"],
    ),
    ("SELECT avg(balance), sum(balance) / count(*), sum(score), avg(score) FROM users WHERE id < $1", &["i9", "i0"]),
    ("SELECT EXISTS (SELECT 1 FROM users WHERE email = $1)", &["tu1@x.org", "tnone"]),
    ("SELECT (SELECT count(*) FROM users WHERE id < $1), (SELECT max(id) FROM orders)", &["i9"]),
    ("SELECT id FROM users WHERE id < $1 AND (SELECT count(*) FROM orders o WHERE o.user_id = users.id) > 3", &["i50"]),
    (
        "SELECT id, created FROM users WHERE created >= $1 AND created < $2 ORDER BY created, id",
        &["t2024-01-01T03:00:00 t2024-01-01T06:00:00"],
    ),
    ("SELECT id, score FROM users WHERE score > $1 ORDER BY score DESC LIMIT 4", &["f1.5", "i30", "fNaN", "f-inf"]),
    ("SELECT id, score FROM users WHERE score = $1", &["f1.5", "i2", "t1.5"]),
    ("SELECT * FROM users ORDER BY id DESC LIMIT 3", &[""]),
    ("SELECT id FROM users WHERE city = $1 ORDER BY id LIMIT 3", &["tcity1", "tnone"]),
    (
        "SELECT id, coalesce(email, 'none'), nullif(age, 5), greatest(age, 18), CASE WHEN age > 18 THEN 'adult' WHEN \
         age IS NULL THEN '?' ELSE 'minor' END FROM users WHERE id < $1",
        &["i15"],
    ),
    (
        "SELECT extract(year FROM created), date_trunc('month', created), to_char(created, '%Y'), created + INTERVAL \
         '1 day' FROM users WHERE id = $1",
        &["i5"],
    ),
    (
        "SELECT CAST(score AS INTEGER), CAST(balance AS DOUBLE), CAST(score AS DECIMAL(9, 1)), CAST(id AS TEXT), \
         CAST(created AS DATE) FROM users WHERE id < $1",
        &["i30"],
    ),
    ("SELECT id FROM users WHERE 10 / (age - 5) > 1 AND id = $1", &["i6", "i5"]),
    ("SELECT id FROM users WHERE age IS NOT DISTINCT FROM $1 AND id < 100", &["i5", "n"]),
    ("SELECT id FROM users WHERE active AND id < $1", &["i9"]),
    (
        "SELECT name, regexp_replace(name, 'a', 'b'), md5(name), age * 2 + $2 FROM users WHERE id = $1",
        &["i5 i1", "i5 f1.5", "i5 t1.5"],
    ),
    (
        "SELECT o.id FROM orders o, lines l WHERE o.id = l.order_id AND l.product_id = $1 AND o.status = 'paid' ORDER \
         BY o.id LIMIT 5",
        &["i5"],
    ),
    ("SELECT a.id, b.id FROM users a JOIN users b ON a.age = b.age AND a.id <> b.id WHERE a.id = $1", &["i5", "i11"]),
    ("WITH o AS (SELECT * FROM orders WHERE user_id = $1) SELECT count(*), sum(total) FROM o", &["i7"]),
    ("SELECT id FROM orders WHERE user_id = $1 UNION ALL SELECT id FROM users WHERE id = $1", &["i7"]),
    ("SELECT id, row_number() OVER (ORDER BY created, id) FROM orders WHERE user_id = $1 ORDER BY 2", &["i7"]),
    // Several plans, one after the other.
    (
        "SELECT id, name FROM users WHERE id = $1 UNION ALL SELECT id, name FROM users WHERE id = $2",
        &["i5 i9", "i5 i5", "n i9"],
    ),
    (
        "SELECT city FROM users WHERE id < $1 UNION ALL SELECT name FROM users WHERE id = $2 ORDER BY 1 LIMIT 4",
        &["i9 i5"],
    ),
    ("SELECT user_id FROM orders WHERE id < $1 UNION SELECT id FROM users WHERE id < $2", &["i20 i9"]),
    (
        "SELECT product_id FROM lines WHERE order_id = $1 EXCEPT SELECT product_id FROM lines WHERE order_id = $2",
        &["i7 i8", "i7 i7"],
    ),
    (
        "SELECT user_id FROM orders WHERE id < $1 INTERSECT SELECT user_id FROM orders WHERE id > $2",
        &["i200 i900", "i20 i1190"],
    ),
    ("SELECT user_id FROM orders WHERE id < $1 EXCEPT ALL SELECT user_id FROM orders WHERE id > $2", &["i200 i900"]),
    ("SELECT a + $1, b FROM (VALUES (1, 'x'), (2, NULL), ($1, 'z')) AS v(a, b) WHERE a > 1", &["i5", "i0"]),
    ("SELECT u.name FROM (VALUES ($1), (9), ($1)) AS v(n) JOIN users u ON u.id = v.n", &["i5"]),
    // Each part of an OR should be read by a key of its own.
    (
        "SELECT id FROM users WHERE (id = $1 OR email = $2 OR name = $3) AND active ORDER BY id",
        &["i6 tu8@x.org tAda", "n n tAda"],
    ),
    ("SELECT o.id FROM orders o JOIN users u ON u.id = o.user_id WHERE o.id = $1 OR u.email = $2", &["i7 tu8@x.org"]),
    (
        "SELECT id, created FROM users WHERE created < $1 OR (created = $2 AND id < $3) ORDER BY created DESC, id \
         DESC LIMIT 7 OFFSET 2",
        &["t2024-01-01T03:00:00 t2024-01-01T03:00:00 i150", "t2024-01-01T03:00:00 t2024-01-01T05:00:00 i150"],
    ),
    (
        "SELECT id FROM users WHERE created > '2024-01-01 03:00:00' OR (created = '2024-01-01 03:00:00' AND id >= $1) \
         ORDER BY created, id LIMIT 5",
        &["i150", "i1", "n"],
    ),
    // A count needs only the primary keys of the rows, each once.
    ("SELECT count(*) FROM orders WHERE user_id = $1 OR status = $2", &["i7 topen", "i9999 tpaid", "n tsent", "n n"]),
    (
        "SELECT count(*), count(*) + 1 FROM orders WHERE (user_id = $1 OR user_id < $2 OR id IN ($3, 5)) AND id > 3",
        &["i7 i20 i9", "i7 n i7"],
    ),
    ("SELECT count(*) FROM lines WHERE product_id = $1 OR order_id = $2 AND line > 1", &["i7 i9", "i99 i99"]),
    ("SELECT count(*) FROM users WHERE (age = $1 OR name = $2) AND city IS NULL", &["i20 tAda", "n tnobody"]),
    ("SELECT count(*) FROM users WHERE (age = $1 OR score > $2) AND id % 2 = 0", &["i20 f20", "i20 n"]),
    // Rows that are dropped by conditions on their key, or on other columns.
    ("SELECT id, name FROM users WHERE id % $1 = 3 ORDER BY id LIMIT 5", &["i7", "i0", "n", "i-7", "i9000000000"]),
    ("SELECT id, city FROM users WHERE age * 2 > $1 AND id / 3 = 7 ORDER BY id LIMIT 5", &["i20", "n"]),
    ("SELECT id, note FROM orders WHERE note LIKE '%9%' ORDER BY id DESC LIMIT 7 OFFSET 1", &[""]),
    ("SELECT line, price FROM lines WHERE order_id BETWEEN $1 AND 30 AND quantity % 3 = line - 1", &["i9", "i31"]),
    ("SELECT forum, id, body FROM posts WHERE forum = $1 AND id % 3 = 0 ORDER BY created DESC, id DESC", &["i2"]),
    (
        "SELECT user_id, created FROM orders WHERE user_id = $1 AND created > $2 AND id % 2 = 1",
        &["i7 t2024-02-01T00:10:00"],
    ),
    ("SELECT note FROM orders WHERE user_id < $1 AND id % 5 = 1 AND status = 'paid'", &["i40"]),
    // Orders by columns of an index or of the primary key, for a page of the rows that another column selects.
    (
        "SELECT id, note FROM orders WHERE status IN ($1, $2) ORDER BY id DESC LIMIT 5 OFFSET 3",
        &["tpaid topen", "n tx"],
    ),
    (
        "SELECT id, status, note FROM orders WHERE user_id IN ($1, $2, $1) ORDER BY created DESC, id LIMIT 4",
        &["i7 i14"],
    ),
    ("SELECT * FROM orders WHERE status = $1 AND id % 7 = 2 ORDER BY id % 10, id LIMIT 6", &["tpaid", "n"]),
    ("SELECT id, city FROM users WHERE name LIKE $1 ORDER BY id DESC LIMIT 5", &["tname1%", "tname_", "t%", "n"]),
    ("SELECT u.city FROM users u WHERE u.age = $1 OR u.age = $2 ORDER BY u.id LIMIT $3", &["i3 i5 i4", "i3 i3 i0"]),
    (
        "SELECT id, (SELECT o.note FROM orders o WHERE o.user_id = users.id ORDER BY o.id DESC LIMIT 1) FROM users \
         WHERE id < $1",
        &["i30"],
    ),
    // Both ends of each group.
    ("SELECT order_id, min(line), max(line), count(*) FROM lines WHERE order_id < $1 GROUP BY order_id", &["i9", "n"]),
    ("SELECT order_id, max(line), min(line) FROM lines WHERE order_id = $1 AND line < 3 GROUP BY 1", &["i9", "i999"]),
    (
        "SELECT order_id, max(line) - min(line) FROM lines WHERE order_id IN ($1, $2) GROUP BY order_id HAVING \
         max(line) > min(line)",
        &["i9 i7", "i7 i7"],
    ),
    ("SELECT product_id, min(order_id), max(order_id) FROM lines GROUP BY product_id ORDER BY 1 DESC LIMIT 4", &[""]),
    ("SELECT forum, min(created), max(created), count(*) FROM posts GROUP BY forum", &[""]),
    ("SELECT age, min(id), max(id) FROM users WHERE age > $1 GROUP BY age ORDER BY age", &["i40", "n"]),
    ("SELECT status, min(id), max(id) FROM orders GROUP BY status", &[""]),
    // Joined texts.
    ("SELECT string_agg(note, ',') FROM orders WHERE user_id = $1 AND id < 300", &["i4", "i9999", "n"]),
    (
        "SELECT status, string_agg(note, '; ' ORDER BY id DESC), string_agg(status, '' ORDER BY total NULLS FIRST, id) \
         FILTER (WHERE id > 100) FROM orders WHERE user_id < $1 GROUP BY status ORDER BY status",
        &["i20", "i-1"],
    ),
    ("SELECT string_agg(upper(name), NULL ORDER BY name DESC, id) || '.' FROM users WHERE id < $1", &["i12", "i1"]),
    ("SELECT string_agg(DISTINCT name, ',' ORDER BY name) FROM users WHERE id < $1", &["i30"]),
    // An order by a text that is computed, with more rows than the first cut keeps.
    ("SELECT id, name FROM users WHERE id < $1 ORDER BY lower(name), upper(email), id LIMIT 5", &["i200", "i5"]),
    // One row for each group, by a key that has its columns first.
    ("SELECT DISTINCT age FROM users", &[""]),
    ("SELECT age, count(*) FROM users GROUP BY age ORDER BY age DESC LIMIT 5 OFFSET 1", &[""]),
    ("SELECT age, count(*) FROM users WHERE age > $1 GROUP BY age ORDER BY age NULLS FIRST", &["i10", "f20.5", "n"]),
    ("SELECT status, count(*) FROM orders GROUP BY status HAVING count(*) > $1 ORDER BY 2 DESC, 1", &["i5", "i400"]),
    ("SELECT status, min(id), count(*) FROM orders WHERE status IN ($1, $2) GROUP BY status", &["tpaid topen", "n tx"]),
    ("SELECT status, max(id) FROM orders WHERE status >= $1 GROUP BY status ORDER BY status", &["tp", "tz"]),
    ("SELECT user_id, max(created) FROM orders GROUP BY user_id ORDER BY user_id LIMIT 9", &[""]),
    ("SELECT user_id, min(created), max(created) FROM orders WHERE user_id < $1 GROUP BY user_id", &["i30", "n"]),
    ("SELECT user_id, count(*) FROM orders WHERE user_id = $1 GROUP BY user_id", &["i7", "i9999", "n"]),
    (
        "SELECT user_id, count(*) FROM orders WHERE user_id = $1 AND created > $2 GROUP BY user_id",
        &["i7 t2024-02-01T00:30:00", "i7 t2025-01-01T00:00:00"],
    ),
    ("SELECT order_id, count(*), max(line) FROM lines WHERE order_id > $1 GROUP BY order_id", &["i390", "i400"]),
    ("SELECT forum, max(created) FROM posts GROUP BY forum ORDER BY forum DESC", &[""]),
    ("SELECT forum, min(created) FROM posts GROUP BY forum", &[""]),
    ("SELECT forum, created, count(*) FROM posts WHERE forum < $1 GROUP BY forum, created", &["i2"]),
    ("SELECT score, count(*) FROM users GROUP BY score ORDER BY score DESC NULLS LAST LIMIT 3", &[""]),
    ("SELECT count(DISTINCT age), count(DISTINCT age) + 1 FROM users WHERE age < $1", &["i20", "n"]),
    ("SELECT count(DISTINCT status) FROM orders", &[""]),
    ("SELECT count(DISTINCT user_id) FROM orders HAVING count(DISTINCT user_id) > $1", &["i5", "i5000"]),
    ("SELECT max(user_id), min(user_id), count(*) FROM orders WHERE user_id > $1", &["i5", "i5000"]),
    ("SELECT max(created), min(created) FROM orders WHERE user_id = $1", &["i7", "i5000", "n"]),
    (
        "SELECT o.id FROM orders o WHERE o.user_id IN ($1, $2) AND o.created = (SELECT max(x.created) FROM orders x \
         WHERE x.user_id = o.user_id)",
        &["i7 i14", "i7 n"],
    ),
    ("SELECT id FROM users WHERE age IN (SELECT DISTINCT age FROM users WHERE age > $1) AND id < 100", &["i50"]),
    // The order and the conditions have different keys.
    (
        "SELECT id, created FROM users WHERE age IN ($1, $2) ORDER BY created DESC, id LIMIT $3 OFFSET $4",
        &["i5 i9 i3 i1", "i5 n i3 i0", "i70 i71 i3 i0", "i5 i9 n n"],
    ),
    (
        "SELECT id, total FROM orders WHERE status = $1 AND total > $2 ORDER BY user_id, created, id LIMIT 7",
        &["tpaid i10", "tgone i1"],
    ),
    ("SELECT id FROM users WHERE name = $1 ORDER BY score DESC NULLS LAST, id LIMIT 4", &["tAda", "tname7", "tnone"]),
    ("SELECT id FROM users WHERE name LIKE $1 ORDER BY created, id LIMIT 4 OFFSET 2", &["tname1%", "tA%", "t%"]),
    (
        "SELECT id FROM users u WHERE id < 40 AND (SELECT o.id FROM orders o WHERE o.status = u.name \
         ORDER BY o.user_id LIMIT 1) IS NULL",
        &[""],
    ),
    // Windows.
    (
        "SELECT id, sum(total) OVER (ORDER BY created), count(*) OVER (), avg(total) OVER (ORDER BY created, id ROWS \
         BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM orders WHERE user_id = $1",
        &["i7", "i9999", "i14"],
    ),
    (
        "SELECT id, rank() OVER w, dense_rank() OVER w, lag(total, 2, 0) OVER v, lead(id) OVER v FROM orders WHERE \
         user_id < $1 WINDOW w AS (PARTITION BY status ORDER BY total DESC NULLS LAST), v AS (PARTITION BY status \
         ORDER BY total DESC NULLS LAST, id)",
        &["i9"],
    ),
    (
        "SELECT user_id, id FROM (SELECT user_id, id, row_number() OVER (PARTITION BY user_id ORDER BY created DESC, \
         id) AS n FROM orders WHERE user_id IN ($1, $2)) AS s WHERE n <= 2",
        &["i7 i14", "i7 n"],
    ),
    (
        "SELECT id, max(total) FILTER (WHERE status = 'paid') OVER (PARTITION BY user_id ORDER BY id ROWS 3 \
         PRECEDING) FROM orders WHERE user_id BETWEEN $1 AND $2",
        &["i1 i20"],
    ),
    (
        "SELECT id, ntile(3) OVER (ORDER BY id), percent_rank() OVER (ORDER BY id) FROM orders WHERE user_id = $1",
        &["i7"],
    ),
    // Frames by groups of peers and by distances, and rows that are left out of them.
    (
        "SELECT id, sum(total) OVER (ORDER BY status GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW), count(*) OVER (ORDER \
         BY status GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING), count(*) OVER (ORDER BY status DESC GROUPS 5 \
         PRECEDING) FROM orders WHERE user_id < $1",
        &["i9", "i-1"],
    ),
    (
        "SELECT id, count(*) OVER (ORDER BY created RANGE BETWEEN INTERVAL '30 minutes' PRECEDING AND CURRENT ROW), \
         min(id) OVER (ORDER BY created DESC RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND INTERVAL '10 minutes' \
         PRECEDING), sum(total) OVER (PARTITION BY status ORDER BY created RANGE BETWEEN CURRENT ROW AND INTERVAL '1 \
         day 00:05:00' FOLLOWING) FROM orders WHERE user_id < $1",
        &["i9"],
    ),
    (
        "SELECT id, count(*) OVER (ORDER BY age RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING), sum(id) OVER (ORDER BY age \
         DESC NULLS LAST RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), count(*) OVER (ORDER BY age NULLS FIRST \
         RANGE BETWEEN UNBOUNDED PRECEDING AND 0 FOLLOWING), count(*) OVER (ORDER BY balance RANGE BETWEEN 2.50 \
         PRECEDING AND 1.25 PRECEDING) FROM users WHERE id < $1",
        &["i60", "i2"],
    ),
    (
        "SELECT id, max(total) OVER (ORDER BY created, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING \
         EXCLUDE CURRENT ROW), count(*) OVER (ORDER BY status RANGE UNBOUNDED PRECEDING EXCLUDE GROUP), count(total) \
         OVER (ORDER BY status GROUPS 1 PRECEDING EXCLUDE TIES) FROM orders WHERE user_id < $1",
        &["i9"],
    ),
    (
        "SELECT id, first_value(total) OVER w, last_value(total) OVER w, nth_value(id, 2) OVER w, first_value(id) OVER \
         (ORDER BY created, id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING), last_value(id) OVER (ORDER BY created, id \
         ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW), nth_value(note, 3) OVER (PARTITION BY status \
         ORDER BY id) FROM orders WHERE user_id < $1 WINDOW w AS (ORDER BY created, id ROWS BETWEEN UNBOUNDED \
         PRECEDING AND UNBOUNDED FOLLOWING)",
        &["i9"],
    ),
    // Functions of one row, in conditions, keys and results.
    (
        "SELECT count(*), min(id) FROM orders WHERE user_id < $1 AND created + INTERVAL '1 hour 10 minutes' > \
         TIMESTAMP '2024-02-01 01:30:00' AND created - INTERVAL '1 month' < $2 AND extract(hour FROM created) < 2",
        &["i9 t2024-01-01T01:00:00", "i9 n"],
    ),
    (
        "SELECT extract(minute FROM created), date_trunc('hour', created), floor(score), year(created), count(*) FROM \
         users WHERE id < $1 GROUP BY 1, 2, 3, 4",
        &["i70"],
    ),
    ("SELECT id, round(score), date_part('dow', created + INTERVAL '3 days') FROM users WHERE id < $1", &["i30"]),
    // A subquery of one row gives a bound of a key.
    (
        "SELECT id, created FROM orders WHERE (created, id) < (SELECT created, id FROM orders WHERE id = $1) ORDER BY \
         created DESC, id DESC LIMIT 3",
        &["i700", "i1", "i99999"],
    ),
    (
        "SELECT id FROM users WHERE created > (SELECT created FROM users WHERE id = $1) ORDER BY created, id LIMIT 4",
        &["i17", "i9999", "n"],
    ),
    (
        "SELECT id FROM users WHERE age = (SELECT age FROM users WHERE email = $1) ORDER BY id",
        &["tu8@x.org", "tnone", "tu11@x.org"],
    ),
    (
        "SELECT id FROM orders WHERE user_id = $1 AND created >= (SELECT created FROM orders WHERE user_id = $1 ORDER \
         BY created DESC LIMIT 1)",
        &["i7", "i9999"],
    ),
    (
        "SELECT count(*) FROM users WHERE age < (SELECT max(age) FROM users WHERE id < $1) AND age > (SELECT age FROM \
         users WHERE id = $2)",
        &["i30 i5", "i0 i5", "i30 i11"],
    ),
    // A page in an order that no part of an OR has, if few or many rows match.
    (
        "SELECT id, status FROM orders WHERE user_id = $1 OR (status = $2 AND total < 20) ORDER BY id LIMIT 5",
        &["i7 tpaid", "i7 tnone", "i9999 tnone"],
    ),
    (
        "SELECT id, total FROM orders WHERE user_id = $1 OR user_id = $2 AND note IS NULL ORDER BY id DESC LIMIT 3 \
         OFFSET 2",
        &["i7 i14", "i9999 i14"],
    ),
    // A key of the other table of a join, and one that gives a part of the order.
    (
        "SELECT o.id, u.name FROM orders o JOIN users u ON u.id = o.user_id WHERE o.status = 'paid' AND u.name = $1 \
         ORDER BY o.user_id, o.id DESC LIMIT 6 OFFSET 1",
        &["tAda", "tname7", "tnone"],
    ),
    (
        "SELECT user_id FROM orders WHERE status = $1 INTERSECT SELECT user_id FROM orders WHERE total > 700 ORDER BY 1",
        &["tpaid", "topen"],
    ),
    (
        "SELECT o.id FROM orders o WHERE o.user_id < 9 AND EXISTS (SELECT 1 FROM lines l JOIN products p ON p.id = \
         l.product_id WHERE l.line = 2 AND p.weight > 5 AND l.order_id IS NOT DISTINCT FROM o.user_id)",
        &[""],
    ),
    // Recursive queries.
    (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) SELECT sum(i), count(*) FROM n",
        &["i10", "i1", "i2500"],
    ),
    ("WITH RECURSIVE n(i) AS (SELECT $1 UNION SELECT i * 2 % 100 FROM n) SELECT i FROM n", &["i3"]),
    (
        "WITH RECURSIVE chain(id, depth) AS (SELECT id, 0 FROM users WHERE id = $1 UNION ALL SELECT u.id, c.depth + 1 \
         FROM chain c JOIN users u ON u.id = c.id * 2) SELECT id, depth FROM chain ORDER BY depth",
        &["i3", "i400"],
    ),
    // A subquery that names no outer row must be read only once.
    (
        "SELECT id FROM users WHERE id < $1 AND id NOT IN (SELECT user_id FROM orders WHERE status = 'paid' AND \
         user_id IS NOT NULL AND id < $2)",
        &["i40 i300"],
    ),
    (
        "SELECT id FROM users WHERE id < $1 AND id NOT IN (SELECT user_id FROM orders WHERE id < $2)",
        &["i40 i30", "i40 i16"],
    ),
    (
        "SELECT id, (SELECT count(*) FROM orders WHERE user_id = users.id) FROM users WHERE id < $1 ORDER BY id \
         OFFSET $2",
        &["i40 i30", "i40 i90"],
    ),
    ("SELECT id FROM orders WHERE status = $1 ORDER BY id OFFSET $2", &["tpaid i390", "topen i1000"]),
    ("SELECT count(*) FROM orders WHERE status = $1", &["tpaid", "tnone", "n"]),
    ("SELECT count(*) FROM lines WHERE order_id BETWEEN $1 AND $2", &["i5 i300", "i9 i1"]),
    ("SELECT count(*) FROM users WHERE name LIKE 'name1%'", &[""]),
    ("SELECT id FROM users WHERE name = $1 AND age > $2 LIMIT $3", &["tAda i10 i0", "tAda i70 i5"]),
    // Scans that test many rows at once.
    ("SELECT id FROM orders WHERE id % 137 = $1 ORDER BY id LIMIT 4", &["i7", "i136", "n", "i500"]),
    ("SELECT id, note FROM orders WHERE note LIKE $1 ORDER BY id LIMIT 30", &["t%11%", "tn\\_4%", "t%", "n"]),
    (
        "SELECT id FROM orders WHERE lower(status) = $1 AND coalesce(total, 0) > $2 ORDER BY id DESC LIMIT 40",
        &["tpaid i700", "tsent i899", "tPAID i1"],
    ),
    (
        "SELECT id FROM orders WHERE CASE WHEN total IS NULL THEN id % 2 = 0 ELSE total = $1 END ORDER BY id LIMIT 9",
        &["f1.5", "i600", "n"],
    ),
    ("SELECT id FROM orders WHERE 1000 / (id - $1) = $2 ORDER BY id LIMIT 2", &["i5 i5", "i1300 i-1", "i800 i-5"]),
    ("SELECT id FROM orders WHERE NOT (status IN ('paid', $1) OR user_id > $2) ORDER BY id LIMIT 5", &["topen i9"]),
    ("SELECT count(*) FROM orders WHERE created > $1 AND note IS NOT NULL", &["t2024-02-01T00:59:00"]),
    // The first rows of an order, with a condition on another table.
    (
        "SELECT o.id, u.id FROM orders o JOIN users u ON u.id = o.user_id WHERE u.name = $1 ORDER BY o.id DESC LIMIT 5",
        &["tAda", "tname7", "tnone"],
    ),
    (
        "SELECT o.id FROM orders o JOIN users u ON u.id = o.user_id WHERE u.age = $1 AND u.active ORDER BY o.id \
         LIMIT 7 OFFSET $2",
        &["i4 i0", "i20 i3", "i8 i90"],
    ),
    (
        "SELECT o.id FROM orders o WHERE o.user_id IN (SELECT id FROM users WHERE name = $1) ORDER BY o.id DESC \
         LIMIT 9",
        &["tAda", "tname12"],
    ),
    (
        "SELECT u.id, u.created, o.id FROM users u JOIN orders o ON o.user_id = u.id WHERE o.status = $1 ORDER BY \
         u.created, u.id, o.id LIMIT 12",
        &["tpaid", "tgone"],
    ),
    // Subqueries that compare an outer column by anything but equality.
    (
        "SELECT u.id, (SELECT count(*) FROM orders o WHERE o.user_id = u.id AND o.created > u.created + INTERVAL '31 \
         days') FROM users u WHERE u.id < $1",
        &["i30"],
    ),
    (
        "SELECT u.id, (SELECT count(*) FROM orders o WHERE o.user_id > u.age), (SELECT min(total) FROM orders o WHERE \
         o.user_id > u.age) FROM users u WHERE u.id < $1",
        &["i30"],
    ),
    ("SELECT p.id, (SELECT min(x.id) FROM orders x WHERE x.id > p.id) FROM orders p WHERE p.id = $1", &["i7", "i1200"]),
    (
        "SELECT p.id, (SELECT max(x.total) FROM orders x WHERE x.user_id = p.user_id AND x.id < p.id), (SELECT \
         min(x.total) FROM orders x WHERE x.user_id = p.user_id AND x.id <> p.id) FROM orders p WHERE p.id < $1",
        &["i90"],
    ),
    (
        "SELECT u.id, (SELECT max(o.created) FROM orders o WHERE o.user_id = u.id), (SELECT max(o.total) FROM orders \
         o WHERE o.user_id = u.id AND o.status = u.city) FROM users u WHERE u.id < $1",
        &["i40"],
    ),
    (
        "SELECT e.id, (SELECT x.total FROM orders x WHERE x.user_id = e.user_id AND (x.created, x.id) > (e.created, \
         e.id) ORDER BY x.created, x.id LIMIT 1), (SELECT x.id FROM orders x WHERE x.user_id = e.user_id AND \
         (x.created, x.id) < (e.created, e.id) ORDER BY x.created DESC, x.id DESC LIMIT 1) FROM orders e WHERE \
         e.user_id = $1",
        &["i7", "i9999", "n"],
    ),
    (
        "SELECT e.id, (SELECT sum(x.total) FROM orders x WHERE x.user_id = e.user_id AND x.id <= e.id) FROM orders e \
         WHERE e.id < $1",
        &["i60"],
    ),
    (
        "SELECT u.id, (SELECT o.total FROM orders o WHERE o.user_id = u.id ORDER BY o.created DESC, o.id LIMIT 1), \
         (SELECT o.status FROM orders o WHERE o.user_id = u.id ORDER BY o.created DESC, o.id LIMIT 1) FROM users u \
         WHERE u.id < $1",
        &["i40"],
    ),
    (
        "SELECT u.id, q.n, q.t FROM users u CROSS JOIN LATERAL (SELECT count(*) AS n, sum(total) AS t FROM orders o \
         WHERE o.user_id = u.id AND o.id > u.age) AS q WHERE u.id < $1",
        &["i40"],
    ),
    (
        "SELECT u.id, q.id FROM users u LEFT JOIN LATERAL (SELECT o.id FROM orders o WHERE o.user_id = u.id AND o.id \
         > u.age ORDER BY o.id LIMIT 2) AS q ON true WHERE u.id < $1",
        &["i40"],
    ),
    (
        "SELECT u.id FROM users u WHERE u.id < $1 AND (SELECT count(*) FROM orders o WHERE o.user_id = u.id AND \
         o.total > u.balance) > 1",
        &["i60"],
    ),
    (
        "SELECT o.id FROM orders o WHERE o.user_id < $1 AND o.id = (SELECT max(x.id) FROM orders x WHERE x.user_id = \
         o.user_id AND x.status = o.status)",
        &["i40"],
    ),
    (
        "SELECT u.id, q.n FROM users u JOIN orders o ON o.id = u.id LEFT JOIN LATERAL (SELECT count(*) AS n FROM lines \
         l WHERE l.order_id > u.age AND u.age = o.user_id) AS q ON q.n > 0 OR u.age IS NULL WHERE u.id < $1",
        &["i60"],
    ),
    // Patterns that are made of other texts.
    ("SELECT id FROM users WHERE name LIKE $1 || '%' ORDER BY name, id", &["tname1", "tAd_", "t", "n"]),
    ("SELECT id FROM orders WHERE note LIKE '%' || $1 || '%' ORDER BY id LIMIT 9", &["t11", "t_"]),
    ("SELECT count(*) FROM users WHERE name LIKE lower($1) || '%'", &["tNAME1", "tnone"]),
    (
        "SELECT u.id FROM users u WHERE u.id < $1 AND EXISTS (SELECT 1 FROM users x WHERE x.email LIKE 'u' || u.id || \
         '%' AND x.id <> u.id)",
        &["i30"],
    ),
    // NULL as a value of a key.
    ("SELECT id FROM users WHERE email IS NULL", &[""]),
    ("SELECT count(*) FROM users WHERE age IS NULL", &[""]),
    ("SELECT id FROM users WHERE age IS NULL AND id > $1 ORDER BY id DESC LIMIT 3", &["i9", "i290"]),
    ("SELECT id FROM users WHERE age IS NOT DISTINCT FROM $1", &["i7", "n"]),
    ("SELECT id FROM orders WHERE user_id IS NULL AND created > $1", &["t2024-02-01T00:50:00"]),
    ("SELECT min(created), max(created) FROM orders WHERE user_id IS NULL", &[""]),
    ("SELECT u.id, o.id FROM users u JOIN orders o ON o.user_id IS NOT DISTINCT FROM u.age WHERE u.id < $1", &["i30"]),
    // Orders that no key gives, or that a key gives in part.
    ("SELECT id, age FROM users ORDER BY age DESC NULLS LAST, id DESC LIMIT 5", &[""]),
    ("SELECT id, age FROM users ORDER BY age NULLS FIRST, id LIMIT 40", &[""]),
    (
        "SELECT id, age FROM users WHERE active ORDER BY age DESC NULLS LAST, id LIMIT $1 OFFSET $2",
        &["i9 i0", "i60 i90"],
    ),
    ("SELECT id, age, name FROM users ORDER BY age, name, id LIMIT 30 OFFSET $1", &["i0", "i5", "i290"]),
    ("SELECT id, age FROM users WHERE age > $1 ORDER BY age DESC, balance LIMIT 7", &["i10", "i58", "i99"]),
    ("SELECT id, created FROM users ORDER BY created, balance DESC LIMIT 20", &[""]),
    (
        "SELECT o.id, o.created, o.total FROM orders o WHERE o.user_id = $1 ORDER BY o.created DESC, o.total, o.id \
         LIMIT 3",
        &["i7", "i14"],
    ),
    (
        "SELECT l.order_id, p.name, l.line FROM lines l JOIN products p ON p.id = l.product_id WHERE l.order_id > $1 \
         ORDER BY l.order_id, p.name, l.line LIMIT 11",
        &["i5", "i398", "i900"],
    ),
];

/// Changes that leave recent rows among those of a checkpoint.
const RECENT: &str = "
    UPDATE users SET balance = balance + 1 WHERE id % 7 = 3;
    UPDATE orders SET note = 'n_11', total = 600 WHERE id % 11 = 5;
    DELETE FROM orders WHERE id % 97 = 1 OR id BETWEEN 300 AND 330;
    INSERT INTO orders SELECT n, n % 300, 'paid', 1.5, TIMESTAMP '2024-02-01 00:30:00', NULL
        FROM generate_series(310, 320) AS s(n);
    DELETE FROM users WHERE id < 4;
";

#[test]
fn prepared_queries_answer_as_the_batch_engine_does() {
    let (recent, checkpointed, mixed, settled) = (filled(), filled(), filled(), filled());
    checkpointed.connect().unwrap().execute_batch("CHECKPOINT").unwrap();
    for database in [&mixed, &settled] {
        let mut connection = database.connect().unwrap();
        connection.execute_batch("CHECKPOINT").unwrap();
        connection.execute_batch(RECENT).unwrap();
    }
    settled.connect().unwrap().execute_batch("CHECKPOINT").unwrap();
    let mut failed = Vec::new();
    for (sql, parameters) in QUERIES {
        for parameters in *parameters {
            let params = values(parameters);
            let [one, other] =
                [&mixed, &settled].map(|database| answer(&mut database.connect().unwrap(), sql, &params, false));
            if one != other {
                failed.push(format!("{sql}\nwith {params:?}: {one:?} before a checkpoint, {other:?} after it"));
            }
        }
    }
    let databases = [&recent, &checkpointed, &mixed];
    for (sql, parameters, database) in
        QUERIES.iter().flat_map(|(sql, parameters)| databases.map(|database| (sql, parameters, database)))
    {
        for parameters in *parameters {
            let params = values(parameters);
            // We use a new connection, because a connection that has not run the statement runs it without a program.
            let wanted = answer(&mut database.connect().unwrap(), sql, &params, false);
            let mut connection = database.connect().unwrap();
            for turn in 0..2 {
                let found = answer(&mut connection, sql, &params, true);
                let mut sorted: Vec<String> = found.clone();
                sorted.sort();
                let of_engine = answer_of_engine(&mut connection, sql, &params);
                let failed_alike = of_engine.len() == 1 && sorted.len() == 1 && sorted[0].starts_with(&of_engine[0]);
                // A program that stops at a limit does not meet the rows on which the engine fails.
                let stops_before = sql.contains(" LIMIT ") && matches!(&of_engine[..], [code] if code == "22012");
                if sorted != of_engine && !failed_alike && !stops_before {
                    failed.push(format!("{sql}\nwith {params:?}: {sorted:?}\n  but the engine {of_engine:?}"));
                }
                if found != wanted {
                    failed.push(format!("{sql}\nwith {params:?}, in turn {turn}: {found:?}\n  not {wanted:?}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Shows how a statement without parameters is answered. For example: `SQL='SELECT 1' cargo test shows_the_answers --
/// --ignored --nocapture`
#[test]
#[ignore]
fn shows_the_answers() {
    let Ok(sql) = std::env::var("SQL") else { return };
    let database = filled();
    for sql in sql.lines().filter(|line| !line.is_empty()) {
        for prepared in [false, true] {
            println!("{prepared} {sql}\n  {:?}", answer(&mut database.connect().unwrap(), sql, &[], prepared));
        }
    }
}

/// Statements that change rows, each with the parameter values to run it with.
const CHANGES: &[(&str, &[&str])] = &[
    ("UPDATE users SET age = age + 1 WHERE id IN ($1, $2, $3)", &["i5 i9 i5", "i1 n i400"]),
    ("UPDATE users SET balance = balance * 1.1, name = upper(name) WHERE id = $1 OR id = $2", &["i5 i9"]),
    ("UPDATE users SET balance = balance + 1 WHERE id = $1 OR age = $2", &["i5 i9", "i9 i9", "i400 i300"]),
    ("UPDATE users SET age = age + 1 WHERE (age = $1 OR name = $2) AND active", &["i9 tAda", "n tname7"]),
    ("UPDATE users SET active = false WHERE age IS NULL AND id < $1", &["i90"]),
    (
        "UPDATE orders SET note = (SELECT min(x.status) FROM orders x WHERE x.user_id = orders.user_id AND x.id > \
         orders.id) WHERE id < $1",
        &["i60"],
    ),
    ("DELETE FROM users WHERE id = $1 OR email = $2 OR name = $3", &["i5 tu9@x.org tAda", "i400 n tnobody"]),
    ("DELETE FROM orders WHERE user_id IS NULL AND created > $1", &["t2024-02-01T00:50:00"]),
    ("INSERT INTO products VALUES ((SELECT max(id) + 1 FROM products), $1, $2)", &["tnew f1.5", "n f2.5"]),
    (
        "INSERT INTO lines VALUES ($1, (SELECT coalesce(max(line), 0) + 1 FROM lines WHERE order_id = $1), (SELECT id \
         FROM products WHERE name = $2), 3, 2.5)",
        &["i7 tproduct 3", "i9999 tproduct 4", "i8 tnothing"],
    ),
    ("UPDATE users SET created = $1 WHERE id = $2", &["t2024-05-06 i5", "t2024-01-01T03:00:00 i5", "tnothing i5"]),
    ("UPDATE users SET balance = $1 WHERE id = $2", &["f0.1 i5", "t12.345 i5", "i7 i5", "f1e20 i5"]),
    ("UPDATE users SET city = $1 WHERE name LIKE 'name1%'", &["tx", "i5", "n", "tmuch longer than twenty characters"]),
    ("UPDATE users SET age = (SELECT count(*) FROM orders o WHERE o.user_id = users.id) WHERE id < $1", &["i9"]),
    ("UPDATE users SET active = false WHERE id IN (SELECT user_id FROM orders WHERE id < $1)", &["i9"]),
    (
        "UPDATE orders SET status = 'gone' WHERE user_id = $1 AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.order_id \
         = orders.id)",
        &["i7"],
    ),
    ("UPDATE lines SET quantity = quantity + 1 WHERE order_id = $1 AND line IN (1, 3)", &["i7"]),
    // A row may take the key of another one.
    ("UPDATE lines SET line = line + 1 WHERE order_id = $1", &["i7", "i9999"]),
    ("UPDATE lines SET line = 4 - line, quantity = line WHERE order_id BETWEEN $1 AND 9", &["i7"]),
    ("UPDATE lines SET line = 1 WHERE order_id = $1", &["i7"]),
    ("UPDATE users SET id = $1 + $2 - id WHERE id IN ($1, $2)", &["i5 i9", "i5 i400", "i5 n"]),
    ("UPDATE users SET id = id + 1 WHERE id < $1", &["i9", "i2", "i1"]),
    ("UPDATE users SET email = $1 || email, age = 3 WHERE id < $2", &["tx i9", "n i9"]),
    ("UPDATE users SET email = $1 WHERE id IN (3, 4)", &["tu9@x.org", "tnew@x.org", "n"]),
    ("UPDATE products SET id = NULL WHERE id < $1", &["i3", "i0"]),
    ("UPDATE posts SET id = id + 1, created = $2 WHERE forum = $1", &["i2 t2024-05-06", "i2 n"]),
    ("DELETE FROM users WHERE id IN ($1, $2)", &["i5 i9"]),
    ("DELETE FROM orders WHERE user_id IN (SELECT id FROM users WHERE name = $1)", &["tAda", "tnobody"]),
    ("DELETE FROM orders WHERE id BETWEEN $1 AND $2 AND total IS NULL", &["i1 i90"]),
    ("DELETE FROM users u WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id) AND u.id < $1", &["i99"]),
    ("INSERT INTO products VALUES ($1, $2, $3)", &["i100 tx f1.5", "i5 tx i1", "t101 i5 t2.5", "f102 tx n"]),
    ("INSERT INTO products (name, id) VALUES (lower($1), $2 + 1), ('y', 500)", &["tABC i200"]),
    ("INSERT INTO posts VALUES ($1, $2, 1, NULL)", &["i1 t2024-01-02T03:04:05", "i1 tnothing"]),
    (
        "INSERT INTO products VALUES ($1, 'new', 1) ON CONFLICT (id) DO UPDATE SET name = products.name || \
         excluded.name, weight = products.weight + $2",
        &["i5 i1", "i600 f0.5"],
    ),
    ("INSERT INTO products VALUES ($1, 'new', 1) ON CONFLICT DO NOTHING", &["i5", "i601"]),
    (
        "INSERT INTO products SELECT id + $1, name, score FROM users WHERE id < $2",
        &["i1000 i9", "i0 i9", "i9000000000 i9"],
    ),
    (
        "INSERT INTO products (name, id) SELECT name, id + $1 FROM users WHERE name = $2",
        &["i1000 tAda", "i1000 tnobody"],
    ),
    (
        "INSERT INTO products SELECT id, city, NULL FROM users WHERE id < $1 ON CONFLICT (id) DO UPDATE SET name = \
         products.name || excluded.name",
        &["i9", "i40"],
    ),
    (
        "INSERT INTO products SELECT id, 'copy', 1 FROM users WHERE id BETWEEN $1 AND $2 ON CONFLICT DO NOTHING",
        &["i20 i30"],
    ),
    (
        "INSERT INTO orders SELECT id + 10000, user_id, status, total, created, note FROM orders WHERE user_id = $1",
        &["i7"],
    ),
    (
        "UPDATE orders SET note = u.name FROM users u WHERE u.id = orders.user_id AND u.email = $1",
        &["tu8@x.org", "tnobody"],
    ),
    ("UPDATE users SET city = o.status FROM orders o WHERE o.user_id = users.id AND o.id = $1", &["i7", "i17"]),
    ("UPDATE users SET city = o.status FROM orders o WHERE o.user_id = users.id AND users.id = $1", &["i7", "i400"]),
    ("DELETE FROM users USING orders o WHERE o.user_id = users.id AND o.id < $1", &["i9"]),
    ("DELETE FROM users USING orders o WHERE o.user_id = users.id AND users.id = $1", &["i7", "i14"]),
];

#[test]
fn prepared_changes_do_what_the_batch_engine_does() {
    let state = |connection: &mut Connection| -> Vec<Vec<String>> {
        ["users", "orders", "lines", "products", "posts"]
            .map(|table| answer(connection, &format!("SELECT * FROM {table}"), &[], false))
            .to_vec()
    };
    let database = filled();
    let mut failed = Vec::new();
    for (sql, parameters) in CHANGES {
        for parameters in *parameters {
            let params = values(parameters);
            let run = |prepared: bool| {
                let mut connection = database.connect().unwrap();
                connection.begin(false).unwrap();
                let done = match prepared {
                    true => connection.prepare(sql).and_then(|statement| statement.execute(&mut connection, &params)),
                    false => {
                        let sql = change_of_engine(sql).unwrap_or_else(|| (*sql).to_owned());
                        connection.query_with(&sql, &params).and_then(|rows| rows.batches()).map(|_| 0)
                    }
                };
                let done = done.map_err(|error| error.sqlstate().to_owned());
                let after = state(&mut connection);
                connection.rollback().unwrap();
                (done, after)
            };
            let ((done, after), (wanted, wanted_after)) = (run(true), run(false));
            if done.as_ref().err() != wanted.as_ref().err() || after != wanted_after {
                failed.push(format!("{sql}\nwith {params:?}: {done:?} and not {wanted:?}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn counts_follow_what_transactions_do() {
    let database = filled();
    let mut connection = database.connect().unwrap();
    let mut other = database.connect().unwrap();
    let count = |connection: &mut Connection| {
        let statement = connection.prepare("SELECT count(*) FROM products").unwrap();
        let rows = statement.query(connection, ()).and_then(|rows| rows.rows()).unwrap();
        rows[0].get::<i64>(0).unwrap()
    };
    assert_eq!((count(&mut connection), count(&mut connection)), (25, 25));
    connection.begin(false).unwrap();
    connection.execute_batch("INSERT INTO products VALUES (100, 'a', 1), (101, 'b', 1)").unwrap();
    connection.execute_batch("DELETE FROM products WHERE id = 3").unwrap();
    connection.execute_batch("UPDATE products SET id = 200 WHERE id = 4").unwrap();
    connection.execute_batch("INSERT INTO products VALUES (5, 'taken', 1)").unwrap_err();
    assert_eq!((count(&mut connection), count(&mut other)), (26, 25));
    connection.execute_batch("SAVEPOINT here").unwrap();
    connection.execute_batch("DELETE FROM products WHERE id < 20").unwrap();
    assert_eq!(count(&mut connection), 8);
    connection.execute_batch("ROLLBACK TO SAVEPOINT here").unwrap();
    assert_eq!(count(&mut connection), 26);
    other.execute_batch("DELETE FROM products WHERE id = 7").unwrap();
    assert_eq!((count(&mut connection), count(&mut other)), (26, 24));
    connection.commit().unwrap();
    assert_eq!((count(&mut connection), count(&mut other)), (25, 25));
    connection.begin(false).unwrap();
    connection
        .execute_batch("INSERT INTO products SELECT n, 'more', 0 FROM generate_series(1000, 1999) AS s(n)")
        .unwrap();
    assert_eq!(count(&mut connection), 1025);
    connection.rollback().unwrap();
    other
        .execute_batch(
            "INSERT INTO products VALUES (5, 'x', 1), (500, 'y', 1) ON CONFLICT (id) DO UPDATE SET name = 'z'",
        )
        .unwrap();
    assert_eq!((count(&mut connection), count(&mut other)), (26, 26));
    other.execute_batch("TRUNCATE products").unwrap();
    assert_eq!((count(&mut connection), count(&mut other)), (0, 0));
}
