//! Functions that return lengths and dimensions of lists.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use rowmill_plan::FunctionSpec;
use rowmill_plan::function::{ArgumentKind, CallKinds};

use super::access::is_integer;
use super::maker::{ListRanges, item_kind, list_of, lists_of};
use crate::functions::signatures::ordinary;
use crate::functions::time::columns::{slots, strict_nulls};

/// Makes a spec of this file: all are immutable, strict, and cannot fail.
const fn measuring(
    (name, aliases): (&'static str, &'static [&'static str]),
    signature: fn(&[ArgumentKind<'_>]) -> Option<CallKinds>,
    kernel: rowmill_plan::function::Kernel,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> FunctionSpec {
    FunctionSpec { name, aliases, signature, kernel, doc, example, ..ordinary("list") }
}

/// `array_length(list [, dimension])`
pub(super) const ARRAY_LENGTH: FunctionSpec = measuring(
    ("array_length", &["list_length", "array_upper"]),
    |arguments| match arguments {
        [list] => of_list(list, DataType::Int64),
        [list, dimension] if is_integer(dimension) => {
            let kind = list_of(item_kind(list.kind)?);
            Some(CallKinds { arguments: vec![kind, DataType::Int64], result: DataType::Int64 })
        }
        _ => None,
    },
    |arguments, _, rows| {
        let nulls = strict_nulls(arguments, rows);
        let lists = ListRanges::of(&arguments[0]);
        let dimensions = arguments.get(1).map(slots::<Int64Type>);
        let lengths: Int64Array = (0..rows)
            .map(|row| {
                let items = lists.at(row).filter(|_| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)))?;
                match dimensions.map_or(1, |dimensions| dimensions.at(row)) {
                    1 => Some(items.len() as i64),
                    dimension => {
                        let index = usize::try_from(dimension.checked_sub(1)?).ok()?;
                        dimensions_of(lists.items(), items).get(index).copied()
                    }
                }
            })
            .collect();
        Ok(Arc::new(lengths))
    },
    "The number of items of a list, or of the lists in it at a dimension, counted from 1.",
    ("array_length([1, 2, 3])", "3"),
);

/// `array_dims(list)`
pub(super) const ARRAY_DIMS: FunctionSpec = measuring(
    ("array_dims", &["list_dims"]),
    |arguments| match arguments {
        [list] => of_list(list, list_of(DataType::Int64)),
        _ => None,
    },
    |arguments, kind, rows| {
        let lists = ListRanges::of(&arguments[0]);
        let (mut all, mut offsets) = (Vec::new(), vec![0]);
        for row in 0..rows {
            if let Some(items) = lists.at(row) {
                all.extend(dimensions_of(lists.items(), items));
            }
            offsets.push(all.len() as i32);
        }
        lists_of(kind, offsets, Arc::new(Int64Array::from(all)), strict_nulls(arguments, rows))
    },
    "The lengths of a list in all its dimensions.",
    ("array_dims([[1, 2, 3], [4, 5, 6]])", "[2, 3]"),
);

/// `array_ndims(list)`
pub(super) const ARRAY_NDIMS: FunctionSpec = measuring(
    ("array_ndims", &["list_ndims"]),
    |arguments| match arguments {
        [list] => of_list(list, DataType::Int64),
        _ => None,
    },
    |arguments, _, rows| {
        let mut depth = 0;
        let mut kind = arguments[0].values.data_type();
        while let DataType::List(item) = kind {
            depth += 1;
            kind = item.data_type();
        }
        Ok(Arc::new(Int64Array::new(vec![depth; rows].into(), strict_nulls(arguments, rows))))
    },
    "The number of dimensions of a list.",
    ("array_ndims([[1, 2], [3, 4]])", "2"),
);

/// `cardinality(list)`
pub(super) const CARDINALITY: FunctionSpec = measuring(
    ("cardinality", &[]),
    |arguments| match arguments {
        [list] => of_list(list, DataType::Int64),
        _ => None,
    },
    |arguments, _, rows| {
        let lists = ListRanges::of(&arguments[0]);
        let counts: Int64Array =
            (0..rows).map(|row| lists.at(row).map(|items| count_items(lists.items(), items))).collect();
        Ok(Arc::new(counts))
    },
    "The number of items in a list and in the lists in it.",
    ("cardinality([[1, 2], [3]])", "3"),
);

/// `empty(list)`
pub(super) const EMPTY: FunctionSpec = measuring(
    ("empty", &["array_empty", "list_empty"]),
    |arguments| match arguments {
        [list] => of_list(list, DataType::Boolean),
        _ => None,
    },
    |arguments, _, rows| {
        let lists = ListRanges::of(&arguments[0]);
        let empty: BooleanArray = (0..rows).map(|row| lists.at(row).map(|items| items.is_empty())).collect();
        Ok(Arc::new(empty))
    },
    "Whether a list has no items.",
    ("empty([1])", "false"),
);

fn of_list(list: &ArgumentKind<'_>, result: DataType) -> Option<CallKinds> {
    Some(CallKinds { arguments: vec![list_of(item_kind(list.kind)?)], result })
}

/// Returns the length of a list, of its first list, and so on.
fn dimensions_of(items: &ArrayRef, range: std::ops::Range<usize>) -> Vec<i64> {
    let mut lengths = vec![range.len() as i64];
    let (mut values, mut range) = (items.clone(), range);
    while let DataType::List(_) = values.data_type() {
        let lists = values.as_list::<i32>();
        // The first list that is not NULL gives the length of the dimension.
        let Some(first) = range.clone().find(|row| lists.is_valid(*row)) else { break };
        range = lists.value_offsets()[first] as usize..lists.value_offsets()[first + 1] as usize;
        lengths.push(range.len() as i64);
        values = lists.values().clone();
    }
    lengths
}

fn count_items(items: &ArrayRef, range: std::ops::Range<usize>) -> i64 {
    match items.data_type() {
        DataType::List(_) => {
            let lists = items.as_list::<i32>();
            let offsets = lists.value_offsets();
            range
                .filter(|row| lists.is_valid(*row))
                .map(|row| count_items(lists.values(), offsets[row] as usize..offsets[row + 1] as usize))
                .sum()
        }
        _ => range.len() as i64,
    }
}
