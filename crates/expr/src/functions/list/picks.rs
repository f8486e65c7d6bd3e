//! Functions that choose items by a list of positions or of conditions, and lists of one value.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::access::{is_integer, place_of};
use super::maker::{ListMaker, ListRanges, item_kind, list_of, lists_of};
use crate::functions::signatures::{BIGINT, BOOLEAN, ordinary};
use crate::functions::time::columns::{slots, strict_nulls};

/// The functions of this file.
pub(in crate::functions) static PICKS: &[FunctionSpec] = &[
    FunctionSpec {
        name: "array_select",
        aliases: &["list_select"],
        signature: |arguments| with_list(arguments, BIGINT),
        kernel: select,
        doc: "The items at the positions of a second list; NULL for a position without an item.",
        example: ("array_select([10, 20, 30], [3, 1])", "[30, 10]"),
        ..ordinary("list")
    },
    FunctionSpec {
        name: "array_where",
        aliases: &["list_where"],
        can_fail: true,
        signature: |arguments| with_list(arguments, BOOLEAN),
        kernel: keep_where,
        doc: "The items for which a second list of the same length is true.",
        example: ("array_where([10, 20, 30], [true, false, true])", "[10, 30]"),
        ..ordinary("list")
    },
    FunctionSpec {
        name: "trim_array",
        can_fail: true,
        signature: |arguments| match arguments {
            [list, count] if is_integer(count) => {
                let kind = list_of(item_kind(list.kind)?);
                Some(CallKinds { arguments: vec![kind.clone(), BIGINT], result: kind })
            }
            _ => None,
        },
        kernel: trim,
        doc: "The list without its last n items.",
        example: ("trim_array([1, 2, 3, 4], 2)", "[1, 2]"),
        ..ordinary("list")
    },
    FunctionSpec {
        name: "array_fill",
        can_fail: true,
        strict: false,
        signature: |arguments| match arguments {
            [value, lengths] => {
                let is_of_integers =
                    item_kind(lengths.kind).is_some_and(|item| item.is_integer() || item == DataType::Null);
                let result = list_of(value.kind.clone());
                is_of_integers.then(|| CallKinds { arguments: vec![value.kind.clone(), list_of(BIGINT)], result })
            }
            _ => None,
        },
        kernel: fill,
        doc: "A list of one value, as often as the list of one length says.",
        example: ("array_fill(7, [3])", "[7, 7, 7]"),
        ..ordinary("list")
    },
    FunctionSpec {
        name: "array_count",
        aliases: &["list_count"],
        signature: |arguments| match arguments {
            [list] => Some(CallKinds { arguments: vec![list_of(item_kind(list.kind)?)], result: BIGINT }),
            _ => None,
        },
        kernel: |arguments, _, rows| {
            let lists = ListRanges::of(&arguments[0]);
            let nulls = lists.items().logical_nulls();
            let is_valid = |item: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*item));
            let counts: Int64Array =
                (0..rows).map(|row| Some(lists.at(row)?.filter(is_valid).count() as i64)).collect();
            Ok(std::sync::Arc::new(counts))
        },
        doc: "The number of items that are not NULL.",
        example: ("array_count([1, NULL, 3])", "2"),
        ..ordinary("list")
    },
];

