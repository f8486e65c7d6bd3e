//! Portals: statements with values for their parameters, whose rows a client takes in parts.
//!
//! The rows of a portal are computed while they are sent. A portal whose row limit is reached keeps the stream and the
//! rest of one batch, and nothing more.

use std::sync::Arc;

use rowmill::arrow::array::{RecordBatch, RecordBatchOptions};
use rowmill::arrow::compute::cast;
use rowmill::arrow::datatypes::{DataType, Schema, SchemaRef};
use rowmill::pg_types::PgType;
use rowmill::{Error, Result, RowStream, SqlType};

use crate::backend::OUTPUT_BYTES;
use crate::decode::BoundValue;
use crate::encode::{EncodedBatch, WireFormat, canonical, is_canonical};
use crate::extended::PreparedOnWire;
use crate::socket::ClientStream;
use crate::wire_error::{StepResult, UNSUPPORTED, WireError};

/// A statement with its values.
pub(crate) struct Portal {
    pub(crate) statement: Option<Arc<PreparedOnWire>>,
    pub(crate) values: Vec<BoundValue>,
    /// The formats of the columns, one for each.
    pub(crate) formats: Vec<WireFormat>,
    pub(crate) progress: PortalProgress,
}

/// How far a portal has been run.
pub(crate) enum PortalProgress {
    /// It did not start.
    Ready,
    /// More rows may follow.
    Rows(OpenRows),
    /// It has been run to its end.
    Done,
}

impl Portal {
    /// A portal that `DECLARE` has made.
    pub(crate) fn cursor(rows: OpenRows) -> Portal {
        let formats = vec![WireFormat::Text; rows.schema().fields().len()];
        Portal { statement: None, values: Vec::new(), formats, progress: PortalProgress::Rows(rows) }
    }

    /// The rows, if the portal has started and has any.
    pub(crate) fn open_rows(&self) -> Option<&OpenRows> {
        match &self.progress {
            PortalProgress::Rows(rows) => Some(rows),
            PortalProgress::Ready | PortalProgress::Done => None,
        }
    }

    /// The rows for taking some of them, if the portal has started and has any.
    pub(crate) fn rows(&mut self) -> Option<&mut OpenRows> {
        match &mut self.progress {
            PortalProgress::Rows(rows) => Some(rows),
            PortalProgress::Ready | PortalProgress::Done => None,
        }
    }
}

/// Rows that are computed while they are taken.
pub(crate) struct OpenRows {
    stream: RowStream,
    /// The columns as the client was told.
    schema: SchemaRef,
    /// The rest of the last batch.
    pending: Option<RecordBatch>,
}

/// How many rows were sent, and whether more may follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentRows {
    pub(crate) rows: u64,
    pub(crate) is_limited: bool,
}

impl OpenRows {
    pub(crate) fn new(stream: RowStream) -> OpenRows {
        OpenRows { schema: stream.schema(), stream, pending: None }
    }

    /// Rows for a client that was told the columns of `described`. Columns of other types are converted: the values of
    /// parameters may give a column another type than the statement alone.
    pub(crate) fn described(stream: RowStream, described: &SchemaRef) -> Result<OpenRows, WireError> {
        let (found, told) = (stream.schema().fields().len(), described.fields().len());
        if found != told {
            let message = format!("the result has {found} columns, but the client was told {told}");
            return Err(
                WireError::new(UNSUPPORTED, message).hint("prepare the statement again: its tables have changed")
            );
        }
        Ok(OpenRows { stream, schema: Arc::clone(described), pending: None })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Takes at most `rows_max` rows. Returns `None` at the end.
    pub(crate) fn take(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        let batch = loop {
            match self.pending.take() {
                Some(batch) => break batch,
                None => match self.stream.next() {
                    None => return Ok(None),
                    Some(batch) => {
                        let batch = batch?;
                        if batch.num_rows() > 0 {
                            self.pending = Some(converted(batch, &self.schema)?);
                        }
                    }
                },
            }
        };
        if batch.num_rows() > rows_max {
            self.pending = Some(batch.slice(rows_max, batch.num_rows() - rows_max));
            return Ok(Some(batch.slice(0, rows_max)));
        }
        Ok(Some(batch))
    }

    /// Sends at most `rows_max` rows, all if it is `None`.
    pub(crate) fn send(
        &mut self,
        client: &mut ClientStream,
        formats: &[WireFormat],
        rows_max: Option<u64>,
    ) -> StepResult<SentRows> {
        let mut sent = 0;
        loop {
            let wanted = rows_max.map_or(usize::MAX, |max| usize::try_from(max - sent).unwrap_or(usize::MAX));
            if wanted == 0 {
                return Ok(SentRows { rows: sent, is_limited: true });
            }
            let Some(batch) = self.take(wanted)? else { return Ok(SentRows { rows: sent, is_limited: false }) };
            let mut encoded = EncodedBatch::new(&batch, &self.schema, formats)?;
            let mut at = 0;
            while at < batch.num_rows() {
                at += encoded.encode_rows(at..batch.num_rows(), &mut client.output, OUTPUT_BYTES);
                client.send_full()?;
            }
            sent += batch.num_rows() as u64;
        }
    }
}

/// Returns a batch with the types of `schema`, each in the form in which it is encoded.
fn converted(batch: RecordBatch, schema: &Schema) -> Result<RecordBatch> {
    let mut columns = batch.columns().iter().zip(schema.fields());
    // Nearly all results are so. A short one should not pay for a new schema.
    if columns.all(|(column, field)| column.data_type() == field.data_type() && is_canonical(column.data_type())) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| {
        // Decimals of other digits go over the wire alike.
        let is_alike = SqlType::from_arrow(column.data_type())
            .is_some_and(|kind| column.data_type() != &DataType::Null && PgType::of(&kind) == PgType::of_field(field));
        let column = match column.data_type() == field.data_type() || is_alike {
            true => Arc::clone(column),
            false => cast(column, field.data_type()).map_err(cannot_send)?,
        };
        canonical(&column)
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let fields = batch.schema_ref().fields().iter().zip(&columns);
    let fields = fields.map(|(field, column)| {
        let kind = column.data_type().clone();
        field.as_ref().clone().with_data_type(kind).with_nullable(true)
    });
    let fields: Vec<_> = fields.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(cannot_send)
}

fn cannot_send(error: rowmill::arrow::error::ArrowError) -> Error {
    Error::internal(format!("a result cannot be sent: {error}"))
}
