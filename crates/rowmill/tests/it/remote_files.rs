//! Files over HTTP and of S3, from a server that this test starts.

mod server;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowmill::access::{Actor, Authority, FileFolders};
use rowmill::{Connection, Database, Error, ErrorKind, Result};
use server::{Manners, TestServer};

fn connection() -> Connection {
    Database::memory().expect("a database").connect().expect("a connection")
}

/// The first column of each row as text.
fn texts(connection: &mut Connection, sql: &str) -> Result<Vec<String>> {
    connection.query(sql)?.rows()?.iter().map(|row| row.get(0)).collect()
}

#[track_caller]
fn text(connection: &mut Connection, sql: &str) -> String {
    let rows = texts(connection, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    rows.join("|")
}

#[track_caller]
fn failure(connection: &mut Connection, sql: &str) -> Error {
    match texts(connection, sql) {
        Err(error) => error,
        Ok(rows) => panic!("{sql}: {rows:?}"),
    }
}

/// The bytes of a file that a statement writes.
fn written(name: &str, copy: impl Fn(&str) -> String) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    connection().execute_batch(&copy(&path.display().to_string())).expect("written");
    std::fs::read(path).expect("read")
}

/// A Parquet file of `rows` rows in row groups: numbers, texts that do not compress, and a column with little in it.
fn parquet(rows: u32) -> Vec<u8> {
    written("a.parquet", |path| {
        format!(
            "COPY (SELECT n, md5(n::TEXT) AS wide, sha256(n::TEXT) AS wider, n % 3 AS few
             FROM generate_series(1, {rows}) AS t(n)) TO '{path}'"
        )
    })
}

fn csv(rows: u32) -> String {
    let lines = (1..=rows).map(|n| format!("{n},row {n},{}.5\n", n % 7));
    format!("id,name,price\n{}", lines.collect::<String>())
}

#[test]
fn parquet_over_http_reads_only_what_it_needs() {
    let (server, mut connection) = (TestServer::start(), connection());
    let bytes = parquet(200_000);
    let whole = bytes.len();
    server.put("a.parquet", bytes);
    let url = server.url("a.parquet");
    assert_eq!(text(&mut connection, &format!("SELECT count(*)::TEXT FROM '{url}'")), "200000");
    let seen = server.seen();
    assert!(seen.iter().all(|seen| seen.range.is_some()), "{seen:?}");
    let sent: usize = seen.iter().map(|seen| seen.sent).sum();
    assert!(sent <= 3 * 64 * 1024 && seen.len() <= 3, "a count reads the footer only: {seen:?}");
    let sql = format!("SELECT sum(few)::TEXT FROM read_parquet('{url}')");
    assert_eq!(text(&mut connection, &sql), (1..=200_000_u32).map(|n| n % 3).sum::<u32>().to_string());
    let sent: usize = server.seen().iter().map(|seen| seen.sent).sum();
    assert!(sent < whole / 4, "one small column is a small part of {whole} bytes: {sent}");
    let sql = format!("SELECT wide FROM '{url}' WHERE n = 777");
    assert_eq!(text(&mut connection, &sql), text(&mut connection, "SELECT md5('777')"));
    connection.execute_batch(&format!("CREATE TABLE t AS FROM '{url}'; COPY t FROM '{url}'")).expect("loaded");
    let sql = "SELECT concat_ws(' ', count(*), count(DISTINCT wide), sum(n)) FROM t";
    assert_eq!(text(&mut connection, sql), "400000 200000 40000200000");
}

#[test]
fn large_row_groups_are_read_through_windows() {
    let (server, mut connection) = (TestServer::start(), connection());
    // More than the 32 MiB that are read at once: 64 characters that do not compress below 32 bytes, twice.
    let bytes = written("a.parquet", |path| {
        format!(
            "COPY (SELECT n, sha256(n::TEXT) AS a, sha512(n::TEXT) AS b FROM generate_series(1, 600000) AS t(n)) TO \
             '{path}' (COMPRESSION none)"
        )
    });
    server.put("a.parquet", bytes);
    let url = server.url("a.parquet");
    let sql = |from: &str| {
        format!("SELECT concat_ws(' ', count(DISTINCT a), count(DISTINCT b), min(a), max(b), sum(n)) FROM {from}")
    };
    let own = "(SELECT n, sha256(n::TEXT) AS a, sha512(n::TEXT) AS b FROM generate_series(1, 600000) AS t(n)) AS t";
    assert_eq!(text(&mut connection, &sql(&format!("'{url}'"))), text(&mut connection, &sql(own)));
}

