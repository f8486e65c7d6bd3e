//! Whole queries over rows that they contain, from text to result: parser, binder, optimizer, lowering, engine.

mod eager_groups;
mod join_orders;

use std::collections::BTreeMap;
use std::sync::Arc;

use rowmill_base::{Broker, Cancel, ErrorKind, Result, SqlType};
use rowmill_exec::operator::{Environment, RunningPlan};
use rowmill_expr::text;
use rowmill_plan::{Constant, DynamicFunction};
use rowmill_query::binder::bind;
use rowmill_query::catalog::{CatalogRelation, QueryCatalog, RelationName, RowSource};
use rowmill_query::{lower, optimizer};
use rowmill_storage::spill::TempSpace;
use sqlparser::ast::{Ident, Statement};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

/// An empty database.
struct NoTables;

impl QueryCatalog for NoTables {
    fn relation(&self, _name: &RelationName) -> Result<Option<CatalogRelation>> {
        Ok(None)
    }

    fn relation_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn table_function(&self, _name: &str, _arguments: &[Constant]) -> Result<Option<Arc<dyn RowSource>>> {
        Ok(None)
    }

    fn dynamic_function(
        &self,
        _name: &str,
        _arguments: &[Option<Constant>],
    ) -> Result<Option<(Arc<dyn DynamicFunction>, SqlType)>> {
        Ok(None)
    }

    fn now_us(&self) -> i64 {
        1_700_000_000_000_000
    }
}

/// The rows of a query in the order in which they come. The values of a row are joined with `|`.
fn run(sql: &str, workers: usize, batch_rows: usize) -> Result<Vec<String>> {
    let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let Some(Statement::Query(query)) = statements.pop() else { panic!("{sql} is not a query") };
    let spelling = |name: &Ident| name.value.clone();
    let mut bound = bind(&query, &NoTables, &spelling, &[])?;
    optimizer::optimize(&mut bound)?;
    let physical = lower(&bound)?;
    let (cancel, broker, foreign) = (Cancel::new(), Broker::new(1 << 28), BTreeMap::new());
    let environment = Environment {
        tables: &physical.tables,
        functions: &physical.functions,
        foreign: &foreign,
        batch_rows,
        threads: workers,
        cancel: &cancel,
        broker: &broker,
        temp: &TempSpace::in_memory(),
        recursion_max: 200,
        early_filters: true,
    };
    let running = RunningPlan::new(&physical.root, &environment)?;
    let read = || {
        let mut rows = Vec::new();
        for batch in running.worker() {
            let batch = batch?;
            rows.extend((0..batch.num_rows()).map(|row| {
                let value = |column| text::format(column, row).unwrap_or_else(|| "NULL".to_owned());
                batch.columns().iter().map(value).collect::<Vec<_>>().join("|")
            }));
        }
        Ok(rows)
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..workers).map(|_| scope.spawn(read)).collect();
        let mut rows = read()?;
        for helper in helpers {
            rows.extend(helper.join().expect("no panic")?);
        }
        Ok(rows)
    })
}

/// Checks the rows of queries. If a query has no order, its rows are sorted by their texts.
fn check(cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (sql, expected) in cases {
        for (workers, batch_rows) in [(1, 1024), (1, 1), (4, 3)] {
            let mut found = match run(sql, workers, batch_rows) {
                Ok(found) => found,
                Err(error) => vec![error.to_string()],
            };
            if !sql.contains("ORDER BY") {
                found.sort();
            }
            let found = found.join(", ");
            if found != *expected {
                wrong.push(format!("{sql}\n  gives    {found}\n  in place {expected}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn recursive_queries() {
    check(&[
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n), count(*) FROM \
             t",
            "15|5",
        ),
        (
            "WITH RECURSIVE e(a, b) AS (VALUES (1, 2), (2, 3), (3, 1), (3, 4)), \
             r(x) AS (SELECT 1 UNION SELECT b FROM r, e WHERE a = x) SELECT x FROM r",
            "1, 2, 3, 4",
        ),
        (
            "WITH RECURSIVE f(a, b) AS (SELECT 0, 1 UNION ALL SELECT b, a + b FROM f WHERE b < 50) SELECT max(a) FROM \
             f",
            "34",
        ),
        ("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t LIMIT 3", "1, 2, 3"),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + m FROM t, (SELECT max(x) AS m FROM (VALUES (2), \
             (3)) v(x)) s \
             WHERE n < 10) SELECT n FROM t",
            "1, 10, 4, 7",
        ),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) \
             SELECT a.n, b.n FROM t a JOIN t b ON a.n = b.n + 2",
            "3|1, 4|2",
        ),
    ]);
    let endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t) SELECT count(*) FROM t";
    assert_eq!(run(endless, 1, 10).expect_err("no end").kind(), ErrorKind::ResultTooLarge);
}

