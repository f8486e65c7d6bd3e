//! Results as others can read them: Arrow has no type for [numbered types](rowmill_base::NumberedType), so their values
//! leave as texts.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Error, Result, SqlType};
use rowmill_expr::kernels::cast::cast;

use crate::outcome::{Outcome, RowStream};

/// The type of a column of a result, for the type that the engine uses.
fn outside_type(kind: &DataType) -> DataType {
    match SqlType::from_arrow(kind) {
        Some(own) if own.outside() != own => own.outside().arrow(),
        _ => kind.clone(),
    }
}

/// Returns the schema of a result, if a column must be converted.
pub(crate) fn outside_schema(schema: &SchemaRef) -> Option<SchemaRef> {
    if schema.fields().iter().all(|field| outside_type(field.data_type()) == *field.data_type()) {
        return None;
    }
    let fields = schema.fields().iter().map(|field| {
        Field::new(field.name(), outside_type(field.data_type()), field.is_nullable())
            .with_metadata(field.metadata().clone())
    });
    Some(Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())))
}

fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type(), false)).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal(error.to_string()))
}

/// Converts a batch of the engine for callers outside of it.
pub fn outside_batch(batch: RecordBatch) -> Result<RecordBatch> {
    match outside_schema(batch.schema_ref()) {
        Some(schema) => with_schema(&batch, &schema),
        None => Ok(batch),
    }
}

impl Outcome {
    /// The outcome for callers outside of the engine.
    pub fn outside(self) -> Outcome {
        let Outcome::Rows(stream) = self else { return self };
        Outcome::Rows(match outside_schema(&stream.schema()) {
            Some(schema) => {
                let own = Arc::clone(&schema);
                RowStream::new(own, stream.map(move |batch| with_schema(&batch?, &schema)))
            }
            None => stream,
        })
    }
}
