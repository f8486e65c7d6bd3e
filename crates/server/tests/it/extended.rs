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

/// `SELECT $1` gives a parameter no type, so the type that the client gives must hold, for the value and for the
/// result.
#[test]
fn a_parameter_whose_place_decides_nothing_has_the_type_of_the_client() {
    with_client(|client| async move {
        let statement = client.prepare_typed("SELECT $1", &[Type::TEXT_ARRAY]).await.unwrap();
        assert_eq!(statement.columns()[0].type_(), &Type::TEXT_ARRAY);
        let row = client.query_one(&statement, &[&vec!["a", "b,\"c"]]).await.unwrap();
        assert_eq!(row.get::<_, Vec<String>>(0), ["a", "b,\"c"]);

        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
        let statement = client.prepare_typed("SELECT $1, $2", &[Type::TIMESTAMPTZ, Type::VARCHAR]).await.unwrap();
        assert_eq!(statement.params(), [Type::TIMESTAMPTZ, Type::VARCHAR]);
        let row = client.query_one(&statement, &[&time, &"x"]).await.unwrap();
        assert_eq!((row.get::<_, std::time::SystemTime>(0), row.get::<_, &str>(1)), (time, "x"));
        let row = client.query_one(&statement, &[&time, &None::<&str>]).await.unwrap();
        assert_eq!(row.get::<_, Option<&str>>(1), None);
    });
}

/// Drivers depend on the types of the catalog, and some on the stored column that a result shows.
#[test]
fn columns_of_the_catalog_and_of_tables_are_described() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (a INTEGER, b TEXT)").await.unwrap();
        let sql = "SELECT oid, typname, typtype, array_agg(oid) AS all FROM pg_type WHERE oid = ANY($1::oid[])
            GROUP BY oid, typname, typtype";
        let statement = client.prepare(sql).await.unwrap();
        assert_eq!(statement.params(), [Type::OID_ARRAY]);
        let kinds: Vec<&Type> = statement.columns().iter().map(|column| column.type_()).collect();
        assert_eq!(kinds, [&Type::OID, &Type::NAME, &Type::CHAR, &Type::OID_ARRAY]);
        let row = client.query_one(&statement, &[&vec![23_u32]]).await.unwrap();
        assert_eq!((row.get::<_, u32>(0), row.get::<_, &str>(1), row.get::<_, i8>(2)), (23, "int4", b'b' as i8));

        let statement = client.prepare("SELECT b, a + 1 AS n FROM t WHERE a = $1").await.unwrap();
        let columns = statement.columns();
        assert_eq!((columns[0].column_id(), columns[1].table_oid()), (Some(2), None));
        let row = client.query_one("SELECT 't'::regclass::oid", &[]).await.unwrap();
        assert_eq!(columns[0].table_oid().map(i64::from), Some(row.get::<_, i64>(0)));
    });
}

#[test]
fn errors_name_the_constraint_that_a_row_breaks() {
    with_client(|client| async move {
        client
            .batch_execute(
                "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER NOT NULL, c INTEGER CONSTRAINT small CHECK (c < 9))",
            )
            .await
            .unwrap();
        client.batch_execute("INSERT INTO t VALUES (1, 1, 1)").await.unwrap();
        for (sql, constraint, column) in [
            ("INSERT INTO t VALUES (1, 1, 1)", Some("t_pkey"), None),
            ("INSERT INTO t VALUES (2, NULL, 1)", None, Some("b")),
            ("INSERT INTO t VALUES (2, 1, 9)", Some("small"), None),
        ] {
            let error = client.execute(sql, &[]).await.unwrap_err();
            let error = error.as_db_error().unwrap();
            assert_eq!((error.table(), error.constraint(), error.column()), (Some("t"), constraint, column), "{sql}");
        }
    });
}
