//! `strftime` and `strptime`: times as texts and texts as times, by the formats of C.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::calendar::MICROS_PER_DAY;
use super::columns::{TIME_KIND, TIMESTAMP_KIND, primitive, strict_nulls};
use super::convert::ticks_of_moment;
use super::read::{ReadFormat, ReadMoment};
use super::to_char::write_strftime_of;
use crate::functions::list::maker::{ListRanges, list_of};
use crate::functions::signatures::{TEXT, ordinary};

/// The functions of this file.
pub(in crate::functions) static FORMATS: &[FunctionSpec] = &[
    FunctionSpec {
        name: "strftime",
        can_fail: true,
        signature: |arguments| {
            let [first, second] = arguments else { return None };
            let (kinds, is_value_first) = match (time_kind(first), time_kind(second)) {
                (Some(kind), None) => (kind, true),
                (None, Some(kind)) => (kind, false),
                // Two texts are a time and its format in the usual order.
                (None, None) if is_text(first) && is_text(second) => (TIMESTAMP_KIND, true),
                _ => return None,
            };
            let kinds = if is_value_first { vec![kinds, TEXT] } else { vec![TEXT, kinds] };
            let format = if is_value_first { second } else { first };
            is_text(format).then_some(CallKinds { arguments: kinds, result: TEXT })
        },
        kernel: |arguments, _, rows| {
            let is_value_first = *arguments[0].values.data_type() != TEXT;
            let (value, format) = if is_value_first { (0, 1) } else { (1, 0) };
            write_strftime_of(&arguments[value], &arguments[format], rows)
        },
        doc: "A date or time as text by a format of C, such as '%Y-%m-%d %H:%M:%S'. %f are six digits of a fraction, \
              %g three and %n nine.",
        example: ("strftime(TIMESTAMP '2013-07-31 12:30:45', '%d.%m.%Y %H:%M')", "31.07.2013 12:30"),
        ..ordinary("time")
    },
    FunctionSpec {
        name: "strptime",
        can_fail: true,
        signature: text_and_formats,
        kernel: |arguments, kind, rows| read_all(arguments, kind, rows, false),
        doc: "The timestamp of a text by a format of C, or by the first of a list of formats that fits.",
        example: ("strptime('31.07.2013 12:30', '%d.%m.%Y %H:%M')", "2013-07-31 12:30:00"),
        ..ordinary("time")
    },
    FunctionSpec {
        name: "try_strptime",
        signature: text_and_formats,
        kernel: |arguments, kind, rows| read_all(arguments, kind, rows, true),
        doc: "The timestamp of a text by a format of C, or NULL if the text has another form.",
        example: ("try_strptime('yesterday', '%d.%m.%Y') IS NULL", "true"),
        ..ordinary("time")
    },
];

/// Returns the type of an argument that is a time rather than a format.
fn time_kind(argument: &ArgumentKind<'_>) -> Option<DataType> {
    match argument.kind {
        kind @ (DataType::Timestamp(..) | DataType::Date32) => Some(kind.clone()),
        DataType::Time64(_) => Some(TIME_KIND),
        _ => None,
    }
}

fn is_text(argument: &ArgumentKind<'_>) -> bool {
    matches!(argument.kind, DataType::Utf8View | DataType::Null)
}

fn text_and_formats(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [text, formats] = arguments else { return None };
    let formats = match formats.kind {
        DataType::Utf8View | DataType::Null => TEXT,
        kind if *kind == list_of(TEXT) => list_of(TEXT),
        DataType::List(item) if *item.data_type() == TEXT => list_of(TEXT),
        _ => return None,
    };
    is_text(text).then(|| CallKinds { arguments: vec![TEXT, formats], result: TIMESTAMP_KIND })
}

/// The formats of a row, prepared once for rows with the same formats.
struct RowFormats<'a> {
    operand: &'a Operand,
    last: Option<(Vec<String>, Vec<ReadFormat>)>,
}

impl RowFormats<'_> {
    /// Returns the formats of a row with their texts.
    fn at(&mut self, row: usize) -> (&[String], &[ReadFormat]) {
        // A constant format is the frequent case, so it is not read again.
        if self.last.is_none() || !self.operand.is_constant {
            let names = self.names(row);
            if self.last.as_ref().is_none_or(|(known, _)| *known != names) {
                let formats = names.iter().map(|name| ReadFormat::strftime(name)).collect();
                self.last = Some((names, formats));
            }
        }
        let (names, formats) = self.last.as_ref().expect("the formats of this row are known");
        (names, formats)
    }

    fn names(&self, row: usize) -> Vec<String> {
        if *self.operand.values.data_type() == TEXT {
            return vec![self.operand.values.as_string_view().value(self.operand.at(row)).to_owned()];
        }
        let lists = ListRanges::of(self.operand);
        let items = lists.items().as_string_view();
        let named = lists.at(row).into_iter().flatten().filter(|item| items.is_valid(*item));
        named.map(|item| items.value(item).to_owned()).collect()
    }
}

fn read_all(arguments: &[Operand], kind: &DataType, rows: usize, is_tried: bool) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let texts = arguments[0].values.as_string_view();
    let mut formats = RowFormats { operand: &arguments[1], last: None };
    let mut values = Vec::with_capacity(rows);
    let mut validity = Vec::with_capacity(rows);
    for row in 0..rows {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            values.push(0);
            validity.push(false);
            continue;
        }
        let text = texts.value(arguments[0].at(row));
        let (names, known) = formats.at(row);
        let found = known.iter().find_map(|format| format.read(text).and_then(micros_of));
        if found.is_none() && !is_tried {
            let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
            let message = format!("'{text}' cannot be read by the format {}", names.join(" or "));
            return Err(Error::new(ErrorKind::InvalidDatetime, message)
                .hint("try_strptime gives NULL for texts of another form"));
        }
        values.push(found.unwrap_or(0));
        validity.push(found.is_some());
    }
    primitive(kind, values, Some(NullBuffer::from(validity)))
}

/// The microseconds since 1970-01-01. A time without a date belongs to 1900-01-01, as in C.
fn micros_of(moment: ReadMoment) -> Option<i64> {
    const DAY_1900: i64 = -25_567;
    let moment = ReadMoment { day: Some(moment.day.unwrap_or(DAY_1900)), ..moment };
    ticks_of_moment(moment, MICROS_PER_DAY)
}
