//! A point: the contents of one line, which borrow from the request's body where no escape needs a copy.

use std::borrow::Cow;
use std::fmt;

/// A text of a line, as it is written there. It is copied only if it has escapes, and then as late as possible: a `Cow`
/// would be moved and dropped twenty times for each line, which took a fifth of the time of a request.
#[derive(Clone, Copy, Default)]
pub(crate) struct LineText<'a> {
    written: &'a str,
    escapes: LineEscapes,
}

/// The escapes in a text of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LineEscapes {
    #[default]
    None,
    /// Those of measurements, tags and names of fields.
    InName,
    /// Those of strings.
    InString,
}

impl<'a> LineText<'a> {
    #[inline]
    pub(crate) fn new(written: &'a str, escapes: LineEscapes) -> LineText<'a> {
        LineText { written, escapes }
    }

    /// The text without the backslashes of its escapes.
    #[inline]
    pub(crate) fn text(self) -> Cow<'a, str> {
        match self.escapes {
            LineEscapes::None => Cow::Borrowed(self.written),
            LineEscapes::InName => Cow::Owned(unescaped(self.written, is_escaped_in_names)),
            LineEscapes::InString => Cow::Owned(unescaped(self.written, is_escaped_in_strings)),
        }
    }

    /// Whether the text is empty. Escapes stand for at least one character.
    pub(crate) fn is_empty(self) -> bool {
        self.written.is_empty()
    }

    /// The text if it has no escapes.
    #[inline]
    pub(crate) fn plain(self) -> Option<&'a str> {
        (self.escapes == LineEscapes::None).then_some(self.written)
    }
}

impl<'a> From<&'a str> for LineText<'a> {
    fn from(plain: &'a str) -> Self {
        LineText { written: plain, escapes: LineEscapes::None }
    }
}

impl PartialEq for LineText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl fmt::Debug for LineText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

pub(super) fn is_escaped_in_names(byte: u8) -> bool {
    matches!(byte, b',' | b'=' | b' ' | b'\\')
}

pub(super) fn is_escaped_in_strings(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | b'\n' | b'\r')
}

/// Returns a text without the backslashes of its escapes.
#[cold]
fn unescaped(text: &str, is_escaped: fn(u8) -> bool) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let next = chars.peek().and_then(|next| u8::try_from(*next).ok());
        match next.filter(|next| char == '\\' && is_escaped(*next)) {
            Some(_) => plain.extend(chars.next()),
            None => plain.push(char),
        }
    }
    plain
}

/// The contents of one line. A reader fills the same point again and again, so that its lists are allocated once.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinePoint<'a> {
    /// The name of the table.
    pub(crate) measurement: LineText<'a>,
    /// Names and values of the tags, in the order of the line.
    pub(crate) tags: Vec<(LineText<'a>, LineText<'a>)>,
    /// Names and values of the fields, in the order of the line. A line has one or more.
    pub(crate) fields: Vec<(LineText<'a>, LineValue<'a>)>,
    /// The time in the unit of the request, if the line has one.
    pub(crate) time: Option<i64>,
    /// Whether the line has the measurement, the tags and the fields of the line before it, in the same order, and that
    /// line was a point. A reader may leave this false for texts with escapes.
    pub(crate) repeats_names: bool,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
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
