//! The simple protocol.

use tokio_postgres::SimpleQueryMessage;

use crate::support::{TestServer, field, with_client};

fn rows(messages: &[SimpleQueryMessage]) -> Vec<String> {
    let mut rows = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            let values = (0..row.len()).map(|column| row.get(column).unwrap_or("NULL"));
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    rows
}

#[test]
fn several_statements_answer_one_after_the_other() {
    with_client(|client| async move {
        let sql = "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, NULL); SELECT * FROM t; ;";
        let messages = client.simple_query(sql).await.unwrap();
        assert_eq!(rows(&messages), ["1|x", "2|NULL"]);
        let counts: Vec<u64> = messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
                _ => None,
            })
            .collect();
        assert_eq!(counts, [0, 2, 2]);
    });
}

#[test]
fn an_empty_text_has_an_answer_of_its_own() {
    let server = TestServer::start();
    let mut client = server.raw();
    client.log_in();
    assert_eq!(client.query(" ; -- nothing"), "IZ");
    assert_eq!(client.query("SELECT 1"), "TDCZ");
}

#[test]
fn an_error_has_a_code_a_hint_and_its_place_in_the_text() {
    let server = TestServer::start();
    let mut client = server.raw();
    client.log_in();
    let sql = "SELECT 'é';\n  SELECT missing FROM (SELECT 1 AS missin) AS t";
    client.send_message(b'Q', format!("{sql}\0").as_bytes());
    let messages = client.messages_until(b'Z');
    let error = &messages.iter().find(|(kind, _)| *kind == b'E').expect("an error").1;
    assert_eq!(field(error, b'C').as_deref(), Some("42703"));
    assert!(field(error, b'H').expect("a hint").contains("missin"));
    let position: usize = field(error, b'P').expect("a position").parse().unwrap();
    assert!(sql.chars().skip(position - 1).collect::<String>().starts_with("missing FROM"), "{position}");
}

#[test]
fn settings_of_postgresql_can_be_set_and_shown() {
    with_client(|client| async move {
        client
            .batch_execute("SET client_encoding TO 'UTF8'; SET extra_float_digits = 3; SET threads = 1")
            .await
            .unwrap();
        client.batch_execute("SET statement_timeout = '7s'").await.unwrap();
        for (sql, expected) in [
            ("SHOW server_version", "14.0"),
            ("SHOW extra_float_digits", "3"),
            ("SHOW statement_timeout_ms", "7000"),
            ("SHOW TRANSACTION ISOLATION LEVEL", "repeatable read"),
            ("SHOW threads", "1"),
        ] {
            assert_eq!(rows(&client.simple_query(sql).await.unwrap()), [expected], "{sql}");
        }
        for sql in ["SET client_encoding = 'LATIN1'", "SET schema = archive", "LISTEN x", "SET nonsense = 1"] {
            assert!(client.batch_execute(sql).await.is_err(), "{sql}");
        }
    });
}

#[test]
fn instants_are_sent_in_the_time_zone_that_the_client_sets() {
    with_client(|client| async move {
        let sql = "SELECT TIMESTAMPTZ '2026-07-01 22:30:00Z', TIMESTAMPTZ '2026-07-01 22:30:00Z'::DATE";
        client.batch_execute("SET TIME ZONE 'europe/berlin'").await.unwrap();
        assert_eq!(rows(&client.simple_query("SHOW TimeZone").await.unwrap()), ["Europe/Berlin"]);
        assert_eq!(rows(&client.simple_query(sql).await.unwrap()), ["2026-07-02 00:30:00+02|2026-07-02"]);
        client.batch_execute("SET TimeZone TO -5").await.unwrap();
        assert_eq!(rows(&client.simple_query(sql).await.unwrap()), ["2026-07-01 17:30:00-05|2026-07-01"]);
        assert!(client.batch_execute("SET TIME ZONE 'Mars/Olympus'").await.is_err());
        client.batch_execute("DISCARD ALL").await.unwrap();
        assert_eq!(rows(&client.simple_query(sql).await.unwrap()), ["2026-07-01 22:30:00+00|2026-07-01"]);
        let maps = "SELECT MAP {'a': 1, 'b': NULL}, 'x'::ENUM('x', 'y')";
        assert_eq!(rows(&client.simple_query(maps).await.unwrap()), ["{\"a\": 1, \"b\": null}|x"]);
    });
}

#[test]
fn statements_and_cursors_of_sql_work() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t AS SELECT * FROM range(10) AS r(n)").await.unwrap();
        client.batch_execute("PREPARE pick (bigint) AS SELECT n FROM t WHERE n > $1 ORDER BY n").await.unwrap();
        assert_eq!(rows(&client.simple_query("EXECUTE pick(7)").await.unwrap()), ["8", "9"]);
        // The values may be calls.
        assert_eq!(rows(&client.simple_query("EXECUTE pick(abs(-7))").await.unwrap()), ["8", "9"]);
        // The types and the number of the values are those of PREPARE.
        client.batch_execute("PREPARE kind (smallint) AS SELECT pg_typeof($1)").await.unwrap();
        assert_eq!(rows(&client.simple_query("EXECUTE kind(7)").await.unwrap()), ["SMALLINT"]);
        assert!(client.batch_execute("EXECUTE kind").await.is_err());
        assert!(client.batch_execute("PREPARE kind AS SELECT 1").await.is_err());
        client.batch_execute("DEALLOCATE pick").await.unwrap();
        assert!(client.batch_execute("EXECUTE pick(7)").await.is_err());
        client.batch_execute("DISCARD ALL; PREPARE kind AS SELECT 1").await.unwrap();

        client.batch_execute("BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT n FROM t ORDER BY n").await.unwrap();
        assert_eq!(rows(&client.simple_query("FETCH 2 FROM c").await.unwrap()), ["0", "1"]);
        client.batch_execute("MOVE 3 IN c").await.unwrap();
        assert_eq!(rows(&client.simple_query("FETCH c").await.unwrap()), ["5"]);
        assert_eq!(rows(&client.simple_query("FETCH ALL FROM c").await.unwrap()), ["6", "7", "8", "9"]);
        assert!(rows(&client.simple_query("FETCH FORWARD 5 FROM c").await.unwrap()).is_empty());
        client.batch_execute("CLOSE c; COMMIT").await.unwrap();
        assert!(client.simple_query("DECLARE c CURSOR FOR SELECT 1").await.is_err());
    });
}

#[test]
fn the_rows_of_a_large_result_all_arrive() {
    with_client(|client| async move {
        let sql = "SELECT n, 'text ' || n::TEXT FROM range(200000) AS r(n) ORDER BY n";
        let rows = rows(&client.simple_query(sql).await.unwrap());
        assert_eq!((rows.len(), rows[199_999].as_str()), (200_000, "199999|text 199999"));
    });
}
