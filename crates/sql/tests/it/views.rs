//! Views.

use std::sync::Arc;

use rowmill_base::ErrorKind;
use rowmill_sql::Session;
use rowmill_txn::Engine;

use crate::support::{error, main_schema, rows, small};

fn view(engine: &Arc<Engine>, name: &str, sql: &str, columns: &[&str]) {
    let mut transaction = engine.begin().unwrap();
    let columns = columns.iter().map(ToString::to_string).collect();
    transaction.create_view(main_schema(engine), name, sql, columns, true).unwrap();
    transaction.commit().unwrap();
}

fn setup() -> (Arc<Engine>, Session) {
    small()
}

#[test]
fn a_view_is_a_query_with_spelled_columns() {
    let (engine, mut session) = setup();
    view(&engine, "V", "SELECT a, COUNT(*) AS Howmany FROM t GROUP BY a", &[]);
    assert_eq!(rows(&mut session, "SELECT * FROM v WHERE howmany = 2"), ["A|Howmany", "2|2"]);
    view(&engine, "W", "SELECT a, COUNT(*) FROM v GROUP BY a", &["First"]);
    assert_eq!(rows(&mut session, "SELECT first FROM w WHERE first = 1"), ["First", "1"]);
    assert_eq!(rows(&mut session, "SELECT * FROM w WHERE first = 1")[0], "First|count(*)");
}

#[test]
fn a_view_that_reads_itself_is_an_error() {
    let (engine, mut session) = setup();
    view(&engine, "v", "SELECT * FROM w", &[]);
    view(&engine, "w", "SELECT * FROM v", &[]);
    let error = error(&mut session, "SELECT * FROM v");
    assert_eq!(error.kind(), ErrorKind::InvalidDefinition, "{error:?}");
    view(&engine, "w", "SELECT 1", &[]);
    assert_eq!(rows(&mut session, "SELECT * FROM v")[1], "1");
}

#[test]
fn the_error_of_a_view_over_a_missing_table_names_both() {
    let (engine, mut session) = setup();
    view(&engine, "v", "SELECT * FROM gone", &[]);
    let error = error(&mut session, "SELECT * FROM v");
    assert_eq!(error.kind(), ErrorKind::UndefinedTable, "{error:?}");
    assert!(error.message().contains("\"v\"") && error.message().contains("gone"), "{error:?}");
}
