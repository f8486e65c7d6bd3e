//! The extended protocol: statements that are prepared once and run with values, whose rows go as text or in binary.
//!
//! After an error all messages up to the next Sync are left out (`session.rs`).

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
    TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::EmptyQueryResponse;
use rowmill::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill::{Connection, Outcome, Param, PlacedAnswer, RowStream, Statement};

use crate::backend::put;
use crate::client_settings::ClientSettings;
use crate::decode::{BoundValue, decode};
use crate::encode::{
    AnswerColumn, WireFormat, answer_columns, formats, has_columns, put_answer, row_description, wire_columns,
};
use crate::frame::is_sync_next;
use crate::portal::{OpenRows, Portal, PortalProgress};
use crate::server_statement;
use crate::session::PgSession;
use crate::simple_query::is_control;
use crate::socket::ClientStream;
use crate::sql_words::{first_word, name_of, rows_tag, statements, words};
use crate::typed_statement::TypedStatement;
use crate::wire_error::{NO_PORTAL, PROTOCOL_VIOLATION, StepResult, WireError, notice};
use rowmill::pg_types::PgType;

/// A prepared statement of the protocol, or of SQL's PREPARE.
pub(crate) struct PreparedOnWire {
    pub(crate) sql: Arc<str>,
    /// The first word, in upper case.
    first: String,
    /// The tag of the statement if it returns rows.
    tag: &'static str,
    /// The types of the parameters, as the client sends them.
    parameters: Vec<PgType>,
    /// The numbers of these types, as the client is told. Several numbers are taken as one type.
    oids: Vec<u32>,
    pub(crate) body: PreparedBody,
    /// How the rows of the statement go to the client, as it was asked for first.
    told: OnceLock<ToldColumns>,
}

/// The columns of a result for a client that wants them in certain formats. A client nearly always wants the same ones.
struct ToldColumns {
    formats: Vec<WireFormat>,
    /// The message that describes the columns.
    description: BytesMut,
    /// How the rows of a program are written, unless they need a batch.
    answer: Option<Vec<AnswerColumn>>,
}

impl ToldColumns {
    fn new(columns: &Schema, formats: &[WireFormat]) -> ToldColumns {
        let mut description = BytesMut::new();
        let format = |index: usize| formats.get(index).copied().unwrap_or(WireFormat::Text);
        put(&mut description, &row_description(&wire_columns(columns), format));
        ToldColumns { formats: formats.to_vec(), description, answer: answer_columns(columns, formats) }
    }
}

impl PreparedOnWire {
    /// The columns of the result in these formats, if the engine runs the statement and it has a result.
    fn told(&self, formats: &[WireFormat]) -> Option<&ToldColumns> {
        let PreparedBody::Engine { columns: Some(columns), .. } = &self.body else { return None };
        Some(self.told.get_or_init(|| ToldColumns::new(columns, formats))).filter(|told| told.formats == formats)
    }
}

/// What runs a prepared statement.
pub(crate) enum PreparedBody {
    /// Nothing: its text is empty.
    Empty,
    /// The engine.
    Engine {
        statement: Statement,
        /// The columns of the result, if it has one.
        columns: Option<SchemaRef>,
    },
    /// The server itself.
    Server,
}

/// The values of parameters that are kept on the stack.
const FEW_PARAMETERS: usize = 16;

