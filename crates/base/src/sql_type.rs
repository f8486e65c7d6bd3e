//! The SQL types, their names, and the Arrow types that carry them in memory.
//!
//! A type without parameters is one line of [`PLAIN_TYPES`]; a type whose values are numbers with texts of their own is
//! one line of [`NUMBERED_TYPES`] and a file with its texts. How values are stored depends on [`Physical`] alone.

mod json;
mod map;
mod numbered;
mod physical;

use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit as ArrowUnit};

pub use json::{EXTENSION_NAME_KEY, JSON_EXTENSION, is_json, is_json_field, json_arrow};
pub use map::{map_arrow, map_entry_arrow, map_entry_kinds, map_kinds, with_arrow_maps};
pub use numbered::{
    EnumLabel, EnumLabels, NUMBERED_TYPES, NumberedNative, NumberedTexts, NumberedType, UnsignedNumber,
};
pub use physical::Physical;

/// The unit of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Millisecond,
    /// Microseconds, the unit of `TIMESTAMP` without a precision.
    Microsecond,
    /// Nanoseconds.
    Nanosecond,
}

impl TimeUnit {
    /// The number of digits after the decimal point of the seconds: 0, 3, 6 or 9.
    pub fn digits(self) -> u32 {
        match self {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        }
    }

    /// The unit for 0, 3, 6 or 9 digits after the decimal point of the seconds.
    pub fn from_digits(digits: u64) -> Option<TimeUnit> {
        match digits {
            0 => Some(TimeUnit::Second),
            3 => Some(TimeUnit::Millisecond),
            6 => Some(TimeUnit::Microsecond),
            9 => Some(TimeUnit::Nanosecond),
            _ => None,
        }
    }

    fn arrow(self) -> ArrowUnit {
        match self {
            TimeUnit::Second => ArrowUnit::Second,
            TimeUnit::Millisecond => ArrowUnit::Millisecond,
            TimeUnit::Microsecond => ArrowUnit::Microsecond,
            TimeUnit::Nanosecond => ArrowUnit::Nanosecond,
        }
    }
}

impl From<ArrowUnit> for TimeUnit {
    fn from(unit: ArrowUnit) -> TimeUnit {
        match unit {
            ArrowUnit::Second => TimeUnit::Second,
            ArrowUnit::Millisecond => TimeUnit::Millisecond,
            ArrowUnit::Microsecond => TimeUnit::Microsecond,
            ArrowUnit::Nanosecond => TimeUnit::Nanosecond,
        }
    }
}

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// `BOOLEAN`
    Boolean,
    /// `TINYINT`
    Int8,
    /// `SMALLINT`
    Int16,
    /// `INTEGER`
    Int32,
    /// `BIGINT`
    Int64,
    /// `TINYINT UNSIGNED`
    UInt8,
    /// `SMALLINT UNSIGNED`
    UInt16,
    /// `INTEGER UNSIGNED`
    UInt32,
    /// `BIGINT UNSIGNED`
    UInt64,
    /// `REAL`
    Float32,
    /// `DOUBLE`
    Float64,
    /// `DECIMAL(precision, scale)`: 1 to 76 digits, `scale` of them after the decimal point. With more than 38 digits,
    /// values have 256 bits instead of 128.
    Decimal {
        /// The number of all digits.
        precision: u8,
        /// The number of digits after the decimal point.
        scale: u8,
    },
    /// `DATE`: days since 1970-01-01.
    Date,
    /// `TIME`: microseconds since midnight.
    Time,
    /// `TIMESTAMP(0|3|6|9)`, with or without time zone. With one, the value is an instant in UTC.
    Timestamp {
        /// The unit of the value.
        unit: TimeUnit,
        /// Whether the value is an instant rather than a reading of a wall clock.
        zoned: bool,
    },
    /// `INTERVAL`: months, days and nanoseconds.
    Interval,
    /// `TEXT`, or `VARCHAR(n)` with at most `chars_max` characters.
    Text {
        /// The most characters a value may have.
        chars_max: Option<u32>,
    },
    /// `BLOB`
    Blob,
    /// `UUID`
    Uuid,
    /// `JSON`: a document as its text.
    Json,
    /// A type whose values are numbers with texts of their own: one of [`NUMBERED_TYPES`].
    Numbered(&'static NumberedType),
    /// `type[]`; also `MAP(key, value)`: see [`SqlType::map`].
    List(Box<SqlType>),
    /// `STRUCT(name type, ...)`
    Struct(Vec<(String, SqlType)>),
}