#[test]
fn texts_over_http_are_read_like_files() {
    let (server, mut connection) = (TestServer::start(), connection());
    // Much longer than what the buffers of a connection hold, which a server may have sent before it is told to stop.
    let rows = 500_000_u32;
    server.put("data/a.csv", csv(rows));
    let mut gzip = flate2_bytes(csv(1000).as_bytes());
    server.put("data/a.csv.gz", gzip.clone());
    server.put("data/a.json", "{\"a\": 1, \"b\": \"x\"}\n{\"a\": 2}\n");
    server.put("data/a b.tsv", "a\tb\n1\t2\n");
    server.put("data/empty.csv", "");
    server.put("data/one.csv", "a\n1\n");
    let url = |name: &str| server.url(&format!("data/{name}"));
    let sql = format!("SELECT concat_ws(' ', count(*), sum(id), sum(price)) FROM '{}'", url("a.csv"));
    let expected: f64 = (1..=rows).map(|n| f64::from(n % 7) + 0.5).sum();
    assert_eq!(text(&mut connection, &sql), format!("500000 125000250000 {expected:?}"));
    let sent: usize = server.seen().iter().map(|seen| seen.sent).sum();
    assert!(sent < csv(rows).len() * 9 / 5, "the sample for the types is not sent again: {sent}");
    let sql =
        format!("SELECT typeof(id) || typeof(name) || typeof(price) FROM read_csv('{}') LIMIT 1", url("a.csv.gz"));
    assert_eq!(text(&mut connection, &sql), "BIGINTTEXTDOUBLE");
    assert_eq!(text(&mut connection, &format!("SELECT b FROM '{}' WHERE a = 1", url("a.json"))), "x");
    assert_eq!(text(&mut connection, &format!("SELECT b::TEXT FROM '{}'", url("a%20b.tsv"))), "2");
    // A query is a part of the URL, and the ending before it tells the format.
    let signed = url("one.csv?X-Amz-Signature=hidden");
    assert_eq!(
        text(&mut connection, &format!("SELECT filename FROM read_csv('{signed}', filename = true)")),
        url("one.csv")
    );
    let error = failure(&mut connection, &format!("SELECT * FROM '{}'", url("empty.csv")));
    assert!(error.message().contains("it is empty"), "{error}");
    connection.execute_batch("CREATE TABLE t (id INTEGER, name TEXT, price DECIMAL(4, 1))").expect("made");
    let sql = format!("COPY t FROM '{}'; COPY t FROM '{}'", url("a.csv.gz"), url("a.csv"));
    connection.execute_batch(&sql).expect("loaded");
    assert_eq!(text(&mut connection, "SELECT count(*)::TEXT FROM t"), "501000");
    gzip.truncate(gzip.len() / 2);
    server.put("data/short.csv.gz", gzip);
    let error = failure(&mut connection, &format!("SELECT * FROM '{}'", url("short.csv.gz")));
    assert_eq!(error.kind(), ErrorKind::BadFileFormat, "{error}");
}

fn flate2_bytes(bytes: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plain.csv");
    std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes)).expect("written");
    let (path, packed) = (path.display().to_string(), folder.path().join("packed.csv.gz"));
    let sql = format!("COPY (SELECT * FROM '{path}') TO '{}'", packed.display());
    connection().execute_batch(&sql).expect("packed");
    std::fs::read(packed).expect("read")
}

#[test]
fn arrow_and_lists_of_urls_are_read() {
    let (server, mut connection) = (TestServer::start(), connection());
    let arrow = written("a.arrow", |path| {
        format!("COPY (SELECT n, n::TEXT AS word FROM generate_series(1, 5000) AS t(n)) TO '{path}'")
    });
    server.put("a.arrow", arrow);
    let sql = format!("SELECT concat_ws(' ', count(*), sum(n), max(word)) FROM '{}'", server.url("a.arrow"));
    assert_eq!(text(&mut connection, &sql), "5000 12502500 999");
    server.put("y=1/a.csv", "id,name\n1,x\n");
    server.put("y=2/b.csv", "id,city\n2,z\n");
    let list = format!("['{}', '{}']", server.url("y=1/a.csv"), server.url("y=2/b.csv"));
    let sql = format!(
        "SELECT concat_ws(' ', id, coalesce(name, '-'), coalesce(city, '-'), y) FROM read_csv({list}, union_by_name = \
         true, hive_partitioning = true) ORDER BY id"
    );
    assert_eq!(text(&mut connection, &sql), "1 x - 1|2 - z 2");
}

