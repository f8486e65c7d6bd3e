//! Bloom filters of Parquet: they may prove that a row group lacks the values that a condition asks for.
//!
//! A filter knows values by their stored bytes. So we ask it only if a value of the query has the type that the column
//! is read as, and only for types whose equal values have equal bytes. Floats are excluded, because they have two
//! zeros.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use parquet::basic::Type as Physical;
use parquet::bloom_filter::Sbbf;
use rowmill_plan::{CompareOp, Predicate};

use crate::guard::guarded;
use crate::parquet_file::ParquetFile;

/// The maximum number of values of an IN list that are looked up. With more values, a filter hardly ever excludes all
/// of them.
const VALUES_MAX: usize = 64;

/// Whether Bloom filters prove that no row of a row group meets `predicate`. `place` returns the index of a column in
/// the file.
pub(crate) fn is_refuted(
    predicate: &Predicate,
    file: &ParquetFile,
    group: usize,
    place: &dyn Fn(usize) -> usize,
) -> bool {
    let lacks = |column: usize, values: &ArrayRef| lacks_all(file, group, place(column), values);
    match predicate {
        Predicate::Compare { column, op: CompareOp::Equal, value } => lacks(*column, value),
        Predicate::In { column, values, negated: false } => lacks(*column, values),
        // One impossible part is enough for AND. For OR, all parts must be impossible.
        Predicate::And(parts) => parts.iter().any(|part| is_refuted(part, file, group, place)),
        Predicate::Or(parts) => !parts.is_empty() && parts.iter().all(|part| is_refuted(part, file, group, place)),
        _ => false,
    }
}

/// Whether the column has a filter and the filter excludes all of `values`.
fn lacks_all(file: &ParquetFile, group: usize, column: usize, values: &ArrayRef) -> bool {
    let column = &file.columns[column];
    let Some(leaf) = column.leaf else { return false };
    let chunk = file.metadata().row_group(group).column(leaf);
    if values.len() > VALUES_MAX || *values.data_type() != column.arrow || chunk.bloom_filter_offset().is_none() {
        return false;
    }
    let found = guarded(&file.source.name, || {
        let filter = Sbbf::read_from_column_chunk(chunk, file.bytes())?;
        Ok::<_, parquet::errors::ParquetError>(filter.and_then(|filter| has_any(&filter, values, chunk.column_type())))
    });
    // A filter that cannot be read excludes nothing, so damage never loses rows.
    matches!(found, Ok(Some(false)))
}

/// Whether the filter may have one of `values`. `None` if it cannot be asked for this type.
fn has_any(filter: &Sbbf, values: &ArrayRef, stored: Physical) -> Option<bool> {
    macro_rules! any {
        ($kind:ty, $stored:ty) => {
            values.as_primitive::<$kind>().values().iter().any(|value| filter.check(&(*value as $stored)))
        };
    }
    Some(match (values.data_type(), stored) {
        (DataType::Int8, Physical::INT32) => any!(Int8Type, i32),
        (DataType::Int16, Physical::INT32) => any!(Int16Type, i32),
        (DataType::Int32, Physical::INT32) => any!(Int32Type, i32),
        (DataType::Int64, Physical::INT64) => any!(Int64Type, i64),
        (DataType::UInt8, Physical::INT32) => any!(UInt8Type, i32),
        (DataType::UInt16, Physical::INT32) => any!(UInt16Type, i32),
        (DataType::UInt32, Physical::INT32) => any!(UInt32Type, i32),
        (DataType::UInt64, Physical::INT64) => any!(UInt64Type, i64),
        (DataType::Date32, Physical::INT32) => any!(Date32Type, i32),
        (DataType::Timestamp(unit, _), Physical::INT64) => match unit {
            arrow::datatypes::TimeUnit::Second => return None,
            arrow::datatypes::TimeUnit::Millisecond => any!(TimestampMillisecondType, i64),
            arrow::datatypes::TimeUnit::Microsecond => any!(TimestampMicrosecondType, i64),
            arrow::datatypes::TimeUnit::Nanosecond => any!(TimestampNanosecondType, i64),
        },
        (DataType::Utf8View, Physical::BYTE_ARRAY) => {
            values.as_string_view().iter().flatten().any(|text| filter.check(text))
        }
        (DataType::BinaryView, Physical::BYTE_ARRAY) => {
            values.as_binary_view().iter().flatten().any(|bytes| filter.check(bytes))
        }
        (DataType::FixedSizeBinary(_), Physical::FIXED_LEN_BYTE_ARRAY) => {
            values.as_fixed_size_binary().iter().flatten().any(|bytes| filter.check(bytes))
        }
        _ => return None,
    })
}
