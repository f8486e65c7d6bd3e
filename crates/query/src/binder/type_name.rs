//! Names of types in `CREATE TABLE` and `CAST`, and the types that they mean.

use rowmill_base::{EnumLabels, Error, ErrorKind, NUMBERED_TYPES, PLAIN_TYPES, Result, SqlType, TimeUnit};
use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as Ast, EnumMember, ExactNumberInfo, Ident, ObjectName, ObjectNamePart,
    TimezoneInfo,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::place::suggest;

/// The names of types with parameters, and of types that may have them, which an error message may suggest beside all
/// others.
const NAMES: &[&str] = &[
    "FLOAT",
    "DECIMAL",
    "NUMERIC",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "DATETIME",
    "VARCHAR",
    "CHAR",
    "STRUCT",
    "MAP",
    "ENUM",
];

/// The precision and scale of `DECIMAL` without a precision.
const DECIMAL_DEFAULT: (u8, u8) = (38, 10);
const DECIMAL_DIGITS_MAX: u64 = rowmill_base::WIDE_DIGITS_MAX as u64;

/// Finds a type that a statement has made, by its name in any case.
pub type NamedTypes<'a> = &'a dyn Fn(&str) -> Result<Option<SqlType>>;

/// The type of a type name, which must not be a name that a statement has made.
pub fn built_in_type(ast: &Ast) -> Result<SqlType> {
    sql_type(ast, &|_| Ok(None))
}

/// The type of a type name in a statement.
pub fn sql_type(ast: &Ast, named: NamedTypes<'_>) -> Result<SqlType> {
    if let Some(plain) = SqlType::of_name(&ast.to_string()) {
        return Ok(plain);
    }
    Ok(match ast {
        Ast::Float(precision) => float(ast, precision)?,
        Ast::Numeric(digits) | Ast::Decimal(digits) | Ast::Dec(digits) => decimal(digits)?,
        Ast::Time(Some(6) | None, zone) => match zone {
            TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => SqlType::Time,
            _ => return Err(unsupported(ast, "TIME, or TIMESTAMP WITH TIME ZONE")),
        },
        Ast::Time(Some(_), _) => return Err(unsupported(ast, "TIME, which has microseconds")),
        Ast::Timestamp(digits, zone) => {
            let zoned = matches!(zone, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone);
            SqlType::Timestamp { unit: time_unit(ast, *digits)?, zoned }
        }
        Ast::TimestampNtz(digits) | Ast::Datetime(digits) => {
            SqlType::Timestamp { unit: time_unit(ast, *digits)?, zoned: false }
        }
        Ast::Interval { .. } => return Err(unsupported(ast, "INTERVAL without fields")),
        Ast::Varchar(length) | Ast::CharacterVarying(length) | Ast::CharVarying(length) | Ast::Nvarchar(length) => {
            SqlType::Text { chars_max: chars(ast, length)? }
        }
        // CHAR(n) holds at most n characters and is not padded with blanks. CHAR means CHAR(1).
        Ast::Char(length) | Ast::Character(length) => SqlType::Text { chars_max: chars(ast, length)?.or(Some(1)) },
        Ast::Array(
            ArrayElemTypeDef::AngleBracket(item)
            | ArrayElemTypeDef::SquareBracket(item, None)
            | ArrayElemTypeDef::Parenthesis(item),
        ) => SqlType::List(Box::new(sql_type(item, named)?)),
        Ast::Array(ArrayElemTypeDef::SquareBracket(item, Some(_))) => {
            return Err(unsupported(ast, &format!("{item}[], a list of any length")));
        }
        Ast::Array(ArrayElemTypeDef::None) => return Err(unsupported(ast, "a list of a type, such as INTEGER[]")),
        Ast::Struct(fields, _) => {
            let mut kinds = Vec::with_capacity(fields.len());
            for (index, field) in fields.iter().enumerate() {
                let name = field.field_name.as_ref().map_or_else(|| format!("c{index}"), |name| name.value.clone());
                kinds.push((name, sql_type(&field.field_type, named)?));
            }
            SqlType::Struct(kinds)
        }
        Ast::HugeInt | Ast::Int128 => return Err(unsupported(ast, "DECIMAL(38,0)")),
        Ast::UHugeInt | Ast::UInt128 | Ast::Int256 | Ast::UInt256 => return Err(unsupported(ast, "DECIMAL(38,0)")),
        Ast::Enum(members, _) => EnumLabels::unnamed(labels(ast, members)?)?,
        Ast::Map(key, value) => SqlType::map(sql_type(key, named)?, sql_type(value, named)?),
        Ast::Set(_) => return Err(unsupported(ast, "TEXT")),
        Ast::Custom(name, arguments) if arguments.is_empty() => {
            if let Some(made) = own_name(name).map_or(Ok(None), named)? {
                return Ok(made);
            }
            match quoted(name) {
                Some(inner) => sql_type(&inner, named)?,
                None => custom(&name.to_string())?,
            }
        }
        other => return Err(unknown(&other.to_string())),
    })
}

