//! How many bytes each function's result takes, from its arguments.
//!
//! An estimate never errs towards less. It reads lengths and counts, not texts, so it costs little beside the function;
//! NULLs count as nothing.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::logical_expr::ColumnarValue;

/// Bytes of the result for these arguments and so many rows.
pub(super) type Estimate = fn(&[ColumnarValue], usize) -> u128;

/// Whether the result takes exactly as much as estimated, or at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Exactness {
    Exact,
    AtMost,
}

/// The functions with a bound.
pub(super) const ESTIMATES: &[(&str, Exactness, Estimate)] = &[
    ("repeat", Exactness::Exact, repeat),
    ("lpad", Exactness::AtMost, pad),
    ("rpad", Exactness::AtMost, pad),
    ("replace", Exactness::AtMost, replace),
    ("regexp_replace", Exactness::AtMost, regexp_replace),
    ("translate", Exactness::AtMost, translate),
    ("concat", Exactness::Exact, concat),
    ("||", Exactness::Exact, concat),
    ("concat_ws", Exactness::AtMost, concat_ws),
    ("overlay", Exactness::AtMost, concat),
    ("array_repeat", Exactness::Exact, array_repeat),
    ("array_resize", Exactness::AtMost, array_resize),
    ("array_to_string", Exactness::AtMost, array_to_string),
    ("range", Exactness::Exact, series),
    ("generate_series", Exactness::Exact, series),
    ("levenshtein", Exactness::AtMost, levenshtein),
];

/// One number per row, or one for all.
enum Numbers {
    Column(Vec<i128>),
    Constant(i128),
}

impl Numbers {
    fn at(&self, row: usize) -> i128 {
        match self {
            Numbers::Column(values) => values.get(row).copied().unwrap_or(0),
            Numbers::Constant(value) => *value,
        }
    }

    fn of(argument: &ColumnarValue, read: fn(&ArrayRef) -> Vec<i128>) -> Numbers {
        match argument {
            ColumnarValue::Array(array) => Numbers::Column(read(array)),
            ColumnarValue::Scalar(value) => match value.to_array() {
                Ok(array) => Numbers::Constant(read(&array).first().copied().unwrap_or(0)),
                Err(_) => Numbers::Constant(0),
            },
        }
    }
}

/// The sum over all rows of what `bytes` says of one.
fn sum(rows: usize, bytes: impl Fn(usize) -> i128) -> u128 {
    (0..rows).fold(0_u128, |total, row| total.saturating_add(bytes(row).max(0) as u128))
}

fn lengths(argument: Option<&ColumnarValue>) -> Numbers {
    argument.map_or(Numbers::Constant(0), |argument| Numbers::of(argument, text_lengths))
}

fn integers(argument: Option<&ColumnarValue>) -> Numbers {
    argument.map_or(Numbers::Constant(0), |argument| Numbers::of(argument, integer_values))
}

/// Bytes of each text; of other values what they take as text.
fn text_lengths(array: &ArrayRef) -> Vec<i128> {
    const OTHER_BYTES: i128 = 40;
    let valid = |row: usize, bytes: i128| if array.is_null(row) { 0 } else { bytes };
    match array.data_type() {
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().offsets();
            offsets.windows(2).enumerate().map(|(row, pair)| valid(row, i128::from(pair[1] - pair[0]))).collect()
        }
        DataType::LargeUtf8 => {
            let offsets = array.as_string::<i64>().offsets();
            offsets.windows(2).enumerate().map(|(row, pair)| valid(row, i128::from(pair[1] - pair[0]))).collect()
        }
        DataType::Utf8View => {
            array.as_string_view().lengths().enumerate().map(|(row, bytes)| valid(row, i128::from(bytes))).collect()
        }
        _ => (0..array.len()).map(|row| valid(row, OTHER_BYTES)).collect(),
    }
}

fn integer_values(array: &ArrayRef) -> Vec<i128> {
    match cast(array, &DataType::Int64) {
        Ok(values) => values.as_primitive::<Int64Type>().iter().map(|value| value.map_or(0, i128::from)).collect(),
        // A BIGINT UNSIGNED beyond BIGINT is more than any limit.
        Err(_) => vec![i128::from(i64::MAX); array.len()],
    }
}