/// The most digits of a decimal whose values have 128 bits.
pub const NARROW_DIGITS_MAX: u8 = 38;

/// The most digits of a decimal.
pub const WIDE_DIGITS_MAX: u8 = 76;

/// The Arrow type that carries decimals in memory: `Decimal128` as long as all digits fit it.
pub fn decimal_arrow(precision: u8, scale: i8) -> DataType {
    match precision {
        ..=NARROW_DIGITS_MAX => DataType::Decimal128(precision, scale),
        _ => DataType::Decimal256(precision, scale),
    }
}

/// A type without parameters, by which catalog and statements find it.
#[derive(Debug)]
pub struct PlainType {
    /// The type.
    pub kind: SqlType,
    /// The number of the type in the catalog. It must never change or be used again.
    pub code: u8,
    /// The name in SQL, in upper case.
    pub name: &'static str,
    /// Other names in SQL, in upper case.
    pub aliases: &'static [&'static str],
    /// A sentence for the user about how values are written, if that is not obvious.
    pub hint: Option<&'static str>,
}

const fn plain(kind: SqlType, code: u8, name: &'static str, aliases: &'static [&'static str]) -> PlainType {
    PlainType { kind, code, name, aliases, hint: None }
}

/// Every type without parameters, except the numbered ones.
pub static PLAIN_TYPES: &[PlainType] = &[
    plain(SqlType::Boolean, 1, "BOOLEAN", &["BOOL"]).hinted("a BOOLEAN is written true or false"),
    plain(SqlType::Int8, 2, "TINYINT", &["INT1"]),
    plain(SqlType::Int16, 3, "SMALLINT", &["INT2", "INT16"]),
    plain(SqlType::Int32, 4, "INTEGER", &["INT", "INT4", "INT32", "MEDIUMINT"]),
    plain(SqlType::Int64, 5, "BIGINT", &["INT8", "INT64"]),
    plain(SqlType::UInt8, 6, "TINYINT UNSIGNED", &["UTINYINT", "UINT8"]),
    plain(SqlType::UInt16, 7, "SMALLINT UNSIGNED", &["INT2 UNSIGNED", "USMALLINT", "UINT16"]),
    plain(
        SqlType::UInt32,
        8,
        "INTEGER UNSIGNED",
        &["INT UNSIGNED", "INT4 UNSIGNED", "MEDIUMINT UNSIGNED", "UINTEGER", "UINT", "UINT32"],
    ),
    plain(SqlType::UInt64, 9, "BIGINT UNSIGNED", &["INT8 UNSIGNED", "UBIGINT", "UINT64"]),
    plain(SqlType::Float32, 10, "REAL", &["FLOAT4", "FLOAT32"]),
    plain(SqlType::Float64, 11, "DOUBLE", &["DOUBLE PRECISION", "FLOAT8", "FLOAT64"]),
    plain(SqlType::Date, 13, "DATE", &["DATE32"]).hinted("a DATE is written 2013-07-31"),
    plain(SqlType::Time, 14, "TIME", &[]).hinted("a TIME is written 12:30:45"),
    plain(SqlType::Interval, 16, "INTERVAL", &[]).hinted("an INTERVAL is written 1 year 2 mons 3 days 04:05:06"),
    plain(SqlType::TEXT, 17, "TEXT", &["STRING", "SYMBOL", "CLOB", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT"]),
    plain(
        SqlType::Blob,
        19,
        "BLOB",
        &["BYTEA", "BINARY", "VARBINARY", "BYTES", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "VARBINARY(MAX)"],
    )
    .hinted("a BLOB that starts with \\x goes on with pairs of hexadecimal digits"),
    plain(SqlType::Uuid, 20, "UUID", &[]).hinted("a UUID is written 550e8400-e29b-41d4-a716-446655440000"),
    plain(SqlType::Json, 25, "JSON", &["JSONB"]).hinted("a text in JSON has double quotes: '\"text\"'"),
];

impl PlainType {
    const fn hinted(mut self, hint: &'static str) -> PlainType {
        self.hint = Some(hint);
        self
    }

    fn of(kind: &SqlType) -> Option<&'static PlainType> {
        PLAIN_TYPES.iter().find(|plain| plain.kind == *kind)
    }
}

impl SqlType {
    /// The number in the catalog of a type without parameters, except numbered ones.
    pub fn plain_code(&self) -> Option<u8> {
        PlainType::of(self).map(|plain| plain.code)
    }

    /// The type without parameters, except numbered ones, that has this number in the catalog.
    pub fn of_plain_code(code: u8) -> Option<SqlType> {
        PLAIN_TYPES.iter().find(|plain| plain.code == code).map(|plain| plain.kind.clone())
    }

    /// The type without parameters that has this name, in any case.
    pub fn of_name(name: &str) -> Option<SqlType> {
        let is_name = |other: &&str| other.eq_ignore_ascii_case(name);
        let plain = PLAIN_TYPES.iter().find(|plain| is_name(&plain.name) || plain.aliases.iter().any(is_name));
        plain.map(|plain| plain.kind.clone()).or_else(|| NumberedType::of_name(name).map(SqlType::Numbered))
    }

    /// A sentence for the user about how values are written, if that is not obvious.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SqlType::Timestamp { zoned: false, .. } => Some("a TIMESTAMP is written 2013-07-31 12:30:45"),
            SqlType::Timestamp { zoned: true, .. } => {
                Some("a TIMESTAMP WITH TIME ZONE is written 2013-07-31 12:30:45+02")
            }
            SqlType::Numbered(kind) => Some(kind.hint),
            kind if kind.as_map().is_some() => Some("a MAP is written {key=value, other=value}"),
            SqlType::List(_) => Some("a list is written as JSON: [1, 2, null]"),
            SqlType::Struct(_) => Some("a STRUCT is written as JSON: {\"name\": 1}"),
            other => PlainType::of(other)?.hint,
        }
    }

    /// `TEXT` without a limit.
    pub const TEXT: SqlType = SqlType::Text { chars_max: None };

    /// The Arrow type that carries values of this type in memory.
    pub fn arrow(&self) -> DataType {
        match self {
            SqlType::Boolean => DataType::Boolean,
            SqlType::Int8 => DataType::Int8,
            SqlType::Int16 => DataType::Int16,
            SqlType::Int32 => DataType::Int32,
            SqlType::Int64 => DataType::Int64,
            SqlType::UInt8 => DataType::UInt8,
            SqlType::UInt16 => DataType::UInt16,
            SqlType::UInt32 => DataType::UInt32,
            SqlType::UInt64 => DataType::UInt64,
            SqlType::Float32 => DataType::Float32,
            SqlType::Float64 => DataType::Float64,
            SqlType::Decimal { precision, scale } => decimal_arrow(*precision, *scale as i8),
            SqlType::Date => DataType::Date32,
            SqlType::Time => DataType::Time64(ArrowUnit::Microsecond),
            SqlType::Timestamp { unit, zoned } => DataType::Timestamp(unit.arrow(), zoned.then(|| Arc::from("UTC"))),
            SqlType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            SqlType::Text { .. } => DataType::Utf8View,
            SqlType::Blob => DataType::BinaryView,
            SqlType::Uuid => DataType::FixedSizeBinary(16),
            SqlType::Json => json_arrow(),
            SqlType::Numbered(kind) => kind.arrow(),
            SqlType::List(item) => DataType::List(Arc::new(Field::new("item", item.arrow(), true))),
            SqlType::Struct(fields) => DataType::Struct(
                fields.iter().map(|(name, kind)| Field::new(name, kind.arrow(), true)).collect::<Fields>(),
            ),
        }
    }

    /// The type that can hold every value of an Arrow type, if one exists.
    pub fn from_arrow(kind: &DataType) -> Option<SqlType> {
        Some(match kind {
            DataType::Boolean => SqlType::Boolean,
            DataType::Int8 => SqlType::Int8,
            DataType::Int16 => SqlType::Int16,
            DataType::Int32 => SqlType::Int32,
            DataType::Int64 => SqlType::Int64,
            DataType::UInt8 => SqlType::UInt8,
            DataType::UInt16 => SqlType::UInt16,
            DataType::UInt32 => SqlType::UInt32,
            DataType::UInt64 => SqlType::UInt64,
            DataType::Float16 | DataType::Float32 => SqlType::Float32,
            DataType::Float64 => SqlType::Float64,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale)
                if *scale >= 0 =>
            {
                SqlType::Decimal { precision: *precision, scale: *scale as u8 }
            }
            kind @ (DataType::Decimal128(..) | DataType::Decimal256(..)) => {
                SqlType::Numbered(NumberedType::of_arrow(kind)?)
            }
            DataType::Date32 | DataType::Date64 => SqlType::Date,
            DataType::Time32(_) | DataType::Time64(_) => SqlType::Time,
            DataType::Timestamp(unit, zone) => {
                SqlType::Timestamp { unit: TimeUnit::from(*unit), zoned: zone.is_some() }
            }
            DataType::Interval(_) => SqlType::Interval,
            // A column with only NULLs, such as `SELECT NULL AS x`, becomes text.
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => SqlType::TEXT,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => SqlType::Blob,
            DataType::FixedSizeBinary(16) => SqlType::Uuid,
            DataType::FixedSizeBinary(_) => SqlType::Blob,
            DataType::Dictionary(_, value) => SqlType::from_arrow(value)?,
            DataType::RunEndEncoded(_, value) => SqlType::from_arrow(value.data_type())?,
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => SqlType::List(Box::new(SqlType::from_arrow(item.data_type())?)),
            DataType::Map(entries, _) => {
                SqlType::map_of_entries(entries.data_type(), |field| SqlType::from_arrow(field.data_type()))?
            }
            kind if is_json(kind) => SqlType::Json,
            DataType::Struct(fields) => SqlType::Struct(
                fields
                    .iter()
                    .map(|field| Some((field.name().clone(), SqlType::from_arrow(field.data_type())?)))
                    .collect::<Option<_>>()?,
            ),
            _ => return None,
        })
    }

    /// Whether values are of an ENUM or contain some.
    pub fn has_labels(&self) -> bool {
        match self {
            SqlType::Numbered(kind) => kind.labels().is_some(),
            SqlType::List(item) => item.has_labels(),
            SqlType::Struct(fields) => fields.iter().any(|(_, kind)| kind.has_labels()),
            _ => false,
        }
    }

    /// Whether values of this type have an order that `MIN`, `ORDER BY` and value lists use.
    pub fn is_ordered(&self) -> bool {
        !matches!(self, SqlType::Interval | SqlType::Json | SqlType::List(_) | SqlType::Struct(_))
    }
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(plain) = PlainType::of(self) {
            return f.write_str(plain.name);
        }
        match self {
            SqlType::Decimal { precision, scale } => write!(f, "DECIMAL({precision},{scale})"),
            SqlType::Timestamp { unit, zoned } => {
                f.write_str("TIMESTAMP")?;
                if *unit != TimeUnit::Microsecond {
                    write!(f, "({})", unit.digits())?;
                }
                f.write_str(if *zoned { " WITH TIME ZONE" } else { "" })
            }
            SqlType::Text { chars_max: Some(chars) } => write!(f, "VARCHAR({chars})"),
            SqlType::Numbered(kind) => f.write_str(kind.name),
            map if let Some((key, value)) = map.as_map() => write!(f, "MAP({key}, {value})"),
            SqlType::List(item) => write!(f, "{item}[]"),
            SqlType::Struct(fields) => {
                f.write_str("STRUCT(")?;
                for (i, (name, kind)) in fields.iter().enumerate() {
                    // The fields of an entry of a map have a mark in front of their names.
                    let name = name.trim_start_matches('\0');
                    write!(f, "{}{name} {kind}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            plain => unreachable!("PLAIN_TYPES lacks {plain:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_code_and_every_name_means_one_type() {
        let mut names = HashSet::new();
        let mut codes = HashSet::new();
        for plain in PLAIN_TYPES {
            assert!(codes.insert(plain.code), "{plain:?}");
            assert_eq!(SqlType::of_plain_code(plain.code).as_ref(), Some(&plain.kind));
            for name in std::iter::once(&plain.name).chain(plain.aliases) {
                assert!(names.insert(*name), "{name}");
                assert_eq!(SqlType::of_name(&name.to_lowercase()).as_ref(), Some(&plain.kind));
            }
            assert_eq!(plain.kind.to_string(), plain.name);
            assert_eq!(SqlType::from_arrow(&plain.kind.arrow()).as_ref(), Some(&plain.kind));
        }
        codes.clear();
        for numbered in NUMBERED_TYPES {
            assert!(matches!(numbered.code, 1..=127) && codes.insert(numbered.code), "{numbered:?}");
            assert!(matches!(numbered.bytes, 1..=32), "{numbered:?}");
            for name in std::iter::once(&numbered.name).chain(numbered.aliases) {
                assert!(names.insert(*name), "{name}");
                assert_eq!(SqlType::of_name(&name.to_lowercase()), Some(SqlType::Numbered(numbered)));
            }
            assert_eq!(SqlType::from_arrow(&numbered.arrow()), Some(SqlType::Numbered(numbered)));
        }
    }
}
