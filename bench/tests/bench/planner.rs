//! Tests the estimates and planning times of queries on a small database.

use rowmill::Database;
use rowmill_bench::{estimates, planning};

#[test]
fn reports_have_estimates_of_joins_and_groupings_and_planning_times() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path()).unwrap();
    let mut connection = database.connect().unwrap();
    connection.execute_batch("CREATE TABLE a AS SELECT i, i % 10 AS k FROM generate_series(1, 1000) AS g(i)").unwrap();
    connection.execute_batch("CREATE TABLE b AS SELECT i, i % 10 AS k FROM generate_series(1, 100) AS g(i)").unwrap();
    drop((connection, database));
    let queries = [
        "SELECT a.k, count(*) FROM a JOIN b ON b.i = a.i GROUP BY a.k".to_owned(),
        "SELECT count(*) FROM a WHERE k = 3".to_owned(),
        "SELECT nothing FROM a".to_owned(),
    ];
    let report = estimates::run(folder.path(), &queries, || {}).unwrap();
    let text = report.text().unwrap();
    assert!(report.operators.len() >= 2 && report.unknown.is_empty() && report.failed.len() == 1, "{text}");
    assert!(
        report.operators.iter().any(|operator| operator.text.contains("join") && operator.measured == 100.0),
        "{text}"
    );
    assert!(report.operators.iter().all(|operator| operator.q_error() < 20.0), "{text}");

    let planned = planning::run(folder.path(), &queries[..2], || {}).unwrap();
    assert!(planned.verdict().is_ok(), "{}", planned.text().unwrap());
    assert!(planned.queries.len() == 2 && planned.generated.len() == 8);
    let wrong = planning::run(folder.path(), &queries, || {}).unwrap();
    assert!(wrong.verdict().is_err());
}
