//! Reads columns of texts as columns of another type.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryViewBuilder, BooleanArray, BooleanBufferBuilder, Decimal128Array, FixedSizeBinaryBuilder,
    PrimitiveArray, StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use rowmill_base::{Error, ErrorKind, NumberedType, Result};

use super::calendar::units_per_second;
use super::reader::{
    Problem, parse_blob, parse_bool, parse_date, parse_decimal, parse_f32, parse_f64, parse_int, parse_interval,
    parse_numbered, parse_time, parse_timestamp, parse_uuid,
};
use super::{nested, unreadable};
use crate::kinds::{arrow_failed, type_name};

/// What to do with a text that is not a value of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The whole read fails.
    Fails,
    /// The value becomes NULL.
    IsNull,
}

/// Reads `texts` as values of type `kind`.
pub fn read_column(texts: &StringViewArray, kind: &DataType, unreadable: Unreadable) -> Result<ArrayRef> {
    let column = TextsToRead { texts, kind, unreadable };
    Ok(match kind {
        DataType::Null => arrow::array::new_null_array(kind, texts.len()),
        DataType::Utf8View => Arc::new(texts.clone()),
        DataType::Boolean => Arc::new(column.booleans()?),
        DataType::Int8 => Arc::new(column.primitive::<Int8Type>(parse_int)?),
        DataType::Int16 => Arc::new(column.primitive::<Int16Type>(parse_int)?),
        DataType::Int32 => Arc::new(column.primitive::<Int32Type>(parse_int)?),
        DataType::Int64 => Arc::new(column.primitive::<Int64Type>(parse_int)?),
        DataType::UInt8 => Arc::new(column.primitive::<UInt8Type>(parse_int)?),
        DataType::UInt16 => Arc::new(column.primitive::<UInt16Type>(parse_int)?),
        DataType::UInt32 => Arc::new(column.primitive::<UInt32Type>(parse_int)?),
        DataType::UInt64 => Arc::new(column.primitive::<UInt64Type>(parse_int)?),
        DataType::Float32 => Arc::new(column.primitive::<Float32Type>(parse_f32)?),
        DataType::Float64 => Arc::new(column.primitive::<Float64Type>(parse_f64)?),
        kind if let Some(numbered) = NumberedType::of_arrow(kind) => {
            let parse = |text: &str| parse_numbered(text, numbered);
            Arc::new(column.primitive::<Decimal128Type>(parse)?.with_data_type(kind.clone()))
        }
        DataType::Decimal128(digits, scale) => {
            let values: Decimal128Array =
                column.primitive::<Decimal128Type>(|text| parse_decimal(text, *digits, *scale as u8))?;
            Arc::new(values.with_precision_and_scale(*digits, *scale).map_err(arrow_failed)?)
        }
        DataType::Date32 => Arc::new(column.primitive::<Date32Type>(parse_date)?),
        DataType::Time64(TimeUnit::Microsecond) => Arc::new(column.primitive::<Time64MicrosecondType>(parse_time)?),
        DataType::Timestamp(unit, zone) => {
            let per_second = units_per_second(*unit);
            let parse = |text: &str| parse_timestamp(text, per_second);
            match unit {
                TimeUnit::Second => {
                    Arc::new(column.primitive::<TimestampSecondType>(parse)?.with_timezone_opt(zone.clone()))
                }
                TimeUnit::Millisecond => {
                    Arc::new(column.primitive::<TimestampMillisecondType>(parse)?.with_timezone_opt(zone.clone()))
                }
                TimeUnit::Microsecond => {
                    Arc::new(column.primitive::<TimestampMicrosecondType>(parse)?.with_timezone_opt(zone.clone()))
                }
                TimeUnit::Nanosecond => {
                    Arc::new(column.primitive::<TimestampNanosecondType>(parse)?.with_timezone_opt(zone.clone()))
                }
            }
        }
        DataType::Interval(_) => Arc::new(column.primitive::<IntervalMonthDayNanoType>(parse_interval)?),
        DataType::BinaryView => column.blobs()?,
        DataType::FixedSizeBinary(16) => column.uuids()?,
        DataType::List(_) | DataType::Struct(_) => column.nested()?,
        other => {
            let message = format!("TEXT cannot be cast to {}", type_name(other));
            return Err(Error::new(ErrorKind::DatatypeMismatch, message));
        }
    })
}

