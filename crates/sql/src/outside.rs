//! Results as others can read them: Arrow has no type for JSON and [numbered types](rowmill_base::NumberedType), so
//! their values leave as texts. A column of JSON is marked as Arrow's extension type for JSON.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{
    EXTENSION_NAME_KEY, Error, JSON_EXTENSION, NumberedType, Result, is_json, map_kinds, with_arrow_maps,
};
use rowmill_expr::kernels::cast::cast;
use rowmill_expr::session_zone::SessionZone;

use crate::outcome::{Outcome, RowStream};

/// Returns a column of a result, or a part of one, with the type that it has outside of the engine.
fn outside_field(field: &Field, zone: Option<SessionZone>) -> Field {
    let mut metadata = field.metadata().clone();
    let kind = match field.data_type() {
        kind if is_json(kind) => {
            metadata.insert(EXTENSION_NAME_KEY.to_owned(), JSON_EXTENSION.to_owned());
            DataType::Utf8View
        }
        kind if NumberedType::of_arrow(kind).is_some() => DataType::Utf8View,
        kind if map_kinds(kind).is_some() => match with_arrow_maps(kind) {
            DataType::Map(entries, is_sorted) => DataType::Map(Arc::new(outside_field(&entries, zone)), is_sorted),
            other => other,
        },
        DataType::List(item) => DataType::List(Arc::new(outside_field(item, zone))),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| outside_field(field, zone)).collect()),
        // The values stay the same, and the type tells the zone in which they are shown.
        DataType::Timestamp(unit, Some(_)) if let Some(zone) = zone => {
            DataType::Timestamp(*unit, Some(zone.name.into()))
        }
        kind => kind.clone(),
    };
    Field::new(field.name(), kind, field.is_nullable()).with_metadata(metadata)
}

/// Whether values of a type, or parts of them, have another type outside of the engine.
fn is_converted(kind: &DataType, zone: Option<SessionZone>) -> bool {
    if is_json(kind) || NumberedType::of_arrow(kind).is_some() || map_kinds(kind).is_some() {
        return true;
    }
    match kind {
        DataType::List(item) => is_converted(item.data_type(), zone),
        DataType::Struct(fields) => fields.iter().any(|field| is_converted(field.data_type(), zone)),
        DataType::Timestamp(_, Some(own)) => zone.is_some_and(|zone| zone.name != &**own),
        _ => false,
    }
}

/// Returns the schema of a result, if a column must be converted.
pub(crate) fn outside_schema(schema: &SchemaRef, zone: Option<SessionZone>) -> Option<SchemaRef> {
    // Nearly all results stay as they are. A new schema for each of them would cost more than a look-up by a key.
    if !schema.fields().iter().any(|field| is_converted(field.data_type(), zone)) {
        return None;
    }
    let fields: Vec<Field> = schema.fields().iter().map(|field| outside_field(field, zone)).collect();
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type(), false)).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal(error.to_string()))
}

/// Converts a batch of the engine for callers outside of it.
pub fn outside_batch(batch: RecordBatch, zone: Option<SessionZone>) -> Result<RecordBatch> {
    match outside_schema(batch.schema_ref(), zone) {
        Some(schema) => with_schema(&batch, &schema),
        None => Ok(batch),
    }
}

impl Outcome {
    /// The outcome for callers outside of the engine, who see instants in a time zone.
    pub fn outside(self, zone: Option<SessionZone>) -> Outcome {
        let Outcome::Rows(stream) = self else { return self };
        Outcome::Rows(match outside_schema(&stream.schema(), zone) {
            Some(schema) => {
                let own = Arc::clone(&schema);
                RowStream::new(own, stream.map(move |batch| with_schema(&batch?, &schema)))
            }
            None => stream,
        })
    }
}