/// Accepts a list, and a list of items of `kind`.
fn with_list(arguments: &[ArgumentKind<'_>], kind: DataType) -> Option<CallKinds> {
    let [list, picks] = arguments else { return None };
    let item = item_kind(picks.kind)?;
    let is_taken = item == kind || item == DataType::Null || kind == BIGINT && item.is_integer();
    let list = list_of(item_kind(list.kind)?);
    is_taken.then(|| CallKinds { arguments: vec![list.clone(), list_of(kind)], result: list })
}

fn select(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (lists, picks) = (ListRanges::of(&arguments[0]), ListRanges::of(&arguments[1]));
    let positions = picks.items().as_primitive::<Int64Type>();
    // A position without an item takes the NULL of the second source.
    let missing = arrow::array::new_null_array(lists.items().data_type(), 1);
    let mut maker = ListMaker::new("array_select", &[lists.items(), &missing], rows);
    for row in 0..rows {
        let (Some(items), Some(picks)) = (lists.at(row), picks.at(row)) else {
            maker.finish_null();
            continue;
        };
        for pick in picks {
            // A position counts from 1 here, and one from the end is not known.
            let place = positions.is_valid(pick).then(|| positions.value(pick)).filter(|position| *position > 0);
            match place.and_then(|position| place_of(position, items.len())) {
                Some(place) => maker.push(0, items.start + place),
                None => maker.push(1, 0),
            }
        }
        maker.finish_list();
    }
    maker.finish(kind)
}

fn keep_where(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (lists, conditions) = (ListRanges::of(&arguments[0]), ListRanges::of(&arguments[1]));
    let are_true = conditions.items().as_boolean();
    let mut maker = ListMaker::new("array_where", &[lists.items()], rows);
    for row in 0..rows {
        let (Some(items), Some(conditions)) = (lists.at(row), conditions.at(row)) else {
            maker.finish_null();
            continue;
        };
        if items.len() != conditions.len() {
            let message = format!(
                "array_where takes one condition for each item, but there are {} items and {} conditions",
                items.len(),
                conditions.len()
            );
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        for (item, condition) in items.zip(conditions) {
            if are_true.is_null(condition) {
                return Err(Error::new(ErrorKind::InvalidParameter, "array_where: a condition is NULL"));
            }
            if are_true.value(condition) {
                maker.push(0, item);
            }
        }
        maker.finish_list();
    }
    maker.finish(kind)
}

fn trim(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let lists = ListRanges::of(&arguments[0]);
    let counts = slots::<Int64Type>(&arguments[1]);
    let mut maker = ListMaker::new("trim_array", &[lists.items()], rows);
    for row in 0..rows {
        let items = match lists.at(row) {
            Some(items) if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) => items,
            _ => {
                maker.finish_null();
                continue;
            }
        };
        let count = usize::try_from(counts.at(row)).ok().filter(|count| *count <= items.len());
        let Some(count) = count else {
            let message = format!(
                "trim_array: the number of items to remove must be from 0 to {}: {}",
                items.len(),
                counts.at(row)
            );
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        };
        maker.extend(0, items.start..items.end - count);
        maker.finish_list();
    }
    maker.finish(kind)
}

fn fill(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (values, lengths) = (&arguments[0], ListRanges::of(&arguments[1]));
    let counts = lengths.items().as_primitive::<Int64Type>();
    if *values.values.data_type() == DataType::Null {
        return fill_with_nulls(&lengths, counts, kind, rows);
    }
    let mut maker = ListMaker::new("array_fill", &[&values.values], rows);
    for row in 0..rows {
        let Some(range) = lengths.at(row) else { return Err(no_length("NULL")) };
        let count = length_of(counts, range)?;
        maker.fill(0, values.at(row), count)?;
        maker.finish_list();
    }
    maker.finish(kind)
}

fn fill_with_nulls(lengths: &ListRanges<'_>, counts: &Int64Array, kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let mut offsets = vec![0];
    for row in 0..rows {
        let Some(range) = lengths.at(row) else { return Err(no_length("NULL")) };
        let end = i64::from(*offsets.last().expect("the first offset is there")) + length_of(counts, range)? as i64;
        super::maker::check_size("array_fill", end as u64, 1)?;
        offsets.push(end as i32);
    }
    let items = arrow::array::new_null_array(&DataType::Null, *offsets.last().unwrap_or(&0) as usize);
    lists_of(kind, offsets, items, None)
}

/// The only length of a list of lengths.
fn length_of(counts: &Int64Array, range: std::ops::Range<usize>) -> Result<u64> {
    if range.len() != 1 {
        let error = Error::new(
            ErrorKind::Unsupported,
            format!("array_fill takes the length of one dimension, but {} were given", range.len()),
        );
        return Err(error.hint("array_fill(array_fill(0, [3]), [2]) makes a list of lists"));
    }
    if counts.is_null(range.start) {
        return Err(no_length("NULL"));
    }
    u64::try_from(counts.value(range.start)).map_err(|_| no_length(&counts.value(range.start).to_string()))
}

fn no_length(given: &str) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("array_fill: {given} is not a length"))
}
