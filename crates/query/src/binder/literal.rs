//! Literals: numbers, texts, blobs, typed literals, intervals, lists and structs, parameters.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, Decimal128Array, Decimal256Array, Float64Array, UInt64Array};
use arrow::datatypes::{DataType, IntervalUnit, i256};
use rowmill_base::{Error, ErrorKind, NARROW_DIGITS_MAX, Result, SqlType, WIDE_DIGITS_MAX, decimal_arrow};
use rowmill_expr::{text, typing};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{Constant, ExprOp, ScalarExpr};
use sqlparser::ast::{self, DateTimeField, DictionaryField, Expr, Value};

use super::Binder;
use super::place::unsupported;
use super::type_name::sql_type;

/// Digits of a number literal that is not a DOUBLE.
const DIGITS_MAX: usize = WIDE_DIGITS_MAX as usize;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

impl Binder<'_> {
    /// A literal or a parameter.
    pub(super) fn literal(&mut self, value: &Value) -> Result<ScalarExpr> {
        Ok(match value {
            Value::Number(digits, _) => return self.number(digits),
            Value::Boolean(value) => ScalarExpr::literal(*value),
            Value::Null => ScalarExpr::null(DataType::Null),
            Value::HexStringLiteral(digits) => ScalarExpr::literal(blob(digits)?),
            Value::Placeholder(name) => return self.parameter(name),
            other => match text_of(other) {
                Some(text) => ScalarExpr::literal(text),
                None => return Err(unsupported(format!("the literal {other}"))),
            },
        })
    }

    /// Binds a number: a BIGINT, or a BIGINT UNSIGNED if only that can hold it. With a point or more digits it is a
    /// DECIMAL, and with an exponent a DOUBLE.
    pub(super) fn number(&mut self, written: &str) -> Result<ScalarExpr> {
        let digits = written.replace('_', "");
        if digits.contains(['e', 'E']) {
            return match digits.parse::<f64>() {
                Ok(value) if value.is_finite() => {
                    Ok(ScalarExpr::literal(Constant::new(Arc::new(Float64Array::from(vec![value])))))
                }
                _ => Err(Error::new(
                    ErrorKind::NumericOutOfRange,
                    format!("number out of range: {written} does not fit DOUBLE"),
                )),
            };
        }
        if !digits.contains('.') {
            if let Ok(value) = digits.parse::<i64>() {
                return Ok(ScalarExpr::literal(value));
            }
            if let Ok(value) = digits.parse::<u64>() {
                return Ok(ScalarExpr::literal(Constant::new(Arc::new(UInt64Array::from(vec![value])))));
            }
        }
        let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
        let significant = whole.trim_start_matches(['-', '0']).len() + fraction.len();
        if significant.max(fraction.len()) > DIGITS_MAX {
            let message = format!("number out of range: {written} has more than {DIGITS_MAX} digits");
            return Err(
                Error::new(ErrorKind::NumericOutOfRange, message).hint("with an exponent (1.5e40) it is a DOUBLE")
            );
        }
        // 0.10 has two digits after the point and none before it.
        let precision = significant.max(1).max(fraction.len()) as u8;
        let kind = decimal_arrow(precision, fraction.len() as i8);
        let unscaled = format!("{whole}{fraction}");
        let array: Option<ArrayRef> = match precision {
            ..=NARROW_DIGITS_MAX => unscaled.parse::<i128>().ok().map(|value| {
                let array: ArrayRef = Arc::new(Decimal128Array::from(vec![value]).with_data_type(kind));
                array
            }),
            _ => unscaled.parse::<i256>().ok().map(|value| {
                let array: ArrayRef = Arc::new(Decimal256Array::from(vec![value]).with_data_type(kind));
                array
            }),
        };
        match array {
            Some(array) => Ok(ScalarExpr::literal(Constant::new(array))),
            None => Err(Error::new(ErrorKind::Syntax, format!("\"{written}\" is not a number"))),
        }
    }

    fn parameter(&mut self, name: &str) -> Result<ScalarExpr> {
        let number = name.trim_start_matches('$').parse::<usize>().ok().filter(|number| (1..=65_535).contains(number));
        let Some(number) = number else {
            return Err(Error::new(ErrorKind::Syntax, format!("\"{name}\" is not a parameter"))
                .hint("parameters are $1, $2, ..., ?1, ?2, ... or ?"));
        };
        if self.parameters.len() < number {
            self.parameters.resize(number, None);
        }
        let kind = self.parameters[number - 1].clone().unwrap_or(DataType::Null);
        Ok(ScalarExpr::new(kind, ExprOp::Parameter(number - 1)))
    }

    /// The type of a type name.
    pub(super) fn sql_type(&self, data_type: &ast::DataType) -> Result<SqlType> {
        let catalog = self.catalog;
        sql_type(data_type, &|name| catalog.type_named(name))
    }

    /// Binds `DATE '2013-07-01'`: a text that is read as a value of a type.
    pub(super) fn typed_literal(&mut self, data_type: &ast::DataType, value: &Value) -> Result<ScalarExpr> {
        let kind = self.sql_type(data_type)?;
        let Some(text) = text_of(value) else {
            return Err(unsupported(format!("the literal {data_type} {value}")));
        };
        if let Some(time) = self.word_of_clock(text, &kind)? {
            return Ok(time);
        }
        let literal = ScalarExpr::literal(text::parse(text, &kind.arrow())?);
        typing::cast_to_sql_type(literal, &kind, false)
    }

    /// `INTERVAL '1 day'`, `INTERVAL '1' DAY`, `INTERVAL 1 DAY`, `INTERVAL '1-2' YEAR TO MONTH`.
    pub(super) fn interval(&mut self, interval: &ast::Interval) -> Result<ScalarExpr> {
        if interval.leading_precision.is_some() || interval.fractional_seconds_precision.is_some() {
            return Err(unsupported("a precision of an INTERVAL"));
        }
        let mut value = &*interval.value;
        while let Expr::Nested(inner) = value {
            value = inner;
        }
        let literal = match value {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) => Some(digits.clone()),
                other => text_of(other).map(str::to_string),
            },
            Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match &**expr {
                Expr::Value(value) => match &value.value {
                    Value::Number(digits, _) => Some(format!("-{digits}")),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        let unit = interval.leading_field.as_ref().map(unit_name).transpose()?;
        let Some(literal) = literal else {
            let Some(unit) = unit.filter(|_| interval.last_field.is_none()) else {
                return Err(
                    unsupported(format!("{interval}")).hint("write INTERVAL '1 day', or number * INTERVAL '1 day'")
                );
            };
            let one = ScalarExpr::literal(text::parse(&format!("1 {unit}"), &INTERVAL)?);
            let count = self.expr(value)?;
            return typing::arithmetic(ArithmeticOp::Times, count, one);
        };
        let read = match (&interval.leading_field, &interval.last_field) {
            (None, _) => literal,
            (Some(_), None) => format!("{literal} {}", unit.unwrap_or_default()),
            (Some(first), Some(last)) => span_of_fields(&literal, first, last)?,
        };
        Ok(ScalarExpr::literal(text::parse(&read, &INTERVAL)?))
    }

    /// `[1, 2]` and `ARRAY[1, 2]`
    pub(super) fn array(&mut self, items: &[Expr]) -> Result<ScalarExpr> {
        let mut values = self.exprs(items)?;
        if !values.is_empty() {
            self.bring_together(values.iter_mut().collect())?;
        }
        self.call_named("make_array", values)
    }

    /// `{'a': 1}`
    pub(super) fn dictionary(&mut self, fields: &[DictionaryField]) -> Result<ScalarExpr> {
        let mut named = Vec::with_capacity(fields.len());
        for field in fields {
            named.push((self.spelled(&field.key), self.expr(&field.value)?));
        }
        self.struct_of(named)
    }

    /// `MAP {'a': 1}`
    pub(super) fn map(&mut self, map: &ast::Map) -> Result<ScalarExpr> {
        let keys = map.entries.iter().map(|entry| self.expr(&entry.key)).collect::<Result<_>>()?;
        let values = map.entries.iter().map(|entry| self.expr(&entry.value)).collect::<Result<_>>()?;
        let (keys, values) = (self.call_named("make_array", keys)?, self.call_named("make_array", values)?);
        self.call_named("map", vec![keys, values])
    }

    /// `STRUCT(1 AS a, 2 AS b)`
    pub(super) fn struct_values(&mut self, values: &[Expr], fields: &[ast::StructField]) -> Result<ScalarExpr> {
        if !fields.is_empty() {
            return Err(unsupported("types of the fields of a struct").hint("CAST the values"));
        }
        let mut named = Vec::with_capacity(values.len());
        for (place, value) in values.iter().enumerate() {
            named.push(match value {
                Expr::Named { expr, name } => (self.spelled(name), self.expr(expr)?),
                value => (format!("c{place}"), self.expr(value)?),
            });
        }
        self.struct_of(named)
    }

    /// Binds a row of values as a struct, whose fields have the names c0, c1 and so on.
    pub(super) fn row_struct(&mut self, values: Vec<ScalarExpr>) -> Result<ScalarExpr> {
        let fields = values.into_iter().enumerate().map(|(place, value)| (format!("c{place}"), value));
        self.struct_of(fields.collect())
    }

    /// Binds a struct with named fields.
    pub(super) fn struct_of(&mut self, fields: Vec<(String, ScalarExpr)>) -> Result<ScalarExpr> {
        let mut arguments = Vec::with_capacity(fields.len() * 2);
        for (place, (name, value)) in fields.iter().enumerate() {
            if fields[..place].iter().any(|(other, _)| other.to_lowercase() == name.to_lowercase()) {
                let message = format!("a struct has two fields \"{name}\"");
                return Err(Error::new(ErrorKind::DuplicateColumn, message));
            }
            arguments.push(ScalarExpr::literal(name.as_str()));
            arguments.push(value.clone());
        }
        self.call_named("named_struct", arguments)
    }
}

