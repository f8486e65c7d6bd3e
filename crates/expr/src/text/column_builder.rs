//! Builds columns from texts.
//!
//! A [`ColumnBuilder`] takes the texts of values, from casts, CSV fields, JSON values or text columns of binary files,
//! and makes the Arrow array of its SQL type. Callers should append a whole column at a time, so that the type is
//! dispatched once and not in the loop.
//!
//! Every append must add exactly one row, even if it reports a problem. The row is NULL then, and the caller, which
//! collects the reports, drops the row or gives up.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, BinaryViewBuilder, BooleanBuilder, FixedSizeBinaryBuilder, ListArray,
    NullBufferBuilder, PrimitiveArray, PrimitiveBuilder, StringViewArray, StringViewBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Decimal256Type, Field, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type, i256,
};
use rowmill_base::{NARROW_DIGITS_MAX, NumberedType, SqlType, TimeUnit};

use super::calendar::units_per_second;
use super::json::{checked, items, members, unescape};
use super::map_text::{entries, is_json_object};
use super::reader::{
    Problem, parse_blob, parse_bool, parse_date, parse_decimal, parse_f32, parse_f64, parse_instant, parse_int,
    parse_interval, parse_numbered, parse_time, parse_timestamp, parse_uuid,
};

use crate::session_zone::{SessionZone, session_zone};

/// The texts of a column, row by row.
pub trait BuilderTexts {
    /// The text in `row`. `None` means NULL.
    fn text(&mut self, row: usize) -> Option<&str>;
}

impl BuilderTexts for &StringViewArray {
    fn text(&mut self, row: usize) -> Option<&str> {
        self.is_valid(row).then(|| self.value(row))
    }
}

/// Collects problems. Rows of one append are counted from 0.
pub trait Problems {
    /// The text in `row` is not a value of the column.
    fn found(&mut self, row: usize, problem: Problem);
}

impl<F: FnMut(usize, Problem)> Problems for F {
    fn found(&mut self, row: usize, problem: Problem) {
        self(row, problem);
    }
}

/// Collects the values of one column.
pub struct ColumnBuilder {
    kind: SqlType,
    values: BuilderValues,
}

