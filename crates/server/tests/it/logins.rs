//! Logins over all protocols, rights of clients, and TLS.

use std::io::Read;
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::SinkExt;
use rowmill::Database;
use rowmill_server::{ServerEvent, ServerLimits, ServerOptions, TlsFiles};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{ChannelBinding as BindingRule, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, NoTls};

use crate::http::ask;
use crate::support::{RawClient, TestServer, field, runtime};

const USERS: &str = "CREATE TABLE t (a BIGINT); CREATE TABLE secret (a BIGINT); \
    CREATE USER root PASSWORD 'top' SUPERUSER; CREATE USER ann PASSWORD 'right'; GRANT SELECT ON t TO ann; \
    CREATE USER old PASSWORD 'right' VALID UNTIL '2020-01-01'";

/// The base64 of `ann:right`.
const ANN: (&str, &str) = ("Authorization", "Basic YW5uOnJpZ2h0");

fn database() -> Database {
    let database = Database::memory().unwrap();
    database.connect().unwrap().execute_batch(USERS).unwrap();
    database
}

fn server() -> TestServer {
    TestServer::with_options(database(), ServerOptions { limits: limits(), ..ServerOptions::default() })
}

fn limits() -> ServerLimits {
    ServerLimits { stop_patience: Duration::from_millis(200), ..ServerLimits::default() }
}

fn config(server: &TestServer, user: &str, password: &str) -> Config {
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.address().port()).user(user).password(password).dbname("any");
    config
}

async fn connect(server: &TestServer, user: &str, password: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config(server, user, password).connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The SQLSTATE and the message of a failed login.
async fn failure(server: &TestServer, user: &str, password: &str) -> (String, String) {
    let Err(error) = connect(server, user, password).await else { panic!("{user} is logged in") };
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    (error.code().code().to_owned(), error.message().to_owned())
}

#[test]
fn a_client_logs_in_with_its_password_and_has_the_rights_of_its_role() {
    let server = server();
    runtime().block_on(async {
        let client = connect(&server, "ann", "right").await.unwrap();
        let row = client.query_one("SELECT current_user, has_table_privilege('t', 'INSERT')", &[]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, bool>(1)), ("ann", false));
        assert!(client.query("SELECT * FROM t", &[]).await.unwrap().is_empty());
        for sql in ["SELECT * FROM secret", "INSERT INTO t VALUES (1)", "DROP TABLE t", "COPY secret FROM STDIN"] {
            let error = client.batch_execute(sql).await.unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{sql}: {error:?}");
        }
        let root = connect(&server, "ROOT", "top").await.unwrap();
        root.batch_execute("INSERT INTO secret VALUES (1); GRANT INSERT ON t TO ann").await.unwrap();
    });
    // Data that a client sends itself needs no folder of files.
    let loaded = ask(&server, "POST", "/import/t?format=csv", &[ANN], b"a\n7\n");
    assert_eq!(loaded.json()["rows"], 1, "{}", loaded.text());
    let file = ask(&server, "POST", "/query", &[ANN], b"SELECT * FROM '/etc/hostname'");
    assert_eq!((file.status, file.json()["sqlstate"].as_str()), (403, Some("42501")));
}

#[test]
fn all_failed_logins_look_the_same_and_are_reported() {
    let server = server();
    runtime().block_on(async {
        for (user, password) in [("ann", "wrong"), ("eve", "right"), ("old", "right"), ("ann", "")] {
            let (code, message) = failure(&server, user, password).await;
            let wanted = format!("password authentication failed for user \"{user}\"");
            assert_eq!((code.as_str(), message), ("28P01", wanted));
        }
    });
    for reason in ["the password is wrong", "there is no such role", "the role or its token has ended"] {
        server.wait_for(|event| matches!(event, ServerEvent::LoginRefused { reason: found, .. } if *found == reason));
    }
}

