//! Rowmill as a server: PostgreSQL's wire protocol, HTTP and line protocol over one open database.
//!
//! [`Server::start`] binds the sockets and returns; [`Server::stop`] ends the server gracefully. `docs/server.md` says
//! what clients can rely on.
//!
//! # Threads
//!
//! Network threads (tokio) accept connections, run the start of the protocol, and wait for idle connections. They never
//! run the engine. As soon as bytes arrive on a connection, the connection moves to a session thread, which reads its
//! messages, runs its statements and writes the answers with blocking calls. After a short time without a message, the
//! connection goes back to the network threads:
//!
//! ```text
//!             bytes arrive                          no message for LINGER
//! idle  ──────────────────────►  session thread  ───────────────────────►  idle
//! (a task of tokio, no thread)   (blocking reads and writes)
//! ```
//!
//! We chose this over two ends of a channel (one task for the socket, one thread for the engine) because each hop
//! between threads costs more than a short statement. While messages follow each other, a statement wakes no other
//! thread. An idle connection holds no thread. A client that does not read holds one thread and one buffer of answers
//! until a time limit ends its connection.
//!
//! The modules, in the order in which a connection meets them:
//!
//! - `config`, `options`, `server`, `shutdown`, `event`: what the server is told, its life, and what it reports.
//!   `statement_log`: which statements it logs. `lanes`: how many of them run at a time.
//! - `listener`, `transport`, `tls`, `startup`, `cancel`, `end_signal`: from a socket to a session, and requests to
//!   cancel a statement or to end a session.
//! - `login`, `authentication`, `scram`, `login_throttle`: who a client is, for all protocols and over PostgreSQL's.
//! - `socket`, `spin`, `frame`, `backend`: bytes to messages and back.
//! - `session`, `transaction_block`, `simple_query`, `extended`, `typed_statement`, `portal`, `copy`: the statements of
//!   a session.
//! - `sql_words`, `server_statement`, `client_settings`: statements that the server answers itself.
//! - `encode`, `decode`, `wire_error`: values and errors in PostgreSQL's forms.
//! - `http`: statements, results and files over HTTP, counters, and the console.
//! - `line`: rows that come as line protocol, over HTTP and TCP. `registered_request`: the connection of a request.

mod authentication;
mod backend;
mod cancel;
mod client_settings;
pub mod config;
mod copy;
mod decode;
mod encode;
mod end_signal;
mod event;
mod extended;
mod frame;
mod http;
mod lanes;
mod line;
mod listener;
mod login;
mod login_throttle;
mod options;
mod portal;
mod registered_request;
mod scram;
mod server;
mod server_statement;
mod session;
mod shutdown;
mod simple_query;
mod socket;
mod spin;
mod sql_words;
mod startup;
mod statement_log;
mod tls;
mod transaction_block;
mod transport;
mod typed_statement;
mod wire_error;

pub use copy::StreamCopy;
pub use event::{EventSink, ServerEvent};
pub use options::{DEFAULT_SETTINGS, ServerLimits, ServerLogs, ServerOptions};
pub use server::Server;
pub use tls::TlsFiles;