struct TextsToRead<'a> {
    texts: &'a StringViewArray,
    kind: &'a DataType,
    unreadable: Unreadable,
}

impl TextsToRead<'_> {
    /// Calls `each` with every value in order, with `None` for NULL and for a text that is unreadable but may be.
    fn each<T>(
        &self,
        parse: impl Fn(&str) -> Result<T, Problem>,
        mut each: impl FnMut(Option<T>) -> Result<()>,
    ) -> Result<()> {
        for text in self.texts {
            let Some(text) = text else {
                each(None)?;
                continue;
            };
            match parse(text) {
                Ok(value) => each(Some(value))?,
                // TRY_CAST: an unreadable text becomes NULL.
                Err(_) if self.unreadable == Unreadable::IsNull => each(None)?,
                Err(problem) => return Err(unreadable(text, self.kind, problem)),
            }
        }
        Ok(())
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        parse: impl Fn(&str) -> Result<T::Native, Problem>,
    ) -> Result<PrimitiveArray<T>> {
        let mut values = Vec::with_capacity(self.texts.len());
        let mut valid = BooleanBufferBuilder::new(self.texts.len());
        self.each(parse, |value| {
            valid.append(value.is_some());
            values.push(value.unwrap_or_default());
            Ok(())
        })?;
        let nulls = Some(NullBuffer::new(valid.finish())).filter(|nulls| nulls.null_count() > 0);
        Ok(PrimitiveArray::new(values.into(), nulls))
    }

    fn booleans(&self) -> Result<BooleanArray> {
        let mut values = Vec::with_capacity(self.texts.len());
        self.each(parse_bool, |value| {
            values.push(value);
            Ok(())
        })?;
        Ok(BooleanArray::from(values))
    }

    fn blobs(&self) -> Result<ArrayRef> {
        let mut blobs = BinaryViewBuilder::with_capacity(self.texts.len());
        let parse = |text: &str| {
            let mut bytes = Vec::new();
            parse_blob(text, &mut bytes).map(|()| bytes)
        };
        self.each(parse, |bytes| {
            match bytes {
                Some(bytes) => blobs.try_append_value(bytes).map_err(arrow_failed)?,
                None => blobs.append_null(),
            }
            Ok(())
        })?;
        Ok(Arc::new(blobs.finish()))
    }

    fn uuids(&self) -> Result<ArrayRef> {
        let mut uuids = FixedSizeBinaryBuilder::with_capacity(self.texts.len(), 16);
        self.each(parse_uuid, |uuid| {
            match uuid {
                Some(uuid) => uuids.append_value(uuid).map_err(arrow_failed)?,
                None => uuids.append_null(),
            }
            Ok(())
        })?;
        Ok(Arc::new(uuids.finish()))
    }

    /// Reads lists and structs one by one, because we know whether a text is readable only after we have read all its
    /// parts.
    fn nested(&self) -> Result<ArrayRef> {
        let mut rows: Vec<ArrayRef> = Vec::with_capacity(self.texts.len());
        let null = arrow::array::new_null_array(self.kind, 1);
        self.each(
            |text| nested::read(text, self.kind),
            |value| {
                rows.push(value.unwrap_or_else(|| Arc::clone(&null)));
                Ok(())
            },
        )?;
        if rows.is_empty() {
            return Ok(arrow::array::new_empty_array(self.kind));
        }
        let rows: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
        arrow::compute::concat(&rows).map_err(arrow_failed)
    }
}
