//! Appenders: transactions, defaults, constraints, and errors that name the row.

use std::sync::Arc;

use rowmill::arrow::array::{Float64Array, Int64Array, RecordBatch};
use rowmill::{Connection, ErrorKind, Result, Value, params};

fn opened(definitions: &str) -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(definitions).unwrap();
    connection
}

fn count(connection: &mut Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap()
}

#[test]
fn rows_belong_to_the_open_transaction() -> Result<()> {
    let mut connection = opened("CREATE TABLE t (n BIGINT, s TEXT)");
    let mut transaction = connection.transaction()?;
    transaction.execute("INSERT INTO t VALUES (?, ?)", (0, "waits"))?;
    let mut appender = transaction.appender("t")?;
    appender.append_rows((1..30_000).map(|n| (n, "x")))?;
    assert_eq!(appender.finish()?, 29_999);
    assert_eq!(count(&mut transaction), 30_000);
    // An appender that is dropped discards only its own rows.
    let mut appender = transaction.appender("main.t")?;
    appender.append_rows((0..30_000).map(|n| (n, "y")))?;
    drop(appender);
    assert_eq!(count(&mut transaction), 30_000);
    drop(transaction);
    assert_eq!(count(&mut connection), 0);
    let mut appender = connection.appender("t")?;
    appender.append_row((1, "z"))?;
    drop(appender);
    assert_eq!(count(&mut connection), 0);
    connection.transaction()?.commit()
}

#[test]
fn columns_that_are_left_out_get_their_defaults() -> Result<()> {
    let mut connection = opened(
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT NOT NULL,
            made TIMESTAMP NOT NULL DEFAULT now(), tags TEXT[] DEFAULT ['new'])",
    );
    assert_eq!(connection.appender("t").unwrap_err().kind(), ErrorKind::GeneratedAlways);
    assert_eq!(connection.appender_for("t", &["nam"]).unwrap_err().kind(), ErrorKind::UndefinedColumn);
    let mut appender = connection.appender_for("t", &["NAME"])?;
    appender.append_rows(["a", "b"].map(|name| [name]))?;
    assert_eq!(appender.finish()?, 2);
    let mut appender = connection.appender_for("t", &["tags", "name"])?;
    appender.append_row((vec!["x", "y"], "c"))?;
    appender.finish()?;
    let rows: Vec<(i64, String, Vec<String>)> =
        connection.query_as("SELECT id, name, tags FROM t WHERE made > TIMESTAMP '2020-01-01' ORDER BY id", ())?;
    assert_eq!(rows[1], (2, "b".to_owned(), vec!["new".to_owned()]));
    assert_eq!(rows[2], (3, "c".to_owned(), vec!["x".to_owned(), "y".to_owned()]));
    Ok(())
}

#[test]
fn every_type_is_appended() -> Result<()> {
    let mut connection = opened(
        "CREATE TABLE t (b BOOLEAN, i TINYINT, u UBIGINT, r REAL, d DOUBLE, n DECIMAL(9, 2), w DECIMAL(60, 1), day DATE,
            t TIME, ts TIMESTAMP, s TIMESTAMP(0), tz TIMESTAMP WITH TIME ZONE, iv INTERVAL, x TEXT, v VARCHAR(2),
            y BLOB, id UUID, ip IPV6, l BIGINT[], st STRUCT(a INT))",
    );
    let row = params![
        true,
        -5,
        u64::MAX,
        0.5,
        1e300,
        "1.25",
        "12345678901234567890123456789012345678901.5",
        "2024-02-29",
        "12:30:00",
        "2024-02-29 12:30:00.5",
        "2024-02-29 12:30:00",
        "2024-02-29 12:30:00+01",
        "1 day",
        7,
        "ab",
        [0_u8, 255],
        "550e8400-e29b-41d4-a716-446655440000",
        "::1",
        vec![1, 2],
        "{\"a\": 1}"
    ];
    let mut appender = connection.appender("t")?;
    appender.append_row(row)?;
    appender.row(&vec![Value::Null; 20])?;
    appender.finish()?;
    let texts: Vec<String> = {
        let row = connection.query_one("SELECT * FROM t WHERE b", ())?;
        (0..row.len()).map(|column| row.get(column)).collect::<Result<_>>()?
    };
    let expected = "true|-5|18446744073709551615|0.5|1e300|1.25|12345678901234567890123456789012345678901.5|2024-02-29|\
        12:30:00|2024-02-29 12:30:00.5|2024-02-29 12:30:00|2024-02-29 11:30:00+00|1 day|7|ab|\\x00ff|\
        550e8400-e29b-41d4-a716-446655440000|::1|[1, 2]|{\"a\": 1}";
    assert_eq!(texts.join("|"), expected);
    assert_eq!(connection.query_as::<i64>("SELECT count(*) FROM t WHERE ip IS NULL AND l IS NULL", ())?, [1]);
    Ok(())
}

