//! Functions that find, remove and replace items.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::access::is_integer;
use super::keys::{ItemEquality, equality_of, keys_of};
use super::maker::{ListMaker, ListRanges, common_item, item_and_value, item_kind, kind_beside, list_of};
use crate::functions::signatures::ordinary;
use crate::functions::time::columns::{slots, strict_nulls};

/// Makes a spec of this file: all are immutable and cannot fail.
const fn searching(
    (name, aliases): (&'static str, &'static [&'static str]),
    strict: bool,
    signature: fn(&[ArgumentKind<'_>]) -> Option<CallKinds>,
    kernel: rowmill_plan::function::Kernel,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> FunctionSpec {
    FunctionSpec { name, aliases, strict, signature, kernel, doc, example, ..ordinary("list") }
}

/// `array_has(list, value)`
pub(super) const ARRAY_HAS: FunctionSpec = searching(
    ("array_has", &["list_has", "array_contains", "list_contains"]),
    true,
    |arguments| list_and_value(arguments, 0, |_| DataType::Boolean),
    |arguments, _, rows| {
        let nulls = strict_nulls(arguments, rows);
        let lists = ListRanges::of(&arguments[0]);
        let search = ItemSearch::new(&lists, &arguments[1])?;
        let found = (0..rows).map(|row| search.find(row, 0).is_some()).collect();
        Ok(std::sync::Arc::new(BooleanArray::new(found, nulls)))
    },
    "Whether a value is in a list; NULL for the value NULL.",
    ("array_has([1, 2, 3], 2)", "true"),
);

/// `array_has_all(list, list)`
pub(super) const ARRAY_HAS_ALL: FunctionSpec = searching(
    ("array_has_all", &["list_has_all"]),
    true,
    |arguments| two_lists(arguments, |_| DataType::Boolean),
    |arguments, _, rows| compare_sets(arguments, rows, true),
    "Whether all items of the second list are in the first.",
    ("array_has_all([1, 2, 3], [2, 3])", "true"),
);

/// `array_has_any(list, list)`
pub(super) const ARRAY_HAS_ANY: FunctionSpec = searching(
    ("array_has_any", &["list_has_any", "arrays_overlap"]),
    true,
    |arguments| two_lists(arguments, |_| DataType::Boolean),
    |arguments, _, rows| compare_sets(arguments, rows, false),
    "Whether an item of the second list is in the first.",
    ("array_has_any([1, 2, 3], [3, 4])", "true"),
);

/// `array_position(list, value [, start])`
pub(super) const ARRAY_POSITION: FunctionSpec = searching(
    ("array_position", &["list_position", "array_indexof", "list_indexof"]),
    false,
    |arguments| list_and_value(arguments, 1, |_| DataType::Int64),
    |arguments, _, rows| {
        let nulls = strict_nulls(&[&arguments[..1], &arguments[2..]].concat(), rows);
        let lists = ListRanges::of(&arguments[0]);
        let search = ItemSearch::new(&lists, &arguments[1])?;
        let starts = arguments.get(2).map(slots::<Int64Type>);
        let positions: Int64Array = (0..rows)
            .map(|row| {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    return None;
                }
                let start = starts.map_or(1, |starts| starts.at(row)).max(1);
                search.find(row, usize::try_from(start - 1).unwrap_or(usize::MAX)).map(|place| place as i64 + 1)
            })
            .collect();
        Ok(std::sync::Arc::new(positions))
    },
    "The position at which a value is first in a list, from a position on; NULL if it is not. A NULL finds a NULL.",
    ("array_position([1, 2, 2, 3], 2)", "2"),
);

/// `array_positions(list, value)`
pub(super) const ARRAY_POSITIONS: FunctionSpec = searching(
    ("array_positions", &["list_positions"]),
    false,
    |arguments| list_and_value(arguments, 0, |_| list_of(DataType::Int64)),
    |arguments, kind, rows| {
        let lists = ListRanges::of(&arguments[0]);
        let search = ItemSearch::new(&lists, &arguments[1])?;
        // The positions of all rows are items of one array of the numbers from 1 on.
        let longest = (0..rows).filter_map(|row| search.lists.at(row)).map(|items| items.len()).max().unwrap_or(0);
        let numbers: ArrayRef = std::sync::Arc::new(Int64Array::from_iter_values(1..=longest as i64));
        let mut maker = ListMaker::new("array_positions", &[&numbers], rows);
        for row in 0..rows {
            let Some(items) = search.lists.at(row) else {
                maker.finish_null();
                continue;
            };
            let first = items.start;
            items.filter(|item| search.is_match(row, *item)).for_each(|item| maker.push(0, item - first));
            maker.finish_list();
        }
        maker.finish(kind)
    },
    "All positions at which a value is in a list. A NULL finds a NULL.",
    ("array_positions([1, 2, 2, 3], 2)", "[2, 3]"),
);

/// `array_remove(list, value)`
pub(super) const ARRAY_REMOVE: FunctionSpec = searching(
    ("array_remove", &["list_remove", "array_remove_all", "list_remove_all"]),
    false,
    |arguments| list_and_value(arguments, 0, |item| list_of(item.clone())),
    remove,
    "The list without the items that equal a value; NULL removes NULLs.",
    ("array_remove([1, 2, 1], 1)", "[2]"),
);

/// `array_remove_n(list, value, times)`
pub(super) const ARRAY_REMOVE_N: FunctionSpec = searching(
    ("array_remove_n", &["list_remove_n"]),
    false,
    |arguments| match arguments {
        [_, _, _] => list_and_value(arguments, 1, |item| list_of(item.clone())),
        _ => None,
    },
    remove,
    "The list without the first n items that equal a value.",
    ("array_remove_n([1, 2, 1, 1], 1, 2)", "[2, 1]"),
);

/// `array_replace(list, from, to)`
pub(super) const ARRAY_REPLACE: FunctionSpec = searching(
    ("array_replace", &["list_replace", "array_replace_all", "list_replace_all"]),
    false,
    |arguments| if arguments.len() == 3 { list_and_two_values(arguments) } else { None },
    replace,
    "The list with every item that equals a value replaced by another.",
    ("array_replace([1, 2, 1], 1, 7)", "[7, 2, 7]"),
);

/// `array_replace_n(list, from, to, times)`
pub(super) const ARRAY_REPLACE_N: FunctionSpec = searching(
    ("array_replace_n", &["list_replace_n"]),
    false,
    |arguments| match arguments {
        [_, _, _, times] if is_integer(times) => list_and_two_values(arguments),
        _ => None,
    },
    replace,
    "The list with the first n items that equal a value replaced by another.",
    ("array_replace_n([1, 2, 1, 1], 1, 7, 2)", "[7, 2, 7, 1]"),
);

/// Accepts a list, a value, and at most `integers_max` integers.
fn list_and_value(
    arguments: &[ArgumentKind<'_>],
    integers_max: usize,
    result: impl Fn(&DataType) -> DataType,
) -> Option<CallKinds> {
    let [list, value, integers @ ..] = arguments else { return None };
    if integers.len() > integers_max || !integers.iter().all(is_integer) {
        return None;
    }
    let item = item_and_value(list, value)?;
    let result = result(&item);
    let mut kinds = vec![list_of(item.clone()), item];
    kinds.resize(arguments.len(), DataType::Int64);
    Some(CallKinds { arguments: kinds, result })
}

fn list_and_two_values(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [list, from, to, ..] = arguments else { return None };
    let item = item_kind(list.kind)?;
    let (from, to) = (kind_beside(from, &item), kind_beside(to, &item));
    let item = common_item(&[item, from, to])?;
    let kind = list_of(item.clone());
    let mut kinds = vec![kind.clone(), item.clone(), item];
    kinds.resize(arguments.len(), DataType::Int64);
    Some(CallKinds { arguments: kinds, result: kind })
}

/// Accepts two lists of one type.
pub(super) fn two_lists(arguments: &[ArgumentKind<'_>], result: impl Fn(&DataType) -> DataType) -> Option<CallKinds> {
    let [left, right] = arguments else { return None };
    let item = common_item(&[item_kind(left.kind)?, item_kind(right.kind)?])?;
    let kind = list_of(item);
    Some(CallKinds { arguments: vec![kind.clone(), kind.clone()], result: result(&kind) })
}

/// A search for a value among the items of a list.
struct ItemSearch<'a> {
    lists: &'a ListRanges<'a>,
    value: &'a Operand,
    is_equal: ItemEquality<'a>,
}

impl<'a> ItemSearch<'a> {
    fn new(lists: &'a ListRanges<'a>, value: &'a Operand) -> Result<ItemSearch<'a>> {
        Ok(ItemSearch { lists, value, is_equal: equality_of(lists.items(), &value.values)? })
    }

    #[inline]
    fn is_match(&self, row: usize, item: usize) -> bool {
        (self.is_equal)(item, self.value.at(row))
    }

    /// Returns the place, counted from 0, of the first match at or after the place `from`.
    fn find(&self, row: usize, from: usize) -> Option<usize> {
        let items = self.lists.at(row)?;
        items.clone().skip(from).find(|item| self.is_match(row, *item)).map(|item| item - items.start)
    }
}

/// Returns how many items may be changed: all, or the number of an operand. `None` if that number is NULL.
fn limit_of(times: Option<&Operand>, row: usize) -> Option<i64> {
    match times {
        None => Some(i64::MAX),
        Some(times) if times.values.is_null(times.at(row)) => None,
        Some(times) => Some(slots::<Int64Type>(times).at(row)),
    }
}

fn remove(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let lists = ListRanges::of(&arguments[0]);
    let search = ItemSearch::new(&lists, &arguments[1])?;
    let mut maker = ListMaker::new("array_remove", &[search.lists.items()], rows);
    for row in 0..rows {
        let (Some(items), Some(mut left)) = (search.lists.at(row), limit_of(arguments.get(2), row)) else {
            maker.finish_null();
            continue;
        };
        for item in items {
            if left > 0 && search.is_match(row, item) {
                left -= 1;
            } else {
                maker.push(0, item);
            }
        }
        maker.finish_list();
    }
    maker.finish(kind)
}

fn replace(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let lists = ListRanges::of(&arguments[0]);
    let search = ItemSearch::new(&lists, &arguments[1])?;
    let to = &arguments[2];
    let mut maker = ListMaker::new("array_replace", &[search.lists.items(), &to.values], rows);
    for row in 0..rows {
        let (Some(items), Some(mut left)) = (search.lists.at(row), limit_of(arguments.get(3), row)) else {
            maker.finish_null();
            continue;
        };
        for item in items {
            if left > 0 && search.is_match(row, item) {
                left -= 1;
                maker.push(1, to.at(row));
            } else {
                maker.push(0, item);
            }
        }
        maker.finish_list();
    }
    maker.finish(kind)
}

/// Whether all, or any, of the items of the second list are in the first list.
fn compare_sets(arguments: &[Operand], rows: usize, of_all: bool) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let (lists, parts) = (ListRanges::of(&arguments[0]), ListRanges::of(&arguments[1]));
    let [items, sought] = keys_of([lists.items(), parts.items()])?;
    let found = (0..rows)
        .map(|row| {
            let (Some(list), Some(mut part)) = (lists.at(row), parts.at(row)) else { return false };
            const SCANNED_MAX: usize = 16;
            // For short lists, comparing all pairs is faster than hashing.
            if list.len().min(part.len()) <= SCANNED_MAX {
                let is_in = |one: usize| list.clone().any(|item| items.row(item) == sought.row(one));
                return if of_all { part.all(is_in) } else { part.any(is_in) };
            }
            let known: HashSet<&[u8]> = list.map(|item| items.row(item).data()).collect();
            let is_in = |one: usize| known.contains(sought.row(one).data());
            if of_all { part.all(is_in) } else { part.any(is_in) }
        })
        .collect();
    Ok(std::sync::Arc::new(BooleanArray::new(found, nulls)))
}