enum BuilderValues {
    Boolean(BooleanBuilder),
    Int8(PrimitiveBuilder<Int8Type>),
    Int16(PrimitiveBuilder<Int16Type>),
    Int32(PrimitiveBuilder<Int32Type>),
    Int64(PrimitiveBuilder<Int64Type>),
    UInt8(PrimitiveBuilder<UInt8Type>),
    UInt16(PrimitiveBuilder<UInt16Type>),
    UInt32(PrimitiveBuilder<UInt32Type>),
    UInt64(PrimitiveBuilder<UInt64Type>),
    Float32(PrimitiveBuilder<Float32Type>),
    Float64(PrimitiveBuilder<Float64Type>),
    Decimal(PrimitiveBuilder<Decimal128Type>, u8, u8),
    WideDecimal(PrimitiveBuilder<Decimal256Type>, u8, u8),
    Numbered(PrimitiveBuilder<Decimal128Type>, &'static NumberedType),
    WideNumbered(PrimitiveBuilder<Decimal256Type>, &'static NumberedType),
    Date(PrimitiveBuilder<Date32Type>),
    Time(PrimitiveBuilder<Time64MicrosecondType>),
    /// Units since 1970, the unit, and whether the type has a time zone. The array gets its unit at the end. Texts
    /// without an offset are read in the zone, which is that of the session.
    Timestamp(PrimitiveBuilder<Int64Type>, TimeUnit, bool, Option<SessionZone>),
    Interval(PrimitiveBuilder<IntervalMonthDayNanoType>),
    Text(StringViewBuilder, Option<u32>),
    Blob(BinaryViewBuilder, Vec<u8>),
    Uuid(FixedSizeBinaryBuilder),
    Json(StringViewBuilder),
    Map(Box<MapBuilder>),
    List(Box<ListBuilder>),
    Struct(Box<StructBuilder>),
}

/// Runs `$body` with the builder of a primitive type and the function that reads its texts. The further arms are for
/// the other types.
macro_rules! with_primitive {
    ($values:expr, ($builder:ident, $parse:ident) => $body:expr, $($others:tt)*) => {
        match $values {
            BuilderValues::Int8($builder) => {
                let $parse = parse_int::<i8>;
                $body
            }
            BuilderValues::Int16($builder) => {
                let $parse = parse_int::<i16>;
                $body
            }
            BuilderValues::Int32($builder) => {
                let $parse = parse_int::<i32>;
                $body
            }
            BuilderValues::Int64($builder) => {
                let $parse = parse_int::<i64>;
                $body
            }
            BuilderValues::UInt8($builder) => {
                let $parse = parse_int::<u8>;
                $body
            }
            BuilderValues::UInt16($builder) => {
                let $parse = parse_int::<u16>;
                $body
            }
            BuilderValues::UInt32($builder) => {
                let $parse = parse_int::<u32>;
                $body
            }
            BuilderValues::UInt64($builder) => {
                let $parse = parse_int::<u64>;
                $body
            }
            BuilderValues::Float32($builder) => {
                let $parse = parse_f32;
                $body
            }
            BuilderValues::Float64($builder) => {
                let $parse = parse_f64;
                $body
            }
            BuilderValues::Date($builder) => {
                let $parse = parse_date;
                $body
            }
            BuilderValues::Time($builder) => {
                let $parse = parse_time;
                $body
            }
            BuilderValues::Interval($builder) => {
                let $parse = parse_interval;
                $body
            }
            BuilderValues::Decimal($builder, precision, scale) => {
                let $parse = |text: &str| parse_decimal::<i128>(text, *precision, *scale);
                $body
            }
            BuilderValues::WideDecimal($builder, precision, scale) => {
                let $parse = |text: &str| parse_decimal::<i256>(text, *precision, *scale);
                $body
            }
            BuilderValues::Numbered($builder, kind) => {
                let $parse = |text: &str| parse_numbered::<i128>(text, kind);
                $body
            }
            BuilderValues::WideNumbered($builder, kind) => {
                let $parse = |text: &str| parse_numbered::<i256>(text, kind);
                $body
            }
            BuilderValues::Timestamp($builder, unit, _, zone) => {
                let per_second = units_per_second(*unit);
                let zone: Option<SessionZone> = *zone;
                let $parse = |text: &str| match zone {
                    None => parse_timestamp(text, per_second),
                    Some(zone) => parse_instant(text, per_second, zone),
                };
                $body
            }
            $($others)*
        }
    };
}

struct ListBuilder {
    items: ColumnBuilder,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    scratch: String,
}

struct MapBuilder {
    keys: ColumnBuilder,
    values: ColumnBuilder,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    scratch: String,
}

struct StructBuilder {
    names: Vec<String>,
    fields: Vec<ColumnBuilder>,
    nulls: NullBufferBuilder,
    scratch: String,
}

impl ColumnBuilder {
    /// An empty builder of a type, with room for `rows` rows.
    pub fn new(kind: &SqlType, rows: usize) -> ColumnBuilder {
        let values = match kind {
            SqlType::Boolean => BuilderValues::Boolean(BooleanBuilder::with_capacity(rows)),
            SqlType::Int8 => BuilderValues::Int8(PrimitiveBuilder::with_capacity(rows)),
            SqlType::Int16 => BuilderValues::Int16(PrimitiveBuilder::with_capacity(rows)),
            SqlType::Int32 => BuilderValues::Int32(PrimitiveBuilder::with_capacity(rows)),
            SqlType::Int64 => BuilderValues::Int64(PrimitiveBuilder::with_capacity(rows)),
            SqlType::UInt8 => BuilderValues::UInt8(PrimitiveBuilder::with_capacity(rows)),
            SqlType::UInt16 => BuilderValues::UInt16(PrimitiveBuilder::with_capacity(rows)),
            SqlType::UInt32 => BuilderValues::UInt32(PrimitiveBuilder::with_capacity(rows)),
            SqlType::UInt64 => BuilderValues::UInt64(PrimitiveBuilder::with_capacity(rows)),
            SqlType::Float32 => BuilderValues::Float32(PrimitiveBuilder::with_capacity(rows)),
            SqlType::Float64 => BuilderValues::Float64(PrimitiveBuilder::with_capacity(rows)),
            SqlType::Decimal { precision: precision @ ..=NARROW_DIGITS_MAX, scale } => {
                let builder = PrimitiveBuilder::with_capacity(rows).with_data_type(kind.arrow());
                BuilderValues::Decimal(builder, *precision, *scale)
            }
            SqlType::Decimal { precision, scale } => {
                let builder = PrimitiveBuilder::with_capacity(rows).with_data_type(kind.arrow());
                BuilderValues::WideDecimal(builder, *precision, *scale)
            }
            SqlType::Numbered(numbered) if numbered.is_wide() => {
                let builder = PrimitiveBuilder::with_capacity(rows).with_data_type(kind.arrow());
                BuilderValues::WideNumbered(builder, numbered)
            }
            SqlType::Numbered(numbered) => {
                let builder = PrimitiveBuilder::with_capacity(rows).with_data_type(kind.arrow());
                BuilderValues::Numbered(builder, numbered)
            }
            SqlType::Date => BuilderValues::Date(PrimitiveBuilder::with_capacity(rows)),
            SqlType::Time => BuilderValues::Time(PrimitiveBuilder::with_capacity(rows)),
            SqlType::Timestamp { unit, zoned } => {
                let zone = session_zone().filter(|_| *zoned);
                BuilderValues::Timestamp(PrimitiveBuilder::with_capacity(rows), *unit, *zoned, zone)
            }
            SqlType::Interval => BuilderValues::Interval(PrimitiveBuilder::with_capacity(rows)),
            SqlType::Text { chars_max } => BuilderValues::Text(StringViewBuilder::with_capacity(rows), *chars_max),
            SqlType::Blob => BuilderValues::Blob(BinaryViewBuilder::with_capacity(rows), Vec::new()),
            SqlType::Uuid => BuilderValues::Uuid(FixedSizeBinaryBuilder::with_capacity(rows, 16)),
            SqlType::Json => BuilderValues::Json(StringViewBuilder::with_capacity(rows)),
            map if let Some((key, value)) = map.as_map() => BuilderValues::Map(Box::new(MapBuilder {
                keys: ColumnBuilder::new(key, rows),
                values: ColumnBuilder::new(value, rows),
                ends: Vec::with_capacity(rows),
                nulls: NullBufferBuilder::new(rows),
                scratch: String::new(),
            })),
            SqlType::List(item) => BuilderValues::List(Box::new(ListBuilder {
                items: ColumnBuilder::new(item, rows),
                ends: Vec::with_capacity(rows),
                nulls: NullBufferBuilder::new(rows),
                scratch: String::new(),
            })),
            SqlType::Struct(fields) => BuilderValues::Struct(Box::new(StructBuilder {
                names: fields.iter().map(|(name, _)| name.clone()).collect(),
                fields: fields.iter().map(|(_, kind)| ColumnBuilder::new(kind, rows)).collect(),
                nulls: NullBufferBuilder::new(rows),
                scratch: String::new(),
            })),
        };
        ColumnBuilder { kind: kind.clone(), values }
    }

    /// Appends the texts of the first `rows` rows.
    pub fn append_all(&mut self, texts: &mut impl BuilderTexts, rows: usize, problems: &mut impl Problems) {
        with_primitive! {
            &mut self.values,
            (builder, parse) => append_primitives(builder, texts, rows, problems, parse),
            BuilderValues::Text(builder, None) => {
                for row in 0..rows {
                    match texts.text(row) {
                        Some(text) => builder.append_value(text),
                        None => builder.append_null(),
                    }
                }
            }
            _ => {
                for row in 0..rows {
                    let appended = match texts.text(row) {
                        Some(text) => self.append_text(text),
                        None => {
                            self.append_null();
                            Ok(())
                        }
                    };
                    if let Err(problem) = appended {
                        problems.found(row, problem);
                    }
                }
            }
        }
    }

    /// Parses one text and appends its value.
    pub fn append_text(&mut self, text: &str) -> Result<(), Problem> {
        with_primitive! {
            &mut self.values,
            (builder, parse) => append_primitive(builder, parse(text)),
            BuilderValues::Boolean(builder) => {
                let value = parse_bool(text);
                builder.append_option(value.ok());
                value.map(drop)
            }
            BuilderValues::Text(builder, chars_max) => append_limited(builder, *chars_max, text),
            BuilderValues::Blob(builder, scratch) => {
                let parsed = parse_blob(text, scratch);
                builder.append_option(parsed.is_ok().then_some(scratch.as_slice()));
                parsed
            }
            BuilderValues::Uuid(builder) => append_uuid(builder, parse_uuid(text)),
            BuilderValues::Json(builder) => append_document(builder, text),
            BuilderValues::Map(builder) => builder.append(text),
            BuilderValues::List(builder) => builder.append(text),
            BuilderValues::Struct(builder) => builder.append(text),
        }
    }

    /// Appends the value of a JSON text, or of a word, which a scanner must have delimited.
    pub(crate) fn append_json(&mut self, json: &str, scratch: &mut String) -> Result<(), Problem> {
        if let BuilderValues::Json(builder) = &mut self.values
            && !json.eq_ignore_ascii_case("null")
        {
            return append_document(builder, json);
        }
        let Some(inside) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
            if json.eq_ignore_ascii_case("null") {
                self.append_null();
                return Ok(());
            }
            return self.append_text(json);
        };
        // Without escapes the text can be used in place.
        if !inside.contains('\\') {
            return self.append_text(inside);
        }
        scratch.clear();
        if unescape(inside, scratch).is_err() {
            self.append_null();
            return Err(Problem::Malformed);
        }
        self.append_text(scratch)
    }

    /// Appends NULL.
    pub fn append_null(&mut self) {
        with_primitive! {
            &mut self.values,
            (builder, _parse) => builder.append_null(),
            BuilderValues::Boolean(builder) => builder.append_null(),
            BuilderValues::Text(builder, _) => builder.append_null(),
            BuilderValues::Blob(builder, _) => builder.append_null(),
            BuilderValues::Uuid(builder) => builder.append_null(),
            BuilderValues::Json(builder) => builder.append_null(),
            BuilderValues::Map(builder) => builder.end_row(false),
            BuilderValues::List(builder) => builder.end_row(false),
            BuilderValues::Struct(builder) => {
                builder.fields.iter_mut().for_each(ColumnBuilder::append_null);
                builder.nulls.append_null();
            }
        }
    }

    fn len(&self) -> usize {
        with_primitive! {
            &self.values,
            (builder, _parse) => builder.len(),
            BuilderValues::Boolean(builder) => builder.len(),
            BuilderValues::Text(builder, _) => builder.len(),
            BuilderValues::Blob(builder, _) => builder.len(),
            BuilderValues::Uuid(builder) => builder.len(),
            BuilderValues::Json(builder) => builder.len(),
            BuilderValues::Map(builder) => builder.ends.len(),
            BuilderValues::List(builder) => builder.ends.len(),
            BuilderValues::Struct(builder) => builder.nulls.len(),
        }
    }

    /// The array of all rows. Leaves the builder empty.
    pub fn finish(&mut self) -> ArrayRef {
        if let BuilderValues::Timestamp(builder, unit, zoned, _) = &mut self.values {
            let (_, values, nulls) = builder.finish().into_parts();
            return timestamps(values, nulls, *unit, *zoned);
        }
        with_primitive! {
            &mut self.values,
            (builder, _parse) => Arc::new(builder.finish()),
            BuilderValues::Boolean(builder) => Arc::new(builder.finish()),
            BuilderValues::Text(builder, _) => Arc::new(builder.finish()),
            BuilderValues::Blob(builder, _) => Arc::new(builder.finish()),
            BuilderValues::Uuid(builder) => Arc::new(builder.finish()),
            BuilderValues::Map(builder) => Arc::new(builder.finish(&self.kind)),
            BuilderValues::List(builder) => Arc::new(builder.finish()),
            BuilderValues::Json(builder) => crate::json::of_texts(builder.finish()),
            BuilderValues::Struct(builder) => Arc::new(builder.finish(&self.kind)),
        }
    }
}

/// Makes an array of timestamps from counts of `unit`.
pub fn timestamps(values: ScalarBuffer<i64>, nulls: Option<NullBuffer>, unit: TimeUnit, zoned: bool) -> ArrayRef {
    fn array<T>(values: ScalarBuffer<i64>, nulls: Option<NullBuffer>, zoned: bool) -> ArrayRef
    where
        T: ArrowPrimitiveType<Native = i64> + arrow::datatypes::ArrowTimestampType,
    {
        let array = PrimitiveArray::<T>::new(values, nulls);
        if zoned { Arc::new(array.with_timezone("UTC")) } else { Arc::new(array) }
    }
    match unit {
        TimeUnit::Second => array::<TimestampSecondType>(values, nulls, zoned),
        TimeUnit::Millisecond => array::<TimestampMillisecondType>(values, nulls, zoned),
        TimeUnit::Microsecond => array::<TimestampMicrosecondType>(values, nulls, zoned),
        TimeUnit::Nanosecond => array::<TimestampNanosecondType>(values, nulls, zoned),
    }
}

#[inline(always)]
fn append_primitives<T: ArrowPrimitiveType>(
    builder: &mut PrimitiveBuilder<T>,
    texts: &mut impl BuilderTexts,
    rows: usize,
    problems: &mut impl Problems,
    parse: impl Fn(&str) -> Result<T::Native, Problem>,
) {
    for row in 0..rows {
        match texts.text(row).map(&parse) {
            Some(Ok(value)) => builder.append_value(value),
            None => builder.append_null(),
            Some(Err(problem)) => {
                builder.append_null();
                problems.found(row, problem);
            }
        }
    }
}

fn append_primitive<T: ArrowPrimitiveType>(
    builder: &mut PrimitiveBuilder<T>,
    value: Result<T::Native, Problem>,
) -> Result<(), Problem> {
    builder.append_option(value.ok());
    value.map(drop)
}

fn append_limited(builder: &mut StringViewBuilder, chars_max: Option<u32>, text: &str) -> Result<(), Problem> {
    if fits(text, chars_max) {
        builder.append_value(text);
        Ok(())
    } else {
        builder.append_null();
        Err(Problem::TooLong)
    }
}

/// Whether `text` has at most `chars_max` characters. A text has at most as many characters as bytes, so most texts
/// need no counting.
#[inline]
pub fn fits(text: &str, chars_max: Option<u32>) -> bool {
    chars_max.is_none_or(|most| text.len() <= most as usize || text.chars().count() <= most as usize)
}

fn append_uuid(builder: &mut FixedSizeBinaryBuilder, value: Result<[u8; 16], Problem>) -> Result<(), Problem> {
    match value {
        Ok(bytes) => builder.append_value(bytes).map_err(|_| Problem::Malformed),
        Err(problem) => {
            builder.append_null();
            Err(problem)
        }
    }
}

/// Appends a JSON document as its text.
fn append_document(builder: &mut StringViewBuilder, text: &str) -> Result<(), Problem> {
    let document = checked(text);
    builder.append_option(document.as_ref().ok());
    document.map(drop).map_err(|_| Problem::Malformed)
}

impl ListBuilder {
    /// Appends the items of a JSON array as one row.
    fn append(&mut self, json: &str) -> Result<(), Problem> {
        // On an error some items may have been appended. The row ends after them, and it is NULL.
        let appended = self.append_items(json);
        self.end_row(appended.is_ok());
        appended
    }

