//! Servers over databases in memory, and clients of them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowmill::{Database, Options};
use rowmill_server::{DEFAULT_SETTINGS, Server, ServerEvent, ServerLimits, ServerOptions};
use tokio_postgres::{Client, Config, NoTls};

/// A server over a database, in memory by default. It stops when it is dropped.
pub(crate) struct TestServer {
    server: Option<Server>,
    pub(crate) events: Arc<Mutex<Vec<ServerEvent>>>,
}

impl TestServer {
    pub(crate) fn start() -> TestServer {
        TestServer::with_limits(ServerLimits { stop_patience: Duration::from_millis(200), ..ServerLimits::default() })
    }

    pub(crate) fn with_limits(limits: ServerLimits) -> TestServer {
        TestServer::over(Database::memory().unwrap(), limits)
    }

    pub(crate) fn over(database: Database, limits: ServerLimits) -> TestServer {
        TestServer::with_options(database, ServerOptions { limits, ..ServerOptions::default() })
    }

    /// Starts a server with the settings of `rowmill serve`: statements see all commits before them, and wait for rows.
    pub(crate) fn with_default_settings() -> TestServer {
        let set = |options: Options, setting: &&str| {
            let (name, value) = setting.split_once('=').unwrap();
            options.set(name, value).unwrap()
        };
        let options = DEFAULT_SETTINGS.iter().fold(Options::new(), set);
        let limits = ServerLimits { stop_patience: Duration::from_millis(200), ..ServerLimits::default() };
        TestServer::over(Database::memory_with(options).unwrap(), limits)
    }

    /// Starts a server with these options, at free ports of both protocols.
    pub(crate) fn with_options(database: Database, options: ServerOptions) -> TestServer {
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let options = ServerOptions {
            pg: Some("127.0.0.1:0".parse().unwrap()),
            http: Some("127.0.0.1:0".parse().unwrap()),
            events: Some(Arc::new(move |event: &ServerEvent| sink.lock().unwrap().push(event.clone()))),
            ..options
        };
        let server = Server::start(database, options).unwrap();
        TestServer { server: Some(server), events }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().pg_address().unwrap()
    }

    pub(crate) fn http_address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().http_address().unwrap()
    }

    pub(crate) fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }

    /// Waits until an event comes for which `is_wanted` holds.
    pub(crate) fn wait_for(&self, is_wanted: impl Fn(&ServerEvent) -> bool) {
        for _ in 0..1_000 {
            if self.events.lock().unwrap().iter().any(&is_wanted) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the event did not come: {:?}", self.events.lock().unwrap());
    }

    /// Connects with tokio-postgres. Must be called in a runtime of tokio.
    pub(crate) async fn client(&self) -> Client {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.address().port()).user("tester").dbname("any");
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(async move {
            // The end of the connection is no failure of the test.
            let _ = connection.await;
        });
        client
    }

    /// The server itself.
    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn raw(&self) -> RawClient {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        RawClient { stream }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs `test` with a client of a new server.
pub(crate) fn with_client<F: Future<Output = ()>>(test: impl FnOnce(Client) -> F) {
    let server = TestServer::start();
    runtime().block_on(async {
        let client = server.client().await;
        test(client).await;
    });
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A client that speaks the protocol byte by byte.
pub(crate) struct RawClient {
    pub(crate) stream: TcpStream,
}

/// A message of the server: its type and its body.
pub(crate) type RawMessage = (u8, Vec<u8>);

impl RawClient {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn send_message(&mut self, kind: u8, body: &[u8]) {
        let mut bytes = vec![kind];
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend(body);
        self.send(&bytes);
    }

    /// Logs in. Returns the messages up to ReadyForQuery.
    pub(crate) fn log_in(&mut self) -> Vec<RawMessage> {
        let body = b"\0\x03\0\0user\0raw\0\0";
        self.send(&(body.len() as u32 + 4).to_be_bytes());
        self.send(body);
        self.messages_until(b'Z')
    }

    /// Reads one message. `None` at the end of the connection.
    pub(crate) fn message(&mut self) -> Option<RawMessage> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    pub(crate) fn messages_until(&mut self, kind: u8) -> Vec<RawMessage> {
        let mut messages = Vec::new();
        while let Some(message) = self.message() {
            let is_last = message.0 == kind;
            messages.push(message);
            if is_last {
                return messages;
            }
        }
        panic!("the connection ended after {messages:?}");
    }

    /// Runs a query of the simple protocol. Returns the types of the messages of the answer.
    pub(crate) fn query(&mut self, sql: &str) -> String {
        self.send_message(b'Q', format!("{sql}\0").as_bytes());
        kinds(&self.messages_until(b'Z'))
    }
}

/// The types of messages, as a word.
pub(crate) fn kinds(messages: &[RawMessage]) -> String {
    messages.iter().map(|(kind, _)| char::from(*kind)).collect()
}

/// The field of an error with this letter.
pub(crate) fn field(body: &[u8], letter: u8) -> Option<String> {
    let mut fields = body.split(|byte| *byte == 0);
    fields.find(|field| field.first() == Some(&letter)).map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
}
