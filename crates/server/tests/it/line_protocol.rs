//! Line protocol over HTTP.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use rowmill::Database;
use rowmill_server::ServerLimits;
use serde_json::{Value, json};

use crate::http::{HttpAnswer, ask, query};
use crate::support::TestServer;

fn write(server: &TestServer, path: &str, body: impl AsRef<[u8]>) -> HttpAnswer {
    ask(server, "POST", path, &[], body.as_ref())
}

/// Writes lines that must all be stored.
fn store(server: &TestServer, path: &str, body: impl AsRef<[u8]>) {
    let answer = write(server, path, body);
    assert_eq!((answer.status, answer.text().as_str()), (204, ""));
}

fn rows(server: &TestServer, sql: &str) -> Value {
    let answer = query(server, "/query", sql);
    assert_eq!(answer.status, 200, "{sql}: {}", answer.text());
    answer.json()["rows"].clone()
}

fn count(server: &TestServer, table: &str) -> Value {
    rows(server, &format!("SELECT count(*) FROM {table}"))[0][0].clone()
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn tables_and_columns_are_made_with_the_types_of_the_values() {
    let server = TestServer::start();
    let line =
        "cpu,host=a,zone=x usage=1.5,cores=4i,ticks=18446744073709551615u,note=\"hi\",up=t,seen=1000000t 1000000000";
    store(&server, "/write", line);
    let types = "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = 'cpu' \
        ORDER BY ordinal_position";
    let expected = json!([
        ["timestamp", "TIMESTAMP", "NO"],
        ["host", "TEXT", "YES"],
        ["zone", "TEXT", "YES"],
        ["usage", "DOUBLE", "YES"],
        ["cores", "BIGINT", "YES"],
        ["ticks", "BIGINT UNSIGNED", "YES"],
        ["note", "TEXT", "YES"],
        ["up", "BOOLEAN", "YES"],
        ["seen", "TIMESTAMP", "YES"]
    ]);
    assert_eq!(rows(&server, types), expected);
    let found = rows(&server, "SELECT \"timestamp\"::TEXT, host, usage, cores, ticks::TEXT, note, up FROM cpu");
    assert_eq!(found, json!([["1970-01-01 00:00:01", "a", 1.5, 4, "18446744073709551615", "hi", true]]));
    // It is a time table with partitions.
    assert_eq!(query(&server, "/query", "ALTER TABLE cpu DROP PARTITION LIST '1970-01-01'").status, 200);
    assert_eq!(count(&server, "cpu"), 0);
}

#[test]
fn new_columns_come_with_the_lines_that_have_them() {
    let server = TestServer::start();
    store(&server, "/write?precision=us", "m a=1 1\nm b=2i 2\nm,t=x a=3,c=\"y\" 3\nother a=1 1\n");
    store(&server, "/write?precision=us", "M D=t,A=5 4");
    let found = rows(&server, "SELECT a::BIGINT, b, t, c, d FROM m ORDER BY \"timestamp\"");
    let expected = json!([
        [1, null, null, null, null],
        [null, 2, null, null, null],
        [3, null, "x", "y", null],
        [5, null, null, null, true]
    ]);
    assert_eq!(found, expected);
    assert_eq!(count(&server, "other"), 1);
}

#[test]
fn a_line_without_a_time_gets_the_time_of_the_server() {
    let server = TestServer::start();
    store(&server, "/write", "m a=1");
    let recent = "SELECT \"timestamp\" BETWEEN now()::TIMESTAMP - INTERVAL '1 minute' AND now()::TIMESTAMP FROM m";
    assert_eq!(rows(&server, recent), json!([[true]]));
}

#[test]
fn precisions_of_all_products_give_the_same_time() {
    let server = TestServer::start();
    let (second, expected) = (1_700_000_000_u64, "2023-11-14 22:13:20");
    for (path, scale) in [
        ("/write", 1_000_000_000),
        ("/write?precision=n&db=x", 1_000_000_000),
        ("/write?precision=u", 1_000_000),
        ("/write?db=x&precision=ms", 1_000),
        ("/write?precision=s", 1),
        ("/api/v2/write?org=o&bucket=b", 1_000_000_000),
        ("/api/v2/write?precision=us", 1_000_000),
        ("/api/v3/write_lp?db=x", 1),
        ("/api/v3/write_lp?db=x&precision=auto", 1_000),
        ("/api/v3/write_lp?precision=millisecond", 1_000),
        ("/api/v3/write_lp?precision=nanosecond", 1_000_000_000),
    ] {
        store(&server, path, format!("m,path={} a=1 {}", path.replace('=', "\\="), second * scale));
    }
    assert_eq!(rows(&server, "SELECT DISTINCT \"timestamp\"::TEXT FROM m"), json!([[expected]]));
    assert_eq!(write(&server, "/write?precision=d", "m a=1").status, 400);
    let answer = write(&server, "/write?precision=s", format!("m a=1 {}", i64::MAX));
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("out of range"), "{}", answer.text());
}

