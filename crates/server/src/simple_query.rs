//! The simple protocol: a text of one or several statements, whose rows go as text.

use std::time::Instant;

use pgwire::messages::response::EmptyQueryResponse;
use rowmill::Outcome;

use crate::encode::{WireFormat, row_description, wire_columns};
use crate::portal::OpenRows;
use crate::server_statement;
use crate::session::PgSession;
use crate::socket::ClientStream;
use crate::sql_words::{TextPart, first_word, rows_tag, statements};
use crate::wire_error::{StepResult, WireError, notice};

impl PgSession {
    /// Runs the statements of a text. Without BEGIN, several statements are one transaction.
    pub(crate) fn simple_query(&mut self, text: &str, client: &mut ClientStream) -> StepResult {
        // The unnamed statement and portal belong to the messages before this one.
        self.portals.remove("");
        let parts = statements(text);
        if parts.is_empty() {
            client.put(&EmptyQueryResponse::new());
            return self.end_implicit(client);
        }
        let is_several = parts.len() > 1;
        for part in &parts {
            let first = first_word(&part.sql);
            self.block.check_allowed(&first)?;
            // SET may change whether the next transaction only reads, so it is none of its own.
            let reads_only = self.reads_only() && first != "SET";
            if (is_several || reads_only) && !is_control(&first) {
                self.block.begin_implicit(&mut self.connection, reads_only)?;
            }
            let started = Instant::now();
            self.note_begin(part.sql.as_str().into());
            let ran = self.simple_statement(text, part, &first, client);
            self.log(&part.sql, started, &ran);
            ran?;
            self.forget_portals();
        }
        self.end_implicit(client)
    }

    fn simple_statement(&mut self, text: &str, part: &TextPart, first: &str, client: &mut ClientStream) -> StepResult {
        self.shared.metrics.count_pg();
        let reads_only = self.reads_only();
        if let Some(control) = self.block.run_control(first, &part.sql, reads_only, &mut self.connection)? {
            self.put_notices(client);
            if let Some((sqlstate, message)) = control.warning {
                client.put(&notice("WARNING", sqlstate, message));
            }
            self.put_complete(&control.outcome, client);
            return Ok(());
        }
        let outcome = match server_statement::is_own(first, &part.sql) {
            true => self.run_own(first, &part.sql, client)?,
            false => {
                let outcome = self.connection.run_one(&part.sql, &[]);
                outcome.map_err(|error| WireError::in_text(&error, text, part.start))?
            }
        };
        match outcome {
            Outcome::Rows(stream) => {
                let columns = wire_columns(&stream.schema());
                client.put(&row_description(&columns, |_| WireFormat::Text));
                let formats = vec![WireFormat::Text; columns.len()];
                let sent = OpenRows::new(stream).send(client, &formats, None)?;
                self.put_rows_complete(rows_tag(&part.sql), sent.rows, client);
            }
            outcome => self.put_complete(&outcome, client),
        }
        Ok(())
    }
}

/// Whether a statement that begins with this word begins or ends a transaction.
pub(crate) fn is_control(first: &str) -> bool {
    matches!(first, "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT")
}
