//! The server as a whole: sockets, threads, start and stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use rowmill::access::FileFolders;
use rowmill::{Connection, Database, Error, Result};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::cancel::CancelRegistry;
use crate::event::{EventSink, ServerEvent};
use crate::http::{self, ServerMetrics};
use crate::lanes::{EngineLanes, LaneRequests};
use crate::line::tcp;
use crate::listener;
use crate::login::{ClientLogin, Doorkeeper};
use crate::options::{ServerLimits, ServerLogs, ServerOptions};
use crate::shutdown::{StopPhase, StopSignal};
use crate::spin::WorkingSessions;
use crate::statement_log;
use crate::tls::ServerTls;

/// How long cancelled statements may take to notice.
const CANCEL_PATIENCE: Duration = Duration::from_secs(10);
/// How often a server that stops looks whether connections are left.
const STOP_POLL: Duration = Duration::from_millis(10);

/// The stack of a session thread: as large as that of a program's first thread. Planning a statement then needs no
/// stack of its own, which would be mapped, touched and unmapped for each statement. Memory is only used as far as it
/// is touched.
const STACK_BYTES: usize = 8 << 20;

/// What all connections share.
pub(crate) struct ServerShared {
    pub(crate) database: Database,
    pub(crate) limits: ServerLimits,
    pub(crate) stop: StopSignal,
    pub(crate) cancels: CancelRegistry,
    /// Open connections of the wire protocol, with those that have not logged in.
    pub(crate) connections: AtomicUsize,
    pub(crate) metrics: ServerMetrics,
    pub(crate) working: Arc<WorkingSessions>,
    /// Open connections of HTTP.
    pub(crate) http_connections: AtomicUsize,
    /// Open connections of line protocol.
    pub(crate) line_connections: AtomicUsize,
    pub(crate) doorkeeper: Doorkeeper,
    pub(crate) tls: Option<Arc<ServerTls>>,
    /// Whether clients without TLS are refused.
    pub(crate) requires_tls: bool,
    /// The statements that are logged.
    pub(crate) logs: ServerLogs,
    lanes: Arc<EngineLanes>,
    events: Option<EventSink>,
}

impl ServerShared {
    fn reload_certificate(&self) {
        let Some(tls) = &self.tls else { return };
        match tls.reload() {
            Ok(()) => self.report(&ServerEvent::CertificateLoaded),
            Err(error) => self.report(&ServerEvent::CertificateRefused { reason: error.message().to_owned() }),
        }
    }

    /// Opens a connection to the database for a client.
    pub(crate) fn connect(&self, login: &ClientLogin) -> Result<Connection> {
        let mut connection = self.database.connect_for(login.authority.clone())?;
        connection.set_admission(Arc::new(LaneRequests(Arc::clone(&self.lanes))));
        Ok(connection)
    }

    pub(crate) fn report(&self, event: &ServerEvent) {
        statement_log::event(event);
        if let Some(sink) = &self.events {
            sink(event);
        }
    }
}

/// A running server.
///
/// ```
/// use rowmill::{Database, Result};
/// use rowmill_server::{Server, ServerOptions};
///
/// # fn main() -> Result<()> {
/// let options = ServerOptions { pg: "127.0.0.1:0".parse().ok(), ..ServerOptions::default() };
/// let server = Server::start(Database::memory()?, options)?;
/// assert!(server.pg_address().is_some_and(|address| address.port() > 0));
/// server.stop();
/// # Ok(())
/// # }
/// ```
pub struct Server {
    runtime: Runtime,
    shared: Arc<ServerShared>,
    pg_address: Option<SocketAddr>,
    http_address: Option<SocketAddr>,
    line_address: Option<SocketAddr>,
}