#[test]
fn series_and_items() {
    check(&[
        ("SELECT sum(value) FROM generate_series(1, 100000)", "5000050000"),
        ("SELECT value FROM range(10, 0, -4) ORDER BY value", "2, 6, 10"),
        ("SELECT value FROM generate_series(5, 1)", ""),
        ("SELECT n, i FROM (VALUES (1), (3), (0)) v(n), LATERAL generate_series(1, n) AS g(i)", "1|1, 3|1, 3|2, 3|3"),
        ("SELECT i, o FROM unnest([7, NULL, 9]) WITH ORDINALITY AS u(i, o) ORDER BY o", "7|1, NULL|2, 9|3"),
        ("SELECT a, b FROM unnest([1, 2], ['x']) AS u(a, b)", "1|x, 2|NULL"),
        (
            "SELECT value FROM generate_series(9223372036854775806, 9223372036854775807)",
            "9223372036854775806, 9223372036854775807",
        ),
    ]);
    let no_step = run("SELECT * FROM generate_series(1, 2, 0)", 1, 10).expect_err("no step");
    assert_eq!(no_step.kind(), ErrorKind::InvalidParameter);
}

#[test]
fn set_operations() {
    let values = "(VALUES (1), (1), (1), (2), (NULL), (NULL))";
    let others = "(VALUES (1), (1), (NULL), (3))";
    let case = |operation: &str| format!("SELECT * FROM {values} a(x) {operation} SELECT * FROM {others} b(x)");
    for (operation, expected) in [
        ("EXCEPT ALL", "1, 2, NULL"),
        ("INTERSECT ALL", "1, 1, NULL"),
        ("EXCEPT", "2"),
        ("INTERSECT", "1, NULL"),
        ("UNION", "1, 2, 3, NULL"),
    ] {
        check(&[(&case(operation), expected)]);
    }
}

#[test]
fn subqueries() {
    let v = "(VALUES (1, 10), (2, NULL), (3, 30)) v(a, b)";
    let w = "(VALUES (1), (NULL)) w(c)";
    check(&[
        (&format!("SELECT a, a IN (SELECT c FROM {w}) FROM {v}"), "1|true, 2|NULL, 3|NULL"),
        (&format!("SELECT a, a NOT IN (SELECT c FROM {w} WHERE c IS NOT NULL) FROM {v}"), "1|false, 2|true, 3|true"),
        (&format!("SELECT a FROM {v} WHERE a NOT IN (SELECT c FROM {w})"), ""),
        (&format!("SELECT a, a > ANY (SELECT c FROM {w}) FROM {v}"), "1|NULL, 2|true, 3|true"),
        (&format!("SELECT a, a < ALL (SELECT c FROM {w}) FROM {v}"), "1|false, 2|false, 3|false"),
        (&format!("SELECT a, b IN (SELECT c * 10 FROM {w} WHERE c < a) FROM {v}"), "1|false, 2|NULL, 3|false"),
        (&format!("SELECT a, (SELECT c FROM {w} WHERE c = a) FROM {v}"), "1|1, 2|NULL, 3|NULL"),
        (&format!("SELECT a, EXISTS (SELECT 1 FROM {w} WHERE c <> a) OR a = 1 FROM {v}"), "1|true, 2|true, 3|true"),
        (&format!("SELECT v.a, w.c FROM {v} LEFT JOIN {w} ON w.c < v.a"), "1|NULL, 2|1, 3|1"),
        (&format!("SELECT v.a, w.c FROM {v} FULL JOIN {w} ON w.c >= v.a"), "1|1, 2|NULL, 3|NULL, NULL|NULL"),
    ]);
    let two = run(&format!("SELECT (SELECT c FROM {w}) FROM {v}"), 1, 10).expect_err("two rows");
    assert_eq!(two.kind(), ErrorKind::CardinalityViolation);
    let two = run(&format!("SELECT (SELECT c FROM {w} WHERE c = 1 OR a = 1 OR c IS NULL) FROM {v}"), 1, 10);
    assert_eq!(two.expect_err("two rows").kind(), ErrorKind::CardinalityViolation);
}

