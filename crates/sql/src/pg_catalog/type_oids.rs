//! PostgreSQL's types: their numbers, and the type by which each of our types goes over the wire.
//!
//! | Rowmill | PostgreSQL |
//! | --- | --- |
//! | BOOLEAN | bool |
//! | TINYINT, SMALLINT, TINYINT UNSIGNED | int2 |
//! | INTEGER, SMALLINT UNSIGNED | int4 |
//! | BIGINT, INTEGER UNSIGNED | int8 |
//! | BIGINT UNSIGNED, DECIMAL | numeric |
//! | REAL, DOUBLE | float4, float8 |
//! | TEXT, VARCHAR, numbered types | text |
//! | BLOB, UUID, DATE, TIME, INTERVAL | bytea, uuid, date, time, interval |
//! | TIMESTAMP, TIMESTAMP WITH TIME ZONE | timestamp, timestamptz |
//! | lists of these | arrays |
//! | JSON, STRUCT, lists of lists and of structs | json |
//!
//! Columns of the catalog have further types, which no type of ours tells: `oid`, `name`, `"char"` and others. The
//! metadata of their fields names them (`rowmill_plan::logical::DECLARED_TYPE`).

use arrow::datatypes::Field;
use rowmill_base::{SqlType, TimeUnit};
use rowmill_plan::logical::declared_type;

/// A type of PostgreSQL without its arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PgScalar {
    /// `bool`
    Bool,
    /// `bytea`
    Bytea,
    /// `int8`
    Int8,
    /// `int2`
    Int2,
    /// `int4`
    Int4,
    /// `text`
    Text,
    /// `json`
    Json,
    /// `float4`
    Float4,
    /// `float8`
    Float8,
    /// `date`
    Date,
    /// `time`
    Time,
    /// `timestamp`
    Timestamp,
    /// `timestamptz`
    Timestamptz,
    /// `interval`
    Interval,
    /// `numeric`
    Numeric,
    /// `uuid`
    Uuid,
    /// `oid`: the number of an object, four bytes without a sign.
    Oid,
    /// `name`
    Name,
    /// `"char"`: one byte.
    Char,
    /// `int2vector`: numbers, shown without braces.
    Int2vector,
    /// `oidvector`: numbers of objects, shown without braces.
    Oidvector,
    /// `jsonb`, only of parameters.
    Jsonb,
}

/// Each type: its name, its number, the number of its arrays, and the bytes of a value, -1 if they vary.
const SCALARS: [(PgScalar, &str, u32, u32, i16); 22] = [
    (PgScalar::Bool, "bool", 16, 1000, 1),
    (PgScalar::Bytea, "bytea", 17, 1001, -1),
    (PgScalar::Int8, "int8", 20, 1016, 8),
    (PgScalar::Int2, "int2", 21, 1005, 2),
    (PgScalar::Int4, "int4", 23, 1007, 4),
    (PgScalar::Text, "text", 25, 1009, -1),
    (PgScalar::Json, "json", 114, 199, -1),
    (PgScalar::Float4, "float4", 700, 1021, 4),
    (PgScalar::Float8, "float8", 701, 1022, 8),
    (PgScalar::Date, "date", 1082, 1182, 4),
    (PgScalar::Time, "time", 1083, 1183, 8),
    (PgScalar::Timestamp, "timestamp", 1114, 1115, 8),
    (PgScalar::Timestamptz, "timestamptz", 1184, 1185, 8),
    (PgScalar::Interval, "interval", 1186, 1187, 16),
    (PgScalar::Numeric, "numeric", 1700, 1231, -1),
    (PgScalar::Uuid, "uuid", 2950, 2951, 16),
    (PgScalar::Oid, "oid", 26, 1028, 4),
    (PgScalar::Name, "name", 19, 1003, 64),
    (PgScalar::Char, "char", 18, 1002, 1),
    (PgScalar::Int2vector, "int2vector", 22, 1006, -1),
    (PgScalar::Oidvector, "oidvector", 30, 1013, -1),
    (PgScalar::Jsonb, "jsonb", 3802, 3807, -1),
];

