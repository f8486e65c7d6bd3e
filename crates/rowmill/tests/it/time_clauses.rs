//! Random queries with time clauses must answer as the same queries in plain SQL.
//!
//! A case is a pair of queries with the same columns: SAMPLE BY beside GROUP BY and `generate_series`, LATEST ON
//! beside a numbered subquery, joins along an order beside LATERAL subqueries. Both are put into the same random
//! surroundings: a join, a grouping, a window, a set operation. `ROWMILL_SEED` repeats a failure; `ROWMILL_LONG=1`
//! asks 10,000 queries.

use rowmill::text::format_value;
use rowmill::{Connection, Database};

use crate::differential::Random;

/// A query with time clauses, and the same in plain SQL. The columns are `ts`, `s`, `v`.
struct Case {
    timed: String,
    plain: String,
}

fn tables(random: &mut Random) -> Database {
    let database = Database::memory().unwrap();
    let mut connection = database.connect().unwrap();
    // Small blocks, so that a table has many.
    connection.execute_batch(&format!("SET rows_per_block = {}", [2, 7, 524_288][random.below(3)])).unwrap();
    let time = ["TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP(9)"][random.below(3)];
    for (table, rows, step) in [("t", 60, 40), ("u", 90, 25)] {
        // `id` is the order of arrival. Half of the tables know their time column.
        let clause = if random.below(2) == 0 { "TIMESTAMP(ts)" } else { "" };
        connection
            .execute_batch(&format!("CREATE TABLE {table} (id BIGINT, ts {time} NOT NULL, s TEXT, q BIGINT) {clause}"))
            .unwrap();
        let mut at = 0;
        let rows: Vec<String> = (0..rows)
            .map(|id| {
                at += if random.below(6) == 0 { 0 } else { random.below(2 * step) };
                let symbol = random.one_of(&["'a'", "'b'", "'c'", "NULL"]);
                let value = random.one_of(&["1", "2", "-7", "30", "NULL"]);
                format!("({id}, TIMESTAMP '2026-03-28 22:00:00' + {at} * INTERVAL '1 minute', {symbol}, {value})")
            })
            .collect();
        connection.execute_batch(&format!("INSERT INTO {table} VALUES {}", rows.join(", "))).unwrap();
    }
    if random.below(2) == 0 {
        connection.execute_batch("CHECKPOINT").unwrap();
    }
    if random.below(2) == 0 {
        connection.execute_batch("DELETE FROM t WHERE id % 7 = 2; DELETE FROM u WHERE id % 11 = 4").unwrap();
    }
    connection
        .execute_batch("CREATE TABLE d (s TEXT, w BIGINT); INSERT INTO d VALUES ('a', 1), ('b', 10), (NULL, 5)")
        .unwrap();
    database
}

fn sample(random: &mut Random) -> Case {
    let (short, long) =
        [("30m", "30 minutes"), ("1h", "1 hour"), ("100m", "100 minutes"), ("1d", "1 day"), ("7h", "7 hours")]
            [random.below(5)];
    // Of rows with the same time, `first` and `last` may take any one, so the order names the number too.
    let (call, plain_call) = [
        ("count(*)", "count(*)"),
        ("coalesce(sum(q), 0)", "coalesce(sum(q), 0)"),
        ("max(id)", "max(id)"),
        ("first(id ORDER BY ts, id)", "min(id)"),
        ("last(id ORDER BY ts, id) - first(id ORDER BY ts, id)", "max(id) - min(id)"),
    ][random.below(5)];
    let condition = random.one_of(&["true", "q > 0", "id % 3 = 1", "s <> 'b'"]);
    let groups = format!(
        "SELECT date_bin(INTERVAL '{long}', ts) AS b, s, {plain_call} AS v FROM t WHERE {condition} GROUP BY 1, 2"
    );
    let source = "t";
    let (fill, plain) = match random.below(5) {
        0 | 1 => (String::new(), format!("SELECT b AS ts, s, v FROM ({groups}) g")),
        kind => {
            let (fill, value) = match kind {
                2 => ("FILL(NULL)", "g.v".to_owned()),
                3 => ("FILL(-1)", "CASE WHEN g.b IS NULL THEN -1 ELSE g.v END".to_owned()),
                _ => (
                    "FILL(PREV)",
                    format!(
                        "(SELECT p.v FROM ({groups}) p WHERE p.s IS NOT DISTINCT FROM f.s AND p.b <= f.b \
                         ORDER BY p.b DESC LIMIT 1)"
                    ),
                ),
            };
            let plain = format!(
                "SELECT f.b AS ts, f.s, {value} AS v FROM (SELECT r.s, x.b FROM (SELECT s, min(b) AS lo, max(b) AS hi \
                 FROM ({groups}) g GROUP BY s) r CROSS JOIN LATERAL \
                 generate_series(r.lo, r.hi, INTERVAL '{long}') x(b)) f \
                 LEFT JOIN ({groups}) g ON g.b = f.b AND g.s IS NOT DISTINCT FROM f.s"
            );
            (fill.to_owned(), plain)
        }
    };
    let timed = format!("SELECT ts, s, {call} AS v FROM {source} WHERE {condition} SAMPLE BY {short} ON ts {fill}");
    Case { timed, plain }
}