#[test]
fn groups() {
    let pairs = "(VALUES ('a', 1.0e0, 2), ('a', 3.0e0, 6), ('b', 5.0e0, 1), ('b', NULL, 4)) p(g, y, x)";
    check(&[
        (
            &format!(
                "SELECT g, regr_slope(y, x), corr(y, x), regr_count(y, x), covar_pop(y, x) FROM {pairs} GROUP BY g"
            ),
            "a|0.5|1.0|2|2.0, b|NULL|NULL|1|0.0",
        ),
        (
            &format!("SELECT g, regr_slope(y, x), count(*) FROM {pairs} GROUP BY ROLLUP (g)"),
            "NULL|-0.14285714285714285|4, a|0.5|2, b|NULL|2",
        ),
        ("SELECT l, count(*) FROM (VALUES ([1, 2]), ([1, 2]), (NULL), ([])) v(l) GROUP BY l", "NULL|1, [1, 2]|2, []|1"),
        (
            "SELECT count(DISTINCT l), min(l), max(l) FROM (VALUES ([1, 2]), ([1, 2]), (NULL), ([1])) v(l)",
            "2|[1]|[1, 2]",
        ),
        ("SELECT array_agg(l ORDER BY n DESC) FROM (VALUES ([1], 1), (NULL, 2), ([3], 3)) v(l, n)", "[[3], null, [1]]"),
        ("SELECT DISTINCT l FROM (VALUES ([1]), ([1]), ([2])) v(l) ORDER BY l DESC", "[2], [1]"),
        ("SELECT mode() WITHIN GROUP (ORDER BY x) FROM (VALUES (3), (1), (3), (1), (2)) v(x)", "1"),
        ("SELECT mode(x) FROM (VALUES ('b'), ('a'), ('b')) v(x)", "b"),
        ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (3), (1), (4), (2)) v(x)", "2"),
        ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x DESC) FROM (VALUES (3), (1), (4), (2)) v(x)", "3"),
        (
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), median(x) FROM (VALUES (3), (1), (4), (2)) v(x)",
            "2.5|2.5",
        ),
        ("SELECT approx_percentile_cont_with_weight(x, w, 0.5) FROM (VALUES (1, 1), (9, 3)) v(x, w)", "9.0"),
        ("SELECT bool_and(x > 0), bool_or(x > 2), any_value(x) FROM (VALUES (NULL), (2)) v(x)", "true|false|2"),
        (
            "SELECT round(corr(y, x), 9), regr_r2(y, x) FROM (VALUES (1e100, 1e100), (2e100, 2e100), (3e100, 3e100)) \
             v(y, x)",
            "1.0|1.0",
        ),
        ("SELECT corr(x, x), regr_count(x, x), count(*) FROM (VALUES (1), (2)) v(x) WHERE x > 5", "NULL|0|0"),
        (
            "SELECT DISTINCT ON (a) a, b FROM (VALUES (1, 2), (1, 1), (2, 5), (NULL, 3), (NULL, 4)) v(a, b) ORDER BY \
             a, b DESC",
            "1|2, 2|5, NULL|4",
        ),
    ]);
}

#[test]
fn recursive_queries_over_other_operators() {
    let edges = "e(a, b) AS (VALUES (1, 2), (2, 3), (3, 4), (4, 2), (7, 8))";
    check(&[
        (
            &format!(
                "WITH RECURSIVE {edges}, r(x, d) AS (SELECT 1, 0 UNION ALL SELECT b, d + 1 FROM r JOIN e ON a = x \
                 WHERE d < 5) \
                 SELECT max(d), count(*), count(DISTINCT x) FROM r"
            ),
            "5|6|4",
        ),
        (
            &format!(
                "WITH RECURSIVE {edges}, two AS (SELECT f.a, g.b FROM e f JOIN e g ON f.b = g.a), \
                 r(x) AS (SELECT 1 UNION SELECT b FROM r JOIN two ON a = x) SELECT x FROM r"
            ),
            "1, 2, 3, 4",
        ),
        (
            &format!(
                "WITH RECURSIVE {edges}, r(x) AS (SELECT 7 UNION SELECT b FROM e WHERE a IN (SELECT x FROM r)) \
                 SELECT x FROM r"
            ),
            "7, 8",
        ),
        (
            &format!(
                "WITH RECURSIVE {edges}, r(x) AS (SELECT 1 UNION (WITH s AS (SELECT b FROM r JOIN e ON a = x) \
                 SELECT u.b FROM s u JOIN s v ON u.b = v.b)) SELECT count(*), sum(x) FROM r"
            ),
            "4|10",
        ),
        (
            &format!(
                "WITH {edges}, s AS (SELECT a % 2 AS k, sum(b) AS t FROM e GROUP BY a % 2) \
                 SELECT l.k, r.t FROM s l JOIN s r ON l.k <> r.k"
            ),
            "0|14, 1|5",
        ),
        (
            "WITH RECURSIVE t(l) AS (SELECT [1] UNION SELECT array_append(l, 1) FROM t WHERE array_length(l) < 3) \
             SELECT l FROM t",
            "[1, 1, 1], [1, 1], [1]",
        ),
    ]);
}

