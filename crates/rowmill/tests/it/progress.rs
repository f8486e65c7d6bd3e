//! The progress of statements, as a host program sees it.

use std::sync::{Arc, Mutex};

use rowmill::{Connection, Database, Progress};

/// A machine that runs the largest of these in less than half a second is faster than all that we know.
const ROWS: [u64; 7] = [100_000, 200_000, 400_000, 800_000, 1_600_000, 6_400_000, 12_800_000];

/// Runs a query and returns the reports of its progress.
fn reports(connection: &mut Connection, sql: &str) -> Vec<Progress> {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&reports);
    connection.set_progress(Some(Arc::new(move |progress| sink.lock().expect("no panic").push(progress))));
    for batch in connection.query(sql).expect("a query") {
        batch.expect("rows");
    }
    connection.set_progress(None);
    let reports = reports.lock().expect("no panic");
    reports.clone()
}

#[test]
fn the_share_grows_with_the_work_of_joins_and_sorts() {
    let mut connection = Database::memory().expect("a database").connect().expect("connected");
    connection.execute_batch("CREATE TABLE t (a BIGINT, b TEXT)").expect("made");
    let mut rows_before = 0;
    for rows in ROWS {
        let sql = format!(
            "INSERT INTO t SELECT value, 'text ' || value % 1000 FROM generate_series({rows_before}, {rows} - 1)"
        );
        connection.execute_batch(&sql).expect("filled");
        rows_before = rows;
        let sql = "SELECT x.a, y.b FROM t AS x JOIN t AS y ON x.a = y.a ORDER BY y.b DESC, x.a";
        let reports = reports(&mut connection, sql);
        if reports.len() < 5 {
            continue;
        }
        let shares: Vec<f64> = reports.iter().filter_map(|report| report.share).collect();
        assert!(shares.len() >= 4, "{reports:?}");
        assert!(shares.is_sorted(), "{shares:?}");
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
        assert!(shares.last() > shares.first(), "{shares:?}");
        assert!(reports.iter().any(|report| report.memory_bytes > 0), "{reports:?}");
        return;
    }
}
