//! Functions that treat lists as sets, or sort them.

use std::cmp::Ordering;
use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::access::same_list;
use super::keys::keys_of;
use super::maker::{ListMaker, ListRanges, item_kind, list_of};
use super::search::two_lists;
use crate::functions::signatures::ordinary;
use crate::functions::time::columns::{failed, strict_nulls};

/// Makes a spec of this file: all are immutable and strict.
const fn set_spec(
    (name, alias): (&'static str, &'static [&'static str]),
    can_fail: bool,
    signature: fn(&[ArgumentKind<'_>]) -> Option<CallKinds>,
    kernel: rowmill_plan::function::Kernel,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> FunctionSpec {
    FunctionSpec { name, aliases: alias, can_fail, signature, kernel, doc, example, ..ordinary("list") }
}

/// `array_distinct(list)`
pub(super) const ARRAY_DISTINCT: FunctionSpec = set_spec(
    ("array_distinct", &["list_distinct"]),
    false,
    same_list,
    |arguments, kind, rows| combine(arguments, kind, rows, SetOperation::Distinct),
    "The items, each once, in the order of their first occurrence.",
    ("array_distinct([2, 1, 2, 3, 1])", "[2, 1, 3]"),
);

/// `array_union(list, list)`
pub(super) const ARRAY_UNION: FunctionSpec = set_spec(
    ("array_union", &["list_union"]),
    false,
    |arguments| two_lists(arguments, DataType::clone),
    |arguments, kind, rows| combine(arguments, kind, rows, SetOperation::Union),
    "The items of both lists, each once.",
    ("array_union([1, 2], [2, 3])", "[1, 2, 3]"),
);

/// `array_intersect(list, list)`
pub(super) const ARRAY_INTERSECT: FunctionSpec = set_spec(
    ("array_intersect", &["list_intersect"]),
    false,
    |arguments| two_lists(arguments, DataType::clone),
    |arguments, kind, rows| combine(arguments, kind, rows, SetOperation::Intersect),
    "The items that are in both lists, each once.",
    ("array_intersect([1, 2, 3], [3, 2])", "[2, 3]"),
);

/// `array_except(list, list)`
pub(super) const ARRAY_EXCEPT: FunctionSpec = set_spec(
    ("array_except", &["list_except"]),
    false,
    |arguments| two_lists(arguments, DataType::clone),
    |arguments, kind, rows| combine(arguments, kind, rows, SetOperation::Except),
    "The items of the first list that are not in the second, each once.",
    ("array_except([1, 2, 3], [2])", "[1, 3]"),
);

/// `array_min(list)`
pub(super) const ARRAY_MIN: FunctionSpec = set_spec(
    ("array_min", &["list_min"]),
    false,
    one_item,
    |arguments, _, rows| extreme(arguments, rows, Ordering::Less),
    "The least item; NULLs are ignored.",
    ("array_min([3, 1, 2])", "1"),
);

/// `array_max(list)`
pub(super) const ARRAY_MAX: FunctionSpec = set_spec(
    ("array_max", &["list_max"]),
    false,
    one_item,
    |arguments, _, rows| extreme(arguments, rows, Ordering::Greater),
    "The greatest item; NULLs are ignored.",
    ("array_max([3, 1, 2])", "3"),
);

/// `array_sort(list [, order [, nulls]])`
pub(super) const ARRAY_SORT: FunctionSpec = set_spec(
    ("array_sort", &["list_sort"]),
    true,
    |arguments| {
        let [list, options @ ..] = arguments else { return None };
        let are_texts = options.iter().all(|option| matches!(option.kind, DataType::Utf8View | DataType::Null));
        let kind = list_of(item_kind(list.kind)?);
        let mut kinds = vec![kind.clone()];
        kinds.resize(arguments.len(), DataType::Utf8View);
        (options.len() <= 2 && are_texts).then_some(CallKinds { arguments: kinds, result: kind })
    },
    sort,
    "The items in order: 'ASC' or 'DESC', and 'NULLS FIRST' or 'NULLS LAST'; ascending with NULLs first if absent.",
    ("array_sort([3, 1, NULL, 2], 'DESC', 'NULLS LAST')", "[3, 2, 1, null]"),
);

fn one_item(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [list] = arguments else { return None };
    let item = item_kind(list.kind)?;
    Some(CallKinds { arguments: vec![list_of(item.clone())], result: item })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SetOperation {
    Distinct,
    Union,
    Intersect,
    Except,
}

impl SetOperation {
    /// The function that does it, for error messages.
    fn function(self) -> &'static str {
        match self {
            SetOperation::Distinct => "array_distinct",
            SetOperation::Union => "array_union",
            SetOperation::Intersect => "array_intersect",
            SetOperation::Except => "array_except",
        }
    }
}

fn combine(arguments: &[Operand], kind: &DataType, rows: usize, operation: SetOperation) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let left = ListRanges::of(&arguments[0]);
    let right = ListRanges::of(arguments.last().expect("set operations have arguments"));
    let [left_keys, right_keys] = keys_of([left.items(), right.items()])?;
    let mut maker = ListMaker::new(operation.function(), &[left.items(), right.items()], rows);
    let mut given: HashSet<&[u8]> = HashSet::new();
    let mut other: HashSet<&[u8]> = HashSet::new();
    for row in 0..rows {
        let (Some(items), Some(others)) = (left.at(row), right.at(row)) else {
            maker.finish_null();
            continue;
        };
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            maker.finish_null();
            continue;
        }
        given.clear();
        // `given` holds the keys that the result already has, `other` those of the second list.
        other.clear();
        if matches!(operation, SetOperation::Intersect | SetOperation::Except) {
            other.extend(others.clone().map(|item| right_keys.row(item).data()));
        }
        for item in items {
            let key = left_keys.row(item).data();
            let is_kept = match operation {
                SetOperation::Distinct | SetOperation::Union => true,
                SetOperation::Intersect => other.contains(key),
                SetOperation::Except => !other.contains(key),
            };
            // `insert` is false for an item that the result already has.
            if is_kept && given.insert(key) {
                maker.push(0, item);
            }
        }
        if operation == SetOperation::Union {
            others.filter(|item| given.insert(right_keys.row(*item).data())).for_each(|item| maker.push(1, item));
        }
        maker.finish_list();
    }
    maker.finish(kind)
}

fn extreme(arguments: &[Operand], rows: usize, wanted: Ordering) -> Result<ArrayRef> {
    let lists = ListRanges::of(&arguments[0]);
    let nulls = lists.items().logical_nulls();
    let [keys] = keys_of([lists.items()])?;
    let picks: UInt32Array = (0..rows)
        .map(|row| {
            let items = lists.at(row)?.filter(|item| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*item)));
            let best =
                items.reduce(|best, item| if keys.row(item).cmp(&keys.row(best)) == wanted { item } else { best });
            best.map(|item| item as u32)
        })
        .collect();
    take(lists.items(), &picks, None).map_err(failed)
}

/// Whether an option is the first of two words. Returns an error if it is neither.
fn is_first_of(option: &str, words: [&str; 2], what: &str) -> Result<bool> {
    let given: Vec<&str> = option.split_whitespace().collect();
    let given = given.join(" ");
    match words.iter().position(|word| given.eq_ignore_ascii_case(word)) {
        Some(found) => Ok(found == 0),
        None => {
            let message = format!("'{option}' is not a valid {what}");
            let hint = format!("it is '{}' or '{}'", words[0], words[1]);
            Err(Error::new(ErrorKind::InvalidParameter, message).hint(hint))
        }
    }
}

fn sort(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let is_null_row = strict_nulls(arguments, rows);
    let lists = ListRanges::of(&arguments[0]);
    let nulls = lists.items().logical_nulls();
    let [keys] = keys_of([lists.items()])?;
    let mut maker = ListMaker::new("array_sort", &[lists.items()], rows);
    let mut order: Vec<usize> = Vec::new();
    for row in 0..rows {
        let items = match lists.at(row) {
            Some(items) if is_null_row.as_ref().is_none_or(|nulls| nulls.is_valid(row)) => items,
            _ => {
                maker.finish_null();
                continue;
            }
        };
        let option =
            |index: usize| arguments.get(index).map(|operand| operand.values.as_string_view().value(operand.at(row)));
        let ascends = option(1).map_or(Ok(true), |option| is_first_of(option, ["ASC", "DESC"], "order"))?;
        let nulls_first = option(2)
            .map_or(Ok(true), |option| is_first_of(option, ["NULLS FIRST", "NULLS LAST"], "place of NULLs"))?;
        order.clear();
        order.extend(items);
        let is_null = |item: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(item));
        order.sort_by(|a, b| match (is_null(*a), is_null(*b)) {
            (false, false) if ascends => keys.row(*a).cmp(&keys.row(*b)),
            (false, false) => keys.row(*b).cmp(&keys.row(*a)),
            (true, false) if nulls_first => Ordering::Less,
            (false, true) if !nulls_first => Ordering::Less,
            (true, true) => Ordering::Equal,
            _ => Ordering::Greater,
        });
        order.iter().for_each(|item| maker.push(0, *item));
        maker.finish_list();
    }
    maker.finish(kind)
}
