//! The extended protocol.

use futures_util::{StreamExt, TryStreamExt};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::support::{TestServer, field, kinds, runtime, with_client};

#[test]
fn a_statement_is_prepared_once_and_runs_with_values() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE stock (item TEXT PRIMARY KEY, pieces BIGINT NOT NULL)").await.unwrap();
        let insert = client.prepare("INSERT INTO stock VALUES ($1, $2)").await.unwrap();
        assert_eq!(insert.params(), [Type::TEXT, Type::INT8]);
        for (item, pieces) in [("bolt", 200_i64), ("nut", 350), ("screw", 0)] {
            assert_eq!(client.execute(&insert, &[&item, &pieces]).await.unwrap(), 1);
        }
        let find = client.prepare("SELECT pieces, item FROM stock WHERE item = $1").await.unwrap();
        assert_eq!(find.params(), [Type::TEXT]);
        assert_eq!(find.columns()[0].type_(), &Type::INT8);
        for (item, pieces) in [("nut", 350_i64), ("bolt", 200)] {
            let row = client.query_one(&find, &[&item]).await.unwrap();
            assert_eq!((row.get::<_, i64>(0), row.get::<_, &str>("item")), (pieces, item));
        }
        let update = client.prepare("UPDATE stock SET pieces = pieces + $1 WHERE item = $2").await.unwrap();
        assert_eq!(client.execute(&update, &[&5_i64, &"screw"]).await.unwrap(), 1);
        let gone = client.query("DELETE FROM stock WHERE pieces < $1 RETURNING item", &[&100_i64]).await.unwrap();
        assert_eq!(gone[0].get::<_, &str>(0), "screw");
    });
}

#[test]
fn a_portal_gives_its_rows_in_parts() {
    let server = TestServer::start();
    runtime().block_on(async {
        let mut client = server.client().await;
        let transaction = client.transaction().await.unwrap();
        let portal = transaction.bind("SELECT n FROM range(25000) AS r(n) ORDER BY n", &[]).await.unwrap();
        let mut next = 0_i64;
        loop {
            let rows = transaction.query_portal(&portal, 7_000).await.unwrap();
            for row in &rows {
                assert_eq!(row.get::<_, i64>(0), next);
                next += 1;
            }
            if rows.len() < 7_000 {
                break;
            }
        }
        assert_eq!(next, 25_000);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn a_client_may_stop_reading_a_result_and_go_on() {
    with_client(|client| async move {
        {
            let no_values: [&(dyn tokio_postgres::types::ToSql + Sync); 0] = [];
            let stream = client.query_raw("SELECT n FROM range(1000000) AS r(n)", no_values).await.unwrap();
            let few: Vec<_> = Box::pin(stream).take(10).try_collect().await.unwrap();
            assert_eq!(few.len(), 10);
        }
        assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i64>(0), 1);
    });
}

#[test]
fn errors_carry_their_sqlstate() {
    with_client(|client| async move {
        for (sql, state) in [
            ("SELECT * FROM nowhere", SqlState::UNDEFINED_TABLE),
            ("SELEC 1", SqlState::SYNTAX_ERROR),
            ("SELECT 1; SELECT 2", SqlState::SYNTAX_ERROR),
        ] {
            let error = client.prepare(sql).await.unwrap_err();
            assert_eq!(error.code(), Some(&state), "{sql}");
        }
        let error = client.query("SELECT 1 / n FROM (SELECT $1::INTEGER AS n) AS t", &[&0_i32]).await;
        if let Err(error) = error {
            assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
        }
        assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i64>(0), 1);
    });
}

#[test]
fn messages_after_an_error_are_left_out_until_sync() {
    let server = TestServer::start();
    let mut client = server.raw();
    client.log_in();
    client.send_message(b'P', b"s\0SELECT nonsense\0\0\0");
    client.send_message(b'P', b"t\0SELECT 1\0\0\0");
    client.send_message(b'B', b"\0t\0\0\0\0\0\0\0");
    client.send_message(b'E', b"\0\0\0\0\0");
    client.send_message(b'S', b"");
    assert_eq!(kinds(&client.messages_until(b'Z')), "EZ");
    client.send_message(b'P', b"t\0SELECT 1\0\0\0");
    client.send_message(b'B', b"\0t\0\0\0\0\0\0\0");
    client.send_message(b'D', b"P\0");
    client.send_message(b'E', b"\0\0\0\0\0");
    client.send_message(b'C', b"St\0");
    client.send_message(b'S', b"");
    assert_eq!(kinds(&client.messages_until(b'Z')), "12TDC3Z");
}

#[test]
fn names_of_statements_and_portals_are_checked() {
    let server = TestServer::start();
    let mut client = server.raw();
    client.log_in();
    let mut state_of = |messages: &[(u8, &[u8])]| {
        for (kind, body) in messages {
            client.send_message(*kind, body);
        }
        client.send_message(b'S', b"");
        let answer = client.messages_until(b'Z');
        answer.iter().find(|(kind, _)| *kind == b'E').and_then(|(_, body)| field(body, b'C'))
    };
    assert_eq!(state_of(&[(b'B', b"\0none\0\0\0\0\0\0\0")]).as_deref(), Some("26000"));
    assert_eq!(state_of(&[(b'E', b"none\0\0\0\0\0")]).as_deref(), Some("34000"));
    let twice: [(u8, &[u8]); 2] = [(b'P', b"s\0SELECT 1\0\0\0"), (b'P', b"s\0SELECT 2\0\0\0")];
    assert_eq!(state_of(&twice).as_deref(), Some("42P05"));
    // One value too many.
    assert_eq!(
        state_of(&[(b'P', b"\0SELECT 1\0\0\0"), (b'B', b"\0\0\0\0\0\x01\0\0\0\x01x\0\0")]).as_deref(),
        Some("08P01")
    );
    // A format that does not exist.
    assert_eq!(state_of(&[(b'P', b"\0SELECT 1\0\0\0"), (b'B', b"\0\0\0\0\0\0\0\x01\0\x07")]).as_deref(), Some("08P01"));
}

#[test]
fn statements_up_to_a_sync_are_one_transaction() {
    let server = TestServer::start();
    let mut client = server.raw();
    client.log_in();
    client.query("CREATE TABLE t (a INTEGER)");
    client.send_message(b'P', b"\0INSERT INTO t VALUES (1)\0\0\0");
    client.send_message(b'B', b"\0\0\0\0\0\0\0\0");
    client.send_message(b'E', b"\0\0\0\0\0");
    client.send_message(b'P', b"\0SELECT nonsense\0\0\0");
    client.send_message(b'S', b"");
    assert_eq!(kinds(&client.messages_until(b'Z')), "12CEZ");
    assert_eq!(client.query("SELECT * FROM t"), "TCZ");
}
