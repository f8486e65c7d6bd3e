//! Files in and out over HTTP: imports and exports.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rowmill_server::ServerLimits;
use serde_json::json;

use crate::http::{ask, query, wait_for_sessions};
use crate::support::TestServer;

const CSV: &[u8] = b"day,page,seconds\n2024-01-01,/,3\n2024-01-02,/docs,40\n";

#[test]
fn a_body_makes_its_table_and_fills_it() {
    let server = TestServer::start();
    let made = ask(&server, "POST", "/import/visits?create=true", &[("Content-Type", "text/csv")], CSV);
    assert_eq!((made.status, made.json()), (200, json!({"rows": 2, "created": true})));
    let more = ask(&server, "POST", "/import/Main.Visits?format=csv&create=true", &[], CSV);
    assert_eq!(more.json(), json!({"rows": 2, "created": false}));
    let found = query(&server, "/query", "SELECT day, sum(seconds) FROM visits GROUP BY day ORDER BY day").json();
    assert_eq!(found["rows"], json!([["2024-01-01", 6], ["2024-01-02", 80]]));
    assert_eq!(found["columns"][0]["type"], "DATE");
    let lines = b"{\"seconds\": 7, \"page\": \"/x\", \"day\": \"2024-01-03\"}\n";
    let json_type = [("Content-Type", "application/x-ndjson")];
    assert_eq!(ask(&server, "POST", "/import/visits", &json_type, lines).json()["rows"], 1);
}

#[test]
fn every_exported_format_can_be_imported() {
    let server = TestServer::start();
    query(&server, "/query", "CREATE TABLE t AS SELECT n, 'row ' || n::TEXT AS s FROM range(70000) AS r(n)");
    for format in ["csv", "ndjson", "arrow", "parquet"] {
        let file = ask(&server, "GET", &format!("/export?table=t&format={format}"), &[], b"");
        assert_eq!(file.status, 200, "{}", file.text());
        assert!(file.head.contains("content-disposition: attachment; filename=\"t."), "{}", file.head);
        let kind = if format == "ndjson" { "json" } else { format };
        let path = format!("/import/from_{format}?create=true&format={kind}");
        assert_eq!(ask(&server, "POST", &path, &[], &file.body).json()["rows"], 70_000, "{format}");
        let same = format!("SELECT count(*) FROM t JOIN from_{format} AS f ON t.n = f.n AND t.s = f.s");
        assert_eq!(query(&server, "/query", &same).json()["rows"], json!([[70_000]]), "{format}");
    }
    let packed = ask(&server, "GET", "/export?query=SELECT%20n%20FROM%20t%20ORDER%20BY%20n&compression=gzip", &[], b"");
    assert!(packed.head.contains("filename=\"query.csv.gz\"") && !packed.head.contains("content-encoding"));
    let gzip = [("Content-Encoding", "gzip"), ("Content-Type", "text/csv")];
    assert_eq!(ask(&server, "POST", "/import/packed?create=true", &gzip, &packed.body).json()["rows"], 70_000);
}

#[test]
fn bad_lines_go_to_the_reject_table() {
    let server = TestServer::start();
    query(&server, "/query", "CREATE TABLE t (a INTEGER, b TEXT)");
    let body = b"a,b\n1,x\nnone,y\n3,z\n";
    let refused = ask(&server, "POST", "/import/t?format=csv", &[], body);
    assert_eq!(refused.status, 400);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("the body") && !message.contains("/tmp"), "{message}");
    let path = "/import/t?format=csv&on_error=skip&reject_table=bad";
    let skipped = ask(&server, "POST", path, &[], body).json();
    assert_eq!(skipped["rows"], 2);
    assert!(skipped["notices"][0].as_str().unwrap().contains("bad"), "{skipped}");
    let bad = query(&server, "/query", "SELECT file, line, column_name, text FROM bad").json();
    assert_eq!(bad["rows"], json!([["the body", 3, "a", "none"]]));
}