#[test]
fn a_name_for_which_many_passwords_are_tried_is_locked_for_that_address() {
    let server = server();
    let wrong = [("Authorization", "Basic YW5uOndyb25n")];
    assert_eq!(ask(&server, "POST", "/query", &[ANN], b"SELECT 1").status, 200);
    // On a slow machine the first failures are forgotten while the last passwords are checked.
    let (is_locked, started) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..60 {
            scope.spawn(|| {
                while !is_locked.load(Ordering::Relaxed) && started.elapsed() < Duration::from_secs(60) {
                    let answer = ask(&server, "POST", "/query", &wrong, b"SELECT 1");
                    assert_eq!(answer.status, 401, "{}", answer.text());
                    is_locked.fetch_or(answer.text().contains("try again later"), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(is_locked.into_inner(), "the name is not locked");
    let locked = "too many logins of this name from this address have failed";
    server.wait_for(|event| matches!(event, ServerEvent::LoginRefused { reason, .. } if *reason == locked));
    runtime().block_on(async {
        // Other names are not locked, and neither is a password that was right before.
        connect(&server, "root", "top").await.unwrap();
    });
    assert_eq!(ask(&server, "POST", "/query", &[ANN], b"SELECT 1").status, 200);
}

#[test]
fn the_first_user_locks_out_all_who_did_not_log_in() {
    let server = TestServer::start();
    runtime().block_on(async {
        let guest = connect(&server, "anybody", "").await.unwrap();
        guest.batch_execute("CREATE TABLE t (a BIGINT)").await.unwrap();
        guest.batch_execute("CREATE USER root PASSWORD 'top' SUPERUSER").await.unwrap();
        let error = guest.batch_execute("SELECT * FROM t").await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION));
        assert_eq!(failure(&server, "anybody", "x").await.0, "28P01");
        connect(&server, "root", "top").await.unwrap().batch_execute("SELECT * FROM t").await.unwrap();
    });
    assert_eq!(ask(&server, "POST", "/query", &[], b"SELECT 1").status, 401);
}

/// Sends the start of a login, and returns the answer to the first message of SCRAM.
fn begin_scram(client: &mut RawClient) -> String {
    let body = b"\0\x03\0\0user\0ann\0\0";
    client.send(&(body.len() as u32 + 4).to_be_bytes());
    client.send(body);
    assert_eq!(client.message().unwrap().0, b'R');
    let first = b"n,,n=,r=clientnonce";
    let mut message = b"SCRAM-SHA-256\0".to_vec();
    message.extend((first.len() as u32).to_be_bytes());
    message.extend(first);
    client.send_message(b'p', &message);
    let (kind, body) = client.message().unwrap();
    assert_eq!(kind, b'R');
    String::from_utf8(body[4..].to_vec()).unwrap()
}

#[test]
fn a_replayed_proof_is_refused() {
    let server = server();
    let nonce = |answer: &str| answer.split(',').next().unwrap()[2..].to_owned();
    let earlier = nonce(&begin_scram(&mut server.raw()));
    let mut client = server.raw();
    let answer = begin_scram(&mut client);
    assert_ne!(nonce(&answer), earlier);
    client.send_message(b'p', format!("c=biws,r={earlier},p={}=", "A".repeat(43)).as_bytes());
    let (kind, body) = client.message().unwrap();
    assert_eq!((kind, field(&body, b'C').as_deref()), (b'E', Some("08P01")));
    assert!(field(&body, b'M').unwrap().contains("nonce"));
    assert_eq!(client.message(), None);
}

#[test]
fn a_statement_before_the_login_is_refused() {
    let server = server();
    let mut client = server.raw();
    let body = b"\0\x03\0\0user\0ann\0\0";
    client.send(&(body.len() as u32 + 4).to_be_bytes());
    client.send(body);
    client.message().unwrap();
    client.send_message(b'Q', b"SELECT 1\0");
    let (kind, body) = client.message().unwrap();
    assert_eq!((kind, field(&body, b'C').as_deref()), (b'E', Some("08P01")));
    assert_eq!(client.message(), None);
}

#[test]
fn a_role_loads_rows_that_it_sends_and_no_files_of_the_server() {
    let server = server();
    let root = &[("Authorization", "Basic cm9vdDp0b3A=")];
    ask(&server, "POST", "/query", root, b"GRANT INSERT ON t TO ann");
    let import = |headers: &[(&str, &str)], path: &str| ask(&server, "POST", path, headers, b"a\n1\n2\n");
    let loaded = import(&[ANN], "/import/t?format=csv");
    assert_eq!(loaded.json()["rows"], 2, "{}", loaded.text());
    ask(&server, "POST", "/query", root, b"REVOKE SELECT ON t FROM ann");
    assert_eq!(import(&[ANN], "/import/t?format=csv").status, 200);
    assert_eq!(import(&[ANN], "/import/secret?format=csv").status, 403);
    assert_eq!(import(&[], "/import/t?format=csv").status, 401);
    ask(&server, "POST", "/query", root, b"GRANT SELECT ON t TO ann");
    runtime().block_on(async {
        let client = connect(&server, "ann", "right").await.unwrap();
        let mut sink = Box::pin(client.copy_in("COPY t FROM STDIN").await.unwrap());
        sink.send(bytes::Bytes::from_static(b"3\n4\n")).await.unwrap();
        assert_eq!(sink.as_mut().finish().await.unwrap(), 2);
        assert_eq!(client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0), 6);
        let error = client.batch_execute("COPY t FROM '/etc/hostname' WITH (format csv)").await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    });
}

#[test]
fn a_role_adds_rows_to_the_columns_that_it_may_fill_and_need_not_read_them() {
    let server = server();
    let root = &[("Authorization", "Basic cm9vdDp0b3A=")];
    let grant =
        b"CREATE TABLE log (n BIGINT, note TEXT DEFAULT 'none', hidden TEXT); GRANT INSERT (n, note) ON log TO ann";
    for sql in String::from_utf8_lossy(grant).split("; ") {
        assert_eq!(ask(&server, "POST", "/query", root, sql.as_bytes()).status, 200, "{sql}");
    }
    runtime().block_on(async {
        let client = connect(&server, "ann", "right").await.unwrap();
        client.batch_execute("INSERT INTO log (n) VALUES (1)").await.unwrap();
        client.execute("INSERT INTO log (n, note) VALUES ($1, $2)", &[&2_i64, &"two"]).await.unwrap();
        let mut sink = Box::pin(client.copy_in("COPY log (note, n) FROM STDIN").await.unwrap());
        sink.send(bytes::Bytes::from_static(b"three\t3\n")).await.unwrap();
        assert_eq!(sink.as_mut().finish().await.unwrap(), 1);
        for refused in [
            "COPY log FROM STDIN",
            "COPY log (n, hidden) FROM STDIN",
            "COPY log (n) TO STDOUT",
            "INSERT INTO log (hidden) VALUES ('x')",
            "INSERT INTO log VALUES (1, 'x', 'y')",
            "INSERT INTO log (n) VALUES (1) RETURNING n",
            "SELECT n FROM log",
        ] {
            let error = client.batch_execute(refused).await.unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{refused}: {error:?}");
        }
    });
    let import = |path: &str, body: &[u8]| ask(&server, "POST", path, &[ANN], body).status;
    assert_eq!(import("/import/log?format=csv&columns=n", b"n\n4\n"), 200);
    assert_eq!(import("/import/log?format=csv&columns=hidden", b"hidden\nx\n"), 403);
    let sum = ask(&server, "POST", "/query", root, b"SELECT sum(n), count(note) FROM log");
    assert_eq!(sum.json()["rows"][0].to_string(), "[10,4]", "{}", sum.text());
}

#[test]
fn requests_over_http_log_in_by_password_or_token() {
    let server = server();
    let query = |headers: &[(&str, &str)], sql: &str| ask(&server, "POST", "/query", headers, sql.as_bytes());
    assert_eq!(query(&[ANN], "SELECT current_user AS u").json()["rows"][0][0], "ann");
    assert_eq!(query(&[ANN], "SELECT * FROM secret").status, 403);
    for (headers, why) in [
        (&[][..], "needed"),
        (&[("Authorization", "Basic YW5uOndyb25n")], "wrong"),
        (&[("Authorization", "Basic ZXZlOnJpZ2h0")], "wrong"),
        (&[("Authorization", "Bearer rmt_nothing")], "wrong"),
        (&[("Authorization", "Negotiate x")], "wrong"),
    ] {
        let answer = query(headers, "SELECT 1");
        assert_eq!(answer.status, 401, "{headers:?}: {}", answer.text());
        assert!(answer.text().contains(why) && answer.head().contains("www-authenticate: basic"));
    }
    let root = &[("Authorization", "Basic cm9vdDp0b3A=")];
    let token = |sql: &str| query(root, sql).json()["rows"][0][0].as_str().unwrap().to_owned();
    let good = format!("Bearer {}", token("CREATE TOKEN good FOR ann"));
    let ended = format!("Bearer {}", token("CREATE TOKEN ended FOR ann VALID UNTIL '2020-01-01'"));
    assert_eq!(query(&[("Authorization", &good)], "SELECT * FROM t").status, 200);
    assert_eq!(query(&[("Authorization", &ended)], "SELECT * FROM t").status, 401);
    query(root, "DROP TOKEN good FOR ann");
    assert_eq!(query(&[("Authorization", &good)], "SELECT * FROM t").status, 401);
    // Lines need the rights of their statements, and the other pages a login.
    assert_eq!(ask(&server, "POST", "/write", &[ANN], b"cpu v=1 1").status, 403);
    assert_eq!(ask(&server, "POST", "/write", root, b"cpu v=1 1").status, 204);
    assert_eq!(ask(&server, "GET", "/metrics", &[], b"").status, 401);
    assert_eq!(ask(&server, "GET", "/health", &[], b"").status, 200);
    server.wait_for(|event| matches!(event, ServerEvent::LoginRefused { user, .. } if user == "eve"));
}

/// A certificate for `localhost` in a folder.
struct TestCertificate {
    folder: tempfile::TempDir,
    der: CertificateDer<'static>,
}

impl TestCertificate {
    fn new() -> TestCertificate {
        let folder = tempfile::tempdir().unwrap();
        let der = TestCertificate::write(&folder);
        TestCertificate { folder, der }
    }

    fn write(folder: &tempfile::TempDir) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        made.cert.der().clone()
    }

    fn files(&self) -> TlsFiles {
        TlsFiles { certificate: self.folder.path().join("cert.pem"), key: self.folder.path().join("key.pem") }
    }

    fn server(&self, requires_tls: bool) -> TestServer {
        let options = ServerOptions { tls: Some(self.files()), requires_tls, limits: limits(), ..Default::default() };
        TestServer::with_options(database(), options)
    }

    fn client_config(der: &CertificateDer<'static>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(der.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        Arc::new(config.with_root_certificates(roots).with_no_client_auth())
    }
}

/// Lets tokio-postgres use rustls. `binding` is what the client believes is the hash of the certificate.
#[derive(Clone)]
struct TestTls {
    config: Arc<ClientConfig>,
    binding: Vec<u8>,
}

struct TestTlsStream(tokio_rustls::client::TlsStream<tokio_postgres::Socket>, Vec<u8>);

impl MakeTlsConnect<tokio_postgres::Socket> for TestTls {
    type Stream = TestTlsStream;
    type TlsConnect = TestTls;
    type Error = std::io::Error;

    fn make_tls_connect(&mut self, _: &str) -> std::io::Result<TestTls> {
        Ok(self.clone())
    }
}

impl TlsConnect<tokio_postgres::Socket> for TestTls {
    type Stream = TestTlsStream;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<TestTlsStream>> + Send>>;

    fn connect(self, stream: tokio_postgres::Socket) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from("localhost").unwrap();
            let stream = tokio_rustls::TlsConnector::from(self.config).connect(name, stream).await?;
            Ok(TestTlsStream(stream, self.binding))
        })
    }
}

