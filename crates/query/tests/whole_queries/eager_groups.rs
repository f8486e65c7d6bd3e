//! Groupings that begin below joins must give the same groups as those above them.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::run;

/// A table of `rows` rows with columns `a`, `b` and `c`. The first two have few distinct values.
fn table(rows: usize, random: &mut StdRng) -> String {
    let rows: Vec<String> = (0..rows)
        .map(|_| {
            let mut value = |most: i64| match random.random_range(0..8) {
                0 => "NULL".to_owned(),
                _ => random.random_range(0..most).to_string(),
            };
            format!("({}, {}, {})", value(4), value(3), value(100))
        })
        .collect();
    let columns = "CAST(x AS BIGINT) AS a, CAST(y AS BIGINT) AS b, CAST(z AS BIGINT) AS c";
    format!("(SELECT {columns} FROM (VALUES {}) v(x, y, z))", rows.join(", "))
}

/// Runs a statement and sorts its rows.
fn sorted(sql: &str) -> Vec<String> {
    let mut rows = run(sql, 1, 1024).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.sort();
    rows
}

/// Groups `rows` by `keys`, once over the joins and once over a query whose LIMIT keeps the joins below the grouping.
fn check(rows: &str, keys: &str, group: &str) {
    let calls = "count(*), count(t.c), sum(t.c), min(t.c), max(t.c), avg(t.c), sum(t.c) FILTER (WHERE t.b > 0)";
    let eager = format!("SELECT {keys}{calls} FROM {rows}{group}");
    let renamed = |text: &str| text.replace("s.b", "q.sb").replace("t.b", "q.tb").replace("t.c", "q.tc");
    let below = format!("(SELECT s.b AS sb, t.b AS tb, t.c AS tc FROM {rows} LIMIT 100000) q");
    let late = format!("SELECT {}{} FROM {below}{}", renamed(keys), renamed(calls), renamed(group));
    assert_eq!(sorted(&eager), sorted(&late), "{eager}");
}

#[test]
fn groups_of_joined_rows_are_the_same_in_any_order() {
    let mut random = StdRng::seed_from_u64(5);
    for round in 0..40 {
        let (large, small) = (table(600, &mut random), table(random.random_range(1..8), &mut random));
        let other = table(random.random_range(1..6), &mut random);
        let rows = match round % 4 {
            0 => format!("{large} t JOIN {small} s ON t.a = s.a"),
            1 => format!("{large} t JOIN {small} s ON t.a = s.a JOIN {other} o ON o.b = s.b AND o.a <= t.a"),
            2 => format!("{large} t JOIN {small} s ON t.a = s.a LEFT JOIN {other} o ON o.b = t.b"),
            _ => format!("{large} t JOIN {small} s ON t.a = s.a AND s.c > 200"),
        };
        let rows = match round % 3 {
            0 => format!("{rows} WHERE EXISTS (SELECT 1 FROM {other} e WHERE e.a = t.a)"),
            _ => rows,
        };
        for keys in ["s.b", "t.b", "coalesce(s.b, t.b)"] {
            check(&rows, &format!("{keys}, "), &format!(" GROUP BY {keys}"));
        }
        check(&rows, "", "");
        check(&rows, "s.b, t.b, grouping(s.b), ", " GROUP BY ROLLUP (s.b, t.b)");
    }
}

#[test]
fn groups_that_begin_above_some_of_the_joins_are_the_same() {
    let mut random = StdRng::seed_from_u64(9);
    for round in 0..40 {
        // The filter on `d` is joined first, so the groups begin above that join.
        let (large, days) = (table(900, &mut random), table(3, &mut random));
        let (small, other) = (table(9, &mut random), table(random.random_range(1..6), &mut random));
        let joins = format!("{large} t JOIN {days} d ON t.b = d.b AND d.c < 60 JOIN {small} s ON t.a = s.a");
        let rows = match round % 6 {
            0 => joins,
            // Conditions on one relation, and one that can fail.
            5 => format!("{joins} WHERE 100 / (t.a + 1) > 20 AND s.b + 0 < 3"),
            // All three columns are equal, and two of them are of one relation.
            1 => format!("{joins} AND t.a = s.b"),
            2 => format!("{joins} LEFT JOIN {other} o ON o.b = d.b AND o.a < s.a"),
            3 => format!("{joins} WHERE NOT EXISTS (SELECT 1 FROM {other} e WHERE e.a = s.a AND e.b = d.b)"),
            // A condition that can fail is checked for the rows that all joins leave.
            _ => format!("{joins} WHERE 100 / (s.a + 1) > t.b AND t.b + s.b < d.a + 4"),
        };
        for keys in ["s.b", "s.b + t.b", "upper(CAST(s.b AS TEXT)) || 'x'"] {
            check(&rows, &format!("{keys}, "), &format!(" GROUP BY {keys}"));
        }
        check(&rows, "s.b, t.b, ", " GROUP BY CUBE (s.b, t.b)");
        check(&rows, "", "");
    }
}