impl PgSession {
    pub(crate) fn parse_message(&mut self, parse: Parse, client: &mut ClientStream) -> StepResult {
        let name = parse.name.unwrap_or_default();
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(WireError::new("42P05", format!("prepared statement \"{name}\" already exists")).into());
        }
        let prepared = self.prepare(&parse.query, &parse.type_oids)?;
        self.statements.insert(name, Arc::new(prepared));
        client.put(&ParseComplete::new());
        Ok(())
    }

    /// Prepares a statement. `oids` are the types that the client gives to parameters; 0 leaves one to the statement.
    pub(crate) fn prepare(&mut self, text: &str, oids: &[u32]) -> StepResult<PreparedOnWire> {
        let parts = statements(text);
        let part = match parts.as_slice() {
            [] => {
                return Ok(PreparedOnWire {
                    sql: "".into(),
                    first: String::new(),
                    tag: "SELECT",
                    parameters: Vec::new(),
                    oids: Vec::new(),
                    body: PreparedBody::Empty,
                    told: OnceLock::new(),
                });
            }
            [part] => part,
            _ => {
                return Err(WireError::new("42601", "cannot insert multiple commands into a prepared statement").into());
            }
        };
        let sql: Arc<str> = part.sql.as_str().into();
        let (first, tag) = (first_word(&sql), rows_tag(&sql));
        self.block.check_allowed(&first)?;
        if is_control(&first) || server_statement::is_own(&first, &sql) {
            if first == "COPY" {
                self.check_copy(&sql)?;
            }
            return Ok(PreparedOnWire {
                sql,
                first,
                tag,
                parameters: Vec::new(),
                oids: Vec::new(),
                body: PreparedBody::Server,
                told: OnceLock::new(),
            });
        }
        let placed = |error: rowmill::Error| WireError::in_text(&error, text, part.start);
        let typed = self.typed_statement(&sql, oids, &placed)?;
        let TypedStatement { statement, parameters, oids, columns } = typed;
        let body = PreparedBody::Engine { statement, columns };
        Ok(PreparedOnWire { sql, first, tag, parameters, oids, body, told: OnceLock::new() })
    }

    pub(crate) fn bind_message(&mut self, bind: Bind, client: &mut ClientStream) -> StepResult {
        let statement = self.statement_named(bind.statement_name.as_deref().unwrap_or_default())?;
        self.block.check_allowed(&statement.first)?;
        let name = bind.portal_name.unwrap_or_default();
        if !name.is_empty() && self.portals.contains_key(&name) {
            return Err(WireError::new("42P03", format!("portal \"{name}\" already exists")).into());
        }
        let wanted = statement.parameters.len();
        if bind.parameters.len() != wanted {
            let message = format!(
                "bind message supplies {} parameters, but the statement requires {wanted}",
                bind.parameters.len()
            );
            return Err(WireError::new(PROTOCOL_VIOLATION, message).into());
        }
        let forms = formats(&bind.parameter_format_codes, wanted, "parameters")?;
        let mut values = Vec::with_capacity(wanted);
        for (index, bytes) in bind.parameters.iter().enumerate() {
            let value = bound_value(statement.parameters[index], forms[index], bytes.as_ref());
            values.push(value.map_err(|error| error.detail_of_parameter(index + 1))?);
        }
        let columns = self.columns(&statement)?.map_or(0, |columns| columns.fields().len());
        let formats = formats(&bind.result_column_format_codes, columns, "columns")?;
        let portal = Portal { statement: Some(statement), values, formats, progress: PortalProgress::Ready };
        self.portals.insert(name, portal);
        client.put(&BindComplete::new());
        Ok(())
    }

    /// The columns of a prepared statement's result, if it has one.
    fn columns(&self, prepared: &PreparedOnWire) -> Result<Option<SchemaRef>, WireError> {
        let text = |name: &str| Some(Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8View, true)])));
        Ok(match &prepared.body {
            PreparedBody::Empty => None,
            PreparedBody::Engine { columns, .. } => columns.clone(),
            PreparedBody::Server => {
                let names: Vec<String> = words(&prepared.sql).skip(1).map(|word| name_of(&word)).collect();
                let last = names.last().map(String::as_str).unwrap_or_default();
                match prepared.first.as_str() {
                    "SHOW" if last == "level" => text("transaction_isolation"),
                    "SHOW" if last == "zone" => text("TimeZone"),
                    "SHOW" => match self.settings_name(last) {
                        Some(name) => text(name),
                        None => text(last),
                    },
                    "FETCH" => {
                        let rows = self.portals.get(last).and_then(Portal::open_rows);
                        rows.map(|rows| Arc::clone(rows.schema()))
                    }
                    "EXECUTE" => match names.first().and_then(|name| self.statements.get(name)) {
                        Some(inner) if !matches!(inner.body, PreparedBody::Server) => self.columns(inner)?,
                        _ => None,
                    },
                    _ => None,
                }
            }
        })
    }

    fn settings_name(&self, name: &str) -> Option<&'static str> {
        ClientSettings::is_known(name).then(|| self.settings.show(name).map(|(name, _)| name)).flatten()
    }

    pub(crate) fn describe_message(&mut self, describe: &Describe, client: &mut ClientStream) -> StepResult {
        let name = describe.name.as_deref().unwrap_or_default();
        if describe.target_type == TARGET_TYPE_BYTE_STATEMENT {
            let statement = self.statement_named(name)?;
            client.put(&ParameterDescription::new(statement.oids.clone()));
            let columns = self.columns(&statement)?;
            put_description(columns.as_deref(), |_| WireFormat::Text, client);
            return Ok(());
        }
        let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
        if let Some(told) = portal.statement.as_ref().and_then(|statement| statement.told(&portal.formats)) {
            client.output.extend_from_slice(&told.description);
            return Ok(());
        }
        let columns = match (&portal.statement, portal.open_rows()) {
            (Some(statement), _) => self.columns(statement)?,
            (None, rows) => rows.map(|rows| Arc::clone(rows.schema())),
        };
        let format = |index: usize| portal.formats.get(index).copied().unwrap_or(WireFormat::Text);
        put_description(columns.as_deref(), format, client);
        Ok(())
    }

    pub(crate) fn close_message(&mut self, close: &Close, client: &mut ClientStream) -> StepResult {
        // Closing something that does not exist is no error.
        let name = close.name.as_deref().unwrap_or_default();
        match close.target_type {
            TARGET_TYPE_BYTE_STATEMENT => {
                self.statements.remove(name);
                self.connection.end_statement_name(name);
            }
            _ => drop(self.portals.remove(name)),
        }
        client.put(&CloseComplete::new());
        Ok(())
    }

    pub(crate) fn execute_message(&mut self, execute: &Execute, client: &mut ClientStream) -> StepResult {
        let name = execute.name.as_deref().unwrap_or_default();
        // The portal leaves the map while it runs, because its statement may change the map.
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        let rows_max = u64::try_from(execute.max_rows).ok().filter(|max| *max > 0);
        let (statement, started) = (portal.statement.clone(), Instant::now());
        if let Some(statement) = &statement {
            self.note_begin(Arc::clone(&statement.sql));
        }
        let ran = self.run_portal(&mut portal, rows_max, client);
        if let Some(statement) = statement {
            self.log(&statement.sql, started, &ran);
        }
        ran?;
        // The statement may have ended the transaction, and its portals with it.
        if !self.block.is_idle() || matches!(portal.progress, PortalProgress::Rows(_)) {
            self.portals.insert(name.to_owned(), portal);
        }
        Ok(())
    }

    fn run_portal(&mut self, portal: &mut Portal, rows_max: Option<u64>, client: &mut ClientStream) -> StepResult {
        let statement = portal.statement.clone();
        let tag = statement.as_ref().map_or("FETCH", |statement| statement.tag);
        if let (PortalProgress::Ready, Some(statement)) = (&portal.progress, &statement) {
            // A client that takes the rows in parts needs them as a stream.
            let told = statement.told(&portal.formats).filter(|_| rows_max.is_none());
            let answer = told.and_then(|told| told.answer.as_deref());
            let outcome = match self.start(statement, &portal.values, answer, client)? {
                StartedPortal::Ended => return Ok(()),
                StartedPortal::Sent(rows) => {
                    portal.progress = PortalProgress::Done;
                    self.put_rows_complete(tag, rows, client);
                    client.send_full()?;
                    return Ok(());
                }
                StartedPortal::Open(outcome) => outcome,
            };
            portal.progress = PortalProgress::Done;
            match (outcome, self.columns(statement)?) {
                (Outcome::Rows(stream), Some(columns)) => {
                    portal.progress = PortalProgress::Rows(OpenRows::described(stream, &columns)?);
                }
                // The client was told that there are no rows, so the rows are left out.
                (Outcome::Rows(stream), None) => {
                    for batch in stream {
                        batch?;
                    }
                    self.put_rows_complete(tag, 0, client);
                    return Ok(());
                }
                (outcome, _) => {
                    self.put_complete(&outcome, client);
                    self.forget_portals();
                    return Ok(());
                }
            }
        }
        let Portal { formats, progress, .. } = portal;
        let PortalProgress::Rows(rows) = progress else {
            // A portal that has been run to its end returns nothing more.
            self.put_rows_complete(tag, 0, client);
            return Ok(());
        };
        let sent = rows.send(client, formats, rows_max)?;
        if sent.is_limited {
            self.put_notices(client);
            client.put(&PortalSuspended::new());
        } else {
            *progress = PortalProgress::Done;
            self.put_rows_complete(tag, sent.rows, client);
        }
        Ok(())
    }

    /// Starts a portal whose statement returns rows and did not run yet.
    pub(crate) fn start_rows(&mut self, portal: &mut Portal, client: &mut ClientStream) -> StepResult {
        let (PortalProgress::Ready, Some(statement)) = (&portal.progress, portal.statement.clone()) else {
            return Ok(());
        };
        let Some(columns) = self.columns(&statement)? else { return Ok(()) };
        if let StartedPortal::Open(Outcome::Rows(stream)) = self.start(&statement, &portal.values, None, client)? {
            portal.progress = PortalProgress::Rows(OpenRows::described(stream, &columns)?);
        }
        Ok(())
    }

    /// Starts a statement with values for its parameters. With `answer`, sends rows that are there at once.
    fn start(
        &mut self,
        prepared: &PreparedOnWire,
        values: &[BoundValue],
        answer: Option<&[AnswerColumn]>,
        client: &mut ClientStream,
    ) -> StepResult<StartedPortal> {
        self.block.check_allowed(&prepared.first)?;
        self.shared.metrics.count_pg();
        let statement = match &prepared.body {
            PreparedBody::Empty => {
                client.put(&EmptyQueryResponse::new());
                return Ok(StartedPortal::Ended);
            }
            PreparedBody::Server => return self.start_own(prepared, client).map(StartedPortal::Open),
            PreparedBody::Engine { statement, .. } => statement,
        };
        // Statements up to the next Sync are one transaction. A single one needs none around it, which is what clients
        // nearly always send.
        let reads_only = self.reads_only();
        if reads_only || !is_sync_next(&client.input) {
            self.block.begin_implicit(&mut self.connection, reads_only)?;
        }
        let connection = &mut self.connection;
        let mut run = |params: &[Param<'_>]| match answer {
            Some(columns) => send_in_place(statement, connection, params, columns, client),
            None => statement.run_with(connection, params).map(StartedPortal::Open),
        };
        let started = if values.len() <= FEW_PARAMETERS {
            let mut params = [Param::Null; FEW_PARAMETERS];
            params.iter_mut().zip(values).for_each(|(param, value)| *param = value.param());
            run(&params[..values.len()])
        } else {
            run(&values.iter().map(BoundValue::param).collect::<Vec<_>>())
        };
        started.map_err(|error| WireError::in_text(&error, &prepared.sql, 0).into())
    }

    fn start_own(&mut self, prepared: &PreparedOnWire, client: &mut ClientStream) -> StepResult<Outcome> {
        let reads_only = self.reads_only();
        if let Some(control) =
            self.block.run_control(&prepared.first, &prepared.sql, reads_only, &mut self.connection)?
        {
            if let Some((sqlstate, message)) = control.warning {
                client.put(&notice("WARNING", sqlstate, message));
            }
            return Ok(control.outcome);
        }
        match server_statement::is_own(&prepared.first, &prepared.sql) {
            true => self.run_own(&prepared.first, &prepared.sql, client),
            // A control statement in a form that we leave to the engine.
            false => self
                .connection
                .run_one(&prepared.sql, &[])
                .map_err(|error| WireError::in_text(&error, &prepared.sql, 0).into()),
        }
    }
}