#[test]
fn nested_values_in_every_operator() {
    let v = "(VALUES ([1], 1), ([2, NULL], 2), ([2, NULL], 3), (NULL, 4)) v(l, n)";
    check(&[
        (
            &format!("SELECT a.n, b.n FROM {v} JOIN (SELECT l, n FROM {v}) b ON v.l = b.l").replace("a.n", "v.n"),
            "1|1, 2|2, 2|3, 3|2, 3|3",
        ),
        (&format!("SELECT l FROM {v} UNION SELECT [3]"), "NULL, [1], [2, null], [3]"),
        (&format!("SELECT l FROM {v} EXCEPT SELECT [1]"), "NULL, [2, null]"),
        (
            &format!("SELECT l, count(*), grouping(l) FROM {v} GROUP BY ROLLUP (l)"),
            "NULL|1|0, NULL|4|1, [1]|1|0, [2, null]|2|0",
        ),
        (&format!("SELECT n, row_number() OVER (PARTITION BY l ORDER BY n) FROM {v} ORDER BY n"), "1|1, 2|1, 3|2, 4|1"),
        (&format!("SELECT n FROM {v} ORDER BY l DESC NULLS LAST, n"), "2, 3, 1, 4"),
        (&format!("SELECT n, l IN (SELECT [1]) FROM {v}"), "1|true, 2|false, 3|false, 4|NULL"),
        (&format!("SELECT array_agg(DISTINCT l ORDER BY l) FROM {v}"), "[[1], [2, null], null]"),
        (
            &format!("SELECT n, i FROM {v} LEFT JOIN LATERAL unnest(l) AS u(i) ON true"),
            "1|1, 2|2, 2|NULL, 3|2, 3|NULL, 4|NULL",
        ),
        (&format!("SELECT n, unnest(l) FROM {v}"), "1|1, 2|2, 2|NULL, 3|2, 3|NULL"),
        (&format!("SELECT n FROM {v} WHERE l IS NOT DISTINCT FROM NULL"), "4"),
        (
            &format!(
                "SELECT first_value(l ORDER BY n DESC), last_value(l ORDER BY n DESC), nth_value(l, 2 ORDER BY n) \
                 FROM {v}"
            ),
            "NULL|[1]|[2, null]",
        ),
    ]);
}

#[test]
fn correlated_subqueries_over_all_joins() {
    let v = "(VALUES (1, 10), (2, 20), (3, NULL)) v(a, b)";
    let w = "(VALUES (1, 5), (1, 15), (2, 25), (NULL, 35)) w(c, d)";
    check(&[
        (&format!("SELECT a, (SELECT max(d) FROM {w} WHERE c = a) FROM {v}"), "1|15, 2|25, 3|NULL"),
        (&format!("SELECT a, (SELECT count(*) FROM {w} WHERE c >= a) FROM {v}"), "1|3, 2|1, 3|0"),
        (&format!("SELECT a, (SELECT d FROM {w} WHERE c = a ORDER BY d LIMIT 1) FROM {v}"), "1|5, 2|25, 3|NULL"),
        (&format!("SELECT a FROM {v} WHERE NOT EXISTS (SELECT 1 FROM {w} WHERE d > b)"), "3"),
        (&format!("SELECT a FROM {v} WHERE b > ALL (SELECT d FROM {w} WHERE c = a)"), "3"),
        (&format!("SELECT a, b NOT IN (SELECT d FROM {w} WHERE c = a) FROM {v}"), "1|true, 2|true, 3|true"),
        (&format!("SELECT a, b = ANY (SELECT d - 5 FROM {w} WHERE c <= a) FROM {v}"), "1|true, 2|true, 3|NULL"),
        (&format!("SELECT a, t.s FROM {v}, LATERAL (SELECT sum(d) AS s FROM {w} WHERE c <= a) t"), "1|20, 2|45, 3|45"),
        (
            &format!("SELECT a, (SELECT i FROM generate_series(1, a) g(i) WHERE i * i = a + 2) FROM {v}"),
            "1|NULL, 2|2, 3|NULL",
        ),
    ]);
    let two = run(&format!("SELECT a, (SELECT d FROM {w} WHERE c = a) FROM {v}"), 1, 10).expect_err("two rows");
    assert_eq!(two.kind(), ErrorKind::CardinalityViolation);
}

