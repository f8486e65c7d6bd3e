//! Queries over column copies of keyed tables: which queries read them, and that writers do not disturb the answers.

use rowmill::{Connection, Database};

/// A database whose queries wait until a table that they read as a whole has a copy.
fn database() -> (Database, Connection) {
    let database = Database::memory().unwrap();
    database.engine().set("column_copy_rows", "1").unwrap();
    database.engine().wait_for_column_copies();
    let mut connection = database.connect().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE items (id INTEGER, line INTEGER, part INTEGER, price DOUBLE, note TEXT,
                                 PRIMARY KEY (id, line));
             CREATE INDEX by_part ON items (part);
             CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER);
             INSERT INTO items SELECT n // 4, n % 4, n % 1000, n / 7.0, 'note ' || n % 11
             FROM generate_series(0, 39999) AS t(n);
             INSERT INTO orders SELECT n, n % 500 FROM generate_series(0, 9999) AS t(n);
             ANALYZE",
        )
        .unwrap();
    (database, connection)
}

fn text(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query(sql).unwrap().rows().unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get::<String>(0).unwrap()).collect();
    lines.join("\n")
}

fn explained(connection: &mut Connection, query: &str) -> String {
    // The copy exists only after a first query.
    connection.query(query).unwrap().rows().unwrap();
    text(connection, &format!("EXPLAIN {query}"))
}

const OF_COPY: &str = "reading all rows of the column copy";

#[test]
fn queries_over_most_rows_read_the_copy() {
    let (_database, mut connection) = database();
    for query in [
        "SELECT note, sum(price) FROM items GROUP BY note",
        "SELECT count(*) FROM items WHERE note LIKE '%7' OR price > 10",
        "SELECT * FROM items ORDER BY price DESC, id",
        "SELECT line, max(note) FROM items WHERE line < 3 GROUP BY line",
        "SELECT sum(price) FROM items JOIN orders ON items.id = orders.id WHERE customer > 3",
        "SELECT note, rank() OVER (PARTITION BY part ORDER BY price, id) FROM items",
    ] {
        let lines = explained(&mut connection, query);
        assert!(lines.contains(OF_COPY), "{query}\n{lines}");
    }
    for query in [
        "SELECT count(*), min(price) FROM items WHERE id BETWEEN 17 AND 60",
        "SELECT sum(price) FROM items WHERE part = 17",
        "SELECT * FROM items ORDER BY id, line LIMIT 3",
        "SELECT max(id) FROM items",
    ] {
        let lines = explained(&mut connection, query);
        assert!(!lines.contains(OF_COPY), "{query}\n{lines}");
    }
}

/// A join that has found few keys looks them up, although the table has a copy.
#[test]
fn few_keys_of_a_join_are_looked_up() {
    let (_database, mut connection) = database();
    let query = "SELECT items.id, note FROM items JOIN orders ON items.id = orders.id WHERE customer % 250 = 7";
    explained(&mut connection, query);
    let measured = text(&mut connection, &format!("EXPLAIN ANALYZE {query}"));
    let of_items = measured.lines().find(|line| line.contains("Scan: items")).unwrap();
    assert!(of_items.contains("160 rows read"), "{measured}");
}

/// The rows of the transaction itself, of others before and after its snapshot, and of a dropped column.
#[test]
fn answers_are_those_of_the_snapshot() {
    let (database, mut connection) = database();
    let sums = "SELECT count(*) || ' ' || sum(part) || ' ' || max(note) FROM items WHERE price >= 0";
    let first = text(&mut connection, sums);
    let mut reader = database.connect().unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(text(&mut reader, sums), first);
    connection.execute_batch("DELETE FROM items WHERE id = 5; INSERT INTO items VALUES (-1, 0, 7, 1, 'zzz')").unwrap();
    let second = text(&mut connection, sums);
    assert!(second.starts_with("39997 ") && second.ends_with(" zzz"), "{second}");
    assert_eq!(text(&mut reader, sums), first);
    connection.execute_batch("BEGIN; UPDATE items SET part = part + 1 WHERE id = 6").unwrap();
    let own = text(&mut connection, sums);
    assert_ne!(own, second);
    connection.execute_batch("ROLLBACK").unwrap();
    assert_eq!(text(&mut connection, sums), second);
    connection
        .execute_batch("ALTER TABLE items ADD COLUMN more INTEGER DEFAULT 3; UPDATE items SET more = 4 WHERE id = 9")
        .unwrap();
    assert_eq!(text(&mut connection, "SELECT sum(more)::TEXT FROM items"), (39_997 * 3 + 4).to_string());
    connection.execute_batch("ALTER TABLE items DROP COLUMN note; TRUNCATE items").unwrap();
    assert_eq!(text(&mut connection, "SELECT count(*)::TEXT FROM items WHERE price > 0"), "0");
    assert_eq!(text(&mut reader, sums), first);
}

/// Two open transactions give the table definitions with the same version.
#[test]
fn a_copy_of_another_definition_is_not_read() {
    let (database, mut connection) = database();
    connection.execute_batch("BEGIN; ALTER TABLE orders ADD COLUMN mine INTEGER DEFAULT 1").unwrap();
    let mut other = database.connect().unwrap();
    other.execute_batch("ALTER TABLE orders ADD COLUMN other INTEGER DEFAULT 2").unwrap();
    assert_eq!(text(&mut other, "SELECT sum(other)::TEXT FROM orders"), "20000");
    assert_eq!(text(&mut connection, "SELECT sum(mine)::TEXT FROM orders"), "10000");
    assert_eq!(text(&mut other, "SELECT sum(other)::TEXT FROM orders"), "20000");
}