fn latest(random: &mut Random) -> Case {
    let condition = random.one_of(&["true", "q > 0", "id % 3 = 1"]);
    let key = random.one_of(&["s", "q", "s, q"]);
    Case {
        timed: format!("SELECT ts, s, id AS v FROM t WHERE {condition} LATEST ON ts PARTITION BY {key}"),
        plain: format!(
            "SELECT ts, s, id AS v FROM (SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY ts DESC, id DESC) \
             AS n \
             FROM t WHERE {condition}) x WHERE n = 1"
        ),
    }
}

fn asof(random: &mut Random) -> Case {
    let (op, order) = [(">=", "DESC"), (">", "DESC"), ("<=", "ASC"), ("<", "ASC")][random.below(4)];
    let has_key = random.below(4) > 0;
    let (key, on) = if has_key { ("u.s = t.s AND", "t.s = u.s AND ") } else { ("", "") };
    let (word, join) = if random.below(2) == 0 { ("ASOF", "JOIN") } else { ("ASOF LEFT", "LEFT JOIN") };
    let within = match random.below(3) {
        0 => Some(if order == "DESC" {
            "u.ts >= t.ts - INTERVAL '1 hour' AND"
        } else {
            "u.ts <= t.ts + INTERVAL '1 hour' AND"
        }),
        _ => None,
    };
    let tolerance = if within.is_some() { "TOLERANCE 1h" } else { "" };
    // The right side may be a subquery, which has no order of arrival, so ties must be equal there.
    Case {
        timed: format!("SELECT t.ts, t.s, u.id AS v FROM t {word} JOIN u ON {on}t.ts {op} u.ts {tolerance}"),
        plain: format!(
            "SELECT t.ts, t.s, x.id AS v FROM t {join} LATERAL (SELECT u.id FROM u WHERE {key} {} t.ts {op} u.ts \
             ORDER BY u.ts {order}, u.id {order} LIMIT 1) x ON true",
            within.unwrap_or_default()
        ),
    }
}

fn nearest(random: &mut Random) -> Case {
    let condition = random.one_of(&["true", "t.q > 0"]);
    let distance = "abs(extract(epoch FROM u.ts - t.ts))";
    Case {
        timed: format!(
            "SELECT t.ts, t.s, u.ts = t.ts AS v FROM t ASOF NEAREST JOIN u MATCH_CONDITION (t.ts = u.ts) ON t.s = u.s \
             WHERE {condition}"
        ),
        plain: format!(
            "SELECT t.ts, t.s, x.ts = t.ts AS v FROM t LEFT JOIN LATERAL (SELECT u.ts FROM u WHERE u.s = t.s \
             ORDER BY {distance}, u.ts LIMIT 1) x ON true WHERE {condition}"
        ),
    }
}