#[test]
fn servers_without_ranges_and_lengths_send_the_whole_file_once() {
    let (server, mut connection) = (TestServer::start(), connection());
    server.put("a.parquet", parquet(1000));
    server.put("a.csv", csv(1000));
    for (ranges, lengths) in [(false, true), (true, false), (false, false)] {
        server.behave(Manners { ranges, lengths, ..Manners::default() });
        for name in ["a.parquet", "a.csv"] {
            let sql = format!("SELECT count(*)::TEXT FROM '{}'", server.url(name));
            assert_eq!(text(&mut connection, &sql), "1000", "{name} ranges {ranges} lengths {lengths}");
        }
    }
}

#[test]
fn requests_are_repeated_and_bodies_that_break_off_go_on() {
    let (server, mut connection) = (TestServer::start(), connection());
    server.put("a.csv", csv(30_000));
    server.put("a.parquet", parquet(20_000));
    let count = |name: &str| format!("SELECT count(*)::TEXT FROM (SELECT * FROM '{}') AS t", server.url(name));
    let sum = format!("SELECT sum(few)::TEXT FROM '{}'", server.url("a.parquet"));
    let expected = text(&mut connection, &sum);
    server.behave(Manners { unavailable: 2, ..Manners::default() });
    assert_eq!(text(&mut connection, &count("a.csv")), "30000");
    server.behave(Manners { unavailable: 2, ..Manners::default() });
    assert_eq!(text(&mut connection, &sum), expected);
    server.behave(Manners { cut: 3, ..Manners::default() });
    assert_eq!(text(&mut connection, &count("a.csv")), "30000");
    server.behave(Manners { cut: 3, ..Manners::default() });
    assert_eq!(text(&mut connection, &sum), expected);
    // Without a tag, the rest could belong to another content.
    server.behave(Manners { cut: 1, tags: false, ..Manners::default() });
    let error = failure(&mut connection, &count("a.csv"));
    assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
    assert!(error.message().contains(&server.url("a.csv")), "{error}");
    server.behave(Manners { unavailable: 100, ..Manners::default() });
    let error = failure(&mut connection, &count("a.csv"));
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("503 Service Unavailable") && error.message().contains("a.csv"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("again")), "{error:?}");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_an_error() {
    let (server, mut connection) = (TestServer::start(), connection());
    server.put("a.csv", csv(200_000));
    server.put("a.parquet", parquet(100_000));
    for (name, column) in [("a.csv", "name"), ("a.parquet", "wide")] {
        server.behave(Manners { changes_after: Some(1), ..Manners::default() });
        let error = failure(&mut connection, &format!("SELECT max({column}) FROM '{}'", server.url(name)));
        assert!(error.message().contains("was changed while it was read"), "{name}: {error}");
        assert_eq!(error.kind(), ErrorKind::Io, "{name}");
    }
}

#[test]
fn errors_name_the_url_the_answer_and_what_helps() {
    let (server, mut connection) = (TestServer::start(), connection());
    let error = failure(&mut connection, &format!("SELECT * FROM '{}'", server.url("missing.csv?token=hidden")));
    assert_eq!(error.kind(), ErrorKind::UndefinedFile);
    assert!(error.message().contains(&server.url("missing.csv")) && error.message().contains("404"), "{error}");
    assert!(!error.to_string().contains("hidden"), "{error}");
    let error = failure(&mut connection, &format!("SELECT * FROM '{}'", server.url("*.csv")));
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("do not list"), "{error}");
    let error = failure(&mut connection, "SELECT * FROM 'ftp://host/a.csv'");
    assert!(
        error.message().contains("over ftp") && error.hint_text().is_some_and(|hint| hint.contains("s3")),
        "{error}"
    );
    // No server listens at a port that was given back.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let error = failure(&mut connection, &format!("SELECT * FROM 'http://127.0.0.1:{port}/a.csv'"));
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("refused"), "{error}");
    let error = failure(&mut connection, &format!("COPY (SELECT 1) TO '{}'", server.url("out.csv")));
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    server.put("a.txt", "a,b\n1,2\n");
    let error = failure(&mut connection, &format!("SELECT * FROM '{}'", server.url("a.txt")));
    assert!(error.message().contains("does not tell its format"), "{error}");
    assert_eq!(text(&mut connection, &format!("SELECT b::TEXT FROM read_csv('{}')", server.url("a.txt"))), "2");
    server.put("bad.csv", "a\n1\nx\n");
    connection.execute_batch("CREATE TABLE t (a INTEGER)").expect("made");
    let error = failure(&mut connection, &format!("COPY t FROM '{}'", server.url("bad.csv")));
    assert!(error.message().contains(&format!("{}, line 3", server.url("bad.csv"))), "{error}");
}

