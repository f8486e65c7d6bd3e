//! COPY FROM STDIN and COPY TO STDOUT.

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, TryStreamExt};
use tokio_postgres::Client;

use crate::psql::psql;
use crate::support::{TestServer, field, with_client};

async fn copy_in(client: &Client, sql: &str, pieces: &[&'static [u8]]) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in::<_, Bytes>(sql).await?;
    let mut sink = Box::pin(sink);
    for piece in pieces {
        sink.send(Bytes::from_static(piece)).await?;
    }
    sink.as_mut().finish().await
}

async fn copy_out(client: &Client, sql: &str) -> Vec<u8> {
    let stream = client.copy_out(sql).await.unwrap();
    let data: BytesMut = stream.try_collect().await.unwrap();
    data.to_vec()
}

const TABLE: &str = "CREATE TABLE t (a INTEGER, b TEXT, c BOOLEAN, d DECIMAL(8, 2), e TIMESTAMP, f INTEGER[])";

#[test]
fn text_goes_in_and_comes_out() {
    with_client(|client| async move {
        client.batch_execute(TABLE).await.unwrap();
        let pieces: [&[u8]; 3] = [
            b"1\ta\\tb \"q\"\tt\t1.50\t2024-02-29 12:00:00\t{1,NULL}\n2\t\\N\t\\N\t\\N\t\\N\t\\N\n3\t\tf\t-2",
            b".00\t2024-01-01\t{}\n4\t\\\\N\\",
            b"nx\tfalse\t0\t2000-01-01 00:00:00.5\t\\N\n\\.\n",
        ];
        assert_eq!(copy_in(&client, "COPY t FROM STDIN", &pieces).await.unwrap(), 4);
        let out = copy_out(&client, "COPY (SELECT * FROM t ORDER BY a) TO STDOUT").await;
        let expected = "1\ta\\tb \"q\"\tt\t1.50\t2024-02-29 12:00:00\t{1,NULL}\n2\t\\N\t\\N\t\\N\t\\N\t\\N\n\
            3\t\tf\t-2.00\t2024-01-01 00:00:00\t{}\n4\t\\\\N\\nx\tf\t0.00\t2000-01-01 00:00:00.5\t\\N\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i64>(0), 1);
    });
}

#[test]
fn csv_goes_in_and_comes_out() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (a INTEGER, b TEXT)").await.unwrap();
        let sql = "COPY t (b, a) FROM STDIN WITH (FORMAT csv, DELIMITER ';')";
        assert_eq!(copy_in(&client, sql, &[b"\"x;\"\"y\"\"\";1\n;2\n\"\";3\n"]).await.unwrap(), 3);
        let out = copy_out(&client, "COPY (SELECT a, b FROM t ORDER BY a) TO STDOUT CSV HEADER").await;
        assert_eq!(String::from_utf8(out).unwrap(), "a,b\n1,\"x;\"\"y\"\"\"\n2,\n3,\"\"\n");
        let out = copy_out(&client, "COPY t (b) TO STDOUT WITH (FORMAT csv, NULL 'none')").await;
        assert!(String::from_utf8(out).unwrap().contains("none\n"));
    });
}

#[test]
fn binary_comes_out_and_goes_in_again() {
    with_client(|client| async move {
        client.batch_execute(TABLE).await.unwrap();
        let row = "1, 'x\"', true, 1.5, '2024-02-29 12:00:00', [1, NULL]";
        client
            .batch_execute(&format!("INSERT INTO t VALUES ({row}), (2, NULL, NULL, NULL, NULL, NULL)"))
            .await
            .unwrap();
        let out = copy_out(&client, "COPY t TO STDOUT (FORMAT binary)").await;
        assert!(out.starts_with(b"PGCOPY\n\xff\r\n\0") && out.ends_with(b"\xff\xff"));
        let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN BINARY").await.unwrap();
        let mut sink = Box::pin(sink);
        for piece in out.chunks(7) {
            sink.send(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        assert_eq!(sink.as_mut().finish().await.unwrap(), 2);
        let sql = "SELECT COUNT(*), COUNT(DISTINCT a), COUNT(DISTINCT b), COUNT(DISTINCT e) FROM t";
        let counts = client.query_one(sql, &[]).await.unwrap();
        let counts: Vec<i64> = (0..4).map(|column| counts.get(column)).collect();
        assert_eq!(counts, [4, 2, 1, 1]);
    });
}

#[test]
fn many_rows_go_out_and_in() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (n BIGINT, s TEXT)").await.unwrap();
        let out = copy_out(&client, "COPY (SELECT n, 'row ' || n::TEXT FROM range(100000) AS r(n)) TO STDOUT").await;
        let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap();
        let mut sink = Box::pin(sink);
        for piece in out.chunks(10_000) {
            sink.send(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        assert_eq!(sink.as_mut().finish().await.unwrap(), 100_000);
        let row = client.query_one("SELECT COUNT(*), MAX(s) FROM t", &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, &str>(1)), (100_000, "row 99999"));
    });
}

#[test]
fn a_copy_that_fails_changes_nothing_and_names_the_line() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (a INTEGER)").await.unwrap();
        for (sql, data, what) in [
            ("COPY t FROM STDIN", &b"1\nx\n"[..], "STDIN"),
            ("COPY t FROM STDIN", b"1\n1\t2\n", "line 2"),
            ("COPY t FROM STDIN CSV", b"1\nx\n", "line 2"),
            ("COPY t FROM STDIN BINARY", b"nonsense is no data", "signature"),
        ] {
            let data: &'static [u8] = data;
            let error = copy_in(&client, sql, &[data]).await.unwrap_err();
            let message = error.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default();
            assert!(message.contains(what), "{sql}: {message}");
        }
        for sql in ["COPY nowhere FROM STDIN", "COPY t (b) FROM STDIN", "COPY t FROM STDIN (NONSENSE 1)"] {
            assert!(client.copy_in::<_, Bytes>(sql).await.is_err(), "{sql}");
        }
        assert!(client.query("SELECT * FROM t", &[]).await.unwrap().is_empty());
    });
}

#[test]
fn a_client_may_give_up_a_copy() {
    let server = TestServer::start();
    let mut client = server.raw();
    client.log_in();
    client.query("CREATE TABLE t (a INTEGER)");
    client.send_message(b'Q', b"COPY t FROM STDIN\0");
    assert_eq!(client.messages_until(b'G').len(), 1);
    client.send_message(b'd', b"1\n");
    client.send_message(b'f', b"enough\0");
    let messages = client.messages_until(b'Z');
    assert!(field(&messages[0].1, b'M').unwrap().contains("enough"));
    // Data of a COPY that failed before it began is left out.
    client.send_message(b'Q', b"COPY nowhere FROM STDIN\0");
    client.send_message(b'd', b"1\n");
    client.send_message(b'c', b"");
    client.messages_until(b'Z');
    assert_eq!(client.query("SELECT * FROM t"), "TCZ");
}

#[test]
fn psql_copies_files() {
    let server = TestServer::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.tsv");
    std::fs::write(&path, "1\tone\n2\t\\N\n").unwrap();
    let path = path.display();
    let script = [
        "-c".to_owned(),
        "CREATE TABLE t (a INTEGER, b TEXT)".to_owned(),
        "-c".to_owned(),
        format!("\\copy t FROM '{path}'"),
        "-c".to_owned(),
        "\\copy (SELECT * FROM t ORDER BY a DESC) TO STDOUT CSV".to_owned(),
    ];
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let Some(output) = psql(&server, &script) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2,\n1,one\n", "{}", String::from_utf8_lossy(&output.stderr));
}
