//! A server over a database in memory, and exchanges with it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rowmill::{Database, Options};
use rowmill_server::{Server, ServerLimits, ServerOptions};

/// The panics of all threads. A server goes on after a panic of one of its connections, so that the target would not
/// see it.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// How long a request of HTTP waits for its answer before it ends. A request whose client has ended its side is
/// cancelled, and one that was cut never gets an answer.
pub(crate) const FIRST_ANSWER: Option<Duration> = Some(Duration::from_millis(50));
/// How long the server may take to end a connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server that all targets share.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            report(panic);
        }));
        // A statement that takes long is refused, not a finding.
        let options = Options::new().set("statement_timeout_ms", "2000").expect("a setting");
        let database = Database::memory_with(options).expect("memory");
        let mut connection = database.connect().expect("a connection");
        connection.run(crate::TABLES, |_| Ok(())).expect("the tables");
        let any = || Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let limits = ServerLimits { stalled_timeout: Duration::from_millis(500), ..ServerLimits::default() };
        let options = ServerOptions { pg: any(), http: any(), line: any(), limits, ..ServerOptions::default() };
        Server::start(database, options).expect("a server")
    })
}

/// Sends bytes, waits for the first answer for the time `wait`, ends the sending side and reads to the end. Panics if
/// the server neither answers nor ends the connection, or if one of its threads has panicked.
pub(crate) fn exchange(address: Option<SocketAddr>, bytes: &[u8], wait: Option<Duration>) {
    let mut stream = TcpStream::connect(address.expect("an address")).expect("a connection");
    // A server that refuses the first bytes may close before it reads the others.
    let _ = stream.write_all(bytes);
    if wait.is_some() {
        stream.set_read_timeout(wait).expect("a timeout");
        let _ = stream.read(&mut [0]);
    }
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        let is_timeout = matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
        assert!(!is_timeout, "the server neither answers nor ends the connection");
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a thread of the server has panicked");
}
