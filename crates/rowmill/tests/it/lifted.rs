//! Texts that differ only in their literals share a statement. Each must answer as it does alone, no matter how often
//! the shared statement has run.

use rowmill::{Connection, Database};

/// Returns the result of a text: its rows as text, or its error.
fn answer(connection: &mut Connection, sql: &str) -> String {
    let shown = connection.query(sql).and_then(|rows| rows.rows()).map(|rows| {
        let row = |row: &rowmill::Row| {
            (0..row.len()).map(|at| format!("{:?}", row.get::<Option<String>>(at))).collect::<Vec<_>>().join(" ")
        };
        rows.iter().map(row).collect::<Vec<_>>().join("\n")
    });
    shown.unwrap_or_else(|error| format!("{} {error}", error.sqlstate()))
}

fn filled() -> Database {
    let database = Database::memory().expect("a database in memory");
    let mut connection = database.connect().expect("a connection");
    connection
        .execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, day DATE, price DECIMAL(9, 2), name TEXT, small SMALLINT);
             CREATE INDEX by_day ON t (day);
             INSERT INTO t SELECT n, DATE '2020-01-01' + CAST(n AS INTEGER), n * 1.25, 'name ' || n, n % 7 \
             FROM generate_series(1, 50) AS s(n)",
        )
        .expect("filled");
    database
}

#[test]
fn a_text_answers_alike_however_often_others_like_it_have_run() {
    let shapes: [(&str, [&str; 4]); 16] = [
        ("SELECT id, name FROM t WHERE id = {}", ["3", "'4'", "5.0", "-1"]),
        ("SELECT id FROM t WHERE day = {}", ["'2020-01-05'", "'2020-01-06'", "'nothing'", "7"]),
        ("SELECT id, price FROM t WHERE id > 5 AND price = {}", ["12.5", "12.50", "25", "'25'"]),
        ("SELECT count(*) FROM t WHERE small = {}", ["3", "70000", "2.5", "'3'"]),
        ("SELECT id FROM t WHERE name = {} AND id < 20", ["'name 7'", "'name '", "''", "7"]),
        ("SELECT id FROM t WHERE id BETWEEN {} AND 9 ORDER BY 1 DESC LIMIT 2", ["2", "7.5", "8", "'9'"]),
        ("INSERT INTO t VALUES ({}, '2021-01-01', 3.456, 'x', 1) RETURNING *", ["100", "'101'", "102.4", "'x'"]),
        ("INSERT INTO t (id, small) VALUES (200, {}) RETURNING *", ["1", "70000", "2.5", "'3'"]),
        ("UPDATE t SET price = {} WHERE id = 8 RETURNING price", ["1", "1.005", "'2.5'", "12345678.9"]),
        ("UPDATE t SET small = small + 1 WHERE id = {} RETURNING small", ["9", "10", "'11'", "12.0"]),
        ("DELETE FROM t WHERE id = {} RETURNING id", ["30", "31", "'32'", "33.5"]),
        ("UPDATE t SET small = small + {} WHERE id = 9 RETURNING small", ["1", "32765", "32766", "2.5"]),
        (
            "UPDATE t SET price = price - {}, small = small - 1 WHERE id = 9 RETURNING *",
            ["1", "0.125", "1e3", "99999999"],
        ),
        ("SELECT id FROM t WHERE id = (SELECT max(id) FROM t WHERE small = {})", ["3", "70000", "2.5", "'3'"]),
        ("SELECT id FROM t WHERE id >= ({} - 1) AND id < 9", ["3", "7.5", "2147483648", "'4'"]),
        ("SELECT sum(price) FROM t WHERE id >= {} AND id <= 40", ["10", "20", "30.0", "'35'"]),
    ];
    for (shape, literals) in shapes {
        // Each text alone, in a database where nothing else has run.
        let alone: Vec<String> = literals
            .iter()
            .map(|literal| answer(&mut filled().connect().expect("a connection"), &shape.replace("{}", literal)))
            .collect();
        for first in 0..literals.len() {
            let database = filled();
            let mut connection = database.connect().expect("a connection");
            for turn in 0..3 * literals.len() {
                let at = (first + turn) % literals.len();
                let sql = shape.replace("{}", literals[at]);
                connection.begin(false).expect("a transaction");
                assert_eq!(answer(&mut connection, &sql), alone[at], "{sql}, in turn {turn}");
                connection.rollback().expect("rolled back");
            }
        }
    }
}

/// More lists of types than a statement keeps programs.
#[test]
fn decimals_with_many_numbers_of_digits_answer_alike() {
    let mut connection = filled().connect().expect("a connection");
    for turn in 0..3 {
        for digits in 1..=12 {
            let price = format!("1.{}", "2".repeat(digits));
            let sql = format!("UPDATE t SET price = {price} WHERE id = {digits} RETURNING price");
            let expected = if digits == 1 { "1.20" } else { "1.22" };
            assert_eq!(answer(&mut connection, &sql), format!("Ok(Some(\"{expected}\"))"), "{sql}, in turn {turn}");
        }
    }
}

#[test]
fn definitions_and_settings_may_change_between_texts() {
    let database = filled();
    let mut connection = database.connect().expect("a connection");
    let ask = |connection: &mut Connection, id: i64| answer(connection, &format!("SELECT * FROM t WHERE id = {id}"));
    for id in 1..5 {
        assert!(ask(&mut connection, id).contains(&format!("name {id}")), "{id}");
    }
    connection.execute_batch("ALTER TABLE t ADD COLUMN more INTEGER DEFAULT 5").expect("altered");
    assert!(ask(&mut connection, 6).ends_with("Ok(Some(\"5\"))"), "{}", ask(&mut connection, 6));
    connection.execute_batch("DROP TABLE t").expect("dropped");
    assert!(ask(&mut connection, 7).starts_with("42P01"), "{}", ask(&mut connection, 7));
}