    fn append_items(&mut self, json: &str) -> Result<(), Problem> {
        for item in items(json) {
            let item = item.map_err(|_| Problem::Malformed)?;
            self.items.append_json(item, &mut self.scratch)?;
        }
        Ok(())
    }

    fn end_row(&mut self, valid: bool) {
        self.ends.push(i32::try_from(self.items.len()).expect("a chunk of text should have fewer than 2^31 items"));
        self.nulls.append(valid);
    }

    fn finish(&mut self) -> ListArray {
        let ends = std::mem::take(&mut self.ends);
        let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
        let item = Arc::new(Field::new("item", self.items.kind.arrow(), true));
        ListArray::new(item, OffsetBuffer::new(offsets.into()), self.items.finish(), self.nulls.finish())
    }
}

impl MapBuilder {
    /// Appends the entries of the text of a map, or of a JSON object, as one row.
    fn append(&mut self, text: &str) -> Result<(), Problem> {
        let appended = match is_json_object(text) {
            true => self.append_members(text),
            false => self.append_entries(text),
        };
        // After an error a key may lack its value. The row is NULL, and a NULL row has no entries.
        let lost = self.keys.len() - self.values.len();
        (0..lost).for_each(|_| self.values.append_null());
        self.end_row(appended.is_ok());
        appended
    }

