//! `printf`: values as text by a format of C.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::CallKinds;
use rowmill_plan::{FunctionSpec, Operand};

use crate::functions::rowwise::{TextArgument, texts};
use crate::functions::signatures::{BIGINT, DOUBLE, TEXT, ordinary};
use crate::kinds::is_number;

/// The function of this file.
pub(in crate::functions) static PRINTF: &[FunctionSpec] = &[FunctionSpec {
    name: "printf",
    can_fail: true,
    signature: |arguments| {
        let (format, values) = arguments.split_first()?;
        let is_text = matches!(format.kind, DataType::Utf8View | DataType::Null);
        let kinds = values.iter().map(|value| match value.kind {
            kind if kind.is_integer() && *kind != DataType::UInt64 => BIGINT,
            kind if is_number(kind) => DOUBLE,
            _ => TEXT,
        });
        let kinds = std::iter::once(TEXT).chain(kinds).collect();
        is_text.then_some(CallKinds { arguments: kinds, result: TEXT })
    },
    kernel: print,
    doc: "The values as text by a format of C: %d for integers, %x and %o for their digits to base 16 and 8, %f, %e \
          and %g for numbers, %s for texts, %c for a character, %% for a percent sign.",
    example: ("printf('%05d %-4s|%.2f', 42, 'ab', 3.14159)", "00042 ab  |3.14"),
    ..ordinary("text")
}];

/// The greatest width and precision. A longer text is surely a mistake.
const WIDTH_MAX: usize = 10_000;

/// A conversion of a format, such as `%-5.2f`.
#[derive(Clone, Copy, Debug, Default)]
struct Conversion {
    is_left: bool,
    has_plus: bool,
    has_space: bool,
    has_zeros: bool,
    is_alternate: bool,
    has_commas: bool,
    width: usize,
    precision: Option<usize>,
    letter: char,
}

/// A value of a call.
enum PrintedValue<'a> {
    Integer(i64),
    Float(f64),
    Text(&'a str),
}

fn print(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let formats = TextArgument::new(&arguments[0]);
    let values = &arguments[1..];
    texts("printf", arguments, rows, |row, made| {
        let mut rest = formats.at(row);
        let mut next = 0;
        while let Some((plain, conversion)) = rest.split_once('%') {
            made.push(plain)?;
            if let Some(after) = conversion.strip_prefix('%') {
                made.push("%")?;
                rest = after;
                continue;
            }
            let (conversion, after) = Conversion::read(conversion)?;
            rest = after;
            let Some(value) = values.get(next) else {
                let message = format!("printf: the format asks for more than {} values", values.len());
                return Err(Error::new(ErrorKind::InvalidParameter, message));
            };
            next += 1;
            made.push(&conversion.print(&value_at(value, row))?)?;
        }
        made.push(rest)
    })
}

fn value_at(operand: &Operand, row: usize) -> PrintedValue<'_> {
    let at = operand.at(row);
    match operand.values.data_type() {
        DataType::Int64 => PrintedValue::Integer(operand.values.as_primitive::<Int64Type>().value(at)),
        DataType::Float64 => PrintedValue::Float(operand.values.as_primitive::<Float64Type>().value(at)),
        _ => PrintedValue::Text(operand.values.as_string_view().value(at)),
    }
}

impl Conversion {
    /// Reads a conversion, and returns the text after it.
    fn read(text: &str) -> Result<(Conversion, &str)> {
        let mut conversion = Conversion::default();
        let mut rest = text;
        while let Some(flag) = rest.chars().next().filter(|char| "-+ 0#,'".contains(*char)) {
            match flag {
                '-' => conversion.is_left = true,
                '+' => conversion.has_plus = true,
                ' ' => conversion.has_space = true,
                '0' => conversion.has_zeros = true,
                '#' => conversion.is_alternate = true,
                _ => conversion.has_commas = true,
            }
            rest = &rest[1..];
        }
        (conversion.width, rest) = digits(rest)?;
        if let Some(after) = rest.strip_prefix('.') {
            let (precision, after) = digits(after)?;
            (conversion.precision, rest) = (Some(precision), after);
        }
        // The lengths of C's types mean nothing here.
        rest = rest.trim_start_matches(['l', 'h', 'q', 'j', 'z', 't']);
        let Some(letter) = rest.chars().next().filter(|char| "diuxXofFeEgGsc".contains(*char)) else {
            let conversion: String = text.chars().take(20).collect();
            let error = Error::new(ErrorKind::InvalidParameter, format!("printf: '%{conversion}' is not a conversion"));
            return Err(error.hint("conversions are %d, %x, %o, %f, %e, %g, %s and %c; %% is a percent sign"));
        };
        conversion.letter = letter;
        Ok((conversion, &rest[1..]))
    }