#[test]
fn an_error_names_the_row() -> Result<()> {
    let mut connection = opened("CREATE TABLE t (k BIGINT PRIMARY KEY, n SMALLINT NOT NULL CHECK (n > 0))");
    let mut appender = connection.appender("t")?;
    appender.append_row((0, 1))?;
    // Such a row is not appended, and the appender goes on.
    let refused = [
        (appender.append_row((1, 70_000)).unwrap_err(), "SMALLINT"),
        (appender.append_row((1, 1.5)).unwrap_err(), "\"n\""),
        (appender.append_row((1, None::<i64>)).unwrap_err(), "NOT NULL"),
        (appender.append_row((1, 2, 3)).unwrap_err(), "2 columns here, but 3 values"),
        (appender.append_row((1,)).unwrap_err(), "2 columns here, but 1 values"),
    ];
    for (error, wanted) in refused {
        assert!(error.message().starts_with("row 1 of table \"t\"") && error.message().contains(wanted), "{error}");
    }
    appender.append_rows((1..1000).map(|n| (n, 1)))?;
    assert_eq!(appender.finish()?, 1000);
    for (first, kind) in [((1500, -1), ErrorKind::CheckViolation), ((7, 1), ErrorKind::UniqueViolation)] {
        let mut appender = connection.appender("t")?;
        appender.append_rows((2000..2500).map(|n| (n, 1)))?;
        appender.append_row(first)?;
        appender.append_rows((3000..3500).map(|n| (n, 1)))?;
        let error = appender.flush().unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.message().starts_with("row 500: "), "{error}");
        assert_eq!(appender.finish().unwrap_err().kind(), ErrorKind::FailedTransaction);
        assert_eq!(count(&mut connection), 1000);
    }
    Ok(())
}

#[test]
fn rules_of_columnar_tables_hold_for_appended_rows_and_prepared_inserts() -> Result<()> {
    let mut connection = opened("CREATE TABLE t (id SERIAL, n SMALLINT CHECK (n > 0))");
    let mut appender = connection.appender_for("t", &["n"])?;
    appender.append_rows((1..=300).map(|n| [n]))?;
    assert_eq!(appender.finish()?, 300);
    let mut appender = connection.appender_for("t", &["n"])?;
    appender.append_rows([[1], [0]])?;
    let error = appender.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CheckViolation);
    assert!(error.message().starts_with("row 1: "), "{error}");
    drop(appender);
    let insert = connection.prepare("INSERT INTO t (n) VALUES (?)")?;
    let mut transaction = connection.transaction()?;
    insert.execute(&mut transaction, (7,)).expect("inserted");
    assert_eq!(insert.execute(&mut transaction, (-7,)).unwrap_err().kind(), ErrorKind::CheckViolation);
    transaction.commit()?;
    assert_eq!(count(&mut connection), 301);
    let distinct: i64 = connection.query_row("SELECT count(DISTINCT id) FROM t", (), |row| row.get(0))?;
    assert_eq!(distinct, 301);
    Ok(())
}

#[test]
fn batches_are_converted_only_without_loss() -> Result<()> {
    let mut connection = opened("CREATE TABLE t (n BIGINT)");
    let batch =
        |values: Vec<f64>| RecordBatch::try_from_iter([("n", Arc::new(Float64Array::from(values)) as _)]).unwrap();
    let mut appender = connection.appender("t")?;
    appender.batch(&batch(vec![1.0, 2.0]))?;
    let error = appender.batch(&batch(vec![1.0, 2.5])).unwrap_err();
    assert!(error.message().contains("row 1") && error.message().contains("2.5"), "{error}");
    appender.append_row([3])?;
    assert_eq!(appender.finish()?, 3);
    let two = Arc::new(Int64Array::from(vec![1]));
    let two = RecordBatch::try_from_iter([("a", Arc::clone(&two) as _), ("b", two as _)]).unwrap();
    assert!(connection.appender("t")?.batch(&two).is_err());
    assert!(connection.appender("missing").is_err() && connection.appender("no.t").is_err());
    Ok(())
}
