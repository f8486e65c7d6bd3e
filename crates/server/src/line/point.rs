//! A point: the contents of one line, which borrow from the request's body where no escape needs a copy.

use std::borrow::Cow;

/// A text of a line. It is owned only if it has escapes.
pub(crate) type LineText<'a> = Cow<'a, str>;

/// The contents of one line. A reader fills the same point again and again, so that its lists are allocated once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LinePoint<'a> {
    /// The name of the table.
    pub(crate) measurement: LineText<'a>,
    /// Names and values of the tags, in the order of the line.
    pub(crate) tags: Vec<(LineText<'a>, LineText<'a>)>,
    /// Names and values of the fields, in the order of the line. A line has one or more.
    pub(crate) fields: Vec<(LineText<'a>, LineValue<'a>)>,
    /// The time in the unit of the request, if the line has one.
    pub(crate) time: Option<i64>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LineValue<'a> {
    /// A number without suffix, for example `1.5`.
    Float(f64),
    /// A number with the suffix `i`.
    Integer(i64),
    /// A number with the suffix `u`.
    Unsigned(u64),
    /// Microseconds since 1970 with the suffix `t`, as QuestDB's clients send columns of timestamps.
    Micros(i64),
    /// A text in double quotes.
    Text(LineText<'a>),
    /// `t`, `true`, `f` or `false`.
    Boolean(bool),
}

impl LineValue<'_> {
    /// The kind of the value, as messages name it.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            LineValue::Float(_) => "a float",
            LineValue::Integer(_) => "an integer",
            LineValue::Unsigned(_) => "an unsigned integer",
            LineValue::Micros(_) => "a timestamp",
            LineValue::Text(_) => "a string",
            LineValue::Boolean(_) => "a boolean",
        }
    }
}