    fn print(&self, value: &PrintedValue<'_>) -> Result<String> {
        let (sign, digits) = match (self.letter, value) {
            ('s', PrintedValue::Text(text)) => ("", self.cut(text)),
            ('s', PrintedValue::Integer(number)) => ("", self.cut(&number.to_string())),
            ('s', PrintedValue::Float(number)) => ("", self.cut(&number.to_string())),
            ('c', PrintedValue::Integer(number)) => {
                let char = u32::try_from(*number).ok().and_then(char::from_u32);
                ("", char.ok_or_else(|| self.refuse("a number without a character"))?.to_string())
            }
            ('d' | 'i' | 'u', PrintedValue::Integer(number)) => {
                let digits = self.separated(&number.unsigned_abs().to_string());
                (self.sign(*number < 0), self.at_least(digits))
            }
            ('x', PrintedValue::Integer(number)) => (self.prefix("0x"), self.at_least(format!("{number:x}"))),
            ('X', PrintedValue::Integer(number)) => (self.prefix("0X"), self.at_least(format!("{number:X}"))),
            ('o', PrintedValue::Integer(number)) => (self.prefix("0"), self.at_least(format!("{number:o}"))),
            ('f' | 'F' | 'e' | 'E' | 'g' | 'G', PrintedValue::Integer(number)) => self.float(*number as f64),
            ('f' | 'F' | 'e' | 'E' | 'g' | 'G', PrintedValue::Float(number)) => self.float(*number),
            (_, PrintedValue::Text(_)) => return Err(self.refuse("a text")),
            (_, PrintedValue::Float(_)) => return Err(self.refuse("a number with a fraction")),
            (_, PrintedValue::Integer(_)) => return Err(self.refuse("an integer")),
        };
        Ok(self.padded(sign, &digits, matches!(value, PrintedValue::Float(number) if !number.is_finite())))
    }

    fn refuse(&self, what: &str) -> Error {
        let message = format!("printf: the conversion %{} does not take {what}", self.letter);
        Error::new(ErrorKind::InvalidParameter, message)
    }

    fn cut(&self, text: &str) -> String {
        text.chars().take(self.precision.unwrap_or(usize::MAX)).collect()
    }

    fn sign(&self, is_negative: bool) -> &'static str {
        match (is_negative, self.has_plus, self.has_space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        }
    }

    fn prefix(&self, prefix: &'static str) -> &'static str {
        if self.is_alternate { prefix } else { "" }
    }

    /// Fills an integer up to the digits of the precision.
    fn at_least(&self, digits: String) -> String {
        let missing = self.precision.unwrap_or(0).saturating_sub(digits.len());
        "0".repeat(missing) + &digits
    }

    /// Writes a comma before each group of three digits.
    fn separated(&self, digits: &str) -> String {
        if !self.has_commas {
            return digits.to_owned();
        }
        let mut written = String::with_capacity(digits.len() * 4 / 3);
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                written.push(',');
            }
            written.push(digit);
        }
        written
    }

    fn float(&self, number: f64) -> (&'static str, String) {
        let sign = self.sign(number.is_sign_negative() && !number.is_nan());
        let size = number.abs();
        if !number.is_finite() {
            return (sign, if number.is_nan() { "nan" } else { "inf" }.to_owned());
        }
        let precision = self.precision.unwrap_or(6);
        let written = match self.letter {
            'f' | 'F' => {
                let text = format!("{size:.precision$}");
                let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
                self.separated(whole) + fraction
            }
            'e' | 'E' => exponential(size, precision),
            _ => general(size, precision.max(1), self.is_alternate),
        };
        (sign, if self.letter.is_ascii_uppercase() { written.to_uppercase() } else { written })
    }

    fn padded(&self, sign: &str, digits: &str, is_word: bool) -> String {
        let missing = self.width.saturating_sub(sign.len() + digits.chars().count());
        let has_zeros = self.has_zeros && !is_word && !matches!(self.letter, 's' | 'c');
        match (self.is_left, has_zeros) {
            (true, _) => format!("{sign}{digits}{}", " ".repeat(missing)),
            (false, true) => format!("{sign}{}{digits}", "0".repeat(missing)),
            (false, false) => format!("{}{sign}{digits}", " ".repeat(missing)),
        }
    }
}

/// Reads the digits at the beginning of a text.
fn digits(text: &str) -> Result<(usize, &str)> {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let number = if end == 0 { Some(0) } else { text[..end].parse().ok() };
    match number.filter(|number| *number <= WIDTH_MAX) {
        Some(number) => Ok((number, &text[end..])),
        None => {
            let message = format!("printf: a width or precision is at most {WIDTH_MAX}: {}", &text[..end.min(20)]);
            Err(Error::new(ErrorKind::InvalidParameter, message))
        }
    }
}

/// Writes a number with an exponent of at least two digits, as C does.
fn exponential(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Writes a number with `precision` significant digits, and with an exponent if it is very large or small.
fn general(number: f64, precision: usize, keeps_zeros: bool) -> String {
    let rounded = format!("{number:.*e}", precision - 1);
    let exponent: i32 = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let is_plain = number == 0.0 || (-4..precision as i32).contains(&exponent);
    let text = match is_plain {
        true => format!("{number:.*}", (precision as i32 - 1 - exponent).max(0) as usize),
        false => exponential(number, precision - 1),
    };
    if keeps_zeros {
        return text;
    }
    let (digits, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    };
    format!("{digits}{exponent}")
}
