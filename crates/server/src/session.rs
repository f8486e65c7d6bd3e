//! One connection of the wire protocol after its login: its messages, and the state that they share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgwire::messages::PgWireFrontendMessage;
use pgwire::messages::response::{CommandComplete, ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::ParameterStatus;
use rowmill::{ClientInfo, Connection, ConnectionState, OpenConnection, Outcome};

use crate::cancel::CancelKey;
use crate::client_settings::{ClientSettings, ReportedSetting, is_on};
use crate::end_signal::{EndSignal, terminated};
use crate::event::ServerEvent;
use crate::extended::PreparedOnWire;
use crate::login::ClientLogin;
use crate::portal::Portal;
use crate::server::ServerShared;
use crate::server_statement::milliseconds;
use crate::socket::{Arrival, ClientStream, NoMessage};
use crate::statement_log::StatementClock;
use crate::transaction_block::TransactionBlock;
use crate::wire_error::{ADMIN_SHUTDOWN, PROTOCOL_VIOLATION, StatementFault, StepResult, WireError, notice};

/// A connection after its login.
pub(crate) struct PgSession {
    pub(crate) connection: Connection,
    pub(crate) shared: Arc<ServerShared>,
    /// The name that the client has logged in with.
    pub(crate) user: Arc<str>,
    pub(crate) client: SocketAddr,
    cancel_number: i32,
    /// The entry of the session in the list of connections.
    listed: Option<Arc<OpenConnection>>,
    /// Tells the session to end.
    pub(crate) ending: Arc<EndSignal>,
    /// Prepared statements by name; the unnamed one has the empty name.
    pub(crate) statements: HashMap<String, Arc<PreparedOnWire>>,
    /// Portals by name; the unnamed one has the empty name. Cursors of SQL are portals too.
    pub(crate) portals: HashMap<String, Portal>,
    pub(crate) block: TransactionBlock,
    pub(crate) settings: ClientSettings,
    /// Whether messages are left out until the next Sync, because one of them has failed.
    is_skipping: bool,
}

/// Why a session thread stops working on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivityEnd {
    /// No message has come for a while.
    Idle,
    /// The connection is over.
    Closed,
}

impl ReportedSetting {
    pub(crate) fn message(&self) -> ParameterStatus {
        ParameterStatus::new(self.name.to_owned(), self.value.replace('\0', " "))
    }
}

impl PgSession {
    /// Makes a session, and returns it with the key that cancels its statements.
    pub(crate) fn new(
        shared: Arc<ServerShared>,
        client: SocketAddr,
        login: &ClientLogin,
    ) -> rowmill::Result<(PgSession, CancelKey)> {
        let mut connection = shared.connect(login)?;
        let key = shared.cancels.register(connection.cancel_handle())?;
        let info = ClientInfo {
            user: Some(login.name.to_string()),
            address: Some(client.to_string()),
            protocol: Some("pg"),
            connection: u64::try_from(key.number).ok(),
        };
        let ending = Arc::new(EndSignal::default());
        let signal = Arc::clone(&ending);
        let listed = connection.set_client(info, Some(Arc::new(move || signal.give())));
        let session = PgSession {
            connection,
            shared,
            user: Arc::clone(&login.name),
            client,
            cancel_number: key.number,
            listed,
            ending,
            statements: HashMap::new(),
            portals: HashMap::new(),
            block: TransactionBlock::new(),
            settings: ClientSettings::default(),
            is_skipping: false,
        };
        Ok((session, key))
    }

    /// Gives a setting the value that the client wants at its start.
    pub(crate) fn set_at_start(&mut self, name: &str, value: &str) -> Result<(), WireError> {
        if name.eq_ignore_ascii_case("timezone") {
            return self.set_zone(Some(value)).map(drop);
        }
        if ClientSettings::is_known(name) {
            self.settings.set(name, Some(value))?;
            self.note_application();
            return Ok(());
        }
        let name = name.replace('"', "");
        let sql = match name.as_str() {
            "statement_timeout" => format!("SET statement_timeout_ms = {}", milliseconds(value)?),
            name => format!("SET \"{name}\" = '{}'", value.replace('\'', "''")),
        };
        self.connection.execute_batch(&sql).map(|_| ()).map_err(|error| WireError::of(&error))
    }

    /// Sets the time zone of the engine, or gives it its first value again. Returns what clients must be told.
    pub(crate) fn set_zone(&mut self, value: Option<&str>) -> Result<Option<ReportedSetting>, WireError> {
        let sql = match value {
            Some(value) => format!("SET TIME ZONE '{}'", value.replace('\'', "''")),
            None => "RESET timezone".to_owned(),
        };
        let of = |error: rowmill::Error| WireError::of(&error);
        self.connection.execute_batch(&sql).map_err(of)?;
        // Clients are told the spelling of the engine.
        let zone = self.connection.settings().show("timezone").map_err(of)?;
        self.settings.set("TimeZone", Some(&zone))
    }