/// Types of PostgreSQL whose values we take as another type's: their numbers and the numbers of their arrays.
const TAKEN_AS: [(u32, u32, PgScalar); 5] = [
    (1042, 1014, PgScalar::Text),
    (1043, 1015, PgScalar::Text),
    (2205, 2210, PgScalar::Text),
    (2206, 2211, PgScalar::Text),
    (705, 0, PgScalar::Text),
];

/// A type of PostgreSQL, perhaps an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgType {
    /// The type of the items of an array, otherwise the type itself.
    pub scalar: PgScalar,
    /// Whether it is an array.
    pub is_array: bool,
}

impl PgScalar {
    /// All types.
    pub fn all() -> impl Iterator<Item = PgScalar> {
        SCALARS.iter().map(|(scalar, ..)| *scalar)
    }

    /// The name by which `pg_type` knows the type.
    pub fn name(self) -> &'static str {
        let found = SCALARS.iter().find(|(scalar, ..)| *scalar == self);
        found.expect("the table has every scalar").1
    }

    /// The name in SQL, as `format_type` gives it.
    pub(crate) fn sql_name(self) -> &'static str {
        match self {
            PgScalar::Bool => "boolean",
            PgScalar::Int8 => "bigint",
            PgScalar::Int2 => "smallint",
            PgScalar::Int4 => "integer",
            PgScalar::Float4 => "real",
            PgScalar::Float8 => "double precision",
            PgScalar::Time => "time without time zone",
            PgScalar::Timestamp => "timestamp without time zone",
            PgScalar::Timestamptz => "timestamp with time zone",
            PgScalar::Char => "\"char\"",
            other => other.name(),
        }
    }

    fn entry(self) -> (u32, u32, i16) {
        let found = SCALARS.iter().find(|(scalar, ..)| *scalar == self);
        let (_, _, oid, array, bytes) = found.expect("the table has every scalar");
        (*oid, *array, *bytes)
    }
}

impl PgType {
    /// `text`
    pub const TEXT: PgType = PgType { scalar: PgScalar::Text, is_array: false };

    /// A type that is no array.
    pub const fn scalar(scalar: PgScalar) -> PgType {
        PgType { scalar, is_array: false }
    }

    /// The number of the type.
    pub fn oid(self) -> u32 {
        let (oid, array, _) = self.scalar.entry();
        if self.is_array { array } else { oid }
    }

    /// The bytes of a value, -1 if they vary.
    pub fn size(self) -> i16 {
        if self.is_array { -1 } else { self.scalar.entry().2 }
    }

    /// The type by which values of one of our types go over the wire.
    pub fn of(kind: &SqlType) -> PgType {
        let scalar = match kind {
            SqlType::Boolean => PgScalar::Bool,
            SqlType::Int8 | SqlType::Int16 | SqlType::UInt8 => PgScalar::Int2,
            SqlType::Int32 | SqlType::UInt16 => PgScalar::Int4,
            SqlType::Int64 | SqlType::UInt32 => PgScalar::Int8,
            SqlType::UInt64 | SqlType::Decimal { .. } => PgScalar::Numeric,
            SqlType::Float32 => PgScalar::Float4,
            SqlType::Float64 => PgScalar::Float8,
            SqlType::Date => PgScalar::Date,
            SqlType::Time => PgScalar::Time,
            SqlType::Timestamp { zoned: false, .. } => PgScalar::Timestamp,
            SqlType::Timestamp { zoned: true, .. } => PgScalar::Timestamptz,
            SqlType::Interval => PgScalar::Interval,
            SqlType::Text { .. } | SqlType::Numbered(_) => PgScalar::Text,
            SqlType::Blob => PgScalar::Bytea,
            SqlType::Uuid => PgScalar::Uuid,
            SqlType::Json | SqlType::Struct(_) => PgScalar::Json,
            SqlType::List(item) => match &**item {
                // PostgreSQL's arrays of arrays must have the same length everywhere; ours need not.
                SqlType::List(_) | SqlType::Struct(_) => PgScalar::Json,
                item => return PgType { scalar: PgType::of(item).scalar, is_array: true },
            },
        };
        PgType::scalar(scalar)
    }

    /// The type by which values of a column go over the wire.
    pub fn of_field(field: &Field) -> PgType {
        let declared = declared_type(field).and_then(PgType::of_declared);
        // A type that SQL does not have goes as text.
        let own = || SqlType::of_field(field).map_or(PgType::TEXT, |kind| PgType::of(&kind));
        declared.unwrap_or_else(own)
    }