impl tokio_postgres::tls::TlsStream for TestTlsStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::tls_server_end_point(self.1.clone())
    }
}

impl AsyncRead for TestTlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for TestTlsStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

async fn connect_tls(server: &TestServer, tls: TestTls) -> Result<Client, tokio_postgres::Error> {
    let mut config = config(server, "ann", "right");
    config.ssl_mode(SslMode::Require).channel_binding(BindingRule::Require);
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(connection);
    Ok(client)
}

#[test]
fn a_session_in_tls_binds_its_login_to_the_certificate() {
    let certificate = TestCertificate::new();
    let server = certificate.server(true);
    let config = TestCertificate::client_config(&certificate.der);
    runtime().block_on(async {
        let tls = TestTls { config: Arc::clone(&config), binding: Sha256::digest(&certificate.der).to_vec() };
        let client = connect_tls(&server, tls).await.unwrap();
        for _ in 0..3 {
            let rows = client.query("SELECT repeat('x', 100) FROM range(5000)", &[]).await.unwrap();
            assert_eq!(rows.len(), 5_000);
            // The connection becomes idle, and then active again.
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        // A host between client and server has another certificate.
        let other = TestTls { config, binding: vec![0; 32] };
        assert!(connect_tls(&server, other).await.is_err());
    });
}

#[test]
fn a_client_without_tls_is_refused_if_tls_is_required() {
    let certificate = TestCertificate::new();
    let server = certificate.server(true);
    runtime().block_on(async {
        let (code, message) = failure(&server, "ann", "right").await;
        assert_eq!(code, "28000");
        assert!(message.contains("TLS"), "{message}");
    });
    // HTTP without TLS gets no answer of HTTP.
    let mut stream = TcpStream::connect(server.http_address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    std::io::Write::write_all(&mut stream, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let optional = TestCertificate::new();
    let server = optional.server(false);
    runtime().block_on(async {
        connect(&server, "ann", "right").await.unwrap();
    });
}

#[test]
fn requests_over_https_and_a_new_certificate_without_a_restart() {
    let certificate = TestCertificate::new();
    let server = certificate.server(false);
    let health = |der: &CertificateDer<'static>| -> std::io::Result<String> {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = rustls::ClientConnection::new(TestCertificate::client_config(der), name).unwrap();
        let socket = TcpStream::connect(server.http_address())?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut stream = rustls::StreamOwned::new(connection, socket);
        let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        std::io::Write::write_all(&mut stream, request)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    assert!(health(&certificate.der).unwrap().starts_with("HTTP/1.1 200"));
    let renewed = TestCertificate::write(&certificate.folder);
    server.server().reload_certificate();
    server.wait_for(|event| *event == ServerEvent::CertificateLoaded);
    assert!(health(&renewed).unwrap().starts_with("HTTP/1.1 200"));
    assert!(health(&certificate.der).is_err());
    std::fs::write(certificate.folder.path().join("key.pem"), "damaged").unwrap();
    server.server().reload_certificate();
    server.wait_for(|event| matches!(event, ServerEvent::CertificateRefused { .. }));
    assert!(health(&renewed).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn a_request_that_never_ends_or_proves_nothing_loses_its_connection() {
    // The check of a password counts in this time, and takes long on a busy machine without optimization.
    let limits = ServerLimits { login_timeout: Duration::from_secs(1), ..limits() };
    let server = TestServer::with_options(database(), ServerOptions { limits, ..ServerOptions::default() });
    for request in
        ["", "GET /query HT", "POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nSELECT 1;"]
    {
        let mut stream = TcpStream::connect(server.http_address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        assert!(ended.is_ok(), "{request}: {ended:?}");
    }
    // A request that was let in may take longer.
    let answer =
        ask(&server, "POST", "/query", &[ANN], b"SELECT COUNT(*) FROM range(3000) AS a(x), range(3000) AS b(y)");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn other_machines_are_only_served_if_there_are_users() {
    let open = ServerOptions { pg: "0.0.0.0:0".parse().ok(), ..ServerOptions::default() };
    let refused = rowmill_server::Server::start(Database::memory().unwrap(), open.clone());
    assert!(refused.err().unwrap().message().contains("no users"));
    rowmill_server::Server::start(database(), open).unwrap().stop();
}

#[test]
fn hundreds_of_logins_that_never_end_leave_room_for_others() {
    let server = server();
    // Sockets of both sides are in this process, which may open a limited number of files.
    let clients: Vec<RawClient> = (0..150)
        .map(|number| {
            let mut client = server.raw();
            match number % 3 {
                0 => {}
                1 => client.send(&[0, 0, 0, 40, 0, 3]),
                _ => {
                    begin_scram(&mut client);
                }
            }
            client
        })
        .collect();
    runtime().block_on(async {
        let client = connect(&server, "ann", "right").await.unwrap();
        client.batch_execute("SELECT 1").await.unwrap();
    });
    drop(clients);
}