    fn append_members(&mut self, json: &str) -> Result<(), Problem> {
        let mut known = HashSet::new();
        for member in members(json) {
            let (key, value) = member.map_err(|_| Problem::Malformed)?;
            self.scratch.clear();
            unescape(key, &mut self.scratch).map_err(|_| Problem::Malformed)?;
            if !known.insert(self.scratch.clone()) {
                return Err(Problem::Malformed);
            }
            self.keys.append_text(&self.scratch)?;
            self.values.append_json(value, &mut self.scratch)?;
        }
        Ok(())
    }

    fn append_entries(&mut self, text: &str) -> Result<(), Problem> {
        let mut known = HashSet::new();
        for (key, value) in entries(text)? {
            let key = key.text().ok_or(Problem::Malformed)?;
            if !known.insert(key.to_owned()) {
                return Err(Problem::Malformed);
            }
            self.keys.append_text(key)?;
            match value.text() {
                Some(value) => self.values.append_text(value)?,
                None => self.values.append_null(),
            }
        }
        Ok(())
    }

    fn end_row(&mut self, valid: bool) {
        self.ends.push(i32::try_from(self.keys.len()).expect("a chunk of text should have fewer than 2^31 entries"));
        self.nulls.append(valid);
    }

    fn finish(&mut self, kind: &SqlType) -> ListArray {
        let DataType::List(item) = kind.arrow() else { unreachable!("the Arrow type of a map is a list") };
        let DataType::Struct(fields) = item.data_type() else { unreachable!("an entry of a map is a struct") };
        let entries = StructArray::new(fields.clone(), vec![self.keys.finish(), self.values.finish()], None);
        let offsets: Vec<i32> = std::iter::once(0).chain(std::mem::take(&mut self.ends)).collect();
        ListArray::new(item, OffsetBuffer::new(offsets.into()), Arc::new(entries), self.nulls.finish())
    }
}

impl StructBuilder {
    /// Appends the members of a JSON object, each to the field of its name. A field without a member gets NULL.
    fn append(&mut self, json: &str) -> Result<(), Problem> {
        let rows = self.nulls.len();
        let appended = self.append_members(json, rows);
        // Every field must have one more row now, also after an error.
        for field in &mut self.fields {
            if field.len() == rows {
                field.append_null();
            }
        }
        self.nulls.append(appended.is_ok());
        appended
    }

