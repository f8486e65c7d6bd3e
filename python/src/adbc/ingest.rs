//! Ingestion: the batches of a stream become a table, or rows of one, all of them or none.

use adbc_core::constants;
use adbc_core::options::IngestMode;
use arrow_array::RecordBatchReader;
use arrow_schema::Schema;
use rowmill::{Connection, Error, ErrorKind, SqlType, TransactionState};

use crate::adbc::connection::{SharedSession, qualified, quoted};
use crate::adbc::errors::{AdbcResult, wrong_argument, wrong_state};
use crate::capsule::known_reader;

/// Where the data of a statement goes.
pub(super) struct Ingestion {
    pub(super) table: Option<String>,
    pub(super) schema: Option<String>,
    pub(super) mode: IngestMode,
    pub(super) is_temporary: bool,
}

impl Default for Ingestion {
    fn default() -> Self {
        Ingestion { table: None, schema: None, mode: IngestMode::Create, is_temporary: false }
    }
}

impl Ingestion {
    pub(super) fn mode_of(text: &str) -> AdbcResult<IngestMode> {
        Ok(match text {
            constants::ADBC_INGEST_OPTION_MODE_CREATE => IngestMode::Create,
            constants::ADBC_INGEST_OPTION_MODE_APPEND => IngestMode::Append,
            constants::ADBC_INGEST_OPTION_MODE_REPLACE => IngestMode::Replace,
            constants::ADBC_INGEST_OPTION_MODE_CREATE_APPEND => IngestMode::CreateAppend,
            _ => return Err(wrong_argument(format!("the ingest mode {text} is not known"))),
        })
    }

    /// Stores the rows of a stream. Returns their number.
    pub(super) fn run(&self, session: &SharedSession, data: impl RecordBatchReader + Send) -> AdbcResult<i64> {
        let table = self.table.as_deref().ok_or_else(|| wrong_state("the ingestion has no target table"))?;
        let (schema, mut batches) = known_reader(data);
        let name = qualified(self.schema.as_deref(), table);
        session.run(|connection| {
            let owns_transaction = connection.transaction_state() == TransactionState::Idle;
            if owns_transaction {
                connection.begin(false)?;
            }
            let stored = self.store(connection, &name, &schema, &mut batches);
            match (&stored, owns_transaction) {
                (Ok(_), true) => connection.commit()?,
                (Err(_), true) => connection.rollback()?,
                (_, false) => {}
            }
            stored
        })
    }

    fn store(
        &self,
        connection: &mut Connection,
        name: &str,
        schema: &Schema,
        batches: &mut dyn Iterator<Item = Result<arrow_array::RecordBatch, arrow_schema::ArrowError>>,
    ) -> rowmill::Result<i64> {
        if matches!(self.mode, IngestMode::Replace) {
            connection.execute(&format!("DROP TABLE IF EXISTS {name}"), ())?;
        }
        if !matches!(self.mode, IngestMode::Append) {
            connection.execute(&self.definition(name, schema)?, ())?;
        }
        // Names without their quotes: an appender takes them as they are.
        let table = match &self.schema {
            Some(schema) if !schema.is_empty() => format!("{schema}.{}", self.table.as_deref().unwrap_or_default()),
            _ => self.table.clone().unwrap_or_default(),
        };
        let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let mut appender = connection.appender_for(&table, &columns)?;
        for batch in batches {
            let unreadable = |error| Error::new(ErrorKind::InvalidParameter, format!("the stream of data: {error}"));
            appender.batch(&batch.map_err(unreadable)?)?;
        }
        Ok(appender.finish()? as i64)
    }

    fn definition(&self, name: &str, schema: &Schema) -> rowmill::Result<String> {
        let columns = schema.fields().iter().map(|field| {
            let kind = SqlType::from_arrow(field.data_type()).ok_or_else(|| {
                let what = format!("column {} has the type {}", field.name(), field.data_type());
                Error::new(ErrorKind::Unsupported, format!("{what}, which SQL does not have"))
            })?;
            Ok(format!("{} {kind}", quoted(field.name())))
        });
        let columns = columns.collect::<rowmill::Result<Vec<_>>>()?.join(", ");
        let temporary = if self.is_temporary { "TEMPORARY " } else { "" };
        let absent = if matches!(self.mode, IngestMode::CreateAppend) { "IF NOT EXISTS " } else { "" };
        Ok(format!("CREATE {temporary}TABLE {absent}{name} ({columns})"))
    }
}
