//! Conversions of a value to another type, for `CAST` and for an assignment to a column.
//!
//! Numbers are converted in place. A text that is parsed, and a boolean or an integer that is shown as a text, goes
//! through Arrow as an array of one value, because Arrow defines those rules. That allocates, but it is rare where
//! speed matters.

use arrow::compute::{CastOptions, cast_with_options};
use rowmill_base::{Error, ErrorKind, NumberedNative, NumberedType, Result, SqlType};
use rowmill_expr::session_zone::session_zone;
use rowmill_expr::text::json::why_not;
use rowmill_storage::keyed::{ColumnValues, ValueRef};

use super::{Env, Expr};
use crate::arrays::array_of;
use crate::number::{Integer, Number, Said, canonical, float, out_of_range};

/// Characters of a value that an error shows at most.
const CHARS_SHOWN: usize = 100;

/// A cast that may change the value.
#[derive(Debug)]
pub(crate) struct Cast {
    operand: Expr,
    how: CastForm,
    from: SqlType,
    to: SqlType,
    /// The column that the value is assigned to, if it is.
    column: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum CastForm {
    Number(Number, Number),
    /// Between dates and timestamps. Each type is given by the number of its units in a day. A finer unit is cut off
    /// towards the past.
    Moment(i64, i64),
    /// Keeps the first characters of a text.
    Cut(u32),
    /// Reads a text as a value of a numbered type.
    Numbered(&'static NumberedType),
    /// Through an Arrow array. The number is the place of the text that the cast makes.
    Array(usize),
}

impl Cast {
    /// Casts `operand` to `to`. Returns `None` if this module has no such cast. `place` reserves a place for a text.
    pub(super) fn of(
        operand: Expr,
        from: &SqlType,
        to: &SqlType,
        place: impl FnOnce() -> usize,
        column: Option<&str>,
    ) -> Option<Expr> {
        let is_assigned = column.is_some();
        let how = match (Number::of(from), Number::of(to)) {
            // A column must hold only one NaN and one zero, so even an assignment of equal types normalises the
            // value.
            (Some(from), Some(to)) if from == to && from.is_float() && is_assigned => CastForm::Number(from, to),
            _ if from == to => return Some(operand),
            (Some(from), Some(to)) => CastForm::Number(from, to),
            _ => match (from, to) {
                (from, to) if are_moments(from, to) => CastForm::Moment(per_day(from)?, per_day(to)?),
                // The table itself refuses an assigned text that is too long.
                (SqlType::Text { .. }, SqlType::Text { .. }) if is_assigned => return Some(operand),
                (SqlType::Text { .. }, SqlType::Text { chars_max: None }) => return Some(operand),
                (SqlType::Text { .. }, SqlType::Text { chars_max: Some(chars) }) => CastForm::Cut(*chars),
                (SqlType::Text { .. }, SqlType::Numbered(kind)) if !is_assigned && !kind.is_wide() => {
                    CastForm::Numbered(kind)
                }
                // An assignment parses a text by the rules of file imports, which are not Arrow's rules.
                (SqlType::Text { .. }, to) if !is_assigned && is_read(to) => CastForm::Array(0),
                (from, SqlType::Text { chars_max }) if is_shown(from) && (is_assigned || chars_max.is_none()) => {
                    CastForm::Array(place())
                }
                _ => return None,
            },
        };
        let column = column.map(str::to_owned);
        Some(Expr::Cast(Box::new(Cast { operand, how, from: from.clone(), to: to.clone(), column })))
    }

    /// Whether an assignment converts the value in one step. Otherwise it parses or shows a text by the rules of file
    /// imports.
    pub(super) fn is_assigned(from: &SqlType, to: &SqlType) -> bool {
        let is_text = |kind: &SqlType| matches!(kind, SqlType::Text { .. });
        let are_numbers = Number::of(from).is_some() && Number::of(to).is_some();
        from == to || are_numbers || is_text(from) && is_text(to) || are_moments(from, to)
    }

    pub(super) fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        let value = self.operand.value(env)?;
        if value.is_null() {
            return Ok(value);
        }
        match self.how {
            CastForm::Number(from, to) => from.convert(value, to).ok_or_else(|| self.misfit(value, from.scale())),
            CastForm::Moment(from, to) => {
                let moment = match value {
                    ValueRef::Int(value) if to >= from => value.checked_mul(to / from),
                    // Euclidean division rounds towards the past, also before 1970.
                    ValueRef::Int(value) => Some(value.div_euclid(from / to)),
                    _ => unreachable!("a moment was promised"),
                };
                // A date is an `i32`; timestamps use the whole `i64`.
                let fits = |moment: &i64| to > 1 || i32::try_from(*moment).is_ok();
                moment.filter(fits).map(ValueRef::Int).ok_or_else(|| self.misfit(value, 0))
            }
            CastForm::Numbered(kind) => match value {
                ValueRef::Text(text) => {
                    let number = kind.read(text).map(|number| ValueRef::Decimal(i128::of_number(number)));
                    number.ok_or_else(|| self.unreadable(value).hint(kind.hint))
                }
                _ => unreachable!("a text was promised"),
            },
            CastForm::Cut(chars) => Ok(first_chars(value, chars as usize)),
            CastForm::Array(place) => self.by_array(value, place, env),
        }
    }

    #[cold]
    fn misfit(&self, value: ValueRef<'_>, scale: u8) -> Error {
        let said = Said(value, scale);
        let kind = match self.how {
            CastForm::Moment(..) => ErrorKind::InvalidDatetime,
            _ => ErrorKind::NumericOutOfRange,
        };
        match &self.column {
            None => Error::new(kind, out_of_range(said, &self.to).message()),
            Some(column) => {
                Error::new(kind, format!("column \"{column}\": '{said}' is out of range for the type {}", self.to))
            }
        }
    }

    fn by_array<'a>(&'a self, value: ValueRef<'a>, place: usize, env: Env<'a>) -> Result<ValueRef<'a>> {
        let array = array_of(&self.from, std::iter::once(value))?;
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let cast = cast_with_options(&array, &self.to.arrow(), &options).map_err(|_| self.unreadable(value))?;
        let values = ColumnValues::new(&cast, &self.to)?;
        Ok(match values.get(0) {
            ValueRef::Text(text) => ValueRef::Text(env.texts.make(place, |made| made.push_str(text))),
            ValueRef::Float(value) => ValueRef::Float(canonical(value)),
            ValueRef::Bool(value) => ValueRef::Bool(value),
            ValueRef::Int(value) => ValueRef::Int(value),
            ValueRef::UInt(value) => ValueRef::UInt(value),
            ValueRef::Decimal(value) => ValueRef::Decimal(value),
            ValueRef::Null => ValueRef::Null,
            other => return Err(Error::internal(format!("a cast to {} made {other:?}", self.to))),
        })
    }

    /// The error for a text that is not a value of the type, or for a number that is out of range.
    #[cold]
    fn unreadable(&self, value: ValueRef<'_>) -> Error {
        let ValueRef::Text(text) = value else { return self.misfit(value, 0) };
        let not_json = if self.to == SqlType::Json { why_not(text) } else { None };
        let text: String = text.chars().take(CHARS_SHOWN).collect();
        let is_number = text.parse::<f64>().is_ok();
        let is_whole = text.trim_start_matches(['-', '+']).bytes().all(|byte| byte.is_ascii_digit());
        let kind = match &self.to {
            SqlType::Date | SqlType::Time | SqlType::Timestamp { .. } => ErrorKind::InvalidDatetime,
            to if Number::of(to).is_some() && is_number && (is_whole || Integer::of(to).is_none()) => {
                return out_of_range(format_args!("'{text}'"), to);
            }
            _ => ErrorKind::InvalidText,
        };
        match not_json {
            Some(why) => Error::new(kind, format!("'{text}' is not JSON: {why}")),
            None => Error::new(kind, format!("'{text}' is not a value of type {}", self.to)),
        }
    }
}

