//! Functions that take items and parts of lists by position.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::maker::{ListMaker, ListRanges, item_kind, list_of};
use crate::functions::signatures::ordinary;
use crate::functions::time::columns::{failed, slots, strict_nulls};

/// The function of `list[position]`.
pub(super) const ARRAY_ELEMENT: FunctionSpec = FunctionSpec {
    name: "array_element",
    aliases: &["array_extract", "list_element", "list_extract"],
    signature: |arguments| match arguments {
        [list, position] if is_integer(position) => {
            let item = item_kind(list.kind)?;
            Some(CallKinds { arguments: vec![list_of(item.clone()), DataType::Int64], result: item })
        }
        _ => None,
    },
    kernel: |arguments, _, rows| {
        let positions = slots::<Int64Type>(&arguments[1]);
        let nulls = strict_nulls(arguments, rows);
        pick_items(&arguments[0], rows, |row, length| {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            if is_null { None } else { place_of(positions.at(row), length) }
        })
    },
    doc: "The item at a position, counted from 1, or from -1 at the end; NULL if no item is there.",
    example: ("array_element([10, 20, 30], 2)", "20"),
    ..ordinary("list")
};

/// `array_any_value(list)`
pub(super) const ARRAY_ANY_VALUE: FunctionSpec = FunctionSpec {
    name: "array_any_value",
    aliases: &["list_any_value"],
    signature: |arguments| match arguments {
        [list] => {
            let item = item_kind(list.kind)?;
            Some(CallKinds { arguments: vec![list_of(item.clone())], result: item })
        }
        _ => None,
    },
    kernel: |arguments, _, rows| {
        let lists = ListRanges::of(&arguments[0]);
        let nulls = lists.items().logical_nulls();
        let picks: UInt32Array = (0..rows)
            .map(|row| {
                let mut items = lists.at(row)?;
                let found = items.find(|item| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*item)));
                found.map(|item| item as u32)
            })
            .collect();
        take(lists.items(), &picks, None).map_err(failed)
    },
    doc: "The first item that is not NULL.",
    example: ("array_any_value([NULL, 1, 2])", "1"),
    ..ordinary("list")
};

/// The function of `list[begin:end:stride]`.
pub(super) const ARRAY_SLICE: FunctionSpec = FunctionSpec {
    name: "array_slice",
    aliases: &["list_slice"],
    can_fail: true,
    signature: |arguments| match arguments {
        [list, positions @ ..] if (2..=3).contains(&positions.len()) && positions.iter().all(is_integer) => {
            let kind = list_of(item_kind(list.kind)?);
            let mut kinds = vec![kind.clone()];
            kinds.resize(arguments.len(), DataType::Int64);
            Some(CallKinds { arguments: kinds, result: kind })
        }
        _ => None,
    },
    kernel: slice,
    doc: "The items from one position to another, both included, or every n-th of them; negative positions count from \
          the end, and a negative stride goes back.",
    example: ("array_slice([1, 2, 3, 4, 5], 2, -2)", "[2, 3, 4]"),
    ..ordinary("list")
};

/// `array_pop_front(list)`
pub(super) const ARRAY_POP_FRONT: FunctionSpec = FunctionSpec {
    name: "array_pop_front",
    aliases: &["list_pop_front"],
    signature: same_list,
    kernel: |arguments, kind, rows| {
        reshape(&arguments[0], kind, rows, |items, maker| maker.extend(0, items.skip_first()))
    },
    doc: "The list without its first item.",
    example: ("array_pop_front([1, 2, 3])", "[2, 3]"),
    ..ordinary("list")
};

/// `array_pop_back(list)`
pub(super) const ARRAY_POP_BACK: FunctionSpec = FunctionSpec {
    name: "array_pop_back",
    aliases: &["list_pop_back"],
    signature: same_list,
    kernel: |arguments, kind, rows| {
        reshape(&arguments[0], kind, rows, |items, maker| maker.extend(0, items.skip_last()))
    },
    doc: "The list without its last item.",
    example: ("array_pop_back([1, 2, 3])", "[1, 2]"),
    ..ordinary("list")
};

/// `array_reverse(list)`
pub(super) const ARRAY_REVERSE: FunctionSpec = FunctionSpec {
    name: "array_reverse",
    aliases: &["list_reverse"],
    signature: same_list,
    kernel: |arguments, kind, rows| {
        reshape(&arguments[0], kind, rows, |items, maker| items.rev().for_each(|item| maker.push(0, item)))
    },
    doc: "The items from last to first.",
    example: ("array_reverse([1, 2, 3])", "[3, 2, 1]"),
    ..ordinary("list")
};

