//! Batches from and to other libraries, in Arrow's C interface: a stream within a capsule
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

// The interface is a pointer to a struct of functions. This file reads one, and gives one away.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, IntervalUnit, Schema, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

/// The name that the interface gives to capsules with a stream.
const STREAM: &CStr = c"arrow_array_stream";

/// Returns the object with `__arrow_c_stream__` that holds the rows of `data`, or `None` if it has no rows for Arrow.
pub(crate) fn arrow_source<'py>(data: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let kind = data.get_type();
    let (name, module) = (kind.name()?.to_string(), kind.module()?.to_string());
    match (module.split('.').next().unwrap_or_default(), name.as_str()) {
        // The stream of a frame of pandas would have its index as a column.
        ("pandas", "DataFrame") => {
            let options = PyDict::new(data.py());
            options.set_item("preserve_index", false)?;
            let table = data.py().import("pyarrow")?.getattr("Table")?;
            table.call_method("from_pandas", (data,), Some(&options)).map(Some)
        }
        ("polars", "LazyFrame") => data.call_method0("collect").map(Some),
        // A data set of pyarrow, which may be many files.
        ("pyarrow", _) if data.hasattr("to_table")? => data.call_method0("to_table").map(Some),
        _ if data.hasattr("__arrow_c_stream__")? => Ok(Some(data.clone())),
        _ => Ok(None),
    }
}

/// Reads all batches of a table, a frame or any other object with `__arrow_c_stream__`.
pub(crate) fn batches_of(data: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    let Some(data) = arrow_source(data)? else {
        let name = data.get_type().name()?;
        return Err(PyTypeError::new_err(format!("a {name} has no __arrow_c_stream__, so it is no Arrow data")));
    };
    let capsule = data.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    // A capsule of another name would hold something else.
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: the interface says that a capsule of this name holds a valid stream, which the consumer may move out.
    // `from_raw` does so and leaves a released stream, which the destructor of the capsule then ignores.
    let reader = unsafe { ArrowArrayStreamReader::from_raw(pointer.as_ptr()) };
    let wrong = |error: ArrowError| PyValueError::new_err(format!("the Arrow stream cannot be read: {error}"));
    let reader = reader.map_err(wrong)?;
    // A stream of Python may need its lock, which such a stream takes by itself.
    let (_, batches) = data.py().detach(|| known_batches(reader)).map_err(wrong)?;
    Ok(batches)
}

/// A stream of batches in types that SQL has, with their schema.
pub(crate) fn known_reader<R: RecordBatchReader>(
    reader: R,
) -> (SchemaRef, impl Iterator<Item = Result<RecordBatch, ArrowError>> + use<R>) {
    let schema = known_schema(&reader.schema());
    let known = Arc::clone(&schema);
    (schema, reader.map(move |batch| typed_batch(&batch?, &known)))
}

/// All batches of a stream in types that SQL has: at least one, because their columns would not be known without.
pub(crate) fn known_batches(reader: impl RecordBatchReader) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let (schema, batches) = known_reader(reader);
    let mut batches = batches.collect::<Result<Vec<_>, _>>()?;
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(Arc::clone(&schema)));
    }
    Ok((schema, batches))
}

/// The schema of batches from outside in types that SQL has: a duration becomes an interval.
fn known_schema(schema: &SchemaRef) -> SchemaRef {
    let known = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Duration(_) => {
            Arc::new(Field::new(field.name(), DataType::Interval(IntervalUnit::MonthDayNano), true))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(known.collect::<Vec<_>>()))
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
        // Neither an entry nor a key of a map can be NULL.
        DataType::Map(entries, is_sorted) => {
            let kind = match entries.data_type() {
                DataType::Struct(fields) => {
                    let outside =
                        |field: &Field| Field::new(field.name(), outside_type(field.data_type()), field.is_nullable());
                    DataType::Struct(fields.iter().map(|field| outside(field)).collect())
                }
                other => other.clone(),
            };
            DataType::Map(Arc::new(Field::new(entries.name(), kind, false)), *is_sorted)
        }
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

/// The batch with the types of a schema.
fn typed_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// The batches of a result in the types of `schema`, which [`outside_schema`] has made.
pub(crate) fn outside_batches<B>(schema: &SchemaRef, batches: B) -> impl RecordBatchReader + Send + use<B>
where
    B: Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
{
    let outside = Arc::clone(schema);
    RecordBatchIterator::new(batches.map(move |batch| typed_batch(&batch?, &outside)), Arc::clone(schema))
}

/// An iterator whose items are computed without Python's lock, which the thread that reads them may have. Functions of
/// Python, and other threads, need it in the meantime.
pub(crate) struct Unlocked<I>(pub(crate) I);

impl<I: Iterator<Item: Send> + Send> Iterator for Unlocked<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let items = &mut self.0;
        Python::attach(|py| py.detach(|| items.next()))
    }
}

/// Makes a capsule with a stream of batches that are computed while they are read, in the types of `schema`.
pub(crate) fn stream_of<'py, B>(py: Python<'py>, schema: &SchemaRef, batches: B) -> PyResult<Bound<'py, PyAny>>
where
    B: Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
{
    let stream = FFI_ArrowArrayStream::new(Box::new(outside_batches(schema, batches)));
    Ok(PyCapsule::new_with_value(py, stream, STREAM)?.into_any())
}

/// Batches that are computed, as an object that gives them away as a stream.
#[pyclass(frozen, module = "rowmill")]
pub(crate) struct ArrowBatches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl ArrowBatches {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> ArrowBatches {
        ArrowBatches { schema, batches }
    }
}

#[pymethods]
impl ArrowBatches {
    /// The batches as a stream of Arrow.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // A producer may ignore the request, by the rules of the interface.
        let _ = requested_schema;
        stream_of(py, &self.schema, self.batches.clone().into_iter().map(Ok))
    }
}
