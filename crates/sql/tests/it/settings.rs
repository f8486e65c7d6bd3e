//! `SET`, `SHOW` and `RESET`.

use rowmill_base::ErrorKind;
use rowmill_sql::{Session, query_threads};

use crate::support::{error_kind, rows, run, small};

#[test]
fn values_are_set_shown_and_reset() {
    let (engine, mut session) = small();
    run(&mut session, "SET batch_rows = 100").unwrap();
    assert_eq!(rows(&mut session, "SHOW Batch_Rows"), ["batch_rows", "100"]);
    run(&mut session, "RESET batch_rows").unwrap();
    assert_eq!(rows(&mut session, "SHOW batch_rows")[1], "8192");
    run(&mut session, "SET memory_limit TO '2GB'").unwrap();
    let mut other = Session::new(engine, query_threads()).unwrap();
    assert_eq!(rows(&mut other, "SHOW memory_limit")[1], "2000000000");
    run(&mut other, "SET memory_limit = '3GB'").unwrap();
    assert_eq!(rows(&mut session, "SHOW memory_limit")[1], "3000000000");
    assert!(rows(&mut session, "SHOW ALL").len() > 5);
    assert_eq!(error_kind(&mut session, "SET batch_size = 1"), ErrorKind::UndefinedObject);
    assert_eq!(error_kind(&mut session, "SET batch_rows = 'x'"), ErrorKind::InvalidParameter);
    assert_eq!(error_kind(&mut session, "SHOW nothing"), ErrorKind::UndefinedObject);
}