    /// Whether transactions refuse to write unless they say otherwise.
    pub(crate) fn reads_only(&self) -> bool {
        self.settings.changed("default_transaction_read_only").is_some_and(is_on)
    }

    /// Notes in the list of connections that a statement begins.
    pub(crate) fn note_begin(&self, sql: Arc<str>) {
        if let Some(listed) = &self.listed {
            listed.begins(sql, self.connection.open_transaction().map(|open| open.began_us));
        }
    }

    /// Notes in the list of connections that the session waits for its client.
    fn note_rest(&self) {
        let Some(listed) = &self.listed else { return };
        let state = match self.block.status() {
            TransactionStatus::Idle => ConnectionState::Idle,
            TransactionStatus::Transaction => ConnectionState::InTransaction,
            TransactionStatus::Error => ConnectionState::InFailedTransaction,
        };
        let open = self.connection.open_transaction();
        listed.rests(state, open.map(|open| open.began_us), open.map(|open| open.reads));
    }

    /// Notes the name of the client's program in the list of connections.
    pub(crate) fn note_application(&self) {
        if let Some(listed) = &self.listed {
            listed.set_application(self.settings.changed("application_name").unwrap_or_default());
        }
    }

    /// How long the session may wait for its next message. `None` if no transaction is open, or without a limit.
    pub(crate) fn idle_limit(&self) -> Option<Duration> {
        if self.block.is_idle() {
            return None;
        }
        let own = self.settings.changed("idle_in_transaction_session_timeout");
        let own = own.and_then(|value| milliseconds(value).ok()).map(Duration::from_millis);
        Some(own.unwrap_or(self.shared.limits.idle_transaction_timeout)).filter(|limit| !limit.is_zero())
    }

    /// Logs a statement that has ended.
    pub(crate) fn log(&self, sql: &str, started: Instant, ran: &StepResult) {
        let failure = match ran {
            Ok(()) => None,
            Err(StatementFault::Failed(error)) => Some(error.sqlstate),
            Err(StatementFault::Lost(_)) => Some("08006"),
        };
        let clock = StatementClock { user: &self.user, client: Some(self.client), started };
        self.shared.logs.statement(&clock, sql, failure);
    }

    /// Runs messages as long as they follow each other. Runs on a session thread.
    pub(crate) fn run_while_active(&mut self, client: &mut ClientStream) -> ActivityEnd {
        let end = match self.run_messages(client) {
            Ok(end) => end,
            Err(NoMessage::Lost(error)) => {
                self.shared.report(&ServerEvent::Lost { client: self.client, reason: error.to_string() });
                return ActivityEnd::Closed;
            }
            Err(NoMessage::Broken(broken)) => {
                let error = WireError::new(PROTOCOL_VIOLATION, &broken.0);
                client.put(&error.response("FATAL"));
                self.shared.report(&ServerEvent::ProtocolViolation { client: self.client, reason: broken.0 });
                ActivityEnd::Closed
            }
        };
        match client.send() {
            Ok(()) => end,
            Err(error) => {
                self.shared.report(&ServerEvent::Lost { client: self.client, reason: error.to_string() });
                ActivityEnd::Closed
            }
        }
    }

    fn run_messages(&mut self, client: &mut ClientStream) -> Result<ActivityEnd, NoMessage> {
        loop {
            while let Some(message) = client.next_message()? {
                match self.run_message(message, client)? {
                    ActivityEnd::Idle => {}
                    ActivityEnd::Closed => return Ok(ActivityEnd::Closed),
                }
                client.send_full()?;
            }
            // The client may wait for these answers before it sends the next message.
            client.send()?;
            match client.read()? {
                Arrival::Bytes => {}
                Arrival::Nothing => return Ok(ActivityEnd::Idle),
                Arrival::End => return Ok(ActivityEnd::Closed),
            }
        }
    }