#[test]
fn redirects_are_followed() {
    let (server, other, mut connection) = (TestServer::start(), TestServer::start(), connection());
    other.put("real.csv", csv(10));
    server.redirect("a.csv", other.url("real.csv"));
    let sql = format!("SELECT count(*)::TEXT FROM '{}'", server.url("a.csv"));
    assert_eq!(text(&mut connection, &sql), "10");
}

#[test]
fn a_slow_server_does_not_hold_a_cancelled_statement() {
    let (server, mut connection) = (TestServer::start(), connection());
    server.put("a.csv", csv(100_000));
    server.put("a.parquet", parquet(50_000));
    server.behave(Manners { pause: Some(Duration::from_millis(20)), ..Manners::default() });
    for name in ["a.csv", "a.parquet"] {
        connection.execute_batch("SET statement_timeout_ms = 300").expect("set");
        let started = Instant::now();
        let error = failure(&mut connection, &format!("SELECT count(*)::TEXT FROM '{}'", server.url(name)));
        assert_eq!(error.kind(), ErrorKind::Deadline, "{name}: {error}");
        assert!(started.elapsed() < Duration::from_secs(5), "{name}: {:?}", started.elapsed());
    }
    connection.execute_batch("SET statement_timeout_ms = 0").expect("set");
    let cancel = connection.cancel_handle();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
    });
    let error = failure(&mut connection, &format!("SELECT max(name) FROM '{}'", server.url("a.csv")));
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    canceller.join().expect("it does not panic");
}

/// A connection with keys for the server as a store of S3.
fn s3_connection(server: &TestServer) -> Connection {
    let mut connection = connection();
    let sql = format!(
        "CREATE SECRET store (TYPE s3, KEY_ID 'AKIDTEST', SECRET 'never-shown', REGION 'eu-central-1', ENDPOINT '{}', \
         URL_STYLE 'path', USE_SSL false)",
        server.address()
    );
    connection.execute_batch(&sql).expect("a secret");
    server.behave(Manners { key_id: Some("AKIDTEST".to_owned()), ..Manners::default() });
    connection
}

#[test]
fn patterns_of_a_bucket_find_files_and_partitions() {
    let server = TestServer::start();
    let mut connection = s3_connection(&server);
    for (name, rows) in [("year=2025/a", 10), ("year=2025/b", 20), ("year=2026/a", 30), ("other/deep/c", 40)] {
        server.put(&format!("bucket/dir/{name}.parquet"), parquet(rows));
    }
    server.put("bucket/dir/.hidden/d.parquet", parquet(50));
    server.put("bucket/dir/year=2026/notes.txt", "x");
    server.put("bucket/dire/year=2027/a.parquet", parquet(60));
    let sql = "SELECT year || ' ' || count(*)
               FROM read_parquet('s3://bucket/dir/*/*.parquet', hive_partitioning => true) GROUP BY year ORDER BY year";
    assert!(failure(&mut connection, &sql.replace("/*/*", "/**/*")).message().contains("key=value"));
    let sql = sql.replace("dir/*/*", "dir/year=*/*");
    assert_eq!(text(&mut connection, &sql), "2025 30|2026 30");
    assert_eq!(text(&mut connection, "SELECT count(*)::TEXT FROM 's3://bucket/dir/**/*.parquet'"), "100");
    let sql = "SELECT filename || ' ' || count(*)
               FROM read_parquet('s3://bucket/dir/year=2025/[ab].parquet', filename = true)
               GROUP BY filename ORDER BY 1";
    let expected = "s3://bucket/dir/year=2025/a.parquet 10|s3://bucket/dir/year=2025/b.parquet 20";
    assert_eq!(text(&mut connection, sql), expected);
    // A condition on a partition excludes files without asking for their columns.
    server.seen();
    let sql = "SELECT count(*)::TEXT FROM read_parquet('s3://bucket/dir/year=*/*.parquet', hive_partitioning = true) \
               WHERE year = 2026 AND few = 0";
    assert_eq!(text(&mut connection, sql), "10");
    let error = failure(&mut connection, "SELECT * FROM 's3://bucket/dir/*.parquet'");
    assert_eq!(error.kind(), ErrorKind::UndefinedFile);
    assert!(failure(&mut connection, "SELECT * FROM 's3://bucket/dir/'").message().contains("is a folder"));
    let error = failure(&mut connection, "SELECT * FROM 's3://bucket/dir/missing.parquet'");
    assert!(error.message().contains("NoSuchKey"), "{error}");
}

