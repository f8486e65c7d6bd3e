//! Queries over stored tables.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use rowmill_base::SqlType;
use rowmill_sql::{Session, query_threads};

use crate::support::{engine, rows, run, small, sorted, table};

#[test]
fn filters_select_rows_in_the_scan_and_above_it() {
    let (_, mut session) = small();
    assert_eq!(sorted(&mut session, "SELECT a FROM t WHERE a > 1 AND \"b b\" <> 'x'"), ["2", "2"]);
    assert_eq!(sorted(&mut session, "SELECT a FROM t WHERE a IN (1, 3)"), ["1", "3"]);
    assert_eq!(sorted(&mut session, "SELECT a FROM t WHERE a NOT IN (1, 3)"), ["2", "2"]);
    assert_eq!(sorted(&mut session, "SELECT a FROM t WHERE a IS NULL OR a BETWEEN 3 AND 9"), ["3", "NULL"]);
    assert_eq!(sorted(&mut session, "SELECT a FROM t WHERE \"b b\" LIKE '_' AND NOT a = 2"), ["1", "3"]);
    assert_eq!(sorted(&mut session, "SELECT a FROM t WHERE a + 1 = 3"), ["2", "2"]);
    assert_eq!(sorted(&mut session, "SELECT count(*) FROM t WHERE a < 0"), ["0"]);
}

#[test]
fn counts_need_no_columns() {
    let (_, mut session) = small();
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t"), ["count(*)", "5"]);
    assert_eq!(rows(&mut session, "SELECT count(a) FROM t"), ["count(A)", "4"]);
    assert_eq!(rows(&mut session, "SELECT 1 AS one FROM t LIMIT 2"), ["one", "1", "1"]);
}

#[test]
fn a_table_may_be_read_several_times_in_one_statement() {
    let (_, mut session) = small();
    assert_eq!(sorted(&mut session, "SELECT l.a FROM t l JOIN t r ON l.a = r.a"), ["1", "2", "2", "2", "2", "3"]);
    let recursive = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r, t WHERE t.a = r.n) \
                     SELECT n FROM r";
    assert_eq!(sorted(&mut session, recursive), ["1", "2", "3", "3", "4", "4"]);
}

#[test]
fn many_batches_arrive_whole() {
    let engine = engine();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..100_000).map(|n| format!("text number {n}"))));
    table(&engine, "big", vec![("n", SqlType::Int64, numbers), ("s", SqlType::TEXT, texts)]);
    let mut session = Session::new(engine, query_threads()).unwrap();
    assert_eq!(rows(&mut session, "SELECT n FROM big").len(), 100_001);
    assert_eq!(
        rows(&mut session, "SELECT count(*), sum(n), max(s) FROM big")[1],
        "100000|4999950000|text number 99999"
    );
    assert_eq!(rows(&mut session, "SELECT s FROM big ORDER BY n DESC LIMIT 1")[1], "text number 99999");
    for threads in [1, 4] {
        run(&mut session, &format!("SET threads = {threads}")).unwrap();
        run(&mut session, "SET batch_rows = 7").unwrap();
        assert_eq!(rows(&mut session, "SELECT count(DISTINCT n % 10) FROM big")[1], "10");
    }
}

#[test]
fn a_dropped_result_leaves_the_session_usable() {
    let (_, mut session) = small();
    drop(run(&mut session, "SELECT * FROM t").unwrap());
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t")[1], "5");
}

#[test]
fn parameters_take_values() {
    use rowmill_sql::{Constant, Outcome};
    let (_, mut session) = small();
    let statement = session.parse("SELECT a FROM t WHERE a = ? OR \"b b\" = ?").unwrap().remove(0);
    assert_eq!(statement.parameter_count(), 2);
    let values = [Constant::from(3_i64), Constant::from("z")];
    let outcome = session.run_in_engine(&statement, &values).unwrap();
    assert!(matches!(outcome, Outcome::Rows(_)));
    let mut found = crate::support::text(outcome);
    found.sort();
    assert_eq!(found, ["2", "3", "A"]);
    assert!(session.run_in_engine(&statement, &values[..1]).is_err());
}

#[test]
fn duckdb_forms_are_read() {
    let (_, mut session) = small();
    assert_eq!(rows(&mut session, "FROM t SELECT a WHERE a = 1"), ["A", "1"]);
    assert_eq!(rows(&mut session, "SELECT * EXCLUDE (a) FROM t WHERE a = 1"), ["B b", "x"]);
    assert_eq!(rows(&mut session, "SELECT a, count(*) FROM t GROUP BY ALL ORDER BY a LIMIT 1"), ["A|count(*)", "1|1"]);
    assert_eq!(sorted(&mut session, "SELECT * FROM unnest([1, 2])"), ["1", "2"]);
}

#[test]
fn the_catalog_is_readable_as_tables() {
    let (_, mut session) = small();
    assert_eq!(
        rows(
            &mut session,
            "SELECT table_name, column_name, data_type, ordinal_position FROM information_schema.columns"
        ),
        ["table_name|column_name|data_type|ordinal_position", "T|A|INTEGER|1", "T|B b|TEXT|2"]
    );
    assert_eq!(
        rows(&mut session, "SELECT table_name, table_rows FROM information_schema.tables WHERE table_schema = 'main'")
            [1],
        "T|5"
    );
    assert_eq!(rows(&mut session, "SELECT * FROM rowmill.main.t WHERE a = 1")[1], "1|x");
    let storage = rows(&mut session, "SELECT * FROM rowmill_storage('T')");
    assert!(storage[1].starts_with("A|INTEGER|"), "{storage:?}");
}