/// The text of a text literal.
pub(super) fn text_of(value: &Value) -> Option<&str> {
    Some(match value {
        Value::SingleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::UnicodeStringLiteral(text)
        | Value::NationalStringLiteral(text)
        | Value::TripleSingleQuotedString(text) => text,
        Value::DollarQuotedString(text) => &text.value,
        _ => return None,
    })
}

/// `X'00ff'`
fn blob(digits: &str) -> Result<Constant> {
    let wrong =
        || Error::new(ErrorKind::InvalidText, format!("X'{digits}' is not a blob: it takes pairs of hex digits"));
    let digits_of = digits.as_bytes();
    if !digits_of.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let mut bytes = Vec::with_capacity(digits_of.len() / 2);
    for pair in digits_of.chunks_exact(2) {
        let digit = |byte: u8| (byte as char).to_digit(16).ok_or_else(wrong);
        bytes.push((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    }
    Ok(Constant::new(Arc::new(BinaryViewArray::from_iter_values([bytes]))))
}

/// The unit of an interval in the spelling of its text form.
fn unit_name(field: &DateTimeField) -> Result<String> {
    Ok(match field {
        DateTimeField::Custom(name) => name.value.to_lowercase(),
        DateTimeField::Week(Some(_)) => return Err(unsupported(format!("INTERVAL in {field}"))),
        other => other.to_string().to_lowercase(),
    })
}

/// The text form of an interval literal with several fields: `'1-2' YEAR TO MONTH`, `'1 02:03' DAY TO MINUTE`.
fn span_of_fields(literal: &str, first: &DateTimeField, last: &DateTimeField) -> Result<String> {
    use DateTimeField::{Day, Hour, Minute, Month, Second, Year};
    let wrong = || {
        let message = format!("'{literal}' is not a value of type INTERVAL {first} TO {last}");
        Error::new(ErrorKind::InvalidDatetime, message)
    };
    let (sign, digits) = match literal.trim().strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", literal.trim()),
    };
    Ok(match (first, last) {
        (Year, Month) => {
            let (years, months) = digits.split_once('-').ok_or_else(wrong)?;
            format!("{sign}{years} years {sign}{months} months")
        }
        (Day, Hour | Minute | Second) => {
            let (days, time) = digits.split_once(' ').ok_or_else(wrong)?;
            let time = if matches!(last, Hour) { format!("{time}:00") } else { time.to_string() };
            format!("{sign}{days} days {sign}{time}")
        }
        (Hour, Minute | Second) => literal.to_string(),
        (Minute, Second) => format!("{sign}00:{digits}"),
        _ => return Err(unsupported(format!("INTERVAL {first} TO {last}"))),
    })
}