#[test]
fn escapes_and_quotes_reach_the_table() {
    let server = TestServer::start();
    store(&server, "/write", "my\\ \"table\\,1,a\\ tag=v\\=1\\,2 f\"x=\"say \\\"hi\\\"\nthere\",é=\"ü\" 1000");
    let found = rows(&server, "SELECT \"a tag\", \"f\"\"x\", \"é\" FROM \"my \"\"table,1\"");
    assert_eq!(found, json!([["v=1,2", "say \"hi\"\nthere", "ü"]]));
}

#[test]
fn a_request_with_a_bad_line_stores_nothing_unless_parts_are_accepted() {
    let server = TestServer::start();
    let body = "good a=1 1000\nbad\ngood a=\"text\" 2000\nfresh b=x 1\ngood a=2i 3000";
    let answer = write(&server, "/write", body);
    assert_eq!(answer.status, 400);
    let answer = answer.json();
    assert_eq!((answer["code"].as_str(), answer["line"].as_u64()), (Some("invalid"), Some(2)));
    let lines: Vec<u64> =
        answer["rejected"].as_array().unwrap().iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [2, 3, 4]);
    assert_eq!(answer["rejected"][0]["reason"], "column 4: the line has no fields");
    assert!(answer["rejected"][1]["reason"].as_str().unwrap().contains("does not take a string"));
    assert_eq!(write(&server, "/api/v2/write?accept_partial=false", body).status, 400);
    assert_eq!(write(&server, "/api/v3/write_lp?accept_partial=false", body).status, 400);
    assert_eq!(query(&server, "/query", "SELECT * FROM good").status, 404);
    assert_eq!(query(&server, "/query", "SELECT * FROM rowmill_rejected_lines").status, 404);

    let answer = write(&server, "/api/v3/write_lp", body);
    assert_eq!(answer.status, 400);
    let answer = answer.json();
    assert_eq!(answer["error"], "partial write of line protocol occurred");
    assert_eq!(answer["data"][0]["original_line"], "bad");
    assert_eq!(answer["data"][0]["line_number"], 2);
    assert_eq!(rows(&server, "SELECT sum(a) FROM good")[0][0].as_f64(), Some(3.0));
    assert_eq!(query(&server, "/query", "SELECT * FROM fresh").status, 404);
    let kept = rows(&server, "SELECT line_number, line FROM rowmill_rejected_lines ORDER BY line_number");
    assert_eq!(kept, json!([[2, "bad"], [3, "good a=\"text\" 2000"], [4, "fresh b=x 1"]]));

    assert_eq!(write(&server, "/write?accept_partial=true", "good a=4 1\nbad").status, 400);
    assert_eq!(count(&server, "good"), 3);
    assert_eq!(count(&server, "rowmill_rejected_lines"), 4);
}

#[test]
fn values_that_do_not_fit_their_column_are_rejected() {
    let server = TestServer::start();
    let table = "CREATE TABLE m (ts TIMESTAMP(0), small SMALLINT, word VARCHAR(3), big BIGINT, real REAL, id UUID, \
        must TEXT NOT NULL) TIMESTAMP(ts)";
    assert_eq!(query(&server, "/query", table).status, 200);
    store(&server, "/write", "m,must=x small=7u,word=\"abc\",big=7u,real=2i 2500000000");
    assert_eq!(
        rows(&server, "SELECT ts::TEXT, small, word, big FROM m"),
        json!([["1970-01-01 00:00:02", 7, "abc", 7]])
    );
    for (fields, reason) in [
        ("small=32768i", "out of range"),
        ("small=1", "does not take a float"),
        ("word=\"abcd\"", "out of range"),
        ("big=18446744073709551615u", "out of range"),
        ("big=t", "does not take a boolean"),
        ("id=\"x\"", "does not take a string"),
        ("big=1i,big=2i", "two values"),
        ("big=1i,BIG=2i", "two values"),
        ("new=1,new=1", "two values"),
        ("ts=1t", "time column"),
    ] {
        let answer = write(&server, "/write", format!("m,must=x {fields} 1"));
        assert_eq!(answer.status, 400, "{fields}");
        assert!(answer.text().contains(reason), "{fields}: {}", answer.text());
    }
    assert!(write(&server, "/write", "m big=1i 1").text().contains("NOT NULL"));
    assert!(write(&server, "/write", "m,big=x,must=x real=1 1").text().contains("does not take a tag"));
    assert!(write(&server, "/write", "rowmill_rejected_lines a=1").text().contains("belongs to the server"));
    query(&server, "/query", "CREATE TABLE timeless (a BIGINT)");
    assert!(write(&server, "/write", "timeless a=1i").text().contains("no time column"));
    assert_eq!(count(&server, "m"), 1);
    assert_eq!(query(&server, "/query", "SELECT new FROM m").status, 400);
}