fn repeat(arguments: &[ColumnarValue], rows: usize) -> u128 {
    let (texts, times) = (lengths(arguments.first()), integers(arguments.get(1)));
    sum(rows, |row| texts.at(row).saturating_mul(times.at(row).max(0)))
}

/// The longest UTF-8 sequence of a character.
const CHAR_BYTES_MAX: i128 = 4;

fn is_ascii(argument: Option<&ColumnarValue>) -> bool {
    let array = match argument {
        None => return true,
        Some(ColumnarValue::Array(array)) => array.clone(),
        Some(ColumnarValue::Scalar(value)) => match value.to_array() {
            Ok(array) => array,
            Err(_) => return false,
        },
    };
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().is_ascii(),
        DataType::LargeUtf8 => array.as_string::<i64>().is_ascii(),
        DataType::Utf8View => array.as_string_view().is_ascii(),
        _ => false,
    }
}

fn pad(arguments: &[ColumnarValue], rows: usize) -> u128 {
    let width = if is_ascii(arguments.first()) && is_ascii(arguments.get(2)) { 1 } else { CHAR_BYTES_MAX };
    let chars = integers(arguments.get(1));
    sum(rows, |row| chars.at(row).saturating_mul(width))
}

/// At most: the text is nothing but matches, or (for an empty search text) one comes between any two characters.
fn replace(arguments: &[ColumnarValue], rows: usize) -> u128 {
    let (texts, from, to) = (lengths(arguments.first()), lengths(arguments.get(1)), lengths(arguments.get(2)));
    sum(rows, |row| {
        let (text, from, to) = (texts.at(row), from.at(row), to.at(row));
        let matches = if from == 0 { text + 1 } else { text / from };
        text + matches.saturating_mul((to - from).max(0))
    })
}

/// At most: a match between any two characters, each replaced by the replacement with all it refers to.
fn regexp_replace(arguments: &[ColumnarValue], rows: usize) -> u128 {
    let (texts, replacements) = (lengths(arguments.first()), lengths(arguments.get(2)));
    let references = arguments.get(2).map_or(Numbers::Constant(0), |argument| Numbers::of(argument, references));
    let is_global = arguments.get(3).is_some_and(|flags| match flags {
        ColumnarValue::Scalar(value) => value.try_as_str().flatten().is_some_and(|flags| flags.contains('g')),
        ColumnarValue::Array(_) => true,
    });
    sum(rows, |row| {
        let text = texts.at(row);
        let matches = if is_global { text + 1 } else { 1 };
        // What all matches capture together is no more than the text, per reference.
        text.saturating_mul(1 + references.at(row)).saturating_add(matches.saturating_mul(replacements.at(row)))
    })
}

/// The `\1` and `$1` of replacements.
fn references(array: &ArrayRef) -> Vec<i128> {
    let Ok(texts) = cast(array, &DataType::Utf8View) else { return vec![0; array.len()] };
    let count = |text: &str| text.bytes().filter(|byte| matches!(byte, b'\\' | b'$')).count() as i128;
    texts.as_string_view().iter().map(|text| text.map_or(0, count)).collect()
}

fn translate(arguments: &[ColumnarValue], rows: usize) -> u128 {
    let texts = lengths(arguments.first());
    sum(rows, |row| texts.at(row).saturating_mul(CHAR_BYTES_MAX))
}

fn concat(arguments: &[ColumnarValue], rows: usize) -> u128 {
    arguments
        .iter()
        .map(|argument| {
            let texts = lengths(Some(argument));
            sum(rows, |row| texts.at(row))
        })
        .fold(0, u128::saturating_add)
}

fn concat_ws(arguments: &[ColumnarValue], rows: usize) -> u128 {
    let separators = lengths(arguments.first());
    let between = arguments.len().saturating_sub(2) as i128;
    let texts = concat(arguments.get(1..).unwrap_or(&[]), rows);
    texts.saturating_add(sum(rows, |row| separators.at(row).saturating_mul(between)))
}