    /// The type with the name by which the catalog declares it.
    pub fn of_declared(name: &str) -> Option<PgType> {
        let scalar = |scalar, is_array| Some(PgType { scalar, is_array });
        match name {
            "oid" => scalar(PgScalar::Oid, false),
            "name" => scalar(PgScalar::Name, false),
            "char" => scalar(PgScalar::Char, false),
            "int2vector" => scalar(PgScalar::Int2vector, false),
            "oidvector" => scalar(PgScalar::Oidvector, false),
            "oid[]" => scalar(PgScalar::Oid, true),
            "name[]" => scalar(PgScalar::Name, true),
            "json" => scalar(PgScalar::Json, false),
            _ => None,
        }
    }

    /// The type with this number. `None` for numbers that we do not know, and for 0, which means that the client leaves
    /// the type to the statement.
    pub fn of_oid(oid: u32) -> Option<PgType> {
        let own = SCALARS.iter().map(|(scalar, _, oid, array, _)| (*oid, *array, *scalar));
        let known = own.chain(TAKEN_AS).find(|(scalar, array, _)| oid != 0 && (oid == *scalar || oid == *array));
        known.map(|(_, array, scalar)| PgType { scalar, is_array: oid == array })
    }

    /// Our type for parameters of this type.
    pub fn sql_type(self) -> SqlType {
        let kind = match self.scalar {
            PgScalar::Bool => SqlType::Boolean,
            PgScalar::Bytea => SqlType::Blob,
            PgScalar::Int8 | PgScalar::Oid => SqlType::Int64,
            PgScalar::Int2 => SqlType::Int16,
            PgScalar::Int4 => SqlType::Int32,
            PgScalar::Text | PgScalar::Name | PgScalar::Char => SqlType::TEXT,
            PgScalar::Json | PgScalar::Jsonb => SqlType::Json,
            PgScalar::Int2vector => SqlType::List(Box::new(SqlType::Int16)),
            PgScalar::Oidvector => SqlType::List(Box::new(SqlType::Int64)),
            PgScalar::Float4 => SqlType::Float32,
            PgScalar::Float8 => SqlType::Float64,
            PgScalar::Date => SqlType::Date,
            PgScalar::Time => SqlType::Time,
            PgScalar::Timestamp => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false },
            PgScalar::Timestamptz => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: true },
            PgScalar::Interval => SqlType::Interval,
            // The digits of a value are not known before it comes.
            PgScalar::Numeric => SqlType::Decimal { precision: 38, scale: 10 },
            PgScalar::Uuid => SqlType::Uuid,
        };
        if self.is_array { SqlType::List(Box::new(kind)) } else { kind }
    }
}

/// PostgreSQL's modifier of a type: the digits of a decimal, or the characters of a text, -1 if it has none.
pub fn type_modifier(kind: &SqlType) -> i32 {
    /// PostgreSQL counts four bytes of a header to every modifier.
    const HEADER: i32 = 4;
    match kind {
        SqlType::Decimal { precision, scale } => (i32::from(*precision) << 16 | i32::from(*scale)) + HEADER,
        SqlType::UInt64 => (20 << 16) + HEADER,
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_means_one_type() {
        for (scalar, _, oid, array, _) in SCALARS {
            assert_eq!(PgType::of_oid(oid), Some(PgType::scalar(scalar)));
            assert_eq!(PgType::of_oid(array), Some(PgType { scalar, is_array: true }));
            assert_eq!((PgType::scalar(scalar).oid(), PgType { scalar, is_array: true }.oid()), (oid, array));
        }
        assert_eq!(PgType::of_oid(0), None);
        assert_eq!(PgType::of_oid(1043), Some(PgType::TEXT));
        assert_eq!(PgType::of_oid(4_000_000), None);
    }

    #[test]
    fn lists_are_arrays_unless_they_are_nested() {
        let list = |item: SqlType| SqlType::List(Box::new(item));
        assert_eq!(PgType::of(&list(SqlType::Int32)).oid(), 1007);
        assert_eq!(PgType::of(&list(list(SqlType::Int32))).oid(), 114);
        assert_eq!(type_modifier(&SqlType::Decimal { precision: 10, scale: 2 }), 655_366);
    }
}