/// `array_compact(list)`
pub(super) const ARRAY_COMPACT: FunctionSpec = FunctionSpec {
    name: "array_compact",
    aliases: &["list_compact"],
    signature: same_list,
    kernel: |arguments, kind, rows| {
        let nulls = ListRanges::of(&arguments[0]).items().logical_nulls();
        reshape(&arguments[0], kind, rows, |items, maker| {
            let is_value = |item: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*item));
            items.filter(is_value).for_each(|item| maker.push(0, item));
        })
    },
    doc: "The items that are not NULL.",
    example: ("array_compact([1, NULL, 2])", "[1, 2]"),
    ..ordinary("list")
};

/// `array_resize(list, size [, value])`
pub(super) const ARRAY_RESIZE: FunctionSpec = FunctionSpec {
    name: "array_resize",
    aliases: &["list_resize"],
    can_fail: true,
    strict: false,
    signature: |arguments| match arguments {
        [list, size] if is_integer(size) => {
            let kind = list_of(item_kind(list.kind)?);
            Some(CallKinds { arguments: vec![kind.clone(), DataType::Int64], result: kind })
        }
        [list, size, value] if is_integer(size) => {
            let item = super::maker::item_and_value(list, value)?;
            let kind = list_of(item.clone());
            Some(CallKinds { arguments: vec![kind.clone(), DataType::Int64, item], result: kind })
        }
        _ => None,
    },
    kernel: resize,
    doc: "The list with a given number of items: cut at its end, or filled up with a value, by default NULL.",
    example: ("array_resize([1, 2, 3], 5, 0)", "[1, 2, 3, 0, 0]"),
    ..ordinary("list")
};

/// `array_repeat(value, times)`
pub(super) const ARRAY_REPEAT: FunctionSpec = FunctionSpec {
    name: "array_repeat",
    aliases: &["list_repeat"],
    can_fail: true,
    strict: false,
    signature: |arguments| match arguments {
        [value, times] if is_integer(times) => {
            let kind = list_of(value.kind.clone());
            Some(CallKinds { arguments: vec![value.kind.clone(), DataType::Int64], result: kind })
        }
        _ => None,
    },
    kernel: |arguments, kind, rows| {
        let times = slots::<Int64Type>(&arguments[1]);
        let nulls = strict_nulls(&arguments[1..], rows);
        let mut maker = ListMaker::new("array_repeat", &[&arguments[0].values], rows);
        for row in 0..rows {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                maker.finish_null();
                continue;
            }
            maker.fill(0, arguments[0].at(row), times.at(row).max(0) as u64)?;
            maker.finish_list();
        }
        maker.finish(kind)
    },
    doc: "A list of one value, repeated a given number of times.",
    example: ("array_repeat(1, 3)", "[1, 1, 1]"),
    ..ordinary("list")
};

/// `flatten(list)`
pub(super) const FLATTEN: FunctionSpec = FunctionSpec {
    name: "flatten",
    signature: |arguments| match arguments {
        [list] => {
            let kind = list_of(item_kind(list.kind)?);
            let result = match item_kind(&kind) {
                Some(item @ DataType::List(_)) => item,
                _ => kind.clone(),
            };
            Some(CallKinds { arguments: vec![kind], result })
        }
        _ => None,
    },
    kernel: flatten,
    doc: "The items of the lists in a list, one list after another.",
    example: ("flatten([[1, 2], [3]])", "[1, 2, 3]"),
    ..ordinary("list")
};

pub(super) fn is_integer(argument: &ArgumentKind<'_>) -> bool {
    argument.kind.is_integer() || *argument.kind == DataType::Null
}

/// The signature of a function that takes one list and returns a list of the same type.
pub(super) fn same_list(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [list] = arguments else { return None };
    let kind = list_of(item_kind(list.kind)?);
    Some(CallKinds { arguments: vec![kind.clone()], result: kind })
}

/// Ranges without their first or last element.
trait RangeEnds {
    fn skip_first(self) -> Self;
    fn skip_last(self) -> Self;
}

impl RangeEnds for std::ops::Range<usize> {
    fn skip_first(self) -> Self {
        (self.start + 1).min(self.end)..self.end
    }

    fn skip_last(self) -> Self {
        self.start..self.end.saturating_sub(1).max(self.start)
    }
}

