//! The SQL types, their names, and the Arrow types that carry them in memory.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit as ArrowUnit};

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
    /// `DECIMAL(precision, scale)`: 1 to 38 digits, `scale` of them after the decimal point.
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
    /// `type[]`
    List(Box<SqlType>),
    /// `STRUCT(name type, ...)`
    Struct(Vec<(String, SqlType)>),
}

impl SqlType {
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
            SqlType::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale as i8),
            SqlType::Date => DataType::Date32,
            SqlType::Time => DataType::Time64(ArrowUnit::Microsecond),
            SqlType::Timestamp { unit, zoned } => DataType::Timestamp(unit.arrow(), zoned.then(|| Arc::from("UTC"))),
            SqlType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            SqlType::Text { .. } => DataType::Utf8View,
            SqlType::Blob => DataType::BinaryView,
            SqlType::Uuid => DataType::FixedSizeBinary(16),
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
                if *scale >= 0 =>
            {
                SqlType::Decimal { precision: *precision, scale: *scale as u8 }
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
            DataType::Struct(fields) => SqlType::Struct(
                fields
                    .iter()
                    .map(|field| Some((field.name().clone(), SqlType::from_arrow(field.data_type())?)))
                    .collect::<Option<_>>()?,
            ),
            _ => return None,
        })
    }

    /// Whether values of this type have an order that `MIN`, `ORDER BY` and value lists use.
    pub fn is_ordered(&self) -> bool {
        !matches!(self, SqlType::Interval | SqlType::List(_) | SqlType::Struct(_))
    }
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            SqlType::Boolean => "BOOLEAN",
            SqlType::Int8 => "TINYINT",
            SqlType::Int16 => "SMALLINT",
            SqlType::Int32 => "INTEGER",
            SqlType::Int64 => "BIGINT",
            SqlType::UInt8 => "TINYINT UNSIGNED",
            SqlType::UInt16 => "SMALLINT UNSIGNED",
            SqlType::UInt32 => "INTEGER UNSIGNED",
            SqlType::UInt64 => "BIGINT UNSIGNED",
            SqlType::Float32 => "REAL",
            SqlType::Float64 => "DOUBLE",
            SqlType::Decimal { precision, scale } => return write!(f, "DECIMAL({precision},{scale})"),
            SqlType::Date => "DATE",
            SqlType::Time => "TIME",
            SqlType::Timestamp { unit, zoned } => {
                f.write_str("TIMESTAMP")?;
                if *unit != TimeUnit::Microsecond {
                    write!(f, "({})", unit.digits())?;
                }
                return f.write_str(if *zoned { " WITH TIME ZONE" } else { "" });
            }
            SqlType::Interval => "INTERVAL",
            SqlType::Text { chars_max: None } => "TEXT",
            SqlType::Text { chars_max: Some(chars) } => return write!(f, "VARCHAR({chars})"),
            SqlType::Blob => "BLOB",
            SqlType::Uuid => "UUID",
            SqlType::List(item) => return write!(f, "{item}[]"),
            SqlType::Struct(fields) => {
                f.write_str("STRUCT(")?;
                for (i, (name, kind)) in fields.iter().enumerate() {
                    write!(f, "{}{name} {kind}", if i > 0 { ", " } else { "" })?;
                }
                return f.write_str(")");
            }
        };
        f.write_str(name)
    }
}