#[test]
fn a_line_that_is_no_utf_8_is_rejected_alone() {
    let server = TestServer::start();
    let answer = write(&server, "/api/v2/write", b"m a=1 1\nm a=\"\xff\" 2\nm a=3 3");
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["rejected"][0]["line"], 2);
    assert_eq!(answer.json()["rejected"][0]["reason"], "column 6: the line is not UTF-8");
    assert_eq!(count(&server, "m"), 2);
}

#[test]
fn bodies_may_be_compressed() {
    let server = TestServer::with_limits(ServerLimits { message_bytes_max: 100_000, ..ServerLimits::default() });
    let gzip = [("Content-Encoding", "gzip")];
    let write_gzip = |body: &[u8]| ask(&server, "POST", "/api/v3/write_lp", &gzip, body);
    assert_eq!(write_gzip(&gzipped(b"m a=1 1\nm a=2 2")).status, 204);
    assert_eq!(count(&server, "m"), 2);
    let whole = gzipped(b"m a=3 3\n");
    assert_eq!(write_gzip(&whole[..whole.len() - 4]).status, 400);
    assert_eq!(write_gzip(b"m a=1").status, 400);
    let bomb = gzipped(&vec![b'\n'; 10_000_000]);
    assert!(bomb.len() < 100_000);
    assert_eq!(write_gzip(&bomb).status, 413);
    assert_eq!(ask(&server, "POST", "/write", &[("Content-Encoding", "br")], b"m a=1").status, 400);
    assert_eq!(count(&server, "m"), 2);
}

#[test]
fn a_request_with_a_key_is_applied_once() {
    let server = TestServer::start();
    let keyed =
        |key: &str, body: &str| ask(&server, "POST", "/write", &[("Idempotency-Key", key)], body.as_bytes()).status;
    assert_eq!(keyed("one", "m a=1 1"), 204);
    assert_eq!(keyed("one", "m a=1 1"), 204);
    assert_eq!(keyed("two", "m a=2 2"), 204);
    assert_eq!(count(&server, "m"), 2);
    // A refused request leaves no key.
    assert_eq!(keyed("three", "bad"), 400);
    assert_eq!(keyed("three", "m a=3 3"), 204);
    assert_eq!(count(&server, "m"), 3);
    let keys = rows(&server, "SELECT key FROM rowmill_applied_requests WHERE applied IS NOT NULL ORDER BY key");
    assert_eq!(keys, json!([["one"], ["three"], ["two"]]));
    assert_eq!(keyed(&"k".repeat(256), "m a=1"), 400);
}

#[test]
fn lines_and_keys_are_there_after_the_server_starts_again() {
    let directory = tempfile::tempdir().unwrap();
    let key = [("Idempotency-Key", "one")];
    for _ in 0..2 {
        let database = Database::open(directory.path()).unwrap();
        let server = TestServer::over(database, ServerLimits::default());
        assert_eq!(ask(&server, "POST", "/write", &key, b"m a=1 1\nm a=2 2").status, 204);
        assert_eq!(count(&server, "m"), 2);
        store(&server, "/write", "more a=1");
    }
    let mut connection = Database::open(directory.path()).unwrap().connect().unwrap();
    let rows = connection.query("SELECT count(*) FROM more").unwrap().rows().unwrap();
    assert_eq!(rows[0].get::<i64>(0).unwrap(), 2);
}

#[test]
fn requests_at_the_same_time_share_tables_columns_and_keys() {
    let server = TestServer::start();
    std::thread::scope(|scope| {
        for client in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for step in 0..10 {
                    store(server, "/write", format!("m,client={client} a=1,c{step}=1i {step}"));
                    let key = format!("shared-{step}");
                    let headers = [("Idempotency-Key", key.as_str())];
                    assert_eq!(ask(server, "POST", "/write", &headers, b"once a=1").status, 204);
                }
            });
        }
    });
    assert_eq!(count(&server, "m"), 40);
    assert_eq!(count(&server, "once"), 10);
}

