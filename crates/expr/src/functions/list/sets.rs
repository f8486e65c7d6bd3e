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

/// `array_unique(list)`
pub(super) const ARRAY_UNIQUE: FunctionSpec = set_spec(
    ("array_unique", &["list_unique"]),
    false,
    |arguments| one_item(arguments).map(|kinds| CallKinds { result: DataType::Int64, ..kinds }),
    count_distinct,
    "The number of distinct items that are not NULL.",
    ("array_unique([1, 1, NULL, 2])", "2"),
);

/// `array_reverse_sort(list [, nulls])`
pub(super) const ARRAY_REVERSE_SORT: FunctionSpec = set_spec(
    ("array_reverse_sort", &["list_reverse_sort"]),
    true,
    |arguments| {
        let [list, options @ ..] = arguments else { return None };
        let is_taken = options.len() <= 1
            && options.iter().all(|option| matches!(option.kind, DataType::Utf8View | DataType::Null));
        let kind = list_of(item_kind(list.kind)?);
        let mut kinds = vec![kind.clone()];
        kinds.resize(arguments.len(), DataType::Utf8View);
        is_taken.then_some(CallKinds { arguments: kinds, result: kind })
    },
    |arguments, kind, rows| {
        let text = |text: &str| Operand::constant(std::sync::Arc::new(arrow::array::StringViewArray::from(vec![text])));
        let nulls = arguments.get(1).cloned().unwrap_or_else(|| text("NULLS LAST"));
        sort(&[arguments[0].clone(), text("DESC"), nulls], kind, rows)
    },
    "The items in descending order, with NULLs last, or as 'NULLS FIRST' or 'NULLS LAST' says.",
    ("array_reverse_sort([3, 1, NULL, 2])", "[3, 2, 1, null]"),
);

/// `array_grade_up(list [, order [, nulls]])`
pub(super) const ARRAY_GRADE_UP: FunctionSpec = set_spec(
    ("array_grade_up", &["list_grade_up", "grade_up"]),
    true,
    |arguments| {
        let sorted = (ARRAY_SORT.signature)(arguments)?;
        Some(CallKinds { result: list_of(DataType::Int64), ..sorted })
    },
    |arguments, kind, rows| {
        let lists = ListRanges::of(&arguments[0]);
        let longest = (0..rows).filter_map(|row| lists.at(row)).map(|items| items.len()).max().unwrap_or(0);
        let numbers: ArrayRef = std::sync::Arc::new(arrow::array::Int64Array::from_iter_values(1..=longest as i64));
        let mut maker = ListMaker::new("array_grade_up", &[&numbers], rows);
        in_order(arguments, rows, |_, sorted| match sorted {
            Some((first, order)) => {
                order.iter().for_each(|item| maker.push(0, item - first));
                maker.finish_list();
            }
            None => maker.finish_null(),
        })?;
        maker.finish(kind)
    },
    "The positions of the items in the order in which array_sort brings them.",
    ("array_grade_up([30, 10, 20])", "[2, 3, 1]"),
);

fn count_distinct(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let lists = ListRanges::of(&arguments[0]);
    let nulls = lists.items().logical_nulls();
    let [keys] = keys_of([lists.items()])?;
    let counts: arrow::array::Int64Array = (0..rows)
        .map(|row| {
            let items = lists.at(row)?.filter(|item| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*item)));
            let known: HashSet<&[u8]> = items.map(|item| keys.row(item).data()).collect();
            Some(known.len() as i64)
        })
        .collect();
    Ok(std::sync::Arc::new(counts))
}

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
    let lists = ListRanges::of(&arguments[0]);
    let mut maker = ListMaker::new("array_sort", &[lists.items()], rows);
    in_order(arguments, rows, |_, sorted| match sorted {
        Some((_, order)) => {
            order.iter().for_each(|item| maker.push(0, *item));
            maker.finish_list();
        }
        None => maker.finish_null(),
    })?;
    maker.finish(kind)
}

/// Calls `each` for every row with the first item of its list and all its items in order, or `None` if an argument is
/// NULL. The arguments are those of `array_sort`.
fn in_order(arguments: &[Operand], rows: usize, mut each: impl FnMut(usize, Option<(usize, &[usize])>)) -> Result<()> {
    let is_null_row = strict_nulls(arguments, rows);
    let lists = ListRanges::of(&arguments[0]);
    let nulls = lists.items().logical_nulls();
    let [keys] = keys_of([lists.items()])?;
    let mut order: Vec<usize> = Vec::new();
    for row in 0..rows {
        let items = match lists.at(row) {
            Some(items) if is_null_row.as_ref().is_none_or(|nulls| nulls.is_valid(row)) => items,
            _ => {
                each(row, None);
                continue;
            }
        };
        let option =
            |index: usize| arguments.get(index).map(|operand| operand.values.as_string_view().value(operand.at(row)));
        let ascends = option(1).map_or(Ok(true), |option| is_first_of(option, ["ASC", "DESC"], "order"))?;
        let nulls_first = option(2)
            .map_or(Ok(true), |option| is_first_of(option, ["NULLS FIRST", "NULLS LAST"], "place of NULLs"))?;
        order.clear();
        order.extend(items.clone());
        let is_null = |item: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(item));
        order.sort_by(|a, b| match (is_null(*a), is_null(*b)) {
            (false, false) if ascends => keys.row(*a).cmp(&keys.row(*b)),
            (false, false) => keys.row(*b).cmp(&keys.row(*a)),
            (true, false) if nulls_first => Ordering::Less,
            (false, true) if !nulls_first => Ordering::Less,
            (true, true) => Ordering::Equal,
            _ => Ordering::Greater,
        });
        each(row, Some((items.start, &order)));
    }
    Ok(())
}
