//! `arrays_zip`.

use std::sync::Arc;

use arrow::array::{ArrayRef, NullBufferBuilder, StructArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};
use rowmill_base::Result;
use rowmill_plan::function::CallKinds;
use rowmill_plan::{FunctionSpec, Operand};

use super::maker::{ListRanges, item_kind, list_of, lists_of};
use crate::functions::signatures::ordinary;
use crate::functions::time::columns::failed;

/// `arrays_zip(list, ...)`
pub(super) const ARRAYS_ZIP: FunctionSpec = FunctionSpec {
    name: "arrays_zip",
    aliases: &["list_zip", "array_zip"],
    strict: false,
    signature: |arguments| {
        let items: Option<Vec<DataType>> = arguments.iter().map(|argument| item_kind(argument.kind)).collect();
        let items = items.filter(|items| !items.is_empty())?;
        let fields: Vec<Field> =
            items.iter().enumerate().map(|(at, item)| Field::new((at + 1).to_string(), item.clone(), true)).collect();
        Some(CallKinds {
            arguments: items.into_iter().map(list_of).collect(),
            result: list_of(DataType::Struct(fields.into())),
        })
    },
    kernel: zip,
    doc: "A list of structs with the items of all lists at one position; shorter lists are filled up with NULLs.",
    example: ("arrays_zip([1, 2], [3, 4])", "[{\"1\": 1, \"2\": 3}, {\"1\": 2, \"2\": 4}]"),
    ..ordinary("list")
};

fn zip(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let lists: Vec<ListRanges<'_>> = arguments.iter().map(ListRanges::of).collect();
    let mut picks: Vec<Vec<Option<u32>>> = vec![Vec::new(); lists.len()];
    let mut offsets = vec![0];
    let mut validity = NullBufferBuilder::new(rows);
    for row in 0..rows {
        let ranges: Vec<_> = lists.iter().map(|lists| lists.at(row)).collect();
        let longest = ranges.iter().flatten().map(|items| items.len()).max();
        validity.append(longest.is_some());
        for (picks, items) in picks.iter_mut().zip(ranges) {
            let items = items.unwrap_or(0..0);
            let length = items.len();
            picks.extend(items.map(|item| Some(item as u32)));
            // A shorter list is filled up with NULLs.
            picks.extend(std::iter::repeat_n(None, longest.unwrap_or(0) - length));
        }
        offsets.push(picks[0].len() as i32);
    }
    let Some(DataType::Struct(fields)) = item_kind(kind) else { return Err(failed(format!("structs of type {kind}"))) };
    let columns: Vec<ArrayRef> = lists
        .iter()
        .zip(picks)
        .map(|(lists, picks)| take(lists.items(), &UInt32Array::from(picks), None).map_err(failed))
        .collect::<Result<_>>()?;
    let structs = StructArray::try_new(fields, columns, None).map_err(failed)?;
    lists_of(kind, offsets, Arc::new(structs), validity.finish())
}