fn window(random: &mut Random) -> Case {
    let (bounds, low, high) = [
        ("30 MINUTES PRECEDING AND 1 HOUR FOLLOWING", "- INTERVAL '30 minutes'", "+ INTERVAL '1 hour'"),
        ("2 HOURS PRECEDING AND 10 MINUTES PRECEDING", "- INTERVAL '2 hours'", "- INTERVAL '10 minutes'"),
        ("CURRENT ROW AND t.id MINUTES FOLLOWING", "+ INTERVAL '0 minutes'", "+ t.id * INTERVAL '1 minute'"),
        ("INTERVAL '5 minutes' FOLLOWING AND 3 HOURS FOLLOWING", "+ INTERVAL '5 minutes'", "+ INTERVAL '3 hours'"),
    ][random.below(4)];
    let call =
        random.one_of(&["count(*)", "sum(u.q)", "max(u.id)", "count(DISTINCT u.q)", "min(u.q) FILTER (WHERE u.q > 1)"]);
    let included = random.below(2) == 0;
    let prevailing = if included { "INCLUDE PREVAILING" } else { "EXCLUDE PREVAILING" };
    let inside = format!("u.s = t.s AND u.ts >= t.ts {low} AND u.ts <= t.ts {high}");
    let before = format!(
        "u.id = (SELECT p.id FROM u p WHERE p.s = t.s AND p.ts <= t.ts {low} ORDER BY p.ts DESC, p.id DESC LIMIT 1)"
    );
    let rows = if included { format!("({inside}) OR ({before})") } else { inside };
    Case {
        timed: format!(
            "SELECT t.ts, t.s, {call} AS v FROM t WINDOW JOIN u MATCH_CONDITION (t.ts = u.ts) ON t.s = u.s \
             RANGE BETWEEN {bounds} {prevailing}"
        ),
        plain: format!("SELECT t.ts, t.s, (SELECT {call} FROM u WHERE {rows}) AS v FROM t"),
    }
}

fn horizon(random: &mut Random) -> Case {
    let (list, offsets) = [
        ("LIST (-1h, 0s, 90m)", "(INTERVAL '-1 hour'), (INTERVAL '0 seconds'), (INTERVAL '90 minutes')"),
        (
            "RANGE FROM -30m TO 30m STEP 30m",
            "(INTERVAL '-30 minutes'), (INTERVAL '0 seconds'), (INTERVAL '30 minutes')",
        ),
    ][random.below(2)];
    Case {
        timed: format!(
            "SELECT h.timestamp AS ts, t.s, u.id AS v FROM t HORIZON JOIN u MATCH_CONDITION (t.ts = u.ts) ON t.s = u.s \
             {list} AS h"
        ),
        plain: format!(
            "SELECT t.ts + h.o AS ts, t.s, x.id AS v FROM t CROSS JOIN (VALUES {offsets}) h(o) LEFT JOIN LATERAL \
             (SELECT u.id FROM u WHERE u.s = t.s AND u.ts <= t.ts + h.o ORDER BY u.ts DESC, u.id DESC LIMIT 1) x \
             ON true"
        ),
    }
}

fn interval(random: &mut Random) -> Case {
    let (text, low, high) = [
        ("2026-03-29", "2026-03-29", "2026-03-30"),
        ("2026-03", "2026-03-01", "2026-04-01"),
        ("2026-03-29T01", "2026-03-29 01:00", "2026-03-29 02:00"),
        ("2026-03-28T23:30;2h", "2026-03-28 23:30", "2026-03-29 01:30"),
    ][random.below(4)];
    let not = random.one_of(&["", "NOT "]);
    Case {
        timed: format!("SELECT ts, s, id AS v FROM t WHERE ts {not}IN '{text}'"),
        plain: format!("SELECT ts, s, id AS v FROM t WHERE {not}(ts >= '{low}' AND ts < '{high}')"),
    }
}

