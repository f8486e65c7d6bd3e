//! Refused statements: clauses that we do not execute, and statements that are too large.

use rowmill_base::ErrorKind;

use crate::support::{error, error_kind, rows, run, small};

#[test]
fn clauses_that_are_not_executed_are_refused() {
    let (_, mut session) = small();
    for sql in [
        "SELECT * FROM t FOR UPDATE",
        "SELECT a FROM t GROUP BY a WITH ROLLUP",
        "SELECT * FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (1)",
        "SELECT * INTO u FROM t",
        "SELECT a FROM t ORDER BY a FETCH FIRST 1 PERCENT ROWS ONLY",
        "SELECT quantile(0.5)(a) FROM t",
        "SELECT * FROM (SELECT a FROM t FOR SHARE) s",
    ] {
        let error = error(&mut session, sql);
        assert!(matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Syntax), "{sql}: {error:?}");
    }
    assert_eq!(rows(&mut session, "SELECT a FROM t ORDER BY a FETCH FIRST 1 ROW ONLY"), ["A", "1"]);
}

#[test]
fn statements_of_other_systems_are_refused_by_name() {
    let (_, mut session) = small();
    for (sql, name) in [("LISTEN x", "LISTEN"), ("CALL f()", "CALL")] {
        let error = error(&mut session, sql);
        assert!(error.message().contains(name), "{sql}: {error:?}");
    }
}

#[test]
fn deep_and_long_statements_are_answered_or_refused() {
    let (_, mut session) = small();
    let sum = |terms: usize| format!("SELECT {}", vec!["1"; terms].join(" + "));
    assert_eq!(rows(&mut session, &sum(250))[1], "250");
    assert_eq!(error_kind(&mut session, &sum(2_000)), ErrorKind::StatementTooComplex);
    let all = format!("SELECT count(*) FROM t WHERE {}", vec!["a > 0"; 3_000].join(" AND "));
    assert_eq!(rows(&mut session, &all)[1], "4");
    let list = format!("SELECT count(*) FROM t WHERE a IN ({})", vec!["1"; 20_000].join(", "));
    assert_eq!(rows(&mut session, &list)[1], "1");
    let nested = format!("SELECT {}1{}", "(".repeat(250), ")".repeat(250));
    assert_eq!(rows(&mut session, &nested)[1], "1");
    run(&mut session, "SET statement_length_max_bytes = 100").unwrap();
    assert_eq!(error_kind(&mut session, &sum(200)), ErrorKind::StatementTooComplex);
}

#[test]
fn a_small_stack_is_enough() {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(|| {
        let (_, mut session) = small();
        let sum = format!("SELECT {}", vec!["a"; 250].join(" + ")) + " FROM t LIMIT 1";
        rows(&mut session, &sum).len()
    });
    assert_eq!(thread.unwrap().join().unwrap(), 2);
}

#[test]
fn an_endless_recursion_is_an_error() {
    let (_, mut session) = small();
    run(&mut session, "SET recursion_max = 50").unwrap();
    let sql = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT count(*) FROM r";
    assert_eq!(error_kind(&mut session, sql), ErrorKind::ResultTooLarge);
}