/// Number of units of a type in a day. A timestamp with time zone is counted in UTC, so the zone makes no difference.
fn per_day(kind: &SqlType) -> Option<i64> {
    match kind {
        SqlType::Date => Some(1),
        SqlType::Timestamp { unit, .. } => Some(86_400 * 10_i64.pow(unit.digits())),
        _ => None,
    }
}

/// Whether both are dates or timestamps whose units can be converted. The engine must convert between instants and
/// local times of a time zone other than UTC.
fn are_moments(from: &SqlType, to: &SqlType) -> bool {
    let is_zoned = |kind: &SqlType| matches!(kind, SqlType::Timestamp { zoned: true, .. });
    let in_utc = session_zone().is_none() || is_zoned(from) == is_zoned(to);
    per_day(from).is_some() && per_day(to).is_some() && in_utc
}

/// Whether a cast can parse a text as this type.
fn is_read(kind: &SqlType) -> bool {
    let is_of_time = matches!(kind, SqlType::Date | SqlType::Time | SqlType::Timestamp { zoned: false, .. });
    is_of_time || *kind == SqlType::Boolean || Number::of(kind).is_some()
}

/// Whether values of this type have only one text form.
fn is_shown(kind: &SqlType) -> bool {
    *kind == SqlType::Boolean || Integer::of(kind).is_some()
}

fn first_chars(value: ValueRef<'_>, chars: usize) -> ValueRef<'_> {
    match value {
        // A text has at most one character per byte, so a short text needs no count.
        ValueRef::Text(text) if text.len() > chars => {
            ValueRef::Text(text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end]))
        }
        value => value,
    }
}

/// Normalises a float that becomes part of a key or is compared: one NaN and one zero.
pub(crate) fn canonical_value(value: ValueRef<'_>) -> ValueRef<'_> {
    match value {
        value @ ValueRef::Float(_) => ValueRef::Float(canonical(float(value))),
        value => value,
    }
}
