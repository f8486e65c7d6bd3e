//! Batches from and to other libraries, in Arrow's C interface: a stream within a capsule
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

// The interface is a pointer to a struct of functions. This file reads one, and gives one away.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The name that the interface gives to capsules with a stream.
const STREAM: &CStr = c"arrow_array_stream";

/// Reads all batches of an object with `__arrow_c_stream__`.
pub(crate) fn batches_of(data: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    if !data.hasattr("__arrow_c_stream__")? {
        let name = data.get_type().name()?;
        return Err(PyTypeError::new_err(format!("a {name} has no __arrow_c_stream__, so it is no Arrow data")));
    }
    let capsule = data.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    // A capsule of another name would hold something else.
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: the interface says that a capsule of this name holds a valid stream, which the consumer may move out.
    // `from_raw` does so and leaves a released stream, which the destructor of the capsule then ignores.
    let reader = unsafe { ArrowArrayStreamReader::from_raw(pointer.as_ptr()) };
    let wrong = |error: ArrowError| PyValueError::new_err(format!("the Arrow stream cannot be read: {error}"));
    let reader = reader.map_err(wrong)?;
    let schema = arrow_array::RecordBatchReader::schema(&reader);
    let mut batches = reader.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    // Without a batch, the columns would not be known.
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(schema));
    }
    Ok(batches)
}

/// The type of a column for programs that do not know views.
fn outside_type(kind: &DataType) -> DataType {
    match kind {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => {
            DataType::List(Arc::new(Field::new(item.name(), outside_type(item.data_type()), item.is_nullable())))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| outside_field(field)).collect()),
        other => other.clone(),
    }
}

/// A field of that type. All fields may hold NULL, so that one query has one schema, whatever the planner knows of it.
fn outside_field(field: &Field) -> Field {
    Field::new(field.name(), outside_type(field.data_type()), true)
}

/// The schema of a result for programs that do not know views.
pub(crate) fn outside_schema(schema: &SchemaRef) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(|field| outside_field(field)).collect::<Vec<_>>()))
}

fn outside_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// Makes a capsule with a stream of the batches, in the types of `schema`.
pub(crate) fn stream_of<'py>(
    py: Python<'py>,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> PyResult<Bound<'py, PyAny>> {
    let batches: Vec<RecordBatch> = py
        .detach(|| batches.iter().map(|batch| outside_batch(batch, schema)).collect::<Result<_, _>>())
        .map_err(|error| PyValueError::new_err(format!("a result as Arrow: {error}")))?;
    let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), Arc::clone(schema));
    let stream = FFI_ArrowArrayStream::new(Box::new(reader));
    Ok(PyCapsule::new_with_value(py, stream, STREAM)?.into_any())
}