/// How a portal has started.
enum StartedPortal {
    /// Its statement is empty.
    Ended,
    /// All of its rows, this many, are among the answers.
    Sent(u64),
    /// Its rows are to be sent, or its statement has none.
    Open(Outcome),
}

/// Runs a statement. The rows of a program go among the answers at once if they have the types of `columns`.
fn send_in_place(
    statement: &Statement,
    connection: &mut Connection,
    params: &[Param<'_>],
    columns: &[AnswerColumn],
    client: &mut ClientStream,
) -> rowmill::Result<StartedPortal> {
    Ok(match statement.run_in_place(connection, params)? {
        PlacedAnswer::Rows(answer) if has_columns(&answer, columns) => {
            put_answer(&answer, columns, &mut client.output)?;
            StartedPortal::Sent(answer.len() as u64)
        }
        PlacedAnswer::Rows(answer) => StartedPortal::Open(Outcome::Rows(RowStream::ready(answer.to_batch()?))),
        PlacedAnswer::Other(outcome) => StartedPortal::Open(outcome),
    })
}

fn bound_value(kind: PgType, format: WireFormat, bytes: Option<&Bytes>) -> Result<BoundValue, WireError> {
    bytes.map_or(Ok(BoundValue::Null), |bytes| decode(kind, format, bytes))
}

impl WireError {
    fn detail_of_parameter(self, number: usize) -> WireError {
        match self.detail {
            None => self.detail(format!("the value of parameter ${number}")),
            Some(_) => self,
        }
    }
}

fn no_portal(name: &str) -> WireError {
    WireError::new(NO_PORTAL, format!("portal \"{name}\" does not exist"))
}

fn put_description(columns: Option<&Schema>, format: impl Fn(usize) -> WireFormat, client: &mut ClientStream) {
    match columns {
        Some(columns) => client.put(&row_description(&wire_columns(columns), format)),
        None => client.put(&NoData::new()),
    }
}