    fn append_members(&mut self, json: &str, rows: usize) -> Result<(), Problem> {
        for member in members(json) {
            let (key, value) = member.map_err(|_| Problem::Malformed)?;
            let at = self.field(key).ok_or(Problem::Malformed)?;
            // A key that occurs twice has no single value.
            if self.fields[at].len() > rows {
                return Err(Problem::Malformed);
            }
            self.fields[at].append_json(value, &mut self.scratch)?;
        }
        Ok(())
    }

    fn field(&self, key: &str) -> Option<usize> {
        let mut unescaped = String::new();
        let key = if key.contains('\\') {
            unescape(key, &mut unescaped).ok()?;
            &unescaped
        } else {
            key
        };
        // An exact match wins over one in another case.
        let exact = self.names.iter().position(|name| name == key);
        exact.or_else(|| self.names.iter().position(|name| name.to_lowercase() == key.to_lowercase()))
    }

    fn finish(&mut self, kind: &SqlType) -> StructArray {
        let DataType::Struct(fields) = kind.arrow() else { unreachable!("the Arrow type of a struct is a struct") };
        let nulls = self.nulls.finish();
        if fields.is_empty() {
            let rows = nulls.as_ref().map_or(0, NullBuffer::len);
            return StructArray::new_empty_fields(rows, nulls);
        }
        let columns = self.fields.iter_mut().map(ColumnBuilder::finish).collect();
        StructArray::new(fields, columns, nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(kind: &SqlType, texts: &[Option<&str>]) -> (ArrayRef, Vec<(usize, Problem)>) {
        let mut builder = ColumnBuilder::new(kind, texts.len());
        let mut problems = Vec::new();
        builder.append_all(&mut &StringViewArray::from(texts.to_vec()), texts.len(), &mut |row, problem| {
            problems.push((row, problem))
        });
        let array = builder.finish();
        assert_eq!(array.data_type(), &kind.arrow());
        assert_eq!(array.len(), texts.len());
        (array, problems)
    }

    #[test]
    fn a_misfit_is_reported_and_still_adds_a_row() {
        let int = |texts: &[Option<&str>]| build(&SqlType::Int8, texts).1;
        assert_eq!(
            int(&[Some("1"), Some("x"), None, Some("128")]),
            [(1, Problem::Malformed), (3, Problem::OutOfRange)]
        );
        let varchar = SqlType::Text { chars_max: Some(2) };
        assert_eq!(build(&varchar, &[Some("ab"), Some("abc"), Some("äö")]).1, [(1, Problem::TooLong)]);
        let list = SqlType::List(Box::new(SqlType::Int8));
        let (array, problems) = build(&list, &[Some("[1, 300]"), Some("[1"), Some("[2]"), Some("7")]);
        let expected = [(0, Problem::OutOfRange), (1, Problem::Malformed), (3, Problem::Malformed)];
        assert_eq!(problems, expected);
        assert_eq!(array.null_count(), 3);
        let pair = SqlType::Struct(vec![("a".to_owned(), SqlType::Int8), ("b".to_owned(), SqlType::Int8)]);
        let texts =
            [Some("{\"a\": 1, \"b\": \"x\"}"), Some("{\"c\": 1}"), Some("{\"B\": 2}"), Some("{\"a\": 1, \"a\": 1}")];
        let (array, problems) = build(&pair, &texts);
        assert_eq!(problems.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(
            crate::text::writer::format_value(&array, 2).expect("text").as_deref(),
            Some(r#"{"a": null, "b": 2}"#)
        );
    }
}
