//! Behaviour of the library that the examples in its documentation do not show.

use std::time::{Duration, Instant};

use rowmill::{Connection, Database, ErrorKind};

#[test]
fn a_statement_sees_one_state_and_readers_do_not_wait() {
    let database = Database::memory().expect("opens");
    let mut writer = database.connect().expect("connects");
    let mut reader = database.connect().expect("connects");
    writer.execute_batch("CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (1), (2)").expect("filled");
    writer.execute_batch("BEGIN; INSERT INTO t VALUES (3)").expect("open");
    let count = |connection: &mut rowmill::Connection| -> i64 {
        connection.query("SELECT count(*) FROM t").and_then(|rows| rows.rows()).expect("counted")[0]
            .get(0)
            .expect("a count")
    };
    assert_eq!((count(&mut writer), count(&mut reader)), (3, 2));
    writer.execute_batch("COMMIT").expect("committed");
    assert_eq!(count(&mut reader), 3);
}

#[test]
fn a_cancelled_statement_ends_at_once_and_the_next_one_runs() {
    let database = Database::memory().expect("opens");
    let mut connection = database.connect().expect("connects");
    let handle = connection.cancel_handle();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        handle.cancel();
        Instant::now()
    });
    let sql =
        "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a.value + b.value = 7";
    let error = connection.query(sql).and_then(|rows| rows.rows()).expect_err("it would run for hours");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let cancelled = canceller.join().expect("the canceller ran");
    assert!(cancelled.elapsed() < Duration::from_secs(2), "{:?}", cancelled.elapsed());
    assert_eq!(connection.query("SELECT 1").and_then(|rows| rows.rows()).expect("runs").len(), 1);
}

#[test]
fn an_appender_reads_the_texts_of_uuids() {
    let database = Database::memory().expect("opens");
    let mut connection = database.connect().expect("connects");
    connection.execute_batch("CREATE TABLE t (id UUID)").expect("created");
    let id = "550e8400-e29b-41d4-a716-446655440000";
    let mut appender = connection.appender("t").expect("an appender");
    appender.row(&[id.into()]).expect("appended");
    assert_eq!(appender.finish().expect("committed"), 1);
    let rows = connection.query("SELECT CAST(id AS TEXT) FROM t").and_then(|rows| rows.rows()).expect("an answer");
    assert_eq!(rows[0].get::<String>(0).expect("a text"), id);
    let mut appender = connection.appender("t").expect("an appender");
    let error = appender.row(&["550e".into()]).expect_err("not a UUID");
    assert!(error.message().contains("row 0") && error.message().contains("'550e'"), "{error:?}");
}

#[test]
fn a_parameter_takes_the_type_of_its_value() {
    let mut connection = Connection::open_in_memory().expect("opens");
    let day = chrono::NaiveDate::from_ymd_opt(2024, 2, 29).expect("a day");
    let mut run = |sql: &str, params: &[&dyn rowmill::ToParam]| -> String {
        let statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        statement.query_row(&mut connection, params, |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    assert_eq!(run("SELECT abs(?)", &[&-1.5]), "1.5");
    assert_eq!(run("SELECT ? || ?", &[&"a", &"b"]), "ab");
    assert_eq!(run("SELECT ? + ?", &[&1, &2]), "3");
    assert_eq!(run("SELECT length(?)", &[&"four"]), "4");
    assert_eq!(run("SELECT date_trunc('month', ?)", &[&day]), "2024-02-01 00:00:00");
    assert_eq!(run("SELECT sum(value * ?) FROM generate_series(1, 3)", &[&2]), "12");
    assert_eq!(run("SELECT array_length(?)", &[&vec![1, 2]]), "2");
    assert_eq!(run("SELECT CASE WHEN ? THEN ? ELSE ? END", &[&true, &1, &2]), "1");
}

#[test]
fn a_second_writer_is_refused_until_the_first_closes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let first = Database::open(folder.path()).expect("opens");
    let error = Database::open(folder.path()).expect_err("one writer at a time");
    assert_eq!(error.kind(), ErrorKind::Locked);
    drop(first);
    Database::open(folder.path()).expect("opens again");
}

#[test]
fn the_examples_of_all_aggregates_give_their_results() {
    let database = Database::memory().expect("opens");
    let mut connection = database.connect().expect("connects");
    let examples = connection
        .query("SELECT example, result FROM rowmill_functions() WHERE family = 'aggregate'")
        .and_then(|rows| rows.rows())
        .expect("the functions");
    assert!(examples.len() > 30, "{}", examples.len());
    let mut wrong = Vec::new();
    for row in examples {
        let (example, result): (String, String) = (row.get(0).expect("an example"), row.get(1).expect("a result"));
        let sql = format!("SELECT CAST(v AS TEXT) FROM (SELECT {}) AS e(v)", example);
        let found = connection.query(&sql).and_then(|rows| rows.rows()).and_then(|rows| rows[0].get::<String>(0));
        if found.as_ref().is_ok_and(|found| *found == result) {
            continue;
        }
        wrong.push(format!("{example}: {found:?} instead of {result}"));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_batch_of_an_answer_shows_instants_in_the_zone_of_the_session() {
    let mut connection = Database::memory().expect("opens").connect().expect("connects");
    connection
        .execute_batch(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, at TIMESTAMPTZ); INSERT INTO t VALUES (1, '2026-07-01 12:00Z')",
        )
        .expect("filled");
    let find = connection.prepare("SELECT at FROM t WHERE id = ?").expect("a query");
    for (zone, shown) in [("UTC", "2026-07-01 12:00:00+00"), ("Europe/Berlin", "2026-07-01 14:00:00+02")] {
        connection.execute(&format!("SET timezone = '{zone}'"), ()).expect("a zone");
        let batch = find
            .ask(&mut connection, &[rowmill::Param::Integer(1)])
            .and_then(|answer| answer.to_batch())
            .expect("a batch");
        let text = rowmill::text::format_value(batch.column(0), 0).expect("a text");
        assert_eq!(text.as_deref(), Some(shown), "{zone}");
    }
}
