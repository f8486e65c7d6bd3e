//! `EXPLAIN`.

use std::sync::Arc;

use arrow::array::NullArray;
use rowmill_base::ErrorKind;
use rowmill_sql::Constant;

use crate::support::{error_kind, rows, run, small, text};

#[test]
fn a_plan_is_a_tree_with_estimates() {
    let (_, mut session) = small();
    let plan = rows(&mut session, "EXPLAIN SELECT a, count(*) AS c FROM t WHERE a > 1 GROUP BY a ORDER BY c DESC");
    assert_eq!(plan[..2], ["plan", "Executor: engine"]);
    let at = |word: &str| plan.iter().position(|line| line.contains(word)).unwrap();
    assert!(at("Sort: by [count(*) DESC]") < at("Group: by [A], count(*)"), "{plan:#?}");
    assert!(at("Group: by [A], count(*)") < at("Scan: T, columns [A], where A > 1"), "{plan:#?}");
    assert!(plan[2..].iter().all(|line| line.ends_with(" rows)") && line.contains("(~")), "{plan:#?}");
    let computed = rows(&mut session, "EXPLAIN SELECT a + 1, sum(a * 2), corr(a, a) FROM t WHERE a > 1 GROUP BY 1");
    let scan = computed.iter().find(|line| line.contains("Scan: T")).unwrap();
    assert!(scan.contains("where A > 1"), "{computed:#?}");
    assert!(
        !plan[2..].iter().any(|line| line.contains("Exec") || line.contains("Int64") || line.contains('@')),
        "{plan:#?}"
    );
}

#[test]
fn an_analysed_plan_counts_rows() {
    let (_, mut session) = small();
    let plan = rows(&mut session, "EXPLAIN ANALYZE SELECT * FROM t WHERE a > 1");
    assert!(plan[1].starts_with("3 rows, planned in "), "{plan:#?}");
    let scan = plan.iter().find(|line| line.contains("Scan: T")).unwrap();
    assert!(scan.contains("(3 of ~") && scan.contains(" 1 thread,") && scan.contains(" rows read,"), "{plan:#?}");
    let grouped = rows(&mut session, "EXPLAIN ANALYZE SELECT a, count(*) FROM t GROUP BY a");
    let group = grouped.iter().find(|line| line.contains("Group:")).unwrap();
    assert!(group.contains(" bytes granted") && !group.contains("allocations"), "allocations are off: {grouped:#?}");
    assert_eq!(rows(&mut session, "EXPLAIN (ANALYZE) SELECT 1")[0], "plan");
}

#[test]
fn a_statement_that_runs_as_a_program_shows_its_steps() {
    let (_, mut session) = small();
    for sql in [
        "CREATE TABLE \"Stock\" (item INTEGER PRIMARY KEY, \"Shelf\" TEXT, pieces BIGINT)",
        "CREATE INDEX by_shelf ON stock (shelf)",
    ] {
        run(&mut session, sql).unwrap();
    }
    let sql = "EXPLAIN SELECT pieces FROM stock WHERE shelf = $1";
    let statement = session.parse(sql).unwrap().remove(0);
    let plan = text(session.run_in_engine(&statement, &[Constant::from("A")]).unwrap());
    let by_shelf = ["plan", "Executor: program", "Read Stock by index by_shelf: Shelf = $1", "Give 0.pieces"];
    assert_eq!(plan, by_shelf);
    let null = Constant::new(Arc::new(NullArray::new(1)));
    let plan = text(session.run_in_engine(&statement, &[null]).unwrap());
    assert!(plan.iter().all(|line| !line.contains("$1")), "a NULL is a literal: {plan:#?}");
    // Both executors refuse the same statements.
    assert_eq!(error_kind(&mut session, "EXPLAIN DELETE FROM nope WHERE item = 1"), ErrorKind::UndefinedTable);
    assert_eq!(error_kind(&mut session, "EXPLAIN ANALYZE DELETE FROM stock WHERE item = 1"), ErrorKind::Unsupported);
    // The engine runs a change of a columnar table.
    let plan = rows(&mut session, "EXPLAIN DELETE FROM t WHERE a = 1");
    assert_eq!(plan[1..3], ["Executor: engine", "Delete from T"]);
}

#[test]
fn explain_refuses_other_forms_and_describe_shows_columns() {
    let (_, mut session) = small();
    assert_eq!(error_kind(&mut session, "EXPLAIN VERBOSE SELECT 1"), ErrorKind::Unsupported);
    assert_eq!(error_kind(&mut session, "EXPLAIN DROP TABLE t"), ErrorKind::Unsupported);
    assert_eq!(
        rows(&mut session, "DESCRIBE SELECT a, \"b b\" FROM t"),
        ["column_name|column_type|null|default", "A|INTEGER|YES|NULL", "B b|TEXT|YES|NULL"]
    );
}

#[test]
fn keys_decide_the_order_of_joins() {
    let (_, mut session) = small();
    for sql in [
        "CREATE TABLE customer (w INTEGER, d INTEGER, c INTEGER, PRIMARY KEY (w, d, c))",
        "CREATE TABLE orders (w INTEGER, d INTEGER, o INTEGER, c INTEGER, PRIMARY KEY (w, d, o))",
        "CREATE TABLE line (w INTEGER, d INTEGER, o INTEGER, n INTEGER, PRIMARY KEY (w, d, o, n))",
        "INSERT INTO customer SELECT 1, value % 2, value FROM generate_series(1, 300)",
        "INSERT INTO orders SELECT 1, value % 2, value, value FROM generate_series(1, 400)",
        "INSERT INTO line SELECT 1, value % 2, value % 400, value FROM generate_series(1, 4000)",
    ] {
        run(&mut session, sql).unwrap();
    }
    // EXPLAIN alone would show a program, which reads so few rows. EXPLAIN ANALYZE always shows the engine's plan.
    let sql = "EXPLAIN ANALYZE SELECT count(*) FROM customer AS c, orders AS o, line AS l \
               WHERE o.w = c.w AND o.d = c.d AND o.c = c.c AND l.w = o.w AND l.d = o.d AND l.o = o.o";
    let plan = rows(&mut session, sql);
    let joins: Vec<usize> =
        plan.iter().filter(|line| line.contains("Hash join")).map(|line| line.matches(" = ").count()).collect();
    // If customers met lines before orders, each customer would meet all lines of its district.
    assert_eq!(joins, [3, 3], "{plan:#?}");
}