#[test]
fn many_rows_and_many_columns_are_stored() {
    let server = TestServer::start();
    let body: String = (0..20_000).map(|n| format!("m,host=h{} a={n}i,b={n}.5 {}\n", n % 10, n * 1_000)).collect();
    store(&server, "/write", body);
    assert_eq!(
        rows(&server, "SELECT count(*), sum(a), count(DISTINCT host) FROM m"),
        json!([[20_000, 199_990_000, 10]])
    );
    // With this number of columns and rows, several batches go to the transaction, between new columns.
    let line = |n: usize| match n {
        1_500..3_500 => "wide c0=1i\n".to_owned(),
        _ => format!("wide c{n}=1i\n"),
    };
    let wide: String = (0..4_500).map(line).collect();
    let answer = write(&server, "/api/v2/write", wide);
    // A table may have 2,000 columns, and one of them is its time.
    assert_eq!(answer.json()["rejected"].as_array().unwrap().len(), 501);
    let found = rows(&server, "SELECT count(*), sum(c0), sum(c1499), sum(c3998), count(c3500) FROM wide");
    assert_eq!(found, json!([[3_999, 2_001, 1, 1, 1]]));
    let tables: String = (0..11)
        .map(|table| {
            let fields: Vec<String> = (0..1_990).map(|n| format!("c{n}=t")).collect();
            format!("t{table} {}\n", fields.join(","))
        })
        .collect();
    let answer = write(&server, "/write", tables);
    assert!(answer.text().contains("too many columns"), "{}", answer.text());
}

#[test]
fn objects_that_take_no_rows_answer_with_the_error_of_the_engine() {
    let server = TestServer::start();
    query(&server, "/query", "CREATE VIEW v AS SELECT 1 AS a");
    query(&server, "/query", "CREATE TABLE checked (\"timestamp\" TIMESTAMP PRIMARY KEY, a BIGINT CHECK (a > 0))");
    query(&server, "/query", "CREATE TABLE keyed (\"timestamp\" TIMESTAMP PRIMARY KEY, a BIGINT)");
    for (body, status, sqlstate) in [("v a=1i", 400, "42809"), ("checked a=-1i", 400, "23514")] {
        let answer = write(&server, "/write", body);
        assert_eq!((answer.status, answer.json()["sqlstate"].as_str()), (status, Some(sqlstate)), "{}", answer.text());
        assert_eq!(answer.json()["error"], answer.json()["message"]);
    }
    store(&server, "/write", "keyed a=1i 1000");
    let twice = write(&server, "/write", "m a=1\nkeyed a=2i 1000");
    assert_eq!((twice.status, twice.json()["sqlstate"].as_str()), (409, Some("23505")));
    assert_eq!(query(&server, "/query", "SELECT * FROM m").status, 404);
}

#[test]
fn a_body_of_garbage_is_refused_as_a_whole() {
    let server = TestServer::start();
    let answer = write(&server, "/api/v2/write", format!("m a=1\n{}", "x\n".repeat(20_000)));
    assert_eq!(answer.status, 400);
    assert!(answer.json()["message"].as_str().unwrap().contains("nothing is stored"));
    assert_eq!(query(&server, "/query", "SELECT * FROM m").status, 404);
}

#[test]
fn bodies_that_are_too_long_or_break_off_store_nothing() {
    let server = TestServer::with_limits(ServerLimits {
        message_bytes_max: 1_000,
        stalled_timeout: Duration::from_millis(500),
        ..ServerLimits::default()
    });
    assert_eq!(write(&server, "/write", "m a=1\n".repeat(1_000)).status, 413);
    let mut stream = TcpStream::connect(server.http_address()).unwrap();
    stream.write_all(b"POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nm a=1\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    // A client that keeps the connection open without the rest of its body gets an answer.
    let mut stream = TcpStream::connect(server.http_address()).unwrap();
    stream.write_all(b"POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nm a=1\n").unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert_eq!(query(&server, "/query", "SELECT * FROM m").status, 404);
    store(&server, "/write", "");
    store(&server, "/write", "m a=1");
    assert_eq!(count(&server, "m"), 1);
}

#[test]
fn pages_of_other_sites_cannot_write_and_settings_ask_for_text() {
    let server = TestServer::start();
    assert_eq!(ask(&server, "POST", "/write", &[("Origin", "http://evil.example")], b"m a=1").status, 403);
    let settings = ask(&server, "GET", "/settings", &[], b"").json();
    assert_eq!(settings["config"]["line.proto.support.versions"], json!([1]));
    assert_eq!(ask(&server, "GET", "/write", &[], b"").status, 405);
}