/// Puts a query into surroundings that depend only on the numbers.
fn surrounded(query: &str, kind: usize) -> String {
    match kind {
        0 => query.to_owned(),
        1 => format!("SELECT x.s, count(*), count(x.v), max(x.ts) FROM ({query}) x GROUP BY x.s"),
        2 => format!("SELECT x.ts, x.v, d.w FROM ({query}) x JOIN d ON d.s = x.s WHERE d.w < 10"),
        3 => format!(
            "WITH x AS ({query}) SELECT s, ts, count(*) OVER (PARTITION BY s ORDER BY ts) FROM x WHERE ts > \
             '2026-03-28 23:00'"
        ),
        4 => format!("SELECT s FROM d WHERE EXISTS (SELECT 1 FROM ({query}) x WHERE x.s = d.s AND x.v IS NOT NULL)"),
        5 => format!("SELECT ts, s, v FROM ({query}) x WHERE s = 'a' OR s IS NULL"),
        6 => format!("({query}) UNION ALL SELECT ts, s, NULL FROM t WHERE id < 3"),
        _ => format!("SELECT d.s, (SELECT max(x.ts) FROM ({query}) x WHERE x.s = d.s) FROM d"),
    }
}

fn rows(connection: &mut Connection, sql: &str) -> Result<Vec<String>, String> {
    let rows = connection.query(sql).and_then(|rows| {
        let mut found = Vec::new();
        for batch in rows {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().map(|values| format_value(values, row));
                found.push(format!("{:?}", values.collect::<rowmill::Result<Vec<_>>>()?));
            }
        }
        found.sort();
        Ok(found)
    });
    rows.map_err(|error| error.to_string())
}

#[test]
fn time_clauses_answer_as_plain_sql() {
    let long = std::env::var_os("ROWMILL_LONG").is_some();
    let seed: Option<u64> = std::env::var("ROWMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(1..if long { 201 } else { 9 }, |seed| seed..seed + 1);
    for seed in seeds {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let database = tables(&mut random);
        let mut connection = database.connect().unwrap();
        for _ in 0..50 {
            let make: fn(&mut Random) -> Case =
                [sample, sample, latest, asof, asof, nearest, window, window, horizon, interval][random.below(10)];
            let case = make(&mut random);
            let kind = random.below(8);
            let (timed, plain) = (surrounded(&case.timed, kind), surrounded(&case.plain, kind));
            let (ours, theirs) = (rows(&mut connection, &timed), rows(&mut connection, &plain));
            assert!(theirs.is_ok(), "ROWMILL_SEED={seed}: {plain}\n{theirs:?}");
            assert!(ours == theirs, "ROWMILL_SEED={seed}:\n{timed}\n{plain}\n{ours:?}\n{theirs:?}");
        }
    }
}

#[test]
fn explain_names_the_slices_of_a_join_whose_windows_are_short() {
    let database = Database::memory().unwrap();
    let mut connection = database.connect().unwrap();
    connection
        .execute_batch(
            "SET rows_per_block = 4;
             CREATE TABLE t (ts TIMESTAMP NOT NULL, s TEXT, q DOUBLE) TIMESTAMP(ts);
             INSERT INTO t SELECT TIMESTAMP '2026-03-28 22:00:00' + i * INTERVAL '1 minute', 'a', i / 10.0
                 FROM generate_series(1, 100) g(i);
             CHECKPOINT",
        )
        .unwrap();
    let mut is_sliced = |bounds: &str| {
        let join = format!(
            "SELECT t.ts, sum(u.q) AS q FROM t WINDOW JOIN t u MATCH_CONDITION (t.ts = u.ts) ON t.s = u.s \
             RANGE BETWEEN {bounds} EXCLUDE PREVAILING"
        );
        rows(&mut connection, &format!("EXPLAIN {join}")).unwrap().concat().contains("slices of time")
    };
    assert!(is_sliced("1 MINUTE PRECEDING AND 1 MINUTE FOLLOWING"));
    assert!(is_sliced("3 MINUTES PRECEDING AND CURRENT ROW"));
    assert!(!is_sliced("1 HOUR PRECEDING AND 1 HOUR FOLLOWING"), "windows are longer than slices");
    assert!(!is_sliced("INTERVAL '1 month' PRECEDING AND CURRENT ROW"), "a month has no fixed length");
}