#[test]
fn wrong_imports_change_nothing() {
    let server = TestServer::start();
    query(&server, "/query", "CREATE TABLE t (a INTEGER, b TEXT)");
    for (path, body, status) in [
        ("/import/nowhere?format=csv", &b"a\n1\n"[..], 404),
        ("/import/t?format=csv&columns=missing", b"1\n", 400),
        ("/import/t", b"a,b\n1,x\n", 400),
        ("/import/t?format=parquet", b"PAR1 and then something else PAR1", 400),
        ("/import/new?format=arrow&create=true", b"\xff\xff\xff\xff\xff\xff\xff\x7f", 400),
        ("/import/new?format=csv&create=true&on_error=skip&reject_tabl=x", b"a\n1\n", 400),
        ("/import/new?format=json&create=true", b"{\"a\": 1}\n{\"a\": ", 400),
    ] {
        let answer = ask(&server, "POST", path, &[], body);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(!answer.text().contains("column 1"), "{path} tells a place in a statement of the server");
    }
    assert_eq!(query(&server, "/query", "SELECT count(*) FROM t").json()["rows"], json!([[0]]));
    assert_eq!(query(&server, "/query", "SELECT * FROM new").status, 404);
}

#[test]
fn a_client_that_goes_away_loads_nothing() {
    let limits = ServerLimits { stalled_timeout: Duration::from_millis(300), ..ServerLimits::default() };
    let server = TestServer::with_limits(limits);
    query(&server, "/query", "CREATE TABLE t (a INTEGER)");
    let head = "POST /import/t?format=csv HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\na\n1\n2\n";
    let mut gone = TcpStream::connect(server.http_address()).unwrap();
    gone.write_all(head.as_bytes()).unwrap();
    drop(gone);
    let mut stalled = TcpStream::connect(server.http_address()).unwrap();
    stalled.write_all(head.as_bytes()).unwrap();
    wait_for_sessions(&server, 1);
    wait_for_sessions(&server, 0);
    assert_eq!(query(&server, "/query", "SELECT count(*) FROM t").json()["rows"], json!([[0]]));
}

#[test]
fn a_body_takes_no_more_disk_than_the_limit_of_temporary_files() {
    let server = TestServer::start();
    query(&server, "/query", "SET temp_disk_limit = 1000000");
    let body = format!("a\n{}", "1234567\n".repeat(200_000));
    let full = ask(&server, "POST", "/import/t?format=csv&create=true", &[], body.as_bytes());
    assert_eq!((full.status, full.json()["sqlstate"].as_str()), (503, Some("53100")), "{}", full.text());
    assert!(full.json()["message"].as_str().unwrap().contains("POST /import"), "{}", full.text());
    let metrics = ask(&server, "GET", "/metrics", &[], b"").text();
    assert!(metrics.lines().any(|line| line == "rowmill_temporary_bytes 0"), "{metrics}");
    let small = ask(&server, "POST", "/import/t?format=csv&create=true", &[], &body.as_bytes()[..80_002]);
    assert_eq!(small.json()["rows"], 10_000);
}

#[test]
fn a_wrong_request_is_refused_before_its_body_comes() {
    let server = TestServer::start();
    let mut client = TcpStream::connect(server.http_address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = "POST /import/nowhere?format=csv HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\
                Expect: 100-continue\r\n\r\n";
    client.write_all(head.as_bytes()).unwrap();
    let mut begin = [0; 12];
    client.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 404");
}

#[test]
fn an_export_changes_nothing() {
    let server = TestServer::start();
    query(&server, "/query", "CREATE TABLE t (a INTEGER PRIMARY KEY)");
    query(&server, "/query", "INSERT INTO t VALUES (1)");
    for sql in [
        "DROP%20TABLE%20t",
        "DELETE%20FROM%20t%20RETURNING%20a",
        "INSERT%20INTO%20t%20VALUES%20(2)%20RETURNING%20a",
        "COPY%20t%20TO%20%27/tmp/rowmill-export-test.csv%27",
        "SELECT%201;%20DROP%20TABLE%20t",
    ] {
        let answer = ask(&server, "GET", &format!("/export?query={sql}"), &[], b"");
        assert_eq!(answer.status, 400, "{sql}: {}", answer.text());
    }
    assert_eq!(query(&server, "/query", "SELECT a FROM t").json()["rows"], json!([[1]]));
    let foreign = [("Sec-Fetch-Site", "cross-site")];
    assert_eq!(ask(&server, "GET", "/export?table=t", &foreign, b"").status, 403);
    assert_eq!(ask(&server, "GET", "/", &foreign, b"").status, 200);
    assert_eq!(ask(&server, "GET", "/export?table=t", &[("Sec-Fetch-Site", "same-origin")], b"").status, 200);
}