/// Makes a list from the items of each list. A NULL list gives NULL.
pub(super) fn reshape(
    lists: &Operand,
    kind: &DataType,
    rows: usize,
    mut make: impl FnMut(std::ops::Range<usize>, &mut ListMaker<'_>),
) -> Result<ArrayRef> {
    let lists = ListRanges::of(lists);
    let mut maker = ListMaker::new("list", &[lists.items()], rows);
    for row in 0..rows {
        match lists.at(row) {
            Some(items) => {
                make(items, &mut maker);
                maker.finish_list();
            }
            None => maker.finish_null(),
        }
    }
    maker.finish(kind)
}

/// Takes one item of each list. `choose` returns its place, counted from 0, for a row and its length.
pub(super) fn pick_items(
    lists: &Operand,
    rows: usize,
    choose: impl Fn(usize, usize) -> Option<usize>,
) -> Result<ArrayRef> {
    let lists = ListRanges::of(lists);
    let picks: UInt32Array = (0..rows)
        .map(|row| {
            let items = lists.at(row)?;
            choose(row, items.len()).map(|place| (items.start + place) as u32)
        })
        .collect();
    take(lists.items(), &picks, None).map_err(failed)
}

/// Converts a position to a place counted from 0, if the list has that position.
pub(super) fn place_of(position: i64, length: usize) -> Option<usize> {
    let length = length as i64;
    let place = if position > 0 { position - 1 } else { position.checked_add(length)? };
    (position != 0 && (0..length).contains(&place)).then_some(place as usize)
}

fn slice(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let lists = ListRanges::of(&arguments[0]);
    let (begins, ends) = (slots::<Int64Type>(&arguments[1]), slots::<Int64Type>(&arguments[2]));
    let strides = arguments.get(3).map(slots::<Int64Type>);
    let mut maker = ListMaker::new("array_slice", &[lists.items()], rows);
    for row in 0..rows {
        let items = match lists.at(row) {
            Some(items) if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) => items,
            _ => {
                maker.finish_null();
                continue;
            }
        };
        let stride = strides.map_or(1, |strides| strides.at(row));
        if stride == 0 {
            let message = "the stride of array_slice must not be zero";
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        let length = items.len() as i64;
        // Clip both ends to the list, because a position may be far outside of it.
        let begin = match begins.at(row) {
            position if position < 0 => position.saturating_add(length).max(0),
            position => (position - 1).max(0),
        };
        let end = match ends.at(row) {
            position if position < 0 => position.saturating_add(length),
            position => position.min(length) - 1,
        };
        if begin < length && end >= 0 {
            let first = items.start;
            let step = usize::try_from(stride.unsigned_abs()).unwrap_or(usize::MAX);
            if stride == 1 && begin <= end {
                maker.extend(0, first + begin as usize..first + end as usize + 1);
            } else if stride > 0 {
                (begin..=end).step_by(step).for_each(|place| maker.push(0, first + place as usize));
            } else {
                (end..=begin).rev().step_by(step).for_each(|place| maker.push(0, first + place as usize));
            }
        }
        maker.finish_list();
    }
    maker.finish(kind)
}

fn resize(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(&arguments[..2], rows);
    let lists = ListRanges::of(&arguments[0]);
    let sizes = slots::<Int64Type>(&arguments[1]);
    let filler = match arguments.get(2) {
        Some(value) => value.clone(),
        None => Operand::constant(arrow::array::new_null_array(lists.items().data_type(), 1)),
    };
    let mut maker = ListMaker::new("array_resize", &[lists.items(), &filler.values], rows);
    for row in 0..rows {
        let items = match lists.at(row) {
            Some(items) if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) => items,
            _ => {
                maker.finish_null();
                continue;
            }
        };
        let size = u64::try_from(sizes.at(row)).map_err(|_| {
            let message = format!("the size of a list must not be negative: {}", sizes.at(row));
            Error::new(ErrorKind::InvalidParameter, message)
        })?;
        let kept = items.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        maker.extend(0, items.start..items.start + kept);
        // `fill` checks the limit before it adds anything.
        maker.fill(1, filler.at(row), size - kept as u64)?;
        maker.finish_list();
    }
    maker.finish(kind)
}

fn flatten(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let lists = ListRanges::of(&arguments[0]);
    // The items are not lists, so the list is flat already.
    if lists.items().data_type() != kind {
        return reshape(&arguments[0], kind, rows, |items, maker| maker.extend(0, items));
    }
    let inner = Operand::rows(lists.items().clone());
    let inner = ListRanges::of(&inner);
    let mut maker = ListMaker::new("flatten", &[inner.items()], rows);
    for row in 0..rows {
        match lists.at(row) {
            Some(items) => {
                items.filter_map(|item| inner.at(item)).for_each(|items| maker.extend(0, items));
                maker.finish_list();
            }
            None => maker.finish_null(),
        }
    }
    maker.finish(kind)
}