    /// Runs one message. Returns whether the session goes on.
    fn run_message(
        &mut self,
        message: PgWireFrontendMessage,
        client: &mut ClientStream,
    ) -> Result<ActivityEnd, NoMessage> {
        if let PgWireFrontendMessage::Terminate(_) = message {
            return Ok(ActivityEnd::Closed);
        }
        if self.shared.stop.is_stopping() {
            client.put(&stopping().response("FATAL"));
            return Ok(ActivityEnd::Closed);
        }
        let is_query = matches!(message, PgWireFrontendMessage::Query(_));
        let is_sync = matches!(message, PgWireFrontendMessage::Sync(_));
        if self.is_skipping && !is_sync {
            return Ok(ActivityEnd::Idle);
        }
        let ran = match message {
            PgWireFrontendMessage::Query(query) => self.simple_query(&query.query, client),
            PgWireFrontendMessage::Parse(parse) => self.parse_message(parse, client),
            PgWireFrontendMessage::Bind(bind) => self.bind_message(bind, client),
            PgWireFrontendMessage::Describe(describe) => self.describe_message(&describe, client),
            PgWireFrontendMessage::Execute(execute) => self.execute_message(&execute, client),
            PgWireFrontendMessage::Close(close) => self.close_message(&close, client),
            PgWireFrontendMessage::Flush(_) => client.send().map_err(StatementFault::from),
            PgWireFrontendMessage::Sync(_) => self.end_implicit(client),
            // A client may send the rest of a COPY before it learns that the COPY has failed.
            PgWireFrontendMessage::CopyData(_)
            | PgWireFrontendMessage::CopyDone(_)
            | PgWireFrontendMessage::CopyFail(_) => Ok(()),
            other => {
                let error =
                    WireError::new(PROTOCOL_VIOLATION, format!("the message {} comes out of place", name(&other)));
                Err(error.into())
            }
        };
        if self.ending.is_given() {
            client.put(&terminated().response("FATAL"));
            return Ok(ActivityEnd::Closed);
        }
        if let Err(fault) = ran {
            self.fail(fault, client)?;
            self.is_skipping = !is_query && !is_sync;
        }
        if is_query || is_sync {
            self.is_skipping = false;
            self.ready_for_query(client);
        }
        Ok(ActivityEnd::Idle)
    }

    /// Tells the client about an error, and undoes what the error undoes.
    pub(crate) fn fail(&mut self, fault: StatementFault, client: &mut ClientStream) -> Result<(), NoMessage> {
        let error = match fault {
            StatementFault::Failed(error) => error,
            StatementFault::Lost(error) => return Err(NoMessage::Lost(error)),
        };
        self.shared.metrics.count_error();
        self.put_notices(client);
        client.put(&error.response("ERROR"));
        self.block.fail(&mut self.connection);
        self.forget_portals();
        Ok(())
    }

    /// Commits the transaction of the statements that are not between BEGIN and COMMIT.
    pub(crate) fn end_implicit(&mut self, client: &mut ClientStream) -> StepResult {
        let ended = self.block.end_implicit(&mut self.connection);
        self.put_notices(client);
        self.forget_portals();
        Ok(ended?)
    }

    /// Portals end with their transaction.
    pub(crate) fn forget_portals(&mut self) {
        if self.block.is_idle() {
            self.portals.clear();
        }
    }

    fn ready_for_query(&mut self, client: &mut ClientStream) {
        self.note_rest();
        client.put(&ReadyForQuery::new(self.block.status()));
    }

    /// Tells the client the notices of the last statement.
    pub(crate) fn put_notices(&mut self, client: &mut ClientStream) {
        for text in self.connection.take_notices() {
            client.put(&notice("NOTICE", "00000", &text));
        }
    }

    /// Tells the client that a statement without rows has ended.
    pub(crate) fn put_complete(&mut self, outcome: &Outcome, client: &mut ClientStream) {
        self.put_notices(client);
        let tag = match outcome {
            Outcome::Changed { tag, rows } => counted_tag(tag, *rows),
            Outcome::Done { tag } => (*tag).to_owned(),
            Outcome::Rows(_) => "SELECT 0".to_owned(),
        };
        client.put(&CommandComplete::new(tag));
    }

    /// Tells the client that a statement has returned its rows. `tag` is the kind of the statement.
    pub(crate) fn put_rows_complete(&mut self, tag: &str, rows: u64, client: &mut ClientStream) {
        self.put_notices(client);
        client.put(&CommandComplete::new(counted_tag(tag, rows)));
    }
}

impl Drop for PgSession {
    fn drop(&mut self) {
        self.shared.cancels.remove(self.cancel_number);
        self.block.abandon(&mut self.connection);
    }
}

/// The tag of a statement with its number of rows. An INSERT has the number of a row that no table has any longer.
fn counted_tag(tag: &str, rows: u64) -> String {
    match tag {
        "INSERT" => format!("INSERT 0 {rows}"),
        "SELECT" | "UPDATE" | "DELETE" | "MERGE" | "COPY" | "FETCH" | "MOVE" => format!("{tag} {rows}"),
        tag => tag.to_owned(),
    }
}

/// The error for a client whose server stops.
pub(crate) fn stopping() -> WireError {
    WireError::new(ADMIN_SHUTDOWN, "terminating connection due to administrator command: the server stops")
}

/// The name of a message that has no place after the login.
fn name(message: &PgWireFrontendMessage) -> &'static str {
    match message {
        PgWireFrontendMessage::PasswordMessageFamily(_) => "password",
        _ => "of the start of the protocol",
    }
}
