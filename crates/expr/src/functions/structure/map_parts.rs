//! Functions that look into maps, and make maps of maps and of entries.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::maps::{entry_kind, entry_of};
use crate::functions::list::keys::{equality_of, keys_of};
use crate::functions::list::maker::{ListMaker, ListRanges, common_item, item_kind, kind_beside, list_of, lists_of};
use crate::functions::signatures::{BOOLEAN, ordinary};
use crate::functions::time::columns::{failed, strict_nulls};

/// The functions of this file.
pub(in crate::functions) static MAPS: &[FunctionSpec] = &[
    FunctionSpec {
        name: "map_contains",
        signature: |arguments| {
            let [map, key] = arguments else { return None };
            let (map, key, _) = beside_entries(map, Some(key), None)?;
            Some(CallKinds { arguments: vec![map, key], result: BOOLEAN })
        },
        kernel: |arguments, _, rows| contains(arguments, rows, Some(1), None),
        doc: "Whether a map has a key.",
        example: ("map_contains(map(['a', 'b'], [1, 2]), 'b')", "true"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "map_contains_value",
        signature: |arguments| {
            let [map, value] = arguments else { return None };
            let (map, _, value) = beside_entries(map, None, Some(value))?;
            Some(CallKinds { arguments: vec![map, value], result: BOOLEAN })
        },
        kernel: |arguments, _, rows| contains(arguments, rows, None, Some(1)),
        doc: "Whether a map has a value.",
        example: ("map_contains_value(map(['a', 'b'], [1, 2]), 2)", "true"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "map_contains_entry",
        signature: |arguments| {
            let [map, key, value] = arguments else { return None };
            let (map, key, value) = beside_entries(map, Some(key), Some(value))?;
            Some(CallKinds { arguments: vec![map, key, value], result: BOOLEAN })
        },
        kernel: |arguments, _, rows| contains(arguments, rows, Some(1), Some(2)),
        doc: "Whether a map has a key with this value.",
        example: ("map_contains_entry(map(['a', 'b'], [1, 2]), 'b', 1)", "false"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "map_extract_value",
        signature: |arguments| {
            let [map, key] = arguments else { return None };
            let (map, key, value) = beside_entries(map, Some(key), None)?;
            Some(CallKinds { arguments: vec![map, key], result: value })
        },
        kernel: extract_value,
        doc: "The value of a key of a map, or NULL if the map does not have the key.",
        example: ("map_extract_value(map(['a', 'b'], [1, 2]), 'b')", "2"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "map_concat",
        strict: false,
        signature: |arguments| {
            let entries: Option<Vec<(DataType, DataType)>> = arguments
                .iter()
                .filter(|argument| *argument.kind != DataType::Null)
                .map(|argument| entry_of(argument.kind))
                .collect();
            let (keys, values): (Vec<DataType>, Vec<DataType>) = entries?.into_iter().unzip();
            if keys.is_empty() {
                return None;
            }
            let kind = list_of(entry_kind(common_item(&keys)?, common_item(&values)?));
            Some(CallKinds { arguments: vec![kind.clone(); arguments.len()], result: kind })
        },
        kernel: concat,
        doc: "The entries of all maps. The value of a key is that of the last map that has it. NULL counts as empty.",
        example: ("map_concat(map(['a', 'b'], [1, 2]), map(['b'], [3]))", "{a=1, b=3}"),
        ..ordinary("struct")
    },
    FunctionSpec {
        name: "map_from_entries",
        can_fail: true,
        signature: |arguments| {
            let [entries] = arguments else { return None };
            let DataType::Struct(fields) = item_kind(entries.kind)? else { return None };
            let [key, value] = fields.as_ref() else { return None };
            let result = list_of(entry_kind(key.data_type().clone(), value.data_type().clone()));
            Some(CallKinds { arguments: vec![entries.kind.clone()], result })
        },
        kernel: from_entries,
        doc: "The map of a list of structs of a key and a value. Keys must be distinct and not NULL.",
        example: ("map_from_entries([{'k': 'a', 'v': 1}])", "{a=1}"),
        ..ordinary("struct")
    },
];

/// Returns the types of a map, and of a key and a value that are compared with its own.
fn beside_entries(
    map: &ArgumentKind<'_>,
    key: Option<&ArgumentKind<'_>>,
    value: Option<&ArgumentKind<'_>>,
) -> Option<(DataType, DataType, DataType)> {
    let (own_key, own_value) = entry_of(map.kind)?;
    let beside = |given: Option<&ArgumentKind<'_>>, own: DataType| match given {
        Some(given) => {
            let given = kind_beside(given, &own);
            common_item(&[own, given])
        }
        None => Some(own),
    };
    let (key, value) = (beside(key, own_key)?, beside(value, own_value)?);
    Some((list_of(entry_kind(key.clone(), value.clone())), key, value))
}

/// Whether maps have an entry with the key and the value of the arguments at these places.
fn contains(arguments: &[Operand], rows: usize, key: Option<usize>, value: Option<usize>) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let maps = ListRanges::of(&arguments[0]);
    let entries = maps.items().as_struct();
    let test = |column: usize, place: Option<usize>| match place {
        Some(place) => equality_of(entries.column(column), &arguments[place].values).map(Some),
        None => Ok(None),
    };
    let (key_test, value_test) = (test(0, key)?, test(1, value)?);
    let found = (0..rows)
        .map(|row| {
            let Some(mut items) = maps.at(row) else { return false };
            items.any(|item| {
                let has = |test: &Option<_>, place: Option<usize>| {
                    let test: &Option<crate::functions::list::keys::ItemEquality<'_>> = test;
                    test.as_ref().zip(place).is_none_or(|(test, place)| test(item, arguments[place].at(row)))
                };
                has(&key_test, key) && has(&value_test, value)
            })
        })
        .collect();
    Ok(Arc::new(BooleanArray::new(found, nulls)))
}

fn extract_value(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let maps = ListRanges::of(&arguments[0]);
    let wanted = &arguments[1];
    let entries = maps.items().as_struct();
    let is_key = equality_of(entries.column(0), &wanted.values)?;
    let picks: UInt32Array = (0..rows)
        .map(|row| {
            let found = maps.at(row)?.find(|item| is_key(*item, wanted.at(row)));
            found.map(|item| item as u32)
        })
        .collect();
    take(entries.column(1), &picks, None).map_err(failed)
}

fn concat(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let maps: Vec<ListRanges<'_>> = arguments.iter().map(ListRanges::of).collect();
    let sources: Vec<&ArrayRef> = maps.iter().map(ListRanges::items).collect();
    // Keys of several maps are compared, so all of them are converted together.
    let columns: Vec<&ArrayRef> = sources.iter().map(|entries| entries.as_struct().column(0)).collect();
    let all: Vec<&dyn Array> = columns.iter().map(|column| column.as_ref()).collect();
    let joined = arrow::compute::concat(&all).map_err(failed)?;
    let [keys] = keys_of([&joined])?;
    let starts: Vec<usize> = columns
        .iter()
        .scan(0, |start, column| {
            let own = *start;
            *start += column.len();
            Some(own)
        })
        .collect();
    let mut maker = ListMaker::new("map_concat", &sources, rows);
    for row in 0..rows {
        // The first map decides the place of a key, the last one its value.
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        for (source, map) in maps.iter().enumerate() {
            for item in map.at(row).into_iter().flatten() {
                let key = keys.row(starts[source] + item).data();
                match places.get(key) {
                    Some(place) => chosen[*place] = (source, item),
                    None => {
                        places.insert(key, chosen.len());
                        chosen.push((source, item));
                    }
                }
            }
        }
        chosen.into_iter().for_each(|(source, item)| maker.push(source, item));
        maker.finish_list();
    }
    maker.finish(kind)
}

fn from_entries(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let lists = ListRanges::of(&arguments[0]);
    let entries = lists.items().as_struct();
    let [keys] = keys_of([entries.column(0)])?;
    let nulls = entries.column(0).logical_nulls();
    let wrong = |message: &str| Err(Error::new(ErrorKind::InvalidParameter, message));
    let (mut picks, mut offsets, mut validity) = (Vec::new(), vec![0], Vec::with_capacity(rows));
    for row in 0..rows {
        let items = lists.at(row);
        validity.push(items.is_some());
        let mut given = std::collections::HashSet::new();
        for item in items.into_iter().flatten() {
            if entries.is_null(item) || nulls.as_ref().is_some_and(|nulls| nulls.is_null(item)) {
                return wrong("a key of a map is NULL");
            }
            if !given.insert(keys.row(item).data()) {
                return wrong("a key occurs twice in a map");
            }
            picks.push(item as u32);
        }
        offsets.push(picks.len() as i32);
    }
    let Some(DataType::Struct(fields)) = item_kind(kind) else { return Err(failed(format!("a map of type {kind}"))) };
    let picks = UInt32Array::from(picks);
    let columns: Vec<ArrayRef> =
        entries.columns().iter().map(|column| take(column, &picks, None).map_err(failed)).collect::<Result<_>>()?;
    let entries = StructArray::try_new(fields, columns, None).map_err(failed)?;
    lists_of(kind, offsets, Arc::new(entries), Some(validity.into()))
}