/// The labels of an ENUM that a statement lists.
fn labels(ast: &Ast, members: &[EnumMember]) -> Result<Vec<String>> {
    let label = |member: &EnumMember| match member {
        EnumMember::Name(label) => Ok(label.clone()),
        EnumMember::NamedValue(..) => Err(unsupported(ast, "labels without numbers")),
    };
    members.iter().map(label).collect()
}

/// The name of a type that a statement may have made. Such types belong to no schema, so only the schemas of names
/// without one may be in front.
fn own_name(name: &ObjectName) -> Option<&str> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(&name.value),
        [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(name)] => {
            matches!(schema.value.as_str(), "main" | "public").then_some(&name.value)
        }
        _ => None,
    }
}

/// The type of a quoted type name. Quotes make no difference.
fn quoted(name: &ObjectName) -> Option<Ast> {
    let [ObjectNamePart::Identifier(Ident { value, quote_style: Some(_), .. })] = name.0.as_slice() else {
        return None;
    };
    let is_word = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_word.then(|| Parser::new(&PostgreSqlDialect {}).try_with_sql(value).ok()?.parse_data_type().ok())?
}

/// Type names that the parser does not know.
fn custom(name: &str) -> Result<SqlType> {
    let stamp = |unit| SqlType::Timestamp { unit, zoned: false };
    Ok(match name.to_ascii_uppercase().as_str() {
        "TIMESTAMP_S" => stamp(TimeUnit::Second),
        "TIMESTAMP_MS" => stamp(TimeUnit::Millisecond),
        "TIMESTAMP_US" => stamp(TimeUnit::Microsecond),
        "TIMESTAMP_NS" => stamp(TimeUnit::Nanosecond),
        _ => return Err(unknown(name)),
    })
}

fn float(ast: &Ast, precision: &ExactNumberInfo) -> Result<SqlType> {
    match precision {
        ExactNumberInfo::None | ExactNumberInfo::Precision(25..=53) => Ok(SqlType::Float64),
        ExactNumberInfo::Precision(1..=24) => Ok(SqlType::Float32),
        _ => Err(unsupported(ast, "REAL or DOUBLE")),
    }
}

fn decimal(digits: &ExactNumberInfo) -> Result<SqlType> {
    let (precision, scale) = match *digits {
        ExactNumberInfo::None => {
            return Ok(SqlType::Decimal { precision: DECIMAL_DEFAULT.0, scale: DECIMAL_DEFAULT.1 });
        }
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=DECIMAL_DIGITS_MAX).contains(&precision) || scale < 0 || scale as u64 > precision {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("there is no DECIMAL({precision},{scale}): it has 1 to 76 digits, all or fewer after the point"),
        )
        .hint("use DOUBLE for longer numbers, rounded to about 16 digits"));
    }
    Ok(SqlType::Decimal { precision: precision as u8, scale: scale as u8 })
}

fn time_unit(ast: &Ast, digits: Option<u64>) -> Result<TimeUnit> {
    match digits {
        None => Ok(TimeUnit::Microsecond),
        Some(digits) => {
            TimeUnit::from_digits(digits).ok_or_else(|| unsupported(ast, "0, 3, 6 or 9 digits after the second"))
        }
    }
}

fn chars(ast: &Ast, length: &Option<CharacterLength>) -> Result<Option<u32>> {
    match length {
        None | Some(CharacterLength::Max) => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) => match u32::try_from(*length) {
            Ok(length) if length > 0 => Ok(Some(length)),
            _ => Err(unsupported(ast, "a length from 1 to 4294967295")),
        },
    }
}

fn unsupported(ast: &Ast, instead: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the type {ast} is not supported")).hint(format!("use {instead}"))
}

fn all_names() -> impl Iterator<Item = &'static str> {
    let plain = PLAIN_TYPES.iter().flat_map(|kind| std::iter::once(kind.name).chain(kind.aliases.iter().copied()));
    let numbered =
        NUMBERED_TYPES.iter().flat_map(|kind| std::iter::once(kind.name).chain(kind.aliases.iter().copied()));
    plain.chain(numbered).chain(NAMES.iter().copied())
}

fn unknown(name: &str) -> Error {
    let error = Error::new(ErrorKind::UndefinedObject, format!("there is no type {name}"));
    suggest(error, name.split('(').next().unwrap_or(name), all_names())
}