impl Server {
    /// Binds the addresses and begins to serve `database`. Returns an error if an address is not allowed or in use.
    pub fn start(database: Database, options: ServerOptions) -> Result<Server> {
        options.check()?;
        options.check_reach(database.requires_login()?)?;
        let ServerOptions { pg, http, line, tls, requires_tls, folders, logs, limits, events } = options;
        let lanes = EngineLanes::new(&limits);
        let tls = tls.map(ServerTls::load).transpose()?.map(Arc::new);
        let doorkeeper = Doorkeeper::new(FileFolders::only(&folders)?)?;
        let failed = |error: std::io::Error| Error::io("starting the threads of the server", &error);
        let runtime = Builder::new_multi_thread()
            // Network threads only move bytes; the engine needs the processors.
            .worker_threads(1)
            .max_blocking_threads(lanes.threads())
            .thread_stack_size(STACK_BYTES)
            .thread_name("rowmill-server")
            .enable_all()
            .build()
            .map_err(failed)?;
        let (stop, cancels, connections) = (StopSignal::new(), CancelRegistry::default(), AtomicUsize::new(0));
        let metrics = ServerMetrics::new();
        let shared = Arc::new(ServerShared {
            database,
            limits,
            stop,
            cancels,
            connections,
            metrics,
            working: WorkingSessions::new(),
            http_connections: AtomicUsize::new(0),
            line_connections: AtomicUsize::new(0),
            doorkeeper,
            tls,
            requires_tls,
            logs,
            lanes,
            events,
        });
        let mut server = Server { runtime, shared, pg_address: None, http_address: None, line_address: None };
        if let Some(address) = pg {
            let (listener, address) = server.bind("PostgreSQL's protocol", address)?;
            server.runtime.spawn(listener::accept(listener, Arc::clone(&server.shared)));
            server.pg_address = Some(address);
        }
        if let Some(address) = http {
            let (listener, address) = server.bind("HTTP", address)?;
            server.runtime.spawn(http::serve(listener, Arc::clone(&server.shared)));
            server.http_address = Some(address);
        }
        if let Some(address) = line {
            let (listener, address) = server.bind("line protocol", address)?;
            server.runtime.spawn(tcp::accept(listener, Arc::clone(&server.shared)));
            server.line_address = Some(address);
        }
        Ok(server)
    }

    fn bind(&self, protocol: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
        let failed = |error: std::io::Error| Error::io(format!("listening at {address}"), &error);
        let listener = self.runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        self.shared.report(&ServerEvent::Listening { protocol, address });
        Ok((listener, address))
    }

    /// Where the server speaks PostgreSQL's wire protocol.
    pub fn pg_address(&self) -> Option<SocketAddr> {
        self.pg_address
    }

    /// Where the server speaks HTTP.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Where the server takes line protocol over TCP.
    pub fn line_address(&self) -> Option<SocketAddr> {
        self.line_address
    }

    /// Reads the files of the certificate again. New connections get the new one; if it cannot be used, the one of
    /// before stays.
    pub fn reload_certificate(&self) {
        self.shared.reload_certificate();
    }

    /// Serves until the process gets SIGINT or SIGTERM, and then stops. SIGHUP makes it read the certificate again.
    pub fn run_until_signal(self) -> Result<()> {
        let waited = self.runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            let mut hang_up = signal(SignalKind::hangup())?;
            loop {
                tokio::select! {
                    _ = interrupt.recv() => break,
                    _ = terminate.recv() => break,
                    _ = hang_up.recv() => self.shared.reload_certificate(),
                }
            }
            std::io::Result::Ok(())
        });
        self.stop();
        waited.map_err(|error| Error::io("waiting for signals", &error))
    }

    /// Stops the server: refuses new statements, lets running ones go on for a while, and then cancels them. Returns
    /// after the last connection has ended, so that the database can close.
    pub fn stop(self) {
        let Server { runtime, shared, .. } = self;
        shared.report(&ServerEvent::Stopping);
        shared.stop.advance(StopPhase::Draining);
        let is_left = |patience: Duration| {
            let until = Instant::now() + patience;
            while shared.cancels.len() > 0 && Instant::now() < until {
                std::thread::sleep(STOP_POLL);
            }
            shared.cancels.len() > 0
        };
        if is_left(shared.limits.stop_patience) {
            shared.stop.advance(StopPhase::Cancelling);
            let connections = shared.cancels.cancel_all();
            shared.report(&ServerEvent::Cancelling { connections });
            is_left(CANCEL_PATIENCE);
        }
        // A statement that does not notice its cancellation must not keep the process for ever.
        runtime.shutdown_timeout(CANCEL_PATIENCE);
        shared.report(&ServerEvent::Stopped);
    }
}