/// Bytes that a value of `array` takes, on average rounded up.
fn item_bytes(argument: Option<&ColumnarValue>) -> i128 {
    let array = match argument {
        None => return 8,
        Some(ColumnarValue::Array(array)) => array.clone(),
        Some(ColumnarValue::Scalar(value)) => match value.to_array() {
            Ok(array) => array,
            Err(_) => return 8,
        },
    };
    match array.data_type().primitive_width() {
        Some(bytes) => bytes as i128,
        None => {
            let all = array.to_data().get_slice_memory_size().unwrap_or(0) as i128;
            all / (array.len().max(1) as i128) + 1
        }
    }
}

fn array_repeat(arguments: &[ColumnarValue], rows: usize) -> u128 {
    let (bytes, times) = (item_bytes(arguments.first()), integers(arguments.get(1)));
    sum(rows, |row| times.at(row).saturating_mul(bytes))
}

fn array_resize(arguments: &[ColumnarValue], rows: usize) -> u128 {
    let (bytes, times) = (item_bytes(arguments.get(2)), integers(arguments.get(1)));
    sum(rows, |row| times.at(row).saturating_mul(bytes))
}

fn array_to_string(arguments: &[ColumnarValue], rows: usize) -> u128 {
    let separators = lengths(arguments.get(1));
    let lists = match arguments.first() {
        Some(ColumnarValue::Array(array)) => array.clone(),
        Some(ColumnarValue::Scalar(value)) => match value.to_array_of_size(1) {
            Ok(array) => array,
            Err(_) => return 0,
        },
        None => return 0,
    };
    let (bytes, items) = match lists.as_list_opt::<i32>() {
        Some(lists) => {
            let items = lists.values();
            (text_lengths(items).iter().sum::<i128>(), items.len() as i128)
        }
        None => (0, 0),
    };
    let lists = if lists.len() == 1 { rows as i128 } else { 1 };
    let separator = (0..rows).map(|row| separators.at(row)).max().unwrap_or(0);
    bytes.saturating_add(items.saturating_mul(separator)).saturating_mul(lists).max(0) as u128
}

/// Numbers or points in time from a start to an end by a step, eight bytes each.
fn series(arguments: &[ColumnarValue], rows: usize) -> u128 {
    const ITEM_BYTES: i128 = 8;
    let (start, stop, step) = match arguments {
        [stop] => (Numbers::Constant(0), points(stop), Numbers::Constant(1)),
        [start, stop] => (points(start), points(stop), Numbers::Constant(1)),
        [start, stop, step, ..] => (points(start), points(stop), Numbers::of(step, steps)),
        [] => return 0,
    };
    sum(rows, |row| {
        let step = step.at(row);
        if step == 0 {
            return 0;
        }
        let span = (stop.at(row) - start.at(row)) / step;
        (span + 1).max(0).saturating_mul(ITEM_BYTES)
    })
}

/// Integers as they are, points in time in nanoseconds.
fn points(argument: &ColumnarValue) -> Numbers {
    Numbers::of(argument, |array| {
        let unit = match array.data_type() {
            DataType::Date32 => 86_400_000_000_000,
            DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
            DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
            _ => 1,
        };
        let values = match array.data_type() {
            DataType::Date32 => cast(array, &DataType::Int32).unwrap_or_else(|_| array.clone()),
            _ => array.clone(),
        };
        integer_values(&values).into_iter().map(|value| value * unit).collect()
    })
}

/// Steps of a series: intervals in nanoseconds, a month counted as 28 days.
fn steps(array: &ArrayRef) -> Vec<i128> {
    const DAY: i128 = 86_400_000_000_000;
    match array.data_type() {
        DataType::Interval(_) => match array.as_primitive_opt::<IntervalMonthDayNanoType>() {
            Some(steps) => steps
                .iter()
                .flatten()
                .map(|step| (i128::from(step.months) * 28 + i128::from(step.days)) * DAY + i128::from(step.nanoseconds))
                .collect(),
            None => vec![1; array.len()],
        },
        _ => integer_values(array),
    }
}

/// Not bytes but steps: the time is the product of both lengths. A byte of the limit buys sixteen.
fn levenshtein(arguments: &[ColumnarValue], rows: usize) -> u128 {
    const STEPS_PER_BYTE: i128 = 16;
    let (left, right) = (lengths(arguments.first()), lengths(arguments.get(1)));
    sum(rows, |row| left.at(row).saturating_mul(right.at(row)) / STEPS_PER_BYTE)
}