#[test]
fn correlated_by_inequalities() {
    const X: &str = "(VALUES (1, 10), (2, 20), (3, 30)) AS x(id, b)";
    const Y: &str = "(VALUES (1, 5), (2, 15), (3, 25)) AS y(id, b)";
    let count = format!("SELECT x.id, (SELECT count(*) FROM {Y} WHERE y.b < x.b) FROM {X} ORDER BY x.id");
    let most = format!("SELECT x.id FROM {X} WHERE x.id = (SELECT max(y.id) FROM {Y} WHERE y.b < x.b) ORDER BY x.id");
    check(&[(&count, "1|1, 2|2, 3|3"), (&most, "1, 2, 3")]);
}

#[test]
fn merged_columns_of_full_joins() {
    const L: &str = "(VALUES (1, 10), (2, 20)) AS l(k, id)";
    const R: &str = "(VALUES (2, 200), (3, 300)) AS r(k, id)";
    let joined = format!("(SELECT k, id AS lid FROM {L}) AS a FULL JOIN (SELECT k, id AS rid FROM {R}) AS b USING (k)");
    let unmatched = format!("SELECT k, a.k, b.k FROM {joined} WHERE a.k IS NULL AND b.k IS NOT NULL ORDER BY b.k");
    check(&[(&unmatched, "3|NULL|3"), ("SELECT NULL AS v UNION ALL SELECT 'x' ORDER BY v", "x, NULL")]);
}

#[test]
fn several_correlated_subqueries() {
    const X: &str = "(VALUES (1, NULL, 1), (2, NULL, NULL), (3, 3, NULL), (4, 4, 4), (5, 3, 7)) AS x(id, a, b)";
    const Y: &str = "(VALUES (1, NULL, 1), (2, NULL, NULL), (3, 3, NULL), (4, 4, 4), (5, 7, 1)) AS y(id, a, b)";
    let least = format!("x.id >= (SELECT min(y.id) FROM {Y} WHERE y.b <> x.b)");
    let count = format!("(SELECT count(*) FROM {Y} WHERE y.b > x.b)");
    let most = format!("(SELECT max(y.id) FROM {Y} WHERE y.a < x.a)");
    check(&[
        (&format!("SELECT x.id FROM {X} WHERE {least} ORDER BY x.id"), "4, 5"),
        (&format!("SELECT x.id, {most} FROM {X} ORDER BY x.id"), "1|NULL, 2|NULL, 3|NULL, 4|3, 5|NULL"),
        (&format!("SELECT x.id, {most} FROM {X} WHERE {least} ORDER BY x.id"), "4|3, 5|NULL"),
        (&format!("SELECT x.id, {count} FROM {X} WHERE {least} ORDER BY x.id"), "4|0, 5|0"),
        (&format!("SELECT x.id, {count}, {most} FROM {X} WHERE {least} ORDER BY x.id"), "4|0|3, 5|0|NULL"),
    ]);
}

#[test]
fn ties_of_the_last_row_are_given_too() {
    let rows = "FROM (VALUES (1, 'a'), (2, 'b'), (2, 'c'), (3, 'd'), (3, 'e'), (4, 'f')) v(n, t)";
    let text = |clause: &str| format!("SELECT t {rows} ORDER BY n {clause}");
    let cases = [
        ("FETCH FIRST 2 ROWS WITH TIES", 3),
        ("FETCH FIRST 1 ROW WITH TIES", 1),
        ("FETCH FIRST 3 ROWS ONLY", 3),
        ("OFFSET 1 FETCH FIRST 3 ROWS WITH TIES", 4),
        ("OFFSET 2 FETCH NEXT 1 ROW WITH TIES", 1),
        ("FETCH FIRST 0 ROWS WITH TIES", 0),
        ("FETCH FIRST 100 ROWS WITH TIES", 6),
    ];
    for (clause, expected) in cases {
        assert_eq!(run(&text(clause), 1, 1024).expect("rows").len(), expected, "{clause}");
    }
    let sorted = format!("SELECT n AS m {rows} ORDER BY n DESC FETCH FIRST 2 ROWS WITH TIES");
    assert_eq!(run(&sorted, 1, 1024).expect("rows"), ["4", "3", "3"]);
    let error = run(&format!("SELECT n {rows} FETCH FIRST 1 ROW WITH TIES"), 1, 1024).expect_err("no order");
    assert!(error.to_string().contains("WITH TIES needs an ORDER BY"), "{error}");
}
