//! Functions that join lists, and add items before and after a list.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::function::CallKinds;
use rowmill_plan::{FunctionSpec, Operand};

use super::maker::{ListMaker, ListRanges, common_item, item_and_value, item_kind, list_of};
use crate::functions::signatures::ordinary;

/// The function of `[value, ...]`.
pub(super) const MAKE_ARRAY: FunctionSpec = FunctionSpec {
    name: "make_array",
    aliases: &["make_list", "list_value", "list_pack", "array_value"],
    strict: false,
    signature: |arguments| {
        let kinds: Vec<DataType> = arguments.iter().map(|argument| argument.kind.clone()).collect();
        let item = common_item(&kinds)?;
        Some(CallKinds { arguments: vec![item.clone(); arguments.len()], result: list_of(item) })
    },
    kernel: |arguments, kind, rows| {
        let sources: Vec<&ArrayRef> = arguments.iter().map(|operand| &operand.values).collect();
        let mut maker = ListMaker::new("make_array", &sources, rows);
        for row in 0..rows {
            arguments.iter().enumerate().for_each(|(source, operand)| maker.push(source, operand.at(row)));
            maker.finish_list();
        }
        maker.finish(kind)
    },
    doc: "A list of values, as `[1, 2, 3]` makes it.",
    example: ("make_array(1, 2, 3)", "[1, 2, 3]"),
    ..ordinary("list")
};

/// The function of `list || list`.
pub(super) const ARRAY_CONCAT: FunctionSpec = FunctionSpec {
    name: "array_concat",
    aliases: &["array_cat", "list_concat", "list_cat"],
    can_fail: true,
    strict: false,
    signature: |arguments| {
        let items: Option<Vec<DataType>> = arguments.iter().map(|argument| item_kind(argument.kind)).collect();
        let kind = list_of(common_item(&items.filter(|items| !items.is_empty())?)?);
        Some(CallKinds { arguments: vec![kind.clone(); arguments.len()], result: kind })
    },
    kernel: concat_lists,
    doc: "The items of all lists, one list after another. NULL counts as an empty list, unless all are NULL.",
    example: ("array_concat([1, 2], [3], [4, 5])", "[1, 2, 3, 4, 5]"),
    ..ordinary("list")
};

/// The function of `list || item`.
pub(super) const ARRAY_APPEND: FunctionSpec = FunctionSpec {
    name: "array_append",
    aliases: &["list_append", "array_push_back", "list_push_back"],
    can_fail: true,
    strict: false,
    signature: |arguments| {
        let [list, value] = arguments else { return None };
        let item = item_and_value(list, value)?;
        let kind = list_of(item.clone());
        Some(CallKinds { arguments: vec![kind.clone(), item], result: kind })
    },
    kernel: |arguments, kind, rows| add_item(&arguments[0], &arguments[1], kind, rows, false),
    doc: "The list with one more item at its end. NULL counts as an empty list.",
    example: ("array_append([1, 2], 3)", "[1, 2, 3]"),
    ..ordinary("list")
};

/// The function of `item || list`.
pub(super) const ARRAY_PREPEND: FunctionSpec = FunctionSpec {
    name: "array_prepend",
    aliases: &["list_prepend", "array_push_front", "list_push_front"],
    can_fail: true,
    strict: false,
    signature: |arguments| {
        let [value, list] = arguments else { return None };
        let item = item_and_value(list, value)?;
        let kind = list_of(item.clone());
        Some(CallKinds { arguments: vec![item, kind.clone()], result: kind })
    },
    kernel: |arguments, kind, rows| add_item(&arguments[1], &arguments[0], kind, rows, true),
    doc: "The list with one more item before its first. NULL counts as an empty list.",
    example: ("array_prepend(1, [2, 3])", "[1, 2, 3]"),
    ..ordinary("list")
};

fn concat_lists(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let lists: Vec<ListRanges<'_>> = arguments.iter().map(ListRanges::of).collect();
    let sources: Vec<&ArrayRef> = lists.iter().map(ListRanges::items).collect();
    let mut maker = ListMaker::new("array_concat", &sources, rows);
    for row in 0..rows {
        // The result is NULL only if every list of the row is NULL.
        let mut is_null = true;
        for (source, lists) in lists.iter().enumerate() {
            if let Some(items) = lists.at(row) {
                maker.extend(source, items);
                is_null = false;
            }
        }
        if is_null {
            maker.finish_null()
        } else {
            maker.finish_list()
        }
        // We check the limit after every row, so that a batch cannot grow far beyond it.
        maker.reserve(0)?;
    }
    maker.finish(kind)
}

fn add_item(lists: &Operand, values: &Operand, kind: &DataType, rows: usize, is_first: bool) -> Result<ArrayRef> {
    let function = if is_first { "array_prepend" } else { "array_append" };
    let ranges = ListRanges::of(lists);
    let mut maker = ListMaker::new(function, &[ranges.items(), &values.values], rows);
    for row in 0..rows {
        if is_first {
            maker.push(1, values.at(row));
        }
        maker.extend(0, ranges.at(row).unwrap_or(0..0));
        if !is_first {
            maker.push(1, values.at(row));
        }
        maker.finish_list();
        maker.reserve(0)?;
    }
    maker.finish(kind)
}
