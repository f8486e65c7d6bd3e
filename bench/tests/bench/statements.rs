//! Runs the statements of applications on small tables. Both engines must give the same rows.

use rowmill_bench::statements::{Options, run};

#[test]
fn both_engines_give_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        dir: Some(folder.path().to_owned()),
        no_load: false,
        users: 300,
        orders: 2_000,
        runs: 2,
        budget_ms: 5,
        only: None,
        explain: true,
        seed: 1,
        out: None,
        rows: false,
        tiny: true,
    };
    let report = run(&options, &|_| {}, &|_| {}).unwrap();
    assert!(report.verdict().is_ok(), "{}", report.text().unwrap());
    assert!(report.lines.len() > 100 && report.median().is_some());
    assert_eq!(report.json()["measured"], report.lines.len());
}
