//! Functions of ENUM types. They take the type from an argument, whose value may be NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int32Array};
use arrow::datatypes::{DataType, Decimal128Type};
use rowmill_base::{EnumLabels, NumberedType, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::list::maker::{list_of, lists_of};
use super::signatures::{INTEGER, ordinary};
use super::time::columns::{failed, repeated, unary};

/// The functions of the family.
pub(super) static ENUM: &[FunctionSpec] = &[
    FunctionSpec {
        name: "enum_first",
        strict: false,
        signature: |arguments| of_enums(arguments, 1..=1, Clone::clone),
        kernel: |arguments, kind, rows| repeated(&label_at(arguments, kind, |_| Some(0))?, rows),
        doc: "The first label of the ENUM type of the value, which may be NULL.",
        example: ("enum_first('ok'::ENUM('sad', 'ok'))", "sad"),
        ..ordinary("enum")
    },
    FunctionSpec {
        name: "enum_last",
        strict: false,
        signature: |arguments| of_enums(arguments, 1..=1, Clone::clone),
        kernel: |arguments, kind, rows| {
            repeated(&label_at(arguments, kind, |labels| labels.labels().len().checked_sub(1))?, rows)
        },
        doc: "The last label of the ENUM type of the value, which may be NULL.",
        example: ("enum_last('sad'::ENUM('sad', 'ok'))", "ok"),
        ..ordinary("enum")
    },
    FunctionSpec {
        name: "enum_range",
        aliases: &["enum_range_boundary"],
        strict: false,
        signature: |arguments| of_enums(arguments, 1..=2, |kind| list_of(kind.clone())),
        kernel: range,
        doc: "All labels of the ENUM type of the value, which may be NULL; of two values, the labels from the first to \
            the second one, where NULL means no bound.",
        example: ("enum_range('b'::ENUM('a', 'b', 'c'), NULL)", "[\"b\", \"c\"]"),
        ..ordinary("enum")
    },
    FunctionSpec {
        name: "enum_code",
        signature: |arguments| of_enums(arguments, 1..=1, |_| INTEGER),
        kernel: |arguments, _, rows| unary(&arguments[0], rows, code),
        doc: "The place of the label in its ENUM type, from 0.",
        example: ("enum_code('ok'::ENUM('sad', 'ok'))", "1"),
        ..ordinary("enum")
    },
];

/// Accepts arguments of one ENUM type. NULL stands for a value of it.
fn of_enums(
    arguments: &[ArgumentKind<'_>],
    count: std::ops::RangeInclusive<usize>,
    result: impl Fn(&DataType) -> DataType,
) -> Option<CallKinds> {
    let kind = arguments.iter().map(|argument| argument.kind).find(|kind| **kind != DataType::Null)?;
    NumberedType::of_arrow(kind)?.labels()?;
    let fits = |argument: &ArgumentKind<'_>| {
        argument.kind == kind
            || *argument.kind == DataType::Null
            || argument.constant.is_some_and(|value| value.as_text().is_some())
    };
    let is_taken = count.contains(&arguments.len()) && arguments.iter().all(fits);
    is_taken.then(|| CallKinds { arguments: vec![kind.clone(); arguments.len()], result: result(kind) })
}

fn labels_of(kind: &DataType) -> Result<&'static EnumLabels> {
    NumberedType::of_arrow(kind).and_then(NumberedType::labels).ok_or_else(|| failed(format!("an ENUM, not {kind}")))
}

fn values_of(labels: &EnumLabels, places: impl Iterator<Item = usize>, kind: &DataType) -> ArrayRef {
    let values: Decimal128Array = places.map(|place| Some(labels.native(place))).collect();
    Arc::new(values.with_data_type(kind.clone()))
}

/// Returns one label of the type of the argument, or NULL if the type has no label there.
fn label_at(arguments: &[Operand], kind: &DataType, place: impl Fn(&EnumLabels) -> Option<usize>) -> Result<ArrayRef> {
    let labels = labels_of(arguments[0].values.data_type())?;
    match place(labels).filter(|place| *place < labels.labels().len()) {
        Some(place) => Ok(values_of(labels, std::iter::once(place), kind)),
        None => Ok(arrow::array::new_null_array(kind, 1)),
    }
}

fn range(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let value_kind = arguments[0].values.data_type();
    let labels = labels_of(value_kind)?;
    let count = labels.labels().len();
    let bound = |argument: usize, row: usize| {
        let operand = arguments.get(argument).filter(|_| arguments.len() > 1)?;
        let (values, at) = (operand.values.as_primitive::<Decimal128Type>(), operand.at(row));
        values.is_valid(at).then(|| labels.place_of_native(values.value(at))).flatten()
    };
    let (mut places, mut offsets) = (Vec::new(), vec![0]);
    for row in 0..rows {
        let (first, end) = (bound(0, row).unwrap_or(0), bound(1, row).map_or(count, |last| last + 1));
        places.extend(first..end.max(first));
        offsets.push(i32::try_from(places.len()).map_err(|_| failed("fewer labels than a list may have"))?);
    }
    lists_of(kind, offsets, values_of(labels, places.into_iter(), value_kind), None)
}

fn code(values: &ArrayRef) -> Result<ArrayRef> {
    let labels = labels_of(values.data_type())?;
    let codes: Int32Array = values
        .as_primitive::<Decimal128Type>()
        .iter()
        .map(|value| value.and_then(|value| labels.place_of_native(value)).map(|place| place as i32))
        .collect();
    Ok(Arc::new(codes))
}