#[test]
fn keys_are_sent_and_never_shown() {
    let server = TestServer::start();
    let mut connection = s3_connection(&server);
    server.put("bucket/a.csv", csv(3));
    assert_eq!(text(&mut connection, "SELECT count(*)::TEXT FROM 's3://bucket/a.csv'"), "3");
    // Another scope has other keys.
    let narrow = format!(
        "CREATE SECRET wrong (TYPE s3, KEY_ID 'OTHER', SECRET 'x', ENDPOINT 'http://{}', SCOPE 's3://bucket/a')",
        server.address()
    );
    connection.execute_batch(&narrow).expect("a secret");
    let error = failure(&mut connection, "SELECT * FROM 's3://bucket/a.csv'");
    assert_eq!(error.kind(), ErrorKind::InsufficientPrivilege);
    assert!(error.message().contains("403 Forbidden: AccessDenied"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("CREATE SECRET")), "{error:?}");
    connection.execute_batch("DROP SECRET wrong").expect("dropped");
    assert_eq!(text(&mut connection, "SELECT count(*)::TEXT FROM 's3://bucket/a.csv'"), "3");
    for (sql, message) in [
        ("CREATE SECRET store (TYPE s3)", "already"),
        ("DROP SECRET wrong", "there is no secret"),
        ("CREATE PERSISTENT SECRET p (TYPE s3)", "PERSISTENT"),
        ("CREATE SECRET p (TYPE gcs)", "no type of secret"),
        ("CREATE SECRET p (TYPE s3, REGOIN 'x')", "no option"),
        ("CREATE SECRET p (TYPE s3, KEY_ID 'x', KEY_ID 'x')", "given twice"),
    ] {
        let error = connection.execute_batch(sql).expect_err(sql);
        assert!(error.message().contains(message), "{sql}: {error}");
    }
    connection
        .execute_batch("CREATE SECRET IF NOT EXISTS store (TYPE s3); DROP SECRET IF EXISTS wrong")
        .expect("notices");
    let shown = text(&mut connection, "SELECT coalesce(string_agg(query, ' '), '') FROM pg_stat_activity");
    assert!(!shown.contains("never-shown"), "{shown}");
    // Secrets belong to their connection: what was sent without a signature is refused.
    connection.drop_secrets();
    let anonymous = format!("CREATE SECRET (TYPE s3, ENDPOINT 'http://{}')", server.address());
    connection.execute_batch(&anonymous).expect("a secret");
    assert_eq!(failure(&mut connection, "SELECT * FROM 's3://bucket/a.csv'").kind(), ErrorKind::InsufficientPrivilege);
    server.behave(Manners::default());
    assert_eq!(text(&mut connection, "SELECT count(*)::TEXT FROM 's3://bucket/a.csv'"), "3");
    // Tokens of HTTP.
    server.behave(Manners { token: Some("open".to_owned()), ..Manners::default() });
    let sql = format!("SELECT count(*)::TEXT FROM '{}'", server.url("bucket/a.csv"));
    assert_eq!(failure(&mut connection, &sql).kind(), ErrorKind::InsufficientPrivilege);
    let secret = format!("CREATE SECRET (TYPE http, BEARER_TOKEN 'open', SCOPE 'http://{}/')", server.address());
    connection.execute_batch(&secret).expect("a secret");
    assert_eq!(text(&mut connection, &sql), "3");
}

