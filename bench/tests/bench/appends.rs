//! The measurement of appended rows, tiny.

use rowmill_bench::appends;

#[test]
fn every_way_in_is_measured() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = appends::run(&folder.path().join("db"), 20_000, 1).expect("measured");
    assert_eq!(report.len(), 4);
    assert!(report.values().all(|rate| rate.as_f64().is_some_and(|rate| rate > 0.0)), "{report:?}");
}