#[test]
fn copy_to_s3_writes_small_and_large_objects() {
    let server = TestServer::start();
    let mut connection = s3_connection(&server);
    connection
        .execute_batch("CREATE TABLE t AS SELECT n, sha512(n::TEXT) AS wide FROM generate_series(1, 300000) AS t(n)")
        .expect("made");
    for name in ["t.parquet", "t.csv", "t.csv.gz", "t.json", "t.arrow"] {
        connection.execute_batch(&format!("COPY t TO 's3://bucket/out/{name}'")).expect(name);
        let sql = format!("SELECT concat_ws(' ', count(*), sum(n), max(wide)) FROM 's3://bucket/out/{name}'");
        let expected = text(&mut connection, "SELECT concat_ws(' ', count(*), sum(n), max(wide)) FROM t");
        assert_eq!(text(&mut connection, &sql), expected, "{name}");
    }
    let parts = server.seen().iter().filter(|seen| seen.target.contains("partNumber")).count();
    assert!(parts > 4, "large objects go up in parts: {parts}");
    connection.execute_batch("COPY (SELECT 1 AS a) TO 's3://bucket/out/small.csv'").expect("written");
    assert_eq!(server.get("bucket/out/small.csv").as_deref().map(Vec::as_slice), Some(&b"a\n1\n"[..]));
    assert_eq!(server.unfinished_uploads(), 0);
    // A query that fails in the middle leaves the old object, and no parts.
    let old = server.get("bucket/out/t.csv");
    let sql = "COPY (SELECT wide, 1 / (n - 299999) AS x FROM t) TO 's3://bucket/out/t.csv'";
    assert_eq!(failure(&mut connection, sql).kind(), ErrorKind::DivisionByZero);
    assert_eq!(server.get("bucket/out/t.csv").map(Arc::unwrap_or_clone), old.map(Arc::unwrap_or_clone));
    assert_eq!(server.unfinished_uploads(), 0);
    for (sql, kind) in [
        ("COPY t TO 's3://bucket/*.csv'", ErrorKind::InvalidParameter),
        ("COPY t TO 's3://bucket' (FORMAT csv)", ErrorKind::UndefinedFile),
        ("EXPORT DATABASE 's3://bucket/export'", ErrorKind::Unsupported),
    ] {
        assert_eq!(failure(&mut connection, sql).kind(), kind, "{sql}");
    }
    server.behave(Manners { key_id: Some("ANOTHER".to_owned()), ..Manners::default() });
    let error = failure(&mut connection, "COPY (SELECT 1 AS a) TO 's3://bucket/out/small.csv'");
    assert!(error.message().contains("cannot be written") && error.message().contains("403"), "{error}");
}

#[test]
fn a_role_reads_only_urls_that_are_allowed_to_it() {
    let (server, other) = (TestServer::start(), TestServer::start());
    server.put("open/a.csv", csv(3));
    server.put("closed/a.csv", csv(3));
    server.redirect("open/away.csv", other.url("a.csv"));
    other.put("a.csv", csv(3));
    server.put("bucket/a.csv", csv(3));
    let database = Database::memory().expect("a database");
    database.connect().expect("a connection").execute_batch("CREATE USER ann").expect("a role");
    let role = database.login_role("ann").expect("readable").expect("there").id;
    let connect = |folders: &[String]| {
        let folders: Vec<_> = folders.iter().map(std::path::PathBuf::from).collect();
        let folders = FileFolders::only(&folders).expect("sound");
        database.connect_for(Authority { actor: Actor::Role(role), folders }).expect("a connection")
    };
    let mut ann = connect(&[]);
    let open = format!("SELECT count(*)::TEXT FROM '{}'", server.url("open/a.csv"));
    assert_eq!(failure(&mut ann, &open).kind(), ErrorKind::InsufficientPrivilege);
    let mut ann = connect(&[server.url("open"), "s3://bucket".to_owned()]);
    assert_eq!(text(&mut ann, &open), "3");
    for name in ["closed/a.csv", "open/../closed/a.csv", "open/%2e%2e/closed/a.csv"] {
        let error = failure(&mut ann, &format!("SELECT * FROM '{}'", server.url(name)));
        assert_eq!(error.kind(), ErrorKind::InsufficientPrivilege, "{name}");
    }
    let error = failure(&mut ann, &format!("SELECT * FROM '{}'", server.url("open/away.csv")));
    assert!(error.message().contains("302"), "{error}");
    // The bucket is allowed, but not a store of the role's own choice.
    let secret = format!("CREATE SECRET (TYPE s3, ENDPOINT 'http://{}')", server.address());
    ann.execute_batch(&secret).expect("a secret");
    let error = failure(&mut ann, "SELECT * FROM 's3://bucket/a.csv'");
    assert_eq!(error.kind(), ErrorKind::InsufficientPrivilege, "{error}");
    let error = failure(&mut ann, "COPY (SELECT 1) TO 's3://closed/a.csv'");
    assert_eq!(error.kind(), ErrorKind::InsufficientPrivilege, "{error}");
    assert!(other.seen().is_empty(), "no request went to the other server");
}
